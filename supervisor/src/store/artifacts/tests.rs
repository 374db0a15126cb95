//! The checklist says what was seen and nothing else, and no file of the evidence holds the key.

use ukai_protocol::lease::{AnswerClass, Grant, Report, Timeouts};
use ukai_protocol::message::Usage;
use ukai_protocol::probe::ProbeKind;
use ukai_protocol::secret::fingerprint::Fingerprints;

use super::*;
use crate::store::testing::{AT, Temp};

const KEY: &str = "sk/of-the-probe";

fn request() -> ProbeRequest {
    let grant = Grant {
        lease: 1,
        generation: 1,
        provider: "lab".into(),
        account: "lab".into(),
        wire: Wire::Openai,
        url: format!("http://lab/v1?key={KEY}"),
        model: "lab-1".into(),
        key: Some(Secret::new(KEY.into())),
        timeouts: Timeouts::default(),
        context_window: 1_000,
        max_output: 100,
        prices: None,
    };
    ProbeRequest { grant, kind: ProbeKind::Capability, deadline_ms: 1_000, secrets: Fingerprints::default() }
}

/// All that a probe must see, each once.
fn everything() -> Vec<(u32, Seen)> {
    let text = str::to_owned;
    vec![
        (1, Seen::Sent { body: text("{\"tools\":[…]}") }),
        (1, Seen::ToolOffered { tool: text("Echo") }),
        (1, Seen::Answered { status: 200, content_type: text("text/event-stream") }),
        (1, Seen::LimitHeaders { headers: Vec::new() }),
        (1, Seen::ModelNamed { model: text("lab-1") }),
        (1, Seen::Came { text: format!("data: {{\"echo\":\"{KEY} and {}\"}}", KEY.replace('/', "\\/")) }),
        (1, Seen::Streamed { events: 4 }),
        (1, Seen::Called { id: text("c1"), given: true, tool: text("Echo"), arguments: Some(text("{}")) }),
        (1, Seen::UsageReported { usage: Usage { input: 9, cached: 1, output: 3, estimated: false } }),
        (2, Seen::Sent { body: text("{\"role\":\"tool\"}") }),
        (2, Seen::ResultSent { call: text("c1"), text: text("cormorant") }),
        (2, Seen::Answered { status: 200, content_type: text("text/event-stream") }),
        (2, Seen::Text { text: format!("cormorant\n\n- [x] `{KEY}`") }),
        (2, Seen::Terminal { what: text("[DONE]") }),
    ]
}

fn probed(observations: Vec<(u32, Seen)>) -> ProbedProvider {
    let report = Report { lease: 1, generation: 1, class: AnswerClass::Success, ..Report::default() };
    let observations = observations.into_iter().map(|(request, seen)| Observation { request, seen }).collect();
    let answer = ProbeAnswer { report, detail: format!("fine with {KEY}"), tools: Some(true), observations };
    ProbedProvider::new(&request(), Ok::<_, String>(answer))
}

fn written(providers: &[ProbedProvider]) -> (String, String) {
    let temp = Temp::new();
    let at: Timestamp = AT.parse().expect("an instant");
    let folder = write_probe(&temp.state, at, providers).expect("written");
    assert_eq!(folder, temp.state.root().join("artifacts/probe").join(AT));
    let again = write_probe(&temp.state, at, providers).expect("written");
    assert_ne!(again, folder, "one probe never overwrites another");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let (checklist, file) = (text("checklist.md"), text("lab.json"));
    for text in [&checklist, &file] {
        assert!(!text.contains(KEY) && !text.contains("sk\\/of"), "the key is in it: {text}");
    }
    (checklist, file)
}

#[test]
fn what_was_seen_is_ticked_by_what_was_seen() {
    let (checklist, file) = written(&[probed(everything())]);
    let golden = include_str!("../../../testdata/checklist.golden.md");
    assert_eq!(checklist, golden);
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(file["verdict"]["observations"][0]["seen"]["sent"]["body"], "{\"tools\":[…]}");
    assert_eq!((&file["provider"], &file["url"]), (&"lab".into(), &"http://lab/v1".into()));
}

#[test]
fn it_is_complete_only_with_each_observation() {
    // Those without a line of their own are evidence for what came, not that it came.
    let no_line = |seen: &Seen| matches!(seen, Seen::Sent { .. } | Seen::Came { .. });
    for left_out in 0..everything().len() {
        let mut observations = everything();
        let (_, seen) = observations.remove(left_out);
        // Each of the two requests was answered; the first answer makes it reachable, the second takes the result.
        let (checklist, _) = written(&[probed(observations)]);
        let complete = checklist.ends_with("\ncomplete\n");
        let twice = matches!(seen, Seen::Answered { .. }) && left_out < 5;
        assert_eq!(complete, no_line(&seen) || twice, "without {seen:?}: {checklist}");
        assert_eq!(checklist.contains("- [ ]"), !complete, "{checklist}");
    }
}

#[test]
fn what_was_not_seen_says_why_and_ticks_nothing() {
    let died = ProbedProvider::new(&request(), Err(format!("it died of {KEY}")));
    let (checklist, file) = written(&[died, probed(everything())]);
    assert!(checklist.contains("- [ ] reachable: it died of [key]\n"), "{checklist}");
    assert!(checklist.ends_with("incomplete: 10 of 20 lines have no observation\n"), "{checklist}");
    assert!(file.contains("\"provider\": \"lab\""), "{file}");
    let refused = vec![
        (1, Seen::Answered { status: 400, content_type: "application/json".to_owned() }),
        (1, Seen::LimitHeaders { headers: vec![("x-ratelimit-remaining-requests".to_owned(), "3".to_owned())] }),
        (1, Seen::Failed { why: "HTTP 400: no tools (http:400)".to_owned() }),
    ];
    let (checklist, _) = written(&[probed(refused)]);
    assert!(
        checklist.contains("- [x] rate-limit headers looked for: x-ratelimit-remaining-requests: 3\n"),
        "{checklist}"
    );
    assert!(checklist.contains("- [ ] final text: HTTP 400: no tools (http:400)\n"), "{checklist}");
    let called = vec![(1, Seen::Called { id: "c".into(), given: true, tool: "Echo".into(), arguments: None })];
    let (checklist, _) = written(&[probed(called)]);
    assert!(checklist.contains("an id: Echo was called, and its arguments were no object\n"), "{checklist}");
    let (checklist, _) = written(&[]);
    assert!(checklist.ends_with("incomplete: no provider was probed\n"), "{checklist}");
}
