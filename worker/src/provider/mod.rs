//! One attempt at one provider: one request out, one reply or one failure back.
//!
//! Nothing is tried again here, whatever happens: two retry loops multiply, and failures that a loop swallows never
//! reach the breaker. What a failure means is the router's business; this only tells it apart.

mod body;
pub mod classify;
mod mask;
mod masked;
pub mod retry_after;
pub mod script;
pub mod sse;
#[cfg(test)]
mod tests;
mod told;
mod told_wait;
pub mod wire;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use ukai_protocol::lease::{AnswerClass, Grant, LimitsSeen, Report, Wait};
use ukai_protocol::message::{Message, Usage};
use ukai_protocol::secret::fingerprint::Mask;

use crate::http::{Http, Post};
use body::Body;
use classify::{Clock, Failure};
use wire::{Assembler, Ids, Reply, Request};

const BYTES_PER_TOKEN: u64 = 4;

/// What is seen of a reply while it arrives. Provisional: the attempt may still fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// So many bytes came, comments and pings among them: a sign of life.
    Bytes(usize),
    Text(&'a str),
    /// The exchange itself, for who keeps evidence of it. No sign of life.
    Raw(Raw<'a>),
}

/// What went over the wire, as it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// The body of the request.
    Sent(&'a [u8]),
    Head {
        status: u16,
        headers: &'a HeaderMap,
    },
    /// One event of a stream.
    Event {
        name: &'a str,
        data: &'a str,
    },
    /// A body that is no stream: a whole reply, or a refusal.
    Body(&'a str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub reply: Reply,
    /// As reported, or estimated where the provider said nothing.
    pub usage: Usage,
    pub limits_seen: LimitsSeen,
    /// What is left of a "not before" that came with the reply: a bucket that it emptied.
    pub wait: Option<Wait>,
}

/// What the router is told of an attempt.
#[must_use]
pub fn report(grant: &Grant, result: &Result<Answered, Failure>) -> Report {
    let report = Report {
        lease: grant.lease,
        generation: grant.generation,
        account: grant.account.clone(),
        ..Report::default()
    };
    match result {
        Ok(answered) => Report {
            class: AnswerClass::Success,
            wait: answered.wait,
            limits_seen: answered.limits_seen,
            usage: Some(answered.usage),
            tools: (!answered.reply.calls.is_empty()).then_some(true),
            ..report
        },
        Err(failure) => Report {
            class: failure.class,
            wait: failure.wait,
            limits_seen: failure.limits_seen,
            usage: failure.spent,
            tools: (failure.class == AnswerClass::NoTools).then_some(false),
            signature: failure.signature.clone(),
            ..report
        },
    }
}

/// What the router is told of an answer of which only the head has come. The report of the attempt follows with the end
/// of the body; until then others would ask a provider that has already said when, and who is cancelled or killed
/// meanwhile would never say so. Its lease is none, since the attempt goes on: it binds the account by what was named.
#[must_use]
pub fn overheard(account: &str, headers: &HeaderMap, received_at: SystemTime) -> Option<Report> {
    let wait = retry_after::wait(headers, received_at)?;
    Some(Report { account: account.to_owned(), wait: Some(wait), ..Report::default() })
}

/// A provider may re-use ids between turns; in the conversation each stands once.
#[must_use]
pub fn used_ids(messages: &[Arc<Message>]) -> HashSet<&str> {
    let calls = messages.iter().flat_map(|message| match &**message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::User { .. } | Message::Result { .. } => &[],
    });
    calls.map(|call| call.id.as_str()).collect()
}

/// Asks once. `used`: the ids of all calls in the conversation; `secrets`: what nothing that comes back may hold.
/// Cancelling drops the connection.
pub async fn attempt<F>(
    http: &Http,
    grant: &Grant,
    request: Request<'_>,
    used: &HashSet<&str>,
    secrets: &Mask,
    on_progress: F,
    cancel: CancellationToken,
) -> Result<Answered, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let key = grant.key.as_ref().map(|key| key.expose());
    let asked = ask(http, grant, &request, used, secrets, on_progress);
    match cancel.run_until_cancelled(asked).await {
        Some(Ok(mut answered)) => {
            masked::mask_reply(&mut answered.reply, secrets);
            Ok(answered)
        }
        Some(Err(failure)) => Err(failure.without(key).masked(secrets)),
        None => Err(Failure::withdrawn()),
    }
}

async fn ask<F>(
    http: &Http,
    grant: &Grant,
    request: &Request<'_>,
    used: &HashSet<&str>,
    secrets: &Mask,
    mut on_progress: F,
) -> Result<Answered, Failure>
where
    F: FnMut(Progress<'_>) + Send,
{
    let url = wire::url(grant.wire, &grant.url, request.model);
    let headers = wire::headers(grant.wire, grant.key.as_ref())
        .map_err(|error| Failure::closed("request:key", &error.to_string()))?;
    let body = wire::body(grant.wire, request, &grant.provider, &url)
        .map_err(|error| Failure::internal(&format!("the request could not be written: {error}")))?;
    let sent = body.len() as u64;
    on_progress(Progress::Raw(Raw::Sent(&body)));

    let first_content = Duration::from_millis(grant.timeouts.first_content_ms);
    let deadline = Instant::now() + first_content;
    let connect_timeout = Duration::from_millis(grant.timeouts.connect_ms);
    let post = Post { url: &url, headers, body: body.into(), connect_timeout };
    let mut answer = match timeout_at(deadline, http.post(post)).await {
        Ok(answer) => answer.map_err(|error| Failure::transport(&error, connect_timeout))?,
        Err(_) => return Err(Failure::timed_out(Clock::FirstContent, first_content)),
    };
    let (received_at, head_at) = (SystemTime::now(), Instant::now());
    let answer_headers = answer.headers.clone();
    let clock = retry_after::clock(&answer_headers, received_at);
    let named = retry_after::wait(&answer_headers, received_at);
    // A body may take minutes: what the head named is counted from the head.
    let left = || named.and_then(|wait| retry_after::left(wait, head_at.elapsed()));
    let told = |failure| classify::with_headers(failure, &answer_headers, left());
    on_progress(Progress::Raw(Raw::Head { status: answer.status, headers: &answer_headers }));

    if answer.status != 200 {
        let body = body::refusal(&mut answer).await;
        on_progress(Progress::Raw(Raw::Body(&body)));
        return Err(told(classify::refused(answer.status, &answer_headers, &secrets.masked(&body), clock)));
    }
    let idle = Duration::from_millis(grant.timeouts.idle_ms);
    let mut body = Body::new(answer, clock, deadline, first_content, idle, secrets);
    let assembler = match body.read(Assembler::new(grant.wire), &mut on_progress).await {
        Ok(assembler) => assembler,
        Err(failure) => return Err(Failure { spent: spent(sent, body.came()), ..told(failure) }),
    };
    let mut fresh = || uuid::Uuid::new_v4().to_string();
    let reply = assembler
        .finish(&grant.provider, &mut Ids::new(used, &mut fresh))
        .map_err(|trouble| Failure { spent: spent(sent, body.came()), ..told(body.trouble(&trouble)) })?;
    let usage = reply.usage.or_estimated(sent.div_ceil(BYTES_PER_TOKEN), reply.bytes.div_ceil(BYTES_PER_TOKEN));
    Ok(Answered { reply, usage, limits_seen: retry_after::limits_seen(&answer_headers), wait: left() })
}

/// For a reply that had begun and did not end: its usage would have come last.
fn spent(sent: u64, came: u64) -> Option<Usage> {
    let usage = Usage {
        input: sent.div_ceil(BYTES_PER_TOKEN),
        cached: 0,
        output: came.div_ceil(BYTES_PER_TOKEN),
        estimated: true,
    };
    (came > 0).then_some(usage)
}
