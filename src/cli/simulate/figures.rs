//! The papers' figures: which runs they need, and the files they go to.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rayon::prelude::*;
use stroll::proto::agent::Event;
use stroll::proto::tickets::Config;
use stroll::sim::figures::{self, Points, SharesByMembers, TokensOverTime};
use stroll::sim::tickets::Availability;
use stroll::sim::{Circle, Coordination, Moment, Outcome, Scenario, Spread, Trace, View};

use super::options::{Plan, RuleSet};
use super::runs::{self, Job};
use crate::cli::exit::NotFound;
use crate::cli::progress::{Progress, Style};

/// Memberships in percent of the capacity: the range of the 2009 paper.
const MEMBERSHIPS: [u32; 6] = [70, 80, 90, 100, 110, 120];

/// How much of a run the number of tokens is shown for: more would be a black bar.
const TOKENS_SHOWN_PERIODS: u32 = 20;

/// Where a scenario has no losses, stabilisation is shown with one every so many nominal periods.
const LOSS_EVERY_PERIODS: u32 = 8;

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

    let nominal = plan.rule_sets.first().map_or(0.0, |rules| nominal_period(&rules.scenario).as_secs_f64());
    let intervals: Vec<_> = names().zip(outcomes.iter().map(Outcome::access_intervals)).collect();
    write("access-intervals.svg", figures::access_intervals(&intervals, nominal)?)?;

    write("memberships.svg", figures::memberships(&memberships(plan, progress)?)?)?;
    write("tokens-over-time.svg", figures::tokens_over_time(&tokens_over_time(plan)?)?)?;

    let losses = outcomes_with_losses(plan, outcomes, progress)?;
    let recovery: Vec<(String, &Spread)> = names().zip(losses.iter().map(Outcome::recovery)).collect();
    write("stabilisation.svg", figures::stabilisation(&recovery)?)
}

fn nominal_period(scenario: &Scenario) -> Duration {
    scenario.slot.saturating_mul(scenario.capacity)
}

/// The share of time by the number of members pulling, for each membership and each rule set.
fn memberships(plan: &Plan, progress: Style) -> anyhow::Result<Vec<(String, SharesByMembers)>> {
    let sizes = MEMBERSHIPS.map(|percent| (percent, (plan_capacity(plan) * percent as usize / 100).max(1)));
    let jobs: Vec<Job> = plan
        .rule_sets
        .iter()
        .flat_map(|rules| sizes.map(|(_, members)| with_members(&rules.scenario, members)))
        .flat_map(|scenario| runs::jobs(&scenario, plan))
        .collect();
    let progress = Progress::new(progress, runs::total(&jobs), "memberships of 70 % to 120 %");
    let outcomes = runs::run_and_merge(&jobs, plan.runs, &progress)?;
    let curves = outcomes.chunks(sizes.len()).map(|of_rules| {
        let shares = of_rules.iter().map(|(outcome, _)| outcome.pulling_percent());
        sizes.iter().map(|(percent, _)| f64::from(*percent)).zip(shares).collect()
    });
    Ok(plan.rule_sets.iter().map(|rules| rules.name.clone()).zip(curves).collect())
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

fn plan_capacity(plan: &Plan) -> usize {
    plan.rule_sets.first().map_or(0, |rules| rules.scenario.capacity as usize)
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
    let progress = Progress::new(progress, runs::total(&jobs), "stabilisation after losses");
    let outcomes = runs::run_and_merge(&jobs, plan.runs, &progress)?;
    Ok(outcomes.into_iter().map(|(outcome, _)| outcome).collect())
}
