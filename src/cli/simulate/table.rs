//! The reports as a table for people: one column per rule set, one row per figure.

use std::fmt::Write as _;

use stroll::base::units::{format_duration, format_size, human_size};
use stroll::sim::{Buffer, Overload, Quantiles, Report, Scenario, View};

use super::options::Plan;

/// A row is a name and one cell per report; a headline has no cells.
struct Row {
    name: &'static str,
    cells: Vec<String>,
}

pub(super) fn render(plan: &Plan, reports: &[Report]) -> String {
    let mut text = String::new();
    if let Some(rules) = plan.rule_sets.first() {
        text.push_str(&describe(&rules.scenario, plan));
    }
    text.push_str("\n\n");
    let rows = rows(reports);
    let named = rows.iter().filter(|row| !row.cells.is_empty());
    let name_width = named.map(|row| row.name.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..reports.len())
        .map(|column| {
            rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| cell.chars().count()).max()
        })
        .map(|width| width.unwrap_or(0).max(10))
        .collect();
    for row in &rows {
        if row.cells.is_empty() {
            // A headline stands apart from what is above it.
            let _ = writeln!(text, "\n{}", row.name);
            continue;
        }
        let _ = write!(text, "{:name_width$}", row.name);
        for (cell, width) in row.cells.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

fn describe(scenario: &Scenario, plan: &Plan) -> String {
    let mut text = format!(
        "{} members, capacity {}, slot {}, skip {}; {} of {} s",
        scenario.members,
        scenario.capacity,
        format_duration(scenario.slot),
        format_duration(scenario.skip),
        if plan.runs == 1 { "one run".to_owned() } else { format!("{} runs", plan.runs) },
        scenario.duration.as_secs_f64(),
    );
    if let View::Random(size) = scenario.view {
        let _ = write!(text, "; each knows {size} others");
    }
    for (what, every) in [
        ("a token lost", scenario.loss_every),
        ("a crash", scenario.churn.crash_every),
        ("a member joins", scenario.churn.join_every),
        ("a member leaves", scenario.churn.leave_every),
    ] {
        if let Some(every) = every {
            let _ = write!(text, "; {what} every {}", format_duration(every));
        }
    }
    for (what, given) in [
        ("Δ_min", scenario.intervals.min),
        ("Δ_max", scenario.intervals.max),
        ("γ", scenario.intervals.regeneration_mean),
    ] {
        if let Some(given) = given {
            let _ = write!(text, "; {what} {}", format_duration(given));
        }
    }
    if let Some(factor) = scenario.longest_wait {
        let _ = write!(text, "; uncoordinated members wait up to {factor} Δ_min");
    }
    if let Some(rate) = plan.stream_rate {
        let _ = write!(text, "; a stream of {}/s", format_size(rate));
    }
    if !scenario.delay.is_zero() {
        let _ = write!(text, "; message delay {}", format_duration(scenario.delay));
    }
    text
}

fn rows(reports: &[Report]) -> Vec<Row> {
    let row =
        |name, cell: &dyn Fn(&Report) -> String| Row { name, cells: reports.iter().map(cell).collect() };
    let headline = |name| Row { name, cells: Vec::new() };
    let mut rows = vec![
        row("", &|r| r.rules.clone()),
        headline("share of time, %, with so many members pulling"),
        row("  0", &|r| percent(r.share_of_time.none)),
        row("  1", &|r| percent(r.share_of_time.one)),
        row("  2", &|r| percent(r.share_of_time.two)),
        row("  more", &|r| percent(r.share_of_time.more)),
        row("  more than 5", &|r| percent(r.share_of_time.more_than_5)),
    ];
    if reports.iter().any(|r| r.idle_in_passing > 0.0) {
        rows.push(row("  0, the token being on its way", &|r| percent(r.idle_in_passing)));
    }
    rows.push(headline("access interval, s: from slot to slot of one member"));
    rows.extend(quantile_rows(reports, |r| &r.access_interval_s));
    if reports.iter().any(|r| r.buffer.is_some()) {
        rows.push(headline(
            "buffer that the source needs for the stream, s and bytes, to cover so many access intervals",
        ));
        rows.extend(buffer_rows(reports));
    }
    rows.push(headline("return time, s: from visit to visit of one member"));
    rows.extend(quantile_rows(reports, |r| &r.return_time_s));
    rows.extend([
        headline("share of time, %, with so many tokens"),
        row("  0", &|r| token_share(r, r.share_of_tokens.none)),
        row("  1", &|r| token_share(r, r.share_of_tokens.one)),
        row("  2", &|r| token_share(r, r.share_of_tokens.two)),
        row("  more", &|r| token_share(r, r.share_of_tokens.more)),
        headline("tokens, per 1e5 s"),
        row("  lost", &|r| per_1e5(r, r.lost)),
        row("  regenerated", &|r| per_1e5(r, r.regenerated)),
        row("  removed", &|r| per_1e5(r, r.removed)),
        headline("from the loss of the last token to the next, s"),
        row("  mean", &|r| seconds(r.recovery_s.mean)),
        row("  p99", &|r| seconds(r.recovery_s.p99)),
        row("  max", &|r| seconds(r.recovery_s.max)),
        headline("from the loss of the last token to the end of the last time without one, s"),
        row("  mean", &|r| seconds(r.stabilisation_s.mean)),
        row("  p50", &|r| seconds(r.stabilisation_s.p50)),
        row("  p99", &|r| seconds(r.stabilisation_s.p99)),
        row("  max", &|r| seconds(r.stabilisation_s.max)),
        headline("also"),
        row("  visits that skipped, per slot", &|r| {
            if has_tokens(r) { number(r.skips_per_slot) } else { none() }
        }),
        row("  fairness (Jain)", &|r| format!("{:.4}", r.jain)),
        row("  load factor", &|r| r.load_factor.map_or_else(none, |factor| format!("{factor:.2}"))),
    ]);
    if reports.iter().any(|r| r.overload.is_some()) {
        rows.extend(overload_rows(reports));
    }
    rows.extend([
        row("  events", &|r| r.events.to_string()),
        row("  computing time, s", &|r| format!("{:.2}", r.elapsed_s)),
    ]);
    rows
}

/// What the members say of their load.
fn overload_rows(reports: &[Report]) -> Vec<Row> {
    let row = |name, value: &dyn Fn(&Overload) -> Option<f64>| Row {
        name,
        cells: reports.iter().map(|report| seconds(report.overload.as_ref().and_then(value))).collect(),
    };
    vec![
        row("  alarms per member and year", &|o| Some(o.alarms_per_member_year)),
        row("  others asked, per member and day", &|o| Some(o.asked_per_member_day)),
        row("  overload told after the surge, s: p50", &|o| o.told_after_s.p50),
        row("  … p99", &|o| o.told_after_s.p99),
        row("  members that never told", &|o| Some(o.untold as f64)),
    ]
}

/// What the source must keep, as time and as bytes.
fn buffer_rows(reports: &[Report]) -> Vec<Row> {
    type Of<T> = fn(&Buffer) -> Option<T>;
    let cell = |report: &Report, span: Of<f64>, bytes: Of<u64>| {
        let buffer = report.buffer.as_ref();
        let both = buffer.and_then(|buffer| Some((span(buffer)?, bytes(buffer)?)));
        both.map_or_else(none, |(span, bytes)| format!("{} {}", number(span), human_size(bytes)))
    };
    let row = |name, span: Of<f64>, bytes: Of<u64>| Row {
        name,
        cells: reports.iter().map(|report| cell(report, span, bytes)).collect(),
    };
    vec![
        row("  99 %", |b| b.p99_s, |b| b.p99_bytes),
        row("  99.9 %", |b| b.p999_s, |b| b.p999_bytes),
        row("  all", |b| b.max_s, |b| b.max_bytes),
    ]
}

fn quantile_rows(reports: &[Report], of: impl Fn(&Report) -> &Quantiles) -> Vec<Row> {
    let row = |name, value: &dyn Fn(&Quantiles) -> Option<f64>| Row {
        name,
        cells: reports.iter().map(|report| seconds(value(of(report)))).collect(),
    };
    vec![
        row("  mean", &|q| q.mean),
        row("  p50", &|q| q.p50),
        row("  p80", &|q| q.p80),
        row("  p90", &|q| q.p90),
        row("  p99", &|q| q.p99),
        row("  max", &|q| q.max),
    ]
}

fn has_tokens(report: &Report) -> bool {
    report.return_time_s.mean.is_some()
}

fn token_share(report: &Report, share: f64) -> String {
    if has_tokens(report) { percent(share) } else { none() }
}

fn per_1e5(report: &Report, count: u64) -> String {
    if has_tokens(report) { number(count as f64 * 1e5 / report.simulated_s) } else { none() }
}

fn none() -> String {
    "–".to_owned()
}

/// Three digits after the point where it is small, for there a tenth is a lot.
fn percent(share: f64) -> String {
    if share >= 10.0 { format!("{share:.1}") } else { format!("{share:.3}") }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(none, number)
}
