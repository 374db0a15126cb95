//! The rules of this repository that no compiler holds: who may depend on whom, who may name what, what stays pure.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says so and stops")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package")
}

/// All Rust sources of a crate's `src`, with their text.
fn sources(krate: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a source folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(krate).join("src"), &mut found);
    assert!(!found.is_empty(), "{krate} has no sources");
    found
}

const CRATES: [&str; 4] = ["protocol", "supervisor", "worker", "notifier"];

#[test]
fn crates_depend_only_on_whom_they_may() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let mut edges = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            if on.starts_with("ukai-") && name != "ukai-tests" {
                edges.insert(format!("{name} -> {on}"));
            }
        }
    }
    let allowed = [
        "ukai-notifier -> ukai-protocol",
        "ukai-supervisor -> ukai-notifier",
        "ukai-supervisor -> ukai-protocol",
        "ukai-worker -> ukai-protocol",
    ];
    assert_eq!(edges, allowed.map(str::to_owned).into());
}

#[test]
fn some_names_stand_in_one_file_only() {
    for (name, homes) in [
        ("bincode::", ["protocol/src/codec.rs"].as_slice()),
        // To providers, and to Discord: neither crate sees the other.
        ("reqwest::", &["worker/src/http.rs", "notifier/src/discord.rs"]),
        ("reqwest_middleware::", &["worker/src/http.rs"]),
        ("Command::new", &["protocol/src/process.rs"]),
    ] {
        for (path, text) in CRATES.iter().flat_map(|krate| sources(krate)) {
            let production = text.split("#[cfg(test)]").next().unwrap_or_default();
            let tests = path.iter().any(|part| part == "tests" || part == "testing.rs");
            let at_home = homes.iter().any(|home| path.ends_with(home));
            assert!(tests || at_home || !production.contains(name), "{} names {name}", path.display());
        }
    }
}

/// Elsewhere a command would be told without the state directory that it needs, or with half of an id.
#[test]
fn what_is_told_to_be_typed_is_built_in_one_place() {
    let verbs = ["ack", "attach", "cancel", "demo", "doctor", "logs", "ls", "notify", "pause", "policy", "providers"]
        .into_iter()
        .chain([
            "quarantine",
            "report",
            "results",
            "resume",
            "run",
            "script",
            "serve",
            "show",
            "submit",
            "trust",
            "unpause",
        ]);
    let told: Vec<String> = verbs.flat_map(|verb| ["`", "type: "].map(|mark| format!("{mark}ukai {verb}"))).collect();
    for (path, text) in CRATES.iter().flat_map(|krate| sources(krate)) {
        if path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs") {
            continue;
        }
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in production.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let literal = told.iter().find(|told| line.contains(told.as_str()));
            assert_eq!(literal, None, "{}: use `protocol::command`: {line}", path.display());
        }
    }
}

/// The files marked ◦ in `docs/architecture.md`.
const PURE: [&str; 151] = [
    "supervisor/src/worktree/branch.rs",
    "supervisor/src/worktree/place.rs",
    "supervisor/src/worktree/quiet.rs",
    "notifier/src/alert.rs",
    "notifier/src/message.rs",
    "protocol/src/event.rs",
    "protocol/src/hook.rs",
    "supervisor/src/hooks_file.rs",
    "worker/src/hook/after.rs",
    "worker/src/hook/answer.rs",
    "worker/src/hook/matcher.rs",
    "worker/src/hook/merge.rs",
    "worker/src/hook/occasion.rs",
    "worker/src/query/machine/hooks.rs",
    "protocol/src/declared.rs",
    "supervisor/src/cli/job/disable.rs",
    "supervisor/src/tools_file.rs",
    "supervisor/src/tools_file/schema.rs",
    "supervisor/src/trust/shipped.rs",
    "worker/src/tool/declared/schema.rs",
    "supervisor/src/approval.rs",
    "supervisor/src/allow.rs",
    "worker/src/permission/opinion.rs",
    "protocol/src/id.rs",
    "protocol/src/job.rs",
    "protocol/src/json.rs",
    "protocol/src/lease.rs",
    "protocol/src/message.rs",
    "protocol/src/one_shot.rs",
    "protocol/src/policy.rs",
    "protocol/src/probe.rs",
    "protocol/src/run_state.rs",
    "notifier/src/redact/shape.rs",
    "protocol/src/secret.rs",
    "protocol/src/secret/fingerprint.rs",
    "protocol/src/secret/forms.rs",
    "protocol/src/secret/fragment.rs",
    "protocol/src/server_event.rs",
    "protocol/src/session.rs",
    "protocol/src/control.rs",
    "protocol/src/checksum.rs",
    "protocol/src/codec.rs",
    "protocol/src/frame.rs",
    "supervisor/src/batch.rs",
    "supervisor/src/cli/demo/hands/approver.rs",
    "supervisor/src/cli/demo/hands/luck/refusal.rs",
    "supervisor/src/cli/demo/hands/luck/tries.rs",
    "supervisor/src/cli/demo/hands/story.rs",
    "supervisor/src/cli/demo/storm/verdict.rs",
    "supervisor/src/cli/policy/cases.rs",
    "supervisor/src/cli/follow/next.rs",
    "supervisor/src/cli/tally.rs",
    "supervisor/src/each/csv.rs",
    "supervisor/src/each/fill.rs",
    "supervisor/src/each/identity.rs",
    "supervisor/src/each/items.rs",
    "supervisor/src/each/jsonl.rs",
    "supervisor/src/each/mod.rs",
    "supervisor/src/each/name.rs",
    "supervisor/src/job.rs",
    "supervisor/src/job_file/env.rs",
    "supervisor/src/naming.rs",
    "supervisor/src/policy_file/origin.rs",
    "supervisor/src/queue.rs",
    "supervisor/src/restart.rs",
    "supervisor/src/route/router.rs",
    "supervisor/src/route/router/place.rs",
    "supervisor/src/route/router/probes.rs",
    "supervisor/src/route/router/show.rs",
    "supervisor/src/route/backoff.rs",
    "supervisor/src/store/event_log.rs",
    "supervisor/src/route/account.rs",
    "supervisor/src/route/breaker.rs",
    "supervisor/src/route/bucket.rs",
    "supervisor/src/route/decision.rs",
    "supervisor/src/route/estimate.rs",
    "supervisor/src/route/fit.rs",
    "supervisor/src/route/lease.rs",
    "supervisor/src/route/probe.rs",
    "supervisor/src/route/survey.rs",
    "worker/src/query/machine.rs",
    "worker/src/query/machine/call.rs",
    "worker/src/query/machine/end.rs",
    "worker/src/query/machine/record.rs",
    "worker/src/query/machine/turn.rs",
    "worker/src/query/limits.rs",
    "worker/src/tool/edit/hint.rs",
    "worker/src/tool/edit/replace.rs",
    "worker/src/tool/edit/snippet.rs",
    "worker/src/tool/partition.rs",
    "worker/src/tool/seen.rs",
    "worker/src/tool/shape.rs",
    "worker/src/tool/output.rs",
    "worker/src/probe/observe.rs",
    "worker/src/probe/named.rs",
    "worker/src/provider/classify.rs",
    "worker/src/provider/mask.rs",
    "worker/src/provider/retry_after.rs",
    "worker/src/provider/told.rs",
    "worker/src/provider/told_wait.rs",
    "worker/src/provider/wire/gemini.rs",
    "worker/src/provider/wire/gemini/parts.rs",
    "worker/src/provider/wire/gemini/stream.rs",
    "notifier/src/cursors/ledger.rs",
    "notifier/src/discord/wait.rs",
    "notifier/src/discord/words.rs",
    "notifier/src/filter.rs",
    "notifier/src/filter/accounts.rs",
    "notifier/src/filter/class.rs",
    "notifier/src/filter/compose.rs",
    "notifier/src/filter/failed.rs",
    "notifier/src/filter/memory.rs",
    "notifier/src/filter/notice.rs",
    "notifier/src/filter/pace.rs",
    "notifier/src/filter/told.rs",
    "notifier/src/filter/waiting.rs",
    "notifier/src/redact.rs",
    "notifier/src/render.rs",
    "notifier/src/render/text.rs",
    "supervisor/src/news.rs",
    "supervisor/src/report.rs",
    "supervisor/src/report/page.rs",
    "supervisor/src/report/period.rs",
    "supervisor/src/resume.rs",
    "worker/src/permission/bash/words.rs",
    "worker/src/permission/classifier.rs",
    "worker/src/permission/command.rs",
    "worker/src/permission/operand.rs",
    "worker/src/permission/operand/table.rs",
    "worker/src/permission/options.rs",
    "worker/src/permission/rule.rs",
    "worker/src/permission/rule/command.rs",
    "worker/src/permission/shell.rs",
    "worker/src/permission/shell/agree.rs",
    "worker/src/permission/shell/builtin.rs",
    "worker/src/permission/shell/environment.rs",
    "worker/src/permission/shell/flow.rs",
    "worker/src/permission/shell/flow/ways.rs",
    "worker/src/permission/shell/git.rs",
    "worker/src/permission/shell/parse.rs",
    "worker/src/permission/shell/parse/compound.rs",
    "worker/src/permission/shell/parse/expansion.rs",
    "worker/src/permission/shell/parse/here.rs",
    "worker/src/permission/shell/parse/quote.rs",
    "worker/src/permission/shell/parse/simple.rs",
    "worker/src/permission/shell/parse/test.rs",
    "worker/src/permission/shell/value.rs",
    "worker/src/permission/shell/word.rs",
    "worker/src/permission/shell/wrapper.rs",
    "worker/src/permission/shell/wrapper/row.rs",
    "worker/src/permission/shell/wrapper/shell.rs",
];

#[test]
fn pure_files_are_held_to_it() {
    for file in PURE {
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let denies = text.contains("#![deny(clippy::disallowed_methods)]");
        assert!(denies, "{file} lacks #![deny(clippy::disallowed_methods)]");
        assert!(!text.contains("async fn"), "{file} is pure and has an async fn");
    }
}

#[test]
fn every_file_opens_with_what_it_decides() {
    for (path, text) in CRATES.iter().flat_map(|krate| sources(krate)) {
        let main = path.ends_with("src/main.rs");
        assert!(main || text.starts_with("//!"), "{} does not say what it is about", path.display());
    }
}

#[test]
fn the_tree_is_the_one_that_the_architecture_page_shows() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    for actor in ["supervisor/src/actor.rs", "worker/src/query/actor.rs", "worker/src/tool/actor.rs"] {
        assert!(root().join(actor).exists(), "{actor} has moved; docs/architecture.md and this test want to know");
    }
    for word in ["query/", "pool/", "store/", "route/", "machine◦", "run_state◦"] {
        assert!(page.contains(word), "docs/architecture.md does not mention {word}");
    }
}
