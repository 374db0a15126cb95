//! Tables for people: columns as wide as their widest cell, the last one cut to the terminal.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::control::JobRow;
use ukai_protocol::job::Outcome;

use super::print::brief;

const NAME_CHARS_MAX: usize = 24;
const WHY_CHARS_MAX: usize = 60;

#[must_use]
pub fn jobs(rows: &[JobRow]) -> String {
    let mut cells =
        vec![["JOB", "NAME", "STATUS", "STEPS", "TOOLS", "TOKENS", "RESTARTS", "PROVIDER", ""].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.id.to_string(),
            brief(&row.name, NAME_CHARS_MAX),
            row.status.to_string(),
            row.used.steps.to_string(),
            row.used.tool_calls.to_string(),
            row.used.tokens().to_string(),
            row.restarts.to_string(),
            row.provider.clone().unwrap_or_else(|| "-".to_owned()),
            brief(&why(row), WHY_CHARS_MAX),
        ]
    }));
    columns(&cells)
}

/// Why a job stands where it stands; empty when it simply runs or is done.
#[must_use]
pub fn why(row: &JobRow) -> String {
    match &row.outcome {
        Some(Outcome::Ended(cause)) => {
            format!("{}({}): {}", cause.kind.reason(), cause.kind, cause.detail)
        }
        Some(Outcome::Completed { attention: true }) => "nothing that it wanted to change was carried out".to_owned(),
        Some(Outcome::Completed { attention: false }) | None => row.note.clone(),
    }
}

#[must_use]
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_end_without_blanks() {
        let rows = [["a", "bbb", ""], ["aaaa", "b", "c"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a     bbb\naaaa  b    c\n");
    }
}
