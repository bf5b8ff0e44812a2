//! The verdicts of simulated members: every member of a [`Circle`](super::Circle) runs the load machine of a real one,
//! if the scenario asks for it, and what they say is measured against what is true.

use std::time::Duration;

use crate::base::Time;
use crate::proto::load::{Input, Level, Load, Output};

use super::measure::Spread;
use super::queue::Timers;

/// What the members said, of one run or of several.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Time that members spent before the surge, added up, in seconds.
    pub member_s: f64,
    /// How often one said *overloaded* in that time.
    pub overloaded: u64,
    /// How often one said *starved* in that time.
    pub starved: u64,
    /// How often one changed its mind in that time, whatever it said.
    pub changes: u64,
    /// How often one asked others, in all the time.
    pub asked: u64,
    /// From the surge until a member that was there before it said *overloaded* or *starved*.
    pub told: Spread,
    /// Members that were there before the surge and did not say so until the end.
    pub untold: u64,
}

impl Verdicts {
    pub(super) fn add(&mut self, other: &Self) {
        self.member_s += other.member_s;
        self.overloaded += other.overloaded;
        self.starved += other.starved;
        self.changes += other.changes;
        self.asked += other.asked;
        self.told.add(&other.told);
        self.untold += other.untold;
    }

    /// Alarms before the surge per member and year.
    pub fn alarms_per_year(&self) -> f64 {
        const YEAR_S: f64 = 365.25 * 86_400.0;
        (self.overloaded + self.starved) as f64 * YEAR_S / self.member_s.max(f64::MIN_POSITIVE)
    }
}

/// The machines of all members.
#[derive(Debug, Default)]
pub(super) struct Judges {
    loads: Vec<Load>,
    timers: Timers,
    /// When the surge was, and who has not spoken since.
    surge: Option<(Time, Vec<bool>)>,
    began: Vec<Time>,
    verdicts: Verdicts,
}

impl Judges {
    pub(super) fn add_member(&mut self, nominal_period: Duration, now: Time) {
        self.loads.push(Load::new(nominal_period));
        self.began.push(now);
        self.timers.add_member();
    }

    pub(super) fn surge(&mut self, now: Time) {
        let silent: Vec<bool> = self.loads.iter().map(|load| load.level() < Level::Overloaded).collect();
        for is_silent in &silent {
            if !is_silent {
                self.verdicts.told.record(Duration::ZERO);
            }
        }
        self.settle(now);
        self.surge = Some((now, silent));
    }

    /// The time of all members until now counts as time before the surge.
    fn settle(&mut self, now: Time) {
        self.verdicts.member_s += self.began.iter().map(|&at| now.since(at).as_secs_f64()).sum::<f64>();
    }

    pub(super) fn next(&mut self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.timers.pop().map(|(_, member)| member)
    }

    /// One input; the answer is how many others the member wants to ask.
    pub(super) fn handle(&mut self, member: u32, input: Input, now: Time) -> usize {
        let Some(load) = self.loads.get_mut(member as usize) else { return 0 };
        load.handle(input, now);
        let mut asked = 0;
        while let Some(output) = load.poll_output() {
            match output {
                Output::Ask { count } => {
                    asked += count;
                    self.verdicts.asked += 1;
                }
                Output::Changed(level) => note(&mut self.verdicts, &mut self.surge, member, level, now),
            }
        }
        if let Some(deadline) = load.next_deadline() {
            self.timers.arm(member, deadline);
        }
        asked
    }

    pub(super) fn finish(mut self, now: Time) -> Verdicts {
        match &self.surge {
            None => self.settle(now),
            Some((_, silent)) => {
                self.verdicts.untold = silent.iter().filter(|&&is_silent| is_silent).count() as u64;
            }
        }
        self.verdicts
    }
}

fn note(
    verdicts: &mut Verdicts,
    surge: &mut Option<(Time, Vec<bool>)>,
    member: u32,
    level: Level,
    now: Time,
) {
    match surge {
        None => {
            verdicts.changes += 1;
            verdicts.overloaded += u64::from(level == Level::Overloaded);
            verdicts.starved += u64::from(level == Level::Starved);
        }
        Some((at, silent)) => {
            if let Some(is_silent) = silent.get_mut(member as usize)
                && level >= Level::Overloaded
                && std::mem::take(is_silent)
            {
                verdicts.told.record(now.since(*at));
            }
        }
    }
}
