//! The last resort: how long a member without a token waits before it makes one, and that it asks around first.

use std::time::Duration;

use crate::base::{Rng, Time};

use super::config::Config;
use super::rules::Regeneration;

/// The timer. Every piece of news winds it up again: a visit, and with sightings also what is heard of a token.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    /// When a token was last known to live.
    last_news: Time,
    /// Smoothed time between news over about a nominal period; with visits alone that is the return time.
    usual_quiet: Option<Duration>,
    /// How many members share the last resort.
    members: u32,
    /// The early rules' Δ_gen.
    patience: Duration,
    deadline: Time,
    /// When others were asked since the last news, if they were.
    asked_at: Option<Time>,
}

/// What a member does whose timer has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Asks so many others whether they have seen a token.
    Ask { count: usize },
    /// Makes a token.
    Regenerate,
}

/// How long to wait at least for what the others have seen: little beside the waiting before. Where answers take longer, twice
/// as long as they take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Over how many nominal periods quiet times are smoothed.
const MEMORY_PERIODS: u32 = 4;

impl Timer {
    /// A member that starts now: it waits as if it had just heard of a token.
    pub(super) fn new(config: &Config, rng: &mut Rng, now: Time) -> Self {
        let patience = config.max_interval();
        let members = config.capacity;
        let mut timer =
            Self { last_news: now, usual_quiet: None, members, patience, deadline: now, asked_at: None };
        timer.wind(config, rng);
        timer
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// How long a sighting keeps its worth: as long as we ourselves would wait before we take a token for lost.
    pub(super) fn horizon(&self, config: &Config) -> Duration {
        match config.rules.regeneration {
            Regeneration::Stretched { quiet_times, .. } => self.suspicious_quiet(quiet_times, config),
            Regeneration::Poisson | Regeneration::Adaptive { .. } | Regeneration::Never => {
                config.min_interval()
            }
        }
    }

    /// A token is here.
    pub(super) fn visited(&mut self, config: &Config, rng: &mut Rng, now: Time) {
        if let Regeneration::Adaptive { decay, .. } = config.rules.regeneration {
            let excess = self.patience.saturating_sub(config.max_interval());
            self.patience = self.patience.saturating_sub(excess.mul_f64(decay));
        }
        self.news(config, rng, now);
    }

    /// A token was alive at `at`.
    pub(super) fn news(&mut self, config: &Config, rng: &mut Rng, at: Time) {
        if at <= self.last_news {
            return;
        }
        let quiet = at.since(self.last_news);
        // Each quiet time counts by its length: news come in bursts, and a hundred short gaps say nothing about how
        // long a long one may be.
        let memory = config.nominal_period().saturating_mul(MEMORY_PERIODS);
        let weight = 1.0 - (-quiet.as_secs_f64() / memory.as_secs_f64()).exp();
        let usual = self.usual_quiet.unwrap_or(config.nominal_period());
        let is_comfort = self.is_comfort(at, usual, config);
        self.usual_quiet = Some(usual.mul_f64(1.0 - weight) + quiet.mul_f64(weight));
        self.last_news = at;
        if is_comfort {
            self.wind(config, rng);
        }
    }

    /// Of a token that lives, one of those who were asked knows something fresh. That it was seen later than we knew, but
    /// long ago, is what they would say of a lost one, and no reason to wait all over again.
    fn is_comfort(&self, at: Time, usual_quiet: Duration, config: &Config) -> bool {
        self.asked_at.is_none_or(|asked_at| at + usual_quiet + config.slot * 2 >= asked_at)
    }

    /// The timer has run out. Silence may be bad luck: that nobody happened to ask this member, or that few know it yet,
    /// as after a partition that healed. So who can ask does, once; only silence after that means that there is no token.
    pub(super) fn run_out(&mut self, timeout: Duration, config: &Config, now: Time) -> Alarm {
        let rules = &config.rules;
        let may_ask =
            matches!(rules.regeneration, Regeneration::Stretched { .. }) && rules.sightings.is_some();
        match &rules.scouting {
            Some(scouting) if may_ask && self.asked_at.is_none() => {
                self.asked_at = Some(now);
                self.deadline = now + ANSWERS_WITHIN.max(timeout.saturating_mul(2));
                Alarm::Ask { count: scouting.scouts }
            }
            _ => Alarm::Regenerate,
        }
    }

    /// The timer ran out, or custody did: there is a new token here.
    pub(super) fn regenerated(&mut self, config: &Config, rng: &mut Rng, now: Time) {
        if let Regeneration::Adaptive { growth, .. } = config.rules.regeneration {
            self.patience = self.patience.mul_f64(growth).min(MAX_PATIENCE);
        }
        self.last_news = now;
        self.wind(config, rng);
    }

    /// Waits anew, as if there had been news just now, but learns nothing from it.
    pub(super) fn restart(&mut self, config: &Config, rng: &mut Rng, now: Time) {
        self.last_news = now;
        self.wind(config, rng);
    }

    /// Fewer members must each be quicker, for the circle to wake as soon.
    pub(super) fn set_members(&mut self, members: u32, config: &Config, rng: &mut Rng) {
        let members = members.max(1);
        if members != self.members {
            self.members = members;
            self.wind(config, rng);
        }
    }

    fn wind(&mut self, config: &Config, rng: &mut Rng) {
        let wait = match config.rules.regeneration {
            Regeneration::Never => Duration::MAX,
            Regeneration::Adaptive { .. } => self.patience,
            Regeneration::Poisson => {
                config.min_interval().saturating_add(rng.exponential(config.regeneration_mean()))
            }
            Regeneration::Stretched { quiet_times, slots } => {
                let mean = config.slot.saturating_mul(slots).saturating_mul(self.members);
                self.suspicious_quiet(quiet_times, config).saturating_add(rng.exponential(mean))
            }
        };
        self.deadline = self.last_news + wait;
        self.asked_at = None;
    }

    /// Before anything was measured the usual quiet time is unknown; one nominal period stands for all of them.
    fn suspicious_quiet(&self, quiet_times: f64, config: &Config) -> Duration {
        match self.usual_quiet {
            Some(usual) => usual.mul_f64(quiet_times).max(config.min_interval()),
            None => config.nominal_period(),
        }
    }
}

/// Bounds Δ_gen for a member that is alone for ever: a century.
const MAX_PATIENCE: Duration = Duration::from_secs(3_200_000_000);

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;

    fn config(rules: Rules) -> Config {
        Config::new(Duration::from_secs(4), Duration::from_millis(100), 300, rules).unwrap()
    }

    fn wait(timer: &Timer, from: Time) -> Duration {
        timer.deadline().since(from)
    }

    #[test]
    fn early_patience_grows_by_half_with_every_loss() {
        let (config, mut rng) = (config(Rules::early()), Rng::seeded(1));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        assert_eq!(wait(&timer, Time::ZERO), Duration::from_secs(1800));
        let now = timer.deadline();
        timer.regenerated(&config, &mut rng, now);
        assert_eq!(wait(&timer, now), Duration::from_secs(2700));
    }

    #[test]
    fn early_patience_loses_a_twentieth_of_its_excess_with_every_visit() {
        let (config, mut rng) = (config(Rules::early()), Rng::seeded(1));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        timer.regenerated(&config, &mut rng, Time::ZERO);
        timer.visited(&config, &mut rng, Time::from_secs(1));
        assert_eq!(wait(&timer, Time::from_secs(1)), Duration::from_secs(2700 - 45));
        for second in 2..2000 {
            timer.visited(&config, &mut rng, Time::from_secs(second));
        }
        let excess = wait(&timer, Time::from_secs(1999)).saturating_sub(Duration::from_secs(1800));
        assert!(excess < Duration::from_millis(1), "it falls back to Δ_max, never below: {excess:?}");
    }

    #[test]
    fn classic_waits_delta_min_and_an_exponential_time() {
        let (config, mut rng) = (config(Rules::classic()), Rng::seeded(2));
        let waits: Vec<f64> = (0..20_000)
            .map(|_| wait(&Timer::new(&config, &mut rng, Time::ZERO), Time::ZERO).as_secs_f64() - 600.0)
            .collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!(waits.iter().all(|&wait| wait >= 0.0), "never before Δ_min");
        assert!((mean / 180_000.0 - 1.0).abs() < 0.03, "mean beyond Δ_min is γ: {mean}");
    }

    #[test]
    fn stretched_waits_longer_where_news_are_rare() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(3));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        for visit in 1..=100 {
            timer.visited(&config, &mut rng, Time::from_secs(visit * 1000));
        }
        assert!((timer.horizon(&config).as_secs_f64() / 4_000.0 - 1.0).abs() < 0.01);
        assert!(wait(&timer, Time::from_secs(100_000)) >= Duration::from_secs(3_990));
    }

    #[test]
    fn a_small_circle_wakes_as_soon_as_a_large_one() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(5));
        for members in [2, 30, 300] {
            let first = |rng: &mut Rng| {
                let mut member = || {
                    let mut timer = Timer::new(&config, rng, Time::ZERO);
                    timer.set_members(members, &config, rng);
                    wait(&timer, Time::ZERO).as_secs_f64() - 1200.0
                };
                (0..members).map(|_| member()).fold(f64::INFINITY, f64::min)
            };
            let mean = (0..500).map(|_| first(&mut rng)).sum::<f64>() / 500.0;
            assert!((50.0..70.0).contains(&mean), "15 slots of 4 s, whatever the size: {mean} at {members}");
        }
    }

    #[test]
    fn who_can_ask_does_so_once_and_again_only_after_news() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(6));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        let now = timer.deadline();
        assert_eq!(timer.run_out(Duration::ZERO, &config, now), Alarm::Ask { count: 8 });
        assert_eq!(timer.deadline(), now + ANSWERS_WITHIN);
        assert_eq!(timer.run_out(Duration::ZERO, &config, timer.deadline()), Alarm::Regenerate);
        timer.news(&config, &mut rng, now);
        assert!(timer.deadline() >= now + config.min_interval(), "news end the alarm");
        assert_eq!(timer.run_out(Duration::ZERO, &config, timer.deadline()), Alarm::Ask { count: 8 });
    }

    #[test]
    fn slow_answers_are_waited_for() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(6));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        let now = timer.deadline();
        timer.run_out(Duration::from_millis(1200), &config, now);
        assert_eq!(timer.deadline(), now + Duration::from_millis(2400));
    }

    #[test]
    fn what_the_others_saw_long_ago_does_not_end_the_alarm() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(8));
        let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
        (1..=1000).for_each(|n| timer.news(&config, &mut rng, Time::from_secs(n * 100)));
        let now = timer.deadline();
        timer.run_out(Duration::ZERO, &config, now);
        timer.news(&config, &mut rng, now - Duration::from_secs(250));
        assert_eq!(timer.deadline(), now + ANSWERS_WITHIN, "the usual quiet time is 100 s");
        timer.news(&config, &mut rng, now - Duration::from_secs(50));
        assert!(timer.deadline() > now + ANSWERS_WITHIN);
    }

    #[test]
    fn in_the_papers_nobody_asks() {
        for rules in [Rules::early(), Rules::classic()] {
            let (config, mut rng) = (config(rules), Rng::seeded(7));
            let mut timer = Timer::new(&config, &mut rng, Time::ZERO);
            let now = timer.deadline();
            assert_eq!(timer.run_out(Duration::ZERO, &config, now), Alarm::Regenerate);
        }
    }

    #[test]
    fn where_no_token_is_made_the_timer_never_runs_out() {
        let rules = Rules { regeneration: Regeneration::Never, ..Rules::guarded() };
        let (config, mut rng) = (config(rules), Rng::seeded(9));
        let mut timer = Timer::new(&config, &mut rng, Time::from_secs(5));
        timer.set_members(2, &config, &mut rng);
        timer.restart(&config, &mut rng, Time::from_secs(9));
        assert_eq!(timer.deadline(), Time::ZERO + Duration::MAX);
    }

    #[test]
    fn old_news_do_not_wind_the_timer() {
        let (config, mut rng) = (config(Rules::guarded()), Rng::seeded(4));
        let mut timer = Timer::new(&config, &mut rng, Time::from_secs(100));
        let before = timer.deadline();
        timer.news(&config, &mut rng, Time::from_secs(99));
        assert_eq!(timer.deadline(), before);
    }
}
