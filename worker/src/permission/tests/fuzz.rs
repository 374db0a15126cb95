//! Random command lines, read by us and run by bash: what ran must be among what was read.
//!
//! They run in a throw-away folder whose `PATH` holds nothing but scripts that write down their name and arguments, and
//! the wrappers that are seen through. No absolute path, no `-i`, no `-p` and no `PATH=` is ever made, so nothing else
//! can be found. Where our reading says that it is opaque, there is nothing to compare; how often it says so is bounded.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{Path, Permission, Policy, Source, Verdict, policy, symlink};
use crate::permission::shell::word::{Atom, Word};
use crate::permission::shell::{self, Simple};

const CASES: u32 = 600;
/// The machine may be slow; what is not run by then is left for another seed.
const TIME_MAX: std::time::Duration = std::time::Duration::from_secs(12);
const STUBS: [&str; 8] = ["rm", "ls", "cat", "tee", "c", "make", "a", "b"];
const REAL: [&str; 7] = ["env", "timeout", "nice", "xargs", "bash", "sh", "nohup"];

/// Bytes that decide what is made; an empty tape makes the simplest.
struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
    text: String,
    /// Here-documents whose bodies come behind the next newline.
    bodies: Vec<String>,
    functions: usize,
}

impl Tape<'_> {
    fn pick(&mut self, of: usize) -> usize {
        usize::from(self.bytes.next().copied().unwrap_or_default()) % of
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn newline(&mut self) {
        self.put("\n");
        for body in std::mem::take(&mut self.bodies) {
            self.put(&body);
        }
    }

    fn list(&mut self, depth: usize) {
        self.command(depth);
        for _ in 0..self.pick(3) {
            match self.pick(8) {
                0 => self.put("; "),
                1 => self.put(" && "),
                2 => self.put(" || "),
                3 => self.put(" | "),
                4 => self.put(" & "),
                5 => self.put(" |& "),
                6 => {
                    self.put(" # '\" $(rm x)");
                    self.newline();
                }
                _ => self.newline(),
            }
            self.command(depth);
        }
    }

    /// A list that ends before what closes it.
    fn closed(&mut self, depth: usize) {
        let outer = std::mem::take(&mut self.bodies);
        self.list(depth);
        if self.bodies.is_empty() {
            self.put("; ");
        } else {
            self.newline();
        }
        self.bodies = outer;
    }

    fn command(&mut self, depth: usize) {
        if depth == 0 {
            return self.simple(0);
        }
        let depth = depth - 1;
        match self.pick(18) {
            0 => {
                self.put("( ");
                self.closed_by(depth, ")");
            }
            1 => {
                self.put("{ ");
                self.closed_by(depth, "}");
            }
            2 => {
                self.put("if ");
                self.closed_by(depth, "then ");
                self.closed_by(depth, "else ");
                self.closed_by(depth, "fi");
            }
            3 => {
                self.put("for i in ");
                self.word(depth);
                self.put(" x; do ");
                self.closed_by(depth, "done");
            }
            4 => {
                self.put("case ");
                self.word(depth);
                self.put(" in a|b) ");
                self.closed_by(depth, ";;");
                self.put(" *) ");
                self.list_alone(depth);
                self.put("\nesac");
            }
            5 => {
                self.put("! ");
                self.simple(depth);
            }
            6 => {
                self.functions += 1;
                let name = format!("f{}", self.functions);
                let _ = write!(self.text, "{name}() {{ ");
                self.closed_by(depth, "}; ");
                self.put(&name);
            }
            7 => {
                self.put("while ");
                self.closed_by(depth, "do ");
                self.put("break; done");
            }
            8 => {
                let wrapper = ["env ", "timeout 5 ", "nice ", "env A=1 ", "nice -n 3 ", "command ", "exec ", "nohup "];
                let at = self.pick(wrapper.len());
                self.put(wrapper[at]);
                self.simple(depth);
            }
            9 => self.script(depth),
            14..=16 => self.set(depth),
            10 => {
                self.put("[[ -n ");
                self.word(depth);
                self.put(" ]] && ");
                self.simple(depth);
            }
            _ => self.simple(depth),
        }
    }

    /// Gives a variable a value, and perhaps uses it.
    fn set(&mut self, depth: usize) {
        let (before, behind) = [
            ("v=", ""),
            ("v=", ""),
            ("v+=", ""),
            ("w=(x ", " -f)"),
            ("w+=(", ")"),
            ("read v <<< ", ""),
            ("read -r v w <<< ", ""),
            ("printf -v v %s ", ""),
            ("declare v=", ""),
            ("export v=", ""),
            ("set -- ", " y"),
            ("mapfile -t w <<< ", ""),
            ("unset v ", ""),
            ("v=x w=", ""),
            ("readonly v=", ""),
            ("eval v=", ""),
            ("shift; w=", ""),
            ("for v in ", "; do break; done"),
        ][self.pick(18)];
        self.put(before);
        self.word(depth);
        self.put(behind);
        if self.bodies.is_empty() {
            let joint = [" && ", "; ", " || "][self.pick(3)];
            self.put(joint);
        } else {
            self.newline();
        }
        self.command(depth);
    }

    fn closed_by(&mut self, depth: usize, end: &str) {
        if end == ";;" {
            self.list_alone(depth);
            self.put("\n;;");
            return;
        }
        self.closed(depth);
        self.put(end);
    }

    fn list_alone(&mut self, depth: usize) {
        let outer = std::mem::take(&mut self.bodies);
        self.list(depth);
        if !self.bodies.is_empty() {
            self.newline();
        }
        self.bodies = outer;
    }

    /// A shell that is given its text.
    fn script(&mut self, depth: usize) {
        let outer = std::mem::take(&mut self.text);
        self.list_alone(depth);
        let script = std::mem::replace(&mut self.text, outer);
        match self.pick(5) {
            0 => {
                let at = self.pick(2);
                self.put(["bash -c ", "eval "][at]);
                self.quote(&script);
            }
            1 => {
                self.put("bash <<< ");
                self.quote(&script);
            }
            2 if !script.contains("E\n") => {
                self.put("bash <<'E'");
                self.bodies.push(format!("{script}\nE\n"));
            }
            3 => {
                self.put("printf '%s\\n' ");
                self.quote(&script);
                self.put(" | sh");
            }
            _ => {
                self.put("bash -ec ");
                self.quote(&script);
            }
        }
    }

    fn quote(&mut self, text: &str) {
        let _ = write!(self.text, "'{}'", text.replace('\'', "'\\''"));
    }

    fn simple(&mut self, depth: usize) {
        if self.pick(8) == 7 {
            self.put("V=");
            self.word(depth);
            self.put(" ");
        }
        let at = self.pick(STUBS.len() + 3);
        match STUBS.get(at) {
            Some(name) => self.spelled(name),
            None if at == STUBS.len() && self.pick(3) == 0 => {
                self.put(["$v", "\"$v\"", "\"${w[@]}\"", "$i", "$1"][depth % 5])
            }
            None => self.put("echo"),
        }
        for _ in 0..self.pick(4) {
            let blank = [" ", "  ", "\t", " \\\n"][self.pick(4)];
            self.put(blank);
            self.word(depth);
        }
        match self.pick(12) {
            0 => self.put(" >/dev/null"),
            1 => self.put(" 2>&1"),
            2 => self.put(" < in"),
            3 => self.put(" &> out"),
            4 if depth > 0 => {
                self.put(" <<E");
                let outer = std::mem::take(&mut self.text);
                self.put("l $x\n");
                self.substitution(depth - 1);
                let body = std::mem::replace(&mut self.text, outer);
                self.bodies.push(format!("{body} \"q'\nE\n"));
            }
            5 => {
                self.put(" <<-'F'");
                self.bodies.push("\t$(rm x) `ls`\n\tF\n".to_owned());
            }
            _ => {}
        }
    }

    /// A literal, its characters quoted in any way.
    fn spelled(&mut self, text: &str) {
        for c in text.chars() {
            let quoted = match self.pick(9) {
                0 => format!("\\{c}"),
                1 => format!("'{c}'"),
                2 => format!("\"{c}\""),
                3 => format!("$'\\x{:x}'", u32::from(c)),
                4 => format!("''{c}\"\""),
                5 => format!("\\\n{c}"),
                _ => c.to_string(),
            };
            self.put(&quoted);
        }
    }

    fn substitution(&mut self, depth: usize) {
        let outer = std::mem::take(&mut self.bodies);
        if self.pick(3) == 2 {
            let text = std::mem::take(&mut self.text);
            self.list_alone(0);
            let inner = std::mem::replace(&mut self.text, text);
            let inner = inner.replace('\\', "\\\\").replace('`', "\\`").replace('$', "\\$");
            let _ = write!(self.text, "`{inner}`");
        } else {
            self.put("$( ");
            self.list_alone(depth);
            self.put(if self.text.ends_with('\n') { ")" } else { " )" });
        }
        self.bodies = outer;
    }

    fn word(&mut self, depth: usize) {
        let texts =
            ["rm", "x", "-rf", "--force", "a b", "$", ";", "x#y", "rm -rf", "'", "\"", "*", "`", "\\", "{x}", "~"];
        match self.pick(22) {
            0 if depth > 0 => self.substitution(depth - 1),
            1 if depth > 0 => {
                self.put("\"p");
                self.substitution(depth - 1);
                self.put("\"");
            }
            2 if depth > 0 => {
                self.put("${u:-");
                self.substitution(depth - 1);
                self.put("}");
            }
            3 if depth > 0 => {
                self.put("<( ");
                self.list_alone(depth - 1);
                self.put(" )");
            }
            4 => self.put("$u"),
            5 => self.put("\"$u\""),
            6 => self.put("*.t"),
            7 => self.put("{p,q}r"),
            8 => self.put("~"),
            9 => self.put("$((1 + 2))"),
            10 => self.put("\"${u}y\""),
            11 => self.put("${HOME}"),
            12..=14 => {
                let uses =
                    ["$v", "\"$v\"", "\"${w[@]}\"", "$i", "\"$i\"", "$w", "\"p$v\"", "$v-f", "\"$@\"", "${w[1]}"];
                let more = [
                    "\"$1\"",
                    "${v:-x y}",
                    "\"${v:--rf}\"",
                    "$(echo -rf)",
                    "\"$(printf %s rm)\"",
                    "\"$PWD\"",
                    "${v%f}",
                ];
                let at = self.pick(uses.len() + more.len());
                self.put(uses.iter().chain(&more).nth(at).copied().unwrap_or_default());
            }
            _ => {
                let at = self.pick(texts.len());
                let text = texts[at];
                match self.pick(3) {
                    0 => self.quote(text),
                    1 => {
                        let inside: String = text
                            .chars()
                            .flat_map(|c| "\"$`\\".contains(c).then_some('\\').into_iter().chain([c]))
                            .collect();
                        let _ = write!(self.text, "\"{inside}\"");
                    }
                    _ if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => self.spelled(text),
                    _ => self.quote(text),
                }
            }
        }
    }
}

/// A command line out of bytes, perhaps with a character put in where it does not belong.
fn made(bytes: &[u8]) -> String {
    let mut tape = Tape { bytes: bytes.iter(), text: String::new(), bodies: Vec::new(), functions: 0 };
    let odd = tape.pick(4);
    let place = tape.pick(256) * 256 + tape.pick(256);
    let mark = tape.pick(24);
    tape.list(3);
    if !tape.bodies.is_empty() {
        tape.newline();
    }
    let mut text = tape.text;
    if odd == 3 {
        let marks = ";&|<>(){}$\"'`\\#*?[]~=! ";
        let at = place % (text.len() + 1);
        if let (true, Some(c)) = (text.is_char_boundary(at), marks.chars().nth(mark)) {
            text.insert(at, c);
        }
    }
    text
}

/// What gives values that nobody can know before.
const GUESSED: [&str; 10] = ["read", "mapfile", "shift", "${v", "${w[1", "() {", "$u", "w+=", "$(", "`"];

struct Lab {
    _temp: tempfile::TempDir,
    top: std::path::PathBuf,
    places: [std::path::PathBuf; 2],
    runs: std::cell::Cell<usize>,
}

impl Lab {
    fn job(&self) -> shell::Job<'_> {
        let [work, home] = &self.places;
        shell::Job { workdir: work, home, temp: None }
    }

    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        for folder in ["bin", "work", "home"] {
            fs::create_dir(top.join(folder)).expect("a folder");
        }
        for file in ["in", "x.t", "y.t"] {
            fs::write(top.join("work").join(file), "x\n").expect("a file");
        }
        for name in STUBS {
            let path = top.join("bin").join(name);
            fs::write(&path, "#!/bin/bash\nprintf '%s\\0' \"${0##*/}\" \"$@\" $'\\1' >> \"$UKAI_LOG\"\n")
                .expect("a stub");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        for name in REAL {
            let real =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            symlink(real.expect("a program"), top.join("bin").join(name)).expect("a link");
        }
        let places = [top.join("work"), top.join("home")];
        Lab { _temp: temp, places, top, runs: std::cell::Cell::new(0) }
    }

    /// What ran, and whether bash refused the text.
    fn run(&self, text: &str) -> (Vec<Vec<String>>, Option<String>) {
        // A log of its own: what an earlier one left running writes into that one's.
        self.runs.set(self.runs.get() + 1);
        let log = self.top.join(format!("log{}", self.runs.get()));
        let output = Command::new("/usr/bin/timeout")
            .args(["-k", "1", "5", "/bin/bash", "-c", text])
            .current_dir(self.top.join("work"))
            .env_clear()
            .env("PATH", self.top.join("bin"))
            .env("HOME", self.top.join("home"))
            .env("UKAI_LOG", &log)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("bash runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let refused = ["syntax error", "unexpected EOF", "bad substitution"].iter().any(|words| told.contains(words));
        let ran = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let mut calls = vec![Vec::new()];
        for word in ran.split('\0') {
            match (word, calls.last_mut()) {
                ("\u{1}", _) => calls.push(Vec::new()),
                (word, Some(call)) => call.push(word.to_owned()),
                _ => {}
            }
        }
        calls.retain(|call| call.iter().any(|word| !word.is_empty()));
        (calls, refused.then_some(told))
    }
}

/// Whether these words can have become those.
fn can_be(words: &[Word], argv: &[String]) -> bool {
    let Some((word, rest)) = words.split_first() else { return argv.is_empty() };
    if word.may_split() {
        return (0..=argv.len()).any(|taken| can_be(rest, &argv[taken..]));
    }
    let Some((first, others)) = argv.split_first() else { return false };
    let chars: Vec<char> = first.chars().collect();
    fits(&word.atoms, &chars) && can_be(rest, others)
}

fn fits(atoms: &[Atom], text: &[char]) -> bool {
    match atoms.split_first() {
        None => text.is_empty(),
        // The shell counts these down.
        Some(_) if starts(atoms, "/dev/fd/63") && text.starts_with(&['/', 'd', 'e', 'v', '/', 'f', 'd', '/']) => {
            fits(&atoms[10..], text.get(10..).unwrap_or_default())
        }
        Some((Atom::Char(c), rest)) => text.first() == Some(c) && fits(rest, &text[1..]),
        Some((_, rest)) => (0..=text.len()).any(|taken| fits(rest, &text[taken..])),
    }
}

fn starts(atoms: &[Atom], text: &str) -> bool {
    atoms.len() >= text.len() && atoms.iter().zip(text.chars()).all(|(atom, c)| *atom == Atom::Char(c))
}

fn was_read(commands: &[Simple], argv: &[String]) -> bool {
    commands.iter().any(|command| {
        let named = command.base().is_some_and(|base| Some(&base) == argv.first());
        named && can_be(&command.words[1..], &argv[1..])
    })
}

fn rules() -> Policy {
    let rules = |texts: &[&str]| texts.iter().map(|text| policy::Rule::new(*text, "/")).collect();
    Policy {
        allow: rules(&["Bash(a:*)", "Bash(c:*)", "Bash(make:*)", "Bash(f1)", "Write"]),
        deny: rules(&["Bash(rm -rf:*)", "Bash(rm --force:*)"]),
        ..Policy::default()
    }
}

/// Whether this is what the policy denies: `rm` with `--force`, or `-rf`, before a `--`.
fn removes(call: &[String]) -> bool {
    let flags = call.iter().skip(1).take_while(|word| *word != "--");
    call.first().is_some_and(|name| name == "rm") && flags.into_iter().any(|word| word == "-rf" || word == "--force")
}

#[test]
fn what_runs_is_among_what_was_read() {
    let lab = Lab::new();
    let seed = std::env::var("UKAI_FUZZ_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()).unwrap_or(7);
    let cases = std::env::var("UKAI_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 3_000,
        max_shrink_time: 10_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (clear, opaque, ran) = (std::cell::Cell::new(0), std::cell::Cell::new(0), std::cell::Cell::new(0));
    let allowed = std::cell::Cell::new(0);
    let permission = Permission::new(&rules(), &lab.top.join("work"), &lab.top.join("home"), &lab.top.join("out"));
    assert_eq!(permission.broken(), None);
    let reasons = std::cell::RefCell::new(std::collections::BTreeMap::<&str, usize>::new());
    let limit = if cases > CASES { std::time::Duration::MAX } else { TIME_MAX };
    let begun = std::time::Instant::now();
    let found = runner.run(&proptest::collection::vec(any::<u8>(), 0..120), |tape| {
        if begun.elapsed() > limit {
            return Ok(());
        }
        let text = made(&tape);
        let reading = shell::read(&text, &lab.job());
        let (calls, refused) = lab.run(&text);
        // What is denied is denied, however it is written and whether or not it can be read.
        let denied = permission.judge_bash(&text);
        for call in calls.iter().filter(|call| removes(call)) {
            // Where a value is only guessed, it is enough that a person is asked.
            let guessed =
                text.contains('$') && (reading.opaque.is_some() || GUESSED.iter().any(|part| text.contains(part)));
            let by_rule = denied.verdict == Verdict::Deny && (guessed || matches!(denied.source, Source::Rule { .. }));
            prop_assert!(by_rule, "{call:?} ran, and is not denied, of:\n{text}\n{denied:?}");
        }
        if denied.verdict == Verdict::Allow {
            allowed.set(allowed.get() + 1);
            for call in &calls {
                let rightly = call.first().is_some_and(|name| ["a", "c", "make", "ls", "cat"].contains(&name.as_str()));
                prop_assert!(rightly, "{call:?} ran, and was allowed by no rule, of:\n{text}");
            }
        }
        if reading.opaque.is_some() {
            opaque.set(opaque.get() + 1);
            *reasons.borrow_mut().entry(reading.opaque.unwrap_or_default()).or_insert(0) += 1;
            return Ok(());
        }
        clear.set(clear.get() + 1);
        prop_assert!(refused.is_none(), "bash refuses what was read for certain: {refused:?}\n{text}");
        for call in calls {
            ran.set(ran.get() + 1);
            let read: Vec<&Vec<Word>> = reading.commands.iter().map(|command| &command.words).collect();
            prop_assert!(was_read(&reading.commands, &call), "{call:?} ran, unread, of:\n{text}\nread: {read:?}");
        }
        Ok(())
    });
    println!("{} read for certain, {} opaque, {} calls compared", clear.get(), opaque.get(), ran.get());
    println!("{} allowed; opaque: {:?}", allowed.get(), reasons.borrow());
    if let Err(failure) = found {
        let text = failure.to_string();
        panic!("{}", text.split("minimal failing input").next().unwrap_or_default());
    }
    assert!(clear.get() > opaque.get(), "most of it should be understood: {} against {}", clear.get(), opaque.get());
}
