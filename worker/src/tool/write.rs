//! Write: the whole contents of one file, new or in place of what was there.

use ukai_protocol::event::{Change, ToolStatus};
use ukai_protocol::json::Json;

use super::draft::Draft;
use super::look::Contents;
use super::output::{counted, quote_path};
use super::read::BINARY_LOOK_BYTES;
use super::shape::Shape;
use super::{Context, Stopped, ToolOutput, text};

pub fn run(input: &Json, context: &Context) -> Result<ToolOutput, Stopped> {
    let content = text(input, "content").unwrap_or_default();
    let draft = Draft::open("Write", input, true, context)?;
    let mut shape = Shape::default();
    if let Some((look, old)) = draft.old()? {
        // What is too large to be held is not looked into; it has no shape that would be kept.
        let old = match old {
            Contents::Whole(old) => Some(old),
            Contents::TooLarge => None,
        };
        let start = old.as_ref().map_or(&[][..], |old| &old[..old.len().min(BINARY_LOOK_BYTES)]);
        if start.contains(&0) {
            return Err(
                draft.failed("what is there is a binary file, which is not replaced by text. Write another file")
            );
        }
        shape = old.as_ref().map_or(shape, |old| Shape::of(old));
        // Nothing is lost by writing over nothing, nor over the very same: after a crash the same call comes again.
        let harmless = old.is_some_and(|old| old.is_empty() || old == shape.whole(content).as_bytes());
        if !harmless {
            draft.check_seen(&look)?;
        }
    }
    let whole = shape.whole(content);
    let change = draft.put(whole.as_bytes())?;
    let done = match change.change {
        Change::Created => "Created",
        Change::Modified => "Wrote",
    };
    let named = quote_path(text(input, "file_path").unwrap_or_default().as_bytes());
    let (lines, bytes) = (counted(whole.lines().count() as u64, "line"), counted(whole.len() as u64, "byte"));
    let kept = match shape {
        Shape { crlf: true, .. } => " Its line ends are CRLF, as they were.",
        Shape { crlf: false, .. } => "",
    };
    let output = format!("{done} {named}: {lines}, {bytes}.{kept}");
    Ok(ToolOutput { files_changed: vec![change], ..ToolOutput::new(ToolStatus::Ok, output) })
}
