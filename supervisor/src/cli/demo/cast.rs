//! Who plays: eight jobs, each with a word to look for, four over each wire.

use std::path::Path;
use std::time::Duration;

use ukai_protocol::job::{ContextStrategy, JobSpec, Limits, Mode};
use ukai_protocol::lease::{Timeouts, Wire};

use super::provider::Provider as Scripted;
use crate::cli::context::{Context, worker_program};
use crate::cli::failure::Failure;
use crate::policy_file;
use crate::route::account::Rates;
use crate::settings::{Notify, Provider, Settings};

/// Plain words, so that `git grep` and `grep` read them as Grep does.
pub(super) const WORDS: [&str; 8] = ["TODO", "error", "test", "http", "return", "import", "license", "version"];

const PROVIDERS: [(&str, Wire); 2] = [("demo-openai", Wire::Openai), ("demo-anthropic", Wire::Anthropic)];

pub(super) fn jobs(folder: &Path) -> Vec<JobSpec> {
    let providers = PROVIDERS.iter().cycle();
    WORDS.iter().zip(providers).map(|(word, (provider, _))| survey(folder, word, Some(provider))).collect()
}

/// The job that looks for one word.
pub(super) fn survey(folder: &Path, word: &str, provider: Option<&str>) -> JobSpec {
    JobSpec {
        name: format!("survey-{}", word.to_lowercase()),
        prompt: format!("On how many lines, and in how many files, does `{word}` stand here?"),
        workdir: folder.to_owned(),
        env: Vec::new(),
        mode: Mode::Loop,
        provider: provider.map(str::to_owned),
        model: None,
        context: ContextStrategy::KeepAll,
        window: None,
        priority: 5,
        needs_tools: true,
        limits: Limits::default(),
        worktree: false,
        hooks: Vec::new(),
        tools: Vec::new(),
        policy: policy_file::shipped(),
        batch: None,
    }
}

pub(super) fn settings(context: &Context, scripted: &Scripted) -> Result<Settings, Failure> {
    context.state.create()?;
    let socket = context.socket()?.ok_or_else(|| Failure::failed("the demo's state directory vanished"))?;
    Ok(Settings {
        state_dir: context.state.root().to_owned(),
        config: None,
        socket,
        max_workers: WORDS.len(),
        heartbeat: Duration::from_secs(1),
        hang: Duration::from_secs(10),
        term_grace: Duration::from_secs(3),
        orphan_grace: Duration::from_secs(10),
        providers: PROVIDERS.iter().map(|(id, wire)| provider(id, *wire, scripted)).collect(),
        park: false,
        asks: false,
        policy_file: None,
        key_files: Vec::new(),
        worker_program: worker_program()?,
        home: None,
        // Nothing of it is worth a message.
        notify: Notify::default(),
    })
}

/// The one that plays, under this name.
pub(super) fn provider(id: &str, wire: Wire, scripted: &Scripted) -> Provider {
    Provider {
        id: id.to_owned(),
        account: id.to_owned(),
        wire,
        url: scripted.base_url(wire),
        model: "script".to_owned(),
        key: None,
        context_window: 1_000_000,
        max_output: 4_096,
        prices: None,
        timeouts: Timeouts::default(),
        max_concurrency: None,
        supports_tools: None,
        rates: Rates::default(),
    }
}
