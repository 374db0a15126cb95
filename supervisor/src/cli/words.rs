//! What the fixed words of a log mean, for somebody who has not read the manual.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::job::CauseKind;
use ukai_protocol::policy::{Consent, RuleList, Source};

use super::print::brief;

/// Of a hook's command line.
const HOOK_CHARS_MAX: usize = 60;

/// What ended a job. Its detail says the rest.
#[must_use]
pub fn cause(kind: CauseKind) -> String {
    match kind {
        CauseKind::AllOpen => "no provider could be asked",
        CauseKind::Limit(limit) => return format!("it reached its limit of {limit}"),
        CauseKind::Attempts => "a model call failed as often as it may",
        CauseKind::EmptyReply => "the model kept answering nothing",
        CauseKind::Verify => "its own check kept failing",
        CauseKind::ResultSchema => "its result kept breaking its schema",
        CauseKind::CannotGoOn => "what it asked for was denied again and again",
        CauseKind::ContextOverflow => "its conversation outgrew what the model can take",
        CauseKind::Loop => "the model kept making the same call with the same result",
        CauseKind::ProviderRejected => "the provider refused the request",
        CauseKind::NoCapableProvider => "no configured provider can do what it needs",
        CauseKind::Depth => "the model nested its arguments too deeply",
        CauseKind::ToolInOnce => "the model wanted a tool, and mode `once` has none",
        CauseKind::NodeFailed => "a node of its graph failed",
        CauseKind::CrashLoop => "its worker kept crashing",
        CauseKind::PolicyError => "its tool policy does not load",
        CauseKind::HookStop => "a hook stopped it",
        CauseKind::Internal => "a fault in ukai",
        CauseKind::Io(_) => "its log could not be read or written",
        CauseKind::Quarantined => "its files do not verify",
        CauseKind::Cancel => "somebody cancelled it",
        CauseKind::Signal => "a signal ended it",
        CauseKind::UserAbort => "somebody who was asked stopped it",
    }
    .to_owned()
}

/// Who decided on a call.
#[must_use]
pub fn source(source: &Source) -> String {
    match source {
        Source::Rule { list, rule } => {
            let list = match list {
                RuleList::Allow => "allow",
                RuleList::Ask => "ask",
                RuleList::Deny => "deny",
            };
            format!("rule `{rule}` of {list}")
        }
        Source::Default => "by ukai itself".to_owned(),
        Source::NoOneToAsk => "nobody to ask".to_owned(),
        Source::Classifier => "a command that only reads".to_owned(),
        Source::Hook { hook } => format!("the hook {}", brief(hook, HOOK_CHARS_MAX)),
        Source::Coordinator => "the supervisor".to_owned(),
        Source::User(Consent::Once) => "a person, this once".to_owned(),
        Source::User(Consent::Always) => "a person, from now on".to_owned(),
        Source::UserReject { .. } => "a person said no".to_owned(),
        Source::UserAbort => "a person ended the job".to_owned(),
        Source::Timeout => "nobody answered in time".to_owned(),
        Source::PolicyError => "the tool policy does not load".to_owned(),
    }
}
