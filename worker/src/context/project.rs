//! The system prompt: who the model is, where it works, and what the project says about itself.
//!
//! Composed once, at a job's first start, and recorded: every later call carries the same bytes, so that a provider's
//! cache of the prefix lives as long as the job. The project's notes are `AGENTS.md`, then `CLAUDE.md`, from the
//! workdir up to the repository's root. A note that is a link to a place outside the repository is not followed: the
//! workdir may be anybody's, and its notes go to a provider.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::job::{JobSpec, Mode};

const NOTES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// A note longer than this is cut: it is sent with every call.
const NOTE_BYTES_MAX: usize = 32 * 1024;
/// What is read of a note at most.
const NOTE_FILE_BYTES_MAX: u64 = 1024 * 1024;

#[must_use]
pub fn system_prompt(spec: &JobSpec) -> String {
    let mut prompt = String::from("You carry out one job, unattended: nobody reads along and nobody can be asked.\n");
    if spec.mode == Mode::Loop {
        prompt.push_str(
            "Use the tools to look before you state. Independent calls may be made together in one reply. \
             A call that was denied stays denied: find another way or say what was missing. \
             When the job is done, answer without a tool call; that answer is its result.\n",
        );
    }
    // Writing to a String cannot fail.
    let _ = writeln!(prompt, "\nWorking folder: {}", spec.workdir.display());
    let root = repository_root(&spec.workdir);
    if let Some(branch) = root.as_deref().and_then(branch) {
        let _ = writeln!(prompt, "Git branch: {branch}");
    }
    for note in notes(&spec.workdir, root.as_deref()) {
        let text = disk::read_bounded(&note, NOTE_FILE_BYTES_MAX)
            .map_or_else(|error| format!("(not readable: {error})"), |bytes| cut(&String::from_utf8_lossy(&bytes)));
        let _ = write!(prompt, "\n# {}\n{}\n", note.display(), text.trim_end());
    }
    prompt.replace('\0', "\u{fffd}")
}

fn repository_root(workdir: &Path) -> Option<PathBuf> {
    workdir.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

/// Read from `.git/HEAD` and not by running git, which in a stranger's repository runs what its configuration names.
fn branch(root: &Path) -> Option<String> {
    let head = disk::read_bounded(&root.join(".git/HEAD"), 4096).ok()?;
    let head = String::from_utf8(head).ok()?;
    Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned())
}

/// Outermost first, so that the nearest has the last word.
fn notes(workdir: &Path, root: Option<&Path>) -> Vec<PathBuf> {
    let top = root.unwrap_or(workdir);
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in workdir.ancestors().take_while(|folder| folder.starts_with(top)) {
        for name in NOTES.iter().rev() {
            let Ok(real) = folder.join(name).canonicalize() else { continue };
            if real.is_file() && real.starts_with(top) && !found.contains(&real) {
                found.push(real);
            }
        }
    }
    found.reverse();
    found
}

fn cut(text: &str) -> String {
    if text.len() <= NOTE_BYTES_MAX {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(NOTE_BYTES_MAX)];
    format!("{kept}\n(cut: {} more bytes)", text.len() - kept.len())
}
