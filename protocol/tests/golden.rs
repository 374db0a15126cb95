//! What travels between processes of one build, byte for byte. When one of these changes, `PROTOCOL_VERSION` must.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

use ukai_protocol::codec::{decode, encode};
use ukai_protocol::control::{Request, Selection};
use ukai_protocol::event::{Change, Event, FileChange, ToolStatus};
use ukai_protocol::frame::PROTOCOL_VERSION;
use ukai_protocol::job::{Cause, CauseKind, Limit, Outcome};
use ukai_protocol::lease::{AnswerClass, Grant, LimitsSeen, Report, Timeouts, Wait, Wire};
use ukai_protocol::message::{Args, Call, Stop, Usage};
use ukai_protocol::policy::{Judgement, Source};
use ukai_protocol::probe::{Observation, ProbeAnswer, ProbeKind, ProbeRequest, Seen, Shape};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Fingerprints;
use ukai_protocol::session::{Hello, ToSupervisor, ToWorker};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check<T>(message: &T, golden: &str)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let bytes = encode(message).expect("it encodes");
    assert_eq!(hex(&bytes), golden, "{message:?}: raise PROTOCOL_VERSION (now {PROTOCOL_VERSION}) with this change");
    assert_eq!(decode::<T>(&bytes).expect("it decodes"), *message);
    assert!(decode::<T>(&[&bytes[..], &[0]].concat()).is_err(), "a byte too many is an error");
    assert!(decode::<T>(&bytes[..bytes.len() - 1]).is_err(), "a byte too few is an error");
}

fn json(text: &str) -> ukai_protocol::json::Json {
    serde_json::from_str(text).expect("test data")
}

#[test]
fn the_first_frames() {
    let hello = Hello {
        job: "j-abcdefgh".parse().expect("an id"),
        attempt: 2,
        token: Secret::new("ab12".to_owned()),
        pid: 4711,
        reconnect: true,
    };
    check(&hello, "0a6a2d6162636465666768020461623132fb671201");
    check(&Request::Cancel { jobs: Selection::These(vec!["j-abcdefgh".to_owned()]) }, "0401010a6a2d6162636465666768");
    check(&ToWorker::Ack { n: 300 }, "02fb2c01");
}

#[test]
fn a_record_of_one_turn() {
    let call = Call { id: "c1".to_owned(), tool: "Read".to_owned(), args: Args::Whole(json(r#"{"file_path":"a"}"#)) };
    let events = vec![
        Event::Replied {
            step: 1,
            text: "hm".to_owned(),
            calls: vec![call],
            opaque: Vec::new(),
            stop: Stop::Calls,
            usage: Usage { input: 100, cached: 50, output: 7, estimated: false },
            cost_usd: 0.5,
            run_time_ms: 1500,
            wall_ms: 2000,
        },
        Event::Judged {
            call: "c1".to_owned(),
            tool: "Read".to_owned(),
            input: json(r#"{"file_path":"a"}"#),
            read_only: true,
            judgement: Judgement::allow(Source::Default),
        },
        Event::ToolFinished {
            call: "c1".to_owned(),
            tool: "Read".to_owned(),
            status: ToolStatus::Ok,
            output: "x".to_owned(),
            run_time_ms: 1501,
            wall_ms: 2001,
            files_changed: vec![FileChange { path: "/w/a".to_owned(), change: Change::Modified }],
            seen: Vec::new(),
        },
        Event::Finished {
            outcome: Outcome::Ended(Cause::new(CauseKind::Limit(Limit::Steps), "25 of 25")),
            text: String::new(),
        },
    ];
    check(
        &ToSupervisor::Record { attempt: 1, n: 0, events },
        "00010004090102686d01026331045265616400117b2266696c655f70617468223a2261227d000164320700000000000000e03ffbdc05fbd0070a0263310452656164117b2266696c655f70617468223a2261227d01000100000f0263310452656164000178fbdd05fbd10701042f772f61010015010c6c696d697428737465707329083235206f6620323500",
    );
}

#[test]
fn a_report() {
    let report = Report {
        lease: 9,
        generation: 3,
        class: AnswerClass::RateLimited,
        account: "lab".to_owned(),
        wait: Some(Wait::For(30_000)),
        limits_seen: LimitsSeen { requests_left: Some(0), tokens_left: None },
        usage: None,
        tools: Some(false),
        signature: "429".to_owned(),
    };
    check(&ToSupervisor::Report(report), "030903036c6162010100fb307501000000010003343239");
}

#[test]
fn a_probe() {
    let grant = Grant {
        lease: 9,
        generation: 3,
        provider: "lab".to_owned(),
        account: "lab".to_owned(),
        wire: Wire::Anthropic,
        url: "u".to_owned(),
        model: "m".to_owned(),
        key: Some(Secret::new("k".to_owned())),
        timeouts: Timeouts::default(),
        context_window: 1_000,
        max_output: 100,
        prices: None,
    };
    let kind = ProbeKind::Health(Shape { tools: true, output_tokens: 16, input_bytes: 300 });
    check(
        &ProbeRequest { grant, kind, deadline_ms: 30_000, secrets: Fingerprints::default() },
        "0903036c6162036c6162010175016d01016bfb1027fce0930400fb60eafbe8036400000110fb2c01fb3075000000000000000000000000000000000000000000000000000000000000000000",
    );
    let report = Report { lease: 9, generation: 3, class: AnswerClass::Success, ..Report::default() };
    let observations = vec![
        Observation { request: 1, seen: Seen::Answered { status: 200, content_type: "t".to_owned() } },
        Observation { request: 1, seen: Seen::Failed { why: "w".to_owned() } },
    ];
    check(
        &ProbeAnswer { report, detail: "d".to_owned(), tools: Some(false), observations },
        "0903000000000000000001640100020103c80174010d0177",
    );
}
