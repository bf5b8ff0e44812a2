//! `stroll simulate --whole`: complete nodes over a faulty network, watched by checkers.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use stroll::base::units::{format_duration, parse_duration};
use stroll::sim::Quantiles;
use stroll::sim::whole::{Faults, Outcome, RingCounts, RingSize, Row, Scenario, Whole};
use stroll::trust::Suite;
use stroll::wire::records::RuleSet;

use super::options::{Options, RuleName};
use super::{Args, seeds};
use crate::cli::exit::UsageError;

/// What goes wrong on the wire: with --whole, and where it makes sense with --mode tickets.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Whole nodes")]
pub(super) struct WholeArgs {
    /// Simulate whole nodes: real datagrams and signatures over a network with faults, watched by checkers
    #[arg(long, env = "STROLL_WHOLE")]
    pub(super) whole: bool,

    /// Draw the faults of every run from its seed: some off, others wild
    #[arg(long, env = "STROLL_SWARM")]
    pub(super) swarm: bool,

    /// Signatures that cost nothing and are worth nothing, for large circles
    #[arg(long, requires = "whole", env = "STROLL_FAST_SIGNATURES")]
    fast_signatures: bool,

    /// Share of datagrams that get lost, 0 to 1
    #[arg(long, default_value_t = 0.0, value_parser = share, env = "STROLL_LOSS")]
    pub(super) loss: f64,

    /// Share of datagrams that arrive twice
    #[arg(long, default_value_t = 0.0, value_parser = share, env = "STROLL_DUPLICATION")]
    pub(super) duplication: f64,

    /// Share of datagrams that arrive damaged
    #[arg(long, default_value_t = 0.0, value_parser = share, env = "STROLL_CORRUPTION")]
    corruption: f64,

    /// Share of datagrams that are replayed up to a minute later
    #[arg(long, default_value_t = 0.0, value_parser = share, env = "STROLL_REPLAY")]
    pub(super) replay: f64,

    /// How much longer than --delay a datagram may take: later ones overtake it
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration, env = "STROLL_JITTER")]
    pub(super) jitter: Duration,

    /// Mean time between two splits of the network, of 30 s each
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_SPLIT_EVERY")]
    pub(super) split_every: Option<Duration>,

    /// Mean time between two pauses of a member, of 10 s each
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_PAUSE_EVERY")]
    pub(super) pause_every: Option<Duration>,

    /// Mean time between two bans of a member, until half of them are left; a few hear of it, and tell the others
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_BAN_EVERY")]
    ban_every: Option<Duration>,

    /// Share of members whose certificate expires while things go wrong; at most every fourth
    #[arg(long, default_value_t = 0.0, value_parser = share, env = "STROLL_EXPIRING")]
    expiring: f64,

    /// Let work appear at one random member at a time, TIME apart on average, and measure its wait for the first slot
    #[arg(long, requires = "whole", value_name = "TIME", value_parser = parse_duration, env = "STROLL_BURSTS")]
    bursts: Option<Duration>,

    /// How long nothing goes wrong at the end; then everybody must be served, and no more than one token be left
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration, env = "STROLL_SETTLE")]
    pub(super) settle: Duration,
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is between 0 and 1".to_owned()) }
}

/// Runs all seeds; prints what came of them, and for every broken promise the command that repeats it.
pub(super) fn run(args: &Args, options: &Options) -> anyhow::Result<()> {
    let scenario = scenario(args, options)?;
    let simulate = |seed| Whole::new(&scenario, seed).run();
    let (outcomes, elapsed) = seeds::run(options, args.progress, "simulating whole nodes", simulate)?;
    let mut sum = Outcome::default();
    let mut broken = 0;
    for (seed, outcome) in outcomes {
        for violation in &outcome.violations {
            seeds::complain(seed, violation);
            broken += 1;
        }
        sum.add(outcome);
    }
    print(&scenario, &sum, elapsed, args.json)?;
    anyhow::ensure!(broken == 0, "{broken} broken promises");
    Ok(())
}

fn scenario(args: &Args, options: &Options) -> Result<Scenario, UsageError> {
    let Args { whole: args, tickets, .. } = args;
    let ring = tickets.ring_of_nodes()?;
    let usual = ring.map_or_else(Scenario::default, Scenario::of_ring);
    let members = options.members.unwrap_or(usual.members);
    if !(2..=10_000).contains(&members) {
        return Err(UsageError("members: whole circles have between 2 and 10000".into()));
    }
    let slot = options.slot.unwrap_or(usual.slot);
    let skip = options.skip.unwrap_or(usual.skip);
    if slot.is_zero() || skip.is_zero() || skip >= slot {
        return Err(UsageError("skip: must be longer than zero and shorter than the slot".into()));
    }
    let faults = Faults {
        loss: args.loss,
        duplication: args.duplication,
        corruption: args.corruption,
        replay: args.replay,
        delay: options.delay.unwrap_or(Faults::default().delay),
        jitter: args.jitter,
        split_every: args.split_every,
        crash_every: options.crash_every,
        restart_after: options.restart_after.unwrap_or(Faults::default().restart_after),
        pause_every: args.pause_every,
        ban_every: args.ban_every,
        expiring: args.expiring,
        clock_skew: options.clock_skew.unwrap_or_default(),
        drift_ppm: tickets.real_drift_ppm(),
        ..Faults::default()
    };
    for (field, is_given) in [
        ("min-interval", options.min_interval.is_some()),
        ("max-interval", options.max_interval.is_some()),
        ("regeneration-mean", options.regeneration_mean.is_some()),
        ("stream-rate", options.stream_rate.is_some()),
    ] {
        if is_given {
            return Err(UsageError(format!(
                "{field}: whole nodes go by a charter, which has no such time or rate"
            )));
        }
    }
    if options.active.is_some_and(|active| active < 1 || active > members) {
        return Err(UsageError("active: must be between 1 and the number of members".into()));
    }
    Ok(Scenario {
        members,
        active: options.active,
        bursts: args.bursts,
        capacity: options.capacity,
        ring,
        slot,
        skip,
        rules: rules(options)?,
        suite: if args.fast_signatures { Suite::Simulated } else { Suite::Ed25519 },
        duration: options.duration.unwrap_or(usual.duration),
        settle: args.settle,
        faults: (!args.swarm).then_some(faults),
    })
}

fn rules(options: &Options) -> Result<RuleSet, UsageError> {
    match options.rules.as_deref() {
        None | Some([RuleName::Guarded | RuleName::All]) => Ok(RuleSet::Guarded),
        Some([RuleName::Classic]) => Ok(RuleSet::Classic),
        Some([RuleName::Early]) => Ok(RuleSet::Early),
        Some(_) => Err(UsageError("rules: whole nodes follow one of guarded, classic, early".into())),
    }
}

fn print(scenario: &Scenario, sum: &Outcome, elapsed: Duration, is_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let elapsed_s = elapsed.as_secs_f64();
    if is_json {
        let mut object = json!({
            "whole": true, "members": scenario.members, "runs": sum.runs, "passes": sum.passes,
            "duplicates": sum.duplicates, "violations": sum.violations.len(), "lost": sum.lost,
            "lost_by_crash": sum.lost_by_crash, "lost_by_ban": sum.lost_by_ban, "banned": sum.banned,
            "expelled": sum.expelled, "regenerated": sum.regenerated, "needless": sum.needless, "removed": sum.removed,
            "slots": sum.slots, "pulling_percent": sum.pulling_percent().get(..3), "jain": sum.jain,
            "two_tokens_s": sum.two_tokens.as_secs_f64(), "no_token_s": recoveries(sum),
            "most_overtaken": sum.most_overtaken, "first_slot_s": first_slots(sum), "datagrams": sum.datagrams, "rejected": sum.rejected, "elapsed_s": elapsed_s,
        });
        if let (Some(size), Some(object)) = (scenario.ring, object.as_object_mut()) {
            object.append(&mut ring_object(size, sum.ring));
        }
        if let (None, Some(object)) = (scenario.ring, object.as_object_mut()) {
            object.append(&mut handoff_object(sum));
        }
        writeln!(out, "{object}")?;
    } else {
        let ring = scenario
            .ring
            .map_or_else(String::new, |ring| format!(", {} tickets, {} faults", ring.tickets, ring.faults));
        writeln!(
            out,
            "{} whole nodes{ring}, slot {}; {} runs of {} and {} in peace",
            scenario.members,
            format_duration(scenario.slot),
            sum.runs,
            format_duration(scenario.duration),
            format_duration(scenario.settle),
        )?;
        let of_turns = if scenario.ring.is_some() { ring_lines(sum) } else { token_lines(sum) };
        for (name, count) in of_turns.into_iter().chain([
            ("broken promises", sum.violations.len() as u64),
            ("members banned", sum.banned),
            ("members that stopped by that", sum.expelled),
            ("slots", sum.slots),
            ("datagrams", sum.datagrams),
            ("datagrams dropped by members", sum.rejected),
        ]) {
            writeln!(out, "  {name:30} {count:>12}")?;
        }
        for (name, share) in
            ["idle", "one member pulls", "two members pull"].into_iter().zip(sum.pulling_percent())
        {
            writeln!(out, "  {:30} {share:>12.3}", format!("{name}, % of the time"))?;
        }
        if scenario.ring.is_none() {
            for (name, quantiles) in spans(sum) {
                writeln!(out, "  {:30} {}", format!("{name}, s"), quantile_text(&quantiles))?;
            }
            writeln!(out, "  {:30} {:>12.3}", "two tokens in use, s", sum.two_tokens.as_secs_f64())?;
            for (name, span) in recoveries(sum) {
                writeln!(out, "  {:30} {span:>12.3}", format!("no token after a loss, {name}, s"))?;
            }
            writeln!(out, "  {:30} {:>12.2}", "most rounds without a slot", sum.most_overtaken)?;
        }
        for (name, wait) in first_slots(sum) {
            writeln!(out, "  {:30} {wait:>12.3}", format!("first slot after work, {name}, s"))?;
        }
        writeln!(out, "  {:30} {elapsed_s:>12.2}", "real time, s")?;
    }
    out.flush()?;
    Ok(())
}

/// How long visits and handoffs took.
fn spans(sum: &Outcome) -> [(&'static str, Quantiles); 3] {
    [
        ("return time", Quantiles::of(&sum.spans.return_times)),
        ("handoff, Move to EarlyStop", Quantiles::of(&sum.spans.handoffs)),
        ("token on its way", Quantiles::of(&sum.spans.on_the_way)),
    ]
}

fn quantile_text(quantiles: &Quantiles) -> String {
    let Quantiles { mean, p50, p99, max, .. } = *quantiles;
    let named = [("mean", mean), ("p50", p50), ("p99", p99), ("max", max)];
    let text = |(name, value): (&str, Option<f64>)| {
        value.map_or_else(|| format!("{name} –"), |value| format!("{name} {value:.3}"))
    };
    named.map(text).join("  ")
}

/// How long members waited for their first slot after work had appeared; nothing without `--bursts`.
fn first_slots(sum: &Outcome) -> BTreeMap<&'static str, f64> {
    quantiles(&sum.first_slots)
}

/// How long there was no token when one was lost, until another was there.
fn recoveries(sum: &Outcome) -> BTreeMap<&'static str, f64> {
    quantiles(&sum.recoveries)
}

fn quantiles(spans: &[Duration]) -> BTreeMap<&'static str, f64> {
    let mut waits = spans.to_vec();
    waits.sort_unstable();
    let at = |permille: usize| {
        waits.get((waits.len().saturating_sub(1)) * permille / 1000).map(Duration::as_secs_f64)
    };
    [("p50", at(500)), ("p99", at(990)), ("max", at(1000))]
        .into_iter()
        .filter_map(|(name, wait)| wait.map(|wait| (name, wait)))
        .collect()
}

type Lines = Vec<(&'static str, u64)>;

fn token_lines(sum: &Outcome) -> Lines {
    vec![
        ("handoffs", sum.passes),
        ("tokens held twice", sum.duplicates),
        ("tokens lost in a handoff", sum.lost),
        ("tokens lost by a crash", sum.lost_by_crash),
        ("tokens lost by a ban or expiry", sum.lost_by_ban),
        ("tokens regenerated", sum.regenerated),
        ("of these while one was alive", sum.needless),
        ("tokens removed", sum.removed),
        ("Moves repeated (no Ack)", sum.rows.count(Row::MoveAgain)),
        ("Commits repeated (no EarlyStop)", sum.rows.count(Row::CommitAgain)),
        ("Commits given up", sum.rows.count(Row::CommitAbandoned)),
    ]
}

fn ring_lines(sum: &Outcome) -> Lines {
    let ring = sum.ring;
    vec![
        ("rounds of seats", ring.rounds),
        ("tickets in two hands", sum.duplicates),
        ("tickets taken", ring.joins),
        ("tickets given back", ring.given_back),
        ("tickets lost", ring.lost),
        ("seats excluded", ring.excluded),
        ("times unsure", ring.unsure),
        ("rings founded anew", ring.refounded),
    ]
}

/// Repetitions and times of handoffs.
fn handoff_object(sum: &Outcome) -> serde_json::Map<String, serde_json::Value> {
    let [(_, return_time), (_, handoff), (_, on_the_way)] = spans(sum);
    let members = [
        ("moves_repeated", json!(sum.rows.count(Row::MoveAgain))),
        ("commits_repeated", json!(sum.rows.count(Row::CommitAgain))),
        ("commits_abandoned", json!(sum.rows.count(Row::CommitAbandoned))),
        ("return_time_s", json!(return_time)),
        ("handoff_s", json!(handoff)),
        ("on_the_way_s", json!(on_the_way)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn ring_object(size: RingSize, ring: RingCounts) -> serde_json::Map<String, serde_json::Value> {
    let numbers = [
        ("tickets", size.tickets.into()),
        ("faults", size.faults.into()),
        ("rounds", ring.rounds),
        ("joins", ring.joins),
        ("given_back", ring.given_back),
        ("tickets_lost", ring.lost),
        ("excluded", ring.excluded),
        ("unsure", ring.unsure),
        ("refounded", ring.refounded),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), number.into())).collect()
}
