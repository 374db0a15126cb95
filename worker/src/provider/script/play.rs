//! What goes down the connection, in which pieces and after which pauses: the only place that puts faults into a stream.

#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use bytes::Bytes;

use super::file::{Fault, Hang};
use super::stream::{Event, Part};

/// All of an answer, decided beforehand.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Before the headers; `None`: they never come.
    pub latency: Option<Duration>,
    pub pieces: Vec<Piece>,
    pub end: End,
}

#[derive(Debug, PartialEq)]
pub struct Piece {
    pub pause: Duration,
    pub bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Whole,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, save pings.
    Hang {
        ping: Option<(Duration, Bytes)>,
    },
}

impl Plan {
    pub fn of_body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Plan {
        Plan {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            latency: Some(Duration::ZERO),
            pieces: vec![Piece { pause: Duration::ZERO, bytes: body.into() }],
            end: End::Whole,
        }
    }

    pub fn never() -> Plan {
        Plan { latency: None, pieces: Vec::new(), ..Plan::of_body(200, "text/event-stream", "") }
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan::of_body(200, "application/json", Bytes::new())
    }
}

/// A stream with the rule's faults in it. `ping` and `error` are events in the wire's form.
pub fn stream(events: Vec<Event>, fault: &Fault, chunk_latency: Duration, ping: &str, error: &str) -> Plan {
    let mut events = with_ending_faults(events, fault);
    let mut end = End::Whole;
    let mut tail = None;
    let ping = fault.pings.map(|pause| (pause.0, Bytes::copy_from_slice(ping.as_bytes())));
    if fault.hang == Some(Hang::AfterHeaders) {
        events.clear();
        end = End::Hang { ping };
    } else if fault.cut || fault.error_event || fault.hang == Some(Hang::MidStream) {
        let rest = events.split_off(break_at(&events, fault.after_chars.unwrap_or(0)));
        if fault.hang == Some(Hang::MidStream) {
            end = End::Hang { ping };
        } else if fault.error_event {
            tail = Some(error.to_owned());
        } else {
            end = End::Cut;
            tail = rest.first().filter(|_| fault.torn).map(|event| {
                let half = event.text.floor_char_boundary(event.text.len() / 2);
                event.text[..half].to_owned()
            });
        }
    }
    let pieces = events.iter().map(|event| {
        let pause = if matches!(event.part, Part::Said(_)) { chunk_latency } else { Duration::ZERO };
        Piece { pause, bytes: Bytes::copy_from_slice(event.text.as_bytes()) }
    });
    let tail = tail.map(|text| Piece { pause: Duration::ZERO, bytes: text.into() });
    let mut plan = Plan { pieces: pieces.chain(tail).collect(), end, ..Plan::of_body(200, "text/event-stream", "") };
    plan.headers.push(("cache-control".to_owned(), "no-cache".to_owned()));
    slow(&mut plan, fault);
    plan
}

/// Every byte by itself, also of a body that is no stream.
pub fn slow(plan: &mut Plan, fault: &Fault) {
    let Some(pause) = fault.slow_bytes else { return };
    let whole = std::mem::take(&mut plan.pieces);
    let byte = |piece: &Piece, at: usize| Piece {
        pause: if at == 0 { piece.pause + pause.0 } else { pause.0 },
        bytes: piece.bytes.slice(at..=at),
    };
    plan.pieces = whole.iter().flat_map(|piece| (0..piece.bytes.len()).map(move |at| byte(piece, at))).collect();
}

fn with_ending_faults(events: Vec<Event>, fault: &Fault) -> Vec<Event> {
    let mut out = Vec::with_capacity(events.len() + 1);
    for event in events {
        let ends = matches!(event.part, Part::Finish | Part::Terminal);
        if ends && fault.no_terminal_event {
            continue;
        }
        if event.part == Part::Finish && fault.duplicate_finish {
            out.push(event.clone());
        }
        out.push(event);
    }
    out
}

/// The first event after so many characters, at the latest the one that says why the model stopped.
fn break_at(events: &[Event], after_chars: usize) -> usize {
    let mut said = 0;
    for (at, event) in events.iter().enumerate() {
        match event.part {
            Part::Said(chars) if said >= after_chars && chars > 0 => return at,
            Part::Said(chars) => said += chars,
            Part::Finish | Part::Terminal => return at,
            Part::Open | Part::Close => {}
        }
    }
    events.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Vec<Event> {
        use Part::*;
        [(Open, "o"), (Said(2), "ab"), (Said(2), "cd"), (Close, "c"), (Finish, "f"), (Terminal, "t")]
            .map(|(part, text)| Event { part, text: text.to_owned() })
            .to_vec()
    }

    fn check(fault: &str, text: &str, end: End) {
        let parsed: Fault = toml::from_str(fault).expect(fault);
        let plan = stream(row(), &parsed, Duration::ZERO, "ping", "error");
        let sent: Vec<u8> = plan.pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
        assert_eq!((String::from_utf8_lossy(&sent).as_ref(), plan.end), (text, end), "{fault}");
    }

    #[test]
    fn faults_stand_where_the_script_puts_them() {
        let hang = || End::Hang { ping: None };
        for (fault, text, end) in [
            ("", "oabcdcft", End::Whole),
            ("no_terminal_event = true", "oabcdc", End::Whole),
            ("duplicate_finish = true", "oabcdcfft", End::Whole),
            ("cut = true", "o", End::Cut),
            ("cut = true\nafter_chars = 1", "oab", End::Cut),
            ("cut = true\nafter_chars = 2\ntorn = true", "oabc", End::Cut),
            ("cut = true\nafter_chars = 99", "oabcdc", End::Cut),
            ("hang = 'mid_stream'\nafter_chars = 2", "oab", hang()),
            ("hang = 'after_headers'", "", hang()),
            (
                "hang = 'mid_stream'\npings = '1s'",
                "o",
                End::Hang { ping: Some((Duration::from_secs(1), Bytes::from_static(b"ping"))) },
            ),
            ("error_event = true\nafter_chars = 2", "oaberror", End::Whole),
            ("slow_bytes = '1ms'", "oabcdcft", End::Whole),
        ] {
            check(fault, text, end);
        }
    }

    #[test]
    fn only_what_the_model_says_waits_and_slow_bytes_come_one_by_one() {
        let pause = Duration::from_millis(5);
        let plan = stream(row(), &Fault::default(), pause, "", "");
        assert_eq!(plan.pieces.iter().filter(|piece| piece.pause == pause).count(), 2);
        let slow = Fault { slow_bytes: Some(super::super::pause::Pause(pause)), ..Fault::default() };
        let plan = stream(row(), &slow, Duration::ZERO, "", "");
        assert!(plan.pieces.iter().all(|piece| piece.bytes.len() == 1 && piece.pause == pause));
    }
}
