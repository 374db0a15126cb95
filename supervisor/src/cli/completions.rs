//! `ukai completions SHELL`.

use clap::CommandFactory as _;

use super::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(crate) fn completions(args: &Args) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Ukai::command(), "ukai", &mut script);
    print::out(&String::from_utf8_lossy(&script));
    0
}
