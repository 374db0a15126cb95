//! Where a path that a model named really leads: the one question of permission that must look at the disk.
//!
//! The path is followed by hand, link by link, because `canonicalize` says nothing about a link that dangles, and such
//! a link may lead out of the roots as well as any other. What comes out is only judged here. The file itself is opened
//! beneath a root without following any link (`tool/roots`), so a swap after this look cannot lead anywhere else.

#![allow(clippy::disallowed_methods, reason = "this file is the IO of permission")]

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As the kernel does: more links than this are a loop.
const LINKS_MAX: u32 = 40;

/// A path as named and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, `.` and `..` taken out of the text.
    pub lexical: PathBuf,
    /// With every link followed; what does not exist is kept as named.
    pub real: PathBuf,
    pub is_dir: bool,
}

/// Follows `path` (relative to `workdir`; `~/` is the home folder) to what it names.
pub fn resolve(path: &Path, workdir: &Path, home: &Path) -> io::Result<Resolved> {
    let absolute = absolute(path, workdir, home);
    let real = real_path(&absolute)?;
    let is_dir = std::fs::symlink_metadata(&real).is_ok_and(|meta| meta.is_dir());
    Ok(Resolved { lexical: normalize(&absolute), real, is_dir })
}

/// The same, as text alone.
#[must_use]
pub fn absolute(path: &Path, workdir: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => workdir.join(path),
    }
}

/// Takes `.` and `..` out of the text alone.
#[must_use]
pub fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// Follows every link. Parts that do not exist are kept; a folder that may not be looked into is an error.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut links = 0;
    let mut todo: Vec<OsString> = parts(path);
    let mut real = PathBuf::from("/");
    while let Some(part) = todo.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::other("too many links: they lead in a circle"));
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                todo.extend(parts(&target));
            }
            // EINVAL: it is no link. What is not there, or lies below a file, leads nowhere else.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                real = next;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(real)
}

/// The parts still to go, the next one last.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<OsString> = named.collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_dangling_ones_too() {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        std::fs::create_dir_all(top.join("a/b")).expect("folders");
        std::fs::write(top.join("a/f"), "x").expect("a file");
        symlink("a/f", top.join("to_f")).expect("a link");
        symlink("/nowhere/x", top.join("dangling")).expect("a link");
        symlink("../..", top.join("a/b/up")).expect("a link");
        symlink("circle", top.join("circle")).expect("a link");
        for (path, real) in [
            ("to_f", Some(top.join("a/f"))),
            ("dangling", Some("/nowhere/x".into())),
            ("a/b/up/to_f", Some(top.join("a/f"))),
            ("a/b/up/../x", Some(top.parent().expect("a parent").join("x"))),
            ("a/none/../f", Some(top.join("a/f"))),
            ("circle", None),
            ("circle/x", None),
        ] {
            let resolved = resolve(Path::new(path), &top, Path::new("/h"));
            assert_eq!(resolved.ok().map(|resolved| resolved.real), real, "{path}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        let resolved = resolve(Path::new("~/.ssh/id"), Path::new("/w"), Path::new("/nohome")).expect("resolved");
        assert_eq!(resolved.lexical, Path::new("/nohome/.ssh/id"));
        assert_eq!(normalize(Path::new("/a/./b/../../../c")), Path::new("/c"));
    }
}
