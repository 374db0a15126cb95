//! What the rules say of a call: a verdict, or a question for a person with what that person should know.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::policy::{Judgement, RuleList, Source, Verdict};

use super::Listed;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    Final(Judgement),
    Ask(Question),
}

/// What a person is to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The rule that wants it, of an `ask` list: then nobody but a person may allow. Without one, no list names the call.
    pub rule: Option<String>,
    /// For the person.
    pub why: String,
    /// Rules with which it would be allowed; empty: none that would allow no more than its like.
    pub missing: Vec<String>,
    /// For the model, if nobody can be asked.
    advice: &'static str,
}

impl Opinion {
    pub(super) fn allow(source: Source) -> Self {
        Opinion::Final(Judgement::allow(source))
    }

    pub(super) fn deny(source: Source, why: impl Into<String>) -> Self {
        Opinion::Final(Judgement::deny(source, why))
    }

    pub(super) fn ask(why: String) -> Self {
        Opinion::Ask(Question { rule: None, why, missing: Vec::new(), advice: "" })
    }

    /// Of a command line of which rules allow only a part.
    pub(super) fn ask_for(why: String, missing: Vec<String>) -> Self {
        Opinion::Ask(Question { rule: None, why, missing, advice: "" })
    }

    /// Of a command line that may be allowed in another form.
    pub(super) fn ask_plainer(why: String) -> Self {
        Opinion::Ask(Question { rule: None, why, missing: Vec::new(), advice: PLAINER })
    }

    pub(super) fn ask_by(listed: &Listed, shown: &str) -> Self {
        let why = format!("the rule `{}` wants a person asked about {shown}", listed.text);
        Opinion::Ask(Question { rule: Some(listed.text.clone()), why, missing: Vec::new(), advice: "" })
    }

    pub(super) fn is_allow(&self) -> bool {
        matches!(self, Opinion::Final(judgement) if judgement.verdict == Verdict::Allow)
    }

    /// Whether a deny rule, a root or a broken policy speaks against it: nothing can change that.
    #[must_use]
    pub fn is_deny(&self) -> bool {
        matches!(self, Opinion::Final(judgement) if judgement.verdict == Verdict::Deny)
    }

    /// A hook wants a person asked, whatever rules allow.
    #[must_use]
    pub fn asked_by_hook(self, hook: &str, reason: &str) -> Self {
        let gap = if reason.is_empty() { "" } else { ": " };
        let wants = format!("the hook `{hook}` wants a person asked{gap}{reason}");
        match self {
            Opinion::Final(_) => Opinion::ask(wants),
            Opinion::Ask(question) => Opinion::Ask(Question { why: format!("{}; {wants}", question.why), ..question }),
        }
    }

    /// The verdict where nobody can be asked.
    #[must_use]
    pub fn unasked(self) -> Judgement {
        match self {
            Opinion::Final(judgement) => judgement,
            Opinion::Ask(question) => question.denied(),
        }
    }
}

impl Question {
    /// About a call that no list names.
    #[must_use]
    pub fn unlisted(why: impl Into<String>) -> Self {
        Question { rule: None, why: why.into(), missing: Vec::new(), advice: "" }
    }

    /// The name that an `ask` list gave it, for who shows it.
    #[must_use]
    pub fn in_list(&self) -> Option<String> {
        self.rule.as_ref().map(|rule| format!("{} {rule}", RuleList::Ask.as_str()))
    }

    #[must_use]
    pub fn denied(self) -> Judgement {
        let Question { why, missing, advice, .. } = self;
        let why = format!("{why}, {NO_ONE} {advice}");
        Judgement { missing, ..Judgement::deny(Source::NoOneToAsk, why.trim_end()) }
    }
}

const NO_ONE: &str =
    "and there is no one to ask. Go on with what is allowed, or say in your answer what you would have done.";
const PLAINER: &str = "A plainer command line, one command at a time and without variables, may be allowed.";
