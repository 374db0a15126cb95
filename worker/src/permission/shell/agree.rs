//! Whether tree-sitter's grammar of bash sees the same commands in a text as our parser does.
//!
//! A second opinion, not a second truth: where the two differ, at least one is wrong, and nothing is known. The grammar
//! is not shown here-documents, which it misreads (several on a line, commands behind one, backticks inside).

#![deny(clippy::disallowed_methods)]

use std::cell::RefCell;

use tree_sitter::{Node, Parser};

thread_local! {
    /// A parser costs more to make than to use.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser());
}

fn parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// `hidden` are ranges that are not shown, `starts` where our parser saw commands begin.
pub fn agree(text: &str, hidden: &[(usize, usize)], starts: &[usize]) -> bool {
    let mut shown = text.as_bytes().to_vec();
    for (from, to) in hidden {
        for byte in shown.get_mut(*from..*to).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    PARSER.with_borrow_mut(|parser| {
        let Some(tree) = parser.as_mut().and_then(|parser| parser.parse(&shown, None)) else { return false };
        let root = tree.root_node();
        if root.has_error() {
            return false;
        }
        let (mut ours, mut theirs) = (starts.to_vec(), Vec::new());
        commands(root, &mut theirs);
        ours.sort_unstable();
        theirs.sort_unstable();
        ours == theirs
    })
}

/// Where commands begin, by their names; those in backticks are read from a text of their own.
fn commands(root: Node<'_>, found: &mut Vec<usize>) {
    let mut todo = vec![root];
    while let Some(node) = todo.pop() {
        match node.kind() {
            "command" => {
                let name = node.child_by_field_name("name").unwrap_or(node);
                found.push(name.start_byte());
            }
            "declaration_command" | "unset_command" => found.push(node.start_byte()),
            "test_command" if node.child(0).is_some_and(|bracket| bracket.kind() == "[") => {
                found.push(node.start_byte());
            }
            "command_substitution" if node.child(0).is_some_and(|open| open.kind() == "`") => continue,
            _ => {}
        }
        todo.extend((0..node.child_count()).filter_map(|at| node.child(at)));
    }
}
