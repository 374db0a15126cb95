//! What begins with `$`: its value is not known, what it runs is.

#![deny(clippy::disallowed_methods)]

use super::{Line, Parser, Read, is_name};
use crate::permission::shell::word::{Atom, Word};

impl<'a> Parser<'a> {
    /// What begins with `$`.
    pub(super) fn dollar(&mut self, word: &mut Word, line: &mut Line, in_quotes: bool) -> Read<()> {
        let unknown = if in_quotes { Atom::Unknown } else { Atom::Split };
        let rest = self.rest();
        if rest.starts_with("$((") {
            self.arithmetic(3)?;
            word.atoms.push(Atom::Unknown);
        } else if rest.starts_with("$[") {
            return Err("arithmetic of the old kind");
        } else if rest.starts_with("$(") {
            self.at += 2;
            line.inner.push(self.substitution()?);
            word.atoms.push(unknown);
        } else if rest.starts_with("${") {
            self.parameter(word, line, in_quotes)?;
        } else {
            self.at += 1;
            let rest = self.rest();
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            match rest.chars().next() {
                Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                    self.at += end;
                    self.variable(&rest[..end], word, in_quotes);
                }
                Some('@' | '*') => {
                    self.at += 1;
                    word.atoms.push(Atom::Split);
                }
                Some('?' | '#' | '$' | '!' | '-') => {
                    self.at += 1;
                    word.atoms.push(unknown);
                }
                Some(c) if c.is_ascii_digit() => {
                    self.at += 1;
                    word.atoms.push(unknown);
                }
                _ => word.atoms.push(Atom::Char('$')),
            }
        }
        Ok(())
    }

    pub(super) fn variable(&self, name: &str, word: &mut Word, in_quotes: bool) {
        let known = match name {
            "HOME" => Some(self.around.home),
            "PWD" if !self.around.moves => self.around.workdir,
            _ => None,
        };
        let plain = |value: &&str| in_quotes || !value.contains([' ', '\t', '\n', '*', '?', '[']);
        match known.filter(plain) {
            Some(value) => word.push_text(value),
            None => word.atoms.push(if in_quotes { Atom::Unknown } else { Atom::Split }),
        }
    }

    pub(super) fn parameter(&mut self, word: &mut Word, line: &mut Line, in_quotes: bool) -> Read<()> {
        self.at += 2;
        let length = self.rest().starts_with('#') && !self.rest().starts_with("#}");
        if length {
            self.at += 1;
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let mut name = &rest[..end];
        if name.is_empty() {
            match rest.chars().next() {
                Some('@' | '*' | '#' | '?' | '-' | '$') => name = &rest[..1],
                _ => return Err("an expansion that may run commands"),
            }
        }
        self.at += name.len();
        let split = if in_quotes && !matches!(name, "@" | "*") { Atom::Unknown } else { Atom::Split };
        if self.take("}") {
            if length || !is_name(name) {
                word.atoms.push(split);
            } else {
                self.variable(name, word, in_quotes);
            }
            return Ok(());
        }
        let mut split = split;
        if self.rest().starts_with('[') {
            let Some(close) = self.rest().find(']') else { return Err("an index that does not end") };
            let index = &self.rest()[1..close];
            if !(matches!(index, "@" | "*") || index.bytes().all(|byte| byte.is_ascii_digit())) {
                return Err("an index that is computed");
            }
            if !index.bytes().all(|byte| byte.is_ascii_digit()) {
                split = Atom::Split;
            }
            self.at += close + 1;
            if self.take("}") {
                word.atoms.push(split);
                return Ok(());
            }
        }
        let rest = self.rest();
        if rest.starts_with(":=") || rest.starts_with('=') || rest.starts_with('@') || length {
            return Err("an expansion that changes the shell or may run commands");
        }
        let operators = [":-", ":?", ":+", "-", "?", "+", "##", "#", "%%", "%", "//", "/", "^^", "^", ",,", ","];
        let substring = rest.starts_with(':') && !operators.iter().any(|operator| rest.starts_with(operator));
        if substring {
            let Some(close) = rest.find('}') else { return Err("an expansion does not end") };
            if !rest[1..close].chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | ':' | '-')) {
                return Err("an expansion that computes");
            }
            self.at += close + 1;
        } else {
            let Some(operator) = operators.iter().find(|operator| rest.starts_with(**operator)) else {
                return Err("an expansion that is not understood");
            };
            self.at += operator.len();
            self.deeper(|this| this.parameter_word(line, in_quotes))?;
        }
        word.atoms.push(split);
        Ok(())
    }

    /// What stands behind the operator, up to the bracket: only what it runs is of interest.
    pub(super) fn parameter_word(&mut self, line: &mut Line, in_quotes: bool) -> Read<()> {
        let mut ignored = Word::default();
        loop {
            let Some(c) = self.peek() else { return Err("an expansion does not end") };
            match c {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                // Whether a quote quotes here depends on what is around: rare enough to be left alone.
                '\'' if in_quotes => return Err("a quote within an expansion within quotes"),
                '\'' => {
                    self.at += 1;
                    let Some(end) = self.rest().find('\'') else { return Err("a quote does not end") };
                    self.at += end + 1;
                }
                '"' => {
                    self.at += 1;
                    self.quoted(Some('"'), line)?;
                }
                '$' if self.rest().starts_with("$'") => return Err("a quote within an expansion"),
                '$' => self.dollar(&mut ignored, line, in_quotes)?,
                '`' => self.backticks(line, in_quotes)?,
                '<' | '>' if self.rest()[1..].starts_with('(') => return Err("a substitution within an expansion"),
                c => self.at += c.len_utf8(),
            }
        }
    }

    /// Only numbers: a name is looked up, and its value computed with, commands in it included.
    pub(super) fn arithmetic(&mut self, open: usize) -> Read<()> {
        let rest = self.rest();
        let Some(end) = rest.find("))") else { return Err("arithmetic does not end") };
        let inside = &rest[open..end];
        let number = |c: char| c.is_ascii_digit() || " \t+-*/%<>=!&|^~?:,".contains(c);
        if !inside.chars().all(number) {
            return Err("arithmetic on more than numbers may run commands");
        }
        self.at += end + 2;
        Ok(())
    }
}
