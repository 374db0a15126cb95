//! From the tree of a command line to the list of what may run, each with the folders that it may run in.
//!
//! A folder is followed through `cd dir && …` and its kin: what runs behind `&&` runs where the `cd` led, what runs
//! behind `;` or `||` may run in either place. All places count where a rule denies, and all have to be good where one
//! allows.

#![deny(clippy::disallowed_methods)]

use std::path::PathBuf;

use super::parse::{Line, Node, is_name};
use super::word::Word;
use super::{Input, Reading, Simple, Surroundings, environment};
use crate::permission::path::normalize;

/// So many places at once are no longer followed.
const DIRS_MAX: usize = 16;

type Dirs = Vec<PathBuf>;

struct Flow<'a> {
    around: &'a Surroundings<'a>,
    reading: &'a mut Reading,
}

pub fn flatten(node: &Node, dirs: &[PathBuf], input: &Input, around: &Surroundings<'_>, reading: &mut Reading) {
    Flow { around, reading }.walk(node, dirs, input);
}

/// The same folders, whether it succeeds or fails.
fn same(dirs: &[PathBuf]) -> (Dirs, Dirs) {
    (dirs.to_vec(), dirs.to_vec())
}

fn join(mut left: Dirs, right: Dirs) -> Dirs {
    for dir in right {
        if !left.contains(&dir) {
            left.push(dir);
        }
    }
    left
}

impl Flow<'_> {
    fn doubt(&mut self, why: &'static str) {
        self.reading.opaque.get_or_insert(why);
    }

    /// Where the shell is afterwards: if it succeeded, and if it failed.
    fn walk(&mut self, node: &Node, dirs: &[PathBuf], input: &Input) -> (Dirs, Dirs) {
        if dirs.len() > DIRS_MAX {
            self.doubt("it moves to too many folders");
            return same(&[]);
        }
        match node {
            Node::Simple(line) => self.line(line, dirs, input),
            Node::Not(node) => {
                let (good, bad) = self.walk(node, dirs, input);
                (bad, good)
            }
            Node::And(left, right) => {
                let (good, bad) = self.walk(left, dirs, input);
                let (good, worse) = self.walk(right, &good, input);
                (good, join(bad, worse))
            }
            Node::Or(left, right) => {
                let (good, bad) = self.walk(left, dirs, input);
                let (better, bad) = self.walk(right, &bad, input);
                (join(good, better), bad)
            }
            Node::Seq(nodes) => {
                let mut now = same(dirs);
                for (at, node) in nodes.iter().enumerate() {
                    let from = if at == 0 { dirs.to_vec() } else { join(now.0, now.1) };
                    now = self.walk(node, &from, input);
                }
                now
            }
            Node::Apart(node) => {
                self.walk(node, dirs, input);
                same(dirs)
            }
            Node::Pipe(nodes) => {
                let mut input = input.clone();
                for node in nodes {
                    self.walk(node, dirs, &input);
                    input = output(node).map_or(Input::Unknown, Input::Text);
                }
                same(dirs)
            }
            Node::Around(node, line) => {
                self.line(line, dirs, input);
                let from_file = line.redirects.iter().any(|redirect| redirect.op.starts_with('<'));
                let input = match &line.input {
                    Some(text) => Input::Text(text.clone()),
                    None if from_file => Input::Unknown,
                    None => input.clone(),
                };
                self.walk(node, dirs, &input)
            }
            Node::If(arms, other) => {
                let (mut from, mut after) = (dirs.to_vec(), Vec::new());
                for (condition, body) in arms {
                    let (good, bad) = self.walk(condition, &from, input);
                    let (left, right) = self.walk(body, &good, input);
                    after = join(after, join(left, right));
                    from = bad;
                }
                if let Some(other) = other {
                    let (left, right) = self.walk(other, &from, input);
                    from = join(left, right);
                }
                let after = join(after, from);
                same(&after)
            }
            Node::Loop(condition, body) => {
                let (good, bad) = self.walk(condition, dirs, input);
                let (left, right) = self.walk(body, &join(good, bad), input);
                if join(left, right).iter().any(|dir| !dirs.contains(dir)) {
                    self.doubt("a loop that changes its folder");
                }
                same(dirs)
            }
            Node::Case(arms) => {
                let mut after = dirs.to_vec();
                for arm in arms {
                    // `;&` goes on into the next arm.
                    let (left, right) = self.walk(arm, &after, input);
                    after = join(after, join(left, right));
                }
                same(&after)
            }
            Node::Function(name, body) => {
                if self.around.moves {
                    self.doubt("a function beside a `cd`");
                }
                if super::wrapper::is_special(name) || crate::permission::operand::is_known(name) {
                    self.doubt("a function that takes the name of a command");
                }
                self.walk(body, dirs, &Input::Unknown);
                same(dirs)
            }
        }
    }

    fn line(&mut self, line: &Line, dirs: &[PathBuf], input: &Input) -> (Dirs, Dirs) {
        for node in &line.inner {
            self.walk(node, dirs, &Input::Unknown);
        }
        if line.words.is_empty() && line.assigns.iter().any(|(name, _)| environment::is_dangerous(name)) {
            self.doubt("a variable that changes what commands do is set");
        }
        let from_file = line.redirects.iter().any(|redirect| redirect.op.starts_with('<'));
        let input = match &line.input {
            Some(text) => Input::Text(text.clone()),
            None if from_file => Input::Unknown,
            None => input.clone(),
        };
        let after = self.builtin(&line.words, dirs);
        self.reading.commands.push(Simple {
            assigns: line.assigns.clone(),
            words: line.words.clone(),
            redirects: line.redirects.clone(),
            input,
            dirs: dirs.to_vec(),
            wraps: false,
        });
        after
    }

    /// What the shell's own commands change of the shell.
    fn builtin(&mut self, words: &[Word], dirs: &[PathBuf]) -> (Dirs, Dirs) {
        let Some(name) = words.first().and_then(Word::literal) else { return same(dirs) };
        let rest = &words[1..];
        match name.as_str() {
            "cd" => return (self.cd(rest, dirs), dirs.to_vec()),
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                for word in rest {
                    let Some(text) = word.literal() else {
                        let head = word.head();
                        let named = head.split_once('=').map(|(name, _)| name.trim_end_matches('+').to_owned());
                        self.sets(named.as_deref());
                        continue;
                    };
                    if text.starts_with('-') {
                        // -n makes a name stand for another, -i computes, -f and -F speak of functions.
                        if text.contains(['n', 'i', 'f', 'F']) {
                            self.doubt("a declaration that does more than name a value");
                        }
                        continue;
                    }
                    let named = text.split('=').next().unwrap_or_default().trim_end_matches('+');
                    self.sets(Some(named));
                    if text.contains('=') && name == "export" && !environment::is_harmless(named) {
                        self.doubt("a variable is handed to all that follows");
                    }
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" | "unset" | "wait" => {
                for word in rest.iter().filter(|word| !word.head().starts_with('-')) {
                    match word.literal() {
                        // Values of options look like any other word: numbers, a prompt.
                        Some(text) if is_name(&text) => self.sets(Some(&text)),
                        Some(text) if !text.contains(['[', '$']) => {}
                        _ => self.doubt("a name that is not known is set"),
                    }
                }
                if rest.iter().any(|word| word.head().starts_with("-C") || word.head() == "-p" && name == "wait") {
                    self.doubt("an option that runs commands or sets a name");
                }
            }
            "printf" if rest.first().is_some_and(|word| word.head().starts_with("-v") || word.may_be_flag()) => {
                match rest.get(1).and_then(Word::literal) {
                    Some(text) if rest[0].is("-v") && is_name(&text) => self.sets(Some(&text)),
                    _ if rest[0].is("--") => {}
                    _ => self.doubt("`printf` may set a name that is not known"),
                }
            }
            "test" | "[" if tests_a_name(rest) => {
                self.doubt("a test that computes a name");
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
                if !rest.iter().all(plain) {
                    self.doubt("`set` changes more than is followed");
                }
            }
            _ => {}
        }
        same(dirs)
    }

    fn sets(&mut self, name: Option<&str>) {
        match name {
            Some(name) if is_name(name) && !environment::is_dangerous(name) => {}
            Some(_) => self.doubt("a variable that changes what commands do is set"),
            None => self.doubt("a name that is not known is set"),
        }
    }

    fn cd(&mut self, rest: &[Word], dirs: &[PathBuf]) -> Dirs {
        let rest = match rest {
            [first, rest @ ..] if first.is("--") || first.is("-L") => rest,
            rest => rest,
        };
        let target = match rest {
            [] => Some(self.around.home.to_owned()),
            [word] => word.literal().filter(|text| !text.starts_with('-')),
            _ => None,
        };
        let Some(target) = target else {
            self.doubt("a `cd` to a folder that is not known");
            return dirs.to_vec();
        };
        if target.is_empty() {
            return dirs.to_vec();
        }
        // As the shell does: by the text, links are not followed for `..`.
        dirs.iter().map(|dir| normalize(&dir.join(&target))).collect()
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
fn output(node: &Node) -> Option<Word> {
    let Node::Simple(line) = node else { return None };
    if !line.redirects.is_empty() {
        return None;
    }
    let (name, rest) = line.words.split_first()?;
    let texts = || rest.iter().map(Word::literal).collect::<Option<Vec<_>>>();
    let text = match name.literal()?.as_str() {
        "cat" if rest.is_empty() => return line.input.clone(),
        "echo" => {
            let texts = texts()?;
            let texts = match texts.first().map(String::as_str) {
                Some("-n") => &texts[1..],
                Some(first) if first.starts_with('-') => return None,
                _ => &texts[..],
            };
            if texts.first().is_some_and(|first| first.starts_with('-')) {
                return None;
            }
            texts.join(" ") + "\n"
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
