// A mock of all three providers by others, for our clients to be tried on: node aimock.mjs [--retry-after-alone]
// Prints its address; ends when standard input does, so that it dies with whoever started it.

import { ServerResponse } from "node:http";
import { LLMock } from "@copilotkit/aimock";

// Its 429 says, beside any Retry-After, that the tokens of the next six minutes are gone; without that the short wait counts.
if (process.argv.includes("--retry-after-alone")) {
    const { writeHead } = ServerResponse.prototype;
    ServerResponse.prototype.writeHead = function (status, headers) {
        const kept = Object.entries(headers ?? {}).filter(([name]) => !name.startsWith("x-ratelimit-"));
        return writeHead.call(this, status, Object.fromEntries(kept));
    };
}

const mock = new LLMock({ host: "127.0.0.1", port: 0, logLevel: "silent", chunkSize: 5 });

mock.addFixtures([
    {
        match: { userMessage: "busy", sequenceIndex: 0 },
        response: { error: { message: "Slow down, please.", type: "rate_limit_error" }, status: 429, retryAfter: 1 },
    },
    { match: { userMessage: "busy" }, response: { content: "Now it goes." } },
    {
        match: { userMessage: "read", hasToolResult: false },
        response: { toolCalls: [{ name: "Read", arguments: JSON.stringify({ file_path: "notes.txt" }) }] },
    },
    { match: { userMessage: "read", toolResultContains: "line 30" }, response: { content: "It has thirty lines." } },
    { match: { userMessage: "greet" }, response: { content: "Hello there, this is plain text. 鵜飼" } },
]);

await mock.start();
process.stdout.write(`${mock.url}\n`);
process.stdin.resume();
process.stdin.on("end", () => mock.stop().finally(() => process.exit(0)));
