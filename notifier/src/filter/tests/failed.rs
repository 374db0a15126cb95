//! What the sink failed to take, and then was well again.

use super::*;

fn failed() -> Outcome {
    Outcome::Failed("503".to_owned())
}

impl World {
    fn all_alerts(&mut self, what: impl IntoIterator<Item = What>) {
        for what in what {
            self.alert(what);
        }
    }
}

/// A world whose next message is due now.
fn due(what: impl IntoIterator<Item = What>) -> World {
    let mut world = World::new();
    world.all_alerts(what);
    world.now += HOLD;
    world.clock += HOLD;
    world
}

#[test]
fn it_goes_along_with_the_next_message_late_in_order_and_once() {
    let mut world = due([aborted(1)]);
    assert!(world.send(&failed()));
    world.now += SECOND;
    world.clock += SECOND;
    world.alert(aborted(2));
    world.now += MINUTE * 10;
    assert!(world.send(&failed()), "and its like with it");
    world.pass(HOUR * 3);
    assert_eq!((world.texts().len(), world.lost), (0, 2), "nobody knows whether the sink is well again");
    assert_eq!(world.filter.poll_timeout(), None);
    world.alert(aborted(3));
    world.pass(HOUR * 3);
    // The first failed twice, the second time in company.
    let [first, second, third] = [1, 2, 3].map(|number| format!("JobAborted {}", job(number)));
    assert_eq!(world.texts(), [format!("{second} late, {third}"), format!("{first} late")]);
    assert_eq!((world.owed(), world.lost, world.filter.remembered), (0, 2, 0));
    world.keep_the_promises();
}

#[test]
fn a_test_that_arrives_takes_it_along() {
    let mut world = due([aborted(1)]);
    world.send(&failed());
    world.filter.arrived(world.now);
    world.pass(HOUR);
    assert_eq!((world.texts(), world.owed()), (vec![format!("JobAborted {} late", job(1))], 0));
}

#[test]
fn a_message_that_a_sink_chokes_on_holds_no_other_up() {
    let chokes = |message: &Message| message.entries.iter().any(|entry| entry.what == aborted(0));
    let mut world = due([aborted(0)]);
    for number in 1..40 {
        world.alert(aborted(number));
        for _ in 0..3 {
            world.now += MINUTE * 11;
            world.clock += MINUTE * 11;
            if let Some(message) = world.filter.poll_message(world.now) {
                let outcome = if chokes(&message) { failed() } else { Outcome::Delivered };
                world.came_of(message, &outcome);
            }
        }
    }
    let told = world.arrived.iter().flat_map(|(_, message)| &message.entries).count();
    assert!(told >= 37, "{told}");
    assert_eq!(world.owed(), 40 - told);
    let taken_along = world.arrived.iter().flat_map(|(_, message)| &message.entries).filter(|entry| entry.late).count();
    assert_eq!(world.lost, (taken_along + world.owed()) as u64, "each once");
}

#[test]
fn a_table_of_breakers_whose_message_failed() {
    type Step = fn(&str) -> What;
    type Case = (&'static str, &'static [Step], &'static [Step], &'static [&'static str]);
    let cases: [Case; 6] = [
        ("an opening", &[], &[], &["opened lab late, JobAborted j-aaaaaaaj"]),
        ("an opening that is over meanwhile", &[closed], &[], &["JobAborted j-aaaaaaaj"]),
        ("an opening that is over before the next message", &[], &[closed], &["JobAborted j-aaaaaaaj"]),
        ("one that is reset", &[reset], &[], &["JobAborted j-aaaaaaaj"]),
        ("one that opens again meanwhile", &[closed, opened], &[], &["opened lab ×2 late, JobAborted j-aaaaaaaj"]),
        ("one that opens again later", &[], &[closed, opened], &["opened lab, JobAborted j-aaaaaaaj"]),
    ];
    for (quirk, meanwhile, later, expected) in cases {
        let mut world = due([opened("lab")]);
        let message = world.filter.poll_message(world.now).expect("it is due");
        world.all_alerts(meanwhile.iter().map(|what| what("lab")));
        world.came_of(message, &failed());
        world.now += MINUTE * 10;
        world.all_alerts(later.iter().map(|what| what("lab")));
        world.alert(aborted(9));
        world.pass(HOUR);
        assert_eq!(
            (world.texts(), world.owed()),
            (expected.iter().map(|text| (*text).to_owned()).collect(), 0),
            "{quirk}"
        );
    }
}

#[test]
fn a_closing_that_failed_is_told_with_the_next_message_unless_it_opens_again() {
    for (meanwhile, later, expected) in [
        (&[][..], &[][..], Some("JobAborted j-aaaaaaaj, closed lab late; 1 job aborted meanwhile")),
        (&[opened], &[], None),
        (&[opened, closed], &[], Some("JobAborted j-aaaaaaaj, closed lab ×2 late; 1 job aborted meanwhile")),
        (&[], &[opened], None),
    ] as [(&[fn(&str) -> What], &[fn(&str) -> What], Option<&str>); 4]
    {
        let mut world = World::new();
        world.alert(opened("lab"));
        world.pass(MINUTE * 40);
        world.alert(aborted_by(1, Some("lab"), CauseKind::Attempts));
        world.alert(closed("lab"));
        world.now += CLOSED_FOR;
        let message = world.filter.poll_message(world.now).expect("it has stayed closed");
        world.all_alerts(meanwhile.iter().map(|what| what("lab")));
        world.came_of(message, &failed());
        world.now += MINUTE * 10;
        world.all_alerts(later.iter().map(|what| what("lab")));
        world.alert(aborted(9));
        world.pass(HOUR);
        let told = expected.unwrap_or("JobAborted j-aaaaaaaj").to_owned();
        assert_eq!(world.texts()[1..], [told]);
        // What an OPEN breaker inhibits is owed until it is closed.
        assert_eq!(world.owed(), usize::from(expected.is_none()));
    }
}

#[test]
fn what_is_older_than_a_day_stays_unsaid_and_what_waits_is_bounded() {
    let mut world = due((0..20_000).map(aborted));
    world.send(&failed());
    assert!(world.filter.queue.entries.len() <= waiting::WAITING_MAX && world.filter.remembered <= SOURCES_MAX);
    world.pass(HOUR * 25);
    world.alert(aborted(20_001));
    world.pass(HOUR);
    assert_eq!((world.texts(), world.filter.remembered), (vec![format!("JobAborted {}", job(20_001))], 0));
}

#[test]
fn an_ending_process_does_not_try_it_again() {
    let mut world = due([aborted(1)]);
    world.send(&failed());
    world.filter.flush();
    assert_eq!(world.filter.poll_message(world.now + HOUR), None);
}
