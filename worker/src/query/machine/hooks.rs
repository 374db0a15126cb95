//! The points at which the owner's hooks have a say, those about a call's verdict and result apart.
//!
//! What they said counts by its record: a job that a hook ends, a prompt that was looked at, how often the model was sent
//! back are in the fold, so that the next machine knows them after a crash.

#![deny(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use ukai_protocol::event::{Event, Why};
use ukai_protocol::hook::HookPoint;
use ukai_protocol::job::{Cause, CauseKind, Outcome};
use ukai_protocol::message::Message;
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::run_state::{OpenCall, Stage};

use super::{Effect, Machine, Phase};
use crate::hook::{self, ATTENTION, Kind, Occasion, PERMISSION, Said, Subject};

/// So often a Stop hook sends the model back (spec §9).
const SENT_BACK_MAX: u32 = 8;

impl Machine {
    /// Hooks had a say in what comes next: a verdict, or a result.
    pub fn handle_ran(&mut self, ran: Vec<Event>) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::Ended) {
            return;
        }
        for event in ran {
            self.record(event);
        }
    }

    pub fn handle_hooked(&mut self, occasion: Occasion, outcome: hook::Outcome, now: Instant) {
        let hook::Outcome { ran, said } = outcome;
        match occasion {
            Occasion::SessionEnd { .. } | Occasion::Notification { .. } => {
                self.handle_ran(ran);
                self.heard(&occasion);
            }
            _ if matches!(self.phase, Phase::Parting { .. } | Phase::Ending { .. } | Phase::Ended) => {}
            Occasion::PermissionRequest(of) => {
                // Who was first has decided, and the hook was cancelled for it.
                if self.state.put_to_a_person().any(|call| call == of.call) {
                    self.handle_ran(ran);
                    if !self.heed_stop(now) {
                        self.settle(of, said);
                    }
                }
            }
            // What was not waited for until now was cancelled: by a limit, or by a pause.
            _ if self.phase != Phase::Hooking => {}
            Occasion::Stop { .. } => {
                self.handle_ran(ran);
                self.stopped(said, now);
            }
            _ => {
                self.handle_ran(ran);
                self.tell_model(said.context);
                self.phase = Phase::Deciding;
                self.advance(now);
            }
        }
    }

    /// True: they are waited for.
    pub(super) fn begin_session(&mut self, resumed: bool) -> bool {
        self.has(HookPoint::SessionStart) && self.wait_for(Occasion::SessionStart { resumed })
    }

    /// What is still to be heard before the first model call.
    pub(super) fn look_at_prompt(&mut self) -> bool {
        if let Some(text) = self.to_tell.take() {
            self.record(Event::Injected { why: Why::Hook, text });
        }
        let is_new = self.state.progress.used.steps == 0 && !self.state.hooks.prompt_judged;
        let due = is_new && !self.prompt_looked_at && self.has(HookPoint::UserPromptSubmit);
        self.prompt_looked_at = true;
        due && self.wait_for(Occasion::UserPromptSubmit { prompt: self.spec.prompt.clone() })
    }

    /// The model is done; its owner may not be.
    pub(super) fn complete(&mut self, now: Instant) {
        let answer = match self.state.messages.last().map(Arc::as_ref) {
            Some(Message::Assistant { text, .. }) => text.clone(),
            _ => String::new(),
        };
        let sent_back = self.state.hooks.sent_back > 0;
        if !self.has(HookPoint::Stop) || !self.wait_for(Occasion::Stop { sent_back, answer }) {
            self.end(Outcome::Completed { attention: self.state.hands.need_attention() }, now);
        }
    }

    fn stopped(&mut self, said: Said, now: Instant) {
        self.phase = Phase::Deciding;
        if self.heed_stop(now) {
            return;
        }
        match said.denied() {
            Some(denied) if self.state.hooks.sent_back < SENT_BACK_MAX => {
                let text = match said.context.is_empty() {
                    true => denied.why.clone(),
                    false => format!("{}\n\n{}", denied.why, said.context),
                };
                self.record(Event::Injected { why: Why::Hook, text });
                self.advance(now);
            }
            // Its owner is told that the last word was not theirs.
            Some(_) => self.end(Outcome::Completed { attention: true }, now),
            None => self.end(Outcome::Completed { attention: self.state.hands.need_attention() }, now),
        }
    }

    /// A hook wants the job to end. True: it does.
    pub(super) fn heed_stop(&mut self, now: Instant) -> bool {
        let Some(why) = self.state.hooks.stop.clone() else { return false };
        self.end(Outcome::Ended(Cause::new(CauseKind::HookStop, why)), now);
        true
    }

    /// The questions that were put to a person are on disk: hooks may answer them first, and tell their owner.
    pub(super) fn ask_hooks(&mut self) {
        if self.acked < self.asked_n {
            return;
        }
        for call in std::mem::take(&mut self.asked) {
            let Some(OpenCall { call, stage: Stage::Put { input, .. } }) = self.state.open_call(&call) else {
                continue;
            };
            let of = Subject { call: call.id.clone(), tool: call.tool.clone(), input: input.clone() };
            if self.has(HookPoint::Notification) {
                let message = format!("{} needs your permission to use {}", self.spec.name, of.tool);
                self.notifying += 1;
                self.effects.push_back(Effect::Hook(Occasion::Notification { kind: PERMISSION, message }));
            }
            if self.has(HookPoint::PermissionRequest) {
                self.effects.push_back(Effect::Hook(Occasion::PermissionRequest(of)));
            }
        }
    }

    /// The verdict of hooks on what was put to a person; the supervisor takes the first.
    fn settle(&mut self, of: Subject, said: Said) {
        let Some(verdict) = &said.verdict else { return };
        let judgement = match (verdict.kind, said.input.filter(|input| *input != of.input)) {
            (Kind::Ask, _) => return,
            (Kind::Deny, _) => verdict.denial(),
            (Kind::Allow, None) => Judgement { why: verdict.why.clone(), ..Judgement::allow(verdict.source()) },
            // A person is shown one input, and another would run.
            (Kind::Allow, Some(input)) => {
                let source = Source::Hook { hook: verdict.hook.clone() };
                let why = format!("a hook of the owner allows it only with this input: {}", input.to_text());
                Judgement::deny(source, why)
            }
        };
        self.effects.push_back(Effect::Settle { call: of.call, judgement });
    }

    /// Before the last record: hooks hear of the end, and cannot change it. True: they are waited for.
    pub(super) fn part(&mut self, outcome: &Outcome) -> bool {
        let (reason, message) = match outcome {
            Outcome::Completed { attention: false } => ("completed".to_owned(), None),
            Outcome::Completed { attention: true } => {
                ("completed".to_owned(), Some("completed, and needs you".to_owned()))
            }
            Outcome::Ended(cause) => (cause.kind.reason().to_string(), Some(format!("ended: {}", cause.kind))),
        };
        let message = message.map(|message| format!("{} {message}", self.spec.name));
        let told = message.map(|message| Occasion::Notification { kind: ATTENTION, message });
        let told = told.into_iter().chain([Occasion::SessionEnd { reason }]);
        let heard: Vec<Occasion> = told.filter(|occasion| self.has(occasion.point())).collect();
        let unheard = heard.len() + self.notifying;
        if unheard == 0 {
            return false;
        }
        self.phase = Phase::Parting { outcome: outcome.clone(), unheard };
        self.effects.extend(heard.into_iter().map(Effect::Hook));
        true
    }

    /// Of what the job's end waits for.
    fn heard(&mut self, occasion: &Occasion) {
        if matches!(occasion, Occasion::Notification { kind: PERMISSION, .. }) {
            self.notifying -= 1;
        }
        let Phase::Parting { outcome, unheard } = &mut self.phase else { return };
        *unheard -= 1;
        if *unheard == 0 {
            let outcome = outcome.clone();
            self.finish(outcome);
        }
    }

    fn wait_for(&mut self, occasion: Occasion) -> bool {
        self.phase = Phase::Hooking;
        self.effects.push_back(Effect::Hook(occasion));
        true
    }

    fn tell_model(&mut self, context: String) {
        if context.is_empty() {
            return;
        }
        self.to_tell = Some(match self.to_tell.take() {
            Some(earlier) => format!("{earlier}\n\n{context}"),
            None => context,
        });
    }

    fn has(&self, on: HookPoint) -> bool {
        self.spec.hooks.iter().any(|hook| hook.on == on)
    }
}
