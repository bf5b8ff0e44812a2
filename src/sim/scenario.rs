//! What is simulated: constants, members, faults.

use std::time::Duration;

use crate::proto::agent::{Config, Intervals, Invalid, Rules};

/// The largest circle that can be simulated; memory, about half a kilobyte per member, is the limit.
const MEMBERS_LIMIT: usize = 20_000_000;

/// More than any benchmark needs, and far from an overflow.
const WAIT_LIMIT: f64 = 100.0;

/// One circle to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// How the members take turns.
    pub coordination: Coordination,
    /// How many members there are at the start.
    pub members: usize,
    /// How many of these have work, all the time; `None` for all. Members that join later have work.
    pub active: Option<usize>,
    /// N_max.
    pub capacity: u32,
    /// Δ_op.
    pub slot: Duration,
    /// Δ_skip.
    pub skip: Duration,
    /// Δ_min, Δ_max and γ, where they are not derived from the slot and the capacity.
    pub intervals: Intervals,
    /// How long uncoordinated members wait at most between the beginnings of two slots, in Δ_min; `None` for Δ_max. The
    /// paper of 2006/07 has 1.5, that of 2009 has 3.
    pub longest_wait: Option<f64>,
    /// The virtual time of one run.
    pub duration: Duration,
    /// How often a token gets lost: at every such moment the next handoff loses the token; `None` for never.
    pub loss_every: Option<Duration>,
    /// The time that any message takes from one member to another.
    pub delay: Duration,
    /// Whom a member knows.
    pub view: View,
    /// Members that come and go.
    pub churn: Churn,
    /// Wall clocks differ by up to this much either way.
    pub clock_skew: Duration,
    /// Whether every member says what it thinks of the circle's load: that takes memory and time.
    pub verdicts: bool,
    /// Members that join all at once.
    pub surge: Option<Surge>,
}

/// Members that join all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surge {
    /// When.
    pub at: Duration,
    /// How many.
    pub members: usize,
}

/// How the members take turns.
#[derive(Clone, Debug, PartialEq)]
pub enum Coordination {
    /// Not at all: each pulls for one slot at random intervals between Δ_min and [`Scenario::longest_wait`].
    Uncoordinated,
    /// By tokens and these rules.
    Agents(Rules),
}

/// Whom a member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Everybody, as in the papers.
    Full,
    /// So many others, drawn at random.
    Random(usize),
}

/// Members that come and go; each span is the mean time between two such events anywhere in the circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Churn {
    /// A random member crashes: it forgets everything, and the token if it holds one.
    pub crash_every: Option<Duration>,
    /// How long a crashed member stays away.
    pub restart_after: Duration,
    /// A new member joins.
    pub join_every: Option<Duration>,
    /// A random member leaves in good order, for ever.
    pub leave_every: Option<Duration>,
}

impl Default for Churn {
    /// Nobody comes or goes; and who crashes, if crashes are asked for, is back after a minute.
    fn default() -> Self {
        Self {
            crash_every: None,
            restart_after: Duration::from_secs(60),
            join_every: None,
            leave_every: None,
        }
    }
}

impl Default for Scenario {
    /// The case study of the 2009 paper, with our rules.
    fn default() -> Self {
        Self {
            coordination: Coordination::Agents(Rules::guarded()),
            members: 300,
            active: None,
            capacity: 300,
            slot: Duration::from_secs(4),
            skip: Duration::from_millis(100),
            intervals: Intervals::default(),
            longest_wait: None,
            duration: Duration::from_secs(100_000),
            loss_every: None,
            delay: Duration::ZERO,
            view: View::Full,
            churn: Churn::default(),
            clock_skew: Duration::ZERO,
            verdicts: false,
            surge: None,
        }
    }
}

impl Scenario {
    /// True if this member has work.
    pub(super) fn has_work(&self, member: u32) -> bool {
        let is_active = |active| (member as usize) < active || (member as usize) >= self.members;
        self.active.is_none_or(is_active)
    }

    /// How long an uncoordinated member waits at most from the beginning of one slot to that of the next.
    pub(super) fn longest_interval(&self, config: &Config) -> Duration {
        self.longest_wait
            .map_or_else(|| config.max_interval(), |factor| config.min_interval().mul_f64(factor))
    }

    /// The agents' configuration, if everything makes sense; otherwise the field that does not.
    pub fn config(&self, rules: &Rules) -> Result<Config, Invalid> {
        let config = Config::new(self.slot, self.skip, self.capacity, rules.clone())?;
        let config = config.with_intervals(self.intervals)?;
        if self.longest_wait.is_some_and(|factor| !(1.0..=WAIT_LIMIT).contains(&factor)) {
            return Err(Invalid::new(
                "longest-wait",
                format!("must be between 1 and {WAIT_LIMIT} times Δ_min"),
            ));
        }
        if self.members < 1 || self.members > MEMBERS_LIMIT {
            return Err(Invalid::new("members", format!("must be between 1 and {MEMBERS_LIMIT}")));
        }
        if self.surge.is_some_and(|surge| surge.members > MEMBERS_LIMIT - self.members) {
            return Err(Invalid::new("surge", format!("would make it more than {MEMBERS_LIMIT} members")));
        }
        if self.active.is_some_and(|active| active < 1 || active > self.members) {
            return Err(Invalid::new("active", "must be between 1 and the number of members"));
        }
        if self.duration.is_zero() {
            return Err(Invalid::new("duration", "must be longer than zero"));
        }
        if let Some(scouting) = &rules.scouting
            && scouting.scouts > self.members
        {
            let reason = format!("cannot ask {} of {} members", scouting.scouts, self.members);
            return Err(Invalid::new("scouts", reason));
        }
        match self.view {
            View::Random(0) => return Err(Invalid::new("view", "must be `full` or at least 1")),
            View::Random(n) if n >= self.members => {
                let reason = format!("{n} others of {} members: that is everybody, say `full`", self.members);
                return Err(Invalid::new("view", reason));
            }
            View::Random(_) | View::Full => {}
        }
        for (field, every) in [
            ("loss-every", self.loss_every),
            ("crash-every", self.churn.crash_every),
            ("join-every", self.churn.join_every),
            ("leave-every", self.churn.leave_every),
        ] {
            if every.is_some_and(|every| every.is_zero()) {
                return Err(Invalid::new(field, "must be longer than zero; leave it out for never"));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(change: impl FnOnce(&mut Scenario)) -> &'static str {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        scenario.config(&Rules::guarded()).unwrap_err().field
    }

    #[test]
    fn nonsense_is_refused_by_the_name_of_its_field() {
        assert_eq!(complaint(|s| s.members = 0), "members");
        assert_eq!(complaint(|s| s.members = usize::MAX), "members");
        assert_eq!(complaint(|s| s.members = 7), "scouts");
        assert_eq!(complaint(|s| s.active = Some(0)), "active");
        assert_eq!(complaint(|s| s.active = Some(301)), "active");
        assert_eq!(complaint(|s| s.duration = Duration::ZERO), "duration");
        assert_eq!(complaint(|s| s.slot = Duration::ZERO), "slot");
        assert_eq!(complaint(|s| s.skip = s.slot), "skip");
        assert_eq!(complaint(|s| s.capacity = 0), "capacity");
        assert_eq!(complaint(|s| s.view = View::Random(0)), "view");
        assert_eq!(complaint(|s| s.view = View::Random(300)), "view");
        assert_eq!(complaint(|s| s.intervals.min = Some(Duration::ZERO)), "min-interval");
        assert_eq!(complaint(|s| s.longest_wait = Some(0.5)), "longest-wait");
        assert_eq!(complaint(|s| s.longest_wait = Some(f64::NAN)), "longest-wait");
        assert_eq!(complaint(|s| s.loss_every = Some(Duration::ZERO)), "loss-every");
        assert_eq!(complaint(|s| s.churn.join_every = Some(Duration::ZERO)), "join-every");
    }
}
