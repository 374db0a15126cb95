//! Here-documents, whose bodies stand behind the line that names them.

#![deny(clippy::disallowed_methods)]

use super::{Line, Node, Parser, Read};
use crate::permission::shell::word::Word;

impl<'a> Parser<'a> {
    pub(super) fn here_documents(&mut self) -> Read<()> {
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
    pub(super) fn fill(&mut self, node: &mut Node) {
        match node {
            Node::Simple(line) => self.fill_line(line),
            Node::Around(node, line) => {
                self.fill(node);
                self.fill_line(line);
            }
            Node::For(each) => {
                self.fill_line(&mut each.line);
                self.fill(&mut each.body);
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

    pub(super) fn fill_line(&mut self, line: &mut Line) {
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
}
