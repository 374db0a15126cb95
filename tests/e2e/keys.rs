//! A provider's key reaches its provider, and nothing that a tool, a log or another user could read.

use std::path::Path;
use std::process::Stdio;

use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

const KEY: &str = "sk-lab-0123456789abcdef-do-not-print";

fn holds_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

/// Every file below a folder that holds the key.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(leaks(&path));
        } else if std::fs::read(&path).is_ok_and(|bytes| holds_key(&bytes)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_key_is_in_no_file_no_argument_no_environment_of_a_worker_and_no_output() {
    let script = format!(
        "require_key = true\nkey = \"{KEY}\"\n[defaults]\nlatency = \"400ms\"\n\
         [[rule]]\nwhen.prompt = \"echo\"\nfault = {{ status = 400, message = \"bad key {KEY}\" }}\n\
         [[rule]]\nreply.text = \"Done.\"\n"
    );
    for wire in ["openai", "anthropic"] {
        let home = Home::new();
        let folder = tempfile::tempdir().expect("a folder of the provider's own");
        let provider = Script::serve(folder.path(), &script);
        home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&provider, wire)));
        for (prompt, code) in [("look", 0), ("echo", 1)] {
            let child = home
                .command(&["run", prompt, "--output", "stream-json"])
                .env("LAB_KEY", KEY)
                .env("UKAI_LOG", "trace")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("ukai runs");
            // The refused one is over too soon to be looked at.
            if code == 0 {
                let worker = wait::until("its worker", || home.processes().pop());
                for file in ["cmdline", "environ"] {
                    let bytes = std::fs::read(format!("/proc/{worker}/{file}")).unwrap_or_default();
                    assert!(!holds_key(&bytes), "{wire}: the worker's {file}");
                }
            }
            let output = child.wait_with_output().expect("it ends");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{wire} {prompt}: {stderr}");
            assert!(!holds_key(&output.stdout) && !holds_key(&output.stderr), "{wire} {prompt} printed it");
        }
        assert_eq!(leaks(folder.path()).len(), 1, "the provider's script holds it, and it is found there");
        assert_eq!(leaks(home.path()), Vec::<String>::new(), "{wire}");
        for verb in ["doctor", "ls"] {
            let output = home.command(&[verb]).env("LAB_KEY", KEY).output().expect("ukai runs");
            assert!(output.status.success() && !holds_key(&output.stdout), "{wire}: {verb}");
        }
    }
}
