//! From a request to the plan of its answer, and to what the record says of it: judge, then script, then faults.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use serde_json::Value;

use super::conversation::{Conversation, Wire};
use super::file::{Fault, Reply, Rule, Script};
use super::play::{self, End, Plan};
use super::refusal::Refusal;
use super::reply::{Broken, Scope, Spoken, speak};
use super::stream_openai::Shape;
use super::tally::Tally;
use super::template::Unfilled;
use super::{judge, stream_anthropic, stream_openai};

/// Where neither rule nor defaults say: small enough for several pieces in a sentence.
const CHUNK_CHARS: usize = 16;

pub struct Asked<'a> {
    pub wire: Wire,
    /// Names in lower case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// One moment, as both clocks tell it.
#[derive(Clone, Copy)]
pub struct Moment {
    pub instant: Instant,
    pub unix_seconds: f64,
}

/// An answer, and what is to be recorded of it.
pub struct Answer {
    pub plan: Plan,
    pub rule: Option<String>,
    pub step: Option<u64>,
    pub prompt: Option<String>,
    pub refused: Option<String>,
}

pub fn answer(script: &Script, tally: &mut Tally, asked: &Asked<'_>, now: Moment) -> Answer {
    let body = match judge::judge(asked.wire, script, asked.headers, asked.body) {
        Ok(body) => body,
        Err(refusal) => return Answer::refused(asked.wire, &refusal),
    };
    let request = Conversation::read(asked.wire, asked.headers, &body, asked.body.len());
    let mut answer = match tally.choose(script, &request, now.instant) {
        Err(too_many) => Answer::refused(asked.wire, &broken_script(too_many.to_string())),
        Ok(None) => Answer::refused(asked.wire, &no_rule(&request)),
        Ok(Some(at)) => {
            let label = script.label(at);
            let mut answer = match perform(script, &script.rules[at], &request, now) {
                Ok(plan) => Answer { plan, rule: None, step: None, prompt: None, refused: None },
                Err(unfilled) => Answer::refused(
                    asked.wire,
                    &broken_script(format!("{label} of the script cannot be played: {unfilled}")),
                ),
            };
            answer.rule = Some(label);
            answer
        }
    };
    answer.step = Some(request.step());
    answer.prompt = Some(request.prompt().to_owned());
    answer
}

impl Answer {
    pub fn refused(wire: Wire, refusal: &Refusal) -> Answer {
        let plan = refusal_plan(wire, refusal);
        Answer { plan, rule: None, step: None, prompt: None, refused: Some(refusal.message.clone()) }
    }
}

fn perform(script: &Script, rule: &Rule, request: &Conversation, now: Moment) -> Result<Plan, Unfilled> {
    let scope = Scope { request, now: now.unix_seconds, item: None };
    let mut plan = match &rule.reply {
        None => instead(script, &rule.fault, request, &scope)?,
        Some(reply) => speech(script, reply, &rule.fault, request, &scope)?,
    };
    let reply_headers = rule.reply.iter().flat_map(|reply| &reply.headers);
    for (name, template) in reply_headers.chain(&rule.fault.headers) {
        let value = template.render(&scope)?;
        if hyper::header::HeaderValue::from_str(&value).is_err() {
            return Err(Unfilled { hole: name.clone(), why: format!("{value:?} is no value of a header") });
        }
        set_header(&mut plan, name, value);
    }
    Ok(plan)
}

/// A fault that stands instead of a reply.
fn instead(script: &Script, fault: &Fault, request: &Conversation, scope: &Scope<'_>) -> Result<Plan, Unfilled> {
    let mut plan = if fault.html {
        Plan::of_body(
            200,
            "text/html; charset=utf-8",
            "<!doctype html><title>Sign in</title><h1>Sign in to continue</h1>\n",
        )
    } else if fault.empty_body {
        Plan { pieces: Vec::new(), ..Plan::of_body(200, "text/event-stream", "") }
    } else if fault.status.is_none() && fault.error.is_none() {
        Plan::never()
    } else if let Some(body) = &fault.body {
        Plan::of_body(fault.status.unwrap_or(400), "application/json", body.render(scope)?)
    } else {
        refusal_plan(request.wire, &refusal(fault, request, scope)?)
    };
    // Headers that never come are not waited for.
    plan.latency = plan.latency.map(|_| fault.latency.or(script.defaults.latency).unwrap_or_default().0);
    play::slow(&mut plan, fault);
    Ok(plan)
}

fn refusal(fault: &Fault, request: &Conversation, scope: &Scope<'_>) -> Result<Refusal, Unfilled> {
    let mut refusal = match (fault.error, fault.status) {
        (Some(preset), status) => {
            let preset = Refusal::of_preset(request.wire, preset, &request.model);
            Refusal { status: status.unwrap_or(preset.status), ..preset }
        }
        // An event in a stream needs no status: what overload looks like is the usual case.
        (None, status) => Refusal::of_status(request.wire, status.unwrap_or(529)),
    };
    if let Some(message) = &fault.message {
        refusal.message = message.render(scope)?;
    }
    Ok(refusal)
}

fn speech(
    script: &Script,
    reply: &Reply,
    fault: &Fault,
    request: &Conversation,
    scope: &Scope<'_>,
) -> Result<Plan, Unfilled> {
    let broken = match (fault.cut_arguments, fault.malformed_arguments) {
        (true, _) => Broken::Cut,
        (false, true) => Broken::Malformed,
        (false, false) => Broken::Whole,
    };
    let spoken = speak(reply, broken, request, scope.now)?;
    let created = scope.now as i64;
    let mut plan = if request.stream && !reply.whole {
        let chars = reply.chunk_chars.or(script.defaults.chunk_chars).map_or(CHUNK_CHARS, std::num::NonZero::get);
        let pause = reply.chunk_latency.or(script.defaults.chunk_latency).unwrap_or_default().0;
        let error = refusal(fault, request, scope)?.body(request.wire, &request_id(&spoken));
        streamed(&spoken, fault, request, created, chars, pause, &error)
    } else {
        let body = match request.wire {
            Wire::Openai => stream_openai::whole(&spoken, created),
            Wire::Anthropic => stream_anthropic::whole(&spoken),
        };
        let mut plan = Plan::of_body(200, "application/json", body.to_string());
        if fault.cut {
            for piece in &mut plan.pieces {
                piece.bytes.truncate(piece.bytes.len() / 2);
            }
            plan.end = End::Cut;
        }
        play::slow(&mut plan, fault);
        plan
    };
    plan.latency = Some(reply.latency.or(script.defaults.latency).unwrap_or_default().0);
    set_header(&mut plan, id_header(request.wire), request_id(&spoken));
    Ok(plan)
}

fn streamed(
    spoken: &Spoken,
    fault: &Fault,
    request: &Conversation,
    created: i64,
    chunk_chars: usize,
    pause: Duration,
    error: &Value,
) -> Plan {
    match request.wire {
        Wire::Openai => {
            let include_usage = request.include_usage;
            let shape = Shape { chunk_chars, include_usage, equal_index: fault.equal_index, created };
            let events = stream_openai::events(spoken, &shape);
            play::stream(events, fault, pause, ": ping\n\n", &stream_openai::error_event(error))
        }
        Wire::Anthropic => {
            let ping = stream_anthropic::event(&serde_json::json!({"type": "ping"}));
            play::stream(
                stream_anthropic::events(spoken, chunk_chars),
                fault,
                pause,
                &ping,
                &stream_anthropic::event(error),
            )
        }
    }
}

fn refusal_plan(wire: Wire, refusal: &Refusal) -> Plan {
    let id = format!("req_{}", super::conversation::digest(&[&refusal.message]));
    let mut plan = Plan::of_body(refusal.status, "application/json", refusal.body(wire, &id).to_string());
    set_header(&mut plan, id_header(wire), id);
    plan
}

fn id_header(wire: Wire) -> &'static str {
    match wire {
        Wire::Openai => "x-request-id",
        Wire::Anthropic => "request-id",
    }
}

fn request_id(spoken: &Spoken) -> String {
    format!("req_{}", spoken.id)
}

fn set_header(plan: &mut Plan, name: &str, value: String) {
    plan.headers.retain(|(of, _)| !of.eq_ignore_ascii_case(name));
    plan.headers.push((name.to_ascii_lowercase(), value));
}

/// The script is at fault: a 500 that says where.
fn broken_script(message: String) -> Refusal {
    Refusal { status: 500, kind: "script_error".to_owned(), ..Refusal::invalid(message) }
}

/// No retry would help, so this is no 5xx.
fn no_rule(request: &Conversation) -> Refusal {
    const SHOWN_CHARS_MAX: usize = 80;
    let shown = |text: &str| text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
    let message = format!(
        "no rule of the script fits this request: wire {}, model '{}', step {}, prompt '{}', it ends with '{}'; add a rule, \
         or one without `when` as the last",
        request.wire.name(),
        request.model,
        request.step(),
        shown(request.prompt()),
        shown(request.last_text()),
    );
    Refusal { status: 404, kind: "script_error".to_owned(), ..Refusal::invalid(message) }
}
