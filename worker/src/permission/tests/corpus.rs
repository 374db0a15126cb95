//! Command lines by the hundred, from `worker/testdata/permission`: nothing is allowed that should not be.

use std::collections::BTreeSet;

use super::*;

const FILES: [&str; 4] = [
    include_str!("../../../testdata/permission/denied.tsv"),
    include_str!("../../../testdata/permission/files.tsv"),
    include_str!("../../../testdata/permission/allowed.tsv"),
    include_str!("../../../testdata/permission/asked.tsv"),
];
const FALSE_REFUSALS: &str = include_str!("../../../testdata/permission/false_refusals.tsv");

/// Rules of the named policies beside the shipped ones: allow, ask, deny.
fn named(world: &World, name: &str) -> Policy {
    let mut policy = shipped(&world.top.join("rules"));
    let (allow, ask, deny): (&[&str], &[&str], &[&str]) = match name {
        "shipped" => (&[], &[], &[]),
        "open" => (&["Bash"], &[], &[]),
        "edits" => (&["Bash(cargo test:*)", "Edit(src/**)"], &[], &[]),
        "build" => (
            &[
                "Bash(cargo test:*)",
                "Bash(npm run:*)",
                "Bash(git log:*)",
                "Bash(git commit:*)",
                "Bash(git push:*)",
                "Bash(ls:*)",
                "Bash(cat:*)",
                "Bash(rm:*)",
                "Bash(make)",
                "Bash(find:*)",
                "Write",
                "Edit(src/**)",
            ],
            &[],
            &[],
        ),
        "strict" => {
            policy = Policy::default();
            (
                &[],
                &["Bash(git commit:*)"],
                &["Bash(curl:*)", "Bash(git push:*)", "Bash(npm * --global:*)", "Read(secrets/**)", "Edit"],
            )
        }
        other => panic!("no policy is named {other}"),
    };
    let more = world.rules(allow, ask, deny);
    policy.allow.extend(more.allow);
    policy.ask.extend(more.ask);
    policy.deny.extend(more.deny);
    policy
}

fn world() -> World {
    let world = World::new();
    for folder in [".git/hooks", ".git/objects", "sub/.git", "secrets", "bare/objects", ".ukai", ".claude"] {
        std::fs::create_dir_all(world.top.join("work").join(folder)).expect("a folder");
    }
    for file in [".git/HEAD", ".git/config", "secrets/key", "bare/HEAD", "sub/.git/config", "sub/tool_policy.yaml"] {
        std::fs::write(world.top.join("work").join(file), "x").expect("a file");
    }
    symlink("../b.txt", world.top.join("work/src/to_top")).expect("a link");
    world
}

/// Decision and source, in the words of the corpus.
fn became(permission: &Permission, command: &str) -> (&'static str, String) {
    let judgement = permission.judge_bash(command);
    match (judgement.verdict, judgement.source) {
        (Verdict::Allow, Source::Rule { rule, .. }) => ("allow", rule),
        (Verdict::Allow, Source::Classifier) => ("allow", "classifier".to_owned()),
        (Verdict::Deny, Source::Rule { rule, .. }) => ("deny", rule),
        (Verdict::Deny, Source::Default) => ("deny", "default".to_owned()),
        (Verdict::Deny, Source::NoOneToAsk) => {
            let rule = judgement.why.strip_prefix("the rule `").filter(|why| why.contains("wants a person asked"));
            ("ask", rule.and_then(|why| why.split('`').next()).unwrap_or("-").to_owned())
        }
        (verdict, source) => panic!("{verdict:?} by {source:?}: {command}"),
    }
}

#[test]
fn every_command_line_becomes_what_the_corpus_says() {
    let world = world();
    let mut seen = BTreeSet::new();
    let (mut wrong, mut wrongly_allowed, mut count) = (Vec::new(), Vec::new(), 0);
    for file in FILES {
        let mut heading = Vec::new();
        let mut permission = None;
        for line in file.lines().filter(|line| !line.starts_with("##")) {
            if let Some(text) = line.strip_prefix("= ") {
                heading = text.split('\t').collect();
                assert_eq!(heading.len(), 4, "{line}");
                permission = Some(world.permission(&named(&world, heading[0]), "work"));
                continue;
            }
            let permission = permission.as_ref().expect("a heading");
            assert_eq!(permission.broken(), None);
            let command = line.replace('⏎', "\n").replace('␍', "\r");
            count += 1;
            seen.insert((heading[0].to_owned(), command.clone()));
            let (decision, source) = became(permission, &command);
            // Of two rules that say the same, either will do.
            let of_rule = |source: &str| !matches!(source, "default" | "classifier" | "-");
            let right = decision == heading[1]
                && (source == heading[2]
                    || of_rule(&source) && of_rule(heading[2])
                    || decision == "ask" && heading[2] == "-");
            if decision == "allow" && heading[1] != "allow" {
                wrongly_allowed.push(format!("{}: {line}: allowed by {source}", heading[0]));
            } else if !right {
                let why = permission.judge_bash(&command).why;
                wrong.push(format!(
                    "{}: {line}: {decision} {source}, not {} {}: {why}",
                    heading[0], heading[1], heading[2]
                ));
            }
        }
    }
    println!("{count} command lines, {} of them distinct", seen.len());
    assert!(wrongly_allowed.is_empty(), "{} wrong allows:\n{}", wrongly_allowed.len(), wrongly_allowed.join("\n"));
    assert!(wrong.is_empty(), "{} not as said:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen.len() >= 400, "{}", seen.len());
}

#[test]
fn what_is_refused_without_need_is_known_by_name() {
    let world = world();
    for line in FALSE_REFUSALS.lines().filter(|line| !line.starts_with("##")) {
        let [policy, command, reason] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let permission = world.permission(&named(&world, policy), "work");
        let (decision, source) = became(&permission, command);
        println!("{decision}\t{command}\t{reason}");
        assert_ne!(decision, "allow", "{command} is allowed by {source}: take it off the list");
    }
}

/// Prints what becomes of each line of the file that `UKAI_LINES` names; `⏎` is a newline.
#[test]
#[ignore = "for a person who tries command lines"]
fn lines_of_a_file() {
    let world = world();
    let file = std::env::var("UKAI_LINES").expect("UKAI_LINES names a file");
    let policy = std::env::var("UKAI_POLICY").unwrap_or_else(|_| "shipped".to_owned());
    let permission = world.permission(&named(&world, &policy), "work");
    for line in std::fs::read_to_string(file).expect("a file").lines() {
        let judgement = permission.judge_bash(&line.replace('⏎', "\n"));
        println!("{}\t{line}\t{:?} {}", word(&judgement), judgement.source, judgement.why);
    }
}

/// The cost of a verdict, printed; the bound is generous because machines differ.
#[test]
fn a_verdict_is_cheap() {
    let world = world();
    let permission = world.permission(&named(&world, "build"), "work");
    for line in [
        "ls -la src",
        "cd src && cargo test -p x 2>&1 | tail -20",
        "git log --oneline -5 && git status --short",
        "for f in a b c; do echo \"$f\"; wc -l a.txt; done",
        "git commit -m \"$(cat <<'E'\nA change\n\nand why\nE\n)\"",
        "timeout 60 bash -c 'cat a.txt | sort | uniq -c | head'",
    ] {
        const ROUNDS: u32 = 50;
        permission.judge_bash(line);
        let begun = std::time::Instant::now();
        for _ in 0..ROUNDS {
            permission.judge_bash(line);
        }
        let each = begun.elapsed() / ROUNDS;
        println!("{each:?}\t{line}");
        assert!(each < std::time::Duration::from_millis(20), "{each:?} for {line}");
    }
}
