//! A script from the disk: read within a bound, and refused by file, line and key when it is wrong.

use std::path::{Path, PathBuf};

use super::conversation::Wire;
use super::file::Script;

/// A script is written by hand; more is a wrong file.
const SCRIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read the script {path}: {why}", path = .path.display())]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("the script {path} is too large: {bytes} bytes, at most {SCRIPT_BYTES_MAX}", path = .path.display())]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("the script {path} is wrong: {why}", path = .path.display())]
    Wrong { path: PathBuf, why: String },
}

impl Script {
    /// `served`: the only wire that it will be served on; `None`: all.
    pub fn load(path: &Path, served: Option<Wire>) -> Result<Script, ScriptError> {
        let unreadable = |why| ScriptError::Unreadable { path: path.to_owned(), why };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > SCRIPT_BYTES_MAX {
            return Err(ScriptError::TooLarge { path: path.to_owned(), bytes });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let script = Script::parse(&text).and_then(|script| script.fits(served).map(|()| script));
        script.map_err(|why| ScriptError::Wrong { path: path.to_owned(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, parts: &[&str]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.toml");
        std::fs::write(&path, script).expect("it writes");
        let why = Script::load(&path, None).map(|_| ()).expect_err(script).to_string();
        for part in parts.iter().chain(&["s.toml is wrong"]) {
            assert!(why.contains(part), "{script}\ngives: {why}");
        }
    }

    #[test]
    fn a_slip_is_named_with_its_file_line_and_key() {
        for (script, parts) in [
            ("", &["no [[rule]]"][..]),
            ("[[rule]\n", &["line 1"]),
            (
                "[[rule]]\nreply = { text = 'x' }\n\n[[rule]]\nname = 'b'\n",
                &["[[rule]] `b` at line 4", "needs a [rule.reply]"],
            ),
            ("[[rule]]\nreplay = 1", &["line 2", "replay"]),
            ("[[rule]]\nreply = { txt = 'x' }", &["line 2", "txt"]),
            ("[[rule]]\n\nreply = { text = '{{promt}}' }", &["line 3", "'promt' is no name"]),
            ("[[rule]]\nreply = { text = 'x', latency = 'soon' }", &["line 2", "latency", "'soon' is no duration"]),
            ("[[rule]]\nwhen = { prompt = { matches = '(' } }\nreply = { text = 'x' }", &["line 2", "unclosed group"]),
            ("[[rule]]\nreply = { calls = [{ tool = 'T', args = { a = ['{{x}}'] } }] }", &["line 2", "'x' is no name"]),
            ("[rate]\nrequests_per_minute = 0\n[[rule]]", &["line 2", "nonzero"]),
            ("[rate]\n[[rule]]\nreply = { text = 'x' }", &["line 1", "limits nothing"]),
            ("[rate]\nburst = 2\n[[rule]]\nreply = { text = 'x' }", &["line 1", "give requests_per_minute too"]),
            (
                "[[rule]]\nname = 'r'\nfault = { status = 429, retry_info = '1s' }",
                &["r gives retry_info", "--wire gemini"],
            ),
            (
                "[[rule]]\nwhen.wire = 'openai'\nfault = { status = 429, retry_info = '1s' }",
                &["rule 1 gives retry_info", "retry-after"],
            ),
        ] {
            check(script, parts);
        }
    }

    #[test]
    fn a_rule_that_contradicts_itself_is_refused_when_loaded() {
        for (rule, part) in [
            ("name = 'x'", "needs a [rule.reply]"),
            ("reply = {}", "empty reply"),
            ("reply = { text = 'x' }\nfault = { status = 500 }", "takes no [rule.reply]"),
            ("fault = { status = 500, html = true }", "give only one of"),
            ("fault = { status = 200 }", "from 400 to 599"),
            ("reply = { text = 'x' }\nfault = { cut = true, latency = '1s' }", "give it to the [rule.reply]"),
            ("fault = { hang = 'before_headers', latency = '1s' }", "gives a latency to a fault"),
            ("fault = { status = 500, error_event = true }", "needs a [rule.reply]"),
            ("reply = { text = 'x' }\nfault = { message = 'm' }", "no status or error"),
            ("reply = { text = 'x' }\nfault = { cut = true, error_event = true }", "in one way"),
            ("reply = { text = 'x' }\nfault = { after_chars = 3 }", "gives after_chars"),
            ("reply = { text = 'x' }\nfault = { torn = true }", "gives torn"),
            ("reply = { text = 'x' }\nfault = { pings = '1s' }", "gives pings"),
            ("reply = { text = 'x' }\nfault = { cut_arguments = true }", "its reply has none"),
            ("reply = { text = 'x' }\nper = 'step'", "no times to count"),
            ("reply = { calls = [{ tool = 'T', args = { a = 1 }, raw_args = '{' }] }", "give one of them"),
            ("fault = { status = 429, headers = { 'a b' = 'x' } }", "no name of one"),
            ("when.wire = 'gemini'\nfault = { html = true, retry_info = '17s' }", "no status or error"),
            ("when.wire = 'gemini'\nfault = { status = 429, body = 'x', retry_info = '17s' }", "in whose own body"),
        ] {
            check(&format!("[[rule]]\n{rule}"), &[part, "line 1"]);
        }
    }

    #[test]
    fn a_wait_in_the_body_is_taken_where_only_gemini_is_served() {
        let bare = "[[rule]]\nfault = { status = 429, retry_info = '1s' }";
        for (script, served, fits) in [
            (bare, Some(Wire::Gemini), true),
            (bare, Some(Wire::Anthropic), false),
            (bare, None, false),
            ("[[rule]]\nwhen.wire = 'gemini'\nfault = { status = 429, retry_info = '1s' }", None, true),
        ] {
            assert_eq!(Script::parse(script).expect("test data").fits(served).is_ok(), fits, "{script} {served:?}");
        }
    }

    #[test]
    fn the_examples_of_the_docs_load() {
        for script in ["hello.toml", "rough.toml"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(script);
            assert_eq!(Script::load(&path, None).map(drop).map_err(|why| why.to_string()), Ok(()), "{script}");
        }
    }

    #[test]
    fn an_empty_reply_is_taken_where_it_is_meant() {
        assert!(Script::parse("[[rule]]\nreply = { stop = 'end' }").is_ok());
    }
}
