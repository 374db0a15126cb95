//! A message as a sink shows it: cut to the sink's limits, with nothing in it that the sink would act upon.
//!
//! Names of jobs, errors of providers and answers of models are other people's text: it is shown, and is no markup, no
//! link and no mention.

#![deny(clippy::disallowed_methods)]

mod text;

use serde_json::{Value, json};

use crate::alert::{What, next};
use crate::message::{Entry, Message};
use text::{clean, cut, cut_as, escaped};

// Discord's limits (Developer Docs, Execute Webhook and Embed Limits), in characters. Counted here in UTF-16 units, of
// which a character has at least one: whichever Discord counts, it is kept.
const CONTENT_UNITS_MAX: usize = 2_000;
const TITLE_UNITS_MAX: usize = 256;
const DESCRIPTION_UNITS_MAX: usize = 4_096;
const EMBEDS_UNITS_MAX: usize = 6_000;
/// What a phone shows.
const HEADLINE_UNITS_MAX: usize = 300;
/// Of one alert: ten of them fit into a description.
const ENTRY_UNITS_MAX: usize = 300;
const MORE_UNITS_MAX: usize = 120;
const SUMMARY_UNITS_MAX: usize = 100;
const BODY_UNITS_MAX: usize = 500;
const _: () = assert!(TITLE_UNITS_MAX + DESCRIPTION_UNITS_MAX <= EMBEDS_UNITS_MAX);

/// Before the title of everything that only a demo tells.
const DEMO: &str = "[demo] ";
/// `• `
const BULLET_UNITS: usize = 2;

const RED: u32 = 0xD0_3A_2B;
const GREY: u32 = 0x6B_72_80;

/// The body of a request to a webhook. `demo`: nothing of it is the owner's own, and it says so.
#[must_use]
pub fn discord(message: &Message, demo: bool) -> Value {
    let mark = if demo { DEMO } else { "" };
    let headline = within(&markdown(&headline(message), HEADLINE_UNITS_MAX), CONTENT_UNITS_MAX - mark.len());
    // How much is not told stands below, however long the rest is.
    let more = message.more.iter().flat_map(|(count, what)| {
        let line = markdown(what, MORE_UNITS_MAX);
        std::iter::once(format!("\n… {count} ")).chain(line)
    });
    let more = within(&more.collect::<Vec<_>>(), DESCRIPTION_UNITS_MAX / 2);
    let share = (DESCRIPTION_UNITS_MAX - more.encode_utf16().count()) / message.entries.len().max(1);
    // One of them is the end of the line.
    let lines: Vec<String> = message.entries.iter().map(|entry| entry_in_markdown(entry, share - 1)).collect();
    let lines = lines.join("\n");
    let urgent = message.entries.iter().any(|entry| is_bad(&entry.what));
    let title = format!("{mark}ukai: {}", counted(message));
    json!({
        "content": format!("{mark}{headline}"),
        "embeds": [{
            "title": cut(&title, TITLE_UNITS_MAX),
            "description": format!("{lines}{more}"),
            "color": if urgent { RED } else { GREY },
        }],
        // Nobody is pinged, whatever stands in the text.
        "allowed_mentions": {"parse": []},
    })
}

/// Summary and body of a notification; the body escaped for the markup that servers take (Desktop Notifications 1.2).
#[must_use]
pub fn desktop(message: &Message, demo: bool) -> (String, String) {
    let mark = if demo { DEMO } else { "" };
    let lines: Vec<String> = message.entries.iter().map(plain).collect();
    let more = message.more.iter().map(|(count, what)| format!("… {count} {what}"));
    let body = lines.into_iter().chain(more).map(|line| clean(&line)).collect::<Vec<_>>().join("\n");
    let body = cut_as(&body, BODY_UNITS_MAX, escaped);
    (cut(&clean(&format!("{mark}ukai: {}", counted(message))), SUMMARY_UNITS_MAX), body)
}

#[must_use]
pub fn is_bad(what: &What) -> bool {
    what.is_urgent() || matches!(what, What::BreakerOpened { .. })
}

fn headline(message: &Message) -> String {
    let Some(first) = message.entries.first() else { return "ukai".to_owned() };
    let others = message.entries.len() - 1
        + usize::try_from(message.more.iter().map(|(count, _)| count).sum::<u64>()).unwrap_or(0);
    let others = if others > 0 { format!(" (and {others} more)") } else { String::new() };
    format!("{}{others}", first.what)
}

fn counted(message: &Message) -> String {
    match message.entries.as_slice() {
        [one] if message.more.is_empty() => match &one.what {
            What::BreakerOpened { .. } => "a provider is left alone",
            What::BreakerClosed { .. } => "a provider is asked again",
            What::JobAborted { .. } => "a job aborted",
            What::Attention { .. } => "a job needs attention",
            What::AskWaiting { .. } => "a call waits for you",
            What::LimitNear { .. } => "a limit is near",
            What::Quarantined { .. } => "files do not verify",
            What::StartsPaused { .. } => "many jobs crashed",
            What::BatchDone { .. } => "a batch is done",
            What::Lost { .. } => "alerts were lost",
            What::Test => "a test",
        }
        .to_owned(),
        all => {
            format!("{} things happened", all.len() as u64 + message.more.iter().map(|(count, _)| count).sum::<u64>())
        }
    }
}

fn plain(entry: &Entry) -> String {
    let times = if entry.times > 1 { format!(" ({} times)", entry.times) } else { String::new() };
    let late = if entry.late { format!(" (late: it happened at {})", time(entry)) } else { String::new() };
    format!("{}{times}{late}", entry.what)
}

/// At most so many units. A command is told whole or not at all: half of one must not be typed.
fn entry_in_markdown(entry: &Entry, units: usize) -> String {
    let next = next(&entry.what).map(|next| format!("\n  {}", code(&next)));
    let next = next.filter(|next| next.encode_utf16().count() <= units / 2).unwrap_or_default();
    let left = units - BULLET_UNITS - next.encode_utf16().count();
    format!("• {}{next}", within(&markdown(&plain(entry), ENTRY_UNITS_MAX), left))
}

/// As code, where nothing is escaped and nothing is markup. What would end it is another character.
fn code(text: &str) -> String {
    format!("`{}`", clean(text).replace('`', "'"))
}

fn time(entry: &Entry) -> String {
    jiff::Timestamp::try_from(entry.at)
        .map_or_else(|_| "an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Shown as it stands: no emphasis, no link, no mention. A command that is marked off in it is code, and of that only what
/// a shell takes as it stands; anything else in such marks is text.
fn markdown(text: &str, units: usize) -> Vec<String> {
    let text = cut(&clean(text), units);
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some(command) = command_at(rest) {
            pieces.push(code(command));
            rest = &rest[command.len() + 2..];
            continue;
        }
        pieces.push(in_markdown(c));
        rest = &rest[c.len_utf8()..];
    }
    pieces
}

/// What stands in marks at the beginning of the text, if it is one of our commands.
fn command_at(text: &str) -> Option<&str> {
    let (command, _) = text.strip_prefix('`')?.split_once('`')?;
    command.starts_with("ukai ").then_some(command).filter(|command| !command.contains(['@', '<', '>']))
}

fn in_markdown(c: char) -> String {
    match c {
        // An invisible character keeps a mention or an address from being one.
        '@' => "@\u{200B}".to_owned(),
        ':' => ":\u{200B}".to_owned(),
        '\\' | '*' | '_' | '~' | '`' | '|' | '>' | '<' | '[' | ']' | '(' | ')' | '#' | '-' => format!("\\{c}"),
        _ => c.to_string(),
    }
}

/// As many pieces as fit, none of them split.
fn within(pieces: &[String], units: usize) -> String {
    let length = |piece: &String| piece.encode_utf16().count();
    if pieces.iter().map(length).sum::<usize>() <= units {
        return pieces.concat();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for piece in pieces {
        used += length(piece);
        if used > units {
            break;
        }
        kept.push_str(piece);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests;
