//! Tickets: in a circle that goes by them, they and not a token give the slots.
//!
//! ```text
//!   datagram Ticket ──> tickets ──> datagrams Ticket
//!                         │  └────> slots begin and end
//!   whom to ask  <────────┘  (the directory knows)
//! ```
//!
//! Everything else is as with a token: members get to know each other by scouts, charters and bans spread with them. Only
//! nobody scouts because it holds something; so members ask a few others now and then.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{MemberId, Nonce, Rng, Seat, Session, TicketMessage, Time};
use crate::proto::directory::Known;
use crate::proto::load;
use crate::proto::tickets::{Config, Event as TicketEvent, Input, Output, Tickets};
use crate::wire::records::{Charter, Ring};
use crate::wire::{Body, Datagram, Kind, NO_TOKEN};

use super::machine::{Leaving, Node};
use super::nouns::Event;
use super::pull::{Pull, Right};
use super::status::RingStatus;

/// Members that are not in the directory and whose place is remembered, because they spoke to us.
const PLACES: usize = 64;

/// Members named to who does not know whom to ask for a ticket, besides the ring's first.
const NAMED: usize = 8;

/// Somebody in the ring is not known: members are asked for others, but not more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a member of a circle with tickets needs for them.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub(super) struct Office {
    machine: Tickets,
    inbox: VecDeque<Input>,
    /// Where those are who are not in the directory, as far as the network says.
    places: BTreeMap<MemberId, SocketAddr>,
    /// The seat that is ours: all that it takes to use it was there once.
    taken: Option<Seat>,
    /// Since when there is something to pull, and no ticket that may be used.
    waits_since: Option<Time>,
    /// The seat by which this machine let the jobs pull last.
    pulls_by: Option<Seat>,
    /// A pull by a seat that is no more has not ended yet. Until then nothing is heard: we would answer that it has.
    is_deaf: bool,
    /// Before what came in last, all tickets were ours.
    was_alone: bool,
    /// We gave our ticket back as the last one.
    has_closed: bool,
    has_left: bool,
    last_slot: Option<Time>,
    looked_at: Time,
    /// Somebody is spoken of who is not known: then others are asked.
    look_at: Option<Time>,
}

/// Where the numbers of seats begin in a life that has come to this sequence number. They need more room than a clock in
/// microseconds leaves between two lives, as whoever grants a seat draws its number.
pub(super) fn first_seat(sequence: u64) -> u64 {
    sequence.saturating_mul(1 << 12).min(u64::MAX / 2)
}

impl Office {
    pub(super) fn new(me: MemberId, config: Config, incarnation: u64, rng: Rng, now: Time) -> Self {
        Self {
            machine: Tickets::new(me, config, incarnation, rng, now),
            inbox: VecDeque::new(),
            places: BTreeMap::new(),
            taken: None,
            waits_since: None,
            pulls_by: None,
            is_deaf: false,
            was_alone: false,
            has_closed: false,
            has_left: false,
            last_slot: None,
            looked_at: now,
            look_at: None,
        }
    }

    pub(super) fn machine(&self) -> &Tickets {
        &self.machine
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.inbox.push_back(input);
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    pub(super) fn next_deadline(&self) -> Time {
        let machine = self.machine.next_deadline();
        self.look_at.map_or(machine, |at| machine.min(at))
    }

    fn look_soon(&mut self) {
        self.look_at.get_or_insert(self.looked_at + LOOK_EVERY);
    }

    /// How long ago our last slot began, and whether we would use one.
    pub(super) fn wait(&self, now: Time) -> (Option<Duration>, bool) {
        (self.last_slot.map(|at| now.since(at)), self.machine.has_work())
    }

    fn is_alone(&self, now: Time) -> bool {
        let seat = self.machine.sure_seat(now);
        seat.is_some() && self.machine.next() == seat
    }

    fn handle(&mut self, input: Input, now: Time) {
        self.was_alone = self.is_alone(now);
        self.machine.handle(input, now);
        let is_waiting = self.machine.has_work() && self.machine.sure_seat(now).is_none();
        self.waits_since = is_waiting.then(|| self.waits_since.unwrap_or(now));
    }

    fn status(&self, ring: Ring, now: Time) -> RingStatus {
        let ring_as_known = self.machine.ring();
        let is_latest = |seat: &Seat| {
            !ring_as_known
                .iter()
                .any(|other| other.member == seat.member && other.incarnation > seat.incarnation)
        };
        let is_there = |seat: &Seat| self.taken.is_some() || Some(*seat) != self.machine.seat();
        RingStatus {
            ring,
            seat: self.taken,
            is_sure: self.taken.is_some() && self.machine.sure_seat(now) == self.taken,
            next: self.machine.next().filter(|_| self.taken.is_some()),
            coordinators: ring_as_known
                .iter()
                .filter(|seat| is_latest(seat) && is_there(seat))
                .copied()
                .collect(),
            waiting: self.machine.waiting(),
            waits_for: self.waits_since.map(|since| now.since(since)),
        }
    }
}

/// The constants of the ring, as the charter says.
pub(super) fn tickets_config(charter: &Charter) -> Option<Config> {
    charter.ring().map(|ring| Config::new(ring.tickets, ring.faults, charter.slot))
}

impl Node {
    /// The machine that deals with tickets, in a circle that goes by them.
    pub fn tickets(&self) -> Option<&Tickets> {
        self.office.as_ref().map(Office::machine)
    }

    /// Our part in the ring, for who asks how we are.
    pub(super) fn ring_status(&self, now: Time) -> Option<RingStatus> {
        self.office.as_ref().zip(self.ring()).map(|(office, ring)| office.status(ring, now))
    }

    /// The ring as the verdict on the load needs it.
    pub(super) fn ring_view(&self, now: Time) -> Option<load::RingView> {
        let (office, ring) = self.office.as_ref().zip(self.ring())?;
        let seats = office.machine.ring();
        let has_work = office.machine.has_work();
        let uses = |seat: &&Seat| match self.directory.get(seat.member) {
            Some(known) => known.can_want(),
            None => seat.member != self.me || has_work,
        };
        Some(load::RingView {
            tickets: ring.tickets,
            in_use: seats.iter().filter(uses).count(),
            waiting: office.machine.waiting(),
            has_ticket: office.taken.is_some(),
            waited: office.waits_since.map(|since| now.since(since)),
            members: self.directory.can_want().map(|others| others + 1),
            turn: self.identity.roll.charter().slot,
        })
    }

    fn ring(&self) -> Option<Ring> {
        self.identity.roll.charter().ring()
    }

    /// From now on its tickets break a rule: for tests of the checkers.
    #[cfg(test)]
    pub(crate) fn break_rule_of_tickets(&mut self, flaw: crate::proto::tickets::Flaw) {
        if let Some(office) = &mut self.office {
            office.machine.break_rule(flaw);
        }
    }

    // --- what comes in ----------------------------------------------------------------------------------------

    /// Begins the ring with ourselves: the process knows that nobody else did or will.
    pub(super) fn found_ring(&mut self, epoch: u32) {
        let is_in_force = self.ring().is_some_and(|ring| ring.epoch == epoch);
        if let Some(office) = self.office.as_mut().filter(|_| is_in_force) {
            office.tell(Input::Found);
        }
    }

    pub(super) fn on_ticket(
        &mut self,
        from: MemberId,
        address: SocketAddr,
        epoch: u32,
        message: TicketMessage,
        now: Time,
    ) {
        let (Some(ring), Some(office)) = (self.ring(), &mut self.office) else { return };
        if epoch < ring.epoch {
            // It has not heard of the new ring.
            return self.share_versions(from, 0, self.identity.roll.bans_version(), now);
        }
        if epoch > ring.epoch {
            // We have not; whoever has tells those who ask.
            return office.look_soon();
        }
        if office.is_deaf {
            return;
        }
        if self.directory.get(from).is_none() {
            if office.places.len() >= PLACES {
                office.places.pop_first();
            }
            office.places.insert(from, address);
        }
        office.tell(Input::Received { from, message });
    }

    /// The pull by this seat has ended.
    pub(super) fn tell_tickets_of_end(&mut self, seat: Seat) {
        let Some(office) = &mut self.office else { return };
        office.is_deaf = false;
        if office.pulls_by == Some(seat) {
            office.tell(Input::SlotStopped);
        }
    }

    /// The charter is another one. With a new ring all that was before it is void.
    pub(super) fn take_up_ring(&mut self, old: Option<Ring>, now: Time) {
        let charter = self.identity.roll.charter();
        if charter.ring().map(|ring| ring.epoch) != old.map(|ring| ring.epoch) {
            return self.begin_tickets_anew(now);
        }
        let turn = charter.slot;
        if let Some(office) = &mut self.office {
            office.machine.set_turn(turn);
        }
    }

    /// The clocks jumped: perhaps this computer was rolled back to a former state, and what it believes to hold has ended
    /// long ago. Who is alone in the ring had nobody to lose it to.
    pub(super) fn distrust_tickets(&mut self, now: Time) {
        if self.office.as_ref().is_some_and(|office| !office.is_alone(now)) {
            self.begin_tickets_anew(now);
        }
    }

    /// Ends whatever ran by a ticket and begins without one, in a life that nobody has heard of.
    fn begin_tickets_anew(&mut self, now: Time) {
        self.drop_ticket(now);
        let Some(config) = tickets_config(self.identity.roll.charter()) else { return };
        let (incarnation, rng) = (first_seat(self.next_sequence()), self.rng.child());
        let Some(office) = &mut self.office else { return };
        // The numbers of seats grow faster than ours: none comes twice, or an old pull would be taken for a new one.
        let incarnation = incarnation.max(office.machine.next_incarnation());
        let (places, last_slot) = (std::mem::take(&mut office.places), office.last_slot);
        let is_deaf = self.pull != Pull::Idle;
        *office =
            Office { places, is_deaf, last_slot, ..Office::new(self.me, config, incarnation, rng, now) };
        if self.leaving != Leaving::No {
            office.tell(Input::Leave);
        }
    }

    /// Ends whatever there is. What the machine would say belongs to a ring that is none any more, so only its events count.
    pub(super) fn drop_ticket(&mut self, now: Time) {
        let Some(office) = &mut self.office else { return };
        office.inbox.clear();
        office.handle(Input::Reset, now);
        // Nothing is closed in good order here.
        office.was_alone = false;
        let outputs: Vec<Output> = std::iter::from_fn(|| office.machine.poll_output()).collect();
        for output in outputs {
            if let Output::Event(event) = output {
                self.on_ticket_event(event, now);
            }
        }
    }

    // --- what goes out ----------------------------------------------------------------------------------------

    /// One step of the machine; false if it has nothing to do.
    pub(super) fn talk_of_tickets(&mut self, now: Time) -> bool {
        let Some(office) = &mut self.office else { return false };
        if let Some(output) = office.machine.poll_output() {
            match output {
                Output::Send { to, message } => self.send_ticket(to, message),
                Output::AskWhom => self.name_some(),
                Output::Event(event) => self.on_ticket_event(event, now),
            }
            return true;
        }
        let input = office.inbox.pop_front();
        input.map(|input| office.handle(input, now)).is_some()
    }

    /// Tells the machine of members that may know of tickets: those that can be reached.
    fn name_some(&mut self) {
        let first = self.ring().map(|ring| ring.first);
        let drawn = self.directory.draw(NAMED);
        let named: Vec<MemberId> = first
            .into_iter()
            .filter(|first| !drawn.contains(first))
            .chain(drawn.iter().copied())
            .filter(|member| self.place_of(*member).is_some())
            .collect();
        let Some(office) = self.office.as_mut().filter(|_| !named.is_empty()) else { return };
        office.tell(Input::Known(named));
    }

    fn on_ticket_event(&mut self, event: TicketEvent, now: Time) {
        let Some(office) = &mut self.office else { return };
        self.counters.note_ticket(&event);
        match event {
            TicketEvent::Took { seat } => (office.taken, office.has_closed) = (Some(seat), false),
            TicketEvent::Lost { is_given_back, .. } => {
                (office.taken, office.has_closed) = (None, is_given_back && office.was_alone);
            }
            TicketEvent::SlotBegan { seat, number, until } => {
                (office.pulls_by, office.last_slot) = (Some(seat), Some(now));
                self.counters.slot_began();
                self.load.handle(load::Input::Visited, now);
                self.load.handle(load::Input::SlotBegan, now);
                self.begin_pull(Right::Ticket(seat), Session(number), until);
            }
            TicketEvent::StopSlot => {
                if let Some(seat) = office.pulls_by {
                    self.stop_pull(Right::Ticket(seat));
                }
            }
            TicketEvent::Left => {
                office.has_left = true;
                if office.has_closed
                    && let Some(ring) = self.ring()
                {
                    self.outbox.tell(Event::RingClosed { epoch: ring.epoch });
                }
            }
            _ => {}
        }
        self.outbox.tell(Event::Tickets(event));
    }

    fn send_ticket(&mut self, to: MemberId, message: TicketMessage) {
        let Some(epoch) = self.ring().map(|ring| ring.epoch) else { return };
        let Some(address) = self.place_of(to) else {
            // Nobody has told us of it yet.
            if let Some(office) = &mut self.office {
                office.look_soon();
            }
            return;
        };
        let knows_us = |known: &Known| known.heard_at().is_some() && !known.is_suspected();
        let is_stranger = !self.directory.get(to).is_some_and(knows_us);
        let was_asked_with =
            self.question.is_some_and(|question| question.from == to && question.had_certificate);
        let certificate = (is_stranger || was_asked_with).then(|| self.identity.certificate.clone());
        let nonce = Nonce::of_question(self.next_sequence(), self.rng.next_u64());
        let header = self.header(Kind::Ticket, to, NO_TOKEN, Session(0), nonce);
        self.send_to(
            address,
            &Datagram { header, body: Body::Ticket { epoch, message }, certificate, padding: 0 },
        );
    }

    /// Where a member is by its own signed word, or else where it spoke from.
    fn place_of(&self, member: MemberId) -> Option<SocketAddr> {
        let heard = || self.office.as_ref().and_then(|office| office.places.get(&member).copied());
        self.directory.address(member).or_else(heard)
    }

    // --- what time does ---------------------------------------------------------------------------------------

    /// Who is spoken of but not known is looked for.
    pub(super) fn look_around_when_due(&mut self, now: Time) {
        if self.office.as_ref().is_some_and(|office| office.look_at.is_some_and(|at| now >= at)) {
            self.look_around(now);
        }
    }

    /// Without a token nobody scouts: a few are asked, so that members hear of each other, of charters and of bans. And
    /// those whom we ask for a ticket may have gone, so there are others.
    pub(super) fn look_around(&mut self, now: Time) {
        let Some(office) = &mut self.office else { return };
        (office.looked_at, office.look_at) = (now, None);
        let is_waiting = office.machine.has_work() && office.machine.seat().is_none();
        let scouts = usize::from(self.identity.roll.charter().scouts.max(1));
        self.send_scouts(scouts, now);
        if is_waiting {
            self.name_some();
        }
    }
}
