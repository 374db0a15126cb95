//! An answer that is an error, in each wire's own words.
//!
//! OpenAI: https://platform.openai.com/docs/guides/error-codes; Anthropic: https://platform.claude.com/docs/en/api/errors;
//! Gemini: https://ai.google.dev/gemini-api/docs/troubleshooting.

#![deny(clippy::disallowed_methods)]

mod gemini;

use serde_json::{Value, json};

use super::conversation::Wire;
use super::file::Preset;

pub use gemini::Quota;

#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub status: u16,
    pub kind: String,
    pub message: String,
    /// OpenAI alone has these two.
    pub param: Option<String>,
    pub code: Option<String>,
    /// Gemini alone: what stands beside the message, for programs.
    pub details: Box<[Value]>,
}

impl Refusal {
    /// A request that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal {
            status: 400,
            kind: "invalid_request_error".to_owned(),
            message: message.into(),
            param: None,
            code: None,
            details: Box::default(),
        }
    }

    pub fn with(mut self, detail: Value) -> Refusal {
        self.details = self.details.into_iter().chain([detail]).collect();
        self
    }

    /// Gemini's body for a spent minute.
    pub fn minute(counts: Quota, limit: u32, model: &str, seconds: u64) -> Refusal {
        gemini::minute(counts, limit, model, seconds)
    }

    /// The wait as Gemini names it, in the body; other wires have headers for it.
    pub fn retry_in(self, delay: &str) -> Refusal {
        self.with(gemini::retry_info(delay))
    }

    pub fn at(mut self, param: impl Into<String>) -> Refusal {
        self.param = Some(param.into());
        self
    }

    pub fn coded(mut self, code: &str) -> Refusal {
        self.code = Some(code.to_owned());
        self
    }

    /// What the real ones say with a status.
    pub fn of_status(wire: Wire, status: u16) -> Refusal {
        let (kind, code, message) = match (wire, status) {
            (Wire::Openai, 401) => ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided."),
            (Wire::Openai, 402) => ("insufficient_balance", None, "Insufficient Balance"),
            (Wire::Openai, 403) => ("permission_error", None, "You do not have access to this resource."),
            (Wire::Openai, 404) => (
                "invalid_request_error",
                Some("model_not_found"),
                "The model does not exist or you do not have access to it.",
            ),
            (Wire::Openai, 413) => ("invalid_request_error", None, "The request is too large."),
            (Wire::Openai, 429) => {
                ("requests", Some("rate_limit_exceeded"), "Rate limit reached. Please try again later.")
            }
            (Wire::Openai, 503 | 529) => {
                ("server_error", None, "The server is currently overloaded. Please try again later.")
            }
            (Wire::Openai, 500..) => ("server_error", None, "The server had an error while processing your request."),
            (Wire::Anthropic, 401) => ("authentication_error", None, "invalid x-api-key"),
            (Wire::Anthropic, 402) => ("billing_error", None, "There is an issue with your billing."),
            (Wire::Anthropic, 403) => {
                ("permission_error", None, "Your API key does not have permission to use the specified resource.")
            }
            (Wire::Anthropic, 404) => ("not_found_error", None, "The requested resource could not be found."),
            (Wire::Anthropic, 413) => ("request_too_large", None, "Request exceeds the maximum size"),
            (Wire::Anthropic, 429) => (
                "rate_limit_error",
                None,
                "This request would exceed your account's rate limit. Please try again later.",
            ),
            (Wire::Anthropic, 504) => ("timeout_error", None, "The request timed out."),
            (Wire::Anthropic, 529) => ("overloaded_error", None, "Overloaded"),
            (Wire::Anthropic, 500..) => ("api_error", None, "Internal server error"),
            (Wire::Gemini, status) => ("", None, gemini::message(status)),
            _ => ("invalid_request_error", None, "The request was refused."),
        };
        Refusal {
            status,
            kind: kind.to_owned(),
            message: message.to_owned(),
            param: None,
            code: code.map(str::to_owned),
            details: Box::default(),
        }
    }

    /// Not the 401 that one would think.
    pub fn bad_gemini_key() -> Refusal {
        Refusal::invalid("API key not valid. Please pass a valid API key.").with(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }))
    }

    pub fn of_preset(wire: Wire, preset: Preset, model: &str) -> Refusal {
        match (preset, wire) {
            (preset, Wire::Gemini) => gemini::of_preset(preset, model),
            (Preset::ContextOverflow, Wire::Openai) => Refusal::invalid(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 \
                 tokens. Please reduce the length of the messages.",
            )
            .at("messages")
            .coded("context_length_exceeded"),
            (Preset::ContextOverflow, Wire::Anthropic) => {
                Refusal::invalid("prompt is too long: 209152 tokens > 200000 maximum")
            }
            (Preset::Quota, Wire::Openai) => Refusal {
                kind: "insufficient_quota".to_owned(),
                message: "You exceeded your current quota, please check your plan and billing details.".to_owned(),
                ..Refusal::of_status(wire, 429)
            }
            .coded("insufficient_quota"),
            (Preset::Quota, Wire::Anthropic) => Refusal::invalid(
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade \
                 or purchase credits.",
            ),
            (Preset::ContentFilter, Wire::Openai) => Refusal::invalid(
                "The response was filtered due to the prompt triggering the content management policy.",
            )
            .at("prompt")
            .coded("content_filter"),
            (Preset::ContentFilter, Wire::Anthropic) => Refusal::invalid("Output blocked by content filtering policy"),
            (Preset::NoTools, Wire::Openai) => {
                Refusal { kind: "api_error".to_owned(), ..Refusal::invalid(format!("{model} does not support tools")) }
            }
            (Preset::NoTools, Wire::Anthropic) => {
                Refusal::invalid(format!("tools: '{model}' does not support tool use"))
            }
        }
    }

    pub fn body(&self, wire: Wire, request_id: &str) -> Value {
        match wire {
            Wire::Openai => json!({"error": {
                "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
            }}),
            Wire::Anthropic => json!({
                "type": "error",
                "error": {"type": self.kind, "message": self.message},
                "request_id": request_id,
            }),
            Wire::Gemini => gemini::body(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wire_has_its_own_words() {
        for (wire, refusal, part) in [
            (Wire::Openai, Refusal::of_status(Wire::Openai, 429), r#""code":"rate_limit_exceeded""#),
            (Wire::Anthropic, Refusal::of_status(Wire::Anthropic, 529), r#""type":"overloaded_error""#),
            (Wire::Anthropic, Refusal::of_status(Wire::Anthropic, 503), r#""type":"api_error""#),
            (
                Wire::Openai,
                Refusal::of_preset(Wire::Openai, Preset::ContextOverflow, "m"),
                r#""code":"context_length_exceeded""#,
            ),
            (
                Wire::Anthropic,
                Refusal::of_preset(Wire::Anthropic, Preset::ContextOverflow, "m"),
                "prompt is too long: 209152 tokens > 200000 maximum",
            ),
        ] {
            let body = refusal.body(wire, "req_1").to_string();
            assert!(body.contains(part), "{body}");
        }
    }

    #[test]
    fn gemini_names_the_status_and_puts_waits_and_quotas_into_details() {
        let of = |refusal: Refusal| refusal.body(Wire::Gemini, "")["error"].clone();
        for (status, word) in [
            (400, "INVALID_ARGUMENT"),
            (403, "PERMISSION_DENIED"),
            (404, "NOT_FOUND"),
            (429, "RESOURCE_EXHAUSTED"),
            (500, "INTERNAL"),
            (503, "UNAVAILABLE"),
            (504, "DEADLINE_EXCEEDED"),
        ] {
            let error = of(Refusal::of_status(Wire::Gemini, status));
            assert_eq!((&error["code"], &error["status"]), (&json!(status), &json!(word)));
            assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
            assert!(error.get("details").is_none(), "{error}");
        }
        let quota = of(Refusal::of_preset(Wire::Gemini, Preset::Quota, "m"));
        let id = quota.pointer("/details/0/violations/0/quotaId").and_then(Value::as_str).unwrap_or_default();
        assert!(id.contains("PerDay"), "{quota}");
        assert_eq!(quota.pointer("/details/2/retryDelay"), Some(&json!("36s")), "{quota}");
        let told = of(Refusal::of_status(Wire::Gemini, 503).retry_in("17s"));
        assert_eq!(told.pointer("/details/0/retryDelay"), Some(&json!("17s")), "{told}");
    }
}
