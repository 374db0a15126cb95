//! The jobs that are measured: what the scripted provider plays, what the tools find, and the job as it is submitted.
//!
//! The prompt says which job it is; the script goes by that. The floor sends the same prompt and gets the same replies.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use ukai_protocol::job::JobSpec;
use ukai_protocol::json::Json;
use ukai_protocol::policy::{Policy, Rule};
use ukai_supervisor::policy_file;
use ukai_tests::home::Home;
use ukai_worker::permission::Permission;
use ukai_worker::tool;
use ukai_worker::tool::shells::Shells;

use crate::patience;
use crate::stats::Sample;

/// Model calls of a job: all but the last ask for one tool call.
pub const STEPS: u64 = 20;
/// A job that is held answers this many steps at once, and the next one late.
pub const HELD_AFTER: u64 = 5;
/// The last step of a long job.
pub const LONG_STEPS: u64 = 1_010;

/// Of a streamed reply.
pub const PIECES: usize = 1_000;

/// Beyond any of these jobs.
const UNBOUNDED: u64 = 1_000_000_000_000;
const FILE_LINES: usize = 60;
/// A tree that would have to be larger is a machine too strange to go on.
const TREE_FILES_MAX: usize = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Each step searches a folder: work of about the cost of `sh -c 'echo x'`.
    Grep,
    /// Each step reads a small file: as light as a tool call gets.
    Read,
    /// Each step runs a command; the floor runs it with a bare `sh -c`.
    Bash,
    /// Reads, and then waits for a reply until it is cancelled.
    Held,
    /// Reads, with a second for each reply, until it is cancelled.
    Paced,
    /// A thousand reads.
    Long,
    /// One reply of a thousand pieces.
    Stream,
}

impl Job {
    #[must_use]
    pub fn prompt(self) -> &'static str {
        match self {
            Job::Grep => "job grep",
            Job::Read => "job read",
            Job::Bash => "job bash",
            Job::Held => "job held",
            Job::Paced => "job paced",
            Job::Long => "job long",
            Job::Stream => "job stream",
        }
    }
}

/// The script for all of them.
#[must_use]
pub fn script() -> String {
    let mut script = String::new();
    let mut rule = |job: Job, when: &str, reply: &str| {
        let prompt = job.prompt();
        let usage = "usage = { input = 100, output = 10 }";
        writeln!(script, "[[rule]]\nwhen = {{ prompt = \"{prompt}\"{when} }}\n[rule.reply]\n{usage}\n{reply}\n")
            .expect("a String takes all");
    };
    let done = "text = \"Done.\"";
    let read = "text = \"I will look.\"\ncalls = [{ tool = \"Read\", args = { file_path = \"notes.txt\" } }]";
    rule(Job::Grep, &format!(", step = {{ at_least = {STEPS} }}"), done);
    rule(
        Job::Grep,
        "",
        "text = \"I will look.\"\n\
         calls = [{ tool = \"Grep\", args = { pattern = \"needle [0-9]+$\", path = \"tree\", output_mode = \"count\" } }]",
    );
    rule(Job::Read, &format!(", step = {{ at_least = {STEPS} }}"), done);
    rule(Job::Read, "", read);
    rule(Job::Bash, &format!(", step = {{ at_least = {STEPS} }}"), done);
    let echo = "text = \"I will run it.\"\ncalls = [{ tool = \"Bash\", args = { command = \"echo x\" } }]";
    rule(Job::Bash, "", echo);
    rule(Job::Held, &format!(", step = {{ at_most = {HELD_AFTER} }}"), read);
    rule(Job::Held, "", &format!("{read}\nlatency = \"600s\""));
    rule(Job::Paced, "", &format!("{read}\nlatency = \"1s\""));
    rule(Job::Long, &format!(", step = {{ at_least = {LONG_STEPS} }}"), done);
    rule(Job::Long, "", read);
    rule(Job::Stream, "", &format!("text = \"{}\"", "sixteen letters ".repeat(PIECES).trim_end()));
    script
}

/// The one provider, with a window that no job fills.
#[must_use]
pub fn configuration(url: &str, max_workers: usize) -> String {
    format!(
        "max_workers = {max_workers}\n\n[[provider]]\nid = \"lab\"\nwire = \"openai\"\nbase_url = \"{url}/v1\"\n\
         model = \"lab-1\"\ncontext_window = 4000000\nmax_output = 4096\n"
    )
}

/// What the tools find in a working folder.
pub fn furnish(home: &Home, tree_files: usize) {
    home.file("notes.txt", "one\ntwo\nthree\n");
    for number in 0..tree_files {
        home.file(&format!("tree/{:02}/{number:04}.txt", number % 16), &text(number));
    }
}

fn text(number: usize) -> String {
    let hay = (1..FILE_LINES).map(|line| format!("some words that are not looked for, line {line}\n"));
    hay.collect::<String>() + &format!("needle {number}\n")
}

/// The job as it would be submitted from that folder, under the policy that ships.
#[must_use]
pub fn spec(workdir: &Path, job: Job) -> JobSpec {
    // By way of JSON: a key that a later version adds has its default.
    let spec = json!({
        "name": job.prompt().replace(' ', "-"),
        "prompt": job.prompt(),
        "workdir": workdir,
        "mode": "loop",
        "provider": null,
        "model": null,
        "context": "keep_all",
        "window": null,
        "priority": 5,
        "needs_tools": true,
        "limits": {
            "steps": UNBOUNDED, "tool_calls": UNBOUNDED, "tokens": UNBOUNDED,
            "run_time_ms": UNBOUNDED, "max_wall_ms": UNBOUNDED, "max_cost_usd": null,
        },
        "policy": policy(),
    });
    serde_json::from_value(spec).expect("a job")
}

/// The one that ships, and the command of [`Job::Bash`] by name.
fn policy() -> Policy {
    let mut policy = policy_file::shipped();
    policy.allow.push(Rule::new("Bash(echo x)", "/"));
    policy
}

/// What a worker in that home gives its tools.
#[must_use]
pub fn tool_context(home: &Home) -> tool::Context {
    let outputs = home.path().join("outputs");
    let permission = Permission::new(&policy_file::shipped(), &home.work(), home.path(), &outputs);
    tool::Context {
        consented: false,
        result_tokens_max: tool::result_tokens_max(200_000),
        permission: permission.into(),
        cancel: CancellationToken::new(),
        outputs,
        mask: Default::default(),
        shells: Shells::none().into(),
        seen: Default::default(),
        looks: Default::default(),
        tools: Default::default(),
        posts: None,
    }
}

/// The tool work by itself.
pub struct Work {
    /// In the tree that is searched.
    pub files: usize,
    /// In milliseconds: starting `sh -c 'echo x'`, searching the tree, reading the small file.
    pub shell: Sample,
    pub grep: Sample,
    pub read: Sample,
}

/// Finds the size of tree whose search costs what a small process does.
#[must_use]
pub fn weigh(repeats: usize) -> Work {
    let shell = timed(repeats, || {
        let echo = Command::new("/bin/sh").args(["-c", "echo x"]).output().expect("sh starts");
        assert_eq!(echo.stdout, b"x\n");
    });
    let mut files = 32;
    // The cost is a line with a small constant: three looks at it find the point.
    for _ in 0..3 {
        let (grep, _) = tools(files, repeats);
        files = ((files as f64 * undisturbed(&shell) / undisturbed(&grep)) as usize).clamp(4, TREE_FILES_MAX);
    }
    let (grep, read) = tools(files, repeats);
    Work { files, shell, grep, read }
}

/// What it costs when nothing comes between. By medians, a noisy minute at the beginning would choose a larger tree, and
/// more tool work brings every ratio of the run nearer to 1.
fn undisturbed(sample: &Sample) -> f64 {
    sample.quantile(0.05)
}

fn tools(files: usize, repeats: usize) -> (Sample, Sample) {
    let home = Home::new();
    furnish(&home, files);
    let context = tool_context(&home);
    let run = |name: &str, input: serde_json::Value| {
        let input = Json(input.as_object().cloned().expect("an object"));
        let output = tool::run(name, &input, &context);
        assert_eq!(output.status, ukai_protocol::event::ToolStatus::Ok, "{name}: {}", output.output);
    };
    let grep = json!({ "pattern": "needle [0-9]+$", "path": "tree", "output_mode": "count" });
    let read = json!({ "file_path": "notes.txt" });
    (timed(repeats, || run("Grep", grep.clone())), timed(repeats, || run("Read", read.clone())))
}

fn timed(repeats: usize, mut act: impl FnMut()) -> Sample {
    let mut sample = Sample::default();
    for _ in 0..repeats {
        patience::go_on();
        let begun = Instant::now();
        act();
        sample.add_time(begun.elapsed());
    }
    sample
}
