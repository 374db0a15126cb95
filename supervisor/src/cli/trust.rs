//! `ukai trust DIR`: a person looks at what a folder ships and says that it may count.
//!
//! What was shown is what is kept: the hash is of the same look. Where nobody can be asked, the hash is the answer, so that a
//! script says yes to what somebody has seen and to nothing else.

use std::path::{Path, PathBuf};

use serde_json::json;
use ukai_protocol::command::{command, quoted};

use super::confirm::{self, Answer};
use super::context::Context;
use super::failure::Failure;
use super::{Output, print, table};
use crate::config::load;
use crate::trust::kept::{self, Kept};
use crate::trust::look::Look;
use crate::trust::shipped::{self, Item};
use crate::trust::{Standing, Trust, real};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder whose allow rules, hooks, tools, providers and MCP servers are to count for jobs that work in it
    #[arg(value_name = "DIR", required_unless_present_any = ["list", "revoke"])]
    folder: Option<PathBuf>,
    /// Say yes without being asked, to exactly what has this hash
    #[arg(long, value_name = "HASH", requires = "folder")]
    yes: Option<String>,
    /// List what is trusted, and whether it still is what it was
    #[arg(long, conflicts_with_all = ["folder", "revoke"])]
    list: bool,
    /// Take it back
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    revoke: Option<PathBuf>,
}

pub(crate) fn trust(context: &Context, args: &Args) -> Result<u8, Failure> {
    match (&args.folder, &args.revoke) {
        (Some(folder), _) => say_yes(context, folder, args.yes.as_deref()),
        (None, Some(folder)) => revoke(context, folder),
        (None, None) => list(context),
    }
}

fn say_yes(context: &Context, folder: &Path, yes: Option<&str>) -> Result<u8, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(format!("trusting {}: {error}", folder.display()));
    let folder_real = real(&context.current_folder.join(folder)).map_err(|error| usage(&error))?;
    let Some(shown) = folder_real.to_str() else {
        return Err(usage(&"its path is not UTF-8; rename it"));
    };
    let look = Look::at(&folder_real).map_err(|error| usage(&error))?;
    let hash = look.hash();
    if look.is_empty() {
        let why = "it ships nothing that would have to be trusted: no ukai.toml, tool_policy.yaml, .ukai/ or .claude/settings.json";
        return Err(usage(&why));
    }
    show(context, shown, &hash, &shipped::items(&look, load::home().as_deref()));
    match yes {
        Some(typed) if typed == hash => {}
        Some(_) => return Err(usage(&format!("the hash that was typed is not that of what is there now, {hash}"))),
        None => match confirm::confirm("Let all of this count for jobs that work there?")? {
            Answer::Yes => {}
            Answer::No => return Err(Failure::usage("nothing was changed")),
            Answer::NobodyToAsk => {
                return Err(Failure::usage(format!(
                    "nobody can be asked here, and nothing was changed; to say yes to what is shown, type: {}",
                    command(&["trust", shown, "--yes", &hash])
                )));
            }
        },
    }
    context.state.create()?;
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    kept::change(&context.state, |folders| {
        folders.retain(|kept| kept.folder != folder_real);
        folders.push(Kept { folder: folder_real.clone(), hash: hash.clone(), at });
    })
    .map_err(Failure::failed)?;
    print::note(&format!("ukai: {shown} is trusted as it is; {} takes it back", quoted(&["trust", "--revoke", shown])));
    Ok(0)
}

fn show(context: &Context, folder: &str, hash: &str, items: &[Item]) {
    let text =
        match context.output {
            Output::Text => {
                let mut rows = vec![["WHERE", "WHAT", ""].map(str::to_owned)];
                rows.extend(items.iter().map(|Item { place, kind, what }| {
                    [place.clone(), (*kind).to_owned(), print::brief(what, usize::MAX)]
                }));
                format!("{folder} ships:\n{}hash {hash}\n", table::columns(&rows))
            }
            Output::Json | Output::StreamJson => {
                let items =
                    items.iter().map(|Item { place, kind, what }| json!({"place": place, "kind": kind, "what": what}));
                format!("{}\n", json!({"folder": folder, "hash": hash, "ships": items.collect::<Vec<_>>()}))
            }
        };
    print::out(&text);
}

fn revoke(context: &Context, folder: &Path) -> Result<u8, Failure> {
    // One that is gone can be taken back, too.
    let named = context.current_folder.join(folder);
    let named = named.canonicalize().unwrap_or(named);
    if !context.state.root().exists() {
        return Err(Failure::usage("nothing is trusted"));
    }
    context.state.create()?;
    let changed = kept::change(&context.state, |folders| folders.retain(|kept| kept.folder != named));
    match changed.map_err(Failure::failed)? {
        true => {
            print::note(&format!("ukai: {} is no longer trusted", named.display()));
            Ok(0)
        }
        false => Err(Failure::usage(format!(
            "{} is not trusted, so nothing was taken back; see {}",
            named.display(),
            quoted(&["trust", "--list"])
        ))),
    }
}

fn list(context: &Context) -> Result<u8, Failure> {
    let trust = Trust::of(&context.state);
    if let Some(why) = trust.broken() {
        return Err(Failure::failed(why));
    }
    let rows: Vec<(&Kept, String)> = trust.kept().iter().map(|kept| (kept, standing(&trust, kept))).collect();
    let text = match context.output {
        Output::Text if rows.is_empty() => {
            print::note("ukai: no folder is trusted");
            String::new()
        }
        Output::Text => {
            let mut shown = vec![["FOLDER", "SINCE", "NOW"].map(str::to_owned)];
            shown.extend(rows.iter().map(|(kept, now)| {
                [kept.folder.display().to_string(), kept.at.clone(), print::brief(now, usize::MAX)]
            }));
            table::columns(&shown)
        }
        Output::Json | Output::StreamJson => rows
            .iter()
            .map(|(kept, now)| {
                format!("{}\n", json!({"folder": kept.folder, "hash": kept.hash, "at": kept.at, "now": now}))
            })
            .collect(),
    };
    print::out(&text);
    Ok(0)
}

pub(super) fn standing(trust: &Trust, kept: &Kept) -> String {
    match trust.standing(&kept.folder) {
        Standing::Trusted(_) => "as it was".to_owned(),
        Standing::Changed(why) => format!("does not count: {why}"),
        Standing::Unknown => "does not count: it is not there".to_owned(),
    }
}
