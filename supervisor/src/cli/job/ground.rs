//! What holds for a job in the folder where it works: the ceilings and rules of its sources, narrowed by the files found
//! there (spec §8).
//!
//! In two steps, since the lines of a list may work in many folders: what does not depend on the folder is read once.

use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::job::Limits;
use ukai_protocol::policy::{Policy, Rule};

use super::{Asked, Flags, expand_home};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::config::fault::nearest;
use crate::config::load;
use crate::policy_file::origin::Origin;
use crate::policy_file::{self, Traced};
use crate::worktree;

pub(crate) struct Ground {
    /// Real, and readable.
    pub workdir: PathBuf,
    pub limits: Limits,
    pub traced: Traced,
}

/// The sources of one job file, before any folder narrows them.
pub(super) struct Sources<'a> {
    context: &'a Context,
    flags: &'a Flags,
    provider: Option<String>,
    worktree: bool,
    limits: Limits,
    traced: Traced,
}

impl<'a> Sources<'a> {
    pub(super) fn of(
        context: &'a Context,
        asked: &Asked,
        flags: &'a Flags,
        notes: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let config = &context.loaded.config;
        let mut limits = Limits::default();
        config.limits.apply(&mut limits);
        asked.job.limits.apply(&mut limits);
        let named = asked.job.policy.as_ref().map(|path| asked.folder.join(expand_home(path)));
        let mut traced = policy_file::load(named.as_deref(), notes);
        traced.policy.disabled_tools.clone_from(&config.disabled_tools);
        let provider = asked.job.provider.clone();
        check_provider_ids(context, provider.as_deref(), &traced.policy)?;
        let worktree = asked.job.worktree == Some(true);
        Ok(Sources { context, flags, provider, worktree, limits, traced })
    }

    /// `said_by`: who named the folder.
    pub(super) fn at(&self, workdir: &Path, said_by: &str, notes: &mut Vec<String>) -> Result<Ground, Failure> {
        let workdir = readable_folder(workdir, said_by)?;
        if self.worktree {
            worktree::check(&workdir)
                .map_err(|why| Failure::usage(format!("the job cannot have a worktree of its own: {why}")))?;
        }
        let (mut limits, mut traced) = (self.limits, self.traced.clone());
        let current = &*self.context.current_folder;
        let folders = [&*workdir, current];
        policy_file::narrow(&mut traced, &folders, notes);
        let disabled = &mut traced.policy.disabled_tools;
        for (file, narrowing) in load::found_in(&folders, self.context.loaded.config.file.as_deref())? {
            narrowing.limits.narrow(&mut limits);
            disabled.extend(narrowing.disabled_tools);
            if !narrowing.ignored.is_empty() {
                let ignored = narrowing.ignored.join(", ");
                notes.push(format!(
                    "{}: {ignored} ignored there; its [limits] and [tools] disable count",
                    file.display()
                ));
            }
        }
        disabled.sort();
        disabled.dedup();
        flag_rules(&mut traced, self.flags, current);
        if limits.max_cost_usd.is_some() {
            notes.extend(unpriced(self.context, self.provider.as_deref()));
        }
        Ok(Ground { workdir, limits, traced })
    }
}

pub(crate) fn readable_folder(path: &Path, said_by: &str) -> Result<PathBuf, Failure> {
    let fault = |error: io::Error| {
        Failure::usage(format!(
            "the workdir {} ({said_by}) cannot be used: {error}; name a folder that you can read",
            path.display()
        ))
    };
    let real = path.canonicalize().map_err(fault)?;
    std::fs::read_dir(&real).map_err(fault)?;
    Ok(real)
}

/// They have been read by who judges by them (`policy::check_flags`).
fn flag_rules(traced: &mut Traced, flags: &Flags, base: &Path) {
    let Traced { policy, origins, .. } = traced;
    let lists = [
        ("--allow", &flags.allow, &mut policy.allow, &mut origins.allow),
        ("--ask", &flags.ask, &mut policy.ask, &mut origins.ask),
        ("--deny", &flags.deny, &mut policy.deny, &mut origins.deny),
    ];
    for (flag, texts, list, by) in lists {
        list.extend(texts.iter().map(|text| Rule::new(text, base)));
        by.extend(texts.iter().map(|_| Origin { said_by: flag.to_owned(), line: None }));
    }
}

/// An id that nothing provides would only be noticed when the job runs.
fn check_provider_ids(context: &Context, pinned: Option<&str>, policy: &Policy) -> Result<(), Failure> {
    let known = context.loaded.config.provider_ids();
    let pinned = pinned.map(|id| ("the provider", id));
    let priority =
        policy.provider_priority.iter().map(|id| ("provider_priority of the tool policy: the provider", &**id));
    for (what, id) in pinned.into_iter().chain(priority) {
        if !known.contains(&id) {
            let next = match nearest(id, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            return Err(Failure::usage(format!("{what} `{id}` is not configured; {next}")));
        }
    }
    Ok(())
}

/// A ceiling that somebody relies on and that nothing holds is said, wherever it was set.
fn unpriced(context: &Context, pinned: Option<&str>) -> Vec<String> {
    let config = &context.loaded.config;
    let unpriced = config.providers.iter().filter(|provider| provider.prices.is_none());
    let ids: Vec<&str> = match config.providers.is_empty() {
        // Presets carry no prices.
        true => config.provider_ids(),
        false => unpriced.map(|provider| &*provider.id).collect(),
    };
    let asked = ids.into_iter().filter(|id| pinned.is_none_or(|pinned| pinned == *id));
    asked
        .map(|id| {
            format!("max_cost_usd does not bind at provider `{id}`: its [[provider]] has no price_in and price_out")
        })
        .collect()
}
