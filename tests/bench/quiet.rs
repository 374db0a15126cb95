//! Whether the machine was ours alone while something was measured.
//!
//! What the processors did, less what this bench and all that it started did, is what others did. Where that or the
//! host's share is more than a little, the figures say so: they are then of a machine that had less to give.

use std::time::Instant;

use crate::procfs::{self, Machine};

/// Kernel threads and interrupts on behalf of our own disk and sockets are counted as others'; they stay below this.
const OTHERS_MAX: f64 = 0.08;
const STEAL_MAX: f64 = 0.01;

pub struct Watch {
    begun: Instant,
    machine: Machine,
    ours: f64,
    pressure: Option<f64>,
}

/// Shares of all processors together, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub ours: f64,
    pub others: f64,
    pub steal: f64,
    /// Share of the time in which something runnable, ours included, waited for a processor.
    pub pressure: Option<f64>,
}

impl Watch {
    #[must_use]
    pub fn begin() -> Watch {
        Watch {
            begun: Instant::now(),
            machine: Machine::now(),
            ours: procfs::own_and_reaped_cpu(),
            pressure: procfs::pressure(),
        }
    }

    /// To be asked when all that was started has ended and was waited for.
    #[must_use]
    pub fn end(self) -> Noise {
        let elapsed = self.begun.elapsed().as_secs_f64().max(1e-3);
        let all = elapsed * procfs::cores() as f64;
        let now = Machine::now();
        let ours = procfs::own_and_reaped_cpu() - self.ours;
        Noise {
            ours: ours / all,
            others: ((now.busy - self.machine.busy - ours) / all).max(0.0),
            steal: (now.steal - self.machine.steal) / all,
            pressure: self.pressure.zip(procfs::pressure()).map(|(before, after)| (after - before) / elapsed),
        }
    }
}

impl Noise {
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.others <= OTHERS_MAX && self.steal <= STEAL_MAX
    }

    #[must_use]
    pub fn say(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let pressure = self.pressure.map_or_else(|| "not counted".to_owned(), percent);
        format!(
            "of the processors: ours {}, others {}, the host {}; something waited for one {pressure} of the time",
            percent(self.ours),
            percent(self.others),
            percent(self.steal),
        )
    }
}
