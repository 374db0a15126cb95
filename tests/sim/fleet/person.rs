//! Persons: who pauses, lets go on and cancels, and who looks at the providers.

use rand::RngExt as _;
use ukai_protocol::event::Event;
use ukai_supervisor::route::fit::Wants;
use ukai_worker::query::machine::Machine;

use super::Fleet;
use super::agenda::{Coming, Wish};
use super::labs::LABS;

impl Fleet {
    pub fn wished(&mut self, job: u32, wish: Wish) {
        let worker = self.worker(job);
        if worker.has_finished() {
            return;
        }
        match wish {
            Wish::Pause if !worker.paused => {
                worker.paused = true;
                worker.log.push(Event::Paused {});
                worker.machine.iter_mut().for_each(Machine::handle_pause);
                self.shell.queue.retain(|queued| *queued != job);
                self.wish_later(job, 1_000..1_800_000, Wish::Unpause);
            }
            Wish::Unpause if worker.paused => {
                worker.paused = false;
                worker.log.push(Event::Unpaused {});
                worker.machine.iter_mut().for_each(Machine::handle_unpause);
                if !worker.has_process() {
                    self.shell.queue.push_back(job);
                }
            }
            Wish::Cancel => {
                worker.cancelled = true;
                worker.machine.iter_mut().for_each(Machine::handle_cancel);
                if !worker.has_process() {
                    return self.close(job);
                }
            }
            Wish::Pause | Wish::Unpause => {}
        }
        self.carry_on(job);
    }

    /// Somebody looks at the providers, and opens what only a person can. In the morning somebody wants them all.
    pub fn visit(&mut self) {
        let now = self.agenda.now;
        for (id, lab) in &mut self.labs {
            let gate = &self.reference.gates[id];
            let hasty = self.rng.random_bool(0.05);
            let mended = gate.awaits_person() && lab.takes_the_key(now);
            if !gate.is_closed() && (mended || hasty) {
                // What the router holds may be later than what was named; whether keeping it opens again is then not known.
                let is_blurred = self.shell.set_back || gate.is_backing_off(now);
                let forget_wait = self.rng.random_bool(0.1) || is_blurred;
                self.router.reset(id, forget_wait, now);
                self.reference.reset(id, forget_wait, now);
            }
        }
        if self.is_night() {
            return self.at(600..4_000, Coming::Visit);
        }
        for (id, ..) in LABS {
            self.router.wish(&Wants { provider: Some(id.to_owned()), ..Wants::default() }, now);
        }
        self.at(60..240, Coming::Visit);
    }
}
