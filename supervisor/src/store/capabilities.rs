//! `capabilities.json`: which provider was seen to take tools (spec §5). A cache of what was found out once, so that a
//! request with tools does not have to be refused again after each start.
//!
//! Unknown counts as capable, and so nothing is lost when the file is: one that does not verify is put aside, said, and
//! taken for empty. That is why, unlike `routes.json`, it holds nobody up.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use ukai_protocol::{checksum, disk};

use super::error::StoreError;
use super::paths::StateDir;
use super::quarantine;

const SCHEMA: u64 = 1;
/// A thousand providers and more.
pub(super) const CAPABILITIES_BYTES_MAX: u64 = 256 * 1024;

/// What is known of one provider. The keys are the contract's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub provider_id: String,
    pub supports_tool_calling: bool,
    /// RFC 3339, UTC; for people only.
    pub last_verified_at: String,
    pub schema_version: u64,
}

/// By provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    rows: BTreeMap<String, Capability>,
}

impl Capabilities {
    /// None: not known, which counts as capable.
    #[must_use]
    pub fn get(&self, provider: &str) -> Option<bool> {
        self.rows.get(provider).map(|row| row.supports_tool_calling)
    }

    /// What was seen last holds. Whether that changed what was known: then it is worth saving at once.
    pub fn set(&mut self, provider: &str, supports_tool_calling: bool, at: String) -> bool {
        let row = Capability {
            provider_id: provider.to_owned(),
            supports_tool_calling,
            last_verified_at: at,
            schema_version: SCHEMA,
        };
        let before = self.rows.insert(provider.to_owned(), row);
        before.is_none_or(|before| before.supports_tool_calling != supports_tool_calling)
    }

    /// Whether anything was known.
    pub fn forget(&mut self, provider: &str) -> bool {
        self.rows.remove(provider).is_some()
    }

    /// In the order of their ids.
    pub fn rows(&self) -> impl Iterator<Item = &Capability> {
        self.rows.values()
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u64,
    providers: Vec<Capability>,
}

pub fn save(state: &StateDir, capabilities: &Capabilities) -> io::Result<()> {
    let file = File { schema: SCHEMA, providers: capabilities.rows().cloned().collect() };
    let json = serde_json::to_string(&file)?;
    let open = json.strip_suffix('}').ok_or_else(|| io::Error::other("capabilities that are no JSON object"))?;
    disk::write_atomic(&state.capabilities(), checksum::seal(open.to_owned()).as_bytes())
}

/// Call it under the [`super::Lock`]: what does not verify is moved to quarantine. Errors are the disk's.
pub fn load(state: &StateDir) -> Result<Capabilities, StoreError> {
    let path = state.capabilities();
    let why = match disk::read_bounded(&path, CAPABILITIES_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Capabilities::default()),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => error.to_string(),
        Err(error) => return Err(StoreError::io("reading", &path, &error)),
        Ok(bytes) => match decode(&bytes) {
            Ok(capabilities) => return Ok(capabilities),
            Err(why) => why,
        },
    };
    let kept = quarantine::put_aside_file(state, &path)?;
    tracing::error!(
        "{} does not verify ({why}): kept as {}; which providers take tools is found out again",
        path.display(),
        kept.display()
    );
    Ok(Capabilities::default())
}

/// The same, and nothing is moved.
pub fn peek(state: &StateDir) -> Result<Capabilities, StoreError> {
    let path = state.capabilities();
    match disk::read_bounded(&path, CAPABILITIES_BYTES_MAX) {
        Ok(bytes) => Ok(decode(&bytes).unwrap_or_default()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge) => {
            Ok(Capabilities::default())
        }
        Err(error) => Err(StoreError::io("reading", &path, &error)),
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Capabilities, String> {
    if !checksum::is_sealed(bytes) {
        return Err("its checksum does not match".to_owned());
    }
    match serde_json::from_slice(bytes) {
        Ok(File { schema: SCHEMA, providers }) => {
            let rows = providers.into_iter().map(|row| (row.provider_id.clone(), row)).collect();
            Ok(Capabilities { rows })
        }
        Ok(File { schema, .. }) => Err(format!("it is of schema {schema}, this ukai reads {SCHEMA}")),
        Err(error) => Err(format!("it is no table of capabilities: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{AT, Temp};

    fn known() -> Capabilities {
        let mut known = Capabilities::default();
        known.set("lab", false, AT.to_owned());
        known.set("anthropic", true, AT.to_owned());
        known
    }

    #[test]
    fn what_was_seen_last_holds_and_the_unknown_is_unknown() {
        let mut known = known();
        assert_eq!((known.get("lab"), known.get("other")), (Some(false), None));
        assert!(!known.set("lab", false, "later".to_owned()), "nothing new");
        assert!(known.set("lab", true, "later still".to_owned()));
        assert_eq!(known.get("lab"), Some(true));
        let rows: Vec<_> = known.rows().map(|row| (&*row.provider_id, &*row.last_verified_at)).collect();
        assert_eq!(rows, [("anthropic", AT), ("lab", "later still")]);
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let temp = Temp::new();
        assert_eq!(load(&temp.state).expect("none"), Capabilities::default());
        save(&temp.state, &known()).expect("saved");
        assert_eq!(load(&temp.state).expect("sound"), known());
        let text = std::fs::read_to_string(temp.state.capabilities()).expect("text");
        assert_eq!(text, include_str!("../../testdata/capabilities.golden.json"));
    }

    #[test]
    fn what_does_not_verify_is_put_aside_and_counts_as_empty() {
        let temp = Temp::new();
        let path = temp.state.capabilities();
        save(&temp.state, &known()).expect("saved");
        let text = std::fs::read_to_string(&path).expect("text");
        let other_schema = checksum::seal(text[..text.len() - 18].replacen("\"schema\":1", "\"schema\":2", 1));
        let bads = ["", "{}", &text.replace("false", "true"), &text[..text.len() / 2], &other_schema];
        for (bad, number) in bads.iter().zip(1..) {
            std::fs::write(&path, bad).expect("written");
            assert_eq!(load(&temp.state).expect("empty"), Capabilities::default(), "{bad}");
            assert!(!path.exists());
            let name = if number == 1 { "capabilities.json".to_owned() } else { format!("capabilities.json.{number}") };
            assert_eq!(std::fs::read_to_string(temp.state.quarantine().join(name)).expect("kept"), **bad);
        }
    }
}
