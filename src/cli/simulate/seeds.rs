//! Runs that checkers look on: one per seed, as many at once as there are cores, and how each is repeated.

use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use rayon::prelude::*;

use super::options::Options;
use crate::cli::Cli;
use crate::cli::exit::UsageError;
use crate::cli::homes::quoted;
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

/// The same command for one seed: what it was told by the environment, then its words, both as a shell takes them.
fn replay_command(seed: u64) -> String {
    let variables = read_variables().filter_map(|name| {
        let value = std::env::var_os(&name)?;
        Some(format!("{name}={} ", quoted(&value.to_string_lossy())))
    });
    let mut words: Vec<String> = Vec::new();
    let mut skip_value = false;
    for word in std::env::args_os().skip(1) {
        let word = word.to_string_lossy();
        if std::mem::take(&mut skip_value) {
            continue;
        }
        match word.as_ref() {
            "--seed" | "--runs" => skip_value = true,
            _ if word.starts_with("--seed=") || word.starts_with("--runs=") => {}
            _ => words.push(quoted(&word)),
        }
    }
    format!("{}stroll {} --runs 1 --seed {seed}", variables.collect::<String>(), words.join(" "))
}

/// The names of all variables that `simulate` reads, but those whose place the replay's own flags take.
fn read_variables() -> impl Iterator<Item = String> {
    let everywhere = Cli::command();
    let here = everywhere.find_subcommand("simulate").cloned().unwrap_or_default();
    let names = [everywhere, here].into_iter().flat_map(|command| {
        let names = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str().map(str::to_owned));
        names.collect::<Vec<_>>()
    });
    names.filter(|name| !matches!(name.as_str(), "STROLL_SEED" | "STROLL_RUNS"))
}

#[expect(clippy::disallowed_methods, reason = "how long a simulation takes is real time")]
fn now() -> Instant {
    Instant::now()
}
