//! The handoff's times: which are given, and which follow from them.

use std::time::Duration;

/// How often and how long messages are repeated and believed. The same for all members of a circle: the derived times
/// protect members from each other's late messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Δ_op: how long one visit lets a member pull.
    pub slot: Duration,
    /// Δ_min: the least time between two slots of one member. Nobody suspects a token lost before that.
    pub min_interval: Duration,
    /// How often a Move is sent before another taker is looked for. Three: at 10 % loss each way one live taker in 150 is
    /// given up wrongly, which costs only an attempt.
    pub move_tries: u32,
    /// The wait for an answer at first contact, when no round trip is known: above almost all round trips on earth, and what
    /// RFC 6298 begins with.
    pub rto_first: Duration,
    /// The shortest wait: below it a busy scheduler looks like a lost datagram.
    pub rto_min: Duration,
    /// The longest wait: four times a satellite's round trip.
    pub rto_max: Duration,
    /// The longest pause between two Commits. It grows by half each time, so that many fit into an outage's end
    /// and few into a dead taker's silence.
    pub commit_gap_max: Duration,
    /// How long a Commit is repeated at most, however patient the circle: H_commit's upper bound. At 50 % loss the
    /// Commits of a minute all get lost in five handoffs of a million.
    pub commit_limit: Duration,
    /// What T_regen_min adds for schedulers and queues on the way.
    pub regeneration_margin: Duration,
    /// What H_accept adds to H_commit for the same.
    pub accept_margin: Duration,
    /// EarlyStop is repeated at most once in so long: its receiver has what it needs, or it was lost.
    pub early_stop_gap: Duration,
    /// The unit of the time inside a nonce. Only the taker that made it reads it.
    pub nonce_tick: Duration,
}

/// No timer runs shorter than that, whatever the configuration says: a machine must not wake itself without pause.
const SHORTEST: Duration = Duration::from_millis(1);

impl Config {
    /// The times of a circle with this slot and this least interval (Δ_op and Δ_min). What is not derived from these two
    /// is the network's, and does not become shorter with the slot: a circle in fast motion runs over the same lines.
    pub const fn new(slot: Duration, min_interval: Duration) -> Self {
        Self {
            slot,
            min_interval,
            move_tries: 3,
            rto_first: Duration::from_secs(1),
            rto_min: Duration::from_millis(100),
            rto_max: Duration::from_secs(2),
            commit_gap_max: Duration::from_secs(8),
            commit_limit: Duration::from_secs(60),
            regeneration_margin: Duration::from_secs(15),
            accept_margin: Duration::from_secs(5),
            early_stop_gap: Duration::from_secs(1),
            nonce_tick: Duration::from_secs(1),
        }
    }

    /// T_regen_min: before so long without news nobody makes a new token. Two visits without an answer fit in.
    pub fn t_regen_min(&self) -> Duration {
        let visit = self.slot.saturating_add(self.rto_max.saturating_mul(3));
        self.min_interval.max(visit.saturating_mul(2).saturating_add(self.regeneration_margin))
    }

    /// H_commit: how long a giver repeats its Commit. Below T_regen_min, or a late one would revive a token that
    /// was replaced already.
    pub fn h_commit(&self) -> Duration {
        self.commit_limit.min(self.half_of_regeneration())
    }

    /// H_accept: how long a nonce is believed. Long enough for the last Commit of a giver whose Ack and Commit were
    /// slow; below T_regen_min, for the same reason as [`h_commit`](Self::h_commit).
    pub fn h_accept(&self) -> Duration {
        let on_the_way = self.rto_max.saturating_mul(3).saturating_add(self.accept_margin);
        self.h_commit().saturating_add(on_the_way).min(self.t_regen_min())
    }

    /// T_selffence: who slept longer drops its token, because the others may be about to replace it.
    pub fn t_selffence(&self) -> Duration {
        self.half_of_regeneration()
    }

    /// How long an accepted session is remembered: until its last nonce has expired (that was issued before it was
    /// accepted, and its age is known only to a tick), and as long again.
    pub(super) fn record_life(&self) -> Duration {
        self.h_accept().saturating_add(self.nonce_tick).saturating_mul(2)
    }

    /// RTO: how long to wait for an answer, by the round trips so far.
    pub(super) fn rto(&self, timeout: Option<Duration>) -> Duration {
        let wanted = timeout.unwrap_or(self.rto_first);
        wanted.max(self.rto_min).min(self.rto_max).max(SHORTEST)
    }

    /// The pause after the next Commit, given the last one.
    pub(super) fn wider(&self, gap: Duration) -> Duration {
        let half = gap.checked_div(2).unwrap_or_default();
        gap.saturating_add(half).min(self.commit_gap_max).max(SHORTEST)
    }

    fn half_of_regeneration(&self) -> Duration {
        self.t_regen_min().checked_div(2).unwrap_or_default()
    }
}
