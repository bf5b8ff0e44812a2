//! What a reader wants to know of an outcome, as numbers with names.

use serde::Serialize;

use super::measure::{Outcome, Spread};
use super::scenario::Scenario;
use super::verdicts::Verdicts;

/// The summary of all runs of one set of rules. Its JSON form is an interface: names stay as they are.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the rules.
    pub rules: String,
    /// Members at the start.
    pub members: usize,
    /// N_max.
    pub capacity: u32,
    /// Runs, each with a seed of its own.
    pub runs: u32,
    /// Simulated time of all runs together.
    pub simulated_s: f64,
    /// Percent of the time with so many members pulling.
    pub share_of_time: ShareOfTime,
    /// Percent of the time in which nobody pulled because the token was on its way.
    pub idle_in_passing: f64,
    /// Time between the beginnings of two slots of a member.
    pub access_interval_s: Quantiles,
    /// Time between two visits to a member.
    pub return_time_s: Quantiles,
    /// Percent of the time with so many tokens alive.
    pub share_of_tokens: ShareOfTokens,
    /// Tokens made because one was believed lost, in all runs.
    pub regenerated: u64,
    /// Tokens found spurious and removed, in all runs.
    pub removed: u64,
    /// Tokens really lost, in all runs.
    pub lost: u64,
    /// Time from the loss of the last token to the next token.
    pub recovery_s: Recovery,
    /// Time from the loss of the last token until the circle works: to the end of the last time without a token before the
    /// next loss.
    pub stabilisation_s: Recovery,
    /// Visits that gave no slot, per slot.
    pub skips_per_slot: f64,
    /// Jain's fairness of the number of slots: 1 if all members had as many. The mean of the runs.
    pub jain: f64,
    /// Mean access interval over the nominal period, as members measure it themselves.
    pub load_factor: Option<f64>,
    /// What the members said of their load, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// What a source must keep of a stream, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Simulated events, in all runs.
    pub events: u64,
    /// Real time that the runs took, added up over the cores.
    pub elapsed_s: f64,
}

/// Percent of the time by the number of members pulling.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShareOfTime {
    /// Nobody: the link idles.
    #[serde(rename = "0")]
    pub none: f64,
    /// One: as it should be.
    #[serde(rename = "1")]
    pub one: f64,
    /// Two.
    #[serde(rename = "2")]
    pub two: f64,
    /// More than two.
    pub more: f64,
    /// More than five, which are also more than two.
    pub more_than_5: f64,
}

/// Percent of the time by the number of tokens alive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShareOfTokens {
    /// None.
    #[serde(rename = "0")]
    pub none: f64,
    /// One: as it should be.
    #[serde(rename = "1")]
    pub one: f64,
    /// Two.
    #[serde(rename = "2")]
    pub two: f64,
    /// More than two.
    pub more: f64,
}

/// A distribution in seconds; all `None` (`null`) if there was nothing to measure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// 80 % are no longer.
    pub p80: Option<f64>,
    /// 90 % are no longer.
    pub p90: Option<f64>,
    /// 99 % are no longer.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// Time without a token, in seconds; all `None` (`null`) if none was lost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recovery {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// 99 % are no longer.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// What the members said of their load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overload {
    /// How often a member said *overloaded* or *starved* before a surge, per year.
    pub alarms_per_member_year: f64,
    /// The time in which they could, in years.
    pub member_years: f64,
    /// How often a member asked others how long they have waited, per day of one member.
    pub asked_per_member_day: f64,
    /// From the surge until a member said so.
    pub told_after_s: Quantiles,
    /// Members that never did.
    pub untold: u64,
}

/// What a source must keep of a stream: all that it produces from the beginning of a member's slot to the beginning of
/// the next. The papers' case study sizes the buffer of an instrument so. `None` (`null`) where no member had two slots.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Buffer {
    /// What the stream produces, in bytes per second.
    pub stream_bytes_per_s: u64,
    /// Enough for 99 % of the access intervals, in seconds.
    pub p99_s: Option<f64>,
    /// The same in bytes.
    pub p99_bytes: Option<u64>,
    /// Enough for 99.9 % of the access intervals, in seconds.
    pub p999_s: Option<f64>,
    /// The same in bytes.
    pub p999_bytes: Option<u64>,
    /// Enough for the longest access interval, in seconds.
    pub max_s: Option<f64>,
    /// The same in bytes.
    pub max_bytes: Option<u64>,
}

impl Buffer {
    /// The buffer for a stream of this rate, by the access intervals of an outcome.
    pub fn new(stream_bytes_per_s: u64, outcome: &Outcome) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from float saturates"
        )]
        let bytes = |seconds: Option<f64>| seconds.map(|s| (s * stream_bytes_per_s as f64).ceil() as u64);
        let intervals = &outcome.access_intervals;
        let [percent, permille] = [0.99, 0.999].map(|share| intervals.quantile_s(share));
        let max_s = intervals.max_s();
        Self {
            stream_bytes_per_s,
            p99_s: percent,
            p99_bytes: bytes(percent),
            p999_s: permille,
            p999_bytes: bytes(permille),
            max_s,
            max_bytes: bytes(max_s),
        }
    }
}

impl Overload {
    fn of(verdicts: &Verdicts) -> Self {
        let days = (verdicts.member_s / 86_400.0).max(f64::MIN_POSITIVE);
        Self {
            alarms_per_member_year: verdicts.alarms_per_year(),
            member_years: days / 365.25,
            asked_per_member_day: verdicts.asked as f64 / days,
            told_after_s: Quantiles::of(&verdicts.told),
            untold: verdicts.untold,
        }
    }
}

impl Report {
    /// The report of an outcome; `elapsed_s` is what the caller's clock says.
    pub fn new(rules: &str, scenario: &Scenario, outcome: &Outcome, elapsed_s: f64) -> Self {
        let pulling = outcome.pulling_percent();
        let tokens = outcome.tokens_percent();
        let simulated_s = outcome.simulated.as_secs_f64();
        Self {
            rules: rules.to_owned(),
            members: scenario.members,
            capacity: scenario.capacity,
            runs: outcome.runs,
            simulated_s,
            share_of_time: ShareOfTime {
                none: at(&pulling, 0),
                one: at(&pulling, 1),
                two: at(&pulling, 2),
                more: above(&pulling, 2),
                more_than_5: above(&pulling, 5),
            },
            idle_in_passing: 100.0 * outcome.in_passing.as_secs_f64() / simulated_s.max(f64::MIN_POSITIVE),
            access_interval_s: Quantiles::of(&outcome.access_intervals),
            return_time_s: Quantiles::of(&outcome.return_times),
            share_of_tokens: ShareOfTokens {
                none: at(&tokens, 0),
                one: at(&tokens, 1),
                two: at(&tokens, 2),
                more: above(&tokens, 2),
            },
            regenerated: outcome.regenerated,
            removed: outcome.removed,
            lost: outcome.lost,
            recovery_s: Recovery::of(&outcome.recovery),
            stabilisation_s: Recovery::of(&outcome.stabilisation),
            skips_per_slot: outcome.skips as f64 / outcome.slots.max(1) as f64,
            jain: mean(&outcome.jain).unwrap_or(1.0),
            load_factor: mean(&outcome.load_factors),
            overload: outcome.verdicts().map(Overload::of),
            buffer: None,
            events: outcome.events,
            elapsed_s,
        }
    }
}

impl Quantiles {
    /// Of a measured distribution.
    pub fn of(spread: &Spread) -> Self {
        Self {
            mean: spread.mean_s(),
            p50: spread.quantile_s(0.5),
            p80: spread.quantile_s(0.8),
            p90: spread.quantile_s(0.9),
            p99: spread.quantile_s(0.99),
            max: spread.max_s(),
        }
    }
}

impl Recovery {
    fn of(spread: &Spread) -> Self {
        Self {
            mean: spread.mean_s(),
            p50: spread.quantile_s(0.5),
            p99: spread.quantile_s(0.99),
            max: spread.max_s(),
        }
    }
}

fn at(percent: &[f64], level: usize) -> f64 {
    percent.get(level).copied().unwrap_or(0.0)
}

/// A sum of nothing is -0.0, hence the fold.
fn above(percent: &[f64], level: usize) -> f64 {
    percent.iter().skip(level + 1).fold(0.0, |sum, share| sum + share)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
