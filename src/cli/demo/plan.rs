//! What the demo's arguments come to: how many members, how fast a stream, how short slots. Pure; called by `mod`.

use std::time::Duration;

/// What the detector of the papers' case study sends.
const STREAM_BYTES_PER_SEC: u64 = 650_000;

/// The link is laid out so that all members together need so much of it; less where slots are so short that connecting and
/// listing are a good part of them.
const LOAD_PERCENT: u64 = 70;
const LOAD_PERCENT_OF_MANY: u64 = 50;

/// Under overload the stream brings so many times more than that.
const OVERLOAD: u64 = 2;

/// Everybody's turn comes in about this time, if slots of a useful length allow it.
const PERIOD: Duration = Duration::from_secs(2);
const LONGEST_SLOT: Duration = Duration::from_millis(400);
const SHORTEST_SLOT: Duration = Duration::from_millis(250);

/// The stream ends before the demo does, by so much, for the last frame to arrive everywhere.
const QUIET: Duration = Duration::from_secs(3);

/// When the time is over, so much more is given to those who lag behind, and so many periods more if those are long.
const OVERTIME: Duration = Duration::from_secs(10);
const OVERTIME_PERIODS: u32 = 3;

/// How the demo runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) members: usize,
    /// From the moment at which all members are there.
    pub(super) span: Duration,
    pub(super) is_overload: bool,
    pub(super) is_compared: bool,
    pub(super) kills_holder: bool,
}

impl Plan {
    /// Bytes per second of the stream.
    pub(super) fn stream_rate(&self) -> u64 {
        STREAM_BYTES_PER_SEC * if self.is_overload { OVERLOAD } else { 1 }
    }

    /// Bytes per second of the source's link.
    pub(super) fn link_rate(&self) -> u64 {
        let is_many = self.slot() == SHORTEST_SLOT;
        let percent = if is_many && !self.is_overload { LOAD_PERCENT_OF_MANY } else { LOAD_PERCENT };
        self.members as u64 * STREAM_BYTES_PER_SEC * 100 / percent
    }

    /// How long the stream lasts.
    pub(super) fn stream_span(&self) -> Duration {
        self.span.saturating_sub(QUIET.min(self.span / 2))
    }

    /// How much longer than planned it may last.
    pub(super) fn overtime(&self) -> Duration {
        let period = self.slot() * u32::try_from(self.members).unwrap_or(u32::MAX);
        OVERTIME + OVERTIME_PERIODS * period.saturating_sub(PERIOD)
    }

    /// How long a slot is, in whole milliseconds.
    pub(super) fn slot(&self) -> Duration {
        let members = u32::try_from(self.members).unwrap_or(u32::MAX).max(1);
        let slot = (PERIOD / members).clamp(SHORTEST_SLOT, LONGEST_SLOT);
        Duration::from_millis(u64::try_from(slot.as_millis()).unwrap_or(u64::MAX))
    }

    /// For how many members the circle is laid out.
    pub(super) fn capacity(&self) -> usize {
        if self.is_overload { self.members.div_ceil(2) } else { self.members }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(members: usize, seconds: u64, is_overload: bool) -> Plan {
        let span = Duration::from_secs(seconds);
        Plan { members, span, is_overload, is_compared: true, kills_holder: false }
    }

    #[test]
    fn five_members_need_seven_tenths_of_the_link() {
        let plan = plan(5, 20, false);
        assert_eq!(plan.slot(), Duration::from_millis(400));
        assert_eq!(plan.stream_span(), Duration::from_secs(17));
        let load = 5.0 * plan.stream_rate() as f64 / plan.link_rate() as f64;
        assert!((load - 0.7).abs() < 0.001, "{load}");
        assert_eq!((plan.capacity(), plan.overtime()), (5, OVERTIME));
    }

    #[test]
    fn overload_is_more_than_the_link_carries_and_more_members_than_laid_out() {
        let plan = plan(5, 20, true);
        assert!(5 * plan.stream_rate() > plan.link_rate());
        assert_eq!(plan.capacity(), 3);
    }

    #[test]
    fn many_members_and_little_time_still_make_sense() {
        let many = plan(30, 20, false);
        assert_eq!((many.slot(), many.link_rate()), (SHORTEST_SLOT, 39_000_000));
        assert!(many.overtime() > OVERTIME);
        let overload = plan(30, 20, true);
        assert!(30 * overload.stream_rate() > overload.link_rate());
        assert_eq!(plan(2, 4, false).stream_span(), Duration::from_secs(2));
    }
}
