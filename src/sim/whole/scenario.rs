//! What is simulated, and what came of it.

use std::time::Duration;

use crate::base::Ticket;
use crate::sim::measure::Occupancy;
use crate::trust::Suite;
use crate::wire::records::RuleSet;

use super::network::Faults;
use super::rows::Rows;
use super::stopwatch::Spans;
use super::violation::Violation;

/// A circle of whole nodes to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// How many members.
    pub members: usize,
    /// How many of these have work, all the time; `None` for all.
    pub active: Option<usize>,
    /// Work appears at one random member after the other, so far apart on average, and each has enough with one slot. Then
    /// nobody else has work, whatever `active` says.
    pub bursts: Option<Duration>,
    /// N_max; `None` for the number of members.
    pub capacity: Option<u32>,
    /// Tickets instead of a token.
    pub ring: Option<RingSize>,
    /// Δ_op.
    pub slot: Duration,
    /// Δ_skip.
    pub skip: Duration,
    /// Which rules.
    pub rules: RuleSet,
    /// Real signatures, or fast ones for large circles.
    pub suite: Suite,
    /// How long things go wrong.
    pub duration: Duration,
    /// How long they do not, at the end.
    pub settle: Duration,
    /// What goes wrong; `None` to draw it from the seed.
    pub faults: Option<Faults>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            members: 8,
            active: None,
            bursts: None,
            capacity: None,
            ring: None,
            slot: Duration::from_secs(1),
            skip: Duration::from_millis(100),
            rules: RuleSet::Guarded,
            suite: Suite::Ed25519,
            duration: Duration::from_secs(300),
            settle: Duration::from_secs(120),
            faults: Some(Faults::default()),
        }
    }
}

impl Scenario {
    /// True if this member has work.
    pub(super) fn has_work(&self, member: usize) -> bool {
        self.bursts.is_none() && self.active.is_none_or(|active| member < active)
    }

    /// A circle with tickets, of which there are fewer than members who want one.
    pub fn of_ring(ring: RingSize) -> Self {
        Self { members: 20, ring: Some(ring), slot: Duration::from_secs(4), ..Self::default() }
    }
}

/// How large a ring of tickets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// n: how many tickets.
    pub tickets: Ticket,
    /// k: how many neighbours may fail at once.
    pub faults: u8,
}

/// What became of tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Rounds, summed over all who had a seat.
    pub rounds: u64,
    /// Seats that became usable.
    pub joins: u64,
    /// Seats that their owners gave back.
    pub given_back: u64,
    /// Seats that their owners lost while they ran.
    pub lost: u64,
    /// Seats that were excluded.
    pub excluded: u64,
    /// Times that a seat was not sure for a while.
    pub unsure: u64,
    /// Times that the ring was dead, and the authority founded another one.
    pub refounded: u64,
}

impl RingCounts {
    fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.joins += other.joins;
        self.given_back += other.given_back;
        self.lost += other.lost;
        self.excluded += other.excluded;
        self.unsure += other.unsure;
        self.refounded += other.refounded;
    }
}

/// What one run, or several, came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Runs.
    pub runs: u32,
    /// Tokens that arrived.
    pub passes: u64,
    /// Broken promises of uniqueness.
    pub duplicates: u64,
    /// Tokens that ended because their holder crashed, or one of two between whom they were on their way.
    pub lost_by_crash: u64,
    /// The same for members that were banned or whose certificate had expired.
    pub lost_by_ban: u64,
    /// Tokens that ended in a handoff between two members of which neither crashed since the Move.
    pub lost: u64,
    /// Members that came back from a crash without their files.
    pub forgotten: u64,
    /// Members that were banned.
    pub banned: u64,
    /// Members that stopped by themselves when they learnt that they were banned or had expired.
    pub expelled: u64,
    /// Tokens made because one was believed lost.
    pub regenerated: u64,
    /// Those of them that were made while a token was alive: needlessly, or on the other side of a split.
    pub needless: u64,
    /// How long two different tokens were in use, summed up.
    pub two_tokens: Duration,
    /// How long there was no token, for each time that one was lost and replaced.
    pub recoveries: Vec<Duration>,
    /// The most slots that others had between two of one member after the faults were over, in multiples of the number of
    /// members with work.
    pub most_overtaken: f64,
    /// Tokens removed.
    pub removed: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams that members dropped.
    pub rejected: u64,
    /// Slots.
    pub slots: u64,
    pub(super) pulling: Occupancy,
    /// Jain's index over the slots of the members with work, one per run.
    pub jain: Vec<f64>,
    /// How long each member at which work appeared waited for its first slot, with `bursts`.
    pub first_slots: Vec<Duration>,
    /// What became of tickets.
    pub ring: RingCounts,
    /// How long visits and handoffs took.
    pub spans: Spans,
    /// Which rows of the handoff's tables were reached.
    pub rows: Rows,
    /// Every broken promise.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// The share of the time with 0, 1, 2, … members pulling, in percent.
    pub fn pulling_percent(&self) -> Vec<f64> {
        self.pulling.percent()
    }

    /// Takes in what another run came to.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.passes += other.passes;
        self.duplicates += other.duplicates;
        self.lost_by_crash += other.lost_by_crash;
        self.lost_by_ban += other.lost_by_ban;
        self.lost += other.lost;
        self.forgotten += other.forgotten;
        self.banned += other.banned;
        self.expelled += other.expelled;
        self.regenerated += other.regenerated;
        self.needless += other.needless;
        self.two_tokens += other.two_tokens;
        self.recoveries.extend_from_slice(&other.recoveries);
        self.most_overtaken = self.most_overtaken.max(other.most_overtaken);
        self.removed += other.removed;
        self.datagrams += other.datagrams;
        self.rejected += other.rejected;
        self.slots += other.slots;
        self.pulling.add(&other.pulling);
        self.jain.extend_from_slice(&other.jain);
        self.first_slots.extend_from_slice(&other.first_slots);
        self.ring.add(other.ring);
        self.spans.add(&other.spans);
        self.rows.add(other.rows);
        self.violations.extend(other.violations);
    }
}
