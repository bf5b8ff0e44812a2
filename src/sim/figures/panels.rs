//! Figures with curves side by side: the same axes for every panel, and one legend for all.

use super::axis::{Axis, is_drawable, number};
use super::curves::{self, Points, Series};
use super::look::{GRADES, Look, REFERENCE};
use super::sheet::{self, BOTTOM, HEADING, Key, LEFT, MARGIN, Panel, RIGHT, Sample, Sheet};
use super::{
    FigureError, GAP, HIGH, NARROW, NamedSpreads, PANELS_LIMIT, RAREST, WIDE, draw_lines, panels_for,
};

/// So many nominal periods are shown where curves lie close to each other.
const SHOWN_PERIODS: f64 = 2.5;

/// What all panels of a figure share.
struct Common<'t> {
    title: &'t str,
    x: Axis,
    y: Axis,
    x_label: &'t str,
    y_label: &'t str,
    keys: Vec<Key>,
    /// A thin upright line.
    reference: Option<f64>,
}

/// Stabilisation after a loss: the share of losses (percent) after which there was a token for good within x seconds, as far
/// as the run was long enough to tell. A panel per number of members, a line per rule set.
pub fn stabilisation(panels: &[(String, NamedSpreads<'_>)]) -> Result<String, FigureError> {
    let (headings, series) = lines_of_rules(panels, curves::roughly_within);
    let common = Common {
        title: "Stabilisation after a loss",
        x: curves::common_spans_axis(&series),
        y: Axis::linear(0.0, 100.0, 5),
        x_label: "from the loss to the end of the last time without a token (s)",
        y_label: "share of losses (%)",
        keys: keys_of_rules(&series),
        reference: None,
    };
    draw_side_by_side(common, &headings, &series)
}

/// Access intervals in a full and in a half full circle: the share of intervals (percent) longer than x seconds. A panel per
/// number of members, a line per rule set; a thin line marks the nominal period.
pub fn access_intervals_full_and_half(
    panels: &[(String, NamedSpreads<'_>)],
    nominal_s: f64,
) -> Result<String, FigureError> {
    let (headings, series) = lines_of_rules(panels, |spread| curves::roughly_longer_than(spread, RAREST));
    let reference = Some(nominal_s).filter(|nominal| *nominal > 0.0 && is_drawable(*nominal));
    let ends = series.iter().flat_map(|lines| curves::ends(lines));
    let longest = ends.chain(reference).fold(0.0, f64::max);
    let mut keys = keys_of_rules(&series);
    keys.extend(reference.map(nominal_key));
    let common = Common {
        title: "Access intervals in a full and in a half full circle",
        x: Axis::linear(0.0, longest * 1.04, 4),
        y: Axis::log(RAREST, 100.0),
        x_label: "access interval (s)",
        y_label: "share of longer intervals (%)",
        keys,
        reference,
    };
    draw_side_by_side(common, &headings, &series)
}

/// Access intervals by membership: the share of intervals (percent) that are no longer than x seconds. A panel per rule set,
/// a line per membership, from few members to many; a thin line marks the nominal period. Longer intervals than a few of
/// these are left out.
pub fn access_intervals_by_membership(
    rules: &[(String, NamedSpreads<'_>)],
    nominal_s: f64,
) -> Result<String, FigureError> {
    let rules = rules.get(..PANELS_LIMIT).unwrap_or(rules);
    let headings: Vec<(String, Option<Look>)> =
        curves::series(rules, |_| ()).into_iter().map(|rules| (rules.name, Some(rules.look))).collect();
    let reference = Some(nominal_s).filter(|nominal| *nominal > 0.0 && is_drawable(*nominal));
    let longest = reference.map(|nominal| nominal * SHOWN_PERIODS);
    let series: Vec<Vec<Series<Points>>> =
        rules.iter().map(|(_, spreads)| by_grade(spreads, longest)).collect();
    let mut keys: Vec<Key> = series.first().map_or_else(Vec::new, |lines| {
        lines.iter().map(|line| Key::new(Sample::Line(line.look), &line.name)).collect()
    });
    keys.extend(reference.map(nominal_key));
    let common = Common {
        title: "Access intervals by membership",
        x: longest
            .map_or_else(|| curves::common_spans_axis(&series), |longest| Axis::linear(0.0, longest, 3)),
        y: Axis::linear(0.0, 100.0, 5),
        x_label: "access interval (s)",
        y_label: "share of intervals within (%)",
        keys,
        reference,
    };
    draw_side_by_side(common, &headings, &series)
}

type Headings = Vec<(String, Option<Look>)>;

/// The panels' headings, and in each panel a line per rule set.
fn lines_of_rules(
    panels: &[(String, NamedSpreads<'_>)],
    points: impl Fn(&super::Spread) -> Points,
) -> (Headings, Vec<Vec<Series<Points>>>) {
    let panels = panels.get(..PANELS_LIMIT).unwrap_or(panels);
    let headings = panels.iter().map(|(name, _)| (sheet::tidy_name(name), None)).collect();
    let series = panels.iter().map(|(_, rules)| curves::series(rules, |spread| points(spread))).collect();
    (headings, series)
}

/// The lines of one panel, as far as they are no longer than what is shown.
fn by_grade(spreads: &NamedSpreads<'_>, longest: Option<f64>) -> Vec<Series<Points>> {
    let looks = GRADES.iter().cycle();
    let lines = spreads.iter().zip(looks).map(|((name, spread), look)| Series {
        name: sheet::tidy_name(name),
        look: *look,
        data: curves::roughly_within(spread)
            .into_iter()
            .filter(|point| longest.is_none_or(|longest| point.0 <= longest))
            .collect(),
    });
    lines.collect()
}

/// A rule set without data in every panel is marked so.
fn keys_of_rules(panels: &[Vec<Series<Points>>]) -> Vec<Key> {
    let Some(first) = panels.first() else { return Vec::new() };
    let has_data =
        |n: usize| panels.iter().filter_map(|lines| lines.get(n)).any(|line| !line.data.is_empty());
    let keys = first.iter().enumerate().map(|(n, line)| {
        let remark = if has_data(n) { "" } else { " (no data)" };
        Key::new(Sample::Line(line.look), format!("{}{remark}", line.name))
    });
    keys.collect()
}

fn nominal_key(nominal_s: f64) -> Key {
    Key::new(Sample::Line(REFERENCE), format!("nominal period ({} s)", number(nominal_s)))
}

fn draw_side_by_side(
    common: Common<'_>,
    headings: &Headings,
    series: &[Vec<Series<Points>>],
) -> Result<String, FigureError> {
    let panels = panels_for(series);
    // Wide panels have numbers up to their edges.
    let gap = if panels <= 2 { 2 * GAP } else { GAP };
    let each = ((WIDE + gap) / panels - gap).max(NARROW);
    let inner = panels * (each + gap) - gap;
    let height = HEADING + HIGH + BOTTOM;
    let Common { title, x, y, x_label, y_label, keys, reference } = common;
    let sheet = Sheet { title, width: LEFT + inner + RIGHT, height, keys };
    sheet.draw(|area| {
        for (n, left) in (0..panels).map(|n| LEFT + n * (each + gap)).enumerate() {
            let mut panel = Panel::new(x.clone(), y.clone());
            panel.heading = headings.get(n).map(|(name, look)| (name.as_str(), *look));
            panel.has_y_numbers = n == 0;
            panel.y_label = (n == 0).then_some(y_label);
            let plot = panel.draw(area, (left, HEADING), (each, HIGH))?;
            if let Some(at) = reference {
                let (low, high) = y.ends();
                plot.line(&[(at, low), (at, high)], &REFERENCE)?;
            }
            draw_lines(&plot, series.get(n).map_or(&[], Vec::as_slice))?;
        }
        sheet::draw_label(area, x_label, (LEFT + inner / 2, height - MARGIN))
    })
}
