//! What an answer means to the router: the table of spec §5.
//!
//! The status decides, except where the body is known to say something else (see `told`).

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use http::{HeaderMap, header};
use ukai_protocol::job::CauseKind;
use ukai_protocol::lease::{AnswerClass, LimitsSeen, Wait};
use ukai_protocol::message::Usage;

use super::retry_after;
use super::told::Told;
use super::wire::Trouble;
use crate::http::{Fault, TransportError};

/// For a log line and an alert; providers echo whole requests.
pub const DETAIL_CHARS_MAX: usize = 500;
/// A signature names codes, no prose.
const SIGNATURE_CHARS_MAX: usize = 120;

/// One attempt that brought no reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What the lease's report says.
    pub class: AnswerClass,
    pub wait: Option<Wait>,
    pub limits_seen: LimitsSeen,
    /// What a reply that broke off is estimated to have taken: a provider charges for that too.
    pub spent: Option<Usage>,
    /// The job ends with this, whatever the router would do; the class is then about the provider alone.
    pub fatal: Option<CauseKind>,
    /// For a person: bounded, without control characters, without the key.
    pub detail: String,
    /// Enough to tell failures apart and to shape a probe by; codes only, no text of the conversation.
    pub signature: String,
}

/// Which of the clocks ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Connect,
    FirstContent,
    Idle,
    /// Of a probe as a whole.
    Probe,
}

impl Failure {
    fn new(class: AnswerClass, signature: &str, detail: &str) -> Self {
        Failure {
            class,
            wait: None,
            limits_seen: LimitsSeen::default(),
            spent: None,
            fatal: None,
            detail: shown(detail),
            signature: signature.chars().take(SIGNATURE_CHARS_MAX).collect(),
        }
    }

    /// Given up by us: neither success nor failure.
    #[must_use]
    pub fn withdrawn() -> Self {
        Failure::new(AnswerClass::Withdrawn, "cancelled", "the attempt was cancelled")
    }

    #[must_use]
    pub fn timed_out(clock: Clock, after: Duration) -> Self {
        let (signature, what) = match clock {
            Clock::Connect => ("timeout:connect", "no connection"),
            Clock::FirstContent => ("timeout:first_content", "no content"),
            Clock::Idle => ("timeout:idle", "not a byte more"),
            Clock::Probe => ("timeout:probe", "no whole answer"),
        };
        Failure::new(AnswerClass::Timeout, signature, &format!("{what} within {:.1} s", after.as_secs_f64()))
    }

    #[must_use]
    pub fn transport(error: &TransportError, connect_timeout: Duration) -> Self {
        let (class, signature) = match error.fault {
            Fault::ConnectTimeout => return Failure::timed_out(Clock::Connect, connect_timeout),
            Fault::Refused => (AnswerClass::Unavailable, "refused"),
            Fault::Reset => (AnswerClass::Unavailable, "reset"),
            Fault::Dns => (AnswerClass::Unavailable, "dns"),
            Fault::Tls => (AnswerClass::Unavailable, "tls"),
            Fault::Broken => (AnswerClass::Unavailable, "stream:broken"),
            // Nobody failed: the attempt is owed a connection, and goes back to the router for a new lease.
            Fault::Stale => (AnswerClass::Withdrawn, "stale"),
            Fault::Invalid => (AnswerClass::Rejected, "request:invalid"),
        };
        Failure::new(class, signature, &error.detail)
    }

    /// It cannot even be asked until a person has corrected something.
    #[must_use]
    pub fn closed(signature: &str, detail: &str) -> Self {
        Failure::new(AnswerClass::Closed, signature, detail)
    }

    /// A 200 whose content is no reply.
    #[must_use]
    pub fn trouble(trouble: &Trouble) -> Self {
        let detail = trouble.to_string();
        match trouble {
            Trouble::Told(error) => {
                let told = Told::read(error);
                let class = told.meaning().unwrap_or(AnswerClass::Unavailable);
                Failure::new(class, &told.signature("stream"), &format!("{detail}: {}", told.message))
            }
            Trouble::Filtered => Failure::new(AnswerClass::Rejected, "stream:filter", &detail),
            Trouble::Cut => Failure::new(AnswerClass::Unavailable, "stream:cut", &detail),
            Trouble::Unreadable(_) => Failure::new(AnswerClass::Unavailable, "stream:unreadable", &detail),
            Trouble::TooLarge(_) => Failure::new(AnswerClass::Unavailable, "stream:too_large", &detail),
            Trouble::TooManyCalls => Failure::new(AnswerClass::Unavailable, "stream:too_many_calls", &detail),
            // The provider did its part: the reply is whole, and no job can use it.
            Trouble::Depth { .. } => {
                let failure = Failure::new(AnswerClass::Success, "stream:depth", &detail);
                Failure { fatal: Some(CauseKind::Depth), ..failure }
            }
        }
    }

    /// A 200 that is neither a stream nor a reply.
    #[must_use]
    pub fn no_stream(content_type: &str) -> Self {
        let detail = format!("answered 200 with no reply in it (content-type `{content_type}`): is `base_url` an API?");
        Failure::new(AnswerClass::Unavailable, "stream:none", &detail)
    }

    /// A 200 in a coding that was not asked for.
    #[must_use]
    pub fn encoded(encoding: &str) -> Self {
        let detail = format!("answered in content-encoding `{encoding}` though plain text was asked for");
        Failure::new(AnswerClass::Unavailable, "stream:encoded", &detail)
    }

    /// An internal failure to make the request; no provider is to blame.
    #[must_use]
    pub fn internal(detail: &str) -> Self {
        Failure { fatal: Some(CauseKind::Internal), ..Failure::new(AnswerClass::Withdrawn, "internal", detail) }
    }

    /// The key, where the provider or a library repeated it, is masked.
    #[must_use]
    pub fn without(mut self, key: Option<&str>) -> Self {
        if let Some(key) = key.map(str::trim).filter(|key| !key.is_empty()) {
            self.detail = self.detail.replace(key, "[key]");
            self.signature = self.signature.replace(key, "[key]");
        }
        self
    }
}

/// An answer whose status is not 200.
#[must_use]
pub fn refused(status: u16, headers: &HeaderMap, body: &str) -> Failure {
    let told = Told::body(body);
    let class = told.meaning().filter(|_| status >= 400).unwrap_or(match status {
        429 => AnswerClass::RateLimited,
        401..=403 => AnswerClass::Closed,
        413 => AnswerClass::ContextOverflow,
        408 | 500.. => AnswerClass::Unavailable,
        400..=499 => AnswerClass::Rejected,
        // Not an answer of an API: what stands in between may be gone in a minute.
        _ => AnswerClass::Unavailable,
    });
    let mut detail = format!("HTTP {status}");
    if let Some(host) = redirected(status, headers) {
        detail.push_str(&format!(" to `{host}`, which is not followed: correct `base_url` if that is the place"));
    }
    if !told.message.trim().is_empty() {
        detail.push_str(": ");
        detail.push_str(&told.message);
    }
    Failure::new(class, &told.signature(&format!("http:{status}")), &detail)
}

/// Adds what the headers say, whatever the status.
#[must_use]
pub fn with_headers(failure: Failure, headers: &HeaderMap, received_at: std::time::SystemTime) -> Failure {
    Failure { wait: retry_after::wait(headers, received_at), limits_seen: retry_after::limits_seen(headers), ..failure }
}

fn redirected(status: u16, headers: &HeaderMap) -> Option<&str> {
    let location = headers.get(header::LOCATION).filter(|_| (300..400).contains(&status))?.to_str().ok()?;
    Some(location.split("://").nth(1).unwrap_or(location).split(['/', '?']).next().unwrap_or_default())
}

/// One line of at most [`DETAIL_CHARS_MAX`] characters, without anything that a terminal or a page would obey.
fn shown(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c });
    let mut shown = String::new();
    for (count, c) in one_line.enumerate() {
        if count == DETAIL_CHARS_MAX {
            shown.push('…');
            break;
        }
        if c != ' ' || !shown.ends_with(' ') {
            shown.push(c);
        }
    }
    shown.trim().to_owned()
}

/// Marks that turn the direction of text or hide in it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(quirk: &str, status: u16, body: &str, expected: AnswerClass) {
        let failure = refused(status, &HeaderMap::new(), body);
        assert_eq!(failure.class, expected, "{quirk}: {failure:?}");
    }

    #[test]
    fn the_status_decides() {
        use AnswerClass::*;
        for status in [408, 500, 501, 502, 503, 504, 520, 529] {
            check("unavailable", status, "", Unavailable);
        }
        for status in [401, 402, 403] {
            check("closed", status, "", Closed);
        }
        for status in [400, 404, 405, 409, 410, 415, 418, 422, 451] {
            check("rejected", status, "", Rejected);
        }
        check("limited", 429, "", RateLimited);
        check("too large", 413, "", ContextOverflow);
        for status in [301, 302, 307, 308, 304, 204, 206] {
            check("no answer of an API", status, "", Unavailable);
        }
    }

    #[test]
    fn the_body_knows_better() {
        use AnswerClass::*;
        #[rustfmt::skip]
        let cases = [
            ("OpenAI: too long", 400, r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#, ContextOverflow),
            ("Anthropic: too long", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#, ContextOverflow),
            ("Anthropic: input and output", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000"}}"#, ContextOverflow),
            ("llama.cpp: too long", 400, r#"{"error":{"code":400,"message":"request (4476 tokens) exceeds the available context size (4096 tokens)","type":"exceed_context_size_error"}}"#, ContextOverflow),
            ("a gateway wraps it as 500", 500, r#"{"error":{"message":"litellm: prompt is too long"}}"#, ContextOverflow),
            ("OpenAI: can never fit into a minute", 429, r#"{"error":{"message":"Request too large for gpt-4o: Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#, ContextOverflow),
            ("OpenAI: quota", 429, r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#, Closed),
            ("OpenAI: a limit that passes", 429, r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}"#, RateLimited),
            ("Anthropic: a limit that passes", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}"#, RateLimited),
            ("Anthropic: no money, as 400", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#, Closed),
            ("GLM: no money, as 429", 429, r#"{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}"#, Closed),
            ("Moonshot: quota", 429, r#"{"error":{"type":"exceeded_current_quota_error","message":"suspended"}}"#, Closed),
            ("Gemini: a day's quota, in a list", 429, r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}]"#, Closed),
            ("Gemini: a minute's quota", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]}]}}"#, RateLimited),
            ("Azure: content filter", 400, r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#, Rejected),
            ("a forbidden filter is no key problem", 403, r#"{"error":{"code":403,"message":"requires moderation","metadata":{"flagged_input":"x"}}}"#, Rejected),
            ("Ollama: no tools", 400, r#"{"error":{"message":"registry.ollama.ai/library/gemma3:4b does not support tools","type":"api_error"}}"#, NoTools),
            ("OpenRouter: no tools", 404, r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: x","code":404}}"#, NoTools),
            ("vLLM: no tools", 400, r#"{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}}"#, NoTools),
            ("no such model", 404, r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#, Rejected),
            ("wrong key", 401, r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#, Closed),
            ("overloaded", 529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Unavailable),
            ("a page of a proxy", 502, "<html>Bad Gateway</html>", Unavailable),
            ("Bedrock's throttle is no overflow", 429, r#"{"message":"Too many tokens, please wait before trying again."}"#, RateLimited),
        ];
        for (quirk, status, body, expected) in cases {
            check(quirk, status, body, expected);
        }
    }

    #[test]
    fn an_error_inside_a_stream() {
        use AnswerClass::*;
        for (quirk, error, expected) in [
            ("overloaded", serde_json::json!({"type": "overloaded_error", "message": "Overloaded"}), Unavailable),
            ("limited", serde_json::json!({"type": "rate_limit_error", "message": "slow down"}), Unavailable),
            (
                "too long",
                serde_json::json!({"type": "invalid_request_error", "message": "prompt is too long"}),
                ContextOverflow,
            ),
            ("no money", serde_json::json!({"code": "insufficient_quota"}), Closed),
            ("MiniMax", serde_json::json!({"status_code": 1008, "status_msg": "insufficient balance"}), Closed),
            ("a bare text", serde_json::json!("boom"), Unavailable),
        ] {
            let failure = Failure::trouble(&Trouble::Told(error));
            assert_eq!(failure.class, expected, "{quirk}: {failure:?}");
        }
        let depth = Failure::trouble(&Trouble::Depth { tool: "Read".into(), depth: 33 });
        assert_eq!((depth.class, depth.fatal), (Success, Some(CauseKind::Depth)));
    }

    #[test]
    fn detail_and_signature_are_fit_to_be_shown() {
        let body = format!(
            r#"{{"error":{{"type":"x_error","code":"say hello","message":"key sk-secret-1 \u001b[31mred\n{}"}}}}"#,
            "y".repeat(5_000)
        );
        let failure = refused(400, &HeaderMap::new(), &body).without(Some("sk-secret-1"));
        assert!(!failure.detail.contains("sk-secret-1") && failure.detail.contains("[key]"), "{}", failure.detail);
        assert!(failure.detail.starts_with("HTTP 400: key"), "{}", failure.detail);
        assert!(failure.detail.chars().all(|c| !c.is_control()) && failure.detail.chars().count() < 600);
        assert_eq!(failure.signature, "http:400 type=x_error", "a code of two words is prose");
    }

    #[test]
    fn a_redirect_names_the_host_and_nothing_more() {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, http::HeaderValue::from_static("https://other.example/login?token=abc"));
        let detail = refused(302, &headers, "").detail;
        assert!(detail.contains("`other.example`") && !detail.contains("abc"), "{detail}");
    }
}
