//! `ukai report`: six figures of a period against the one before, and a Go/No-Go page. Reads logs only, with a server and
//! without.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};
use ukai_protocol::disk;
use ukai_protocol::event::Event;

use super::context::Context;
use super::failure::Failure;
use super::{Output, offline, print, table};
use crate::report::period::{Periods, Typed};
use crate::report::{Ends, Figures, MEASURES, Verdict, page};
use crate::store::{event_log, server_log};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long a period is
    #[arg(long, value_name = "TIME", default_value = "168h", conflicts_with = "since")]
    period: String,
    /// Where it begins instead, for instance 2026-11-23 (the beginning of that day, UTC) or 2026-11-23T08:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Where it ends, for instance 2026-11-30 (the end of that day, UTC) or 2026-11-30T08:00:00Z [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Write the Go/No-Go page, in Markdown, to this file; `-`: to stdout
    #[arg(long, value_name = "FILE")]
    go_no_go: Option<PathBuf>,
}

pub(crate) fn report(context: &Context, args: &Args) -> Result<u8, Failure> {
    let Args { period, since, until, .. } = args;
    let typed = Typed { period, since: since.as_deref(), until: until.as_deref() };
    let periods = typed.periods(SystemTime::now()).map_err(Failure::usage)?;
    let (now, then) = count(context, &periods)?;
    let [before, from, until] = periods.shown();
    let (period, earlier) = (format!("{from} to {until}"), format!("{before} to {from}"));
    if let Some(file) = &args.go_no_go {
        let page = page::page(&now, &then, &period, &earlier);
        if file.as_os_str() == "-" {
            print::out(&page);
            return Ok(0);
        }
        let file = context.current_folder.join(file);
        // It is replaced as a whole, and a device, a FIFO or a link is not ours to replace.
        let found = std::fs::symlink_metadata(&file);
        let stood = found.is_ok();
        if found.is_ok_and(|found| !found.is_file()) {
            let file = file.display();
            return Err(Failure::usage(format!(
                "writing the page to {file}: it is no regular file; name another, or - for stdout"
            )));
        }
        disk::write_atomic(&file, page.as_bytes()).map_err(|error| {
            Failure::failed(format!("writing the page to {}: {error}; name another file", file.display()))
        })?;
        let replaced = if stood { ", in place of the file that stood there" } else { "" };
        print::note(&format!("ukai: the page is written to {}{replaced}", file.display()));
    }
    print::out(&match context.output {
        Output::Text => text(&now, &then, &period, &earlier),
        Output::Json | Output::StreamJson => format!("{}\n", line(&now, &then, [&before, &from, &until])),
    });
    Ok(0)
}

/// A log that is damaged hides none of the others, and what verifies of it counts.
fn count(context: &Context, periods: &Periods) -> Result<(Figures, Figures), Failure> {
    let (mut now, mut then) = (Figures::default(), Figures::default());
    let state = &context.state;
    let (_, damage) = server_log::read(state, |record| {
        if let Some(figures) = of(periods, &record.at, &mut now, &mut then) {
            figures.add_server(&record.event);
        }
    })?;
    if let Some(why) = damage {
        print::note(&format!("ukai: {}: {why}; what stands before it is counted", state.supervisor_events().display()));
    }
    for id in offline::ids(state)? {
        let log = state.run(&id).log();
        // Nothing of these periods was recorded after it was last written to.
        let modified = std::fs::metadata(&log).and_then(|found| found.modified());
        if modified.is_ok_and(|at| at < periods.before) {
            continue;
        }
        // One that is gone, or no regular file, is told of where its job is.
        let Ok(file) = disk::open_read(&log) else { continue };
        let (mut reader, mut line, mut seq) = (BufReader::new(file), Vec::new(), 0);
        let (mut ends_now, mut ends_then) = (Ends::default(), Ends::default());
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => seq += 1,
                Err(error) => {
                    print::note(&format!("ukai: reading {}: {error}; the rest of it is not counted", log.display()));
                    break;
                }
            }
            match event_log::decode::<Event>(line.trim_ascii_end(), seq) {
                Ok(record) => {
                    let (now, then) = ((&mut now, &mut ends_now), (&mut then, &mut ends_then));
                    if let Some((figures, ends)) = of(periods, &record.at, now, then) {
                        figures.add(&record.event);
                        ends.add(&record.event);
                    }
                }
                // Being written just now.
                Err(_) if !line.ends_with(b"\n") => break,
                Err(damage) => {
                    print::note(&format!(
                        "ukai: {}: record {seq}: {damage}; the rest of it is not counted",
                        log.display()
                    ));
                    break;
                }
            }
        }
        ends_now.count(&mut now);
        ends_then.count(&mut then);
    }
    Ok((now, then))
}

/// What of the two it is of.
fn of<T>(periods: &Periods, at: &str, now: T, then: T) -> Option<T> {
    let at = server_log::time(at)?;
    if (periods.from..periods.until).contains(&at) {
        Some(now)
    } else if (periods.before..periods.from).contains(&at) {
        Some(then)
    } else {
        None
    }
}

fn text(now: &Figures, then: &Figures, period: &str, earlier: &str) -> String {
    let (values, before) = (now.values(), then.values());
    let mut rows = vec![["FIGURE", "UNIT", "BEFORE", "PERIOD", "CHANGE"].map(str::to_owned)];
    rows.extend(MEASURES.into_iter().enumerate().map(|(place, (name, unit, _))| {
        let change = page::change(before[place], values[place]);
        [name.to_owned(), unit.to_owned(), page::value(before[place]), page::value(values[place]), change]
    }));
    let mut text = format!("{period}, against {earlier}\n\n{}", table::columns(&rows));
    text.push_str("\nno questions were asked: this version asks none\n");
    for (cause, count) in &now.aborts {
        text.push_str(&format!("aborted: {cause}: {count}\n"));
    }
    text
}

fn line(now: &Figures, then: &Figures, [before, from, until]: [&str; 3]) -> Value {
    let figures = |figures: &Figures| {
        json!({
            "requests": figures.requests, "rate_limited": figures.limited,
            "breaker": {"open": figures.opened, "half_open": figures.half_opened, "closed": figures.closed},
            "ask_response_s": null,
            "ended": figures.ended, "completed": figures.completed, "aborted": figures.aborted(),
            "checkpoints_failed": figures.checkpoints_failed, "quarantined": figures.quarantined, "aborts": figures.aborts,
            "tokens": {"input": figures.input_tokens, "output": figures.output_tokens},
        })
    };
    let verdicts = MEASURES.into_iter().zip(now.values()).map(|((name, unit, reference), value)| {
        json!({"figure": name, "unit": unit, "value": value, "reference": reference, "verdict": Verdict::of(value, reference).word()})
    });
    json!({
        "type": "report", "from": from, "until": until, "before_from": before,
        "period": figures(now), "before": figures(then), "measures": verdicts.collect::<Vec<_>>(),
    })
}
