//! Gemini `streamGenerateContent` (<https://ai.google.dev/api/generate-content>).
//!
//! A reply is a list of parts, and the wire wants them back as the list that it was: a thought signature belongs to the
//! one part that it came in, text and calls alike, and two parts of which one is signed must not become one
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>). Our reply is one text and its calls, so what the parts
//! were is kept beside it, see [`parts`]. Models give no ids of calls, or did not use to: an id goes back only where one
//! came, and results stand in the order of their calls.

#![deny(clippy::disallowed_methods)]

mod parts;
mod stream;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};
use ukai_protocol::message::{Call, Message};

use super::{Definition, Request, clean, place_and_query};
use parts::Layout;
pub use stream::Stream;

const VERSION: &str = "/v1beta";
const METHOD: &str = ":streamGenerateContent";

/// Google's own word for a call that another model made: Gemini 3 and later refuse a call without a signature, and these
/// accept this one (documented with the signatures; the reply may be poorer for it).
const SIGNATURE_OF_OTHERS: &str = "skip_thought_signature_validator";
/// Families that ask for no signature. A name that is not among them is taken for a model that does.
const FAMILIES_WITHOUT_SIGNATURE: [&str; 4] = ["gemini-1.", "gemini-2.", "gemma", "learnlm"];

/// Stands before a conversation that begins with the model: the wire wants the user's word first.
const BEGINNING: &str = "(The beginning of this conversation is not shown.)";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: Cow<'a, str>,
    description: Cow<'a, str>,
    /// Not `parameters`, which takes a part of OpenAPI's schema only and refuses the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a Value>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Model,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall<'a>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Result { function_response: FunctionResponse<'a> },
    /// A signed thought, as it came.
    Kept(&'a Map<String, Value>),
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Cow<'a, Map<String, Value>>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Outcome<'a>,
}

/// The two keys that the documentation names.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

pub(super) fn url(base: &str, model: &str) -> String {
    let (place, query) = place_and_query(base);
    // The whole path, whatever model stands in it.
    let place = match place.rsplit_once("/models/") {
        Some((place, method)) if method.contains(':') => place,
        _ => place.strip_suffix("/models").unwrap_or(place),
    };
    let place = place.trim_end_matches('/');
    let version = if ends_with_version(place) { "" } else { VERSION };
    let model = encoded(model.trim().trim_start_matches("models/"));
    let kept = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("alt="));
    let query: Vec<&str> = kept.chain(["alt=sse"]).collect();
    format!("{place}{version}/models/{model}{METHOD}?{}", query.join("&"))
}

/// `/v1`, `/v1beta`, `/v1alpha`, `/v1beta1` (Vertex): a base that names one means it.
fn ends_with_version(place: &str) -> bool {
    let last = place.rsplit('/').next().unwrap_or_default();
    let Some(rest) = last.strip_prefix('v') else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let names_number = rest.len() + 1 < last.len();
    let rest = rest.strip_prefix("alpha").or_else(|| rest.strip_prefix("beta")).unwrap_or(rest);
    names_number && rest.chars().all(|c| c.is_ascii_digit()) && place.contains('/')
}

/// The name of a model as a part of a path: it is text from a configuration, and could end the path.
fn encoded(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

pub(super) fn body(request: &Request<'_>, provider: &str) -> serde_json::Result<Vec<u8>> {
    let system = request.system.filter(|text| !text.trim().is_empty());
    let declarations: Vec<_> = request.tools.iter().map(declaration).collect();
    serde_json::to_vec(&Body {
        system_instruction: system.map(|text| Content { role: None, parts: vec![said(text, None)] }),
        tools: if declarations.is_empty() { Vec::new() } else { vec![Tools { function_declarations: declarations }] },
        generation_config: (request.max_output > 0)
            .then_some(GenerationConfig { max_output_tokens: request.max_output }),
        contents: contents(request, provider),
    })
}

/// A schema without properties is left out: the field is optional, and its absence says the same.
fn declaration(tool: &Definition) -> Declaration<'_> {
    let takes = tool.schema.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    Declaration {
        name: name(&tool.name),
        description: clean::text(&tool.description),
        parameters_json_schema: takes.then_some(&tool.schema),
    }
}

/// Roles alternate, the user's is first, and the results of a turn stand in the one content after it.
fn contents<'a>(request: &Request<'a>, provider: &str) -> Vec<Content<'a>> {
    let signed = needs_signature(request.model);
    let mut contents: Vec<Content<'a>> = Vec::new();
    // The calls that may be answered now, and how they were laid out.
    let mut asked: Option<(&[Call], Layout<'a>)> = None;
    for message in request.messages {
        let (role, parts) = match &**message {
            // The wire refuses a part that says nothing.
            Message::User { text } if text.trim().is_empty() => continue,
            Message::User { text } => (Role::User, vec![said(text, None)]),
            Message::Result { call, tool, ok, text } => {
                let text = clean::text(text);
                let response = if *ok { Outcome::Output(text) } else { Outcome::Error(text) };
                let id = asked.as_ref().and_then(|(calls, layout)| {
                    let place = calls.iter().position(|asked| asked.id == *call)?;
                    layout.has_id(place).then_some(call.as_str())
                });
                (
                    Role::User,
                    vec![Part::Result { function_response: FunctionResponse { id, name: name(tool), response } }],
                )
            }
            // Thinking alone is no reply.
            Message::Assistant { text, calls, .. } if text.trim().is_empty() && calls.is_empty() => continue,
            Message::Assistant { text, calls, opaque } => {
                let own = opaque.iter().filter(|opaque| opaque.provider == provider).map(|opaque| &opaque.data.0);
                let layout = Layout::read(own, text, calls.len());
                let parts = model_parts(&layout, text, calls, signed);
                asked = Some((calls, layout));
                (Role::Model, parts)
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(content) if content.role == Some(role) => content.parts.extend(parts),
            _ => contents.push(Content { role: Some(role), parts }),
        }
    }
    if contents.first().is_none_or(|first| first.role != Some(Role::User)) {
        contents.insert(0, Content { role: Some(Role::User), parts: vec![said(BEGINNING, None)] });
    }
    contents
}

fn model_parts<'a>(layout: &Layout<'a>, text: &'a str, calls: &'a [Call], signed: bool) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(calls.len() + 1);
    let is_blank = text.trim().is_empty();
    let mut first_call = true;
    for piece in layout.pieces() {
        match *piece {
            parts::Piece::Text { from, to, signature } => {
                let text = text.get(from..to).unwrap_or_default();
                // A line break between two paragraphs is a part of what was said; nothing but blanks is not.
                if signature.is_some() || !(is_blank || text.is_empty()) {
                    parts.push(said(text, signature));
                }
            }
            parts::Piece::Call { place, signature, has_id } => {
                let Some(call) = calls.get(place) else { continue };
                // Only the first call of a step is checked; the others of a parallel batch come without.
                let missing = (signed && first_call).then_some(SIGNATURE_OF_OTHERS);
                first_call = false;
                parts.push(Part::Call {
                    function_call: FunctionCall {
                        id: has_id.then_some(&call.id),
                        name: name(&call.tool),
                        args: clean::object(call.args.object()),
                    },
                    signature: signature.or(missing),
                });
            }
            parts::Piece::Thought(part) => parts.push(Part::Kept(part)),
        }
    }
    parts
}

fn said<'a>(text: &'a str, signature: Option<&'a str>) -> Part<'a> {
    Part::Text { text: clean::text(text), signature }
}

/// A name must not begin with a digit or a hyphen here.
fn name(text: &str) -> Cow<'_, str> {
    let name = clean::name(text);
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return name;
    }
    Cow::Owned(format!("_{name}").chars().take(clean::NAME_CHARS_MAX).collect())
}

fn needs_signature(model: &str) -> bool {
    let model = model.trim().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    !FAMILIES_WITHOUT_SIGNATURE.iter().any(|family| model.starts_with(family))
}
