//! What a member says of itself: the JSON of `stroll status`, the page and the control socket. Its names stay as they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::Ticket;
use crate::jobs::{JobReport, State};
use crate::node::{MemberStatus, RingStatus, Status};
use crate::proto::load::{Level, Summary};
use crate::trust::expiry_warning;

use super::member::wall_s;

/// So many tickets are told one by one.
const LISTED: Ticket = 6;

/// A member at one moment, as `stroll status --json` prints it. Its names stay as they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// Of this format.
    pub version: u32,
    /// The circle's name.
    pub circle: String,
    /// The member's name.
    pub name: String,
    /// The member's identity, in short.
    pub member: String,
    /// Where it listens.
    pub listen: String,
    /// When its certificate expires, in seconds since 1970.
    pub expires_s: u64,
    /// In how many days that is, if it is soon.
    pub expires_in_days: Option<u64>,
    /// What it does: `run` pulls, `idle` holds a token without pulling, `wtok` waits for the token, `cool` leaves the
    /// source alone. With tickets: `idle` has a ticket that it may use or nothing to pull, `wtok` waits for a ticket or until
    /// it may use its own.
    pub state: String,
    /// How members take turns: `token` or `tickets`.
    #[serde(default = "token")]
    pub mode: String,
    /// The ring of tickets, in a circle that goes by them.
    #[serde(default)]
    pub ring: Option<RingReport>,
    /// The token that is here.
    pub token: Option<String>,
    /// Its session: a number that only grows.
    pub session: Option<u64>,
    /// How much longer the circle leaves the source alone.
    pub cooling_s: f64,
    /// The charter in force.
    pub charter_version: u32,
    /// The bans in force.
    pub bans_version: u32,
    /// How long the source keeps what it has, if the charter says so.
    #[serde(default)]
    pub retention_s: Option<u64>,
    /// Time between visits of the token; none where there are tickets.
    pub return_time_s: Option<SpanReport>,
    /// Time between slots.
    pub access_interval_s: Option<SpanReport>,
    /// Mean access interval over the nominal period; above 1 is overload.
    pub load_factor: Option<f64>,
    /// Whether the circle can bear its load.
    pub verdict: VerdictReport,
    /// The stream rate that it leaves to this member, in a sentence.
    pub advice: Option<String>,
    /// The same in bytes per second.
    pub sustainable_bytes_per_sec: Option<f64>,
    /// What was counted since the start.
    pub counters: BTreeMap<String, u64>,
    /// Datagrams dropped, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Whom it knows.
    pub members: Vec<MemberReport>,
    /// What it pulls.
    #[serde(default)]
    pub jobs: Vec<JobReport>,
    /// Commands that borrow its slots.
    #[serde(default)]
    pub borrowers: Vec<BorrowerReport>,
    /// What such commands brought since the start, those that have ended included.
    #[serde(default)]
    pub borrowed_bytes: u64,
}

fn token() -> String {
    "token".to_owned()
}

/// A ring of tickets, as one member knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingReport {
    /// n: how many tickets there are.
    pub tickets: Ticket,
    /// k: how many neighbours may crash at once, in a ring that is large enough.
    pub faults: u8,
    /// Which of the circle's rings it is.
    pub epoch: u32,
    /// Ours.
    pub ticket: Option<Ticket>,
    /// Whether it may be used: enough members vouch for it.
    pub sure: bool,
    /// The tickets that are ours to give.
    pub coordinates: Option<RangeReport>,
    /// Who has a ticket as far as we know: ourselves first, then who comes after us.
    pub coordinators: Vec<CoordinatorReport>,
    /// How many members wait for a ticket, as far as we know.
    pub waiting: usize,
    /// How long we have waited for a ticket that we may use.
    pub waited_s: Option<f64>,
}

/// Tickets in their order, which goes down, and after 0 comes the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// The first.
    pub from: Ticket,
    /// The last.
    pub to: Ticket,
    /// How many.
    pub count: Ticket,
}

/// Somebody who has a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorReport {
    /// Which.
    pub ticket: Ticket,
    /// Who, in short.
    pub member: String,
    /// Its name, if that is known.
    pub name: Option<String>,
}

/// A command of another process that borrows the member's slots. What others may have named is escaped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BorrowerReport {
    /// By which it can be paused: the command and its process.
    pub name: String,
    /// `get`, `subscribe`, `mirror` or `exec`.
    pub kind: String,
    /// What it pulls, without password, or the program that it runs.
    pub what: String,
    /// `run` pulls, `wtok` waits for the token, `idle` has nothing to pull, `hung` is paused.
    pub state: State,
    /// For how long it has been there.
    pub since_s: f64,
    /// Slots that it had a part of.
    pub slots: u64,
    /// What it said that these brought.
    pub bytes: u64,
}

/// Whether the circle can bear its load, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictReport {
    /// `nominal`, `full`, `overloaded` or `starved`.
    pub level: String,
    /// In words and numbers.
    pub reason: String,
    /// For how long.
    pub since_s: f64,
}

/// A distribution of time spans, in seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SpanReport {
    /// Over how many.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Nine of ten are no longer.
    pub p90: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
    /// The newer half over the older half.
    pub trend: f64,
}

/// Another member, as this one knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its name.
    pub name: String,
    /// Its identity, in short.
    pub member: String,
    /// Where it is.
    pub address: String,
    /// How long ago it was heard at first hand.
    pub heard_s: Option<f64>,
    /// The round trip to it.
    pub round_trip_ms: Option<f64>,
    /// How far its wall clock is ahead of ours.
    pub clock_offset_ms: Option<i64>,
    /// How long it has waited for a slot, by what it said last.
    pub waited_s: Option<f64>,
    /// Whether it does not answer.
    pub suspected: bool,
    /// When its certificate expires, in seconds since 1970.
    pub expires_s: u64,
    /// In how many days that is.
    pub expires_in_days: Option<u64>,
}

impl VerdictReport {
    /// Whether it is worse than full: who gets no slot at all is no better off than who waits for long.
    pub fn is_overloaded(&self) -> bool {
        [Level::Overloaded, Level::Starved].iter().any(|level| level.name() == self.level)
    }
}

impl CoordinatorReport {
    /// Its name, or who it is.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.member)
    }
}

impl RangeReport {
    /// In words, in a ring of so many tickets: all of them if they are few.
    pub fn describe(&self, tickets: Ticket) -> String {
        let Self { from, to, count } = *self;
        let after = |steps: Ticket| (i32::from(from) - i32::from(steps)).rem_euclid(tickets.max(1).into());
        if count <= LISTED {
            let all: Vec<String> = (0..count).map(|steps| after(steps).to_string()).collect();
            return all.join(", ");
        }
        format!("{from}, {}, … {to} ({count} tickets)", after(1))
    }
}

impl RingReport {
    /// How many of so many members may crash at once, and the others go on: more than half of a small ring must be left. A
    /// ring has no more members than tickets.
    pub fn faults_borne(&self, members: usize) -> usize {
        let seats = members.min(self.tickets.into());
        (seats.saturating_sub(1) / 2).min(self.faults.into())
    }

    /// Whether a ticket is ours to use or to give.
    pub fn has(&self, ticket: Ticket) -> bool {
        let is_in = |range: RangeReport| {
            let steps = (i32::from(range.from) - i32::from(ticket)).rem_euclid(self.tickets.max(1).into());
            steps < range.count.into()
        };
        self.sure && self.coordinates.is_some_and(is_in)
    }

    fn new(status: &RingStatus, name: &str, members: &[MemberStatus]) -> Self {
        let name_of = |member| match members.iter().find(|known| known.member == member) {
            Some(known) => Some(known.name.clone()),
            None => status.seat.is_some_and(|seat| seat.member == member).then(|| name.to_owned()),
        };
        let coordinators = status.coordinators.iter().map(|seat| CoordinatorReport {
            ticket: seat.ticket,
            member: seat.member.to_string(),
            name: name_of(seat.member),
        });
        Self {
            tickets: status.ring.tickets,
            faults: status.ring.faults,
            epoch: status.ring.epoch,
            ticket: status.seat.map(|seat| seat.ticket),
            sure: status.is_sure,
            coordinates: status.coordinated().map(|(from, to, count)| RangeReport { from, to, count }),
            coordinators: coordinators.collect(),
            waiting: status.waiting,
            waited_s: status.waits_for.map(|span| span.as_secs_f64()),
        }
    }

    fn state(&self) -> &'static str {
        if self.waited_s.is_some() { "wtok" } else { "idle" }
    }
}

impl StatusReport {
    /// How often that has happened.
    pub fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// What it has counted with tickets, in words.
    pub fn ticket_counts(&self) -> String {
        let [slots, taken, lost, excluded] =
            ["slots", "tickets_taken", "tickets_lost", "excluded"].map(|name| self.count(name));
        format!("{slots} slots, {taken} tickets had, {lost} lost, {excluded} members excluded")
    }

    /// What it does, in words.
    pub fn doing(&self) -> &'static str {
        match (self.state.as_str(), &self.ring) {
            ("run", _) => "pulls",
            ("cool", _) => "leaves the source alone",
            ("idle", None) => "holds the token",
            (_, None) => "waits for the token",
            ("idle", Some(ring)) if ring.ticket.is_some() => "holds a ticket",
            ("idle", Some(_)) => "has nothing to pull",
            (_, Some(ring)) if ring.ticket.is_some() => "has a ticket, but too few vouch for it",
            (_, Some(_)) => "waits for a ticket",
        }
    }

    pub(super) fn new(
        circle: String,
        name: String,
        listen: String,
        status: &Status,
        jobs: Vec<JobReport>,
        borrowers: Vec<BorrowerReport>,
    ) -> Self {
        let ring = status.ring.as_ref().map(|ring| RingReport::new(ring, &name, &status.members));
        let state = match (status.is_pulling, status.cooling_for.is_zero(), &ring) {
            (true, ..) => "run",
            (false, false, _) => "cool",
            (false, true, Some(ring)) => ring.state(),
            (false, true, None) if status.token.is_some() => "idle",
            (false, true, None) => "wtok",
        };
        let counters = [
            ("visits", status.visits),
            ("slots", status.slots),
            ("regenerated", status.regenerated),
            ("removed", status.removed),
            ("handed_off", status.handed_off),
            ("unreachable", status.unreachable),
            ("dropped", status.dropped),
            ("authority_conflicts", status.authority_conflicts),
            ("duplicate_identity", status.duplicate_identity),
            ("datagrams_sent", status.sent),
            ("datagrams_accepted", status.accepted),
        ];
        let of_tickets = [
            ("tickets_taken", status.tickets_taken),
            ("tickets_lost", status.tickets_lost),
            ("excluded", status.excluded),
        ];
        let counters = counters.into_iter().chain(of_tickets.into_iter().filter(|_| ring.is_some()));
        Self {
            version: 1,
            circle,
            name,
            member: status.member.to_string(),
            listen,
            expires_s: status.certificate.not_after_s,
            expires_in_days: expiry_warning(&status.certificate, wall_s()),
            state: state.to_owned(),
            mode: if ring.is_some() { "tickets".to_owned() } else { token() },
            token: status.token.map(|(token, _)| token.to_string()),
            session: status.token.map(|(_, session)| session.0),
            cooling_s: status.cooling_for.as_secs_f64(),
            charter_version: status.charter_version,
            bans_version: status.bans_version,
            retention_s: Some(status.retention.as_secs()).filter(|kept_s| *kept_s > 0),
            return_time_s: status.return_times.filter(|_| ring.is_none()).map(SpanReport::from),
            access_interval_s: status.access_intervals.map(SpanReport::from),
            load_factor: status.load_factor,
            verdict: VerdictReport {
                level: status.verdict.level.name().to_owned(),
                reason: status.verdict.reason.clone(),
                since_s: status.verdict_for.as_secs_f64(),
            },
            advice: status.advice.map(|advice| advice.to_string()),
            sustainable_bytes_per_sec: status.advice.map(|advice| advice.bytes_per_sec),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).collect(),
            rejected: status.rejected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            members: status.members.iter().map(MemberReport::from).collect(),
            ring,
            jobs,
            borrowers,
            borrowed_bytes: 0,
        }
    }
}

impl From<Summary> for SpanReport {
    fn from(summary: Summary) -> Self {
        Self {
            count: summary.count,
            mean: summary.mean.as_secs_f64(),
            p50: summary.p50.as_secs_f64(),
            p90: summary.p90.as_secs_f64(),
            p99: summary.p99.as_secs_f64(),
            trend: summary.trend,
        }
    }
}

impl From<&MemberStatus> for MemberReport {
    fn from(member: &MemberStatus) -> Self {
        Self {
            name: member.name.clone(),
            member: member.member.to_string(),
            address: member.address.to_string(),
            heard_s: member.heard_ago.map(|ago| ago.as_secs_f64()),
            round_trip_ms: member.round_trip.map(|span| span.as_secs_f64() * 1e3),
            clock_offset_ms: member.clock_offset_ms,
            waited_s: member.waits_for.map(|span| span.as_secs_f64()),
            suspected: member.is_suspected,
            expires_s: member.expires_s,
            expires_in_days: member.expires_s.checked_sub(wall_s()).map(|left| left / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of five tickets and k = 2, of which we have ticket 1 and give it and those after it.
    fn ring(count: Ticket) -> RingReport {
        RingReport {
            tickets: 5,
            faults: 2,
            epoch: 1,
            ticket: Some(1),
            sure: true,
            coordinates: Some(RangeReport { from: 1, to: (6 + 1 - count) % 5, count }),
            coordinators: Vec::new(),
            waiting: 0,
            waited_s: None,
        }
    }

    #[test]
    fn tickets_are_ours_from_our_own_down_and_round() {
        let ours = |ring: RingReport| (0..5).filter(|ticket| ring.has(*ticket)).collect::<Vec<_>>();
        assert_eq!(ours(ring(1)), [1]);
        assert_eq!(ours(ring(3)), [0, 1, 4]);
        assert_eq!(ours(ring(5)), [0, 1, 2, 3, 4]);
        assert!(ours(RingReport { sure: false, ..ring(5) }).is_empty(), "who is not sure has none");
    }

    #[test]
    fn few_tickets_are_listed_and_many_are_not() {
        let told = |from, to, count| RangeReport { from, to, count }.describe(100);
        assert_eq!(told(1, 98, 4), "1, 0, 99, 98");
        assert_eq!(told(0, 20, 81), "0, 99, … 20 (81 tickets)");
    }

    #[test]
    fn a_small_ring_bears_as_many_crashes_as_leave_more_than_half_of_it() {
        let borne: Vec<usize> = (1..=7).map(|members| ring(1).faults_borne(members)).collect();
        assert_eq!(borne, [0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(RingReport { tickets: 2, ..ring(1) }.faults_borne(100), 0, "no more seats than tickets");
    }
}
