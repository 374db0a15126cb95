//! Programs of `tests/npm`: clients and a mock server by others, installed from its lock by `tests/run.sh`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("npm")
}

/// `node PROGRAM`, where everything that it needs is installed; else the test fails with the line to type.
fn node(program: &str) -> Command {
    let folder = folder();
    let installed = folder.join("node_modules/.package-lock.json").exists();
    assert!(installed, "the npm packages of the tests are not installed; type: npm --prefix {} ci", folder.display());
    let mut command = Command::new("node");
    // Nothing of the developer's own: keys, addresses and proxies would all be taken up.
    command.arg(program).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a program to its end and reads the JSON that it prints.
#[must_use]
pub fn run(program: &str, args: &[&str]) -> Value {
    let output = node(program).args(args).stdin(Stdio::null()).output().expect("node runs; is nodejs installed?");
    let stdout = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&stdout).unwrap_or_else(|error| {
        panic!("{program} printed {stdout:?} ({error})\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// A server that runs until it is dropped.
pub struct Served {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
}

impl Served {
    /// It prints its address on a line, and ends when its standard input does.
    #[must_use]
    pub fn start(program: &str, args: &[&str]) -> Served {
        let child = node(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("node runs; is nodejs installed?");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let url = line.trim().to_owned();
        assert!(url.starts_with("http://"), "{program} said {line:?}");
        Served { child, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
