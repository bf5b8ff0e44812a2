//! Many runs at once: one job per rule set and seed, spread over the cores.

use std::time::Instant;

use rayon::prelude::*;
use stroll::base::Time;
use stroll::sim::{Outcome, Scenario, Simulation};

use super::options::Plan;
use crate::cli::progress::Progress;

/// One run to be done.
pub(super) struct Job {
    scenario: Scenario,
    seed: u64,
}

/// How many events are simulated between two reports of progress.
const BATCH: u32 = 50_000;

/// One job per run of the plan, each with its own seed.
pub(super) fn jobs(scenario: &Scenario, plan: &Plan) -> Vec<Job> {
    (0..u64::from(plan.runs))
        .map(|run| Job { scenario: scenario.clone(), seed: plan.seed.wrapping_add(run) })
        .collect()
}

/// The virtual time of all jobs together, in milliseconds.
pub(super) fn total(jobs: &[Job]) -> u64 {
    jobs.iter().map(|job| millis(Time::ZERO + job.scenario.duration)).sum()
}

/// Runs the jobs and sums up each `group` that follow each other; also how long each group took, on one core. The order
/// of summing is that of the jobs, whichever is done first.
pub(super) fn run_and_merge(
    jobs: &[Job],
    group: u32,
    progress: &Progress,
) -> anyhow::Result<Vec<(Outcome, f64)>> {
    let done: Vec<(Outcome, f64)> = jobs.par_iter().map(|job| job.run(progress)).collect::<Result<_, _>>()?;
    let groups = done.chunks(group as usize).map(|outcomes| {
        let (mut sum, mut elapsed_s) = (Outcome::default(), 0.0);
        for (outcome, seconds) in outcomes {
            sum.add(outcome);
            elapsed_s += seconds;
        }
        (sum, elapsed_s)
    });
    Ok(groups.collect())
}

impl Job {
    fn run(&self, progress: &Progress) -> anyhow::Result<(Outcome, f64)> {
        let started = now();
        let mut simulation = Simulation::new(&self.scenario, self.seed)?;
        let mut reported = 0;
        loop {
            let goes_on = (0..BATCH).all(|_| simulation.step());
            let done = millis(simulation.now());
            progress.advance(done - reported);
            reported = done;
            if !goes_on {
                return Ok((simulation.finish(), started.elapsed().as_secs_f64()));
            }
        }
    }
}

fn millis(time: Time) -> u64 {
    u64::try_from(time.as_nanos() / 1_000_000).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "how long a simulation takes is real time")]
fn now() -> Instant {
    Instant::now()
}
