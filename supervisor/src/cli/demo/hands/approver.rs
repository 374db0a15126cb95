//! Who answers the demo's questions in a person's place: it looks at what would run, and lets pass what it knows.

#![deny(clippy::disallowed_methods)]

use std::path::{Component, Path};

use serde_json::Value;
use ukai_protocol::control::Decision;
use ukai_protocol::json::Json;

/// What of a job may pass. Nothing else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// An edit that changes one line of this file.
    OneLineOf(&'static str),
    /// An edit of a file below this folder.
    EditBelow(&'static str),
    Nothing,
}

/// `workdir`: where the job works.
pub(super) fn answer(may: May, tool: &str, input: &Json, workdir: &Path) -> Decision {
    match objection(may, tool, input, workdir) {
        None => Decision::Approve { always: false },
        Some(why) => Decision::Deny { because: Some(why) },
    }
}

fn objection(may: May, tool: &str, input: &Json, workdir: &Path) -> Option<String> {
    let asked = |what: &str| Some(format!("the demo lets {what} pass, and this is something else"));
    let text = |key: &str| input.0.get(key).and_then(Value::as_str).unwrap_or_default();
    let named = Path::new(text("file_path"));
    let file = named.strip_prefix(workdir).unwrap_or(named);
    let plain = file.components().all(|part| matches!(part, Component::Normal(_)));
    match may {
        May::OneLineOf(known) => {
            let one = plain && file == Path::new(known) && is_one_line(text("old_string"), text("new_string"));
            let once = input.0.get("replace_all").is_none_or(|all| *all == Value::Bool(false));
            if tool == "Edit" && one && once { None } else { asked(&format!("an edit of one line of {known}")) }
        }
        May::EditBelow(folder) => {
            let below = plain && file.starts_with(folder) && file != Path::new(folder);
            if tool == "Edit" && below { None } else { asked(&format!("an edit below {folder}/")) }
        }
        May::Nothing => Some("the demo lets nothing of this job pass".to_owned()),
    }
}

/// Whether the two differ in one line, however many stand around it.
fn is_one_line(old: &str, new: &str) -> bool {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    old.len() == new.len() && old.iter().zip(&new).filter(|(old, new)| old != new).count() == 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn passes(may: May, tool: &str, input: &Value) -> bool {
        let Value::Object(input) = input.clone() else { panic!("an object") };
        let decision = answer(may, tool, &Json(input), Path::new("/s/worktrees/j-1"));
        matches!(decision, Decision::Approve { always: false })
    }

    #[test]
    fn only_the_one_line_of_the_one_file_passes() {
        let may = May::OneLineOf("lib/a.sh");
        let edit = |file: &str, old: &str, new: &str| json!({"file_path": file, "old_string": old, "new_string": new});
        for (input, expected) in [
            (edit("lib/a.sh", "x", "y"), true),
            (edit("/s/worktrees/j-1/lib/a.sh", "a\nx\nb", "a\ny\nb"), true),
            (edit("lib/a.sh", "x", "x"), false),
            (edit("lib/a.sh", "x", "y\nz"), false),
            (edit("lib/a.sh", "x\nb", "y\nc"), false),
            (edit("lib/b.sh", "x", "y"), false),
            (edit("lib/../lib/a.sh", "x", "y"), false),
            (edit("/lib/a.sh", "x", "y"), false),
            (edit("../j-1/lib/a.sh", "x", "y"), false),
            (json!({"file_path": "lib/a.sh", "old_string": "x", "new_string": "y", "replace_all": true}), false),
            (json!({}), false),
        ] {
            assert_eq!(passes(may, "Edit", &input), expected, "{input}");
            assert!(!passes(may, "Write", &input) && !passes(May::Nothing, "Edit", &input), "{input}");
        }
    }

    #[test]
    fn below_a_folder_passes_what_lies_below_it() {
        let may = May::EditBelow("lib");
        for (file, expected) in
            [("lib/a.sh", true), ("lib/x/a.sh", true), ("lib", false), ("test.sh", false), ("lib/../test.sh", false)]
        {
            assert_eq!(passes(may, "Edit", &json!({"file_path": file})), expected, "{file}");
        }
    }
}
