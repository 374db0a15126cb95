//! `artifacts/KIND/<ISO8601>/`: evidence, for whoever does not want to believe a verdict. Here that of probes of providers:
//! what each saw.
//!
//! One file for each provider with the requests as they were sent (without their headers, and so without the key), what
//! came, and what was seen in it, in order; and `checklist.md`. A line of that is ticked by its observation and by
//! nothing else, and it says "complete" only when each is. It is written last: where it stands, all stands.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;
use ukai_protocol::disk;
use ukai_protocol::lease::Wire;
use ukai_protocol::probe::{Observation, ProbeAnswer, ProbeRequest, Seen};
use ukai_protocol::secret::Secret;

use super::error::StoreError;
use super::paths::StateDir;

/// Of one kind within one millisecond; nobody types that fast.
const SAME_INSTANT_MAX: u32 = 9;
/// Of what is shown in a line of the checklist; all of it stands in the provider's file.
const SHOWN_CHARS_MAX: usize = 120;

/// One provider, and what came of probing it.
pub struct ProbedProvider {
    pub id: String,
    pub model: String,
    pub wire: Wire,
    url: String,
    /// To be kept out of everything that is written.
    key: Option<Secret>,
    outcome: Result<ProbeAnswer, String>,
}

impl ProbedProvider {
    /// `outcome`: an error is that of the probe itself, so that nothing was seen.
    #[must_use]
    pub fn new(request: &ProbeRequest, outcome: Result<ProbeAnswer, impl std::fmt::Display>) -> Self {
        let grant = &request.grant;
        ProbedProvider {
            id: grant.provider.clone(),
            model: grant.model.clone(),
            wire: grant.wire,
            // What follows may hold a key too.
            url: grant.url.split('?').next().unwrap_or_default().to_owned(),
            key: grant.key.clone(),
            outcome: outcome.map_err(|error| error.to_string()),
        }
    }

    fn observations(&self) -> &[Observation] {
        self.outcome.as_ref().map_or(&[], |answer| &answer.observations)
    }

    fn find<T>(&self, look: impl FnMut(&Seen) -> Option<T>) -> Option<T> {
        self.observations().iter().map(|observation| &observation.seen).find_map(look)
    }

    fn without_key(&self, text: String) -> String {
        let key = self.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty());
        let Some(key) = key else { return text };
        // As it is, and as JSON may write it.
        [key.to_owned(), key.replace('/', "\\/")].iter().fold(text, |text, key| text.replace(key, "[key]"))
    }
}

/// Writes the evidence of one probe and says in which folder it is.
pub fn write_probe(state: &StateDir, at: Timestamp, probed: &[ProbedProvider]) -> Result<PathBuf, StoreError> {
    let folder = new_folder(state, "probe", at)?;
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        disk::write_atomic(&path, text.as_bytes()).map_err(|error| StoreError::io("writing", &path, &error))
    };
    for provider in probed {
        let text = file(provider).map_err(|error| StoreError::io("writing down", &folder, &error.into()))?;
        write(&format!("{}.json", provider.id), provider.without_key(text))?;
    }
    write("checklist.md", checklist(at, probed))?;
    Ok(folder)
}

/// Nobody else's, for evidence of one kind.
pub fn new_folder(state: &StateDir, kind: &str, at: Timestamp) -> Result<PathBuf, StoreError> {
    let all = state.artifacts().join(kind);
    disk::create_dir(&all).map_err(|error| StoreError::io("creating", &all, &error))?;
    let name = instant(at);
    let names = std::iter::once(name.clone()).chain((2..=SAME_INSTANT_MAX).map(|number| format!("{name}-{number}")));
    let mut error = io::Error::other("there is no name left");
    for folder in names.map(|name| all.join(name)) {
        match disk::create_dir_within(&folder).and_then(|()| disk::sync_dir(&all)) {
            Ok(()) => return Ok(folder),
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => error = taken,
            Err(other) => return Err(StoreError::io("creating", &folder, &other)),
        }
    }
    Err(StoreError::io("creating", &all.join(name), &error))
}

/// As a folder is called after it.
pub fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn file(provider: &ProbedProvider) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct File<'a> {
        provider: &'a str,
        wire: Wire,
        url: &'a str,
        model: &'a str,
        verdict: Option<&'a ProbeAnswer>,
        error: Option<&'a str>,
    }
    let (verdict, error) = match &provider.outcome {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(&**error)),
    };
    let ProbedProvider { id, model, wire, url, .. } = provider;
    let text = serde_json::to_string_pretty(&File { provider: id, wire: *wire, url, model, verdict, error })?;
    Ok(text + "\n")
}

/// One thing that a probe must have seen.
struct Line {
    what: &'static str,
    /// The observation, or why there is none.
    seen: Result<String, String>,
}

fn checklist(at: Timestamp, probed: &[ProbedProvider]) -> String {
    let mut text = format!("# Probe of {}\n", instant(at));
    let (mut all, mut open) = (0, 0);
    for provider in probed {
        let mut section = format!("\n## {}: `{}`\n\n", provider.id, provider.model);
        for Line { what, seen } in lines(provider) {
            all += 1;
            open += usize::from(seen.is_err());
            let (mark, shown) = match seen {
                Ok(seen) => ("x", seen),
                Err(why) => (" ", why),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(section, "- [{mark}] {what}: {}", shown_line(&provider.without_key(shown)));
        }
        text.push_str(&provider.without_key(section));
    }
    let end = match (all, open) {
        (0, _) => "incomplete: no provider was probed".to_owned(),
        (_, 0) => "complete".to_owned(),
        _ => format!("incomplete: {open} of {all} lines have no observation"),
    };
    format!("{text}\n{end}\n")
}

/// One line without anything that Markdown or a terminal would act upon.
pub fn shown_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
    let line = text.chars().map(plain).collect::<String>();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn lines(provider: &ProbedProvider) -> Vec<Line> {
    // What kept a thing from being seen is the same for all that would have come after it.
    let failed = provider.find(|seen| match seen {
        Seen::Failed { why } => Some(why.clone()),
        _ => None,
    });
    let failed = failed.or_else(|| provider.outcome.as_ref().err().cloned());
    let because = |otherwise: &str| failed.clone().unwrap_or_else(|| otherwise.to_owned());
    let line =
        |what, seen: Option<String>, otherwise: &str| Line { what, seen: seen.ok_or_else(|| because(otherwise)) };
    let called = provider.find(|seen| match seen {
        Seen::Called { id, given, tool, arguments } => Some((id.clone(), *given, tool.clone(), arguments.clone())),
        _ => None,
    });
    let call = match called {
        Some((id, given, tool, Some(arguments))) => {
            let whose = if given { "the provider's" } else { "made here, the provider gave none that can be kept" };
            Ok(format!("{tool} {arguments}, id {id} ({whose})"))
        }
        Some((.., tool, None)) => Err(format!("{tool} was called, and its arguments were no object")),
        None => Err(because("no call came")),
    };
    vec![
        line(
            "reachable",
            provider.find(|seen| match seen {
                Seen::Answered { status, content_type } => Some(format!("HTTP {status}, {content_type}")),
                _ => None,
            }),
            "no answer came",
        ),
        line(
            "streamed",
            provider.find(|seen| match seen {
                Seen::Streamed { events } => Some(format!("{events} events")),
                _ => None,
            }),
            "the reply came as one body, though a stream was asked for",
        ),
        line(
            "model named",
            provider.find(|seen| match seen {
                Seen::ModelNamed { model } => Some(model.clone()),
                _ => None,
            }),
            "the answer names no model",
        ),
        line(
            "tool offered",
            provider.find(|seen| match seen {
                Seen::ToolOffered { tool } => Some(tool.clone()),
                _ => None,
            }),
            "no request offered a tool",
        ),
        Line { what: "call came with object arguments and an id", seen: call },
        line("result echoed", result_echoed(provider), "no result was sent and answered"),
        line("final text", final_text(provider), "no text came after the result"),
        line(
            "usage reported",
            provider.find(|seen| match seen {
                Seen::UsageReported { usage } => {
                    Some(format!("{} tokens in, of them {} cached, {} out", usage.input, usage.cached, usage.output))
                }
                _ => None,
            }),
            "the provider reported no usage; it is estimated",
        ),
        line(
            "rate-limit headers looked for",
            provider.find(|seen| match seen {
                Seen::LimitHeaders { headers } if headers.is_empty() => Some("none came".to_owned()),
                Seen::LimitHeaders { headers } => {
                    let shown = headers.iter().map(|(name, value)| format!("{name}: {value}"));
                    Some(shown.collect::<Vec<_>>().join(", "))
                }
                _ => None,
            }),
            "no answer came",
        ),
        line("terminal event", terminal(provider), "nothing said that the reply was complete"),
    ]
}

/// The result went out, and the provider took it.
fn result_echoed(provider: &ProbedProvider) -> Option<String> {
    let sent = provider.observations().iter().find_map(|Observation { request, seen }| match seen {
        Seen::ResultSent { call, text } => Some((*request, call, text)),
        _ => None,
    });
    let (at, call, text) = sent?;
    let taken = provider
        .observations()
        .iter()
        .any(|Observation { request, seen }| *request == at && matches!(seen, Seen::Answered { status: 200, .. }));
    taken.then(|| format!("{text}, to call {call}"))
}

/// A text of the request that carried the result, and of no other.
fn final_text(provider: &ProbedProvider) -> Option<String> {
    let at = provider.observations().iter().find_map(|Observation { request, seen }| match seen {
        Seen::ResultSent { .. } => Some(*request),
        _ => None,
    })?;
    provider.observations().iter().find_map(|Observation { request, seen }| match seen {
        Seen::Text { text } if *request == at => Some(text.clone()),
        _ => None,
    })
}

/// What ended the last reply.
fn terminal(provider: &ProbedProvider) -> Option<String> {
    let last = provider.observations().last()?.request;
    let ends = provider.observations().iter().filter_map(|Observation { request, seen }| match seen {
        Seen::Terminal { what } if *request == last => Some(what.clone()),
        _ => None,
    });
    let ends = ends.collect::<Vec<_>>();
    (!ends.is_empty()).then(|| ends.join(", "))
}

#[cfg(test)]
mod tests;
