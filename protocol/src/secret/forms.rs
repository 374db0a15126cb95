//! How a secret may stand in a text: as it is, and as the encodings that carry it in headers, addresses and JSON.
//!
//! To look only for the secret as it is would miss `Authorization: Basic`, a query string, a dump in hex: whoever reads
//! one of those has the secret.

#![deny(clippy::disallowed_methods)]

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::Secret;

/// Of an address or of a secret of many lines, what is shorter than this stands in other texts too.
const PART_BYTES_MIN: usize = 12;

impl Secret {
    /// What of it is secret, each in every form in which it may stand in a text; none of them is empty.
    #[must_use]
    pub fn forms(&self) -> Vec<String> {
        let mut forms: Vec<String> = parts(self.0.trim()).into_iter().flat_map(encoded).collect();
        forms.sort_unstable();
        forms.dedup();
        forms.retain(|form| !form.is_empty());
        forms
    }
}

/// Of an address only what can make it secret: name and password, and what is long in its path and its query; the rest
/// stands in every other address. Of many lines (a PEM block) each that is long.
fn parts(secret: &str) -> Vec<&str> {
    if let Some((_, address)) = secret.split_once("://") {
        let (user, rest) = address.rsplit_once('@').map_or((None, address), |(user, rest)| (Some(user), rest));
        let after_host = rest.split_once('/').map_or("", |(_, path)| path);
        let long = after_host.split(['/', '?', '&', '=', '#']).filter(|part| part.len() >= PART_BYTES_MIN);
        let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
        let password = password.filter(|password| password.len() >= PART_BYTES_MIN);
        return user.into_iter().chain(password).chain(long).collect();
    }
    if secret.contains('\n') {
        let is_a_frame = |line: &&str| line.starts_with("-----");
        return secret.lines().map(str::trim).filter(|l| l.len() >= PART_BYTES_MIN && !is_a_frame(l)).collect();
    }
    vec![secret]
}

fn encoded(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for upper in [true, false] {
        forms.extend(PLAIN.map(|plain| percent(secret, plain, upper)));
        forms.push(hex(secret.as_bytes(), upper));
    }
    // A JSON string escapes quotes, backslashes and controls.
    let escaped = serde_json::Value::from(secret).to_string();
    forms.push(escaped.trim_matches('"').to_owned());
    for offset in 0..3 {
        forms.extend(within_base64(secret.as_bytes(), offset));
    }
    forms
}

/// What encoders of addresses leave as it is, besides letters and digits: RFC 3986's unreserved; those and a slash; what
/// a browser leaves in a form.
const PLAIN: [&str; 4] = ["-._~", "-._~/", "-._*", "-_.!~*'()"];

/// All but those as `%XX`; in a form a blank is a plus.
fn percent(secret: &str, plain: &str, upper: bool) -> String {
    secret.bytes().fold(String::new(), |mut text, byte| {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || byte.is_ascii() && plain.contains(c) => text.push(c),
            ' ' if plain.contains('*') && !plain.contains('~') => text.push('+'),
            _ => {
                text.push('%');
                text.push_str(&hex(&[byte], upper));
            }
        }
        text
    })
}

fn hex(bytes: &[u8], upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
        text
    })
}

/// The characters that base64 has for the secret and for nothing else, where it begins `offset` bytes into a group of
/// three: what stands before and behind it (the user of `Basic`) shares the outer characters.
fn within_base64(secret: &[u8], offset: usize) -> [String; 2] {
    let padded = [vec![0; offset], secret.to_vec()].concat();
    let shared_in_front = (offset * 8).div_ceil(6);
    let whole = padded.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .map(|text| text.get(shared_in_front..whole).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forms(secret: &str) -> Vec<String> {
        Secret::new(secret.to_owned()).forms()
    }

    #[test]
    fn a_secret_is_known_in_the_encodings_that_carry_it() {
        let forms = forms("hunter2/hunter\"2");
        for (quirk, text) in [
            ("as it is", "hunter2/hunter\"2"),
            ("in a query", "hunter2%2Fhunter%222"),
            ("in a query, small", "hunter2%2fhunter%222"),
            ("in a path", "hunter2/hunter%222"),
            ("in JSON", "hunter2/hunter\\\"2"),
            ("in hex", "68756e746572322f68756e7465722232"),
        ] {
            assert!(forms.iter().any(|form| form == text), "{quirk}: {forms:?}");
        }
    }

    #[test]
    fn a_blank_in_a_form_is_a_plus() {
        assert!(forms("correct horse battery").contains(&"correct+horse+battery".to_owned()));
    }

    #[test]
    fn of_an_address_and_of_a_key_in_lines_only_what_is_secret_counts() {
        let plain = |secret| parts(secret);
        assert_eq!(plain("https://discord.com/api/webhooks/1234/abcdefghijkl/slack"), ["abcdefghijkl"]);
        assert_eq!(plain("postgres://user:hunter2hunter2@db/app"), ["user:hunter2hunter2", "hunter2hunter2"]);
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nshort\n-----END PRIVATE KEY-----";
        assert_eq!(plain(pem), ["MIIEvQIBADANBg"]);
    }

    proptest! {
        #[test]
        fn base64_of_anything_around_a_secret_holds_one_of_its_forms(
            before in proptest::collection::vec(any::<u8>(), 0..7),
            secret in "[!-~]{8,40}",
            after in proptest::collection::vec(any::<u8>(), 0..7),
        ) {
            prop_assume!(!secret.contains("://"));
            let text = STANDARD_NO_PAD.encode([before, secret.clone().into_bytes(), after].concat());
            prop_assert!(forms(&secret).iter().any(|form| text.contains(form.as_str())), "{text}");
        }
    }
}
