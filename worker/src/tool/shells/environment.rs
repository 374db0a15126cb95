//! What a command finds in its environment: the usual, what its owner names, and nothing that would make it ask.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use ukai_protocol::policy::Sandbox;

use super::About;

/// Of our own environment. None of them is a secret.
const PASSED_ON: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "JAVA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Nobody answers a question, looks at colours, pages or edits.
const UNATTENDED: [(&str, &str); 14] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("EDITOR", ":"),
    ("VISUAL", ":"),
    ("GIT_EDITOR", ":"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // The index is read-only, and a look at it need not renew it.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("npm_config_yes", "true"),
    ("npm_config_update_notifier", "false"),
];

/// Where programs lie that commands may run, besides the workdir and what a policy opens; the second below the home folder.
/// What a sandbox really opens is said by `sandbox/files` and `shells/confine`; a test on real commands holds these to it.
const PROGRAMS: [&str; 8] = ["/usr", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store", "/snap", "/etc/alternatives"];
const PROGRAMS_AT_HOME: [&str; 7] = [".cargo", ".rustup", ".nvm", ".pyenv", ".local/bin", ".local/lib", "go"];

/// Whether commands may run what lies in this folder of PATH. One that is not there is nobody's matter.
#[must_use]
pub fn may_run(folder: &Path, home: &Path, workdir: &Path, sandbox: &Sandbox) -> bool {
    if !sandbox.on || PROGRAMS.iter().any(|system| folder.starts_with(system)) {
        return true;
    }
    let Some(folder) = real(folder) else { return true };
    let opened = sandbox.read.iter().chain(&sandbox.write).filter_map(|path| real(path));
    let at_home = PROGRAMS_AT_HOME.iter().filter_map(|name| real(&home.join(name)));
    let own = [PathBuf::from(workdir)].into_iter().chain(PROGRAMS.map(PathBuf::from));
    own.chain(at_home).chain(opened).any(|open| folder.starts_with(open))
}

/// PATH without what commands may not run: found there, it would stand before a program of that name that they may.
fn without_hidden(path: &str, about: &About) -> String {
    let (places, sandbox) = (about.permission.places(), &about.spec.policy.sandbox);
    let seen = |folder: &&str| may_run(Path::new(folder), places.home(), places.real_workdir(), sandbox);
    path.split(':').filter(seen).collect::<Vec<_>>().join(":")
}

#[allow(clippy::disallowed_methods, reason = "where a folder of PATH really is")]
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// The later of two with one name counts.
pub(super) fn of(about: &About, temp: &Path) -> Vec<(String, String)> {
    let own = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), own(name)?)));
    let own = own.map(|(name, value)| match &*name {
        "PATH" => (name, without_hidden(&value, about)),
        _ => (name, value),
    });
    let fixed = UNATTENDED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let temp = temp.display().to_string();
    let workdir = about.permission.places().real_workdir().display().to_string();
    let of_job = [("SHELL", "/bin/bash".to_owned()), ("PWD", workdir), ("TMPDIR", temp)];
    let of_job = of_job.into_iter().map(|(name, value)| (name.to_owned(), value));
    let job = [("UKAI_JOB".to_owned(), about.job.to_string())];
    let mut all: Vec<(String, String)> = Vec::new();
    let path = [("PATH".to_owned(), PATH.to_owned())];
    for (name, value) in path.into_iter().chain(own).chain(fixed).chain(of_job).chain(about.env.clone()).chain(job) {
        all.retain(|(earlier, _)| *earlier != name);
        all.push((name, value));
    }
    all
}

#[allow(clippy::disallowed_methods, reason = "the environment of this process, which is what is passed on")]
fn own(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests on real folders")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_programs_is_seen_where_the_sandbox_opens_it() {
        let temp = tempfile::tempdir().expect("a folder");
        let home = temp.path().canonicalize().expect("a path");
        for folder in [".asdf/shims", ".cargo/bin", ".local/bin", ".bun/bin", "work/node_modules/.bin"] {
            std::fs::create_dir_all(home.join(folder)).expect("folders");
        }
        std::os::unix::fs::symlink(home.join(".asdf/shims"), home.join(".local/link")).expect("a link");
        std::os::unix::fs::symlink(home.join(".local/bin"), home.join("bin")).expect("a link");
        let opened = Sandbox { read: vec![home.join(".bun")], ..Sandbox::default() };
        for (folder, seen) in [
            (PathBuf::from("/usr/bin"), true),
            (home.join(".cargo/bin"), true),
            (home.join(".asdf/shims"), false),
            (home.join(".local/link"), false),
            (home.join("bin"), true),
            (home.join(".bun/bin"), true),
            (home.join("work/node_modules/.bin"), true),
            (home.join("gone"), true),
        ] {
            assert_eq!(may_run(&folder, &home, &home.join("work"), &opened), seen, "{}", folder.display());
        }
        let off = Sandbox { on: false, ..Sandbox::default() };
        assert!(may_run(&home.join(".asdf/shims"), &home, &home.join("work"), &off));
    }
}
