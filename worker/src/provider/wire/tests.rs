//! Streams and what they become, the conversation and what it becomes: one table per direction.

macro_rules! recorded {
    ($path:literal) => {
        include_str!(concat!("../../../../testdata/", $path, ".sse"))
    };
}

mod recorded;
mod replies;
mod requests;
mod round_trip;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use ukai_protocol::json::Json;
use ukai_protocol::message::{Args, Call, Opaque};

use super::draft::{REPLY_BYTES_MAX, REPLY_CALLS_MAX};
use super::*;
use crate::provider::sse::Decoder;

const WIRES: [Wire; 3] = [Wire::Openai, Wire::Anthropic, Wire::Gemini];

fn assemble(wire: Wire, stream: &str, used: &[&str]) -> Result<Reply, Trouble> {
    let mut decoder = Decoder::default();
    let mut assembler = Assembler::new(wire);
    let mut shown = String::new();
    decoder.push(stream.to_owned().into());
    decoder.end();
    while let Some(event) = decoder.poll().expect("an event stream") {
        shown.push_str(&assembler.event(&event.name, &event.data)?.text);
    }
    let reply = finish(assembler, used)?;
    assert_eq!(shown, reply.text, "what was shown is what is kept");
    Ok(reply)
}

fn whole(wire: Wire, body: &Value) -> Result<Reply, Trouble> {
    let mut assembler = Assembler::new(wire);
    assembler.whole(&body.to_string())?;
    finish(assembler, &[])
}

fn finish(assembler: Assembler, used: &[&str]) -> Result<Reply, Trouble> {
    let used: HashSet<&str> = used.iter().copied().collect();
    let mut n = 0;
    let mut fresh = || {
        n += 1;
        format!("new-{n}")
    };
    assembler.finish("lab", &mut Ids::new(&used, &mut fresh))
}

/// A reply in a few lines, so that a case can be read at a glance.
fn summary(reply: &Reply) -> Vec<String> {
    let mut lines = vec![format!("{:?} {:?}", reply.stop, reply.text)];
    for call in &reply.calls {
        lines.push(match &call.args {
            Args::Whole(json) => format!("{} {} {}", call.id, call.tool, json.to_text()),
            Args::Broken { text, why } => format!("{} {} BROKEN {text:?} {why}", call.id, call.tool),
        });
    }
    for opaque in &reply.opaque {
        lines.push(format!("{} {}", opaque.provider, opaque.data.to_text()));
    }
    if reply.usage != Reported::default() {
        let (input, cached) = reply.usage.input.unwrap_or_default();
        lines.push(format!("{input} in, {cached} of it cached, {} out", reply.usage.output.unwrap_or_default()));
    }
    lines
}

fn check(quirk: &str, wire: Wire, stream: &str, expected: &[&str]) {
    check_used(quirk, wire, stream, &[], expected);
}

fn check_used(quirk: &str, wire: Wire, stream: &str, used: &[&str], expected: &[&str]) {
    match assemble(wire, stream, used) {
        Ok(reply) => assert_eq!(summary(&reply), expected, "{quirk}"),
        Err(trouble) => panic!("{quirk}: {trouble:?}"),
    }
}
