// The `openai` package against a script server: node sdk_openai.mjs BASE_URL

import OpenAI from "openai";
import { tell } from "./told.mjs";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "lab-key", maxRetries: 0 });
const model = "lab-1";
const parameters = { type: "object", properties: { file_path: { type: "string" } }, required: ["file_path"] };
const say = (prompt) => [{ role: "user", content: prompt }];
const stream = (prompt) =>
    client.chat.completions.stream({
        model,
        messages: say(prompt),
        max_completion_tokens: 100,
        stream_options: { include_usage: true },
    });

async function text() {
    let pieces = 0;
    const running = stream("text").on("content", () => (pieces += 1));
    const reply = await running.finalChatCompletion();
    const { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details } = reply.usage;
    const { message, finish_reason: stop } = reply.choices[0];
    return { text: message.content, stop, usage: [input, details.cached_tokens, output], pieces: pieces > 1 };
}

// The package's own loop: it streams, calls, sends the results and streams again.
async function tool() {
    const calls = [];
    const read = {
        type: "function",
        function: {
            name: "Read",
            description: "reads a file",
            parameters,
            parse: JSON.parse,
            function: ({ file_path }) => {
                calls.push(file_path);
                return `text of ${file_path}`;
            },
        },
    };
    const runner = client.chat.completions.runTools({ model, messages: say("tool"), tools: [read], stream: true });
    return { calls, text: await runner.finalContent() };
}

async function reasoning() {
    const pieces = [];
    let text = "";
    for await (const chunk of await client.chat.completions.create({ model, messages: say("think"), stream: true })) {
        const delta = chunk.choices[0]?.delta ?? {};
        pieces.push(delta.reasoning_content ?? "");
        text += delta.content ?? "";
    }
    return { reasoning: pieces.join(""), text };
}

async function whole() {
    const reply = await client.chat.completions.create({ model, messages: say("text") });
    return { text: reply.choices[0].message.content, model: reply.model };
}

const limited = () => stream("limited").finalChatCompletion();
const breaks = () => stream("breaks").finalChatCompletion();

await tell({ text, tool, reasoning, whole, limited, breaks });
