// The `@anthropic-ai/sdk` package against a script server: node sdk_anthropic.mjs BASE_URL

import Anthropic from "@anthropic-ai/sdk";
import { tell } from "./told.mjs";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "lab-key", maxRetries: 0 });
const model = "lab-1";
const input_schema = { type: "object", properties: { file_path: { type: "string" } }, required: ["file_path"] };
const tools = [{ name: "Read", description: "reads a file", input_schema }];
const stream = (messages, more = {}) => client.messages.stream({ model, max_tokens: 100, messages, ...more });
const say = (prompt) => [{ role: "user", content: prompt }];
const of = (reply, type) => reply.content.filter((block) => block.type === type);

async function text() {
    let pieces = 0;
    const reply = await stream(say("text")).on("text", () => (pieces += 1)).finalMessage();
    const { input_tokens: fresh, cache_read_input_tokens: cached, output_tokens: output } = reply.usage;
    const usage = [fresh + cached, cached, output];
    return { text: of(reply, "text")[0].text, stop: reply.stop_reason, usage, pieces: pieces > 1 };
}

// What the package made of a reply goes back as it is, its thinking too.
async function loop(prompt, more) {
    const messages = say(prompt);
    const calls = [];
    let thought = "";
    for (;;) {
        const reply = await stream(messages, more).finalMessage();
        thought += of(reply, "thinking").map((block) => block.thinking).join("");
        const asked = of(reply, "tool_use");
        if (asked.length === 0) return { calls, thought, text: of(reply, "text")[0].text };
        calls.push(...asked.map((call) => call.input.file_path));
        const content = asked.map(({ id, input }) => ({
            type: "tool_result",
            tool_use_id: id,
            content: `text of ${input.file_path}`,
        }));
        messages.push({ role: "assistant", content: reply.content }, { role: "user", content });
    }
}

async function tool() {
    const { calls, text } = await loop("tool", { tools });
    return { calls, text };
}

async function reasoning() {
    const more = { tools, max_tokens: 2048, thinking: { type: "enabled", budget_tokens: 1024 } };
    const { thought, text } = await loop("think", more);
    return { reasoning: thought, text };
}

async function whole() {
    const reply = await client.messages.create({ model, max_tokens: 100, messages: say("text") });
    return { text: of(reply, "text")[0].text, model: reply.model };
}

const limited = () => stream(say("limited")).finalMessage();
const breaks = () => stream(say("breaks")).finalMessage();

await tell({ text, tool, reasoning, whole, limited, breaks });
