//! A question before something is done: put to a person at a terminal, and to nobody else.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};

use crate::cli::failure::Failure;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// Also where nothing was answered.
    No,
    NobodyToAsk,
}

/// Only where somebody sees what was shown and can type. Blocks: nothing runs meanwhile.
pub fn confirm(question: &str) -> Result<Answer, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Answer::NobodyToAsk);
    }
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(Answer::NobodyToAsk);
    };
    let asked = || {
        write!(&terminal, "{question} [y/N] ")?;
        (&terminal).flush()?;
        let mut line = String::new();
        io::Read::take(BufReader::new(&terminal), ANSWER_BYTES_MAX).read_line(&mut line)?;
        Ok(line)
    };
    let line = asked().map_err(|error: io::Error| Failure::failed(format!("asking at the terminal: {error}")))?;
    Ok(meant(&line))
}

fn meant(line: &str) -> Answer {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (line, expected) in [
            ("y\n", Answer::Yes),
            ("  YES \n", Answer::Yes),
            ("\n", Answer::No),
            ("", Answer::No),
            ("n\n", Answer::No),
            ("yy\n", Answer::No),
            ("\u{4}", Answer::No),
        ] {
            assert_eq!(meant(line), expected, "{line:?}");
        }
    }
}
