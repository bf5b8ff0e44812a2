//! Runs a program to its end and says what it cost. Used by the benchmarks that compare programs.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often the memory of a running program is looked at: the kernel keeps the most, but only until the end.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The kernel tells processor time in these.
const TICKS_PER_SEC: f64 = 100.0;

/// What a run of a program cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) wall_s: f64,
    /// In the program and in the kernel for it.
    pub(crate) cpu_s: f64,
    pub(crate) peak_mb: f64,
}

impl Run {
    pub(crate) fn medians(runs: &[Self]) -> Self {
        let of = |get: fn(&Self) -> f64| median(&runs.iter().map(get).collect::<Vec<_>>());
        Self { wall_s: of(|run| run.wall_s), cpu_s: of(|run| run.cpu_s), peak_mb: of(|run| run.peak_mb) }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s/{:.2}s/{:.1}", self.wall_s, self.cpu_s, self.peak_mb)
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs a program to its end, which must be a good one.
pub(crate) fn run(mut command: Command) -> Run {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let id = child.id();
    let is_over = AtomicBool::new(false);
    let (wall_s, peak_kb) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak_kb = 0;
            while !is_over.load(Ordering::Relaxed) {
                peak_kb = peak_kb.max(peak(id).unwrap_or(0));
                std::thread::sleep(LOOK_EVERY);
            }
            peak_kb
        });
        // It stays a zombie, whose account is still there to be read.
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let wall_s = begun.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        (wall_s, watching.join().unwrap())
    });
    let cpu_s = cpu(id);
    let status = child.wait().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    Run { wall_s, cpu_s, peak_mb: peak_kb as f64 * 1024.0 / 1e6 }
}

fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in brackets, may contain anything; behind it the twelfth and thirteenth are the ticks.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap();
    (ticks(11) + ticks(12)) / TICKS_PER_SEC
}
