//! One call judged, in the words of `ukai policy check`.

use ukai_protocol::json::Json;
use ukai_protocol::one_shot::{Answer, Call, Decision, Verdict};
use ukai_protocol::policy::{self, Judgement, Policy, Source, split_rule};

use crate::permission::{Opinion, Permission};
use crate::tool::registry;

pub(super) fn on(call: &Call, policy: &Policy, permission: &Permission) -> Answer {
    let Call { tool, input } = call;
    if let Err(why) = is_call(tool, input, policy) {
        return Answer::NoCall { why };
    }
    let verdict = match permission.opinion(tool, input) {
        Opinion::Ask(question) => {
            let (rule, why) = (question.in_list(), question.why);
            let source = if rule.is_some() { "rule" } else { "default" };
            Verdict { decision: Decision::Ask, source: source.to_owned(), rule, why }
        }
        Opinion::Final(Judgement { verdict, source, why, .. }) => {
            let decision = match verdict {
                policy::Verdict::Allow => Decision::Allow,
                policy::Verdict::Deny => Decision::Deny,
            };
            let (source, rule) = match source {
                Source::Rule { list, rule } => ("rule".to_owned(), Some(format!("{} {rule}", list.as_str()))),
                other => (word(&other), None),
            };
            let why = match (decision, &rule) {
                (Decision::Allow, Some(rule)) if why.is_empty() => format!("by the rule `{rule}`"),
                _ => why,
            };
            Verdict { decision, source, rule, why }
        }
    };
    Answer::Judged(verdict)
}

/// Whether a model's call like this would come as far as being judged.
fn is_call(tool: &str, input: &Json, policy: &Policy) -> Result<(), String> {
    if registry::is_built(tool) {
        return registry::validate(tool, input);
    }
    let mut rules = policy.deny.iter().chain(&policy.ask).chain(&policy.allow);
    let is_ruled = |rule: &policy::Rule| split_rule(&rule.text).is_ok_and(|(name, _)| name == tool);
    if registry::is_known(tool) || tool.starts_with("mcp__") || rules.any(is_ruled) {
        return Ok(());
    }
    Err(format!("there is no tool named `{tool}`; the nearest are {}", registry::nearest(tool).join(", ")))
}

/// As it stands in the log.
fn word(source: &Source) -> String {
    match serde_json::to_value(source) {
        Ok(serde_json::Value::String(word)) => word,
        // Those that carry more than their name; none but `Rule` does.
        Ok(other) => other.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_default(),
        Err(_) => String::new(),
    }
}
