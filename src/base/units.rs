//! Durations as people write them: `4s`, `100ms`, `1.5h`, `2d`, or a bare number of seconds.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};

/// What is wrong with a duration that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Neither a number nor a number with a unit.
    #[error("`{0}` is not a duration; write for example 4s, 100ms, 1.5h, 2d or 1e5")]
    NotADuration(String),
    /// A number, but with a unit that does not exist.
    #[error("`{unit}` is not a unit of time; use ns, us, ms, s, m, h, d or w")]
    UnknownUnit {
        /// What stood where the unit should be.
        unit: String,
    },
    /// A negative number, or one beyond 292 years, where the arithmetic of [`Time`](super::Time) ends.
    #[error("`{0}` is out of range; a duration is between 0 and 292 years")]
    OutOfRange(String),
}

const LONGEST_SECONDS: f64 = 9.2e9;

/// Reads a duration. A bare number is in seconds, as in the papers.
///
/// ```
/// use std::time::Duration;
/// use stroll::base::units::parse_duration;
///
/// assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
/// assert_eq!(parse_duration("1e5"), Ok(Duration::from_secs(100_000)));
/// assert!(parse_duration("4 parsecs").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let trimmed = text.trim();
    let (number, unit) = split_unit(trimmed);
    let number: f64 = number.parse().map_err(|_| UnitError::NotADuration(text.to_owned()))?;
    let seconds = number * seconds_of(unit)?;
    if !(0.0..=LONGEST_SECONDS).contains(&seconds) {
        return Err(UnitError::OutOfRange(text.to_owned()));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| UnitError::OutOfRange(text.to_owned()))
}

/// Splits `1e5ms` into `1e5` and `ms`: the unit is the run of letters at the end.
fn split_unit(text: &str) -> (&str, &str) {
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    let unit = text.strip_prefix(number).unwrap_or_default();
    (number.trim_end(), unit)
}

fn seconds_of(unit: &str) -> Result<f64, UnitError> {
    Ok(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return Err(UnitError::UnknownUnit { unit: unit.to_owned() }),
    })
}

/// Writes a duration in the largest unit in which it is a whole number, and what is not whole in seconds: `250ms`, `4s`,
/// `20m`, `10000s`, `4.125s`.
pub fn format_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match (span.subsec_nanos(), seconds) {
        (0, 0) => "0s".to_owned(),
        (0, _) if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        (0, _) if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        (0, _) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (0, _) => format!("{seconds}s"),
        (nanos, 0) if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        (nanos, 0) if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        (nanos, 0) => format!("{nanos}ns"),
        _ => format!("{}s", span.as_secs_f64()),
    }
}

/// For `#[serde(deserialize_with)]`: a duration as text, or as a bare number of seconds.
pub fn deserialize_duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    DurationValue::deserialize(input).map(|value| Some(value.0))
}

struct DurationValue(Duration);

impl<'de> Deserialize<'de> for DurationValue {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = DurationValue;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration such as \"4s\", or a number of seconds")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DurationValue, E> {
                parse_duration(text).map(DurationValue).map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<DurationValue, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<DurationValue, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<DurationValue, E> {
                self.visit_str(&seconds.to_string())
            }
        }

        input.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, nanos) in [
            ("4s", 4_000_000_000),
            ("4", 4_000_000_000),
            (" 0.1 s", 100_000_000),
            ("250us", 250_000),
            ("1.5h", 5_400_000_000_000),
            ("2d", 172_800_000_000_000),
            ("1w", 604_800_000_000_000),
            ("1e5", 100_000_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(matches!(parse_duration(""), Err(UnitError::NotADuration(_))));
        assert!(matches!(parse_duration("soon"), Err(UnitError::NotADuration(_))));
        assert_eq!(parse_duration("4q"), Err(UnitError::UnknownUnit { unit: "q".into() }));
        for text in ["-1s", "1e300", "inf", "nan", "300000000000d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_the_unit_that_reads_best() {
        for (millis, text) in [
            (0, "0s"),
            (100, "100ms"),
            (4_000, "4s"),
            (4_125, "4.125s"),
            (1_200_000, "20m"),
            (10_000_000, "10000s"),
            (7_200_000, "2h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            if let Ok(span) = parse_duration(&text) {
                prop_assert!(span.as_secs_f64() <= LONGEST_SECONDS * 1.001);
            }
        }

        #[test]
        fn what_is_written_is_read_back(millis in 0_u64..10_000_000_000) {
            let span = Duration::from_millis(millis);
            let back = parse_duration(&format_duration(span)).unwrap();
            let difference = back.abs_diff(span);
            prop_assert!(difference < Duration::from_micros(1), "{difference:?}");
        }
    }
}
