//! The papers' figures as SVG: numbers in, text out.
//!
//! Every figure takes any data. What it cannot show is left out: rule sets that measured nothing, numbers that are
//! none, shares too small for a logarithmic axis. Where nothing remains, the figure says so. The same data give the
//! same bytes.
//!
//! `axis` knows ranges and ticks, `look` colours and strokes, `sheet` titles, legends and panels, `curves` what becomes
//! of the data, `panels` the figures with curves side by side.

mod axis;
mod curves;
mod look;
mod panels;
mod sheet;
#[cfg(test)]
mod tests;

use plotters::drawing::DrawingAreaErrorKind;

use super::measure::Spread;
use axis::{Axis, LEAST, is_drawable, number};
pub use curves::Points;
use curves::Series;
use look::{COUNTS, REFERENCE};
pub use panels::{access_intervals_by_membership, access_intervals_full_and_half, stabilisation};
use sheet::{BOTTOM, HEADING, Key, LEFT, MARGIN, Panel, Plot, RIGHT, Sample, Sheet};

/// A figure could not be drawn. With text as the target this is a bug of ours or of the drawing library.
#[derive(Debug, thiserror::Error)]
#[error("the figure cannot be drawn")]
pub struct FigureError(#[from] DrawingAreaErrorKind<std::io::Error>);

/// Members in percent of the capacity, each with the shares of the time (percent) with 0, 1, 2, … of them pulling.
pub type SharesByMembers = Vec<(f64, Vec<f64>)>;

/// Spans of time by the name of what they are about.
pub type NamedSpreads<'s> = Vec<(String, &'s Spread)>;

/// Seconds, each with the number of tokens alive from then on.
pub type TokensOverTime = Vec<(f64, usize)>;

/// What lies between the axes of a figure with one panel, in pixels.
const WIDE: i32 = 658;
const HIGH: i32 = 310;

/// The same of one panel among several.
const NARROW: i32 = 196;
const LOW: i32 = 80;

/// Between two panels side by side.
const GAP: i32 = 26;

/// More rule sets than these are not drawn where each has a panel.
const PANELS_LIMIT: usize = 50;

/// The share of the width that a group of bars fills.
const FILLED: f64 = 0.8;

/// The least share of intervals that is shown, in percent.
const RAREST: f64 = 0.01;

const SHARE_OF_TIME: &str = "share of time (%)";

/// Concurrent operations: the share of the time (percent) with 0, 1, 2, … members pulling, as bars.
pub fn concurrent_operations(rules: &[(String, Vec<f64>)]) -> Result<String, FigureError> {
    let series = curves::series(rules, |shares| curves::bars(shares));
    let mut panel = Panel::new(curves::bars_axis(), Axis::log(LEAST, 100.0));
    panel.x_label = Some("members pulling at the same time");
    panel.y_label = Some(SHARE_OF_TIME);
    panel.has_vertical_grid = false;
    draw_alone("Concurrent operations", keys(&series, Sample::Block), &panel, |plot| {
        let width = FILLED / series.len().max(1) as f64;
        for (n, rules) in series.iter().enumerate() {
            for (group, share) in &rules.data {
                let left = group - FILLED / 2.0 + n as f64 * width;
                plot.block([(left, *share), (left + width * 0.92, LEAST)], &rules.look)?;
            }
        }
        say_if_empty(plot, &series)
    })
}

/// The same by the number of members (percent of the capacity): a panel per rule set, and a line each for 0, 1, 2 and
/// more members pulling.
pub fn memberships(rules: &[(String, SharesByMembers)]) -> Result<String, FigureError> {
    let rules = rules.get(..PANELS_LIMIT).unwrap_or(rules);
    let series = curves::series(rules, |runs| curves::by_count(runs));
    let panels = panels_for(rules);
    let each = ((WIDE + GAP) / panels - GAP).max(NARROW);
    let inner = panels * (each + GAP) - GAP;
    let height = HEADING + HIGH + BOTTOM;
    let sheet = Sheet {
        title: "Concurrent operations by membership",
        width: LEFT + inner + RIGHT,
        height,
        keys: count_keys(),
    };
    sheet.draw(|area| {
        for (n, left) in (0..panels).map(|n| LEFT + n * (each + GAP)).enumerate() {
            let mut panel = Panel::new(curves::span(&series), Axis::log(LEAST, 100.0));
            panel.heading = series.get(n).map(|rules| (rules.name.as_str(), Some(rules.look)));
            panel.has_y_numbers = n == 0;
            panel.y_label = (n == 0).then_some(SHARE_OF_TIME);
            let plot = panel.draw(area, (left, HEADING), (each, HIGH))?;
            draw_counts(&plot, series.get(n).map_or(&[], |rules| rules.data.as_slice()))?;
        }
        sheet::draw_label(area, "members (% of the capacity)", (LEFT + inner / 2, height - MARGIN))
    })
}

/// Access intervals: the share of intervals (percent) longer than x seconds; a thin line marks the nominal period.
pub fn access_intervals(rules: &[(String, &Spread)], nominal_s: f64) -> Result<String, FigureError> {
    let series = curves::series(rules, |spread| curves::longer_than(spread, RAREST));
    let nominal_s = Some(nominal_s).filter(|nominal| *nominal > 0.0 && is_drawable(*nominal));
    let mut keys = keys(&series, Sample::Line);
    let nominal_name = nominal_s.map(|nominal| format!("nominal period ({} s)", number(nominal)));
    keys.extend(nominal_name.map(|name| Key::new(Sample::Line(REFERENCE), name)));
    let longest = curves::ends(&series).chain(nominal_s).fold(0.0, f64::max);
    let mut panel = Panel::new(Axis::linear(0.0, longest * 1.04, 8), Axis::log(RAREST, 100.0));
    panel.x_label = Some("access interval (s)");
    panel.y_label = Some("share of longer intervals (%)");
    draw_alone("Access intervals", keys, &panel, |plot| {
        if let Some(nominal) = nominal_s {
            plot.line(&[(nominal, RAREST), (nominal, 100.0)], &REFERENCE)?;
        }
        draw_lines(plot, &series)
    })
}

/// The number of tokens alive over time, a panel per rule set, each with a scale of its own. A point says how many
/// there are from this second on; the last one ends the curve.
pub fn tokens_over_time(rules: &[(String, TokensOverTime)]) -> Result<String, FigureError> {
    let rules = rules.get(..PANELS_LIMIT).unwrap_or(rules);
    let series = curves::series(rules, |points| curves::steps(points));
    let panels = panels_for(rules);
    let x = Axis::linear(0.0, curves::ends(&series).fold(0.0, f64::max), 6);
    let each = (HIGH / panels - HEADING).max(LOW);
    let inner = panels * (HEADING + each);
    let sheet = Sheet {
        title: "Tokens over time",
        width: LEFT + WIDE + RIGHT,
        height: inner + BOTTOM,
        keys: Vec::new(),
    };
    sheet.draw(|area| {
        for (n, top) in (0..panels).map(|n| HEADING + n * (HEADING + each)).enumerate() {
            let is_last = top + each == inner;
            let mut panel = Panel::new(x.clone(), curves::tokens_axis(series.get(n)));
            panel.heading = series.get(n).map(|rules| (rules.name.as_str(), Some(rules.look)));
            panel.has_x_numbers = is_last;
            panel.x_label = is_last.then_some("time (s)");
            let plot = panel.draw(area, (LEFT, top), (WIDE, each))?;
            match series.get(n).filter(|rules| !rules.data.is_empty()) {
                Some(rules) => plot.line(&rules.data, &rules.look.fine())?,
                None => plot.no_data()?,
            }
        }
        sheet::draw_upright_label(area, "number of tokens", (MARGIN + 6, HEADING + (inner - HEADING) / 2))
    })
}

/// Regeneration after a loss: the share of losses (percent) after which there was a token again within x seconds. It need
/// not be the last one that is made: see [`stabilisation`].
pub fn regeneration(rules: &[(String, &Spread)]) -> Result<String, FigureError> {
    let series = curves::series(rules, |spread| curves::within(spread));
    let mut panel = Panel::new(curves::spans_axis(&series), Axis::linear(0.0, 100.0, 5));
    panel.x_label = Some("time without a token (s)");
    panel.y_label = Some("share of losses recovered (%)");
    let keys = keys(&series, Sample::Line);
    draw_alone("Regeneration after a loss", keys, &panel, |plot| draw_lines(plot, &series))
}

/// Getting a ticket while holders fail: the share of requests served (percent) by the probability that a holder fails within
/// the time that it takes to have its ticket back, a line per share of tickets held; a thin one shows up to where success is
/// predicted.
pub fn availability(shares: &[(String, Points, f64)]) -> Result<String, FigureError> {
    let named: Vec<(String, &Points)> =
        shares.iter().map(|(name, points, _)| (name.clone(), points)).collect();
    let series = curves::series(&named, |points| curves::drawable(points));
    let mut keys = keys(&series, Sample::Line);
    keys.push(Key::new(Sample::Line(REFERENCE), "predicted up to here"));
    let all = || series.iter().flat_map(|line| &line.data).map(|point| point.0);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let x = if least < most { Axis::log(least, most) } else { Axis::log(0.001, 1.0) };
    let mut panel = Panel::new(x, Axis::linear(0.0, 100.0, 5));
    panel.x_label = Some("probability that a holder fails before the ticket of another that failed is back");
    panel.y_label = Some("requests served (%)");
    draw_alone("Getting a ticket while holders fail", keys, &panel, |plot| {
        for (line, (_, _, until)) in
            series.iter().zip(shares).filter(|(_, (_, _, until))| is_drawable(*until))
        {
            plot.line(&[(*until, 0.0), (*until, 100.0)], &line.look.thin())?;
        }
        for line in &series {
            for point in &line.data {
                plot.mark(*point, look::Mark::Square, &line.look)?;
            }
        }
        draw_lines(plot, &series)
    })
}

/// A figure with one panel.
fn draw_alone(
    title: &str,
    keys: Vec<Key>,
    panel: &Panel<'_>,
    body: impl FnOnce(&Plot<'_>) -> Result<(), FigureError>,
) -> Result<String, FigureError> {
    let sheet = Sheet { title, width: LEFT + WIDE + RIGHT, height: HIGH + BOTTOM, keys };
    sheet.draw(|area| body(&panel.draw(area, (LEFT, 0), (WIDE, HIGH))?))
}

fn draw_lines(plot: &Plot<'_>, series: &[Series<Points>]) -> Result<(), FigureError> {
    for rules in series.iter().filter(|rules| !rules.data.is_empty()) {
        plot.line(&rules.data, &rules.look)?;
    }
    say_if_empty(plot, series)
}

/// A line ends at the axis where its share becomes too small, and has a mark where it is not.
fn draw_counts(plot: &Plot<'_>, lines: &[Points]) -> Result<(), FigureError> {
    for (line, (look, mark)) in lines.iter().zip(&COUNTS) {
        for piece in line.chunk_by(|a, b| a.1 > LEAST || b.1 > LEAST).filter(|piece| piece.len() > 1) {
            plot.line(piece, look)?;
        }
        for point in line.iter().filter(|point| point.1 > LEAST) {
            plot.mark(*point, *mark, look)?;
        }
    }
    let is_empty = lines.iter().flatten().all(|point| point.1 <= LEAST);
    if is_empty { plot.no_data() } else { Ok(()) }
}

fn say_if_empty(plot: &Plot<'_>, series: &[Series<Points>]) -> Result<(), FigureError> {
    if series.iter().all(|rules| rules.data.is_empty()) { plot.no_data() } else { Ok(()) }
}

fn keys(series: &[Series<Points>], sample: fn(look::Look) -> Sample) -> Vec<Key> {
    let name = |rules: &Series<Points>| {
        let remark = if rules.data.is_empty() { " (no data)" } else { "" };
        format!("{}{remark}", rules.name)
    };
    series.iter().map(|rules| Key::new(sample(rules.look), name(rules))).collect()
}

fn count_keys() -> Vec<Key> {
    let mut keys = vec![Key::new(Sample::Nothing, "members pulling:")];
    let counts = COUNTS.iter().zip(["0", "1", "2", "more than 2"]);
    keys.extend(counts.map(|((look, mark), name)| Key::new(Sample::Marked(*look, *mark), name)));
    keys
}

/// At least one, to say that there are no data.
fn panels_for<T>(rules: &[T]) -> i32 {
    i32::try_from(rules.len()).unwrap_or(1).max(1)
}
