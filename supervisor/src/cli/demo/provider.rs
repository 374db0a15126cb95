//! A scripted provider of the demo: `ukai-worker script serve`, which ends when this process does.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use ukai_protocol::lease::Wire;
use ukai_protocol::process::{self, Start};
use ukai_protocol::{disk, process_tree};

use crate::cli::context::worker_program;
use crate::cli::failure::Failure;

/// `listening on http://127.0.0.1:65535` and a newline, with room.
const LINE_BYTES_MAX: u64 = 200;

pub(super) struct Provider {
    child: Child,
    /// It ends when this closes, also when we are killed.
    _stdin: ChildStdin,
    url: String,
    /// Where it writes down every request.
    pub record: PathBuf,
}

impl Provider {
    /// Starts it and learns where it listens. The script lies in `folder`, to be looked at and played again; beside it,
    /// the record of who came when.
    pub async fn start(folder: &Path, name: &'static str, script: &str) -> Result<Self, Failure> {
        let (folder, script) = (folder.to_owned(), script.to_owned());
        let started = tokio::task::spawn_blocking(move || start(&folder, name, &script)).await;
        started.map_err(|error| Failure::failed(format!("starting the demo's provider: {error}")))?
    }

    pub fn base_url(&self, wire: Wire) -> String {
        match wire {
            Wire::Openai => format!("{}/v1", self.url),
            Wire::Anthropic | Wire::Gemini => self.url.clone(),
        }
    }
}

fn start(folder: &Path, name: &str, rules: &str) -> Result<Provider, Failure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Failure::failed(format!("starting the demo's provider: {what}: {error}"))
    };
    disk::create_dir(folder).map_err(failed("making its folder"))?;
    let script = folder.join(format!("{name}.toml"));
    let record = folder.join(format!("{name}.arrivals.jsonl"));
    disk::write_atomic(&script, rules.as_bytes()).map_err(failed("writing its script"))?;
    let mut child = process::start(Start {
        program: worker_program()?,
        args: ["script", "serve", "--until-stdin-closes", "--record"]
            .map(Into::into)
            .into_iter()
            .chain([record.clone().into(), script.into()])
            .collect(),
        env: process::own_environment(),
        workdir: None,
        stdin: process::Stdin::Open,
        stdout: Stdio::piped(),
        stderr: Stdio::inherit(),
    })
    .map_err(failed("its process"))?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::failed("starting the demo's provider: it has no pipes"));
    };
    let mut line = String::new();
    BufReader::new(stdout.take(LINE_BYTES_MAX)).read_line(&mut line).map_err(failed("reading where it listens"))?;
    match line.trim().strip_prefix("listening on ") {
        Some(url) => Ok(Provider { child, _stdin: stdin, url: url.to_owned(), record }),
        None => Err(Failure::failed(format!("starting the demo's provider: it said {line:?}; see its words above"))),
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Some(mark) = process::mark(self.child.id())
            && let Err(error) = process_tree::end(&mark, std::time::Duration::ZERO)
        {
            tracing::warn!(%error, "the demo's provider did not end");
        }
        // Reaped, so that nothing of it is left.
        if let Err(error) = self.child.wait() {
            tracing::warn!(%error, "the demo's provider was not reaped");
        }
    }
}
