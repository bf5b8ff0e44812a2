//! The ring of tickets: whole nodes go by it, and the checkers of bare machines look on.
//!
//! A member that stands still reads nothing: its pull counts while its clock gives it the right to, as with bare machines.
//! A crash ends its pull at once.

use std::time::Duration;

use crate::base::{Seat, Ticket, Time};
use crate::node::Command;
use crate::proto::tickets::{Config, Event, Tickets};
use crate::sim::clock::Clock;
use crate::sim::tickets::Violation as RingViolation;
use crate::sim::tickets::checks::Checks;
use crate::sim::tickets::claims::Claim;
use crate::wire::records::{Charter, Mode, Ring};

use super::place::Place;
use super::scenario::{RingSize, Scenario};
use super::standing::Standing;
use super::violation::Violation;
use super::world::{Parcel, Whole};

/// The authority looks at its circle once per round, and founds another ring when a ticket was nobody's at so many looks.
const LOOKS_UNTIL_FOUNDED: u32 = 45;

/// At the end of a run no ticket may have been nobody's at so many looks.
const LOOKS_AT_REST: u32 = 30;

/// A pull by a ticket.
#[derive(Clone, Copy, Debug)]
pub(super) struct TicketPull {
    pub(super) ticket: Ticket,
    /// It was told to stop.
    pub(super) is_stopping: bool,
}

/// The checkers' books of the ring.
#[derive(Debug)]
pub(super) struct Books {
    checks: Checks,
    config: Config,
    epoch: u32,
    /// For each ticket: at so many looks in a row it was nobody's who stays.
    looks_without: Vec<u32>,
}

impl Books {
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let RingSize { tickets, faults } = scenario.ring?;
        Some(Self {
            checks: Checks::new(tickets, scenario.members),
            config: Config::new(tickets, faults, scenario.slot),
            epoch: 1,
            looks_without: vec![0; tickets.into()],
        })
    }

    pub(super) fn violations(&self) -> &[RingViolation] {
        self.checks.violations()
    }

    fn count_nobodys(&mut self, claims: &[Claim]) {
        for (ticket, looks) in (0..).zip(&mut self.looks_without) {
            let is_somebodys = claims.iter().any(|claim| claim.covers(ticket, self.config.tickets));
            *looks = if is_somebodys { 0 } else { *looks + 1 };
        }
    }

    /// A ticket that was nobody's at so many looks.
    fn nobodys(&self, looks: u32) -> Option<Ticket> {
        (0..).zip(&self.looks_without).find(|(_, without)| **without >= looks).map(|(ticket, _)| ticket)
    }
}

/// What the member claims at this moment. Who is no member any more and has not heard of the ring that is in force is an
/// outsider.
fn claim_in(epoch: u32, member: usize, place: &Place, standing: &Standing, now: Time) -> Option<Claim> {
    let is_in_force = place.node.as_ref()?.roll().charter().ring()?.epoch == epoch;
    place.claim(now).filter(|_| is_in_force || !standing.goes(member))
}

impl Place {
    fn tickets(&self) -> Option<&Tickets> {
        self.node.as_ref()?.tickets()
    }

    /// What it may use and give, by its own clock.
    fn claim(&self, now: Time) -> Option<Claim> {
        let machine = self.tickets()?;
        let ticket = machine.sure_seat(self.clock.shows(now))?.ticket;
        let next = machine.next().map_or(ticket, |next| next.ticket);
        Some(Claim { ticket, next })
    }
}

impl Whole {
    /// This member makes the token, or begins the ring.
    pub(super) fn found(&mut self, member: usize) {
        let command =
            self.ring.as_ref().map_or(Command::Found, |ring| Command::FoundRing { epoch: ring.epoch });
        self.command(member, command);
    }

    /// A member's clock from this start on. Tokens do not mind how fast it goes. Half of the clocks are as wrong as can be.
    pub(super) fn draw_clock(&mut self) -> Clock {
        if self.ring.is_none() {
            return Clock::new(Time::ZERO, 0.0);
        }
        let most = f64::from(self.network.drift_ppm()) / 1e6;
        let drift = match self.rng.below(4) {
            0 => -most,
            1 => most,
            _ => most * (2.0 * self.rng.fraction() - 1.0),
        };
        Clock::new(Time::ZERO + self.rng.uniform(Duration::ZERO, Duration::from_secs(1_000_000)), drift)
    }

    pub(super) fn on_ticket_event(&mut self, event: &Event) {
        let counts = &mut self.outcome.ring;
        match event {
            Event::Took { .. } => counts.joins += 1,
            Event::Lost { is_given_back: true, .. } => counts.given_back += 1,
            Event::Lost { is_given_back: false, .. } => counts.lost += 1,
            Event::Excluded { seats } => counts.excluded += seats.len() as u64,
            Event::Unsure => counts.unsure += 1,
            Event::Sure | Event::SlotBegan { .. } | Event::Leased { .. } | Event::StopSlot | Event::Left => {}
        }
    }

    // --- pulls ------------------------------------------------------------------------------------------------

    pub(super) fn ticket_pull_began(&mut self, member: usize, seat: Seat) {
        if let Some(place) = self.places.get_mut(member) {
            place.pull = Some(TicketPull { ticket: seat.ticket, is_stopping: false });
        }
        self.look_on(|checks, places, now, is_sure| {
            checks.pull_began(numbered(member), seat, now, is_sure);
            let claim = places.get(member).and_then(|place| place.claim(now));
            if claim.is_none_or(|claim| claim.ticket != seat.ticket) {
                let (member, ticket) = (numbered(member), seat.ticket);
                checks.complain(RingViolation::PulledUnsure { at: now, member, ticket });
            }
        });
    }

    /// When a pull that is told to stop now has stopped: as late as allowed now and then, by the member's own clock.
    pub(super) fn ticket_pull_stops_at(&mut self, member: usize) -> Option<Time> {
        let within = self.ring.as_ref()?.config.stop_within;
        #[cfg(test)]
        let within = within * self.sabotage.slowness();
        let takes = if self.rng.below(4) == 0 { within } else { self.rng.uniform(Duration::ZERO, within) };
        let place = self.places.get_mut(member)?;
        if let Some(pull) = &mut place.pull {
            pull.is_stopping = true;
        }
        Some(place.clock.when(place.clock.shows(self.now) + takes))
    }

    pub(super) fn ticket_pull_ended(&mut self, member: usize) {
        let pull = self.places.get_mut(member).and_then(|place| place.pull.take());
        if let (Some(ring), Some(pull)) = (&mut self.ring, pull) {
            ring.checks.pull_ended(numbered(member), pull.ticket);
        }
    }

    /// The member stands still, or goes on; then its pull is one again if it still has the right.
    pub(super) fn ticket_pull_frozen(&mut self, member: usize, is_frozen: bool) {
        let now = self.now;
        let Some(place) = self.places.get(member) else { return };
        if let (Some(ring), Some(pull)) = (&mut self.ring, place.pull)
            && (is_frozen || place.claim(now).is_some())
        {
            ring.checks.pull_frozen(numbered(member), pull.ticket, is_frozen);
        }
    }

    // --- looking on -------------------------------------------------------------------------------------------

    /// What the member claims after whatever happened to it.
    pub(super) fn look_at_ticket(&mut self, member: usize) {
        let (Some(ring), Some(place)) = (&self.ring, self.places.get(member)) else { return };
        let (now, pull) = (self.now, place.pull);
        let standing = self.checks.standing();
        let claim = claim_in(ring.epoch, member, place, standing, now);
        let is_outsider = standing.knows_itself_out(member, place.clock.shows(now));
        if let Some(Claim { ticket, .. }) = claim.filter(|_| is_outsider) {
            self.checks.complain(Violation::UsedByOutsider { at: now, member, ticket });
        }
        self.look_on(|checks, _, now, is_sure| {
            let member = numbered(member);
            checks.claimed(member, claim, now, is_sure);
            if let Some(TicketPull { ticket, is_stopping: false }) = pull
                && claim.is_none_or(|claim| claim.ticket != ticket)
            {
                checks.complain(RingViolation::PulledUnsure { at: now, member, ticket });
            }
        });
    }

    /// Lets the checkers look, who may ask of everybody whether it is sure.
    fn look_on(&mut self, look: impl FnOnce(&mut Checks, &[Place], Time, &dyn Fn(u32) -> bool)) {
        let Some(mut ring) = self.ring.take() else { return };
        let (now, places, standing, epoch) = (self.now, &self.places, self.checks.standing(), ring.epoch);
        let is_sure = |member: u32| {
            let place = places.get(member as usize);
            place.is_some_and(|place| claim_in(epoch, member as usize, place, standing, now).is_some())
        };
        look(&mut ring.checks, places, now, &is_sure);
        self.ring = Some(ring);
    }

    /// The authority looks at its circle, once per round.
    pub(super) fn look_at_ring(&mut self) {
        let now = self.now;
        let standing = self.checks.standing();
        let staying = self.places.iter().enumerate().filter(|(member, _)| !standing.goes(*member));
        let claims: Vec<Claim> = staying.filter_map(|(_, place)| place.claim(now)).collect();
        let has_seat = |place: &&Place| place.tickets().and_then(Tickets::seat).is_some();
        let seats = self.places.iter().filter(has_seat).count();
        self.outcome.ring.rounds += seats as u64;
        let Some(ring) = &mut self.ring else { return };
        ring.count_nobodys(&claims);
        let round = ring.config.round;
        // With faults still going on, who is silent may be back.
        let is_final = seats == 0 || now >= self.peace_at + round * LOOKS_UNTIL_FOUNDED;
        if is_final && ring.nobodys(LOOKS_UNTIL_FOUNDED).is_some() {
            self.sign_another_ring();
        }
        self.mail.post(Parcel::Look, now + round, now);
    }

    /// More have gone for good than the ring can bear: only the authority can help. It tells everybody who listens, and only
    /// when what was before has ended the new ring begins.
    fn sign_another_ring(&mut self) {
        let listening = self.listening();
        let Some(ring) = self.ring.as_mut().filter(|_| !listening.is_empty()) else { return };
        ring.epoch += 1;
        ring.looks_without.fill(0);
        let (epoch, lease) = (ring.epoch, ring.config.lease);
        let index = self.rng.below(listening.len());
        let first = listening.get(index).copied().unwrap_or(0);
        let Some((&id, old)) = self.ids.get(first).zip(self.charter.ring()) else { return };
        let mode = Mode::Tickets(Ring { first: id, epoch, ..old });
        let charter = Charter { version: self.charter.version + 1, mode, ..self.charter.clone() };
        self.charter = self.authority.sign_charter(charter);
        self.outcome.ring.refounded += 1;
        for member in listening {
            self.command(member, Command::Charter { charter: self.charter.clone() });
        }
        self.mail.post(Parcel::Found { member: first }, self.now + lease, self.now);
    }

    /// The time is up, and every ticket must be somebody's.
    pub(super) fn check_ring(&mut self) {
        if let Some(ticket) = self.ring.as_ref().and_then(|ring| ring.nobodys(LOOKS_AT_REST)) {
            self.checks.complain(Violation::NobodysTicket { at: self.now, ticket });
        }
    }
}

fn numbered(member: usize) -> u32 {
    u32::try_from(member).unwrap_or(u32::MAX)
}
