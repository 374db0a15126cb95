//! Which providers take tools, as found out by first use and by probes, kept on disk.

use std::io;

use jiff::Timestamp;

use super::{Msg, State};
use crate::store::StateDir;
use crate::store::capabilities::{self, Capabilities};

/// One writer at a time, so that an older table never replaces a newer one.
pub struct Known {
    table: Capabilities,
    changed: bool,
    saving: bool,
}

impl Known {
    #[must_use]
    pub fn new(table: Capabilities) -> Self {
        Known { table, changed: false, saving: false }
    }
}

impl State {
    pub(super) fn recall_capabilities(&mut self) {
        let known: Vec<_> = self.capabilities.table.rows().cloned().collect();
        for row in known {
            self.router.know_tools(&row.provider_id, Some(row.supports_tool_calling));
        }
    }

    pub(super) fn forget_capability(&mut self, provider: &str) {
        self.router.know_tools(provider, None);
        self.capabilities.changed |= self.capabilities.table.forget(provider);
    }

    pub(super) fn know_capability(&mut self, provider: &str, tools: bool) {
        self.router.know_tools(provider, Some(tools));
        self.capabilities.table.set(provider, tools, Timestamp::now().to_string());
        // Also where nothing is new: when it was verified last.
        self.capabilities.changed = true;
    }

    pub(super) fn save_capabilities(&mut self) {
        while let Some(learnt) = self.router.poll_learnt() {
            tracing::info!(provider = learnt.provider, tools = learnt.tools, "what a provider takes");
            let at = Timestamp::now().to_string();
            self.capabilities.changed |= self.capabilities.table.set(&learnt.provider, learnt.tools, at);
        }
        if self.capabilities.saving || !std::mem::take(&mut self.capabilities.changed) {
            return;
        }
        self.capabilities.saving = true;
        let (state, table) = (StateDir::new(&self.pool.settings.state_dir), self.capabilities.table.clone());
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let saved = tokio::task::spawn_blocking(move || capabilities::save(&state, &table)).await;
            let result = saved.unwrap_or_else(|error| Err(io::Error::other(error)));
            // Without its supervisor the answer is for nobody.
            let _ = myself.cast(Msg::CapabilitiesSaved(result));
        });
    }

    pub(super) fn is_saving_capabilities(&self) -> bool {
        self.capabilities.saving
    }

    pub(super) fn capabilities_saved(&mut self, result: io::Result<()>) {
        self.capabilities.saving = false;
        if let Err(error) = result {
            // It is found out again.
            tracing::warn!(%error, "which providers take tools could not be written to capabilities.json");
        }
    }
}
