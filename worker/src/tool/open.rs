//! The only door to a file or folder that a model named: opened at the very path that was judged, or not at all.
//!
//! The path that is judged has every link followed already. It is opened from the top without following any link
//! (`openat2`, `RESOLVE_NO_SYMLINKS`), so what is opened lies at that path: a link put in its place after the look
//! is an error and leads nowhere. What is no regular file is never opened for reading, since that alone can block
//! (a FIFO) or act (a device).

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, open, openat, openat2};
use rustix::io::Errno;

/// The largest file that is looked into. Reading is by stream, so the bound is on time and not on memory: at half a
/// gigabyte a second a tool is done with such a file well within a call's patience.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How often the kernel is asked again when it says that the tree moved under its feet.
const MOVED_TRIES_MAX: u32 = 3;

/// Filesystems that the kernel makes up: reading them has effects, shows other processes, or never ends.
const MADE_UP: [u32; 10] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x27_e0eb,   // cgroup
    0x6367_7270, // cgroup2
    0xcafe_4a11, // bpf
    0x1cd1,      // devpts
    0xf97c_ff8c, // selinux
];

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("it does not exist")]
    Missing,
    #[error("it changed while it was opened (a link is in its way now); try again")]
    Moved,
    #[error("it is {0}, not a regular file")]
    NotAFile(&'static str),
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it is part of a filesystem that the kernel makes up")]
    MadeUp,
    #[error("it has {bytes} bytes, more than the {FILE_BYTES_MAX} that are looked into")]
    TooLarge { bytes: u64 },
    #[error("{0}")]
    Io(std::io::Error),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => OpenError::Missing,
            Errno::LOOP | Errno::XDEV | Errno::AGAIN => OpenError::Moved,
            errno => OpenError::Io(errno.into()),
        }
    }
}

/// Opens a regular file at an absolute path without links. Returns its size too.
pub fn open_file(real: &Path) -> Result<(File, u64), OpenError> {
    let look = open_real(real, OFlags::PATH | OFlags::NOFOLLOW)?;
    check_file(&look)?;
    drop(look);
    // NONBLOCK: should it have become a FIFO since, opening it still returns.
    let file = open_real(real, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY)?;
    let size = check_file(&file)?;
    Ok((File::from(file), size))
}

/// Opens a regular file by its name in a folder that is open. Returns its size too.
pub fn open_file_in(folder: impl AsFd, name: &OsStr) -> Result<(File, u64), OpenError> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let look = openat(&folder, name, flags | OFlags::PATH, Mode::empty())?;
    check_file(&look)?;
    drop(look);
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(&folder, name, flags, Mode::empty())?;
    let size = check_file(&file)?;
    Ok((File::from(file), size))
}

/// Opens a folder at an absolute path without links.
pub fn open_folder(real: &Path) -> Result<OwnedFd, OpenError> {
    let folder = match open_real(real, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK) {
        Ok(folder) => folder,
        Err(OpenError::Missing) if open_real(real, OFlags::PATH | OFlags::NOFOLLOW).is_ok() => {
            return Err(OpenError::NotAFolder);
        }
        Err(error) => return Err(error),
    };
    if is_made_up(&folder)? { Err(OpenError::MadeUp) } else { Ok(folder) }
}

fn check_file(file: &OwnedFd) -> Result<u64, OpenError> {
    let stat = fstat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(OpenError::NotAFile("a folder")),
        FileType::Fifo => return Err(OpenError::NotAFile("a FIFO")),
        FileType::Socket => return Err(OpenError::NotAFile("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => return Err(OpenError::NotAFile("a device")),
        FileType::Symlink => return Err(OpenError::Moved),
        FileType::Unknown => return Err(OpenError::NotAFile("of an unknown kind")),
    }
    if is_made_up(file)? {
        return Err(OpenError::MadeUp);
    }
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if bytes > FILE_BYTES_MAX { Err(OpenError::TooLarge { bytes }) } else { Ok(bytes) }
}

fn is_made_up(file: &OwnedFd) -> Result<bool, OpenError> {
    // The type is a signed or unsigned word by architecture; only its low 32 bits name the filesystem.
    let kind = fstatfs(file)?.f_type & 0xffff_ffff;
    Ok(MADE_UP.iter().any(|made_up| i64::from(*made_up) == kind))
}

fn open_real(real: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MOVED_TRIES_MAX {
        match openat2(CWD, real, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a container that forbids the call because it does not know it.
            Err(Errno::NOSYS | Errno::PERM) => return open_step_by_step(real, flags),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(OpenError::Moved)
}

/// The same by hand: one folder after the other, none of them by a link.
fn open_step_by_step(real: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = open("/", folder, Mode::empty())?;
    let mut names: Vec<&OsStr> = Vec::new();
    for part in real.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::RootDir => {}
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => return Err(OpenError::Moved),
        }
    }
    let last = names.pop().unwrap_or(OsStr::new("."));
    for name in names {
        at = openat(&at, name, folder, Mode::empty())?;
    }
    Ok(openat(&at, last, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_open() {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        std::fs::write(top.join("file"), "text").expect("a file");
        symlink(top.join("file"), top.join("link")).expect("a link");
        symlink(&top, top.join("folder_link")).expect("a link");
        nix::unistd::mkfifo(&top.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        let _socket = UnixListener::bind(top.join("socket")).expect("a socket");
        let giant = File::create(top.join("giant")).expect("a file");
        giant.set_len(10_000_000_000).expect("a sparse file");
        for (path, why) in [
            (top.join("file"), None),
            (top.join("none"), Some("does not exist")),
            (top.join("file/x"), Some("does not exist")),
            (top.join("link"), Some("a link is in its way")),
            (top.join("folder_link/file"), Some("a link is in its way")),
            (top.join("fifo"), Some("a FIFO")),
            (top.join("socket"), Some("a socket")),
            (top.clone(), Some("a folder")),
            (top.join("giant"), Some("10000000000 bytes")),
            ("/dev/null".into(), Some("a device")),
            ("/proc/version".into(), Some("the kernel makes up")),
        ] {
            match (open_file(&path), why) {
                (Ok((mut file, size)), None) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).expect("text");
                    assert_eq!((text.as_str(), size), ("text", 4));
                }
                (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{}: {error}", path.display()),
                (found, _) => panic!("{}: {found:?}", path.display()),
            }
        }
        assert!(open_folder(&top).is_ok());
        assert!(matches!(open_folder(&top.join("file")), Err(OpenError::NotAFolder)));
        assert!(matches!(open_folder(&top.join("none")), Err(OpenError::Missing)));
        assert!(open_folder(&top.join("folder_link")).is_err());
    }

    #[test]
    fn without_openat2_no_link_is_followed_either() {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        std::fs::create_dir(top.join("d")).expect("a folder");
        std::fs::write(top.join("d/file"), "text").expect("a file");
        symlink("d", top.join("l")).expect("a link");
        symlink("file", top.join("d/l")).expect("a link");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        assert!(open_step_by_step(&top.join("d/file"), flags).is_ok());
        assert!(open_step_by_step(&top.join("l/file"), flags).is_err());
        assert!(open_step_by_step(&top.join("d/l"), flags).is_err());
        assert!(open_step_by_step(Path::new("/"), flags).is_ok());
    }
}
