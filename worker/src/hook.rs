//! The owner's scripts at the points of a job where they have a say (spec §9).
//!
//! They run beside the job and not in it: outside of the sandbox, by the launcher, since a guard must not be confined by
//! what it guards. All that match run at once. What they say is data; this file starts them and writes down how it went.

mod after;
mod answer;
mod matcher;
mod merge;
mod occasion;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use ukai_protocol::event::Event;
use ukai_protocol::hook::{Hook, HookPoint};
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::secret::fingerprint::Mask;
use ukai_protocol::session::Welcome;

use crate::launcher::{Launch, Launcher};
use crate::tool::ToolOutput;
use answer::Answer;
use matcher::Matcher;
pub use merge::{Kind, Said, Verdict};
pub use occasion::{ATTENTION, About, Occasion, PERMISSION, Subject, with_absolute_path};

/// The end of a job is not held up longer, whatever timeout its hooks have.
const LAST_MAX: Duration = Duration::from_secs(10);

/// The hooks of one job.
pub struct Hooks {
    hooks: Vec<(Hook, Matcher)>,
    /// None where the job has no hooks.
    launcher: Option<Arc<Launcher>>,
    about: About,
    env: Vec<(String, String)>,
    mask: Arc<Mask>,
}

/// What came of one occasion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// A record of each run, in the order in which they were written.
    pub ran: Vec<Event>,
    pub said: Said,
}

impl Hooks {
    #[must_use]
    pub fn new(welcome: &Welcome, launcher: Option<Arc<Launcher>>, mask: Arc<Mask>) -> Self {
        let spec = &welcome.spec;
        let run_folder = welcome.outputs.parent().unwrap_or(Path::new("/"));
        let about = About {
            job: welcome.job.to_string(),
            workdir: spec.workdir.clone(),
            transcript: run_folder.join("events.jsonl"),
        };
        // This process was started without a key, and what the job passes on holds none.
        let own = ukai_protocol::process::own_environment();
        let own =
            own.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut env: Vec<(String, String)> = own.chain(welcome.env.iter().cloned()).collect();
        env.push(("CLAUDE_PROJECT_DIR".to_owned(), spec.workdir.display().to_string()));
        let hooks = spec.hooks.iter().map(|hook| (hook.clone(), Matcher::of(hook))).collect();
        Hooks { hooks, launcher, about, env, mask }
    }

    /// Whether there is any for this point, whatever it is about.
    #[must_use]
    pub fn has(&self, on: HookPoint) -> bool {
        self.hooks.iter().any(|(hook, _)| hook.on == on)
    }

    /// Asks all that are about it, and waits for the last of them. Blocks, so it belongs on a thread of its own.
    #[must_use]
    pub fn run(&self, occasion: &Occasion, cancel: &CancellationToken) -> Outcome {
        let due = self.due(occasion);
        if due.is_empty() {
            return Outcome::default();
        }
        let payload = occasion.payload(&self.about);
        let longest = if occasion.is_waited_for() { LAST_MAX } else { Duration::MAX };
        let one = &|hook: &Hook| self.run_one(hook, &payload, longest, cancel);
        let ran = match &*due {
            [only] => vec![one(only)],
            several => thread::scope(|scope| {
                let start =
                    |hook| thread::Builder::new().name("hook".to_owned()).spawn_scoped(scope, move || one(hook));
                let started: Vec<_> = several.iter().map(|hook| (hook, start(hook))).collect();
                let mut ran = Vec::with_capacity(started.len());
                for (hook, started) in started {
                    ran.push(match started {
                        Ok(running) => running.join().unwrap_or_else(|_| broke(hook, "it panicked")),
                        Err(error) => broke(hook, &format!("no thread could be started for it: {error}")),
                    });
                }
                ran
            }),
        };
        self.outcome(occasion, &due, ran)
    }

    /// What is to be thought of it when nobody could even be asked.
    #[must_use]
    pub fn broke(&self, occasion: &Occasion, why: &str) -> Outcome {
        let due = self.due(occasion);
        let ran = due.iter().map(|hook| broke(hook, why)).collect();
        self.outcome(occasion, &due, ran)
    }

    /// Asks about a tool's result: what the model will see of it, and what ran.
    #[must_use]
    pub fn after(&self, of: Subject, done: ToolOutput, cancel: &CancellationToken) -> (ToolOutput, Vec<Event>) {
        if !self.has(HookPoint::PostToolUse) && !self.has(HookPoint::PostToolUseFailure) {
            return (done, Vec::new());
        }
        let Some(occasion) = after::occasion(of, &done) else { return (done, Vec::new()) };
        let Outcome { ran, said } = self.run(&occasion, cancel);
        (after::applied(done, &said, &self.mask), ran)
    }

    /// Those that match, one of each command: its failure may only be let pass where all of them say so.
    fn due(&self, occasion: &Occasion) -> Vec<Hook> {
        let on = occasion.point();
        let mut due: Vec<Hook> = Vec::new();
        for (hook, matcher) in &self.hooks {
            if hook.on != on || !matcher.matches(occasion.matched_on()) {
                continue;
            }
            match due.iter_mut().find(|known| known.command == hook.command) {
                Some(known) => known.fails_open &= hook.fails_open,
                None => due.push(hook.clone()),
            }
        }
        due
    }

    fn run_one(
        &self,
        hook: &Hook,
        payload: &[u8],
        longest: Duration,
        cancel: &CancellationToken,
    ) -> (Answer, Duration) {
        let begun = Instant::now();
        let deadline = Duration::from_millis(hook.timeout_ms).min(longest);
        let launch = Launch {
            env: self.env.clone(),
            stdin: payload.to_vec(),
            hear_out: true,
            ..Launch::line(&hook.command, &self.about.workdir, deadline)
        };
        let ran = match &self.launcher {
            Some(launcher) => launcher.run(&launch, cancel).map_err(|error| error.to_string()),
            None => Err("this worker was started without a launcher".to_owned()),
        };
        let answer = match ran {
            Ok(ran) => Answer::read(hook.on, &ran, hook.fails_open),
            Err(why) => Answer::failed(hook.on, &format!("it could not be run: {why}"), hook.fails_open),
        };
        (answer, begun.elapsed())
    }

    fn outcome(&self, occasion: &Occasion, due: &[Hook], ran: Vec<(Answer, Duration)>) -> Outcome {
        let mut answers: Vec<(&str, Answer)> = Vec::with_capacity(due.len());
        let mut records = Vec::with_capacity(due.len());
        let on = occasion.point();
        for (hook, (mut answer, took)) in due.iter().zip(ran) {
            self.mask.mask(&mut answer.detail);
            self.mask.mask(&mut answer.context);
            if let Some(input) = &mut answer.input {
                self.mask.mask_json(input);
            }
            // What is told after a tool stands in its result already.
            let context = if on == HookPoint::PreToolUse { answer.context.clone() } else { String::new() };
            records.push(Event::HookRan {
                on,
                hook: self.mask.masked(&hook.command).into_owned(),
                call: occasion.call().map(str::to_owned),
                said: answer.said,
                detail: answer.detail.clone(),
                context,
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
            answers.push((&hook.command, answer));
        }
        Outcome { ran: records, said: merge::merge(&answers) }
    }
}

impl Verdict {
    #[must_use]
    pub fn source(&self) -> Source {
        Source::Hook { hook: self.hook.clone() }
    }

    /// A no, with what the model should know.
    #[must_use]
    pub fn denial(&self) -> Judgement {
        Judgement::deny(self.source(), format!("a hook of the owner forbids it: {}", self.why))
    }
}

fn broke(hook: &Hook, why: &str) -> (Answer, Duration) {
    (Answer::failed(hook.on, why, hook.fails_open), Duration::ZERO)
}
