//! The grammar of the shell, from text to a tree of what may run.
//!
//! It is stricter than bash: what it does not know for certain is a doubt, and a reading with a doubt is opaque. It
//! reads here-documents and decodes words itself, because tree-sitter's grammar knows neither what a quoted word is in
//! the end nor the backticks in a here-document; that grammar is asked afterwards whether it sees the same commands
//! (`agree`).

#![deny(clippy::disallowed_methods)]

use super::word::{Atom, Word};
use super::{COMMANDS_MAX, DEPTH_MAX, Surroundings};

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
    Case(Vec<Node>),
    Function(String, Box<Node>),
}

/// A simple command as it stands; also the redirects of a compound one, which then has no words.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub assigns: Vec<(String, Word)>,
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

const OPERATORS: [&str; 11] = ["&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<&", "<>", "<<", ">"];

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

    fn command(&mut self) -> Read<Node> {
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

    fn opens_function(&self, name: &str) -> bool {
        let behind = self.rest()[name.len()..].trim_start_matches([' ', '\t']);
        behind.strip_prefix('(').is_some_and(|behind| behind.trim_start_matches([' ', '\t']).starts_with(')'))
    }

    fn function(&mut self, name: &str) -> Read<Node> {
        if !is_name(name) {
            return Err("a function with an odd name");
        }
        self.gap()?;
        if !self.rest().starts_with(['{', '(']) {
            return Err("a function whose body is no group");
        }
        let body = self.command()?;
        Ok(Node::Function(name.to_owned(), Box::new(body)))
    }

    /// The redirects behind a compound command.
    fn around(&mut self, node: Node) -> Read<Node> {
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

    fn if_command(&mut self) -> Read<Node> {
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

    fn do_group(&mut self) -> Read<Node> {
        self.keyword("do")?;
        let body = self.list(&["done"])?;
        self.keyword("done")?;
        Ok(body)
    }

    fn for_command(&mut self, word: &str) -> Read<Node> {
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
        if self.reserved() == Some("in") {
            self.at += 2;
            self.words_until_end(&mut line)?;
        }
        self.blanks();
        self.take(";");
        let body = self.do_group()?;
        // Its words run before it, and are no command of their own.
        line.words.clear();
        let head = Node::Simple(line);
        Ok(Node::Seq(vec![head, Node::Loop(Box::new(Node::Seq(Vec::new())), Box::new(body))]))
    }

    fn words_until_end(&mut self, line: &mut Line) -> Read<()> {
        loop {
            self.blanks();
            match self.peek() {
                None | Some(';' | '\n') => return Ok(()),
                _ => {
                    let word = self.word(line)?;
                    line.words.push(word);
                }
            }
        }
    }

    fn case_command(&mut self) -> Read<Node> {
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

    fn test_command(&mut self) -> Read<Node> {
        self.at += 2;
        let mut line = Line::default();
        self.test(&mut line)?;
        self.keyword("]]")?;
        Ok(Node::Simple(line))
    }

    /// Tests between `&&` and `||`, which have the same grammar here: only what runs is of interest.
    fn test(&mut self, line: &mut Line) -> Read<()> {
        self.deeper(|this| {
            loop {
                this.gap()?;
                while this.reserved() == Some("!") {
                    this.at += 1;
                    this.gap()?;
                }
                if this.take("(") {
                    this.test(line)?;
                    this.gap()?;
                    if !this.take(")") {
                        return Err("a test that is not understood");
                    }
                } else {
                    this.comparison(line)?;
                }
                this.gap()?;
                if !(this.take("&&") || this.take("||")) {
                    return Ok(());
                }
            }
        })
    }

    fn comparison(&mut self, line: &mut Line) -> Read<()> {
        const UNARY: &str = "abcdefghknoprstuwxzGLNOS";
        if self.reserved() == Some("]]") {
            return Err("a test that is not understood");
        }
        let first = self.reserved().unwrap_or_default();
        let unary = first.len() == 2 && first.starts_with('-') && first.ends_with(|c| UNARY.contains(c));
        let left = self.word(line)?;
        if matches!(left.literal().as_deref(), Some("-v" | "-R")) {
            self.doubt("`[[` computes, and what it computes with may run commands");
        }
        self.blanks();
        if unary {
            self.word(line)?;
            return Ok(());
        }
        match self.reserved() {
            Some(operator @ ("==" | "=" | "!=" | "=~" | "-nt" | "-ot" | "-ef")) => self.at += operator.len(),
            Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
                return Err("`[[` computes, and what it computes with may run commands");
            }
            _ if !self.rest().starts_with("<(")
                && !self.rest().starts_with(">(")
                && (self.take("< ") || self.take("> ")) => {}
            Some("]]") => return Ok(()),
            _ if self.rest().starts_with("&&") || self.rest().starts_with("||") || self.rest().starts_with(')') => {
                return Ok(());
            }
            _ => return Err("a test that is not understood"),
        }
        self.blanks();
        self.word(line)?;
        Ok(())
    }

    fn simple(&mut self) -> Read<Node> {
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
    fn assignment(&mut self, line: &mut Line) -> Read<bool> {
        let rest = self.rest();
        let name_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = &rest[..name_end];
        if !is_name(name) {
            return Ok(false);
        }
        let mut behind = name_end;
        if rest[behind..].starts_with('[') {
            let Some(close) = rest[behind..].find("]=").or_else(|| rest[behind..].find("]+=")) else {
                return Ok(false);
            };
            if rest[behind + 1..behind + close].bytes().all(|byte| byte.is_ascii_digit()) {
                behind += close + 1;
            } else {
                return Err("an index that is computed");
            }
        }
        if rest[behind..].starts_with('+') {
            behind += 1;
        }
        if !rest[behind..].starts_with('=') {
            return Ok(false);
        }
        self.at += behind + 1;
        if self.take("(") {
            loop {
                self.gap()?;
                if self.take(")") {
                    break;
                }
                if self.peek() == Some('[') {
                    return Err("an index that is computed");
                }
                self.word(line)?;
            }
            line.assigns.push((name.to_owned(), Word::any()));
            return Ok(true);
        }
        let value = match self.peek() {
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '<' | '>') => Word::default(),
            _ => self.word(line)?,
        };
        line.assigns.push((name.to_owned(), value.without_braces().with_home(self.around.home)));
        Ok(true)
    }

    /// A name that this text gives a value to.
    fn assigned(&mut self, name: &str) {
        if super::environment::is_dangerous(name) {
            self.doubt("a variable that changes what commands do is set");
        }
    }

    fn redirect(&mut self, line: &mut Line) -> Read<bool> {
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

    fn here_documents(&mut self) -> Read<()> {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            let mut body = String::new();
            let end = pending.word.literal().unwrap_or_default();
            loop {
                if self.at >= self.text.len() {
                    self.doubt("a here-document does not end");
                    break;
                }
                let rest = self.rest();
                let length = rest.find('\n').unwrap_or(rest.len());
                let mut line = &rest[..length];
                self.at = (self.at + length + 1).min(self.text.len());
                if pending.tabs {
                    line = line.trim_start_matches('\t');
                }
                if line == end {
                    break;
                }
                let slashes = line.len() - line.trim_end_matches('\\').len();
                if !pending.word.quoted && slashes % 2 == 1 {
                    self.doubt("a here-document with a continued line");
                }
                body.push_str(line);
                body.push('\n');
            }
            // One back: the newline before the next line is what ends a line for tree-sitter.
            self.hidden.push((start, self.at));
            let mut line = Line::default();
            let word = if pending.word.quoted {
                Word::of(&body)
            } else {
                let mut inner = Parser::new(&body, self.around, self.depth);
                inner.count = self.count;
                let word = inner.quoted(None, &mut line)?;
                line.inner.iter_mut().for_each(|node| inner.fill(node));
                self.count = inner.count;
                self.doubt = self.doubt.or(inner.doubt);
                word
            };
            if let Some(slot) = self.bodies.get_mut(pending.id) {
                *slot = Some((word, line.inner));
            }
        }
        Ok(())
    }

    /// Puts the here-documents where they are read.
    fn fill(&mut self, node: &mut Node) {
        match node {
            Node::Simple(line) => self.fill_line(line),
            Node::Around(node, line) => {
                self.fill(node);
                self.fill_line(line);
            }
            Node::Pipe(nodes) | Node::Seq(nodes) | Node::Case(nodes) => {
                nodes.iter_mut().for_each(|node| self.fill(node))
            }
            Node::Not(node) | Node::Apart(node) | Node::Function(_, node) => self.fill(node),
            Node::And(left, right) | Node::Or(left, right) | Node::Loop(left, right) => {
                self.fill(left);
                self.fill(right);
            }
            Node::If(arms, other) => {
                for (condition, body) in arms {
                    self.fill(condition);
                    self.fill(body);
                }
                if let Some(other) = other {
                    self.fill(other);
                }
            }
        }
    }

    fn fill_line(&mut self, line: &mut Line) {
        let bodies = &mut self.bodies;
        let (mut input, mut inner) = (None, Vec::new());
        line.redirects.retain(|redirect| {
            if !redirect.op.starts_with("<<") {
                return true;
            }
            let id = redirect.target.literal().and_then(|id| id.parse::<usize>().ok());
            if let Some((word, nodes)) = id.and_then(|id| bodies.get_mut(id)).and_then(Option::take) {
                input = Some(word);
                inner = nodes;
            }
            false
        });
        line.inner.iter_mut().for_each(|node| self.fill(node));
        line.inner.append(&mut inner);
        line.input = input.or(line.input.take());
    }

    /// One word, up to what ends it. What it runs is added to `line`.
    fn word(&mut self, line: &mut Line) -> Read<Word> {
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
    fn tilde_here(&self, word: &Word, start: usize) -> bool {
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
    fn quoted(&mut self, end: Option<char>, line: &mut Line) -> Read<Word> {
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

    fn substitution(&mut self) -> Read<Node> {
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

    fn backticks(&mut self, line: &mut Line, in_quotes: bool) -> Read<()> {
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

    /// What begins with `$`.
    fn dollar(&mut self, word: &mut Word, line: &mut Line, in_quotes: bool) -> Read<()> {
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

    fn variable(&self, name: &str, word: &mut Word, in_quotes: bool) {
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

    fn parameter(&mut self, word: &mut Word, line: &mut Line, in_quotes: bool) -> Read<()> {
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
    fn parameter_word(&mut self, line: &mut Line, in_quotes: bool) -> Read<()> {
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
    fn arithmetic(&mut self, open: usize) -> Read<()> {
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

    /// `$'…'`, from behind the quote.
    fn ansi(&mut self) -> Read<String> {
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

    fn digits(&mut self, radix: u32, most: usize) -> Read<char> {
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

pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
