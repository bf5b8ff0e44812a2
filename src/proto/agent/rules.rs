//! The sets of rules, as data: one machine reads them, and each part can be switched alone.

use std::time::Duration;

/// What an agent does with a token and without one.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a part of the rules that is on or off")]
pub struct Rules {
    /// Removal of the early paper: discard a token if an elder one enabled us less than Δ_min ago.
    pub precedence: bool,
    /// Removal of the classic paper: discard a token that was here before if an elder one came in between.
    pub sandwich: bool,
    /// Whether two tokens that meet at a member become one: the elder stays. In the papers a member that uses a
    /// token takes no other, so they hardly ever meet.
    pub meeting: bool,
    /// Whether a slot is due whenever there is work, not only after Δ_min: a holder whose scouts find no other member
    /// with work keeps the token, slot after slot. Has no effect without scouting, which makes the order fair.
    pub work_conserving: bool,
    /// Removal by hearsay: discard a token if an elder one was seen anywhere after its birth.
    pub sightings: Option<Sightings>,
    /// When to make a new token because none has come for long.
    pub regeneration: Regeneration,
    /// Whether who handed a token off watches over it until it is handed on.
    pub custody: Option<Custody>,
    /// Whether the holder asks around before it hands off. Without: a uniform choice, as in the papers.
    pub scouting: Option<Scouting>,
    /// Whether a member that gets work announces it, so that an idle token reaches it soon. Has no effect without
    /// scouting, which is how the holder acts on it.
    pub announcing: Option<Announcing>,
}

/// The last resort: when a member that has no token makes one.
#[derive(Clone, Debug, PartialEq)]
pub enum Regeneration {
    /// The early paper: after Δ_gen without a visit, where Δ_gen grows by `growth` whenever it runs out, and falls
    /// with every visit by the share `decay` of what it is above Δ_max.
    Adaptive {
        /// The paper's 1.5.
        growth: f64,
        /// The paper's 5 %.
        decay: f64,
    },
    /// The classic paper: Δ_min without a visit, then a Poisson process of mean γ.
    Poisson,
    /// Ours: as many of the member's own usual quiet times without news, and at least Δ_min; then a Poisson process
    /// by which the circle wakes after some slots; and then, with scouting and sightings, only if nobody who is asked
    /// has seen a token lately.
    Stretched {
        /// How many usual quiet times are suspicious. Where gaps are exponential, the usual one (weighted by length)
        /// is twice the mean; so 4 of them pass without news once in e⁸ ≈ 3,000 times.
        quiet_times: f64,
        /// After how many slots on average the whole circle wakes, however many share it: time enough for the news of the
        /// first new token to stop most others.
        slots: u32,
    },
    /// No token is ever made: the members of this circle take turns in another way.
    Never,
}

/// How far hearsay is believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Sightings {
    /// An elder token must have been seen this long after a token's birth to prove it spurious. 5 s is more than
    /// all transit times that a sighting's age can lack.
    pub margin: Duration,
    /// What is added to a sighting's age whenever it is told, for its unknown time on the way. Too old a sighting
    /// only proves less.
    pub relay: Duration,
}

/// How a giver watches over what it handed off.
#[derive(Clone, Debug, PartialEq)]
pub struct Custody {
    /// How long after the taker's slot its release may take at least: one handoff and a round trip, with room. Over long
    /// paths twice the taker's timeout.
    pub grace: Duration,
    /// How long to wait at least for the answer to a check before the next one. Over long paths the taker's timeout.
    pub check_every: Duration,
    /// How many unanswered checks mean that the token is lost. Where one datagram in five gets lost, a check and its
    /// answer fail in a third of the cases, four of them in one of sixty.
    pub checks: u32,
}

/// Whom the holder asks before it hands off.
#[derive(Clone, Debug, PartialEq)]
pub struct Scouting {
    /// d: how many members are asked.
    pub scouts: usize,
    /// How long a holder without a slot waits at least for the first answer before it hands off to just anyone; by default
    /// no longer than a slot. Over long paths as long as answers usually take.
    pub patience: Duration,
}

/// How a member that gets work announces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcing {
    /// How many members are told in one round. An idle holder asks 8 of them with every visit: if 16 of 300 were told,
    /// every second or third visit finds one of those.
    pub told: usize,
    /// How many rounds there are, unless the token comes before. Three make up for lost datagrams; a circle in which
    /// others pull finds the member by scouting anyway.
    pub rounds: u32,
    /// The least time between two rounds, which bounds what a member can send by this. Over long paths the token needs longer
    /// to come: twice as long as answers usually take.
    pub every: Duration,
}

impl Rules {
    /// The earlier paper (2006/07).
    pub fn early() -> Self {
        Self {
            precedence: true,
            sandwich: false,
            meeting: false,
            work_conserving: false,
            sightings: None,
            regeneration: Regeneration::Adaptive { growth: 1.5, decay: 0.05 },
            custody: None,
            scouting: None,
            announcing: None,
        }
    }

    /// The paper of 2009.
    pub fn classic() -> Self {
        Self {
            precedence: false,
            sandwich: true,
            meeting: false,
            work_conserving: false,
            sightings: None,
            regeneration: Regeneration::Poisson,
            custody: None,
            scouting: None,
            announcing: None,
        }
    }

    /// The default: classic with scouting, work-conserving slots, sightings, custody and a stretched last resort.
    pub fn guarded() -> Self {
        Self {
            meeting: true,
            work_conserving: true,
            sightings: Some(Sightings::default()),
            regeneration: Regeneration::stretched(),
            custody: Some(Custody::default()),
            scouting: Some(Scouting::default()),
            announcing: Some(Announcing::default()),
            ..Self::classic()
        }
    }
}

impl Rules {
    /// Whether a slot is due whenever there is work.
    pub(super) fn is_work_conserving(&self) -> bool {
        self.work_conserving && self.scouting.is_some()
    }

    /// How work is announced, if it is.
    pub(super) fn announcing(&self) -> Option<&Announcing> {
        self.announcing.as_ref().filter(|_| self.is_work_conserving())
    }
}

impl Regeneration {
    /// The guarded rules' last resort; the fields give the reasons for the numbers.
    pub fn stretched() -> Self {
        Self::Stretched { quiet_times: 4.0, slots: 15 }
    }
}

impl Default for Sightings {
    fn default() -> Self {
        Self { margin: Duration::from_secs(5), relay: Duration::from_millis(250) }
    }
}

impl Default for Custody {
    fn default() -> Self {
        Self { grace: Duration::from_millis(500), check_every: Duration::from_millis(300), checks: 4 }
    }
}

impl Default for Scouting {
    fn default() -> Self {
        Self { scouts: 8, patience: Duration::from_millis(500) }
    }
}

impl Default for Announcing {
    fn default() -> Self {
        Self { told: 16, rounds: 3, every: Duration::from_secs(1) }
    }
}
