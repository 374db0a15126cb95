//! The shape of `ukai.toml` (spec §14): which keys there are, and nothing of what they mean.

#![deny(clippy::disallowed_methods)]

use serde::Deserialize;
use toml::{Spanned, Value};

use super::duration::Millis;
use super::limits::{LimitSet, Usd};
use crate::hooks_file::Table;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub max_workers: Option<Spanned<u32>>,
    pub when_all_open: Option<Spanned<String>>,
    #[serde(default)]
    pub provider: Vec<Spanned<ProviderTable>>,
    #[serde(default)]
    pub limits: LimitSet,
    #[serde(default)]
    pub tools: ToolsTable,
    pub supervision: Option<Spanned<SupervisionTable>>,
    #[serde(default)]
    pub notify: NotifyTable,
    pub web: Option<Spanned<WebTable>>,
    #[serde(default)]
    pub hooks: Table,
    // Of later versions: named, so that the error can say so.
    pub mcp: Option<Spanned<Value>>,
    pub retention: Option<Spanned<Value>>,
    pub otlp: Option<Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderTable {
    pub id: Option<Spanned<String>>,
    pub wire: Option<Spanned<String>>,
    pub base_url: Option<Spanned<String>>,
    pub api_key_env: Option<Spanned<String>>,
    pub api_key_file: Option<Spanned<String>>,
    pub model: Option<Spanned<String>>,
    pub account: Option<Spanned<String>>,
    pub context_window: Option<Spanned<u64>>,
    pub max_output: Option<Spanned<u64>>,
    pub max_output_cap: Option<Spanned<u64>>,
    pub price_in: Option<Usd>,
    pub price_out: Option<Usd>,
    pub price_cached: Option<Usd>,
    pub connect_timeout: Option<Millis>,
    pub first_content_timeout: Option<Millis>,
    pub idle_timeout: Option<Millis>,
    pub requests_per_minute: Option<Spanned<u32>>,
    pub burst: Option<Spanned<u32>>,
    pub tokens_per_minute: Option<Spanned<u64>>,
    pub max_concurrency: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsTable {
    #[serde(default)]
    pub disable: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SupervisionTable {
    pub heartbeat: Option<Millis>,
    pub hang: Option<Millis>,
    pub term_grace: Option<Millis>,
    pub orphan_grace: Option<Millis>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotifyTable {
    pub desktop: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebTable {
    #[expect(dead_code, reason = "checked for its type; the page is served in a later version")]
    pub listen: Option<String>,
}
