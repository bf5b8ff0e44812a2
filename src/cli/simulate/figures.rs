//! The papers' figures: which runs they need, and the files they go to.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rayon::prelude::*;
use stroll::proto::agent::Event;
use stroll::proto::tickets::Config;
use stroll::sim::figures::{self, NamedSpreads, Points, SharesByMembers, TokensOverTime};
use stroll::sim::tickets::Availability;
use stroll::sim::{Circle, Coordination, Moment, Outcome, Scenario, Spread, Trace, View};

use super::options::{Plan, RuleSet};
use super::runs::{self, Job};
use crate::cli::exit::NotFound;
use crate::cli::progress::{Progress, Style};

/// Memberships in percent of the capacity: the range of the 2009 paper, after the half full circle of the earlier one.
const MEMBERSHIPS: [u32; 7] = [HALF, 70, 80, 90, FULL, 110, 120];
const FULL: u32 = 100;
const HALF: u32 = 50;

/// How much of a run the number of tokens is shown for: more would be a black bar.
const TOKENS_SHOWN_PERIODS: u32 = 20;

/// Where a scenario has no losses, regeneration is shown with one every so many nominal periods.
const LOSS_EVERY_PERIODS: u32 = 8;

/// Stabilisation is shown after one loss per run, so many nominal periods after its start, and observed for almost as long;
/// and in at least so many runs.
const SETTLED_PERIODS: u32 = 60;
const STABILISATION_RUNS: u32 = 50;

/// Shares of tickets that are held, for the figure of tickets.
const HELD: [f64; 3] = [0.5, 0.75, 0.9];

/// Probabilities with which holders fail, for the same.
const FAILING: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5];

/// Rounds in which holders fail, for the same: few, as it is about a ring that was well before. And how often that is tried.
const ROUNDS: u32 = 30;
const TRIALS: u64 = 20;

/// How likely a ticket can be had while holders fail, so many times [`TRIALS`] for each point.
pub(super) fn draw_availability(
    folder: &Path,
    config: &Config,
    runs: u32,
    seed: u64,
    progress: Style,
) -> anyhow::Result<()> {
    make(folder)?;
    let points: Vec<(f64, f64)> =
        HELD.iter().flat_map(|held| FAILING.map(|failing| (*held, failing))).collect();
    let progress = Progress::new(progress, points.len() as u64, "tickets while holders fail");
    let shares: Vec<(f64, f64)> = points
        .into_par_iter()
        .map(|(held, failing)| {
            let mut sum = Availability::default();
            for run in 0..u64::from(runs) * TRIALS {
                sum.add(Availability::measure(config, held, failing, ROUNDS, seed.wrapping_add(run)));
            }
            progress.advance(1);
            (failing, sum.percent())
        })
        .collect();
    drop(progress);
    let lines: Vec<(String, Points, f64)> = HELD
        .iter()
        .zip(shares.chunks(FAILING.len()))
        .map(|(held, points)| {
            let name = format!("{:.0} % held", 100.0 * held);
            (name, points.to_vec(), Availability::predicted_until(*held))
        })
        .collect();
    write(folder, "availability.svg", figures::availability(&lines)?)
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NotFound::Folder(folder.display().to_string()).into(),
        _ => anyhow::Error::new(error).context(folder.display().to_string()),
    })
}

fn write(folder: &Path, name: &str, svg: String) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, svg).with_context(|| path.display().to_string())?;
    eprintln!("{}", path.display());
    Ok(())
}

/// Draws all figures of the plan into the folder, which is made if need be.
pub(super) fn draw(folder: &Path, plan: &Plan, outcomes: &[Outcome], progress: Style) -> anyhow::Result<()> {
    make(folder)?;
    let write = |name: &str, svg: String| write(folder, name, svg);
    let names = || plan.rule_sets.iter().map(|rules| rules.name.clone());

    let pulling: Vec<_> = names().zip(outcomes.iter().map(Outcome::pulling_percent)).collect();
    write("concurrent-operations.svg", figures::concurrent_operations(&pulling)?)?;

    let nominal_s = plan.nominal_period_s();
    let intervals: Vec<_> = names().zip(outcomes.iter().map(Outcome::access_intervals)).collect();
    write("access-intervals.svg", figures::access_intervals(&intervals, nominal_s)?)?;

    let by_membership = outcomes_by_membership(plan, progress)?;
    write("memberships.svg", figures::memberships(&shares_by_membership(&by_membership))?)?;
    let intervals = intervals_by_membership(&by_membership);
    write("intervals-by-membership.svg", figures::access_intervals_by_membership(&intervals, nominal_s)?)?;
    let full_and_half =
        [FULL, HALF].map(|percent| (heading(plan, percent), intervals_at(&by_membership, percent)));
    write(
        "intervals-full-and-half.svg",
        figures::access_intervals_full_and_half(&full_and_half, nominal_s)?,
    )?;
    write("tokens-over-time.svg", figures::tokens_over_time(&tokens_over_time(plan)?)?)?;

    let losses = outcomes_with_losses(plan, outcomes, progress)?;
    let recovery: Vec<(String, &Spread)> = names().zip(losses.iter().map(Outcome::recovery)).collect();
    write("regeneration.svg", figures::regeneration(&recovery)?)?;

    let [full, half] = [stabilisation(plan, FULL, progress)?, stabilisation(plan, HALF, progress)?];
    let panels = [(FULL, &full), (HALF, &half)].map(|(percent, outcomes)| {
        (heading(plan, percent), names().zip(outcomes.iter().map(Outcome::stabilisation)).collect())
    });
    write("stabilisation.svg", figures::stabilisation(&panels)?)
}

fn nominal_period(scenario: &Scenario) -> Duration {
    scenario.slot.saturating_mul(scenario.capacity)
}

impl Plan {
    fn nominal_period_s(&self) -> f64 {
        self.rule_sets.first().map_or(0.0, |rules| nominal_period(&rules.scenario).as_secs_f64())
    }

    /// So many members are this part of the capacity.
    fn members_at(&self, percent: u32) -> usize {
        let capacity = self.rule_sets.first().map_or(0, |rules| rules.scenario.capacity as usize);
        (capacity * percent as usize / 100).max(1)
    }
}

/// The name of a panel about one membership.
fn heading(plan: &Plan, percent: u32) -> String {
    let members = if percent == FULL { "N" } else { "N/2" };
    format!("{members} = {} members", plan.members_at(percent))
}

/// What was measured for each rule set at each membership.
type ByMembership = Vec<(String, Vec<(u32, Outcome)>)>;

fn outcomes_by_membership(plan: &Plan, progress: Style) -> anyhow::Result<ByMembership> {
    let scenarios = plan
        .rule_sets
        .iter()
        .flat_map(|rules| MEMBERSHIPS.map(|percent| with_members(&rules.scenario, plan.members_at(percent))));
    let jobs: Vec<Job> = scenarios.flat_map(|scenario| runs::jobs(&scenario, plan)).collect();
    let progress = Progress::new(progress, runs::total(&jobs), "memberships of 50 % to 120 %");
    let mut outcomes =
        runs::run_and_merge(&jobs, plan.runs, &progress)?.into_iter().map(|(outcome, _)| outcome);
    let mut of_rules = |rules: &RuleSet| {
        let outcomes = MEMBERSHIPS.into_iter().zip(outcomes.by_ref().take(MEMBERSHIPS.len())).collect();
        (rules.name.clone(), outcomes)
    };
    Ok(plan.rule_sets.iter().map(&mut of_rules).collect())
}

/// The memberships of the 2009 paper.
fn papers_range(outcomes: &[(u32, Outcome)]) -> impl Iterator<Item = &(u32, Outcome)> {
    outcomes.iter().filter(|(percent, _)| *percent != HALF)
}

/// The share of time by the number of members pulling, for each membership and each rule set.
fn shares_by_membership(outcomes: &ByMembership) -> Vec<(String, SharesByMembers)> {
    let shares = |(percent, outcome): &(u32, Outcome)| (f64::from(*percent), outcome.pulling_percent());
    outcomes.iter().map(|(name, sizes)| (name.clone(), papers_range(sizes).map(shares).collect())).collect()
}

/// The access intervals for each rule set and each membership.
fn intervals_by_membership(outcomes: &ByMembership) -> Vec<(String, NamedSpreads<'_>)> {
    let named = |outcomes| {
        let outcomes = papers_range(outcomes);
        outcomes.map(|(percent, outcome)| (format!("{percent} %"), outcome.access_intervals())).collect()
    };
    outcomes.iter().map(|(name, sizes)| (name.clone(), named(sizes))).collect()
}

/// The access intervals of each rule set at one membership.
fn intervals_at(outcomes: &ByMembership, percent: u32) -> NamedSpreads<'_> {
    let at = |sizes: &'_ [(u32, Outcome)]| sizes.iter().position(|(size, _)| *size == percent);
    outcomes
        .iter()
        .filter_map(|(name, sizes)| Some((name.clone(), sizes.get(at(sizes)?)?.1.access_intervals())))
        .collect()
}

/// One loss in each of many runs, at one membership: what was measured for each rule set.
fn stabilisation(plan: &Plan, percent: u32, progress: Style) -> anyhow::Result<Vec<Outcome>> {
    let runs = plan.runs.max(STABILISATION_RUNS);
    let plan = Plan { runs, ..plan.clone() };
    let jobs: Vec<Job> = plan
        .rule_sets
        .iter()
        .flat_map(|rules| {
            let settled = nominal_period(&rules.scenario).saturating_mul(SETTLED_PERIODS);
            // One period short of a second loss.
            let duration = settled.saturating_mul(2).saturating_sub(nominal_period(&rules.scenario));
            let scenario = with_members(&rules.scenario, plan.members_at(percent));
            runs::jobs(&Scenario { loss_every: Some(settled), duration, ..scenario }, &plan)
        })
        .collect();
    let progress = Progress::new(progress, runs::total(&jobs), "stabilisation after a loss");
    let outcomes = runs::run_and_merge(&jobs, runs, &progress)?;
    Ok(outcomes.into_iter().map(|(outcome, _)| outcome).collect())
}

/// The same circle with more or fewer members; nobody can ask or know more members than there are.
fn with_members(scenario: &Scenario, members: usize) -> Scenario {
    let mut scenario = Scenario { members, ..scenario.clone() };
    if let Coordination::Agents(rules) = &mut scenario.coordination
        && let Some(scouting) = &mut rules.scouting
    {
        scouting.scouts = scouting.scouts.min(members);
    }
    if let View::Random(size) = scenario.view
        && size >= members
    {
        scenario.view = View::Full;
    }
    scenario
}

/// The number of tokens alive, as it changes during the first nominal periods of one run.
fn tokens_over_time(plan: &Plan) -> anyhow::Result<Vec<(String, TokensOverTime)>> {
    let mut curves = Vec::new();
    for RuleSet { name, scenario } in &plan.rule_sets {
        let Coordination::Agents(rules) = &scenario.coordination else { continue };
        let shown = nominal_period(scenario).saturating_mul(TOKENS_SHOWN_PERIODS);
        let scenario = Scenario { duration: scenario.duration.min(shown), ..scenario.clone() };
        let mut circle = Circle::new(&scenario, rules, plan.seed)?;
        circle.keep_trace();
        while circle.step() {}
        curves.push((name.clone(), token_counts(circle.trace(), scenario.duration.as_secs_f64())));
    }
    Ok(curves)
}

fn token_counts(trace: &[Moment], end_s: f64) -> TokensOverTime {
    // The founder's token was there before the trace began.
    let mut count = 1_usize;
    let mut points = vec![(0.0, count)];
    for moment in trace {
        count = match moment.what {
            Trace::Agent(Event::Generated { .. }) => count + 1,
            Trace::Agent(Event::Discarded { .. }) | Trace::Lost(_) => count.saturating_sub(1),
            _ => continue,
        };
        points.push((moment.at.as_secs_f64(), count));
    }
    points.push((end_s, count));
    points
}

/// The plan's own outcomes if tokens get lost in them, otherwise those of the same plan with losses.
fn outcomes_with_losses(plan: &Plan, outcomes: &[Outcome], progress: Style) -> anyhow::Result<Vec<Outcome>> {
    if outcomes.iter().any(|outcome| outcome.lost() > 0) {
        return Ok(outcomes.to_vec());
    }
    let jobs: Vec<Job> = plan
        .rule_sets
        .iter()
        .flat_map(|rules| {
            let loss_every = nominal_period(&rules.scenario).saturating_mul(LOSS_EVERY_PERIODS);
            runs::jobs(&Scenario { loss_every: Some(loss_every), ..rules.scenario.clone() }, plan)
        })
        .collect();
    let progress = Progress::new(progress, runs::total(&jobs), "regeneration after losses");
    let outcomes = runs::run_and_merge(&jobs, plan.runs, &progress)?;
    Ok(outcomes.into_iter().map(|(outcome, _)| outcome).collect())
}
