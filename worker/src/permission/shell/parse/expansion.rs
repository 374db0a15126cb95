//! What begins with `$`: what it runs, and where its value comes from.

#![deny(clippy::disallowed_methods)]

use super::{Line, Node, Parser, Read};
use crate::permission::shell::value::{Quote, Source};
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
            let node = self.substitution()?;
            match told(&node) {
                Some(line) => self.source(Source::Output(line), word, in_quotes),
                None => word.atoms.push(unknown),
            }
            line.inner.push(node);
        } else if rest.starts_with("${") {
            self.parameter(word, line, in_quotes)?;
        } else {
            self.at += 1;
            let rest = self.rest();
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            // A continued line goes on with the name, or with the quote: `$` and `'rm'` are `$'rm'`.
            if rest[end..].starts_with("\\\n") {
                return Err("a line continuation within an expansion");
            }
            // Braces come first: `$x{a,b}` is `$xa $xb`.
            let next = rest[end..].chars().next();
            let opened = word.atoms.contains(&Atom::Brace('{'));
            if !in_quotes && (next == Some('{') || opened && matches!(next, Some('}' | ','))) {
                return Err("a name of a variable that braces may go on with");
            }
            match rest.chars().next() {
                Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                    self.at += end;
                    self.variable(&rest[..end], word, in_quotes);
                }
                Some('@') => {
                    self.at += 1;
                    self.all("@", word, in_quotes);
                }
                Some('*') => {
                    self.at += 1;
                    word.atoms.push(Atom::Split);
                }
                Some('?' | '#' | '$' | '!' | '-') => {
                    self.at += 1;
                    word.atoms.push(unknown);
                }
                Some(c) if c.is_ascii_digit() => {
                    self.at += 1;
                    self.source(Source::Name(c.to_string()), word, in_quotes);
                }
                _ => word.atoms.push(Atom::Char('$')),
            }
        }
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str, word: &mut Word, in_quotes: bool) {
        match self.known(name, in_quotes) {
            Some(value) => word.push_text(value),
            None => self.source(Source::Name(name.to_owned()), word, in_quotes),
        }
    }

    /// The value of a variable that the job itself sets.
    fn known(&self, name: &str, in_quotes: bool) -> Option<&'a str> {
        let known = match name {
            "HOME" => Some(self.around.home),
            "TMPDIR" => self.around.temp,
            _ => None,
        };
        known.filter(|value| in_quotes || !value.contains([' ', '\t', '\n', '*', '?', '[', '\\']))
    }

    fn source(&mut self, source: Source, word: &mut Word, in_quotes: bool) {
        let quote = if in_quotes { Quote::Quoted } else { Quote::Bare };
        self.expansion(source, quote, word);
    }

    fn all(&mut self, name: &str, word: &mut Word, in_quotes: bool) {
        let quote = if in_quotes { Quote::Each } else { Quote::Bare };
        self.expansion(Source::All(name.to_owned()), quote, word);
    }

    fn expansion(&mut self, source: Source, quote: Quote, word: &mut Word) {
        match self.around.sources.add(source) {
            Some(id) => word.atoms.push(Atom::Var(id, quote)),
            None => {
                self.doubt("it holds too many expansions");
                word.atoms.push(if quote == Quote::Quoted { Atom::Unknown } else { Atom::Split });
            }
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
            if length || matches!(name, "*" | "#" | "?" | "-" | "$") {
                word.atoms.push(split);
            } else if name == "@" {
                self.all(name, word, in_quotes);
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
            if !length && self.take("}") {
                match index {
                    "@" => self.all(name, word, in_quotes),
                    "*" => word.atoms.push(split),
                    _ => self.source(Source::Part(name.to_owned()), word, in_quotes),
                }
                return Ok(());
            }
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
            if rest[1..close].trim().is_empty()
                || !rest[1..close].chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | ':' | '-'))
            {
                return Err("an expansion that computes");
            }
            self.at += close + 1;
        } else {
            let Some(operator) = operators.iter().find(|operator| rest.starts_with(**operator)) else {
                return Err("an expansion that is not understood");
            };
            self.at += operator.len();
            let known = if self.text[..self.at].ends_with(&format!("]{operator}")) {
                None
            } else {
                self.known(name, in_quotes)
            };
            let given = self.deeper(|this| this.parameter_word(line, in_quotes))?;
            let replaces = matches!(*operator, ":-" | "-" | ":+" | "+");
            match known {
                // Such a value is never empty.
                Some(value) if matches!(*operator, ":-" | "-" | ":?" | "?") => word.push_text(value),
                _ if replaces && (split != Atom::Split || !in_quotes) => {
                    self.source(Source::Either(name.to_owned(), given), word, in_quotes);
                }
                _ => word.atoms.push(split),
            }
            return Ok(());
        }
        word.atoms.push(split);
        Ok(())
    }

    /// What stands behind the operator, up to the bracket: what it may become, and what it runs.
    pub(super) fn parameter_word(&mut self, line: &mut Line, in_quotes: bool) -> Read<Word> {
        let mut given = Word { quoted: true, ..Word::default() };
        loop {
            let Some(c) = self.peek() else { return Err("an expansion does not end") };
            match c {
                '}' => {
                    self.at += 1;
                    return Ok(given.with_home(self.around.home));
                }
                '\\' => {
                    self.at += 1;
                    given.atoms.extend(self.peek().map(Atom::Char));
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                '~' if given.atoms.is_empty() && !in_quotes => {
                    self.at += 1;
                    given.atoms.push(Atom::Tilde);
                }
                // Whether a quote quotes here depends on what is around: rare enough to be left alone.
                '\'' if in_quotes => return Err("a quote within an expansion within quotes"),
                '\'' => {
                    self.at += 1;
                    let Some(end) = self.rest().find('\'') else { return Err("a quote does not end") };
                    given.push_text(&self.rest()[..end]);
                    self.at += end + 1;
                }
                '"' => {
                    self.at += 1;
                    let inside = self.quoted(Some('"'), line)?;
                    given.atoms.extend(inside.atoms);
                }
                '$' if self.rest().starts_with("$'") => return Err("a quote within an expansion"),
                '$' => self.dollar(&mut given, line, in_quotes)?,
                '`' => {
                    let from = self.at;
                    self.backticks(line, in_quotes)?;
                    // Bash looks for the end of the expansion in there too.
                    if self.text[from..self.at].contains(['\'', '"', '{', '}']) {
                        return Err("quotes or braces in backticks within an expansion");
                    }
                    given.atoms.push(Atom::Unknown);
                }
                '<' | '>' if self.rest()[1..].starts_with('(') => return Err("a substitution within an expansion"),
                c => {
                    given.atoms.push(Atom::Char(c));
                    self.at += c.len_utf8();
                }
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

/// A substitution of nothing but a command that says its words.
fn told(node: &Node) -> Option<Line> {
    let Node::Apart(list) = node else { return None };
    let Node::Seq(nodes) = &**list else { return None };
    let [Node::Simple(line)] = nodes.as_slice() else { return None };
    let says = line.words.first().is_some_and(|word| word.is("echo") || word.is("printf"));
    (says && line.redirects.is_empty() && line.assigns.is_empty()).then(|| line.clone())
}
