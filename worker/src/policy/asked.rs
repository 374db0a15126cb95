//! Which rule of the ask list wants a person asked about a call.
//!
//! A judgement names no ask rule as long as nobody can be asked, since it is a denial then. So the judge itself is
//! asked again, with everything allowed that no rule speaks of: what is still to be asked is so by a rule, and by the
//! first one without which it would not be.

use ukai_protocol::json::Json;
use ukai_protocol::policy::{Policy, Rule, Source};

use crate::permission::Permission;

/// None: no list names the call, or what it says is not understood.
pub(super) fn rule<'a>(
    policy: &'a Policy,
    tool: &str,
    input: &Json,
    bind: impl Fn(&Policy) -> Permission,
) -> Option<&'a str> {
    let asks = |count: usize| {
        let mut generous = Policy { ask: policy.ask.iter().take(count).cloned().collect(), ..policy.clone() };
        generous.allow.push(Rule::new(tool, "/"));
        bind(&generous).judge(tool, input).source == Source::NoOneToAsk
    };
    if asks(0) || !asks(policy.ask.len()) {
        return None;
    }
    // More rules never ask less, so the shortest list that asks ends in the rule that does.
    let (mut none, mut some) = (0, policy.ask.len());
    while some - none > 1 {
        let middle = none + (some - none) / 2;
        if asks(middle) { some = middle } else { none = middle }
    }
    policy.ask.get(some - 1).map(|rule| &*rule.text)
}
