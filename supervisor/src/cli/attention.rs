//! The banner: one line on stderr of every verb while something waits for a person to see it (spec §10).

use std::collections::BTreeSet;

use ukai_protocol::command::command;
use ukai_protocol::control::{Request, Response, ToSee};

use super::client::{Client, unexpected};
use super::context::Context;
use super::failure::Failure;
use super::{demo, offline as logs, print};
use crate::store::server_log;

/// Ids that the line names; more are counted.
const NAMED_MAX: usize = 3;

/// A banner is no reason for a verb to fail: what keeps it from being known keeps the verb from working too, and is
/// told there.
pub(crate) async fn banner(context: &Context) {
    if one_line(context).await && demo::is_of_one(&context.state) {
        print::note(&format!("ukai: {}", demo::goes_on()));
    }
}

/// The line alone. Whether there was one.
pub(crate) async fn one_line(context: &Context) -> bool {
    match asked(context).await {
        Ok((first, count, asks)) => {
            let seen = line(&first, count);
            // One line, whatever it is about.
            let all: Vec<_> = waiting(&asks).into_iter().chain(seen.clone()).collect();
            if !all.is_empty() {
                print::note(&format!("ukai: {}", all.join("; and ")));
            }
            seen.is_some()
        }
        Err(failure) => {
            tracing::debug!("no banner: {}", failure.text);
            false
        }
    }
}

type Asks = (Vec<String>, u64);

async fn asked(context: &Context) -> Result<(Vec<ToSee>, u64, Asks), Failure> {
    let Some(client) = Client::connect(context).await? else {
        let to_see = offline(context)?;
        let count = to_see.len() as u64;
        return Ok((to_see, count, Asks::default()));
    };
    match client.ask(&Request::Attention).await? {
        Response::Attention { first, count, asks } => Ok((first, count, asks)),
        other => Err(unexpected(&other)),
    }
}

/// What the logs say, where no server listens: jobs in the order of submission, then what is no job's.
pub(crate) fn offline(context: &Context) -> Result<Vec<ToSee>, Failure> {
    let rows = logs::rows(&context.state)?;
    let jobs = rows.into_iter().filter(|row| row.attention).map(|row| {
        let why = super::table::why(&row);
        ToSee {
            subject: row.id.into(),
            why: if why.is_empty() { "it was marked for a person".to_owned() } else { why },
        }
    });
    let mut to_see: Vec<_> = jobs.collect();
    let known: BTreeSet<_> = to_see.iter().map(|to_see| to_see.subject.clone()).collect();
    let (state, _) = server_log::read(&context.state, |_| {})?;
    let others = state.attention().into_iter().filter(|(subject, _)| !known.contains(subject));
    to_see.extend(others.map(|(subject, why)| ToSee { subject, why }));
    Ok(to_see)
}

/// What waits for you: it is answered, not acked.
fn waiting((first, count): &Asks) -> Option<String> {
    let ask = first.first()?;
    let (approve, deny) = (command(&["approve", ask]), command(&["deny", ask]));
    let what = if *count == 1 { "1 call waits".to_owned() } else { format!("{count} calls wait") };
    Some(format!("{what} for you ({ask}{}); type: {approve} or {deny}", if *count > 1 { ", …" } else { "" }))
}

fn line(first: &[ToSee], count: u64) -> Option<String> {
    let subject = &first.first()?.subject;
    let is_job = |subject: &str| subject.starts_with("j-");
    let what = match (first.iter().all(|to_see| is_job(&to_see.subject)), count) {
        (true, 1) => "1 job needs attention".to_owned(),
        (true, count) => format!("{count} jobs need attention"),
        (false, 1) => "1 thing needs attention".to_owned(),
        (false, count) => format!("{count} things need attention"),
    };
    let more = if count > NAMED_MAX as u64 { ", …" } else { "" };
    let named: Vec<_> = first.iter().take(NAMED_MAX).map(|to_see| to_see.subject.as_str()).collect();
    let ack = command(&["ack", subject]);
    let next = match is_job(subject) {
        true => format!("{}; when seen: {ack}", command(&["show", subject])),
        false => format!("{}; when seen: {ack}", print::brief(&first[0].why, WHY_CHARS_MAX)),
    };
    let next = if is_job(subject) { format!("; type: {next}") } else { format!(": {next}") };
    Some(format!("{what} ({}{more}){next}", named.join(", ")))
}

/// Of a reason that names a sink, its answer and what to do.
const WHY_CHARS_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_answered_by_what_the_banner_says() {
        let said = |count| waiting(&(vec!["j-aaaaaaaa/c1".to_owned()], count));
        assert_eq!(waiting(&Asks::default()), None);
        let type_it = "type: ukai approve j-aaaaaaaa/c1 or ukai deny j-aaaaaaaa/c1";
        assert_eq!(said(1), Some(format!("1 call waits for you (j-aaaaaaaa/c1); {type_it}")));
        assert_eq!(said(7), Some(format!("7 calls wait for you (j-aaaaaaaa/c1, …); {type_it}")));
    }

    #[test]
    fn the_banner_counts_and_says_what_to_type() {
        let all = ["j-aaaaaaaa", "j-aaaaaaab", "j-aaaaaaac", "j-aaaaaaad"];
        let to_see = |subject: &&str| ToSee { subject: (*subject).to_owned(), why: "it failed".to_owned() };
        let said = |subjects: &[&str], count| line(&subjects.iter().map(to_see).collect::<Vec<_>>(), count);
        assert_eq!(said(&[], 0), None);
        for (subjects, count, expected) in [
            (
                &all[..1],
                1,
                "1 job needs attention (j-aaaaaaaa); type: ukai show j-aaaaaaaa; when seen: ukai ack j-aaaaaaaa",
            ),
            (
                &all[..],
                40,
                "40 jobs need attention (j-aaaaaaaa, j-aaaaaaab, j-aaaaaaac, …); type: ukai show j-aaaaaaaa; when \
                 seen: ukai ack j-aaaaaaaa",
            ),
            (&["alerts"], 1, "1 thing needs attention (alerts): it failed; when seen: ukai ack alerts"),
        ] {
            assert_eq!(said(subjects, count).as_deref(), Some(expected));
        }
    }
}
