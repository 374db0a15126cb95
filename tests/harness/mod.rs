//! What the tests of whole processes share: a home of one's own, a scripted provider, and the `ukai` that was just built.

// A harness that cannot do its part has nothing better to do than to say so and stop.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

pub mod discord;
pub mod home;
pub mod npm;
pub mod raw;
pub mod script;
pub mod terminal;
pub mod wait;

use std::path::PathBuf;

/// The binaries under test lie beside the test's own folder: `target/debug/deps/e2e-…` → `target/debug/`.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(std::path::Path::parent).expect("it lies in target/PROFILE/deps");
    let binary = folder.join(name);
    assert!(binary.exists(), "{} is not built: run the tests with --workspace", binary.display());
    binary
}
