//! One job's query loop: what it decides (`machine`, `limits`) and the shell that carries it out (`actor`).

pub mod actor;
pub mod limits;
pub mod machine;
mod ruling;
