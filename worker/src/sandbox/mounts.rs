//! The files as a command sees them: `.git` and its like read-only, what is denied out of sight, `/proc` of its own.
//!
//! Landlock opens whole trees and cannot close a branch of one. A mount can.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::Confine;
use super::abi::set_read_only;

const NOTHING: Option<&str> = None;

/// For the init of new namespaces, before it gives up its privileges. What is merely missing is said; what could not be
/// closed is an error.
pub(super) fn arrange(confine: &Confine, missing: &mut Vec<String>) -> io::Result<()> {
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .map_err(said("keeping mounts private"))?;
    only_writable(&confine.write, missing)?;
    for path in &confine.pin {
        pin(path)?;
    }
    for path in &confine.protect {
        read_only(path)?;
    }
    for path in &confine.hide {
        hide(path)?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if let Err(error) = mount(Some("proc"), "/proc", Some("proc"), flags, NOTHING) {
        // A container that hides parts of its /proc forbids a whole one. Landlock keeps the old one closed then.
        missing.push(format!("a /proc of its own: {error}"));
    }
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), shared, Some("tmpfs"), flags, Some("size=64m,mode=1777"))
            .map_err(said("mounting /dev/shm"))?;
    }
    Ok(())
}

/// Landlock knows no right to change a mode, an owner, a time: outside of what may be written, a mount must refuse them.
fn only_writable(roots: &[PathBuf], missing: &mut Vec<String>) -> io::Result<()> {
    let roots: Vec<&PathBuf> = roots.iter().filter(|root| root.exists()).collect();
    for root in &roots {
        let shown = root.display().to_string();
        mount(Some(*root), *root, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING).map_err(said(&shown))?;
    }
    match set_read_only(Path::new("/"), true, true) {
        Ok(()) => {}
        // Linux before 5.12 has no such call.
        Err(error) if error.raw_os_error() == Some(nix::libc::ENOSYS) => {
            missing.push(format!("modes and times of files outside of the workdir can be changed: {error}"));
            return Ok(());
        }
        Err(error) => return Err(io::Error::other(format!("making all else read-only: {error}"))),
    }
    for root in roots {
        set_read_only(root, false, false)
            .map_err(|error| io::Error::other(format!("making {} writable: {error}", root.display())))?;
    }
    Ok(())
}

/// What is a mount cannot be moved: else a folder of the same name could take the place of one with something hidden in it.
fn pin(path: &Path) -> io::Result<()> {
    if !there(path)? {
        return Ok(());
    }
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(path), path, NOTHING, flags, NOTHING).map_err(said(&path.display().to_string()))
}

fn read_only(path: &Path) -> io::Result<()> {
    let shown = path.display().to_string();
    if !there(path)? {
        return Ok(());
    }
    mount(Some(path), path, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING).map_err(said(&shown))?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept_flags(path)?;
    mount(NOTHING, path, NOTHING, flags, NOTHING).map_err(said(&shown))
}

/// A file looks empty, a folder too, and neither can be changed.
fn hide(path: &Path) -> io::Result<()> {
    let shown = path.display().to_string();
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if kind.is_dir() {
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        return mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("size=4k,mode=555")).map_err(said(&shown));
    }
    if kind.is_symlink() || kind.is_fifo() || kind.is_socket() {
        // Where a link leads is closed by itself, and the others hold nothing.
        return Ok(());
    }
    mount(Some("/dev/null"), path, NOTHING, MsFlags::MS_BIND, NOTHING).map_err(said(&shown))
}

/// Flags that a mount has from outside are locked: a remount that leaves one out is refused.
fn kept_flags(path: &Path) -> io::Result<MsFlags> {
    let found = statvfs(path)?.flags();
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(has, _)| found.contains(*has)).fold(MsFlags::empty(), |all, (_, flag)| all | flag))
}

fn there(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(!found.file_type().is_symlink()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn said(what: &str) -> impl Fn(nix::Error) -> io::Error {
    move |error| io::Error::other(format!("{what}: {error}"))
}
