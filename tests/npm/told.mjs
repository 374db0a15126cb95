// What a scenario came to, as one JSON object on stdout: the Rust test that started us holds it against its table.

export async function tell(scenarios) {
    const told = {};
    for (const [name, scenario] of Object.entries(scenarios)) {
        told[name] = await scenario().catch((error) => ({
            error: error.name === "Error" ? error.constructor.name : error.name,
            status: error.status ?? null,
            retry_after: error.headers?.get?.("retry-after") ?? null,
            message: error.message,
        }));
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
}
