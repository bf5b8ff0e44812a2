//! What the demo's arguments come to: how many members, how fast a stream, how short slots. Pure; called by `mod`.

use std::time::Duration;

/// What the detector of the papers' case study sends.
const STREAM_BYTES_PER_SEC: u64 = 650_000;

/// The link is laid out so that all members together need so much of it; less where slots are so short that connecting and
/// listing are a good part of them.
const LOAD_PERCENT: u64 = 70;
const LOAD_PERCENT_OF_MANY: u64 = 50;

/// Much less with tickets: while one goes from hand to hand nobody uses it, for a second or two.
const LOAD_PERCENT_WITH_TICKETS: u64 = 35;

/// Under overload the stream brings so many times more than that.
const OVERLOAD: u64 = 2;

/// Everybody's turn comes in about this time, if slots of a useful length allow it.
const PERIOD: Duration = Duration::from_secs(2);
const LONGEST_SLOT: Duration = Duration::from_millis(400);
const SHORTEST_SLOT: Duration = Duration::from_millis(250);

/// And a ticket's slot is long enough to be worth its way.
const TICKET_SLOT: Duration = Duration::from_secs(1);

/// The stream ends before the demo does, by so much, for the last frame to arrive everywhere.
const QUIET: Duration = Duration::from_secs(3);

/// When the time is over, so much more is given to those who lag behind, and so many periods more if those are long.
const OVERTIME: Duration = Duration::from_secs(10);
const OVERTIME_PERIODS: u32 = 3;

/// Tickets go round more slowly, and one of a member that died takes its time to come back.
const OVERTIME_WITH_TICKETS: Duration = Duration::from_secs(20);

/// The ring of a demo with tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// How many members may pull at once.
    pub(super) tickets: u16,
    /// How many neighbours may crash at once.
    pub(super) faults: u8,
}

/// How the demo runs.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub(super) struct Plan {
    pub(super) members: usize,
    /// With tickets; otherwise a token wanders.
    pub(super) ring: Option<Ring>,
    /// From the moment at which all members are there.
    pub(super) span: Duration,
    pub(super) is_overload: bool,
    /// The token follows the rules that make tokens anew within seconds.
    pub(super) is_guarded: bool,
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
        let percent = match self.ring {
            Some(_) => LOAD_PERCENT_WITH_TICKETS,
            None if is_many && !self.is_overload => LOAD_PERCENT_OF_MANY,
            None => LOAD_PERCENT,
        };
        self.members as u64 * STREAM_BYTES_PER_SEC * 100 / percent
    }

    /// How many members may pull at once.
    pub(super) fn at_once(&self) -> usize {
        self.ring.map_or(1, |ring| ring.tickets.into())
    }

    /// How long the stream lasts.
    pub(super) fn stream_span(&self) -> Duration {
        self.span.saturating_sub(QUIET.min(self.span / 2))
    }

    /// How much longer than planned it may last.
    pub(super) fn overtime(&self) -> Duration {
        if self.ring.is_some() {
            return OVERTIME_WITH_TICKETS;
        }
        let period = self.slot() * u32::try_from(self.members).unwrap_or(u32::MAX);
        OVERTIME + OVERTIME_PERIODS * period.saturating_sub(PERIOD)
    }

    /// How long a slot is, in whole milliseconds.
    pub(super) fn slot(&self) -> Duration {
        if self.ring.is_some() {
            return TICKET_SLOT;
        }
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
        Plan {
            members,
            ring: None,
            span,
            is_overload,
            is_guarded: true,
            is_compared: true,
            kills_holder: false,
        }
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

    #[test]
    fn with_tickets_slots_are_longer_and_the_link_is_larger() {
        let token = plan(5, 20, false);
        let tickets = Plan { ring: Some(Ring { tickets: 3, faults: 1 }), ..token };
        assert_eq!((token.at_once(), tickets.at_once()), (1, 3));
        assert!(tickets.slot() > token.slot() && tickets.link_rate() > token.link_rate());
        assert!(tickets.overtime() > token.overtime());
    }
}
