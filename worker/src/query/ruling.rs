//! What is decided on one call before it runs: a verdict, a question for a person, or that there is nothing to permit.
//!
//! The rules first, then the owner's hooks, then the rules again on what hooks made of the input (spec §8, §9). What is
//! judged, shown, recorded and run is one and the same input.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;
use ukai_protocol::event::Event;
use ukai_protocol::hook::HookPoint;
use ukai_protocol::json::Json;
use ukai_protocol::policy::{Judgement, Source};

use super::machine::Ruling;
use crate::deps::Deps;
use crate::hook::{self, Kind, Occasion, Said, Subject};
use crate::permission::{Opinion, path};
use crate::tool;

/// With a record of each hook that was run for it.
pub(super) fn on(deps: &Deps, of: Subject, cancel: &CancellationToken) -> (Ruling, Vec<Event>) {
    let mut ran = Vec::new();
    let ruling = decide(deps, of, cancel, &mut ran);
    (ruling, ran)
}

fn decide(deps: &Deps, mut of: Subject, cancel: &CancellationToken, ran: &mut Vec<Event>) -> Ruling {
    if !deps.tools.is_known(&of.tool) {
        return Ruling::Invalid { why: tool::unknown(&of.tool, &deps.tools).output };
    }
    let guarded = deps.hooks.has(HookPoint::PreToolUse) || deps.hooks.has(HookPoint::PermissionRequest);
    if guarded {
        of.input = absolute(deps, &of.tool, of.input);
    }
    let mut opinion = deps.permission().opinion(&of.tool, &of.input);
    if guarded && !opinion.is_deny() {
        // Nobody is to be asked about what could not be run.
        if let Err(why) = deps.tools.validate(&of.tool, &of.input) {
            return Ruling::Invalid { why };
        }
        let outcome = deps.hooks.run(&Occasion::PreToolUse(of.clone()), cancel);
        ran.extend(outcome.ran);
        if let Some(denied) = outcome.said.denied() {
            return judged(deps, of, denied.denial());
        }
        match changed(deps, &mut of, &outcome.said) {
            Ok(Some(again)) => opinion = again,
            Ok(None) => {}
            Err(denial) => return judged(deps, of, denial),
        }
        opinion = by_hooks(opinion, &outcome.said);
    }
    let question = match opinion {
        Opinion::Final(judgement) => return judged(deps, of, judgement),
        Opinion::Ask(question) => question,
    };
    if let Some(timeout) = deps.ask_timeout {
        if let Err(why) = deps.tools.validate(&of.tool, &of.input) {
            return Ruling::Invalid { why };
        }
        let read_only = is_read_only(deps, &of);
        let deadline_ms = since_1970(timeout);
        return Ruling::Ask { input: of.input, read_only, question, deadline_ms };
    }
    // Nobody can be asked, so that hooks alone may answer.
    let outcome = deps.hooks.run(&Occasion::PermissionRequest(of.clone()), cancel);
    ran.extend(outcome.ran);
    if let Some(denied) = outcome.said.denied() {
        return judged(deps, of, denied.denial());
    }
    match changed(deps, &mut of, &outcome.said) {
        Ok(None) => {}
        Ok(Some(Opinion::Ask(again))) if again.rule.is_none() => {}
        Ok(Some(again)) => return judged(deps, of, again.unasked()),
        Err(denial) => return judged(deps, of, denial),
    }
    match by_hooks(Opinion::Ask(question), &outcome.said) {
        Opinion::Final(judgement) => judged(deps, of, judgement),
        Opinion::Ask(question) => judged(deps, of, question.denied()),
    }
}

/// What the rules say of the input that hooks want instead, where they want one.
fn changed(deps: &Deps, of: &mut Subject, said: &Said) -> Result<Option<Opinion>, Judgement> {
    let Some(input) = said.input.clone().filter(|input| *input != of.input) else { return Ok(None) };
    let input = absolute(deps, &of.tool, input);
    if let Err(why) = deps.tools.validate(&of.tool, &input) {
        let source = Source::Hook { hook: said.changed_by.clone() };
        return Err(Judgement::deny(source, format!("a hook of the owner wants an input that cannot be run: {why}")));
    }
    of.input = input;
    Ok(Some(deps.permission().opinion(&of.tool, &of.input)))
}

/// A hook decides what no list names, and may have a person asked where rules allow. What a rule denies, or wants a person
/// asked about, it cannot allow.
fn by_hooks(opinion: Opinion, said: &Said) -> Opinion {
    let Some(verdict) = &said.verdict else { return opinion };
    match (opinion, verdict.kind) {
        (Opinion::Ask(question), Kind::Allow) if question.rule.is_none() => {
            Opinion::Final(Judgement { why: verdict.why.clone(), ..Judgement::allow(verdict.source()) })
        }
        (opinion, Kind::Ask) if !opinion.is_deny() => opinion.asked_by_hook(&verdict.hook, &verdict.why),
        (opinion, _) => opinion,
    }
}

fn judged(deps: &Deps, of: Subject, judgement: Judgement) -> Ruling {
    let read_only = is_read_only(deps, &of);
    Ruling::Judged { input: of.input, read_only, judgement }
}

fn is_read_only(deps: &Deps, of: &Subject) -> bool {
    deps.tools.flags(&of.tool, &of.input).is_some_and(|flags| flags.read_only)
}

fn absolute(deps: &Deps, tool: &str, input: Json) -> Json {
    let permission = deps.permission();
    let places = permission.places();
    hook::with_absolute_path(tool, input, |named| {
        Some(path::normalize(&path::absolute(named, places.real_workdir(), places.home())))
    })
}

/// So long from now, by the clock on the wall: a person reads it.
fn since_1970(ahead: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from((now + ahead).as_millis()).unwrap_or(u64::MAX)
}
