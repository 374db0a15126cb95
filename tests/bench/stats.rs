//! Medians and spreads: what stands in the table of many measurements.
//!
//! Medians, since a neighbour's burst of work moves a mean as far as it likes; the spread beside them, since a median
//! alone does not tell whether it would come out again.

use std::time::Duration;

/// Measurements of one thing, in one unit.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// In milliseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(ms(time));
    }

    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Of the nearest rank.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().expect("something was measured")
    }

    #[must_use]
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum() / self.0.len() as f64
    }

    /// The middle half and how many there are: `0.91–1.02 of 25`.
    #[must_use]
    pub fn spread(&self) -> String {
        format!("{}–{} of {}", short(self.quantile(0.25)), short(self.quantile(0.75)), self.0.len())
    }
}

impl Extend<f64> for Sample {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Sample(values.into_iter().collect())
    }
}

#[must_use]
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Three digits, as many as are to be believed.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
