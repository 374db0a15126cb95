//! `sandbox` of a policy: `on`, `off`, or what is opened besides the usual.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use ukai_protocol::policy::{Network, Sandbox};

#[derive(Default)]
pub(super) struct SandboxEntry(Sandbox);

impl SandboxEntry {
    /// Paths from the home folder or from where the policy stands become absolute.
    pub(super) fn at(self, base: &Path) -> Sandbox {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let absolute = |path: PathBuf| match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        };
        let Sandbox { on, network, read, write, env } = self.0;
        let [read, write] = [read, write].map(|paths| paths.into_iter().map(absolute).collect());
        Sandbox { on, network, read, write, env }
    }
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
                    _ => Err(E::custom("it is neither on nor off")),
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
