//! What may be resumed, with which limits, and by which word.
//!
//! A job that ended without having completed goes on only when a person says so, about that very end: the token stands
//! for one end of one job, and a job that has gone on since has another, or none. What has been consumed stays so, and
//! a limit that ended a job has to be raised, or it would end it again.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::command::quoted;
use ukai_protocol::control::JobResult;
use ukai_protocol::id::JobId;
use ukai_protocol::job::{CauseKind, Limit, Limits, Outcome, Used};
use ukai_protocol::run_state::Progress;

use crate::config::limits::LimitSet;

/// 64 bits: what is typed by hand, and guessed by nobody in the life of a job.
const TOKEN_DIGITS: usize = 16;

/// Why a job is not resumed. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it has not ended: there is nothing to resume")]
    Open,
    #[error("it completed: there is nothing to resume; for another run of it, submit it again")]
    Completed,
    #[error(
        "its files do not verify; see {}, then {} and start the server again",
        quoted(&["quarantine"]), quoted(&["quarantine", "clear", .0.as_str()])
    )]
    Quarantined(JobId),
    #[error(
        "how it ended could not be written to the disk; make room there and start the server again: it then goes on by itself"
    )]
    Unwritten,
    #[error("it reached its limit of {limit} ({used} of {max}): raise that, for instance --limit {example}")]
    NotRaised { limit: Limit, used: String, max: String, example: String },
    #[error(
        "with {limit}={max} it would end at once, since {used} are used: set it higher, for instance --limit {example}"
    )]
    TooLow { limit: Limit, used: String, max: String, example: String },
    #[error(
        "the token is not of its present end: it has gone on since then, or the token is another job's; look again with {}",
        quoted(&["show", .0.as_str()])
    )]
    Token(JobId),
}

/// The word that resumes this end. None: it has not ended, or needs no resuming.
#[must_use]
pub fn token(id: &JobId, progress: &Progress) -> Option<String> {
    let Some(Outcome::Ended(cause)) = &progress.outcome else { return None };
    // The hash of the attempt's own token is known to the log alone; the number of starts tells its ends apart.
    let end = format!("{id}\n{}\n{}\n{}\n{}", progress.attempt, progress.token_hash, cause.kind, cause.detail);
    let resumes = progress.resumes;
    let mut token = blake3::hash(format!("{end}\n{resumes}").as_bytes()).to_hex().to_string();
    token.truncate(TOKEN_DIGITS);
    Some(token)
}

/// What `show` and the result add to a row.
#[must_use]
pub fn result(id: &JobId, progress: &Progress) -> JobResult {
    JobResult { resume_token: token(id, progress), ..JobResult::of(progress) }
}

/// The limits with which it would go on. `limits`: those that it ran with.
pub fn raised(
    id: &JobId,
    outcome: Option<&Outcome>,
    used: &Used,
    limits: &Limits,
    raise: &LimitSet,
) -> Result<Limits, Refused> {
    let mut after = *limits;
    raise.apply(&mut after);
    check(id, outcome, used, limits, &after)?;
    Ok(after)
}

/// Whether it may go on with these limits: `before` are those that it ran with.
pub fn check(
    id: &JobId,
    outcome: Option<&Outcome>,
    used: &Used,
    before: &Limits,
    after: &Limits,
) -> Result<(), Refused> {
    let cause = match outcome {
        None => return Err(Refused::Open),
        Some(Outcome::Completed { .. }) => return Err(Refused::Completed),
        Some(Outcome::Ended(cause)) => cause,
    };
    match cause.kind {
        CauseKind::Quarantined => return Err(Refused::Quarantined(id.clone())),
        CauseKind::Limit(limit) => {
            let (old, new) = (standing(limit, used, before), standing(limit, used, after));
            if let (Some(old), Some(new)) = (old, new)
                && new.max <= old.max
            {
                return Err(Refused::NotRaised { limit, used: old.used(), max: old.max(), example: old.example() });
            }
        }
        _ => {}
    }
    for limit in LIMITS {
        if let Some(now) = standing(limit, used, after).filter(|now| now.used >= now.max) {
            return Err(Refused::TooLow { limit, used: now.used(), max: now.max(), example: now.example() });
        }
    }
    Ok(())
}

/// The limits that must be raised for it to go on, as one types them; twice what they were is one step beyond a guess.
/// Empty: it can go on with those that it has.
#[must_use]
pub fn to_raise(outcome: Option<&Outcome>, used: &Used, limits: &Limits) -> Vec<String> {
    let Some(Outcome::Ended(cause)) = outcome else { return Vec::new() };
    let ended_it = |standing: &Standing| cause.kind == CauseKind::Limit(standing.limit);
    let standings = LIMITS.iter().filter_map(|limit| standing(*limit, used, limits));
    standings.filter(|now| ended_it(now) || now.used >= now.max).map(|now| now.example()).collect()
}

/// What it has consumed of each limit, for a person to look at before it goes on: "3 of 25 steps".
#[must_use]
pub fn consumed(used: &Used, limits: &Limits) -> String {
    let all = LIMITS.iter().filter_map(|limit| standing(*limit, used, limits));
    all.map(|standing| format!("{} {} of {}", standing.limit, standing.used(), standing.max()))
        .collect::<Vec<_>>()
        .join(", ")
}

const LIMITS: [Limit; 6] = [Limit::Steps, Limit::ToolCalls, Limit::Tokens, Limit::RunTime, Limit::MaxWall, Limit::Cost];

struct Standing {
    limit: Limit,
    used: f64,
    max: f64,
}

fn standing(limit: Limit, used: &Used, limits: &Limits) -> Option<Standing> {
    let (used, max) = match limit {
        Limit::Steps => (used.steps as f64, limits.steps as f64),
        Limit::ToolCalls => (used.tool_calls as f64, limits.tool_calls as f64),
        Limit::Tokens => (used.tokens() as f64, limits.tokens as f64),
        Limit::RunTime => (used.run_time_ms as f64, limits.run_time_ms as f64),
        Limit::MaxWall => (used.wall_ms as f64, limits.max_wall_ms as f64),
        Limit::Cost => (used.cost_usd, limits.max_cost_usd?),
        // Of one node: a graph's business.
        Limit::MaxVisits => return None,
    };
    Some(Standing { limit, used, max })
}

impl Standing {
    fn amount(&self, amount: f64) -> String {
        match self.limit {
            Limit::RunTime | Limit::MaxWall => format!("{} s", (amount / 1_000.0).round()),
            Limit::Cost => format!("{amount:.4} USD"),
            _ => format!("{amount}"),
        }
    }

    fn used(&self) -> String {
        self.amount(self.used)
    }

    fn max(&self) -> String {
        self.amount(self.max)
    }

    /// Twice as much, as one types it.
    fn example(&self) -> String {
        let twice = self.max.max(self.used) * 2.0;
        match self.limit {
            Limit::RunTime | Limit::MaxWall => {
                let key = if self.limit == Limit::RunTime { "run_time" } else { "max_wall" };
                format!("{key}={}s", (twice / 1_000.0).ceil().max(1.0))
            }
            // Up to whole cents: down would be no raise of a small one.
            Limit::Cost => format!("max_cost_usd={:.2}", (twice * 100.0).ceil().max(1.0) / 100.0),
            limit => format!("{limit}={}", twice.max(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::job::Cause;

    use super::*;

    fn id() -> JobId {
        JobId::from_random([0; 5])
    }

    fn ended(kind: CauseKind) -> Outcome {
        Outcome::Ended(Cause::new(kind, "why"))
    }

    fn raise(text: &str) -> LimitSet {
        let mut raise = LimitSet::default();
        text.split_whitespace().for_each(|limit| raise.set(limit).expect("a limit"));
        raise
    }

    #[test]
    fn a_limit_that_ended_it_has_to_be_raised() {
        let limits = Limits { steps: 3, max_cost_usd: Some(0.5), ..Limits::default() };
        let used = Used { steps: 3, tool_calls: 2, input_tokens: 900, run_time_ms: 4_000, ..Used::default() };
        for (quirk, kind, given, allowed) in [
            ("no provider, no raise", CauseKind::AllOpen, "steps=4", true),
            ("steps, not raised", CauseKind::Limit(Limit::Steps), "", false),
            ("steps, raised elsewhere", CauseKind::Limit(Limit::Steps), "tokens=9000000", false),
            ("steps, set as they were", CauseKind::Limit(Limit::Steps), "steps=3", false),
            ("steps, raised", CauseKind::Limit(Limit::Steps), "steps=4", true),
            ("tokens, which were not reached", CauseKind::Limit(Limit::Tokens), "steps=4", false),
            ("tokens, raised", CauseKind::Limit(Limit::Tokens), "steps=4 tokens=500001", true),
            ("tokens, raised, and steps are used up", CauseKind::Limit(Limit::Tokens), "tokens=500001", false),
            ("another lowered to what is used", CauseKind::AllOpen, "steps=4 tool_calls=2", false),
            ("another lowered, with room", CauseKind::AllOpen, "steps=4 tool_calls=3", true),
            ("cost, raised", CauseKind::Limit(Limit::Cost), "steps=4 max_cost_usd=1", true),
            ("cost, not raised", CauseKind::Limit(Limit::Cost), "steps=4", false),
            ("run_time, raised", CauseKind::Limit(Limit::RunTime), "steps=4 run_time=20m", true),
            ("quarantined", CauseKind::Quarantined, "steps=4", false),
            ("cancelled by a person", CauseKind::Cancel, "steps=4", true),
        ] {
            let found = raised(&id(), Some(&ended(kind)), &used, &limits, &raise(given));
            assert_eq!(found.is_ok(), allowed, "{quirk}: {found:?}");
        }
        let refused = raised(&id(), Some(&ended(CauseKind::Limit(Limit::Steps))), &used, &limits, &raise(""));
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains("3 of 3") && said.contains("--limit steps=6"), "{said}");
    }

    #[test]
    fn what_is_told_to_be_raised_lets_it_go_on() {
        let limits = Limits { steps: 3, max_cost_usd: Some(0.001), ..Limits::default() };
        let used = |steps| Used { steps, run_time_ms: 4_000, ..Used::default() };
        for (quirk, kind, used, expected) in [
            ("steps", CauseKind::Limit(Limit::Steps), used(3), "steps=6"),
            ("a limit that the next act would exceed", CauseKind::Limit(Limit::Tokens), used(1), "tokens=1000000"),
            ("it, and another that is used up", CauseKind::Limit(Limit::RunTime), used(3), "steps=6 run_time=1200s"),
            ("less than a cent", CauseKind::Limit(Limit::Cost), used(1), "max_cost_usd=0.01"),
            ("another cause", CauseKind::AllOpen, used(1), ""),
            ("another cause, at a limit", CauseKind::AllOpen, used(3), "steps=6"),
            ("a day", CauseKind::Limit(Limit::MaxWall), used(1), "max_wall=172800s"),
            ("visits, which no flag raises", CauseKind::Limit(Limit::MaxVisits), used(1), ""),
        ] {
            let outcome = ended(kind);
            let told = to_raise(Some(&outcome), &used, &limits).join(" ");
            assert_eq!(told, expected, "{quirk}");
            let found = raised(&id(), Some(&outcome), &used, &limits, &raise(&told));
            assert!(found.is_ok(), "{quirk}: {found:?}");
        }
        assert_eq!(to_raise(None, &used(3), &limits), Vec::<String>::new());
    }

    #[test]
    fn only_an_end_that_is_none_of_success_is_resumed() {
        let (used, limits) = (Used::default(), Limits::default());
        let check = |outcome: Option<Outcome>| check(&id(), outcome.as_ref(), &used, &limits, &limits);
        assert_eq!(check(None), Err(Refused::Open));
        assert_eq!(check(Some(Outcome::Completed { attention: true })), Err(Refused::Completed));
        assert_eq!(check(Some(ended(CauseKind::AllOpen))), Ok(()));
    }

    #[test]
    fn a_token_is_of_one_end_of_one_job() {
        let aborted = Progress {
            attempt: 2,
            token_hash: "h".to_owned(),
            outcome: Some(ended(CauseKind::AllOpen)),
            ..Progress::default()
        };
        let of = |change: &dyn Fn(&mut Progress)| {
            let mut other = aborted.clone();
            change(&mut other);
            token(&id(), &other)
        };
        let first = of(&|_| {}).expect("a token");
        assert_eq!((first.len(), of(&|_| {})), (TOKEN_DIGITS, Some(first.clone())));
        assert_ne!(token(&JobId::from_random([1; 5]), &aborted).as_ref(), Some(&first));
        assert_ne!(of(&|progress| progress.attempt = 3).as_ref(), Some(&first));
        assert_ne!(of(&|progress| progress.resumes = 1).as_ref(), Some(&first), "it never started again");
        assert_eq!(of(&|progress| progress.attention = None).as_ref(), Some(&first), "an ack changes no end");
        assert_eq!(of(&|progress| progress.outcome = None), None);
    }

    #[test]
    fn what_is_consumed_is_told_beside_its_limit() {
        let used = Used { steps: 3, tool_calls: 2, input_tokens: 900, run_time_ms: 4_000, ..Used::default() };
        let limits = Limits { max_cost_usd: Some(0.5), ..Limits::default() };
        assert_eq!(
            consumed(&used, &limits),
            "steps 3 of 25, tool_calls 2 of 40, tokens 900 of 500000, run_time 4 s of 600 s, max_wall 0 s of 86400 s, \
             cost 0.0000 USD of 0.5000 USD"
        );
    }
}
