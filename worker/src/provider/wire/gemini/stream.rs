//! A Gemini reply as its chunks arrive. Each is a whole response with the next parts in it; the last one says why it ends,
//! and nothing comes after it: no other event closes the stream.

#![deny(clippy::disallowed_methods)]

use serde_json::{Value, json};
use ukai_protocol::message::Stop;

use super::parts::{Kept, part_signature};
use crate::provider::wire::draft::{Draft, Reply, Slot, Trouble};
use crate::provider::wire::{Delta, Ids, clean, count_at, error_in, str_at};

#[derive(Debug, Default)]
pub struct Stream {
    draft: Draft,
    kept: Kept,
    /// A reason to end came; parts after it repeat what was said.
    finished: bool,
    done: bool,
}

impl Stream {
    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn may_end(&self) -> bool {
        self.finished
    }

    pub fn event(&mut self, name: &str, data: &str) -> Result<Delta, Trouble> {
        let data = data.trim();
        // Gateways close with OpenAI's word; by itself it ends nothing here.
        if data == "[DONE]" {
            self.done = self.finished;
            return Ok(Delta::default());
        }
        if self.done || data.is_empty() {
            return Ok(Delta::default());
        }
        self.chunk(name, &clean::parse(data)?)
    }

    /// One response, or the list of them that the wire sends where it does not stream events.
    pub fn whole(&mut self, body: &str) -> Result<Delta, Trouble> {
        let body = clean::parse(body)?;
        let chunks = body.as_array().map_or(std::slice::from_ref(&body), Vec::as_slice);
        let is_response = |chunk: &Value| chunk.get("candidates").or(chunk.get("promptFeedback")).is_some();
        let mut said = Delta::default();
        for chunk in chunks {
            let delta = self.chunk("", chunk)?;
            said.text.push_str(&delta.text);
            said.content |= delta.content;
        }
        if !chunks.iter().any(is_response) {
            return Err(Trouble::Unreadable("a JSON body without `candidates`".to_owned()));
        }
        self.finished = true;
        self.done = true;
        Ok(said)
    }

    pub fn finish(mut self, provider: &str, ids: &mut Ids<'_>) -> Result<Reply, Trouble> {
        // The wire has no word of its own for a reply that asks for tools.
        if self.draft.stop == Some(Stop::End) && !self.draft.slots.is_empty() {
            self.draft.stop = Some(Stop::Calls);
        }
        self.draft.opaque.extend(self.kept.into_opaque());
        self.draft.finish(provider, ids)
    }

    fn chunk(&mut self, name: &str, chunk: &Value) -> Result<Delta, Trouble> {
        if let Some(error) = error_in(name, chunk) {
            return Err(Trouble::Told(error));
        }
        self.usage(chunk);
        if !str_at(chunk.get("promptFeedback").unwrap_or(&Value::Null), "blockReason").is_empty() {
            self.end(Stop::Filter);
        }
        let mut delta = Delta::default();
        let Some(candidate) = chunk.pointer("/candidates/0").filter(|_| !self.finished) else { return Ok(delta) };
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.part(part, &mut delta)?;
        }
        self.finish_reason(candidate)?;
        Ok(delta)
    }

    fn part(&mut self, part: &Value, delta: &mut Delta) -> Result<(), Trouble> {
        let signature = part_signature(part);
        self.draft.grow(signature.map_or(0, str::len))?;
        if part.get("thought").and_then(Value::as_bool).unwrap_or(false) {
            delta.content = true;
            self.draft.leave_call();
            let size = part.to_string().len();
            self.draft.grow(size)?;
            // A summary of thoughts is not wanted back; a signed one is.
            if signature.is_some() {
                self.kept.thought(part.clone());
            }
        } else if let Some(call) = part.get("functionCall").or_else(|| part.get("function_call")) {
            delta.content = true;
            self.call(call, signature)?;
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            let text = self.draft.add_text(text)?;
            self.kept.text(text.len(), signature);
            delta.content |= !text.is_empty();
            delta.text.push_str(&text);
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, signature: Option<&str>) -> Result<(), Trouble> {
        let id = Some(str_at(call, "id")).filter(|id| !id.is_empty()).map(str::to_owned);
        let has_id = id.is_some();
        // Arguments in pieces are sent only to who asks for them; what came of them is not all.
        let in_pieces = call.get("partialArgs").is_some() || call.get("willContinue") == Some(&Value::Bool(true));
        let args = match call.get("args") {
            None | Some(Value::Null) => String::new(),
            Some(args) => args.to_string(),
        };
        let args = if in_pieces { String::new() } else { args };
        let name = str_at(call, "name").to_owned();
        let place = self.draft.add_slot(Slot { id, name, args, closed: !in_pieces, ..Slot::default() })?;
        self.kept.call(place, signature, has_id);
        Ok(())
    }

    fn finish_reason(&mut self, candidate: &Value) -> Result<(), Trouble> {
        let reason = str_at(candidate, "finishReason");
        let message = str_at(candidate, "finishMessage");
        let stop = match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(()),
            "STOP" => Stop::End,
            "MAX_TOKENS" => Stop::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" | "MODEL_ARMOR" => {
                Stop::Filter
            }
            _ if reason.starts_with("IMAGE_") => Stop::Filter,
            // The model called something that the wire could not read, or that was not offered. Said nothing of, what it
            // said before would pass for its answer; as a call that never ran, the model hears of it.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                let (name, args) = (called(message).to_owned(), lost(reason, message));
                let unusable = Some("the provider could not read it as a call of a tool that was offered");
                let slot = Slot { name, args, unusable, ..Slot::default() };
                let place = self.draft.add_slot(slot)?;
                self.kept.call(place, None, false);
                Stop::Calls
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let message = if message.is_empty() { "a thought signature is missing" } else { message };
                return Err(Trouble::Told(json!({"status": reason, "message": message})));
            }
            "MALFORMED_RESPONSE" => return Err(Trouble::Unreadable(format!("{reason}: {message}"))),
            _ => Stop::Unknown,
        };
        self.end(stop);
        Ok(())
    }

    fn end(&mut self, stop: Stop) {
        self.finished = true;
        self.draft.stop.get_or_insert(stop);
    }

    /// Counts are of the whole reply so far, and not all of them come with each chunk.
    fn usage(&mut self, chunk: &Value) {
        let Some(usage) = chunk.get("usageMetadata") else { return };
        let input = count_at(usage, "/promptTokenCount").saturating_add(count_at(usage, "/toolUsePromptTokenCount"));
        let cached = count_at(usage, "/cachedContentTokenCount").min(input);
        let output = count_at(usage, "/candidatesTokenCount").saturating_add(count_at(usage, "/thoughtsTokenCount"));
        let tokens = &mut self.draft.usage;
        if input > 0 {
            tokens.cache_read = cached.max(tokens.cache_read).min(input);
            tokens.fresh = input - tokens.cache_read;
        }
        tokens.output = tokens.output.max(output);
    }
}

/// The tool in `Malformed function call: print(default_api.Read(path='x'))`; empty where none is named.
fn called(message: &str) -> &str {
    let after = message.split("default_api.").nth(1).unwrap_or_default();
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    &after[..end]
}

/// What stands for arguments that nobody could read.
fn lost(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { message.to_owned() }
}
