//! A command that goes on while the model does: a thread listens to it, so that it never waits for a reader.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::output::clean;
use crate::host::words::Exit;
use crate::host::{Look, Running};

/// What is kept between two looks at it; of more the end.
const KEPT_BYTES_MAX: usize = 256 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// Until the next look at whether anything is wanted; output and ends wake it at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// After KILL a tree is gone within a few rounds.
const END_PATIENCE: Duration = Duration::from_secs(5);

pub struct Background {
    running: Running,
    /// Where a look leaves what is too long to show.
    pub outputs: PathBuf,
    grace: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    kept: VecDeque<u8>,
    lost: u64,
    over: Option<Over>,
    is_told: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    Exited(Exit),
    Killed,
    Lost(String),
}

/// What a look brings.
pub struct News {
    pub text: String,
    /// Bytes that came since the last look and are not in the text.
    pub lost: u64,
    /// None: it runs.
    pub over: Option<Over>,
}

impl Background {
    pub(super) fn listen(running: Running, outputs: &Path, grace: Duration) -> io::Result<Arc<Self>> {
        let shell = Arc::new(Background {
            running,
            outputs: outputs.to_owned(),
            grace,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let listener = shell.clone();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            let over = listener.hear_out();
            listener.state().over.get_or_insert(over);
            listener.changed.notify_all();
        })?;
        Ok(shell)
    }

    fn hear_out(&self) -> Over {
        let mut buffer = vec![0; READ_BYTES];
        let mut open = true;
        loop {
            match self.running.look(open, PATIENCE) {
                Ok(Look::Output) => open = self.read(&mut buffer),
                Ok(Look::Exited(exit)) => {
                    // What it had said is there; what others say on its pipe is not of it.
                    self.read(&mut buffer);
                    return Over::Exited(exit);
                }
                Ok(Look::Ended) => return Over::Killed,
                Ok(Look::Refused(why)) => return Over::Lost(why),
                Ok(Look::Lost) => return Over::Lost("the tool host is gone".to_owned()),
                Ok(Look::Nothing) => {}
                Err(error) => return Over::Lost(error.to_string()),
            }
        }
    }

    /// False: there will be no more.
    fn read(&self, buffer: &mut [u8]) -> bool {
        match rustix::io::read(&self.running.output, &mut *buffer) {
            Ok(0) => false,
            Ok(count) => {
                let mut state = self.state();
                state.kept.extend(&buffer[..count]);
                let surplus = state.kept.len().saturating_sub(KEPT_BYTES_MAX);
                state.kept.drain(..surplus);
                state.lost += surplus as u64;
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// What it said since the last look.
    pub fn news(&self) -> News {
        let mut state = self.state();
        let kept: Vec<u8> = state.kept.drain(..).collect();
        let lost = std::mem::take(&mut state.lost);
        state.is_told = state.over.is_some();
        News { text: clean(&kept), lost, over: state.over.clone() }
    }

    /// Ends it and all that came from it; returns how it stands then.
    pub fn kill(&self) -> Result<Option<Over>, String> {
        let mut state = self.state();
        if state.over.is_none() {
            self.running.kill(self.grace).map_err(|error| format!("it could not be ended: {error}"))?;
        }
        let runs = |state: &mut State| state.over.is_none();
        let waited = self.changed.wait_timeout_while(state, self.grace + END_PATIENCE, runs);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_told = true;
        Ok(state.over.clone())
    }

    pub(super) fn is_over_and_told(&self) -> bool {
        let state = self.state();
        state.over.is_some() && state.is_told
    }

    /// Nothing panics while it is held.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
