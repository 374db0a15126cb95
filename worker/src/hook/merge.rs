//! What several hooks come to together: a no beats a question, and a question a yes (spec §9).

#![deny(clippy::disallowed_methods)]

use serde_json::Value;
use ukai_protocol::event::HookSaid;
use ukai_protocol::json::Json;

use super::answer::{Answer, CONTEXT_CHARS_MAX, cut};

/// All that the hooks of one occasion have said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// None: nobody has an opinion.
    pub verdict: Option<Verdict>,
    /// In the place of the call's.
    pub input: Option<Json>,
    /// The command line of who wants that.
    pub changed_by: String,
    /// For the model; empty: nothing.
    pub context: String,
    /// In the place of the tool's output.
    pub output: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub kind: Kind,
    /// The command line of who said it first.
    pub hook: String,
    pub why: String,
}

/// In the order in which one beats the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Allow,
    Ask,
    Deny,
}

/// In the order in which they were written.
pub(super) fn merge(answers: &[(&str, Answer)]) -> Said {
    let mut merged = Said::default();
    for (hook, answer) in answers {
        if let Some(kind) = kind(answer.said) {
            merged.hear(kind, hook, &answer.detail);
        }
        let changed = merged.input.as_ref().zip(answer.input.as_ref()).is_some_and(|(one, other)| one != other);
        if changed {
            merged.hear(Kind::Deny, hook, "two hooks want another input each, and only one of them could be run");
        }
        if answer.input.is_some() {
            merged.input.clone_from(&answer.input);
            merged.changed_by = (*hook).to_owned();
        }
        if answer.output.is_some() {
            merged.output.clone_from(&answer.output);
        }
        if !answer.context.is_empty() {
            let gap = if merged.context.is_empty() { "" } else { "\n" };
            merged.context = cut(&format!("{}{gap}{}", merged.context, answer.context), CONTEXT_CHARS_MAX);
        }
    }
    merged
}

impl Said {
    fn hear(&mut self, kind: Kind, hook: &str, why: &str) {
        match &mut self.verdict {
            Some(verdict) if verdict.kind > kind => {}
            Some(verdict) if verdict.kind == kind => {
                if kind != Kind::Allow && !why.is_empty() && !verdict.why.contains(why) {
                    let gap = if verdict.why.is_empty() { "" } else { "; " };
                    verdict.why = cut(&format!("{}{gap}{why}", verdict.why), CONTEXT_CHARS_MAX);
                }
            }
            other => *other = Some(Verdict { kind, hook: hook.to_owned(), why: why.to_owned() }),
        }
    }

    /// What speaks against it.
    #[must_use]
    pub fn denied(&self) -> Option<&Verdict> {
        self.verdict.as_ref().filter(|verdict| verdict.kind == Kind::Deny)
    }
}

fn kind(said: HookSaid) -> Option<Kind> {
    match said {
        HookSaid::Passed | HookSaid::FailedOpen => None,
        HookSaid::Allowed => Some(Kind::Allow),
        HookSaid::Asked => Some(Kind::Ask),
        HookSaid::Blocked | HookSaid::Stopped | HookSaid::FailedClosed => Some(Kind::Deny),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(said: HookSaid, detail: &str) -> Answer {
        Answer { said, detail: detail.to_owned(), input: None, context: String::new(), output: None }
    }

    #[test]
    fn deny_beats_ask_beats_allow() {
        use HookSaid::{Allowed, Asked, Blocked, FailedClosed, FailedOpen, Passed, Stopped};
        for (said, expected) in [
            (&[][..], None),
            (&[(Passed, ""), (FailedOpen, "x")], None),
            (&[(Allowed, "a"), (Passed, "")], Some((Kind::Allow, "0", "a"))),
            (&[(Allowed, "a"), (Allowed, "b")], Some((Kind::Allow, "0", "a"))),
            (&[(Allowed, "a"), (Asked, "b")], Some((Kind::Ask, "1", "b"))),
            (&[(Asked, "b"), (Allowed, "a")], Some((Kind::Ask, "0", "b"))),
            (&[(Asked, "b"), (Blocked, "c"), (Blocked, "d")], Some((Kind::Deny, "1", "c; d"))),
            (&[(Blocked, "c"), (Blocked, "c")], Some((Kind::Deny, "0", "c"))),
            (&[(Allowed, "a"), (FailedClosed, "e")], Some((Kind::Deny, "1", "e"))),
            (&[(Allowed, "a"), (Stopped, "f")], Some((Kind::Deny, "1", "f"))),
        ] {
            let answers: Vec<(String, Answer)> =
                said.iter().enumerate().map(|(at, (said, why))| (at.to_string(), answer(*said, why))).collect();
            let answers: Vec<(&str, Answer)> = answers.iter().map(|(hook, said)| (&**hook, said.clone())).collect();
            let expected =
                expected.map(|(kind, hook, why)| Verdict { kind, hook: hook.to_owned(), why: why.to_owned() });
            assert_eq!(merge(&answers).verdict, expected, "{said:?}");
        }
    }

    #[test]
    fn what_is_added_adds_up_and_two_inputs_are_none() {
        let input = |text: &str| Some(Json(json!({"command": text}).as_object().cloned().expect("an object")));
        let with = |command: &str, context: &str| Answer {
            input: input(command),
            context: context.to_owned(),
            ..answer(HookSaid::Allowed, "")
        };
        let same = merge(&[("a", with("ls", "one")), ("b", with("ls", "two"))]);
        assert_eq!((same.input.clone(), &*same.context, same.denied()), (input("ls"), "one\ntwo", None));
        assert!(merge(&[("a", with("ls", "")), ("b", with("rm", ""))]).denied().is_some());
    }
}
