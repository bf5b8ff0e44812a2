//! Dates as listings write them.

use jiff::civil::Date;
use jiff::tz::TimeZone;

const DAY_S: i64 = 86_400;

/// Seconds since 1970 of a date and a time of day, as if they were UTC.
pub(super) fn seconds(date: (i16, i8, i8), time: (i8, i8, i8)) -> Option<i64> {
    let (year, month, day) = date;
    let (hour, minute, second) = time;
    // A leap second is nobody's modification time, but servers may write one.
    let date = Date::new(year, month, day).ok()?;
    let time = jiff::civil::Time::new(hour, minute, second.min(59), 0).ok()?;
    Some(date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// The time of `MDTM` and `MLSD`: `YYYYMMDDHHMMSS`, perhaps with a fraction, always UTC.
pub fn stamp(text: &[u8]) -> Option<i64> {
    let whole = text.split(|byte| *byte == b'.').next()?;
    if whole.len() != 14 {
        return None;
    }
    let part = |from: usize, to: usize| whole.get(from..to).and_then(number);
    let small = |from, to| part(from, to).and_then(|value| i8::try_from(value).ok());
    let year = i16::try_from(part(0, 4)?).ok()?;
    seconds((year, small(4, 6)?, small(6, 8)?), (small(8, 10)?, small(10, 12)?, small(12, 14)?))
}

/// Digits only, and not more than fit.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A size in bytes: digits, and no more than a file can have.
pub(super) fn size(text: &[u8]) -> Option<u64> {
    number(text).filter(|size| i64::try_from(*size).is_ok())
}

/// `12:34` or `12:34:56`.
pub(super) fn clock(text: &[u8]) -> Option<(i8, i8, i8)> {
    let mut parts = text.split(|byte| *byte == b':');
    let mut next = || parts.next().and_then(number).and_then(|value| i8::try_from(value).ok());
    let (hour, minute) = (next()?, next()?);
    let second = next().unwrap_or(0);
    (parts.next().is_none() && hour < 24 && minute < 60 && second <= 60).then_some((hour, minute, second))
}

/// A date without its year is the last such one that is not in the future; a day is left for clocks and zones.
pub(super) fn recent(month_day: (i8, i8), time: (i8, i8, i8), now_s: i64) -> Option<i64> {
    let this_year = jiff::Timestamp::from_second(now_s).ok()?.to_zoned(TimeZone::UTC).year();
    let (month, day) = month_day;
    // 29 February may be four years back, or eight around 2100.
    (0..=8)
        .chain([-1])
        .filter_map(|back| this_year.checked_sub(back))
        .filter_map(|year| seconds((year, month, day), time))
        .filter(|time_s| *time_s <= now_s.saturating_add(DAY_S))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_as_utc_and_nonsense_is_not_read() {
        assert_eq!(stamp(b"19700101000001"), Some(1));
        assert_eq!(stamp(b"20240229120000.123"), Some(1_709_208_000));
        for nonsense in
            [&b"20230229120000"[..], b"", b"2024022912000", b"191020101120000", b"2024-02-29 1200", b"."]
        {
            assert_eq!(stamp(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_date_without_a_year_is_the_last_one_that_was() {
        let now_s = stamp(b"20240310120000").expect("a time");
        assert_eq!(recent((3, 9), (0, 0, 0), now_s), stamp(b"20240309000000"));
        assert_eq!(recent((3, 11), (11, 0, 0), now_s), stamp(b"20240311110000"));
        assert_eq!(recent((12, 31), (23, 59, 0), now_s), stamp(b"20231231235900"));
        let new_year_s = stamp(b"20231231233000").expect("a time");
        assert_eq!(recent((1, 1), (0, 10, 0), new_year_s), stamp(b"20240101001000"));
        let spring_s = stamp(b"20250310120000").expect("a time");
        assert_eq!(recent((2, 29), (0, 0, 0), spring_s), stamp(b"20240229000000"));
        assert_eq!(recent((2, 30), (0, 0, 0), spring_s), None);
    }

    #[test]
    fn clocks_and_sizes_have_bounds() {
        assert_eq!(clock(b"23:59"), Some((23, 59, 0)));
        for nonsense in [&b"24:00"[..], b"1:60", b"12", b"12:34:56:78", b"a:b", b"-1:00"] {
            assert_eq!(clock(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(size(b"9223372036854775807"), Some(9_223_372_036_854_775_807));
        assert_eq!(size(b"18446744073709551615"), None);
        assert_eq!(size(b"-1"), None);
    }
}
