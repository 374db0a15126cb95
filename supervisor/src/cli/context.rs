//! What every verb stands on: the configuration, the state directory, the current folder.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use ukai_notifier::redact::{Redactor, is_secret};
use ukai_protocol::secret::Secret;
use ukai_protocol::{command, disk};

use super::failure::Failure;
use super::{Global, Output, print};
use crate::config::Config;
use crate::config::load::{self, Loaded, Ready};
use crate::route::account::Rates;
use crate::settings::{Notify, Provider, Settings};
use crate::store::paths::{SOCKET_PATH_BYTES_MAX, StateDir, socket_path};
use crate::trust::{self, Standing, Trust};

/// The only place where the address of a Discord webhook may stand (spec §12): whoever knows it may write there.
pub(crate) const WEBHOOK_VARIABLE: &str = "UKAI_DISCORD_WEBHOOK";
/// What is shorter is a word, and would be masked in every text.
const SECRET_BYTES_MIN: usize = 8;

pub(crate) struct Context {
    pub loaded: Loaded,
    pub state: StateDir,
    pub output: Output,
    pub current_folder: PathBuf,
}

/// Those that the `ukai.toml` of a trusted current folder configures count after the owner's own, for what is started here.
fn add_trusted_providers(config: &mut Config, state: &StateDir, folder: &Path) {
    let file = folder.join(trust::CONFIG);
    let is_in_force = config.file.as_ref().and_then(|file| file.canonicalize().ok()) == file.canonicalize().ok();
    if is_in_force || !file.exists() {
        return;
    }
    let Standing::Trusted(look) = Trust::of(state).standing(folder) else { return };
    let Some(text) = look.text(Path::new(trust::CONFIG)) else { return };
    let found = match Config::parse(text, &file, load::home().as_deref()) {
        Ok(found) => found,
        Err(fault) => return config.warnings.push(format!("{fault}; its providers do not count")),
    };
    for provider in found.providers {
        if config.providers.iter().any(|known| known.id == provider.id) {
            let why = "another of that id is configured, and holds";
            config.warnings.push(format!("{}: the provider `{}` is left out, {why}", file.display(), provider.id));
        } else {
            config.providers.push(provider);
        }
    }
}

impl Context {
    pub fn new(global: Global) -> Result<Self, Failure> {
        let current_folder = env::current_dir().map_err(|error| {
            Failure::usage(format!("finding the current folder: {error}; change to one that exists"))
        })?;
        let usual =
            StateDir::from_environment(env::var_os("XDG_STATE_HOME").as_deref(), env::var_os("HOME").as_deref());
        let state = match global.state_dir {
            Some(folder) => {
                let named = StateDir::new(current_folder.join(folder));
                if usual.ok().as_ref() != Some(&named) {
                    command::name_state_dir(named.root());
                }
                named
            }
            None => usual?,
        };
        let mut loaded = load::load(global.config.as_deref())?;
        add_trusted_providers(&mut loaded.config, &state, &current_folder);
        Ok(Context { loaded, state, output: global.output, current_folder })
    }

    /// For a verb that reads no configuration and keeps its own state directory.
    pub fn apart(global: Global, state_dir: PathBuf) -> Result<Self, Failure> {
        let state_dir = global.state_dir.unwrap_or(state_dir);
        let current_folder = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let state = StateDir::new(current_folder.join(state_dir));
        command::name_state_dir(state.root());
        Ok(Context { loaded: Loaded::default(), state, output: global.output, current_folder })
    }

    /// Where a supervisor of this state directory would listen that was started from another environment, if that is
    /// elsewhere. Noted by itself; it may have gone since.
    pub fn noted_socket(&self) -> Option<PathBuf> {
        // Unreadable is unknown: then ours is the only place to look.
        let bytes = disk::read_bounded(&self.state.socket_note(), SOCKET_PATH_BYTES_MAX as u64).ok()?;
        Some(PathBuf::from(OsString::from_vec(bytes))).filter(|path| path.is_absolute())
    }

    /// Where the supervisor of this state directory listens. None: there is no such directory, so nobody does.
    pub fn socket(&self) -> Result<Option<PathBuf>, Failure> {
        if !self.state.root().exists() {
            return Ok(None);
        }
        let runtime_dir = env::var_os("XDG_RUNTIME_DIR");
        let uid = nix::unistd::Uid::effective().as_raw();
        Ok(Some(socket_path(&self.state, runtime_dir.as_deref(), uid)?))
    }

    /// What alerts need, and nothing of providers: of those that cannot be used yet, no key need be hidden.
    pub fn notify_setup(&self) -> Notify {
        let mut notify = notify(self.loaded.config.desktop);
        let providers = load::providers(&self.loaded.config, &mut Vec::new()).unwrap_or_default();
        notify.secrets.extend(providers.into_iter().filter_map(|ready| ready.key));
        notify
    }

    /// Knows what no text may show that others read: the secrets of this environment and the keys of the providers.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.notify_setup().secrets)
    }

    /// Everything that hosting a supervisor here takes. Creates the state directory; says on stderr what a person should
    /// know. Fails before anything runs: no provider, no key, no worker program.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let config = &self.loaded.config;
        let mut warnings = config.warnings.clone();
        let providers = load::providers(config, &mut warnings)?;
        for warning in warnings {
            print::note(&format!("ukai: {warning}"));
        }
        let worker_program = worker_program()?;
        self.state.create()?;
        let socket = self.socket()?.ok_or_else(|| Failure::failed("the state directory vanished; start ukai again"))?;
        // Held by canonical name, as the socket is: every road to it is one directory.
        let state_dir = self.state.root().canonicalize().map_err(|error| {
            Failure::usage(format!("resolving the state directory {}: {error}", self.state.root().display()))
        })?;
        let supervision = config.supervision;
        Ok(Settings {
            state_dir,
            config: config.file.clone(),
            socket,
            max_workers: config.max_workers as usize,
            heartbeat: Duration::from_millis(supervision.heartbeat_ms),
            hang: Duration::from_millis(supervision.hang_ms),
            term_grace: Duration::from_millis(supervision.term_grace_ms),
            orphan_grace: Duration::from_millis(supervision.orphan_grace_ms),
            providers: providers.into_iter().map(provider).collect(),
            park: config.park,
            asks: false,
            policy_file: crate::policy_file::users(),
            key_files: config.key_files(),
            worker_program,
            home: None,
            notify: notify(config.desktop),
        })
    }
}

/// As it is set here.
pub(crate) fn webhook() -> Option<Secret> {
    let url = env::var(WEBHOOK_VARIABLE).ok().map(|url| url.trim().to_owned());
    url.filter(|url| !url.is_empty()).map(Secret::new)
}

/// Who is told by the desktop unless the configuration says otherwise is somebody who has one.
fn notify(desktop: Option<bool>) -> Notify {
    let secrets = env::vars_os().filter(|(name, value)| is_secret(&name.to_string_lossy(), &value.to_string_lossy()));
    let secrets = secrets.map(|(_, value)| value.to_string_lossy().trim().to_owned());
    Notify {
        demo: false,
        desktop: desktop.unwrap_or(true),
        discord: webhook(),
        secrets: secrets.filter(|value| value.len() >= SECRET_BYTES_MIN).map(Secret::new).collect(),
    }
}

fn provider(Ready { provider, key, .. }: Ready) -> Provider {
    Provider {
        id: provider.id,
        account: provider.account,
        wire: provider.wire,
        url: provider.base_url,
        model: provider.model,
        key,
        context_window: provider.context_window,
        max_output: provider.max_output,
        prices: provider.prices,
        timeouts: provider.timeouts,
        max_concurrency: provider.max_concurrency.map(|count| count as usize),
        supports_tools: None,
        rates: Rates {
            requests_per_minute: provider.requests_per_minute.unwrap_or_default(),
            burst: provider.burst.unwrap_or_default(),
            tokens_per_minute: provider.tokens_per_minute.unwrap_or_default(),
        },
    }
}

/// The program beside ours: the same name and `-worker`. Not searched in PATH, where it could be of another build.
pub(crate) fn worker_program() -> Result<PathBuf, Failure> {
    let path = beside(&env::current_exe().map_err(|error| {
        Failure::usage(format!("finding ukai's own program file: {error}; start it by its full path"))
    })?);
    usable(&path)?;
    Ok(path)
}

/// Told before a job is queued for it: what cannot be started now cannot be started by trying again.
fn usable(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if !path.is_file() {
        return Err(Failure::usage(format!(
            "the worker program {shown} is not there; build both (`cargo build --release`) and keep them in one folder"
        )));
    }
    access(path, AccessFlags::X_OK).map_err(|error| {
        Failure::usage(format!("the worker program {shown} may not be executed: {error}; type: chmod +x {shown}"))
    })
}

fn beside(own: &Path) -> PathBuf {
    let mut name = own.file_name().unwrap_or_default().to_owned();
    name.push("-worker");
    own.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_program_that_cannot_be_started_is_told_at_once() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tempfile::tempdir().expect("temp");
        let path = temp.path().join("ukai-worker");
        let check = |part: &str| {
            let failure = usable(&path).expect_err("of no use");
            assert!(failure.code == 2 && failure.text.contains(part), "{}", failure.text);
        };
        check("is not there");
        std::fs::write(&path, "").expect("a file");
        check("may not be executed");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("its mode");
        assert_eq!(usable(&path), Ok(()));
    }

    #[test]
    fn the_worker_is_named_after_us() {
        for (own, worker) in [("/b/ukai", "/b/ukai-worker"), ("/b/ukai-under-test", "/b/ukai-under-test-worker")] {
            assert_eq!(beside(Path::new(own)), Path::new(worker));
        }
    }
}
