//! The shell of the query loop: carries out what the machine asks for and tells it what happened.
//!
//! No handler waits: a model call, a verdict, a tool are tasks whose result comes back as a message. Cancellation is a
//! tree of tokens, job → turn → batch → tool: cancelling one cancels all below it, nothing above or beside it.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures_util::FutureExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio_util::sync::CancellationToken;
use ukai_protocol::event::Event;
use ukai_protocol::json::Json;
use ukai_protocol::lease::Grant;
use ukai_protocol::message::{Args, Call};
use ukai_protocol::secret::fingerprint::{Mask, Pieces};
use ukai_protocol::session::{ToSupervisor, ToWorker};
use ukai_protocol::threads::{Broke, Panicked};

use super::machine::{Effect, Machine, Ruling};
use super::ruling;
use crate::deps::{Attempt, Deps};
use crate::hook::{Occasion, Outcome, Subject};
use crate::provider::classify::Failure;
use crate::provider::{self, Answered, Progress, Raw};
use crate::session::Outbox;
use crate::threads::THREADS;
use crate::tool::actor::{Job, ToolActor};
use crate::tool::shells::Notice;
use crate::tool::{self, ToolOutput};

pub struct QueryLoop;

/// Of a model that has not been asked in this process (spec §14: what is taken where a provider says nothing).
const WINDOW_TOKENS: u64 = 32_000;

/// What happens to a loop.
pub enum Message {
    Told(ToWorker),
    Ruled {
        call: String,
        ruling: Ruling,
        /// Of the hooks that had a say in it.
        ran: Vec<Event>,
    },
    Hooked {
        occasion: Box<Occasion>,
        outcome: Outcome,
    },
    Attempted {
        lease: u64,
        result: Box<Result<Answered, Failure>>,
    },
    ToolDone {
        call: String,
        done: ToolOutput,
        ran: Vec<Event>,
    },
    /// Nothing that a command left lives any more, so these may be told.
    CommandsEnded {
        n: u64,
        events: Vec<Event>,
    },
    Leave,
    /// No command can be started any more in this process: what is under way ends, and another one goes on.
    HostLost,
    Wake,
}

pub struct Arguments {
    pub machine: Machine,
    pub system: Event,
    pub attempt: u32,
    pub outbox: Outbox,
    pub deps: Arc<Deps>,
}

pub struct State {
    machine: Machine,
    attempt: u32,
    outbox: Outbox,
    deps: Arc<Deps>,
    cancel: CancelTree,
    /// When a `Wake` is on its way.
    wake_at: Option<Instant>,
    /// Hooks under way, those about a call's verdict and result apart.
    hooking: usize,
    /// It is to leave when they have ended.
    park: bool,
    host_lost: bool,
    /// Of the last model that was asked.
    model_window: Option<u64>,
}

/// The inner nodes of the tree; model calls and tools hang below as children.
struct CancelTree {
    job: CancellationToken,
    turn: CancellationToken,
    batch: CancellationToken,
    hooks: CancellationToken,
}

impl CancelTree {
    fn new() -> Self {
        let job = CancellationToken::new();
        let turn = job.child_token();
        let batch = turn.child_token();
        let hooks = job.child_token();
        CancelTree { job, turn, batch, hooks }
    }

    fn stop_hooks(&mut self) {
        self.hooks.cancel();
        self.hooks = self.job.child_token();
    }

    fn next_turn(&mut self) {
        self.turn = self.job.child_token();
        self.batch = self.turn.child_token();
    }

    fn next_batch(&mut self) {
        self.batch = self.turn.child_token();
    }
}

impl Actor for QueryLoop {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<Message>, arguments: Arguments) -> Result<State, ActorProcessingErr> {
        let Arguments { mut machine, system, attempt, outbox, deps } = arguments;
        machine.start(system, (deps.now)());
        Ok(State {
            machine,
            attempt,
            outbox,
            deps,
            cancel: CancelTree::new(),
            wake_at: None,
            host_lost: false,
            model_window: None,
            hooking: 0,
            park: false,
        })
    }

    async fn post_start(&self, myself: ActorRef<Message>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.carry_on(&myself).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let now = (state.deps.now)();
        match message {
            Message::Told(ToWorker::Ack { n }) => state.machine.handle_acked(n),
            Message::Told(ToWorker::Answer { call, answer }) => state.machine.handle_answer(call, answer, now),
            Message::Told(ToWorker::Cancel { kind }) => {
                tracing::info!(%kind, "cancelled");
                state.machine.handle_cancel();
            }
            Message::Told(ToWorker::Reject { why }) => return Err(format!("turned away: {why}").into()),
            Message::Told(ToWorker::Answered { call, tool, judgement, granted }) => {
                state.deps.grant(&granted);
                state.machine.handle_answered(&Event::AskAnswered { call, tool, judgement, granted }, now);
            }
            Message::Told(ToWorker::StillAsked { calls }) => state.machine.handle_still_asked(&calls),
            Message::Told(ToWorker::Park) => {
                // Commands in the background, and hooks that may yet decide, would end with this process: it waits with them.
                state.park = true;
                state.park();
            }
            Message::Told(ToWorker::Pause) => state.machine.handle_pause(),
            Message::Told(ToWorker::Unpause) if state.host_lost => {}
            Message::Told(ToWorker::Unpause) => state.machine.handle_unpause(),
            Message::Told(ToWorker::Welcome(_) | ToWorker::State { .. }) => {
                return Err("the supervisor welcomed this worker twice".into());
            }
            Message::Ruled { call, ruling, ran } => {
                state.machine.handle_ran(ran);
                state.machine.handle_ruling(&call, ruling, now);
            }
            Message::Hooked { occasion, outcome } => {
                state.hooking -= 1;
                let settles = outcome.said.verdict.is_some();
                state.machine.handle_hooked(*occasion, outcome, now);
                if !settles {
                    state.park();
                }
            }
            Message::Attempted { lease, result } => state.machine.handle_attempted(lease, *result, now),
            Message::ToolDone { call, done, ran } => {
                state.outbox.progressed();
                state.machine.handle_ran(ran);
                state.machine.handle_tool(&call, done, now);
            }
            Message::CommandsEnded { n, events } => {
                state.outbox.send(ToSupervisor::Record { attempt: state.attempt, n, events })?;
            }
            Message::Leave => {
                state.outbox.close()?;
                myself.stop(None);
                return Ok(());
            }
            Message::HostLost => {
                state.host_lost = true;
                // As for a pause, so that no answer on its way is lost; the next process goes on from there.
                state.machine.handle_pause();
            }
            Message::Wake => {
                state.wake_at = None;
                state.machine.handle_timeout(now);
            }
        }
        state.carry_on(&myself).await
    }

    /// A tool actor that ends takes nothing with it; one that failed has already answered or is cancelled.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            return Err(format!("a tool actor failed: {error}").into());
        }
        Ok(())
    }
}

impl State {
    /// Does all that there is to do now, and sees to being woken when time itself has something to say.
    async fn carry_on(&mut self, myself: &ActorRef<Message>) -> Result<(), ActorProcessingErr> {
        while let Some(effect) = self.machine.poll_effect() {
            self.perform(effect, myself).await?;
        }
        self.schedule_wake(myself);
        Ok(())
    }

    async fn perform(&mut self, effect: Effect, myself: &ActorRef<Message>) -> Result<(), ActorProcessingErr> {
        match effect {
            Effect::Judge(call) => self.judge(call, myself),
            Effect::Hook(occasion) => self.hook(occasion, myself),
            Effect::StopHooks => self.cancel.stop_hooks(),
            Effect::Settle { call, judgement } => self.outbox.send(ToSupervisor::Settle { call, judgement })?,
            Effect::Record { n, events } if self.must_end_commands(&events) => self.end_commands(n, events, myself),
            Effect::Record { n, events } => {
                self.outbox.send(ToSupervisor::Record { attempt: self.attempt, n, events })?;
            }
            Effect::Ask(ask) => self.outbox.send(ToSupervisor::Ask(ask))?,
            Effect::Withdraw { call } => self.outbox.send(ToSupervisor::Withdraw { call })?,
            Effect::Report(report) => self.outbox.send(ToSupervisor::Report(report))?,
            Effect::CallModel(grant) => {
                self.cancel.next_turn();
                self.call_model(*grant, myself);
            }
            Effect::StopModel => self.cancel.turn.cancel(),
            Effect::StartTool { call, tool, input, consented } => {
                self.start_tool(call, tool, input, consented, myself).await?;
            }
            Effect::StopTools => {
                self.cancel.batch.cancel();
                // What is still to run of the turn is no part of that batch.
                self.cancel.next_batch();
            }
            Effect::Exit => {
                self.cancel.job.cancel();
                if self.deps.shells.has_started() {
                    // Cancelled or paused: those that listen are told that commands may take their time to end.
                    self.outbox.send(ToSupervisor::Ending)?;
                    self.leave_after_commands(myself);
                } else {
                    self.outbox.close()?;
                    myself.stop(None);
                }
            }
            Effect::Fault(illegal) => return Err(illegal.into()),
        }
        Ok(())
    }

    /// Looks at links and folders, so it runs off this thread: a file system that hangs must not stop the heartbeat.
    fn judge(&mut self, call: Call, myself: &ActorRef<Message>) {
        self.cancel.next_batch();
        let (deps, myself) = (self.deps.clone(), myself.clone());
        let Args::Whole(input) = call.args else { return };
        let (of, cancel) = (Subject { call: call.id.clone(), tool: call.tool, input }, self.cancel.hooks.clone());
        let judge = move || ruling::on(&deps, of, &cancel);
        THREADS.run(judge, move |judged| {
            let invalid = |broke: Broke| Ruling::Invalid {
                why: format!("not run: the call could not be judged ({broke}); ask for it in another way"),
            };
            let (ruling, ran) = judged.unwrap_or_else(|broke| (invalid(broke), Vec::new()));
            // The only failure is that the loop is gone.
            let _ = myself.cast(Message::Ruled { call: call.id, ruling, ran });
        });
    }

    /// Blocks for as long as scripts take, so it runs off this thread, too.
    fn hook(&mut self, occasion: Occasion, myself: &ActorRef<Message>) {
        self.hooking += 1;
        // What is told to the owner is told, whoever answers first.
        let tells = occasion.is_waited_for();
        let cancel = if tells { self.cancel.job.child_token() } else { self.cancel.hooks.clone() };
        let (hooks, myself) = (self.deps.hooks.clone(), myself.clone());
        let (asked, unasked) = (occasion.clone(), self.deps.hooks.clone());
        THREADS.run(
            move || hooks.run(&asked, &cancel),
            move |outcome| {
                let outcome = outcome.unwrap_or_else(|broke| unasked.broke(&occasion, &broke.to_string()));
                // The only failure is that the loop is gone.
                let _ = myself.cast(Message::Hooked { occasion: Box::new(occasion), outcome });
            },
        );
    }

    fn park(&mut self) {
        if self.park && self.hooking == 0 && !self.deps.shells.any_lives() {
            self.machine.handle_park();
        }
    }

    fn call_model(&mut self, grant: Grant, myself: &ActorRef<Message>) {
        let lease = grant.lease;
        self.model_window = Some(grant.context_window);
        let on_progress = tell(self.outbox.clone(), self.deps.mask.clone(), self.machine.step(), grant.account.clone());
        let attempt = Attempt {
            grant,
            system: self.machine.state().system.clone().unwrap_or_default(),
            messages: self.machine.window(),
            cancel: self.cancel.turn.child_token(),
            on_progress,
        };
        let answer = (self.deps.call_model)(attempt);
        let myself = myself.clone();
        tokio::spawn(async move {
            // An attempt that breaks down is a failed one, and the loop hears of it.
            let result = match AssertUnwindSafe(answer).catch_unwind().await {
                Ok(result) => result,
                Err(panic) => Err(Failure::internal(&format!("the attempt broke down: {}", Panicked::from(panic)))),
            };
            // The only failure is that the loop is gone.
            let _ = myself.cast(Message::Attempted { lease, result: Box::new(result) });
        });
    }

    async fn start_tool(
        &mut self,
        call: String,
        tool: String,
        input: Json,
        consented: bool,
        myself: &ActorRef<Message>,
    ) -> Result<(), ActorProcessingErr> {
        let cancel = self.cancel.batch.child_token();
        let context = tool::Context { consented, ..self.deps.tool_context(cancel.clone(), self.window()) };
        let hooks = self.deps.hooks.clone();
        let job = Job { call, tool, input, context, hooks, cancel, asker: myself.clone() };
        ToolActor::spawn_linked(None, ToolActor, job, myself.get_cell()).await?;
        Ok(())
    }

    /// The model's, or the job's where that is smaller. In tokens.
    fn window(&self) -> u64 {
        let of_model = self.model_window.unwrap_or(WINDOW_TOKENS);
        self.machine.window_max().map_or(of_model, |of_job| of_job.min(of_model))
    }

    /// Whatever a job started has ended before its end is told.
    fn must_end_commands(&self, events: &[Event]) -> bool {
        self.deps.shells.has_started() && events.iter().any(|event| matches!(event, Event::Finished { .. }))
    }

    fn end_commands(&self, n: u64, events: Vec<Event>, myself: &ActorRef<Message>) {
        let (shells, myself) = (self.deps.shells.clone(), myself.clone());
        let told = shells.clone();
        let end = move || shells.end_all().and_then(|()| shells.remove_temp());
        off_thread(end, move || {
            // What came of the last commands is told before the end, which is the last record.
            let events = told.notices().into_iter().map(Notice::event).chain(events).collect();
            let _ = myself.cast(Message::CommandsEnded { n, events });
        });
    }

    fn leave_after_commands(&self, myself: &ActorRef<Message>) {
        let (shells, myself) = (self.deps.shells.clone(), myself.clone());
        off_thread(
            move || shells.end_all(),
            move || {
                let _ = myself.cast(Message::Leave);
            },
        );
    }

    fn schedule_wake(&mut self, myself: &ActorRef<Message>) {
        let Some(at) = self.machine.poll_timeout((self.deps.now)()) else { return };
        if self.wake_at.is_some_and(|wake_at| wake_at <= at) {
            return;
        }
        self.wake_at = Some(at);
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            let _ = myself.cast(Message::Wake);
        });
    }
}

/// Ends commands off this thread; `then` passes on that they have.
fn off_thread(end: impl FnOnce() -> io::Result<()> + Send + 'static, then: impl FnOnce() + Send + 'static) {
    THREADS.run(end, move |ended| {
        match ended {
            Ok(Ok(())) => {}
            // The host ends with this process, and everything with it.
            Ok(Err(error)) => {
                tracing::error!(%error, "not all that the job's commands left could be ended or removed")
            }
            Err(broke) => tracing::error!(%broke, "not all that the job's commands left could be ended or removed"),
        }
        then();
    });
}

/// Passes on what is seen of a reply while it arrives: text, signs of life, and at once a "not before" in its head.
fn tell(outbox: Outbox, mask: Arc<Mask>, step: u64, account: String) -> Box<dyn FnMut(Progress<'_>) + Send> {
    let mut text = Streamed { outbox: outbox.clone(), mask, step, pieces: Pieces::default() };
    Box::new(move |progress| match progress {
        Progress::Bytes(_) => outbox.progressed(),
        Progress::Text(piece) => {
            outbox.progressed();
            text.push(piece);
        }
        Progress::Raw(Raw::Head { headers, .. }) => {
            let Some(report) = provider::overheard(&account, headers, SystemTime::now()) else { return };
            if let Err(error) = outbox.send(ToSupervisor::Report(report)) {
                // The attempt's own report says it again, and ends the job if it cannot be sent either.
                tracing::warn!(%account, %error, "telling the supervisor at once when a provider may be asked again");
            }
        }
        Progress::Raw(_) => {}
    })
}

/// The text of one reply on its way to who watches, without secrets. Its last word is told when the reply is over.
struct Streamed {
    outbox: Outbox,
    mask: Arc<Mask>,
    step: u64,
    pieces: Pieces,
}

impl Streamed {
    fn push(&mut self, piece: &str) {
        let shown = self.pieces.push(&self.mask, piece);
        self.tell(&shown);
    }

    fn tell(&self, shown: &str) {
        if !shown.is_empty() {
            self.outbox.delta(self.step, shown);
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        let rest = self.pieces.finish(&self.mask);
        self.tell(&rest);
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use ukai_protocol::lease::{AnswerClass, Report, Wait};

    use super::*;
    use crate::session::outbox;

    fn check(quirk: &str, status: u16, pairs: &[(&'static str, &'static str)], expected: Option<Wait>) {
        let (sender, mut waiting) = outbox::outbox();
        let mut tell = tell(sender, Arc::default(), 3, "shared".to_owned());
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let headers = HeaderMap::from_iter(pairs);
        tell(Progress::Raw(Raw::Sent(b"{}")));
        tell(Progress::Raw(Raw::Head { status, headers: &headers }));
        let said = waiting.next_now(tokio::time::Instant::now());
        let report = Report {
            lease: 0,
            account: "shared".to_owned(),
            class: AnswerClass::Withdrawn,
            wait: expected,
            ..Report::default()
        };
        let expected = expected.map(|_| outbox::Outgoing::Message(ToSupervisor::Report(report)));
        assert_eq!(said, expected, "{quirk}");
        // The body is on its way: nothing more is said of the wait.
        tell(Progress::Bytes(10));
        tell(Progress::Raw(Raw::Body("retry in 9 s")));
        assert_eq!(waiting.next_now(tokio::time::Instant::now()), None, "{quirk}");
    }

    #[test]
    fn a_wait_in_the_head_is_told_before_the_body_comes() {
        let spent = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "50s")];
        check("a refusal", 429, &[("retry-after", "17")], Some(Wait::For(17_000)));
        check("a stream that empties a bucket", 200, &spent, Some(Wait::For(50_000)));
        check("an hour, beside another status", 503, &[("retry-after", "3600")], Some(Wait::For(3_600_000)));
        check("until reset", 429, &[("retry-after", "1e30")], Some(Wait::UntilReset));
        check("none", 429, &[("content-type", "text/plain")], None);
    }
}
