//! The JSON that leaves `ukai` (spec §13, §14). Fixed: others parse it. Fields of features to come are there already,
//! as null or empty, so that their arrival breaks nobody.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use ukai_protocol::control::{DeniedCall, Happened, JobResult, JobRow};
use ukai_protocol::event::{Event, FileChange};
use ukai_protocol::id::{BatchId, JobId};
use ukai_protocol::job::{JobStatus, Outcome, Used};
use ukai_protocol::json::Json;
use ukai_protocol::policy::Source;
use ukai_protocol::run_state::OpenAsk;

use super::follow::Batch;
use super::tally::Tally;
use super::worktree::Shown;

/// Of a record, as in the log.
const RECORD_VERSION: u32 = 1;

#[derive(Serialize)]
struct Cause<'a> {
    kind: String,
    detail: &'a str,
}

#[derive(Serialize)]
struct Tokens {
    input: u64,
    output: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    job_id: &'a JobId,
    name: &'a str,
    batch: Option<&'a str>,
    status: JobStatus,
    reason: Option<String>,
    cause: Option<Cause<'a>>,
    attention: bool,
    steps: u64,
    tool_calls: u64,
    tokens: Tokens,
    restarts: u32,
    provider: Option<&'a str>,
    asks: Vec<AskLine<'a>>,
}

/// A call that was not carried out, in the words of the contract.
#[derive(Serialize)]
struct DeniedLine<'a> {
    tool: &'a str,
    input: &'a Json,
    source: &'a Source,
}

impl<'a> DeniedLine<'a> {
    fn of(denied: &'a DeniedCall) -> Self {
        DeniedLine { tool: &denied.tool, input: &denied.input, source: &denied.source }
    }
}

/// What waits for a person.
#[derive(Serialize)]
struct AskLine<'a> {
    ask_id: String,
    tool: &'a str,
    input: &'a Json,
    rule: Option<&'a str>,
    /// RFC 3339: no answer until then is a no.
    deadline: String,
}

fn asks(row: &JobRow) -> Vec<AskLine<'_>> {
    let line = |ask: &'_ OpenAsk| -> (String, String) {
        let at = i64::try_from(ask.deadline_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        (format!("{}/{}", row.id, ask.call), at.map(|at| at.to_string()).unwrap_or_default())
    };
    let asks = row.asks.iter().map(|ask| {
        let (ask_id, deadline) = line(ask);
        AskLine { ask_id, tool: &ask.tool, input: &ask.input, rule: ask.rule.as_deref(), deadline }
    });
    asks.collect()
}

#[derive(Serialize)]
struct ResultLine<'a> {
    r#type: &'static str,
    job_id: &'a JobId,
    name: &'a str,
    batch: Option<&'a str>,
    /// Of its list, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    status: JobStatus,
    reason: Option<String>,
    cause: Option<Cause<'a>>,
    attention: bool,
    text: &'a str,
    structured: Option<Value>,
    steps: u64,
    tool_calls: u64,
    tokens: Tokens,
    cost_usd: f64,
    duration_ms: u64,
    restarts: u32,
    denied: Vec<DeniedLine<'a>>,
    files_changed: &'a [FileChange],
    resume_token: Option<&'a str>,
    /// Only of a job that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<&'a Shown>,
}

#[derive(Serialize)]
struct BatchResultLine<'a> {
    r#type: &'static str,
    batch: &'a BatchId,
    name: &'a str,
    jobs: u64,
    /// Queued by this very command; the others were known.
    added: u64,
    completed: u64,
    aborted: u64,
    cancelled: u64,
    attention: u64,
    causes: &'a BTreeMap<String, u64>,
    steps: u64,
    tool_calls: u64,
    tokens: Tokens,
    cost_usd: f64,
    /// Of all its jobs, added up.
    run_time_ms: u64,
    restarts: u64,
    exit_code: u8,
}

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    job_id: &'a JobId,
    v: u32,
    seq: u64,
    at: &'a str,
    event: &'static str,
    data: Value,
}

#[derive(Serialize)]
struct DeltaLine<'a> {
    r#type: &'static str,
    job_id: &'a JobId,
    step: u64,
    text: &'a str,
}

/// One job of `ls` and `show`.
#[must_use]
pub fn row(row: &JobRow) -> String {
    let (reason, cause) = ended(row.outcome.as_ref());
    line(&Row {
        job_id: &row.id,
        name: &row.name,
        batch: batch(row),
        status: row.status,
        reason,
        cause,
        attention: row.attention,
        steps: row.used.steps,
        tool_calls: row.used.tool_calls,
        tokens: tokens(&row.used),
        restarts: row.restarts,
        provider: row.provider.as_deref(),
        asks: asks(row),
    })
}

/// The last line of a job.
#[must_use]
pub fn result(row: &JobRow, result: &JobResult, worktree: Option<&Shown>) -> String {
    let (reason, cause) = ended(row.outcome.as_ref());
    line(&ResultLine {
        r#type: "result",
        job_id: &row.id,
        name: &row.name,
        batch: batch(row),
        line: row.batch.as_ref().map(|place| place.line.number),
        status: row.status,
        reason,
        cause,
        attention: row.attention,
        text: &result.text,
        structured: None,
        steps: row.used.steps,
        tool_calls: row.used.tool_calls,
        tokens: tokens(&row.used),
        cost_usd: row.used.cost_usd,
        duration_ms: result.duration_ms,
        restarts: row.restarts,
        denied: result.denied.iter().map(DeniedLine::of).collect(),
        files_changed: &result.files_changed,
        resume_token: result.resume_token.as_deref(),
        worktree,
    })
}

/// One job of `show`: the row, the word with which it can be resumed, and its worktree.
#[must_use]
pub fn shown(row: &JobRow, result: &JobResult, worktree: Option<&Shown>) -> String {
    let row = self::row(row);
    let open = row.strip_suffix('}').unwrap_or(&row);
    let worktree = worktree.map(|worktree| format!(",\"worktree\":{}", json!(worktree))).unwrap_or_default();
    format!("{open},\"resume_token\":{}{worktree}}}", json!(result.resume_token))
}

/// The last line of a batch.
#[must_use]
pub fn batch_result(batch: &Batch, tally: &Tally) -> String {
    line(&BatchResultLine {
        r#type: "batch_result",
        batch: &batch.id,
        name: &batch.name,
        jobs: tally.jobs,
        added: batch.added,
        completed: tally.completed,
        aborted: tally.aborted,
        cancelled: tally.cancelled,
        attention: tally.attention,
        causes: &tally.causes,
        steps: tally.used.steps,
        tool_calls: tally.used.tool_calls,
        tokens: tokens(&tally.used),
        cost_usd: tally.used.cost_usd,
        run_time_ms: tally.used.run_time_ms,
        restarts: tally.restarts,
        exit_code: tally.exit_code(),
    })
}

/// A durable record.
#[must_use]
pub fn event(happened: &Happened) -> String {
    let Happened { job, seq, at, event } = happened;
    let data = data(event);
    let (name, v) = (event.name(), RECORD_VERSION);
    line(&EventLine { r#type: "event", job_id: job, v, seq: *seq, at, event: name, data })
}

/// Provisional text.
#[must_use]
pub fn delta(job: &JobId, step: u64, text: &str) -> String {
    line(&DeltaLine { r#type: "delta", job_id: job, step, text })
}

/// `{"Name": {…}}` is how an event is serialized; beside its name stands what is in it.
fn data(event: &Event) -> Value {
    match serde_json::to_value(event) {
        Ok(Value::Object(map)) => map.into_iter().next().map_or_else(|| Value::Object(Map::new()), |(_, data)| data),
        Ok(other) => other,
        // Only numbers that JSON has no word for can fail; the record itself is sound.
        Err(error) => json!({ "unprintable": error.to_string() }),
    }
}

fn ended(outcome: Option<&Outcome>) -> (Option<String>, Option<Cause<'_>>) {
    match outcome {
        Some(Outcome::Ended(cause)) => {
            let kind = cause.kind.to_string();
            (Some(cause.kind.reason().to_string()), Some(Cause { kind, detail: &cause.detail }))
        }
        Some(Outcome::Completed { .. }) | None => (None, None),
    }
}

fn batch(row: &JobRow) -> Option<&str> {
    row.batch.as_ref().map(|place| place.id.as_str())
}

fn tokens(used: &Used) -> Tokens {
    Tokens { input: used.input_tokens, output: used.output_tokens }
}

fn line(value: &impl Serialize) -> String {
    // These shapes have string keys only, which is all that can fail here.
    serde_json::to_string(value).unwrap_or_else(|error| json!({ "unprintable": error.to_string() }).to_string())
}

#[cfg(test)]
mod tests {
    use ukai_protocol::event::Change;
    use ukai_protocol::job::{self, CauseKind, Limit};

    use super::*;

    fn a_row() -> JobRow {
        JobRow {
            id: JobId::from_random([0; 5]),
            name: "fix-a".into(),
            batch: None,
            status: JobStatus::Aborted,
            outcome: Some(Outcome::Ended(job::Cause::new(CauseKind::Limit(Limit::Steps), "25 of 25"))),
            attention: true,
            used: Used {
                steps: 25,
                tool_calls: 3,
                input_tokens: 10,
                output_tokens: 2,
                cost_usd: 0.5,
                ..Used::default()
            },
            restarts: 1,
            provider: Some("lab".into()),
            asks: Vec::new(),
            note: String::new(),
        }
    }

    #[test]
    fn a_row_is_these_bytes() {
        let expected = r#"{"job_id":"j-aaaaaaaa","name":"fix-a","batch":null,"status":"aborted","reason":"breaker_open","cause":{"kind":"limit(steps)","detail":"25 of 25"},"attention":true,"steps":25,"tool_calls":3,"tokens":{"input":10,"output":2},"restarts":1,"provider":"lab","asks":[]}"#;
        assert_eq!(row(&a_row()), expected);
    }

    #[test]
    fn a_result_is_these_bytes() {
        let row = JobRow {
            status: JobStatus::Completed,
            outcome: Some(Outcome::Completed { attention: false }),
            attention: false,
            ..a_row()
        };
        let denied = vec![DeniedCall {
            tool: "Bash".into(),
            input: serde_json::from_str(r#"{"command":"ls"}"#).expect("an object"),
            source: Source::NoOneToAsk,
            missing: Vec::new(),
        }];
        let files_changed = vec![FileChange { path: "/w/a".into(), change: Change::Created }];
        let text = "done\n".to_owned();
        let result = JobResult { text, duration_ms: 7, denied, files_changed, ..JobResult::default() };
        let result = super::result(&row, &result, None);
        let expected = r#"{"type":"result","job_id":"j-aaaaaaaa","name":"fix-a","batch":null,"status":"completed","reason":null,"cause":null,"attention":false,"text":"done\n","structured":null,"steps":25,"tool_calls":3,"tokens":{"input":10,"output":2},"cost_usd":0.5,"duration_ms":7,"restarts":1,"denied":[{"tool":"Bash","input":{"command":"ls"},"source":"no_one_to_ask"}],"files_changed":[{"path":"/w/a","change":"created"}],"resume_token":null}"#;
        assert_eq!(result, expected);
    }

    #[test]
    fn an_event_is_its_record_with_the_job() {
        let happened = Happened {
            job: JobId::from_random([0; 5]),
            seq: 4,
            at: "2026-11-29T12:00:00.000Z".into(),
            event: Event::Attention { why: "w".into() },
        };
        let expected = r#"{"type":"event","job_id":"j-aaaaaaaa","v":1,"seq":4,"at":"2026-11-29T12:00:00.000Z","event":"Attention","data":{"why":"w"}}"#;
        assert_eq!(event(&happened), expected);
        assert_eq!(delta(&happened.job, 2, "x"), r#"{"type":"delta","job_id":"j-aaaaaaaa","step":2,"text":"x"}"#);
    }
}
