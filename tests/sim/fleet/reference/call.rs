//! What may be tried for one call: 2 attempts at a provider while another may be asked, else 5; 2 changes.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Call {
    pub call: u64,
    attempts: BTreeMap<String, u32>,
    current: Option<String>,
    changes: u32,
}

impl Call {
    pub fn new(call: u64) -> Self {
        Call { call, ..Call::default() }
    }

    /// `others`: who else may be asked, of the providers this job may be sent to.
    pub fn attempt(&mut self, provider: &str, others: &[String]) {
        let changes = self.current.as_ref().is_some_and(|current| current != provider);
        let fresh = others.iter().find(|other| *other != provider && !self.attempts.contains_key(*other));
        let attempts = self.attempts.entry(provider.to_owned()).or_default();
        *attempts += 1;
        assert!(*attempts <= 5, "attempt {attempts} at {provider} in call {}", self.call);
        if let Some(fresh) = fresh.filter(|_| self.changes < 2) {
            assert!(*attempts <= 2, "attempt {attempts} at {provider} in call {}, and {fresh} may be asked", self.call);
        }
        self.changes += u32::from(changes);
        assert!(self.changes <= 2, "change {} in call {}", self.changes, self.call);
        self.current = Some(provider.to_owned());
    }

    /// We gave it up ourselves.
    pub fn take_back(&mut self, provider: &str) {
        if let Some(attempts) = self.attempts.get_mut(provider) {
            *attempts -= 1;
        }
    }
}
