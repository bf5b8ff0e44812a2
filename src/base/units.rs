//! Quantities as people write them. Durations: `4s`, `100ms`, `1.5h`, `2d`, or a bare number of seconds. Sizes: `2MiB`,
//! `512k` (both binary), `650KB` (decimal), or a bare number of bytes. Rates: a size per second, or bits: `10Mbit`.

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
    /// Neither a number of bytes nor one with a unit.
    #[error("`{0}` is not a size; write for example 4096, 512k, 2MiB or 650KB")]
    NotASize(String),
    /// Not so many bytes, or bits, in a second.
    #[error("`{0}` is not a rate; write for example 512k, 2MiB/s, 650KB/s or 10Mbit")]
    NotARate(String),
    /// More bytes than can be counted.
    #[error("`{0}` is more than can be counted")]
    TooMany(String),
}

const LONGEST_SECONDS: f64 = 9.2e9;

/// Powers of 1000 or 1024, the largest first.
const PREFIXES: [(u32, char); 5] = [(5, 'P'), (4, 'T'), (3, 'G'), (2, 'M'), (1, 'K')];

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

/// Reads a number of bytes. `k`, `M`, `G`, `T`, `P` alone are powers of 1024, as in rclone, curl and wget, and so are
/// `KiB`, `MiB`, …; `KB`, `MB`, … are powers of 1000. `Mb` is refused: it may mean bits.
///
/// ```
/// use stroll::base::units::parse_size;
///
/// assert_eq!(parse_size("2MiB"), Ok(2 << 20));
/// assert_eq!(parse_size("512k"), Ok(512 << 10));
/// assert_eq!(parse_size("650KB"), Ok(650_000));
/// assert!(parse_size("10Mb").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_unit(text.trim());
    let factor = bytes_of(unit).ok_or_else(|| UnitError::NotASize(text.to_owned()))?;
    scale(number, factor, 1, text, UnitError::NotASize)
}

/// Reads a number of bytes per second: a size with or without `/s`, or bits as `10Mbit`, with or without `/s`.
///
/// ```
/// use stroll::base::units::parse_rate;
///
/// assert_eq!(parse_rate("2MiB/s"), Ok(2 << 20));
/// assert_eq!(parse_rate("10Mbit"), Ok(1_250_000));
/// ```
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let (number, unit) = split_unit(trimmed.strip_suffix("/s").unwrap_or(trimmed));
    let not_a_rate = || UnitError::NotARate(text.to_owned());
    if let Some(prefix) = unit.strip_suffix("bit") {
        let factor = decimal(prefix).ok_or_else(not_a_rate)?;
        return scale(number, factor, 8, text, UnitError::NotARate);
    }
    let factor = bytes_of(unit).ok_or_else(not_a_rate)?;
    scale(number, factor, 1, text, UnitError::NotARate)
}

fn bytes_of(unit: &str) -> Option<u64> {
    match unit {
        "" | "B" => return Some(1),
        "b" => return None,
        _ => {}
    }
    if let Some(prefix) = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('i')) {
        return binary(prefix);
    }
    unit.strip_suffix('B').map_or_else(|| binary(unit), decimal)
}

fn binary(prefix: &str) -> Option<u64> {
    power(prefix).filter(|power| *power > 0).map(|power| 1 << (10 * power))
}

fn decimal(prefix: &str) -> Option<u64> {
    power(prefix).map(|power| 1_000_u64.pow(power))
}

fn power(prefix: &str) -> Option<u32> {
    Some(match prefix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        "p" | "P" => 5,
        _ => return None,
    })
}

/// Whole numbers exactly, others as well as floating point can.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn scale(
    number: &str,
    factor: u64,
    divisor: u64,
    text: &str,
    no: fn(String) -> UnitError,
) -> Result<u64, UnitError> {
    let too_many = || UnitError::TooMany(text.to_owned());
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = number.parse().map_err(|_| too_many())?;
        let scaled = u128::from(number) * u128::from(factor) / u128::from(divisor);
        return u64::try_from(scaled).map_err(|_| too_many());
    }
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(|| no(text.to_owned()))?;
    let scaled = number * factor as f64 / divisor as f64;
    if scaled < 2_f64.powi(63) { Ok(scaled as u64) } else { Err(too_many()) }
}

/// Writes a size exactly, in the largest unit in which it is a whole number: `2MiB`, `650KB`, `1234B`.
pub fn format_size(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    for (power, prefix) in PREFIXES {
        if bytes.is_multiple_of(1 << (10 * power)) {
            return format!("{}{prefix}iB", bytes >> (10 * power));
        }
    }
    for (power, prefix) in PREFIXES {
        let unit = 1_000_u64.pow(power);
        if bytes.is_multiple_of(unit) {
            return format!("{}{prefix}B", bytes / unit);
        }
    }
    format!("{bytes}B")
}

/// Writes a size as one says it, to two digits or so, in powers of 1024: `8M`, `6.5M`, `635k`, `12`.
pub fn brief_size(bytes: u64) -> String {
    for (power, prefix) in PREFIXES {
        let prefix = if power == 1 { 'k' } else { prefix };
        let value = bytes as f64 / (1_u64 << (10 * power)) as f64;
        if value >= 0.9995 {
            let digits = usize::from(value < 9.95 && (value - value.round()).abs() >= 0.05);
            return format!("{value:.digits$}{prefix}");
        }
    }
    bytes.to_string()
}

/// Writes a time span for people: `0.3 s`, `12.5 s`, `12 min 34 s`, `3 h 12 min`, `2 d 4 h`.
pub fn human_duration(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = span.as_secs() + u64::from(span.subsec_millis() >= 500);
    match whole {
        0..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// Writes a size for people, to three digits or so: `47.7 MiB`, `5.00 GiB`, `812 B`.
pub fn human_size(bytes: u64) -> String {
    for (power, prefix) in PREFIXES {
        let value = bytes as f64 / (1_u64 << (10 * power)) as f64;
        if value >= 0.9995 {
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$} {prefix}iB");
        }
    }
    format!("{bytes} B")
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
    fn people_read_two_units() {
        for (millis, text) in [
            (0, "0.0 s"),
            (260, "0.3 s"),
            (12_520, "12.5 s"),
            (59_970, "1 min 0 s"),
            (754_000, "12 min 34 s"),
            (3_599_700, "1 h 0 min"),
            (11_520_000, "3 h 12 min"),
            (187_200_000, "2 d 4 h"),
        ] {
            assert_eq!(human_duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn people_read_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (812, "812 B"),
            (1 << 10, "1.00 KiB"),
            (50_000_000, "47.7 MiB"),
            (150 << 20, "150 MiB"),
            (5 << 30, "5.00 GiB"),
            ((1 << 30) - 1, "1.00 GiB"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }

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

    #[test]
    fn sizes_and_rates_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("7B", 7),
            ("512k", 512 << 10),
            ("512 K", 512 << 10),
            ("1.5M", 3 << 19),
            ("2MiB", 2 << 20),
            ("2Mi", 2 << 20),
            ("650KB", 650_000),
            ("650kB", 650_000),
            ("3GB", 3_000_000_000),
            ("1P", 1 << 50),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(parse_rate(text), Ok(bytes), "{text}");
            assert_eq!(parse_rate(&format!("{text}/s")), Ok(bytes), "{text}/s");
        }
        for (text, bytes) in
            [("10Mbit", 1_250_000), ("8bit/s", 1), ("1.6kbit/s", 200), ("1Gbit/s", 125_000_000)]
        {
            assert_eq!(parse_rate(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_that_may_mean_two_things_is_refused() {
        for text in [
            "",
            "k",
            "10Mb",
            "10b",
            "-1",
            "-1k",
            "1e400",
            "nan",
            "inf",
            "infk",
            "4 parsecs",
            "2M/h",
            "10Mibit",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(matches!(parse_size("18446744073709551616"), Err(UnitError::TooMany(_))));
        assert!(matches!(parse_size("99999999999P"), Err(UnitError::TooMany(_))));
    }

    #[test]
    fn sizes_as_one_says_them() {
        for (bytes, text) in [
            (12, "12"),
            (1_024, "1k"),
            (8 << 20, "8M"),
            (4 << 20, "4M"),
            (6_815_744, "6.5M"),
            (650_000, "635k"),
            (1_048_575, "1M"),
            (u64::MAX, "16384P"),
        ] {
            assert_eq!(brief_size(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn a_size_reads_back_exactly(bytes in any::<u64>(), shift in 0_u32..63) {
            for bytes in [bytes, bytes >> shift, (bytes >> shift) << shift] {
                prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn any_text_is_a_size_or_an_error(text in ".*") {
            let _ = (parse_size(&text), parse_rate(&text));
        }

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
