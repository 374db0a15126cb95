//! `ack`: a person has seen what wanted to be seen. Answered when that is on disk; only this ends an attention, and that
//! a person had another job made in its place (`--retry`).

use std::collections::BTreeSet;

use ukai_protocol::control::{Selection, ToSee};
use ukai_protocol::event::Event;
use ukai_protocol::id::JobId;
use ukai_protocol::server_event::ServerEvent;

use super::attempt::Write;
use super::{Answer, Refusal, State};
use crate::store::StoreError;

/// What a banner names; the rest is counted.
const FIRST_MAX: usize = 10;

/// What a person is wanted for.
#[derive(Debug)]
pub struct AttentionWanted {
    pub first: Vec<ToSee>,
    pub count: u64,
    pub asks: (Vec<String>, u64),
}

/// A client that waits until its word is on disk.
pub struct Acking {
    number: u64,
    seen: Vec<ToSee>,
    left: BTreeSet<JobId>,
    /// How many records of the server's log must be written; 0: none.
    server: u64,
    failed: Vec<String>,
    answer: Answer<Vec<ToSee>>,
}

impl State {
    /// Jobs in the order of submission, then what is no job's.
    fn to_see(&self) -> Vec<ToSee> {
        let mut jobs: Vec<_> =
            self.jobs.iter().filter_map(|(id, job)| Some((job.order, id, job.progress.attention.clone()?))).collect();
        jobs.sort_by_key(|(order, ..)| *order);
        let mut seen: Vec<_> = jobs.into_iter().map(|(_, id, why)| ToSee { subject: id.to_string(), why }).collect();
        let known: BTreeSet<_> = seen.iter().map(|to_see| to_see.subject.clone()).collect();
        let others = self.server_log.state.attention().into_iter().filter(|(subject, _)| !known.contains(subject));
        seen.extend(others.map(|(subject, why)| ToSee { subject, why }));
        seen
    }

    pub(super) fn attention(&self, answer: Answer<AttentionWanted>) {
        let mut first = self.to_see();
        let count = first.len() as u64;
        first.truncate(FIRST_MAX);
        let mut jobs: Vec<_> = self.jobs.iter().filter(|(_, job)| !job.progress.asks.is_empty()).collect();
        jobs.sort_by_key(|(_, job)| job.order);
        let asks = jobs.into_iter().flat_map(|(id, job)| job.progress.asks.iter().map(move |ask| (id, ask)));
        let mut asks: Vec<_> = asks.map(|(id, ask)| format!("{id}/{}", ask.call)).collect();
        let asked = asks.len() as u64;
        asks.truncate(FIRST_MAX);
        // A client that has gone needs no answer, here and below.
        let _ = answer.send(Ok(AttentionWanted { first, count, asks: (asks, asked) }));
    }

    pub(super) fn ack(&mut self, what: Vec<String>, all: bool, answer: Answer<Vec<ToSee>>) {
        let all_of_it = self.to_see();
        let seen = if all {
            all_of_it
        } else {
            match self.meant_by(what, &all_of_it) {
                Ok(seen) => seen,
                Err(refusal) => return drop(answer.send(Err(refusal))),
            }
        };
        let number = self.next_order();
        let mut left = BTreeSet::new();
        let mut events = Vec::new();
        for ToSee { subject, .. } in &seen {
            if self.server_log.state.attention().iter().any(|(name, _)| name == subject) {
                events.push(ServerEvent::Acked { subject: subject.clone() });
            }
            let Ok(id) = subject.parse::<JobId>() else { continue };
            match self.jobs.get_mut(&id) {
                // What is wrong with it stands in no log of its own.
                Some(job) if job.unwritten => job.progress.attention = None,
                Some(job) if job.progress.attention.is_some() => {
                    left.insert(id.clone());
                    self.write(&id, Event::Acked {}, Write::Acked { number });
                }
                _ => {}
            }
        }
        let server = if events.is_empty() { 0 } else { self.note(events) };
        self.acks.push(Acking { number, seen, left, server, failed: Vec::new(), answer });
        self.answer_acks();
    }

    /// Who has another job made in its place has seen how this one ended.
    pub(super) fn seen_by_retry(&mut self, id: &JobId) {
        match self.jobs.get_mut(id) {
            Some(job) if job.unwritten => job.progress.attention = None,
            // Nobody waits for it: where it cannot be written, it is shown on.
            Some(job) if job.progress.attention.is_some() => {
                let number = self.next_order();
                self.write(id, Event::Acked {}, Write::Acked { number });
            }
            _ => {}
        }
    }

    /// Names of what is no job's go first: a job cannot be called so by accident and hide it.
    fn meant_by(&self, what: Vec<String>, all_of_it: &[ToSee]) -> Result<Vec<ToSee>, Refusal> {
        let (others, jobs): (Vec<_>, Vec<_>) =
            what.into_iter().partition(|name| self.server_log.state.attention().iter().any(|(other, _)| other == name));
        let ids = if jobs.is_empty() { Vec::new() } else { self.select(&Selection::These(jobs))? };
        let named: BTreeSet<String> = ids.into_iter().map(String::from).chain(others).collect();
        Ok(all_of_it.iter().filter(|to_see| named.contains(&to_see.subject)).cloned().collect())
    }

    pub(super) fn wrote_ack(&mut self, id: &JobId, number: u64, result: Result<(), StoreError>) {
        for acking in self.acks.iter_mut().filter(|acking| acking.number == number) {
            if acking.left.remove(id)
                && let Err(error) = &result
            {
                acking.failed.push(error.to_string());
            }
        }
        self.answer_acks();
    }

    pub(super) fn answer_acks(&mut self) {
        let written = self.server_log.written();
        let (done, left): (Vec<_>, _) = std::mem::take(&mut self.acks)
            .into_iter()
            .partition(|acking: &Acking| acking.left.is_empty() && acking.server <= written);
        self.acks = left;
        for Acking { seen, mut failed, server, answer, .. } in done {
            failed.extend(self.server_log.failed(server));
            let answered = match failed.first() {
                None => Ok(seen),
                Some(why) => {
                    let why =
                        format!("not all of it could be written, and is shown again: {why}; mend that, and ack again");
                    Err(Refusal { why, usage: false })
                }
            };
            let _ = answer.send(answered);
        }
    }
}
