//! What a job's commands left running when worker, tool host and supervisor died at one instant.
//!
//! With namespaces nothing survives its host, and whoever lives when the other dies ends what is left. Only where all die
//! together, and the kernel granted no namespace, commands go on with nobody above them. Each carries its job in its
//! environment; the next start finds them by that. What is below a worker that lives is not left over: that worker
//! outlived its supervisor and will be taken back.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ukai_protocol::event::ProcessMark;
use ukai_protocol::id::JobId;
use ukai_protocol::process::{self, Seen};
use ukai_protocol::process_tree;

/// The variable that every command carries; its value is the id of its job.
const MARK: &str = "UKAI_JOB";

/// Ends commands of these jobs that no living worker is the ancestor of. Blocks: call it from a thread that may.
pub fn end_strays(jobs: &HashSet<JobId>, workers: &[ProcessMark]) {
    let alive: HashSet<u32> = workers.iter().filter(|mark| process::is_alive(mark)).map(|mark| mark.pid).collect();
    let of_jobs = |seen: &Seen| {
        let job = process::variable(seen.pid, MARK)?;
        job.parse().is_ok_and(|job: JobId| jobs.contains(&job)).then_some(job)
    };
    let all = process::all();
    for (seen, job) in strays(&all, &alive, of_jobs) {
        let Some(mark) = process::mark(seen.pid) else { continue };
        tracing::warn!(pid = mark.pid, job, "a command outlived its worker and its supervisor and is ended");
        if let Err(error) = process_tree::end(&mark, Duration::ZERO) {
            tracing::error!(pid = mark.pid, job, %error, "a command that was left over could not be ended");
        }
    }
}

fn strays<'a, T>(all: &'a [Seen], workers: &HashSet<u32>, mark_of: impl Fn(&Seen) -> Option<T>) -> Vec<(&'a Seen, T)> {
    let parents: HashMap<u32, u32> = all.iter().map(|seen| (seen.pid, seen.parent)).collect();
    let has_worker = |seen: &Seen| {
        // A circle there is none, but what was read while it changed may show one.
        let mut above = std::iter::successors(Some(seen.pid), |pid| parents.get(pid).copied()).take(all.len() + 1);
        above.any(|pid| workers.contains(&pid))
    };
    all.iter()
        .filter(|seen| !seen.is_dead)
        .filter_map(|seen| Some((seen, mark_of(seen)?)))
        .filter(|(seen, _)| !has_worker(seen))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_carries_a_mark_and_has_no_living_worker_above_it_is_left_over() {
        let seen = |pid, parent, is_dead| Seen { pid, parent, is_dead };
        // 10 is a worker, 11 its host, 12 and 20 are commands, 21 is below one and has shed its mark.
        let all = [
            seen(10, 1, false),
            seen(11, 10, false),
            seen(12, 11, false),
            seen(20, 1, false),
            seen(21, 20, false),
            seen(22, 1, true),
            seen(30, 1, false),
        ];
        let mark_of = |seen: &Seen| matches!(seen.pid, 12 | 20 | 22).then_some(());
        let found = |workers: &[u32]| {
            let workers = workers.iter().copied().collect();
            strays(&all, &workers, mark_of).iter().map(|(seen, ())| seen.pid).collect::<Vec<_>>()
        };
        assert_eq!(found(&[10]), [20]);
        assert_eq!(found(&[]), [12, 20]);
    }
}
