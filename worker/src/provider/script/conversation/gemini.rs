//! A Gemini request as a conversation.
//!
//! A reply that was streamed comes back from some clients as one content a chunk, so neighbours of the model are one turn,
//! and a text in pieces is one text.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

use super::{Called, Conversation, Turn, list, word};

impl Conversation {
    pub(super) fn add_gemini(&mut self, body: &Value) {
        let declared = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
        self.tools.extend(declared.map(|tool| word(&tool["name"])));
        self.system = said(list(&body["systemInstruction"]["parts"]), "\n");
        for content in list(&body["contents"]) {
            let parts = list(&content["parts"]);
            if content["role"] == "model" {
                self.add_reply(parts);
            } else {
                self.add_asked(parts);
            }
        }
    }

    fn add_reply(&mut self, parts: &[Value]) {
        let more = said(parts, "");
        let called = parts.iter().map(|part| &part["functionCall"]).filter(|call| !call.is_null());
        let called =
            called.map(|call| Called { id: word(&call["id"]), tool: word(&call["name"]), args: call["args"].clone() });
        match self.turns.last_mut() {
            Some(Turn::Assistant { text, calls }) => {
                text.push_str(&more);
                calls.extend(called);
            }
            _ => self.turns.push(Turn::Assistant { text: more, calls: called.collect() }),
        }
    }

    fn add_asked(&mut self, parts: &[Value]) {
        let results = parts.iter().map(|part| &part["functionResponse"]).filter(|result| !result.is_null());
        let before = self.turns.len();
        self.turns.extend(results.map(|result| Turn::Result {
            id: word(&result["id"]),
            tool: word(&result["name"]),
            text: result_text(&result["response"]),
        }));
        let text = said(parts, "\n");
        if self.turns.len() == before || !text.is_empty() {
            self.turns.push(Turn::User(text));
        }
    }
}

/// What was said and not only thought.
fn said(parts: &[Value], between: &str) -> String {
    let texts = parts.iter().filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join(between)
}

/// A response is an object of any keys; the API's own names for a plain text in it are `output` and `error`, and many
/// clients write another word for the only one.
fn result_text(response: &Value) -> String {
    let only = response.as_object().filter(|object| object.len() == 1).and_then(|object| object.values().next());
    let text = only.into_iter().chain([&response["output"], &response["error"]]).find_map(Value::as_str);
    text.map_or_else(|| response.to_string(), str::to_owned)
}
