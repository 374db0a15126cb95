//! From the tree of a command line to the list of what may run, each with the folders that it may run in and with the
//! values that its variables may have.
//!
//! A folder is followed through `cd dir && …` and its kin: what runs behind `&&` runs where the `cd` led, what runs
//! behind `;` or `||` may run in either place. All places count where a rule denies, and all have to be good where one
//! allows. Values are followed the same way; a command whose variables may hold several is listed with each.

#![deny(clippy::disallowed_methods)]

mod ways;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::builtin;
use super::parse::{For, How, Line, Node};
use super::value::{VALUES_MAX, Value, Values, anything};
use super::word::Word;
use super::{Input, Reading, Simple, Surroundings, environment, tree, wrapper};

/// So many places at once are no longer followed.
const DIRS_MAX: usize = 16;
/// Nodes that are walked; loops are walked twice, and loops in loops more often.
const STEPS_MAX: usize = 4_096;

/// Where the shell is, and what its variables hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub dirs: Vec<PathBuf>,
    pub values: Values,
}

impl State {
    pub fn new(dirs: Vec<PathBuf>, values: Values) -> Self {
        let mut state = State { dirs, values };
        state.moved();
        state
    }

    /// `PWD` is where it is.
    pub fn moved(&mut self) {
        let names = self.dirs.iter().map(|dir| vec![Word::of(&dir.to_string_lossy())]);
        self.values.set("PWD", names.collect());
    }

    fn join(&mut self, other: State) {
        for dir in other.dirs {
            if !self.dirs.contains(&dir) {
                self.dirs.push(dir);
            }
        }
        if self.values != other.values {
            self.values.join(other.values);
        }
    }
}

/// After a command: if it succeeded, and if it failed.
pub type After = (State, State);

pub struct Flow<'a> {
    pub around: &'a Surroundings<'a>,
    pub reading: &'a mut Reading,
    /// How deep the text lies within others.
    depth: usize,
    steps: usize,
    /// All that was set since the innermost loop began.
    set: BTreeMap<String, Vec<Value>>,
    /// All that was ever set, where functions may run at any time.
    ever: Values,
    /// Some name keeps what it has, whatever is set later.
    pub fixed: bool,
    pub moved: bool,
}

pub fn flatten(
    node: &Node,
    begun: &State,
    input: &Input,
    around: &Surroundings<'_>,
    depth: usize,
    reading: &mut Reading,
) {
    let from = reading.commands.len();
    let (set, ever) = (BTreeMap::new(), Values::default());
    let mut flow = Flow { around, reading, depth, steps: 0, set, ever, fixed: false, moved: false };
    flow.walk(node, begun, input);
    if around.functions.get() {
        // What is set further down may be seen by a function that stands above.
        flow.reading.commands.truncate(from);
        flow.walk(node, begun, input);
        if flow.moved {
            flow.doubt("a function beside a `cd`");
        }
    }
}

/// The same, whether it succeeds or fails.
pub fn same(state: &State) -> After {
    (state.clone(), state.clone())
}

fn join(mut left: State, right: State) -> State {
    left.join(right);
    left
}

impl Flow<'_> {
    pub fn doubt(&mut self, why: &'static str) {
        self.reading.opaque.get_or_insert(why);
    }

    fn walk(&mut self, node: &Node, state: &State, input: &Input) -> After {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.doubt("it holds too many loops");
            return same(state);
        }
        if state.dirs.len() > DIRS_MAX {
            self.doubt("it moves to too many folders");
            return same(&State { dirs: Vec::new(), ..state.clone() });
        }
        match node {
            Node::Simple(line) => self.line(line, state, input),
            Node::Not(node) => {
                let (good, bad) = self.walk(node, state, input);
                (bad, good)
            }
            Node::And(left, right) => {
                let (good, bad) = self.walk(left, state, input);
                let (good, worse) = self.walk(right, &good, input);
                (good, join(bad, worse))
            }
            Node::Or(left, right) => {
                let (good, bad) = self.walk(left, state, input);
                let (better, bad) = self.walk(right, &bad, input);
                (join(good, better), bad)
            }
            Node::Seq(nodes) => {
                let mut now: Option<After> = None;
                for node in nodes {
                    let from = now.map_or_else(|| state.clone(), |(good, bad)| join(good, bad));
                    now = Some(self.walk(node, &from, input));
                }
                now.unwrap_or_else(|| same(state))
            }
            Node::Apart(node) => {
                self.walk(node, state, input);
                same(state)
            }
            Node::Pipe(nodes) => {
                let mut input = input.clone();
                for node in nodes {
                    let from = self.reading.commands.len();
                    self.walk(node, state, &input);
                    input = self.output(node, from).map_or(Input::Unknown, Input::Text);
                }
                // `lastpipe` is off: each part is a process of its own.
                same(state)
            }
            Node::Around(node, line) => {
                self.line(line, state, input);
                let from_file = line.redirects.iter().any(|redirect| redirect.op.starts_with('<'));
                let input = match &line.input {
                    Some(text) => self.one(text, state).map_or(Input::Unknown, Input::Text),
                    None if from_file => Input::Unknown,
                    None => input.clone(),
                };
                self.walk(node, state, &input)
            }
            Node::If(arms, other) => {
                let (mut from, mut after) = (state.clone(), None::<State>);
                let mut leave = |state: State| match &mut after {
                    Some(after) => after.join(state),
                    None => after = Some(state),
                };
                for (condition, body) in arms {
                    let (good, bad) = self.walk(condition, &from, input);
                    let (left, right) = self.walk(body, &good, input);
                    leave(join(left, right));
                    from = bad;
                }
                if let Some(other) = other {
                    let (left, right) = self.walk(other, &from, input);
                    from = join(left, right);
                }
                leave(from);
                same(&after.unwrap_or_else(|| state.clone()))
            }
            Node::Loop(condition, body) => self.repeat(state, &mut |this, state| {
                let (good, bad) = this.walk(condition, state, input);
                let (left, right) = this.walk(body, &join(good, bad), input);
                join(left, right)
            }),
            Node::For(each) => self.each(each, state, input),
            Node::Case(arms) => {
                let mut after = state.clone();
                for arm in arms {
                    // `;&` goes on into the next arm.
                    let (left, right) = self.walk(arm, &after, input);
                    after.join(join(left, right));
                }
                same(&after)
            }
            Node::Function(name, body) => {
                if wrapper::is_special(name) || crate::permission::operand::is_known(name) {
                    self.doubt("a function that takes the name of a command");
                }
                let anywhere = State::new(state.dirs.clone(), Values::default());
                self.walk(body, &anywhere, &Input::Unknown);
                same(state)
            }
        }
    }

    /// What may run any number of times: once to see what it sets, and again with all of that.
    fn repeat(&mut self, state: &State, run: &mut dyn FnMut(&mut Self, &State) -> State) -> After {
        let outer = std::mem::take(&mut self.set);
        let from = self.reading.commands.len();
        let mut after = run(self, state);
        let mut begun = state.clone();
        if !self.set.is_empty() {
            self.reading.commands.truncate(from);
            for (name, values) in &self.set {
                begun.values.add(name, values.clone());
                begun.values.add(name, vec![anything()]);
            }
            after = run(self, &begun);
        }
        if after.dirs.iter().any(|dir| !state.dirs.contains(dir)) {
            self.doubt("a loop that changes its folder");
        }
        // A `break` may leave it anywhere.
        let set = std::mem::replace(&mut self.set, outer);
        for (name, values) in set {
            begun.values.add(&name, values.clone());
            self.note(&name, &values);
        }
        same(&begun)
    }

    fn each(&mut self, each: &For, state: &State, input: &Input) -> After {
        for node in &each.line.inner {
            self.walk(node, state, &Input::Unknown);
        }
        let mut values: Vec<Value> = if each.unknown { vec![anything()] } else { Vec::new() };
        for filled in self.fill(&each.line, state) {
            for word in filled.words {
                let value = vec![word];
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        if values.len() > VALUES_MAX {
            self.doubt("a loop over too many words");
            return same(state);
        }
        if values.is_empty() {
            // It never runs; what it would run is judged all the same.
            values.push(anything());
        }
        let (good, bad) = self.repeat(state, &mut |this, state| {
            let mut state = state.clone();
            this.put(&each.name, values.clone(), &mut state);
            let (left, right) = this.walk(&each.body, &state, input);
            join(left, right)
        });
        let mut after = join(good, bad);
        after.values.add(&each.name, values.clone());
        self.note(&each.name, &values);
        same(&after)
    }

    fn line(&mut self, line: &Line, state: &State, input: &Input) -> After {
        if line.words.is_empty() && line.assigns.iter().any(|(name, _)| environment::is_dangerous(name)) {
            self.doubt("a variable that changes what commands do is set");
        }
        // What stands before a command is set in an order of its own: what its words see may be old or new.
        let mut seen = state.clone();
        let mut after = state.clone();
        for set in &line.sets {
            let values = self.values_of(set, &after);
            self.note(&set.name, &values);
            seen.values.add(&set.name, values.clone());
            if line.words.is_empty() && set.how != How::Part {
                self.assign(&set.name, values, &mut after);
            } else {
                after.values.add(&set.name, values);
            }
        }
        for node in &line.inner {
            self.walk(node, &seen, &Input::Unknown);
        }
        let from_file = line.redirects.iter().any(|redirect| redirect.op.starts_with('<'));
        let mut found: Option<After> = None;
        for filled in self.fill(line, &seen) {
            let input = match filled.input {
                Some(text) => Input::Text(text),
                None if from_file => Input::Unknown,
                None => input.clone(),
            };
            let (good, bad) = self.builtin(&filled.words, &after, &input);
            match &mut found {
                Some(found) => {
                    found.0.join(good);
                    found.1.join(bad);
                }
                None => found = Some((good, bad)),
            }
            self.reading.commands.push(Simple {
                assigns: filled.assigns,
                words: filled.words,
                redirects: filled.redirects,
                input,
                dirs: state.dirs.clone(),
                wraps: false,
                values: Rc::new(seen.values.clone()),
            });
        }
        found.unwrap_or_else(|| same(&after))
    }

    fn builtin(&mut self, words: &[Word], state: &State, input: &Input) -> After {
        let Some(name) = words.first().and_then(Word::literal) else { return same(state) };
        if self.around.functions.get() {
            for (at, word) in words.iter().enumerate().take(10) {
                self.ever.add(&at.to_string(), vec![vec![word.clone()]]);
            }
            self.ever.add("@", vec![words[1..].to_vec()]);
        }
        if name == "eval"
            && let Some(text) = wrapper::joined(&words[1..])
        {
            self.depth += 1;
            let node = tree(&text, self.around, self.depth, self.reading);
            let after = node.map_or_else(|| same(state), |node| self.walk(&node, state, input));
            self.depth -= 1;
            return after;
        }
        builtin::run(self, &name, &words[1..], state, input)
    }
}
