//! What holds for a job in the folder where it works: the ceilings and rules of its sources, narrowed by the files found
//! there (spec §8).
//!
//! In two steps, since the lines of a list may work in many folders: what does not depend on the folder is read once.

use std::io;
use std::path::{Path, PathBuf};

use ukai_protocol::declared::Declared;
use ukai_protocol::hook::Hook;
use ukai_protocol::job::Limits;
use ukai_protocol::policy::{Policy, Rule};

use super::hooks::Hooks;
use super::{Asked, Flags, disable, expand_home};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::config::fault::nearest;
use crate::config::load::{self, LoadError};
use crate::hooks_file;
use crate::policy_file::origin::Origin;
use crate::policy_file::{self, Traced};
use crate::tools_file::read::{self, Text};
use crate::trust::shipped::WIDENING;
use crate::trust::{self, Folders, Standing, Trust};
use crate::worktree;

pub(crate) struct Ground {
    /// Real, and readable.
    pub workdir: PathBuf,
    pub limits: Limits,
    pub traced: Traced,
    pub hooks: Vec<Hook>,
    /// Declared by the owner, sorted by name.
    pub tools: Vec<Declared>,
    /// Folders whose files a job comes upon, and how they stand.
    pub folders: Folders,
}

/// The sources of one job file, before any folder narrows them.
pub(super) struct Sources<'a> {
    context: &'a Context,
    flags: &'a Flags,
    provider: Option<String>,
    worktree: bool,
    limits: Limits,
    traced: Traced,
    hooks: Hooks,
    trust: Trust,
    /// The files of the owner's own tools.
    tools: Vec<Text>,
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
        let hooks = Hooks::of(&config.hooks, asked, notes)?;
        let trust = Trust::of(&context.state);
        if let Some(why) = trust.broken() {
            notes.push(why.to_owned());
        }
        let folder = load::config_dir().map(|folder| folder.join("tools"));
        let tools = folder.as_deref().map_or_else(|| Ok(Vec::new()), read::in_folder).map_err(Failure::usage)?;
        Ok(Sources { context, flags, provider, worktree, limits, traced, trust, tools, hooks })
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
        let folders = Folders::of(&self.trust, &[&workdir, current]);
        policy_file::narrow(&mut traced, &folders, notes);
        let tools = self.tools_at(&workdir, &folders, notes)?;
        let mut hooks = self.hooks.at(&workdir, folders.standing(&workdir))?;
        let in_force = self.context.loaded.config.file.as_deref();
        let disabled = &mut traced.policy.disabled_tools;
        disable::check(in_force, disabled.iter(), &tools).map_err(Failure::usage)?;
        for (file, narrowing) in load::found_in(&folders.paths(), in_force)? {
            narrowing.limits.narrow(&mut limits);
            // Of a folder that is not trusted nobody knows the tools, and they are off anyway.
            let is_trusted = folders.trusted(&file).is_some();
            if let Some(text) = folders.trusted(&file) {
                hooks.extend(hooks_file::of_toml(text, &file).map_err(LoadError::from)?);
            }
            let names = narrowing.disabled_tools.iter().filter(|name| is_trusted || !disable::may_be_declared(name));
            disable::check(Some(&file), names, &tools).map_err(Failure::usage)?;
            disabled.extend(narrowing.disabled_tools);
            let (widening, ignored): (Vec<String>, Vec<String>) =
                narrowing.ignored.into_iter().partition(|key| WIDENING.contains(&&**key));
            if !widening.is_empty() && !is_trusted {
                notes.push(folders.ignored(&file, &widening.join(", ")));
            }
            if !ignored.is_empty() {
                let ignored = ignored.join(", ");
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
        Ok(Ground { workdir, limits, traced, hooks, tools, folders })
    }

    /// The owner's own, then those of the workdir where it is trusted.
    fn tools_at(&self, workdir: &Path, folders: &Folders, notes: &mut Vec<String>) -> Result<Vec<Declared>, Failure> {
        let standing = folders.standing(workdir);
        let shipped = match standing {
            Standing::Trusted(look) => look.tools(),
            Standing::Unknown | Standing::Changed(_) => {
                let place = workdir.join(trust::TOOLS);
                // What cannot be looked into holds nothing that would count.
                let ships = std::fs::read_dir(&place).is_ok_and(|entries| {
                    entries.flatten().take(read::TOOLS_MAX).any(|entry| read::is_tool(&entry.path()))
                });
                if ships {
                    notes.push(trust::ignored(&place, "declared tools are", workdir, standing));
                }
                Vec::new()
            }
        };
        let texts: Vec<&Text> = self.tools.iter().chain(&shipped).collect();
        read::together(&texts, notes).map_err(Failure::usage)
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
