//! The thought signatures of a request: those of the current turn must be there, and each that is there must be as it was.
//!
//! https://ai.google.dev/gemini-api/docs/thought-signatures: the current turn is what follows the user's last own words; in
//! it the first call of each step carries one. From Gemini 3 on that is so for every call, before it for those that a
//! reply with reasoning made, which their ids tell.

#![deny(clippy::disallowed_methods)]

use serde_json::Value;

use super::super::refusal::Refusal;
use super::super::reply::thought_mark;
use super::super::thought_signature::{TAKEN_UNSEEN, always_signs, holds, sign};
use super::Judged;
use super::contents::Content;

pub fn judge(contents: &[Content<'_>], model: &str) -> Judged {
    let own_words = contents.iter().rposition(|content| !content.by_model && !content.responds());
    let current = own_words.map_or(0, |at| at + 1);
    for (at, content) in contents.iter().enumerate().filter(|(_, content)| content.by_model) {
        let mut calls = content.of("functionCall");
        if let Some((n, call)) = calls.next()
            && at >= current
        {
            needed(content, n, call, model)?;
        }
        for part in content.parts {
            let of = part["functionCall"]["name"].as_str().unwrap_or_default();
            let given = part["thoughtSignature"].as_str().unwrap_or_default();
            if !given.is_empty() && !holds(given, of) && !TAKEN_UNSEEN.contains(&given) {
                return corrupted();
            }
        }
    }
    Ok(())
}

fn needed(content: &Content<'_>, part: usize, call: &Value, model: &str) -> Judged {
    let name = call["name"].as_str().unwrap_or_default();
    let mark = thought_mark(call["id"].as_str().unwrap_or_default());
    match (content.parts[part]["thoughtSignature"].as_str(), mark) {
        (None | Some(""), None) if !always_signs(model) => Ok(()),
        (None | Some(""), _) => Err(Refusal::invalid(format!(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
             correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \
             `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures \
             for more details.",
            content.at + 1
        ))),
        // Ours came with this very one; what is taken unseen is for calls of others.
        (Some(given), Some(mark)) if given != sign(mark, name) => corrupted(),
        _ => Ok(()),
    }
}

fn corrupted() -> Judged {
    Err(Refusal::invalid("Corrupted thought signature."))
}
