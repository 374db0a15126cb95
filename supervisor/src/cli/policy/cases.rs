//! A file of cases: calls, and what is to become of each. One JSON object per line:
//! `{"tool":"Bash","input":{"command":"ls"},"decision":"allow"}`.
//!
//! An example beside a rule says what that rule matches; a case says what all rules together decide, which is what one
//! wants to keep true while rules change.

#![deny(clippy::disallowed_methods)]

use std::path::Path;

use serde::Deserialize;
use ukai_protocol::json::Json;
use ukai_protocol::one_shot::{Call, Decision};

use crate::config::fault::{Fault, Format, Source};

/// Each is judged by itself, which looks at the disk.
pub(super) const CASES_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    /// From 1.
    pub line: usize,
    pub call: Call,
    pub decision: Decision,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tool: String,
    input: Json,
    decision: Decision,
}

/// Blank lines are skipped. Fails at the first line that is no case.
pub(super) fn parse(text: &str, file: &Path) -> Result<Vec<Case>, Fault> {
    let mut cases = Vec::new();
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = at + 1;
        let source = Source { file, text, format: Format::Json };
        let read: Result<Entry, Fault> = source.read();
        let Entry { tool, input, decision } = read.map_err(|fault| Fault { line: Some(line), ..fault })?;
        if cases.len() == CASES_MAX {
            let why = format!("there are more than {CASES_MAX} cases");
            let next = "put them into several files".to_owned();
            return Err(Fault { file: file.to_owned(), line: Some(line), key: None, why, next });
        }
        cases.push(Case { line, call: Call { tool, input }, decision });
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_case() {
        let text = "{\"tool\":\"Bash\",\"input\":{\"command\":\"ls\"},\"decision\":\"allow\"}\n\n  \n{\"decision\":\"ask\",\"tool\":\"X\",\"input\":{}}";
        let cases = parse(text, Path::new("c.jsonl")).expect("it loads");
        let found: Vec<_> = cases.iter().map(|case| (case.line, &*case.call.tool, case.decision)).collect();
        assert_eq!(found, [(1, "Bash", Decision::Allow), (4, "X", Decision::Ask)]);
    }

    #[test]
    fn what_is_no_case_says_where() {
        let good = "{\"tool\":\"Bash\",\"input\":{},\"decision\":\"deny\"}\n";
        for (line, parts) in [
            ("{\"tool\":\"Bash\",\"input\":{}}", &["c.jsonl, line 2", "decision"][..]),
            ("{\"tool\":\"Bash\",\"input\":{},\"decison\":\"allow\"}", &["line 2", "did you mean `decision`"]),
            ("{\"tool\":\"Bash\",\"input\":{},\"decision\":\"maybe\"}", &["line 2", "allow"]),
            ("{\"tool\":\"Bash\",\"input\":[],\"decision\":\"deny\"}", &["line 2"]),
            ("Bash\tls\tallow", &["line 2"]),
        ] {
            let fault = parse(&format!("{good}{line}\n"), Path::new("c.jsonl")).expect_err(line).to_string();
            for part in parts {
                assert!(fault.contains(part), "{line}: {fault}");
            }
        }
        let fault = parse(&good.repeat(CASES_MAX + 1), Path::new("c.jsonl")).expect_err("too many").to_string();
        assert!(fault.contains("more than"), "{fault}");
    }
}
