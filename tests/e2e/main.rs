//! Promises to the user, each a file: real processes on real sockets.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

mod ack;
mod aimock;
mod ask;
mod background;
mod bad_input;
mod batch;
mod breaker;
mod bucket;
mod cancel;
mod confined;
mod counts;
mod crash;
mod declared;
mod demo;
mod desktop;
mod hands;
mod hands_demo;
mod hooks;
mod keys;
mod launcher;
mod limits;
mod notify;
mod pause;
mod policy;
mod probe;
mod providers;
mod quarantine;
mod reads;
mod report;
mod resume;
mod routes;
mod run;
mod scripts;
mod sdk;
mod server;
mod storm;
mod trust;
mod waits;
mod wires;
mod worktree;
mod write;
