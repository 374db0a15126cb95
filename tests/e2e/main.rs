//! Promises to the user, each a file: real processes on real sockets.

mod bad_input;
mod cancel;
mod crash;
mod limits;
mod reads;
mod run;
mod scripts;
