//! Providers that fail, close and lie: who is asked when and how often, and what becomes of the conversation.

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::raw::Raw;
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

/// `[[provider]]` of a script under an id of its own.
fn provider(id: &str, script: &Script, wire: &str) -> String {
    lab(script, wire).replace("id = \"lab\"", &format!("id = \"{id}\""))
}

fn raw(raw: &Raw) -> String {
    let url = &raw.url;
    format!(
        "[[provider]]\nid = \"raw\"\nwire = \"openai\"\nbase_url = \"{url}/v1\"\nmodel = \"m\"\n\
             context_window = 200000\nmax_output = 4096\n"
    )
}

fn refused(script: &Script) -> Vec<Value> {
    script.arrivals().into_iter().filter(|arrival| arrival["status"] == 400).collect()
}

/// Two steps of reading with thinking and ids as long as they may be, then a key that is refused.
const LEAVES: &str = r#"
[[rule]]
when.step = { at_most = 2 }
[rule.reply]
reasoning = "I think of {{step}}."
text = "Step {{step}}."
calls = [
    { tool = "Read", id = "toolu_0123456789012345678901234567890123456789012345678_{{step}}_a", args = { file_path = "notes.txt" } },
    { tool = "Read", id = "toolu_0123456789012345678901234567890123456789012345678_{{step}}_b", args = { file_path = "notes.txt" } },
]
[[rule]]
fault = { status = 401 }
"#;

/// One step more, then the end.
const TAKES_OVER: &str = r#"
[[rule]]
when.step = 3
reply.calls = [{ tool = "Read", args = { file_path = "notes.txt" } }]
[[rule]]
reply.text = "Done."
"#;

#[test]
fn a_conversation_goes_over_to_the_other_wire_and_stays_valid() {
    // OpenAI itself refuses ids above 40 characters, so only Anthropic can give longer ones.
    let short = LEAVES.replace("0123456789012345678901234567890123456789012345678", "0");
    for (from, to, leaves) in [("anthropic", "openai", LEAVES), ("openai", "anthropic", short.as_str())] {
        let home = Home::new();
        let (first, second) = (Script::serve(home.path(), leaves), Script::serve(home.path(), TAKES_OVER));
        home.configure(&(provider("first", &first, from) + &provider("second", &second, to)));
        home.file("notes.txt", &scripts::notes());
        let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
        assert_eq!((code, &result["text"], &result["steps"]), (0, &json!("Done."), &json!(4)), "{from}: {result}");
        assert_eq!((refused(&first), refused(&second)), (Vec::new(), Vec::new()), "{from} to {to}");
        assert_eq!((first.arrivals().len(), second.arrivals().len()), (3, 2), "{from} to {to}");
    }
}

#[test]
fn thinking_comes_back_as_it_was_after_the_worker_was_killed() {
    let script = r#"
[defaults]
latency = "150ms"
[[rule]]
when.step = { at_most = 4 }
[rule.reply]
reasoning = "I think of {{step}}. 鵜"
calls = [{ tool = "Read", args = { file_path = "notes.txt" } }]
[[rule]]
reply.text = "Done."
"#;
    let home = Home::new();
    let script = Script::serve(home.path(), script);
    home.configure(&lab(&script, "anthropic"));
    home.file("notes.txt", &scripts::notes());
    let run = home.command(&["run", "look", "--output", "json"]).stdout(std::process::Stdio::piped()).spawn();
    let run = run.expect("ukai runs");
    let pid = wait::until("the third step", || {
        (script.arrivals().len() >= 3).then_some(())?;
        home.processes().first().copied()
    });
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::SIGKILL);
    let output = run.wait_with_output().expect("it ends");
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!((&result["text"], &result["restarts"]), (&json!("Done."), &json!(1)), "{result}");
    assert_eq!(refused(&script), Vec::<Value>::new());
}

#[test]
fn a_kept_connection_that_the_server_closed_fails_nobody() {
    // Each connection serves one request and ends when it is used again, as idle ones do in front of many servers.
    let server = Raw::serve(|body, before| {
        let step = body.matches(r#""role":"assistant""#).count();
        let call = json!({"id": format!("c{step}"), "function": {"name": "Read", "arguments": r#"{"file_path":"notes.txt"}"#}});
        let message = if step < 4 { json!({"tool_calls": [call]}) } else { json!({"content": "Done."}) };
        (before == 0).then(|| json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
    });
    let home = Home::new();
    home.configure(&raw(&server));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["steps"]), (0, &json!(5)), "{result}");
    let id = result["job_id"].as_str().expect("an id");
    assert_eq!(server.requests(), 9, "each step after the first met one closed connection");
    assert_eq!(home.count(id, "Waiting"), 0, "nobody failed, so nobody is waited for");
}

#[test]
fn counts_beyond_reason_end_in_a_limit_and_in_no_overflow() {
    let server = Raw::serve(|body, _| {
        let step = body.matches(r#""role":"assistant""#).count();
        let call = json!({"id": format!("c{step}"), "function": {"name": "Read", "arguments": r#"{"file_path":"notes.txt"}"#}});
        let message = if step < 2 { json!({"tool_calls": [call]}) } else { json!({"content": "Done."}) };
        let usage = json!({"prompt_tokens": u64::MAX, "completion_tokens": 1e300});
        Some(json!({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).to_string())
    });
    let home = Home::new();
    home.configure(&raw(&server));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &json!("limit(tokens)")), "{result}");
    let all = format!("tokens={}", u64::MAX);
    let (code, result) = home.ukai_json(&["run", "look", "--limit", &all, "--output", "json"]);
    assert_eq!((code, &result["tokens"]["input"]), (0, &json!(u64::MAX)), "{result}");
}

#[test]
fn nobody_is_asked_before_the_instant_that_was_named() {
    let script = "[[rule]]\nfirst = \"500ms\"\nfault = { status = 429, headers = { retry-after = \"2\" } }\n\
                  [[rule]]\nreply.text = \"Done.\"\n";
    let (home, script) = Home::with_script(script);
    let _server = home.serve();
    for number in 0..8 {
        let prompt = format!("job {number}");
        assert!(home.ukai(&["submit", "--prompt", &prompt, "--limit", "run_time=1500ms"]).status.success());
    }
    wait::until("all jobs to end", || {
        let ended = home.runs().iter().filter(|id| home.count(id, "Finished") == 1).count();
        (ended == 8).then_some(())
    });
    for id in home.runs() {
        let end = home.events(&id).pop().expect("an end");
        assert!(end.to_string().contains("Done."), "waiting is no running: {end}");
    }
    let arrivals = script.arrivals();
    let at =
        |arrival: &Value| arrival["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()).expect("a time");
    let last = arrivals.iter().rfind(|arrival| arrival["status"] == 429).map(at).expect("a refusal");
    let answered: Vec<_> = arrivals.iter().filter(|arrival| arrival["status"] == 200).map(at).collect();
    assert_eq!(answered.len(), 8);
    for at in answered {
        let after = at.duration_since(last).as_millis();
        assert!(after >= 1_990, "asked {after} ms after it was told to wait 2 s: {arrivals:?}");
    }
}

#[test]
fn a_wait_above_a_minute_is_not_sat_out() {
    let away = "[[rule]]\nfault = { status = 503, headers = { retry-after = \"90\" } }\n";
    let (home, script) = Home::with_script(away);
    let begun = std::time::Instant::now();
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &json!("all_open")), "{result}");
    assert_eq!(script.arrivals().len(), 1);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());

    // What was named outlives a server, so each case has a home of its own.
    let (home, script) = Home::with_script(away);
    let second = Script::serve(home.path(), "[[rule]]\nreply.text = \"Done.\"\n");
    home.configure(&(lab(&script, "openai") + &provider("second", &second, "anthropic")));
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["text"]), (0, &json!("Done.")), "{result}");
    assert_eq!((script.arrivals().len(), second.arrivals().len()), (1, 1));

    let (home, script) = Home::with_script(away);
    home.configure(&(lab(&script, "openai") + &provider("second", &second, "anthropic")));
    let (code, result) = home.ukai_json(&["run", "look", "--provider", "lab", "--output", "json"]);
    assert_eq!((code, &result["cause"]["kind"]), (4, &json!("all_open")), "pinned, it goes nowhere else: {result}");
    assert_eq!((script.arrivals().len(), second.arrivals().len()), (1, 1));
}

#[test]
fn the_end_names_why_nobody_answered_and_the_provider_once() {
    let (home, _script) = Home::with_script("[[rule]]\nfault = { status = 404, message = \"no such model\" }\n");
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["cause"]["detail"]), (1, &json!("lab: HTTP 404: no such model")), "{result}");
}

#[test]
fn a_reply_that_was_cut_or_filtered_runs_none_of_its_calls() {
    for (stop, reason) in [("length", "context_overflow"), ("filter", "provider_rejected")] {
        let call = "{ tool = \"Read\", args = { file_path = \"notes.txt\" } }";
        let script = format!("[[rule]]\nreply = {{ text = \"a\", calls = [{call}, {call}], stop = \"{stop}\" }}\n");
        for wire in ["openai", "anthropic"] {
            let home = Home::new();
            let script = Script::serve(home.path(), &script);
            home.configure(&lab(&script, wire));
            home.file("notes.txt", &scripts::notes());
            let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
            assert_eq!((code, &result["cause"]["kind"]), (1, &json!(reason)), "{stop} {wire}: {result}");
            let id = result["job_id"].as_str().expect("an id");
            assert_eq!((home.count(id, "ToolStarted"), home.count(id, "ToolFinished")), (0, 2), "{stop} {wire}");
        }
    }
}

/// Replies as models and gateways get them wrong; each request after them is judged.
const ODD: &str = r#"
[[rule]]
when.step = 1
[rule.reply]
calls = [
    { tool = "re ad/..", args = {} },
    { tool = "Read", raw_args = '{"file_path":' },
    { tool = "Read", raw_args = '[1]' },
    { tool = "Read", raw_args = '{"file_path":"x\ud800\u0000"}' },
    { tool = "Read", args = { file_path = "notes.txt" }, id = "a b/鵜" },
    { tool = "Read", args = { file_path = "notes.txt" }, id = "a b/c" },
]
[[rule]]
when.step = 2
reply = { stop = "end", calls = [{ tool = "Bash", args = { command = "x" } }, { tool = "Read", args = { file_path = "notes.txt" }, id = "a_b__" }] }
fault.duplicate_finish = true
[[rule]]
when.step = 3
reply.calls = [{ tool = "Read", args = { file_path = "notes.txt" } }, { tool = "Read", args = { file_path = "notes.txt" } }]
fault.malformed_arguments = true
[[rule]]
when.step = 4
times = 1
reply = { text = "This breaks off.", calls = [{ tool = "Read", args = { file_path = "notes.txt" } }] }
fault = { cut = true, after_chars = 9 }
[[rule]]
when.step = 4
reply = { text = "All well.", stop = "calls" }
"#;

#[test]
fn odd_replies_leave_a_conversation_that_both_wires_take() {
    for wire in ["openai", "anthropic"] {
        let home = Home::new();
        let script = Script::serve(home.path(), ODD);
        home.configure(&lab(&script, wire));
        home.file("notes.txt", &scripts::notes());
        let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
        assert_eq!(refused(&script), Vec::<Value>::new(), "{wire}");
        assert_eq!((code, &result["text"], &result["steps"]), (7, &json!("All well."), &json!(4)), "{wire}: {result}");
        let id = result["job_id"].as_str().expect("an id");
        let answers = home.events(id).into_iter().filter(|record| record["event"] == "ToolFinished");
        let mut answers: Vec<_> = answers.map(|record| record["data"]["status"].to_string()).collect();
        answers.sort_unstable();
        // Two of them are the odd path and the denied command.
        let count = |status: &str| answers.iter().filter(|answer| answer.contains(status)).count();
        assert_eq!(
            (count("ok"), count("invalid"), count("denied"), answers.len()),
            (3, 5, 1, 10),
            "{wire}: {answers:?}"
        );
    }
}

#[test]
fn a_model_that_takes_no_tools_is_left_for_the_next() {
    let refuses = "[[rule]]\nfault.error = \"no_tools\"\n";
    for wire in ["openai", "anthropic"] {
        let home = Home::new();
        let first = Script::serve(home.path(), refuses);
        home.configure(&lab(&first, wire));
        let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
        assert_eq!((code, &result["cause"]["kind"]), (1, &json!("no_capable_provider")), "{wire}: {result}");
        let second = Script::serve(home.path(), "[[rule]]\nreply.text = \"Done.\"\n");
        home.configure(&(lab(&first, wire) + &provider("second", &second, wire)));
        let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
        assert_eq!((code, &result["text"]), (0, &json!("Done.")), "{wire}: {result}");
        assert_eq!((first.arrivals().len(), second.arrivals().len()), (1, 1), "it is known to the next: {wire}");
    }
}
