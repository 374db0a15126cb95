//! What a probe asks, and how it reads the replies.
//!
//! The same attempt that a job makes, so that what it finds holds for jobs: same conversion, same clocks, same classes.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use ukai_protocol::lease::{AnswerClass, Grant, Report, Wait};
use ukai_protocol::message::{Args, Call, Message, Usage};
use ukai_protocol::probe::Shape;

use super::named::Named;
use super::observe::Evidence;
use crate::http::Http;
use crate::provider::classify::Failure;
use crate::provider::wire::{Definition, Reply, Request};
use crate::provider::{self, Answered, Progress, Raw};

const TOOL: &str = "Echo";
/// What the tool is to be called with, and the text to end with.
const WORD: &str = "cormorant";
/// Some models refuse a request for fewer.
const OUTPUT_TOKENS_MIN: u64 = 16;
/// For a call or a sentence, and for a model that thinks before it makes one.
const CAPABILITY_OUTPUT_TOKENS: u64 = 2_048;
/// A window of a million tokens, which is more than any failure by size needs to show again.
const INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;
const FILLER: &str = "This line is filler and can be ignored.\n";

/// What one probe found out.
pub(super) struct Outcome {
    pub report: Report,
    pub detail: String,
    pub tools: Option<bool>,
}

impl Outcome {
    pub fn failed(grant: &Grant, failure: Failure) -> Self {
        let detail = failure.detail.clone();
        Outcome { report: provider::report(grant, &Err(failure)), detail, tools: None }
    }
}

/// One request, shaped like the one that failed. Any whole reply is an answer, an empty or a cut one too.
pub(super) async fn health(grant: &Grant, shape: Shape, evidence: &mut Evidence, named: &mut Named) -> Outcome {
    let prompt = padded("Answer with the single word OK.", shape.input_bytes);
    let messages = [Message::User { text: prompt }.into()];
    let tools = if shape.tools { vec![echo()] } else { Vec::new() };
    match exchange(grant, &messages, &tools, shape.output_tokens, evidence, named).await {
        Ok(answered) => {
            let detail = format!("answered ({})", tokens(&answered.usage));
            let tools = whole_calls(&answered.reply).next().map(|_| true);
            Outcome { report: provider::report(grant, &Ok(answered)), detail, tools }
        }
        Err(failure) => Outcome::failed(grant, failure),
    }
}

/// Offers a tool, wants it called, echoes the result and wants it said.
pub(super) async fn capability(grant: &Grant, evidence: &mut Evidence, named: &mut Named) -> Outcome {
    let prompt = format!(
        "Call the tool {TOOL} once, with `text` set to \"{WORD}\". When its result has come, answer with that result as \
         text and call nothing more."
    );
    let mut messages: Vec<Arc<Message>> = vec![Message::User { text: prompt }.into()];
    let tools = [echo()];
    let first = match exchange(grant, &messages, &tools, CAPABILITY_OUTPUT_TOKENS, evidence, named).await {
        Ok(answered) => answered,
        Err(failure) => return Outcome::failed(grant, failure),
    };
    if whole_calls(&first.reply).next().is_none() {
        let detail = match first.reply.calls.is_empty() {
            true => "it answered, and did not call the tool that it was offered and asked to call",
            false => "it called, and the arguments were no object",
        };
        let detail = detail.to_owned();
        return Outcome { report: provider::report(grant, &Ok(first)), detail, tools: None };
    }
    if let Some(wait) = first.wait {
        // Even a probe asks nobody before the time that was named.
        let asked = match wait {
            Wait::For(ms) => format!("to wait {:.1} s", ms as f64 / 1_000.0),
            Wait::UntilReset => "to wait until a reset".to_owned(),
        };
        let detail = format!("it called the tool; the rest was not asked, since it asked {asked}");
        return Outcome { report: provider::report(grant, &Ok(first)), detail, tools: Some(true) };
    }
    let spent = first.usage;
    let results = results(&first.reply, evidence);
    let Reply { text, calls, opaque, .. } = first.reply;
    messages.push(Message::Assistant { text, calls, opaque }.into());
    messages.extend(results);
    let second = exchange(grant, &messages, &tools, CAPABILITY_OUTPUT_TOKENS, evidence, named).await;
    let detail = match &second {
        Ok(answered) if answered.reply.text.trim().is_empty() => {
            "it called the tool, and ended without a text".to_owned()
        }
        Ok(answered) => format!("called a tool and used its result ({})", tokens(&sum(spent, answered.usage))),
        Err(failure) => format!("it called the tool, and failed at the result: {}", failure.detail),
    };
    let mut report = provider::report(grant, &second);
    report.usage = Some(report.usage.map_or(spent, |usage| sum(spent, usage)));
    // What it refused then was this conversation, not tools as such; only the router's class says more.
    let tools = (report.class != AnswerClass::NoTools).then_some(true);
    Outcome { report, detail, tools }
}

async fn exchange(
    grant: &Grant,
    messages: &[Arc<Message>],
    tools: &[Definition],
    output_tokens: u64,
    evidence: &mut Evidence,
    named: &mut Named,
) -> Result<Answered, Failure> {
    evidence.begin(tools);
    let max_output = match grant.max_output {
        0 => output_tokens.max(OUTPUT_TOKENS_MIN),
        offered => output_tokens.clamp(OUTPUT_TOKENS_MIN.min(offered), offered),
    };
    let request = Request { model: &grant.model, system: None, messages, tools, max_output };
    // A client of its own: on a connection that was kept from the first request, the second could meet its end.
    let http = Http::new().map_err(|error| Failure::internal(&error.to_string()));
    let mask = evidence.mask();
    let result = match http {
        Ok(http) => {
            let on_progress = |progress: Progress<'_>| {
                if let Progress::Raw(raw) = progress {
                    if let Raw::Head { headers, .. } = raw {
                        named.by(headers, SystemTime::now(), Instant::now());
                    }
                    evidence.raw(raw);
                }
            };
            let cancel = CancellationToken::new();
            provider::attempt(&http, grant, request, &provider::used_ids(messages), &mask, on_progress, cancel).await
        }
        Err(failure) => Err(failure),
    };
    match &result {
        Ok(answered) => evidence.replied(answered),
        Err(failure) => evidence.failed(failure),
    }
    result
}

fn echo() -> Definition {
    let text = json!({"type": "string", "description": "The text to return."});
    Definition {
        name: TOOL.to_owned(),
        description: "Returns its text unchanged.".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"text": text},
            "required": ["text"],
            "additionalProperties": false,
        }),
    }
}

fn whole_calls(reply: &Reply) -> impl Iterator<Item = &Call> {
    reply.calls.iter().filter(|call| matches!(call.args, Args::Whole(_)))
}

/// One for each call, whatever it was: a history with an open call would be refused for that.
fn results(reply: &Reply, evidence: &mut Evidence) -> Vec<Arc<Message>> {
    let result = |call: &Call| {
        let (ok, text) = match &call.args {
            _ if call.tool != TOOL => (false, format!("not run: there is no tool {}", call.tool)),
            Args::Whole(args) => (true, args.0.get("text").map_or_else(|| WORD.to_owned(), said)),
            Args::Broken { why, .. } => (false, format!("not run: {why}")),
        };
        evidence.result_next(&call.id, &text);
        Message::Result { call: call.id.clone(), tool: call.tool.clone(), ok, text }.into()
    };
    reply.calls.iter().map(result).collect()
}

fn said(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn padded(prompt: &str, input_bytes: u64) -> String {
    let wanted = usize::try_from(input_bytes.min(INPUT_BYTES_MAX)).unwrap_or(0).saturating_sub(prompt.len());
    let mut text = FILLER.repeat(wanted.div_ceil(FILLER.len()));
    text.push_str(prompt);
    text
}

fn tokens(usage: &Usage) -> String {
    let about = if usage.estimated { "about " } else { "" };
    format!("{about}{} tokens in, {} out", usage.input, usage.output)
}

fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cached: a.cached.saturating_add(b.cached),
        output: a.output.saturating_add(b.output),
        estimated: a.estimated || b.estimated,
    }
}
