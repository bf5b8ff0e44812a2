//! The words for how a circle bears its load, and the verdict that carries one of them.

use std::fmt;

use crate::base::Time;

/// How a circle bears its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is room.
    Nominal,
    /// Near its capacity.
    Full,
    /// Slots come late, and not because too many members want them: a token was lost, or members cannot be reached.
    Disturbed,
    /// There are more members with work than it was laid out for.
    Overloaded,
    /// This member gets no slot at all.
    Starved,
}

impl Level {
    /// All of them, the mildest first.
    pub const ALL: [Self; 5] = [Self::Nominal, Self::Full, Self::Disturbed, Self::Overloaded, Self::Starved];

    /// The one word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nominal => "nominal",
            Self::Full => "full",
            Self::Disturbed => "disturbed",
            Self::Overloaded => "overloaded",
            Self::Starved => "starved",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a member says of its circle. Level, load factor and reason come from the same measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// How the circle is.
    pub level: Level,
    /// Demand over capacity, once enough was measured.
    pub load: Option<f64>,
    /// Why, in words and numbers; of a member that has nothing to pull at present, as it was before.
    pub reason: String,
    /// Since when it has been so.
    pub since: Time,
}
