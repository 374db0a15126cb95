//! One supervisor and the next: how the first ends, what that leaves on disk, and who comes back to the second.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt as _;
use ukai_supervisor::route::router::Router;

use super::Fleet;
use super::agenda::{Coming, News, Word};
use super::labs;
use super::shell::WORKERS;
use super::worker::Worker;

/// A worker of the last supervisor that does not come back within this is not waited for.
const RETURN_GRACE: Duration = Duration::from_secs(1);

impl Fleet {
    pub fn stop(&mut self, clean: bool) {
        if clean {
            let jobs: Vec<u32> =
                self.jobs.iter().filter(|(_, worker)| worker.has_process()).map(|(job, _)| *job).collect();
            self.shell.down = true;
            for job in jobs {
                if self.worker(job).machine.is_some() {
                    self.process_ends(job, false);
                }
                self.hear_word(job, Word::Gone { stopped: false });
            }
            self.reference.compare(&self.router, self.agenda.now);
            self.shell.disk = self.known();
        } else if let Some((_, disk)) = self.shell.saving.take().filter(|_| self.rng.random()) {
            self.shell.disk = disk;
        }
        self.shell.down = true;
        self.shell.reign += 1;
        (self.shell.saving, self.shell.alarm) = (None, None);
        self.jobs.values_mut().for_each(Worker::loses_its_link);
        let down_ms = if clean && self.rng.random() { 100..1_800_000 } else { 10..8_000 };
        let at = self.agenda.now + Duration::from_millis(self.rng.random_range(down_ms));
        self.agenda.push(at, Coming::Start { clean });
    }

    pub fn start(&mut self, clean: bool) {
        let now = self.agenda.now;
        match self.rng.random_range(0..8) {
            0 => self.shell.clock += Duration::from_secs(self.rng.random_range(1..600)),
            1 => self.shell.clock -= Duration::from_secs(self.rng.random_range(1..10_000)),
            _ => {}
        }
        // A clock that was set forward shortens what was named: it is the only one that two processes share.
        self.shell.set_back |= self.shell.clock < self.shell.disk.clock;
        let forward = self.shell.clock.saturating_sub(self.shell.disk.clock);
        self.shell.down = false;
        self.router = Router::new(labs::settings(), WORKERS, self.rng.random(), now);
        let (kept, clock) = (self.shell.disk.kept.clone(), self.clock());
        for kept in kept {
            assert!(self.router.recall(&kept.account, kept.memory(now, clock), now), "it is configured still");
        }
        self.shell.saved = self.router.revision();
        self.reference.restart(&self.shell.disk.gates, clean && forward.is_zero(), forward, now);
        self.figures.restarts += 1;
        (self.shell.returning, self.shell.returned_by) = (BTreeSet::new(), Some(now + RETURN_GRACE));
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            if self.worker(job).machine.is_some() {
                self.shell.returning.insert(job);
                self.later(job, 1..60, News::Back);
            } else {
                self.tell_of_end(job);
            }
        }
    }
}
