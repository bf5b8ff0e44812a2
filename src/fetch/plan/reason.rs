//! Why a budget is another one now, in words and numbers. Used by the budgets alone.

use std::fmt;
use std::time::Duration;

/// The budget is another one now: `budget 8 MB → 16 MB: token returns every 41 s, was 18 s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What a slot was to bring, in bytes.
    pub from: u64,
    /// What it is to bring now.
    pub to: u64,
    /// What made the difference.
    pub reason: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budget {} → {}: {}", in_bytes(self.from), in_bytes(self.to), self.reason)
    }
}

/// What a budget follows from. Only what counts for it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Causes {
    pub(super) interval: Option<Duration>,
    /// In bytes per second.
    pub(super) stream: Option<u64>,
    /// In bytes.
    pub(super) backlog: Option<u64>,
    /// In bytes per second.
    pub(super) limit: Option<u64>,
    pub(super) slot: Option<Duration>,
    /// In bytes per second.
    pub(super) throughput: Option<u64>,
}

/// What stands before the number, the number now and then, and how to write it.
type Candidate = (&'static str, Option<f64>, Option<f64>, fn(f64) -> String);

impl Causes {
    /// The cause that differs most from then; one that was unknown then differs most of all.
    pub(super) fn reason(&self, then: &Self) -> String {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let number = |number: Option<u64>| number.map(|number| number as f64);
        let candidates: [Candidate; 6] = [
            ("token returns every", seconds(self.interval), seconds(then.interval), in_seconds),
            ("limit", number(self.limit), number(then.limit), in_bytes_per_sec),
            ("stream", number(self.stream), number(then.stream), in_bytes_per_sec),
            ("backlog", number(self.backlog), number(then.backlog), to_bytes),
            ("throughput", number(self.throughput), number(then.throughput), in_bytes_per_sec),
            ("slot", seconds(self.slot), seconds(then.slot), in_seconds),
        ];
        let weight = |now: f64, then: Option<f64>| {
            then.map_or(f64::INFINITY, |then| (f64::max(now, 1e-9) / f64::max(then, 1e-9)).ln().abs())
        };
        let known =
            candidates.into_iter().filter_map(|(name, now, then, write)| Some((name, now?, then, write)));
        // Of equals the last one wins, and the first is the one that people should read.
        let most = known.rev().max_by(|a, b| weight(a.1, a.2).total_cmp(&weight(b.1, b.2)));
        most.map_or_else(String::new, |(name, now, then, write)| match then {
            Some(then) => format!("{name} {}, was {}", write(now), write(then)),
            None => format!("{name} {}", write(now)),
        })
    }
}

fn in_seconds(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0} s") } else { format!("{value:.1} s") }
}

fn in_bytes_per_sec(value: f64) -> String {
    format!("{}/s", to_bytes(value))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn to_bytes(value: f64) -> String {
    in_bytes(value as u64)
}

/// A size in decimal units, as the advice of the circle's load has them: `41 MB`, `6.5 MB`, `650 KB`.
pub fn in_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    for (unit, factor) in [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)] {
        if value >= 0.9995 * factor {
            let value = value / factor;
            let digits = usize::from(value < 9.95 && (value - value.round()).abs() >= 0.05);
            return format!("{value:.digits$} {unit}");
        }
    }
    format!("{bytes} B")
}
