//! All rules of a policy that are wrong, with what is wrong with each.
//!
//! To a job the first is enough: it denies everything. Whoever mends a policy wants all of them at once.

use ukai_protocol::one_shot::RuleFault;
use ukai_protocol::policy::{self, Policy, RuleList};

use crate::permission::Permission;
use crate::permission::rule::{Anchor, Rule};

/// For a policy that does not hold together.
pub(super) fn of(policy: &Policy, bind: impl Fn(&Policy) -> Permission) -> Vec<RuleFault> {
    let lists = [(RuleList::Deny, &policy.deny), (RuleList::Ask, &policy.ask), (RuleList::Allow, &policy.allow)];
    let rules = lists.into_iter().flat_map(|(list, rules)| rules.iter().enumerate().map(move |rule| (list, rule)));
    let roots = roots(policy);
    let mut faults = Vec::new();
    for (list, (at, rule)) in rules {
        let mut fault = |why| faults.push(RuleFault { list, at, why });
        if let Err(bad) = Rule::parse(&rule.text) {
            fault(bad.why);
            continue;
        }
        for alone in examples(rule) {
            let mut one = Policy { allow: roots.clone(), ..Policy::default() };
            let mark = format!("`{}`: ", rule.text);
            match list {
                RuleList::Deny => one.deny.push(alone),
                RuleList::Ask => one.ask.push(alone),
                RuleList::Allow => one.allow.push(alone),
            }
            if let Some(why) = bind(&one).broken() {
                // Where it stands among those few is no place that anybody knows.
                fault(why.split_once(&mark).map_or(why, |(_, rest)| rest).to_owned());
            }
        }
    }
    faults
}

/// The rule once for each of its examples, with that one alone.
fn examples(rule: &policy::Rule) -> impl Iterator<Item = policy::Rule> {
    let bare = || policy::Rule::new(rule.text.clone(), rule.base.clone());
    let matching =
        rule.match_examples.iter().map(move |example| policy::Rule { match_examples: vec![example.clone()], ..bare() });
    let others = rule
        .not_match_examples
        .iter()
        .map(move |example| policy::Rule { not_match_examples: vec![example.clone()], ..bare() });
    matching.chain(others)
}

/// The rules that open roots, without their examples: what a pattern without a slash is held against depends on them.
fn roots(policy: &Policy) -> Vec<policy::Rule> {
    let opens = |rule: &&policy::Rule| matches!(Rule::parse(&rule.text), Ok(Rule::Path(path)) if matches!(path.anchor, Anchor::Root | Anchor::Home));
    let bare = |rule: &policy::Rule| policy::Rule::new(rule.text.clone(), rule.base.clone());
    policy.allow.iter().filter(opens).map(bare).collect()
}
