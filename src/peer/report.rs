//! What a member says of itself: the JSON of `stroll status`, the page and the control socket. Its names stay as they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::jobs::{JobReport, State};
use crate::node::{MemberStatus, Status};
use crate::proto::load::{Level, Summary};
use crate::trust::expiry_warning;

use super::member::wall_s;

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
    /// source alone.
    pub state: String,
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
    /// Time between visits of the token.
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

impl StatusReport {
    pub(super) fn new(
        circle: String,
        name: String,
        listen: String,
        status: &Status,
        jobs: Vec<JobReport>,
        borrowers: Vec<BorrowerReport>,
    ) -> Self {
        let state = match (status.is_pulling, status.token.is_some(), status.cooling_for.is_zero()) {
            (true, ..) => "run",
            (false, _, false) => "cool",
            (false, true, true) => "idle",
            (false, false, true) => "wtok",
        };
        let counters = [
            ("visits", status.visits),
            ("slots", status.slots),
            ("regenerated", status.regenerated),
            ("removed", status.removed),
            ("handed_off", status.handed_off),
            ("unreachable", status.unreachable),
            ("dropped", status.dropped),
            ("datagrams_sent", status.sent),
            ("datagrams_accepted", status.accepted),
        ];
        Self {
            version: 1,
            circle,
            name,
            member: status.member.to_string(),
            listen,
            expires_s: status.certificate.not_after_s,
            expires_in_days: expiry_warning(&status.certificate, wall_s()),
            state: state.to_owned(),
            token: status.token.map(|(token, _)| token.to_string()),
            session: status.token.map(|(_, session)| session.0),
            cooling_s: status.cooling_for.as_secs_f64(),
            charter_version: status.charter_version,
            bans_version: status.bans_version,
            retention_s: Some(status.retention.as_secs()).filter(|kept_s| *kept_s > 0),
            return_time_s: status.return_times.map(SpanReport::from),
            access_interval_s: status.access_intervals.map(SpanReport::from),
            load_factor: status.load_factor,
            verdict: VerdictReport {
                level: status.verdict.level.name().to_owned(),
                reason: status.verdict.reason.clone(),
                since_s: status.verdict_for.as_secs_f64(),
            },
            advice: status.advice.map(|advice| advice.to_string()),
            sustainable_bytes_per_sec: status.advice.map(|advice| advice.bytes_per_sec),
            counters: counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            rejected: status.rejected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            members: status.members.iter().map(MemberReport::from).collect(),
            jobs,
            borrowers,
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
