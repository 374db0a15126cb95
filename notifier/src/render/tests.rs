//! What other people wrote, what we tell to be typed, and the limits of each sink.

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
        detail in "(\\PC|\\p{Emoji}|[\\\\*_@&'<>\\[\\]()`\u{0}\u{202e}\u{200d}]){0,3000}",
        count in 1_usize..11,
    ) {
        let entries = vec![aborted(&name, &detail.repeat(4)); count];
        let message = Message { entries, more: vec![(3, name.clone())] };
        check(&discord(&message, true));
        let (summary, body) = desktop(&message, true);
        prop_assert!(units(&summary) <= 100 && units(&body) <= 500);
        let entities = ["&amp;", "&lt;", "&gt;"];
        let rest = entities.iter().fold(body, |body, entity| body.replace(entity, ""));
        prop_assert!(!rest.contains(['&', '<', '>']), "{rest}");
    }
}
