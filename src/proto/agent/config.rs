//! The agent's constants: three of the charter, the rest derived from them as the papers do, and the rules as data.

use std::time::Duration;

use super::rules::Rules;

/// How large a circle may be said to be. A bound on arithmetic, far above any circle: the simulator is at home up to
/// a million members.
pub const CAPACITY_LIMIT: u32 = 100_000_000;

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
        Ok(Self { slot, skip, capacity, rules })
    }

    /// Δ_op·N_max: the access interval of a member in a circle that is exactly full.
    pub fn nominal_period(&self) -> Duration {
        self.slot.saturating_mul(self.capacity)
    }

    /// Δ_min = Δ_op·N_max/2: the least time between two slots of one member.
    pub fn min_interval(&self) -> Duration {
        self.nominal_period() / 2
    }

    /// Δ_max = 3·Δ_min: the early rules' least patience. It is also where the uncoordinated benchmark's interval
    /// ends, so that between Δ_min and Δ_max the mean is the nominal period.
    pub fn max_interval(&self) -> Duration {
        self.min_interval().saturating_mul(3)
    }

    /// γ = Δ_min·N_max: the classic rules' mean time between regenerations at one member, beyond Δ_min.
    pub fn regeneration_mean(&self) -> Duration {
        self.min_interval().saturating_mul(self.capacity)
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
