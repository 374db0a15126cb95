//! No key reaches a sink: what is secret is masked before a text is formatted or cut.
//!
//! What is known to be secret is masked wherever eight characters of it stand in a row: most of a key is as good as all of
//! it. What nobody knows here, and has the shape of a key, is masked too.

#![deny(clippy::disallowed_methods)]

mod shape;

use std::fmt;

use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::MASK;
use ukai_protocol::secret::fragment::{self, Fragments};

/// Words of a variable's name that say what it holds. `PATH` and `COMPASS` are words of their own.
const SECRET_WORDS: [&str; 9] = ["KEY", "KEYS", "SECRETS", "CREDENTIAL", "WEBHOOK", "DSN", "AUTH", "PASS", "PAT"];
/// The same at the end of such a word: many are written in one (`PGPASSWORD`, `MYAPP_SECRETKEY`). No `KEY`: a monkey is
/// none.
const SECRET_ENDS: [&str; 11] = [
    "PASSWORD",
    "PASSWD",
    "PWD",
    "PASSPHRASE",
    "SECRET",
    "SECRETKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
    "APIKEY",
    "TOKEN",
    "CREDENTIALS",
];
/// Folders, as every shell names them.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// Knows what must not be told.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Fragments,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    #[must_use]
    pub fn new(secrets: Vec<Secret>) -> Self {
        let forms: Vec<String> = secrets.iter().flat_map(Secret::forms).collect();
        Redactor { known: Fragments::of(forms.iter().map(String::as_str)) }
    }

    /// Whether something that is known to be secret stands in it.
    #[must_use]
    pub fn knows(&self, text: &str) -> bool {
        self.known.found(&text.chars().collect::<Vec<_>>()).contains(&true)
    }

    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let mut is_secret = self.known.found(&chars);
        for span in shape::spans(text) {
            let from = text[..span.start].chars().count();
            let count = text[span].chars().count();
            is_secret[from..from + count].fill(true);
        }
        fragment::shown(&chars, &is_secret, MASK)
    }
}

/// Whether a variable holds a secret, by its name or since it is an address with a password in it.
#[must_use]
pub fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(name) || shape::has_password(value)
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // Where a secret lies is none.
    let is_a_place = ["_SOCK", "_FILE", "_PATH", "_DIR"].iter().any(|end| name.ends_with(end));
    let is_secret = |word: &str| SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(end));
    !is_a_place && !FOLDERS.contains(&&*name) && name.split(['_', '-']).any(is_secret)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(secret: &str) -> Redactor {
        Redactor::new(vec![Secret::new(secret.to_owned())])
    }

    #[test]
    fn what_is_known_or_looks_like_a_key_is_masked_and_words_are_not() {
        let redactor = redactor("hunter2-hunter2");
        for (text, expected) in [
            ("the key hunter2-hunter2 is wrong", "the key [secret] is wrong"),
            ("its end hunter2-hun… is cut", "its end [secret]… is cut"),
            ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [secret]"),
            ("sk-ant-REDACTED refused", "sk-[secret] refused"),
            (
                "post to https://discord.com/api/webhooks/123456789012/abc-def_ghi",
                "post to https://discord.com/api/webhooks/[secret]",
            ),
            ("j-abcdefgh (risk-assessment) aborted", "j-abcdefgh (risk-assessment) aborted"),
            ("the task-management-overview of docs/keys.md", "the task-management-overview of docs/keys.md"),
            ("", ""),
        ] {
            assert_eq!(redactor.redacted(text), expected);
        }
        assert_eq!(Redactor::new(vec![Secret::new("abc".to_owned())]).redacted("xabcabcx"), "x[secret]x");
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }

    #[test]
    fn of_a_secret_address_the_rest_is_no_secret() {
        let redactor = redactor("https://discord.com/api/webhooks/1234/abcdefghijkl/slack");
        let text = "see https://discord.com/api for webhooks in slack, not abcdefghijkl";
        assert_eq!(redactor.redacted(text), "see https://discord.com/api for webhooks in slack, not [secret]");
        let redactor = self::redactor("postgres://user:hunter2hunter2@db.example/app");
        assert_eq!(redactor.redacted("hunter2hunter2 at db.example"), "[secret] at db.example");
    }

    #[test]
    fn a_variable_tells_by_its_name_or_by_its_value_that_it_holds_a_secret() {
        let address = "postgres://app:hunter2hunter2@db.example/app";
        for (name, value) in [
            ("OPENAI_API_KEY", "x"),
            ("UKAI_DISCORD_WEBHOOK", "x"),
            ("gh_token", "x"),
            ("DB_PASSWORD", "x"),
            ("SENTRY_DSN", "x"),
            ("PGPASSWORD", "x"),
            ("GITHUB_PAT", "x"),
            ("DB_PASS", "x"),
            ("MYAPP_SECRETKEY", "x"),
            ("MYSQL_PWD", "x"),
            ("GHTOKEN", "x"),
            ("REDISPASSWD", "x"),
            ("SSHPASSPHRASE", "x"),
            ("GCLOUDCREDENTIALS", "x"),
            ("DATABASE_URL", address),
            ("JAVA_OPTS", "-Ddb=postgres://app:hunter2hunter2@db.example/app -Xmx1g"),
            ("PATH", "redis://:hunter2@cache:6379"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/bin:/usr/bin"),
            ("PWD", "/home/me"),
            ("OLDPWD", "/home/me"),
            ("KEYBOARD", "us"),
            ("MONKEY_HOME", "/m"),
            ("HOME", "/home/me"),
            ("XDG_STATE_HOME", "/s"),
            ("XDG_SESSION_PATH", "/s"),
            ("SSH_AUTHOR", "me"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("SSH_ASKPASS", "/usr/bin/askpass"),
            ("COMPASS", "north"),
            ("BROKEN_PATH_PATTERN", "x"),
            ("HTTP_PROXY", "http://proxy.example:3128"),
            ("REPOSITORY", "https://user@git.example/repository:x@y"),
        ] {
            assert!(!is_secret(name, value), "{name}");
        }
        let redactor = redactor(address);
        let [with_user, alone] = ["app:hunter2hunter2 was refused", "hunter2hunter2 was refused"];
        assert_eq!(redactor.redacted(with_user), "[secret] was refused");
        assert_eq!(redactor.redacted(alone), "[secret] was refused");
    }

    proptest! {
        #[test]
        fn no_piece_of_a_known_secret_is_left(
            secret in "[A-Za-z0-9_.-]{8,60}",
            before in "\\PC{0,40}",
            after in "\\PC{0,40}",
            from in 0_usize..40,
        ) {
            let part = &secret[from.min(secret.len() - 8)..];
            let shown = redactor(&secret).redacted(&format!("{before}{part}{after}"));
            for piece in secret.as_bytes().windows(8) {
                let piece = str::from_utf8(piece).expect("ASCII");
                // The mask itself is no secret.
                prop_assert!(!shown.replace(MASK, "").contains(piece) || MASK.contains(piece));
            }
        }
    }
}
