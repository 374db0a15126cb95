//! The one thing that this bench makes: a table, for a terminal or for a page.

use crate::stats::short;

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub figure: String,
    pub ours: String,
    pub floor: String,
    pub ratio: String,
    pub aim: String,
    pub verdict: &'static str,
    pub spread: String,
}

impl Line {
    #[must_use]
    pub fn new(figure: impl Into<String>) -> Line {
        Line { figure: figure.into(), ..Line::default() }
    }

    #[must_use]
    pub fn ours(mut self, value: f64, unit: &str) -> Line {
        self.ours = format!("{} {unit}", short(value));
        self
    }

    #[must_use]
    pub fn floor(mut self, value: f64, unit: &str) -> Line {
        self.floor = format!("{} {unit}", short(value));
        self
    }

    /// To the floor; an aim is one for it.
    #[must_use]
    pub fn ratio(mut self, ratio: f64, aim: Option<Aim>) -> Line {
        self.ratio = format!("{ratio:.2} ×");
        match aim {
            Some(aim) => self.judged(ratio, aim, "×"),
            None => self,
        }
    }

    /// An aim for a value of this line.
    #[must_use]
    pub fn judged(mut self, value: f64, aim: Aim, unit: &str) -> Line {
        let (sign, bound, met) = match aim {
            Aim::AtMost(bound) => ("≤", bound, value <= bound),
            Aim::AtLeast(bound) => ("≥", bound, value >= bound),
        };
        self.aim = format!("{sign} {bound} {unit}");
        self.verdict = if met { "met" } else { "missed" };
        self
    }

    #[must_use]
    pub fn spread(mut self, text: impl Into<String>) -> Line {
        self.spread = text.into();
        self
    }

    fn cells(&self) -> [&str; 7] {
        [&self.figure, &self.ours, &self.floor, &self.ratio, &self.aim, self.verdict, &self.spread]
    }
}

const HEAD: [&str; 7] = ["figure", "ours", "floor", "ratio", "aim", "", "spread, notes"];

#[must_use]
pub fn plain(lines: &[Line]) -> String {
    let rows: Vec<[&str; 7]> = std::iter::once(HEAD).chain(lines.iter().map(Line::cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let row = |cells: &[&str; 7]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ") + "\n";
    let body: String = rows[1..].iter().map(row).collect();
    row(&rows[0]) + &rule + &body
}

#[must_use]
pub fn markdown(lines: &[Line]) -> String {
    let row = |cells: &[&str; 7]| format!("| {} |\n", cells.join(" | "));
    let body: String = lines.iter().map(|line| row(&line.cells())).collect();
    row(&HEAD) + "| --- | --- | --- | --- | --- | --- | --- |\n" + &body
}
