//! `[[ … ]]`, which has a grammar of its own: what stands in it is no command, but its words may run some.

#![deny(clippy::disallowed_methods)]

use super::{Line, Node, Parser, Read};

impl<'a> Parser<'a> {
    pub(super) fn test_command(&mut self) -> Read<Node> {
        self.at += 2;
        let mut line = Line::default();
        self.test(&mut line)?;
        self.keyword("]]")?;
        Ok(Node::Simple(line))
    }

    /// Tests between `&&` and `||`, which have the same grammar here: only what runs is of interest.
    pub(super) fn test(&mut self, line: &mut Line) -> Read<()> {
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

    pub(super) fn comparison(&mut self, line: &mut Line) -> Read<()> {
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
}
