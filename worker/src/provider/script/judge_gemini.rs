//! The rules of Gemini's generateContent, in its words where they are known.
//!
//! Fields: https://ai.google.dev/api/generate-content and https://ai.google.dev/api/caching (contents, tools). The API is a
//! protocol buffer behind JSON, so a field that does not exist is refused by its path before anything else is looked at,
//! and either spelling of a name, `camelCase` or `snake_case`, is taken. Stricter than there: a call's tool must be one that
//! is offered, a response repeats the id of its call, and stands before any text.

#![deny(clippy::disallowed_methods)]

mod contents;
mod declarations;
mod fields;
mod shape;
mod signatures;

use serde_json::Value;

use super::refusal::Refusal;

type Judged = Result<(), Refusal>;

/// The body with each of the API's own names in `camelCase`.
pub fn judge(body: &Value, model: &str, scripted: &dyn Fn(&str) -> bool) -> Result<Value, Refusal> {
    if !body.is_object() {
        return Err(Refusal::invalid(
            "Invalid JSON payload received. Unknown name \"\": Root element must be a message.",
        ));
    }
    let body = fields::read(&shape::REQUEST, body)?;
    options(&body["generationConfig"])?;
    let offered = declarations::judge(&body)?;
    let contents = contents::judge(&body, &|tool| offered.contains(tool) || scripted(tool))?;
    signatures::judge(&contents, model)?;
    Ok(body)
}

fn options(config: &Value) -> Judged {
    let below = |name: &str| config[name].as_f64().is_some_and(|value| value < 1.0);
    if below("maxOutputTokens") {
        return wrong("generation_config.max_output_tokens: max_output_tokens must be positive.");
    }
    if below("candidateCount") {
        return wrong("generation_config.candidate_count: candidate_count must be positive.");
    }
    match config["temperature"].as_f64() {
        Some(temperature) if !(0.0..=2.0).contains(&temperature) => {
            wrong("generation_config.temperature: temperature must be in the range [0.0, 2.0].")
        }
        _ => Ok(()),
    }
}

/// As the API names a place that is well formed and wrong.
fn wrong(what: impl std::fmt::Display) -> Judged {
    Err(Refusal::invalid(format!("* GenerateContentRequest.{what}\n")))
}

#[cfg(test)]
mod tests;
