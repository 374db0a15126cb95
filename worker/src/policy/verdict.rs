//! One call judged, in the words of `ukai policy check`.

use ukai_protocol::json::Json;
use ukai_protocol::one_shot::{Answer, Call, Decision, Verdict};
use ukai_protocol::policy::{self, Judgement, Policy, RuleList, Source, split_rule};

use super::asked;
use crate::permission::Permission;
use crate::tool::registry;

/// A judgement is worded for a model that nobody can be asked for. A person who reads it can be, and knows the rest.
const FOR_THE_MODEL: &str = ", and there is no one to ask";

pub(super) fn on(
    call: &Call,
    policy: &Policy,
    permission: &Permission,
    bind: impl Fn(&Policy) -> Permission,
) -> Answer {
    let Call { tool, input } = call;
    if let Err(why) = is_call(tool, input, policy) {
        return Answer::NoCall { why };
    }
    let Judgement { verdict, source, why } = permission.judge(tool, input);
    let by = match (verdict, &source) {
        (policy::Verdict::Allow, _) => Decision::Allow,
        (policy::Verdict::Deny, Source::NoOneToAsk) => Decision::Ask,
        (policy::Verdict::Deny, _) => Decision::Deny,
    };
    let (source, rule) = match source {
        Source::Rule { list, rule } => ("rule".to_owned(), Some(in_list(list, &rule))),
        Source::NoOneToAsk => match asked::rule(policy, tool, input, bind) {
            Some(rule) => ("rule".to_owned(), Some(in_list(RuleList::Ask, rule))),
            None => ("default".to_owned(), None),
        },
        other => (word(&other), None),
    };
    let why = match (by, &rule) {
        (Decision::Allow, Some(rule)) if why.is_empty() => format!("by the rule `{rule}`"),
        (Decision::Ask, _) => why.split(FOR_THE_MODEL).next().unwrap_or_default().to_owned(),
        _ => why,
    };
    Answer::Judged(Verdict { decision: by, source, rule, why })
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

fn in_list(list: RuleList, rule: &str) -> String {
    format!("{} {rule}", list.as_str())
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
