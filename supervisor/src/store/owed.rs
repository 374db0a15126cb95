//! What the owner may not have been told yet, as the logs say: a supervisor can die between a record and its alert.
//!
//! Each sink knows by its cursor what it has told (`supervisor/cursors.json`); this is all that may still be told.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, SystemTime};

use ukai_notifier::{Alert, Source};
use ukai_protocol::disk;
use ukai_protocol::event::Event;
use ukai_protocol::server_event::ServerEvent;

use super::event_log::{self, Record};
use super::loader::Recovered;
use super::paths::StateDir;
use super::server_log;
use crate::news::{self, About};

/// Alerts that were not delivered go out after a restart for so long (spec §12).
pub const OWED_FOR: Duration = Duration::from_hours(24);

/// In the order in which they happened. `account_of`: a provider's account.
#[must_use]
pub fn alerts(
    state: &StateDir,
    runs: &[Recovered],
    recent: &[Record<ServerEvent>],
    account_of: impl Fn(&str) -> String,
    since: SystemTime,
) -> Vec<Alert> {
    let mut alerts = of_server(recent);
    for run in runs.iter().filter(|run| run.problem.is_none()) {
        let log = state.run(&run.id).log();
        // Nothing was recorded since, so nothing is owed.
        if modified(&log).is_some_and(|at| at < since) {
            continue;
        }
        let account = run.progress.provider.as_deref().map(&account_of);
        let (name, used) = (&run.progress.name, &run.progress.used);
        let limits = run.progress.limits.or_else(|| run.spec.as_ref().map(|spec| spec.limits));
        let about = About { id: &run.id, name, account: account.as_deref(), used, asks: &run.progress.asks, limits };
        match of_job(&log, &about, since) {
            Ok(found) => alerts.extend(found),
            Err(error) => tracing::warn!(job = %run.id, %error, "its log is not looked through for what was not told"),
        }
    }
    alerts.sort_by_key(|alert| alert.at);
    alerts
}

/// Without what a person has seen since, or what is over.
fn of_server(recent: &[Record<ServerEvent>]) -> Vec<Alert> {
    let mut left: Vec<&Record<ServerEvent>> = Vec::new();
    for record in recent {
        // Few records end others: nearly all are looked at once.
        if matches!(record.event, ServerEvent::Acked { .. } | ServerEvent::Verified { .. }) {
            left.retain(|earlier| !news::is_over_by(&earlier.event, &record.event));
        } else {
            left.push(record);
        }
    }
    let alert = |record: &Record<ServerEvent>| {
        let what = news::of_server(&record.event)?;
        let at = server_log::time(&record.at)?;
        Some(Alert { what, source: Some(Source::Server { seq: record.seq }), at, late: true })
    };
    left.into_iter().filter_map(alert).collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// The log has been verified: only lines that may be news are decoded.
fn of_job(log: &Path, about: &About<'_>, since: SystemTime) -> std::io::Result<Vec<Alert>> {
    let mut reader = BufReader::new(disk::open_read(log)?);
    let (mut line, mut seq, mut alerts) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(alerts);
        }
        seq += 1;
        let Some(event) = named(&line) else { continue };
        let interesting = news::OF_JOBS.iter().any(|name| name.as_bytes() == event);
        if !interesting && !matches!(event, b"Acked" | b"Resumed") {
            continue;
        }
        let Ok(record) = event_log::decode::<Event>(line.trim_ascii_end(), seq) else { continue };
        if news::is_seen_by(&record.event) {
            alerts.clear();
        }
        let Some(at) = server_log::time(&record.at).filter(|at| *at >= since) else { continue };
        if let Some(what) = news::of_job(about, &record.event) {
            let source = Some(Source::Job { job: about.id.clone(), seq });
            alerts.push(Alert { what, source, at, late: true });
        }
    }
}

/// The event's name, which stands near the line's beginning: `{"v":1,"seq":1,"at":"…","event":"NAME"`.
fn named(line: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = br#""event":""#;
    const HEAD_BYTES_MAX: usize = 128;
    let head = &line[..line.len().min(HEAD_BYTES_MAX)];
    let at = head.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let name = &head[at..];
    Some(&name[..name.iter().position(|byte| *byte == b'"')?])
}

#[cfg(test)]
mod tests {
    use ukai_notifier::What;
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, CauseKind, Limit, Limits, Outcome};
    use ukai_protocol::run_state::Progress;
    use ukai_protocol::server_event::ALERTS;

    use super::*;
    use crate::store::testing::{Temp, submitted};

    fn at(second: u32) -> String {
        format!("2026-11-30T02:00:{second:02}.000Z")
    }

    fn aborted() -> Event {
        let cause = Cause::new(CauseKind::AllOpen, "nobody may be asked");
        Event::Finished { outcome: Outcome::Ended(cause), text: String::new() }
    }

    fn check(events: &[Event], since: u32, expected: &[u64]) {
        let temp = Temp::new();
        let id = JobId::from_random([0; 5]);
        std::fs::create_dir_all(temp.state.run(&id).root()).expect("a folder");
        let lines = events.iter().zip(1..).map(|(event, seq)| {
            let record = Record { seq, at: at(seq as u32), event: event.clone() };
            event_log::encode(&record).expect("encoded")
        });
        std::fs::write(temp.state.run(&id).log(), lines.collect::<String>()).expect("written");
        let progress = Progress { name: "n".to_owned(), provider: Some("lab".to_owned()), ..Progress::default() };
        let runs = [Recovered { id, spec: None, progress, problem: None }];
        let since = server_log::time(&at(since)).expect("a time");
        let owed = alerts(&temp.state, &runs, &[], |provider| format!("account of {provider}"), since);
        let found = owed.iter().map(|alert| match &alert.source {
            Some(Source::Job { seq, .. }) => *seq,
            other => panic!("{other:?}"),
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{events:?}");
        assert!(owed.iter().all(|alert| alert.late));
        for alert in owed {
            if let What::JobAborted { account, .. } = alert.what {
                assert_eq!(account.as_deref(), Some("account of lab"));
            }
        }
    }

    #[test]
    fn of_the_servers_log_what_was_acked_or_verifies_again_is_not_owed() {
        let quarantined = |subject: &str| ServerEvent::Quarantined { subject: subject.to_owned(), why: String::new() };
        let acked = |subject: &str| ServerEvent::Acked { subject: subject.to_owned() };
        let verified = |subject: &str| ServerEvent::Verified { subject: subject.to_owned() };
        let lost = || ServerEvent::AlertsLost { sink: "discord".to_owned(), count: 2, why: String::new() };
        let paused = ServerEvent::StartsPaused { pause_ms: 1 };
        for (quirk, events, expected) in [
            ("nobody has seen it", vec![lost(), quarantined("routes.json")], &[1, 2][..]),
            ("acked", vec![lost(), acked(ALERTS)], &[]),
            ("lost again", vec![lost(), lost(), acked(ALERTS), lost()], &[4]),
            ("another was acked", vec![lost(), quarantined("a"), quarantined("b"), acked("a")], &[1, 3]),
            ("acks of files", vec![quarantined("a"), acked("a"), lost()], &[3]),
            ("verifies again", vec![quarantined("a"), verified("a")], &[]),
            ("spoiled again", vec![quarantined("a"), verified("a"), quarantined("a")], &[3]),
            ("what has no ack", vec![paused, acked(ALERTS), acked("a")], &[1]),
            ("files of that name are no alerts", vec![lost(), verified("a")], &[1]),
        ] {
            let records = events.into_iter().zip(1..);
            let records: Vec<_> = records.map(|(event, seq)| Record { seq, at: at(seq as u32), event }).collect();
            let found: Vec<_> = of_server(&records).into_iter().map(|alert| alert.source).collect();
            let expected: Vec<_> = expected.iter().map(|seq| Some(Source::Server { seq: *seq })).collect();
            assert_eq!(found, expected, "{quirk}");
        }
    }

    #[test]
    fn what_is_news_and_was_not_seen_by_a_person_is_owed() {
        let near = Event::LimitWarned { limit: Limit::Steps, used: 20.0, max: 25.0 };
        let resumed = Event::Resumed { limits: Limits::default() };
        check(&[submitted(), near.clone(), aborted()], 0, &[2, 3]);
        check(&[submitted(), near.clone(), aborted()], 3, &[3]);
        check(&[submitted(), near, aborted(), Event::Acked {}], 0, &[]);
        check(&[submitted(), aborted(), resumed.clone()], 0, &[]);
        check(&[submitted(), aborted(), resumed, aborted()], 0, &[4]);
        check(&[submitted()], 0, &[]);
    }
}
