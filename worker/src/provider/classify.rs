//! What an answer means to the router: the table of spec §5.
//!
//! The status decides, except where the body is known to say something else (see `told`).

#![deny(clippy::disallowed_methods)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use ukai_protocol::job::CauseKind;
use ukai_protocol::lease::{AnswerClass, LimitsSeen, STALE, Wait};
use ukai_protocol::message::Usage;
use ukai_protocol::secret::fingerprint::Mask;

use super::mask::{self, CUT};
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
            Fault::Stale => (AnswerClass::Withdrawn, STALE),
            Fault::Invalid => (AnswerClass::Rejected, "request:invalid"),
        };
        Failure::new(class, signature, &error.detail)
    }

    /// It cannot even be asked until a person has corrected something.
    #[must_use]
    pub fn closed(signature: &str, detail: &str) -> Self {
        Failure::new(AnswerClass::Closed, signature, detail)
    }

    /// A 200 whose content is no reply. `now`: the provider's clock.
    #[must_use]
    pub fn trouble(trouble: &Trouble, now: SystemTime) -> Self {
        let detail = trouble.to_string();
        match trouble {
            Trouble::Told(error) => {
                let told = Told::read(error, now);
                // A limit that is told inside an answer is an error inside an answer (the table's row for it), with the
                // wait that it names.
                let meaning = told.meaning().filter(|class| *class != AnswerClass::RateLimited);
                let class = meaning.or(told.no_entry()).unwrap_or(AnswerClass::Unavailable);
                let failure = Failure::new(class, &told.signature("stream"), &format!("{detail}: {}", told.message));
                failure.waiting(told.wait)
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

    /// Adds a "not before" that stood in the body. An answer about the request itself names none: what looks like one
    /// there may be a quotation of it.
    fn waiting(self, wait: Option<Wait>) -> Self {
        let is_about_the_provider =
            matches!(self.class, AnswerClass::RateLimited | AnswerClass::Unavailable | AnswerClass::Closed);
        Failure {
            wait: retry_after::latest(self.wait.into_iter().chain(wait.filter(|_| is_about_the_provider))),
            ..self
        }
    }

    /// The key, where the provider or a library repeated it, is masked; what of it was left where a text was cut, too.
    #[must_use]
    pub fn without(mut self, key: Option<&str>) -> Self {
        if let Some(key) = key {
            let is_cut = self.detail.ends_with(CUT);
            self.detail = mask::masked(&self.detail, key, is_cut);
            let is_cut = self.signature.chars().count() == SIGNATURE_CHARS_MAX;
            self.signature = mask::masked(&self.signature, key, is_cut);
        }
        self
    }

    /// Any other secret, where it stands whole.
    #[must_use]
    pub fn masked(mut self, secrets: &Mask) -> Self {
        secrets.mask(&mut self.detail);
        secrets.mask(&mut self.signature);
        self
    }
}

/// An answer whose status is not 200, without what its headers say of waiting. `now`: the provider's clock.
#[must_use]
pub fn refused(status: u16, headers: &HeaderMap, body: &str, now: SystemTime) -> Failure {
    let told = Told::body(body, now);
    let class = told.meaning().filter(|_| status >= 400).unwrap_or(match status {
        429 => AnswerClass::RateLimited,
        401..=403 => AnswerClass::Closed,
        413 => AnswerClass::ContextOverflow,
        // 499: Google's, for a call that was given up on its side.
        408 | 499 | 500.. => AnswerClass::Unavailable,
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
    Failure::new(class, &told.signature(&format!("http:{status}")), &detail).waiting(told.wait)
}

/// Adds what the headers say, whatever the status: the later of what is left of their "not before" and the body's, which
/// was read only now.
#[must_use]
pub fn with_headers(failure: Failure, headers: &HeaderMap, left: Option<Wait>) -> Failure {
    let waits = failure.wait.into_iter().chain(left);
    Failure { wait: retry_after::latest(waits), limits_seen: retry_after::limits_seen(headers), ..failure }
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
            shown.push(CUT);
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
mod tests;
