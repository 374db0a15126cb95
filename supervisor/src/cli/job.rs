//! From what was typed and what files say to a [`JobSpec`] with everything resolved (spec §2, §8, §14).
//!
//! Order: defaults, `ukai.toml`, job file, flags; then files found in the workdir and the current folder, which only
//! narrow. All of it is read here, once: the job runs on what held when it was submitted.

mod disable;
pub(in crate::cli) mod ground;
mod hooks;
mod list;
mod masking;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ukai_protocol::command::quoted;
use ukai_protocol::event::Line;
use ukai_protocol::job::{ContextStrategy, JobSpec, Mode};

use self::ground::{Ground, Sources};
use self::masking::Masking;
use super::context::Context;
use super::failure::Failure;
use crate::config::fault::Format;
use crate::config::load;
use crate::each::fill::has_fields;
use crate::job_file::{self, JobFile, PRIORITY_DEFAULT, PRIORITY_MAX, PROMPT_BYTES_MAX, Written};

/// More lines on a terminal hide each other; ten thousand folders may each have something to say.
const NOTES_MAX: usize = 50;

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
    /// A settings.json with hooks, beside those of ukai.toml
    #[arg(long, value_name = "FILE")]
    pub hooks: Option<PathBuf>,
    /// 9 goes first, 0 last
    #[arg(long, value_name = "0-9")]
    pub priority: Option<u8>,
    /// Work in a git worktree of its own, on a branch of its own
    #[arg(long)]
    pub worktree: bool,
}

/// All jobs, or none: the first that is wrong is the failure. `notes` are for stderr, each once.
pub(crate) fn from_files(
    context: &Context,
    files: &[PathBuf],
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<Vec<JobSpec>, Failure> {
    check_one_name(files, flags)?;
    let masking = Masking::of(context);
    let spec = |file: &PathBuf, notes: &mut Vec<String>| {
        let asked = Asked::in_file(context, file, flags, Written::Out)?;
        if asked.job.prompt.as_deref().is_some_and(has_fields) {
            let file = file.display();
            notes.push(format!(
                "the prompt of {file} holds {{{{…}}}}, which is sent as it stands: only --each fills it"
            ));
        }
        asked.resolve(context, flags, &masking, notes)
    };
    let specs = files.iter().map(|file| spec(file, notes)).collect::<Result<_, _>>()?;
    tidy(notes);
    Ok(specs)
}

/// The same for a list that fills the job files: the jobs of the first file in the order of the lines, then those of the
/// next. Which line each is of goes with it.
pub(crate) fn from_list(
    context: &Context,
    files: &[PathBuf],
    each: &Path,
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<Vec<(JobSpec, Line)>, Failure> {
    check_one_name(files, flags)?;
    let specs = list::specs(context, files, each, flags, notes)?;
    tidy(notes);
    Ok(specs)
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
    let job = JobFile { prompt: Some(prompt), ..JobFile::default() };
    let asked = Asked::new(context, job, None, flags, Written::Out)?;
    let spec = asked.resolve(context, flags, &Masking::of(context), notes)?;
    tidy(notes);
    Ok(spec)
}

/// What would hold for a job with these flags and no file, whatever it is to do.
pub(crate) fn ground(context: &Context, flags: &Flags, notes: &mut Vec<String>) -> Result<Ground, Failure> {
    let asked = Asked::new(context, JobFile::default(), None, flags, Written::Out)?;
    let ground = Sources::of(context, &asked, flags, notes)?.at(
        &asked.workdir(flags.workdir.as_deref()),
        &asked.workdir_said_by,
        notes,
    )?;
    tidy(notes);
    Ok(ground)
}

fn check_one_name(files: &[PathBuf], flags: &Flags) -> Result<(), Failure> {
    if files.len() > 1 && flags.name.is_some() {
        return Err(Failure::usage("one --name for several jobs would hide which is which; name them in their files"));
    }
    Ok(())
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().lock().take(PROMPT_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("reading the prompt from stdin: {error}; send UTF-8 text")))?;
    Ok(text)
}

/// A job as it is asked for: what its file says, with the flags over it.
struct Asked {
    job: JobFile,
    file: Option<PathBuf>,
    /// Where a relative path of the file starts.
    folder: PathBuf,
    /// Where a relative `workdir` starts, and who said it.
    workdir_base: PathBuf,
    workdir_said_by: String,
}

impl Asked {
    fn in_file(context: &Context, file: &Path, flags: &Flags, written: Written) -> Result<Self, Failure> {
        let path = context.current_folder.join(file);
        let shown = file.display();
        let format = Format::of(&path).ok_or_else(|| {
            Failure::usage(format!(
                "reading the job {shown}: its name ends in none of .toml, .yaml, .yml, .json; rename it, or is this a prompt? {} and {} take one",
                quoted(&["run", "…"]),
                quoted(&["submit", "--prompt", "…"])
            ))
        })?;
        let text = load::read_text(&path)
            .map_err(|error| Failure::usage(format!("reading the job {shown}: {error}; name a file that exists")))?;
        let job = job_file::parse(&text, &path, format, written)
            .map_err(|fault| Failure::usage(format!("the job could not be used: {fault}")))?;
        if job.prompt.is_none() {
            return Err(Failure::usage(format!("the job {shown} has no `prompt`; say there what is to be done")));
        }
        Asked::new(context, job, Some(path), flags, written)
    }

    fn new(
        context: &Context,
        mut job: JobFile,
        file: Option<PathBuf>,
        flags: &Flags,
        written: Written,
    ) -> Result<Self, Failure> {
        let current = &*context.current_folder;
        // What a file names starts at the file, and what a flag names at the current folder.
        let folder = file.as_deref().and_then(Path::parent).unwrap_or(current).to_owned();
        let said_by_file = || format!("`workdir` of {}", file.as_deref().unwrap_or(&folder).display());
        let (workdir_base, workdir_said_by) = match (&flags.workdir, &job.workdir) {
            (Some(_), _) => (current.to_owned(), "--workdir".to_owned()),
            (None, Some(_)) => (folder.clone(), said_by_file()),
            (None, None) => (current.to_owned(), "the current folder".to_owned()),
        };
        if let Some(word) = &flags.mode {
            let bad = |(why, next): (String, String)| Failure::usage(format!("--mode: {why}; {next}"));
            job.mode = Some(job_file::mode(word).map_err(bad)?);
        }
        if let Some(name) = flags.name.as_deref().filter(|name| written.whole(name)) {
            job_file::check_name(name).map_err(|why| Failure::usage(format!("--name: {why}; choose another")))?;
        }
        if let Some(priority) = flags.priority.filter(|priority| *priority > PRIORITY_MAX) {
            let why = format!("--priority: {priority} is not from 0 to {PRIORITY_MAX}; 9 goes first");
            return Err(Failure::usage(why));
        }
        for limit in &flags.limit {
            job.limits.set(limit).map_err(|why| Failure::usage(format!("--limit: {why}")))?;
        }
        let Flags { workdir, provider, model, name, policy, priority, worktree, hooks, .. } = flags.clone();
        job.workdir = workdir.or(job.workdir);
        job.provider = provider.or(job.provider);
        job.model = model.or(job.model);
        job.name = name.or(job.name);
        job.policy = policy.map(|path| current.join(path)).or(job.policy);
        job.hooks = hooks.map(|path| current.join(path)).or(job.hooks);
        job.priority = priority.or(job.priority);
        job.worktree = worktree.then_some(true).or(job.worktree);
        Ok(Asked { job, file, folder, workdir_base, workdir_said_by })
    }

    fn workdir(&self, written: Option<&Path>) -> PathBuf {
        match written {
            Some(path) => self.workdir_base.join(expand_home(path)),
            None => self.workdir_base.clone(),
        }
    }

    fn stem(&self) -> Option<String> {
        self.file.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned())
    }

    fn resolve(
        self,
        context: &Context,
        flags: &Flags,
        masking: &Masking,
        notes: &mut Vec<String>,
    ) -> Result<JobSpec, Failure> {
        let sources = Sources::of(context, &self, flags, notes)?;
        let workdir = self.workdir(self.job.workdir.as_deref());
        let ground = sources.at(&workdir, &self.workdir_said_by, notes)?;
        let stem = self.stem().filter(|stem| job_file::check_name(stem).is_ok());
        let mut spec = spec(self.job, &ground, |prompt| stem.unwrap_or_else(|| masking.name_from(prompt)));
        masking.check(&mut spec, notes);
        Ok(spec)
    }
}

/// `unnamed` says what a job without a name is called, by its prompt.
fn spec(job: JobFile, ground: &Ground, unnamed: impl FnOnce(&str) -> String) -> JobSpec {
    let mode = job.mode.unwrap_or(Mode::Loop);
    // Whoever asks for a job has been asked for its prompt before.
    let prompt = job.prompt.unwrap_or_default();
    JobSpec {
        name: job.name.unwrap_or_else(|| unnamed(&prompt)),
        prompt,
        workdir: ground.workdir.clone(),
        env: job.env,
        mode,
        provider: job.provider,
        model: job.model,
        context: job.context.unwrap_or(ContextStrategy::KeepAll),
        window: job.window,
        priority: job.priority.unwrap_or(PRIORITY_DEFAULT),
        needs_tools: job.needs_tools.unwrap_or(mode == Mode::Loop),
        limits: ground.limits,
        worktree: job.worktree == Some(true),
        hooks: ground.hooks.clone(),
        tools: ground.tools.clone(),
        policy: ground.traced.policy.clone(),
        batch: None,
    }
}

fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), load::home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path.to_owned(),
    }
}

fn tidy(notes: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    if notes.len() > NOTES_MAX {
        let more = notes.len() - NOTES_MAX;
        notes.truncate(NOTES_MAX);
        notes.push(format!("and {more} more notes like these"));
    }
}

#[cfg(test)]
#[path = "job/tests.rs"]
mod tests;
