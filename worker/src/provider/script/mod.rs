//! A provider that plays a script: a real HTTP server on the loopback, for the demo and for tests of any client.
//!
//! It is a citizen, not a mock: it speaks all three wires on a real socket, judges every request as strictly as the real
//! ones do, and answers the same request with the same bytes, since a rule looks at what a request *contains*. What
//! does count (`times`, `first`, `[rate]`) says so in `docs/script.md`, the description of the file.
//!
//! Everything but the last group is pure: request and instant in, plan of bytes and pauses out.

// What a script says.
mod args;
pub mod file;
mod load;
mod pause;
mod rule;
mod template;

// What a request says, and whether it may.
mod conversation;
mod judge;
mod judge_anthropic;
mod judge_gemini;
mod judge_openai;
mod judge_schema;
mod place;
mod thought_signature;

// What is answered.
mod answer;
mod play;
mod rate;
mod refusal;
mod reply;
mod stream;
mod stream_anthropic;
mod stream_gemini;
mod stream_openai;
mod tally;

// Where it meets the world.
mod arrivals;
mod cli;
mod send;
mod server;

#[cfg(test)]
mod socket_tests;

pub use cli::serve_main;
pub use file::Script;
pub use load::ScriptError;
