//! One probe at a time, with shell scripts in place of the worker: what becomes of the process, whatever it does.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ukai_protocol::frame::{PROTOCOL_VERSION, Role};
use ukai_protocol::lease::{AnswerClass, Grant, Report, Timeouts, Wire};
use ukai_protocol::pipe;
use ukai_protocol::probe::{ANSWER_BYTES_MAX, ProbeAnswer, ProbeKind, ProbeRequest};
use ukai_protocol::secret::Secret;
use ukai_protocol::secret::fingerprint::Fingerprints;
use ukai_supervisor::pool::reaper::Family;
use ukai_supervisor::probe::{self, ProbeError};

const KEY: &str = "sk-of-the-probe";
const LEASE: u64 = 7;
/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);

struct Shim {
    folder: tempfile::TempDir,
}

impl Shim {
    /// A worker that leaves its pid behind and then does what `script` says, in a folder of its own.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!("#!/bin/sh\ncd {}\necho $$ >>pids\n{script}\n", folder.path().display());
        let shim = Shim { folder };
        std::fs::write(shim.program(), text).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(shim.program(), mode).expect("its mode");
        shim
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("worker")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Those of its processes that there are still, zombies included.
    fn left(&self) -> Vec<String> {
        let pids = self.text("pids");
        pids.lines().filter(|pid| Path::new("/proc").join(pid).exists()).map(str::to_owned).collect()
    }
}

fn request(deadline_ms: u64) -> ProbeRequest {
    let grant = Grant {
        lease: LEASE,
        generation: 1,
        provider: "lab".into(),
        account: "lab".into(),
        wire: Wire::Openai,
        url: "http://lab".into(),
        model: "m".into(),
        key: Some(Secret::new(KEY.into())),
        timeouts: Timeouts::default(),
        context_window: 1_000,
        max_output: 100,
        prices: None,
    };
    ProbeRequest { grant, kind: ProbeKind::Capability, deadline_ms, secrets: Fingerprints::default() }
}

fn answer(lease: u64) -> ProbeAnswer {
    let report = Report { lease, generation: 1, class: AnswerClass::Success, ..Report::default() };
    ProbeAnswer { report, detail: "fine".into(), tools: Some(true), observations: Vec::new() }
}

async fn run(shim: &Shim, deadline_ms: u64) -> Result<ProbeAnswer, ProbeError> {
    let program = shim.program();
    let ran = probe::run(&program, Family::found(), request(deadline_ms));
    tokio::time::timeout(PATIENCE, ran).await.expect("it takes too long")
}

async fn gone(shim: &Shim) {
    let until = Instant::now() + PATIENCE;
    while !shim.left().is_empty() {
        assert!(Instant::now() < until, "{:?} are left", shim.left());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_answer_comes_back_and_the_key_goes_nowhere_but_into_the_pipe() {
    let shim = Shim::new("cat /proc/$$/cmdline /proc/$$/environ >seen\ncat answer\nexec cat >request");
    let mut bytes = Vec::new();
    pipe::send(&mut bytes, Role::Worker, &answer(LEASE), ANSWER_BYTES_MAX).await.expect("encoded");
    std::fs::write(shim.path("answer"), bytes).expect("written");
    assert_eq!(run(&shim, 5_000).await.expect("an answer"), answer(LEASE));
    assert!(shim.text("request").contains(KEY), "it is what the probe asks with");
    assert!(shim.text("seen").contains("probe") && !shim.text("seen").contains(KEY), "{}", shim.text("seen"));
    assert_eq!(shim.left(), Vec::<String>::new());
}

#[tokio::test]
async fn whatever_it_does_instead_is_told_apart_and_leaves_nobody() {
    let check = async |script: &str, expected: &str| {
        let shim = Shim::new(script);
        let mut other = Vec::new();
        pipe::send(&mut other, Role::Worker, &answer(LEASE + 1), ANSWER_BYTES_MAX).await.expect("encoded");
        std::fs::write(shim.path("answer"), &other).expect("written");
        let error = format!("{:?}", run(&shim, 0).await.expect_err("no answer"));
        assert!(error.contains(expected) && !error.contains(KEY), "{script}: {error}");
        assert_eq!(shim.left(), Vec::<String>::new(), "{script}");
    };
    check("exit 3", "Died { how: \"exit 3\"").await;
    check("exec cat >/dev/null & exit 0", "Died { how: \"exit 0\"").await;
    check(&format!("echo 'no luck with {KEY}' >&2; kill -KILL $$"), "killed by signal 9").await;
    check(&format!("echo 'no luck with {KEY}' >&2; exit 1"), "no luck with [key]").await;
    check("echo usage: worker FILE; exec cat >/dev/null", "Garbage").await;
    check("printf 'ukai\\001\\000\\001\\000'; exec cat >/dev/null", "version 1").await;
    let ours = format!("ukai\\{PROTOCOL_VERSION:03o}\\000\\001\\000");
    check(&format!("printf '{ours}\\377\\377\\377\\377'; exec cat >/dev/null"), "too large").await;
    check("head -c 20 answer; exit 0", "Died").await;
    check("cat answer; exec cat >/dev/null", "about lease 8").await;
    check("exec sleep 300", "Late").await;
    check("trap '' TERM; (trap '' TERM; echo $$ >>pids; setsid sleep 300) & while :; do sleep 1; done", "Late").await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = probe::run(Path::new("/no/such/worker"), Family::found(), request(0)).await.expect_err("none");
    assert!(matches!(error, ProbeError::Start { .. }) && error.to_string().contains("/no/such/worker"), "{error}");
}

#[tokio::test]
async fn who_stops_waiting_leaves_nobody() {
    // While it runs, and at any moment of its start.
    for moment in [None, Some(0), Some(1), Some(3)] {
        let shim = Shim::new("exec sleep 300");
        let probing = tokio::spawn({
            let program = shim.program();
            async move { probe::run(&program, Family::found(), request(60_000)).await }
        });
        match moment {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => {
                while shim.text("pids").is_empty() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
        probing.abort();
        assert!(probing.await.is_err_and(|error| error.is_cancelled()), "{moment:?}");
        gone(&shim).await;
    }
}
