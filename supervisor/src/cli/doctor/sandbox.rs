//! What confines the commands of a job here, and what follows where something is missing.

use std::path::PathBuf;

use ukai_protocol::one_shot::{SandboxAnswer, SandboxRequest};
use ukai_protocol::policy::Sandbox;

use super::{Fact, bad, fact, origin_of};
use crate::cli::context::Context;
use crate::cli::one_shot;
use crate::policy_file::Traced;
use crate::policy_file::sandbox::{described, missing};

const TOPIC: &str = "sandbox";

pub(super) async fn facts(context: &Context, traced: &Traced) -> Vec<Fact> {
    let sandbox = &traced.policy.sandbox;
    let off = (!sandbox.on).then(|| {
        bad(TOPIC, "policy", "off: what a model starts may do all that you may; write `sandbox: on`", origin_of(traced))
    });
    let is_usual = !sandbox.on || *sandbox == Sandbox::default();
    let opened = (!is_usual).then(|| fact(TOPIC, "policy", described(sandbox), origin_of(traced)));
    let missing = missing(sandbox).into_iter().map(|gone| bad(TOPIC, "missing", gone, origin_of(traced)));
    let request = SandboxRequest { sandbox: sandbox.clone(), workdir: context.current_folder.clone() };
    let facts = match one_shot::ask(&["sandbox"], &request).await {
        Ok(answer) => of_kernel(&answer, sandbox.on),
        Err(failure) => vec![bad(TOPIC, "kernel", failure.text, "")],
    };
    off.into_iter().chain(opened).chain(missing).chain(facts).collect()
}

fn of_kernel(answer: &SandboxAnswer, on: bool) -> Vec<Fact> {
    let SandboxAnswer { landlock_abi: abi, landlock_abi_min: min, namespaces, seccomp, bash, bash_places, .. } = answer;
    let landlock = match abi {
        0 => bad(TOPIC, "landlock", "no: this kernel has none, or it is switched off", FILES),
        abi if abi < min => bad(TOPIC, "landlock", format!("ABI {abi}; alone it would have to be {min}"), FILES),
        abi => fact(TOPIC, "landlock", format!("ABI {abi}"), FILES),
    };
    let granted = |key, granted: &Result<(), String>, what_for| match granted {
        Ok(()) => fact(TOPIC, key, "yes", what_for),
        Err(why) => bad(TOPIC, key, format!("no: {why}"), what_for),
    };
    let bash = match bash {
        Some(path) => fact(TOPIC, "bash", path.display().to_string(), ""),
        None => {
            let places: Vec<_> = bash_places.iter().map(|path| path.display().to_string()).collect();
            let why = format!("no: none of {}; no command can be run: install it", places.join(", "));
            bad(TOPIC, "bash", why, "a command is judged as bash reads it")
        }
    };
    let facts = [
        landlock,
        granted("namespaces", namespaces, "keep `.git` and what rules deny as they are, and end whole trees"),
        granted("seccomp", seccomp, "keeps sockets closed, and the ways out"),
        commands(answer, on),
        worker(answer, on),
        bash,
    ];
    facts.into_iter().chain(programs(&answer.hidden_programs)).collect()
}

/// A program that is there for its owner and not for a job would be looked for in vain.
fn programs(hidden: &[PathBuf]) -> Option<Fact> {
    let first = hidden.first()?;
    let mut shown: Vec<_> = hidden.iter().take(HIDDEN_SHOWN_MAX).map(|path| path.display().to_string()).collect();
    if hidden.len() > shown.len() {
        shown.push(format!("{} more", hidden.len() - shown.len()));
    }
    let why = format!(
        "commands do not see the programs in {}; where a job needs them, open where they really lie: \
         `sandbox: {{read: [\"{}\"]}}`",
        shown.join(", "),
        first.parent().unwrap_or(first).display()
    );
    Some(bad(TOPIC, "PATH", why, "the environment of this terminal"))
}

/// Some systems put dozens of another one's folders there.
const HIDDEN_SHOWN_MAX: usize = 5;

const FILES: &str = "holds what commands read and write";

/// What follows from the parts.
fn commands(answer: &SandboxAnswer, on: bool) -> Fact {
    const KEY: &str = "commands";
    if !on {
        let could =
            if answer.entered.is_ok() { "they could be confined here" } else { "here they could not be confined" };
        return fact(TOPIC, KEY, format!("run unconfined, as the policy says; {could}"), "");
    }
    let missing = match &answer.entered {
        Err(why) => {
            let what = "cannot be confined: no job with commands starts, unless its policy says `sandbox: off`";
            return bad(TOPIC, KEY, format!("{what}: {why}"), "");
        }
        Ok(missing) => missing,
    };
    let namespaces = if answer.namespaces.is_ok() { ", namespaces" } else { "" };
    let by = format!("run confined by Landlock ABI {}{namespaces} and seccomp", answer.landlock_abi);
    match missing.is_empty() {
        true => fact(TOPIC, KEY, by, ""),
        false => bad(TOPIC, KEY, format!("{by}, without: {}", missing.join("; ")), ""),
    }
}

/// The process that carries a job, and all that it reads and asks.
fn worker(answer: &SandboxAnswer, on: bool) -> Fact {
    const KEY: &str = "workers";
    const WHAT: &str = "open what their job needs, and connect to their providers";
    match &answer.worker {
        _ if !on => fact(TOPIC, KEY, "run unconfined, as the policy says", WHAT),
        Err(why) => {
            let what = "cannot confine themselves: no job starts, unless its policy says `sandbox: off`";
            bad(TOPIC, KEY, format!("{what}: {why}"), WHAT)
        }
        Ok(missing) if missing.is_empty() => fact(TOPIC, KEY, "confine themselves", WHAT),
        Ok(missing) => bad(TOPIC, KEY, format!("confine themselves, without: {}", missing.join("; ")), WHAT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> SandboxAnswer {
        SandboxAnswer {
            landlock_abi: 6,
            landlock_abi_min: 3,
            namespaces: Ok(()),
            seccomp: Ok(()),
            entered: Ok(Vec::new()),
            worker: Ok(Vec::new()),
            bash: Some("/bin/bash".into()),
            hidden_programs: Vec::new(),
            bash_places: vec!["/bin/bash".into(), "/usr/bin/bash".into()],
        }
    }

    #[test]
    fn each_part_is_told_and_what_follows() {
        let no = || Err("unshare: EPERM".to_owned());
        let without = || vec!["namespaces: unshare: EPERM".to_owned()];
        for (quirk, answer, on, key, sound, value) in [
            ("all", answer(), true, "commands", true, "run confined by Landlock ABI 6, namespaces and seccomp"),
            ("all", answer(), true, "landlock", true, "ABI 6"),
            ("no Landlock", SandboxAnswer { landlock_abi: 0, ..answer() }, true, "landlock", false, "no: this kernel"),
            ("an old one", SandboxAnswer { landlock_abi: 2, ..answer() }, true, "landlock", false, "have to be 3"),
            (
                "no namespaces",
                SandboxAnswer { namespaces: no(), entered: Ok(without()), ..answer() },
                true,
                "commands",
                false,
                "run confined by Landlock ABI 6 and seccomp, without: namespaces: unshare: EPERM",
            ),
            ("no namespaces", SandboxAnswer { namespaces: no(), ..answer() }, true, "namespaces", false, "no: unshare"),
            ("no seccomp", SandboxAnswer { seccomp: Err("x".into()), ..answer() }, true, "seccomp", false, "no: x"),
            (
                "nothing",
                SandboxAnswer { entered: Err("no Landlock".into()), ..answer() },
                true,
                "commands",
                false,
                "unless its policy says `sandbox: off`: no Landlock",
            ),
            ("all", answer(), true, "workers", true, "confine themselves"),
            (
                "no Landlock for a worker",
                SandboxAnswer { worker: Ok(vec!["which files".to_owned()]), ..answer() },
                true,
                "workers",
                false,
                "confine themselves, without: which files",
            ),
            (
                "a worker cannot",
                SandboxAnswer { worker: Err("x".into()), ..answer() },
                true,
                "workers",
                false,
                "off`: x",
            ),
            ("off", answer(), false, "workers", true, "run unconfined"),
            ("off", answer(), false, "commands", true, "run unconfined"),
            (
                "shims",
                SandboxAnswer { hidden_programs: vec!["/h/.asdf/shims".into(), "/h/.bun/bin".into()], ..answer() },
                true,
                "PATH",
                false,
                "in /h/.asdf/shims, /h/.bun/bin; where a job needs them, open where they really lie: `sandbox: {read: [\"/h/.asdf\"]}`",
            ),
            ("no bash", SandboxAnswer { bash: None, ..answer() }, true, "bash", false, "/bin/bash, /usr/bin/bash"),
        ] {
            let facts = of_kernel(&answer, on);
            let fact = facts.iter().find(|fact| fact.key == key).unwrap_or_else(|| panic!("{quirk}: no {key}"));
            assert!(fact.sound == sound && fact.value.contains(value), "{quirk}: {}", fact.value);
        }
    }
}
