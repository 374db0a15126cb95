//! `ukai policy`: what would hold for a job here, rule by rule, and who wrote each.

use serde_json::{Value, json};
use ukai_protocol::policy::{Policy, Rule, RuleList};

use super::{LISTS, Of, asked, faults, ground, rules, say};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::job::ground::Ground;
use crate::cli::{Output, print, table};
use crate::config::duration;
use crate::policy_file::origin::Origin;
use crate::policy_file::{Traced, sandbox};

pub(super) async fn show(context: &Context, of: Of) -> Result<u8, Failure> {
    let (ground, mut notes) = ground(context, of).await?;
    notes.extend(sandbox::missing(&ground.traced.policy.sandbox));
    let traced = &ground.traced;
    let answer = asked(context, &ground.workdir, &traced.policy, Vec::new()).await?;
    let faults = faults(traced, &answer);
    match context.output {
        Output::Text => {
            say(&notes);
            print::out(&text(&ground, &faults))
        }
        Output::Json | Output::StreamJson => print::out(&format!("{}\n", as_json(&ground, &faults, &notes))),
    };
    Ok(0)
}

fn text(ground: &Ground, faults: &[String]) -> String {
    let policy = &ground.traced.policy;
    let or_none = |words: &[String]| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let priority = &policy.provider_priority;
    let file = ground.traced.file.as_ref().map_or_else(|| "shipped".to_owned(), |file| file.display().to_string());
    let facts = [
        ("policy", file),
        ("workdir", ground.workdir.display().to_string()),
        ("sandbox", sandbox::described(&policy.sandbox)),
        ("ask_timeout", duration::show(policy.ask_timeout_ms)),
        ("provider_priority", if priority.is_empty() { "as configured".to_owned() } else { priority.join(", ") }),
        ("tools switched off", or_none(&policy.disabled_tools)),
    ];
    let mut text = table::columns(&facts.map(|(key, value)| [key.to_owned(), value]));
    if !faults.is_empty() {
        text.push_str("\nEvery tool call is denied, since the policy is broken:\n");
        faults.iter().for_each(|fault| text.push_str(&format!("  {fault}\n")));
    }
    let rows = each(ground).map(|(list, rule, origin)| {
        [list.as_str().to_owned(), rule.text.clone(), origin.map(ToString::to_string).unwrap_or_default()]
    });
    let titles = ["LIST", "RULE", "FROM"].map(str::to_owned);
    text.push('\n');
    text.push_str(&table::columns(&std::iter::once(titles).chain(rows).collect::<Vec<_>>()));
    print::clean(&text)
}

fn each(ground: &Ground) -> impl Iterator<Item = (RuleList, &Rule, Option<&Origin>)> {
    let Traced { policy, origins, .. } = &ground.traced;
    let of =
        move |list| rules(policy, list).iter().enumerate().map(move |(at, rule)| (list, rule, origins.of(list, at)));
    LISTS.into_iter().flat_map(of)
}

fn as_json(ground: &Ground, faults: &[String], notes: &[String]) -> Value {
    let Policy { sandbox, ask_timeout_ms, provider_priority, disabled_tools, .. } = &ground.traced.policy;
    let rules = each(ground).map(|(list, rule, origin)| {
        let (from, line) = (origin.map(|origin| &origin.said_by), origin.and_then(|origin| origin.line));
        json!({ "list": list.as_str(), "rule": rule.text, "from": from, "line": line })
    });
    json!({
        "type": "policy",
        "file": ground.traced.file,
        "workdir": ground.workdir,
        "broken": faults,
        "rules": rules.collect::<Vec<_>>(),
        "sandbox": sandbox,
        "ask_timeout_ms": ask_timeout_ms,
        "provider_priority": provider_priority,
        "disabled_tools": disabled_tools,
        "notes": notes,
    })
}
