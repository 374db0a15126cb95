//! Speaking to model providers.

pub mod script;
