//! `--each`: the lines of a list, each as a job of each job file. All are checked before any is returned.
//!
//! What the lines share is read once: the list, each job file and its policy. What depends on where a line works is read
//! once for each folder.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use ukai_protocol::declared::Declared;
use ukai_protocol::disk;
use ukai_protocol::event::Line;
use ukai_protocol::job::JobSpec;
use ukai_protocol::policy::Policy;

use super::ground::{Ground, Sources};
use super::masking::Masking;
use super::{Asked, Flags, spec};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::each::fill::has_fields;
use crate::each::identity::Keys;
use crate::each::items::{self, ITEMS_BYTES_MAX, ITEMS_MAX, Item, Items, Kind};
use crate::each::{Filling, fields_used, name};
use crate::job_file::Written;

/// All jobs stand in memory before the first is sent, here and at the server: what its queue holds at worst.
const SPECS_BYTES_MAX: usize = 256 * 1024 * 1024;

pub(super) fn specs(
    context: &Context,
    files: &[PathBuf],
    each: &Path,
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<Vec<(JobSpec, Line)>, Failure> {
    let items = read(context, each)?;
    let lines = items.lines.len();
    if lines * files.len() > ITEMS_MAX {
        let files = files.len();
        let why = format!("{lines} lines for {files} job files are more than {ITEMS_MAX} jobs");
        return Err(Failure::usage(format!("the list {}: {why}; submit them in parts", each.display())));
    }
    let masking = Masking::of(context);
    let mut keys = Keys::default();
    let (mut specs, mut bytes, mut unfilled) = (Vec::new(), 0, 0);
    for file in files {
        let asked = Asked::in_file(context, file, flags, Written::AsTemplate)?;
        let before = keys.repeats;
        let mut template = Template::new(context, &asked, file, flags, notes)?;
        for item in &items.lines {
            let (mut spec, line) = template.line(&items, item, &mut keys, notes)?;
            masking.check(&mut spec, notes);
            bytes += weight(&spec);
            if bytes > SPECS_BYTES_MAX {
                let why = format!("its jobs are larger than {SPECS_BYTES_MAX} bytes together");
                return Err(Failure::usage(format!("the list {}: {why}; split it", each.display())));
            }
            specs.push((spec, line));
        }
        if fields_used(&asked.job).is_empty() {
            let equal = if lines == 1 { String::new() } else { format!(": it makes {lines} equal jobs") };
            notes.push(format!("the job {} uses none of the list's fields{equal}", file.display()));
            unfilled += keys.repeats - before;
        }
    }
    let repeats = keys.repeats - unfilled;
    if repeats > 0 {
        let (list, s) = (each.display(), if repeats == 1 { " repeats" } else { "s repeat" });
        notes.push(format!("{list}: {repeats} line{s} an earlier one; each is a job of its own"));
    }
    Ok(specs)
}

fn read(context: &Context, each: &Path) -> Result<Items, Failure> {
    let path = context.current_folder.join(each);
    // Said first: what has no such name is mostly another kind of file.
    Kind::of(&path).map_err(unusable)?;
    let bytes = disk::read_bounded(&path, ITEMS_BYTES_MAX as u64).map_err(|error| {
        Failure::usage(format!("reading the list {}: {error}; name a file that can be read", each.display()))
    })?;
    items::parse(&bytes, &path).map_err(unusable)
}

fn unusable(fault: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the list could not be used: {fault}"))
}

/// One job file, to be filled by each line.
struct Template<'a> {
    asked: &'a Asked,
    /// As typed.
    file: &'a Path,
    stem: String,
    workdir_is_filled: bool,
    sources: Sources<'a>,
    /// By the workdir as filled in.
    grounds: BTreeMap<PathBuf, Ground>,
}

impl<'a> Template<'a> {
    fn new(
        context: &'a Context,
        asked: &'a Asked,
        file: &'a Path,
        flags: &'a Flags,
        notes: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let sources = Sources::of(context, asked, flags, notes)?;
        let stem = asked.stem().unwrap_or_default();
        let workdir = asked.job.workdir.as_deref().and_then(Path::to_str);
        let workdir_is_filled = workdir.is_some_and(has_fields);
        Ok(Template { asked, file, stem, workdir_is_filled, sources, grounds: BTreeMap::new() })
    }

    fn line(
        &mut self,
        items: &Items,
        item: &Item,
        keys: &mut Keys,
        notes: &mut Vec<String>,
    ) -> Result<(JobSpec, Line), Failure> {
        let filling = Filling { list: &items.file, item, job_file: self.file };
        let job = filling.job(&self.asked.job).map_err(unusable)?;
        let number = item.number;
        let ground = match self.grounds.entry(self.asked.workdir(job.workdir.as_deref())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut said_by = self.asked.workdir_said_by.clone();
                if self.workdir_is_filled {
                    said_by = format!("{said_by}, filled by line {number} of {}", items.file.display());
                }
                let ground = self.sources.at(new.key(), &said_by, notes)?;
                new.insert(ground)
            }
        };
        let key = keys.key(self.file.file_name().unwrap_or_default(), &job, &ground.workdir);
        Ok((spec(job, ground, |_| name::numbered(&self.stem, number)), Line { number, key }))
    }
}

/// What of a job may be large.
fn weight(spec: &JobSpec) -> usize {
    let Policy { allow, ask, deny, .. } = &spec.policy;
    let rules = [allow, ask, deny].into_iter().flatten();
    let rules: usize = rules.map(|rule| size_of_val(rule) + rule.text.len() + rule.base.as_os_str().len()).sum();
    let hooks: usize = spec.hooks.iter().map(|hook| size_of_val(hook) + hook.command.len()).sum();
    let tool = |tool: &Declared| size_of_val(tool) + tool.description.len() + tool.schema.to_text().len();
    let tools: usize = spec.tools.iter().map(tool).sum();
    size_of_val(spec) + tools + hooks + spec.prompt.len() + spec.env.iter().map(String::len).sum::<usize>() + rules
}

#[cfg(test)]
mod tests;
