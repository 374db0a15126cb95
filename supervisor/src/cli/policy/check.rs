//! `ukai policy check`: one call, one JSON line, one exit code (spec §14).

use ukai_protocol::json::Json;
use ukai_protocol::one_shot::{Answer, Call, Decision, Verdict};

use super::{ASKED, DENIED, Of, asked, faults, ground, say};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::print;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    of: Of,
    /// The tool: Bash, Read, Edit, …
    #[arg(value_name = "TOOL")]
    tool: String,
    /// What a model would give it, as a JSON object: '{"command":"ls"}'
    #[arg(value_name = "INPUT")]
    input: String,
}

pub(super) async fn check(context: &Context, Args { of, tool, input }: Args) -> Result<u8, Failure> {
    let (ground, mut notes) = ground(context, of).await?;
    let input = object(&input).map_err(|why| Failure::usage(format!("the input of {tool}: {why}")))?;
    let traced = &ground.traced;
    let calls = vec![Call { tool: tool.clone(), input }];
    let mut answer = asked(context, &ground.workdir, &traced.policy, calls).await?;
    let verdict = match answer.verdicts.pop() {
        Some(Answer::Judged(verdict)) => verdict,
        Some(Answer::NoCall { why }) => {
            return Err(Failure::usage(format!("checking a call of {tool}: {why}")));
        }
        None => return Err(Failure::failed("checking a call: no answer came; run binaries of one build")),
    };
    // What could not be read at all has been noted as it was read.
    if traced.policy.broken.is_none() {
        let faults = faults(traced, &answer);
        notes.extend(faults.iter().map(|fault| format!("every tool call is denied: {fault}")));
    }
    say(&notes);
    print::out(&format!("{}\n", line(&verdict)?));
    Ok(match verdict.decision {
        Decision::Allow => 0,
        Decision::Ask => ASKED,
        Decision::Deny => DENIED,
    })
}

fn line(verdict: &Verdict) -> Result<String, Failure> {
    serde_json::to_string(verdict).map_err(|error| Failure::failed(format!("writing the verdict as JSON: {error}")))
}

/// In words for a person; never quotes what was typed.
fn object(text: &str) -> Result<Json, String> {
    const NEXT: &str = "write an object like '{\"command\":\"ls\"}'";
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(map)) => Ok(Json(map)),
        Ok(_) => Err(format!("it is JSON, but no object; {NEXT}")),
        Err(error) => Err(format!("it is no JSON: {error}; {NEXT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_these_bytes() {
        let verdict = Verdict {
            decision: Decision::Deny,
            source: "rule".to_owned(),
            rule: Some("deny Bash(rm -rf:*)".to_owned()),
            why: "w".to_owned(),
        };
        let expected = r#"{"decision":"deny","source":"rule","rule":"deny Bash(rm -rf:*)","why":"w"}"#;
        assert_eq!(line(&verdict).as_deref(), Ok(expected));
        let asked = Verdict { decision: Decision::Ask, source: "default".to_owned(), rule: None, ..verdict };
        assert_eq!(line(&asked).as_deref(), Ok(r#"{"decision":"ask","source":"default","rule":null,"why":"w"}"#));
    }

    #[test]
    fn an_input_is_an_object() {
        assert!(object(r#"{"a":1}"#).is_ok());
        for (text, part) in [("[]", "no object"), ("ls", "no JSON"), ("", "no JSON"), ("{\"a\":1} x", "no JSON")] {
            assert!(object(text).is_err_and(|why| why.contains(part)), "{text}");
        }
    }
}
