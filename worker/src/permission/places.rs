//! The folders that paths and rules are relative to, and the roots that a job may read or write below.
//!
//! Each is known by the name it was given and by where it really is, since a rule has to hold for both. Outside of
//! workdir and outputs only the very paths that a `//` or `~/` allow rule names are inside: such a rule opens what it
//! matches, not the folder around it. What may be written may be read, or it could not be changed with open eyes; what was
//! put aside for reading (`outputs/`) is never written.

#![allow(clippy::disallowed_methods, reason = "bound to real folders once, at the start")]

use std::path::{Path, PathBuf};

use ukai_protocol::policy::{RuleList, Sandbox};

use super::path::{normalize, real_path};
use super::rule::{Anchor, PathRule};
use super::shell;

pub struct Places {
    workdir: Place,
    home: Place,
    outputs: Place,
    temp: Place,
    named: Vec<Named>,
    /// What the policy opens to commands besides.
    opened: Sandbox,
    /// What ukai itself keeps, wherever it lies: in no root, whatever a rule says.
    private: Vec<Place>,
}

/// A folder as named and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub lexical: PathBuf,
    pub real: PathBuf,
}

struct Named {
    rule: PathRule,
    prefix: Place,
}

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        let lexical = normalize(path);
        // What cannot be followed is taken as named: nothing below it can be opened then either.
        let real = real_path(&lexical).unwrap_or_else(|_| lexical.clone());
        Place { lexical, real }
    }

    fn both(&self) -> [&Path; 2] {
        [&self.lexical, &self.real]
    }
}

/// The folder for temporary files of the job with these outputs.
#[must_use]
pub fn temp_of(outputs: &Path) -> PathBuf {
    outputs.parent().unwrap_or(outputs).join("tmp")
}

/// Whether a tool changes the files that it is called for.
fn is_writer(tool: &str) -> bool {
    matches!(tool, "Edit" | "Write")
}

impl Places {
    pub(super) fn new(workdir: &Path, home: &Path, outputs: &Path) -> Self {
        Places {
            workdir: Place::new(workdir),
            home: Place::new(home),
            outputs: Place::new(outputs),
            temp: Place::new(&temp_of(outputs)),
            named: Vec::new(),
            opened: Sandbox::default(),
            private: Vec::new(),
        }
    }

    /// Keeps these files and folders out of every root, but for the job's outputs and what is temporary. A workdir inside of one is the job's.
    pub(super) fn keep(&mut self, private: &[PathBuf]) {
        let places = private.iter().map(|path| Place::new(path));
        self.private.extend(places.filter(|place| !self.workdir.real.starts_with(&place.real)));
    }

    /// Whether this is ukai's own.
    #[must_use]
    pub fn is_private(&self, real: &Path) -> bool {
        !self.is_output(real) && !self.is_temp(real) && self.private.iter().any(|place| real.starts_with(&place.real))
    }

    /// What is ukai's own in this folder, or is it: by names, and as it really is.
    pub fn private_in<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.private.iter().flat_map(Place::both).filter(move |path| path.starts_with(folder))
    }

    /// Takes in an allow rule, if it is one that opens a root.
    pub(super) fn name_root(&mut self, rule: &PathRule) {
        let anchor = match rule.anchor {
            Anchor::Root => Path::new("/"),
            Anchor::Home => &self.home.lexical,
            Anchor::Base | Anchor::Workdir => return,
        };
        if ["Read", "Glob", "Grep", "Edit", "Write"].iter().any(|tool| rule.governs(tool)) {
            let prefix = Place::new(&anchor.join(rule.literal_prefix()));
            self.named.push(Named { rule: rule.clone(), prefix });
        }
    }

    /// Where the folder or file that a rule names before its first wildcard really is, if a link leads there: who denies
    /// `~/.aws` means what is in it, also where it is kept in `~/dotfiles/aws`.
    pub(super) fn elsewhere(&self, rule: &PathRule, base: &Place) -> Option<Place> {
        let root = Place { lexical: "/".into(), real: "/".into() };
        let anchor = match rule.anchor {
            Anchor::Root => &root,
            Anchor::Home => &self.home,
            Anchor::Base => base,
            Anchor::Workdir => &self.workdir,
        };
        let prefix = rule.literal_prefix();
        let place = Place::new(&anchor.lexical.join(&prefix));
        (!prefix.is_empty() && place.real != anchor.real.join(&prefix)).then_some(place)
    }

    #[must_use]
    pub fn workdir(&self) -> &Path {
        &self.workdir.lexical
    }

    /// Without links.
    #[must_use]
    pub fn real_workdir(&self) -> &Path {
        &self.workdir.real
    }

    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home.lexical
    }

    /// Where the roots really are: what a tool opens files beneath.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        let named = self.named.iter().map(|named| &named.prefix);
        [&self.workdir, &self.outputs].into_iter().chain(named).map(|place| place.real.as_path())
    }

    /// What `//` and `~/` allow rules open, links followed, and whether for writing. It may be a file, or not be there yet.
    pub fn named_roots(&self) -> impl Iterator<Item = (&Path, bool)> {
        let writes = |named: &Named| ["Edit", "Write"].iter().any(|tool| named.rule.governs(tool));
        self.named.iter().map(move |named| (named.prefix.real.as_path(), writes(named)))
    }

    /// The roots of this tool as a model should name them.
    #[must_use]
    pub fn shown(&self, tool: &str) -> Vec<String> {
        let writes = is_writer(tool);
        let named = self.named.iter().filter(|named| !writes || named.rule.governs(tool)).map(|named| &named.prefix);
        let places = [&self.workdir].into_iter().chain((!writes).then_some(&self.outputs)).chain(named);
        places.map(|place| place.lexical.display().to_string()).collect()
    }

    /// How a path is shown: from the workdir where it lies below it, else absolute.
    #[must_use]
    pub fn display<'a>(&self, real: &'a Path) -> &'a Path {
        real.strip_prefix(&self.workdir.real).unwrap_or(real)
    }

    /// Whether this place, links followed, is inside the roots of this tool.
    #[must_use]
    pub fn hold(&self, tool: &str, real: &Path, is_dir: bool) -> bool {
        let writes = is_writer(tool);
        // Such a rule has an anchor of its own; the base that is passed plays no part.
        let names = |named: &Named| self.matches(&named.rule, &named.prefix, real, is_dir, RuleList::Allow);
        if self.is_output(real) {
            return !writes;
        }
        if self.is_private(real) {
            return false;
        }
        real.starts_with(&self.workdir.real)
            || self.named.iter().any(|named| (!writes || named.rule.governs(tool)) && names(named))
    }

    /// Whether this tool may create a folder at this place, links followed: in the workdir, and where a rule's own words
    /// lead, but none that leads there.
    #[must_use]
    pub fn may_create(&self, tool: &str, folder: &Path) -> bool {
        let below = |named: &Named| named.rule.governs(tool) && folder.starts_with(&named.prefix.real);
        !self.is_output(folder)
            && !self.is_private(folder)
            && (folder.starts_with(&self.workdir.real) || self.named.iter().any(below))
    }

    /// The same for a file that a command names: what the policy opens to commands besides is theirs, too.
    #[must_use]
    pub fn hold_for_command(&self, writes: bool, real: &Path, is_dir: bool) -> bool {
        let Sandbox { read, write, .. } = &self.opened;
        let opened = write.iter().chain(read.iter().filter(|_| !writes)).any(|folder| real.starts_with(folder));
        let opened = opened && !self.is_private(real);
        opened || self.is_temp(real) || self.hold(if writes { "Edit" } else { "Read" }, real, is_dir)
    }

    /// Takes in what commands may read and write besides the roots.
    pub(super) fn open_to_commands(&mut self, sandbox: &Sandbox) {
        let real = |paths: &[PathBuf]| paths.iter().map(|path| Place::new(path).real).collect();
        self.opened = Sandbox { read: real(&sandbox.read), write: real(&sandbox.write), ..sandbox.clone() };
    }

    /// Whether what a deny or ask rule names lies below this folder, or is it: who removes `~` removes `~/.ssh`.
    #[must_use]
    pub fn rule_is_below(&self, rule: &PathRule, base: &Place, folder: &Path) -> bool {
        // Without a name before its wildcards it is about anything, and the disk is asked instead.
        !rule.literal_prefix().is_empty()
            && self.literal_places(rule, base).into_iter().any(|place| place.starts_with(folder))
    }

    /// What a rule names before its first wildcard, from where it starts as named and as that really is.
    #[must_use]
    pub fn literal_places(&self, rule: &PathRule, base: &Place) -> [PathBuf; 2] {
        let prefix = rule.literal_prefix();
        let root = Place { lexical: "/".into(), real: "/".into() };
        let anchor = match rule.anchor {
            Anchor::Root => &root,
            Anchor::Home => &self.home,
            Anchor::Base => base,
            Anchor::Workdir => &self.workdir,
        };
        anchor.both().map(|anchor| anchor.join(&prefix))
    }

    /// Whether this place is in the job's folder for temporary files, which its commands may fill as they like.
    #[must_use]
    pub fn is_temp(&self, real: &Path) -> bool {
        real.starts_with(&self.temp.real)
    }

    /// Whether a variable of this name is one of the shell alone: no program that a command line starts gets it. What is
    /// handed to commands has capitals in its name, aside from what the owner's policy adds.
    #[must_use]
    pub fn is_of_shell(&self, name: &str) -> bool {
        let small = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let handed = name.starts_with("npm_") || self.opened.env.iter().any(|known| known == name);
        small && !handed && !shell::environment::is_dangerous(name)
    }

    /// What a command line of this job can know of where it will run.
    #[must_use]
    pub fn job(&self) -> shell::Job<'_> {
        // The owner's policy may hand them another.
        let own = !self.opened.env.iter().any(|name| name == "TMPDIR");
        let temp = own.then_some(self.temp.lexical.as_path());
        shell::Job { workdir: self.workdir(), home: self.home(), temp }
    }

    /// Whether this place is in the job's own `outputs/`.
    #[must_use]
    pub fn is_output(&self, real: &Path) -> bool {
        real.starts_with(&self.outputs.real)
    }

    /// Whether a rule of this list matches an absolute path.
    #[must_use]
    pub fn matches(&self, rule: &PathRule, base: &Place, path: &Path, is_dir: bool, list: RuleList) -> bool {
        let allow = list == RuleList::Allow;
        let below = |folder: &Path| match path.strip_prefix(folder) {
            Err(_) => false,
            // Listing the folder itself is what `docs/**` is for; each file in it is judged again.
            Ok(rest) if allow && is_dir && rest == Path::new(&rule.literal_prefix()) => true,
            Ok(rest) if allow => rule.pattern.matches_or_contains(rest.as_os_str().as_encoded_bytes(), is_dir),
            Ok(rest) => {
                // Both: lower-casing by characters loses bytes that are no text, lower-casing by bytes the umlauts.
                let bytes = rest.as_os_str().as_encoded_bytes();
                rule.folded.matches_or_contains(bytes, is_dir)
                    || rule.folded.matches_or_contains(rest.to_string_lossy().to_lowercase().as_bytes(), is_dir)
            }
        };
        match rule.anchor {
            Anchor::Root => below(Path::new("/")),
            Anchor::Home => self.home.both().into_iter().any(below),
            Anchor::Base => base.both().into_iter().any(below),
            Anchor::Workdir if allow || !rule.any_depth => self.workdir.both().into_iter().any(below),
            // `.env*` protects such files in every root, and wherever else a path may lead.
            Anchor::Workdir => {
                let mut holds = false;
                let named = self.named.iter().map(|named| &named.prefix);
                for place in [&self.workdir, &self.outputs].into_iter().chain(named) {
                    for folder in place.both() {
                        if path.starts_with(folder) {
                            holds = true;
                            if below(folder) {
                                return true;
                            }
                        }
                    }
                }
                !holds && below(Path::new("/"))
            }
        }
    }
}
