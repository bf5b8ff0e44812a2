//! The verdict: whether the circle can bear its load, told by one member from what it sees and hears.
//!
//! Evidence are *estimates of the load factor*, each with a variance. Two kinds come in:
//! - the member's own access intervals over the nominal period, if it had work all the time. Their scatter is measured
//!   (guarded rules about 0.2 of the mean, classic about 0.45);
//! - how long others have waited, as they answer to scouts. Seen at a random moment, the time since a member's last
//!   slot is on average half of its interval (times 1 + scatter², as for any renewal process), so twice the
//!   wait is an estimate too: a poor one, but there are eight of them with every slot.
//!
//! A sequential test (CUSUM of the log likelihood ratio of two loads) adds them up. It decides at [`DECIDE`] nats;
//! already at [`ASK`] it is suspicious, and asks [`ASKED`] members at once how long they have waited. That settles it within
//! seconds, either way: a member's own intervals come once in a return time, which alone is too slow. Silence is
//! evidence as well: a wait that is not over counts for what it is already.
//!
//! Long intervals alone do not make an overload. Slots also come late when a token was lost or members cannot be reached.
//! So the member's directory bounds the demand: as long as no more members can want slots than the circle was laid out
//! for, the load factor does not exceed their share, and late slots are called a disturbance.
//!
//! Called by [`Load`](super::Load) alone.

use std::time::Duration;

use crate::base::Time;
use crate::base::units::human_duration;

use super::evidence::{Evidence, Hypotheses};
use super::level::Level;

/// The loads that the test for overload tells apart are 1.0, which is allowed, and 1.4; it sums up by how much the
/// estimates exceed their middle.
const OVERLOAD: Hypotheses = Hypotheses { middle: 1.2, gap: 0.4 };

/// Overload is over when the load is nearer to 0.8 than to 1.2. The distance between both middles is the hysteresis.
const RELIEF: Hypotheses = Hypotheses { middle: 1.0, gap: -0.4 };

/// Nats of evidence for a verdict. Were all scatter Gaussian, a load of 1.0 would get there once in e¹⁴ ≈ 10⁶ excursions; the
/// long side of the intervals makes it more often (`cargo bench --bench overload` measures it), at 0.9 far more rarely.
const DECIDE: f64 = 14.0;

/// Nats of evidence at which others are asked: one own interval of 1.5 gives three.
const ASK: f64 = 3.0;

/// How many are asked then. Their answers scatter by 0.62, the mean of 32 by 0.11: loads of 0.9 and 1.5 are five of that
/// apart. And how often at most, in a nominal period.
const ASKED: usize = 32;
const ASKS_PER_PERIOD: f64 = 8.0;

/// How many are asked without suspicion, and how often in a nominal period, while there is something to pull. So a change
/// is noticed between two slots.
const ASKED_AS_A_RULE: usize = 8;
const RULE_PER_PERIOD: f64 = 2.0;

/// Small circles with short slots ask less often than that.
const LEAST_GAP: Duration = Duration::from_secs(5);

/// One interval says no more than this one: intervals are skewed to the long side, and a single outlier must not decide.
const LONGEST_OWN: f64 = 1.6;

/// A wait that others tell of says no more than this one. Who comes back with work after days tells of days.
const LONGEST_HEARD: f64 = 1.5;

/// The circle is near its capacity from here on, and until it is below there. The average over [`MEMORY`] scatters by 0.02
/// under the guarded rules.
const FULL_FROM: f64 = 0.97;
const FULL_UNTIL: f64 = 0.88;

/// Over how many own intervals (or as much hearsay as is worth as much) the load is averaged, and how many make a beginning.
const MEMORY: f64 = 128.0;
const BEGINNING: f64 = 8.0;

/// A member that knows how many others can want slots is late after so many times the period that these need, …
const LATE_PERIODS: f64 = 4.0;
/// … but not before this time, …
const LEAST_LATE: Duration = Duration::from_secs(60);
/// … and only after it has asked the others, who may have got work meanwhile, and has given them this time to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// No slot for so many nominal periods is starvation, …
const STARVED_PERIODS: f64 = 4.0;
/// … if it is also so many standard deviations beyond what is usual: gaps of the classic rules have an exponential tail.
const STARVED_DEVIATIONS: f64 = 16.0;

/// The squared scatter of intervals, relative to their mean: what is assumed at first, and what is believed at all.
const FIRST_SCATTER: f64 = 0.06;
const LEAST_SCATTER: f64 = 0.02;
const MOST_SCATTER: f64 = 0.36;

/// How fast the usual interval and its scatter are learned, per interval.
const LEARN_USUAL: f64 = 1.0 / 16.0;
const LEARN_SCATTER: f64 = 1.0 / 32.0;

/// Deadlines are a little late rather than early: then what they wait for has happened.
const LATE: Duration = Duration::from_millis(1);

/// Reaches the verdict in a circle with a token, and measures intervals in a circle with tickets.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four findings of their own, and whether there is work")]
pub(super) struct Judge {
    nominal: Duration,
    has_work: bool,
    /// Since when there has been work, or none.
    work_since: Time,
    last_slot: Option<Time>,
    /// The mean own interval, in nominal periods.
    usual: Option<f64>,
    scatter: f64,
    /// The mean interval, in nominal periods.
    measured: f64,
    /// The number of own intervals that `measured` is worth.
    weight: f64,
    /// The load if every member that can want slots did. `None` if the members are not all known.
    most: Option<f64>,
    evidence: Evidence,
    asked_at: Option<Time>,
    /// How many members to ask, as the next output.
    ask: Option<usize>,
    is_full: bool,
    /// Intervals are longer than the circle was laid out for, whatever the reason.
    is_long: bool,
    /// The present wait is longer than the known members explain.
    is_late: bool,
    is_starved: bool,
}

impl Judge {
    pub(super) fn new(nominal: Duration) -> Self {
        Self {
            nominal: nominal.max(LATE),
            has_work: false,
            work_since: Time::ZERO,
            last_slot: None,
            usual: None,
            scatter: FIRST_SCATTER,
            measured: 0.0,
            weight: 0.0,
            most: None,
            evidence: Evidence::default(),
            asked_at: None,
            ask: None,
            is_full: false,
            is_long: false,
            is_late: false,
            is_starved: false,
        }
    }

    /// The member has just started.
    pub(super) fn starting(mut self, now: Time) -> Self {
        self.work_since = now;
        self
    }

    pub(super) fn set_nominal_period(&mut self, nominal: Duration, now: Time) {
        let has_work = self.has_work;
        *self = Self { scatter: self.scatter, asked_at: self.asked_at, ..Self::new(nominal) };
        (self.has_work, self.work_since) = (has_work, now);
        self.decide(now);
    }

    /// So many members, this one included, can want slots; `None` if not all of them are known.
    pub(super) fn demand(&mut self, members: Option<usize>, capacity: u32) {
        self.most = members.map(|members| members as f64 / f64::from(capacity.max(1)));
    }

    pub(super) fn work(&mut self, has_work: bool, now: Time) {
        if has_work != self.has_work {
            self.forget_when_idle(now);
            self.has_work = has_work;
            self.work_since = now;
        }
    }

    pub(super) fn stalled(&mut self, now: Time) {
        self.last_slot = None;
        self.work_since = now;
    }

    pub(super) fn slot_began(&mut self, now: Time) {
        let before = self.last_slot.replace(now);
        // A member that had nothing to pull for a part of the interval did not wait for all of it.
        let is_wait = |&before: &Time| {
            let idle = self.work_since.since(before);
            self.has_work && idle <= self.nominal / 2 && idle <= now.since(before) / 2
        };
        if let Some(before) = before.filter(is_wait) {
            let interval = self.periods(now.since(before));
            self.weigh(interval.min(LONGEST_OWN), self.scatter);
            self.learn(interval.min(STARVED_PERIODS));
        }
    }

    /// Another member with work has waited so long.
    pub(super) fn heard(&mut self, waited: Duration) {
        if self.has_work {
            let estimate = self.periods(waited).min(LONGEST_HEARD) * 2.0 / (1.0 + self.scatter);
            self.weigh(estimate, hearsay_variance(self.scatter));
        }
    }

    fn learn(&mut self, interval: f64) {
        let usual = self.usual.get_or_insert(interval);
        let deviation = ((interval - *usual) / usual.max(1e-3)).clamp(-1.0, 1.0);
        *usual += (interval - *usual) * LEARN_USUAL;
        let scatter = self.scatter + (deviation * deviation - self.scatter) * LEARN_SCATTER;
        self.scatter = scatter.clamp(LEAST_SCATTER, MOST_SCATTER);
    }

    fn weigh(&mut self, estimate: f64, variance: f64) {
        let weight = self.scatter / variance;
        self.weight = (self.weight + weight).min(MEMORY);
        self.measured += (estimate - self.measured) * (weight / self.weight).min(1.0);
        self.evidence.add(self.test(), estimate, variance);
    }

    fn test(&self) -> Hypotheses {
        if self.is_long { RELIEF } else { OVERLOAD }
    }

    // --- decisions --------------------------------------------------------------------------------------------

    pub(super) fn decide(&mut self, now: Time) {
        self.forget_when_idle(now);
        if self.has_work {
            let wait = self.periods(now.since(self.waiting_since()));
            self.is_starved = wait >= self.starvation();
            let nats = self.evidence.nats + self.pending(wait);
            if nats >= DECIDE {
                self.turn(wait);
            }
            if (ASK..DECIDE).contains(&nats) {
                self.ask(ASKED, self.gap(ASKS_PER_PERIOD), now);
            } else {
                self.ask(ASKED_AS_A_RULE, self.gap(RULE_PER_PERIOD), now);
            }
        }
        self.is_late = self.has_work && self.judge_lateness(now);
        let limit = if self.is_full { FULL_UNTIL } else { FULL_FROM };
        self.is_full = self.weight >= BEGINNING && self.capped() >= limit;
    }

    /// Long intervals begin, or end. The measurements from before the change do not count any more.
    fn turn(&mut self, wait: f64) {
        let pending = if self.is_long { 0.0 } else { wait };
        self.measured = self.evidence.estimate().unwrap_or(pending).max(pending);
        self.weight = self.weight.min(BEGINNING);
        self.is_long = !self.is_long;
        self.evidence = Evidence::default();
    }

    /// A verdict is about those who wait. A member that has had nothing to pull for a period does not know any more.
    fn forget_when_idle(&mut self, now: Time) {
        if !self.has_work && now.since(self.work_since) >= self.nominal {
            self.evidence = Evidence::default();
            self.weight = 0.0;
            self.is_full = false;
            self.is_long = false;
        }
        self.is_starved &= self.has_work;
    }

    /// Before the wait is called late, the others are asked whether they want slots, too.
    fn judge_lateness(&mut self, now: Time) -> bool {
        let Some(late_at) = self.late_at().filter(|late_at| now >= *late_at) else { return false };
        if self.asked_at.is_none_or(|at| at < late_at) {
            self.ask(ASKED, Duration::ZERO, now);
        }
        self.is_late || self.asked_at.is_some_and(|at| now >= at + ANSWER_WITHIN)
    }

    /// From when on the present wait is longer than the known members explain.
    fn late_at(&self) -> Option<Time> {
        let (usual, most) = (self.usual?, self.most?);
        let wait = self.span(self.unusual(usual).max(LATE_PERIODS * most)).max(LEAST_LATE);
        Some(self.really_waiting_since() + wait)
    }

    fn ask(&mut self, count: usize, gap: Duration, now: Time) {
        if self.asked_at.is_none_or(|at| now >= at + gap) {
            self.asked_at = Some(now);
            self.ask = Some(count);
        }
    }

    // --- what is said -----------------------------------------------------------------------------------------

    /// How many members to ask, once.
    pub(super) fn poll_ask(&mut self) -> Option<usize> {
        self.ask.take()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        if !self.has_work {
            let has_something_to_forget = self.weight > 0.0;
            return has_something_to_forget.then(|| self.work_since + self.nominal + LATE);
        }
        let at = |periods: f64| self.waiting_since() + self.span(periods) + LATE;
        let starved = (!self.is_starved).then(|| at(self.starvation()));
        let asked_at = self.asked_at.unwrap_or(self.work_since);
        let suspicious = self.suspicious_after().map(|wait| {
            let again = asked_at + self.gap(ASKS_PER_PERIOD) + LATE;
            at(wait).max(again)
        });
        let late = self.late_at().filter(|_| !self.is_late).map(|late_at| {
            let answered = asked_at + ANSWER_WITHIN;
            if asked_at < late_at { late_at + LATE } else { answered + LATE }
        });
        let as_a_rule = asked_at + self.gap(RULE_PER_PERIOD) + LATE;
        starved.into_iter().chain(suspicious).chain(late).chain([as_a_rule]).min()
    }

    pub(super) fn level(&self) -> Level {
        let can_be_too_much = self.most.is_none_or(|most| most > 1.0);
        match self {
            Self { is_starved: true, .. } => Level::Starved,
            Self { is_long: true, .. } if can_be_too_much => Level::Overloaded,
            Self { is_long: true, .. } | Self { is_late: true, .. } => Level::Disturbed,
            Self { is_full: true, .. } => Level::Full,
            _ => Level::Nominal,
        }
    }

    /// The load factor, once enough was measured; of late, where it has changed.
    pub(super) fn load(&self) -> Option<f64> {
        (self.weight >= BEGINNING || self.is_long).then(|| self.capped())
    }

    /// The mean time between two slots, as far as it is known.
    pub(super) fn interval(&self) -> Option<Duration> {
        (self.weight >= 1.0).then(|| self.span(self.measured))
    }

    /// Demand is no more than all members can want.
    fn capped(&self) -> f64 {
        self.measured.min(self.most.unwrap_or(f64::INFINITY))
    }

    pub(super) fn reason(&self, now: Time) -> String {
        let period = human_duration(self.nominal);
        let interval = human_duration(self.span(self.measured));
        let times = self.measured;
        match (self.level(), self.load()) {
            (Level::Starved, _) => self.starving(now),
            (Level::Disturbed, _) if !self.is_long => {
                format!("{}; a token was lost, or members cannot be reached", self.starving(now))
            }
            (Level::Disturbed, _) => format!(
                "a slot comes every {interval}, {times:.2} times the period of {period} for which the circle was laid out, \
                 though no more members are known than it was laid out for: tokens were lost, or members cannot be reached"
            ),
            (Level::Overloaded, Some(load)) => format!(
                "demand is {load:.2} times the capacity: a slot comes every {interval}, and the circle was laid out for one \
                 every {period}"
            ),
            (_, Some(load)) => {
                format!("{} of the capacity is in use: a slot comes every {interval}", percent(load))
            }
            _ if !self.has_work => "nothing to pull, so nothing to wait for".to_owned(),
            _ => "too few slots so far to tell".to_owned(),
        }
    }

    fn starving(&self, now: Time) -> String {
        let wait = human_duration(now.since(self.really_waiting_since()));
        let usual = human_duration(self.span(self.usual.unwrap_or(1.0)));
        format!("no slot for {wait} though there is something to pull; usually one comes every {usual}")
    }

    // --- measures ---------------------------------------------------------------------------------------------

    /// From when its wait counts: as if the time in which no slot could come had passed before its work came.
    fn waiting_since(&self) -> Time {
        let work_since = self.work_since - self.nominal / 2;
        self.last_slot.map_or(work_since, |last_slot| last_slot.max(work_since))
    }

    /// From when on it has waited, by the clock.
    fn really_waiting_since(&self) -> Time {
        self.last_slot.map_or(self.work_since, |last_slot| last_slot.max(self.work_since))
    }

    /// What a wait that is not over says already.
    fn pending(&self, wait: f64) -> f64 {
        if self.is_long {
            return 0.0;
        }
        OVERLOAD.score(wait.min(LONGEST_OWN), self.scatter).max(0.0)
    }

    fn starvation(&self) -> f64 {
        self.unusual(self.usual.unwrap_or(1.0)).max(STARVED_PERIODS)
    }

    /// A wait that does not come by chance, in nominal periods.
    fn unusual(&self, usual: f64) -> f64 {
        usual * (1.0 + STARVED_DEVIATIONS * self.scatter.sqrt())
    }

    /// The least time between two rounds of questions.
    fn gap(&self, per_period: f64) -> Duration {
        self.nominal.div_f64(per_period).max(LEAST_GAP)
    }

    /// From what wait on others are asked, if this wait goes on; nothing if it alone is not enough.
    fn suspicious_after(&self) -> Option<f64> {
        let missing = ASK - self.evidence.nats;
        if missing <= 0.0 {
            return Some(0.0);
        }
        let wait = OVERLOAD.middle + missing * self.scatter / OVERLOAD.gap;
        (wait <= LONGEST_OWN && !self.is_long).then_some(wait)
    }

    fn periods(&self, span: Duration) -> f64 {
        span.as_secs_f64() / self.nominal.as_secs_f64()
    }

    fn span(&self, periods: f64) -> Duration {
        Duration::try_from_secs_f64(periods * self.nominal.as_secs_f64()).unwrap_or(Duration::MAX)
    }
}

/// A share of the capacity for people: no more than all of it is in use, and a small share is not nothing.
fn percent(load: f64) -> String {
    let percent = load.min(1.0) * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// How far twice the wait of a random member is from the load of 1, squared: `E[A]` = (1 + c²)/2 and `E[A²]` = (1 + 3c²)/3 of
/// intervals with a mean of 1 and a squared scatter of c².
fn hearsay_variance(scatter: f64) -> f64 {
    let mean = f64::midpoint(1.0, scatter);
    (1.0 / 3.0 + scatter) / (mean * mean) - 1.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Input, Load, Output};
    use super::*;
    use crate::base::Rng;

    const PERIOD: Duration = Duration::from_secs(1000);

    /// A member with work all the time, in a circle whose load can be set.
    struct Member {
        load: Load,
        now: Time,
        rng: Rng,
        changes: Vec<Level>,
    }

    impl Member {
        fn new(seed: u64) -> Self {
            let mut load = Load::new(PERIOD);
            load.handle(Input::Work(true), Time::ZERO);
            Self { load, now: Time::ZERO, rng: Rng::seeded(seed), changes: Vec::new() }
        }

        /// Lets the time come, and answers what the machine asks: waits at random up to the interval.
        fn pass(&mut self, until: Time, factor: f64) {
            while let Some(deadline) = self.load.next_deadline().filter(|&deadline| deadline <= until) {
                self.now = deadline.max(self.now);
                self.load.handle(Input::Wake, self.now);
                self.drain(factor);
            }
            self.now = until;
        }

        fn drain(&mut self, factor: f64) {
            while let Some(output) = self.load.poll_output() {
                match output {
                    Output::Changed(level) => self.changes.push(level),
                    Output::Ask { count } => {
                        for _ in 0..count {
                            let waited = Some(PERIOD.mul_f64(factor * self.rng.fraction()));
                            self.load.handle(Input::Heard { waited, has_work: true }, self.now);
                        }
                    }
                }
            }
        }

        /// So many slots at this load, with a scatter of a fifth either way.
        fn slots(&mut self, count: usize, factor: f64) {
            for _ in 0..count {
                let interval = PERIOD.mul_f64(factor * (0.8 + 0.4 * self.rng.fraction()));
                self.pass(self.now + interval, factor);
                self.load.handle(Input::SlotBegan, self.now);
                self.drain(factor);
            }
        }
    }

    #[test]
    fn a_step_to_half_as_much_again_is_told_within_three_return_times_and_its_end_too() {
        for seed in 0..50 {
            let mut member = Member::new(seed);
            member.slots(100, 0.8);
            assert_eq!(member.load.level(), Level::Nominal);
            member.slots(3, 1.5);
            assert_eq!(member.load.level(), Level::Overloaded, "seed {seed}");
            member.slots(30, 0.8);
            assert_eq!(member.load.level(), Level::Nominal, "seed {seed}");
            assert_eq!(member.changes.iter().filter(|&&level| level == Level::Overloaded).count(), 1);
        }
    }

    #[test]
    fn at_a_constant_load_nobody_changes_its_mind_again_and_again() {
        for factor in [0.6, 0.8, 0.9, 1.0, 1.1, 1.15, 1.2, 1.3, 1.5, 2.5] {
            let mut member = Member::new(7);
            member.slots(3000, factor);
            assert!(member.changes.len() <= 6, "load {factor}: {:?}", member.changes);
        }
    }

    #[test]
    fn a_circle_that_is_exactly_full_is_called_full() {
        let mut member = Member::new(3);
        member.slots(300, 1.0);
        assert_eq!(member.load.level(), Level::Full);
        assert!(member.load.verdict(member.now).reason.contains("% of the capacity"));
    }

    #[test]
    fn silence_alone_is_told_as_starvation_and_the_next_slot_ends_it() {
        let mut member = Member::new(3);
        member.slots(50, 0.8);
        member.pass(member.now + PERIOD * 10, 0.8);
        assert_eq!(member.load.level(), Level::Starved);
        let verdict = member.load.verdict(member.now);
        assert!(verdict.reason.starts_with("no slot for 2 h 46 min"), "{}", verdict.reason);
        member.slots(1, 0.8);
        assert_ne!(member.load.level(), Level::Starved);
    }

    #[test]
    fn a_member_that_is_idle_waits_for_nothing() {
        let mut member = Member::new(3);
        for _ in 0..100 {
            member.load.handle(Input::Work(false), member.now);
            member.pass(member.now + PERIOD * 50, 0.5);
            member.load.handle(Input::Work(true), member.now);
            member.pass(member.now + PERIOD / 10, 0.5);
            member.load.handle(Input::SlotBegan, member.now);
            member.drain(0.5);
        }
        assert_eq!(member.changes, []);
    }

    #[test]
    fn who_has_nothing_to_pull_any_more_takes_its_word_back() {
        let mut member = Member::new(3);
        member.slots(20, 2.0);
        assert_eq!(member.load.level(), Level::Overloaded);
        member.load.handle(Input::Work(false), member.now);
        member.pass(member.now + PERIOD * 2, 2.0);
        assert_eq!(member.load.level(), Level::Nominal);
    }

    #[test]
    fn a_computer_that_slept_was_not_starved() {
        let mut member = Member::new(3);
        member.slots(20, 0.8);
        member.now = member.now + PERIOD * 100;
        member.load.handle(Input::Stalled, member.now);
        member.drain(0.8);
        assert_eq!(member.load.level(), Level::Nominal);
    }

    #[test]
    fn the_advice_is_what_a_slot_carries_over_the_interval() {
        let mut member = Member::new(3);
        assert_eq!(member.load.advice(), None);
        member.slots(40, 1.43);
        for bytes in [650_000_000, 0, 12] {
            member.load.handle(Input::Carried { bytes }, member.now);
        }
        let advice = member.load.advice().unwrap();
        assert!((430e3..480e3).contains(&advice.bytes_per_sec), "{advice}");
        let exactly = super::super::Advice { bytes_per_sec: 455e3, less: 0.3 };
        assert_eq!(exactly.to_string(), "this circle can carry 455 KB/s per member now (30 % less)");
    }

    proptest! {
        #[test]
        fn any_inputs_at_any_times_are_survived_and_the_idle_never_complain(
            period in prop_oneof![Just(0), 1_u64..1_000_000_000_000, any::<u64>()],
            inputs in proptest::collection::vec((0_u8..10, any::<u64>(), 0_u64..1 << 50), 0..200),
        ) {
            let mut load = Load::new(Duration::from_nanos(period));
            let (mut now, mut has_work) = (Time::ZERO, false);
            for (kind, number, step) in inputs {
                now = now + Duration::from_nanos(step);
                let input = match kind {
                    0 => Input::Visited,
                    1 => Input::SlotBegan,
                    2 => Input::Work(number % 2 == 0),
                    3 | 4 => Input::Heard { waited: Some(Duration::from_nanos(number)), has_work: true },
                    5 => Input::Carried { bytes: number },
                    6 => Input::Stalled,
                    7 | 8 => Input::Demand { members: (kind == 7).then_some(usize::from(number.to_le_bytes()[0] % 9)), capacity: 4 },
                    _ => Input::Wake,
                };
                if let Input::Work(work) = input {
                    has_work = work;
                }
                load.handle(input, now);
                while load.poll_output().is_some() {}
                prop_assert!(load.next_deadline().is_none_or(|deadline| deadline > now), "no wake-up in the past");
                prop_assert!(has_work || load.level() != Level::Starved);
                prop_assert!(load.advice().is_none_or(|advice| advice.bytes_per_sec.is_finite()));
                prop_assert!(!load.verdict(now).reason.is_empty());
            }
        }
    }
}
