//! The banner: one line on stderr of every verb while jobs need a person (spec §10).

use ukai_protocol::control::{JobRow, Selection};

use super::client::Client;
use super::context::Context;
use super::{offline, print};

/// Ids that the line names; more are counted.
const NAMED_MAX: usize = 3;

/// A banner is no reason for a verb to fail: what keeps it from being known keeps the verb from working too, and is
/// told there.
pub(crate) async fn banner(context: &Context) {
    let rows = match Client::connect(context).await {
        Ok(Some(client)) => client.rows(Selection::All).await.map(|(rows, _)| rows),
        Ok(None) => offline::rows(&context.state),
        Err(failure) => Err(failure),
    };
    match rows.map(|rows| line(&rows)) {
        Ok(Some(line)) => print::note(&line),
        Ok(None) => {}
        Err(failure) => tracing::debug!("no banner: {}", failure.text),
    }
}

fn line(rows: &[JobRow]) -> Option<String> {
    let ids: Vec<_> = rows.iter().filter(|row| row.attention).map(|row| row.id.as_str()).collect();
    let first = ids.first()?;
    let (count, verb) = if ids.len() == 1 { ("1 job", "needs") } else { (&*format!("{} jobs", ids.len()), "need") };
    let more = if ids.len() > NAMED_MAX { ", …" } else { "" };
    let named = ids[..ids.len().min(NAMED_MAX)].join(", ");
    Some(format!("ukai: {count} {verb} attention ({named}{more}); type: ukai show {first}"))
}

#[cfg(test)]
mod tests {
    use ukai_protocol::id::JobId;
    use ukai_protocol::job::{JobStatus, Used};

    use super::*;

    #[test]
    fn the_banner_counts_and_says_what_to_type() {
        let row = |number: u8, attention| JobRow {
            id: JobId::from_random([0, 0, 0, 0, number]),
            name: String::new(),
            batch: None,
            status: JobStatus::Aborted,
            outcome: None,
            attention,
            used: Used::default(),
            restarts: 0,
            provider: None,
            note: String::new(),
        };
        assert_eq!(line(&[row(0, false)]), None);
        let one = "ukai: 1 job needs attention (j-aaaaaaab); type: ukai show j-aaaaaaab";
        assert_eq!(line(&[row(0, false), row(1, true)]).as_deref(), Some(one));
        let many = "ukai: 4 jobs need attention (j-aaaaaaaa, j-aaaaaaab, j-aaaaaaac, …); type: ukai show j-aaaaaaaa";
        assert_eq!(line(&[row(0, true), row(1, true), row(2, true), row(3, true)]).as_deref(), Some(many));
    }
}
