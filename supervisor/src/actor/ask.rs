//! What waits for a person: questions that workers put, and the one verdict on each, whoever gives it.
//!
//! A question is the record `AskOpened`; its verdict is `AskAnswered`, written here and nowhere else. While it is open the
//! job has no slot, and no process either once a moment has passed; it goes on by the answer, from the fold.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ukai_protocol::control::{Answered, Decision};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::policy::{Consent, Judgement, Source, Verdict};

use super::attempt::Write;
use super::request::usage;
use super::{Answer, Msg, Refusal, State};
use crate::allow;
use crate::approval::{AFTER_START, Ask};
use crate::job::Life;
use crate::policy_file::keep;
use crate::pool::actor::Msg as WorkerMsg;
use crate::store::StoreError;

/// After a verdict that could not be written the clock gives its own so much later.
const AGAIN: Duration = Duration::from_secs(5);

/// A person's answer on its way to the disk.
#[derive(Debug)]
pub struct Answering {
    answer: Answer<Answered>,
    answered: Answered,
}

impl State {
    /// The fold of a job has moved: its questions are as it says.
    pub(super) fn sync_asks(&mut self, id: &JobId, after_start: bool, now: Instant) {
        let Some(job) = self.jobs.get(id) else { return };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let longest = job.spec.as_ref().map_or(0, |spec| spec.policy.ask_timeout_ms);
        let shortest = if after_start { AFTER_START } else { Duration::ZERO };
        let bounds = (shortest, Duration::from_millis(longest).max(shortest));
        self.approval.sync(id, &job.progress.asks, wall_ms, bounds, now);
        if !matches!(job.life, Life::Attempt { .. }) {
            return;
        }
        if job.progress.asks.is_empty() {
            // Answered while its process lived: it has its slot again, whatever the number.
            self.queue.hold(id.clone());
        } else {
            self.queue.release(id);
            self.approval.linger(id, now);
        }
    }

    /// Verdicts that the clock gives, and workers that have waited long enough for a person.
    pub(super) fn answer_asks(&mut self, now: Instant) {
        for ask in self.approval.due(now) {
            let why = "nobody answered in time. Go on without it, or say in your answer what you would have done.";
            let judgement = Judgement::deny(Source::Timeout, why);
            if self.approval.claim(&ask, "denied, since nobody answered in time").is_ok() {
                self.answer_ask(&ask, judgement, Vec::new(), None);
            }
        }
        for id in self.approval.to_park(now) {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.parked = true;
            job.tell_worker(WorkerMsg::Park);
        }
    }

    /// A worker has come back from a lost connection, and may wait for what was answered meanwhile.
    pub(super) fn tell_still_asked(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.parked = true;
        let calls = job.progress.asks.iter().map(|ask| ask.call.clone()).collect();
        job.tell_worker(WorkerMsg::StillAsked { calls });
    }

    /// A hook has decided what was put to a person.
    pub(super) fn settle_ask(&mut self, id: &JobId, attempt: u32, call: String, judgement: Judgement) {
        let Some(job) = self.jobs.get(id).filter(|job| job.life == Life::Attempt { attempt }) else { return };
        let asked = job.progress.asks.iter().find(|ask| ask.call == call);
        if judgement.verdict == Verdict::Allow && asked.is_none_or(|ask| ask.rule.is_some()) {
            tracing::warn!(job = %id, call, "what a rule wants a person asked about, nobody else allows");
            return;
        }
        let how = match judgement.verdict {
            Verdict::Allow => "allowed by a hook",
            Verdict::Deny => "denied by a hook",
        };
        let ask = (id.clone(), call);
        match self.approval.claim(&ask, how) {
            Ok(()) => self.answer_ask(&ask, judgement, Vec::new(), None),
            Err(late) => tracing::debug!(job = %id, %late, "a hook's verdict comes too late"),
        }
    }

    /// A person has answered.
    pub(super) fn decide(&mut self, what: &str, decision: Decision, answer: Answer<Answered>) {
        match self.meant_ask(what).and_then(|ask| self.decision(ask, decision)) {
            Ok(Decided::Now { ask, judgement, answered }) => {
                self.answer_ask(&ask, judgement, Vec::new(), Some(Box::new(Answering { answer, answered })));
            }
            Ok(Decided::Kept { ask, rules }) => self.keep_rules(ask, rules, answer),
            // A client that has gone needs no answer, here and below.
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// `JOB/CALL`, or a job with one open question.
    fn meant_ask(&self, what: &str) -> Result<Ask, Refusal> {
        let (job, call) = match what.split_once('/') {
            Some((job, call)) => (job, Some(call)),
            None => (what, None),
        };
        let id = self.job_meant(job)?;
        let open: Vec<String> = self.approval.of(&id).map(str::to_owned).collect();
        let named = |calls: &[String]| calls.iter().map(|call| format!("{id}/{call}")).collect::<Vec<_>>().join(", ");
        let chosen = match (call, &*open) {
            (Some(call), _) => match open.iter().filter(|known| known.starts_with(call)).collect::<Vec<_>>()[..] {
                _ if open.iter().any(|known| known == call) => call,
                [only] => only,
                // Perhaps it was answered: whoever claims it is told by whom.
                [] => call,
                _ => return Err(usage(format!("{what} may be any of {}: name one", named(&open)))),
            },
            (None, [only]) => only,
            (None, []) => {
                let last =
                    self.approval.last_of(&id).map(|(call, how)| format!("; {id}/{call} was answered already: {how}"));
                return Err(usage(format!("{id} asks nothing{}: nothing was done", last.unwrap_or_default())));
            }
            (None, several) => return Err(usage(format!("{id} asks {}: name one", named(several)))),
        };
        Ok((id, chosen.to_owned()))
    }

    fn decision(&mut self, ask: Ask, decision: Decision) -> Result<Decided, Refusal> {
        let how = match &decision {
            Decision::Approve { .. } => "allowed by a person",
            Decision::Deny { .. } => "denied by a person",
        };
        let (id, call) = (&ask.0, &ask.1);
        let Some(job) = self.jobs.get(id) else { return Err(usage(format!("{id} is not known"))) };
        let open = job.progress.asks.iter().find(|open| open.call == *call).cloned();
        let rules = match (&decision, &open) {
            (Decision::Approve { always: true }, Some(open)) => {
                // A rule for good names a folder: a worktree is gone soon, and what it is of is another place.
                let lasting = job.spec.as_ref().filter(|spec| !spec.worktree);
                let workdir = lasting.map(|spec| spec.workdir.clone());
                Some(rules_for(&ask, open, workdir.as_deref())?)
            }
            _ => None,
        };
        self.approval.claim(&ask, how).map_err(|late| usage(format!("{id}/{call}: {late}; nothing was done")))?;
        let tool = open.map(|open| open.tool).unwrap_or_default();
        if let Some(rules) = rules {
            return Ok(Decided::Kept { ask, rules });
        }
        let judgement = match &decision {
            Decision::Approve { .. } => Judgement::allow(Source::User(Consent::Once)),
            Decision::Deny { because } => {
                let text = because.clone().unwrap_or_default();
                let why = match text.is_empty() {
                    true => "a person said no. Go on without it.".to_owned(),
                    false => format!("a person said no: {text}"),
                };
                Judgement::deny(Source::UserReject { text }, why)
            }
        };
        let verdict = judgement.verdict;
        let answered = Answered { job: id.clone(), call: call.clone(), tool, verdict, kept: None };
        Ok(Decided::Now { ask, judgement, answered })
    }

    /// The rules first: a yes for ever that was not written down would be asked again.
    fn keep_rules(&mut self, ask: Ask, rules: Vec<String>, answer: Answer<Answered>) {
        let (file, myself) = (self.pool.settings.policy_file.clone(), self.myself.clone());
        let workdir = self.jobs.get(&ask.0).and_then(|job| job.spec.as_ref()).map(|spec| spec.workdir.clone());
        tokio::task::spawn_blocking(move || {
            let kept = match &file {
                Some(file) => keep::allow(file, &rules, workdir.as_deref()).map(|()| file.clone()),
                None => Err("there is no home folder to keep rules in".to_owned()),
            };
            // Without its supervisor an answer is for nobody.
            let _ = myself.cast(Msg::RulesKept { ask, rules, kept, answer });
        });
    }

    pub(super) fn rules_kept(
        &mut self,
        ask: Ask,
        rules: Vec<String>,
        kept: Result<std::path::PathBuf, String>,
        answer: Answer<Answered>,
        now: Instant,
    ) {
        let file = match kept {
            Ok(file) => file,
            Err(why) => {
                self.approval.unclaim(&ask, now + AGAIN);
                let why = format!("{} could not be kept, and nothing was answered: {why}", rules.join(", "));
                return drop(answer.send(Err(Refusal { why, usage: false })));
            }
        };
        let open = self.jobs.get(&ask.0).and_then(|job| job.progress.asks.iter().find(|open| open.call == ask.1));
        let tool = open.map(|open| open.tool.clone()).unwrap_or_default();
        let kept = Some((rules.clone(), file));
        let answered = Answered { job: ask.0.clone(), call: ask.1.clone(), tool, verdict: Verdict::Allow, kept };
        let judgement = Judgement::allow(Source::User(Consent::Always));
        self.answer_ask(&ask, judgement, rules, Some(Box::new(Answering { answer, answered })));
    }

    /// The question is claimed: its verdict goes to the disk.
    fn answer_ask(&mut self, ask: &Ask, judgement: Judgement, granted: Vec<String>, answering: Option<Box<Answering>>) {
        let (id, call) = ask.clone();
        let open = self.jobs.get(&id).and_then(|job| job.progress.asks.iter().find(|open| open.call == call));
        let tool = open.map(|open| open.tool.clone()).unwrap_or_default();
        let event = Event::AskAnswered { call: call.clone(), tool, judgement, granted };
        self.write(&id, event.clone(), Write::Answered { event: Box::new(event), answering });
    }

    pub(super) fn wrote_answer(
        &mut self,
        id: &JobId,
        event: Event,
        answering: Option<Box<Answering>>,
        result: Result<(), StoreError>,
        now: Instant,
    ) {
        let Event::AskAnswered { call, tool, judgement, granted } = event else { return };
        let ask = (id.clone(), call.clone());
        let said = match result {
            Ok(()) => {
                if let Some(job) = self.jobs.get(id) {
                    job.tell_worker(WorkerMsg::Answered { call, tool, judgement, granted });
                }
                None
            }
            Err(error) => {
                self.approval.unclaim(&ask, now + AGAIN);
                let ended = self.jobs.get(id).is_some_and(|job| job.progress.outcome.is_some());
                Some(match ended {
                    true => format!("{id} has ended: nothing was answered"),
                    false => format!("the answer could not be written, and {id} still asks: {error}"),
                })
            }
        };
        if let Some(answering) = answering {
            let Answering { answer, answered } = *answering;
            let said = said.map_or(Ok(answered), |why| Err(Refusal { why, usage: false }));
            drop(answer.send(said));
        }
    }
}

enum Decided {
    Now {
        ask: Ask,
        judgement: Judgement,
        answered: Answered,
    },
    /// Rules are to be kept first.
    Kept {
        ask: Ask,
        rules: Vec<String>,
    },
}

/// The rules that let this call and its like pass from now on; never more than its kind.
fn rules_for(
    (id, call): &Ask,
    open: &ukai_protocol::run_state::OpenAsk,
    workdir: Option<&std::path::Path>,
) -> Result<Vec<String>, Refusal> {
    if let Some(rule) = &open.rule {
        return Err(usage(format!(
            "the rule `{rule}` wants you asked each time: answer this once, or take it out of the policy; nothing was done"
        )));
    }
    if !open.missing.is_empty() {
        return Ok(open.missing.clone());
    }
    allow::standing(&open.tool, &open.input, workdir).map(|rule| vec![rule]).ok_or_else(|| {
        usage(format!(
            "{id}/{call} cannot be put into a rule that allows no more than its like: answer it once, or write one into \
             the policy by hand; nothing was done"
        ))
    })
}
