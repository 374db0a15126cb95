//! The Go/No-Go page: Markdown, to be put beside the decision that it is for.

#![deny(clippy::disallowed_methods)]

use super::{Figures, MEASURES, Verdict};

/// `period` and `before` name their bounds.
#[must_use]
pub fn page(now: &Figures, then: &Figures, period: &str, before: &str) -> String {
    let (values, earlier) = (now.values(), then.values());
    let mut page = format!(
        "# Go / No-Go: is more safety work worth building?\n\n**Go**: a figure stands above its reference value, so that building \
         more protection into ukai (routes, breakers, checkpoints, questions to a person) is worth it. **No-Go**: none does, and \
         what there is protects enough. Neither says that your jobs may or may not run. The reference values are ukai's own: no \
         standard, a proposal that is corrected as it is used.\n\nPeriod: {period}  \nBefore: {before}\n\n\
         | Figure | Unit | Before | Period | Change | Reference | Verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    );
    let mut speaking = Vec::new();
    for (place, (name, unit, reference)) in MEASURES.into_iter().enumerate() {
        let verdict = Verdict::of(values[place], reference);
        if verdict == Verdict::Go {
            speaking.push(name);
        }
        page.push_str(&format!(
            "| {name} | {unit} | {} | {} | {} | > {reference} | {} |\n",
            value(earlier[place]),
            value(values[place]),
            change(earlier[place], values[place]),
            verdict.word()
        ));
    }
    page.push_str("\n## Verdict\n\n");
    page.push_str(&match speaking.as_slice() {
        [] if now.ended == 0 => "**No data**: no job ended in the period.\n".to_owned(),
        [] => "**No-Go**: no figure is above its reference value.\n".to_owned(),
        names => format!("**Go**: above their reference values: {}.\n", names.join(", ")),
    });
    page.push_str(&format!(
        "\n## What it was counted from\n\n- {} requests, {} of them answered 429\n- breakers: {} opened, {} half-opened, \
         {} closed\n- no questions were asked: this version asks none\n- {} jobs ended, {} completed, {} aborted\n- tokens: \
         {} in, {} out\n",
        now.requests,
        now.limited,
        now.opened,
        now.half_opened,
        now.closed,
        now.ended,
        now.completed,
        now.aborted(),
        now.input_tokens,
        now.output_tokens
    ));
    for (cause, count) in &now.aborts {
        page.push_str(&format!("- aborted: {cause}: {count}\n"));
    }
    page
}

#[must_use]
pub fn value(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// Of a figure that was nothing there is no rate.
#[must_use]
pub fn change(before: Option<f64>, now: Option<f64>) -> String {
    match (before, now) {
        (Some(before), Some(now)) if before == now => "0 %".to_owned(),
        (Some(before), Some(now)) if before > 0.0 => format!("{:+.0} %", (now - before) * 100.0 / before),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_each_figure_the_one_before_and_the_verdict() {
        let now = Figures { requests: 10, limited: 2, ended: 4, completed: 4, input_tokens: 400, ..Figures::default() };
        let then =
            Figures { requests: 10, limited: 1, ended: 1, completed: 1, input_tokens: 100, ..Figures::default() };
        let page = page(&now, &then, "a to b", "z to a");
        for line in [
            "| 429 frequency | % of requests | 10 | 20 | +100 % | > 5 | Go |",
            "| breaker transitions | in the period | 0 | 0 | 0 % | > 20 | No-Go |",
            "| ask response time | s, median | – | – | – | > 300 | no data |",
            "| tokens | per completed job | 100 | 100 | 0 % | > 250000 | No-Go |",
            "**Go**: above their reference values: 429 frequency.",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        let first: String = page.lines().take(3).collect();
        for part in ["**Go**: a figure stands above", "**No-Go**: none does", "reference values are ukai's own"] {
            assert!(first.contains(part), "{part} in {first}");
        }
        let empty = Figures::default();
        assert!(super::page(&empty, &empty, "a", "b").contains("**No data**"));
    }

    #[test]
    fn a_change_from_nothing_is_no_rate() {
        for (before, now, expected) in [
            (None, Some(1.0), "–"),
            (Some(0.0), Some(1.0), "–"),
            (Some(2.0), Some(1.0), "-50 %"),
            (Some(2.0), None, "–"),
        ] {
            assert_eq!(change(before, now), expected);
        }
    }
}
