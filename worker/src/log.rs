//! What this process logs, a line for each event, on stderr.
//!
//! No spans are used here, and whoever keeps a registry of them pays 33 kB in each worker, besides the expressions that
//! filter by their fields. The lines are of the shape that the supervisor's have, which passes them on.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

const VARIABLE: &str = "UKAI_LOG";

/// From now on, as `UKAI_LOG` has it; warnings where it says nothing.
pub(crate) fn to_stderr() {
    let asked = std::env::var(VARIABLE).ok();
    let targets = asked.as_deref().map(str::parse::<Targets>);
    let refused = targets.as_ref().and_then(|parsed| parsed.as_ref().err().map(ToString::to_string));
    let quiet = Targets::new().with_default(LevelFilter::WARN);
    let log = Log { targets: targets.and_then(Result::ok).unwrap_or(quiet), write: print };
    // The only failure is that there is one already.
    let _ = tracing::subscriber::set_global_default(log);
    if let Some(why) = refused {
        tracing::warn!(why, "{VARIABLE} says what a worker does not understand; it logs warnings");
    }
}

/// Stderr is a pipe to the supervisor and breaks with it, which must not be the worker's end too.
fn print(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

struct Log {
    targets: Targets,
    write: fn(&str),
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.targets.would_enable(metadata.target(), metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.targets.iter().map(|(_, level)| level).chain(self.targets.default_level()).max()
    }

    fn event(&self, event: &Event<'_>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let mut line = Line(String::new());
        // Writing to a String cannot fail.
        let _ = write!(line, "{:.6} {level:>5} {target}:", jiff::Timestamp::now());
        event.record(&mut line);
        line.0.push('\n');
        (self.write)(&line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One line, whatever the texts in it hold.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if c.is_control() {
                self.0.extend(c.escape_default());
            } else {
                self.0.push(c);
            }
        }
        Ok(())
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self, " {value:?}"),
            name => write!(self, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static SAID: Mutex<String> = Mutex::new(String::new());

    #[test]
    fn events_are_lines_and_the_variable_chooses_them() {
        let log = |directives: &str| Log {
            targets: directives.parse().expect("directives"),
            write: |line| SAID.lock().expect("unpoisoned").push_str(line),
        };
        for (directives, expected) in [
            ("off", ""),
            ("warn", " WARN a: plain\n WARN a::b: two\\nlines\\u{1b} why=it broke n=3 text=\"q\"\n"),
            ("a::b=debug", " WARN a::b: two\\nlines\\u{1b} why=it broke n=3 text=\"q\"\nDEBUG a::b: small\n"),
        ] {
            SAID.lock().expect("unpoisoned").clear();
            tracing::subscriber::with_default(log(directives), || {
                tracing::warn!(target: "a", "plain");
                let why = "it broke";
                tracing::warn!(target: "a::b", %why, n = 3, text = "q", "two\nlines\u{1b}");
                tracing::debug!(target: "a::b", "small");
                tracing::debug_span!(target: "a::b", "span").in_scope(|| ());
            });
            let said = SAID.lock().expect("unpoisoned");
            let said: String =
                said.lines().map(|line| format!("{}\n", &line["2026-01-01T00:00:00.000000Z ".len()..])).collect();
            assert_eq!(said, expected, "{directives}");
        }
    }
}
