//! What a provider's error says of itself.
//!
//! A spent quota comes as 429, an overlong input as 400, 413, 429 or 500. Only phrases of which the meaning is certain
//! are looked for: a wrong guess costs a job (a limit taken for a refusal) or hours (a quota taken for a limit).

#![deny(clippy::disallowed_methods)]

use serde_json::Value;
use ukai_protocol::lease::AnswerClass;

use super::wire::clean;

/// What a provider's error says of itself.
#[derive(Default)]
pub(super) struct Told {
    kind: String,
    code: String,
    pub(super) message: String,
    /// All of it in lower case, to look for phrases.
    all: String,
}

impl Told {
    /// Of a refusal's body, which may be anything.
    pub(super) fn body(text: &str) -> Self {
        match clean::parse(text) {
            Ok(value) => Told::read(unwrapped(&value)),
            Err(_) => Told { message: text.to_owned(), ..Told::default() },
        }
    }

    pub(super) fn read(error: &Value) -> Self {
        let word = |key: &str| match error.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "status_msg", "detail", "msg"]
                .map(word)
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_else(|| error.to_string()),
        };
        let kind = [word("type"), word("status")].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let code = [word("code"), word("status_code")].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        Told { kind, code, message, all: error.to_string().to_lowercase() }
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase) || self.all.contains(phrase))
    }

    /// What the body means whatever the status is; `None`: the status knows better.
    pub(super) fn meaning(&self) -> Option<AnswerClass> {
        if self.says(OVERFLOW) {
            return Some(AnswerClass::ContextOverflow);
        }
        if self.says(NO_TOOLS) {
            return Some(AnswerClass::NoTools);
        }
        if self.says(FILTER) {
            return Some(AnswerClass::Rejected);
        }
        // Gemini says "exceeded your current quota" of a minute's quota too, and names the minute.
        let of_a_minute = self.says(&["perminute", "per minute"]) && !self.says(&["perday", "per day"]);
        (self.says(QUOTA) && !of_a_minute).then_some(AnswerClass::Closed)
    }

    /// Codes only: a message may quote the conversation.
    pub(super) fn signature(&self, place: &str) -> String {
        let mut signature = place.to_owned();
        for (name, word) in [("type", &self.kind), ("code", &self.code)] {
            let is_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if !word.is_empty() && word.len() <= 64 && word.chars().all(is_code) {
                signature.push_str(&format!(" {name}={word}"));
            }
        }
        signature
    }
}

/// The input is too long, as each provider says it. Bedrock's "too many tokens" is a rate limit and not here.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "context window exceeds",
    "context_window_exceeded",
    "context length exceeded",
    "exceeds the context length",
    "greater than the context length",
    "exceeds the model's context",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    // llama.cpp.
    "exceed_context_size_error",
    "exceeds the available context size",
    // Gemini.
    "exceeds the maximum number of tokens allowed",
    // Groq; OpenAI where a request can never fit into a minute's tokens.
    "reduce the length of the messages",
    "must be reduced in order to run successfully",
    "reduce your message size",
    // Bedrock, xAI, Moonshot, GLM, DashScope.
    "input is too long for requested model",
    "maximum prompt length is",
    "exceeded model token limit",
    "prompt exceeds max length",
    "range of input length should be",
];

/// The model cannot be given tools at all.
const NO_TOOLS: &[&str] = &[
    // Ollama, and others after it.
    "does not support tools",
    "does not support tool use",
    "does not support tool calling",
    "does not support function calling",
    // OpenRouter.
    "no endpoints found that support tool use",
    // vLLM, started without a parser for tools.
    "tool choice requires --enable-auto-tool-choice",
];

const FILTER: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "content filtering policy",
    "responsibleaipolicyviolation",
    "flagged_input",
];

/// Money or a long quota is spent: asking again brings nothing until somebody or a date changes it.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded_current_quota",
    "exceeded your current quota",
    "billing_hard_limit",
    "billing_not_active",
    "billing_error",
    "check your plan and billing",
    "credit balance is too low",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credits",
    "insufficient funds",
    "payment required",
    "account is not active",
    "余额不足",
    "perday",
    "daily quota",
    "daily limit",
    "monthly quota",
    "monthly usage limit",
    "monthly limit",
    "weekly limit",
    "specified api usage limits",
];

/// The error itself, out of what servers wrap it in: `{"error": …}`, `[{"error": …}]` (Gemini).
fn unwrapped(value: &Value) -> &Value {
    let value = value.get(0).unwrap_or(value);
    value.get("error").filter(|error| !error.is_null()).unwrap_or(value)
}
