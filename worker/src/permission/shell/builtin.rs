//! What the shell's own commands change of the shell: its folder, its variables, its options.

#![deny(clippy::disallowed_methods)]

use super::flow::{After, Flow, State, same};
use super::parse::is_name;
use super::value::{Value, anything};
use super::word::Word;
use super::{Input, environment};
use crate::permission::path::normalize;

/// Values that one text is taken apart into.
const TOKENS_MAX: usize = 32;

/// What a command of this name changes.
pub fn run(flow: &mut Flow<'_>, name: &str, rest: &[Word], state: &State, input: &Input) -> After {
    let mut after = state.clone();
    match name {
        "cd" => {
            cd(flow, rest, &mut after);
            return (after, state.clone());
        }
        "export" | "declare" | "typeset" | "readonly" | "local" => {
            let (mut kept, mut exports) = (name == "readonly", name == "export");
            for word in rest {
                let text = word.head();
                if text.starts_with('-') && word.literal().is_some() {
                    // -n makes a name stand for another, -i computes, -u, -l and -c write a value in another way,
                    // -f and -F speak of functions.
                    if text.contains(['n', 'i', 'f', 'F', 'u', 'l', 'c']) {
                        flow.doubt("a declaration that does more than name a value");
                    }
                    kept |= text.contains('r');
                    if text.contains(['a', 'A']) {
                        flow.around.arrays.borrow_mut().extend(rest.iter().map(name_of));
                    }
                    exports |= text.contains('x');
                    continue;
                }
                let Some((named, _)) = text.split_once('=') else {
                    let literal = word.literal();
                    sets(flow, literal.as_deref().filter(|text| !text.starts_with('+')));
                    // Within a function it begins empty.
                    if let Some(text) = literal.filter(|_| name != "export") {
                        after.values.add(&text, vec![vec![Word::default()]]);
                    }
                    continue;
                };
                let value = word.after(named.chars().count() + 1);
                let more = named.ends_with('+');
                let named = named.trim_end_matches('+');
                sets(flow, Some(named));
                if exports && !environment::is_harmless(named) {
                    flow.doubt("a variable is handed to all that follows");
                }
                let values = if more { vec![anything(), vec![value]] } else { vec![vec![value]] };
                flow.assign(named, values, &mut after);
            }
            flow.fixed |= kept;
        }
        "read" | "mapfile" | "readarray" | "getopts" | "unset" | "wait" => {
            let fills = matches!(name, "mapfile" | "readarray")
                || rest.iter().any(|word| word.head().starts_with('-') && word.head().contains('a'));
            let values = if name == "unset" { vec![vec![Word::default()]] } else { told(input) };
            for named in ["REPLY", "MAPFILE", "OPTARG"] {
                after.values.add(named, values.clone());
                flow.note(named, &values);
            }
            for word in rest.iter().filter(|word| !word.head().starts_with('-')) {
                match word.literal() {
                    // Values of options look like any other word: numbers, a prompt.
                    Some(text) if is_name(&text) => {
                        sets(flow, Some(&text));
                        flow.around.arrays.borrow_mut().extend(fills.then(|| text.clone()));
                        flow.assign(&text, values.clone(), &mut after);
                    }
                    Some(text) if !text.contains(['[', '$']) => {}
                    _ => flow.doubt("a name that is not known is set"),
                }
            }
            if rest.iter().any(|word| word.head().starts_with("-C") || word.head() == "-p" && name == "wait") {
                flow.doubt("an option that runs commands or sets a name");
            }
        }
        "printf" if rest.first().is_some_and(|word| word.head().starts_with("-v") || word.may_be_flag()) => {
            match rest.get(1).and_then(Word::literal) {
                Some(text) if rest[0].is("-v") && is_name(&text) => {
                    sets(flow, Some(&text));
                    flow.assign(&text, printed(&rest[2..]), &mut after);
                }
                _ if rest[0].is("--") => {}
                _ => flow.doubt("`printf` may set a name that is not known"),
            }
        }
        "test" | "[" if tests_a_name(rest) => {
            flow.doubt("a test that computes a name");
        }
        "set" => {
            let plain = |word: &Word| {
                word.literal().is_some_and(|text| {
                    matches!(text.as_str(), "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob" | "noclobber")
                        || (text.starts_with(['-', '+'])
                            && text.len() > 1
                            && text[1..].bytes().all(|byte| b"euxoCf".contains(&byte)))
                })
            };
            if let Some(arguments) = rest.split_first().filter(|(first, _)| first.is("--")).map(|(_, rest)| rest) {
                let before: Vec<String> = (1..10).map(|at| at.to_string()).collect();
                for (at, name) in before.iter().enumerate() {
                    let known = arguments[..arguments.len().min(at + 1)].iter().all(|word| !word.may_split());
                    let value = arguments.get(at).cloned().filter(|_| known);
                    let none = if known { vec![Word::default()] } else { anything() };
                    flow.assign(name, vec![value.map_or(none, |word| vec![word])], &mut after);
                }
                flow.assign("@", vec![arguments.to_vec()], &mut after);
            } else if !rest.iter().all(plain) {
                flow.doubt("`set` changes more than is followed");
            }
        }
        "shift" => {
            for at in 0..10 {
                flow.assign(&at.to_string(), vec![anything()], &mut after);
            }
            flow.assign("@", vec![anything()], &mut after);
        }
        _ => {}
    }
    same(&after)
}

fn sets(flow: &mut Flow<'_>, name: Option<&str>) {
    match name {
        Some(name) if is_name(name) && !environment::is_dangerous(name) => {}
        Some(_) => flow.doubt("a variable that changes what commands do is set"),
        None => flow.doubt("a name that is not known is set"),
    }
}

fn cd(flow: &mut Flow<'_>, rest: &[Word], state: &mut State) {
    flow.moved = true;
    state.values.set("OLDPWD", vec![anything()]);
    let rest = match rest {
        [first, rest @ ..] if first.is("--") || first.is("-L") => rest,
        rest => rest,
    };
    let target = match rest {
        [] => Some(flow.around.home.to_owned()),
        [word] => word.literal().filter(|text| !text.starts_with('-')),
        _ => None,
    };
    let Some(target) = target else {
        flow.doubt("a `cd` to a folder that is not known");
        state.values.set("PWD", vec![anything()]);
        return;
    };
    if target.is_empty() {
        return;
    }
    // As the shell does: by the text, links are not followed for `..`.
    state.dirs = state.dirs.iter().map(|dir| normalize(&dir.join(&target))).collect();
    state.moved();
}

/// What a command may find in the text that it reads: its lines and its words, or anything.
fn told(input: &Input) -> Vec<Value> {
    let mut values = vec![anything()];
    if let Input::Text(word) = input
        && let Some(text) = word.literal()
    {
        let parts = text.lines().chain(text.split_whitespace()).take(TOKENS_MAX);
        values.extend(parts.map(|part| vec![Word::of(part)]));
    }
    values
}

/// The name that a word of a declaration is about.
fn name_of(word: &Word) -> String {
    word.head().split(['=', '+']).next().unwrap_or_default().to_owned()
}

/// What `printf -v` puts into a variable.
fn printed(words: &[Word]) -> Vec<Value> {
    let Some((format, rest)) = words.split_first() else { return vec![anything()] };
    match format.literal().as_deref() {
        Some("%s") if rest.len() == 1 && !rest[0].may_split() => vec![vec![rest[0].clone()]],
        Some(text) if rest.is_empty() && !text.contains(['%', '\\']) => vec![vec![format.clone()]],
        Some(text) if !text.contains('\\') && text.matches('%').count() == rest.len() => {
            let mut parts = text.split("%s");
            let mut value = Word::of(parts.next().unwrap_or_default());
            let mut rest = rest.iter();
            for part in parts {
                value.atoms.extend(rest.next().into_iter().flat_map(|word| word.atoms.clone()));
                value.push_text(part);
            }
            // With another letter behind its `%` it is not followed.
            let known = value.literal().filter(|text| !text.contains('%'));
            vec![known.map_or_else(anything, |text| vec![Word::of(&text)])]
        }
        _ => [anything()].into_iter().chain(words.iter().map(|word| vec![word.clone()])).take(TOKENS_MAX).collect(),
    }
}

/// Whether a test may turn out to be `-v NAME` or `-R NAME`: such a name is computed, and may hold a command.
fn tests_a_name(words: &[Word]) -> bool {
    const BINARY: [&str; 14] =
        ["=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o"];
    let binary = |word: &Word| BINARY.iter().any(|operator| word.is(operator)) || word.is("]");
    let splits = |word: &Word| word.is_unknown() && word.may_split() || word.begins_with_glob();
    words.iter().any(|word| word.is("-v") || word.is("-R") || splits(word))
        // An unknown word in front of another is an operator, if it looks like one when it runs.
        || words.windows(2).any(|pair| pair[0].may_be_flag() && pair[0].is_unknown() && !binary(&pair[1]))
}

/// What a command writes to the pipe behind it, where that is known to the letter.
pub fn output(words: &[Word], input: Option<&Word>) -> Option<Word> {
    let (name, rest) = words.split_first()?;
    let texts = || rest.iter().map(Word::literal).collect::<Option<Vec<_>>>();
    let text = match name.literal()?.as_str() {
        "cat" if rest.is_empty() => return input.cloned(),
        "echo" => {
            let texts = texts()?;
            let option = |text: &&String| {
                text.len() > 1 && text.starts_with('-') && text[1..].bytes().all(|byte| b"neE".contains(&byte))
            };
            let texts = match texts.first().filter(option).map(String::as_str) {
                Some("-n") => &texts[1..],
                Some(_) => return None,
                None => &texts[..],
            };
            if texts.first().filter(option).is_some() {
                return None;
            }
            // Another shell's `echo` reads backslashes.
            Some(texts.join(" ") + "\n").filter(|text| !text.contains('\\'))?
        }
        "printf" => match texts()?.as_slice() {
            [format, text] if matches!(format.as_str(), "%s" | "%s\\n") => text.clone() + "\n",
            [text] if !text.contains(['%', '\\']) && !text.starts_with('-') => text.clone(),
            _ => return None,
        },
        _ => return None,
    };
    Some(Word::of(&text))
}
