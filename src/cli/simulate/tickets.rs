//! `stroll simulate --mode tickets`: the ring of tickets over a faulty network, watched by checkers.

use std::io::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;
use stroll::base::units::{format_duration, parse_duration};
use stroll::proto::tickets::Config;
use stroll::sim::tickets::{Faults, Outcome, Ring, Scenario};
use stroll::sim::whole::RingSize;

use super::options::Options;
use super::whole::WholeArgs;
use super::{Args, figures, seeds};
use crate::cli::exit::UsageError;

/// As real members go by it.
const DRIFT_PPM: u32 = 1000;

/// How members take turns, and what only tickets have.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Tickets")]
pub(super) struct TicketArgs {
    /// How members take turns: by one token that wanders, or by n tickets
    #[arg(long, value_enum, default_value_t, env = "STROLL_MODE")]
    mode: Mode,

    /// n: how many may pull at once
    #[arg(long, value_name = "N", default_value_t = 8, env = "STROLL_TICKETS")]
    tickets: u16,

    /// k: how many neighbours in the ring may fail at once
    #[arg(long, value_name = "K", default_value_t = 2, env = "STROLL_FAULTS")]
    faults: u8,

    /// ρ: how wrong the members take their clocks to be at most, in parts of a million
    #[arg(long, value_name = "PPM", default_value_t = DRIFT_PPM, env = "STROLL_DRIFT_PPM")]
    drift_ppm: u32,

    /// How wrong clocks really are; more than --drift-ppm breaks what the members rely on [default: --drift-ppm]
    #[arg(long, value_name = "PPM", env = "STROLL_REAL_DRIFT_PPM")]
    real_drift_ppm: Option<u32>,

    /// Mean time between two members that run out of work for 10 s
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_IDLE_EVERY")]
    idle_every: Option<Duration>,

    /// Print the last N things that happened before a broken promise
    #[arg(long, value_name = "N", default_value_t = 0, env = "STROLL_TRACE")]
    trace: usize,
}

/// How members take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One at a time, with rare and short exceptions
    #[default]
    Token,
    /// Never more than n
    Tickets,
}

impl TicketArgs {
    pub(super) fn are_simulated(&self) -> bool {
        self.mode == Mode::Tickets
    }

    /// The ring of whole nodes, who have their own idea of how wrong clocks are.
    pub(super) fn ring_of_nodes(&self) -> Result<Option<RingSize>, UsageError> {
        let checks = [
            (self.tickets > 0, "tickets: must be at least 1"),
            (self.faults > 0, "faults: must be at least 1"),
            (
                self.drift_ppm == DRIFT_PPM,
                "drift-ppm: whole nodes go by 1000; --real-drift-ppm can be chosen",
            ),
            (self.idle_every.is_none(), "idle-every: whole nodes always have work"),
            (self.trace == 0, "trace: there is none of whole nodes"),
        ];
        if let Some((_, reason)) = checks.iter().find(|(is_right, _)| !is_right) {
            return Err(UsageError((*reason).into()));
        }
        let size = RingSize { tickets: self.tickets, faults: self.faults };
        Ok(self.are_simulated().then_some(size))
    }

    /// How wrong clocks really are.
    pub(super) fn real_drift_ppm(&self) -> u32 {
        self.real_drift_ppm.unwrap_or(self.drift_ppm)
    }
}

/// Runs all seeds; prints what came of them, and for every broken promise the command that repeats it.
pub(super) fn run(args: &Args, options: &Options) -> anyhow::Result<()> {
    let scenario = scenario(&args.tickets, &args.whole, options)?;
    let kept = args.tickets.trace;
    let simulate = |seed| {
        let mut ring = Ring::new(&scenario, seed);
        ring.keep_trace(kept);
        while ring.step() {}
        let trace: Vec<String> = ring.trace().map(ToString::to_string).collect();
        (ring.finish(), trace)
    };
    let (outcomes, elapsed) = seeds::run(options, args.progress, "simulating tickets", simulate)?;
    let mut sum = Outcome::default();
    let mut broken = 0;
    for (seed, (outcome, trace)) in outcomes {
        if !outcome.violations.is_empty() {
            for line in &trace {
                eprintln!("{line}");
            }
        }
        outcome.violations.iter().for_each(|violation| seeds::complain(seed, violation));
        broken += outcome.violations.len();
        sum.add(outcome);
    }
    print(&scenario, &sum, elapsed, args.json)?;
    if let Some(folder) = &args.figures {
        let (runs, seed) = (options.runs.unwrap_or(1), options.seed.unwrap_or(1));
        figures::draw_availability(folder, &scenario.config, runs, seed, args.progress)?;
    }
    anyhow::ensure!(broken == 0, "{broken} broken promises");
    Ok(())
}

fn scenario(args: &TicketArgs, network: &WholeArgs, options: &Options) -> Result<Scenario, UsageError> {
    let usual = Scenario::default();
    let members = options.members.unwrap_or(usual.members);
    let turn = options.slot.unwrap_or(usual.config.turn);
    let checks = [
        ((1..=100_000).contains(&members), "members: between 1 and 100000"),
        (args.tickets > 0, "tickets: must be at least 1"),
        (args.faults > 0, "faults: must be at least 1"),
        (!turn.is_zero(), "slot: must be longer than zero"),
        (args.drift_ppm < 500_000, "drift-ppm: must be below 500000"),
        (args.real_drift_ppm.is_none_or(|ppm| ppm < 1_000_000), "real-drift-ppm: must be below 1000000"),
    ];
    if let Some((_, reason)) = checks.iter().find(|(is_right, _)| !is_right) {
        return Err(UsageError((*reason).into()));
    }
    let faults = Faults {
        loss: network.loss,
        duplication: network.duplication,
        replay: network.replay,
        delay: options.delay.unwrap_or(Faults::default().delay),
        jitter: network.jitter,
        split_every: network.split_every,
        crash_every: options.crash_every,
        restart_after: options.restart_after.unwrap_or(Faults::default().restart_after),
        pause_every: network.pause_every,
        leave_every: options.leave_every,
        idle_every: args.idle_every,
        drift_ppm: args.real_drift_ppm(),
        ..Faults::default()
    };
    Ok(Scenario {
        members,
        config: Config { drift_ppm: args.drift_ppm, ..Config::new(args.tickets, args.faults, turn) },
        duration: options.duration.unwrap_or(usual.duration),
        settle: network.settle,
        faults: (!network.swarm).then_some(faults),
    })
}

fn print(scenario: &Scenario, sum: &Outcome, elapsed: Duration, is_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let elapsed_s = elapsed.as_secs_f64();
    let (config, back) = (&scenario.config, &sum.back_after);
    if is_json {
        let object = json!({
            "mode": "tickets", "members": scenario.members, "tickets": config.tickets, "faults": config.faults,
            "runs": sum.runs, "violations": sum.violations.len(), "rounds": sum.rounds, "joins": sum.joins,
            "given_back": sum.given_back, "lost": sum.lost, "excluded": sum.excluded, "unsure": sum.unsure,
            "slots": sum.slots, "crashes": sum.crashes, "refounded": sum.refounded,
            "messages": sum.messages, "busiest": sum.busiest, "asks_at_rest": sum.asks_at_rest,
            "reminders": sum.reminders, "most_reminded": sum.most_reminded,
            "longest_wait_s": sum.longest_wait.as_secs_f64(), "back_after_p50_s": back.quantile_s(0.5),
            "back_after_p99_s": back.quantile_s(0.99), "back_after_longest_s": back.max_s(), "elapsed_s": elapsed_s,
        });
        writeln!(out, "{object}")?;
        return Ok(out.flush()?);
    }
    writeln!(
        out,
        "{} members, {} tickets, {} faults, slot {}; {} runs of {} and {} in peace",
        scenario.members,
        config.tickets,
        config.faults,
        format_duration(config.turn),
        sum.runs,
        format_duration(scenario.duration),
        format_duration(scenario.settle),
    )?;
    let line = |name: &str, value: String| format!("  {name:38} {value:>12}");
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let back = |share| seconds(sum.back_after.quantile_s(share));
    let duplicates = sum.violations.iter().filter(|violation| violation.is_duplicate()).count();
    let lines = [
        line("rounds of seats", format!("{:.0}", sum.rounds)),
        line("broken promises", sum.violations.len().to_string()),
        line("of these tickets in two hands", duplicates.to_string()),
        line("tickets taken", sum.joins.to_string()),
        line("tickets given back", sum.given_back.to_string()),
        line("tickets lost", sum.lost.to_string()),
        line("seats excluded", sum.excluded.to_string()),
        line("times unsure", sum.unsure.to_string()),
        line("slots", sum.slots.to_string()),
        line("crashes", sum.crashes.to_string()),
        line("rings founded anew", sum.refounded.to_string()),
        line("messages", sum.messages.to_string()),
        line("most messages to a member in a round", sum.busiest.to_string()),
        line("reminders per seat and round", format!("{:.2}", sum.reminders as f64 / sum.rounds)),
        line("most that reminded one in a round", sum.most_reminded.to_string()),
        line("most asks per round, at rest", format!("{:.1}", sum.asks_at_rest)),
        line("longest wait for a slot in peace, s", format!("{:.1}", sum.longest_wait.as_secs_f64())),
        line("crashed ones back, p50/p99/longest, s", [0.5, 0.99, 1.0].map(back).join(" / ")),
        line("real time, s", format!("{elapsed_s:.2}")),
    ];
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
