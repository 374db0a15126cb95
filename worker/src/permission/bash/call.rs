//! A command line with what its words name on the disk.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use super::words::{parts_of, suspects_in, text_of, words_of};
use crate::permission::operand::{self, Kind};
use crate::permission::path::{Resolved, resolve};
use crate::permission::shell::{self, Reading, Simple};
use crate::permission::{Permission, disk};

/// Words of an opaque text that are looked up on the disk; all are compared.
const WORDS_MAX: usize = 256;

/// A command line, understood as far as it can be.
pub(in crate::permission) struct Call {
    pub(super) reading: Reading,
    pub(super) commands: Vec<Command>,
    /// Commands that may stand in the words of an opaque text.
    pub(super) suspects: Vec<Simple>,
}

pub(super) struct Command {
    pub(super) simple: Simple,
    pub(super) files: Vec<File>,
    /// A file that it reads or writes is not known.
    pub(super) unsure: bool,
}

pub(super) struct File {
    pub(super) kind: Kind,
    pub(super) redirect: bool,
    pub(super) tree: bool,
    /// As the model wrote it.
    pub(super) shown: String,
    pub(super) paths: Vec<Resolved>,
    pub(super) unsure: bool,
    /// Why it cannot be followed to a place.
    pub(super) lost: Option<String>,
}

impl Permission {
    pub(in crate::permission) fn read_command(&self, text: &str) -> Call {
        let reading = shell::read(text, &self.places.job());
        let mut commands: Vec<Command> =
            reading.commands.iter().map(|simple| self.command(simple, operand::touches(simple))).collect();
        let mut suspects = Vec::new();
        if reading.opaque.is_some() {
            let segments = words_of(text);
            suspects = suspects_in(&segments);
            let mut touches = operand::Touches::default();
            for word in segments.into_iter().flatten().take(WORDS_MAX) {
                let touch = operand::Touch { kind: Kind::Any, redirect: false, tree: false, hidden: true, word };
                touches.list.push(touch);
            }
            let dirs = vec![self.places.workdir().to_owned()];
            commands.push(self.command(&Simple { dirs, ..Simple::default() }, touches));
        }
        Call { reading, commands, suspects }
    }

    fn command(&self, simple: &Simple, touches: operand::Touches) -> Command {
        let files: Vec<File> = touches.list.iter().map(|touch| self.file(touch, &simple.dirs)).collect();
        let unsure = touches.uncertain || files.iter().any(|file| file.unsure && file.kind != Kind::Any);
        Command { simple: simple.clone(), files, unsure }
    }

    fn file(&self, touch: &operand::Touch, dirs: &[PathBuf]) -> File {
        let word = &touch.word;
        let mut file = File {
            kind: touch.kind,
            redirect: touch.redirect,
            tree: touch.tree,
            shown: text_of(word),
            paths: Vec::new(),
            unsure: word.is_unknown(),
            lost: None,
        };
        let texts = if touch.kind == Kind::Any { parts_of(&file.shown) } else { vec![file.shown.clone()] };
        for dir in dirs {
            for text in texts.iter().filter(|text| !text.is_empty() && !text.contains('\n')) {
                match resolve(Path::new(text), dir, self.places.home()) {
                    Ok(resolved) => file.paths.push(resolved),
                    Err(error) => file.lost = Some(error.to_string()),
                }
            }
            if word.has_glob() {
                match disk::expand(word, dir) {
                    None => file.unsure = true,
                    Some(paths) => {
                        let found = paths.iter().map(|path| resolve(path, dir, self.places.home()));
                        file.paths.extend(found.flatten());
                    }
                }
            }
        }
        if touch.tree {
            for folder in file.paths.clone() {
                let known = disk::below(&folder.real, touch.hidden, |path, is_dir| {
                    let lexical = path.strip_prefix(&folder.real).map(|rest| folder.lexical.join(rest));
                    let lexical = lexical.unwrap_or_else(|_| path.to_owned());
                    file.paths.push(Resolved { lexical, real: path.to_owned(), is_dir });
                    false
                });
                file.unsure |= known.is_none();
            }
        }
        file
    }
}
