//! What `ukai.toml` means (spec §14): text in, checked values or one [`Fault`] out.
//!
//! Parsed once, at the edge: past this file a provider has an address that may be asked, a model and a wire. Keys are
//! not read here (see [`key`]): a client that submits to a running server needs none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Spanned;
use ukai_protocol::hook::Hook;
use ukai_protocol::lease::{Prices, Timeouts, Wire};

pub mod duration;
pub mod fault;
mod file;
pub mod key;
pub mod limits;
pub mod load;
pub mod narrow;
pub mod preset;
pub mod provider;
pub mod url;

pub use fault::Fault;
use fault::{Format, Source};
use limits::LimitSet;

pub const MAX_WORKERS_DEFAULT: u32 = 8;
/// Each worker is a process with its own connections and descriptors; more would meet other limits first.
pub const MAX_WORKERS_MAX: u32 = 1_024;
/// A provider of which neither preset nor configuration knows the window (spec §14).
pub const CONTEXT_WINDOW_UNKNOWN: u64 = 32_000;
pub const MAX_OUTPUT_UNKNOWN: u64 = 4_096;
/// More providers than exist; bounds what one file can make us hold.
pub const PROVIDERS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// None: nothing was found, these are the defaults.
    pub file: Option<PathBuf>,
    pub max_workers: u32,
    /// Where every candidate is OPEN: wait without a worker instead of ending.
    pub park: bool,
    /// As configured, in order; empty = the presets whose key is set.
    pub providers: Vec<Provider>,
    pub limits: LimitSet,
    pub disabled_tools: Vec<String>,
    pub hooks: Vec<Hook>,
    pub supervision: Supervision,
    pub desktop: Option<bool>,
    /// The keys that the file sets, as `table.key`: where a value comes from.
    pub set: BTreeSet<String>,
    /// What a person should know although it is no error, one line each.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    pub id: String,
    /// Providers of one account share its limits.
    pub account: String,
    pub wire: Wire,
    pub base_url: String,
    pub loopback: bool,
    pub model: String,
    pub key: KeyFrom,
    pub context_window: u64,
    pub max_output: u64,
    pub max_output_cap: u64,
    pub prices: Option<Prices>,
    pub timeouts: Timeouts,
    pub max_concurrency: Option<u32>,
    pub requests_per_minute: Option<u32>,
    pub burst: Option<u32>,
    pub tokens_per_minute: Option<u64>,
}

/// Where a provider's key is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    Nowhere,
    /// The variable, else a systemd credential of that name.
    Variable(String),
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervision {
    pub heartbeat_ms: u64,
    pub hang_ms: u64,
    pub term_grace_ms: u64,
    pub orphan_grace_ms: u64,
}

impl Default for Supervision {
    fn default() -> Self {
        Supervision { heartbeat_ms: 1_000, hang_ms: 10_000, term_grace_ms: 3_000, orphan_grace_ms: 10_000 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: None,
            max_workers: MAX_WORKERS_DEFAULT,
            park: false,
            providers: Vec::new(),
            limits: LimitSet::default(),
            disabled_tools: Vec::new(),
            hooks: Vec::new(),
            supervision: Supervision::default(),
            desktop: None,
            set: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }
}

impl Config {
    /// `file` is absolute: relative names in it start at its folder. `home` is what `~/` stands for.
    pub fn parse(text: &str, file: &Path, home: Option<&Path>) -> Result<Config, Fault> {
        let source = Source { file, text, format: Format::Toml };
        let read: file::File = source.read()?;
        for (key, value) in [("mcp", &read.mcp), ("retention", &read.retention), ("otlp", &read.otlp)] {
            if let Some(value) = value {
                return Err(source.fault(value.span().start, key, "it is not in this version", "take it out"));
            }
        }
        let set = keys(&source.read()?);
        let mut config = Config { file: Some(file.to_owned()), set, ..Config::default() };
        if let Some(value) = read.max_workers {
            if !(1..=MAX_WORKERS_MAX).contains(value.get_ref()) {
                let why = format!("it must be from 1 to {MAX_WORKERS_MAX}");
                return Err(source.fault(value.span().start, "max_workers", why, "choose a number in between"));
            }
            config.max_workers = *value.get_ref();
        }
        config.park = parks(source, read.when_all_open)?;
        if let Some(table) = read.supervision {
            config.supervision = supervision(source, &table)?;
        }
        if read.web.is_some() {
            config.warnings.push(format!("{}: [web] is not served in this version", file.display()));
        }
        if read.provider.len() > PROVIDERS_MAX {
            let at = read.provider[PROVIDERS_MAX].span().start;
            let why = format!("there are more than {PROVIDERS_MAX}");
            return Err(source.fault(at, "provider", why, "take some out"));
        }
        for table in read.provider {
            let provider = provider::resolve(source, table, home, &config.providers, &mut config.warnings)?;
            config.providers.push(provider);
        }
        config.hooks = read.hooks.hooks(source)?;
        config.limits = read.limits;
        config.disabled_tools = read.tools.disable;
        config.desktop = read.notify.desktop;
        Ok(config)
    }

    /// Of all providers, whether or not they are there.
    #[must_use]
    pub fn key_files(&self) -> Vec<PathBuf> {
        let file = |provider: &Provider| match &provider.key {
            KeyFrom::File(path) => Some(path.clone()),
            KeyFrom::Variable(_) | KeyFrom::Nowhere => None,
        };
        self.providers.iter().filter_map(file).collect()
    }

    /// The ids that a policy or a job may name, whether or not their keys are here.
    #[must_use]
    pub fn provider_ids(&self) -> Vec<&str> {
        if self.providers.is_empty() {
            preset::PRESETS.iter().map(|preset| preset.id).collect()
        } else {
            self.providers.iter().map(|provider| &*provider.id).collect()
        }
    }
}

fn keys(table: &toml::Table) -> BTreeSet<String> {
    let below = |key: &str, value: &toml::Value| match value {
        toml::Value::Table(table) => table.keys().map(|name| format!("{key}.{name}")).collect(),
        _ => vec![key.to_owned()],
    };
    table.iter().flat_map(|(key, value)| below(key, value)).collect()
}

fn parks(source: Source<'_>, value: Option<Spanned<String>>) -> Result<bool, Fault> {
    match value.as_ref().map(|value| value.get_ref().as_str()) {
        None | Some("abort") => Ok(false),
        Some("park") => Ok(true),
        Some(_) => {
            let at = value.map_or(0, |value| value.span().start);
            Err(source.fault(at, "when_all_open", "it is neither \"abort\" nor \"park\"", "write one of them"))
        }
    }
}

fn supervision(source: Source<'_>, table: &Spanned<file::SupervisionTable>) -> Result<Supervision, Fault> {
    let read = table.get_ref();
    let mut set = Supervision::default();
    for (from, to) in [
        (read.heartbeat, &mut set.heartbeat_ms),
        (read.hang, &mut set.hang_ms),
        (read.term_grace, &mut set.term_grace_ms),
        (read.orphan_grace, &mut set.orphan_grace_ms),
    ] {
        *to = from.map_or(*to, |time| time.0);
    }
    let fault = |key: &str, why: &str, next: &str| Err(source.fault(table.span().start, key, why, next));
    if set.heartbeat_ms == 0 {
        return fault("heartbeat", "it must be longer than nothing", "write for instance \"1s\"");
    }
    if set.hang_ms <= set.heartbeat_ms {
        return fault("hang", "it must be longer than `heartbeat`, or every worker hangs", "ten times it is usual");
    }
    Ok(set)
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
