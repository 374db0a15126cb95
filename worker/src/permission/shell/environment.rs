//! Variables by what they may do to the commands that see them.
//!
//! Two lists, because two questions are asked. Set within the shell alone, a name is bad only if the shell, or a program
//! that it was inherited for, listens to it. Handed to a program, it is good only if it is known to change nothing but
//! words and colours: nobody can list all the variables that make some program run another.

#![deny(clippy::disallowed_methods)]

const DANGEROUS: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BASH_LOADABLES_PATH",
    "CC",
    "CDPATH",
    "CXX",
    "DISPLAY",
    "DYLD_INSERT_LIBRARIES",
    "EDITOR",
    "ENV",
    "EXECIGNORE",
    "FCEDIT",
    "FIGNORE",
    "FUNCNEST",
    "GCONV_PATH",
    "GLOBIGNORE",
    "GLOBSORT",
    "HISTFILE",
    "HOME",
    "IFS",
    "LOCPATH",
    "MAKEFLAGS",
    "MANPAGER",
    "NODE_OPTIONS",
    "OLDPWD",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PWD",
    "SHELL",
    "SHELLOPTS",
    "TMPDIR",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "_",
];

const DANGEROUS_HEADS: &[&str] = &[
    "BASH_FUNC",
    "CARGO_",
    "DOCKER_",
    "GIT_",
    "GREP_",
    "JAVA_",
    "LD_",
    "LESS",
    "MALLOC_",
    "NPM_",
    "PERL",
    "PIP_",
    "PYTHON",
    "RUBY",
    "RUST",
    "SSH_",
    "ZDOTDIR",
];

const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "DEBUG",
    "FORCE_COLOR",
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TZ",
];

/// Whether setting it in the shell changes what commands do.
#[must_use]
pub fn is_dangerous(name: &str) -> bool {
    DANGEROUS.contains(&name)
        || DANGEROUS_HEADS.iter().any(|head| name.starts_with(head)) && !is_harmless(name)
        || name.to_ascii_lowercase().ends_with("_proxy")
}

/// Whether a program that gets it does the same as without it.
#[must_use]
pub fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_variable_may_do() {
        for (name, dangerous, harmless) in [
            ("PATH", true, false),
            ("LD_PRELOAD", true, false),
            ("GIT_SSH_COMMAND", true, false),
            ("RUST_BACKTRACE", false, true),
            ("RUSTC_WRAPPER", true, false),
            ("https_proxy", true, false),
            ("x", false, false),
            ("FOO", false, false),
            ("NO_COLOR", false, true),
        ] {
            assert_eq!((is_dangerous(name), is_harmless(name)), (dangerous, harmless), "{name}");
        }
    }
}
