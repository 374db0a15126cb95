//! Which jobs a verb is about, as it is typed: some by name, or all.

use ukai_protocol::control::Selection;

#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Ids, names or unique beginnings of ids, of jobs or batches
    #[arg(value_name = "JOB", required_unless_present = "all")]
    jobs: Vec<String>,
    /// Every job that has not ended
    #[arg(long, conflicts_with = "jobs")]
    pub all: bool,
}

impl Which {
    pub fn selection(self) -> Selection {
        if self.all { Selection::All } else { Selection::These(self.jobs) }
    }
}
