//! What can be asked of the simulator, by flags, environment or file, and what follows from it.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use stroll::base::units::{deserialize_duration, parse_duration, parse_rate};
use stroll::proto::agent::rules::{Regeneration, Scouting};
use stroll::proto::agent::{Intervals, Rules};
use stroll::sim::{Churn, Coordination, Scenario, Surge, View};

use crate::cli::exit::UsageError;

/// The options of `simulate`, each of which may be left open. One struct serves flags, scenario files and settings, so
/// that they cannot differ.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::cli) struct Options {
    /// Which rules: one, several with commas, or all [default: all]
    #[arg(long, value_enum, value_delimiter = ',', env = "STROLL_RULES")]
    #[serde(deserialize_with = "one_or_many")]
    pub(super) rules: Option<Vec<RuleName>>,

    /// Switch off a part of the guarded rules, to see its effect
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART", env = "STROLL_WITHOUT")]
    #[serde(deserialize_with = "one_or_many")]
    pub(super) without: Option<Vec<Part>>,

    /// Members at the start [default: 300]
    #[arg(long, value_name = "N", env = "STROLL_MEMBERS")]
    pub(super) members: Option<usize>,

    /// Members that have work; the others have none [default: all]
    #[arg(long, value_name = "N", env = "STROLL_ACTIVE")]
    pub(super) active: Option<usize>,

    /// N_max: the members for which the circle is laid out [default: 300]
    #[arg(long, value_name = "N", env = "STROLL_CAPACITY")]
    pub(super) capacity: Option<u32>,

    /// Δ_op: how long one visit of the token lets a member pull [default: 4s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_SLOT")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) slot: Option<Duration>,

    /// Δ_skip: how long the token rests where no slot is due [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_SKIP")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) skip: Option<Duration>,

    /// Δ_min: the least time between two slots of one member [default: slot × capacity / 2]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MIN_INTERVAL")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) min_interval: Option<Duration>,

    /// Δ_max: without a visit for so long, a member makes a token (early) [default: 3 × Δ_min]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MAX_INTERVAL")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) max_interval: Option<Duration>,

    /// γ: the mean time beyond Δ_min until a member without a visit makes a token (classic) [default: Δ_min × capacity]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_REGENERATION_MEAN")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) regeneration_mean: Option<Duration>,

    /// Uncoordinated members wait from Δ_min to so many Δ_min between two slots: 1.5 in the paper of 2006/07, 3 in that
    /// of 2009 [default: Δ_max]
    #[arg(long, value_name = "FACTOR", env = "STROLL_LONGEST_WAIT")]
    pub(super) longest_wait: Option<f64>,

    /// Show the buffer that a source needs which produces so much per second, such as 650k or 5Mbit
    #[arg(long, value_name = "RATE", env = "STROLL_STREAM_RATE")]
    pub(super) stream_rate: Option<RateOption>,

    /// Virtual time of one run; a bare number is in seconds, here and everywhere [default: 1e5]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_DURATION")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) duration: Option<Duration>,

    /// Every so often the next handoff loses its token [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_LOSS_EVERY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) loss_every: Option<Duration>,

    /// How long a message takes [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_DELAY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) delay: Option<Duration>,

    /// d: how many members the holder asks before it hands off (guarded) [default: 8]
    #[arg(long, value_name = "N", env = "STROLL_SCOUTS")]
    pub(super) scouts: Option<usize>,

    /// Whom a member knows: `full` for everybody, or how many others, drawn at random [default: full]
    #[arg(long, value_name = "full|N", env = "STROLL_VIEW")]
    pub(super) view: Option<ViewOption>,

    /// Mean time between crashes of a random member, which forgets everything [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_CRASH_EVERY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) crash_every: Option<Duration>,

    /// How long a crashed member stays away [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_RESTART_AFTER")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) restart_after: Option<Duration>,

    /// Mean time between two members joining [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_JOIN_EVERY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) join_every: Option<Duration>,

    /// Mean time between two members leaving [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_LEAVE_EVERY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) leave_every: Option<Duration>,

    /// How far wall clocks are off, at most, either way; tokens do not mind, certificates that end during the run do from
    /// 10 minutes on [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_CLOCK_SKEW")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) clock_skew: Option<Duration>,

    /// Let every member judge the load, and count false alarms
    #[arg(long, num_args = 0, default_missing_value = "true", env = "STROLL_OVERLOAD")]
    pub(super) overload: Option<bool>,

    /// So many members join at once at half of the duration; with --overload: when do the others tell? [default: 0]
    #[arg(long, value_name = "N", env = "STROLL_SURGE")]
    pub(super) surge: Option<usize>,

    /// Runs, each with the next seed; they are done in parallel and summed up [default: 1]
    #[arg(long, value_name = "N", env = "STROLL_RUNS")]
    pub(super) runs: Option<u32>,

    /// Seed of the first run: the same seed gives the same result [default: 1]
    #[arg(long, value_name = "N", env = "STROLL_SEED")]
    pub(super) seed: Option<u64>,
}

/// A set of rules by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RuleName {
    /// Everybody pulls when it likes: the papers' benchmark
    Uncoordinated,
    /// The Wandering Token, 2007: Δ_max timeout, removal by precedence
    Early,
    /// The Wandering Token, 2009: Poisson regeneration, sandwich removal
    Classic,
    /// Ours: classic with scouting, sightings and custody
    Guarded,
    /// These four, side by side
    All,
}

/// A part of the guarded rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    /// The holder asks around and hands off to whom waited longest
    Scouting,
    /// A token is removed when an elder one was seen after its birth
    Sightings,
    /// Who handed a token off watches over it until it is handed on
    Custody,
    /// The last resort waits by the member's own measure
    Stretch,
    /// Two tokens that meet at a member become one
    Meeting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(super) struct ViewOption(View);

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(super) struct RateOption(pub(super) u64);

impl FromStr for RateOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_rate(text) {
            Ok(0) => Err("a stream produces at least 1 byte per second".to_owned()),
            Ok(rate) => Ok(Self(rate)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl TryFrom<NumberOrText> for RateOption {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(number) => number.to_string().parse(),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a text")]
enum NumberOrText {
    Number(usize),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a name, or a list of names, that `stroll simulate --help` shows")]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

fn one_or_many<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    input: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Some(match OneOrMany::deserialize(input)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    }))
}

impl FromStr for ViewOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" {
            return Ok(Self(View::Full));
        }
        let count =
            text.parse().map_err(|_| format!("`{text}` is neither `full` nor a number of members"))?;
        Ok(Self(View::Random(count)))
    }
}

impl TryFrom<NumberOrText> for ViewOption {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(count) => Ok(Self(View::Random(count))),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

/// Everything decided: what is run, and how often.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Plan {
    pub(super) rule_sets: Vec<RuleSet>,
    pub(super) runs: u32,
    pub(super) seed: u64,
    /// What a stream at the source produces, in bytes per second: shown is the buffer that it needs.
    pub(super) stream_rate: Option<u64>,
}

/// One set of rules and the circle that follows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleSet {
    pub(super) name: String,
    pub(super) scenario: Scenario,
}

impl Options {
    /// These options, and where they leave something open, those.
    pub(super) fn or(self, those: Self) -> Self {
        Self {
            rules: self.rules.or(those.rules),
            without: self.without.or(those.without),
            members: self.members.or(those.members),
            active: self.active.or(those.active),
            capacity: self.capacity.or(those.capacity),
            slot: self.slot.or(those.slot),
            skip: self.skip.or(those.skip),
            min_interval: self.min_interval.or(those.min_interval),
            max_interval: self.max_interval.or(those.max_interval),
            regeneration_mean: self.regeneration_mean.or(those.regeneration_mean),
            longest_wait: self.longest_wait.or(those.longest_wait),
            stream_rate: self.stream_rate.or(those.stream_rate),
            duration: self.duration.or(those.duration),
            loss_every: self.loss_every.or(those.loss_every),
            delay: self.delay.or(those.delay),
            scouts: self.scouts.or(those.scouts),
            view: self.view.or(those.view),
            crash_every: self.crash_every.or(those.crash_every),
            restart_after: self.restart_after.or(those.restart_after),
            join_every: self.join_every.or(those.join_every),
            leave_every: self.leave_every.or(those.leave_every),
            clock_skew: self.clock_skew.or(those.clock_skew),
            overload: self.overload.or(those.overload),
            surge: self.surge.or(those.surge),
            runs: self.runs.or(those.runs),
            seed: self.seed.or(those.seed),
        }
    }

    /// Fills in the defaults and checks that all of it makes sense.
    pub(in crate::cli) fn resolve(self) -> anyhow::Result<Plan> {
        let runs = self.runs.unwrap_or(1);
        if runs == 0 {
            return Err(UsageError("runs: must be at least 1".into()).into());
        }
        let base = self.scenario();
        let rule_sets: Vec<RuleSet> = self
            .rule_names()?
            .into_iter()
            .map(|name| self.rule_set(name, &base))
            .collect::<Result<_, _>>()?;
        for rules in &rule_sets {
            rules.check()?;
        }
        let stream_rate = self.stream_rate.map(|rate| rate.0);
        Ok(Plan { rule_sets, runs, seed: self.seed.unwrap_or(1), stream_rate })
    }

    fn scenario(&self) -> Scenario {
        let usual = Scenario::default();
        let duration = self.duration.unwrap_or(usual.duration);
        Scenario {
            coordination: Coordination::Uncoordinated,
            members: self.members.unwrap_or(usual.members),
            active: self.active,
            capacity: self.capacity.unwrap_or(usual.capacity),
            slot: self.slot.unwrap_or(usual.slot),
            skip: self.skip.unwrap_or(usual.skip),
            intervals: Intervals {
                min: self.min_interval,
                max: self.max_interval,
                regeneration_mean: self.regeneration_mean,
            },
            longest_wait: self.longest_wait,
            duration,
            loss_every: self.loss_every,
            delay: self.delay.unwrap_or(usual.delay),
            view: self.view.map_or(usual.view, |view| view.0),
            churn: Churn {
                crash_every: self.crash_every,
                restart_after: self.restart_after.unwrap_or(usual.churn.restart_after),
                join_every: self.join_every,
                leave_every: self.leave_every,
            },
            clock_skew: self.clock_skew.unwrap_or(usual.clock_skew),
            verdicts: self.overload.unwrap_or(usual.verdicts),
            surge: self.surge.map(|members| Surge { at: duration / 2, members }),
        }
    }

    fn rule_names(&self) -> Result<Vec<RuleName>, UsageError> {
        let asked = self.rules.clone().unwrap_or_else(|| vec![RuleName::All]);
        let mut names = Vec::new();
        for name in asked {
            match name {
                RuleName::All => names.extend([
                    RuleName::Uncoordinated,
                    RuleName::Early,
                    RuleName::Classic,
                    RuleName::Guarded,
                ]),
                one => names.push(one),
            }
        }
        if names.is_empty() {
            return Err(UsageError("rules: at least one set of rules is needed".into()));
        }
        let is_plain = self.without.as_ref().is_none_or(Vec::is_empty);
        if !is_plain && !names.contains(&RuleName::Guarded) {
            return Err(UsageError(
                "without: only the guarded rules have parts; add `--rules guarded`".into(),
            ));
        }
        Ok(names)
    }

    fn rule_set(&self, name: RuleName, base: &Scenario) -> Result<RuleSet, UsageError> {
        let (label, coordination) = match name {
            RuleName::Uncoordinated => ("uncoordinated".to_owned(), Coordination::Uncoordinated),
            RuleName::Early => ("early".to_owned(), Coordination::Agents(Rules::early())),
            RuleName::Classic => ("classic".to_owned(), Coordination::Agents(Rules::classic())),
            RuleName::Guarded | RuleName::All => {
                let (label, rules) = self.guarded(base.members)?;
                (label, Coordination::Agents(rules))
            }
        };
        Ok(RuleSet { name: label, scenario: Scenario { coordination, ..base.clone() } })
    }

    fn guarded(&self, members: usize) -> Result<(String, Rules), UsageError> {
        let mut rules = Rules::guarded();
        let mut label = "guarded".to_owned();
        let usual = Scouting::default();
        // Asking eight is the habit; in a circle of three it is everybody.
        let scouts = self.scouts.unwrap_or_else(|| usual.scouts.min(members.saturating_sub(1).max(1)));
        if scouts == 0 {
            return Err(UsageError(
                "scouts: must be at least 1; `--without scouting` switches it off".into(),
            ));
        }
        rules.scouting = Some(Scouting { scouts, ..usual });
        for (index, part) in self.without.iter().flatten().enumerate() {
            label.push_str(if index == 0 { " without " } else { ", " });
            label.push_str(match part {
                Part::Scouting => {
                    // Without scouts the holder knows of no member that waits.
                    rules.scouting = None;
                    rules.work_conserving = false;
                    rules.announcing = None;
                    "scouting"
                }
                Part::Sightings => {
                    rules.sightings = None;
                    "sightings"
                }
                Part::Custody => {
                    rules.custody = None;
                    "custody"
                }
                Part::Stretch => {
                    rules.regeneration = Regeneration::Poisson;
                    "stretch"
                }
                Part::Meeting => {
                    rules.meeting = false;
                    "meeting"
                }
            });
        }
        Ok((label, rules))
    }
}

impl RuleSet {
    fn check(&self) -> anyhow::Result<()> {
        match &self.scenario.coordination {
            Coordination::Agents(rules) => self.scenario.config(rules)?,
            Coordination::Uncoordinated => self.scenario.config(&Rules::classic())?,
        };
        Ok(())
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
