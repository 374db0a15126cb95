//! The vocabulary that ukai's processes agree on.
//!
//! Nothing here has a clock or decides anything: these are the words (conversation, events, leases, rules), the one
//! function that folds events into a run's state, and the frames in which all of it travels.

// The conversation, and what happens to a job or to no job in particular.
pub mod declared;
pub mod event;
pub mod hook;
pub mod id;
pub mod job;
pub mod json;
pub mod lease;
pub mod message;
pub mod policy;
pub mod run_state;
pub mod secret;
pub mod server_event;

// What a person is told to type.
pub mod command;

// The two links: worker to supervisor, client to supervisor.
pub mod control;
pub mod session;

// Questions that belong to no job: to a provider, and to the worker's program itself.
pub mod one_shot;
pub mod probe;

// How words become bytes: sealed on disk, framed on a socket or in a pipe.
pub mod checksum;
pub mod codec;
pub mod connection;
pub mod frame;
pub mod pipe;
mod socket;

// The only doors to processes and to durable files.
pub mod disk;
pub mod process;
pub mod process_tree;
pub mod threads;
