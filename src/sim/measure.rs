//! What a run measures, and how the measurements of several runs add up.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::base::Time;
use crate::proto::load::{self, Load};

use super::verdicts::Verdicts;

/// Levels that are told apart; what is above counts as the highest.
const LEVELS: usize = 64;

/// Of how many members the load meter is kept: it is there to be shown, not for the statistics.
const METERED: usize = 64;

/// How long a number stayed at 0, 1, 2, …
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    level: usize,
    since: Time,
    nanos: Vec<u64>,
}

impl Default for Occupancy {
    fn default() -> Self {
        Self { level: 0, since: Time::ZERO, nanos: vec![0; LEVELS] }
    }
}

impl Occupancy {
    pub(super) fn level(&self) -> usize {
        self.level
    }

    pub(super) fn rise(&mut self, now: Time) {
        self.settle(now);
        self.level += 1;
    }

    pub(super) fn fall(&mut self, now: Time) {
        self.settle(now);
        assert!(self.level > 0, "more ends than beginnings");
        self.level -= 1;
    }

    pub(super) fn set(&mut self, level: usize, now: Time) {
        if level != self.level {
            self.settle(now);
            self.level = level;
        }
    }

    pub(super) fn settle(&mut self, now: Time) {
        let spent = u64::try_from(now.since(self.since).as_nanos()).unwrap_or(u64::MAX);
        if let Some(nanos) = self.nanos.get_mut(self.level.min(LEVELS - 1)) {
            *nanos += spent;
        }
        self.since = now;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.nanos.iter_mut().zip(&other.nanos) {
            *mine += theirs;
        }
    }

    /// The share of the time at each level, in percent.
    pub(super) fn percent(&self) -> Vec<f64> {
        let total: u64 = self.nanos.iter().sum();
        self.nanos.iter().map(|&nanos| 100.0 * nanos as f64 / total.max(1) as f64).collect()
    }
}

/// The longest span that is told apart from longer ones: a thousand years.
const LONGEST_MILLIS: u64 = 32_000_000_000_000;

/// A distribution of time spans, to three digits and a millisecond.
#[derive(Clone, Debug)]
pub struct Spread {
    histogram: Histogram<u64>,
    sum: f64,
    max: Duration,
}

impl Default for Spread {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three significant digits are allowed");
        Self { histogram, sum: 0.0, max: Duration::ZERO }
    }
}

impl Spread {
    pub(super) fn record(&mut self, span: Duration) {
        self.sum += span.as_secs_f64();
        self.max = self.max.max(span);
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).min(LONGEST_MILLIS);
        self.histogram.record(millis).expect("the histogram resizes itself");
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram).expect("the histogram resizes itself");
    }

    /// How many were measured.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in seconds, exactly; `None` of nothing.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum / self.count() as f64)
    }

    /// In seconds, the value that this share (0 to 1) of all do not exceed; `None` of nothing.
    pub fn quantile_s(&self, share: f64) -> Option<f64> {
        let value = self.histogram.value_at_quantile(share) as f64 / 1e3;
        (self.count() > 0).then_some(value.min(self.max.as_secs_f64()))
    }

    /// The longest, in seconds; `None` of nothing.
    pub fn max_s(&self) -> Option<f64> {
        (self.count() > 0).then_some(self.max.as_secs_f64())
    }
}

/// What was measured, of one run or of several.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub(super) runs: u32,
    pub(super) simulated: Duration,
    pub(super) events: u64,
    pub(super) pulling: Occupancy,
    pub(super) tokens: Occupancy,
    /// Nobody pulls, and a token is on its way: the price of message delay, not of the rules.
    pub(super) in_passing: Duration,
    pub(super) access_intervals: Spread,
    pub(super) return_times: Spread,
    pub(super) recovery: Spread,
    pub(super) stabilisation: Spread,
    pub(super) slots: u64,
    pub(super) skips: u64,
    pub(super) regenerated: u64,
    pub(super) removed: u64,
    pub(super) lost: u64,
    /// One per run.
    pub(super) jain: Vec<f64>,
    /// Of the metered members of all runs.
    pub(super) load_factors: Vec<f64>,
    /// If they were asked for.
    pub(super) verdicts: Option<Verdicts>,
}

impl Outcome {
    /// Takes in what another run measured.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.events += other.events;
        self.pulling.add(&other.pulling);
        self.tokens.add(&other.tokens);
        self.in_passing += other.in_passing;
        self.access_intervals.add(&other.access_intervals);
        self.return_times.add(&other.return_times);
        self.recovery.add(&other.recovery);
        self.stabilisation.add(&other.stabilisation);
        self.slots += other.slots;
        self.skips += other.skips;
        self.regenerated += other.regenerated;
        self.removed += other.removed;
        self.lost += other.lost;
        self.jain.extend_from_slice(&other.jain);
        self.load_factors.extend_from_slice(&other.load_factors);
        if let Some(theirs) = &other.verdicts {
            self.verdicts.get_or_insert_default().add(theirs);
        }
    }

    /// How many runs.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// How many events were simulated.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many slots were given.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// What the members said of their load, if that was asked for.
    pub fn verdicts(&self) -> Option<&Verdicts> {
        self.verdicts.as_ref()
    }

    /// How many tokens were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The share of the time with 0, 1, 2, … members pulling, in percent.
    pub fn pulling_percent(&self) -> Vec<f64> {
        self.pulling.percent()
    }

    /// The share of the time with 0, 1, 2, … tokens alive, in percent.
    pub fn tokens_percent(&self) -> Vec<f64> {
        self.tokens.percent()
    }

    /// The times between the beginnings of two slots of a member.
    pub fn access_intervals(&self) -> &Spread {
        &self.access_intervals
    }

    /// The times between two visits to a member.
    pub fn return_times(&self) -> &Spread {
        &self.return_times
    }

    /// The times from the loss of the last token to the next token.
    pub fn recovery(&self) -> &Spread {
        &self.recovery
    }

    /// The times from the loss of the last token to the end of the last time without a token that followed, before the
    /// next such loss or the end of the run: from then on the circle worked.
    pub fn stabilisation(&self) -> &Spread {
        &self.stabilisation
    }
}

/// Measures one run.
#[derive(Debug)]
pub(super) struct Meter {
    outcome: Outcome,
    members: Vec<MemberMeter>,
    loads: Vec<Load>,
    nominal_period: Duration,
    /// Since when there has been no token, because one was lost.
    bereft_since: Option<Time>,
    /// The last loss of the last token.
    aftermath: Option<Aftermath>,
    in_passing: Occupancy,
    idle_in_passing_since: Option<Time>,
}

/// What followed the loss of the last token. The new token may be removed as spurious, and then there is none again.
#[derive(Clone, Copy, Debug)]
struct Aftermath {
    lost_at: Time,
    /// When a token was made while there was none, the last time that this happened.
    ended_at: Option<Time>,
}

/// What is remembered of one member; kept small, there may be a million.
#[derive(Clone, Debug, Default)]
struct MemberMeter {
    last_slot: Option<Time>,
    last_visit: Option<Time>,
    slots: u32,
}

impl Meter {
    pub(super) fn new(members: usize, nominal_period: Duration) -> Self {
        Self {
            outcome: Outcome { runs: 1, ..Outcome::default() },
            members: vec![MemberMeter::default(); members],
            loads: vec![Load::new(nominal_period); members.min(METERED)],
            nominal_period,
            bereft_since: None,
            aftermath: None,
            in_passing: Occupancy::default(),
            idle_in_passing_since: None,
        }
    }

    pub(super) fn add_member(&mut self) {
        self.members.push(MemberMeter::default());
        if self.loads.len() < METERED {
            self.loads.push(Load::new(self.nominal_period));
        }
    }

    pub(super) fn event(&mut self) {
        self.outcome.events += 1;
    }

    pub(super) fn visited(&mut self, member: u32, now: Time) {
        let Some(meter) = self.members.get_mut(member as usize) else { return };
        if let Some(before) = meter.last_visit.replace(now) {
            self.outcome.return_times.record(now.since(before));
        }
        if let Some(load) = self.loads.get_mut(member as usize) {
            load.handle(load::Input::Visited, now);
        }
    }

    pub(super) fn skipped(&mut self) {
        self.outcome.skips += 1;
    }

    pub(super) fn slot_began(&mut self, member: u32, now: Time) {
        self.outcome.pulling.rise(now);
        self.note_passing(now);
        self.outcome.slots += 1;
        let Some(meter) = self.members.get_mut(member as usize) else { return };
        meter.slots += 1;
        if let Some(before) = meter.last_slot.replace(now) {
            self.outcome.access_intervals.record(now.since(before));
        }
        if let Some(load) = self.loads.get_mut(member as usize) {
            load.handle(load::Input::SlotBegan, now);
        }
    }

    pub(super) fn slot_ended(&mut self, now: Time) {
        self.outcome.pulling.fall(now);
        self.note_passing(now);
    }

    pub(super) fn token_made(&mut self, is_first: bool, now: Time) {
        if let Some(aftermath) = self.aftermath.as_mut().filter(|_| self.outcome.tokens.level() == 0) {
            aftermath.ended_at = Some(now);
        }
        self.outcome.tokens.rise(now);
        if !is_first {
            self.outcome.regenerated += 1;
        }
        if let Some(since) = self.bereft_since.take() {
            self.outcome.recovery.record(now.since(since));
        }
    }

    pub(super) fn token_removed(&mut self, now: Time) {
        self.outcome.tokens.fall(now);
        self.outcome.removed += 1;
    }

    pub(super) fn token_lost(&mut self, now: Time) {
        if self.outcome.tokens.level() == 1 {
            self.end_aftermath(now);
            self.aftermath = Some(Aftermath { lost_at: now, ended_at: None });
            self.bereft_since = Some(now);
        }
        self.outcome.tokens.fall(now);
        self.outcome.lost += 1;
    }

    /// What happens from now on does not belong to the last loss. Without a token the end is not known: it is now or later.
    fn end_aftermath(&mut self, now: Time) {
        let Some(Aftermath { lost_at, ended_at }) = self.aftermath.take() else { return };
        let has_token = self.outcome.tokens.level() > 0;
        let end = ended_at.filter(|_| has_token).unwrap_or(now);
        self.outcome.stabilisation.record(end.since(lost_at));
    }

    pub(super) fn token_left(&mut self, now: Time) {
        self.in_passing.rise(now);
        self.note_passing(now);
    }

    pub(super) fn token_arrived(&mut self, now: Time) {
        self.in_passing.fall(now);
        self.note_passing(now);
    }

    fn note_passing(&mut self, now: Time) {
        let is_idle_in_passing = self.outcome.pulling.level() == 0 && self.in_passing.level() > 0;
        if let Some(since) = self.idle_in_passing_since.take() {
            self.outcome.in_passing += now.since(since);
        }
        self.idle_in_passing_since = is_idle_in_passing.then_some(now);
    }

    /// Only members with work count for fairness.
    pub(super) fn finish(mut self, has_work: &dyn Fn(u32) -> bool, now: Time) -> Outcome {
        self.outcome.pulling.settle(now);
        self.outcome.tokens.settle(now);
        self.note_passing(now);
        self.end_aftermath(now);
        self.outcome.simulated = now.since(Time::ZERO);
        let active = (0..).zip(&self.members).filter(|(member, _)| has_work(*member));
        self.outcome.jain.push(jain(active.map(|(_, meter)| f64::from(meter.slots))));
        self.outcome.load_factors.extend(self.loads.iter().filter_map(Load::factor));
        self.outcome
    }
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one has everything.
pub(super) fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_weighs_levels_by_their_time() {
        let mut occupancy = Occupancy::default();
        occupancy.rise(Time::from_secs(1));
        occupancy.rise(Time::from_secs(4));
        occupancy.fall(Time::from_secs(5));
        occupancy.settle(Time::from_secs(10));
        let percent = occupancy.percent();
        assert_eq!(percent[..3], [10.0, 80.0, 10.0]);
        assert!(percent[3..].iter().all(|&share| share == 0.0));
    }

    #[test]
    fn levels_beyond_the_last_count_as_the_last() {
        let mut occupancy = Occupancy::default();
        for _ in 0..1000 {
            occupancy.rise(Time::ZERO);
        }
        occupancy.settle(Time::from_secs(1));
        assert_eq!(occupancy.percent().last(), Some(&100.0));
    }

    #[test]
    fn spreads_add_up() {
        let (mut a, mut b) = (Spread::default(), Spread::default());
        (1..=50).for_each(|s| a.record(Duration::from_secs(s)));
        (51..=100).for_each(|s| b.record(Duration::from_secs(s)));
        a.add(&b);
        assert_eq!(a.count(), 100);
        assert_eq!(a.mean_s(), Some(50.5));
        assert_eq!(a.max_s(), Some(100.0));
        assert!((a.quantile_s(0.8).unwrap() - 80.0).abs() < 0.1);
        assert_eq!(Spread::default().mean_s(), None);
    }

    #[test]
    fn a_circle_is_stable_from_the_end_of_the_last_time_without_a_token() {
        let at = Time::from_secs;
        let mut meter = Meter::new(1, Duration::from_secs(1));
        meter.token_made(true, at(0));
        meter.token_lost(at(10));
        meter.token_made(false, at(12));
        meter.token_made(false, at(13));
        meter.token_removed(at(14));
        meter.token_removed(at(15));
        meter.token_made(false, at(40));
        meter.token_lost(at(100));
        meter.token_made(false, at(107));
        meter.token_lost(at(200));
        let outcome = meter.finish(&|_| true, at(250));
        let spans = |spread: &Spread| (spread.count(), spread.mean_s(), spread.max_s());
        assert_eq!(spans(outcome.recovery()), (2, Some(4.5), Some(7.0)), "to the first new token");
        assert_eq!(
            spans(outcome.stabilisation()),
            (3, Some(29.0), Some(50.0)),
            "30 s, 7 s and not before the end"
        );
    }

    #[test]
    fn an_endless_span_is_recorded_without_overflow() {
        let mut spread = Spread::default();
        spread.record(Duration::MAX);
        spread.record(Duration::ZERO);
        assert_eq!(spread.count(), 2);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert_eq!(jain([3.0; 8].into_iter()), 1.0);
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain([0.0; 8].into_iter()), 1.0, "nobody had anything: nobody was wronged");
    }
}
