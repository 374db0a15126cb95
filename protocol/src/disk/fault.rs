//! Errors on demand for tests of any crate: "the third sync below this folder fails with EIO".
//!
//! A plan is keyed by folder, not by thread: the store syncs on threads that no test owns, and tests of one process run
//! side by side. Nothing is armed unless a test calls [`inject`]; until then each operation pays one relaxed load.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More faults at once than any test plans.
const FAULTS_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    /// Half of the bytes arrive before the error, as on a disk that fills up.
    Write,
    Sync,
    /// [`super::write_atomic`], before anything is written.
    Replace,
}

#[derive(Clone)]
pub enum Effect {
    /// The operation fails with this errno.
    Fail(i32),
    /// This runs first, on the thread of the operation, which then goes on.
    Call(Arc<dyn Fn() + Send + Sync>),
}

/// What goes wrong, and where.
#[derive(Clone)]
pub struct Fault {
    /// Operations on files below this folder.
    pub under: PathBuf,
    pub operation: Operation,
    /// So many pass first.
    pub skip: u32,
    /// So many are hit then.
    pub times: u32,
    pub effect: Effect,
}

/// The fault stands until this is dropped.
#[must_use]
pub struct Injected(u64);

static ARMED: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(0);
static PLAN: Mutex<Vec<(u64, Fault)>> = Mutex::new(Vec::new());

pub fn inject(fault: Fault) -> Injected {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut plan = plan();
    assert!(plan.len() < FAULTS_MAX, "{FAULTS_MAX} faults are planned already");
    plan.push((number, fault));
    ARMED.store(true, Ordering::Relaxed);
    Injected(number)
}

impl Drop for Injected {
    fn drop(&mut self) {
        let mut plan = plan();
        plan.retain(|(number, _)| *number != self.0);
        ARMED.store(!plan.is_empty(), Ordering::Relaxed);
    }
}

pub(super) fn at_path(operation: Operation, path: &Path) -> io::Result<()> {
    if ARMED.load(Ordering::Relaxed) { strike(operation, path) } else { Ok(()) }
}

pub(super) fn at_file(operation: Operation, file: &File) -> io::Result<()> {
    if ARMED.load(Ordering::Relaxed) {
        strike(operation, &std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?)
    } else {
        Ok(())
    }
}

/// A poisoned plan is as good as any: it is replaced item by item, never left half-changed.
fn plan() -> MutexGuard<'static, Vec<(u64, Fault)>> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn strike(operation: Operation, path: &Path) -> io::Result<()> {
    let effect = plan().iter_mut().find_map(|(_, fault)| {
        if fault.operation != operation || fault.times == 0 || !path.starts_with(&fault.under) {
            return None;
        }
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times -= 1;
        Some(fault.effect.clone())
    });
    match effect {
        None => Ok(()),
        Some(Effect::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
        Some(Effect::Call(call)) => {
            call();
            Ok(())
        }
    }
}
