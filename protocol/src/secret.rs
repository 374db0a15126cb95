//! A key in memory. It can travel to the worker inside a lease; it cannot be printed by accident.

#![deny(clippy::disallowed_methods)]

pub mod fingerprint;
mod forms;
pub mod fragment;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Debug shows `[secret]`; there is no Display. Only [`Secret::expose`] yields the text, so that every use can be found.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Secret(text)
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn debug_never_shows_the_text() {
        let shown = format!("{:?}", Some(super::Secret::new("sk-123".into())));
        assert_eq!(shown, "Some([secret])");
    }
}
