//! `ukai demo --hands`: four jobs correct a module each of a small project, in worktrees; a fifth tries what it may not.
//!
//! Each edit is asked, and a client in this process answers in a person's place. What is told at the end is read back: from
//! the logs, from what git says, and from a job that runs the project's own tests on what was committed. The fifth job
//! is played by a script in any case, so that all of it is tried; canaries tell whether anything was reached. If any of it
//! is not as it should be, that is said, and the exit code is 1.

mod acts;
mod approver;
mod cast;
mod check;
mod evidence;
mod luck;
mod play;
mod project;
mod real;
mod story;
mod tell;

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use ukai_protocol::disk;
use ukai_protocol::id::JobId;
use ukai_protocol::secret::Secret;

use super::provider::Provider;
use super::{begins_empty, hosted, stopped};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::{offline, worktree};
use crate::pool::spawn;
use crate::settings::Settings;
use crate::worktree::record::{End, Record, Stage as WorktreeStage};
use acts::Log;
use luck::Luck;
use play::Played;
use project::MODULES;
use story::{Fix, Job, Story};

/// What is shorter may be a word.
const SECRET_BYTES_MIN: usize = 12;

/// What it is played on.
struct Stage<'a> {
    root: &'a Path,
    project: &'a Path,
    luck: &'a Luck,
    /// A real one, that corrects.
    provider: Option<&'a str>,
}

pub(super) async fn hands(mut context: Context, config: Option<&Path>, provider: Option<&str>) -> Result<u8, Failure> {
    begins_empty(&context, "it")?;
    let began = Timestamp::now();
    if let Some(id) = provider {
        context.loaded = real::configuration(&context, config, id)?;
    }
    let root = context.state.root();
    let found = disk::create_dir(root).and_then(|()| root.canonicalize());
    let root = found.map_err(|error| {
        Failure::usage(format!("making the demo's folder {}: {error}; name another --state-dir", root.display()))
    })?;
    let project = project::make(&root.join("project"))?;
    let luck = Luck::prepare(&root)?;
    let script = format!("{}{}", include_str!("hands/script.toml"), luck.script());
    let player = Provider::start(&root, "script", &script).await?;
    let settings = settings(&context, &player, &luck, provider)?;
    let keys = settings.providers.iter().filter_map(|provider| provider.key.clone());
    let secrets: Vec<Secret> = keys
        .chain(settings.notify.secrets.clone())
        .filter(|secret| secret.expose().len() >= SECRET_BYTES_MIN)
        .collect();
    let stage = Stage { root: &root, project: &project, luck: &luck, provider };
    let ended = hosted(settings, play::play(&context, &stage)).await?;
    drop(player);
    let Some((played, _)) = ended else { return Ok(stopped(&context)) };
    let story = read_back(&context, &stage, &played)?;
    let written = evidence::write(&context.state, began, &story, &secrets)?;
    Ok(tell::tell(&context, &story, &written))
}

/// The workers have a home that is thrown away, and each provider a key.
fn settings(context: &Context, player: &Provider, luck: &Luck, real: Option<&str>) -> Result<Settings, Failure> {
    let played = super::cast::settings(context, player)?;
    let mut settings = if real.is_some() { context.settings()? } else { Settings { providers: Vec::new(), ..played } };
    settings.providers.extend(cast::PLAYERS.iter().map(|(id, wire)| {
        let key = Some(spawn::new_token());
        crate::settings::Provider { key, ..super::cast::provider(id, *wire, player) }
    }));
    settings.max_workers = settings.max_workers.max(MODULES.len() + 1);
    settings.asks = true;
    settings.home = Some(luck.home.clone());
    // Nothing of it is worth a message; what must not be written is looked for all the same.
    settings.notify.discord = None;
    settings.notify.desktop = false;
    settings.notify.secrets = context.notify_setup().secrets;
    Ok(settings)
}

/// Everything that is told, as it lies on disk.
fn read_back(context: &Context, stage: &Stage<'_>, played: &Played) -> Result<Story, Failure> {
    let state = &context.state;
    let mut rows: HashMap<JobId, _> = offline::rows(state)?.into_iter().map(|row| (row.id.clone(), row)).collect();
    let mut job = |id: &JobId| -> Result<(Job, u32), Failure> {
        let row = rows.remove(id).ok_or_else(|| Failure::failed(format!("{id} was submitted, and is lost")))?;
        let Log { prompt, attempts, acts } = acts::read(state, id)?;
        Ok((Job { prompt, row, result: offline::result(state, id), acts }, attempts))
    };
    let (check, _) = job(&played.check)?;
    let mut fixes = Vec::with_capacity(MODULES.len());
    for (module, id) in MODULES.iter().zip(&played.fixes) {
        let (job, _) = job(id)?;
        let worktree = worktree::of(state, id);
        let diff = worktree.as_ref().ok_or_else(|| "it has no worktree".to_owned()).and_then(diff);
        fixes.push(Fix { module: *module, job, worktree, diff, tests: check::said(&check.acts, module.name) });
    }
    let (luck, attempts) = job(&played.luck)?;
    let refusals = stage.luck.refusals(&luck.acts, attempts == 1);
    let reached = stage.luck.reached(&luck.acts);
    Ok(Story { provider: stage.provider.map(str::to_owned), fixes, luck, refusals, reached, check })
}

/// What a job left on its branch.
fn diff(record: &Record) -> Result<String, String> {
    match &record.stage {
        WorktreeStage::Ended(End { trouble: Some(why), .. }) => Err(why.clone()),
        WorktreeStage::Ended(End { commit: Some(commit), .. }) => {
            project::diff(&record.repository, &record.base, commit)
        }
        _ => Err("nothing of it was committed".to_owned()),
    }
}
