//! What a member says of itself: the JSON of `stroll status`, the page and the control socket. Its names stay as they are.

use std::collections::BTreeMap;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::units::human_duration;
use crate::jobs::{JobReport, State};
use crate::node::{MemberStatus, Status};
use crate::proto::load::{Level, Summary};
use crate::trust::expiry_warning;

use super::member::wall_s;
pub use super::ring_report::{CoordinatorReport, RangeReport, RingReport};

/// The reason for a back-off that came with the token: the wire carries no more than its end.
pub(super) const BACK_OFF_OF_ANOTHER: &str = "asked for by another member";

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
    /// What it does, in one word: `pulling`, `waiting` (for the token or a ticket), `idle` (nothing to pull), `paused` (all
    /// jobs are), `backing-off` (the source asked for it).
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
    /// Until when that is, in seconds since 1970.
    #[serde(default)]
    pub backing_off_until_s: Option<u64>,
    /// Why: what the source said to this member, or that another member asked for it.
    #[serde(default)]
    pub backing_off_reason: Option<String>,
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
    /// Demand over capacity, from the same measurement as the verdict; above 1 there is more demand than capacity.
    pub load_factor: Option<f64>,
    /// Whether the circle can bear its load.
    pub verdict: VerdictReport,
    /// What to do, in a sentence: the stream rate that the circle leaves to this member, or where to look.
    pub advice: Option<String>,
    /// The stream rate that the circle leaves to this member, in bytes per second.
    pub sustainable_bytes_per_sec: Option<f64>,
    /// What was counted since the start.
    pub counters: BTreeMap<String, u64>,
    /// Datagrams dropped, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Whom it knows.
    pub members: Vec<MemberReport>,
    /// Addresses at which no member answers, while no member is known.
    #[serde(default)]
    pub unanswered: usize,
    /// Jobs whose source may flush data before it was pulled.
    #[serde(default)]
    pub at_risk: Vec<RiskReport>,
    /// What it pulls.
    #[serde(default)]
    pub jobs: Vec<JobReport>,
    /// Commands that borrow its slots.
    #[serde(default)]
    pub borrowers: Vec<BorrowerReport>,
    /// What such commands brought since the start, those that have ended included.
    #[serde(default)]
    pub borrowed_bytes: u64,
    /// Its status page, if it is to have one.
    #[serde(default)]
    pub page: Option<PageReport>,
}

/// The status page of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReport {
    /// Where it is, or is to be.
    pub address: String,
    /// Why it is not served; nothing if it is.
    pub problem: Option<String>,
}

fn token() -> String {
    "token".to_owned()
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
    /// `pulling`, `waiting`, `idle`, `paused` or `backing-off`.
    pub state: State,
    /// For how long it has been there.
    pub since_s: f64,
    /// Slots that it had a part of.
    pub slots: u64,
    /// What it said that these brought.
    pub bytes: u64,
}

/// A job that may lose data: its source flushes files before they were pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RiskReport {
    /// Its name.
    pub job: String,
    /// How far it is behind, and when data is lost.
    pub reason: String,
    /// Whether data is being lost already.
    pub lost: bool,
}

/// Whether the circle can bear its load, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictReport {
    /// `nominal`, `full`, `disturbed`, `overloaded` or `starved`.
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
    /// The mean of the last three: what to expect of the next one.
    #[serde(default)]
    pub recent: f64,
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
        let has_ticket = self.ring.as_ref().is_some_and(|ring| ring.ticket.is_some());
        let is_sure = self.ring.as_ref().is_some_and(|ring| ring.sure);
        match (self.state.as_str(), &self.ring) {
            ("pulling", _) => "pulls",
            ("backing-off", _) => "leaves the source alone",
            ("paused", _) => "is paused",
            ("idle", None) if self.token.is_some() => "holds the token, with nothing to pull",
            ("idle", Some(_)) if has_ticket => "holds a ticket, with nothing to pull",
            ("idle", _) => "has nothing to pull",
            (_, None) if self.token.is_some() => "holds the token",
            (_, None) => "waits for the token",
            (_, Some(_)) if has_ticket && !is_sure => "has a ticket, but too few vouch for it",
            (_, Some(_)) if has_ticket => "holds a ticket",
            (_, Some(_)) => "waits for a ticket",
        }
    }

    /// Why the circle leaves its source alone and until when; nothing if it does not.
    pub fn backing_off(&self) -> Option<String> {
        let until = clock_time(self.backing_off_until_s?);
        let left = human_duration(Duration::try_from_secs_f64(self.cooling_s).unwrap_or_default());
        let why = self.backing_off_reason.as_deref().unwrap_or(BACK_OFF_OF_ANOTHER);
        Some(format!("backing off until {until} (for {left}): {why}"))
    }

    /// If no other member answers: how many are known, or were.
    pub fn cut_off_from(&self) -> Option<usize> {
        let is_silent = self.members.iter().all(|member| member.suspected);
        Some(self.members.len().max(self.unanswered)).filter(|count| is_silent && *count > 0)
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
        let state = state(status, &jobs, &borrowers);
        let is_cooling = !status.cooling_for.is_zero();
        let counters = [
            ("visits", status.visits),
            ("slots", status.slots),
            ("regenerated", status.regenerated),
            ("removed", status.removed),
            ("handed_off", status.handed_off),
            ("unreachable", status.unreachable),
            ("moves_repeated", status.moves_repeated),
            ("commits_repeated", status.commits_repeated),
            ("commits_abandoned", status.commits_abandoned),
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
        let mut report = Self {
            version: 1,
            circle,
            name,
            member: status.member.to_string(),
            listen,
            expires_s: status.certificate.not_after_s,
            expires_in_days: expiry_warning(&status.certificate, wall_s()),
            state: state.word().to_owned(),
            mode: if ring.is_some() { "tickets".to_owned() } else { token() },
            token: status.token.map(|(token, _)| token.to_string()),
            session: status.token.map(|(_, session)| session.0),
            cooling_s: status.cooling_for.as_secs_f64(),
            backing_off_until_s: is_cooling.then(|| wall_s() + status.cooling_for.as_secs()),
            backing_off_reason: is_cooling.then(|| {
                let said = status.cooling_reason.clone().filter(|said| !said.is_empty());
                said.unwrap_or_else(|| BACK_OFF_OF_ANOTHER.to_owned())
            }),
            charter_version: status.charter_version,
            bans_version: status.bans_version,
            retention_s: Some(status.retention.as_secs()).filter(|kept_s| *kept_s > 0),
            return_time_s: status.return_times.filter(|_| ring.is_none()).map(SpanReport::from),
            access_interval_s: status.access_intervals.map(SpanReport::from),
            load_factor: status.verdict.load,
            verdict: VerdictReport {
                level: status.verdict.level.name().to_owned(),
                reason: status.verdict.reason.clone(),
                since_s: status.verdict_for.as_secs_f64(),
            },
            advice: status.advice.map(|advice| advice.to_string()).or_else(|| advice(status.verdict.level)),
            sustainable_bytes_per_sec: status.advice.map(|advice| advice.bytes_per_sec),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).collect(),
            rejected: status.rejected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            members: status.members.iter().map(MemberReport::from).collect(),
            unanswered: status.unanswered,
            at_risk: Vec::new(),
            ring,
            jobs,
            borrowers,
            borrowed_bytes: 0,
            page: None,
        };
        report.explain(state, !status.wants_work);
        report
    }

    /// Says in the verdict's reason why nothing is measured at present, and that no other member answers.
    fn explain(&mut self, state: State, has_nothing: bool) {
        let why = match state {
            State::BackingOff => Some("nothing is pulled while the circle backs off".to_owned()),
            State::Paused => Some("all jobs are paused".to_owned()),
            // Without a measurement the reason says so itself.
            State::Idle if has_nothing && self.load_factor.is_some() => {
                Some("nothing to pull now".to_owned())
            }
            _ => None,
        };
        let reason = &mut self.verdict.reason;
        match why {
            Some(why) if self.load_factor.is_some() => *reason = format!("{why}; before, {reason}"),
            Some(why) => *reason = why,
            None => {}
        }
        if let Some(count) = self.cut_off_from() {
            let noun = if count == 1 { "member" } else { "members" };
            self.verdict.reason = format!("{}; no answer from {count} other {noun}", self.verdict.reason);
        }
    }
}

fn state(status: &Status, jobs: &[JobReport], borrowers: &[BorrowerReport]) -> State {
    let all = || jobs.iter().map(|job| job.state).chain(borrowers.iter().map(|borrower| borrower.state));
    let are_all_paused = all().next().is_some() && all().all(|state| state == State::Paused);
    match status {
        Status { is_pulling: true, .. } => State::Pulling,
        Status { cooling_for, .. } if !cooling_for.is_zero() => State::BackingOff,
        _ if are_all_paused => State::Paused,
        Status { wants_work: true, .. } => State::Waiting,
        _ => State::Idle,
    }
}

/// What to do where no rate can be recommended yet.
fn advice(level: Level) -> Option<String> {
    let advice = match level {
        Level::Nominal | Level::Full => return None,
        Level::Disturbed | Level::Starved => "`stroll doctor` shows which members answer",
        Level::Overloaded => "pull less, or let the authority admit fewer members",
    };
    Some(advice.to_owned())
}

/// A moment in seconds since 1970, as `2026-01-04 10:00:00Z`.
fn clock_time(time_s: u64) -> String {
    let time = i64::try_from(time_s).ok().and_then(|time_s| jiff::Timestamp::from_second(time_s).ok());
    time.map_or_else(|| time_s.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

impl From<Summary> for SpanReport {
    fn from(summary: Summary) -> Self {
        Self {
            count: summary.count,
            mean: summary.mean.as_secs_f64(),
            recent: summary.recent.as_secs_f64(),
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
    use serde_json::json;

    use super::*;

    fn status(but: &serde_json::Value) -> StatusReport {
        let mut status = json!({
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a", "listen": "", "expires_s": 0,
            "state": "waiting", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0,
            "verdict": { "level": "nominal", "reason": "measured", "since_s": 0.0 }, "counters": {}, "rejected": {},
            "members": [],
        });
        for (key, value) in but.as_object().expect("an object") {
            status[key] = value.clone();
        }
        serde_json::from_value(status).expect("a status")
    }

    #[test]
    fn the_reason_says_why_nothing_is_measured_and_that_no_other_member_answers() {
        let silent = json!([{
            "name": "b", "member": "0b", "address": "127.0.0.1:1", "suspected": true, "expires_s": 0,
        }]);
        for (but, state, has_nothing, expected) in [
            (json!({}), State::Waiting, false, "measured"),
            (json!({}), State::Idle, true, "measured"),
            (json!({ "load_factor": 0.5 }), State::Idle, true, "nothing to pull now; before, measured"),
            (json!({ "load_factor": 0.5 }), State::Paused, true, "all jobs are paused; before, measured"),
            (json!({}), State::Paused, true, "all jobs are paused"),
            (json!({}), State::BackingOff, false, "nothing is pulled while the circle backs off"),
            (json!({ "members": silent }), State::Pulling, false, "measured; no answer from 1 other member"),
            (json!({ "unanswered": 2 }), State::Waiting, false, "measured; no answer from 2 other members"),
        ] {
            let mut report = status(&but);
            report.explain(state, has_nothing);
            assert_eq!(report.verdict.reason, expected, "{but}");
        }
    }

    #[test]
    fn wherever_a_level_needs_action_there_is_advice() {
        let has_advice = Level::ALL.map(|level| advice(level).is_some());
        assert_eq!(has_advice, [false, false, true, true, true]);
    }
}
