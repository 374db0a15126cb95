//! Read: the lines of one text file, numbered, a page at a time.
//!
//! It pages instead of spilling: what is not shown is in the file already. The file is streamed, so that a late page of
//! a large file costs time and not memory.

use std::io::{self, BufRead, BufReader, Read as _};

use ukai_protocol::json::Json;
use ukai_protocol::secret::fingerprint::{Mask, SECRET_BYTES_MAX};

use super::look::look;
use super::open::{OpenError, open_file};
use super::output::{clean, counted};
use super::target::target;
use super::{Context, Stopped, text};
use crate::context::tokens::estimate_text;

/// Spec §7.
pub const READ_LINES_MAX: u64 = 2_000;

/// More than other output: a file is asked for by name, and reading it in many small pages costs more than one large.
pub const READ_CHARS_MAX: usize = 100_000;

/// Longer lines are machine-made; their beginning tells what they are.
pub const READ_LINE_CHARS_MAX: usize = 2_000;

/// Where git looks for a NUL to call a file binary.
pub const BINARY_LOOK_BYTES: usize = 8_000;

/// At most this many bytes are gone through between two looks at the cancellation.
const BUFFER_BYTES: usize = 64 * 1024;

pub fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let named = text(input, "file_path").unwrap_or_default();
    let count = |key: &str| input.0.get(key).and_then(serde_json::Value::as_u64);
    let offset = count("offset").unwrap_or(1);
    let limit = count("limit").unwrap_or(READ_LINES_MAX).min(READ_LINES_MAX);

    let resolved = target("Read", named, context)?;
    let (file, size) = open_file(&resolved.real).map_err(|error| {
        let next = match error {
            OpenError::NotAFile("a folder") => ". Glob lists what is in it.",
            OpenError::TooLarge { .. } => ". Choose a smaller file.",
            OpenError::Missing => ". Glob finds files by pattern.",
            _ => "",
        };
        Stopped::Failed(format!("Read {named}: {error}{next}"))
    })?;
    // Judged now that it is open: this very file, by its name and by its place.
    if !context.permission.still_allowed("Read", &resolved.lexical, &resolved.real, context.consented) {
        return Err(Stopped::Denied(format!("Read {named}: the policy of this job forbids it. Go on without it.")));
    }
    // Looked at before it is shown: what changes in between was then seen as it no longer is, and has to be read again.
    let look = look(&file, context).map_err(|error| error.stopped("Read", named))?;
    let shown = page(file, size, named, offset, limit, context)?;
    context.saw(&resolved.real, look);
    Ok(shown)
}

/// `size` is how much there was when the file was opened.
pub(super) fn page(
    mut file: std::fs::File,
    size: u64,
    named: &str,
    offset: u64,
    limit: u64,
    context: &Context,
) -> Result<String, Stopped> {
    let failed = |error: io::Error| Stopped::Failed(format!("Read {named}: reading failed: {error}"));
    let mut start = Vec::with_capacity(BINARY_LOOK_BYTES);
    file.by_ref().take(BINARY_LOOK_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
    if start.is_empty() {
        return Ok(format!("{named} is an empty file."));
    }
    if start.contains(&0) {
        return Err(Stopped::Failed(format!(
            "Read {named}: it is a binary file of {size} bytes, which Read cannot show."
        )));
    }
    // As it was when it was opened: a file that is written faster than it is read has no end.
    let rest = file.take(size.saturating_sub(start.len() as u64));
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(start).chain(rest));
    let mut out = String::new();
    let (mut out_chars, mut out_tokens) = (0, 0);
    let mut number = 0;
    let mut shown = 0;
    let mut line = Line::default();
    while line.read(&mut reader, number + 1 >= offset, context, &failed)? {
        number += 1;
        if number < offset {
            continue;
        }
        let shown_line = format!("{number:>6}\t{}\n", line.text(&context.mask));
        let chars = shown_line.chars().count();
        let tokens = estimate_text(&shown_line);
        // One line at least, or a window that is too small for any would be read into without end.
        let is_full = out_chars + chars > READ_CHARS_MAX || out_tokens + tokens > context.result_tokens_max;
        if shown == limit || is_full && shown > 0 {
            out.push_str(&format!("[There is more: go on with offset {number}.]\n"));
            return Ok(out);
        }
        out.push_str(&shown_line);
        out_chars += chars;
        out_tokens += tokens;
        shown += 1;
    }
    if shown == 0 {
        return Err(Stopped::Invalid(format!(
            "Read {named}: it has {}; there is no line {offset}.",
            counted(number, "line")
        )));
    }
    Ok(out)
}

/// One line, kept up to its bound and counted beyond it.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    bytes: u64,
}

impl Line {
    /// A character has at most four bytes; a secret that would be cut is still to be seen whole.
    const KEPT_BYTES_MAX: usize = 4 * (READ_LINE_CHARS_MAX + 1) + SECRET_BYTES_MAX;

    /// Takes the next line; false at the end of the file.
    fn read(
        &mut self,
        reader: &mut impl BufRead,
        keep: bool,
        context: &Context,
        failed: &impl Fn(io::Error) -> Stopped,
    ) -> Result<bool, Stopped> {
        self.kept.clear();
        self.bytes = 0;
        loop {
            context.check_cancelled()?;
            let buffer = match reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            if buffer.is_empty() {
                return Ok(self.bytes > 0);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |at| at + 1);
            if keep {
                let free = Self::KEPT_BYTES_MAX.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&buffer[..taken.min(free)]);
            }
            self.bytes += taken as u64;
            reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn text(&self, mask: &Mask) -> String {
        let whole = self.kept.len() as u64 == self.bytes;
        let mut bytes = self.kept.as_slice();
        if whole {
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let text = mask.masked(&clean(bytes)).into_owned();
        match text.char_indices().nth(READ_LINE_CHARS_MAX) {
            None => text,
            Some((at, _)) => {
                let kept = text.get(..at).unwrap_or_default();
                format!("{kept}… [this line has {} bytes]", self.bytes)
            }
        }
    }
}
