//! Whether git takes a file for text by decree: the `diff` attribute, which `git grep -I` asks before it looks inside.
//!
//! `*.lock -diff` leaves lock files out of a search, `*.dat diff` puts files with a NUL in. Only this one attribute is
//! read, with the macros that set it.

use std::collections::HashMap;
use std::path::Path;

use super::git_repo::{Repo, Settings, read_small};
use super::wildmatch::Pattern;

/// Git's own bound: it ignores longer lines.
const LINE_BYTES_MAX: usize = 2048;

/// What attributes say about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decree {
    Text,
    Binary,
    /// Look inside.
    Unsaid,
}

pub struct Attributes {
    levels: Vec<Level>,
    info: Vec<(Pattern, Decree)>,
    global: Vec<(Pattern, Decree)>,
    macros: HashMap<Vec<u8>, Decree>,
    fold: bool,
}

struct Level {
    prefix: usize,
    lines: Vec<(Pattern, Decree)>,
}

impl Attributes {
    #[must_use]
    pub fn new(repo: &Repo, settings: &Settings) -> Self {
        let macros = HashMap::from([(b"binary".to_vec(), Decree::Binary)]);
        let fold = settings.ignore_case;
        let mut attributes = Attributes { levels: Vec::new(), info: Vec::new(), global: Vec::new(), macros, fold };
        let mut global = attributes.parse(&read_small(Path::new("/etc/gitattributes"), true).unwrap_or_default(), true);
        if let Some(path) = &settings.attributes_file {
            global.extend(attributes.parse(&read_small(path, true).unwrap_or_default(), true));
        }
        attributes.global = global;
        let info = read_small(&repo.common.join("info/attributes"), true).unwrap_or_default();
        attributes.info = attributes.parse(&info, true);
        attributes
    }

    /// Goes into a folder, see [`super::git_ignore::Ignores::enter`].
    pub fn enter(&mut self, path: &Path, from_top: &[u8]) {
        let bytes = read_small(&path.join(".gitattributes"), false).unwrap_or_default();
        let prefix = if from_top.is_empty() { 0 } else { from_top.len() + 1 };
        let lines = self.parse(&bytes, from_top.is_empty());
        self.levels.push(Level { prefix, lines });
    }

    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// The last word on a file, given its path from the top.
    #[must_use]
    pub fn decree(&self, from_top: &[u8]) -> Decree {
        let levels = self.levels.iter().rev().map(|level| (level.prefix, &level.lines));
        for (prefix, lines) in [(0, &self.info)].into_iter().chain(levels).chain([(0, &self.global)]) {
            let path = from_top.get(prefix..).unwrap_or_default();
            if let Some((_, decree)) = lines.iter().rev().find(|(pattern, _)| pattern.matches(path, false)) {
                return *decree;
            }
        }
        Decree::Unsaid
    }

    /// The lines that speak of `diff`. Macros count only where git lets them: at the top and outside the work tree.
    fn parse(&mut self, bytes: &[u8], macros_allowed: bool) -> Vec<(Pattern, Decree)> {
        let mut lines = Vec::new();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for line in bytes.split(|byte| *byte == b'\n') {
            let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let (name, rest) = match line {
                [b'"', quoted @ ..] => unquote(quoted),
                _ => {
                    let end = line.iter().position(blank).unwrap_or(line.len());
                    (line[..end].to_vec(), &line[end..])
                }
            };
            let mut said = None;
            let words = rest.split(blank).filter(|word| !word.is_empty());
            // One word that is no attribute, and git takes nothing of the line.
            if line.len() > LINE_BYTES_MAX || !words.clone().all(is_attribute) {
                continue;
            }
            for word in words {
                said = self.effect(word).or(said);
            }
            let Some(decree) = said else { continue };
            if let Some(name) = name.strip_prefix(b"[attr]") {
                if macros_allowed {
                    self.macros.insert(name.to_vec(), decree);
                }
            } else if let Some(pattern) = Pattern::parse(&name, self.fold).filter(|pattern| !pattern.negated) {
                lines.push((pattern, decree));
            }
        }
        lines
    }

    /// What one word of a line does to `diff`, if it does anything.
    fn effect(&self, word: &[u8]) -> Option<Decree> {
        match word {
            b"diff" => Some(Decree::Text),
            b"-diff" => Some(Decree::Binary),
            b"!diff" => Some(Decree::Unsaid),
            word if word.starts_with(b"diff=") => Some(Decree::Unsaid),
            word => self.macros.get(word).copied(),
        }
    }
}

/// `name`, `-name`, `!name` or `name=value`.
fn is_attribute(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"-").or(word.strip_prefix(b"!")).unwrap_or(word);
    let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !name.is_empty() && name[0] != b'-' && name.iter().all(fits) && !name.starts_with(b"builtin_")
}

/// A pattern in quotes, and what follows it.
fn unquote(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut name = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => return (name, &text[at + 1..]),
            b'\\' if at + 1 < text.len() => {
                let octal = text.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
                match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                    Some(byte) => {
                        name.push(byte);
                        at += 4;
                        continue;
                    }
                    None => name.push(match text[at + 1] {
                        b'n' => b'\n',
                        b't' => b'\t',
                        byte => byte,
                    }),
                }
                at += 1;
            }
            byte => name.push(byte),
        }
        at += 1;
    }
    (name, &[])
}
