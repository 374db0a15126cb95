//! Which configuration is in force, read from disk: `--config`, `$UKAI_CONFIG`, or the user's own (spec §14).
#![allow(clippy::disallowed_methods, reason = "this file is the shell of its folder")]

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::secret::Secret;

use super::key::{self, Found, KeyError};
use super::narrow::{self, Narrowing};
use super::{Config, Fault, Provider, preset, provider};

/// Any file that a person wrote by hand; more is a mistake of name.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the configuration could not be used: {0}")]
    Fault(#[from] Fault),
    #[error("{what} {path} ({origin}) could not be read: {why}; name one that exists")]
    Unreadable { what: &'static str, path: PathBuf, origin: String, why: String },
    #[error("provider `{id}` cannot be used: {why}")]
    Key { id: String, why: KeyError },
    #[error("{0}")]
    NoProvider(String),
}

/// Who said which file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Variable,
    User,
    /// There is no file: the defaults hold.
    #[default]
    Nothing,
}

impl Origin {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Flag => "--config",
            Origin::Variable => "$UKAI_CONFIG",
            Origin::User => "the user's configuration",
            Origin::Nothing => "default",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub config: Config,
    pub origin: Origin,
}

/// `$XDG_CONFIG_HOME/ukai`, by default `~/.config/ukai`. None without a home.
#[must_use]
pub fn config_dir() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config").map(|path| path.join("ukai"))
}

/// `$XDG_STATE_HOME/ukai`, by default `~/.local/state/ukai`. None without a home.
#[must_use]
pub fn state_dir() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state").map(|path| path.join("ukai"))
}

#[must_use]
pub fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A relative path in an XDG variable is invalid and ignored, says its specification.
fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(below_home)))
}

pub fn load(flag: Option<&Path>) -> Result<Loaded, LoadError> {
    let variable = env::var_os("UKAI_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    let (path, origin) = match (flag, variable) {
        (Some(path), _) => (path.to_owned(), Origin::Flag),
        (None, Some(path)) => (path, Origin::Variable),
        (None, None) => match config_dir() {
            Some(folder) => (folder.join("ukai.toml"), Origin::User),
            None => return Ok(Loaded { config: Config::default(), origin: Origin::Nothing }),
        },
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    match read_text(&path) {
        Ok(text) => Ok(Loaded { config: Config::parse(&text, &path, home().as_deref())?, origin }),
        Err(error) if origin == Origin::User && error.kind() == io::ErrorKind::NotFound => {
            Ok(Loaded { config: Config::default(), origin: Origin::Nothing })
        }
        Err(error) => Err(LoadError::Unreadable {
            what: "the configuration",
            path,
            origin: origin.as_str().to_owned(),
            why: error.to_string(),
        }),
    }
}

pub fn read_text(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let bytes = disk::read_bounded(path, FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// What the files found in these folders narrow, with the file of each. One folder named twice counts once, and the
/// configuration in force is not also read as a found one.
pub fn found_in(folders: &[&Path], in_force: Option<&Path>) -> Result<Vec<(PathBuf, Narrowing)>, LoadError> {
    let mut found = Vec::new();
    for path in found_files(folders, "ukai.toml", in_force) {
        let text = read_text(&path).map_err(|error| LoadError::Unreadable {
            what: "the limits in",
            path: path.clone(),
            origin: "found in the workdir or the current folder".to_owned(),
            why: error.to_string(),
        })?;
        let narrowing = narrow::parse(&text, &path)?;
        found.push((path, narrowing));
    }
    Ok(found)
}

/// The files of this name in the folders, each once and without `except`.
pub(crate) fn found_files(folders: &[&Path], name: &str, except: Option<&Path>) -> Vec<PathBuf> {
    let except = except.and_then(|path| path.canonicalize().ok());
    let mut seen = BTreeSet::new();
    let paths = folders.iter().map(|folder| folder.join(name)).filter(|path| path.symlink_metadata().is_ok());
    paths
        .filter(|path| {
            // What cannot be resolved (a dangling link) is kept: reading it fails, and is said.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            Some(&real) != except.as_ref() && seen.insert(real)
        })
        .collect()
}

/// A provider that can be asked now: its key is in memory.
#[derive(Clone, Debug)]
pub struct Ready {
    pub provider: Provider,
    pub key: Option<Secret>,
    pub found: Option<Found>,
}

/// The providers with their keys; without any configured, the presets whose key is there (spec §5).
pub fn providers(config: &Config, warnings: &mut Vec<String>) -> Result<Vec<Ready>, LoadError> {
    if config.providers.is_empty() { from_presets() } else { configured(config, warnings) }
}

fn configured(config: &Config, warnings: &mut Vec<String>) -> Result<Vec<Ready>, LoadError> {
    let mut all = Vec::new();
    for provider in &config.providers {
        let (key, found) = match key::read(&provider.key) {
            Ok(key) => key.unzip(),
            // A server on this machine usually wants no key: its own refusal will say if it does.
            Err(KeyError::Absent(name)) if provider.loopback => {
                warnings.push(format!("provider `{}` is asked without a key: {name} is not set", provider.id));
                (None, None)
            }
            Err(why) => return Err(LoadError::Key { id: provider.id.clone(), why }),
        };
        all.push(Ready { provider: provider.clone(), key, found });
    }
    Ok(all)
}

fn from_presets() -> Result<Vec<Ready>, LoadError> {
    let mut all = Vec::new();
    let mut looked_for = Vec::new();
    for preset in &preset::PRESETS {
        let (Some(variable), Some(provider)) = (preset.key_variable, provider::from_preset(preset)) else { continue };
        let key = match key::read(&provider.key) {
            Err(KeyError::Absent(_)) => {
                looked_for.push(variable);
                continue;
            }
            Err(why) => return Err(LoadError::Key { id: preset.id.to_owned(), why }),
            Ok(key) => key,
        };
        let (key, found) = key.unzip();
        all.push(Ready { provider, key, found });
    }
    if all.is_empty() {
        return Err(LoadError::NoProvider(format!(
            "no provider is configured: there is no [[provider]], and none of these variables is set: {}; set one, or \
             name a server in {}",
            looked_for.join(", "),
            config_dir().map_or_else(|| "ukai.toml".into(), |folder| folder.join("ukai.toml").display().to_string()),
        )));
    }
    Ok(all)
}
