//! Gemini's errors: a status word of its own, and details that say which quota and how long.
//!
//! What it sends for a spent day has a `RetryInfo` of some seconds beside it, as reported for instance in
//! https://github.com/diegosouzapw/OmniRoute/issues/9504: who believes only that asks all day long.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};

use super::super::file::Preset;
use super::Refusal;

const METRICS: &str = "generativelanguage.googleapis.com";

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    Requests,
    Tokens,
}

pub fn message(status: u16) -> &'static str {
    match status {
        401 => {
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid \
             authentication credential."
        }
        402 => "Please enable billing on your project in Google AI Studio.",
        403 => "The caller does not have permission",
        404 => "The model is not found for API version v1beta, or is not supported for generateContent.",
        413 => "Request payload size exceeds the limit: 20971520 bytes.",
        429 => "Resource has been exhausted (e.g. check quota).",
        503 | 529 => "The model is overloaded. Please try again later.",
        504 => "Deadline expired before operation could complete.",
        500.. => "An internal error has occurred. Please retry.",
        _ => "Request contains an invalid argument.",
    }
}

fn word(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 => "UNIMPLEMENTED",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

pub fn body(refusal: &Refusal) -> Value {
    let mut error = json!({"code": refusal.status, "message": refusal.message, "status": word(refusal.status)});
    if !refusal.details.is_empty() {
        error["details"] = json!(refusal.details);
    }
    json!({"error": error})
}

pub fn of_preset(preset: Preset, model: &str) -> Refusal {
    match preset {
        Preset::ContextOverflow => {
            Refusal::invalid("The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).")
        }
        Preset::Quota => {
            let id = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
            spent(Quota::Requests, id, 20, model, "36.429760048s", "36s")
        }
        Preset::ContentFilter => Refusal::invalid("The prompt was blocked: PROHIBITED_CONTENT"),
        Preset::NoTools => Refusal::invalid(format!("Function calling is not enabled for models/{model}")),
    }
}

/// The limit of a minute, as `[rate]` plays it.
pub fn minute(counts: Quota, limit: u32, model: &str, seconds: u64) -> Refusal {
    let id = match counts {
        Quota::Requests => "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
        Quota::Tokens => "GenerateContentInputTokensPerModelPerMinute-FreeTier",
    };
    let delay = format!("{seconds}s");
    spent(counts, id, limit, model, &delay, &delay)
}

fn spent(counts: Quota, id: &str, limit: u32, model: &str, in_words: &str, delay: &str) -> Refusal {
    let metric = match counts {
        Quota::Requests => format!("{METRICS}/generate_content_free_tier_requests"),
        Quota::Tokens => format!("{METRICS}/generate_content_free_tier_input_token_count"),
    };
    let message = format!(
        "You exceeded your current quota, please check your plan and billing details. For more information on this error, \
         head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: {metric}, limit: {limit}, \
         model: {model}\nPlease retry in {in_words}."
    );
    let violation = json!({
        "quotaMetric": metric,
        "quotaId": id,
        "quotaDimensions": {"location": "global", "model": model},
        "quotaValue": limit.to_string(),
    });
    Refusal { status: 429, ..Refusal::invalid(message) }
        .with(json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}))
        .with(json!({"@type": "type.googleapis.com/google.rpc.Help", "links": [{
            "description": "Learn more about Gemini API quotas",
            "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
        }]}))
        .with(retry_info(delay))
}

pub fn retry_info(delay: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
}
