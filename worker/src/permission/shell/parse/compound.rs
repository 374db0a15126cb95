//! Compound commands: groups, branches, loops, functions.

#![deny(clippy::disallowed_methods)]

use super::{For, Line, Node, Parser, Read, is_name};
use crate::permission::shell::{COMMANDS_MAX, environment};

impl<'a> Parser<'a> {
    pub(super) fn command(&mut self) -> Read<Node> {
        self.deeper(|this| {
            this.blanks();
            this.count += 1;
            if this.count > COMMANDS_MAX {
                return Err("it holds too many commands");
            }
            if this.rest().starts_with("((") {
                this.arithmetic(2)?;
                return this.around(Node::Seq(Vec::new()));
            }
            let node = match this.reserved() {
                _ if this.take("(") => {
                    let body = this.list(&[])?;
                    if !this.take(")") {
                        return Err("a subshell does not end");
                    }
                    Node::Apart(Box::new(body))
                }
                Some("{") => {
                    this.at += 1;
                    let body = this.list(&["}"])?;
                    this.keyword("}")?;
                    body
                }
                Some("if") => this.if_command()?,
                Some(word @ ("while" | "until")) => {
                    this.at += word.len();
                    let condition = this.list(&["do"])?;
                    Node::Loop(Box::new(condition), Box::new(this.do_group()?))
                }
                Some(word @ ("for" | "select")) => this.for_command(word)?,
                Some("case") => this.case_command()?,
                Some("[[") => this.test_command()?,
                Some("function") => {
                    this.at += "function".len();
                    this.blanks();
                    let name = this.reserved().unwrap_or_default();
                    this.at += name.len();
                    this.blanks();
                    if this.take("(") {
                        this.blanks();
                        if !this.take(")") {
                            return Err("a function that is not understood");
                        }
                    }
                    return this.function(name);
                }
                Some("coproc") => return Err("`coproc` is not followed"),
                Some("then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "}" | "]]" | "in") => {
                    return Err("a reserved word stands where a command should");
                }
                Some(name) if is_name(name) && this.opens_function(name) => {
                    this.at += name.len();
                    this.blanks();
                    this.take("(");
                    this.blanks();
                    this.take(")");
                    return this.function(name);
                }
                _ => return this.simple(),
            };
            this.around(node)
        })
    }

    pub(super) fn opens_function(&self, name: &str) -> bool {
        let behind = self.rest()[name.len()..].trim_start_matches([' ', '\t']);
        behind.strip_prefix('(').is_some_and(|behind| behind.trim_start_matches([' ', '\t']).starts_with(')'))
    }

    pub(super) fn function(&mut self, name: &str) -> Read<Node> {
        if !is_name(name) {
            return Err("a function with an odd name");
        }
        self.around.functions.set(true);
        self.gap()?;
        if !self.rest().starts_with(['{', '(']) {
            return Err("a function whose body is no group");
        }
        let body = self.command()?;
        Ok(Node::Function(name.to_owned(), Box::new(body)))
    }

    /// The redirects behind a compound command.
    pub(super) fn around(&mut self, node: Node) -> Read<Node> {
        let mut line = Line::default();
        loop {
            self.blanks();
            if !self.redirect(&mut line)? {
                break;
            }
        }
        match self.peek() {
            None | Some('\n' | ';' | '&' | '|' | ')') => {}
            _ => return Err("a word stands behind a compound command"),
        }
        let bare = line.redirects.is_empty() && line.input.is_none() && line.inner.is_empty();
        Ok(if bare { node } else { Node::Around(Box::new(node), line) })
    }

    pub(super) fn if_command(&mut self) -> Read<Node> {
        self.at += 2;
        let mut arms = Vec::new();
        loop {
            let condition = self.list(&["then"])?;
            self.keyword("then")?;
            let body = self.list(&["elif", "else", "fi"])?;
            arms.push((condition, body));
            self.gap()?;
            match self.reserved() {
                Some("elif") => self.at += 4,
                Some("else") => {
                    self.at += 4;
                    let other = self.list(&["fi"])?;
                    self.keyword("fi")?;
                    return Ok(Node::If(arms, Some(Box::new(other))));
                }
                _ => {
                    self.keyword("fi")?;
                    return Ok(Node::If(arms, None));
                }
            }
        }
    }

    pub(super) fn do_group(&mut self) -> Read<Node> {
        self.keyword("do")?;
        let body = self.list(&["done"])?;
        self.keyword("done")?;
        Ok(body)
    }

    pub(super) fn for_command(&mut self, word: &str) -> Read<Node> {
        self.at += word.len();
        self.blanks();
        let name = self.reserved().unwrap_or_default();
        if !is_name(name) {
            return Err("a loop over arithmetic is not followed");
        }
        self.at += name.len();
        self.assigned(name);
        let mut line = Line::default();
        self.gap()?;
        let mut unknown = word == "select";
        if self.reserved() == Some("in") {
            self.at += 2;
            self.words_until_end(&mut line)?;
        } else {
            unknown = true;
        }
        self.blanks();
        self.take(";");
        let body = Box::new(self.do_group()?);
        Ok(Node::For(For { name: name.to_owned(), line, unknown, body }))
    }

    pub(super) fn words_until_end(&mut self, line: &mut Line) -> Read<()> {
        loop {
            self.blanks();
            match self.peek() {
                None | Some(';' | '\n') => return Ok(()),
                _ => {
                    let word = self.word(line)?;
                    match word.expand() {
                        Some(words) => {
                            line.words.extend(words.into_iter().map(|word| word.with_home(self.around.home)));
                        }
                        None => return Err("braces that are not followed"),
                    }
                }
            }
        }
    }

    pub(super) fn case_command(&mut self) -> Read<Node> {
        self.at += 4;
        self.blanks();
        let mut line = Line::default();
        self.word(&mut line)?;
        self.keyword("in")?;
        let mut arms = Vec::new();
        loop {
            self.gap()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                break;
            }
            self.take("(");
            loop {
                self.blanks();
                self.word(&mut line)?;
                self.blanks();
                if !self.take("|") {
                    break;
                }
            }
            if !self.take(")") {
                return Err("a pattern of `case` is not understood");
            }
            arms.push(self.list(&["esac"])?);
            self.gap()?;
            if !(self.take(";;&") || self.take(";;") || self.take(";&")) {
                self.keyword("esac")?;
                break;
            }
        }
        Ok(Node::Seq(vec![Node::Simple(line), Node::Case(arms)]))
    }

    /// A name that this text gives a value to.
    pub(super) fn assigned(&mut self, name: &str) {
        if environment::is_dangerous(name) {
            self.doubt("a variable that changes what commands do is set");
        }
    }
}
