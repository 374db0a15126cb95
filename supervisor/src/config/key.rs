//! Keys: from a variable, a file, or a systemd credential, into memory and nowhere else (spec §1).
//!
//! Every error names where a key was looked for, none shows what was found.
#![allow(clippy::disallowed_methods, reason = "this file is the shell of its folder")]

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::secret::Secret;

use super::KeyFrom;

/// Real keys are under 1 KiB; a larger file is another file.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// Where the key was found, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Variable(String),
    File(PathBuf),
    Credential(PathBuf),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Variable(name) => write!(f, "variable {name}"),
            Found::File(path) => write!(f, "file {}", path.display()),
            Found::Credential(path) => write!(f, "credential {}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("variable {0} is not set, and there is no systemd credential of that name; set it")]
    Absent(String),
    #[error("{0} is empty; put the key there")]
    Empty(String),
    #[error("what is in {0} is no key: it holds blanks or control characters; put the key alone there")]
    NoKey(String),
    #[error("its api_key_file {0} could not be read: {1}; check its path and owner")]
    Unreadable(PathBuf, std::io::Error),
    #[error("its api_key_file {0} can be read by every user of this machine (mode {1:o}); type: chmod 600 {0}")]
    Exposed(PathBuf, u32),
}

/// Looks where `from` says. `Ok(None)`: the provider needs no key.
pub fn read(from: &KeyFrom) -> Result<Option<(Secret, Found)>, KeyError> {
    match from {
        KeyFrom::Nowhere => Ok(None),
        KeyFrom::File(path) => read_file(path).map(|key| Some((key, Found::File(path.clone())))),
        KeyFrom::Variable(name) => match env::var_os(name) {
            Some(value) if !value.is_empty() => {
                let value = value.into_string().map_err(|_| KeyError::NoKey(format!("variable {name}")))?;
                let key = key(&value, || format!("variable {name}"))?;
                Ok(Some((key, Found::Variable(name.clone()))))
            }
            _ => match credential(name) {
                Some(path) => read_file(&path).map(|key| Some((key, Found::Credential(path)))),
                None => Err(KeyError::Absent(name.clone())),
            },
        },
    }
}

fn credential(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os("CREDENTIALS_DIRECTORY")?).join(name);
    path.exists().then_some(path)
}

fn read_file(path: &Path) -> Result<Secret, KeyError> {
    let unreadable = |error| KeyError::Unreadable(path.to_owned(), error);
    let mode = fs::metadata(path).map_err(unreadable)?.mode();
    if mode & 0o004 != 0 {
        return Err(KeyError::Exposed(path.to_owned(), mode & 0o777));
    }
    let bytes = disk::read_bounded(path, KEY_BYTES_MAX).map_err(unreadable)?;
    let place = || format!("key file {}", path.display());
    let text = String::from_utf8(bytes).map_err(|_| KeyError::NoKey(place()))?;
    key(&text, place)
}

/// It goes into a header, so nothing but visible ASCII; the newline that editors add is no part of it.
fn key(text: &str, place: impl Fn() -> String) -> Result<Secret, KeyError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(KeyError::Empty(place()));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::NoKey(place()));
    }
    Ok(Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn check(text: &str, mode: u32, expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode set");
        let found = read(&KeyFrom::File(path));
        match (found, expected) {
            (Ok(Some((key, _))), Ok(expected)) => assert_eq!(key.expose(), expected),
            (Err(error), Err(part)) => {
                let error = error.to_string();
                assert!(error.contains(part), "{error}");
                assert!(!error.contains("sk-"), "{error}");
            }
            (found, expected) => panic!("{text:?} {mode:o}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_key_file_gives_its_key_or_says_why_not() {
        check("sk-1\n", 0o600, Ok("sk-1"));
        check("sk-1\n", 0o640, Ok("sk-1"));
        check("sk-1\n", 0o644, Err("chmod 600"));
        check("\n", 0o600, Err("is empty"));
        check("sk-1\nsk-2\n", 0o600, Err("is no key"));
        check(&format!("sk-{}", "1".repeat(20_000)), 0o600, Err("larger than"));
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let error = read(&KeyFrom::Variable("UKAI_TEST_NO_SUCH_KEY".into())).expect_err("not set").to_string();
        assert!(error.contains("UKAI_TEST_NO_SUCH_KEY is not set"), "{error}");
    }
}
