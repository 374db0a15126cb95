//! What looks like a secret, whoever it belongs to: nobody here knows the keys of others, and an error may quote them.

#![deny(clippy::disallowed_methods)]

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Of an address.
const USER_AND_PASSWORD: &str = r#"://(?<secret>[^\s/@:]*:[^\s/@]+)@"#;

/// What has the shape of a secret: the group `secret` is masked. What stands before it says what was there.
const SHAPES: [&str; 9] = [
    // Keys of well-known services.
    r#"\b(?:sk-|AIza|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|AKIA|ASIA|ya29\.|npm_|pypi-|hf_|eyJ|SG\.|rk_live_|sk_live_|whsec_)(?<secret>[\w\-./+=~%]{12,})"#,
    // Authorization, of whatever scheme, and cookies.
    r#"(?i)\b(?:bearer|basic|digest|token|negotiate) (?<secret>[\w\-./+=~%:]{12,})"#,
    r#"(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:\w+ )?(?<secret>[\w\-./+=~%:]{8,})"#,
    r#"(?i)\b(?:set-)?cookie["']?\s*:\s*(?<secret>[^\r\n]{8,})"#,
    // A webhook: Discord's, Slack's.
    r#"(?:/api/webhooks/|hooks\.slack\.com/services/)(?<secret>[\w\-./+=~%]{8,})"#,
    // `token=…`, `"password": "…"`, `API_KEY: …`, in whatever name ends so.
    r#"(?i)(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|token|secret|passwd|password|passphrase|pwd|credentials?)["']?\s*(?:=|:|%3D)\s*["']?(?<secret>[^\s"'&,;)}\]]{6,})"#,
    r#"(?i)\b(?:key|sig|signature)=(?<secret>[^\s"'&,;)}\]]{6,})"#,
    USER_AND_PASSWORD,
    // A key in lines; its end may be cut off.
    r#"-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)[A-Z ]*-----(?<secret>[\s\S]*?)(?:-----END|$)"#,
];

/// Whether it is an address that holds a password, or has one in it.
pub(super) fn has_password(text: &str) -> bool {
    // As above: it compiles.
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(USER_AND_PASSWORD).ok());
    SHAPE.as_ref().is_some_and(|shape| shape.is_match(text))
}

static COMPILED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // A shape that does not compile would hide nothing: a test compiles them all.
    SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect()
});

/// Where in `text` something secret stands, in bytes. Spans may overlap.
pub(super) fn spans(text: &str) -> impl Iterator<Item = Range<usize>> {
    let found = COMPILED.iter().flat_map(move |shape| shape.captures_iter(text));
    found.filter_map(|captures| captures.name("secret").map(|secret| secret.range()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let mut is_secret = vec![false; text.len()];
        spans(text).for_each(|span| is_secret[span].fill(true));
        let mut shown = String::new();
        for (at, c) in text.char_indices() {
            match is_secret[at] {
                false => shown.push(c),
                true if at == 0 || !is_secret[at - 1] => shown.push('#'),
                true => {}
            }
        }
        shown
    }

    #[test]
    fn every_shape_compiles() {
        assert_eq!(COMPILED.len(), SHAPES.len());
    }

    #[test]
    fn what_looks_like_a_secret_is_masked() {
        for (text, expected) in [
            ("sk-ant-REDACTED refused", "sk-# refused"),
            ("ghp_abcdefghijklmnop and AKIAABCDEFGHIJKLMNOP", "ghp_# and AKIA#"),
            ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer #"),
            ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic #"),
            ("\"Authorization\": \"abcdefghij\"", "\"Authorization\": \"#\""),
            ("Cookie: session=abcdef; other=1\nnext", "Cookie: #\nnext"),
            ("https://discord.com/api/webhooks/123456789012/abc-def_ghi", "https://discord.com/api/webhooks/#"),
            ("https://hooks.slack.com/services/T000/B000/XXXX", "https://hooks.slack.com/services/#"),
            ("GET /?token=abcdefgh&x=1", "GET /?token=#&x=1"),
            ("GET /?key=abcdefgh", "GET /?key=#"),
            ("password: hunter2", "password: #"),
            ("{\"client_secret\": \"abcdefgh\"}", "{\"client_secret\": \"#\"}"),
            ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=# next"),
            ("api_key%3Dabcdefgh", "api_key%3D#"),
            ("postgres://user:hunter2@db.example/app", "postgres://#@db.example/app"),
            ("redis://:hunter2@cache:6379", "redis://#@cache:6379"),
            (
                "x -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY----- y",
                "x -----BEGIN RSA PRIVATE KEY-----#-----END RSA PRIVATE KEY----- y",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE cut", "-----BEGIN PRIVATE KEY-----#"),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_no_secrets() {
        for text in [
            "j-abcdefgh (risk-assessment) aborted",
            "the task-management-overview of docs/keys.md",
            "tokens: 500000 of 500000",
            "limit tokens=900",
            "HTTP 429: token limit reached, try again in 20 s",
            "the key is wrong",
            "ukai resume j-abcdefgh --limit tokens=1000000",
            "https://example.com:8080/path",
            "basic research; bearer of news",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
