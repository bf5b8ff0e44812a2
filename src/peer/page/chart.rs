//! Small pictures as SVG: histograms and lines. Numbers in, text out; nothing in it comes from anybody else.

use std::fmt::Write as _;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 120.0;
const LEFT: f64 = 6.0;
const BOTTOM: f64 = 18.0;
const BARS: usize = 30;

/// A histogram of values, with an axis in seconds.
pub(super) fn histogram(values: &[f64], label: &str) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    if values.is_empty() || most <= 0.0 {
        return nothing(label);
    }
    let mut counts = [0u32; BARS];
    for value in values {
        if let Some(count) = counts.get_mut(bucket(*value / most)) {
            *count += 1;
        }
    }
    let highest = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    let (width, height) = ((WIDTH - 2.0 * LEFT) / BARS as f64, HEIGHT - BOTTOM - 4.0);
    let mut bars = String::new();
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let tall = (f64::from(*count) / highest * height).max(1.0);
        let (x, y) = (LEFT + index as f64 * width, HEIGHT - BOTTOM - tall);
        let _ =
            write!(bars, r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{tall:.1}"/>"#, width - 1.0);
    }
    let axis = axis("0", &seconds(most), HEIGHT);
    let said = format!("{label}: {} values up to {}", values.len(), seconds(most));
    svg(&said, HEIGHT, &format!(r#"<g class="bars">{bars}</g>{axis}"#))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the number of bars"
)]
fn bucket(share: f64) -> usize {
    ((share * BARS as f64) as usize).min(BARS - 1)
}

/// A line through points of (seconds ago, value), filled below; `unit` writes the highest value.
pub(super) fn line(points: &[(f64, f64)], label: &str, unit: fn(f64) -> String) -> String {
    let span = points.iter().map(|(ago, _)| *ago).fold(0.0, f64::max);
    if points.len() < 2 || span <= 0.0 {
        return nothing(label);
    }
    let highest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let scale = if highest > 0.0 { (HEIGHT - BOTTOM - 14.0) / highest } else { 0.0 };
    let base = HEIGHT - BOTTOM;
    let place = |(ago, value): &(f64, f64)| {
        let x = LEFT + (1.0 - ago / span) * (WIDTH - 2.0 * LEFT);
        (x, base - value * scale)
    };
    let mut path = String::new();
    for (x, y) in points.iter().map(place) {
        let _ = write!(path, "{x:.1},{y:.1} ");
    }
    let first = points.first().map_or(LEFT, |point| place(point).0);
    let last = points.last().map_or(WIDTH - LEFT, |point| place(point).0);
    let drawn = format!(
        r#"<polygon class="below" points="{first:.1},{base} {path}{last:.1},{base}"/><polyline class="line" points="{path}"/><text class="high" x="{LEFT}" y="10">{}</text>{}"#,
        unit(highest),
        axis(&format!("{} ago", seconds(span)), "now", HEIGHT),
    );
    svg(&format!("{label}: up to {}", unit(highest)), HEIGHT, &drawn)
}

fn axis(from: &str, to: &str, height: f64) -> String {
    let (y, right) = (height - 4.0, WIDTH - LEFT);
    let line = height - BOTTOM;
    format!(
        r#"<line class="axis" x1="{LEFT}" y1="{line}" x2="{right}" y2="{line}"/><text x="{LEFT}" y="{y}">{from}</text><text x="{right}" y="{y}" text-anchor="end">{to}</text>"#
    )
}

fn nothing(label: &str) -> String {
    let (x, y) = (WIDTH / 2.0, HEIGHT / 2.0);
    svg(
        &format!("{label}: nothing yet"),
        HEIGHT,
        &format!(r#"<text x="{x}" y="{y}" text-anchor="middle">nothing yet</text>"#),
    )
}

fn svg(said: &str, height: f64, inside: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}">{inside}</svg>"#)
}

/// Seconds for people: as many digits as mean something.
pub(super) fn seconds(value: f64) -> String {
    match value {
        value if value < 5e-4 => "0 s".to_owned(),
        value if value < 1.0 => format!("{:.0} ms", value * 1e3),
        value if value < 120.0 => format!("{value:.1} s"),
        value if value < 7_200.0 => format!("{:.0} min", value / 60.0),
        value if value < 172_800.0 => format!("{:.1} h", value / 3_600.0),
        value => format!("{:.0} d", value / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_some_bar() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let drawn = histogram(&values, "return time");
        assert_eq!(drawn.matches("<rect").count(), BARS);
        assert!(drawn.contains("100 values up to 100.0 s"), "{drawn}");
        assert!(roxmltree::Document::parse(&drawn).is_ok());
    }

    #[test]
    fn nothing_and_one_point_are_said_to_be_nothing() {
        for drawn in [histogram(&[], "x"), histogram(&[0.0], "x"), line(&[(1.0, 5.0)], "x", seconds)] {
            assert!(drawn.contains("nothing yet"), "{drawn}");
        }
    }

    #[test]
    fn a_line_goes_from_then_to_now() {
        let drawn = line(&[(60.0, 0.0), (30.0, 10.0), (0.0, 5.0)], "lag", seconds);
        assert!(drawn.contains("60.0 s ago") && drawn.contains("10.0 s"), "{drawn}");
        assert!(roxmltree::Document::parse(&drawn).is_ok());
    }
}
