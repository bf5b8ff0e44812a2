//! What goes in and what comes out.

use std::time::Duration;

use crate::base::{MemberId, Seat, Ticket, TicketMessage, Time};

/// The circle's constants, as far as tickets go by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// n: how many tickets there are.
    pub tickets: Ticket,
    /// k: how many neighbours may fail at once.
    pub faults: u8,
    /// A holder may pull for so long while others wait.
    pub turn: Duration,
    /// T: nobody reminds, or is reminded by, more than 2k+1 others within this.
    pub round: Duration,
    /// How long a witness's word counts, from the asking on.
    pub lease: Duration,
    /// ρ: how much faster or slower than true time a clock may go, in parts of a million.
    pub drift_ppm: u32,
    /// A pull that is told to end has ended within this.
    pub stop_within: Duration,
    /// What a test has broken on purpose.
    #[cfg(test)]
    pub(crate) flaw: Option<super::Flaw>,
}

impl Config {
    /// What goes with so many tickets, faults and this turn.
    pub fn new(tickets: Ticket, faults: u8, turn: Duration) -> Self {
        Self {
            tickets,
            faults,
            turn,
            round: Duration::from_secs(1),
            lease: Duration::from_secs(3),
            drift_ppm: 1000,
            stop_within: Duration::from_millis(500),
            #[cfg(test)]
            flaw: None,
        }
    }

    /// How many witnesses a seat has in a ring that is large enough.
    pub(super) fn witnesses(&self) -> usize {
        2 * usize::from(self.faults) + 1
    }

    /// After so long by our clock, what was granted before has ended by everybody's.
    pub fn wait(&self) -> Duration {
        let drift = f64::from(self.drift_ppm) / 1e6;
        self.lease.mul_f64((1.0 + drift) / (1.0 - drift))
    }

    /// How often a seat reminds its witnesses. A little longer than a round: clocks differ, and so do delays, and a witness
    /// that is reminded by as many as it hears in a round should not have to let them wait for that.
    pub(super) fn pause(&self) -> Duration {
        self.round * 11 / 10
    }

    /// A server counts a session for a little longer than its client does: for so long after a pull nobody uses its ticket.
    pub(super) fn rest(&self) -> Duration {
        self.round / 4
    }

    /// Who has asked within this is there, as far as that can be known.
    pub(super) fn fresh(&self) -> Duration {
        self.lease + self.round
    }

    /// Who has not been sure for longer is vouched for only by those who remember all that they promised about it.
    pub(super) fn trust(&self) -> Duration {
        10 * self.lease
    }
}

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most of them are messages")]
pub enum Input {
    /// Time has passed. Harmless at any moment.
    Wake,
    /// Be the first of the ring: nobody else ever was, or will be. Ignored by who is in the ring.
    Found,
    /// Whether there is something to pull.
    Work(bool),
    /// Go for good: give the ticket back and ask for none. Event [`Event::Left`] follows.
    Leave,
    /// The pull has ended: no byte is read any more. Also said by jobs that have enough before they are told to stop.
    SlotStopped,
    /// These members may know about tickets: the first coordinator of the charter, or anybody.
    Known(Vec<MemberId>),
    /// A message that has passed gate and signature.
    Received {
        /// Who signed it.
        from: MemberId,
        /// What it says.
        message: TicketMessage,
    },
    /// Whatever there was is over: the authority has founded another ring, or we are banned.
    Reset,
}

/// What a member wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most of them are messages")]
pub enum Output {
    /// Send a message.
    Send {
        /// To whom.
        to: MemberId,
        /// What.
        message: TicketMessage,
    },
    /// Nobody is known who could give a ticket: say [`Input::Known`] with some members, if there are any.
    AskWhom,
    /// Something happened.
    Event(Event),
}

/// What happened: for the node, the log, the checkers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ticket may be used from now on.
    Took {
        /// Ours.
        seat: Seat,
    },
    /// The jobs may pull.
    SlotBegan {
        /// By which seat.
        seat: Seat,
        /// Grows with every slot.
        number: u64,
        /// Until when at most; [`Event::StopSlot`] may come earlier.
        until: Time,
    },
    /// The pull may go on until then, and no longer unless this is told again: the pull's own clock ends it, should nobody be
    /// there to order it. Told before a slot begins, and whenever it is another time.
    Leased {
        /// Until when.
        until: Time,
    },
    /// The jobs must end their pull now, and [`Input::SlotStopped`] tells that they have.
    StopSlot,
    /// Too few witnesses vouch for us: the ticket is not used until they do again.
    Unsure,
    /// They do again.
    Sure,
    /// The ticket is no longer ours.
    Lost {
        /// Ours that was.
        seat: Seat,
        /// Whether we gave it back.
        is_given_back: bool,
    },
    /// Those after us have lost theirs, and we have taken the range over.
    Excluded {
        /// Who.
        seats: Vec<Seat>,
    },
    /// We have no ticket, and will not ask for one.
    Left,
}
