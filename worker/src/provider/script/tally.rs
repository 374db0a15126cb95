//! The two things a script may count: how often a rule has played, and since when it could.

#![deny(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::conversation::Conversation;
use super::file::{Per, Rule, Script};

/// Conversations and steps that are told apart for `times`; a test that has more wants another way.
const COUNTED_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub struct Tally {
    played: HashMap<(usize, String), u32>,
    since: HashMap<usize, Instant>,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("more than {COUNTED_MAX} conversations are counted for `times`; restart the script server")]
pub struct TooMany;

impl Tally {
    /// The first rule that fits and has not played out, by its place; it counts as played.
    pub fn choose(&mut self, script: &Script, request: &Conversation, now: Instant) -> Result<Option<usize>, TooMany> {
        for (at, rule) in script.rules.iter().enumerate() {
            if rule.when.holds(request) && self.in_time(at, rule, now) && self.count(at, rule, request)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn in_time(&mut self, at: usize, rule: &Rule, now: Instant) -> bool {
        let Some(first) = rule.first else { return true };
        let since = *self.since.entry(at).or_insert(now);
        now.saturating_duration_since(since) < first.0.max(Duration::ZERO)
    }

    fn count(&mut self, at: usize, rule: &Rule, request: &Conversation) -> Result<bool, TooMany> {
        let Some(times) = rule.times else { return Ok(true) };
        let key = match rule.per {
            Per::Conversation => request.key(),
            Per::Step => format!("{} {}", request.key(), request.step()),
            Per::Server => String::new(),
        };
        if self.played.len() >= COUNTED_MAX && !self.played.contains_key(&(at, key.clone())) {
            return Err(TooMany);
        }
        let played = self.played.entry((at, key)).or_insert(0);
        if *played >= times {
            return Ok(false);
        }
        *played += 1;
        Ok(true)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant has no other beginning")]
mod tests {
    use serde_json::json;

    use super::super::conversation::Wire;
    use super::super::conversation::tests::place;
    use super::*;

    fn request(prompt: &str, steps: usize) -> Conversation {
        let mut messages = vec![json!({"role": "user", "content": prompt})];
        for _ in 1..steps {
            messages.push(json!({"role": "assistant", "content": "so"}));
            messages.push(json!({"role": "user", "content": "go on"}));
        }
        Conversation::read(&place(Wire::Openai), &[], &json!({"model": "m", "messages": messages}), 0)
    }

    fn check(counted: &str, requests: &[(&str, usize, u64)], expected: &[usize]) {
        let text = format!("[[rule]]\n{counted}\nfault = {{ status = 500 }}\n[[rule]]\nreply = {{ text = 'ok' }}");
        let script = Script::parse(&text).expect(counted);
        let (mut tally, start) = (Tally::default(), Instant::now());
        let chosen = requests.iter().map(|(prompt, steps, ms)| {
            let now = start + Duration::from_millis(*ms);
            tally.choose(&script, &request(prompt, *steps), now).expect("few").expect("the second fits")
        });
        assert_eq!(chosen.collect::<Vec<_>>(), expected, "{counted}");
    }

    #[test]
    fn a_rule_plays_out_per_conversation_step_server_or_time() {
        let requests = [("a", 1, 0), ("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("b", 1, 0)];
        check("times = 1", &requests, &[0, 1, 0, 1, 1]);
        check("times = 1\nper = 'step'", &requests, &[0, 1, 0, 0, 1]);
        check("times = 1\nper = 'server'", &requests, &[0, 1, 1, 1, 1]);
        check("times = 2", &requests, &[0, 0, 0, 1, 0]);
        check("first = '2s'", &[("a", 1, 500), ("b", 1, 2_499), ("a", 1, 2_500)], &[0, 0, 1]);
    }
}
