//! The ways in which the expansions of a line may come out: which values its names may have, put into its words.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use super::{Flow, State};
use crate::permission::shell::builtin::output;
use crate::permission::shell::parse::{How, Line, Node, Redirect, Set};
use crate::permission::shell::value::{Filling, Id, Source, VALUES_MAX, Value, anything};
use crate::permission::shell::word::{Atom, Word};

impl Flow<'_> {
    /// A name gets one of these values.
    pub fn assign(&mut self, name: &str, values: Vec<Value>, state: &mut State) {
        self.note(name, &values);
        self.put(name, values, state);
    }

    /// The same, for a name whose loop knows of it.
    pub(super) fn put(&self, name: &str, values: Vec<Value>, state: &mut State) {
        let is_array = self.around.arrays.borrow().contains(name);
        if is_array && values.iter().all(|value| value.len() == 1) {
            // The other elements stay.
            state.values.add(name, vec![anything()]);
            state.values.add(name, values);
        } else if self.fixed {
            state.values.add(name, values);
        } else {
            state.values.set(name, values);
        }
    }

    pub fn note(&mut self, name: &str, values: &[Value]) {
        self.set.entry(name.to_owned()).or_default().extend_from_slice(values);
        if self.around.functions.get() {
            self.ever.add(name, values.to_vec());
        }
    }

    /// What a name may hold.
    pub fn held(&mut self, name: &str, state: &State) -> Vec<Value> {
        let mut values = state.values.get(name);
        if self.around.functions.get() {
            if self.ever.overflow {
                self.doubt("its variables may hold too many values");
            }
            let ever = self.ever.get(name).into_iter().chain([anything()]);
            ever.for_each(|value| push(&mut values, value));
        }
        values
    }

    pub(super) fn values_of(&mut self, set: &Set, state: &State) -> Vec<Value> {
        let line = Line { words: set.words.clone(), ..Line::default() };
        let text = set.how != How::Array;
        let mut values: Vec<Value> = self.ways(&line, state, text).into_iter().map(|way| way.words).collect();
        if text {
            values.iter_mut().flatten().for_each(plain);
        }
        match set.how {
            How::Text | How::Array => values,
            How::Part => values.into_iter().chain([anything()]).collect(),
            How::More => {
                let mut grown = Vec::new();
                for old in self.held(&set.name, state) {
                    for new in values.iter().flatten() {
                        let mut whole = old.clone();
                        match whole.first_mut() {
                            Some(first) => first.atoms.extend(&new.atoms),
                            None => whole.push(new.clone()),
                        }
                        if whole.iter().any(|word| word.atoms.contains(&Atom::Split)) {
                            whole = anything();
                        }
                        push(&mut grown, whole);
                    }
                }
                grown
            }
        }
    }

    /// A text, if there is one that it may be.
    pub(super) fn one(&mut self, word: &Word, state: &State) -> Option<Word> {
        let line = Line { input: Some(word.clone()), ..Line::default() };
        let mut ways = self.ways(&line, state, true);
        let last = ways.pop()?;
        if ways.is_empty() { last.input } else { None }
    }

    /// What a part of a pipe hands on, where that is known to the letter; its commands are listed behind `from`.
    pub(super) fn output(&self, node: &Node, from: usize) -> Option<Word> {
        let Node::Simple(line) = node else { return None };
        let told = self.reading.commands.get(from..)?;
        let [.., last] = told else { return None };
        let alone = told.iter().filter(|simple| simple.words.first() == last.words.first()).count() == 1;
        if alone && line.redirects.is_empty() { output(&last.words, line.input.as_ref()) } else { None }
    }

    pub(super) fn fill(&mut self, line: &Line, state: &State) -> Vec<Filled> {
        self.ways(line, state, false)
    }

    /// The ways in which the expansions of a line may come out.
    fn ways(&mut self, line: &Line, state: &State, text: bool) -> Vec<Filled> {
        let mut ids = Vec::new();
        let words = line.words.iter().chain(line.assigns.iter().map(|(_, word)| word));
        for word in words.chain(line.redirects.iter().map(|redirect| &redirect.target)).chain(&line.input) {
            for atom in &word.atoms {
                if let Atom::Var(id, _) = *atom
                    && !ids.contains(&id)
                {
                    ids.push(id);
                }
            }
        }
        // One name holds one value, however often it stands there.
        let mut names: Vec<(String, Vec<Value>)> = Vec::new();
        let mut of: BTreeMap<Id, usize> = BTreeMap::new();
        let mut count = 1_usize;
        for id in ids {
            let (key, values) = self.expansion(id, state);
            let known = names.iter().position(|(name, _)| *name == key);
            of.insert(id, known.unwrap_or(names.len()));
            if known.is_none() {
                count = count.saturating_mul(values.len());
                names.push((key, values));
            }
        }
        if count > VALUES_MAX || state.values.overflow {
            self.doubt("its variables may hold too many values");
            names.iter_mut().for_each(|(_, values)| *values = vec![anything()]);
            count = 1;
        }
        let mut found = Vec::new();
        for way in 0..count {
            let mut rest = way;
            let chosen: Vec<&Value> = names
                .iter()
                .map(|(_, values)| {
                    let value = &values[rest % values.len()];
                    rest /= values.len();
                    value
                })
                .collect();
            let choose = |id: Id| {
                let value = of.get(&id).and_then(|at| chosen.get(*at)).map_or_else(anything, |value| (*value).clone());
                match self.around.sources.get(id) {
                    // `$x` of an array is its first element.
                    Some(Source::Name(_)) if value.len() > 1 => vec![value[0].clone()],
                    _ => value,
                }
            };
            let mut filling = Filling { choose: &choose, text, loose: false, moved: self.moved, inexact: false };
            found.push(filled(line, &mut filling));
            if filling.inexact {
                filling.loose = true;
                found.push(filled(line, &mut filling));
            }
        }
        found
    }

    /// Under which name the values of an expansion are chosen, and what they may be.
    fn expansion(&mut self, id: Id, state: &State) -> (String, Vec<Value>) {
        let own = format!("#{id}");
        match self.around.sources.get(id) {
            Some(Source::Name(name) | Source::All(name)) => {
                let values = self.held(&name, state);
                (name, values)
            }
            Some(Source::Part(name)) => {
                let mut parts = vec![anything()];
                let all = self.held(&name, state);
                all.into_iter().flatten().for_each(|part| push(&mut parts, vec![part]));
                (own, parts)
            }
            Some(Source::Either(name, word)) => {
                let mut values = self.held(&name, state);
                let line = Line { words: vec![word], ..Line::default() };
                let given = self.ways(&line, state, true);
                let said = given
                    .into_iter()
                    .filter(|way| way.words.iter().any(|word| !word.is_unknown() || word.atoms.len() > 1));
                said.for_each(|way| push(&mut values, way.words));
                push(&mut values, anything());
                (own, values)
            }
            Some(Source::Output(line)) => {
                let ways = self.fill(&line, state);
                let told = ways.iter().map(|way| match output(&way.words, None).and_then(|word| word.literal()) {
                    Some(text) => vec![Word::of(text.trim_end_matches('\n'))],
                    None => anything(),
                });
                (own, told.collect())
            }
            None => (own, vec![anything()]),
        }
    }
}

/// A line with the values in their places.
pub struct Filled {
    pub words: Vec<Word>,
    pub assigns: Vec<(String, Word)>,
    pub redirects: Vec<Redirect>,
    pub input: Option<Word>,
}

fn filled(line: &Line, filling: &mut Filling<'_>) -> Filled {
    let mut words = Vec::new();
    // `export x=$y` splits nothing.
    let text = filling.text;
    let names = ["export", "declare", "typeset", "readonly", "local"];
    filling.text |= line.words.first().is_some_and(|word| names.iter().any(|name| word.is(name)));
    line.words.iter().for_each(|word| filling.word(word, &mut words));
    filling.text = text;
    let mut redirects = Vec::new();
    for redirect in &line.redirects {
        let mut targets = Vec::new();
        filling.word(&redirect.target, &mut targets);
        redirects.extend(targets.into_iter().map(|target| Redirect { op: redirect.op, target }));
    }
    filling.text = true;
    let mut one = |word: &Word| {
        let mut made = Vec::new();
        filling.word(word, &mut made);
        made.pop().unwrap_or_default()
    };
    let assigns = line.assigns.iter().map(|(name, word)| {
        let mut word = one(word);
        plain(&mut word);
        (name.clone(), word)
    });
    let assigns = assigns.collect();
    let input = line.input.as_ref().map(one);
    filling.text = text;
    Filled { words, assigns, redirects, input }
}

/// Characters that are patterns elsewhere, as they are in a value.
fn plain(word: &mut Word) {
    for atom in &mut word.atoms {
        if let Atom::Glob(c) | Atom::Brace(c) = *atom {
            *atom = Atom::Char(c);
        }
    }
}

fn push(values: &mut Vec<Value>, value: Value) {
    if !values.contains(&value) {
        values.push(value);
    }
}
