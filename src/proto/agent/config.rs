//! The agent's constants: three of the charter, the rest derived from them as the papers do, and the rules as data.

use std::time::Duration;

use super::rules::Rules;

/// How large a circle may be said to be. A bound on arithmetic, far above any circle: the simulator is at home up to
/// a million members.
pub const CAPACITY_LIMIT: u32 = 100_000_000;

/// The longest time that can be given instead of a derived one: a million years. A bound on arithmetic, too.
const INTERVAL_LIMIT: Duration = Duration::from_secs(31_557_600_000_000);

/// Constants of one circle, the same for all its members.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Δ_op: how long a visit of the token lets a member pull. The papers' case studies use 4 s.
    pub slot: Duration,
    /// Δ_skip: how long a token rests where no slot is due. The papers use 0.1 s (2009) and 1 s (2007).
    pub skip: Duration,
    /// N_max: the number of members for which the circle is laid out. The papers' case studies use 300.
    pub capacity: u32,
    /// What to do with a token, and without one.
    pub rules: Rules,
    /// Times that are given instead of derived. A charter gives none; the simulator can.
    pub intervals: Intervals,
}

/// The times that the papers derive from slot and capacity, each of which can be given instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// Δ_min; `None` for Δ_op·N_max/2.
    pub min: Option<Duration>,
    /// Δ_max; `None` for 3·Δ_min.
    pub max: Option<Duration>,
    /// γ; `None` for Δ_min·N_max.
    pub regeneration_mean: Option<Duration>,
}

/// A constant that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The field, by the name under which users know it.
    pub field: &'static str,
    /// What is wrong with it, with the cure.
    pub reason: String,
}

impl Invalid {
    /// A complaint about `field`.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl Config {
    /// A configuration that makes sense, or the field that does not.
    pub fn new(slot: Duration, skip: Duration, capacity: u32, rules: Rules) -> Result<Self, Invalid> {
        if slot.is_zero() {
            return Err(Invalid::new("slot", "must be longer than zero"));
        }
        if skip.is_zero() {
            return Err(Invalid::new(
                "skip",
                "must be longer than zero, or a token would circle without pause",
            ));
        }
        if skip >= slot {
            return Err(Invalid::new(
                "skip",
                "must be shorter than the slot, it is the rest where no slot is due",
            ));
        }
        if capacity < 1 {
            return Err(Invalid::new("capacity", "must be at least 1 member"));
        }
        if capacity > CAPACITY_LIMIT {
            return Err(Invalid::new("capacity", format!("must be at most {CAPACITY_LIMIT} members")));
        }
        if slot.as_secs_f64() * f64::from(capacity) * f64::from(capacity) > 1e17 {
            return Err(Invalid::new(
                "slot",
                "is too long for that capacity: the derived times would overflow",
            ));
        }
        Ok(Self { slot, skip, capacity, rules, intervals: Intervals::default() })
    }

    /// The same with some of the derived times given, or the field that makes no sense.
    pub fn with_intervals(self, intervals: Intervals) -> Result<Self, Invalid> {
        for (field, given) in [
            ("min-interval", intervals.min),
            ("max-interval", intervals.max),
            ("regeneration-mean", intervals.regeneration_mean),
        ] {
            if given.is_some_and(|given| given.is_zero() || given > INTERVAL_LIMIT) {
                return Err(Invalid::new(field, "must be longer than zero and shorter than a million years"));
            }
        }
        let config = Self { intervals, ..self };
        if config.max_interval() < config.min_interval() {
            return Err(Invalid::new("max-interval", "must not be shorter than the least interval"));
        }
        Ok(config)
    }

    /// Δ_op·N_max: the access interval of a member in a circle that is exactly full.
    pub fn nominal_period(&self) -> Duration {
        self.slot.saturating_mul(self.capacity)
    }

    /// Δ_min, by default Δ_op·N_max/2: the least time between two slots of one member.
    pub fn min_interval(&self) -> Duration {
        self.intervals.min.unwrap_or(self.nominal_period() / 2)
    }

    /// Δ_max, by default 3·Δ_min: the early rules' least patience.
    pub fn max_interval(&self) -> Duration {
        self.intervals.max.unwrap_or(self.min_interval().saturating_mul(3))
    }

    /// γ, by default Δ_min·N_max: the classic rules' mean time between regenerations at one member, beyond Δ_min.
    pub fn regeneration_mean(&self) -> Duration {
        self.intervals.regeneration_mean.unwrap_or(self.min_interval().saturating_mul(self.capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(slot: u64, skip: u64, capacity: u32) -> Result<Config, Invalid> {
        Config::new(Duration::from_millis(slot), Duration::from_millis(skip), capacity, Rules::guarded())
    }

    #[test]
    fn constants_derive_as_in_the_papers() {
        let config = config(4000, 100, 300).unwrap();
        assert_eq!(config.nominal_period(), Duration::from_secs(1200));
        assert_eq!(config.min_interval(), Duration::from_secs(600));
        assert_eq!(config.max_interval(), Duration::from_secs(1800));
        assert_eq!(config.regeneration_mean(), Duration::from_secs(180_000));
    }

    #[test]
    fn given_intervals_replace_derived_ones() {
        let given = |min: u64, max: u64, mean: u64| {
            let some = |secs: u64| (secs > 0).then_some(Duration::from_secs(secs));
            let intervals = Intervals { min: some(min), max: some(max), regeneration_mean: some(mean) };
            config(4000, 100, 300).unwrap().with_intervals(intervals).unwrap()
        };
        let times = |config: Config| {
            [config.min_interval(), config.max_interval(), config.regeneration_mean()]
                .map(|time| time.as_secs())
        };
        assert_eq!(times(given(0, 0, 0)), [600, 1_800, 180_000]);
        assert_eq!(times(given(10, 0, 0)), [10, 30, 3_000], "the others follow");
        assert_eq!(times(given(0, 900, 0)), [600, 900, 180_000]);
        assert_eq!(times(given(0, 0, 7)), [600, 1_800, 7]);
    }

    #[test]
    fn nonsense_intervals_are_refused_by_the_name_of_their_flag() {
        let complaint =
            |intervals| config(4000, 100, 300).unwrap().with_intervals(intervals).unwrap_err().field;
        let none = Intervals::default();
        assert_eq!(complaint(Intervals { min: Some(Duration::ZERO), ..none }), "min-interval");
        assert_eq!(complaint(Intervals { max: Some(Duration::from_secs(599)), ..none }), "max-interval");
        assert_eq!(
            complaint(Intervals { regeneration_mean: Some(Duration::MAX), ..none }),
            "regeneration-mean"
        );
    }

    #[test]
    fn nonsense_is_refused_by_the_name_of_its_field() {
        for (slot, skip, capacity, field) in [
            (0, 0, 300, "slot"),
            (4000, 0, 300, "skip"),
            (4000, 4000, 300, "skip"),
            (4000, 9000, 300, "skip"),
            (4000, 100, 0, "capacity"),
            (4000, 100, u32::MAX, "capacity"),
            (400_000_000_000, 100, 100_000_000, "slot"),
        ] {
            assert_eq!(config(slot, skip, capacity).unwrap_err().field, field);
        }
    }

    #[test]
    fn a_circle_of_one_is_a_circle() {
        assert_eq!(config(4000, 100, 1).unwrap().min_interval(), Duration::from_secs(2));
    }
}
