//! What a member's own visits tell about the circle: return times, access intervals, the load factor, and the verdict.
//!
//! The load factor is demand over capacity; above 1 there are more members with work than the circle was laid out for. With a
//! token it is the mean access interval divided by the nominal period Δ_op·N_max, and no more than all known members can
//! want; with tickets it is the members that use or want a ticket divided by the tickets. Everything is measured over the
//! most recent visits only, so that it follows a circle that grows or shrinks.
//!
//! [`Load`] is the machine that a node (or a simulated member) runs. Its [`verdict`](Load::verdict) is reached in `verdict.rs`
//! for a token and in `ring.rs` for tickets, and [`retention`] tells whether a job loses data by it.

mod evidence;
mod level;
pub mod retention;
mod ring;
#[cfg(test)]
mod situations;
mod verdict;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::Time;

pub use level::{Level, Verdict};
pub use ring::RingView;
pub use window::{RECENT, Recent, Summary, WINDOW};

use ring::RingJudge;
use verdict::Judge;
use window::Window;

/// Of how many slots the bytes are remembered. A slot in which there was little to pull tells nothing of what one can
/// carry, so the best of them counts.
const CARRIED: usize = 8;

/// What happens to the meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A token visited this member.
    Visited,
    /// A slot of this member began.
    SlotBegan,
    /// Whether there is something to pull. A member that has nothing to pull does not wait, whatever time passes.
    Work(bool),
    /// Another member answered how long ago its last slot began, and whether it has something to pull.
    Heard {
        /// How long; `None` if it never had a slot.
        waited: Option<Duration>,
        /// Whether it waits at all.
        has_work: bool,
    },
    /// How many members can want slots.
    Demand {
        /// This one included; `None` if not all members are known.
        members: Option<usize>,
        /// For how many the circle was laid out.
        capacity: u32,
    },
    /// The ring of tickets, in a circle that has one. From then on the verdict is about that.
    Ring(RingView),
    /// A slot is over, and the jobs got so many bytes.
    Carried {
        /// How many.
        bytes: u64,
    },
    /// Nobody listened for a while: the silence proves nothing.
    Stalled,
    /// Time has passed.
    Wake,
}

/// What the meter wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask so many members how long they have waited: their answers decide.
    Ask {
        /// How many.
        count: usize,
    },
    /// The verdict is another one.
    Changed(Level),
}

/// The rate that a member can sustain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// In bytes per second.
    pub bytes_per_sec: f64,
    /// By how much that is less than in a circle that is exactly full: 0 to 1.
    pub less: f64,
}

impl std::fmt::Display for Advice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.bytes_per_sec;
        out.write_str("this circle can carry ")?;
        match rate {
            rate if rate >= 9.995e8 => write!(out, "{:.2} GB/s", rate / 1e9)?,
            rate if rate >= 9.995e5 => write!(out, "{:.2} MB/s", rate / 1e6)?,
            rate if rate >= 9.995e2 => write!(out, "{:.0} KB/s", rate / 1e3)?,
            rate => write!(out, "{rate:.0} B/s")?,
        }
        out.write_str(" per member now")?;
        if self.less >= 0.01 { write!(out, " ({:.0} % less)", self.less * 100.0) } else { Ok(()) }
    }
}

/// The meter of one member.
#[derive(Clone, Debug)]
pub struct Load {
    nominal_period: Duration,
    last_visit: Option<Time>,
    last_slot: Option<Time>,
    return_times: Window,
    access_intervals: Window,
    carried: VecDeque<u64>,
    judge: Judge,
    ring: Option<RingJudge>,
    has_work: bool,
    told: Level,
    told_since: Time,
    changed: Option<Level>,
}

impl Load {
    /// A member that has seen nothing yet, of a circle with this nominal period.
    pub fn new(nominal_period: Duration) -> Self {
        Self {
            nominal_period,
            last_visit: None,
            last_slot: None,
            return_times: Window::default(),
            access_intervals: Window::default(),
            carried: VecDeque::new(),
            judge: Judge::new(nominal_period),
            ring: None,
            has_work: false,
            told: Level::Nominal,
            told_since: Time::ZERO,
            changed: None,
        }
    }

    /// The same, for a member that starts at `now`.
    #[must_use]
    pub fn starting(mut self, now: Time) -> Self {
        self.judge = self.judge.starting(now);
        self.told_since = now;
        self
    }

    /// The circle has another nominal period. What was measured stays: it is the members' doing, not the charter's. The
    /// verdict is another question then, and begins anew.
    pub fn set_nominal_period(&mut self, nominal_period: Duration, now: Time) {
        if nominal_period != self.nominal_period {
            self.nominal_period = nominal_period;
            self.judge.set_nominal_period(nominal_period, now);
            self.tell(now);
        }
    }

    /// Takes in what happened at `now`.
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Visited => {
                if let Some(before) = self.last_visit.replace(now) {
                    self.return_times.push(now.since(before));
                }
            }
            Input::SlotBegan => {
                if let Some(before) = self.last_slot.replace(now) {
                    self.access_intervals.push(now.since(before));
                }
                self.judge.slot_began(now);
            }
            Input::Work(has_work) => {
                self.has_work = has_work;
                self.judge.work(has_work, now);
            }
            Input::Demand { members, capacity } => self.judge.demand(members, capacity),
            Input::Ring(view) => self.ring.get_or_insert_default().handle(view, self.has_work, now),
            Input::Heard { waited: Some(waited), has_work: true } => self.judge.heard(waited),
            Input::Heard { .. } | Input::Wake => {}
            Input::Carried { bytes } => {
                self.carried.truncate(CARRIED - 1);
                self.carried.push_front(bytes);
            }
            Input::Stalled => self.judge.stalled(now),
        }
        self.judge.decide(now);
        self.tell(now);
    }

    fn tell(&mut self, now: Time) {
        let level = self.ring.as_ref().map_or_else(|| self.judge.level(), RingJudge::level);
        if level != self.told {
            (self.told, self.told_since) = (level, now);
            self.changed = Some(level);
        }
    }

    /// What to do, until there is nothing left.
    pub fn poll_output(&mut self) -> Option<Output> {
        let asked = self.judge.poll_ask().map(|count| Output::Ask { count });
        asked.or_else(|| self.changed.take().map(Output::Changed))
    }

    /// When silence becomes evidence: then it must be woken. `None` if it waits for nothing.
    pub fn next_deadline(&self) -> Option<Time> {
        self.judge.next_deadline()
    }

    /// Whether the circle can bear its load, and why this member thinks so.
    pub fn verdict(&self, now: Time) -> Verdict {
        let (load, reason) = match &self.ring {
            Some(ring) => (ring.load(), ring.reason()),
            None => (self.judge.load(), self.judge.reason(now)),
        };
        Verdict { level: self.told, load, reason, since: self.told_since }
    }

    /// How the circle is, without the words.
    pub fn level(&self) -> Level {
        self.told
    }

    /// The stream rate that this member can sustain: what a slot carries over the access interval. `None` before it has
    /// pulled anything, or before anything is known of the interval.
    pub fn advice(&self) -> Option<Advice> {
        let bytes = self.carried.iter().copied().max().filter(|&bytes| bytes > 0)?;
        let interval = self.judge.interval()?.as_secs_f64().max(1e-3);
        let factor = interval / self.nominal_period.as_secs_f64().max(1e-3);
        Some(Advice { bytes_per_sec: bytes as f64 / interval, less: (1.0 - 1.0 / factor.max(1.0)) })
    }

    /// The times between two visits; `None` before the second visit.
    pub fn return_times(&self) -> Option<Summary> {
        self.return_times.summary()
    }

    /// The times between the beginnings of two slots; `None` before the second slot.
    pub fn access_intervals(&self) -> Option<Summary> {
        self.access_intervals.summary()
    }

    /// Mean access interval ÷ nominal period, over the last [`WINDOW`] intervals: for the simulator, whose members do not
    /// come and go. A member reports the load of its [`verdict`](Load::verdict).
    pub fn factor(&self) -> Option<f64> {
        let mean = self.access_intervals()?.mean;
        Some(mean.as_secs_f64() / self.nominal_period.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_slots_at(seconds: impl IntoIterator<Item = u64>) -> Load {
        let mut load = Load::new(Duration::from_secs(100));
        for second in seconds {
            load.handle(Input::SlotBegan, Time::from_secs(second));
        }
        load
    }

    #[test]
    fn before_the_second_slot_nothing_is_known() {
        assert_eq!(after_slots_at([]).factor(), None);
        assert_eq!(after_slots_at([5]).access_intervals(), None);
    }

    #[test]
    fn the_load_factor_is_the_mean_interval_over_the_nominal_period() {
        let load = after_slots_at((0..50).map(|n| n * 150));
        assert_eq!(load.factor(), Some(1.5));
        assert_eq!(load.return_times(), None, "slots are not visits");
    }

    #[test]
    fn percentiles_are_those_of_the_intervals() {
        let mut at = 0;
        let load = after_slots_at((0..=100).map(|n| {
            at += n;
            at
        }));
        let summary = load.access_intervals().unwrap();
        assert_eq!(summary.count, 100);
        assert_eq!(summary.mean, Duration::from_millis(50_500));
        assert_eq!(summary.p50, Duration::from_secs(50));
        assert_eq!(summary.p90, Duration::from_secs(90));
        assert_eq!(summary.p99, Duration::from_secs(99));
    }

    #[test]
    fn the_trend_tells_a_circle_that_fills_up() {
        let steady = after_slots_at((0..40).map(|n| n * 100));
        assert!((steady.access_intervals().unwrap().trend - 1.0).abs() < 1e-9);
        let doubled = after_slots_at((0..=20).map(|n| n * 100).chain((1..=20).map(|n| 2000 + n * 200)));
        assert!((doubled.access_intervals().unwrap().trend - 2.0).abs() < 1e-9);
    }

    #[test]
    fn it_looks_at_recent_intervals_only_and_stays_bounded() {
        let old = (0..1000).map(|n| n * 1000);
        let new = (1..=WINDOW as u64).map(|n| 999_000 + n * 10);
        let summary = after_slots_at(old.chain(new)).access_intervals().unwrap();
        assert_eq!(summary.count, WINDOW);
        assert_eq!(summary.mean, Duration::from_secs(10));
    }

    /// What the next interval is expected to be: a mean over up to 256 would take hours to follow.
    #[test]
    fn recent_intervals_follow_a_change_within_three() {
        let mut recent = Recent::default();
        assert_eq!(recent.mean(), None);
        let steady = (0..200).map(|n| n * 10);
        let doubled = (1..=3).map(|n| 1990 + n * 20);
        let summary = after_slots_at(steady.chain(doubled)).access_intervals().unwrap();
        assert_eq!(summary.recent, Duration::from_secs(20));
        assert!(summary.mean < Duration::from_secs(11));
        for (interval, mean) in [(10, 10), (10, 10), (10, 10), (40, 20), (40, 30), (40, 40)] {
            recent.push(Duration::from_secs(interval));
            assert_eq!(recent.mean(), Some(Duration::from_secs(mean)));
        }
        let one = after_slots_at([0, 7]).access_intervals().unwrap();
        assert_eq!(one.recent, Duration::from_secs(7));
    }

    #[test]
    fn two_visits_at_one_moment_do_no_harm() {
        let mut load = Load::new(Duration::from_secs(100));
        for _ in 0..4 {
            load.handle(Input::Visited, Time::ZERO);
        }
        assert_eq!(load.return_times().unwrap().trend, 1.0);
    }
}
