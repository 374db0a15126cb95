//! The tools as they are called: against real files, and Grep against the real git.

mod edit;
mod kill;
mod like_git;
mod race;
mod refusals;
mod results;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use ukai_protocol::event::ToolStatus;
use ukai_protocol::json::Json;
use ukai_protocol::policy::{Policy, Rule};

use super::shells::Shells;
use super::{Context, ToolOutput, run};
use crate::permission::Permission;
use crate::permission::tests::shipped;

/// A folder of its own with a workdir, a home and outputs, under the shipped policy.
struct World {
    temp: tempfile::TempDir,
    work: PathBuf,
    context: Context,
}

impl World {
    fn new() -> Self {
        Self::with(&shipped(Path::new("/")), |top| top.join("work"))
    }

    /// Where every file of the workdir may be written, but for what the shipped policy denies.
    fn writable() -> Self {
        Self::allowing(|_| vec!["Edit(**)".to_owned()])
    }

    /// With these allow rules besides the shipped ones; they may name what lies in the world's folder.
    fn allowing(rules: impl Fn(&Path) -> Vec<String>) -> Self {
        let mut world = Self::new();
        let mut policy = shipped(Path::new("/"));
        policy.allow.extend(rules(&world.top()).into_iter().map(|text| Rule::new(text, "/")));
        let (top, outputs) = (world.top(), world.context.outputs.clone());
        world.context.permission = Arc::new(Permission::new(&policy, &world.work, &top.join("home"), &outputs));
        assert_eq!(world.context.permission.broken(), None);
        world
    }

    fn with(policy: &Policy, workdir: impl Fn(&Path) -> PathBuf) -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let top = temp.path().canonicalize().expect("a path");
        for folder in ["work", "home", "outputs"] {
            std::fs::create_dir(top.join(folder)).expect("a folder");
        }
        let outputs = top.join("outputs");
        let permission = Arc::new(Permission::new(policy, &workdir(&top), &top.join("home"), &outputs));
        let context = Context {
            permission,
            cancel: CancellationToken::new(),
            outputs,
            mask: Arc::default(),
            shells: Arc::new(Shells::none()),
            seen: Arc::default(),
            looks: Default::default(),
            tools: Default::default(),
            posts: None,
            consented: false,
            result_tokens_max: super::result_tokens_max(200_000),
        };
        World { work: top.join("work"), temp, context }
    }

    fn top(&self) -> PathBuf {
        self.temp.path().canonicalize().expect("a path")
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.work.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, bytes).expect("a file");
    }

    fn read(&self, path: &str) -> String {
        String::from_utf8(std::fs::read(self.work.join(path)).expect("a file")).expect("text")
    }

    /// Hidden temporary files, anywhere in this world.
    fn temporaries(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.top()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("its type").is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with(".ukai-") {
                    found.push(entry.path());
                }
            }
        }
        found
    }

    fn run(&self, tool: &str, input: &Value) -> ToolOutput {
        run(tool, &Json(input.as_object().expect("an object").clone()), &self.context)
    }

    #[track_caller]
    fn ok(&self, tool: &str, input: &Value) -> String {
        let done = self.run(tool, input);
        assert_eq!(done.status, ToolStatus::Ok, "{input}: {}", done.output);
        done.output
    }

    #[track_caller]
    fn refused(&self, tool: &str, input: &Value, status: ToolStatus, why: &str) {
        let done = self.run(tool, input);
        assert_eq!(done.status, status, "{tool} {input}: {}", done.output);
        assert!(done.output.contains(why), "{tool} {input}: {}", done.output);
    }
}
