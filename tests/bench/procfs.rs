//! What `/proc` says of processes and of the machine: times in seconds, sizes in megabytes (10⁶ bytes).

use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// `USER_HZ`: what `/proc` counts processor time in, on every architecture of today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of one process, in seconds: user and system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub own: f64,
    /// Of its children that have ended and were waited for, and of theirs.
    pub reaped: f64,
}

impl Cpu {
    #[must_use]
    pub fn of(pid: u32) -> Cpu {
        let fields = stat(pid).unwrap_or_else(|| panic!("process {pid} is gone"));
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).expect("a count of ticks");
        // proc(5): utime is field 14, and `stat` begins with field 3.
        Cpu { own: (ticks(11) + ticks(12)) / TICKS_PER_SECOND, reaped: (ticks(13) + ticks(14)) / TICKS_PER_SECOND }
    }

    #[must_use]
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { own: self.own - before.own, reaped: self.reaped - before.reaped }
    }
}

/// Processor time of this process alone.
#[must_use]
pub fn own_cpu() -> Duration {
    usage(UsageWho::RUSAGE_SELF)
}

/// Processor time of this process and of all below it that have ended.
#[must_use]
pub fn own_and_reaped_cpu() -> f64 {
    (usage(UsageWho::RUSAGE_SELF) + usage(UsageWho::RUSAGE_CHILDREN)).as_secs_f64()
}

fn usage(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("the kernel tells a process its own usage");
    let part = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(time.tv_sec().unsigned_abs()) + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    part(usage.user_time()) + part(usage.system_time())
}

/// The live workers below a server.
#[must_use]
pub fn workers(server: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = server.to_string();
    let is_worker = |pid: &u32| {
        let child =
            stat(*pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z") && fields[1] == parent);
        let job =
            || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.windows(5).any(|w| w == b"\0job\0"));
        child && job()
    };
    pids.filter(is_worker).collect()
}

/// From field 3 (the state) on: the name before it may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.get(text.rfind(')')? + 2..)?.split_whitespace().map(str::to_owned).collect())
}

#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What is its own, and its share of what it shares.
    pub pss: f64,
    pub private: f64,
}

/// `None` where the kernel does not say: ukai's processes are not dumpable, so that only root may look.
#[must_use]
pub fn memory(pid: u32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let megabytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0 / 1e6)
    };
    Some(Memory { pss: megabytes("Pss:")?, private: megabytes("Private_Clean:")? + megabytes("Private_Dirty:")? })
}

/// What all processors together have done since the machine started, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub busy: f64,
    /// Wanted, and taken by the machine's host for others.
    pub steal: f64,
}

impl Machine {
    #[must_use]
    pub fn now() -> Machine {
        let text = fs::read_to_string("/proc/stat").expect("/proc/stat is there");
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0.0) / TICKS_PER_SECOND;
        // user, nice, system, (idle, iowait,) irq, softirq, steal
        Machine { busy: at(0) + at(1) + at(2) + at(5) + at(6), steal: at(7) }
    }
}

/// Seconds for which something runnable had to wait for a processor; `None` where the kernel does not count it.
#[must_use]
pub fn pressure() -> Option<f64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().next()?.rsplit_once("total=")?.1;
    Some(total.trim().parse::<f64>().ok()? / 1e6)
}

#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
