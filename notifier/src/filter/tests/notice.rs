//! Jobs that end at the limit of which a notice has warned.

use super::*;

fn at_limit(number: u16, account: Option<&str>) -> What {
    aborted_by(number, account, CauseKind::Limit(Limit::Steps))
}

#[test]
fn twenty_jobs_that_end_at_a_limit_are_twenty_things() {
    let mut world = World::new();
    for number in 0..20 {
        world.alert(limit_near(number));
    }
    world.alert(limit_near(20));
    world.pass(SECOND);
    for number in 0..20 {
        world.alert(at_limit(number, None));
    }
    // Another limit than that of which it was warned.
    world.alert(aborted_by(20, None, CauseKind::Limit(Limit::Tokens)));
    world.pass(HOUR);
    let texts = world.texts();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("; 11 more jobs aborted; 1 more limit nearly used up"), "{texts:?}");
    assert_eq!((world.owed(), world.filter.remembered), (0, 0));
}

#[test]
fn so_it_is_where_an_open_breaker_explains_both() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.pass(MINUTE);
    for number in 0..3 {
        world.alert(limit_near_at(number, Some("lab")));
    }
    for number in 0..2 {
        world.alert(at_limit(number, Some("lab")));
    }
    world.alert(closed("lab"));
    world.pass(HOUR);
    assert_eq!(world.texts()[1..], ["closed lab; 2 jobs aborted meanwhile; 1 limit nearly used up meanwhile"]);
    assert_eq!((world.owed(), world.filter.remembered), (0, 0));
}

#[test]
fn the_notice_that_stands_for_the_others_is_one_whose_job_goes_on() {
    let mut world = World::new();
    world.alert(opened("lab"));
    world.pass(MINUTE);
    for number in 0..3 {
        world.alert(limit_near_at(number, Some("lab")));
    }
    world.alert(at_limit(0, None));
    world.alert(reset("lab"));
    world.pass(HOUR);
    let [end, near] = [format!("JobAborted {}", job(0)), format!("LimitNear {} steps", job(1))];
    assert_eq!(world.texts()[1..], [format!("{end}, {near}; 1 more limit nearly used up")]);
}

#[test]
fn a_notice_that_failed_is_replaced_too() {
    let mut world = World::new();
    world.alert(limit_near(1));
    world.now += NOTICE_HOLD;
    let message = world.filter.poll_message(world.now).expect("it is due");
    world.alert(at_limit(1, None));
    world.came_of(message, &Outcome::Failed(String::new()));
    world.pass(HOUR);
    assert_eq!(world.texts(), [format!("JobAborted {}", job(1))]);
    assert_eq!((world.owed(), world.filter.remembered), (0, 0));
}
