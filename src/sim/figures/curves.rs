//! What becomes of the data: points that can be drawn.

use crate::sim::measure::Spread;

use super::axis::{Axis, LEAST, is_drawable};
use super::look::{Look, looks_of};
use super::sheet::tidy_name;

/// Points of a curve; with fewer, the steps of a few measurements would look like slopes.
const SAMPLES: u32 = 1_000;

/// The same where a panel is one of several, and has fewer pixels.
const FEW_SAMPLES: u32 = 200;

/// So few measurements that each is a step to be seen. Of more, the steps would only roughen the curve.
const FEW: u64 = 300;

/// Numbers of members that have bars of their own; the last one stands for all from there on.
const BARS: usize = 9;

/// Members in percent of the capacity, if there is no data: as in the papers.
const MEMBERS: (f64, f64) = (70.0, 120.0);

/// Places in a chart, from left to right.
pub type Points = Vec<(f64, f64)>;

/// What a figure shows of one rule set.
#[derive(Debug)]
pub(super) struct Series<D> {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) data: D,
}

/// One series per rule set.
pub(super) fn series<T, D>(rules: &[(String, T)], data: impl Fn(&T) -> D) -> Vec<Series<D>> {
    let looks = looks_of(rules.iter().map(|(name, _)| name.as_str()));
    let both = rules.iter().zip(looks);
    both.map(|((name, given), look)| Series { name: tidy_name(name), look, data: data(given) }).collect()
}

/// Those that can be drawn, from left to right.
pub(super) fn drawable(points: &[(f64, f64)]) -> Points {
    let mut points: Points =
        points.iter().filter(|point| is_drawable(point.0) && is_drawable(point.1)).copied().collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Where the series end.
pub(super) fn ends(series: &[Series<Points>]) -> impl Iterator<Item = f64> {
    series.iter().filter_map(|series| series.data.last()).map(|point| point.0)
}

/// The number of members and the share of the time, for shares that can be seen.
pub(super) fn bars(shares: &[f64]) -> Points {
    let (own, rest) = shares.split_at_checked(BARS - 1).unwrap_or((shares, &[]));
    let bars = own.iter().copied().chain([sum(rest)]).enumerate();
    bars.map(|(n, share)| (n as f64, share)).filter(|bar| bar.1 > LEAST && is_drawable(bar.1)).collect()
}

pub(super) fn bars_axis() -> Axis {
    Axis::counting(-0.5, BARS as f64 - 0.5, 9).open_ended()
}

/// The shares of the time with 0, 1, 2 and more members pulling, by the number of members.
pub(super) fn by_count(runs: &[(f64, Vec<f64>)]) -> [Points; 4] {
    let mut runs: Vec<_> = runs.iter().filter(|run| is_drawable(run.0)).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    [0, 1, 2, 3].map(|count| {
        let share = |shares: &[f64]| match count {
            3 => sum(shares.get(3..).unwrap_or_default()),
            _ => sum(shares.get(count..=count).unwrap_or_default()),
        };
        runs.iter().map(|(members, shares)| (*members, share(shares))).collect()
    })
}

/// All numbers of members, and a little more for the marks.
pub(super) fn span(series: &[Series<[Points; 4]>]) -> Axis {
    let members = series.iter().flat_map(|series| &series.data).flatten().map(|point| point.0);
    let ends = members.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, at| (ends.0.min(at), ends.1.max(at)));
    let (low, high) = if ends.0 <= ends.1 { ends } else { MEMBERS };
    Axis::linear(low - 2.0, high + 2.0, 6)
}

/// The share (percent) of spans that are longer, down to the rarest that matter.
pub(super) fn longer_than(spread: &Spread, rarest: f64) -> Points {
    sampled_longer_than(spread, rarest, SAMPLES)
}

/// The same for a panel among several.
pub(super) fn roughly_longer_than(spread: &Spread, rarest: f64) -> Points {
    sampled_longer_than(spread, rarest, FEW_SAMPLES)
}

fn sampled_longer_than(spread: &Spread, rarest: f64, samples: u32) -> Points {
    let shares = (0..=samples).map(|n| 100.0 * (rarest / 100.0).powf(f64::from(n) / f64::from(samples)));
    let points = shares.filter_map(|share| Some((spread.quantile_s(1.0 - share / 100.0)?, share)));
    // All are longer than nothing.
    let start = (spread.count() > 0).then_some((0.0, 100.0));
    joined(start.into_iter().chain(points), spread.count())
}

/// The share (percent) of spans that are no longer.
pub(super) fn within(spread: &Spread) -> Points {
    sampled_within(spread, SAMPLES)
}

/// The same for a panel among several.
pub(super) fn roughly_within(spread: &Spread) -> Points {
    sampled_within(spread, FEW_SAMPLES)
}

fn sampled_within(spread: &Spread, samples: u32) -> Points {
    let shares = (0..=samples).map(|n| f64::from(n) / f64::from(samples));
    let points = shares.filter_map(|share| Some((spread.quantile_s(share)?, 100.0 * share)));
    joined(points, spread.count())
}

fn joined(points: impl Iterator<Item = (f64, f64)>, count: u64) -> Points {
    let points = points.filter(|point| is_drawable(point.0));
    if count < FEW { stairs(points) } else { points.collect() }
}

/// A level that stays until the next point changes it. Points that go back are left out.
fn stairs(points: impl Iterator<Item = (f64, f64)>) -> Points {
    let mut line = Points::new();
    for (at, level) in points {
        let last = line.last().copied();
        if last.is_none_or(|(before, _)| before <= at) {
            line.extend(last.map(|(_, before)| (at, before)));
            line.push((at, level));
        }
    }
    line
}

/// All spans of time of several panels.
pub(super) fn common_spans_axis(panels: &[Vec<Series<Points>>]) -> Axis {
    let points = || panels.iter().flatten().flat_map(|series| &series.data).map(|point| point.0);
    let (shortest, longest) = (points().fold(f64::INFINITY, f64::min), points().fold(0.0, f64::max));
    if shortest <= longest { Axis::log(shortest, longest) } else { Axis::log(1.0, 1_000.0) }
}

/// All spans of time, or what is usual if there are none.
pub(super) fn spans_axis(series: &[Series<Points>]) -> Axis {
    let starts = series.iter().filter_map(|series| series.data.first()).map(|point| point.0);
    let shortest = starts.fold(f64::INFINITY, f64::min);
    let longest = ends(series).fold(0.0, f64::max);
    if shortest <= longest { Axis::log(shortest, longest) } else { Axis::log(1.0, 1_000.0) }
}

/// The number of tokens from each point to the next.
pub(super) fn steps(points: &[(f64, usize)]) -> Points {
    let points = points.iter().map(|(at, number)| (*at, *number as f64));
    let line = stairs(points.filter(|point| is_drawable(point.0)));
    // A single point has ended when it begins.
    if line.len() > 1 { line } else { Points::new() }
}

/// From a little below nothing, so that nothing can be seen, to a little above the most.
pub(super) fn tokens_axis(series: Option<&Series<Points>>) -> Axis {
    let points = series.into_iter().flat_map(|series| &series.data);
    let most = points.map(|point| point.1).fold(2.0, f64::max);
    Axis::counting(most * -0.1, most * 1.1, 4)
}

/// Leaves out what is no number; a sum of nothing would be -0.0, hence the fold.
fn sum(shares: &[f64]) -> f64 {
    shares.iter().filter(|share| is_drawable(**share)).fold(0.0, |sum, share| sum + share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_beyond_the_last_are_added_up_and_small_ones_left_out() {
        let shares = [50.0, 0.0, f64::NAN, 0.000_1, 10.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0];
        assert_eq!(bars(&shares), [(0.0, 50.0), (4.0, 10.0), (8.0, 6.0)]);
    }

    #[test]
    fn more_than_two_members_are_added_up_in_the_order_of_memberships() {
        let runs = [(120.0, vec![1.0, 2.0, 3.0, 4.0, 5.0]), (f64::NAN, vec![7.0]), (70.0, vec![6.0])];
        let [none, one, two, more] = by_count(&runs);
        assert_eq!(none, [(70.0, 6.0), (120.0, 1.0)]);
        assert_eq!(one, [(70.0, 0.0), (120.0, 2.0)]);
        assert_eq!(two, [(70.0, 0.0), (120.0, 3.0)]);
        assert_eq!(more, [(70.0, 0.0), (120.0, 9.0)]);
    }

    #[test]
    fn tokens_stay_until_the_next_point() {
        let line = steps(&[(0.0, 1), (5.0, 2), (3.0, 7), (9.0, 0)]);
        assert_eq!(line, [(0.0, 1.0), (5.0, 1.0), (5.0, 2.0), (9.0, 2.0), (9.0, 0.0)]);
    }
}
