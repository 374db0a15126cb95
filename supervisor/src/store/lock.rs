//! One supervisor per state directory: a `flock` that dies with its holder, whatever kills it.
//!
//! The pid in the file is for the message only. A lock made of the pid itself would be stale after a crash, and a pid
//! may belong to someone else by then.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use ukai_protocol::command::quoted;
use ukai_protocol::disk;

use super::paths::StateDir;

/// More digits than any pid.
const PID_BYTES_MAX: u64 = 20;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "the state directory {} is in use by {holder}; \
         let it do the work ({}), stop it, or name another folder with --state-dir",
        state.display(), quoted(&["submit"])
    )]
    InUse { state: PathBuf, holder: Holder },
    #[error("locking {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// Who has the lock: his pid, unless he has taken it just now and not written it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(pub Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "pid {pid}"),
            None => f.write_str("another ukai that is just starting"),
        }
    }
}

/// The right to write to a state directory, until dropped. Not inherited by any process that is started.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl Lock {
    pub fn take(state: &StateDir) -> Result<Self, LockError> {
        let path = state.lock();
        let io = |error: io::Error| LockError::Io { path: path.clone(), error };
        if let Some(folder) = path.parent() {
            disk::create_dir(folder).map_err(io)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(io)?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((file, Errno::EWOULDBLOCK)) => {
                return Err(LockError::InUse { state: state.root().to_owned(), holder: holder(file) });
            }
            Err((_, errno)) => return Err(io(errno.into())),
        };
        write_pid(&mut file).map_err(io)?;
        Ok(Lock { _file: file })
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(std::process::id().to_string().as_bytes())
}

/// It may be between taking the lock and writing its pid.
fn holder(file: File) -> Holder {
    let mut pid = String::new();
    let read = file.take(PID_BYTES_MAX).read_to_string(&mut pid);
    Holder(read.ok().and_then(|_| pid.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_by_name_and_may_follow_when_the_first_is_gone() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path().join("not/yet/there"));
        let first = Lock::take(&state).expect("free");
        let refused = Lock::take(&state).expect_err("taken").to_string();
        let named = format!("{} is in use by pid {}", state.root().display(), std::process::id());
        assert!(refused.contains(&named), "{refused}");
        drop(first);
        Lock::take(&state).expect("free again");
    }

    #[test]
    fn one_that_has_not_said_who_it_is_is_just_starting() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        let _first = Lock::take(&state).expect("free");
        std::fs::write(state.lock(), "").expect("its pid is not written yet");
        let refused = Lock::take(&state).expect_err("taken").to_string();
        assert!(refused.contains("is in use by another ukai that is just starting; let it"), "{refused}");
    }

    #[test]
    fn a_lock_file_left_by_a_dead_process_stands_in_nobodys_way() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        state.create().expect("folders");
        std::fs::write(state.lock(), "4194304999").expect("stale");
        let _lock = Lock::take(&state).expect("free");
        assert_eq!(std::fs::read_to_string(state.lock()).expect("pid"), std::process::id().to_string());
    }

    #[test]
    fn no_child_inherits_it() {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        let temp = tempfile::tempdir().expect("temp");
        let lock = Lock::take(&StateDir::new(temp.path())).expect("free");
        let flags = fcntl(&*lock._file, FcntlArg::F_GETFD).expect("flags");
        assert!(FdFlag::from_bits_truncate(flags).contains(FdFlag::FD_CLOEXEC));
    }
}
