//! The variables that a job's commands get besides the usual: those that its job file and its policy name (spec §2, §8).
//!
//! A name is resolved here, since a worker's environment holds nothing of the owner's. What ukai itself uses as a key is
//! never passed on, under whatever name it is asked for.

use std::collections::BTreeSet;

use ukai_protocol::job::JobSpec;
use ukai_protocol::secret::Secret;

/// A list may name a variable for each of its lines.
const NOTES_MAX: usize = 20;

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

    /// What these jobs name and their commands will not get: once each, however many jobs there are.
    #[must_use]
    pub fn left_out<'a>(&self, specs: impl Iterator<Item = &'a JobSpec>) -> Vec<String> {
        let named: BTreeSet<&String> = specs.flat_map(|spec| spec.policy.sandbox.env.iter().chain(&spec.env)).collect();
        self.missing(named.into_iter(), |name| std::env::var(name).ok())
    }

    fn missing<'a>(
        &self,
        named: impl Iterator<Item = &'a String>,
        own: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut left_out: Vec<String> = named
            .filter_map(|entry| {
                let (name, value) = match entry.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (&**entry, own(entry)),
                };
                match value {
                    Some(value) if self.is_key(&value) => {
                        Some(format!("{name} holds a key of ukai's and is not passed on to commands; name another"))
                    }
                    Some(_) => None,
                    None => Some(format!(
                        "{name} is not passed on to commands: it is not set, or is no text, in the environment of the \
                         server, which is the one that counts"
                    )),
                }
            })
            .collect();
        if left_out.len() > NOTES_MAX {
            let more = left_out.len() - NOTES_MAX;
            left_out.truncate(NOTES_MAX);
            left_out.push(format!("and {more} more variables are not passed on"));
        }
        left_out
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
        let is_key = self.is_key(value);
        if is_key {
            tracing::warn!(name, "a variable that holds a key of ukai's is not passed on to commands");
        }
        !is_key
    }

    fn is_key(&self, value: &str) -> bool {
        self.keys.iter().any(|key| !key.expose().trim().is_empty() && value.contains(key.expose().trim()))
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
        let notes = env.missing(named.iter(), own);
        for (note, part) in notes.iter().zip(["GONE is not passed on", "KEY holds a key", "URL holds a key"]) {
            assert!(note.contains(part) && !note.contains("sk-1"), "{note}");
        }
        assert_eq!(notes.len(), 3, "{notes:?}");
        let many: Vec<_> = (0..NOTES_MAX + 5).map(|number| format!("GONE{number}")).collect();
        assert_eq!(env.missing(many.iter(), own).last().map(|note| note.contains("5 more")), Some(true));
        let expected = [("CI", "yes"), ("A", "1=2"), ("CI", "no")];
        assert_eq!(env.resolve(named.iter(), own), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
