//! Grep: lines that match a regular expression, or the files that hold them, or their number.
//!
//! Its counts are those of `git grep -cI --untracked` in a repository and of `grep -rc` elsewhere, so that a model can
//! trust them and a person can check them. Results stream out in the order of paths; the total stands last, where a
//! long output is never cut.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};

use globset::GlobSet;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, SinkMatch};
use tokio_util::sync::CancellationToken;
use ukai_protocol::json::Json;

use super::git_attributes::Decree;
use super::glob::matcher_of;
use super::open::{OpenError, open_file};
use super::output::{clean, counted, cut_line, quote_path};
use super::read::BINARY_LOOK_BYTES;
use super::spill::Sink;
use super::target::target;
use super::walk::{PassedOver, Walk};
use super::{Context, Stopped, text};

/// A longer line is not searched, and said: a line is held in memory whole.
pub const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// With `multiline` a file is held in memory whole, and gone through without a look at the cancellation.
pub const MULTILINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What is shown of one line.
pub const GREP_LINE_CHARS_MAX: usize = 1_000;

/// A longer pattern is a mistake, and compiling it cannot be cancelled.
const PATTERN_BYTES_MAX: usize = 64 * 1024;

/// What a pattern may grow to once compiled.
const COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;

/// At most this much is read between two looks at the cancellation.
const READ_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Content,
    Files,
    Count,
}

/// One search on its way.
struct Grep<'a> {
    context: &'a Context,
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: Mode,
    multiline: bool,
    out: Sink<'a>,
    lines: u64,
    files: u64,
    left: Left,
}

/// Files that were not searched.
#[derive(Default)]
struct Left {
    denied: u64,
    binary: u64,
    unreadable: u64,
    /// The first that was too large, as named, and how many there were.
    large: Option<String>,
    large_count: u64,
}

pub fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let flag = |key: &str| input.0.get(key).and_then(serde_json::Value::as_bool).unwrap_or(false);
    let multiline = flag("multiline");
    let matcher = matcher(text(input, "pattern").unwrap_or_default(), flag("-i"), multiline)?;
    let filter = text(input, "glob").map(Filter::new).transpose()?;
    let mode = match text(input, "output_mode") {
        Some("content") => Mode::Content,
        Some("count") => Mode::Count,
        _ => Mode::Files,
    };
    let named = text(input, "path");
    let start = target("Grep", named.unwrap_or("."), context)?;
    let searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false)
        .line_number(mode == Mode::Content)
        .multi_line(multiline)
        .heap_limit(Some(LINE_BYTES_MAX))
        .build();
    let out = context.sink("Grep");
    let mut grep = Grep { context, matcher, searcher, mode, multiline, out, lines: 0, files: 0, left: Left::default() };

    if !start.is_dir {
        // Named alone, its trouble is the answer.
        let (file, size) = open_file(&start.real)
            .map_err(|error| Stopped::Failed(format!("Grep {}: {error}", named.unwrap_or("."))))?;
        grep.file(file, size, &start.lexical, &start.real, Decree::Unsaid)?;
        return Ok(grep.finish(&PassedOver::default()));
    }
    let home = context.permission.places().home();
    let passed = Walk::new(&context.cancel).run(&start.real, named.is_some(), home, &mut |found| {
        let Ok(below) = found.real.strip_prefix(&start.real) else { return Ok(()) };
        if found.is_link || filter.as_ref().is_some_and(|filter| !filter.lets(below)) {
            return Ok(());
        }
        let lexical = start.lexical.join(below);
        if !context.permission.read_allowed("Grep", &lexical, &found.real) {
            grep.left.denied += 1;
            return Ok(());
        }
        if found.decree == Decree::Binary {
            grep.left.binary += 1;
            return Ok(());
        }
        match open_file(&found.real) {
            Ok((file, size)) => grep.file(file, size, &lexical, &found.real, found.decree),
            // Gone, or replaced, since the folder was listed: as if it had never been there.
            Err(OpenError::Missing | OpenError::Moved | OpenError::NotAFile(_) | OpenError::MadeUp) => Ok(()),
            Err(OpenError::TooLarge { .. }) => {
                grep.left.large(&found.real, grep.context);
                Ok(())
            }
            Err(OpenError::Io(_) | OpenError::NotAFolder) => {
                grep.left.unreadable += 1;
                Ok(())
            }
        }
    })?;
    Ok(grep.finish(&passed))
}

fn matcher(pattern: &str, ignore_case: bool, multiline: bool) -> Result<RegexMatcher, Stopped> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let why =
            format!("Grep was not run: the pattern has {} bytes, at most {PATTERN_BYTES_MAX} may be", pattern.len());
        return Err(Stopped::Invalid(why));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(ignore_case)
        .multi_line(true)
        .dot_matches_new_line(multiline)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX);
    if !multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(|error| {
        let hint = if multiline { "" } else { " (a line end in the pattern needs `multiline`)" };
        Stopped::Invalid(format!("Grep was not run: the pattern cannot be read: {error}{hint}"))
    })
}

impl Grep<'_> {
    fn file(&mut self, mut file: File, size: u64, lexical: &Path, real: &Path, decree: Decree) -> Result<(), Stopped> {
        // Judged now that it is open: this very file.
        if !self.context.permission.read_allowed("Grep", lexical, real) {
            self.left.denied += 1;
            return Ok(());
        }
        match is_binary(&mut file, decree) {
            Ok(false) => {}
            Ok(true) => {
                self.left.binary += 1;
                return Ok(());
            }
            Err(_) => {
                self.left.unreadable += 1;
                return Ok(());
            }
        }
        if self.multiline && size > MULTILINE_BYTES_MAX {
            self.left.large(real, self.context);
            return Ok(());
        }
        let shown = quote_path(self.context.permission.places().display(real).as_os_str().as_encoded_bytes());
        let mut lines =
            Lines { mode: self.mode, shown: &shown, out: &mut self.out, cancel: &self.context.cancel, count: 0 };
        // As it was when it was opened: a file that is written faster than it is read has no end.
        let reader = Cancelled { reader: file.take(size), cancel: &self.context.cancel };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut lines);
        let count = lines.count;
        self.context.check_cancelled()?;
        match searched {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Other => self.left.large(real, self.context),
            Err(_) => self.left.unreadable += 1,
        }
        if count == 0 {
            return Ok(());
        }
        self.lines += count;
        self.files += 1;
        match self.mode {
            Mode::Content => {}
            Mode::Files => self.out.push(&format!("{shown}\n")),
            Mode::Count => self.out.push(&format!("{shown}:{count}\n")),
        }
        Ok(())
    }

    fn finish(mut self, passed: &PassedOver) -> String {
        let mut notes = String::new();
        for (count, what) in [(self.left.binary, "binary"), (self.left.unreadable, "unreadable")] {
            if count > 0 {
                notes.push_str(&format!("[not searched: {} {what}]\n", files(count)));
            }
        }
        if let Some(first) = &self.left.large {
            let count = files(self.left.large_count);
            notes.push_str(&format!("[not searched, or not to the end: {count} too large, the first is {first}]\n"));
        }
        self.out.push(&passed_over(passed, self.left.denied, &notes));
        let total = match self.mode {
            Mode::Files => format!("total: {}\n", files(self.files)),
            _ => {
                format!("total: {} in {}\n", counted(self.lines, "matching line"), files(self.files))
            }
        };
        self.out.push(&total);
        self.out.finish()
    }
}

/// What a walk left out, in lines for the model.
pub(super) fn passed_over(passed: &PassedOver, denied: u64, more: &str) -> String {
    let mut notes = String::new();
    if denied > 0 {
        notes.push_str(&format!("[left out: {} that the policy of this job denies]\n", files(denied)));
    }
    notes.push_str(more);
    if passed.unreadable > 0 {
        notes.push_str(&format!("[not entered: {}]\n", counted(passed.unreadable, "unreadable folder")));
    }
    if passed.crowded > 0 {
        notes.push_str(&format!("[left out: {} beyond what is looked at in one folder]\n", files(passed.crowded)));
    }
    if passed.start_ignored {
        notes.push_str("[git ignores this folder; name it as `path` to look into it all the same]\n");
    } else if passed.ignored > 0 {
        notes.push_str("[what git ignores is left out; name an ignored folder as `path` to look into it]\n");
    }
    notes
}

fn files(count: u64) -> String {
    counted(count, "file")
}

impl Left {
    fn large(&mut self, real: &Path, context: &Context) {
        let shown = context.permission.places().display(real).as_os_str().as_encoded_bytes();
        self.large.get_or_insert_with(|| quote_path(shown));
        self.large_count += 1;
    }
}

/// As git decides: by decree, else by a NUL near the beginning. Leaves the file at its beginning.
fn is_binary(file: &mut File, decree: Decree) -> io::Result<bool> {
    if decree != Decree::Unsaid {
        return Ok(decree == Decree::Binary);
    }
    let mut start = Vec::with_capacity(BINARY_LOOK_BYTES);
    file.by_ref().take(BINARY_LOOK_BYTES as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start.contains(&0))
}

/// A reader that ends with an error once the call is cancelled.
struct Cancelled<'a> {
    reader: io::Take<File>,
    cancel: &'a CancellationToken,
}

impl Read for Cancelled<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let max = buffer.len().min(READ_BYTES);
        self.reader.read(&mut buffer[..max])
    }
}

/// Takes the matches of one file.
struct Lines<'a, 'b> {
    mode: Mode,
    shown: &'a str,
    out: &'a mut Sink<'b>,
    cancel: &'a CancellationToken,
    count: u64,
}

impl grep_searcher::Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.cancel.is_cancelled() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        for (at, line) in found.lines().enumerate() {
            self.count += 1;
            if self.mode == Mode::Content {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = clean(line.strip_suffix(b"\r").unwrap_or(line));
                let line = cut_line(&self.out.mask().masked(&line), GREP_LINE_CHARS_MAX);
                let number = found.line_number().unwrap_or_default() + at as u64;
                self.out.push(&format!("{}:{number}:{line}\n", self.shown));
            }
        }
        Ok(self.mode != Mode::Files)
    }
}

/// `glob`: without a slash it is about the name, with one about the path below where the search began.
struct Filter {
    glob: GlobSet,
    by_name: bool,
    negated: bool,
}

impl Filter {
    fn new(text: &str) -> Result<Self, Stopped> {
        let (negated, pattern) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let by_name = !pattern.contains('/');
        let pattern = pattern.strip_prefix("./").or(pattern.strip_prefix('/')).unwrap_or(pattern);
        let glob = matcher_of(pattern)
            .map_err(|error| Stopped::Invalid(format!("Grep was not run: `glob` cannot be read: {error}")))?;
        Ok(Filter { glob, by_name, negated })
    }

    fn lets(&self, below: &Path) -> bool {
        let name = below.file_name().map(PathBuf::from);
        let about = if self.by_name { name.as_deref().unwrap_or(below) } else { below };
        self.glob.is_match(about) != self.negated
    }
}
