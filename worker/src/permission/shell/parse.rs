//! The grammar of the shell, from text to a tree of what may run.
//!
//! It is stricter than bash: what it does not know for certain is a doubt, and a reading with a doubt is opaque. It
//! reads here-documents and decodes words itself, because tree-sitter's grammar knows neither what a quoted word is in
//! the end nor the backticks in a here-document; that grammar is asked afterwards whether it sees the same commands
//! (`agree`).

#![deny(clippy::disallowed_methods)]

mod compound;
mod expansion;
mod here;
mod quote;
mod simple;
mod test;

use super::word::Word;
use super::{DEPTH_MAX, Surroundings};

pub type Read<T> = Result<T, &'static str>;

#[derive(Clone, Debug)]
pub enum Node {
    Simple(Line),
    Pipe(Vec<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Seq(Vec<Node>),
    /// In a process of its own: what it changes of the shell ends with it.
    Apart(Box<Node>),
    /// A compound command with what is redirected around it.
    Around(Box<Node>, Line),
    If(Vec<(Node, Node)>, Option<Box<Node>>),
    Loop(Box<Node>, Box<Node>),
    For(For),
    Case(Vec<Node>),
    Function(String, Box<Node>),
}

/// `for name in words`, and `select`.
#[derive(Clone, Debug)]
pub struct For {
    pub name: String,
    /// Its words, and what they run before it runs.
    pub line: Line,
    /// Without words it goes through the arguments; `select` sets what its user says.
    pub unknown: bool,
    pub body: Box<Node>,
}

/// A variable that is set.
#[derive(Clone, Debug)]
pub struct Set {
    pub name: String,
    pub how: How,
    pub words: Vec<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Text,
    /// `x+=y`.
    More,
    Array,
    /// One element, or an array that grows: what it holds as a whole is not followed.
    Part,
}

/// A simple command as it stands; also the redirects of a compound one, which then has no words.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub assigns: Vec<(String, Word)>,
    /// The same, as what they make of the shell's variables.
    pub sets: Vec<Set>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    /// What its words run before it runs.
    pub inner: Vec<Node>,
    /// What a here-document or here-string puts on its stdin.
    pub input: Option<Word>,
}

#[derive(Clone, Debug)]
pub struct Redirect {
    pub op: &'static str,
    pub target: Word,
}

struct Pending {
    word: Word,
    tabs: bool,
    /// Which `Line::input` it fills, by number.
    id: usize,
}

pub struct Parser<'a> {
    pub text: &'a str,
    pub at: usize,
    around: &'a Surroundings<'a>,
    depth: usize,
    pending: Vec<Pending>,
    bodies: Vec<Option<(Word, Vec<Node>)>>,
    /// Why this reading cannot be trusted to be all, the first reason.
    pub doubt: Option<&'static str>,
    /// Where each simple command of this very text starts.
    pub starts: Vec<usize>,
    /// Here-document operators and bodies: what tree-sitter is not shown.
    pub hidden: Vec<(usize, usize)>,
    count: usize,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, around: &'a Surroundings<'a>, depth: usize) -> Self {
        Parser {
            text,
            at: 0,
            around,
            depth,
            pending: Vec::new(),
            bodies: Vec::new(),
            doubt: None,
            starts: Vec::new(),
            hidden: Vec::new(),
            count: 0,
        }
    }

    /// The whole text.
    pub fn program(&mut self) -> Read<Node> {
        let mut node = self.list(&[])?;
        if self.at < self.text.len() {
            return Err("it does not end where a command ends");
        }
        if !self.pending.is_empty() {
            self.doubt("a here-document does not end");
            self.here_documents()?;
        }
        self.fill(&mut node);
        Ok(node)
    }

    pub fn doubt(&mut self, why: &'static str) {
        self.doubt.get_or_insert(why);
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply");
        }
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Blanks, line continuations and comments.
    fn blanks(&mut self) {
        loop {
            if self.take(" ") || self.take("\t") || self.take("\\\n") {
                continue;
            }
            let before = self.text.as_bytes().get(self.at.wrapping_sub(1)).copied();
            let fresh = matches!(before, None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')'));
            if fresh && self.peek() == Some('#') {
                if self.text[..self.at].ends_with("\\\n") {
                    self.doubt("a comment behind a line continuation");
                }
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                continue;
            }
            return;
        }
    }

    fn newline(&mut self) -> Read<bool> {
        if !self.take("\n") {
            return Ok(false);
        }
        self.here_documents()?;
        Ok(true)
    }

    fn gap(&mut self) -> Read<()> {
        self.blanks();
        while self.newline()? {
            self.blanks();
        }
        Ok(())
    }

    /// Commands up to one of these reserved words, or to what can begin none.
    fn list(&mut self, ends: &[&str]) -> Read<Node> {
        self.deeper(|this| {
            let mut items = Vec::new();
            loop {
                this.gap()?;
                if this.at_end(ends) {
                    break;
                }
                let node = this.and_or()?;
                this.blanks();
                let background = !this.rest().starts_with("&&") && this.take("&");
                items.push(if background { Node::Apart(Box::new(node)) } else { node });
                if background || (!this.rest().starts_with(";;") && !this.rest().starts_with(";&") && this.take(";")) {
                    continue;
                }
                if !this.newline()? {
                    break;
                }
            }
            Ok(Node::Seq(items))
        })
    }

    fn at_end(&self, ends: &[&str]) -> bool {
        match self.peek() {
            None | Some(')' | ';') => true,
            _ => ends.iter().any(|end| self.reserved() == Some(end)),
        }
    }

    /// The plain word that stands here, if it is one.
    fn reserved(&self) -> Option<&'a str> {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_ascii_whitespace() || ";&|<>()".contains(c)).unwrap_or(rest.len());
        rest.get(..end).filter(|word| !word.is_empty())
    }

    fn keyword(&mut self, word: &str) -> Read<()> {
        self.gap()?;
        if self.reserved() == Some(word) {
            self.at += word.len();
            return Ok(());
        }
        Err("a compound command is not complete")
    }

    fn and_or(&mut self) -> Read<Node> {
        let mut left = self.pipeline()?;
        loop {
            self.blanks();
            let and = self.take("&&");
            if !and && !self.take("||") {
                return Ok(left);
            }
            self.gap()?;
            let right = Box::new(self.pipeline()?);
            left = if and { Node::And(Box::new(left), right) } else { Node::Or(Box::new(left), right) };
        }
    }

    fn pipeline(&mut self) -> Read<Node> {
        let mut negated = false;
        self.blanks();
        loop {
            match self.reserved() {
                Some("!") => {
                    negated = !negated;
                    self.at += 1;
                    self.blanks();
                }
                Some("time") => {
                    // To tree-sitter it is a command like any other.
                    let from = self.at;
                    self.at += 4;
                    self.blanks();
                    if self.reserved() == Some("-p") {
                        self.at += 2;
                        self.blanks();
                    }
                    self.hidden.push((from, self.at));
                    if self.at_end(&[]) || self.rest().starts_with('\n') {
                        return Err("`time` without a command");
                    }
                }
                _ => break,
            }
        }
        let mut parts = vec![self.command()?];
        loop {
            self.blanks();
            if self.rest().starts_with("||") || !(self.take("|&") || self.take("|")) {
                break;
            }
            self.gap()?;
            parts.push(self.command()?);
        }
        let node = match (parts.len(), parts.pop()) {
            (1, Some(one)) => one,
            (_, last) => Node::Pipe(parts.into_iter().chain(last).collect()),
        };
        Ok(if negated { Node::Not(Box::new(node)) } else { node })
    }
}

pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
