//! Why the chunk is another one now, in words and numbers. Used by the planner alone.

use std::fmt;
use std::time::Duration;

use crate::base::units::brief_size;

/// The chunk is another one now: `chunk 8M→4M: return time 41 s, twice the 18 s before`.
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
        write!(f, "chunk {}→{}: {}", brief_size(self.from), brief_size(self.to), self.reason)
    }
}

/// What a chunk followed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Causes {
    pub(super) return_time: Option<Duration>,
    /// The stream's rate, in bytes per second.
    pub(super) stream: Option<f64>,
    pub(super) slot: Duration,
    /// In bytes per second.
    pub(super) throughput: f64,
}

/// A name, now and then, and how to write it.
type Candidate = (&'static str, Option<(f64, f64)>, fn(f64) -> String);

impl Causes {
    /// The cause that differs most from then.
    pub(super) fn reason(&self, then: &Self) -> String {
        let seconds = |time: Duration| time.as_secs_f64();
        let both = |now: Option<f64>, then: Option<f64>| now.zip(then);
        let candidates: [Candidate; 4] = [
            ("return time", both(self.return_time.map(seconds), then.return_time.map(seconds)), in_seconds),
            ("stream", both(self.stream, then.stream), in_bytes_per_sec),
            ("throughput", Some((self.throughput, then.throughput)), in_bytes_per_sec),
            ("slot", Some((seconds(self.slot), seconds(then.slot))), in_seconds),
        ];
        let weight = |(now, then): (f64, f64)| (f64::max(now, 1e-9) / f64::max(then, 1e-9)).ln().abs();
        let most = candidates
            .iter()
            .filter_map(|(name, values, format)| values.map(|values| (name, values, format)))
            .max_by(|a, b| weight(a.1).total_cmp(&weight(b.1)));
        most.map_or_else(String::new, |(name, (now, then), format)| {
            format!(
                "{name} {}, {} the {} before",
                format(now),
                times(now / f64::max(then, 1e-9)),
                format(then)
            )
        })
    }
}

fn in_seconds(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0} s") } else { format!("{value:.1} s") }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn in_bytes_per_sec(value: f64) -> String {
    format!("{}/s", brief_size(value as u64))
}

fn times(ratio: f64) -> String {
    match ratio {
        0.43..0.57 => "half".to_owned(),
        1.75..2.35 => "twice".to_owned(),
        _ => format!("{ratio:.1} times"),
    }
}
