//! The folder for temporary files of a job's commands, when the job has ended.
//!
//! A worker takes it away before it tells the end. One that was killed did not: then whoever notes the end does, and where
//! nobody was left to do so, the next start.

use std::io;

use ukai_protocol::disk;
use ukai_protocol::id::JobId;

use crate::store::StateDir;

/// Removes it, if it is there. Blocks.
pub fn remove(state: &StateDir, job: &JobId) {
    let temp = state.run(job).temp();
    match disk::remove_dir_all(&temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%job, temp = %temp.display(), %error, "what a job's commands left could not be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_is_left_goes_however_it_is_closed() {
        let temp = tempfile::tempdir().expect("a folder");
        let state = StateDir::new(temp.path());
        let [left, none]: [JobId; 2] = ["j-aaaaaaaa", "j-bbbbbbbb"].map(|id| id.parse().expect("an id"));
        fs::create_dir_all(state.run(&left).temp().join("sub")).expect("folders");
        // As build tools leave their caches; and nothing that a link leads to is touched.
        let kept = temp.path().join("kept");
        fs::write(&kept, "").expect("a file");
        let sub = state.run(&left).temp().join("sub");
        symlink(&kept, sub.join("link")).expect("a link");
        fs::write(sub.join("file"), "").expect("a file");
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o500)).expect("its mode");
        [&left, &none].into_iter().for_each(|job| remove(&state, job));
        assert!(!state.run(&left).temp().exists() && kept.exists());
    }
}
