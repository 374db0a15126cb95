//! Promises to the user, each a file: real processes on real sockets.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

mod bad_input;
mod batch;
mod cancel;
mod crash;
mod demo;
mod keys;
mod limits;
mod pause;
mod probe;
mod quarantine;
mod reads;
mod routes;
mod run;
mod scripts;
mod server;
mod storm;
