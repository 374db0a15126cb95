//! The sink that is always there: lines of the log.

use crate::alert::{Alert, What};

pub fn tell(Alert { what: alert, .. }: &Alert) {
    if alert.is_urgent() {
        tracing::error!(target: "ukai::alert", "{alert}");
    } else if let What::BatchDone { other: 0, .. } = alert {
        tracing::info!(target: "ukai::alert", "{alert}");
    } else {
        tracing::warn!(target: "ukai::alert", "{alert}");
    }
}

pub fn tell_lost(count: u64) {
    tracing::error!(target: "ukai::alert", "{count} alerts found no room and were lost; `ukai ls` shows what they were about");
}
