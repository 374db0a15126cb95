//! Each limit ends a job before the act that would exceed it, with reason, cause and exit code 4.

use ukai_tests::home::Home;

use crate::scripts;

fn check(script: &str, limit: &str, cause: &str, also: impl Fn(&serde_json::Value)) {
    let (home, _script) = Home::with_script(script);
    let config = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("the configuration");
    home.configure(&format!("{config}price_in = 1000.0\nprice_out = 1000.0\n"));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--limit", limit, "--output", "json"]);
    assert_eq!(code, 4, "{limit}: {result}");
    assert_eq!(result["status"], "aborted", "{limit}");
    assert_eq!(result["reason"], "breaker_open", "{limit}");
    assert_eq!(result["cause"]["kind"], cause, "{limit}");
    assert_eq!(result["attention"], true, "{limit}");
    also(&result);
    assert_eq!(home.processes(), Vec::<u32>::new());
}

#[test]
fn steps() {
    check(&scripts::steps(20), "steps=3", "limit(steps)", |result| assert_eq!(result["steps"], 3));
}

#[test]
fn tool_calls() {
    check(&scripts::steps(20), "tool_calls=5", "limit(tool_calls)", |result| assert_eq!(result["tool_calls"], 5));
}

#[test]
fn tokens() {
    // With room for what the definitions of all tools are estimated at.
    check(&scripts::steps(20), "tokens=2500", "limit(tokens)", |result| {
        let used = result["tokens"]["input"].as_u64().zip(result["tokens"]["output"].as_u64());
        assert!(used.is_some_and(|(input, output)| (1..=2500).contains(&(input + output))), "{result}");
    });
}

#[test]
fn cost() {
    // 110 tokens a step at 1,000 USD a million.
    check(&scripts::steps(20), "max_cost_usd=2.5", "limit(cost)", |result| {
        assert!(result["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0 && cost <= 2.5), "{result}");
    });
}

#[test]
fn run_time_also_in_a_stream_that_hangs() {
    let hangs =
        "[[rule]]\nreply.text = \"a long text that never ends\"\nfault.hang = \"mid_stream\"\nfault.after_chars = 5\n";
    check(hangs, "run_time=400ms", "limit(run_time)", |result| assert_eq!(result["steps"], 0));
    check("[[rule]]\nfault.hang = \"before_headers\"\n", "max_wall=400ms", "limit(max_wall)", |_| {});
}

#[test]
fn a_notice_comes_at_four_fifths_once() {
    let (home, _script) = Home::with_script(&scripts::steps(10));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--limit", "steps=10", "--output", "json"]);
    assert_eq!(code, 0, "{result}");
    let id = result["job_id"].as_str().expect("an id");
    assert_eq!(home.count(id, "LimitWarned"), 1);
}

#[test]
fn a_cost_that_nothing_counts_is_said_wherever_it_was_set() {
    let (home, _script) = Home::with_script("[[rule]]\nreply.text = \"Done.\"\n");
    let config = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("the configuration");
    home.file("a.toml", "prompt = \"look\"\n[limits]\nmax_cost_usd = 1\n");
    let said = |config: &str, args: &[&str]| {
        home.configure(config);
        let output = home.ukai(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).matches("max_cost_usd does not bind at provider `lab`").count()
    };
    let (flag, file) = (["run", "look", "--limit", "max_cost_usd=1"], ["run", "--file", "a.toml"]);
    assert_eq!((said(&config, &flag), said(&config, &file)), (1, 1));
    assert_eq!(said(&format!("{config}[limits]\nmax_cost_usd = 1\n"), &["run", "look"]), 1);
    let priced = format!("{config}price_in = 1\nprice_out = 1\n");
    assert_eq!((said(&priced, &flag), said(&config, &["run", "look"])), (0, 0));
}

#[test]
fn replies_that_break_off_are_paid_for() {
    let breaks = "[[rule]]\nreply.text = \"a long text that is never ended by anybody\"\nfault = { cut = true, after_chars = 20 }\n";
    check(breaks, "tokens=2000", "limit(tokens)", |result| {
        assert_eq!(result["steps"], 0);
        assert!(result["tokens"]["input"].as_u64().is_some_and(|input| input > 500), "{result}");
        assert!(result["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{result}");
    });
}
