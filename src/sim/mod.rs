//! The simulator: the very same agents as in a real member, on virtual time.
//!
//! Discrete events, seeded and bit for bit repeatable. [`Circle`] runs bare agents, without datagrams or signatures, so
//! that a hundred thousand seconds of the papers' circles take a fraction of a second and a million members fit into
//! memory. [`Uncoordinated`] is the papers' benchmark. What they measure is an [`Outcome`]; outcomes of several
//! seeds add up, and [`Report`] is what a reader wants to know of them.
//!
//! Nothing here reads a clock or starts a thread: whoever wants several runs at once runs them.

mod circle;
mod clock;
pub mod figures;
mod measure;
mod numbers;
mod parcel;
mod presence;
mod queue;
mod report;
mod scenario;
mod split;
pub mod tickets;
mod trace;
mod uncoordinated;
mod verdicts;
mod views;
pub mod whole;

pub use circle::Circle;
pub use measure::{Outcome, Spread};
pub use report::{Buffer, Overload, Quantiles, Report, ShareOfTime, ShareOfTokens};
pub use scenario::{Churn, Coordination, Scenario, Surge, View};
pub use trace::{Moment, Trace};
pub use uncoordinated::Uncoordinated;
pub use verdicts::Verdicts;

use crate::base::Time;
use crate::proto::agent::Invalid;

/// One run, whichever way its members are coordinated.
#[derive(Debug)]
pub enum Simulation {
    /// Agents and their tokens.
    Circle(Box<Circle>),
    /// Members that pull when they like.
    Uncoordinated(Box<Uncoordinated>),
}

impl Simulation {
    /// A run of the scenario with this seed, about to start.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        Ok(match &scenario.coordination {
            Coordination::Agents(rules) => Self::Circle(Box::new(Circle::new(scenario, rules, seed)?)),
            Coordination::Uncoordinated => Self::Uncoordinated(Box::new(Uncoordinated::new(scenario, seed)?)),
        })
    }

    /// Lets the next event happen; false when the time is up.
    pub fn step(&mut self) -> bool {
        match self {
            Self::Circle(circle) => circle.step(),
            Self::Uncoordinated(members) => members.step(),
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        match self {
            Self::Circle(circle) => circle.now(),
            Self::Uncoordinated(members) => members.now(),
        }
    }

    /// What was measured.
    pub fn finish(self) -> Outcome {
        match self {
            Self::Circle(circle) => circle.finish(),
            Self::Uncoordinated(members) => members.finish(),
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.finish()
    }
}
