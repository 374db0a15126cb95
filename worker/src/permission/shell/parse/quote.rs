//! Words: quotes and escapes undone, and what is run to make them.

#![deny(clippy::disallowed_methods)]

use super::{Line, Node, Parser, Read, is_name};
use crate::permission::shell::word::{Atom, Word};

impl<'a> Parser<'a> {
    /// One word, up to what ends it. What it runs is added to `line`.
    pub(super) fn word(&mut self, line: &mut Line) -> Read<Word> {
        let mut word = Word::default();
        let start = self.at;
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    if self.peek() == Some('(') {
                        return Err("a bracket at the beginning of a substitution");
                    }
                    line.inner.push(self.substitution()?);
                    word.push_text("/dev/fd/63");
                    continue;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.at += 1;
                    let Some(next) = self.peek() else { return Err("a backslash at the end") };
                    self.at += next.len_utf8();
                    if next != '\n' {
                        word.atoms.push(Atom::Char(next));
                        word.quoted = true;
                    }
                    continue;
                }
                '\'' => {
                    self.at += 1;
                    let Some(end) = self.rest().find('\'') else { return Err("a quote does not end") };
                    word.push_text(&self.rest()[..end]);
                    self.at += end + 1;
                    word.quoted = true;
                    continue;
                }
                '"' => {
                    self.at += 1;
                    let inside = self.quoted(Some('"'), line)?;
                    word.atoms.extend(inside.atoms);
                    word.quoted = true;
                    continue;
                }
                '$' if self.rest().starts_with("$'") => {
                    self.at += 2;
                    let text = self.ansi()?;
                    word.push_text(&text);
                    word.quoted = true;
                    continue;
                }
                '$' if self.rest().starts_with("$\"") => {
                    self.at += 2;
                    let inside = self.quoted(Some('"'), line)?;
                    word.atoms.extend(inside.atoms);
                    word.quoted = true;
                    continue;
                }
                '$' => {
                    self.dollar(&mut word, line, false)?;
                    continue;
                }
                '`' => {
                    self.backticks(line, false)?;
                    word.atoms.push(Atom::Split);
                    continue;
                }
                '*' | '?' | '[' => word.atoms.push(Atom::Glob(c)),
                '{' | '}' | ',' => word.atoms.push(Atom::Brace(c)),
                '~' if self.tilde_here(&word, start) => word.atoms.push(Atom::Tilde),
                c => word.atoms.push(Atom::Char(c)),
            }
            self.at += c.len_utf8();
        }
        if self.at == start {
            return Err("a word is missing");
        }
        // A lone `[` is the command, and a bracket that does not close is a character.
        let closes = word.atoms.contains(&Atom::Char(']'));
        for atom in &mut word.atoms {
            if *atom == Atom::Glob('[') && !closes {
                *atom = Atom::Char('[');
            }
        }
        Ok(word)
    }

    /// At the start of a word, and behind the `=` or a `:` of what looks like an assignment.
    pub(super) fn tilde_here(&self, word: &Word, start: usize) -> bool {
        if self.at == start {
            return true;
        }
        let head = word.head();
        let name = head.split('=').next().unwrap_or_default();
        let before = self.text.as_bytes().get(self.at - 1);
        // A value is read by itself, so its first `:` counts too.
        matches!(before, Some(b':')) || (matches!(before, Some(b'=')) && is_name(name))
    }

    /// Text in which `$` and backticks count: up to `end`, or all of it for a here-document.
    pub(super) fn quoted(&mut self, end: Option<char>, line: &mut Line) -> Read<Word> {
        let mut word = Word { quoted: true, ..Word::default() };
        loop {
            let Some(c) = self.peek() else {
                return if end.is_some() { Err("a quote does not end") } else { Ok(word) };
            };
            match c {
                c if end == Some(c) => {
                    self.at += 1;
                    return Ok(word);
                }
                '\\' => {
                    let next = self.rest()[1..].chars().next();
                    match next {
                        Some('\n') => self.at += 2,
                        Some(next @ ('$' | '`' | '\\')) => {
                            self.at += 2;
                            word.atoms.push(Atom::Char(next));
                        }
                        Some('"') if end.is_some() => {
                            self.at += 2;
                            word.atoms.push(Atom::Char('"'));
                        }
                        _ => {
                            self.at += 1;
                            word.atoms.push(Atom::Char('\\'));
                        }
                    }
                }
                '$' => self.dollar(&mut word, line, true)?,
                '`' => {
                    self.backticks(line, end.is_some())?;
                    word.atoms.push(Atom::Unknown);
                }
                c => {
                    word.atoms.push(Atom::Char(c));
                    self.at += c.len_utf8();
                }
            }
        }
    }

    pub(super) fn substitution(&mut self) -> Read<Node> {
        let (pending, from, bodies) = (std::mem::take(&mut self.pending), self.at, self.bodies.len());
        let node = self.list(&[])?;
        if !self.take(")") {
            return Err("a substitution does not end");
        }
        if !self.pending.is_empty() {
            return Err("a here-document crosses the end of a substitution");
        }
        if !pending.is_empty() && self.text[from..self.at].contains('\n') {
            return Err("lines of a substitution stand where a here-document may begin");
        }
        // Bash writes a substitution anew before it runs it, and what it writes behind a here-document is at times not
        // what was read: it loses a `;`.
        if self.bodies.len() > bodies && !matches!(&node, Node::Seq(nodes) if nodes.len() == 1 && is_plain(&nodes[0])) {
            return Err("a here-document within a substitution that does more");
        }
        self.pending = pending;
        Ok(Node::Apart(Box::new(node)))
    }

    pub(super) fn backticks(&mut self, line: &mut Line, in_quotes: bool) -> Read<()> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else { return Err("a backtick does not end") };
            self.at += c.len_utf8();
            match c {
                '`' => break,
                '\\' => {
                    let next = self.peek();
                    match next {
                        Some(next @ ('`' | '\\' | '$')) => {
                            self.at += 1;
                            text.push(next);
                        }
                        Some('"') if in_quotes => {
                            self.at += 1;
                            text.push('"');
                        }
                        _ => text.push('\\'),
                    }
                }
                c => text.push(c),
            }
        }
        // Bash looks for braces first, and takes a quote in here for the end of the one around it.
        if in_quotes && text.contains('{') && text.contains('"') {
            return Err("quotes and braces in backticks within quotes");
        }
        let node = self.deeper(|this| {
            let mut inner = Parser::new(&text, this.around, this.depth);
            inner.count = this.count;
            let node = inner.program()?;
            this.count = inner.count;
            this.doubt = this.doubt.or(inner.doubt);
            Ok(node)
        })?;
        line.inner.push(Node::Apart(Box::new(node)));
        Ok(())
    }

    /// `$'…'`, from behind the quote.
    pub(super) fn ansi(&mut self) -> Read<String> {
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else { return Err("a quote does not end") };
            self.at += c.len_utf8();
            match c {
                '\'' => return Ok(text),
                '\\' => {
                    let Some(next) = self.peek() else { return Err("a quote does not end") };
                    self.at += next.len_utf8();
                    let plain = match next {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'a' => '\u{7}',
                        'b' => '\u{8}',
                        'e' | 'E' => '\u{1b}',
                        'f' => '\u{c}',
                        'v' => '\u{b}',
                        '\\' | '\'' | '"' | '?' => next,
                        'x' => self.digits(16, 2)?,
                        'u' => self.digits(16, 4)?,
                        'U' => self.digits(16, 8)?,
                        '0'..='7' => {
                            self.at -= 1;
                            self.digits(8, 3)?
                        }
                        _ => return Err("an escape that is not understood"),
                    };
                    text.push(plain);
                }
                c => text.push(c),
            }
        }
    }

    pub(super) fn digits(&mut self, radix: u32, most: usize) -> Read<char> {
        let found: String = self.rest().chars().take(most).take_while(|c| c.is_digit(radix)).collect();
        self.at += found.len();
        // A byte above ASCII is half a character, and a NUL ends the text.
        match u32::from_str_radix(&found, radix).ok().and_then(char::from_u32) {
            Some(c) if c != '\0' && (c.is_ascii() || most > 3) => Ok(c),
            _ => Err("an escape that is no plain character"),
        }
    }
}

fn is_plain(node: &Node) -> bool {
    match node {
        Node::Simple(_) => true,
        Node::Pipe(nodes) => nodes.iter().all(is_plain),
        _ => false,
    }
}
