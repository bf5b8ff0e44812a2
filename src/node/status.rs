//! What a node says about itself: for `stroll status`, the metrics and the checkers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{MemberId, Seat, Session, Ticket, Time, TokenId};
use crate::proto::load::{Advice, Summary, Verdict};
use crate::proto::{agent, handoff, tickets};
use crate::wire::records::{Certificate, Ring};

use super::admission::Rejection;
use super::machine::Node;
use super::pull::Pull;

/// Everything that was counted since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    rejected: BTreeMap<&'static str, u64>,
    visits: u64,
    slots: u64,
    regenerated: u64,
    removed: u64,
    handed_off: u64,
    unreachable: u64,
    moves_repeated: u64,
    commits_repeated: u64,
    commits_abandoned: u64,
    dropped: u64,
    authority_conflicts: u64,
    pub(super) duplicate_identity: u64,
    tickets_taken: u64,
    tickets_lost: u64,
    excluded: u64,
}

impl Counters {
    pub(super) fn reject(&mut self, rejection: Rejection) {
        *self.rejected.entry(rejection.name()).or_default() += 1;
    }

    pub(super) fn slot_began(&mut self) {
        self.slots += 1;
    }

    pub(super) fn move_repeated(&mut self) {
        self.moves_repeated += 1;
    }

    pub(super) fn commit_repeated(&mut self) {
        self.commits_repeated += 1;
    }

    pub(super) fn note(&mut self, event: agent::Event) {
        match event {
            agent::Event::Visited { .. } => self.visits += 1,
            agent::Event::SlotBegan { .. } => self.slot_began(),
            agent::Event::Generated { because, .. } if because != agent::Origin::Founded => {
                self.regenerated += 1;
            }
            agent::Event::Discarded { .. } => self.removed += 1,
            agent::Event::Generated { .. }
            | agent::Event::Kept { .. }
            | agent::Event::SlotEnded
            | agent::Event::Skipped => {}
        }
    }

    pub(super) fn note_handoff(&mut self, event: &handoff::Event) {
        match event {
            handoff::Event::Confirmed { .. } => self.handed_off += 1,
            handoff::Event::Unreachable { .. } => self.unreachable += 1,
            handoff::Event::CommitAbandoned { .. } => self.commits_abandoned += 1,
            handoff::Event::Dropped { .. } => self.dropped += 1,
            handoff::Event::AuthorityConflict { .. } => self.authority_conflicts += 1,
            _ => {}
        }
    }

    pub(super) fn note_ticket(&mut self, event: &tickets::Event) {
        match event {
            tickets::Event::Took { .. } => self.tickets_taken += 1,
            tickets::Event::Lost { is_given_back: false, .. } => self.tickets_lost += 1,
            tickets::Event::Excluded { seats } => self.excluded += seats.len() as u64,
            _ => {}
        }
    }
}

/// One member as another sees it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Who.
    pub member: MemberId,
    /// Its name.
    pub name: String,
    /// Where.
    pub address: SocketAddr,
    /// How long ago it was heard at first hand.
    pub heard_ago: Option<Duration>,
    /// The smoothed round trip to it.
    pub round_trip: Option<Duration>,
    /// How far its wall clock is ahead of ours, in milliseconds.
    pub clock_offset_ms: Option<i64>,
    /// How long it has waited for a slot that it would use, by what it said last.
    pub waits_for: Option<Duration>,
    /// Whether it does not answer.
    pub is_suspected: bool,
    /// Until when its certificate is valid, in seconds since 1970.
    pub expires_s: u64,
}

/// A member's part in a ring of tickets.
#[derive(Clone, Debug)]
pub struct RingStatus {
    /// As the charter says.
    pub ring: Ring,
    /// Ours.
    pub seat: Option<Seat>,
    /// Whether it may be used.
    pub is_sure: bool,
    /// Who comes after us; ourselves if we are alone.
    pub next: Option<Seat>,
    /// Who has a ticket as far as we know: ourselves first, then who comes after us.
    pub coordinators: Vec<Seat>,
    /// How many members wait for a ticket, as far as we know.
    pub waiting: usize,
    /// How long we have waited for a ticket that may be used.
    pub waits_for: Option<Duration>,
}

impl RingStatus {
    /// The tickets that are ours to give: from ours down to before the next one's, as the first, the last and how many.
    pub fn coordinated(&self) -> Option<(Ticket, Ticket, Ticket)> {
        let (from, next) = (i32::from(self.seat?.ticket), i32::from(self.next?.ticket));
        let tickets = i32::from(self.ring.tickets.max(1));
        // From ourselves to ourselves it is the whole way round.
        let count = (from - next - 1).rem_euclid(tickets) + 1;
        let last = (from - count + 1).rem_euclid(tickets);
        let ticket = |number: i32| Ticket::try_from(number).ok();
        Some((ticket(from)?, ticket(last)?, ticket(count)?))
    }
}

/// A node at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Who it is.
    pub member: MemberId,
    /// The authority's word for it.
    pub certificate: Certificate,
    /// The token that is here.
    pub token: Option<(TokenId, Session)>,
    /// The ring of tickets, in a circle that goes by them.
    pub ring: Option<RingStatus>,
    /// Whether a slot runs.
    pub is_pulling: bool,
    /// Whether the jobs have something to pull.
    pub wants_work: bool,
    /// How much longer the circle leaves its source alone.
    pub cooling_for: Duration,
    /// Why, if this member asked for it; nothing if it came with the token from another member.
    pub cooling_reason: Option<String>,
    /// How many addresses of members are greeted in vain while no member is known.
    pub unanswered: usize,
    /// The charter in force.
    pub charter_version: u32,
    /// The bans in force.
    pub bans_version: u32,
    /// How long the source keeps what it has, by the charter; zero if that is unknown.
    pub retention: Duration,
    /// Time between visits.
    pub return_times: Option<Summary>,
    /// Time between slots.
    pub access_intervals: Option<Summary>,
    /// Whether the circle can bear its load, with the load factor.
    pub verdict: Verdict,
    /// For how long it has been so.
    pub verdict_for: Duration,
    /// The stream rate that it leaves to this member.
    pub advice: Option<Advice>,
    /// Visits of a token.
    pub visits: u64,
    /// Slots.
    pub slots: u64,
    /// Tokens made here because one was believed lost.
    pub regenerated: u64,
    /// Tokens removed here.
    pub removed: u64,
    /// Handoffs that were confirmed.
    pub handed_off: u64,
    /// Handoffs that nobody took.
    pub unreachable: u64,
    /// Moves that were sent again, because no Ack had come.
    pub moves_repeated: u64,
    /// Commits that were sent again, because no `EarlyStop` had come or the Ack came again.
    pub commits_repeated: u64,
    /// Commits that were repeated long enough: whether they arrived is not known.
    pub commits_abandoned: u64,
    /// Tokens given up here: the computer slept.
    pub dropped: u64,
    /// Offers of a token that is here: somebody else believes to have it.
    pub authority_conflicts: u64,
    /// Signs of another process with this member's key.
    pub duplicate_identity: u64,
    /// Tickets that this member had.
    pub tickets_taken: u64,
    /// Tickets that it lost, and did not give back.
    pub tickets_lost: u64,
    /// Members whose tickets were taken over here.
    pub excluded: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams taken in.
    pub accepted: u64,
    /// Datagrams dropped, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Whom it knows.
    pub members: Vec<MemberStatus>,
}

impl Node {
    /// What there is to say at this moment.
    pub fn status(&self, now: Time) -> Status {
        let members = self.directory.iter().map(|(member, known)| MemberStatus {
            member,
            name: known.entry().certificate.name.clone(),
            address: known.entry().record.address,
            heard_ago: known.heard_at().map(|at| now.since(at)),
            round_trip: known.round_trip(),
            clock_offset_ms: known.clock_offset_ms(),
            waits_for: known.waits_since().map(|since| now.since(since)),
            is_suspected: known.is_suspected(),
            expires_s: known.entry().certificate.not_after_s,
        });
        let verdict = self.load.verdict(now);
        Status {
            member: self.me,
            certificate: self.identity.certificate.clone(),
            token: self.token(),
            ring: self.ring_status(now),
            is_pulling: match self.office {
                None => self.agent.is_pulling(),
                Some(_) => self.pull != Pull::Idle,
            },
            wants_work: self.wants_work,
            cooling_for: self.cool_until.since(now),
            cooling_reason: self.cool_reason.clone().filter(|_| self.cool_until > now),
            unanswered: if self.directory.is_empty() { self.greeted.len() } else { 0 },
            charter_version: self.identity.roll.charter().version,
            bans_version: self.identity.roll.bans_version(),
            retention: self.identity.roll.charter().retention,
            return_times: self.load.return_times(),
            access_intervals: self.load.access_intervals(),
            verdict_for: now.since(verdict.since),
            verdict,
            advice: self.load.advice(),
            visits: self.counters.visits,
            slots: self.counters.slots,
            regenerated: self.counters.regenerated,
            removed: self.counters.removed,
            handed_off: self.counters.handed_off,
            unreachable: self.counters.unreachable,
            moves_repeated: self.counters.moves_repeated,
            commits_repeated: self.counters.commits_repeated,
            commits_abandoned: self.counters.commits_abandoned,
            dropped: self.counters.dropped,
            authority_conflicts: self.counters.authority_conflicts,
            duplicate_identity: self.counters.duplicate_identity,
            tickets_taken: self.counters.tickets_taken,
            tickets_lost: self.counters.tickets_lost,
            excluded: self.counters.excluded,
            sent: self.counters.sent,
            accepted: self.counters.accepted,
            rejected: self.counters.rejected.clone(),
            members: members.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is coordinated by who has the first ticket and is followed by who has the second, of five.
    fn coordinated(own: Ticket, next: Ticket) -> Option<(Ticket, Ticket, Ticket)> {
        let member = MemberId::from_bytes([1; 16]);
        let seat = |ticket| Seat { ticket, member, incarnation: 1 };
        let status = RingStatus {
            ring: Ring { tickets: 5, faults: 1, first: member, epoch: 1 },
            seat: Some(seat(own)),
            is_sure: true,
            next: Some(seat(next)),
            coordinators: Vec::new(),
            waiting: 0,
            waits_for: None,
        };
        status.coordinated()
    }

    #[test]
    fn tickets_are_coordinated_from_ours_down_to_before_the_next_ones() {
        assert_eq!(coordinated(4, 2), Some((4, 3, 2)));
        assert_eq!(coordinated(4, 3), Some((4, 4, 1)));
        assert_eq!(coordinated(1, 3), Some((1, 4, 3)), "after 0 comes the highest");
        assert_eq!(coordinated(0, 0), Some((0, 1, 5)), "who is alone has all");
    }
}
