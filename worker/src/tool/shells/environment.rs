//! What a command finds in its environment: the usual, what its owner names, and nothing that would make it ask.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

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

/// The later of two with one name counts.
pub(super) fn of(about: &About, temp: &Path) -> Vec<(String, String)> {
    let own = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), own(name)?)));
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
