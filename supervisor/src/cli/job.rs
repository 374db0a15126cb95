//! From what was typed and what files say to a [`JobSpec`] with everything resolved (spec §2, §8, §14).
//!
//! Order: defaults, `ukai.toml`, job file, flags; then files found in the workdir and the current folder, which only
//! narrow. All of it is read here, once: the job runs on what held when it was submitted.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ukai_protocol::job::{ContextStrategy, JobSpec, Limits, Mode};
use ukai_protocol::policy::{Policy, Rule, split_rule};

use super::context::Context;
use super::failure::Failure;
use crate::config::fault::{Format, nearest};
use crate::config::limits::LimitSet;
use crate::config::load;
use crate::job_file::{self, JobFile, PRIORITY_DEFAULT, PRIORITY_MAX, PROMPT_BYTES_MAX};
use crate::policy_file;

/// The same as the keys of a job file, for this one job.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Flags {
    /// Allow what the rule matches (may be repeated)
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,
    /// Have what the rule matches asked
    #[arg(long, value_name = "RULE")]
    pub ask: Vec<String>,
    /// Deny what the rule matches, whatever allows it
    #[arg(long, value_name = "RULE")]
    pub deny: Vec<String>,
    /// Set a ceiling: steps, tool_calls, tokens, run_time, max_wall, max_cost_usd
    #[arg(long, value_name = "KEY=VALUE")]
    pub limit: Vec<String>,
    /// Where the job works [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Ask this provider and no other
    #[arg(long, value_name = "ID")]
    pub provider: Option<String>,
    /// Ask for this model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// once (no tools, one answer) or loop
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// What to call the job
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The tool policy that holds
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// 9 goes first, 0 last
    #[arg(long, value_name = "0-9")]
    pub priority: Option<u8>,
}

/// All jobs, or none: the first that is wrong is the failure. `notes` are for stderr, each once.
pub(crate) fn from_files(
    context: &Context,
    files: &[PathBuf],
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<Vec<JobSpec>, Failure> {
    if files.len() > 1 && flags.name.is_some() {
        return Err(Failure::usage("one --name for several jobs would hide which is which; name them in their files"));
    }
    let specs = files.iter().map(|file| from_file(context, file, flags, notes)).collect::<Result<Vec<_>, _>>()?;
    dedup(notes);
    Ok(specs)
}

fn from_file(context: &Context, file: &Path, flags: &Flags, notes: &mut Vec<String>) -> Result<JobSpec, Failure> {
    let path = context.current_folder.join(file);
    let shown = file.display();
    let format = Format::of(&path).ok_or_else(|| {
        Failure::usage(format!(
            "reading the job {shown}: its name ends in none of .toml, .yaml, .yml, .json; rename it"
        ))
    })?;
    let text = load::read_text(&path)
        .map_err(|error| Failure::usage(format!("reading the job {shown}: {error}; name a file that exists")))?;
    let job = job_file::parse(&text, &path, format)
        .map_err(|fault| Failure::usage(format!("the job could not be used: {fault}")))?;
    let Some(prompt) = job.prompt.clone() else {
        return Err(Failure::usage(format!("the job {shown} has no `prompt`; say there what is to be done")));
    };
    resolve(context, job, prompt, Some(&path), flags, notes)
}

/// `-` reads the prompt from stdin; nothing else reads that.
pub(crate) fn from_prompt(
    context: &Context,
    prompt: &str,
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<JobSpec, Failure> {
    let prompt = if prompt == "-" { stdin()? } else { prompt.to_owned() };
    job_file::check_prompt(&prompt)
        .map_err(|why| Failure::usage(format!("the prompt cannot be used: {why}; say what is to be done")))?;
    let spec = resolve(context, JobFile::default(), prompt, None, flags, notes)?;
    dedup(notes);
    Ok(spec)
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().lock().take(PROMPT_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("reading the prompt from stdin: {error}; send UTF-8 text")))?;
    Ok(text)
}

fn resolve(
    context: &Context,
    job: JobFile,
    prompt: String,
    file: Option<&Path>,
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<JobSpec, Failure> {
    let config = &context.loaded.config;
    let current = &*context.current_folder;
    // What a file names starts at the file.
    let folder = file.and_then(Path::parent).unwrap_or(current);
    let stem = file.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let (workdir, said_by) = match (&flags.workdir, &job.workdir) {
        (Some(flag), _) => (current.join(flag), "--workdir".to_owned()),
        (None, Some(key)) => {
            (folder.join(expand_home(key)), format!("`workdir` of {}", file.unwrap_or(folder).display()))
        }
        (None, None) => (current.to_owned(), "the current folder".to_owned()),
    };
    let workdir = readable_folder(&workdir, &said_by)?;
    let mode = match &flags.mode {
        Some(word) => job_file::mode(word).map_err(|(why, next)| Failure::usage(format!("--mode: {why}; {next}")))?,
        None => job.mode.unwrap_or(Mode::Loop),
    };
    let name = match (&flags.name, job.name) {
        (Some(name), _) => {
            job_file::check_name(name).map_err(|why| Failure::usage(format!("--name: {why}; choose another")))?;
            name.clone()
        }
        (None, Some(name)) => name,
        (None, None) => stem
            .filter(|stem| job_file::check_name(stem).is_ok())
            .unwrap_or_else(|| job_file::name_from_prompt(&prompt)),
    };
    let priority = flags.priority.or(job.priority).unwrap_or(PRIORITY_DEFAULT);
    if priority > PRIORITY_MAX {
        return Err(Failure::usage(format!("--priority: {priority} is not from 0 to {PRIORITY_MAX}; 9 goes first")));
    }

    let mut limits = Limits::default();
    config.limits.apply(&mut limits);
    job.limits.apply(&mut limits);
    flag_limits(&flags.limit)?.apply(&mut limits);

    let folders = [&*workdir, current];
    let named = flags.policy.as_ref().map(|path| current.join(path));
    let named = named.or_else(|| job.policy.map(|path| folder.join(expand_home(&path))));
    let (mut policy, in_force) = policy_file::load(named.as_deref(), notes);
    policy_file::narrow(&mut policy, &folders, in_force.as_deref(), notes);
    policy.disabled_tools.clone_from(&config.disabled_tools);
    for (file, narrowing) in load::found_in(&folders, config.file.as_deref())? {
        narrowing.limits.narrow(&mut limits);
        policy.disabled_tools.extend(narrowing.disabled_tools);
        if !narrowing.ignored.is_empty() {
            let ignored = narrowing.ignored.join(", ");
            notes.push(format!("{}: {ignored} ignored there; its [limits] and [tools] disable count", file.display()));
        }
    }
    policy.disabled_tools.sort();
    policy.disabled_tools.dedup();
    flag_rules(&mut policy, flags, current)?;

    let provider = flags.provider.clone().or(job.provider);
    check_provider_ids(context, provider.as_deref(), &policy)?;
    if limits.max_cost_usd.is_some() {
        notes.extend(unpriced(context, provider.as_deref()));
    }
    Ok(JobSpec {
        name,
        prompt,
        workdir,
        env: Vec::new(),
        mode,
        provider,
        model: flags.model.clone().or(job.model),
        context: job.context.unwrap_or(ContextStrategy::KeepAll),
        window: job.window,
        priority,
        needs_tools: job.needs_tools.unwrap_or(mode == Mode::Loop),
        limits,
        policy,
    })
}

fn readable_folder(path: &Path, said_by: &str) -> Result<PathBuf, Failure> {
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

fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), load::home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path.to_owned(),
    }
}

fn flag_limits(flags: &[String]) -> Result<LimitSet, Failure> {
    let mut set = LimitSet::default();
    for flag in flags {
        set.set(flag).map_err(|why| Failure::usage(format!("--limit: {why}")))?;
    }
    Ok(set)
}

fn flag_rules(policy: &mut Policy, flags: &Flags, base: &Path) -> Result<(), Failure> {
    let lists = [
        ("--allow", &flags.allow, &mut policy.allow),
        ("--ask", &flags.ask, &mut policy.ask),
        ("--deny", &flags.deny, &mut policy.deny),
    ];
    for (flag, texts, list) in lists {
        for text in texts {
            split_rule(text)
                .map_err(|why| Failure::usage(format!("{flag} '{text}': {why}; write for instance 'Read(docs/**)'")))?;
        }
        list.extend(texts.iter().map(|text| Rule::new(text, base)));
    }
    Ok(())
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

fn dedup(notes: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
}

#[cfg(test)]
#[path = "job/tests.rs"]
mod tests;
