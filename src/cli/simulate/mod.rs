//! `stroll simulate`: circles on virtual time, as a table, as JSON, as figures.

mod figures;
mod options;
mod runs;
mod seeds;
mod table;
mod tickets;
mod whole;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use stroll::sim::{Buffer, Outcome, Report};

pub(super) use options::Options;
use options::Plan;
use runs::Job;

use super::exit::UsageError;
use super::progress::{Progress, Style};
use super::settings::read_toml;

/// Simulate a circle: who pulls when, under which rules, with which losses.
///
/// The simulator runs the very same agents as a real member, on virtual time, and is repeated bit for bit by its seed. It
/// says for how much of the time nobody, one, two or more members pull, how long members wait, and how soon a lost
/// token is replaced.
///
/// Values come from the flags, then the environment, then --scenario, then the [simulate] section of the settings, then
/// the built-in case study of the 2009 paper: 300 members, slots of 4 s.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stroll simulate --loss-every 1e4 --runs 10        all rules, side by side
  stroll simulate --rules guarded --without custody what custody is good for
  stroll simulate --members 360 --view 32           too many, who know 32 others
  stroll simulate --scenario config/scenarios/comparison.toml --figures figures
  stroll simulate --rules guarded --stream-rate 650k the source's buffer

Whole nodes, on a bad network, and with faults that are drawn from the seeds:
  stroll simulate --whole --loss 0.2 --crash-every 1m --runs 20
  stroll simulate --whole --swarm --runs 100

Tickets; as whole nodes; a joining storm; how likely a ticket can be had:
  stroll simulate --mode tickets --swarm --runs 100
  stroll simulate --whole --mode tickets --swarm --runs 100
  stroll simulate --mode tickets --members 1000 --tickets 1000 --duration 0
  stroll simulate --mode tickets --tickets 20 --runs 5 --figures figures")]
pub(super) struct Args {
    /// Take the values from this TOML file; its keys are the flags, with _ for -
    #[arg(long, value_name = "FILE", env = "STROLL_SCENARIO")]
    scenario: Option<PathBuf>,

    /// Print one JSON object per rule set, each on a line; times in seconds, shares in percent
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// Draw the papers' figures as SVG files into this folder
    #[arg(long, value_name = "DIR", env = "STROLL_FIGURES")]
    figures: Option<PathBuf>,

    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t, env = "STROLL_PROGRESS")]
    progress: Style,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    whole: whole::WholeArgs,

    #[command(flatten)]
    tickets: tickets::TicketArgs,
}

/// Resolves the options, runs everything, prints it.
pub(super) fn run(args: &Args, settings: Options) -> anyhow::Result<()> {
    let from_file = match &args.scenario {
        Some(path) => read_toml(path)?,
        None => Options::default(),
    };
    let options = args.options.clone().or(from_file).or(settings);
    if args.whole.whole {
        return whole::run(args, &options);
    }
    if args.tickets.are_simulated() {
        return tickets::run(args, &options);
    }
    if args.whole.swarm {
        return Err(UsageError("swarm: faults are drawn with --whole or with --mode tickets".into()).into());
    }
    let plan = options.resolve()?;
    let outcomes = simulate(&plan, args.progress)?;
    let reports: Vec<Report> = plan
        .rule_sets
        .iter()
        .zip(&outcomes)
        .map(|(rules, (outcome, elapsed_s))| {
            let report = Report::new(&rules.name, &rules.scenario, outcome, *elapsed_s);
            Report { buffer: plan.stream_rate.map(|rate| Buffer::new(rate, outcome)), ..report }
        })
        .collect();
    print(&plan, &reports, args.json)?;
    if let Some(folder) = &args.figures {
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|(outcome, _)| outcome).collect();
        figures::draw(folder, &plan, &outcomes, args.progress)?;
    }
    Ok(())
}

/// Every rule set with every seed, as many at once as there are cores.
fn simulate(plan: &Plan, progress: Style) -> anyhow::Result<Vec<(Outcome, f64)>> {
    let jobs: Vec<Job> = plan.rule_sets.iter().flat_map(|rules| runs::jobs(&rules.scenario, plan)).collect();
    let progress = Progress::new(progress, runs::total(&jobs), "simulating");
    runs::run_and_merge(&jobs, plan.runs, &progress)
}

fn print(plan: &Plan, reports: &[Report], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        for report in reports {
            serde_json::to_writer(&mut out, report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        write!(out, "{}", table::render(plan, reports))?;
    }
    out.flush().context("cannot write the result")
}
