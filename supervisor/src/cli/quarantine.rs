//! `ukai quarantine`: what was put aside because it does not verify, and what a person decides about it.
//!
//! Clearing writes where a server would, so it is done under the lock and never beside one: a server has long decided
//! what to believe of a run, and would go on believing it.

use serde::Serialize;
use ukai_protocol::command::{command, quoted};
use ukai_protocol::id::JobId;

use super::context::Context;
use super::failure::Failure;
use super::{Output, offline, print, table};
use crate::store::lock::{Lock, LockError};
use crate::store::paths::StateDir;
use crate::store::quarantine::clear::{self, ClearError, Cleared};
use crate::store::quarantine::kept::{self, Kept};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List what lies in quarantine
    Ls,
    /// Go on without what does not verify; the bad files are kept
    Clear {
        /// Ids, names or unique beginnings of ids, of jobs; or routes.json
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

pub(crate) fn quarantine(context: &Context, args: Args) -> Result<u8, Failure> {
    match args.verb {
        None | Some(Verb::Ls) => ls(context),
        Some(Verb::Clear { names }) => clear(context, &names),
    }
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    file: &'a str,
    bytes: u64,
    moved_at: String,
    why: &'a str,
    refused: bool,
    cleared: bool,
}

fn ls(context: &Context) -> Result<u8, Failure> {
    let kept = kept::list(&context.state)?;
    let json = |kept: &Kept| {
        let Kept { name, file, bytes, why, cleared, refused, .. } = kept;
        let (bytes, cleared, refused) = (*bytes, *cleared, *refused);
        let row = Row { name, file, bytes, moved_at: moved_at(kept), why, refused, cleared };
        serde_json::to_string(&row).map_err(|error| Failure::failed(format!("writing {file} as JSON: {error}")))
    };
    let rows = || kept.iter().map(json).collect::<Result<Vec<_>, _>>();
    let text = match context.output {
        Output::Json => format!("[{}]\n", rows()?.join(",")),
        Output::StreamJson => rows()?.into_iter().map(|row| row + "\n").collect(),
        Output::Text if kept.is_empty() => {
            print::note("ukai: nothing lies in quarantine");
            String::new()
        }
        Output::Text => table(&kept),
    };
    print::out(&text);
    if let Some(first) = kept.iter().find(|kept| kept.refused).filter(|_| context.output == Output::Text) {
        print::note(&format!(
            "ukai: to go on from the last record that verifies, type: {}",
            command(&["quarantine", "clear", &first.name])
        ));
    }
    Ok(0)
}

fn moved_at(kept: &Kept) -> String {
    kept.moved_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn table(kept: &[Kept]) -> String {
    let mut rows = vec![["NAME", "FILE", "SINCE", "STATE", "WHY"].map(str::to_owned)];
    rows.extend(kept.iter().map(|kept| {
        let state = match (kept.cleared, kept.refused) {
            (true, _) => "cleared",
            (false, true) => "refused",
            (false, false) => "kept",
        };
        let why = print::brief(&kept.why, usize::MAX);
        [kept.name.clone(), kept.file.clone(), moved_at(kept), state.to_owned(), why]
    }));
    let text = table::columns(&rows);
    match print::columns() {
        Some(columns) => text.lines().map(|line| print::cut(line.to_owned(), columns) + "\n").collect(),
        None => text,
    }
}

/// What is to be cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Run(JobId),
    File(&'static str),
}

/// Files of no run that can be cleared; no other name may hold a dot.
const FILES: [&str; 2] = ["routes.json", "capabilities.json"];

fn clear(context: &Context, typed: &[String]) -> Result<u8, Failure> {
    let state = &context.state;
    if !state.root().exists() {
        return Err(Failure::usage(format!(
            "there is no state directory {}, and so nothing to clear",
            state.root().display()
        )));
    }
    // All are known before any is cleared.
    let names = typed.iter().map(|typed| name(state, typed)).collect::<Result<Vec<_>, _>>()?;
    let lock = Lock::take(state).map_err(|error| match error {
        LockError::InUse { state, holder } => Failure::usage(format!(
            "clearing {} in {}: a ukai server ({holder}) has it in use, and decided at its start what to believe; \
             stop it{}, clear, and start it again",
            typed.join(", "),
            state.display(),
            holder.0.map(|pid| format!(" (type: kill {pid})")).unwrap_or_default()
        )),
        other => other.into(),
    })?;
    state.create()?;
    for name in names {
        let (shown, cleared) = match &name {
            Name::Run(id) => (id.as_str(), clear::clear_run(state, id, &lock)),
            Name::File(file) => (*file, clear::clear_file(state, file, &lock)),
        };
        let cleared = cleared.map_err(|error| match error {
            ClearError::NotThere { .. } => Failure::usage(error),
            other => Failure::failed(other),
        })?;
        told(context, shown, &cleared);
    }
    Ok(0)
}

/// What a name means. One that could lead out of the quarantine is refused before it is looked for.
fn name(state: &StateDir, typed: &str) -> Result<Name, Failure> {
    if let Some(file) = FILES.into_iter().find(|file| *file == typed) {
        return Ok(Name::File(file));
    }
    if typed.contains(['/', '\\', '.']) || typed.is_empty() {
        return Err(Failure::usage(format!(
            "clearing `{typed}`: that is a path and no name; type the NAME that {} lists",
            quoted(&["quarantine"])
        )));
    }
    if let Ok(id) = typed.parse() {
        return Ok(Name::Run(id));
    }
    Ok(Name::Run(offline::job_meant(state, typed)?))
}

fn told(context: &Context, name: &str, Cleared { records, kept }: &Cleared) {
    let kept: Vec<_> = kept.iter().map(|path| path.display().to_string()).collect();
    let line = match context.output {
        Output::Json | Output::StreamJson => {
            serde_json::json!({ "name": name, "records": records, "kept": kept }).to_string()
        }
        Output::Text => {
            let goes_on = match records {
                None => "cleared".to_owned(),
                Some(0) => "begins anew, since no record of it verifies".to_owned(),
                Some(records) => format!("goes on from record {records} at the next start"),
            };
            let kept = if kept.is_empty() { String::new() } else { format!("; kept as {}", kept.join(", ")) };
            format!("{name} {goes_on}{kept}")
        }
    };
    print::out(&(line + "\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{Temp, id, run};

    #[test]
    fn a_name_is_a_name_and_never_a_path() {
        let temp = Temp::with(&run(1));
        let check = |typed: &str, expected: Result<Name, &str>| match (name(&temp.state, typed), expected) {
            (Ok(found), expected) => assert_eq!(Ok(found), expected, "{typed}"),
            (Err(failure), Err(part)) => assert!(failure.text.contains(part), "{typed}: {}", failure.text),
            (Err(failure), Ok(_)) => panic!("{typed}: {}", failure.text),
        };
        check(id(1).as_str(), Ok(Name::Run(id(1))));
        check("fix-a", Ok(Name::Run(id(1))));
        check("j-aa", Ok(Name::Run(id(1))));
        check("routes.json", Ok(Name::File("routes.json")));
        for path in ["..", "../routes.json", "/etc/passwd", "j-aaaaaaab/events.jsonl", "b-abcdefgh.json", ""] {
            check(path, Err("no name"));
        }
        check("nobody", Err("there is no job"));
    }
}
