// The `@google/genai` package against a script server: node sdk_gemini.mjs BASE_URL

import { GoogleGenAI } from "@google/genai";
import { tell } from "./told.mjs";

const client = new GoogleGenAI({ apiKey: "lab-key", httpOptions: { baseUrl: process.argv[2] } });
const model = "lab-1";
const parametersJsonSchema = {
    type: "object",
    properties: { file_path: { type: "string" } },
    required: ["file_path"],
    additionalProperties: false,
};
const tools = [{ functionDeclarations: [{ name: "Read", description: "reads a file", parametersJsonSchema }] }];
const stream = (contents, config = {}) => client.models.generateContentStream({ model, contents, config });

async function drained(prompt) {
    const chunks = [];
    for await (const chunk of await stream(prompt, { maxOutputTokens: 100 })) chunks.push(chunk);
    return chunks;
}

async function text() {
    const chunks = await drained("text");
    const last = chunks.at(-1);
    const { promptTokenCount: input, cachedContentTokenCount: cached, candidatesTokenCount: output } = last.usageMetadata;
    const said = chunks.map((chunk) => chunk.text ?? "").join("");
    const stop = last.candidates[0].finishReason;
    return { text: said, stop, usage: [input, cached, output], pieces: chunks.length > 2 };
}

// The package's own conversation: it keeps each chunk as it came, signatures too.
async function loop(prompt) {
    const chat = client.chats.create({ model, config: { tools, systemInstruction: "be brief" } });
    const calls = [];
    let thought = "";
    let message = prompt;
    for (;;) {
        const parts = [];
        for await (const chunk of await chat.sendMessageStream({ message })) {
            parts.push(...(chunk.candidates[0].content?.parts ?? []));
        }
        thought += parts.map((part) => (part.thought ? part.text : "")).join("");
        const asked = parts.flatMap((part) => part.functionCall ?? []);
        const text = parts.map((part) => (part.thought ? "" : (part.text ?? ""))).join("");
        if (asked.length === 0) return { calls, thought, text };
        calls.push(...asked.map((call) => call.args.file_path));
        message = asked.map(({ id, name, args }) => ({
            functionResponse: { id, name, response: { output: `text of ${args.file_path}` } },
        }));
    }
}

async function tool() {
    const { calls, text } = await loop("tool");
    return { calls, text };
}

async function reasoning() {
    const { thought, text } = await loop("think");
    return { reasoning: thought, text };
}

async function whole() {
    const reply = await client.models.generateContent({ model, contents: "text" });
    return { text: reply.text, model: reply.modelVersion };
}

const limited = () => drained("limited");
const breaks = () => drained("breaks");

await tell({ text, tool, reasoning, whole, limited, breaks });
