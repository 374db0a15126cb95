//! Shells as wrappers: their `-c`, or the text that they are fed.

#![deny(clippy::disallowed_methods)]

use super::Inside;
use crate::permission::shell::{Input, Simple};

/// A shell: its `-c`, or what it is fed.
pub(super) fn shell(command: &Simple, name: &str) -> Inside {
    let words = &command.words;
    let doubt = |why| Inside { doubt: Some(why), ..Inside::default() };
    let (mut at, mut script, mut arguments) = (1, false, Vec::new());
    while let Some(word) = words.get(at) {
        if !word.may_be_flag() && !word.head().starts_with('+') {
            break;
        }
        let Some(text) = word.literal() else { return doubt("a shell with options that are not known") };
        at += 1;
        match text.as_str() {
            "--" | "-" => break,
            "--norc" | "--noprofile" | "--posix" => {}
            "-o" | "+o" => {
                if !words.get(at).is_some_and(|word| word.is("pipefail") || word.is("errexit") || word.is("nounset")) {
                    return doubt("a shell with options that are not followed");
                }
                at += 1;
            }
            text if !text.starts_with("--") && text[1..].bytes().all(|byte| b"ceuxs".contains(&byte)) => {
                script |= text.contains('c');
            }
            "-euo" | "-eo" | "-uo" | "-exo" | "-euxo" if words.get(at).is_some_and(|word| word.is("pipefail")) => {
                at += 1
            }
            "-ceuo" | "-euoc" => return doubt("a shell with options that are not followed"),
            "--version" | "--help" => return Inside::default(),
            _ => return doubt("a shell with options that are not followed"),
        }
    }
    let text = if script {
        match words.get(at) {
            Some(word) => {
                arguments = words[at + 1..].to_vec();
                word.literal()
            }
            None => return doubt("a shell without its script"),
        }
    } else if words.get(at).is_some_and(|word| !word.is("/dev/stdin")) {
        // A file: what is in it runs as a command of its own, as any other program.
        return Inside::default();
    } else {
        match &command.input {
            Input::Nothing => return doubt("a shell that is fed from elsewhere"),
            Input::Text(word) => word.literal(),
            Input::Unknown => None,
        }
    };
    let Some(text) = text else { return doubt("a script that is known only when it runs") };
    // Other shells read some of bash's words in another way.
    let other = !matches!(name, "bash" | "rbash")
        && ["$'", "$\"", "&>", "<<<", "[[", "{", "=(", "<(", ">(", "|&", "function"]
            .iter()
            .any(|odd| text.contains(odd));
    let foreign = matches!(name, "zsh" | "fish" | "ksh" | "mksh") || other;
    Inside {
        wraps: true,
        scripts: vec![text],
        arguments,
        doubt: foreign.then_some("a script for a shell whose words differ"),
        ..Inside::default()
    }
}
