//! Which tools the owner declared, and which folders are trusted.

use ukai_protocol::command::quoted;
use ukai_protocol::declared::Run;

use super::{Fact, bad, fact};
use crate::cli::context::Context;
use crate::cli::trust::standing;
use crate::config::load;
use crate::tools_file::read::{self, Text};
use crate::trust::kept::Kept;
use crate::trust::{Standing, Trust};

pub(super) fn facts(context: &Context) -> Vec<Fact> {
    declared().into_iter().chain(trusted(context)).collect()
}

fn declared() -> Vec<Fact> {
    const TOPIC: &str = "tools";
    let Some(folder) = load::config_dir().map(|folder| folder.join("tools")) else { return Vec::new() };
    let shown = folder.display().to_string();
    let mut notes = Vec::new();
    let tools =
        read::in_folder(&folder).and_then(|texts| read::together(&texts.iter().collect::<Vec<&Text>>(), &mut notes));
    let mut facts: Vec<Fact> = match tools {
        Ok(tools) if tools.is_empty() => vec![fact(TOPIC, "declared", "none", shown)],
        Ok(tools) => tools
            .into_iter()
            .map(|tool| {
                let how = match &tool.run {
                    Run::Command(command) => command.join(" "),
                    Run::Http(url) => url.clone(),
                };
                fact(TOPIC, tool.name, how, tool.file.display().to_string())
            })
            .collect(),
        Err(error) => vec![bad(TOPIC, "declared", format!("no job can be submitted: {error}"), shown)],
    };
    facts.extend(notes.into_iter().map(|note| bad(TOPIC, "declared", note, "")));
    facts
}

fn trusted(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "trust";
    let trust = Trust::of(&context.state);
    let file = context.state.trust().display().to_string();
    if let Some(why) = trust.broken() {
        return vec![bad(TOPIC, "folders", why, file)];
    }
    if trust.kept().is_empty() {
        return vec![fact(TOPIC, "folders", "none", quoted(&["trust", "DIR"]))];
    }
    let one = |kept: &Kept| {
        let (folder, now) = (kept.folder.display().to_string(), standing(&trust, kept));
        match trust.standing(&kept.folder) {
            Standing::Trusted(_) => fact(TOPIC, folder, now, kept.at.clone()),
            Standing::Changed(_) | Standing::Unknown => bad(TOPIC, folder, now, kept.at.clone()),
        }
    };
    trust.kept().iter().map(one).collect()
}
