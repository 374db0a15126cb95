//! What a provider's error says of itself.
//!
//! A spent quota comes as 429, an overlong input as 400, 413, 429 or 500. Only phrases of which the meaning is certain
//! are looked for: a wrong guess costs a job (a limit taken for a refusal) or hours (a quota taken for a limit).

#![deny(clippy::disallowed_methods)]

use std::time::SystemTime;

use serde_json::Value;
use ukai_protocol::lease::{AnswerClass, Wait};

use super::told_wait;
use super::wire::clean;

/// What a provider's error says of itself.
#[derive(Default)]
pub(super) struct Told {
    kind: String,
    code: String,
    pub(super) message: String,
    /// When it may be asked again.
    pub(super) wait: Option<Wait>,
    /// Google's structured "not before" is among the details.
    has_retry_info: bool,
    /// MiniMax's own number, which stands by itself or behind the message.
    minimax: String,
    /// All of it in lower case, to look for phrases.
    all: String,
}

impl Told {
    /// Of a refusal's body, which may be anything. `now`: the provider's clock.
    pub(super) fn body(text: &str, now: SystemTime) -> Self {
        match clean::parse(text) {
            Ok(value) => Told::read(unwrapped(&value), now),
            Err(_) => {
                Told { message: text.to_owned(), wait: told_wait::wait(&Value::Null, text, now), ..Told::default() }
            }
        }
    }

    pub(super) fn read(error: &Value, now: SystemTime) -> Self {
        let word = |key: &str| match error.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let first = |keys: &[&str]| keys.iter().map(|key| word(key)).find(|text| !text.is_empty()).unwrap_or_default();
        let message = match (error, first(&["message", "status_msg", "detail", "msg"])) {
            (Value::String(text), _) => text.clone(),
            (_, message) if message.is_empty() => error.to_string(),
            (_, message) => message,
        };
        let own = word("status_code");
        Told {
            kind: first(&["type", "status"]),
            code: first(&["code", "status_code"]),
            wait: told_wait::wait(error, &message, now),
            has_retry_info: told_wait::has_retry_info(error),
            minimax: if own.is_empty() { number_behind(&message).to_owned() } else { own },
            message,
            all: error.to_string().to_lowercase(),
        }
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
        if self.says(NO_ENTRY) || (self.says(QUOTA) && !self.is_of_a_minute()) {
            return Some(AnswerClass::Closed);
        }
        self.by_code()
    }

    /// Inside an answer, the status that the error would have had stands in its code (Gemini, OpenRouter).
    pub(super) fn no_entry(&self) -> Option<AnswerClass> {
        matches!(self.code.as_str(), "401" | "402" | "403").then_some(AnswerClass::Closed)
    }

    /// Gemini says "exceeded your current quota" of a minute's quota too: it then names the minute, or when to come back.
    fn is_of_a_minute(&self) -> bool {
        let passes = self.says(&["perminute", "per minute"]) || self.has_retry_info;
        passes && !self.says(&["perday", "per day"]) && !self.says(SPENT)
    }

    fn by_code(&self) -> Option<AnswerClass> {
        let of = |table: &[(&str, AnswerClass)], code: &str| {
            table.iter().find(|(known, _)| *known == code).map(|(_, class)| *class)
        };
        of(MINIMAX, &self.minimax).or_else(|| of(CODES, &self.code)).or_else(|| of(CODES, &self.kind))
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
    "input token count exceeds",
    // DeepSeek, under a code that speaks of a quota.
    "input token exceed the limit",
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
    // Gemini.
    "function calling is not enabled for",
    "tool use with function calling is unsupported",
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

/// Said of a key or an account that only a person can mend, with another status than 401 or 403.
const NO_ENTRY: &[&str] = &[
    // Gemini, as 400.
    "api_key_invalid",
    "api key not valid",
    "api key expired",
    "user location is not supported",
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
    // Anthropic.
    "enforced_spend_limit_reached",
    // OpenRouter: the free models' day.
    "models-per-day",
    "free_tier_daily",
    // Moonshot: the day's tokens.
    "reached tpd rate limit",
    // Kimi, MiniMax and GLM: the hours of a plan.
    "usage limit exceeded",
    "usage limit reached",
    "reached your usage limit",
    // Gemini.
    "credits are depleted",
    "spending cap",
    "insufficient_g1_credits_balance",
];

/// Of the above, what no minute gives back.
const SPENT: &[&str] = &["credits are depleted", "spending cap", "insufficient_g1_credits_balance"];

/// Codes and types that mean one thing wherever they stand. GLM's numbers
/// (<https://docs.bigmodel.cn/cn/api/api-code>) come under `code`, and under `type` from its Anthropic endpoint.
const CODES: &[(&str, AnswerClass)] = &[
    // The model's machines are full, whoever asks: nothing of this account's limits.
    ("overloaded_error", AnswerClass::Unavailable),
    ("engine_overloaded_error", AnswerClass::Unavailable),
    ("1305", AnswerClass::Unavailable),
    ("1312", AnswerClass::Unavailable),
    // The account is locked, in debt or without a plan for the model.
    ("1110", AnswerClass::Closed),
    ("1111", AnswerClass::Closed),
    ("1112", AnswerClass::Closed),
    ("1113", AnswerClass::Closed),
    ("1121", AnswerClass::Closed),
    ("1309", AnswerClass::Closed),
    ("1311", AnswerClass::Closed),
    // The day's, a plan's five hours', the week's or the month's.
    ("1304", AnswerClass::Closed),
    ("1308", AnswerClass::Closed),
    ("1310", AnswerClass::Closed),
    ("1302", AnswerClass::RateLimited),
    ("1303", AnswerClass::RateLimited),
    ("1261", AnswerClass::ContextOverflow),
    ("1301", AnswerClass::Rejected),
    // Gemini's, of a request that would be refused again.
    ("MISSING_THOUGHT_SIGNATURE", AnswerClass::Rejected),
];

/// MiniMax's numbers (<https://platform.minimax.io/docs/api-reference/errorcode>): the status around them is 200 or 500.
const MINIMAX: &[(&str, AnswerClass)] = &[
    ("1002", AnswerClass::RateLimited),
    ("1039", AnswerClass::RateLimited),
    ("1041", AnswerClass::RateLimited),
    ("2045", AnswerClass::RateLimited),
    ("1004", AnswerClass::Closed),
    ("1008", AnswerClass::Closed),
    ("2049", AnswerClass::Closed),
    ("2056", AnswerClass::Closed),
    ("2061", AnswerClass::Closed),
    ("1026", AnswerClass::Rejected),
    ("1027", AnswerClass::Rejected),
    ("1042", AnswerClass::Rejected),
    ("2013", AnswerClass::Rejected),
];

/// The four digits of `insufficient balance (1008)`, where MiniMax writes its number on the other wires.
fn number_behind(message: &str) -> &str {
    let inner = message.trim_end().strip_suffix(')').and_then(|rest| rest.rsplit_once('(')).map(|(_, inner)| inner);
    inner.filter(|inner| inner.len() == 4 && inner.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or_default()
}

/// The error itself, out of what servers wrap it in: `{"error": …}`, `[{"error": …}]` (Gemini), `{"base_resp": …}`
/// (MiniMax).
fn unwrapped(value: &Value) -> &Value {
    let value = value.get(0).unwrap_or(value);
    let inner = |key: &str| value.get(key).filter(|error| !error.is_null());
    inner("error").or_else(|| inner("base_resp")).unwrap_or(value)
}
