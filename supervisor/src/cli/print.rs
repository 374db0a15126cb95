//! The one door to stdout and stderr: a closed pipe ends quietly, and no text of a model or a tool steers a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

/// Columns where the terminal does not say.
const COLUMNS_DEFAULT: usize = 80;

/// Why stdout took no more. Kept for the end: what a verb does is not undone because its output is lost.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes to stdout. `false`: there is no use in writing more. What would steer a terminal is written as JSON writes it:
/// our JSON keeps its meaning, although its writer escapes nothing from U+007F on.
pub fn out(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(escaped(text).as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes data to stdout as it is, for a program or a file; a terminal is still not steered by it.
pub fn data(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    let text = if stdout.is_terminal() { escaped(text) } else { Cow::Borrowed(text) };
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// That nobody reads any more is no error; all else is one, told by [`lost`].
pub fn written(result: io::Result<()>) -> bool {
    let Err(error) = result else { return true };
    if error.kind() != io::ErrorKind::BrokenPipe {
        LOST.get_or_init(|| error);
    }
    false
}

/// Why output that somebody waits for did not arrive.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// The columns of the terminal that stdout is. None: it is none, and nothing need be cut.
pub fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let said = || terminal_size::terminal_size_of(&stdout).map_or(COLUMNS_DEFAULT, |(width, _)| width.0.into());
    stdout.is_terminal().then(said)
}

fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // All that steer have four digits.
        if steers(c) { out.push_str(&format!("\\u{:04x}", c as u32)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A line on stderr. If that is closed, there is nobody to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(line));
}

/// Text as it may reach a terminal: newlines and tabs stay, other control characters (escapes among them) and those
/// that turn the direction of writing go.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| !steers(*c)).collect()
}

/// The same, but that what goes leaves a mark: for what somebody decides by.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

fn steers(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The same on one line of at most `chars` characters.
#[must_use]
pub fn brief(text: &str, chars: usize) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    cut(line, chars)
}

/// At most `chars` characters of a line.
#[must_use]
pub fn cut(line: String, chars: usize) -> String {
    if line.chars().count() <= chars {
        return line;
    }
    line.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

/// Live progress on stderr: lines that stay, and one that is overwritten where stderr is a terminal.
pub struct Screen {
    terminal: bool,
    transient: bool,
    /// A question stands there, and its answer is being typed behind it.
    prompt: Option<&'static str>,
}

impl Screen {
    #[must_use]
    pub fn new() -> Self {
        Screen { terminal: io::stderr().is_terminal(), transient: false, prompt: None }
    }

    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub fn line(&mut self, text: &str) {
        self.clear();
        if self.prompt.is_some() {
            // Below what is being typed, and the question again below it.
            note("");
        }
        note(text);
        self.prompt_again();
    }

    /// From now on an answer is typed here, or no longer.
    pub fn ask(&mut self, prompt: Option<&'static str>) {
        self.clear();
        self.prompt = prompt;
        self.prompt_again();
    }

    fn prompt_again(&self) {
        if let Some(prompt) = self.prompt {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
        }
    }

    /// What holds for the moment. Not told where it could not be taken back.
    pub fn moment(&mut self, text: &str) {
        if self.terminal && self.prompt.is_none() {
            let columns = terminal_size::terminal_size_of(io::stderr()).map_or(COLUMNS_DEFAULT, |(w, _)| w.0.into());
            let mut stderr = io::stderr().lock();
            // As with `note`: without a reader there is nobody to tell.
            let _ = write!(stderr, "\r\x1b[2K{}", brief(text, columns.saturating_sub(1))).and_then(|()| stderr.flush());
            self.transient = true;
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.transient) {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_does_not_reach_it() {
        for (text, cleaned) in [
            ("a\tb\n", "a\tb\n"),
            ("\x1b[31mred\x1b[0m", "[31mred[0m"),
            ("\x1b]0;title\x07x", "]0;titlex"),
            ("a\u{9b}31mb", "a31mb"),
            ("a\rb\x08c\x7f", "abc"),
            ("\u{202e}txt.exe", "txt.exe"),
            ("鵜飼 é", "鵜飼 é"),
        ] {
            assert_eq!(clean(text), cleaned);
        }
    }

    #[test]
    fn json_keeps_its_meaning_and_does_not_steer_either() {
        let json = serde_json::json!({"text": "\x1b[31m\u{9b}31m\u{7f}\u{202e}鵜"});
        let line = format!("{json}\n");
        let escaped = escaped(&line);
        assert!(!escaped.chars().any(steers), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), json);
        assert_eq!(super::escaped("plain\ttext\n"), "plain\ttext\n");
    }

    #[test]
    fn brief_is_one_line() {
        assert_eq!(brief("a\n b\tc", 10), "a b c");
        assert_eq!(brief("abcdef", 4), "abc…");
        assert_eq!(brief("鵜飼鵜飼", 4), "鵜飼鵜飼");
    }
}
