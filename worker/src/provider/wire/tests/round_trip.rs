//! Any conversation, written on each wire and read back, is the same conversation: the same words, the same calls with the
//! same arguments, and each result with its call. And what a provider wants back goes to that provider only.

use proptest::prelude::*;
use serde_json::Map;

use super::*;

/// What was said, whatever a wire makes of it. A call is known by its place in the conversation: ids may be shortened, or
/// not be sent at all.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    User(String),
    Model(String),
    Call { place: usize, tool: String, args: Value },
    Result { place: usize, text: String },
}

fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

/// What a wire must carry of the conversation.
fn said(messages: &[Message]) -> Vec<Said> {
    let mut said = Vec::new();
    let mut places: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::User { text } if is_said(text) => said.push(Said::User(clean::text(text).into_owned())),
            Message::User { .. } => {}
            Message::Assistant { text, calls, .. } => {
                if is_said(text) {
                    said.push(Said::Model(clean::text(text).into_owned()));
                }
                for call in calls {
                    let args = Value::Object(clean::object(call.args.object()).into_owned());
                    said.push(Said::Call { place: places.len(), tool: call.tool.clone(), args });
                    places.push(&call.id);
                }
            }
            Message::Result { call, text, .. } => {
                let place = places.iter().position(|id| id == call).expect("a call");
                said.push(Said::Result { place, text: clean::text(text).into_owned() });
            }
        }
    }
    said
}

fn texts(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Reads a body back, and finds fault with what its wire would refuse.
fn read_back(wire: Wire, body: &Value) -> Vec<Said> {
    match wire {
        Wire::Openai => from_openai(body),
        Wire::Anthropic => from_anthropic(body),
        Wire::Gemini => from_gemini(body),
    }
}

fn from_openai(body: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    let mut places = Vec::new();
    for entry in list(body, "messages") {
        let content = texts(entry, "content");
        match entry["role"].as_str() {
            Some("user") if is_said(&content) => said.push(Said::User(content)),
            Some("assistant") => {
                if is_said(&content) {
                    said.push(Said::Model(content));
                }
                for call in list(entry, "tool_calls") {
                    let id = texts(call, "id");
                    assert!(id.len() <= 40 && !places.contains(&id), "{id}");
                    let args = serde_json::from_str(&texts(&call["function"], "arguments")).expect("an object");
                    said.push(Said::Call { place: places.len(), tool: texts(&call["function"], "name"), args });
                    places.push(id);
                }
            }
            Some("tool") => {
                let id = texts(entry, "tool_call_id");
                let place = places.iter().position(|known| *known == id).expect("its call");
                said.push(Said::Result { place, text: content });
            }
            _ => {}
        }
    }
    said
}

fn from_anthropic(body: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    let mut places = Vec::new();
    let mut last_role = None;
    for entry in list(body, "messages") {
        let role = entry["role"].as_str();
        assert_ne!(role, last_role, "roles alternate");
        last_role = role;
        for block in list(entry, "content") {
            match (block["type"].as_str(), role) {
                (Some("text"), Some("user")) => said.push(Said::User(texts(block, "text"))),
                (Some("text"), _) => said.push(Said::Model(texts(block, "text"))),
                (Some("tool_use"), _) => {
                    let tool = texts(block, "name");
                    said.push(Said::Call { place: places.len(), tool, args: block["input"].clone() });
                    places.push(texts(block, "id"));
                }
                (Some("tool_result"), _) => {
                    let id = texts(block, "tool_use_id");
                    let place = places.iter().position(|known| *known == id).expect("its call");
                    said.push(Said::Result { place, text: texts(block, "content") });
                }
                (kind, _) => assert_eq!(kind, Some("thinking")),
            }
        }
    }
    said
}

fn from_gemini(body: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    let mut places = 0;
    // The calls of the last content, by place, name and id, that are still to be answered.
    let mut open: Vec<(usize, String, Option<Value>)> = Vec::new();
    let mut last_role = None;
    for content in list(body, "contents") {
        let role = content["role"].as_str();
        assert_ne!(role, last_role, "roles alternate");
        assert!(last_role.is_some() || role == Some("user"), "the user is first");
        last_role = role;
        let mut text = String::new();
        for part in list(content, "parts") {
            if let Some(call) = part.get("functionCall") {
                said.extend(is_said(&text).then(|| Said::Model(std::mem::take(&mut text))));
                let args = call["args"].clone();
                said.push(Said::Call { place: places, tool: texts(call, "name"), args });
                open.push((places, texts(call, "name"), call.get("id").cloned()));
                places += 1;
            } else if let Some(result) = part.get("functionResponse") {
                // Without an id a result is the next call's; with one it must be that call's too.
                let (place, name, id) = open.remove(0);
                assert_eq!((texts(result, "name"), result.get("id").cloned()), (name, id));
                let response = &result["response"];
                let output = response.get("output").or(response.get("error")).and_then(Value::as_str);
                said.push(Said::Result { place, text: output.expect("text").to_owned() });
            } else if role == Some("user") {
                assert!(open.is_empty(), "text before a result");
                said.push(Said::User(texts(part, "text")));
            } else {
                text.push_str(&texts(part, "text"));
            }
        }
        said.extend(is_said(&text).then_some(Said::Model(text)));
    }
    said
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ a-zA-Z鵜🙂\"\\\\\n{}]{0,12}",
        1 => Just(String::new()),
        1 => Just("a\0b".to_owned()),
    ]
}

/// A turn begins with a user who says something; of two replies in a row a wire may make one.
fn asked() -> impl Strategy<Value = String> {
    text().prop_map(|text| if is_said(&text) { text } else { "on".to_owned() })
}

fn args() -> impl Strategy<Value = Args> {
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), text().prop_map(Value::from)];
    let value = leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,3}", inner), 0..3)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    });
    let object = prop::collection::vec(("[a-z鵜]{1,4}", value), 0..3);
    prop_oneof![
        5 => object.prop_map(|pairs| Args::Whole(Json(pairs.into_iter().collect()))),
        1 => text().prop_map(|text| Args::Broken { text, why: "cut".to_owned() }),
    ]
}

/// Where a marked piece of opaque data came from, and what it says there.
const OWN: &str = "OWN-SIGNATURE";
const FOREIGN: &str = "FOREIGN-SIGNATURE";

/// What a wire keeps beside such a reply, with `mark` as the signature in it.
fn opaque(wire: Wire, provider: &str, mark: &str, text: &str, calls: usize) -> Opaque {
    let data = match wire {
        Wire::Openai if calls > 0 => {
            json!({"call": calls - 1, "extra_content": {"google": {"thought_signature": mark}}})
        }
        Wire::Openai => json!({"reasoning_content": mark}),
        Wire::Anthropic => json!({"type": "thinking", "thinking": "t", "signature": mark}),
        Wire::Gemini => {
            let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            let mut parts = vec![json!({"text": half}), json!({"text": text.len() - half, "thoughtSignature": mark})];
            parts.extend((0..calls).map(|place| json!({"call": place, "id": true, "thoughtSignature": mark})));
            json!({"parts": parts})
        }
    };
    Opaque { provider: provider.to_owned(), data: Json(data.as_object().cloned().unwrap_or_default()) }
}

/// A reply before its results are known: text, calls with their results, whether its own provider signed it, and on which
/// wire another one did.
type Turn = (String, Vec<(String, Args, bool, String)>, bool, Option<usize>);

fn turn() -> impl Strategy<Value = Turn> {
    let call = ("[A-Za-z_][A-Za-z0-9_-]{0,8}", args(), any::<bool>(), text());
    (text(), prop::collection::vec(call, 0..4), any::<bool>(), prop::option::of(0..WIRES.len()))
}

/// History as the loop makes it: each call has its result directly behind it, ids are unique.
fn history(wire: Wire, turns: &[(String, Turn)]) -> Vec<Message> {
    let mut messages = vec![Message::User { text: "go".to_owned() }];
    for (number, (asked, (text, calls, signed, foreign))) in turns.iter().enumerate() {
        messages.extend([asked.as_str(), " "].map(|text| Message::User { text: text.to_owned() }));
        let id = |place: usize| format!("toolu_{}_{number}_{place}", "x".repeat(number * 17 % 50));
        let mut kept = Vec::new();
        kept.extend(foreign.map(|from| opaque(WIRES[from], "other", FOREIGN, text, calls.len())));
        kept.extend(signed.then(|| opaque(wire, "lab", OWN, text, calls.len())));
        let asked_for = calls.iter().enumerate();
        let asked_for =
            asked_for.map(|(place, (tool, args, ..))| Call { id: id(place), tool: tool.clone(), args: args.clone() });
        messages.push(Message::Assistant { text: text.clone(), calls: asked_for.collect(), opaque: kept });
        for (place, (tool, _, ok, text)) in calls.iter().enumerate() {
            messages.push(Message::Result { call: id(place), tool: tool.clone(), ok: *ok, text: text.clone() });
        }
    }
    messages
}

fn sent(wire: Wire, messages: &[Message]) -> Value {
    let messages: Vec<Arc<Message>> = messages.iter().cloned().map(Arc::new).collect();
    let request = Request { model: "gemini-3", system: Some("s"), messages: &messages, tools: &[], max_output: 9 };
    serde_json::from_slice(&body(wire, &request, "lab", "https://x/").expect("written")).expect("JSON")
}

/// Text that follows text of the same role is one text on some wires and two on others.
fn joined(said: Vec<Said>) -> Vec<Said> {
    let mut joined: Vec<Said> = Vec::new();
    for said in said {
        match (joined.last_mut(), said) {
            (Some(Said::User(known)), Said::User(more)) | (Some(Said::Model(known)), Said::Model(more)) => {
                known.push_str(&more);
            }
            (_, said) => joined.push(said),
        }
    }
    joined
}

proptest! {
    #[test]
    fn a_conversation_is_the_same_on_every_wire(turns in prop::collection::vec((asked(), turn()), 1..5)) {
        for wire in WIRES {
            let messages = history(wire, &turns);
            let body = sent(wire, &messages);
            prop_assert_eq!(joined(read_back(wire, &body)), joined(said(&messages)), "{:?}: {}", wire, body);
        }
    }

    #[test]
    fn opaque_data_goes_back_to_its_provider_and_to_no_other(turns in prop::collection::vec((asked(), turn()), 1..5)) {
        for wire in WIRES {
            let messages = history(wire, &turns);
            let body = sent(wire, &messages).to_string();
            prop_assert!(!body.contains(FOREIGN), "{:?}: {}", wire, body);
            // A reply that said nothing is not sent, and nothing that belongs to it.
            let signed = turns.iter().filter(|(_, (text, calls, signed, _))| {
                let is_sent = !calls.is_empty() || match wire {
                    Wire::Openai => !text.is_empty(),
                    Wire::Anthropic | Wire::Gemini => is_said(text),
                };
                *signed && is_sent
            });
            let expected: usize = signed.map(|(_, (_, calls, ..))| if wire == Wire::Gemini { 1 + calls.len() } else { 1 }).sum();
            prop_assert_eq!(body.matches(OWN).count(), expected, "{:?}: {}", wire, body);
        }
    }

    #[test]
    fn no_shape_of_opaque_data_breaks_a_request(
        turns in prop::collection::vec((asked(), turn()), 1..4),
        left in prop::collection::vec(("(parts|call|type|text|reasoning_content)", args()), 0..3),
    ) {
        for wire in WIRES {
            let mut messages = history(wire, &turns);
            let data = Map::from_iter(left.iter().map(|(key, args)| (key.clone(), Value::Object(args.object().into_owned()))));
            for message in &mut messages {
                if let Message::Assistant { opaque, .. } = message {
                    *opaque = vec![Opaque { provider: "lab".to_owned(), data: Json(data.clone()) }];
                }
            }
            let body = sent(wire, &messages);
            prop_assert_eq!(joined(read_back(wire, &body)), joined(said(&messages)), "{:?}: {}", wire, body);
        }
    }
}
