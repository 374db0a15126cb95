//! The commands that a person is told to type, typable as they stand: in any shell, from any folder.
//!
//! One place builds them all. Errors and alerts are worded deep below, where no command line is known; so what belongs to
//! every command of this process, the state directory that was named for it, is noted once as it begins, not handed
//! through each of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The state directory where it is not the one that `ukai` finds by itself.
static STATE_DIR: OnceLock<PathBuf> = OnceLock::new();

/// From now on each command names this state directory: an absolute path. The first word holds.
pub fn name_state_dir(path: &Path) {
    STATE_DIR.get_or_init(|| path.to_owned());
}

/// `ukai` with these words, each as a shell takes it.
#[must_use]
pub fn command(words: &[&str]) -> String {
    line(words, STATE_DIR.get().map(PathBuf::as_path))
}

/// The same, marked off from the text around it. In a mark of the same kind nothing may end it.
#[must_use]
pub fn quoted(words: &[&str]) -> String {
    format!("`{}`", command(words).replace('`', "'"))
}

/// The same for what keeps a state directory of its own, whichever was named for this process.
#[must_use]
pub fn quoted_apart(words: &[&str]) -> String {
    format!("`{}`", line(words, None).replace('`', "'"))
}

fn line(words: &[&str], state_dir: Option<&Path>) -> String {
    let mut line = "ukai".to_owned();
    let place = state_dir.map(|path| path.display().to_string());
    let option = place.iter().flat_map(|place| ["--state-dir", place]);
    for word in words.iter().copied().chain(option) {
        line.push(' ');
        line.push_str(&word_of(word));
    }
    line
}

/// One word as one types it in a shell.
#[must_use]
pub fn word_of(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_as_it_stands() {
        let check = |words: &[&str], state_dir: Option<&str>, expected: &str| {
            assert_eq!(line(words, state_dir.map(Path::new)), expected);
        };
        check(&["ls"], None, "ukai ls");
        check(&["ls"], Some("/srv/ukai"), "ukai ls --state-dir /srv/ukai");
        check(&["ack", "--all"], Some("/my jobs/it's"), r"ukai ack --all --state-dir '/my jobs/it'\''s'");
        check(&["resume", "j-aaaaaaaa", "--limit", "steps=50"], None, "ukai resume j-aaaaaaaa --limit steps=50");
        check(&["run", "what is to be done"], None, "ukai run 'what is to be done'");
        check(&["providers", "reset", "a;rm -rf"], None, "ukai providers reset 'a;rm -rf'");
        check(&["show", ""], None, "ukai show ''");
    }

    #[test]
    fn nothing_in_a_mark_ends_it() {
        assert_eq!(quoted(&["providers", "reset", "a`b"]), "`ukai providers reset 'a'b'`");
    }

    #[test]
    fn the_state_directory_that_was_named_stands_in_every_command() {
        name_state_dir(Path::new("/srv/ukai"));
        name_state_dir(Path::new("/elsewhere"));
        assert_eq!(command(&["ls"]), "ukai ls --state-dir /srv/ukai");
        assert_eq!(quoted(&["ls"]), "`ukai ls --state-dir /srv/ukai`");
        assert_eq!(quoted_apart(&["demo"]), "`ukai demo`");
    }
}
