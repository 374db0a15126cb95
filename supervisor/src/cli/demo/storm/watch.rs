//! The storm while it plays: the jobs by their events, the breakers by asking how the providers stand.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use ukai_protocol::control::{
    BreakerState, Filter, Happened, ProviderRow, Request, Response, Seen, Selection, ServerStatus,
};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{JobSpec, Outcome};

use crate::cli::client::{Client, unexpected};
use crate::cli::context::Context;
use crate::cli::demo::GONE;
use crate::cli::failure::Failure;
use crate::cli::progress::{Say, say};
use crate::cli::submit::Submission;
use crate::cli::{Output, json, print, providers, table};

/// Between two looks at the providers. An open breaker stays open for a minute, so none is missed.
const LOOK_EVERY: Duration = Duration::from_millis(30);
/// Half of what the first breaker is OPEN for: after that, jobs wait for its probe rather than end.
const STORY_MAX: Duration = Duration::from_secs(30);

/// What only who was there has seen.
#[derive(Debug)]
pub(super) struct Watched {
    /// As they were submitted.
    pub ids: Vec<JobId>,
    pub moves: Vec<Move>,
    /// It had not ended when it had to, after this.
    pub unfinished: Option<Duration>,
}

/// A breaker that moved.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Move {
    /// Since the jobs were submitted.
    pub ms: u64,
    pub provider: String,
    pub state: BreakerState,
    pub why: Option<String>,
}

pub(super) async fn watch(context: &Context, jobs: Vec<JobSpec>) -> Result<Watched, Failure> {
    print::note(&format!(
        "{} jobs for {} workers; the first provider will want to be left alone, later the second",
        jobs.len(),
        super::WORKERS
    ));
    let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    let ids = Submission::of(jobs).send(Client::connect_or_say(context, GONE).await?).await?.ids;
    let mut link = Client::connect_or_say(context, GONE).await?;
    let selected = Selection::These(ids.iter().map(ToString::to_string).collect());
    link.send(&Request::Subscribe { filter: Filter { jobs: selected, deltas: false }, seen: Seen::default() }).await?;
    let mut seen = Scene {
        output: context.output,
        began: Instant::now(),
        names: ids.iter().cloned().zip(names).collect(),
        ended: 0,
        moves: Vec::new(),
        standing: HashMap::new(),
    };
    let mut asking = Client::connect_or_say(context, GONE).await?;
    let mut looked = Instant::now();
    let mut unfinished = None;
    loop {
        match tokio::time::timeout(LOOK_EVERY, link.next()).await {
            Ok(Ok(Some(Response::Happened(happened)))) => seen.happened(&happened),
            Ok(Ok(Some(Response::Live))) | Err(_) => {}
            Ok(Ok(Some(Response::Missed { count }))) => {
                return Err(Failure::failed(format!("the demo was too slow to follow: {count} records were missed")));
            }
            Ok(Ok(Some(other))) => return Err(unexpected(&other)),
            Ok(Ok(None)) => return Err(Failure::failed(GONE)),
            Ok(Err(error)) => return Err(Failure::failed(format!("following the demo's jobs: {error}"))),
        }
        if looked.elapsed() < LOOK_EVERY {
            continue;
        }
        looked = Instant::now();
        let rows = match asking.put(&Request::Providers).await? {
            Response::Providers { rows } => rows,
            other => return Err(unexpected(&other)),
        };
        seen.stand(&rows);
        let status = match asking.put(&Request::Status).await? {
            Response::Status(status) => status,
            other => return Err(unexpected(&other)),
        };
        if seen.is_over(&rows, &status) {
            break;
        }
        if seen.began.elapsed() > STORY_MAX {
            unfinished = Some(STORY_MAX);
            break;
        }
    }
    Ok(Watched { ids, moves: seen.moves, unfinished })
}

struct Scene {
    output: Output,
    began: Instant,
    names: HashMap<JobId, String>,
    ended: usize,
    moves: Vec<Move>,
    /// Each breaker as it was last seen.
    standing: HashMap<String, BreakerState>,
}

impl Scene {
    fn happened(&mut self, happened: &Happened) {
        if self.output == Output::StreamJson {
            print::out(&format!("{}\n", json::event(happened)));
        }
        let Event::Finished { outcome, text } = &happened.event else { return };
        self.ended += 1;
        let name = self.names.get(&happened.job).map_or("", String::as_str);
        let how = match (outcome, say(&happened.event)) {
            (Outcome::Completed { .. }, _) => format!("completed: {}", print::brief(text, 60)),
            (Outcome::Ended(_), Say::Line(line) | Say::Moment(line)) => line,
            (Outcome::Ended(_), Say::Nothing) => outcome.status().to_string(),
        };
        self.note(&format!("{name:15} {how}"));
    }

    fn stand(&mut self, rows: &[ProviderRow]) {
        for row in rows {
            let before = self.standing.insert(row.id.clone(), row.breaker).unwrap_or(BreakerState::Closed);
            if before == row.breaker {
                continue;
            }
            let (provider, why) = (row.id.clone(), row.why.clone());
            self.moves.push(Move { ms: self.ms(), provider, state: row.breaker, why });
            self.note(&format!("{:15} {}", row.id, providers::state(row)));
        }
    }

    /// Nothing runs or can start, and every end has been told here.
    fn is_over(&self, rows: &[ProviderRow], status: &ServerStatus) -> bool {
        let queued = status.queued as usize;
        let nobody = queued == 0 || rows.iter().all(|row| row.breaker == BreakerState::Open);
        status.running == 0 && queued + self.ended == self.names.len() && nobody
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self, line: &str) {
        print::note(&format!("{:>5}  {line}", table::time(self.ms())));
    }
}
