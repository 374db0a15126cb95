//! A message as a sink shows it: cut to the sink's limits, with nothing in it that the sink would act upon.
//!
//! Names of jobs, errors of providers and answers of models are other people's text: it is shown, and is no markup, no
//! link and no mention.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};

use crate::alert::{What, next};
use crate::message::{Entry, Message};

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
    let body =
        cut(&lines.into_iter().chain(more).map(|line| clean(&line)).collect::<Vec<_>>().join("\n"), BODY_UNITS_MAX);
    let body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
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

/// On one line, without what steers a terminal or turns the direction of writing.
fn clean(text: &str) -> String {
    let kept = |c: &char| !matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let text: String = text.chars().filter(kept).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
        pieces.push(escaped(c));
        rest = &rest[c.len_utf8()..];
    }
    pieces
}

/// What stands in marks at the beginning of the text, if it is one of our commands.
fn command_at(text: &str) -> Option<&str> {
    let (command, _) = text.strip_prefix('`')?.split_once('`')?;
    command.starts_with("ukai ").then_some(command).filter(|command| !command.contains(['@', '<', '>']))
}

fn escaped(c: char) -> String {
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

/// At most so many UTF-16 units of plain text, no character split.
fn cut(text: &str, units: usize) -> String {
    if text.encode_utf16().count() <= units {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.len_utf16();
        if used > units {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, CauseKind};

    use super::*;

    fn aborted(name: &str, detail: &str) -> Entry {
        let cause = Cause::new(CauseKind::AllOpen, detail);
        let (job, name) = (JobId::from_random([0; 5]), name.to_owned());
        let what = What::JobAborted { job, name, account: None, cause, raise: vec!["steps=50".to_owned()] };
        Entry { what, times: 1, at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000), late: false }
    }

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    fn check(body: &Value) {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let (content, embed) = (text(&body["content"]), &body["embeds"][0]);
        let (title, description) = (text(&embed["title"]), text(&embed["description"]));
        assert!(!content.trim().is_empty() && units(&content) <= 2_000, "{content}");
        assert!(!title.trim().is_empty() && units(&title) <= 256, "{title}");
        assert!(!description.trim().is_empty() && units(&description) <= 4_096, "{description}");
        assert!(units(&title) + units(&description) <= 6_000);
        for text in [&content, &description] {
            assert!(!text.replace("@\u{200B}", "").contains('@') && !text.contains("](http"), "{text}");
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
        assert_eq!(body["allowed_mentions"], json!({"parse": []}));
    }

    #[test]
    fn other_peoples_text_is_shown_and_is_no_markup() {
        let message = Message {
            entries: vec![aborted("**@everyone** [x](https://evil.example) <@123>", "`code`\u{0}\u{1b}[31m")],
            more: vec![(31, "more jobs aborted".to_owned())],
        };
        let body = discord(&message, false);
        check(&body);
        let description = body["embeds"][0]["description"].as_str().expect("a text");
        assert!(
            description.contains("ukai resume j-aaaaaaaa") && description.contains("31 more jobs aborted"),
            "{description}"
        );
        let (summary, shown) = desktop(&message, false);
        assert_eq!(summary, "ukai: 32 things happened");
        assert!(shown.contains("&lt;@123&gt;") && !shown.contains('<'), "{shown}");
    }

    fn entry(what: What) -> Entry {
        Entry { what, times: 1, at: SystemTime::UNIX_EPOCH, late: false }
    }

    #[test]
    fn a_command_is_code_that_can_be_copied_and_nothing_else_is() {
        let until = None;
        let opened = |account: &str, why: &str| {
            entry(What::BreakerOpened { account: account.to_owned(), why: why.to_owned(), until })
        };
        let resume = "`ukai resume j-aaaaaaaa --limit steps=50`";
        for (quirk, entry, shown) in [
            ("a limit with its raise", aborted("n", "25 of 25 used"), vec![resume]),
            (
                "a breaker with its account",
                opened("my_lab-1", "quota"),
                vec!["then `ukai providers reset my_lab-1`", "\n  `ukai providers reset my_lab-1`"],
            ),
            ("a mark inside", opened("a`b", "quota"), vec!["\n  `ukai providers reset 'a'b'`"]),
            ("other people's marks", opened("lab", "`rm -rf` and ``"), vec![r"\`rm \-rf\` and \`\`"]),
            ("a command that is cut", opened("lab", &format!("{} `ukai ls`", "x".repeat(241))), vec![r"\`uka"]),
            ("a mention in marks", opened("lab", "`ukai @everyone`"), vec!["\\`ukai @\u{200B}everyone\\`"]),
            ("a test", entry(What::Test), vec!["• a test"]),
        ] {
            let body = discord(&Message { entries: vec![entry], more: Vec::new() }, false);
            let description = body["embeds"][0]["description"].as_str().expect("a text");
            for part in shown {
                assert!(description.contains(part), "{quirk}: {part}: {description}");
            }
            assert!(!description.contains("\\`ukai providers"), "{quirk}: {description}");
        }
    }

    #[test]
    fn each_of_ten_long_alerts_keeps_its_command_whole() {
        let entries = vec![aborted("*n*", &"_".repeat(4_000)); 10];
        let body = discord(&Message { entries, more: vec![(3, "more jobs aborted".to_owned())] }, false);
        check(&body);
        let description = body["embeds"][0]["description"].as_str().expect("a text");
        assert_eq!(description.matches("\n  `ukai resume j-aaaaaaaa --limit steps=50`").count(), 10, "{description}");
        assert!(description.ends_with("… 3 more jobs aborted"), "{description}");
    }

    #[test]
    fn a_demo_says_so_wherever_it_is_told() {
        let message = Message { entries: vec![aborted("n", "d")], more: Vec::new() };
        for (demo, title) in [(true, "[demo] ukai: a job aborted"), (false, "ukai: a job aborted")] {
            let body = discord(&message, demo);
            assert_eq!((body["embeds"][0]["title"].as_str(), &*desktop(&message, demo).0), (Some(title), title));
            assert_eq!(body["content"].as_str().is_some_and(|content| content.starts_with("[demo] ")), demo, "{body}");
        }
    }

    #[test]
    fn what_is_late_or_happened_often_says_so() {
        let entry = Entry { times: 7, late: true, ..aborted("n", "d") };
        let (_, body) = desktop(&Message { entries: vec![entry], more: Vec::new() }, false);
        assert!(body.contains("(7 times)") && body.contains("late: it happened at 2027-01-15 08:00 UTC"), "{body}");
    }

    proptest! {
        #[test]
        fn whatever_happened_keeps_every_limit(
            name in "\\PC{0,300}",
            detail in "(\\PC|\\p{Emoji}|[\\\\*_@<>\\[\\]()`\u{0}\u{202e}\u{200d}]){0,3000}",
            count in 1_usize..11,
        ) {
            let entries = vec![aborted(&name, &detail.repeat(4)); count];
            let message = Message { entries, more: vec![(3, name.clone())] };
            check(&discord(&message, true));
            let (summary, body) = desktop(&message, true);
            prop_assert!(units(&summary) <= 100 && body.chars().count() <= 5 * 500);
        }
    }
}
