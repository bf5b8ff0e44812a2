//! Runs that checkers look on: one per seed, as many at once as there are cores, and how each is repeated.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::options::Options;
use crate::cli::exit::UsageError;
use crate::cli::progress::{Progress, Style};

/// What came of each seed, in their order, and how long all of it took.
pub(super) fn run<O: Send>(
    options: &Options,
    style: Style,
    what: &'static str,
    one: impl Fn(u64) -> O + Sync,
) -> Result<(Vec<(u64, O)>, Duration), UsageError> {
    let (runs, seed) = (options.runs.unwrap_or(1), options.seed.unwrap_or(1));
    if runs == 0 {
        return Err(UsageError("runs: must be at least 1".into()));
    }
    let started = now();
    let progress = Progress::new(style, runs.into(), what);
    let outcomes = (0..u64::from(runs))
        .into_par_iter()
        .map(|run| {
            let seed = seed.wrapping_add(run);
            let outcome = one(seed);
            progress.advance(1);
            (seed, outcome)
        })
        .collect();
    Ok((outcomes, started.elapsed()))
}

/// Tells of a broken promise, and the command that repeats it.
pub(super) fn complain(seed: u64, violation: &impl std::fmt::Display) {
    eprintln!("seed {seed}: {violation}\n  repeat it with: {}", replay_command(seed));
}

/// The same command line for one seed.
fn replay_command(seed: u64) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut skip_value = false;
    for word in std::env::args().skip(1) {
        if std::mem::take(&mut skip_value) {
            continue;
        }
        match word.as_str() {
            "--seed" | "--runs" => skip_value = true,
            _ if word.starts_with("--seed=") || word.starts_with("--runs=") => {}
            _ => words.push(word),
        }
    }
    format!("stroll {} --runs 1 --seed {seed}", words.join(" "))
}

#[expect(clippy::disallowed_methods, reason = "how long a simulation takes is real time")]
fn now() -> Instant {
    Instant::now()
}
