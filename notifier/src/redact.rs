//! No key reaches a sink: what is secret is masked before a text is formatted or cut.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::secret::Secret;

/// Knows what must not be told.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    #[must_use]
    pub fn new(secrets: Vec<Secret>) -> Self {
        Redactor { secrets }
    }

    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "[secret]"))
    }
}

/// Whether a variable of this name holds a secret.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    name.split('_').any(|word| matches!(word, "KEY" | "TOKEN" | "SECRET" | "PASSWORD" | "WEBHOOK"))
}
