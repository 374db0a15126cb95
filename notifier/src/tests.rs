//! The notifier as a whole, with sinks that a test holds in its hand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Instant, UNIX_EPOCH};

use tempfile::TempDir;
use ukai_protocol::control::{SinkRow, SinkState};
use ukai_protocol::id::JobId;
use ukai_protocol::job::{Cause, CauseKind};

use super::*;
use crate::message::{Deliver, Message, Outcome, Trouble};

type Seen = Arc<Mutex<Vec<Message>>>;

#[derive(Clone)]
enum Act {
    Say(Outcome),
    Hang,
    Panic,
}

/// A sink that does as it is told, and well when it is told nothing.
#[derive(Clone)]
struct Fake {
    name: &'static str,
    acts: VecDeque<Act>,
    seen: Seen,
    identity: Option<String>,
    trouble: Trouble,
}

impl Fake {
    fn new(name: &'static str, acts: impl IntoIterator<Item = Act>) -> Self {
        let (acts, seen, identity) = (acts.into_iter().collect(), Seen::default(), Some("one".to_owned()));
        Fake { name, acts, seen, identity, trouble: Trouble::default() }
    }

    fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("no panic");
        let entries = seen.iter().flat_map(|message| &message.entries);
        entries.map(|entry| format!("{}{}", entry.what, if entry.late { " (late)" } else { "" })).collect()
    }
}

impl Deliver for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn deliver(&mut self, message: &Message) -> Outcome {
        match self.acts.pop_front().unwrap_or(Act::Say(Outcome::Delivered)) {
            Act::Say(outcome) => {
                if outcome == Outcome::Delivered {
                    self.seen.lock().expect("no panic").push(message.clone());
                }
                outcome
            }
            Act::Hang => std::future::pending().await,
            Act::Panic => panic!("a sink with a fault"),
        }
    }

    fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone()
    }
}

struct Home {
    temp: TempDir,
    lost: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Home {
    fn new() -> Self {
        Home { temp: tempfile::tempdir().expect("a folder"), lost: Arc::default() }
    }

    fn cursors(&self) -> std::path::PathBuf {
        self.temp.path().join("cursors.json")
    }

    async fn start(&self, owed: &[Alert], fakes: &[&Fake]) -> Notifier {
        let lost = self.lost.clone();
        let lost: Lost = Arc::new(move |sink, count, _| lost.lock().expect("no panic").push((sink.to_owned(), count)));
        let secrets = vec![Secret::new("sk-hidden-1234".to_owned())];
        let setup = Setup { cursors: self.cursors(), secrets, owed: owed.to_vec(), lost, ..Setup::default() };
        let notifier = Notifier::start_with(setup, |sinks, _, _| {
            fakes.iter().for_each(|fake| sinks.add((*fake).clone()));
        });
        notifier.await.expect("it starts")
    }

    fn lost(&self) -> Vec<(String, u64)> {
        self.lost.lock().expect("no panic").clone()
    }
}

fn paused(seq: u64) -> Alert {
    let what = What::Quarantined { subject: format!("file-{seq}"), why: "torn".to_owned() };
    Alert { what, source: Some(Source::Server { seq }), at: SystemTime::now(), late: false }
}

fn text(seq: u64) -> String {
    paused(seq).what.to_string()
}

fn late(seq: u64) -> String {
    text(seq) + " (late)"
}

/// How a test of it went.
fn went(row: &SinkRow) -> Result<(), String> {
    match &row.state {
        SinkState::On => Ok(()),
        SinkState::Failed(why) | SinkState::Dead(why) | SinkState::Off(why) => Err(why.clone()),
    }
}

/// Whatever is held for grouping has been told by then.
async fn wait_a_minute() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_counted_and_nobody_waits() {
    let home = Home::new();
    let notifier = home.start(&[], &[]).await;
    // The actor cannot run before this task gives way.
    for seq in 1..=ALERTS_MAX as u64 + 3 {
        notifier.alert(paused(seq));
    }
    assert_eq!(notifier.lost.load(Ordering::Relaxed), 3);
    notifier.finish().await;
    assert_eq!(notifier.lost.load(Ordering::Relaxed), 0, "told in the log");
    assert_eq!(notifier.room.available_permits(), ALERTS_MAX);
    assert_eq!(home.lost(), [("every sink".to_owned(), 3)]);
    assert!(saved(&home.cursors()).contains(&format!("\"server\":{ALERTS_MAX},")), "those are owed");
}

fn saved(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is saved")
}

#[tokio::test(start_paused = true)]
async fn what_one_process_could_not_tell_the_next_one_tells_once_and_late() {
    let home = Home::new();
    let hanging = Fake::new("fake", [Act::Hang]);
    let notifier = home.start(&[], &[&hanging]).await;
    notifier.alert(paused(1));
    wait_a_minute().await;
    notifier.alert(paused(2));
    let before = tokio::time::Instant::now();
    let untold = notifier.finish().await;
    assert!(matches!(&untold[..], [(sink, why)] if sink == "fake" && why.contains("not answered")), "{untold:?}");
    assert!(before.elapsed() <= FINISH_DEADLINE, "{:?}", before.elapsed());
    let well = Fake::new("fake", []);
    assert_eq!(home.start(&[paused(1), paused(2)], &[&well]).await.finish().await, []);
    assert_eq!((hanging.seen().len(), well.seen()), (0, vec![late(1), late(2)]));
    let again = Fake::new("fake", []);
    home.start(&[paused(1), paused(2), paused(3)], &[&again]).await.finish().await;
    assert_eq!(again.seen(), [late(3)]);
    assert!(home.lost().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sink_is_born_before_anything_happens_and_owes_nothing_older() {
    let home = Home::new();
    let fake = Fake::new("fake", []);
    let old = Alert { at: SystemTime::now() - Duration::from_secs(60), ..paused(1) };
    let notifier = home.start(&[old], &[&fake]).await;
    assert!(saved(&home.cursors()).contains("\"fake\":{\"born_ms\":1"));
    notifier.alert(paused(2));
    notifier.finish().await;
    assert_eq!(fake.seen(), [text(2)]);
}

#[tokio::test(start_paused = true)]
async fn where_the_cursors_are_damaged_a_day_is_told_again_and_not_more() {
    let home = Home::new();
    std::fs::write(home.cursors(), "{}").expect("written");
    let hours = |hours: u64, seq| Alert { at: SystemTime::now() - Duration::from_secs(hours * 3_600), ..paused(seq) };
    let fake = Fake::new("fake", []);
    home.start(&[hours(25, 1), hours(23, 2), hours(1, 3)], &[&fake]).await.finish().await;
    assert_eq!(fake.seen(), [late(2), late(3)]);
    assert!(home.temp.path().join("cursors.json.damaged").exists());
}

#[tokio::test(start_paused = true)]
async fn sinks_fail_apart_and_order_is_kept() {
    let home = Home::new();
    let failed = Act::Say(Outcome::Failed("503".to_owned()));
    let fakes = [
        Fake::new("hangs", [Act::Hang]),
        Fake::new("panics", [Act::Panic]),
        Fake::new("fails", [failed]),
        Fake::new("drops", [Act::Say(Outcome::Dropped("400".to_owned()))]),
        Fake::new("well", []),
    ];
    let notifier = home.start(&[], &fakes.each_ref()).await;
    for seq in 1..=2 {
        notifier.alert(paused(seq));
        tokio::time::sleep(Duration::from_secs(60 * 5)).await;
    }
    notifier.finish().await;
    let seen = fakes.each_ref().map(Fake::seen);
    let [along, second, both] = [vec![late(1), text(2)], vec![text(2)], vec![text(1), text(2)]];
    assert_eq!(seen, [vec![], vec![], along, second, both]);
    let lost = ["fails", "drops", "panics"].map(|sink| (sink.to_owned(), 1));
    assert_eq!(home.lost(), lost);
    let again = ["hangs", "panics", "fails", "drops", "well"].map(|name| Fake::new(name, []));
    let owed = [paused(1), paused(2)];
    home.start(&owed, &again.each_ref()).await.finish().await;
    let all = vec![late(1), late(2)];
    assert_eq!(again.each_ref().map(Fake::seen), [all.clone(), all, vec![], vec![], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_sink_is_not_begun_until_it_is_configured_otherwise() {
    let home = Home::new();
    let dead = Fake::new("fake", [Act::Say(Outcome::Dead("404".to_owned()))]);
    let notifier = home.start(&[], &[&dead]).await;
    notifier.alert(paused(1));
    wait_a_minute().await;
    notifier.alert(paused(2));
    let stands = notifier.sinks().await;
    assert!(matches!(&stands[1].state, SinkState::Dead(why) if why.contains("it is dead: 404")), "{stands:?}");
    notifier.finish().await;
    assert_eq!(home.lost(), [("fake".to_owned(), 1), ("fake".to_owned(), 1)]);
    let owed = [paused(1), paused(2)];
    let same = Fake::new("fake", []);
    let notifier = home.start(&owed, &[&same]).await;
    let stands = notifier.sinks().await;
    assert!(matches!(&stands[1].state, SinkState::Dead(why) if why.contains("404; configure it anew")), "{stands:?}");
    notifier.finish().await;
    let other = Fake { identity: Some("two".to_owned()), ..Fake::new("fake", []) };
    home.start(&owed, &[&other]).await.finish().await;
    assert_eq!((same.seen(), other.seen()), (vec![], vec![late(1), late(2)]));
}

#[tokio::test(start_paused = true)]
async fn a_test_tries_a_dead_sink_again_and_revives_it_where_it_arrives() {
    // It died in this process or in an earlier one.
    for restart in [false, true] {
        let home = Home::new();
        let dead = Act::Say(Outcome::Dead("404".to_owned()));
        let fake = Fake::new("fake", [dead.clone(), dead.clone()]);
        let mut notifier = home.start(&[], &[&fake]).await;
        notifier.alert(paused(1));
        wait_a_minute().await;
        let mut now = fake.clone();
        if restart {
            notifier.finish().await;
            now = Fake::new("fake", [dead]);
            notifier = home.start(&[paused(1)], &[&now]).await;
        }
        let why = went(&notifier.test().await[1]).expect_err("it is dead still");
        assert!(why.contains("it is dead: 404; configure it anew"), "{why}");
        notifier.alert(paused(2));
        assert_eq!(went(&notifier.test().await[1]), Ok(()), "{restart}");
        assert_eq!(notifier.sinks().await[1].state, SinkState::On);
        notifier.alert(paused(3));
        wait_a_minute().await;
        notifier.finish().await;
        assert_eq!(now.seen(), [What::Test.to_string(), text(3)], "{restart}");
        assert_eq!(home.lost(), [("fake".to_owned(), 1), ("fake".to_owned(), 1)], "{restart}");
        // The next process knows that it is well, and what was missed.
        let next = Fake::new("fake", []);
        home.start(&[paused(1), paused(2), paused(3), paused(4)], &[&next]).await.finish().await;
        assert_eq!(next.seen(), [late(4)], "{restart}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_is_answered_at_once_where_a_longer_wait_is_named() {
    for seconds in [60, 9] {
        let home = Home::new();
        let fake = Fake::new("fake", [Act::Hang, Act::Hang]);
        fake.trouble.waits("it asks to wait".to_owned(), Some(crate::push::now() + Duration::from_secs(seconds)));
        let notifier = home.start(&[], &[&fake]).await;
        for behind in [false, true] {
            if behind {
                notifier.alert(paused(1));
                tokio::time::sleep(Duration::from_secs(30)).await;
                let until = crate::push::now() + Duration::from_secs(seconds);
                fake.trouble.waits("it asks to wait".to_owned(), Some(until));
            }
            let before = tokio::time::Instant::now();
            let why = went(&notifier.test().await[1]).expect_err("it waits");
            assert!(why.contains("it asks to wait") && why.ends_with("`ukai notify test` tries again"), "{why}");
            assert_eq!(before.elapsed() < Duration::from_secs(1), seconds == 60, "{seconds} s, {behind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_configured_is_a_row_and_no_failure() {
    let notifier = Notifier::start(Setup::default()).await.expect("it starts");
    for rows in [notifier.test().await, notifier.sinks().await] {
        let rows: Vec<_> = rows.into_iter().map(|SinkRow { sink, state }| (sink, state)).collect();
        let off = |why: &str| SinkState::Off(why.to_owned());
        let expected = [
            (LOG, SinkState::On),
            (DISCORD, off("not configured: UKAI_DISCORD_WEBHOOK is unset here")),
            (DESKTOP, off("off: the configuration says `desktop = false`")),
        ];
        assert_eq!(rows, expected.map(|(sink, state)| (sink.to_owned(), state)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_sink_misses_is_counted_for_as_long_as_it_is_dead() {
    let home = Home::new();
    let dead = Fake::new("fake", [Act::Say(Outcome::Dead("404".to_owned()))]);
    let mut started = home.start(&[], &[&dead]).await;
    started.alert(paused(1));
    wait_a_minute().await;
    for restarts in 0..2 {
        let before = home.lost().iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(before, 1 + 43 * restarts, "{:?}", home.lost());
        let records = home.lost().len();
        for seq in 2..=42 {
            started.alert(paused(seq));
            started.alert(Alert { what: What::Lost { sink: "other".to_owned(), count: 1 }, ..paused(seq) });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(home.lost().len(), records + 1, "the first at once");
        wait_a_minute().await;
        assert_eq!(home.lost().len(), records + 2, "the others by the minute");
        // The end of the process is no reason to forget any.
        started.alert(paused(43));
        started.alert(paused(44));
        started.finish().await;
        started = home.start(&[], &[&dead]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_that_kills_a_sink_loses_what_waits_for_it_and_says_so() {
    let home = Home::new();
    let dead = Fake::new("fake", [Act::Say(Outcome::Dead("404".to_owned()))]);
    let notifier = home.start(&[], &[&dead]).await;
    notifier.alert(paused(1));
    notifier.test().await;
    notifier.finish().await;
    assert_eq!(home.lost(), [("fake".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_cannot_be_used_is_a_row_of_the_test_and_counts_what_it_misses() {
    let home = Home::new();
    let lost = home.lost.clone();
    let lost: Lost = Arc::new(move |sink, count, _| lost.lock().expect("no panic").push((sink.to_owned(), count)));
    let discord = Some(Secret::new("http://discord.com/api/webhooks/1/SECRET".to_owned()));
    let notifier = Notifier::start(Setup { discord, lost, ..Setup::default() }).await.expect("it starts");
    let tested = notifier.test().await;
    let (discord, why) = (tested[1].sink.clone(), went(&tested[1]).expect_err("it cannot be used"));
    assert_eq!((tested[0].sink.as_str(), discord.as_str()), (LOG, DISCORD));
    assert!(why.contains("neither https nor http") && why.contains("correct it") && !why.contains("SECRET"), "{why}");
    notifier.alert(paused(1));
    notifier.finish().await;
    assert_eq!(home.lost(), [(discord.clone(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_test_says_how_it_went_for_each_sink() {
    let home = Home::new();
    let fakes = [
        Fake::new("well", []),
        Fake::new("refuses", [Act::Say(Outcome::Dropped("too long".to_owned()))]),
        Fake::new("hangs", [Act::Hang]),
        Fake::new("fails", [Act::Hang]),
    ];
    fakes[3].trouble.set(Some("HTTP 500".to_owned()));
    let notifier = home.start(&[], &fakes.each_ref()).await;
    let before = tokio::time::Instant::now();
    let tested = notifier.test().await;
    assert!(before.elapsed() <= Duration::from_secs(10));
    let expected = [
        ("log", Ok(())),
        ("well", Ok(())),
        (
            "refuses",
            Err("it refused the message: too long; see what is set up there, then `ukai notify test` tries again"),
        ),
        ("hangs", Err("it has not answered in time; when that is over, `ukai notify test` tries again")),
        ("fails", Err("HTTP 500; when that is over, `ukai notify test` tries again")),
    ];
    let tested: Vec<_> = tested.iter().map(|row| (row.sink.as_str(), went(row))).collect();
    assert_eq!(tested, expected.map(|(sink, went)| (sink, went.map_err(str::to_owned))));
    assert_eq!(fakes[0].seen(), [What::Test.to_string()]);
    // One that waits behind a message says how that goes, in its time.
    let under_way = Fake::new("fails", [Act::Hang]);
    under_way.trouble.set(Some("HTTP 500".to_owned()));
    let behind = home.start(&[], &[&under_way]).await;
    behind.alert(paused(1));
    wait_a_minute().await;
    let why = went(&behind.test().await[1]).expect_err("it fails");
    assert_eq!(why, "another message is under way, and fails: HTTP 500; `ukai notify test` tries again");
    behind.finish().await;
    // One that gave up a test goes on.
    notifier.alert(paused(1));
    notifier.finish().await;
    assert_eq!(fakes[2].seen(), [text(1)]);
}

#[tokio::test(start_paused = true)]
async fn no_key_reaches_a_sink_and_no_text_is_without_end() {
    let home = Home::new();
    let fake = Fake::new("fake", []);
    let notifier = home.start(&[], &[&fake]).await;
    let detail = format!("key sk-hidden-1234 {}", "ü".repeat(100_000));
    let what = What::JobAborted {
        job: JobId::from_random([0; 5]),
        name: "sk-hidden-1234".to_owned(),
        account: Some("sk-hidden-1234".to_owned()),
        cause: Cause::new(CauseKind::Internal, detail),
        raise: Vec::new(),
    };
    notifier.alert(Alert { what, source: None, at: UNIX_EPOCH, late: false });
    notifier.finish().await;
    let seen = format!("{:?}", fake.seen.lock().expect("no panic"));
    assert!(!seen.contains("hidden") && seen.len() < 10_000, "{}", seen.len());
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_taken_in_while_a_message_is_under_way() {
    let home = Home::new();
    let fake = Fake::new("fake", [Act::Hang]);
    let notifier = home.start(&[], &[&fake]).await;
    notifier.alert(paused(1));
    wait_a_minute().await;
    let begun = Instant::now();
    for seq in 2..20_000 {
        notifier.alert(paused(seq));
        if seq % 500 == 0 {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits for it");
    notifier.finish().await;
    assert!(home.lost().is_empty(), "{:?}", home.lost());
}
