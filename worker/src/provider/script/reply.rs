//! What a rule says, its templates filled: the reply as each wire then puts it into their own form.
//!
//! Nothing here is drawn or counted: ids come from the conversation's position, so that a request sent again (after a
//! crash, a cut stream) gets the very same reply, and a resumed run the same transcript.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

use super::conversation::{Conversation, Wire, digest};
use super::file::{CallTemplate, EACH_CALLS_MAX, Reply, UsageTokens};
use super::template::{Names, Template, Unfilled};

/// One rendered text; larger than any client's bound on a reply, small enough to hold as events.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Calls of one reply.
const CALLS_MAX: usize = 1_000;
/// What providers take for a rule of thumb, where the script gives no usage.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// 32 hexadecimal digits, the reply's own.
    pub id: String,
    pub model: String,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<SpokenCall>,
    pub usage: UsageTokens,
    pub stop: Stop,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SpokenCall {
    pub id: String,
    pub tool: String,
    /// JSON text, unless the script wants it broken.
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    End,
    Calls,
    Length,
    Filter,
    /// Said as it stands, whatever the wire.
    Other(String),
}

/// The request's names, and those which the moment gives.
pub struct Scope<'a> {
    pub request: &'a Conversation,
    /// Seconds since 1970.
    pub now: f64,
    pub item: Option<&'a str>,
}

impl Names for Scope<'_> {
    fn get(&self, name: &str) -> Option<String> {
        match name {
            "item" => self.item.map(str::to_owned),
            "now" => Some(self.now.to_string()),
            other => self.request.get(other),
        }
    }
}

/// `broken` says what the rule's faults do to arguments.
pub fn speak(reply: &Reply, broken: Broken, request: &Conversation, now: f64) -> Result<Spoken, Unfilled> {
    let scope = Scope { request, now, item: None };
    let id = request.position();
    let text = filled(reply.text.as_ref(), &scope)?;
    let reasoning = filled(reply.reasoning.as_ref(), &scope)?;
    let mut calls = Vec::new();
    for call in &reply.calls {
        for one in spoken_calls(call, &scope)? {
            if calls.len() == CALLS_MAX {
                return Err(Unfilled {
                    hole: "each".to_owned(),
                    why: format!("a reply makes at most {CALLS_MAX} calls"),
                });
            }
            let arguments = broken.apply(one.arguments);
            let id = one.id.unwrap_or_else(|| default_id(request.wire, &id, calls.len(), &reasoning));
            calls.push(SpokenCall { id, tool: one.tool, arguments });
        }
    }
    if calls.is_empty() && !reply.calls.is_empty() && text.is_empty() {
        let why = "every optional call fell away and there is no text".to_owned();
        return Err(Unfilled { hole: "calls".to_owned(), why });
    }
    let said = text.len() + reasoning.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>();
    let usage = reply.usage.unwrap_or(UsageTokens {
        input: estimated_tokens(request.body_bytes),
        output: estimated_tokens(said),
        cached: 0,
    });
    let stop = match reply.stop.as_deref() {
        None if broken.cuts() => Stop::Length,
        None if calls.is_empty() => Stop::End,
        None | Some("calls") => Stop::Calls,
        Some("end") => Stop::End,
        Some("length") => Stop::Length,
        Some("filter") => Stop::Filter,
        Some(other) => Stop::Other(other.to_owned()),
    };
    Ok(Spoken { id, model: request.model.clone(), text, reasoning, calls, usage, stop })
}

pub fn estimated_tokens(bytes: usize) -> u64 {
    bytes as u64 / BYTES_PER_TOKEN + 1
}

/// What becomes of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Whole,
    Malformed,
    Cut,
}

impl Broken {
    fn cuts(self) -> bool {
        self == Broken::Cut
    }

    fn apply(self, arguments: String) -> String {
        match self {
            Broken::Whole => arguments,
            Broken::Malformed => {
                format!("{},,", &arguments[..arguments.floor_char_boundary(arguments.len().saturating_sub(1))])
            }
            Broken::Cut => arguments[..arguments.floor_char_boundary(arguments.len() / 2)].to_owned(),
        }
    }
}

struct Filled {
    tool: String,
    arguments: String,
    id: Option<String>,
}

fn spoken_calls(call: &CallTemplate, scope: &Scope<'_>) -> Result<Vec<Filled>, Unfilled> {
    let one = |scope: &Scope<'_>| -> Result<Filled, Unfilled> {
        let arguments = match &call.raw_args {
            Some(raw) => raw.render(scope)?,
            None => call.args.value(scope)?.to_string(),
        };
        let id = call.id.as_ref().map(|id| id.render(scope)).transpose()?;
        Ok(Filled { tool: call.tool.render(scope)?, arguments, id })
    };
    let all = || match &call.each {
        None => Ok(vec![one(scope)?]),
        Some(each) => {
            let lines = each.render(scope)?;
            let items = lines.lines().map(str::trim).filter(|line| !line.is_empty());
            let most = call.max.unwrap_or(EACH_CALLS_MAX);
            items.take(most).map(|item| one(&Scope { item: Some(item), ..*scope })).collect()
        }
    };
    match all() {
        Err(_) if call.optional => Ok(Vec::new()),
        other => other,
    }
}

fn filled(template: Option<&Template>, scope: &Scope<'_>) -> Result<String, Unfilled> {
    let text = template.map_or_else(|| Ok(String::new()), |template| template.render(scope))?;
    if text.len() > TEXT_BYTES_MAX {
        let why = format!("the text has {} bytes, at most {TEXT_BYTES_MAX}", text.len());
        return Err(Unfilled { hole: "…".to_owned(), why });
    }
    Ok(text)
}

/// An id of its own for each call of each position. That of a reply with reasoning says which, so that the judge can ask
/// for it back without remembering anything.
fn default_id(wire: Wire, position: &str, at: usize, reasoning: &str) -> String {
    const POSITION_CHARS: usize = 20;
    // What each of the two gives and wants back is its own: a conversation may come over from the other.
    let sort = if wire == Wire::Gemini { 'g' } else { 't' };
    let mark = if reasoning.is_empty() { String::new() } else { format!("{sort}{}_", mark_of(reasoning)) };
    format!("call_{mark}{}_{at}", &position[..POSITION_CHARS])
}

/// What an id and a signature say of the reasoning they came with.
pub fn mark_of(reasoning: &str) -> String {
    mark(&signature(reasoning)).to_owned()
}

/// The signature of a thinking block: it holds for this text and no other.
pub fn signature(thinking: &str) -> String {
    format!("ukai-script-{}", digest(&["thinking", thinking]))
}

fn mark(signature: &str) -> &str {
    const MARK_CHARS: usize = 8;
    &signature[signature.len() - MARK_CHARS..]
}

/// Whether the call comes from a reply with reasoning, and which signature that had the mark of.
pub fn reasoning_mark(call_id: &str) -> Option<&str> {
    call_id.strip_prefix("call_t")?.split_once('_').map(|(mark, _)| mark)
}

/// The same of a call on the Gemini wire, where the signature stands on the call itself.
pub fn thought_mark(call_id: &str) -> Option<&str> {
    call_id.strip_prefix("call_g")?.split_once('_').map(|(mark, _)| mark)
}

pub fn has_mark(a_signature: &str, of: &str) -> bool {
    !of.is_empty() && a_signature.ends_with(of)
}

/// For wires that carry arguments as an object: the object, or what there is of it as a text.
pub fn as_input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::conversation::Wire;
    use super::super::conversation::tests::read;
    use super::*;

    fn spoken(reply: &str, broken: Broken) -> Result<Spoken, String> {
        let reply: Reply = toml::from_str(reply).map_err(|why| why.to_string())?;
        speak(&reply, broken, &read(Wire::Openai), 0.0).map_err(|why| why.to_string())
    }

    #[test]
    fn a_reply_takes_its_words_from_the_request() {
        let reply = r#"
            text = '{{result.Grep | match: "total: (\d+)"}} TODOs in {{prompt | match: "survey (\w+)"}}'
            [[calls]]
            tool = "Read"
            each = "{{result.Glob}}"
            args = { file_path = "{{item}}", limit = 5, deep = [{ n = "{{step | number}}" }] }
            [[calls]]
            tool = "Read"
            optional = true
            args = { file_path = "{{result.Bash}}" }
        "#;
        let spoken = spoken(reply, Broken::Whole).expect("test data");
        assert_eq!(spoken.text, "42 TODOs in src");
        let calls: Vec<_> = spoken.calls.iter().map(|call| call.arguments.as_str()).collect();
        let expected = ["a.rs", "b.rs"].map(|file| format!(r#"{{"file_path":"{file}","limit":5,"deep":[{{"n":2}}]}}"#));
        let sorted = |text: &str| serde_json::from_str::<Value>(text).expect("test data");
        assert_eq!(
            calls.iter().map(|c| sorted(c)).collect::<Vec<_>>(),
            expected.iter().map(|c| sorted(c)).collect::<Vec<_>>()
        );
        assert_ne!(spoken.calls[0].id, spoken.calls[1].id);
        assert_eq!(spoken.stop, Stop::Calls);
        assert_eq!(spoken.usage.input, 101);
    }

    #[test]
    fn the_same_request_gets_the_same_ids_and_openai_takes_them() {
        let reply = "reasoning = 'hm'\ncalls = [{ tool = 'Read' }]";
        let (one, two) = (spoken(reply, Broken::Whole), spoken(reply, Broken::Whole));
        assert_eq!(one, two);
        let id = &one.expect("test data").calls[0].id;
        assert!(id.len() <= 40, "{id}");
        assert!(has_mark(&signature("hm"), reasoning_mark(id).expect("marked")));
        assert!(!has_mark(&signature("ha"), reasoning_mark(id).expect("marked")));
    }

    #[test]
    fn faults_break_arguments_as_asked() {
        let reply = "calls = [{ tool = 'Read', args = { a = 'ä' } }]";
        for (broken, arguments, stop) in [
            (Broken::Whole, r#"{"a":"ä"}"#, Stop::Calls),
            (Broken::Malformed, r#"{"a":"ä",,"#, Stop::Calls),
            (Broken::Cut, r#"{"a":"#, Stop::Length),
        ] {
            let spoken = spoken(reply, broken).expect("test data");
            assert_eq!((spoken.calls[0].arguments.as_str(), spoken.stop), (arguments, stop));
        }
    }

    #[test]
    fn a_reply_without_anything_left_of_it_is_an_error() {
        let why =
            spoken("calls = [{ tool = 'Read', optional = true, args = { f = '{{result.Bash}}' } }]", Broken::Whole);
        assert!(why.expect_err("nothing left").contains("every optional call fell away"));
    }
}
