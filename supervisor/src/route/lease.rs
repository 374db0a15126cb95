//! The leases that are out: who holds which, and what it reserved. Each comes back once, by whichever road it comes first:
//! its report, its holder's new ask, its holder's end.

#![deny(clippy::disallowed_methods)]

use std::collections::HashMap;

use ukai_protocol::id::JobId;

use super::account::Admission;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Job(JobId),
    /// The supervisor itself, for an account whose breaker is HALF_OPEN.
    Probe,
}

#[derive(Clone, Debug)]
pub struct Lease {
    pub holder: Holder,
    /// Its place among the providers.
    pub provider: usize,
    pub admission: Admission,
    /// Tokens taken from the account's bucket for it.
    pub reserved: f64,
    /// Of these the input, as the worker estimated it.
    pub window: u64,
}

#[derive(Debug, Default)]
pub struct Leases {
    out: HashMap<u64, Lease>,
    of_jobs: HashMap<JobId, u64>,
    last: u64,
}

impl Leases {
    pub fn grant(&mut self, lease: Lease) -> u64 {
        self.last += 1;
        if let Holder::Job(job) = &lease.holder {
            self.of_jobs.insert(job.clone(), self.last);
        }
        self.out.insert(self.last, lease);
        self.last
    }

    /// Ends it, if it is out and this holder's.
    pub fn end(&mut self, id: u64, holder: &Holder) -> Option<Lease> {
        if self.out.get(&id).is_none_or(|lease| lease.holder != *holder) {
            return None;
        }
        if let Holder::Job(job) = holder {
            self.of_jobs.remove(job);
        }
        self.out.remove(&id)
    }

    /// Ends what a job holds: it has one query loop, and so at most one lease.
    pub fn end_of(&mut self, job: &JobId) -> Option<Lease> {
        let id = self.of_jobs.remove(job)?;
        self.out.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_comes_back_once_and_only_from_its_holder() {
        let mut leases = Leases::default();
        let job = |number| JobId::from_random([0, 0, 0, 0, number]);
        let lease = |holder| Lease {
            holder,
            provider: 0,
            admission: Admission::Request { generation: 0 },
            reserved: 5.0,
            window: 3,
        };
        let first = leases.grant(lease(Holder::Job(job(1))));
        let probe = leases.grant(lease(Holder::Probe));
        assert!(leases.end(first, &Holder::Job(job(2))).is_none());
        assert!(leases.end(first, &Holder::Probe).is_none());
        assert!(leases.end(first, &Holder::Job(job(1))).is_some());
        assert!(leases.end(first, &Holder::Job(job(1))).is_none());
        assert!(leases.end_of(&job(1)).is_none());
        leases.grant(lease(Holder::Job(job(1))));
        assert!(leases.end_of(&job(1)).is_some());
        assert!(leases.end_of(&job(1)).is_none());
        assert!(leases.end(probe, &Holder::Probe).is_some());
        assert!(leases.end(probe, &Holder::Probe).is_none());
    }
}
