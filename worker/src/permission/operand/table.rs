//! The programs of which it is known which of their words name files, one row each.

#![deny(clippy::disallowed_methods)]

use crate::permission::options::Valued;

#[derive(Clone, Copy)]
pub(super) enum Mode {
    /// No operand names a file.
    Texts,
    Reads,
    /// Reads, behind a pattern or script that `-e` or `-f` may give instead.
    Searches,
    Writes,
    /// Writes, behind a mode or an owner.
    Changes,
    /// The last is written, those before are read.
    Copies,
    Moves,
    Any,
}

pub(super) struct Row {
    pub names: &'static [&'static str],
    pub mode: Mode,
    /// Options whose value is no file, one that is read, one that is written.
    pub texts: Valued,
    pub reads: Valued,
    pub writes: Valued,
    /// Letters with which it goes through whole folders.
    pub recursive: &'static str,
}

const NONE: Valued = Valued { short: "", long: &[] };

const fn row(names: &'static [&'static str], mode: Mode, texts: &'static str) -> Row {
    Row { names, mode, texts: Valued { short: texts, long: &[] }, reads: NONE, writes: NONE, recursive: "" }
}

pub(super) const ROWS: &[Row] = &[
    row(
        &[
            "echo", "printf", "true", "false", ":", "test", "[", "basename", "dirname", "uname", "whoami", "id",
            "which", "type", "seq", "sleep", "tr", "pwd", "exit", "return", "break", "continue", "shift", "wait",
            "set", "export", "declare", "typeset", "readonly", "local", "unset", "read", "hostname", "nproc", "arch",
            "uptime", "free", "ps", "kill", "umask", "ulimit", "jobs", "expr", "yes", "logger", "tty", "printenv",
            "command", "builtin", "env", "timeout", "nice", "nohup", "stdbuf", "time", "setsid", "eval", "sudo",
            "doas", "su", "exec", "pgrep", "pkill", "killall",
        ],
        Mode::Texts,
        "",
    ),
    Row { reads: Valued { short: "fr", long: &["file", "reference"] }, ..row(&["date"], Mode::Texts, "ds") },
    Row { reads: Valued { short: "a", long: &["arg-file"] }, ..row(&["xargs"], Mode::Texts, "IdELnPs") },
    row(
        &[
            "cat",
            "tac",
            "rev",
            "nl",
            "ls",
            "dir",
            "vdir",
            "stat",
            "du",
            "df",
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "cksum",
            "sum",
            "strings",
            "realpath",
            "readlink",
            "less",
            "more",
            "bat",
            "cd",
            "base64",
            "base32",
            "expand",
            "unexpand",
            "fmt",
            "tsort",
            "hexdump",
            "zcat",
            "bzcat",
            "xzcat",
            "view",
            "paste",
            "join",
        ],
        Mode::Reads,
        "",
    ),
    row(&["head", "tail"], Mode::Reads, "nc"),
    Row { reads: Valued { short: "", long: &["files0-from"] }, ..row(&["wc"], Mode::Reads, "") },
    row(&["cut"], Mode::Reads, "bcdf"),
    row(&["fold"], Mode::Reads, "w"),
    row(&["column"], Mode::Reads, "sco"),
    row(&["od"], Mode::Reads, "AjNSt"),
    row(&["xxd"], Mode::Reads, "clgos"),
    Row { reads: Valued { short: "fm", long: &["files-from", "magic-file"] }, ..row(&["file"], Mode::Reads, "FeP") },
    Row { recursive: "r", ..row(&["diff"], Mode::Reads, "UCIWFxS") },
    row(&["cmp"], Mode::Reads, "ni"),
    row(&["comm", "sdiff"], Mode::Reads, ""),
    Row { writes: Valued { short: "o", long: &[] }, ..row(&["tree"], Mode::Reads, "LPI") },
    Row {
        reads: Valued { short: "", long: &["files0-from", "random-source"] },
        writes: Valued { short: "oT", long: &["output", "temporary-directory"] },
        ..row(&["sort"], Mode::Reads, "ktS")
    },
    row(&["uniq"], Mode::Copies, "fsw"),
    Row {
        texts: Valued {
            short: "ABCmedD",
            long: &["regexp", "context", "max-count", "include", "exclude", "exclude-dir", "color", "label"],
        },
        reads: Valued { short: "f", long: &["file", "exclude-from"] },
        recursive: "rR",
        ..row(&["grep", "egrep", "fgrep", "zgrep"], Mode::Searches, "")
    },
    Row {
        texts: Valued {
            short: "ABCmegtTMjrEd",
            long: &[
                "regexp",
                "glob",
                "type",
                "type-not",
                "context",
                "max-count",
                "max-depth",
                "sort",
                "color",
                "iglob",
            ],
        },
        reads: Valued { short: "f", long: &["file", "ignore-file", "pre"] },
        ..row(&["rg", "ag", "ack"], Mode::Searches, "")
    },
    Row {
        texts: Valued { short: "el", long: &["expression", "line-length"] },
        reads: Valued { short: "f", long: &["file"] },
        ..row(&["sed", "gsed"], Mode::Searches, "")
    },
    Row {
        texts: Valued { short: "Fve", long: &["assign", "field-separator", "source"] },
        reads: Valued { short: "fEi", long: &["file", "exec", "include"] },
        ..row(&["awk", "gawk", "mawk", "nawk"], Mode::Searches, "")
    },
    Row {
        texts: Valued { short: "", long: &["indent", "arg", "argjson"] },
        reads: Valued { short: "fL", long: &["from-file", "slurpfile", "rawfile"] },
        ..row(&["jq", "yq"], Mode::Searches, "")
    },
    row(&["mkdir", "mkfifo", "mknod"], Mode::Writes, "m"),
    row(&["shred"], Mode::Writes, "ns"),
    Row { reads: Valued { short: "r", long: &["reference"] }, ..row(&["touch"], Mode::Writes, "dt") },
    Row { reads: Valued { short: "r", long: &["reference"] }, ..row(&["truncate"], Mode::Writes, "s") },
    row(&["tee", "rmdir", "unlink", "ed", "ex", "vi", "vim", "nano", "emacs"], Mode::Writes, ""),
    Row { recursive: "rR", ..row(&["rm"], Mode::Writes, "") },
    Row {
        reads: Valued { short: "", long: &["reference"] },
        recursive: "R",
        ..row(&["chmod", "chown", "chgrp"], Mode::Changes, "")
    },
    Row {
        texts: Valued { short: "S", long: &["suffix"] },
        writes: Valued { short: "t", long: &["target-directory"] },
        recursive: "rRa",
        ..row(&["cp"], Mode::Copies, "")
    },
    Row {
        texts: Valued { short: "Smgo", long: &["suffix", "mode", "owner", "group"] },
        writes: Valued { short: "t", long: &["target-directory"] },
        ..row(&["install"], Mode::Copies, "")
    },
    Row { writes: Valued { short: "t", long: &["target-directory"] }, ..row(&["ln"], Mode::Copies, "S") },
    Row { writes: Valued { short: "t", long: &["target-directory"] }, ..row(&["mv"], Mode::Moves, "S") },
    Row {
        reads: Valued { short: "TK", long: &["upload-file", "config"] },
        writes: Valued { short: "oDc", long: &["output", "dump-header", "cookie-jar", "output-dir"] },
        ..row(&["curl"], Mode::Any, "XHuAe")
    },
    Row {
        reads: Valued { short: "i", long: &["input-file", "post-file", "body-file"] },
        writes: Valued { short: "OPoa", long: &["output-document", "directory-prefix", "output-file"] },
        ..row(&["wget"], Mode::Any, "U")
    },
];
