//! What the query loop depends on, in one struct: the model, the clock, the tools, the policy. Tests script them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use ukai_protocol::job::{JobSpec, Mode};
use ukai_protocol::lease::Grant;
use ukai_protocol::message::Message;
use ukai_protocol::policy::Rule;
use ukai_protocol::run_state::RunState;
use ukai_protocol::secret::fingerprint::Mask;
use ukai_protocol::session::Welcome;

use crate::context::tokens;
use crate::hook::Hooks;
use crate::host::Host;
use crate::http::{Http, SetupError};
use crate::launcher::Launcher;
use crate::permission::Permission;
use crate::provider::classify::Failure;
use crate::provider::wire::{Definition, Request};
use crate::provider::{self, Answered, Progress};
use crate::tool::declared::http::Posts;
use crate::tool::seen::Seen;
use crate::tool::shells::{About, Shells};
use crate::tool::{self, Registry};

/// One attempt at a model call.
pub struct Attempt {
    pub grant: Grant,
    pub system: String,
    pub messages: Vec<Arc<Message>>,
    pub cancel: CancellationToken,
    /// Called as the reply arrives.
    pub on_progress: Box<dyn FnMut(Progress<'_>) + Send>,
}

pub type CallModel = Box<dyn Fn(Attempt) -> BoxFuture<'static, Result<Answered, Failure>> + Send + Sync>;

pub struct Deps {
    pub call_model: CallModel,
    pub now: fn() -> Instant,
    judge: Judge,
    /// How long a person is asked; None: nobody can be.
    pub ask_timeout: Option<Duration>,
    pub outputs: PathBuf,
    pub mask: Arc<Mask>,
    pub shells: Arc<Shells>,
    pub hooks: Arc<Hooks>,
    /// The tools of the job.
    pub tools: Registry,
    /// None: where tests have no server to ask.
    posts: Option<Posts>,
    pub seen: Arc<Seen>,
    /// What system prompt aside every call carries besides the window, in tokens.
    pub tools_tokens: u64,
}

/// The policy of the job, and what a person granted besides while it runs.
struct Judge {
    spec: JobSpec,
    home: PathBuf,
    outputs: PathBuf,
    private: Vec<PathBuf>,
    now: Mutex<(Vec<String>, Arc<Permission>)>,
}

impl Judge {
    fn new(welcome: &Welcome, granted: Vec<String>) -> Self {
        let Welcome { spec, outputs, private, .. } = welcome;
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let permission = bind(spec, &home, outputs, private, &granted);
        Judge {
            spec: spec.clone(),
            home,
            outputs: outputs.clone(),
            private: private.clone(),
            now: Mutex::new((granted, permission)),
        }
    }

    fn permission(&self) -> Arc<Permission> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn grant(&self, rules: &[String]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> = rules.iter().filter(|rule| !now.0.contains(rule)).cloned().collect();
        if !new.is_empty() {
            now.0.extend(new);
            now.1 = bind(&self.spec, &self.home, &self.outputs, &self.private, &now.0);
        }
    }
}

fn bind(spec: &JobSpec, home: &Path, outputs: &Path, private: &[PathBuf], granted: &[String]) -> Arc<Permission> {
    let mut policy = spec.policy.clone();
    policy.allow.extend(granted.iter().map(|rule| Rule::new(rule, "/")));
    Arc::new(Permission::new(&policy, &spec.workdir, home, outputs).keeping(private))
}

impl Deps {
    /// The real ones, for the job that this worker was welcomed with, as its log left it.
    pub fn new(
        welcome: &Welcome,
        state: &RunState,
        host: Host,
        launcher: Option<Arc<Launcher>>,
    ) -> Result<Self, SetupError> {
        let spec = &welcome.spec;
        let judge = Judge::new(welcome, state.granted.clone());
        let permission = judge.permission();
        let registry = Registry::new(&spec.tools);
        let tools = match spec.mode {
            Mode::Once => Vec::new(),
            Mode::Loop => registry.definitions(|tool| permission.hides(tool)),
        };
        let tools_tokens = tools.iter().map(tokens::estimate_definition).sum();
        let about = About {
            job: welcome.job.clone(),
            spec: welcome.spec.clone(),
            goes_on: state.progress.attempt > 1,
            permission,
            outputs: welcome.outputs.clone(),
            env: welcome.env.clone(),
            grace: Duration::from_millis(welcome.term_grace_ms),
            calls_before: state.progress.used.tool_calls,
        };
        let mask = Arc::new(Mask::new(welcome.secrets.clone()));
        let hooks = Hooks::new(welcome, launcher, mask.clone());
        let http = Arc::new(Http::new()?);
        Ok(Deps {
            call_model: over_http(http.clone(), tools, mask.clone()),
            tools: registry,
            posts: Some(Posts::new(http)),
            now: Instant::now,
            judge,
            ask_timeout: welcome.asks.then(|| Duration::from_millis(spec.policy.ask_timeout_ms)),
            outputs: welcome.outputs.clone(),
            mask,
            shells: Arc::new(Shells::new(host, about)),
            hooks: Arc::new(hooks),
            seen: Arc::new(Seen::recalled(&state.seen)),
            tools_tokens,
        })
    }

    #[must_use]
    pub fn permission(&self) -> Arc<Permission> {
        self.judge.permission()
    }

    /// A person allows this, and its like, for the rest of the job.
    pub fn grant(&self, rules: &[String]) {
        self.judge.grant(rules);
    }

    /// `window`: what the model that is to read the result holds, in tokens.
    #[must_use]
    pub fn tool_context(&self, cancel: CancellationToken, window: u64) -> tool::Context {
        tool::Context {
            result_tokens_max: tool::result_tokens_max(window),
            permission: self.permission(),
            cancel,
            outputs: self.outputs.clone(),
            mask: self.mask.clone(),
            seen: self.seen.clone(),
            looks: Arc::default(),
            shells: self.shells.clone(),
            tools: self.tools.clone(),
            posts: self.posts.clone(),
            consented: false,
        }
    }
}

fn over_http(http: Arc<Http>, tools: Vec<Definition>, mask: Arc<Mask>) -> CallModel {
    let tools = Arc::new(tools);
    Box::new(move |attempt| {
        let (http, tools, mask) = (http.clone(), tools.clone(), mask.clone());
        Box::pin(async move {
            let Attempt { grant, system, messages, cancel, on_progress } = attempt;
            let used = provider::used_ids(&messages);
            let request = Request {
                model: &grant.model,
                system: Some(&system),
                messages: &messages,
                tools: &tools,
                max_output: grant.max_output,
            };
            provider::attempt(&http, &grant, request, &used, &mask, on_progress, cancel).await
        })
    })
}
