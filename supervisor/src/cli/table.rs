//! Tables for people: columns as wide as their widest cell, lines cut to the terminal where there is one.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::control::JobRow;
use ukai_protocol::job::Outcome;

use super::print::{brief, cut};

pub const NAME_CHARS_MAX: usize = 24;

/// `columns`: of the terminal that it is for. None: for a file or a program, and nothing is cut.
#[must_use]
pub fn jobs(rows: &[JobRow], columns: Option<usize>) -> String {
    let titles = ["JOB", "BATCH", "NAME", "STATUS", "STEPS", "TOOLS", "TOKENS", "TIME", "RESTARTS", "PROVIDER", "NOTE"];
    let name_chars_max = columns.map_or(usize::MAX, |_| NAME_CHARS_MAX);
    let mut cells = vec![titles.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        vec![
            row.id.to_string(),
            row.batch.as_ref().map_or_else(|| "-".to_owned(), |place| place.id.to_string()),
            brief(&row.name, name_chars_max),
            row.status.to_string(),
            row.used.steps.to_string(),
            row.used.tool_calls.to_string(),
            row.used.tokens().to_string(),
            time(row.used.wall_ms),
            row.restarts.to_string(),
            row.provider.clone().unwrap_or_else(|| "-".to_owned()),
            brief(&why(row), usize::MAX),
        ]
    }));
    if rows.iter().all(|row| row.batch.is_none()) {
        cells.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    fit(self::columns(&cells), columns)
}

/// The jobs of one list, in the order of its lines. `texts` are what they said, a line each.
#[must_use]
pub fn results(rows: &[JobRow], texts: &[String], columns: Option<usize>) -> String {
    let titles = ["LINE", "JOB", "NAME", "STATUS", "TIME", "RESULT"];
    let name_chars_max = columns.map_or(usize::MAX, |_| NAME_CHARS_MAX);
    let mut cells = vec![titles.map(str::to_owned)];
    cells.extend(rows.iter().zip(texts).map(|(row, text)| {
        let why = why(row);
        [
            row.batch.as_ref().map(|place| place.line.number.to_string()).unwrap_or_default(),
            row.id.to_string(),
            brief(&row.name, name_chars_max),
            row.status.to_string(),
            time(row.used.wall_ms),
            if why.is_empty() { text.clone() } else { brief(&why, usize::MAX) },
        ]
    }));
    fit(self::columns(&cells), columns)
}

fn fit(text: String, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text };
    text.lines().map(|line| cut(line.to_owned(), columns) + "\n").collect()
}

/// A time as people compare it: 0.7s, 12.3s, 4m12s, 2h05m.
#[must_use]
pub fn time(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}.{}s", ms % 1_000 / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Why a job stands where it stands; empty when it simply runs or is done.
#[must_use]
pub fn why(row: &JobRow) -> String {
    match &row.outcome {
        Some(Outcome::Ended(cause)) => {
            format!("{}({}): {}", cause.kind.reason(), cause.kind, cause.detail)
        }
        Some(Outcome::Completed { attention: true }) => {
            "what it asked for was denied, and nothing was carried out".to_owned()
        }
        Some(Outcome::Completed { attention: false }) | None => row.note.clone(),
    }
}

#[must_use]
pub fn columns<Row: AsRef<[String]>>(rows: &[Row]) -> String {
    let cell = |row: &Row, column: usize| row.as_ref().get(column).map_or(0, |cell| cell.chars().count());
    let width = |column: usize| rows.iter().map(|row| cell(row, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, |row| row.as_ref().len())).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line = row
            .as_ref()
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect::<Vec<_>>()
            .join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{Cause, CauseKind, JobStatus, Used};

    use super::*;

    #[test]
    fn a_terminal_cuts_and_a_file_does_not() {
        let name = "n".repeat(80);
        let detail = "d".repeat(200);
        let row = JobRow {
            id: JobId::from_random([0; 5]),
            name: name.clone(),
            batch: None,
            status: JobStatus::Aborted,
            outcome: Some(Outcome::Ended(Cause::new(CauseKind::Attempts, detail.clone()))),
            attention: true,
            used: Used { wall_ms: 12_345, ..Used::default() },
            restarts: 0,
            provider: None,
            asks: Vec::new(),
            note: String::new(),
        };
        let whole = jobs(std::slice::from_ref(&row), None);
        assert!(whole.contains(&name) && whole.contains(&detail) && whole.contains(" 12.3s "), "{whole}");
        assert!(whole.lines().next().is_some_and(|titles| titles.ends_with("PROVIDER  NOTE")), "{whole}");
        for columns in [20, 100] {
            let cut = jobs(std::slice::from_ref(&row), Some(columns));
            assert_eq!(cut.lines().map(|line| line.chars().count()).max(), Some(columns), "{cut}");
        }
    }

    #[test]
    fn batches_have_a_column_where_there_are_any() {
        use ukai_protocol::event::{BatchPlace, Line};
        use ukai_protocol::run_state::Progress;
        let alone = JobRow::of(JobId::from_random([0; 5]), &Progress::default(), String::new());
        let line = Line { number: 1, key: String::new() };
        let place = BatchPlace { id: "b-abcdefgh".parse().expect("an id"), name: String::new(), line };
        let of_batch = JobRow { batch: Some(place), ..alone.clone() };
        assert!(!jobs(std::slice::from_ref(&alone), None).contains("BATCH"));
        let both = jobs(&[alone, of_batch], None);
        assert!(both.contains("JOB         BATCH       NAME") && both.contains("j-aaaaaaaa  b-abcdefgh"), "{both}");
    }

    #[test]
    fn times_are_short() {
        for (ms, text) in [(0, "0.0s"), (790, "0.7s"), (59_999, "59.9s"), (252_000, "4m12s"), (7_500_000, "2h05m")] {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn columns_line_up_and_end_without_blanks() {
        let rows = [["a", "bbb", ""], ["aaaa", "b", "c"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a     bbb\naaaa  b    c\n");
    }
}
