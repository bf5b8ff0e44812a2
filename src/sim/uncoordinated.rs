//! The papers' benchmark: members that know nothing of each other pull when they like.
//!
//! Each pulls for one slot, at intervals drawn evenly between Δ_min and a longest one. The paper of 2009 takes 3·Δ_min, so
//! that on average a member pulls as often as in a circle that is exactly full; that of 2006/07 takes 1.5·Δ_min, which asks
//! for 1.6 times of what the source can give where all N_max members are there.

use std::time::Duration;

use crate::base::{Rng, Time};
use crate::proto::agent::{Config, Invalid, Rules};

use super::measure::{Meter, Outcome};
use super::queue::Timers;
use super::scenario::Scenario;

/// One run of the benchmark.
#[derive(Debug)]
pub struct Uncoordinated {
    scenario: Scenario,
    config: Config,
    longest_interval: Duration,
    end: Time,
    now: Time,
    timers: Timers,
    members: Vec<Member>,
    rng: Rng,
    meter: Meter,
}

#[derive(Debug)]
enum Member {
    Waiting,
    Pulling { began: Time },
}

impl Uncoordinated {
    /// A run about to start: each member's first slot lies anywhere in the first nominal period.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        // The rules do not matter here; the classic ones need no scouts.
        let config = scenario.config(&Rules::classic())?;
        let mut rng = Rng::seeded(seed);
        let mut timers = Timers::default();
        let mut members = Vec::with_capacity(scenario.members);
        for member in 0..u32::try_from(scenario.members).unwrap_or(u32::MAX) {
            timers.add_member();
            if scenario.has_work(member) {
                timers.arm(member, Time::ZERO + rng.uniform(Duration::ZERO, config.nominal_period()));
            }
            members.push(Member::Waiting);
        }
        let meter = Meter::new(scenario.members, config.nominal_period());
        let longest_interval = scenario.longest_interval(&config);
        let (scenario, end) = (scenario.clone(), Time::ZERO + scenario.duration);
        Ok(Self { scenario, config, longest_interval, end, now: Time::ZERO, timers, members, rng, meter })
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets the next slot begin or end; false when the time is up.
    pub fn step(&mut self) -> bool {
        let Some((at, index)) = self.timers.pop().filter(|(at, _)| *at < self.end) else {
            self.now = self.end;
            return false;
        };
        self.now = at;
        self.meter.event();
        let Some(member) = self.members.get_mut(index as usize) else { return true };
        let next = match *member {
            Member::Waiting => {
                *member = Member::Pulling { began: at };
                self.meter.slot_began(index, at);
                at + self.config.slot
            }
            Member::Pulling { began } => {
                *member = Member::Waiting;
                self.meter.slot_ended(at);
                began + self.rng.uniform(self.config.min_interval(), self.longest_interval)
            }
        };
        // In a circle of one or two the interval may be shorter than the slot: then the next slot follows at once.
        self.timers.arm(index, next.max(at));
        true
    }

    /// What was measured.
    pub fn finish(self) -> Outcome {
        let scenario = self.scenario;
        self.meter.finish(&|member| scenario.has_work(member), self.now)
    }
}
