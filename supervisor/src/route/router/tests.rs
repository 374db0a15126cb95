//! The router held to its promises: nobody before a not-before, everybody to an end.

use proptest::prelude::*;
use ukai_protocol::lease::{Timeouts, Wait, Wire};

use std::time::Duration;

use ukai_protocol::job::CauseKind;

use super::super::account::Rates;
use super::super::survey;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn provider(id: &str) -> Provider {
    Provider {
        id: id.to_owned(),
        account: id.to_owned(),
        wire: Wire::Openai,
        url: format!("http://{id}"),
        model: format!("{id}-1"),
        key: None,
        context_window: 1_000,
        max_output: 400,
        prices: None,
        timeouts: Timeouts::default(),
        max_concurrency: None,
        supports_tools: None,
        rates: Rates::default(),
    }
}

fn ask(call: u64) -> Ask {
    Ask { call, attempt: 0, tools: true, window: 100, max_output: 0, priority: 5 }
}

fn job(number: u8) -> JobId {
    JobId::from_random([0, 0, 0, 0, number])
}

/// A router whose clock the test moves; rolls are 0 unless said.
struct Bench {
    router: Router,
    now: Instant,
    grants: HashMap<JobId, Grant>,
}

impl Bench {
    fn new(providers: Vec<Provider>) -> Self {
        let now = Instant::now();
        Bench { router: Router::new(providers, 8, false, now), now, grants: HashMap::new() }
    }

    fn of(ids: &[&str]) -> Self {
        Self::new(ids.iter().map(|id| provider(id)).collect())
    }

    fn told(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.router.place(self.now);
        while let Some(told) = self.router.poll_event() {
            lines.push(match told.answer {
                Answer::Grant(grant) => {
                    let line = grant.provider.clone();
                    self.grants.insert(told.job, *grant);
                    line
                }
                Answer::Wait { why, until_ms } => format!("{why:?} {until_ms:?}"),
                Answer::Refuse { cause } => format!("refused {}", cause.kind),
                Answer::Park => "park".to_owned(),
            });
        }
        lines
    }

    fn ask(&mut self, number: u8, call: u64) -> Vec<String> {
        self.ask_for(number, ask(call), Wants::default())
    }

    fn ask_for(&mut self, number: u8, ask: Ask, wants: Wants) -> Vec<String> {
        self.router.ask(&job(number), ask, wants, self.now, 0.0);
        self.told()
    }

    fn report(&mut self, number: u8, class: AnswerClass, wait: Option<Wait>) -> Vec<String> {
        let grant = self.grants.get(&job(number)).expect("it holds a lease");
        let report = report_of(grant, class, wait);
        self.router.report(&job(number), &report, self.now, 0.0);
        self.told()
    }

    /// Answers the probe that is in flight; there must be one.
    fn probe(&mut self, class: Option<AnswerClass>) -> Vec<String> {
        let order = self.router.poll_probe().expect("a probe was ordered");
        let report = class.map(|class| report_of(&order.grant, class, None));
        self.router.probed(order.grant.lease, report.as_ref(), self.now, 0.0);
        self.told()
    }

    fn in_flight(&self) -> usize {
        self.router.accounts[0].in_flight().0
    }

    fn after(&mut self, wait: Duration) -> Vec<String> {
        self.now += wait;
        self.router.handle_timeout(self.now);
        self.told()
    }
}

fn report_of(grant: &Grant, class: AnswerClass, wait: Option<Wait>) -> Report {
    let (lease, generation) = (grant.lease, grant.generation);
    Report { lease, generation, account: grant.account.clone(), class, wait, ..Report::default() }
}

#[test]
fn the_order_is_the_policys_else_the_configurations() {
    let mut bench = Bench::of(&["a", "b"]);
    assert_eq!(bench.ask(1, 1), ["a"]);
    let wants = Wants { priority: vec!["b".into()], ..Wants::default() };
    assert_eq!(bench.ask_for(2, ask(1), wants), ["b"]);
    let wants = Wants { provider: Some("b".into()), model: Some("m".into()), ..Wants::default() };
    assert_eq!(bench.ask_for(3, ask(1), wants), ["b"]);
    assert_eq!(bench.grants[&job(3)].model, "m");
    let wants = Wants { model: Some("b-1".into()), ..Wants::default() };
    assert_eq!(bench.ask_for(4, ask(1), wants), ["b"]);
}

#[test]
fn nobody_capable_is_refused_before_any_request() {
    let mut bench = Bench::of(&["a"]);
    let large = Ask { window: 900, ..ask(1) };
    assert_eq!(bench.ask_for(1, large, Wants::default()), ["refused no_capable_provider"]);
    let wants = Wants { provider: Some("x".into()), ..Wants::default() };
    assert_eq!(bench.ask_for(2, ask(1), wants), ["refused no_capable_provider"]);
    let mut bench = Bench::new(vec![Provider { supports_tools: Some(false), ..provider("a") }, provider("b")]);
    assert_eq!(bench.ask(1, 1), ["b"]);
    assert_eq!(bench.ask_for(2, Ask { tools: false, ..ask(1) }, Wants::default()), ["a"]);
}

#[test]
fn a_reply_gets_the_room_that_the_window_leaves() {
    let mut bench = Bench::of(&["a"]);
    bench.ask_for(1, Ask { window: 700, ..ask(1) }, Wants::default());
    assert_eq!(bench.grants[&job(1)].max_output, 300);
    bench.ask_for(2, Ask { max_output: 50, ..ask(1) }, Wants::default());
    assert_eq!(bench.grants[&job(2)].max_output, 50);
}

#[test]
fn throttled_goes_to_the_same_provider_at_the_named_instant_and_not_a_moment_earlier() {
    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(17_000)));
    assert_eq!(bench.ask(1, 1), ["NotBefore Some(17000)"]);
    assert_eq!(bench.ask(2, 9), ["NotBefore Some(17000)"]);
    assert_eq!(bench.after(Duration::from_millis(16_999)), [] as [&str; 0]);
    assert_eq!(bench.router.poll_timeout(), Some(bench.now + Duration::from_millis(1)));
    assert_eq!(bench.after(Duration::from_millis(1)), ["a", "a"]);
}

#[test]
fn a_wait_above_a_minute_goes_to_the_next_at_once_and_without_a_next_ends_the_job() {
    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::Unavailable, Some(Wait::For(61_000)));
    assert_eq!(bench.ask(1, 1), ["b"]);
    let mut bench = Bench::of(&["a"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(3_600_000)));
    assert_eq!(bench.ask(1, 1), ["refused all_open"]);
    assert_eq!(bench.router.opens_at(&Wants::default(), bench.now), Opening::At(bench.now + SECOND * 3_600));
    bench.now += SECOND * 3_569;
    assert_eq!(bench.ask(1, 1), ["refused all_open"]);
    bench.now += SECOND;
    assert_eq!(bench.ask(1, 1), ["Breaker Some(30000)"], "its probe is near");
}

#[test]
fn closed_and_until_reset_shut_the_account_for_all_who_share_it() {
    for (class, wait) in [(AnswerClass::Closed, None), (AnswerClass::RateLimited, Some(Wait::UntilReset))] {
        let shared = Provider { account: "a".into(), ..provider("a2") };
        let mut bench = Bench::new(vec![provider("a"), shared, provider("b")]);
        bench.ask(1, 1);
        bench.report(1, class, wait);
        assert_eq!(bench.ask(1, 1), ["b"]);
        let wants = Wants { provider: Some("a2".into()), ..Wants::default() };
        assert_eq!(bench.ask_for(2, ask(1), wants.clone()), ["refused all_open"]);
        assert_eq!(bench.router.opens_at(&wants, bench.now), Opening::Never);
    }
}

/// Fails every attempt of one call with `class`; the providers in the order in which they were tried, and the end.
fn walk(ids: &[&str], class: AnswerClass) -> String {
    let mut bench = Bench::of(ids);
    let mut seen = Vec::new();
    for _ in 0..50 {
        let mut told = bench.ask(1, 1);
        while told.last().is_some_and(|line| line.contains("Some(")) {
            let wake = bench.router.poll_timeout().expect("a wait with an end");
            told = bench.after(wake - bench.now);
        }
        let line = told.pop().expect("an answer");
        seen.push(line.clone());
        if line.starts_with("refused") {
            break;
        }
        bench.report(1, class, None);
    }
    seen.join(" ")
}

#[test]
fn two_attempts_while_another_may_be_asked_five_when_not_two_fallbacks_then_the_end() {
    use AnswerClass::{Closed, RateLimited, Timeout, Unavailable};
    assert_eq!(walk(&["a"], Unavailable), "a a a a a refused all_open");
    assert_eq!(walk(&["a", "b"], Unavailable), "a a b b b b b refused attempts");
    assert_eq!(walk(&["a", "b", "c", "d"], Unavailable), "a a b b c c c c c refused attempts");
    assert_eq!(walk(&["a"], RateLimited), "a a a refused all_open");
    assert_eq!(walk(&["a", "b"], RateLimited), "a a b b b a refused all_open");
    assert_eq!(walk(&["a"], Timeout), "a a a refused all_open");
    assert_eq!(walk(&["a", "b", "c"], Timeout), "a b c c c refused attempts");
    assert_eq!(walk(&["a", "b"], Closed), "a b refused all_open");
}

#[test]
fn who_takes_no_tools_is_left_for_good() {
    let mut bench = Bench::of(&["a", "b"]);
    assert_eq!(bench.ask(1, 1), ["a"]);
    bench.report(1, AnswerClass::NoTools, None);
    assert_eq!(bench.ask(1, 1), ["b"]);
    assert_eq!(bench.ask(2, 1), ["b"], "and other jobs do not ask it either");
    assert_eq!(bench.ask_for(3, Ask { tools: false, ..ask(1) }, Wants::default()), ["a"]);
    bench.report(1, AnswerClass::NoTools, None);
    assert_eq!(bench.ask(1, 1), ["refused no_capable_provider"]);
}

#[test]
fn the_end_says_how_each_provider_failed() {
    let mut bench = Bench::of(&["a", "b"]);
    for class in [AnswerClass::Closed, AnswerClass::Unavailable] {
        bench.ask(1, 1);
        let grant = bench.grants.get(&job(1)).expect("it holds a lease");
        let report = Report { signature: format!("was {class:?}"), ..report_of(grant, class, None) };
        bench.router.report(&job(1), &report, bench.now, 0.0);
        bench.told();
    }
    let said = "call 1 was tried at a × 1 (last: was Closed), b × 1 (last: was Unavailable), and got no reply";
    assert_eq!(bench.router.history(&job(1)), said);
}

#[test]
fn what_was_given_up_is_no_attempt_and_a_kept_connection_that_was_closed_is_one_without_a_wait() {
    let mut bench = Bench::of(&["a", "b"]);
    for _ in 0..7 {
        assert_eq!(bench.ask(1, 1), ["a"]);
        bench.report(1, AnswerClass::Withdrawn, None);
    }
    for expected in ["a", "a", "b"] {
        assert_eq!(bench.ask(1, 1), [expected], "the request may have been read");
        let report =
            Report { signature: STALE.to_owned(), ..report_of(&bench.grants[&job(1)], AnswerClass::Withdrawn, None) };
        bench.router.report(&job(1), &report, bench.now, 0.0);
        assert_eq!(bench.told(), [] as [&str; 0]);
    }
}

#[test]
fn who_was_left_is_asked_again_only_when_the_other_cannot_be() {
    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::Timeout, None);
    assert_eq!(bench.ask(1, 1), ["b"]);
    bench.report(1, AnswerClass::Closed, None);
    assert_eq!(bench.ask(1, 1), ["Backoff Some(1000)"]);
    assert_eq!(bench.after(SECOND), ["a"]);
}

#[test]
fn a_new_call_begins_anew() {
    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::Timeout, None);
    assert_eq!(bench.ask(1, 1), ["b"]);
    bench.report(1, AnswerClass::Success, None);
    assert_eq!(bench.ask(1, 2), ["a"]);
}

#[test]
fn concurrency_is_waited_for_and_nine_is_served_before_zero() {
    let mut bench = Bench::new(vec![Provider { max_concurrency: Some(1), ..provider("a") }]);
    assert_eq!(bench.ask(1, 1), ["a"]);
    assert_eq!(bench.ask_for(2, Ask { priority: 0, ..ask(1) }, Wants::default()), ["Concurrency None"]);
    assert_eq!(bench.ask_for(3, Ask { priority: 9, ..ask(1) }, Wants::default()), ["Concurrency None"]);
    assert_eq!(bench.report(1, AnswerClass::Success, None), ["a"]);
    assert!(bench.grants.contains_key(&job(3)));
}

#[test]
fn what_a_dead_or_withdrawn_asker_held_comes_back_once() {
    let mut bench = Bench::new(vec![Provider { max_concurrency: Some(1), ..provider("a") }]);
    bench.ask(1, 1);
    bench.ask(2, 1);
    bench.ask(3, 1);
    bench.router.gone(&job(1), bench.now);
    assert_eq!(bench.told(), ["a"]);
    bench.router.gone(&job(1), bench.now);
    assert_eq!(bench.report(1, AnswerClass::Unavailable, None), [] as [&str; 0]);
    assert_eq!(bench.in_flight(), 1);
    bench.router.withdraw(&job(2), 7, bench.now);
    assert_eq!(bench.told(), [] as [&str; 0], "another call's withdrawal");
    let late = Some(Wait::For(9_000));
    assert_eq!(bench.report(1, AnswerClass::RateLimited, late), ["NotBefore Some(9000)"], "what was named binds");
    bench.router.withdraw(&job(2), 1, bench.now);
    assert_eq!(bench.told(), [] as [&str; 0]);
    assert_eq!(bench.after(SECOND * 9), ["a"]);
}

#[test]
fn an_older_generation_frees_its_slot_and_changes_no_more_than_a_named_wait() {
    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.ask(2, 1);
    bench.ask(3, 1);
    bench.report(1, AnswerClass::Closed, None);
    let breaker = bench.router.accounts[0].breaker();
    bench.report(2, AnswerClass::Unavailable, None);
    bench.report(3, AnswerClass::RateLimited, Some(Wait::For(5_000)));
    assert_eq!(bench.router.accounts[0].breaker(), breaker);
    assert_eq!(bench.in_flight(), 0);
    assert_eq!(bench.router.accounts[0].not_before(), Some(bench.now + SECOND * 5));
}

#[test]
fn a_lease_of_another_job_cannot_be_reported() {
    let mut bench = Bench::of(&["a"]);
    bench.ask(1, 1);
    let theirs = report_of(&bench.grants[&job(1)], AnswerClass::Closed, None);
    bench.router.report(&job(2), &theirs, bench.now, 0.0);
    assert_eq!(bench.in_flight(), 1);
}

#[test]
fn half_open_lets_a_probe_pass_and_nobody_else() {
    use AnswerClass::{Success, Unavailable};
    let mut bench = Bench::of(&["a"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(61_000)));
    bench.router.wish(&Wants::default(), bench.now);
    bench.after(SECOND * 61);
    for asker in 0..1_000u16 {
        let [high, low] = asker.to_be_bytes();
        let job = JobId::from_random([0, 0, 0, high, low]);
        bench.router.ask(&job, ask(1), Wants::default(), bench.now, 0.0);
    }
    assert_eq!(bench.told(), ["Breaker None"; 1_000]);
    assert_eq!(bench.probe(Some(AnswerClass::Rejected)), [] as [&str; 0], "a 400 says nothing");
    assert_eq!(bench.router.poll_probe(), None);
    bench.after(SECOND);
    assert_eq!(bench.probe(None), [] as [&str; 0], "a killed one neither");
    bench.after(SECOND * 2);
    assert_eq!(bench.probe(Some(Success)), [] as [&str; 0]);
    // The second of two that close it.
    let told = bench.probe(Some(Success));
    assert_eq!(told[0], "a");
    assert!(told[1..].iter().all(|line| line == "Concurrency None"), "{told:?}");
    assert_eq!((told.len(), bench.in_flight()), (1_000, 1), "concurrency begins with one");

    let mut bench = Bench::of(&["a", "b"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(61_000)));
    bench.ask(1, 1);
    bench.after(SECOND * 61);
    assert_eq!(bench.ask(2, 1), ["b"], "another candidate is taken");
    bench.probe(Some(Unavailable));
    bench.after(SECOND);
    bench.probe(Some(Unavailable));
    assert_eq!(bench.ask(3, 1), ["b"]);
    assert_eq!(bench.router.opens_at(&Wants { provider: Some("a".into()), ..Wants::default() }, bench.now), {
        Opening::At(bench.now + SECOND * 120)
    });
}

#[test]
fn an_idle_supervisor_sends_no_probes() {
    let mut bench = Bench::of(&["a"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(3_600_000)));
    bench.router.gone(&job(1), bench.now);
    bench.after(SECOND * 3_600);
    assert_eq!((bench.router.poll_probe(), bench.router.poll_timeout()), (None, None));
    bench.router.wish(&Wants::default(), bench.now);
    bench.after(Duration::ZERO);
    assert!(bench.router.poll_probe().is_some());
}

#[test]
fn where_all_are_open_a_job_is_parked_if_that_is_wanted() {
    let mut bench = Bench::of(&["a"]);
    bench.router.park = true;
    bench.ask(1, 1);
    bench.report(1, AnswerClass::Closed, None);
    assert_eq!(bench.ask(1, 1), ["park"]);
    bench.router.reset("a", false, bench.now);
    assert_eq!(bench.ask(1, 1), ["a"]);
}

#[test]
fn who_has_tried_all_that_may_be_tried_is_not_parked_to_try_it_again() {
    let mut bench = Bench::of(&["a"]);
    bench.router.park = true;
    for _ in 0..survey::ATTEMPTS_ALONE_MAX {
        bench.ask(1, 1);
        let wake = bench.router.poll_timeout().unwrap_or(bench.now);
        bench.after(wake - bench.now);
        bench.report(1, AnswerClass::Unavailable, None);
    }
    assert_eq!(bench.ask(1, 1), ["refused attempts"], "its own failures opened the breaker");
    assert_eq!(bench.ask(2, 1), ["park"], "and nobody else's");
}

#[test]
fn a_reset_keeps_what_was_named_unless_that_is_forgotten_too() {
    let mut bench = Bench::of(&["a"]);
    bench.ask(1, 1);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(3_600_000)));
    bench.router.reset("a", false, bench.now);
    assert_eq!(bench.ask(1, 1), ["refused all_open"]);
    bench.router.reset("a", true, bench.now);
    assert_eq!(bench.ask(1, 1), ["a"]);
}

#[test]
fn no_lease_is_given_while_it_is_not_known_whom_not_to_ask() {
    let mut bench = Bench::of(&["a"]);
    bench.router.shut(Cause::new(CauseKind::Quarantined, "it does not verify"));
    assert_eq!(bench.ask(1, 1), ["refused quarantined"]);
    assert_eq!(bench.router.opens_at(&Wants::default(), bench.now), Opening::Never);
    bench.router.wish(&Wants::default(), bench.now);
    assert_eq!(bench.router.poll_timeout(), None, "and nobody is woken for it");
}

fn rated(id: &str, requests_per_minute: u32, tokens_per_minute: u64) -> Provider {
    Provider { rates: Rates { requests_per_minute, burst: 0, tokens_per_minute }, ..provider(id) }
}

#[test]
fn a_bucket_spreads_those_who_wait_and_tells_them_once() {
    let mut bench = Bench::new(vec![rated("a", 120, 0)]);
    assert_eq!(bench.ask(1, 1), ["a"]);
    assert_eq!(bench.ask(2, 1), ["a"]);
    for number in 3..8 {
        assert_eq!(bench.ask(number, 1), ["Rate Some(501)"]);
    }
    for _ in 3..7 {
        let wake = bench.router.poll_timeout().expect("the next of them");
        assert_eq!(bench.after(wake - bench.now), ["a"]);
        assert_eq!(bench.after(Duration::from_millis(490)), [] as [&str; 0]);
    }
}

#[test]
fn a_large_request_is_not_overtaken_by_small_ones() {
    let mut bench = Bench::new(vec![rated("a", 0, 600)]);
    assert_eq!(bench.ask(1, 1), ["a"], "100 in and 400 out");
    let large = Ask { window: 500, max_output: 100, ..ask(1) };
    assert_eq!(bench.ask_for(2, large, Wants::default()), ["Rate Some(50001)"]);
    let small = Ask { window: 10, max_output: 10, ..ask(1) };
    assert_eq!(bench.ask_for(3, small, Wants::default()), ["Rate Some(50001)"]);
    // What was reserved and not used comes back.
    let grant = bench.grants[&job(1)].clone();
    let usage = Some(Usage { input: 100, cached: 0, output: 50, estimated: false });
    let report = Report { usage, ..report_of(&grant, AnswerClass::Success, None) };
    bench.router.report(&job(1), &report, bench.now, 0.0);
    assert_eq!(bench.told(), [] as [&str; 0]);
    assert_eq!(bench.after(SECOND * 16), ["a"]);
}

#[test]
fn who_changes_over_waits_for_a_thin_bucket_to_fill_and_no_longer_than_a_minute() {
    // `b` holds 10 requests and gets one a second.
    let thin = |per_minute| Provider {
        rates: Rates { requests_per_minute: per_minute, burst: 10, tokens_per_minute: 0 },
        max_concurrency: Some(50),
        ..provider("b")
    };
    let pinned = || Wants { provider: Some("b".into()), ..Wants::default() };
    let drained = |per_minute, more: Option<Provider>| {
        let mut bench = Bench::new([provider("a"), thin(per_minute)].into_iter().chain(more).collect());
        for number in 0..9 {
            assert_eq!(bench.ask_for(number, ask(1), pinned()), ["b"]);
        }
        assert_eq!(bench.ask(20, 1), ["a"]);
        bench.report(20, AnswerClass::Closed, None);
        bench
    };
    let mut bench = drained(60, None);
    assert_eq!(bench.ask(20, 1), ["Rate Some(2001)"], "from 10 % to 30 %");
    assert_eq!(bench.ask_for(21, ask(1), pinned()), ["b"], "who belongs there does not wait for that");
    assert_eq!(bench.after(Duration::from_millis(2_001)), [] as [&str; 0], "another one went meanwhile");
    assert_eq!(bench.after(SECOND), ["b"]);
    let mut bench = drained(1, Some(provider("c")));
    assert_eq!(bench.ask(20, 1), ["c"], "two minutes are too long, and there is another");
    let mut bench = drained(1, None);
    assert_eq!(bench.ask(20, 1), ["b"], "and where there is none, it goes");
}

#[test]
fn why_is_told_candidate_by_candidate() {
    let small = Provider { context_window: 200, ..provider("small") };
    let mut bench = Bench::new(vec![small, provider("a"), provider("b")]);
    bench.ask(1, 3);
    bench.report(1, AnswerClass::RateLimited, Some(Wait::For(90_000)));
    bench.ask(1, 3);
    bench.now += SECOND;
    let lines = bench.router.why(&job(1), bench.now).expect("it was decided on");
    let told = [
        "call 3, 1 s ago: was sent to b",
        "small: the window of about 100 tokens does not fit into its 200 with room for a reply",
        "a: OPEN for another 90 s: it asked for a long wait (asked 1 × for this call; at most 2 × while another may be \
         asked, else 5 ×)",
        "b: may be asked",
    ];
    assert_eq!(lines, told);
    assert_eq!(bench.router.why(&job(9), bench.now), None);
}

#[derive(Clone, Debug)]
enum Act {
    Ask { job: u8, call: u64 },
    Withdraw { job: u8 },
    Gone { job: u8 },
    Report { job: u8, class: AnswerClass, wait: Option<u64> },
    Pass { ms: u64 },
    Probed { class: Option<AnswerClass> },
}

fn any_act() -> impl Strategy<Value = Act> {
    let class = prop_oneof![
        Just(AnswerClass::Success),
        Just(AnswerClass::RateLimited),
        Just(AnswerClass::Unavailable),
        Just(AnswerClass::Timeout),
        Just(AnswerClass::Withdrawn),
        Just(AnswerClass::ContextOverflow),
    ];
    let probed = prop::option::of(class.clone());
    prop_oneof![
        2 => probed.prop_map(|class| Act::Probed { class }),
        4 => (0u8..6, 0u64..3).prop_map(|(job, call)| Act::Ask { job, call }),
        1 => (0u8..6).prop_map(|job| Act::Withdraw { job }),
        1 => (0u8..6).prop_map(|job| Act::Gone { job }),
        4 => (0u8..6, class, prop::option::of(0u64..90_000)).prop_map(|(job, class, wait)| Act::Report { job, class, wait }),
        2 => (0u64..70_000).prop_map(|ms| Act::Pass { ms }),
    ]
}

/// What must hold, kept apart from the router: who holds a lease, who waits, and until when an account is forbidden.
#[derive(Default)]
struct Model {
    held: HashMap<JobId, Grant>,
    waiting: std::collections::BTreeSet<JobId>,
    forbidden: HashMap<String, Instant>,
    probes: HashMap<u64, Grant>,
}

impl Model {
    fn hear(&mut self, router: &mut Router, now: Instant) -> Result<(), TestCaseError> {
        router.place(now);
        while let Some(Order { grant, .. }) = router.poll_probe() {
            let until = self.forbidden.get(&grant.account);
            prop_assert!(until.is_none_or(|until| *until <= now), "probed before a not-before");
            let in_flight = self.probes.values().filter(|other| other.account == grant.account);
            // One whose lease is over has failed, whether or not its process says so.
            prop_assert!(in_flight.clone().count() <= 1, "{in_flight:?}");
            self.probes.retain(|_, other| other.account != grant.account);
            self.probes.insert(grant.lease, grant);
        }
        while let Some(told) = router.poll_event() {
            prop_assert!(self.waiting.contains(&told.job), "an answer to nobody: {told:?}");
            match told.answer {
                Answer::Wait { .. } => continue,
                Answer::Grant(grant) => {
                    let until = self.forbidden.get(&grant.account);
                    prop_assert!(until.is_none_or(|until| *until <= now), "granted before a not-before");
                    self.held.insert(told.job.clone(), *grant);
                }
                Answer::Refuse { .. } | Answer::Park => {}
            }
            self.waiting.remove(&told.job);
        }
        for (account, bound) in [("a", 2), ("b", 1)] {
            let in_flight = self.held.values().filter(|grant| grant.account == account).count();
            prop_assert!(in_flight <= bound, "{in_flight} at {account}");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_grant_before_a_not_before_no_more_than_the_concurrency_and_an_end_for_every_ask(
        acts in prop::collection::vec(any_act(), 1..120), rolls in prop::collection::vec(0.0f64..1.0, 120),
    ) {
        let of = |id: &str, bound| Provider { max_concurrency: Some(bound), ..provider(id) };
        let mut router = Router::new(vec![of("a", 2), of("b", 1)], 8, false, Instant::now());
        let mut model = Model::default();
        let mut now = Instant::now();
        for (act, roll) in acts.into_iter().zip(rolls) {
            match act {
                Act::Ask { job: number, call } => {
                    model.held.remove(&job(number));
                    model.waiting.insert(job(number));
                    router.ask(&job(number), ask(call), Wants::default(), now, roll);
                }
                Act::Withdraw { job: number } => {
                    let call = router.calls.get(&job(number)).map_or(0, |call| call.call);
                    if router.calls.contains_key(&job(number)) {
                        model.held.remove(&job(number));
                        model.waiting.remove(&job(number));
                    }
                    router.withdraw(&job(number), call, now);
                }
                Act::Gone { job: number } => {
                    model.held.remove(&job(number));
                    model.waiting.remove(&job(number));
                    router.gone(&job(number), now);
                }
                Act::Report { job: number, class, wait } => if let Some(grant) = model.held.remove(&job(number)) {
                    if let Some(ms) = wait {
                        let until = model.forbidden.entry(grant.account.clone()).or_insert(now);
                        *until = (*until).max(now + Duration::from_millis(ms));
                    }
                    let report = report_of(&grant, class, wait.map(Wait::For));
                    router.report(&job(number), &report, now, roll);
                },
                Act::Pass { ms } => {
                    now += Duration::from_millis(ms);
                    router.handle_timeout(now);
                }
                Act::Probed { class } => if let Some(lease) = model.probes.keys().next().copied() {
                    let report = model.probes.remove(&lease).zip(class).map(|(grant, class)| report_of(&grant, class, None));
                    router.probed(lease, report.as_ref(), now, roll);
                }
            }
            model.hear(&mut router, now)?;
        }
        // From here on all who hold a lease report success, and time passes: nobody may be left waiting.
        for _ in 0..200 {
            if model.waiting.is_empty() {
                break;
            }
            for (holder, grant) in std::mem::take(&mut model.held) {
                router.report(&holder, &report_of(&grant, AnswerClass::Success, None), now, 0.0);
                model.hear(&mut router, now)?;
            }
            for (lease, grant) in std::mem::take(&mut model.probes) {
                router.probed(lease, Some(&report_of(&grant, AnswerClass::Success, None)), now, 0.0);
                model.hear(&mut router, now)?;
            }
            if let Some(wake) = router.poll_timeout() {
                now = now.max(wake);
            }
            router.handle_timeout(now);
            model.hear(&mut router, now)?;
        }
        prop_assert!(model.waiting.is_empty(), "left waiting: {:?}", model.waiting);
    }
}
