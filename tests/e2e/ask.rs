//! A call that no rule decides waits for a person, whatever dies meanwhile, and is carried out once or not at all.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use ukai_tests::home::{Home, Server, lab};
use ukai_tests::script::Script;
use ukai_tests::{terminal, wait};

/// A command that leaves a file, so that it can be counted how often it ran; then the end.
fn commands(count: usize) -> String {
    let step = |step: usize| {
        format!(
            "[[rule]]\nwhen.step = {step}\nreply.calls = [{{ tool = \"Bash\", args = {{ command = \"mktemp ran.XXXXXX\" }} }}]\n"
        )
    };
    let steps: String = (1..=count).map(step).collect();
    format!("{steps}[[rule]]\nreply.text = \"done\"\n")
}

/// A server, and a policy under which the command is asked.
fn served(calls: usize, policy: &str) -> (Home, Script, Server) {
    let (home, script) = Home::with_script(&commands(calls));
    home.file("policy.yaml", policy);
    let server = home.serve();
    (home, script, server)
}

const ASKS: &str = "version: 1\nask_timeout: 10m\nrules:\n  allow: [Read]\n";

fn submit(home: &Home) -> String {
    let output = home.ukai(&["submit", "--policy", "policy.yaml", "--name", "asker", "--prompt", "run it"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn shown(home: &Home, id: &str) -> Value {
    home.ukai_json(&["show", id, "--output", "json"]).1
}

fn open_ask(home: &Home, id: &str) -> Value {
    wait::until("a question", || shown(home, id)["asks"].get(0).cloned())
}

fn ended(home: &Home, id: &str, status: &str) -> Value {
    wait::until(status, || Some(shown(home, id)).filter(|shown| shown["status"] == status))
}

fn ran(home: &Home) -> usize {
    let files = std::fs::read_dir(home.work()).expect("a folder").filter_map(Result::ok);
    files.filter(|file| file.file_name().to_string_lossy().starts_with("ran.")).count()
}

/// The sources of the answers, in their order.
fn answers(home: &Home, id: &str) -> Vec<Value> {
    let records = home.events(id).into_iter().filter(|record| record["event"] == "AskAnswered");
    records.map(|record| record["data"]["judgement"].clone()).collect()
}

#[test]
fn a_yes_lets_it_run_once() {
    let (home, script, _server) = served(1, ASKS);
    let id = submit(&home);
    let ask = open_ask(&home, &id);
    assert_eq!(ask["tool"], "Bash");
    assert_eq!(ask["input"]["command"], "mktemp ran.XXXXXX");
    assert!(ask["deadline"].as_str().is_some_and(|at| at.ends_with('Z')), "{ask}");
    assert_eq!((shown(&home, &id)["status"].clone(), ran(&home)), (Value::from("waiting"), 0));
    let listed = home.ukai(&["ls"]);
    let (listed, banner) = (String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
    assert!(listed.contains("waits for you: Bash"), "{listed}");
    let ask_id = ask["ask_id"].as_str().expect("an id");
    assert!(banner.contains(&format!("1 call waits for you ({ask_id}); type: ukai approve")), "{banner}");

    let approved = home.ukai(&["approve", &id]);
    assert!(approved.status.success(), "{approved:?}");
    ended(&home, &id, "completed");
    assert_eq!(ran(&home), 1);
    assert_eq!(answers(&home, &id)[0]["source"], serde_json::json!({ "user": "once" }));
    assert!(script.arrivals().iter().all(|arrival| arrival["status"] == 200), "a history was invalid");

    let late = home.ukai(&["approve", ask_id]);
    assert_eq!(late.status.code(), Some(2));
    let why = String::from_utf8_lossy(&late.stderr);
    assert!(why.contains(ask_id) && why.contains("answered already: allowed by a person"), "{why}");
}

#[test]
fn a_no_with_a_reason_goes_to_the_model() {
    let (home, script, _server) = served(1, ASKS);
    let id = submit(&home);
    open_ask(&home, &id);
    let denied = home.ukai(&["deny", &id, "--because", "not on a Friday"]);
    assert!(denied.status.success(), "{denied:?}");
    ended(&home, &id, "completed");
    assert_eq!(ran(&home), 0);
    assert_eq!(answers(&home, &id)[0]["source"], serde_json::json!({ "user_reject": { "text": "not on a Friday" } }));
    let finished = home.events(&id).into_iter().find(|record| record["event"] == "ToolFinished").expect("a result");
    let told = finished["data"]["output"].as_str().unwrap_or_default();
    assert_eq!(told, "denied: a person said no: not on a Friday");
    assert_eq!(script.arrivals().len(), 2, "the loop goes on");
}

#[test]
fn silence_is_a_no() {
    let (home, _script, _server) = served(1, &ASKS.replace("10m", "1s"));
    let id = submit(&home);
    ended(&home, &id, "completed");
    assert_eq!(ran(&home), 0);
    assert_eq!(answers(&home, &id)[0]["source"], "timeout");
}

#[test]
fn an_answer_after_the_death_of_worker_and_server_is_carried_out_once() {
    let (home, script, mut server) = served(1, ASKS);
    let id = submit(&home);
    let ask = open_ask(&home, &id);
    for worker in home.workers() {
        kill(Pid::from_raw(worker.cast_signed()), Signal::SIGKILL).expect("killed");
    }
    server.kill();
    drop(server);
    let _server = home.serve();
    assert_eq!(open_ask(&home, &id)["ask_id"], ask["ask_id"], "it still waits");
    assert_eq!(ran(&home), 0);
    assert!(home.ukai(&["approve", &id]).status.success());
    ended(&home, &id, "completed");
    assert_eq!(ran(&home), 1);
    assert_eq!(answers(&home, &id).len(), 1);
    assert!(script.arrivals().iter().all(|arrival| arrival["status"] == 200), "a history was invalid");
}

#[test]
fn who_waits_for_a_person_holds_up_nobody_and_keeps_no_process() {
    let home = Home::new();
    let script = Script::serve(home.path(), &commands(1));
    home.configure(&format!("max_workers = 1\n{}", lab(&script, "openai")));
    home.file("policy.yaml", ASKS);
    let _server = home.serve();
    let ids: Vec<_> = (0..6).map(|_| submit(&home)).collect();
    for id in &ids {
        open_ask(&home, id);
    }
    wait::until("no process", || home.workers().is_empty().then_some(()));
    for id in &ids {
        assert_eq!(shown(&home, id)["restarts"], 0, "nothing crashed");
        assert!(home.ukai(&["approve", id]).status.success());
    }
    for id in &ids {
        ended(&home, id, "completed");
        assert_eq!(shown(&home, id)["restarts"], 0);
    }
    assert_eq!(ran(&home), ids.len());
}

#[test]
fn always_is_a_rule_for_this_job_and_those_to_come() {
    let (home, _script, _server) = served(3, ASKS);
    let id = submit(&home);
    open_ask(&home, &id);
    let approved = home.ukai(&["approve", &id, "--always"]);
    assert!(approved.status.success(), "{approved:?}");
    let said = String::from_utf8_lossy(&approved.stdout);
    assert!(said.contains("Bash(mktemp ran.XXXXXX)"), "{said}");
    ended(&home, &id, "completed");
    assert_eq!((ran(&home), answers(&home, &id).len()), (3, 1), "its like is not asked again");
    let kept =
        std::fs::read_to_string(home.path().join("config/ukai/tool_policy.yaml")).expect("a policy of one's own");
    assert!(kept.contains("\"Bash(mktemp ran.XXXXXX)\", Read"), "{kept}");
}

#[test]
fn a_job_that_is_cancelled_asks_nothing_any_more() {
    let (home, _script, _server) = served(1, ASKS);
    let id = submit(&home);
    let ask = open_ask(&home, &id);
    assert!(home.ukai(&["cancel", &id]).status.success());
    ended(&home, &id, "cancelled");
    let late = home.ukai(&["approve", ask["ask_id"].as_str().expect("an id")]);
    assert_eq!(late.status.code(), Some(2), "{late:?}");
    assert_eq!((ran(&home), shown(&home, &id)["asks"].as_array().map(Vec::len)), (0, Some(0)));
}

#[test]
fn at_a_terminal_the_question_is_put_there_and_elsewhere_to_nobody() {
    let args = ["run", "--policy", "policy.yaml", "run it"];
    for (typed, runs, source) in [
        ("y\n", 1, serde_json::json!({ "user": "once" })),
        ("n wait for me\n", 0, serde_json::json!({ "user_reject": { "text": "wait for me" } })),
    ] {
        let (home, _script) = Home::with_script(&commands(1));
        home.file("policy.yaml", ASKS);
        let played = terminal::play(&home.command(&args), "n REASON = no:", typed);
        assert!(played.shown.contains("mktemp ran.XXXXXX"), "{}", played.shown);
        let [id] = &home.runs()[..] else { panic!("one run") };
        assert_eq!((ran(&home), &answers(&home, id)[0]["source"]), (runs, &source), "{}", played.shown);
        assert_eq!(played.code, if runs == 1 { 0 } else { 7 }, "{}", played.shown);
    }
    let (home, _script) = Home::with_script(&commands(1));
    home.file("policy.yaml", ASKS);
    let output = home.ukai(&args);
    assert_eq!((output.status.code(), ran(&home)), (Some(7), 0));
    let [id] = &home.runs()[..] else { panic!("one run") };
    assert_eq!(home.count(id, "AskOpened"), 0);
}

/// Who answers first is heard, and the other is told so.
#[test]
fn two_answers_are_one_verdict() {
    let (home, _script, _server) = served(1, ASKS);
    let id = submit(&home);
    open_ask(&home, &id);
    let mut yes = home.command(&["approve", &id]).spawn().expect("it runs");
    let no = home.ukai(&["deny", &id]);
    let yes = yes.wait().expect("it ends");
    assert_eq!([yes.success(), no.status.success()].iter().filter(|won| **won).count(), 1, "{yes:?} {no:?}");
    ended(&home, &id, "completed");
    assert_eq!((answers(&home, &id).len(), ran(&home)), (1, usize::from(yes.success())));
}
