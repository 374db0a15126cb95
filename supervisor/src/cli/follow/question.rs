//! What waits for a person, put to the one at this terminal: one question at a time, answered by a line on `/dev/tty`.
//!
//! Elsewhere no question is ever put. What was typed before a question was seen, or for one that somebody else has answered,
//! is thrown away: a yes is about what stands above it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use ukai_protocol::command::command;
use ukai_protocol::control::Decision;
use ukai_protocol::id::JobId;
use ukai_protocol::run_state::OpenAsk;

use crate::cli::print::visible;

/// The longest answer that is read: a reason is a sentence or two.
const LINE_BYTES_MAX: usize = 4_096;
/// While a question stands there: faster than a person reads what comes of it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Of an input that is shown; who is asked about more denies it, or looks at `ukai show`.
const INPUT_CHARS_MAX: usize = 4_000;

/// Whether somebody sees what is asked here and can answer.
#[must_use]
pub(crate) fn is_at_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && terminal().is_some()
}

fn terminal() -> Option<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open("/dev/tty").ok()
}

pub(super) struct Questions {
    /// None: nobody is asked here.
    terminal: Option<File>,
    open: VecDeque<(JobId, OpenAsk)>,
    /// The first of them has been shown.
    shown: bool,
    line: Vec<u8>,
}

impl Questions {
    pub fn new() -> Self {
        let terminal = is_at_terminal().then(terminal).flatten();
        Questions { terminal, open: VecDeque::new(), shown: false, line: Vec::new() }
    }

    pub fn opened(&mut self, job: &JobId, ask: &OpenAsk) {
        self.open.push_back((job.clone(), ask.clone()));
    }

    /// `true`: it stood on the screen.
    pub fn answered(&mut self, job: &JobId, call: &str) -> bool {
        let first = self.open.front().is_some_and(|(of, ask)| of == job && ask.call == call);
        self.open.retain(|(of, ask)| of != job || ask.call != call);
        first && self.take_back()
    }

    pub fn ended(&mut self, job: &JobId) {
        let first = self.open.front().is_some_and(|(of, _)| of == job);
        self.open.retain(|(of, _)| of != job);
        if first {
            self.take_back();
        }
    }

    fn take_back(&mut self) -> bool {
        self.line.clear();
        std::mem::take(&mut self.shown)
    }

    /// What is to be shown now, if anything, and what the answer is typed behind.
    pub fn next(&mut self) -> Option<(String, &'static str)> {
        let terminal = self.terminal.as_ref()?;
        if self.shown {
            return None;
        }
        let (job, ask) = self.open.front()?;
        let text = shown(job, ask);
        self.shown = true;
        self.line.clear();
        // What was typed before this was seen is no answer to it. A terminal that cannot forget it shows it.
        let _ = rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush);
        Some((text, PROMPT))
    }

    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// The next line that is typed, as an answer to what is shown; None: it was none, and is asked again. Waits for ever
    /// where nothing is shown. May be dropped while it waits.
    pub async fn answer(&mut self) -> Option<(JobId, String, Decision)> {
        let (Some(terminal), true) = (&self.terminal, self.shown) else { return std::future::pending().await };
        while !self.line.contains(&b'\n') {
            let mut piece = [0; 256];
            match (&*terminal).read(&mut piece) {
                Ok(length @ 1..) => {
                    let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
                    self.line.extend_from_slice(&piece[..length.min(room)]);
                    if self.line.len() == LINE_BYTES_MAX {
                        self.line.push(b'\n');
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(LOOK_EVERY).await,
                // The terminal has gone, or its person (Ctrl-D): nobody answers here any more.
                Ok(0) | Err(_) => {
                    self.terminal = None;
                    return std::future::pending().await;
                }
            }
        }
        let typed = String::from_utf8_lossy(&self.line).into_owned();
        let typed = typed.lines().next().unwrap_or_default().trim().to_owned();
        self.take_back();
        let decision = meant(&typed)?;
        let (job, ask) = self.open.front()?;
        Some((job.clone(), ask.call.clone(), decision))
    }

    /// An answer is on its way: the question is not put again. Where it was refused, it comes back as opened.
    pub fn taken(&mut self) {
        self.open.pop_front();
    }
}

const PROMPT: &str = "Allow it? y = yes, a = always, n REASON = no: ";

fn meant(line: &str) -> Option<Decision> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let because = Some(rest.trim().to_owned()).filter(|text| !text.is_empty());
    match (word.to_ascii_lowercase().as_str(), &because) {
        ("y" | "yes", None) => Some(Decision::Approve { always: false }),
        ("a" | "always", None) => Some(Decision::Approve { always: true }),
        ("n" | "no", _) => Some(Decision::Deny { because }),
        _ => None,
    }
}

fn shown(job: &JobId, ask: &OpenAsk) -> String {
    let text = whole(job, ask);
    if text.chars().count() <= INPUT_CHARS_MAX {
        return text;
    }
    let show = command(&["show", job.as_str()]);
    format!("{}\n    … cut here; all of it: {show}", text.chars().take(INPUT_CHARS_MAX).collect::<String>().trim_end())
}

/// All of what would run: a person says yes to what they have read.
pub(crate) fn whole(job: &JobId, ask: &OpenAsk) -> String {
    let mut text = format!("\n{job} asks ({}):\n  {}\n", visible(&ask.why), visible(&ask.tool));
    for (key, value) in &ask.input.0 {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let lines = visible(&value).lines().map(|line| format!("    {line}\n")).collect::<String>();
        text.push_str(&format!("    {}:\n{lines}", visible(key)));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_one() {
        let yes = |always| Some(Decision::Approve { always });
        let no = |text: &str| Some(Decision::Deny { because: Some(text.to_owned()) });
        for (line, expected) in [
            ("y", yes(false)),
            ("YES", yes(false)),
            ("a", yes(true)),
            ("n", Some(Decision::Deny { because: None })),
            ("n not today", no("not today")),
            ("no  use npm ", no("use npm")),
            ("", None),
            ("yy", None),
            ("y but not there", None),
            ("always please", None),
            ("nope", None),
        ] {
            assert_eq!(meant(line), expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_asked_is_shown_whole_and_steers_no_terminal() {
        let ask = OpenAsk {
            call: "c".to_owned(),
            tool: "Bash".to_owned(),
            input: serde_json::from_str(r#"{"command":"echo a\necho \u001b[2Jb"}"#).expect("an object"),
            rule: None,
            why: "no rule allows it".to_owned(),
            missing: Vec::new(),
            deadline_ms: 0,
        };
        let text = shown(&JobId::from_random([0; 5]), &ask);
        let expected =
            "\nj-aaaaaaaa asks (no rule allows it):\n  Bash\n    command:\n    echo a\n    echo \u{fffd}[2Jb";
        assert_eq!(text, expected);
    }
}
