//! The wall clock, and how its time is written in messages: `2026-01-04 10:00Z`.

use std::time::SystemTime;

const MINUTE_S: u64 = 60;
const DAY_S: u64 = 86_400;

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "commands run on the wall clock of whoever types them")]
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time in seconds since 1970, to the minute.
pub(super) fn format_utc(time_s: u64) -> String {
    let (year, month, day) = civil_from_days(time_s / DAY_S);
    let minutes = time_s % DAY_S / MINUTE_S;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}Z", minutes / 60, minutes % 60)
}

/// The same for a moment; before 1970 as 1970.
pub(super) fn format_moment(moment: jiff::Timestamp) -> String {
    format_utc(u64::try_from(moment.as_second()).unwrap_or(0))
}

/// Year, month and day of the day with this number, counted from 1970. Years are taken to begin in March, so that the
/// leap day is the last of its year and every 400 years are alike.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_minute_in_utc() {
        for (time_s, text) in [
            (0, "1970-01-01 00:00Z"),
            (951_782_399, "2000-02-28 23:59Z"),
            (951_782_400, "2000-02-29 00:00Z"),
            (951_868_800, "2000-03-01 00:00Z"),
            (1_767_520_859, "2026-01-04 10:00Z"),
            (4_107_542_400, "2100-03-01 00:00Z"),
            (253_402_300_799, "9999-12-31 23:59Z"),
        ] {
            assert_eq!(format_utc(time_s), text);
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let length = |year: u64, month| match month {
            2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for days in 0..400 * 366 {
            assert_eq!(civil_from_days(days), expected);
            let (year, month, day) = expected;
            expected = if day < length(year, month) {
                (year, month, day + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
        }
    }

    #[test]
    fn the_largest_time_is_written_without_overflow() {
        assert!(format_utc(u64::MAX).ends_with('Z'));
    }
}
