//! A scripted provider as its own process: `ukai-worker script serve`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Serves a script until dropped.
pub struct Script {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    arrivals: PathBuf,
}

impl Script {
    /// All wires on one port; the path of a request decides.
    #[must_use]
    pub fn serve(folder: &Path, toml: &str) -> Script {
        let file = tempfile::Builder::new().suffix(".toml").tempfile_in(folder).expect("a script file");
        let (_, path) = file.keep().expect("the script stays");
        std::fs::write(&path, toml).expect("the script is written");
        let arrivals = path.with_extension("arrivals.jsonl");
        let mut child = Command::new(crate::binary("ukai-under-test-worker"))
            .args(["script", "serve"])
            .arg(&path)
            .arg("--record")
            .arg(&arrivals)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script provider starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("it said {line:?}")).trim_end_matches("/v1").to_owned();
        Script { child, url, arrivals }
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many requests there were so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        let record = std::fs::read(&self.arrivals).unwrap_or_default();
        record.iter().filter(|byte| **byte == b'\n').count()
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.arrivals).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("an arrival is a JSON line")).collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
