//! Rates: twenty workers on five requests a second do not storm, and none of them is taken for stalled.

use serde_json::Value;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

const JOBS: usize = 20;
/// Requests of each: two of them look at a file.
const STEPS: usize = 3;

/// Counts what comes, and refuses more than five a second.
const SCRIPT: &str = r#"
[rate]
requests_per_minute = 300
burst = 5
[[rule]]
when.step = { at_most = 2 }
reply.calls = [{ tool = "Read", args = { file_path = "notes.txt" } }]
[[rule]]
reply.text = "Done."
"#;

#[test]
fn twenty_workers_share_five_requests_a_second() {
    let home = Home::new();
    let script = Script::serve(home.path(), SCRIPT);
    home.file("notes.txt", "a note\n");
    // They wait for most of the time, and that is neither run time nor a hang.
    let rates = "requests_per_minute = 300\n[supervision]\nheartbeat = \"200ms\"\nhang = \"2s\"\n";
    home.configure(&format!("max_workers = {JOBS}\n{}{rates}", lab(&script, "openai")));
    let _server = home.serve();
    let prompts: Vec<String> = (0..JOBS).map(|number| format!("job {number}")).collect();
    for prompt in &prompts {
        assert!(home.ukai(&["submit", "--prompt", prompt, "--limit", "run_time=5s"]).status.success());
    }
    wait::until("all jobs to end", || {
        let ended = home.runs().iter().filter(|id| home.count(id, "Finished") == 1).count();
        (ended == JOBS).then_some(())
    });
    for id in home.runs() {
        let events = home.events(&id);
        assert!(events.last().is_some_and(|end| end.to_string().contains("Done.")), "{events:?}");
        assert_eq!((home.count(&id, "Started"), home.count(&id, "Interrupted")), (1, 0), "none hung: {events:?}");
        // For each call once for its bucket, once for what the provider named: no news whenever another one goes.
        assert!(home.count(&id, "Waiting") <= 2 * STEPS, "{events:?}");
    }
    let arrivals = script.arrivals();
    let refused = arrivals.iter().filter(|arrival| arrival["status"] == 429).count();
    assert!(refused <= 3, "{refused} were refused");
    let at: Vec<f64> = arrivals.iter().filter_map(|arrival| arrival["at_ms"].as_f64()).collect();
    assert_eq!(at.len(), JOBS * STEPS + refused);
    let crowded = at.windows(11).filter(|window| window[10] - window[0] < 1_000.0).count();
    assert_eq!(crowded, 0, "more than ten within a second (five, and a burst of five): {at:?}");
    let span = at.last().expect("the last") - at[0];
    assert!(span >= (JOBS * STEPS - 5) as f64 * 200.0 - 100.0, "{span} ms");
}

#[test]
fn tokens_are_reserved_and_what_was_not_used_comes_back() {
    let home = Home::new();
    let script = Script::serve(
        home.path(),
        "[defaults]\nlatency = \"50ms\"\n[[rule]]\nreply = { text = \"Done.\", usage = { input = 100, output = 20 } }\n",
    );
    // Each reserves 4,096 of output, and uses 120 in all: three after one another fit, and none waits for a minute.
    home.configure(&format!("{}tokens_per_minute = 6000\n", lab(&script, "openai")));
    let _server = home.serve();
    let begun = std::time::Instant::now();
    home.file("jobs.txt", "a\nb\nc\nd\n");
    home.file("job.toml", "prompt = \"say {{line}}\"\n");
    let output = home.ukai(&["run", "--file", "job.toml", "--each", "jobs.txt"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    let arrivals: Vec<Value> = script.arrivals();
    assert_eq!(arrivals.len(), 4);
    let at = |place: usize| arrivals[place]["at_ms"].as_f64().expect("a time");
    assert!((1..4).all(|place| at(place) - at(place - 1) >= 45.0), "one at a time: {arrivals:?}");
}
