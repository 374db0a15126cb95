//! The providers' own client packages against the script server: what they make of its streams, calls and errors, and
//! that it judges their requests as sound. A client that only we wrote proves only that we agree with ourselves.

use serde_json::{Value, json};
use ukai_tests::home::Home;
use ukai_tests::npm;
use ukai_tests::script::Script;

const SCRIPT: &str = r#"
require_key = true

[[rule]]
when.prompt = "limited"
fault = { status = 429, headers = { retry-after = "17" } }

[[rule]]
when.prompt = "breaks"
reply.text = "This does not come to its end."
fault = { error_event = true, after_chars = 10 }

[[rule]]
when = { prompt = "tool", step = 1 }
[rule.reply]
text = "I read."
calls = [
    { tool = "Read", args = { file_path = "a" } },
    { tool = "Read", args = { file_path = "b" } },
]

[[rule]]
when.prompt = "tool"
reply.text = "{{results.Read}} results, the last: {{result.last}}"

[[rule]]
when = { prompt = "think", step = { at_most = 2 }, no_tools = false }
[rule.reply]
reasoning = "Step {{step}}, 鵜. "
calls = [{ tool = "Read", args = { file_path = "{{step}}" } }]

[[rule]]
when.prompt = "think"
reply = { reasoning = "Enough.", text = "So it is, in several pieces." }

[[rule]]
reply = { text = "Said to 鵜飼: {{prompt}}, in several pieces.", usage = { input = 12, cached = 4, output = 9 } }
"#;

struct Expected {
    stop: &'static str,
    /// OpenAI gives reasoning back to no server, so there its script thinks once.
    reasoning: &'static str,
    limited: Value,
    breaks: Value,
}

fn check(wire: &str, client: &str, requests: usize, expected: &Expected) {
    let home = Home::new();
    let script = Script::serve(home.path(), SCRIPT);
    let told = npm::run(client, &[&script.url]);
    let text = "Said to 鵜飼: text, in several pieces.";
    assert_eq!(
        told["text"],
        json!({"text": text, "stop": expected.stop, "usage": [12, 4, 9], "pieces": true}),
        "{told}"
    );
    assert_eq!(told["tool"], json!({"calls": ["a", "b"], "text": "2 results, the last: text of b"}), "{told}");
    let reasoning = json!({"reasoning": expected.reasoning, "text": "So it is, in several pieces."});
    assert_eq!(told["reasoning"], reasoning, "{told}");
    assert_eq!(told["whole"], json!({"text": text, "model": "lab-1"}), "{told}");
    for (name, expected) in [("limited", &expected.limited), ("breaks", &expected.breaks)] {
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&told[name][key], value, "{name}: {told}");
        }
    }
    let arrivals = script.arrivals();
    // As many as the scenarios need: nobody has tried anything twice behind our back.
    assert_eq!(arrivals.len(), requests, "{arrivals:?}");
    for arrival in arrivals {
        assert_eq!((&arrival["wire"], &arrival["refused"]), (&json!(wire), &Value::Null), "{arrival}");
    }
}

#[test]
fn openai() {
    check(
        "openai",
        "sdk_openai.mjs",
        7,
        &Expected {
            stop: "stop",
            reasoning: "Enough.",
            limited: json!({"error": "RateLimitError", "status": 429, "retry_after": "17"}),
            breaks: json!({
                "error": "APIError", "message": "The server is currently overloaded. Please try again later.",
            }),
        },
    );
}

#[test]
fn anthropic() {
    check(
        "anthropic",
        "sdk_anthropic.mjs",
        9,
        &Expected {
            stop: "end_turn",
            reasoning: "Step 1, 鵜. Step 2, 鵜. Enough.",
            limited: json!({"error": "RateLimitError", "status": 429, "retry_after": "17"}),
            breaks: json!({"error": "APIError", "status": null}),
        },
    );
}

#[test]
fn gemini() {
    check(
        "gemini",
        "sdk_gemini.mjs",
        9,
        &Expected {
            stop: "STOP",
            reasoning: "Step 1, 鵜. Step 2, 鵜. Enough.",
            limited: json!({"error": "ApiError", "status": 429}),
            breaks: json!({"error": "ApiError", "status": 503}),
        },
    );
}
