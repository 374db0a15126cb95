//! Simple commands: assignments, words, redirects.

#![deny(clippy::disallowed_methods)]

use super::{How, Line, Node, Parser, Pending, Read, Redirect, Set, is_name};
use crate::permission::shell::word::Word;

const OPERATORS: [&str; 11] = ["&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<&", "<>", "<<", ">"];

impl<'a> Parser<'a> {
    pub(super) fn simple(&mut self) -> Read<Node> {
        let mut line = Line::default();
        let start = self.at;
        loop {
            self.blanks();
            if self.redirect(&mut line)? {
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => return Err("a bracket stands where a word should"),
                _ => {}
            }
            if line.words.is_empty() && self.assignment(&mut line)? {
                continue;
            }
            let from = self.at;
            let word = self.word(&mut line)?;
            let digits = self.text[from..self.at].bytes().all(|byte| byte.is_ascii_digit());
            if self.rest().starts_with(['<', '>']) && !self.rest().starts_with("<(") && !self.rest().starts_with(">(") {
                if digits {
                    self.redirect(&mut line)?;
                    continue;
                }
                if self.text[from..self.at].starts_with('{') {
                    self.doubt("a descriptor by name");
                }
            }
            if line.words.is_empty() {
                self.starts.push(from);
            }
            match word.expand() {
                Some(words) => {
                    line.words.extend(words.into_iter().map(|word| word.with_home(self.around.home)));
                }
                None => return Err("braces that are not followed"),
            }
        }
        if self.at == start {
            return Err("there is no command where one should be");
        }
        Ok(Node::Simple(line))
    }

    /// `name=value`, `name+=value`, `name=(…)`.
    pub(super) fn assignment(&mut self, line: &mut Line) -> Read<bool> {
        let rest = self.rest();
        let name_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = &rest[..name_end];
        if !is_name(name) {
            return Ok(false);
        }
        let mut behind = name_end;
        let mut how = How::Text;
        if rest[behind..].starts_with('[') {
            let Some(close) = rest[behind..].find("]=").or_else(|| rest[behind..].find("]+=")) else {
                return Ok(false);
            };
            if rest[behind + 1..behind + close].bytes().all(|byte| byte.is_ascii_digit()) {
                behind += close + 1;
                how = How::Part;
            } else {
                return Err("an index that is computed");
            }
        }
        if rest[behind..].starts_with('+') {
            behind += 1;
            how = if how == How::Text { How::More } else { How::Part };
        }
        if !rest[behind..].starts_with('=') {
            return Ok(false);
        }
        self.at += behind + 1;
        if how == How::Part || self.rest().starts_with('(') {
            self.around.arrays.borrow_mut().insert(name.to_owned());
        }
        if self.take("(") {
            let mut words = Vec::new();
            loop {
                self.gap()?;
                if self.take(")") {
                    break;
                }
                if self.peek() == Some('[') {
                    return Err("an index that is computed");
                }
                match self.word(line)?.expand() {
                    Some(made) => words.extend(made.into_iter().map(|word| word.with_home(self.around.home))),
                    None => return Err("braces that are not followed"),
                }
            }
            line.assigns.push((name.to_owned(), Word::any()));
            let how = if how == How::Text { How::Array } else { How::Part };
            line.sets.push(Set { name: name.to_owned(), how, words });
            return Ok(true);
        }
        let value = match self.peek() {
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '<' | '>') => Word::default(),
            _ => self.word(line)?,
        };
        let value = value.without_braces().with_home(self.around.home);
        line.sets.push(Set { name: name.to_owned(), how, words: vec![value.clone()] });
        line.assigns.push((name.to_owned(), value));
        Ok(true)
    }

    pub(super) fn redirect(&mut self, line: &mut Line) -> Read<bool> {
        let from = self.at;
        let digits = self.rest().find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let behind = &self.rest()[digits..];
        if behind.starts_with("<(") || behind.starts_with(">(") || (digits > 0 && behind.starts_with('&')) {
            return Ok(false);
        }
        let Some(op) = OPERATORS.into_iter().chain(["<"]).find(|op| behind.starts_with(op)) else { return Ok(false) };
        self.at += digits + op.len();
        self.blanks();
        match self.peek() {
            None | Some('\n' | ';' | '&' | '|' | '(' | ')') => return Err("a redirect without a target"),
            _ => {}
        }
        let raw = self.at;
        let word = self.word(line)?;
        let digits_only = self.text[raw..self.at].bytes().all(|byte| byte.is_ascii_digit());
        if digits_only && self.rest().starts_with(['<', '>']) {
            return Err("a descriptor stands where a target should");
        }
        match op {
            "<<" | "<<-" => {
                let written = &self.text[raw..self.at];
                if written.contains(['$', '`']) || word.literal().is_none_or(|end| end.is_empty() || end.contains('\n'))
                {
                    return Err("a here-document with an odd end");
                }
                self.hidden.push((from + digits + 1, from + digits + op.len()));
                let id = self.bodies.len();
                self.bodies.push(None);
                self.pending.push(Pending { word, tabs: op == "<<-", id });
                // Found again by `fill`.
                line.redirects.push(Redirect { op, target: Word::of(&id.to_string()) });
            }
            "<<<" => line.input = Some(word.without_braces().with_home(self.around.home)),
            _ => {
                let fd = op.ends_with('&')
                    && word.literal().is_some_and(|text| {
                        text == "-" || text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit())
                    });
                if !fd {
                    let word = word.with_home(self.around.home);
                    let words = word.expand().unwrap_or_else(|| vec![Word::any()]);
                    line.redirects.extend(words.into_iter().map(|target| Redirect { op, target }));
                }
            }
        }
        Ok(true)
    }
}
