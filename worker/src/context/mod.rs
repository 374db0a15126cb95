//! What the model gets to see.

pub mod tokens;
