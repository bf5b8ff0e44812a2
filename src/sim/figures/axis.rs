//! Axes: a range, its ticks, and numbers that people read at a glance.
//!
//! One type serves linear and logarithmic axes, so that all charts are of one type as well. Whatever lies outside the
//! range, or is no number at all, is drawn at the edge: a chart can then take any data.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// The least that a figure tells apart from nothing: a millisecond, a thousandth of a percent.
pub(super) const LEAST: f64 = 1e-3;

/// The largest number that a figure shows: thirty million years in seconds.
const MOST: f64 = 1e15;

/// More ticks on a logarithmic axis would collide.
const DECADES_LIMIT: usize = 7;

/// A number that can be drawn.
pub(super) fn is_drawable(value: f64) -> bool {
    value.abs() <= MOST
}

/// One axis of a chart.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    ticks: Vec<f64>,
    /// Counts as "or more" in the labels.
    open_end: Option<f64>,
}

impl Axis {
    /// From `low` to `high`, with about as many ticks as wanted.
    pub(super) fn linear(low: f64, high: f64, wanted: u32) -> Self {
        let low = if is_drawable(low) { low } else { 0.0 };
        let high = if is_drawable(high) && high > low { high } else { low + 1.0 };
        let step = rung_above((high - low) / f64::from(wanted.max(1)));
        let first = (low / step).ceil();
        let ticks = (0..=2 * wanted).map(|n| (first + f64::from(n)) * step);
        let ticks = ticks.take_while(|tick| *tick <= high + step * 1e-9).collect();
        Self { low, high, is_log: false, ticks, open_end: None }
    }

    /// From `low` to `high`, whole numbers only.
    pub(super) fn counting(low: f64, high: f64, wanted: u32) -> Self {
        let mut axis = Self::linear(low, high, wanted);
        axis.ticks.retain(|tick| (tick - tick.round()).abs() < 1e-9);
        axis
    }

    /// Logarithmic, from the round number below `low` to the one above `high`.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = rung_below(low);
        let high = rung_above(high).max(rung_above(low * 1.5));
        let inside = |tick: &f64| (low * 0.999..=high * 1.001).contains(tick);
        let decades: Vec<f64> = decades().filter(inside).collect();
        let ticks = if decades.len() > 2 {
            decades.iter().copied().step_by(decades.len().div_ceil(DECADES_LIMIT)).collect()
        } else {
            rungs().filter(inside).collect()
        };
        Self { low, high, is_log: true, ticks, open_end: None }
    }

    /// The last tick stands for everything from there on.
    pub(super) fn open_ended(mut self) -> Self {
        self.open_end = self.ticks.last().copied();
        self
    }

    /// The low and the high end.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Where the value lies, from 0 at the low end to 1 at the high end.
    fn position(&self, value: f64) -> f64 {
        let position = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        #[expect(clippy::cast_possible_truncation, reason = "it lies between two pixels")]
        let offset = (f64::from(to - from) * self.position(*value)).round() as i32;
        from + offset
    }

    /// Grid lines are where the ticks are; there are no lighter ones in between.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let or_more = if self.open_end == Some(*value) { "+" } else { "" };
        number(*value) + or_more
    }
}

/// Without exponents, superfluous zeros and rounding noise, and with commas between thousands.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

fn decades() -> impl Iterator<Item = f64> {
    (-3..=14).map(|exponent| 10_f64.powi(exponent))
}

/// The round numbers: 0.001, 0.002, 0.005, 0.01, …
fn rungs() -> impl Iterator<Item = f64> {
    decades().flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade))
}

fn rung_above(value: f64) -> f64 {
    rungs().find(|rung| *rung >= value * (1.0 - 1e-9)).unwrap_or(MOST)
}

fn rung_below(value: f64) -> f64 {
    rungs().take_while(|rung| *rung <= value * (1.0 + 1e-9)).last().unwrap_or(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| axis.format_ext(tick)).collect()
    }

    #[test]
    fn numbers_are_plain() {
        let numbers = [0.001, 0.1 + 0.2, 0.0, 7.0, 100.0, 1e3, 123_456.5, -2e6];
        let expected = ["0.001", "0.3", "0", "7", "100", "1,000", "123,456.5", "-2,000,000"];
        assert_eq!(numbers.map(number), expected);
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(labels(&Axis::linear(70.0, 120.0, 5)), ["70", "80", "90", "100", "110", "120"]);
        assert_eq!(labels(&Axis::linear(0.0, 86_400.0, 5)), ["0", "20,000", "40,000", "60,000", "80,000"]);
        assert_eq!(labels(&Axis::counting(0.0, 1.5, 5)), ["0", "1"]);
        assert_eq!(labels(&Axis::counting(0.0, 8.0, 9).open_ended()).last().map(String::as_str), Some("8+"));
    }

    #[test]
    fn log_ticks_are_decades_unless_these_are_too_few() {
        assert_eq!(labels(&Axis::log(0.001, 100.0)), ["0.001", "0.01", "0.1", "1", "10", "100"]);
        assert_eq!(labels(&Axis::log(1_300.0, 4_000.0)), ["1,000", "2,000", "5,000"]);
        assert!(Axis::log(1e-9, 1e30).ticks.len() <= DECADES_LIMIT);
    }

    #[test]
    fn any_value_lands_on_any_axis() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300, 5.0];
        for (low, high) in odd.into_iter().flat_map(|low| odd.map(|high| (low, high))) {
            for axis in [Axis::linear(low, high, 5), Axis::counting(low, high, 0), Axis::log(low, high)] {
                assert!(odd.iter().all(|value| (10..=20).contains(&axis.map(value, (10, 20)))), "{axis:?}");
                assert!(
                    axis.ticks.len() < 20 && axis.ticks.iter().all(|tick| is_drawable(*tick)),
                    "{axis:?}"
                );
            }
        }
    }
}
