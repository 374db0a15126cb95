//! One at a time in each repository. Git has locks of its own, and gives up where one is held; twenty jobs of one batch start at
//! one instant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::git::Patience;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The repositories in which something is done now, by their common folders.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<BTreeSet<PathBuf>>>);

#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    common: PathBuf,
}

impl Turns {
    /// Blocks until nobody else is at it.
    pub fn take(&self, common: &Path, patience: &Patience<'_>) -> Result<Turn<'_>, String> {
        loop {
            if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(common.to_owned()) {
                return Ok(Turn { turns: self, common: common.to_owned() });
            }
            patience.wait(LOOK_EVERY).map_err(|why| format!("waiting for its turn in {}: {why}", common.display()))?;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.common);
    }
}
