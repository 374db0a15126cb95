//! `ukai demo --storm`: twenty jobs, two providers that want to be left alone, and nobody who asks them meanwhile.
//!
//! The first answers everybody with 429 and "in 30 s": its breaker opens at the third, and the jobs go on at the second.
//! That one serves for a while, then it answers with "in 120 s" and is OPEN at once. Nobody is left to ask, so what runs
//! ends with its state saved, and what is queued stays queued.
//!
//! What is told at the end is read back: from the providers' own records of who came when, and from the state directory
//! after the supervisor has gone. If any of it is not as it should be, that is said, and the exit code is 1.

mod arrivals;
mod calm;
mod logs;
mod tell;
mod verdict;
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;
use ukai_protocol::job::JobSpec;
use ukai_protocol::lease::Wire;

use super::provider::Provider;
use super::{begins_empty, cast, hosted, stopped};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::{offline, providers};
use crate::config::load;
use arrivals::Visits;
use logs::Logs;
use verdict::Story;
use watch::Watched;

/// Plain words, so that a person can look for them too.
const WORDS: [&str; 20] = [
    "TODO", "error", "test", "http", "return", "import", "license", "version", "name", "file", "data", "type", "value",
    "key", "list", "open", "read", "write", "time", "user",
];
const WORKERS: usize = 8;

/// The candidates in their order.
const FIRST: (&str, Wire) = ("first", Wire::Openai);
const SECOND: (&str, Wire) = ("second", Wire::Anthropic);

/// `resume`: with what follows when the providers are well again.
pub(super) async fn storm(mut context: Context, folder: &Path, resume: bool) -> Result<u8, Failure> {
    let root = context.state.root().to_owned();
    begins_empty(&context, "the storm")?;
    let first = Provider::start(&root, FIRST.0, include_str!("storm/first.toml")).await?;
    let second = Provider::start(&root, SECOND.0, include_str!("storm/second.toml")).await?;
    let records = [(FIRST.0, first.record.clone()), (SECOND.0, second.record.clone())];
    let config = configure(&root, &first, &second)?;
    // The file that the reader is told of afterwards is the one that was in force.
    context.loaded = load::load(Some(&config))?;
    let jobs: Vec<JobSpec> = WORDS.iter().map(|word| cast::survey(folder, word, None)).collect();
    let prompts: HashMap<String, String> = jobs.iter().map(|job| (job.prompt.clone(), job.name.clone())).collect();
    let watched = hosted(context.settings()?, watch::watch(&context, jobs)).await?;
    // Their records are whole when they have ended.
    drop((first, second));
    let Some((watched, untold)) = watched else { return Ok(stopped(&context)) };
    let story = read_back(&context, watched, &records, &prompts)?;
    let code = tell::tell(&context, &config, &story, &untold);
    if !resume || code != 0 {
        return Ok(code);
    }
    calm::calm(context, &records.map(|(_, record)| record)).await
}

fn configure(root: &Path, first: &Provider, second: &Provider) -> Result<PathBuf, Failure> {
    let mut text = format!("# What the storm of the demo ran with.\nmax_workers = {WORKERS}\n");
    for ((id, wire), provider) in [(FIRST, first), (SECOND, second)] {
        let (wire_name, url) = (if wire == Wire::Openai { "openai" } else { "anthropic" }, provider.base_url(wire));
        text.push_str(&format!(
            "\n[[provider]]\nid = \"{id}\"\nwire = \"{wire_name}\"\nbase_url = \"{url}\"\nmodel = \"script\"\n\
             context_window = 1_000_000\nmax_output = 4_096\n"
        ));
    }
    let path = root.join("ukai.toml");
    let failed = |error| Failure::failed(format!("writing the demo's configuration {}: {error}", path.display()));
    disk::write_atomic(&path, text.as_bytes()).map_err(failed)?;
    Ok(path)
}

/// Everything that is told, as it lies on disk.
fn read_back(
    context: &Context,
    watched: Watched,
    records: &[(&'static str, PathBuf)],
    prompts: &HashMap<String, String>,
) -> Result<Story, Failure> {
    let rows = offline::rows(&context.state)?;
    let logs = Logs::read(&context.state, &rows)?;
    let visits = records.iter().map(|(provider, record)| Visits::read(provider, record, prompts, &logs));
    let visits = visits.collect::<Result<Vec<_>, _>>()?;
    Ok(Story { watched, visits, rows, providers: providers::remembered(context)? })
}
