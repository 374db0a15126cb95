//! `sandbox` of a policy: `on`, `off`, or what is opened besides the usual.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use ukai_protocol::policy::{Network, Sandbox};

#[derive(Default)]
pub(super) struct SandboxEntry(Sandbox);

impl SandboxEntry {
    /// Paths from the home folder or from where the policy stands become absolute. The error is what is wrong, and what to do.
    pub(super) fn at(self, base: &Path) -> Result<Sandbox, (String, String)> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let absolute = |path: PathBuf| match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        };
        let Sandbox { on, network, read, write, env } = self.0;
        let [read, write] = [read, write].map(|paths| paths.into_iter().map(absolute).collect::<Vec<_>>());
        for (key, paths) in [("read", &read), ("write", &write)] {
            for path in paths {
                check(key, path, home.as_deref())?;
            }
        }
        Ok(Sandbox { on, network, read, write, env })
    }
}

/// Whoever may write there may do all that its owner may, and more.
const NOT_TO_WRITE: [&str; 13] =
    ["/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc", "/sys", "/opt", "/snap"];
/// These themselves; what lies in them may be anybody's.
const NOT_TO_WRITE_WHOLE: [&str; 6] = ["/dev", "/home", "/root", "/run", "/srv", "/var"];

/// `path`: absolute.
fn check(key: &str, path: &Path, home: Option<&Path>) -> Result<(), (String, String)> {
    let shown = path.display();
    if path.components().any(|part| part == Component::ParentDir) {
        return Err((format!("{key}: `{shown}` holds `..`"), "write the folder that is meant".to_owned()));
    }
    if path.parent().is_none() {
        return Err((format!("{key}: `/` is everything, secrets too"), "name the folders that are needed".to_owned()));
    }
    let is_system = NOT_TO_WRITE.iter().any(|system| path.starts_with(system))
        || NOT_TO_WRITE_WHOLE.iter().any(|system| path == Path::new(system));
    if key == "write" && is_system {
        let next = "name the one folder that a job is to change, or run what installs by hand";
        return Err((format!("write: `{shown}` is the system's"), next.to_owned()));
    }
    if key == "write" && home.is_some_and(|home| home.starts_with(path)) {
        let why = format!("write: `{shown}` holds all of the home folder: what runs at the next login, and every key");
        return Err((why, "name folders in it".to_owned()));
    }
    Ok(())
}

/// Of what it opens, what is not there: to nobody who wrote it down would it be open.
#[must_use]
pub fn missing(sandbox: &Sandbox) -> Vec<String> {
    let lists = [("read", &sandbox.read), ("write", &sandbox.write)];
    let each = lists.into_iter().flat_map(|(key, paths)| paths.iter().map(move |path| (key, path)));
    let gone = each.filter_map(|(key, path)| path.metadata().err().map(|error| (key, path, error)));
    gone.map(|(key, path, error)| format!("sandbox, {key} {}: {error}; it stays closed", path.display())).collect()
}

/// On one line.
#[must_use]
pub fn described(sandbox: &Sandbox) -> String {
    if !sandbox.on {
        return "off: what a model starts may do all that you may".to_owned();
    }
    let paths = |what: &str, paths: &[PathBuf]| {
        let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        (!paths.is_empty()).then(|| format!("{what} {}", paths.join(" ")))
    };
    let env = (!sandbox.env.is_empty()).then(|| format!("env {}", sandbox.env.join(" ")));
    let also = [paths("read", &sandbox.read), paths("write", &sandbox.write), env];
    let network = match sandbox.network {
        Network::Off => "off",
        Network::Loopback => "loopback",
        Network::On => "on",
    };
    [format!("on, network {network}")].into_iter().chain(also.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

impl<'de> Deserialize<'de> for SandboxEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            #[serde(default)]
            network: NetworkWord,
            #[serde(default)]
            read: Vec<PathBuf>,
            #[serde(default)]
            write: Vec<PathBuf>,
            #[serde(default)]
            env: Vec<String>,
        }
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = SandboxEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("on, off or {network, read, write, env}")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<SandboxEntry, E> {
                Ok(SandboxEntry(Sandbox { on, ..Sandbox::default() }))
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<SandboxEntry, E> {
                match word {
                    "on" => self.visit_bool(true),
                    "off" => self.visit_bool(false),
                    _ => Err(E::custom(
                        "it is neither on nor off, nor what is opened, as in `sandbox: {network: loopback}`",
                    )),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxEntry, A::Error> {
                let Long { network, read, write, env } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SandboxEntry(Sandbox { on: true, network: network.0, read, write, env }))
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

/// `off`, `loopback` or `on`; YAML readers may take the outer two for booleans.
#[derive(Default)]
struct NetworkWord(Network);

impl<'de> Deserialize<'de> for NetworkWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = NetworkWord;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("off, loopback or on")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<NetworkWord, E> {
                Ok(NetworkWord(if on { Network::On } else { Network::Off }))
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<NetworkWord, E> {
                match word {
                    "off" => Ok(NetworkWord(Network::Off)),
                    "loopback" => Ok(NetworkWord(Network::Loopback)),
                    "on" => Ok(NetworkWord(Network::On)),
                    _ => Err(E::custom("it is none of off, loopback and on")),
                }
            }
        }
        deserializer.deserialize_any(Word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_open_the_machine_is_refused() {
        let home = Path::new("/home/u");
        for (key, path, part) in [
            ("read", "/", Some("everything")),
            ("write", "/", Some("everything")),
            ("write", "/etc", Some("the system's")),
            ("write", "/usr/local/bin", Some("the system's")),
            ("write", "/var", Some("the system's")),
            ("write", "/home/u", Some("home folder")),
            ("write", "/home", Some("the system's")),
            ("read", "/p/../x", Some("holds `..`")),
            ("write", "/p/../etc", Some("holds `..`")),
            ("read", "/etc/ssl", None),
            ("read", "/home/u", None),
            ("write", "/var/tmp/x", None),
            ("write", "/dev/shm", None),
            ("write", "/home/u/.cache/ccache", None),
        ] {
            let found = check(key, Path::new(path), Some(home));
            match part {
                None => assert_eq!(found, Ok(()), "{key} {path}"),
                Some(part) => assert!(found.as_ref().is_err_and(|(why, _)| why.contains(part)), "{path}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_its_list() {
        let here = tempfile::tempdir().expect("a folder");
        let gone = here.path().join("gone");
        let read = vec![here.path().to_owned()];
        let sandbox = Sandbox { read, write: vec![gone.clone()], ..Sandbox::default() };
        let missing = missing(&sandbox);
        assert!(
            missing.len() == 1 && missing[0].starts_with(&format!("sandbox, write {}", gone.display())),
            "{missing:?}"
        );
    }

    #[test]
    fn a_sandbox_is_one_line() {
        let on = Sandbox::default();
        let open = Sandbox {
            network: Network::Loopback,
            read: vec!["/data".into(), "/srv".into()],
            write: vec!["/out".into()],
            env: vec!["CI".to_owned()],
            ..on.clone()
        };
        for (setting, line) in [
            (on.clone(), "on, network off"),
            (open, "on, network loopback, read /data /srv, write /out, env CI"),
            (Sandbox { on: false, ..on }, "off: what a model starts may do all that you may"),
        ] {
            assert_eq!(described(&setting), line);
        }
    }
}
