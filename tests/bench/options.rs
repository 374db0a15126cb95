//! What is typed behind `cargo bench --`.

use crate::figures::{self, Group};

const USAGE: &str = "\
Prints what a job costs, as ratios to a bare loop that does the same in one process.

usage: cargo bench -p ukai-tests -- [--quick] [--markdown] [NAME…]

      --quick      fewer repeats: for development, not for figures to be told
      --markdown   print the table for a page
";

pub struct Options {
    pub quick: bool,
    pub markdown: bool,
    pub groups: Vec<&'static Group>,
}

impl Options {
    /// How often something is repeated.
    #[must_use]
    pub fn repeats(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// `Err`: what to print instead, which was asked for or is about a mistake.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { quick: false, markdown: false, groups: Vec::new() };
    for arg in args {
        match &*arg {
            // Cargo says it to every bench.
            "--bench" => {}
            "--quick" => options.quick = true,
            "--markdown" => options.markdown = true,
            "--help" | "-h" => return Err(usage()),
            name => match figures::GROUPS.iter().find(|group| group.name == name) {
                Some(group) => options.groups.push(group),
                None => return Err(format!("there is no `{name}`\n\n{}", usage())),
            },
        }
    }
    if options.groups.is_empty() {
        options.groups = figures::GROUPS.iter().collect();
    }
    Ok(options)
}

fn usage() -> String {
    let names = figures::GROUPS.iter().map(|group| format!("      {:<12} {}\n", group.name, group.about));
    format!("{USAGE}\nnames:\n{}", names.collect::<String>())
}
