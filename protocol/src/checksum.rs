//! The seal on everything durable: `…,"crc":"8 hex"}`, crc32 over the bytes before `,"crc"`.
//!
//! One rule for records, job files, snapshots and cursors, whoever writes them, and one that a person can check by hand. It stands last, so that the
//! text before it is hashed as it is, without a second form of the object to agree on.
#![deny(clippy::disallowed_methods)]

/// `,"crc":"` + 8 hex + `"}`
pub const SEAL_BYTES: usize = 18;

/// Closes an object that lacks only its end: `{"a":1` becomes `{"a":1,"crc":"…"}`.
#[must_use]
pub fn seal(open_object: String) -> String {
    let crc = crc32fast::hash(open_object.as_bytes());
    format!("{open_object},\"crc\":\"{crc:08x}\"}}")
}

/// Whether the text ends in the seal that belongs to it.
#[must_use]
pub fn is_sealed(text: &[u8]) -> bool {
    let Some((body, found)) = text.len().checked_sub(SEAL_BYTES).map(|at| text.split_at(at)) else { return false };
    found == format!(",\"crc\":\"{:08x}\"}}", crc32fast::hash(body)).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seal_is_these_bytes_for_ever() {
        assert_eq!(seal(r#"{"a":1"#.to_owned()), r#"{"a":1,"crc":"a702fc6e"}"#);
    }

    #[test]
    fn what_is_cut_changed_or_written_otherwise_is_not_sealed() {
        assert!(is_sealed(seal(r#"{"a":1"#.to_owned()).as_bytes()));
        for text in
            ["", "{}", r#"{"a":2,"crc":"a702fc6e"}"#, r#"{"a":1,"crc":"A702FC6E"}"#, r#"{"a":1,"crc":"a702fc6e"} "#]
        {
            assert!(!is_sealed(text.as_bytes()), "{text}");
        }
    }
}
