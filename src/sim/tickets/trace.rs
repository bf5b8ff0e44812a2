//! What happened in a simulated ring, one by one: for whoever wants to look at every moment of it.

use std::collections::VecDeque;
use std::fmt;

use crate::base::{Deed, Seat, Standing, TicketMessage, Time, Vouch};
use crate::proto::tickets::Event;
use crate::sim::numbers::member_number;

use super::place::LIFE_BITS;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// To which member, by its number.
    pub member: u32,
    /// What.
    pub what: Trace,
}

/// The last things that happened.
#[derive(Debug)]
pub(super) struct Recent {
    limit: usize,
    moments: VecDeque<Moment>,
}

impl Recent {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, moments: VecDeque::new() }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.limit > 0
    }

    pub(super) fn push(&mut self, moment: Moment) {
        if self.moments.len() >= self.limit {
            self.moments.pop_front();
        }
        self.moments.push_back(moment);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Moment> {
        self.moments.iter()
    }
}

/// What happened to a member, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Something that it tells.
    Event(Event),
    /// It sent a message.
    Sent {
        /// To whom.
        to: u32,
        /// What it says.
        message: TicketMessage,
    },
    /// It arrived.
    Got {
        /// From whom.
        from: u32,
        /// What it says.
        message: TicketMessage,
    },
    /// It runs, and knows nothing.
    Started,
    /// It crashed.
    Crashed,
    /// It stands still.
    Paused,
    /// It goes on.
    Resumed,
    /// It was told to leave.
    Leaves,
    /// It has something to pull, or not.
    Work(bool),
    /// Its pull has stopped.
    PullEnded,
    /// The network is in two parts.
    Split,
    /// It is whole again.
    Joined,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} {:>4} ", self.at.as_secs_f64(), self.member)?;
        match &self.what {
            Trace::Sent { to, message } => write!(f, "-> {to}: {}", told(message)),
            Trace::Got { from, message } => write!(f, "<- {from}: {}", told(message)),
            Trace::Event(event) => f.write_str(&happened(event)),
            other => write!(f, "{other:?}"),
        }
    }
}

fn number_in_life(incarnation: u64) -> u64 {
    incarnation & ((1 << LIFE_BITS) - 1)
}

/// A seat as ticket/member.incarnation, without the part of the incarnation that tells lives apart.
fn place(seat: &Seat) -> String {
    let (life, number) = (seat.incarnation >> LIFE_BITS, number_in_life(seat.incarnation));
    format!("{}/{}.{life}.{number}", seat.ticket, member_number(seat.member))
}

fn places(seats: &[Seat]) -> String {
    format!("[{}]", seats.iter().map(place).collect::<Vec<_>>().join(" "))
}

fn text(deed: &Deed) -> String {
    let beyond = deed.beyond.as_ref().map_or(String::new(), |beyond| format!(" beyond {}", place(beyond)));
    format!("v{} next {}{beyond} {}", deed.version, place(&deed.next), places(&deed.witnesses))
}

fn stands(standing: &Standing) -> String {
    let proposed =
        standing.proposed.as_ref().map_or(String::new(), |deed| format!(", would by {}", text(deed)));
    format!("#{} goes by {}{proposed}", standing.number, text(&standing.deed))
}

fn told(message: &TicketMessage) -> String {
    match message {
        TicketMessage::Ask(ask) => {
            let settled = if ask.is_settled { "settled" } else { "unsettled" };
            format!("Ask {} {settled} {}", place(&ask.seat), stands(&ask.standing))
        }
        TicketMessage::Vouch(Vouch { number, proposed, .. }) => format!("Vouch #{number} {proposed:?}"),
        TicketMessage::Gone { seat } => format!("Gone {}", place(seat)),
        TicketMessage::NotMe { seat, .. } => format!("NotMe {}", place(seat)),
        TicketMessage::Wait { coordinators } => {
            format!("Wait {:?}", coordinators.iter().map(|member| member_number(*member)).collect::<Vec<_>>())
        }
        TicketMessage::Grant { by, seat, next, witnesses, .. } => format!(
            "Grant {} by {} before {} witnesses {}",
            place(seat),
            place(by),
            place(next),
            places(witnesses),
        ),
        TicketMessage::Update { to, witnesses } => format!("Update {} {}", place(to), places(witnesses)),
        TicketMessage::Knock { seat } => format!("Knock {}", place(seat)),
        TicketMessage::Here { seat } => format!("Here {}", place(seat)),
        TicketMessage::Lock { by, attempt, seat } => {
            format!("Lock #{attempt} by {} of {}", place(by), place(seat))
        }
        TicketMessage::Locked { attempt, seat, standing, .. } => {
            let said = standing.as_ref().map_or("nothing".to_owned(), stands);
            format!("Locked #{attempt} {} which said {said}", place(seat))
        }
        TicketMessage::Bound { seat, by, attempt, witness } => {
            format!("Bound #{attempt} by {} of {} is {}", place(by), place(seat), member_number(*witness))
        }
        TicketMessage::Unlock { seat, by, attempt } => {
            format!("Unlock #{attempt} by {} of {}", place(by), place(seat))
        }
        TicketMessage::Release { seat, next, .. } => {
            format!("Release {} next {}", place(seat), place(next))
        }
        TicketMessage::Released { seat } => format!("Released {}", place(seat)),
        TicketMessage::Join { incarnation, waited } => {
            format!("Join {} after {:.1}", number_in_life(*incarnation), waited.as_secs_f64())
        }
    }
}

fn happened(event: &Event) -> String {
    match event {
        Event::Took { seat } => format!("took {}", place(seat)),
        Event::SlotBegan { seat, number, .. } => format!("pulls by {} #{number}", place(seat)),
        Event::Lost { seat, is_given_back: true } => format!("gave {} back", place(seat)),
        Event::Lost { seat, is_given_back: false } => format!("lost {}", place(seat)),
        Event::Excluded { seats } => format!("excluded {}", places(seats)),
        other => format!("{other:?}"),
    }
}
