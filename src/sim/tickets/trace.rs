//! What happened in a simulated ring, one by one: for whoever wants to look at every moment of it.

use std::collections::VecDeque;
use std::fmt;

use crate::base::{Seat, TicketMessage, Time, Witnesses};
use crate::proto::tickets::Event;
use crate::sim::numbers::member_number;

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

/// A seat as ticket/member.incarnation, without the part of the incarnation that tells lives apart.
fn place(seat: &Seat) -> String {
    let (life, number) = (seat.incarnation >> 32, seat.incarnation & 0xffff_ffff);
    format!("{}/{}.{life}.{number}", seat.ticket, member_number(seat.member))
}

fn places(seats: &[Seat]) -> String {
    format!("[{}]", seats.iter().map(place).collect::<Vec<_>>().join(" "))
}

fn list(witnesses: Option<&Witnesses>) -> String {
    witnesses.map_or("-".to_owned(), |list| format!("v{}{}", list.version, places(&list.seats)))
}

fn told(message: &TicketMessage) -> String {
    match message {
        TicketMessage::Ask(ask) => format!(
            "Ask {} #{} next {} {} goes by {} would by {}",
            place(&ask.seat),
            ask.number,
            place(&ask.next),
            if ask.is_settled { "settled" } else { "unsettled" },
            list(ask.adopted.as_ref()),
            list(ask.proposed.as_ref()),
        ),
        TicketMessage::Vouch { number, adopted, proposed, .. } => {
            format!("Vouch #{number} {adopted:?} {proposed:?}")
        }
        TicketMessage::NotMe { seat } => format!("NotMe {}", place(seat)),
        TicketMessage::Wait { coordinators } => {
            format!("Wait {:?}", coordinators.iter().map(|member| member_number(*member)).collect::<Vec<_>>())
        }
        TicketMessage::Grant { by, seat, followers, witnesses } => format!(
            "Grant {} by {} before {} witnesses {}",
            place(seat),
            place(by),
            places(followers),
            places(witnesses),
        ),
        TicketMessage::Update { witnesses, .. } => format!("Update {}", places(witnesses)),
        TicketMessage::Lock { seat, attempt, to } => {
            format!("Lock #{attempt} from {} to {}", place(seat), place(to))
        }
        TicketMessage::Release { seat, next, number } => {
            format!("Release #{number} {} next {}", place(seat), place(next))
        }
        other => format!("{other:?}"),
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
