//! A command at a pseudo-terminal: util-linux's `script` makes one and is its person.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

/// What came of it.
#[derive(Debug)]
pub struct Played {
    pub code: i32,
    /// All that the terminal showed.
    pub shown: String,
}

/// Runs `command` with a terminal of its own, and types `line` when it has shown `question`.
#[must_use]
pub fn play(command: &Command, question: &str, line: &str) -> Played {
    let mut typed = format!("{:?}", command.get_program());
    command.get_args().for_each(|argument| typed.push_str(&format!(" {argument:?}")));
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--flush", "--return", "--command", &typed, "/dev/null"]).env_clear();
    terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "dumb");
    terminal.env("SHELL", "/bin/sh");
    if let Some(folder) = command.get_current_dir() {
        terminal.current_dir(folder);
    }
    let mut child = terminal
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("`script` of util-linux runs");
    let (mut stdin, mut stdout) = (child.stdin.take(), child.stdout.take().expect("its stdout is a pipe"));
    let (mut shown, mut piece) = (Vec::new(), [0; 4_096]);
    let mut answered = false;
    loop {
        match stdout.read(&mut piece).expect("the terminal is read") {
            0 => break,
            length => shown.extend_from_slice(&piece[..length]),
        }
        if !answered && String::from_utf8_lossy(&shown).contains(question) {
            answered = true;
            stdin.as_mut().expect("its stdin is a pipe").write_all(line.as_bytes()).expect("typed");
        }
    }
    drop(stdin);
    let code = child.wait().expect("it ends").code().unwrap_or(-1);
    Played { code, shown: String::from_utf8_lossy(&shown).replace('\r', "") }
}
