//! What hooks make of a tool's result before it is history.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::event::ToolStatus;
use ukai_protocol::secret::fingerprint::Mask;

use super::merge::Said;
use super::occasion::{Occasion, Subject, text_of};
use crate::tool::ToolOutput;
use crate::tool::output::{self, Capped};

/// Who is asked about it; none where nothing was carried out, or where it was cancelled.
pub(super) fn occasion(of: Subject, done: &ToolOutput) -> Option<Occasion> {
    match done.status {
        ToolStatus::Ok => Some(Occasion::PostToolUse { of, output: done.output.clone() }),
        ToolStatus::Failed => Some(Occasion::PostToolUseFailure { of, error: done.output.clone() }),
        _ => None,
    }
}

/// The result as the model will see it: replaced, and with what there is to say about it at its end.
pub(super) fn applied(mut done: ToolOutput, said: &Said, mask: &Mask) -> ToolOutput {
    if let Some(response) = &said.output {
        let mut shown = Capped::default();
        shown.push(&output::clean(text_of(response).as_bytes()));
        done.output = shown.finish("A hook of the owner has written it.");
    }
    if let Some(denied) = said.denied() {
        done.output.push_str(&format!("\n\nA hook of the owner objects: {}", denied.why));
    }
    if !said.context.is_empty() {
        done.output.push_str(&format!("\n\n{}", said.context));
    }
    mask.mask(&mut done.output);
    done
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hook::merge::{Kind, Verdict};

    #[test]
    fn a_result_is_replaced_and_commented() {
        let objection = Verdict { kind: Kind::Deny, hook: "lint".to_owned(), why: "not formatted".to_owned() };
        let said =
            |output, verdict, context: &str| Said { output, verdict, context: context.to_owned(), ..Said::default() };
        for (said, expected) in [
            (said(None, None, ""), "out"),
            (said(Some(json!("other")), None, ""), "other"),
            (said(Some(json!({"stdout": "o", "stderr": "e"})), None, ""), "o\ne"),
            (said(Some(json!({"type": "text", "file": {"content": "f"}})), None, ""), "f"),
            (said(Some(json!([1])), None, ""), "[1]"),
            (
                said(None, Some(objection.clone()), "see the guide"),
                "out\n\nA hook of the owner objects: not formatted\n\nsee the guide",
            ),
        ] {
            let done = ToolOutput::new(ToolStatus::Ok, "out".to_owned());
            assert_eq!(applied(done, &said, &Mask::default()).output, expected);
        }
    }

    #[test]
    fn only_what_was_carried_out_is_told() {
        for (status, told) in [
            (ToolStatus::Ok, true),
            (ToolStatus::Failed, true),
            (ToolStatus::Cancelled, false),
            (ToolStatus::Denied, false),
        ] {
            let of = Subject { call: "c".to_owned(), tool: "Bash".to_owned(), input: Default::default() };
            assert_eq!(occasion(of, &ToolOutput::new(status, String::new())).is_some(), told, "{status:?}");
        }
    }
}
