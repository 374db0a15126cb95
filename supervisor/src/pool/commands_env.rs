//! The variables that a job's commands get besides the usual: those that its job file and its policy name (spec §2, §8).
//!
//! A name is resolved here, since a worker's environment holds nothing of the owner's. What ukai itself uses as a key is
//! never passed on, under whatever name it is asked for.

use ukai_protocol::job::JobSpec;
use ukai_protocol::secret::Secret;

/// Knows what must not be handed to a command.
pub struct CommandsEnv {
    keys: Vec<Secret>,
}

impl CommandsEnv {
    #[must_use]
    pub fn new(keys: Vec<Secret>) -> Self {
        CommandsEnv { keys }
    }

    /// For this job, from this process's environment; the later of two with one name counts.
    #[must_use]
    pub fn of(&self, spec: &JobSpec) -> Vec<(String, String)> {
        self.resolve(spec.policy.sandbox.env.iter().chain(&spec.env), |name| std::env::var(name).ok())
    }

    fn resolve<'a>(
        &self,
        named: impl Iterator<Item = &'a String>,
        own: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let resolved = named.filter_map(|entry| match entry.split_once('=') {
            Some((name, value)) => Some((name.to_owned(), value.to_owned())),
            None => own(entry).map(|value| (entry.clone(), value)),
        });
        resolved.filter(|(name, value)| self.may_pass(name, value)).collect()
    }

    fn may_pass(&self, name: &str, value: &str) -> bool {
        let is_key = self.keys.iter().any(|key| !key.expose().trim().is_empty() && value.contains(key.expose().trim()));
        if is_key {
            tracing::warn!(name, "a variable that holds a key of ukai's is not passed on to commands");
        }
        !is_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_and_no_key_is_passed_on() {
        let env = CommandsEnv::new(vec![Secret::new("sk-12345678\n".to_owned()), Secret::new(String::new())]);
        let named = ["CI", "GONE", "A=1=2", "KEY", "URL=https://x:sk-12345678@h", "CI=no"].map(str::to_owned);
        let own = |name: &str| match name {
            "CI" => Some("yes".to_owned()),
            "KEY" => Some("sk-12345678".to_owned()),
            _ => None,
        };
        let expected = [("CI", "yes"), ("A", "1=2"), ("CI", "no")];
        assert_eq!(env.resolve(named.iter(), own), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
