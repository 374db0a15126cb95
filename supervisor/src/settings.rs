//! What a supervisor is started with: everything resolved, so that nothing below reads a configuration file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ukai_protocol::lease::{Prices, Timeouts, Wire};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Fingerprints;

use crate::config::url;
use crate::route::account::Rates;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Absolute. Held by one supervisor at a time.
    pub state_dir: PathBuf,
    /// The file that all of it was read from, if there was one: for whoever asks with another.
    pub config: Option<PathBuf>,
    /// Where workers and clients connect; at most 107 bytes.
    pub socket: PathBuf,
    /// Worker processes at a time.
    pub max_workers: usize,
    pub heartbeat: Duration,
    /// Silence after which a worker counts as hung.
    pub hang: Duration,
    /// From TERM to KILL.
    pub term_grace: Duration,
    /// How long a worker outlives its supervisor, waiting for the next one.
    pub orphan_grace: Duration,
    /// In the order of the configuration.
    pub providers: Vec<Provider>,
    /// Where every candidate is OPEN, a job gives its worker back and goes on by itself, instead of ending.
    pub park: bool,
    /// Somebody can be asked about a call that no rule decides: this process, or who watches it, puts the question.
    pub asks: bool,
    /// Where a yes for ever is kept; None: there is no home folder.
    pub policy_file: Option<PathBuf>,
    /// Files that hold keys, also of providers that are not in use.
    pub key_files: Vec<PathBuf>,
    pub worker_program: PathBuf,
    /// What workers and their commands take for their home; None: ours.
    pub home: Option<PathBuf>,
    pub notify: Notify,
}

/// A variable that holds less may hold a word, which would be missing from every text that jobs read and write.
const RECORDED_SECRET_BYTES_MIN: usize = 12;

impl Settings {
    /// What no worker may record.
    #[must_use]
    pub fn fingerprints(&self) -> Fingerprints {
        self.notify.fingerprints(self.providers.iter().filter_map(|provider| provider.key.as_ref()))
    }

    /// What is nobody's but ukai's and its owner's, wherever a job works. What lies in the folder of the user's policy is
    /// configuration, too; a configuration that was named may lie among other things.
    #[must_use]
    pub fn private(&self) -> Vec<PathBuf> {
        let folder = self.policy_file.as_ref().and_then(|file| file.parent()).map(PathBuf::from);
        let named = [Some(self.state_dir.clone()), folder, self.config.clone()];
        named.into_iter().flatten().chain(self.key_files.iter().cloned()).collect()
    }

    /// Where providers are reached; each once, in order.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        let ports: BTreeSet<u16> = self.providers.iter().filter_map(|provider| url::port(&provider.url)).collect();
        ports.into_iter().collect()
    }
}

impl Notify {
    /// Of these keys, the webhook, and what looks secret in the environment and is too long to be a word.
    #[must_use]
    pub fn fingerprints<'a>(&'a self, keys: impl Iterator<Item = &'a Secret>) -> Fingerprints {
        let of_environment = self.secrets.iter().filter(|secret| secret.expose().len() >= RECORDED_SECRET_BYTES_MIN);
        Fingerprints::of(rand::random(), keys.chain(&self.discord).chain(of_environment))
    }
}

/// Where alerts go, and what must not stand in them.
#[derive(Clone, Debug, Default)]
pub struct Notify {
    /// What happens is no job of the owner's, and every alert says so.
    pub demo: bool,
    pub desktop: bool,
    /// `UKAI_DISCORD_WEBHOOK`; None: unset.
    pub discord: Option<Secret>,
    /// Of the environment; the providers' keys are known besides.
    pub secrets: Vec<Secret>,
}

#[derive(Clone, Debug)]
pub struct Provider {
    pub id: String,
    /// Providers of one account share its waits, its closing and its concurrency.
    pub account: String,
    pub wire: Wire,
    pub url: String,
    pub model: String,
    pub key: Option<Secret>,
    /// Input + output, tokens.
    pub context_window: u64,
    /// Tokens of one reply.
    pub max_output: u64,
    pub prices: Option<Prices>,
    pub timeouts: Timeouts,
    /// Requests in flight at a time; None = as many as there are workers.
    pub max_concurrency: Option<usize>,
    /// None = not known, which counts as capable.
    pub supports_tools: Option<bool>,
    pub rates: Rates,
}
