//! Whether a folder lies in a git repository, where that begins, and which of git's settings change what is searched.
//!
//! By hand instead of by the `git` program: a worker starts no process for a read, and the repository may be hostile.
//! Known and left out: `include` in git's configuration, `core.worktree`, `GIT_DIR` in the environment.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The largest file of git's own that is read. Ignore files are kilobytes; this is far above any.
pub const GIT_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A repository with a work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub top: PathBuf,
    /// What all work trees share: `info/`, `config`.
    pub common: PathBuf,
}

/// What of git's configuration matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub excludes_file: Option<PathBuf>,
    pub attributes_file: Option<PathBuf>,
    pub ignore_case: bool,
}

impl Repo {
    /// The repository that a folder lies in. Like git, it does not look beyond the filesystem that the folder is on.
    #[must_use]
    pub fn discover(folder: &Path) -> Option<Self> {
        let device = std::fs::symlink_metadata(folder).ok()?.dev();
        for top in folder.ancestors() {
            if std::fs::symlink_metadata(top).ok()?.dev() != device {
                return None;
            }
            if let Some(common) = common_dir_of(top) {
                return Some(Repo { top: top.to_owned(), common });
            }
        }
        None
    }

    /// Reads git's configuration, the widest file first: the last word counts.
    #[must_use]
    pub fn settings(&self, home: &Path) -> Settings {
        let user = users_folder(home);
        let mut settings = Settings {
            excludes_file: Some(user.join("ignore")),
            attributes_file: Some(user.join("attributes")),
            ignore_case: false,
        };
        let files =
            [PathBuf::from("/etc/gitconfig"), user.join("config"), home.join(".gitconfig"), self.common.join("config")];
        for file in files {
            if let Some(bytes) = read_small(&file, true) {
                settings.take(&String::from_utf8_lossy(&bytes), home);
            }
        }
        settings
    }
}

fn users_folder(home: &Path) -> PathBuf {
    match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("git"),
        None => home.join(".config/git"),
    }
}

/// What is read of git's where a folder is searched, and does not lie below it: for who has to open it beforehand.
#[must_use]
pub fn files_outside(folder: &Path, home: &Path) -> Vec<PathBuf> {
    let mut files = vec![users_folder(home), home.join(".gitconfig")];
    let Some(repo) = Repo::discover(folder) else { return files };
    let settings = repo.settings(home);
    files.extend([settings.excludes_file, settings.attributes_file].into_iter().flatten());
    for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(&repo.top)) {
        files.extend([".gitignore", ".gitattributes"].map(|name| above.join(name)));
    }
    files.extend([repo.top.join(".git"), repo.common]);
    files.extend(git_dir_of(&repo.top));
    files.retain(|file| !file.starts_with(folder));
    files
}

/// Whether a folder is the top of a repository of its own, which a search from above does not enter.
#[must_use]
pub fn is_repo(folder: &Path) -> bool {
    common_dir_of(folder).is_some()
}

/// Where the repository of a work tree is, by its `.git`.
fn git_dir_of(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    let meta = std::fs::metadata(&dot_git).ok()?;
    if meta.is_dir() {
        return Some(dot_git);
    }
    let bytes = read_small(&dot_git, true)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(top.join(text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r'])))
}

fn common_dir_of(top: &Path) -> Option<PathBuf> {
    let git_dir = git_dir_of(top)?;
    let common = match read_small(&git_dir.join("commondir"), true) {
        Some(bytes) => git_dir.join(String::from_utf8_lossy(&bytes).trim_end()),
        None => git_dir.clone(),
    };
    let sound = is_head(&git_dir.join("HEAD")) && common.join("objects").is_dir() && common.join("refs").is_dir();
    sound.then_some(common)
}

fn is_head(head: &Path) -> bool {
    if let Ok(target) = std::fs::read_link(head) {
        return target.starts_with("refs");
    }
    let Some(bytes) = read_small(head, false) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    match text.strip_prefix("ref:") {
        Some(name) => name.trim_start().starts_with("refs/"),
        None => {
            let hash = text.trim_end();
            matches!(hash.len(), 40 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
    }
}

/// A small regular file of git's, or `None`. Never blocks on a FIFO; a link is followed only where git does.
#[must_use]
pub fn read_small(path: &Path, follow: bool) -> Option<Vec<u8>> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY | nofollow).bits()).ok()?;
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file: File = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > GIT_FILE_BYTES_MAX {
        tracing::warn!(path = %path.display(), bytes = meta.len(), "not read as a file of git's");
        return None;
    }
    let mut bytes = Vec::new();
    file.take(GIT_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Settings {
    fn take(&mut self, text: &str, home: &Path) {
        let mut in_core = false;
        for line in text.lines() {
            let mut line = line.trim();
            if let Some(rest) = line.strip_prefix('[') {
                let Some((section, after)) = rest.split_once(']') else { continue };
                in_core = section.trim().eq_ignore_ascii_case("core");
                line = after.trim();
            }
            if !in_core || line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let (key, value) = match line.split_once('=') {
                Some((key, value)) => (key.trim(), value_of(value)),
                None => (line, "true".to_owned()),
            };
            let path = || match value.strip_prefix("~/") {
                Some(rest) => Some(home.join(rest)),
                None => Some(PathBuf::from(&value)).filter(|path| path.is_absolute()),
            };
            match key.to_ascii_lowercase().as_str() {
                "excludesfile" => self.excludes_file = path(),
                "attributesfile" => self.attributes_file = path(),
                "ignorecase" => self.ignore_case = matches!(value.to_lowercase().as_str(), "true" | "yes" | "on" | "1"),
                _ => {}
            }
        }
    }
}

/// A value without its quotes and without the comment behind it.
fn value_of(text: &str) -> String {
    let mut value = String::new();
    let mut quoted = false;
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => value.extend(chars.next().map(|c| match c {
                'n' => '\n',
                't' => '\t',
                c => c,
            })),
            '#' | ';' if !quoted => break,
            c => value.push(c),
        }
    }
    value.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_that_matter_are_read() {
        for (text, excludes, ignore_case) in [
            ("[core]\n\texcludesFile = ~/my ignore\n", Some("/h/my ignore"), false),
            ("[CORE] excludesfile=\"/a;b\" ; why\n ignorecase\n", Some("/a;b"), true),
            ("[core \"x\"]\nexcludesfile = /a\n[user]\nignorecase = true\n", None, false),
            ("[core]\nexcludesfile = /a # why\nexcludesfile = /b\n", Some("/b"), false),
            ("[core\n]]\n=\n\\", None, false),
        ] {
            let mut settings = Settings::default();
            settings.take(text, Path::new("/h"));
            assert_eq!((settings.excludes_file, settings.ignore_case), (excludes.map(PathBuf::from), ignore_case));
        }
    }

    #[test]
    fn a_folder_named_dot_git_makes_no_repository() {
        let temp = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(temp.path().join(".git")).expect("a folder");
        assert!(!is_repo(temp.path()));
        std::fs::remove_dir(temp.path().join(".git")).expect("removed");
        std::fs::write(temp.path().join(".git"), "gitdir: nowhere\n").expect("a file");
        assert!(!is_repo(temp.path()));
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_of_gits_is_no_hang() {
        let temp = tempfile::tempdir().expect("a folder");
        let fifo = temp.path().join(".gitignore");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        assert_eq!(read_small(&fifo, false), None);
    }
}
