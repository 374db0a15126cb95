//! Where everything lies: the state directory (spec §10) and the socket that belongs to it (spec §1).
//!
//! The socket is named by the state directory's hash, so that a client finds the one supervisor of a state directory
//! without a file that could be stale, and a second state directory has its own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::id::{BatchId, JobId};

/// `sun_path` holds 108 bytes with its closing NUL (unix(7)).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
const SOCKET_NAME_DIGITS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("finding the state directory: neither XDG_STATE_HOME nor HOME is an absolute path; set one of them")]
    NoHome,
    #[error("preparing {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("using {} for sockets: {why}; remove it, or set XDG_RUNTIME_DIR to a folder of your own", path.display())]
    NotOurs { path: PathBuf, why: &'static str },
    #[error(
        "the socket path {} is {} bytes long and the system allows {SOCKET_PATH_BYTES_MAX}; \
         set XDG_RUNTIME_DIR to a shorter path",
        .0.display(), .0.as_os_str().len()
    )]
    TooLong(PathBuf),
}

/// The layout of the state directory. Nothing is touched until [`StateDir::create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        StateDir { root: root.into() }
    }

    /// From the values of `XDG_STATE_HOME` and `HOME`. A relative path counts as unset (XDG base directories, 0.8).
    pub fn from_environment(xdg_state_home: Option<&OsStr>, home: Option<&OsStr>) -> Result<Self, PathError> {
        let absolute = |value: Option<&OsStr>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(xdg_state_home)
            .or_else(|| Some(absolute(home)?.join(".local/state")))
            .map(|state_home| StateDir::new(state_home.join("ukai")))
            .ok_or(PathError::NoHome)
    }

    /// Creates what is missing, each folder for its owner only.
    pub fn create(&self) -> Result<(), PathError> {
        for path in [self.runs(), self.batches(), self.quarantine(), self.supervisor()] {
            disk::create_dir(&path).map_err(|error| PathError::Io { path, error })?;
        }
        Ok(())
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    #[must_use]
    pub fn run(&self, id: &JobId) -> RunDir {
        RunDir { root: self.runs().join(id.as_str()) }
    }

    #[must_use]
    pub fn batches(&self) -> PathBuf {
        self.root.join("batches")
    }

    #[must_use]
    pub fn batch(&self, id: &BatchId) -> PathBuf {
        self.batches().join(format!("{id}.json"))
    }

    #[must_use]
    pub fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// There while the jobs are those of a demo.
    #[must_use]
    pub fn demo_mark(&self) -> PathBuf {
        self.root.join("demo")
    }

    /// What was put aside of one run.
    #[must_use]
    pub fn quarantine_of(&self, id: &JobId) -> PathBuf {
        self.quarantine().join(id.as_str())
    }

    /// Of jobs that have one, each with its record beside it.
    #[must_use]
    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    #[must_use]
    pub fn worktree(&self, id: &JobId) -> PathBuf {
        self.worktrees().join(id.as_str())
    }

    #[must_use]
    pub fn worktree_record(&self, id: &JobId) -> PathBuf {
        self.worktrees().join(format!("{id}.json"))
    }

    fn supervisor(&self) -> PathBuf {
        self.root.join("supervisor")
    }

    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.supervisor().join("lock")
    }

    /// Where the supervisor that was here last listens, for clients of another environment.
    #[must_use]
    pub fn socket_note(&self) -> PathBuf {
        self.supervisor().join("socket")
    }

    /// What is known of the provider accounts.
    #[must_use]
    pub fn routes(&self) -> PathBuf {
        self.supervisor().join("routes.json")
    }

    /// Where the first versions kept it.
    #[must_use]
    pub fn first_routes(&self) -> PathBuf {
        self.root.join("routes.json")
    }

    /// Which provider was seen to take tools.
    #[must_use]
    pub fn capabilities(&self) -> PathBuf {
        self.supervisor().join("capabilities.json")
    }

    /// What was seen, kept for whoever wants to look.
    #[must_use]
    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// Which folders a person has said yes to.
    #[must_use]
    pub fn trust(&self) -> PathBuf {
        self.supervisor().join("trust.json")
    }

    /// What each sink of alerts has told.
    #[must_use]
    pub fn cursors(&self) -> PathBuf {
        self.supervisor().join("cursors.json")
    }

    /// What belongs to no job.
    #[must_use]
    pub fn supervisor_events(&self) -> PathBuf {
        self.supervisor().join("events.jsonl")
    }
}

/// The files of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

impl RunDir {
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn spec(&self) -> PathBuf {
        self.root.join("job.json")
    }

    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("events.jsonl")
    }

    #[must_use]
    pub fn snapshot(&self) -> PathBuf {
        self.root.join("run_state.json")
    }

    #[must_use]
    pub fn outputs(&self) -> PathBuf {
        self.root.join("outputs")
    }

    /// What commands leave that nobody needs.
    #[must_use]
    pub fn temp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Space that is kept for the last record.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }
}

/// The socket of a state directory that exists. `runtime_dir` is the value of `XDG_RUNTIME_DIR`; one that names no
/// folder counts as unset. The socket's folder is created if need be, and must be its owner's alone.
pub fn socket_path(state: &StateDir, runtime_dir: Option<&OsStr>, uid: u32) -> Result<PathBuf, PathError> {
    let runtime_dir = runtime_dir.map(Path::new).filter(|path| path.is_absolute() && path.is_dir());
    let folder = runtime_dir.map_or_else(|| PathBuf::from(format!("/tmp/ukai-{uid}")), |path| path.join("ukai"));
    let root = state.root();
    let canonical = fs::canonicalize(root).map_err(|error| PathError::Io { path: root.to_owned(), error })?;
    let path = folder.join(socket_name(&canonical));
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(PathError::TooLong(path));
    }
    private_folder(&folder, uid)?;
    Ok(path)
}

fn socket_name(canonical: &Path) -> String {
    let mut name = blake3::hash(canonical.as_os_str().as_bytes()).to_hex().to_string();
    name.truncate(SOCKET_NAME_DIGITS);
    name
}

/// `/tmp` is everybody's: what stands there under our name may be another's, or a link to somewhere else.
fn private_folder(path: &Path, uid: u32) -> Result<(), PathError> {
    let io = |error| PathError::Io { path: path.to_owned(), error };
    let not_ours = |why| Err(PathError::NotOurs { path: path.to_owned(), why });
    // Looked at without following a link before anything is created: `create_dir` would accept a link to a folder.
    if let Err(error) = fs::symlink_metadata(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(io(error));
        }
        disk::create_dir(path).map_err(io)?;
    }
    let found = fs::symlink_metadata(path).map_err(io)?;
    if !found.is_dir() {
        return not_ours("it is a link or a file, not a folder");
    }
    if found.uid() != uid {
        return not_ours("it belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return not_ours("others may enter it (its mode must be 0700)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn uid() -> u32 {
        nix::unistd::Uid::effective().as_raw()
    }

    #[test]
    fn the_state_directory_follows_the_environment() {
        let cases = [
            (Some("/s"), Some("/h"), Some("/s/ukai")),
            (None, Some("/h"), Some("/h/.local/state/ukai")),
            (Some(""), Some("/h"), Some("/h/.local/state/ukai")),
            (Some("relative"), Some("/h"), Some("/h/.local/state/ukai")),
            (None, None, None),
            (None, Some("relative"), None),
        ];
        for (state, home, expected) in cases {
            let found = StateDir::from_environment(state.map(OsStr::new), home.map(OsStr::new)).ok();
            assert_eq!(found.as_ref().map(StateDir::root), expected.map(Path::new), "{state:?} {home:?}");
        }
    }

    #[test]
    fn a_socket_has_sixteen_digits_the_same_for_every_road_to_the_directory() {
        let temp = tempfile::tempdir().expect("temp");
        let (state, runtime) = (temp.path().join("state"), temp.path().join("run"));
        fs::create_dir(&state).expect("state");
        fs::create_dir(&runtime).expect("run");
        symlink(&state, temp.path().join("link")).expect("link");
        let path = |root: &str| {
            socket_path(&StateDir::new(temp.path().join(root)), Some(runtime.as_os_str()), uid()).expect("a socket")
        };
        assert_eq!(path("state"), path("link"));
        let name = path("state").file_name().expect("name").to_string_lossy().into_owned();
        assert!(name.len() == 16 && name.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        assert_eq!(fs::metadata(runtime.join("ukai")).expect("folder").mode() & 0o777, 0o700);
        assert_eq!(socket_name(Path::new("/golden")), "be9bf274fb767866");
    }

    #[test]
    fn a_runtime_directory_that_is_no_folder_counts_as_unset() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        for runtime in [None, Some(""), Some("relative"), Some("/does/not/exist")] {
            let path = socket_path(&state, runtime.map(OsStr::new), uid()).expect("a socket");
            assert_eq!(path.parent(), Some(Path::new(&format!("/tmp/ukai-{}", uid()))), "{runtime:?}");
        }
    }

    #[test]
    fn a_path_of_108_bytes_is_refused_and_one_of_107_is_not() {
        let temp = tempfile::tempdir().expect("temp");
        let state = StateDir::new(temp.path());
        let around = temp.path().as_os_str().len() + "/".len() + "/ukai/".len() + SOCKET_NAME_DIGITS;
        for (length, fits) in [(SOCKET_PATH_BYTES_MAX, true), (SOCKET_PATH_BYTES_MAX + 1, false)] {
            let runtime = temp.path().join("r".repeat(length - around));
            fs::create_dir(&runtime).expect("run");
            let found = socket_path(&state, Some(runtime.as_os_str()), uid());
            match found {
                Ok(path) => assert!(fits && path.as_os_str().len() == length),
                Err(error) => assert!(!fits && error.to_string().contains("XDG_RUNTIME_DIR"), "{error}"),
            }
        }
    }

    #[test]
    fn a_folder_that_is_not_ours_alone_is_refused() {
        let check = |why: &str, uid: u32, prepare: &dyn Fn(&Path)| {
            let temp = tempfile::tempdir().expect("temp");
            prepare(temp.path());
            let found = socket_path(&StateDir::new(temp.path()), Some(temp.path().as_os_str()), uid);
            assert!(found.as_ref().is_err_and(|error| error.to_string().contains(why)), "{why}: {found:?}");
        };
        check("a link", uid(), &|runtime| {
            fs::create_dir(runtime.join("elsewhere")).expect("folder");
            symlink(runtime.join("elsewhere"), runtime.join("ukai")).expect("link");
        });
        check("a link", uid(), &|runtime| symlink("dangling", runtime.join("ukai")).expect("link"));
        check("a file", uid(), &|runtime| fs::write(runtime.join("ukai"), "").expect("file"));
        check("another user", uid() + 1, &|_| {});
        check("others may enter", uid(), &|runtime| {
            fs::create_dir(runtime.join("ukai")).expect("folder");
            fs::set_permissions(runtime.join("ukai"), fs::Permissions::from_mode(0o750)).expect("mode");
        });
    }
}
