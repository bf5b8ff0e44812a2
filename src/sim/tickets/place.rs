//! One member of the circle, whether it runs or not.

use crate::base::{Deed, Seat, Ticket, TicketMessage, Time};
use crate::proto::tickets::Tickets;
use crate::sim::clock::Clock;

use super::claims::Claim;

/// A member's lives are told apart by what is above so many bits of an incarnation.
pub(super) const LIFE_BITS: u32 = 48;

/// A paused member's socket keeps so many messages; the rest are lost.
const SOCKET_BUFFER: usize = 256;

/// One member.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub(super) struct Place {
    pub(super) machine: Option<Tickets>,
    /// How often it was started: what belongs to an earlier life is void.
    pub(super) life: u64,
    pub(super) clock: Clock,
    /// It has run without a break since then.
    pub(super) awake_since: Time,
    pub(super) paused: Option<Pause>,
    pub(super) is_leaving: bool,
    /// All tickets were its own before what came in last.
    pub(super) was_alone: bool,
    /// It left the ring as the last one, and begins it again.
    pub(super) begins_again: bool,
    pub(super) has_work: bool,
    pub(super) pull: Option<Pull>,
    /// It has work and does not pull, since then.
    pub(super) waits_since: Option<Time>,
    pub(super) served_in_peace: bool,
    /// As it was when the member was last looked at.
    pub(super) seat: Option<Seat>,
    /// Since when it has not been sure of its seat.
    pub(super) unsure_since: Option<Time>,
    /// By which it said last to go.
    pub(super) deed: Option<Deed>,
    /// Messages that reached it in this round.
    pub(super) heard: (i64, u32),
}

/// A pull under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    pub(super) ticket: Ticket,
    pub(super) number: u64,
    /// It was told to stop, or has enough.
    pub(super) is_stopping: bool,
}

/// What waits for a member that stands still.
#[derive(Debug, Default)]
pub(super) struct Pause {
    pub(super) buffer: Vec<(u32, TicketMessage)>,
    /// Its pull was over before it stood still, and it has not noticed.
    pub(super) pull_ended: bool,
}

impl Pause {
    pub(super) fn keep(&mut self, from: u32, message: TicketMessage) {
        if self.buffer.len() < SOCKET_BUFFER {
            self.buffer.push((from, message));
        }
    }
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            machine: None,
            life: 0,
            clock: Clock::new(Time::ZERO, 0.0),
            awake_since: Time::ZERO,
            paused: None,
            is_leaving: false,
            was_alone: false,
            begins_again: false,
            has_work: true,
            pull: None,
            waits_since: None,
            served_in_peace: false,
            seat: None,
            unsure_since: None,
            deed: None,
            heard: (0, 0),
        }
    }

    /// Whether somebody is there and listens.
    pub(super) fn is_awake(&self) -> bool {
        self.machine.is_some() && self.paused.is_none()
    }

    /// The seat by which it may act, by its own clock.
    pub(super) fn sure_seat(&self, now: Time) -> Option<Seat> {
        self.machine.as_ref()?.sure_seat(self.clock.shows(now))
    }

    /// Whether it is the only one in the ring.
    pub(super) fn is_alone(&self, now: Time) -> bool {
        let seat = self.sure_seat(now);
        seat.is_some() && self.machine.as_ref().and_then(Tickets::next) == seat
    }

    /// What it may use and give.
    pub(super) fn claim(&self, now: Time) -> Option<Claim> {
        let ticket = self.sure_seat(now)?.ticket;
        let next = self.machine.as_ref()?.next().map_or(ticket, |next| next.ticket);
        Some(Claim { ticket, next })
    }
}
