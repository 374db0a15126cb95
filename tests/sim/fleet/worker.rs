//! A worker process: the real machine, and what it is told and asks for.

use std::time::{Duration, Instant};

use rand::RngExt as _;
use ukai_protocol::event::{Event, ProcessMark, ToolStatus, Why};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{ContextStrategy, Limits};
use ukai_protocol::json::Json;
use ukai_protocol::lease::{Answer, Grant};
use ukai_protocol::message::Usage;
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::run_state::RunState;
use ukai_supervisor::route::fit::Wants;
use ukai_worker::context;
use ukai_worker::provider::Answered;
use ukai_worker::query::machine::{Effect, Machine, Parts, Ruling};
use ukai_worker::tool::ToolOutput;

use super::Fleet;
use super::agenda::{Coming, News, Wish, Word};
use super::labs::Reply;
use super::link::Link;
use crate::query::{Script, flags, spec};

const DAY_MS: u64 = 24 * 3_600_000;

pub struct Worker {
    pub id: JobId,
    pub wants: Wants,
    pub log: Vec<Event>,
    pub attempt: u32,
    /// Of its process, and of all that is under way to it or from it.
    pub life: u32,
    pub machine: Option<Machine>,
    /// Its process has ended, and the supervisor has yet to hear of it.
    pub leaving: Option<bool>,
    /// Under which supervisor, and what came of it.
    calling: Option<(u32, u64)>,
    window: u64,
    wake_at: Option<Instant>,
    pub paused: bool,
    pub cancelled: bool,
    /// What it sends makes each provider fail.
    poisoned: bool,
    pub link: Link,
}

impl Worker {
    pub fn new(id: JobId, wants: Wants, poisoned: bool) -> Self {
        let submitted = Event::Submitted { name: String::new(), prompt: "go".to_owned(), priority: 5, batch: None };
        Worker {
            id,
            wants,
            log: vec![submitted],
            attempt: 0,
            life: 0,
            machine: None,
            leaving: None,
            calling: None,
            window: 0,
            wake_at: None,
            paused: false,
            cancelled: false,
            poisoned,
            link: Link::default(),
        }
    }

    pub fn has_process(&self) -> bool {
        self.machine.is_some() || self.leaving.is_some()
    }

    pub fn has_finished(&self) -> bool {
        self.log.iter().any(|event| matches!(event, Event::Finished { .. }))
    }

    pub fn fold(&self) -> RunState {
        let mut state = RunState::default();
        for event in &self.log {
            state.apply(event).unwrap_or_else(|illegal| panic!("{illegal}"));
        }
        state
    }

    /// Its supervisor is gone.
    pub fn loses_its_link(&mut self) {
        self.link.away = self.machine.is_some();
    }
}

fn script() -> Script {
    Script(vec![vec!["Look"; 2]; 6])
}

impl Fleet {
    pub fn worker(&mut self, job: u32) -> &mut Worker {
        self.jobs.get_mut(&job).expect("it is one of ours")
    }

    pub fn later(&mut self, job: u32, after_ms: std::ops::Range<u64>, news: News) {
        let at = self.agenda.now + Duration::from_millis(self.rng.random_range(after_ms));
        self.news(job, at, news);
    }

    pub fn news(&mut self, job: u32, at: Instant, news: News) {
        let life = self.worker(job).life;
        self.agenda.push(at, Coming::News { job, life, news });
    }

    pub fn begin(&mut self, job: u32) {
        let now = self.agenda.now;
        let worker = self.worker(job);
        worker.life += 1;
        worker.attempt += 1;
        (worker.wake_at, worker.link) = (None, Link::default());
        let process = ProcessMark { pid: 1, start_time: 1, boot_id: String::new() };
        worker.log.push(Event::Started { attempt: worker.attempt, process, token_hash: String::new() });
        let limits = Limits { run_time_ms: DAY_MS, max_wall_ms: DAY_MS, ..Limits::default() };
        let parts = Parts {
            spec: spec(limits),
            context: context::strategy(ContextStrategy::KeepAll),
            flags: Box::new(flags),
            overhead_tokens: 500,
        };
        let mut machine = Machine::new(parts, worker.fold(), now);
        machine.start(Event::Injected { why: Why::System, text: "system".to_owned() }, now);
        worker.machine = Some(machine);
        if self.is_night() {
            match self.rng.random_range(0..20) {
                0..=2 => self.later(job, 1..300_000, News::Dies),
                3 | 4 => self.wish_later(job, 1..300_000, Wish::Pause),
                5 => self.wish_later(job, 1..300_000, Wish::Cancel),
                _ => {}
            }
        }
        self.carry_on(job);
    }

    pub fn wish_later(&mut self, job: u32, after_ms: std::ops::Range<u64>, wish: Wish) {
        let at = self.agenda.now + Duration::from_millis(self.rng.random_range(after_ms));
        self.agenda.push(at, Coming::Wish { job, wish });
    }

    pub fn carry_on(&mut self, job: u32) {
        let Some(mut machine) = self.worker(job).machine.take() else { return };
        while let Some(effect) = machine.poll_effect() {
            let begins = matches!(effect, Effect::Judge(_) | Effect::Ask(_) | Effect::CallModel(_));
            assert!(!begins || !self.worker(job).paused, "{effect:?} under a pause");
            match effect {
                Effect::Judge(call) => {
                    let judgement = Judgement::allow(Source::Default);
                    let ruling = Ruling::Judged { input: Json::default(), read_only: true, judgement };
                    self.later(job, 0..2, News::Ruled(call.id, ruling));
                }
                Effect::Record { n, events } => {
                    let upto = n + events.len() as u64;
                    let at = self.arrival(job);
                    self.news(job, at, News::Durable(events, upto));
                }
                Effect::Ask(ask) => {
                    self.worker(job).window = ask.window;
                    self.say(job, Word::Ask(ask));
                }
                Effect::Withdraw { call } => self.say(job, Word::Withdraw(call)),
                Effect::Report(report) => self.say(job, Word::Report(report)),
                Effect::CallModel(grant) => self.request(job, grant),
                Effect::StopModel => self.hang_up(job),
                Effect::StartTool { call, .. } => self.later(job, 1_000..20_000, News::Tool(call)),
                Effect::Fault(illegal) => panic!("{illegal}"),
                Effect::Exit => {
                    let stopped = !self.worker(job).has_finished();
                    return self.process_ends(job, stopped);
                }
                Effect::StopTools | Effect::Hook(_) | Effect::StopHooks | Effect::Settle { .. } => {}
            }
        }
        let now = self.agenda.now;
        let worker = self.worker(job);
        let wake_at = machine.poll_timeout(now).filter(|at| worker.wake_at.is_none_or(|planned| *at < planned));
        worker.machine = Some(machine);
        if let Some(at) = wake_at {
            worker.wake_at = Some(at);
            self.news(job, at, News::Wake);
        }
    }

    fn request(&mut self, job: u32, grant: Box<Grant>) {
        let now = self.agenda.now;
        let reign = self.shell.reign;
        self.reference.arrives(job, reign, &grant.provider);
        self.worker(job).calling = Some((reign, grant.lease));
        let poisoned = self.worker(job).poisoned;
        let reply = self.labs.get_mut(&grant.provider).expect("it is one of ours").answer(poisoned, now);
        let at = now + reply.after;
        self.news(job, at, News::Attempted(grant, Box::new(reply)));
    }

    /// With the connection the request ends, for its provider too.
    fn hang_up(&mut self, job: u32) {
        if let Some((reign, _)) = self.worker(job).calling.take() {
            self.reference.leaves(job, reign);
        }
    }

    /// `stopped`: by itself, for a later attempt.
    pub fn process_ends(&mut self, job: u32, stopped: bool) {
        self.hang_up(job);
        let worker = self.worker(job);
        worker.machine = None;
        worker.leaving = Some(stopped);
        if !self.shell.down {
            self.tell_of_end(job);
        }
    }

    pub fn hear(&mut self, job: u32, news: News) {
        let (now, reign) = (self.agenda.now, self.shell.reign);
        let worker = self.worker(job);
        if let News::Durable(events, upto) = news {
            worker.log.extend(events);
            if let Some(machine) = &mut worker.machine {
                machine.handle_acked(upto);
            }
            return self.carry_on(job);
        }
        let Some(machine) = &mut worker.machine else { return };
        match news {
            News::Ruled(call, ruling) => machine.handle_ruling(&call, ruling, now),
            // The connection it was sent over is no more.
            News::Told(by, ..) if by != reign || worker.link.away => return,
            News::Told(_, call, answer) => {
                if !matches!(answer, Answer::Wait { .. }) {
                    worker.link.open_ask.take_if(|ask| ask.call == call);
                }
                machine.handle_answer(call, answer, now);
            }
            News::Attempted(grant, reply) => return self.attempted(job, &grant, *reply),
            News::Tool(call) => {
                machine.handle_tool(&call, ToolOutput::new(ToolStatus::Ok, "seen".to_owned()), now);
            }
            News::Wake => {
                worker.wake_at = None;
                machine.handle_timeout(now);
            }
            News::Back => return self.back(job),
            News::Dies if worker.log.iter().any(|event| matches!(event, Event::Finished { .. })) => return,
            News::Dies => {
                // What it said last may have come through or not.
                let lost = self.rng.random::<bool>();
                let worker = self.worker(job);
                worker.life += u32::from(lost);
                return self.process_ends(job, false);
            }
            News::Durable(..) => {}
        }
        self.carry_on(job);
    }

    fn attempted(&mut self, job: u32, grant: &Grant, reply: Reply) {
        let now = self.agenda.now;
        if self.worker(job).calling.is_none_or(|(_, lease)| lease != grant.lease) {
            return;
        }
        self.hang_up(job);
        let output = self.rng.random_range(20..1_000);
        let worker = self.worker(job);
        // Tokens are not what the worker takes them for.
        let usage = Usage { input: worker.window * 13 / 10, cached: 0, output, estimated: false };
        let Some(machine) = &mut worker.machine else { return };
        let window = machine.window();
        let answered = |wait| Answered { reply: script().reply(&window), usage, limits_seen: reply.seen, wait };
        machine.handle_attempted(grant.lease, reply.result.map(answered), now);
        self.carry_on(job);
    }
}
