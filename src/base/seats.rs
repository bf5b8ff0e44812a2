//! The ring of those who hold a ticket, and what they say to each other: values that travel.

use std::time::Duration;

use super::MemberId;

/// The number of a ticket.
pub type Ticket = u16;

/// One life of one member in the ring: who holds which ticket. Whoever comes back holds another seat, even with the same
/// ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Which ticket.
    pub ticket: Ticket,
    /// Who holds it.
    pub member: MemberId,
    /// Which of the member's seats: a later one has a higher number.
    pub incarnation: u64,
}

/// Who waits for a ticket, and for how long already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub member: MemberId,
    /// Which of its seats it would be.
    pub incarnation: u64,
    /// How long.
    pub waited: Duration,
}

/// How far the tickets of a seat reach, and who vouches for it. A seat changes its deed by another one with a higher
/// version, which counts as soon as enough witnesses of both know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Which of the deeds of this seat.
    pub version: u32,
    /// Who comes next: the tickets down to before that one's are this seat's to give.
    pub next: Seat,
    /// Who comes after the next one, while that is just being let in and nobody else may know.
    pub beyond: Option<Seat>,
    /// The seats before it that vouch for it, nearest first.
    pub witnesses: Vec<Seat>,
}

/// How things stand with a seat, as it said itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Of the question with which it said so. A later one is higher.
    pub number: u64,
    /// By which it goes.
    pub deed: Deed,
    /// By which it would go if enough agreed.
    pub proposed: Option<Deed>,
}

impl Standing {
    /// How things stand with a seat of which only its deed is known, by the word of another. Whatever it says itself is
    /// later.
    pub fn introduced(deed: Deed) -> Self {
        Self { number: 0, deed, proposed: None }
    }

    /// What is known if both are. A deed that has counted has replaced every earlier one and every earlier proposal, whoever
    /// told of it.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let (mut late, early) = if self.number < other.number { (other, self) } else { (self, other) };
        if late.deed.version < early.deed.version {
            late.proposed = late.proposed.filter(|proposed| early.deed.version < proposed.version);
            late.deed = early.deed;
        }
        late
    }

    /// The deed by which it goes, or would go.
    pub fn latest(&self) -> &Deed {
        self.proposed.as_ref().unwrap_or(&self.deed)
    }

    /// The witnesses by which it goes, then those by which it would.
    pub fn lists(&self) -> impl Iterator<Item = &[Seat]> {
        [Some(&self.deed), self.proposed.as_ref()].into_iter().flatten().map(|deed| &deed.witnesses[..])
    }
}

/// What a seat asks its witnesses, once a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub seat: Seat,
    /// How things stand; the answer repeats the number.
    pub standing: Standing,
    /// For how long it has not been sure of its seat.
    pub unsure_for: Duration,
    /// Whether it was ever sure of it.
    pub is_settled: bool,
    /// Whether all of this was answered before, and only tells that it is still there.
    pub is_reminder: bool,
    /// Those who wait longest, as far as it knows.
    pub waiters: Vec<Waiter>,
}

/// What a witness answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// Of the question.
    pub number: u64,
    /// The one who answers stands by every promise that it gave in seats from this number on.
    pub since: u64,
    /// The proposed deed that it has taken notice of.
    pub proposed: Option<u32>,
    /// Whether it is sure of a seat itself: what is given back to it can be had again.
    pub is_sure: bool,
    /// Those who wait longest, as far as it knows.
    pub waiters: Vec<Waiter>,
}

/// What members say to each other about tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketMessage {
    /// Do you vouch for me?
    Ask(Ask),
    /// For so long after you asked, yes.
    Vouch(Vouch),
    /// You have that seat no more: its ticket is mine, or another one's.
    Gone {
        /// Which.
        seat: Seat,
    },
    /// The seat of mine that you mean is no more, and whatever ran by it has ended.
    NotMe {
        /// Which.
        seat: Seat,
        /// As in [`Vouch`].
        since: u64,
        /// It never was: nothing was ever said in it.
        is_vacant: bool,
        /// All that was said in it, if the member remembers.
        standing: Option<Standing>,
    },
    /// May I have a ticket?
    Join {
        /// Where the numbers of its next seat begin.
        incarnation: u64,
        /// Waiting for so long already.
        waited: Duration,
    },
    /// Not now. Those may know more, or have one.
    Wait {
        /// Who is in the ring.
        coordinators: Vec<MemberId>,
    },
    /// You have it, as soon as enough of these vouch for you.
    Grant {
        /// Who grants it.
        by: Seat,
        /// Yours.
        seat: Seat,
        /// Who comes after you.
        next: Seat,
        /// Yours.
        witnesses: Vec<Seat>,
        /// By which the one who comes after you goes.
        deed: Option<Deed>,
    },
    /// Your witnesses should be these.
    Update {
        /// Who is meant.
        to: Seat,
        /// The sender first.
        witnesses: Vec<Seat>,
    },
    /// Is there anybody in that seat?
    Knock {
        /// Which.
        seat: Seat,
    },
    /// I am.
    Here {
        /// Which.
        seat: Seat,
    },
    /// That one does not answer. Vouch for it no more, and tell what you know of it.
    Lock {
        /// Who says so.
        by: Seat,
        /// Grows with every attempt; the answer repeats it.
        attempt: u64,
        /// Who is meant.
        seat: Seat,
    },
    /// I do not, and shall take notice of nothing that it says.
    Locked {
        /// Which attempt.
        attempt: u64,
        /// Who is meant.
        seat: Seat,
        /// As in [`Vouch`].
        since: u64,
        /// For so long I have not vouched for it.
        quiet_for: Duration,
        /// What it said last.
        standing: Option<Standing>,
    },
    /// That one speaks again, and somebody is bound by a promise about it. Does that still hold?
    Bound {
        /// Who is meant.
        seat: Seat,
        /// Who asked for the promise.
        by: Seat,
        /// With which attempt.
        attempt: u64,
        /// Who gave it.
        witness: MemberId,
    },
    /// It does not: vouch for that one as before.
    Unlock {
        /// Who is meant.
        seat: Seat,
        /// Who asked for the promise.
        by: Seat,
        /// With which attempt.
        attempt: u64,
    },
    /// I give my ticket back to you, who come before me.
    Release {
        /// Whose seat ends.
        seat: Seat,
        /// Who comes next.
        next: Seat,
        /// By which that one goes.
        deed: Option<Deed>,
    },
    /// I have it.
    Released {
        /// Whose seat has ended.
        seat: Seat,
    },
}
