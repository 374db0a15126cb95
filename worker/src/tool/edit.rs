//! Edit: one piece of text in one file becomes another; all the rest stays as it is, to the byte.
//!
//! The piece is named by its text and not by its place, so that what is changed is what the model meant, or nothing: a
//! text that stands in several places, or in none, is an answer and not a guess.

mod hint;
mod replace;
mod snippet;

use std::slice;

use ukai_protocol::event::ToolStatus;
use ukai_protocol::json::Json;

use super::draft::{Draft, MISSING};
use super::look::{Contents, WHOLE_BYTES_MAX};
use super::output::quote_path;
use super::shape::{BOM, Shape};
use super::{Context, Stopped, ToolOutput, text};
use replace::replace;

pub fn run(input: &Json, context: &Context) -> Result<ToolOutput, Stopped> {
    let key = |key| text(input, key).unwrap_or_default();
    let (old, new) = (key("old_string"), key("new_string"));
    let all = input.0.get("replace_all").and_then(serde_json::Value::as_bool).unwrap_or_default();
    let draft = Draft::open("Edit", input, old.is_empty(), context)?;
    let Some((look, contents)) = draft.old()? else {
        return match old {
            "" => put(&draft, input, new, &snippet::snippet(new, slice::from_ref(&(0..new.len()))), "Created"),
            _ => Err(draft.failed(MISSING)),
        };
    };
    let bytes = match contents {
        Contents::Whole(bytes) => bytes,
        Contents::TooLarge => {
            let bytes = look.mark.bytes;
            return Err(draft.failed(&format!("it has {bytes} bytes, more than the {WHOLE_BYTES_MAX} that Edit takes")));
        }
    };
    if !bytes.is_empty() {
        draft.check_seen(&look)?;
    }
    let shape = Shape::of(&bytes);
    let held = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        draft.failed(&format!("it is no UTF-8 text (byte {at} is not), so Edit would not keep it as it is"))
    })?;
    // The mark is no text that is changed: it stays in front, whatever is done to the first line.
    let body = if shape.bom { held.strip_prefix(BOM).unwrap_or(&held) } else { &held };
    let wanted =
        |text: &str| shape.line_ends(text.strip_prefix(BOM).filter(|_| shape.bom).unwrap_or(text)).into_owned();
    let edited = replace(body, &wanted(old), &wanted(new), all).map_err(|refused| {
        let hint = refused.is_missing().then(|| hint::hint(body, old, new)).flatten();
        draft.invalid(&format!("{refused}{}", hint.map_or(String::new(), |hint| format!(". {hint}"))))
    })?;
    let shown = snippet::snippet(&edited.text, &edited.places);
    let whole = shape.whole(&edited.text);
    let done = match edited.count {
        1 => "Edited one place in".to_owned(),
        count => format!("Edited {count} places in"),
    };
    put(&draft, input, &whole, &shown, &done)
}

fn put(draft: &Draft<'_>, input: &Json, whole: &str, shown: &str, done: &str) -> Result<ToolOutput, Stopped> {
    let change = draft.put(whole.as_bytes())?;
    let named = quote_path(text(input, "file_path").unwrap_or_default().as_bytes());
    let output = format!("{done} {named}.\n{shown}");
    Ok(ToolOutput { files_changed: vec![change], ..ToolOutput::new(ToolStatus::Ok, output) })
}
