//! Probes of a provider, by the real worker over real sockets: what is found out, what is shown for it, and who is left.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ukai_protocol::frame::Role;
use ukai_protocol::lease::{AnswerClass, Grant, Timeouts, Wait, Wire};
use ukai_protocol::pipe;
use ukai_protocol::probe::{ProbeAnswer, ProbeKind, ProbeRequest, REQUEST_BYTES_MAX, Seen, Shape};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Fingerprints;
use ukai_supervisor::pool::reaper::Family;
use ukai_supervisor::probe;
use ukai_supervisor::store::StateDir;
use ukai_supervisor::store::artifacts::{self, ProbedProvider};
use ukai_tests::home::Home;
use ukai_tests::script::Script;
use ukai_tests::wait;

const KEY: &str = "sk-probe-0123456789";
/// Far above what a script takes; reached only where a test waits for it.
const DEADLINE_MS: u64 = 30_000;

/// Calls the tool, then says its result.
const CAPABLE: &str = r#"
[rate]
requests_per_minute = 600
[[rule]]
when = { result_of = "Echo" }
reply = { text = "{{result.Echo}}" }
[[rule]]
when = { tool = "Echo" }
[rule.reply]
text = "Calling."
calls = [{ tool = "Echo", args = { text = "cormorant" } }]
[[rule]]
reply = { text = "OK" }
"#;

fn request(script: &Script, wire: Wire, kind: ProbeKind, deadline_ms: u64) -> ProbeRequest {
    let url = match wire {
        Wire::Openai => format!("{}/v1", script.url),
        _ => script.url.clone(),
    };
    let grant = Grant {
        lease: 3,
        generation: 2,
        provider: "lab".into(),
        account: "lab".into(),
        wire,
        url,
        model: "lab-1".into(),
        key: Some(Secret::new(KEY.into())),
        timeouts: Timeouts::default(),
        context_window: 200_000,
        max_output: 4_096,
        prices: None,
    };
    ProbeRequest { grant, kind, deadline_ms, secrets: Fingerprints::default() }
}

fn ask(request: ProbeRequest) -> ProbeAnswer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let program = ukai_tests::binary("ukai-under-test-worker");
    let answer = runtime.block_on(probe::run(&program, Family::found(), request)).expect("an answer");
    assert_eq!((answer.report.lease, answer.report.generation), (3, 2));
    assert!(!format!("{answer:?}").contains(KEY), "the key is in {answer:?}");
    answer
}

fn health(wire: Wire, toml: &str, shape: Shape) -> ProbeAnswer {
    let home = Home::new();
    let script = Script::serve(home.path(), toml);
    let answer = ask(request(&script, wire, ProbeKind::Health(shape), DEADLINE_MS));
    assert_eq!(script.requests(), 1, "one request, whatever comes of it");
    answer
}

#[test]
fn a_capable_provider_leaves_complete_evidence() {
    for wire in [Wire::Openai, Wire::Anthropic] {
        let home = Home::new();
        let script = Script::serve(home.path(), CAPABLE);
        let request = request(&script, wire, ProbeKind::Capability, DEADLINE_MS);
        let answer = ask(request.clone());
        assert_eq!((answer.report.class, answer.tools), (AnswerClass::Success, Some(true)), "{answer:?}");
        assert!(answer.report.usage.is_some_and(|usage| usage.output > 0 && !usage.estimated), "{answer:?}");
        let refused: Vec<_> = script.arrivals().into_iter().filter(|arrival| arrival["status"] != 200).collect();
        assert!(refused.is_empty() && script.requests() == 2, "{refused:?}");

        let state = StateDir::new(home.state_dir());
        let at = "2026-11-29T12:00:00Z".parse().expect("an instant");
        let probed = [ProbedProvider::new(&request, Ok::<_, String>(answer))];
        let folder = artifacts::write_probe(&state, at, &probed).expect("written");
        let checklist = std::fs::read_to_string(folder.join("checklist.md")).expect("the checklist");
        assert!(checklist.ends_with("\ncomplete\n"), "{wire:?}: {checklist}");
        assert!(checklist.contains("] final text: cormorant\n"), "{wire:?}: {checklist}");
        assert!(checklist.contains("remaining"), "its rate-limit headers: {checklist}");
        let file = std::fs::read_to_string(folder.join("lab.json")).expect("the evidence");
        assert!(!file.contains(KEY) && !checklist.contains(KEY));
    }
}

#[test]
fn a_whole_reply_is_an_answer_whatever_is_in_it() {
    for wire in [Wire::Openai, Wire::Anthropic] {
        for (quirk, reply) in [
            ("a text", r#"{ text = "OK" }"#),
            ("nothing", r#"{ stop = "end" }"#),
            ("cut at the length", r#"{ text = "O", stop = "length" }"#),
            ("one body", r#"{ text = "OK", whole = true }"#),
        ] {
            let answer = health(wire, &format!("[[rule]]\nreply = {reply}\n"), Shape::default());
            assert_eq!((answer.report.class, answer.tools), (AnswerClass::Success, None), "{quirk}: {answer:?}");
            let whole = answer.observations.iter().any(|observation| observation.seen == Seen::Whole);
            assert_eq!(whole, quirk == "one body", "{quirk}: {answer:?}");
        }
    }
}

#[test]
fn a_failure_is_classed_as_a_jobs_attempt_would_class_it() {
    for (quirk, fault, class, tools) in [
        ("tools are refused", r#"{ error = "no_tools" }"#, AnswerClass::NoTools, Some(false)),
        ("the key", r#"{ status = 401, message = "no such key {{header.authorization}}" }"#, AnswerClass::Closed, None),
        ("a limit", r#"{ status = 429, headers = { retry-after = "17" } }"#, AnswerClass::RateLimited, None),
        ("overloaded", "{ status = 529 }", AnswerClass::Unavailable, None),
        ("a portal", "{ html = true }", AnswerClass::Unavailable, None),
    ] {
        let shape = Shape { tools: true, ..Shape::default() };
        let answer = health(Wire::Openai, &format!("[[rule]]\nfault = {fault}\n"), shape);
        assert_eq!((answer.report.class, answer.tools), (class, tools), "{quirk}: {answer:?}");
        assert!(!answer.detail.is_empty() && !answer.report.signature.is_empty(), "{quirk}: {answer:?}");
        if class == AnswerClass::RateLimited {
            assert!(matches!(answer.report.wait, Some(Wait::For(16_000..=17_000))), "{answer:?}");
        }
    }
}

#[test]
fn who_asks_to_wait_is_not_asked_for_the_rest() {
    for wire in [Wire::Openai, Wire::Anthropic] {
        for (quirk, headers, requests) in [
            ("an emptied bucket", r#"{ x-ratelimit-remaining-tokens = "0", x-ratelimit-reset-tokens = "50s" }"#, 1),
            ("a wait beside a reply", r#"{ retry-after = "50" }"#, 1),
            ("something is left", r#"{ x-ratelimit-remaining-tokens = "9", x-ratelimit-reset-tokens = "50s" }"#, 2),
        ] {
            let home = Home::new();
            let toml = format!(
                "[[rule]]\nwhen = {{ result_of = \"Echo\" }}\nreply.text = \"cormorant\"\n[[rule]]\n[rule.reply]\n\
                 headers = {headers}\ncalls = [{{ tool = \"Echo\", args = {{ text = \"cormorant\" }} }}]\n"
            );
            let script = Script::serve(home.path(), &toml);
            let answer = ask(request(&script, wire, ProbeKind::Capability, DEADLINE_MS));
            let report = &answer.report;
            assert_eq!((report.class, answer.tools), (AnswerClass::Success, Some(true)), "{quirk}: {answer:?}");
            assert_eq!(script.requests(), requests, "{quirk}: {answer:?}");
            let is_told = matches!(report.wait, Some(Wait::For(40_000..=50_000)));
            assert_eq!(is_told, requests == 1, "{quirk}: {answer:?}");
            assert_eq!(answer.detail.contains("the rest was not asked"), requests == 1, "{quirk}: {}", answer.detail);
        }
    }
}

#[test]
fn a_wait_is_told_though_the_deadline_comes_before_the_body() {
    let home = Home::new();
    let rule = "[[rule]]\nreply = { text = \"OK\", headers = { retry-after = \"50\" } }\n\
                fault = { hang = \"after_headers\" }\n";
    let script = Script::serve(home.path(), rule);
    let answer = ask(request(&script, Wire::Openai, ProbeKind::Capability, 2_000));
    assert_eq!((answer.report.class, &*answer.report.signature), (AnswerClass::Timeout, "timeout:probe"));
    assert!(matches!(answer.report.wait, Some(Wait::For(40_000..=50_000))), "{answer:?}");
}

#[test]
fn a_request_has_the_shape_that_was_asked_for() {
    for (shape, offered, bytes_min) in [
        (Shape::default(), false, 0),
        (Shape { tools: true, output_tokens: 700, input_bytes: 0 }, true, 0),
        (Shape { tools: false, output_tokens: 1_000_000, input_bytes: 9_000 }, false, 9_000),
    ] {
        let answer = health(Wire::Openai, "[[rule]]\nreply = { text = \"OK\" }\n", shape);
        let bodies = answer.observations.iter().filter_map(|observation| match &observation.seen {
            Seen::Sent { body } => Some(body.clone()),
            _ => None,
        });
        let body = bodies.collect::<String>();
        let has = answer.observations.iter().any(|observation| matches!(observation.seen, Seen::ToolOffered { .. }));
        assert_eq!((has, body.contains("\"tools\"")), (offered, offered), "{shape:?}: {body}");
        assert!(body.len() >= bytes_min && body.len() < bytes_min + 2_000, "{shape:?}: {} bytes", body.len());
        let limit = shape.output_tokens.clamp(16, 4_096).to_string();
        assert!(body.contains(&format!("tokens\":{limit}")), "{shape:?}: {body}");
    }
}

#[test]
fn a_probe_of_who_never_answers_ends_at_its_deadline() {
    let home = Home::new();
    let script = Script::serve(home.path(), "[[rule]]\nfault = { hang = \"before_headers\" }\n");
    let began = Instant::now();
    let answer = ask(request(&script, Wire::Openai, ProbeKind::Capability, 300));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((answer.report.class, &*answer.report.signature), (AnswerClass::Timeout, "timeout:probe"));
    let seen: Vec<_> = answer.observations.iter().map(|observation| &observation.seen).collect();
    assert!(matches!(seen[..], [Seen::Sent { .. }, Seen::ToolOffered { .. }, Seen::Failed { .. }]), "{seen:?}");
}

#[test]
fn a_probe_does_not_outlive_who_asked() {
    let home = Home::new();
    let script = Script::serve(home.path(), "[[rule]]\nfault = { hang = \"before_headers\" }\n");
    let request = request(&script, Wire::Openai, ProbeKind::Capability, DEADLINE_MS);
    let mut bytes = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(pipe::send(&mut bytes, Role::Supervisor, &request, REQUEST_BYTES_MAX)).expect("encoded");
    let mut worker = std::process::Command::new(ukai_tests::binary("ukai-under-test-worker"))
        .arg("probe")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = worker.stdin.take().expect("a pipe");
    stdin.write_all(&bytes).expect("it reads");
    wait::until("its request", || (script.requests() == 1).then_some(()));
    assert!(worker.try_wait().expect("ours").is_none(), "it waits for the provider");
    drop(stdin);
    let ended = wait::until("its end", || worker.try_wait().expect("ours"));
    assert_eq!(ended.code(), Some(1));
}

#[test]
fn what_is_no_request_is_refused_in_one_line() {
    for (quirk, stdin, args, code, said) in [
        ("nothing", "", &["probe"][..], 76, "ended before"),
        ("another program's words", "hello, are you there?", &["probe"], 76, "does not speak"),
        ("an argument", "", &["probe", "lab"], 64, "takes no arguments"),
    ] {
        let mut worker = std::process::Command::new(ukai_tests::binary("ukai-under-test-worker"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // One that has refused already reads no more.
        let _ = worker.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
        let output = worker.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{quirk}: {stderr}");
        assert!(stderr.contains(said), "{quirk}: {stderr}");
    }
}
