//! From a request to the plan of its answer, and to what the record says of it: judge, then script, then faults.

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use serde_json::Value;

use super::conversation::{Conversation, Wire};
use super::file::{Fault, Preset, Reply, Rule, Script};
use super::place::{Form, Place};
use super::play::{self, End, Plan};
use super::refusal::Refusal;
use super::reply::{Broken, Scope, Spoken, estimated_tokens, speak};
use super::stream_openai::Shape;
use super::tally::Tally;
use super::template::Unfilled;
use super::{judge, stream_anthropic, stream_gemini, stream_openai};

/// Where neither rule nor defaults say: small enough for several pieces in a sentence.
const CHUNK_CHARS: usize = 16;

pub struct Asked<'a> {
    pub place: &'a Place,
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
#[derive(Default)]
pub struct Answer {
    pub plan: Plan,
    pub rule: Option<String>,
    pub step: Option<u64>,
    pub prompt: Option<String>,
    pub refused: Option<String>,
    /// Input and output, as the reply reports them or as they are estimated.
    pub tokens: u64,
}

pub fn answer(script: &Script, tally: &mut Tally, asked: &Asked<'_>, now: Moment) -> Answer {
    let input = estimated_tokens(asked.body.len());
    let body = match judge::judge(asked.place, script, asked.headers, asked.body) {
        Ok(body) => body,
        Err(refusal) => return Answer { tokens: input, ..Answer::refused(asked.place, &refusal) },
    };
    let request = Conversation::read(asked.place, asked.headers, &body, asked.body.len());
    let mut answer = match tally.choose(script, &request, now.instant) {
        Err(too_many) => Answer { tokens: input, ..Answer::refused(asked.place, &broken_script(too_many.to_string())) },
        Ok(None) => Answer { tokens: input, ..Answer::refused(asked.place, &no_rule(&request)) },
        Ok(Some(at)) => {
            let label = script.label(at);
            let mut answer = match perform(script, &script.rules[at], &request, now) {
                Ok((plan, tokens)) => Answer { plan, tokens: tokens.unwrap_or(input), ..Answer::default() },
                Err(unfilled) => {
                    let why = broken_script(format!("{label} of the script cannot be played: {unfilled}"));
                    Answer { tokens: input, ..Answer::refused(asked.place, &why) }
                }
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
    pub fn refused(place: &Place, refusal: &Refusal) -> Answer {
        let plan = refusal_plan(place.wire, place.form, refusal);
        Answer { plan, refused: Some(refusal.message.clone()), ..Answer::default() }
    }
}

fn perform(script: &Script, rule: &Rule, request: &Conversation, now: Moment) -> Result<(Plan, Option<u64>), Unfilled> {
    let scope = Scope { request, now: now.unix_seconds, item: None };
    let (mut plan, tokens) = match &rule.reply {
        None => (instead(script, &rule.fault, request, &scope)?, None),
        Some(reply) => {
            let (plan, tokens) = speech(script, reply, &rule.fault, request, &scope)?;
            (plan, Some(tokens))
        }
    };
    let reply_headers = rule.reply.iter().flat_map(|reply| &reply.headers);
    for (name, template) in reply_headers.chain(&rule.fault.headers) {
        let value = template.render(&scope)?;
        if hyper::header::HeaderValue::from_str(&value).is_err() {
            return Err(Unfilled { hole: name.clone(), why: format!("{value:?} is no value of a header") });
        }
        set_header(&mut plan, name, value);
    }
    Ok((plan, tokens))
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
    } else if request.wire == Wire::Gemini && fault.error == Some(Preset::ContentFilter) && fault.status.is_none() {
        let chunk = stream_gemini::blocked(&request.model, request.form, estimated_tokens(request.body_bytes));
        Plan::of_body(200, content_type(request.form), chunk)
    } else {
        refusal_plan(request.wire, Some(request.form), &refusal(fault, request, scope)?)
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
        (None, status) => Refusal::of_status(request.wire, status.unwrap_or(overloaded(request.wire))),
    };
    if let Some(message) = &fault.message {
        refusal.message = message.render(scope)?;
    }
    match &fault.retry_info {
        Some(delay) => Ok(refusal.retry_in(&delay.render(scope)?)),
        None => Ok(refusal),
    }
}

fn overloaded(wire: Wire) -> u16 {
    if wire == Wire::Gemini { 503 } else { 529 }
}

fn speech(
    script: &Script,
    reply: &Reply,
    fault: &Fault,
    request: &Conversation,
    scope: &Scope<'_>,
) -> Result<(Plan, u64), Unfilled> {
    let broken = match (fault.cut_arguments, fault.malformed_arguments) {
        (true, _) => Broken::Cut,
        (false, true) => Broken::Malformed,
        (false, false) => Broken::Whole,
    };
    let spoken = speak(reply, broken, request, scope.now)?;
    let created = scope.now as i64;
    let mut plan = if request.streams() && !reply.whole {
        let chars = reply.chunk_chars.or(script.defaults.chunk_chars).map_or(CHUNK_CHARS, std::num::NonZero::get);
        let pause = reply.chunk_latency.or(script.defaults.chunk_latency).unwrap_or_default().0;
        let error = refusal(fault, request, scope)?.body(request.wire, &request_id(&spoken));
        streamed(&spoken, fault, request, created, chars, pause, &error)
    } else {
        let body = match request.wire {
            Wire::Openai => stream_openai::whole(&spoken, created),
            Wire::Anthropic => stream_anthropic::whole(&spoken),
            Wire::Gemini => stream_gemini::whole(&spoken),
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
    if let Some(name) = id_header(request.wire) {
        set_header(&mut plan, name, request_id(&spoken));
    }
    Ok((plan, spoken.usage.input.saturating_add(spoken.usage.output)))
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
        Wire::Gemini => {
            let form = request.form;
            let ping = if form == Form::Array { "\n" } else { ": ping\n\n" };
            let events = stream_gemini::events(spoken, form, chunk_chars);
            let mut plan = play::stream(events, fault, pause, ping, &stream_gemini::event(form, error));
            set_header(&mut plan, "content-type", content_type(form).to_owned());
            plan
        }
    }
}

fn content_type(form: Form) -> &'static str {
    if form == Form::Events { "text/event-stream" } else { "application/json; charset=UTF-8" }
}

fn refusal_plan(wire: Wire, form: Option<Form>, refusal: &Refusal) -> Plan {
    let id = format!("req_{}", super::conversation::digest(&[&refusal.message]));
    let body = refusal.body(wire, &id);
    // Where an array was asked for, an error is the only element of one.
    let body = if form == Some(Form::Array) { serde_json::json!([body]) } else { body };
    let mut plan = Plan::of_body(refusal.status, "application/json", body.to_string());
    if let Some(name) = id_header(wire) {
        set_header(&mut plan, name, id);
    }
    plan
}

fn id_header(wire: Wire) -> Option<&'static str> {
    match wire {
        Wire::Openai => Some("x-request-id"),
        Wire::Anthropic => Some("request-id"),
        Wire::Gemini => None,
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant has no other beginning")]
mod tests {
    use super::*;

    fn check(rule: &str, latency_ms: Option<u64>) {
        let script = Script::parse(&format!("[defaults]\nlatency = '20ms'\n[[rule]]\n{rule}")).expect(rule);
        let place = Place { wire: Wire::Openai, model: None, form: None, key: None };
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        let body = br#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
        let asked = Asked { place: &place, headers: &headers, body };
        let now = Moment { instant: Instant::now(), unix_seconds: 0.0 };
        let answer = answer(&script, &mut Tally::default(), &asked, now);
        assert_eq!((answer.plan.latency, answer.refused), (latency_ms.map(Duration::from_millis), None), "{rule}");
    }

    #[test]
    fn what_stands_instead_of_a_reply_may_be_late_too() {
        check("reply = { text = 'x' }", Some(20));
        check("fault = { status = 429 }", Some(20));
        check("fault = { status = 429, latency = '500ms' }", Some(500));
        check("fault = { html = true, latency = '0s' }", Some(0));
        check("fault = { hang = 'before_headers' }", None);
    }
}
