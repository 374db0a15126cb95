//! A list that becomes jobs (spec §2, Batches): each line of it fills the fields of one job file.
//!
//! Nothing here touches a disk. A line either becomes a job that a file could have said as well, or a [`Fault`] that
//! names the line: the checks of a job file hold again after filling, since a value can break what a template kept.

#![deny(clippy::disallowed_methods)]

pub mod items;

mod csv;
mod jsonl;

pub mod fill;
pub mod name;

pub mod identity;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::fill::{Unfilled, fields};
use self::items::{FIELD_CHARS_MAX, Item};
use crate::config::fault::{Fault, nearest};
use crate::job_file::{self, JobFile, PROMPT_BYTES_MAX, env};

/// Longer ones name no folder on Linux (`PATH_MAX`).
const WORKDIR_BYTES_MAX: usize = 4096;
/// A template that wants a field beside hundreds is not helped by reading them all.
const FIELDS_SHOWN_MAX: usize = 20;

/// One line of a list for one job file; what is wrong is told under both names.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    pub list: &'a Path,
    pub item: &'a Item,
    /// As typed.
    pub job_file: &'a Path,
}

/// The fields that the job asks its list for.
#[must_use]
pub fn fields_used(job: &JobFile) -> BTreeSet<&str> {
    let texts = [job.prompt.as_deref(), job.name.as_deref(), job.workdir.as_deref().and_then(Path::to_str)];
    let texts = texts.into_iter().flatten().chain(job.env.iter().map(String::as_str));
    texts.flat_map(fields).collect()
}

impl Filling<'_> {
    /// The job that this line makes of `template`.
    pub fn job(self, template: &JobFile) -> Result<JobFile, Fault> {
        let mut job = template.clone();
        if let Some(text) = &template.prompt {
            let prompt = self.filled("prompt", text, PROMPT_BYTES_MAX)?;
            job_file::check_prompt(&prompt).map_err(|why| self.bad("prompt", &why))?;
            job.prompt = Some(prompt);
        }
        if let Some(text) = &template.name {
            // What is cut off need not fit; what is kept does.
            let name = self.filled("name", text, PROMPT_BYTES_MAX)?;
            job.name = Some(name::made_of(&name).map_err(|why| self.bad("name", &why))?);
        }
        // A path that is no text has no fields.
        if let Some(text) = template.workdir.as_deref().and_then(Path::to_str) {
            let workdir = self.filled("workdir", text, WORKDIR_BYTES_MAX)?;
            if workdir.trim().is_empty() {
                // It would mean the folder of the job file, which nobody named.
                return Err(self.bad("workdir", "it is empty"));
            }
            job.workdir = Some(PathBuf::from(workdir));
        }
        for (entry, text) in job.env.iter_mut().zip(&template.env) {
            *entry = self.filled("env", text, env::ENV_BYTES_MAX)?;
        }
        env::check(&job.env).map_err(|(why, _)| self.bad("env", &why))?;
        Ok(job)
    }

    fn filled(self, key: &str, template: &str, bytes_max: usize) -> Result<String, Fault> {
        fill::fill(template, &self.item.fields, bytes_max).map_err(|why| match why {
            Unfilled::NoField(field) => self.no_field(key, field),
            Unfilled::TooLong => self.bad(key, &format!("it is longer than {bytes_max} bytes")),
        })
    }

    fn no_field(self, key: &str, field: &str) -> Fault {
        let known = || self.item.fields.keys().map(String::as_str);
        // Likeness costs the product of the lengths, and a long text is like no name.
        let like = (field.len() <= FIELD_CHARS_MAX).then(|| nearest(field, known())).flatten();
        let next = match like {
            Some(near) => format!("did you mean {{{{{near}}}}}?"),
            None => {
                let shown: Vec<_> = known().take(FIELDS_SHOWN_MAX).collect();
                let more = if shown.len() < known().count() { ", …" } else { "" };
                format!("its fields are: {}{more}", shown.join(", "))
            }
        };
        let field: String = field.chars().take(FIELD_CHARS_MAX).collect();
        let why = format!("it has no field {{{{{field}}}}}, which `{key}` of {} asks for", self.job_file.display());
        self.fault(why, next)
    }

    fn bad(self, key: &str, why: &str) -> Fault {
        let why = format!("filled into `{key}` of {}: {why}", self.job_file.display());
        self.fault(why, "correct the line, or take it out".to_owned())
    }

    fn fault(self, why: String, next: String) -> Fault {
        // A list that fits into memory has no more lines than that.
        let line = usize::try_from(self.item.number).ok();
        Fault { file: self.list.to_owned(), line, key: None, why, next }
    }
}

#[cfg(test)]
mod tests;
