//! Tools that an owner declares in a file (spec §7): read once by the supervisor, carried out by the worker.

#![deny(clippy::disallowed_methods)]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The names of ukai's own tools, those of later versions too: nobody declares one of them.
pub const OWN: [&str; 10] =
    ["Agent", "Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "Note", "Read", "Write"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// `^[a-z0-9_]{1,48}$`.
    pub name: String,
    pub description: String,
    pub run: Run,
    pub timeout_ms: u64,
    /// JSON Schema of its arguments, an object.
    pub schema: Json,
    pub flags: DeclaredFlags,
    /// The file that declares it.
    pub file: PathBuf,
}

/// How it is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// A program with its arguments, confined like any command; the call's arguments are JSON on its stdin.
    Command(Vec<String>),
    /// A POST to a loopback address.
    Http(String),
}

/// What its owner vouches for; nothing is taken for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFlags {
    pub read_only: bool,
    pub concurrency_safe: bool,
    pub idempotent: bool,
    pub destructive: bool,
    /// True unless it is declared otherwise.
    pub cancels_siblings: bool,
}

impl Default for DeclaredFlags {
    fn default() -> Self {
        DeclaredFlags {
            read_only: false,
            concurrency_safe: false,
            idempotent: false,
            destructive: false,
            cancels_siblings: true,
        }
    }
}

/// What of JSON Schema a tool's arguments are held to. A file that uses another word is refused, since nobody would see to it.
pub const SCHEMA_CHECKED: [&str; 19] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
];
/// What the model is told and nothing is held to.
pub const SCHEMA_TOLD: [&str; 7] = ["title", "description", "default", "examples", "format", "pattern", "$schema"];
