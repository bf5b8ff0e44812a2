//! When how fast: rclone's `--bwlimit`, read as rclone reads it.
//!
//! ```text
//!   1M                               always 1 MiB/s
//!   10M:1M                           upload:download; we only download
//!   off                              no limit, and so is 0
//!   08:00,512k 19:00,10M 23:00,off   every day
//!   Mon-08:00,512k Fri-21:00,off     by the week; whole names of days too
//!   TZ=Europe/Rome 08:00,512k …      by the clocks of Rome instead of this machine's
//! ```
//!
//! A bare number is KiB/s, suffixes are powers of 1024, entries are separated by blanks or semicolons. What is ours: the
//! zone, and `10Mbit`. An entry holds until the next one, around the end of the week as well. (rclone takes the entry that
//! was *written* last there, which is the same if they are in order.)
//!
//! Where clocks are put forward an entry within the missing hour takes effect at the jump; where they are put back,
//! at the first of the two times.

use std::convert::Infallible;
use std::fmt;

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::limit::Limiter;
use crate::base::units;

/// Longer timetables are nobody's.
const LONGEST: usize = 4_096;

const MINUTES_PER_DAY: u16 = 24 * 60;

/// How often the wall clock is looked at while a rate lasts.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// What is wrong with a timetable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimetableError {
    /// Nothing at all.
    #[error("an empty limit; write for example 1M, off or \"Mon-08:00,512k Fri-21:00,off\"")]
    Empty,
    /// Longer than anybody's.
    #[error("a timetable longer than {LONGEST} bytes")]
    TooLong,
    /// Not a bandwidth.
    #[error("`{0}` is not a bandwidth; write for example 512k, 10M, 10Mbit or off")]
    Bandwidth(String),
    /// Not an entry.
    #[error("`{0}` is not an entry; write for example Mon-08:00,512k")]
    Entry(String),
    /// Not a day.
    #[error("`{0}` is not a day of the week")]
    Day(String),
    /// Not a time.
    #[error("`{0}` is not a time; write HH:MM, from 00:00 to 23:59")]
    Time(String),
    /// Not a zone that this machine knows.
    #[error("`{0}` is not a time zone; write for example TZ=Europe/Rome")]
    Zone(String),
}

/// When how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    zone: Option<TimeZone>,
    limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Limits {
    Always(Option<u64>),
    /// In the order of the week, each time once, and never empty.
    Weekly(Vec<Entry>),
}

/// From when on, and how fast then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    day: Weekday,
    minute: u16,
    rate: Option<u64>,
}

impl Entry {
    fn order(&self) -> (i8, u16) {
        (self.day.to_monday_zero_offset(), self.minute)
    }
}

/// No limit at any time.
impl Default for Timetable {
    fn default() -> Self {
        Self::always(None)
    }
}

impl Timetable {
    /// The same at all times; `None` is no limit.
    pub fn always(rate: Option<u64>) -> Self {
        Self { zone: None, limits: Limits::Always(rate) }
    }

    /// Reads a timetable.
    pub fn parse(text: &str) -> Result<Self, TimetableError> {
        if text.len() > LONGEST {
            return Err(TimetableError::TooLong);
        }
        let text = text.trim();
        let (zone, rest) = match text.strip_prefix("TZ=") {
            Some(rest) => {
                let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let zone = TimeZone::get(name).map_err(|_| TimetableError::Zone(name.to_owned()))?;
                (Some(zone), rest.trim())
            }
            None => (None, text),
        };
        Ok(Self { zone, limits: parse_limits(rest)? })
    }

    /// How fast at this moment; `None` is no limit.
    pub fn rate_at(&self, now: Timestamp) -> Option<u64> {
        match &self.limits {
            Limits::Always(rate) => *rate,
            Limits::Weekly(_) => {
                let past = self.changes_around(now).into_iter().filter(|(at, _)| *at <= now);
                // Of two at the same moment the later one of the week counts: they are in its order.
                past.max_by_key(|(at, _)| *at).and_then(|(_, entry)| entry.rate)
            }
        }
    }

    /// When the next entry takes effect; `None` if nothing ever changes.
    pub fn next_change_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.changes_around(now).into_iter().map(|(at, _)| at).filter(|at| *at > now).min()
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(TimeZone::system)
    }

    /// Every change from a week before until a week after, in order.
    fn changes_around(&self, now: Timestamp) -> Vec<(Timestamp, Entry)> {
        let Limits::Weekly(entries) = &self.limits else { return Vec::new() };
        let zone = self.zone();
        let today = zone.to_datetime(now).date();
        let days = (-8_i64..=8).filter_map(|offset| today.checked_add(Span::new().days(offset)).ok());
        days.flat_map(|date| {
            entries.iter().filter(move |entry| entry.day == date.weekday()).map(move |e| (date, *e))
        })
        .filter_map(|(date, entry)| Some((moment(&zone, date, entry.minute)?, entry)))
        .collect()
    }
}

/// Does something while the limiter is kept to a timetable.
pub async fn throttled<T>(timetable: &Timetable, limiter: &Limiter, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = follow(timetable, limiter) => match never {},
    }
}

/// Lets a limiter follow a timetable, for ever.
pub async fn follow(timetable: &Timetable, limiter: &Limiter) -> Infallible {
    loop {
        let now = Timestamp::now();
        limiter.set_rate(timetable.rate_at(now));
        // Not all at once: the wall clock may be set meanwhile.
        let wait = timetable.next_change_after(now).map_or(LOOK_EVERY, |next| {
            let left = next.duration_since(now);
            std::time::Duration::try_from(left).unwrap_or_default().min(LOOK_EVERY)
        });
        tokio::time::sleep(wait).await;
    }
}

/// When a clock on the wall shows this time first; if it never does, when it jumps over it.
fn moment(zone: &TimeZone, date: Date, minute: u16) -> Option<Timestamp> {
    let hour = i8::try_from(minute / 60).ok()?;
    let local = date.at(hour, i8::try_from(minute % 60).ok()?, 0, 0);
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        // Read with the offset after the jump it lies before the jump, which is the next one from there.
        AmbiguousOffset::Gap { after, .. } => {
            let before_the_jump = after.to_timestamp(local).ok()?;
            zone.following(before_the_jump).next().map(|jump| jump.timestamp())
        }
    }
}

fn parse_limits(text: &str) -> Result<Limits, TimetableError> {
    let parts = text.split([' ', ';', '\t', '\n']).filter(|part| !part.is_empty()).collect::<Vec<_>>();
    match parts.as_slice() {
        [] => Err(TimetableError::Empty),
        [single] if !single.contains(',') => Ok(Limits::Always(parse_pair(single)?)),
        several => {
            let mut entries = Vec::new();
            for part in several {
                parse_entry(part, &mut entries)?;
            }
            Ok(Limits::Weekly(in_order(entries)))
        }
    }
}

/// In the order of the week; of several for one moment the last one written counts.
fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.reverse();
    entries.sort_by_key(Entry::order);
    entries.dedup_by_key(|entry| entry.order());
    entries
}

fn parse_entry(text: &str, entries: &mut Vec<Entry>) -> Result<(), TimetableError> {
    let not_an_entry = || TimetableError::Entry(text.to_owned());
    let (when, bandwidth) = text.split_once(',').ok_or_else(not_an_entry)?;
    let rate = parse_pair(bandwidth)?;
    if let Some((day, time)) = when.split_once('-') {
        entries.push(Entry { day: parse_day(day)?, minute: parse_time(time)?, rate });
    } else {
        let minute = parse_time(when)?;
        let week = Weekday::Monday.cycle_forward().take(7);
        entries.extend(week.map(|day| Entry { day, minute, rate }));
    }
    Ok(())
}

fn parse_day(text: &str) -> Result<Weekday, TimetableError> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "mon" | "monday" => Weekday::Monday,
        "tue" | "tuesday" => Weekday::Tuesday,
        "wed" | "wednesday" => Weekday::Wednesday,
        "thu" | "thursday" => Weekday::Thursday,
        "fri" | "friday" => Weekday::Friday,
        "sat" | "saturday" => Weekday::Saturday,
        "sun" | "sunday" => Weekday::Sunday,
        _ => return Err(TimetableError::Day(text.to_owned())),
    })
}

fn parse_time(text: &str) -> Result<u16, TimetableError> {
    let two_digits = |part: &str| {
        let is_it = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u16>().ok().filter(|_| is_it)
    };
    let minute = text.split_once(':').and_then(|(hour, minute)| {
        let (hour, minute) = (two_digits(hour)?, two_digits(minute)?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    });
    minute.filter(|minute| *minute < MINUTES_PER_DAY).ok_or_else(|| TimetableError::Time(text.to_owned()))
}

/// `BOTH` or `UPLOAD:DOWNLOAD`.
fn parse_pair(text: &str) -> Result<Option<u64>, TimetableError> {
    match text.split_once(':') {
        Some((upload, download)) => {
            parse_bandwidth(upload)?;
            parse_bandwidth(download)
        }
        None => parse_bandwidth(text),
    }
}

fn parse_bandwidth(text: &str) -> Result<Option<u64>, TimetableError> {
    let wrong = || TimetableError::Bandwidth(text.to_owned());
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let bare = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let bytes = match text.strip_suffix(['b', 'B']) {
        _ if bare => units::parse_rate(&format!("{text}k")),
        // rclone's `b` and `B` are bytes, after a bare number.
        Some(number) if number.ends_with(|c: char| c.is_ascii_digit() || c == '.') => {
            units::parse_rate(number)
        }
        _ => units::parse_rate(text),
    };
    // No bytes at all is no limit, as in rclone.
    bytes.map(|bytes| (bytes > 0).then_some(bytes)).map_err(|_| wrong())
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.zone.as_ref().and_then(TimeZone::iana_name) {
            write!(f, "TZ={name} ")?;
        }
        match &self.limits {
            Limits::Always(rate) => f.write_str(&bandwidth(*rate)),
            Limits::Weekly(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let blank = if index == 0 { "" } else { " " };
                    let (hour, minute) = (entry.minute / 60, entry.minute % 60);
                    let rate = bandwidth(entry.rate);
                    write!(f, "{blank}{}-{hour:02}:{minute:02},{rate}", short(entry.day))?;
                }
                Ok(())
            }
        }
    }
}

fn short(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Mon",
        Weekday::Tuesday => "Tue",
        Weekday::Wednesday => "Wed",
        Weekday::Thursday => "Thu",
        Weekday::Friday => "Fri",
        Weekday::Saturday => "Sat",
        Weekday::Sunday => "Sun",
    }
}

/// Exactly, in rclone's words.
fn bandwidth(rate: Option<u64>) -> String {
    let Some(bytes) = rate else { return "off".to_owned() };
    for (power, suffix) in [(5_u32, 'P'), (4, 'T'), (3, 'G'), (2, 'M'), (1, 'k')] {
        if bytes.is_multiple_of(1 << (10 * power)) {
            return format!("{}{suffix}", bytes >> (10 * power));
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timetable(text: &str) -> Timetable {
        Timetable::parse(text).expect(text)
    }

    fn at(text: &str) -> Timestamp {
        text.parse::<jiff::Zoned>().expect(text).timestamp()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_plain_limit_holds_always() {
        let now = at("2026-03-02T08:00[UTC]");
        for (text, rate) in [
            ("1M", Some(MIB)),
            ("512", Some(512 << 10)),
            ("512k", Some(512 << 10)),
            ("512B", Some(512)),
            ("0.5G", Some(MIB << 9)),
            ("10M:1M", Some(MIB)),
            ("10M:off", None),
            ("off:10M", Some(10 * MIB)),
            ("10Mbit", Some(1_250_000)),
            ("2MiB", Some(2 * MIB)),
            ("off", None),
            ("OFF", None),
            ("0", None),
        ] {
            assert_eq!(timetable(text).rate_at(now), rate, "{text}");
            assert_eq!(timetable(text).next_change_after(now), None);
        }
    }

    #[test]
    fn an_entry_without_a_day_is_for_every_day() {
        let daily = timetable("TZ=UTC 08:00,512k 12:00,10M 13:00,512k 18:00,30M 23:00,off");
        for day in 1..=9 {
            let rate = |time: &str| daily.rate_at(at(&format!("2026-03-{day:02}T{time}[UTC]")));
            assert_eq!(rate("07:59:59"), None);
            assert_eq!(rate("08:00:00"), Some(512 << 10));
            assert_eq!(rate("12:30:00"), Some(10 * MIB));
            assert_eq!(rate("13:00:00"), Some(512 << 10));
            assert_eq!(rate("18:00:00"), Some(30 * MIB));
            assert_eq!(rate("23:00:00"), None);
            assert_eq!(rate("00:00:00"), None);
        }
    }

    #[test]
    fn midnight_belongs_to_the_new_day() {
        let table = timetable("TZ=UTC Tue-00:00,1M Wed-00:00,2M");
        assert_eq!(table.rate_at(at("2026-03-02T23:59:59.999[UTC]")), Some(2 * MIB));
        assert_eq!(table.rate_at(at("2026-03-03T00:00[UTC]")), Some(MIB));
        assert_eq!(table.next_change_after(at("2026-03-03T00:00[UTC]")), Some(at("2026-03-04T00:00[UTC]")));
        assert_eq!(
            table.next_change_after(at("2026-03-02T23:59:59.999[UTC]")),
            Some(at("2026-03-03T00:00[UTC]"))
        );
    }

    #[test]
    fn the_last_entry_holds_around_the_end_of_the_week() {
        let table = timetable("TZ=UTC Mon-08:00,512k Fri-21:00,off");
        assert_eq!(table.rate_at(at("2026-03-06T20:59[UTC]")), Some(512 << 10));
        for weekend in [
            "2026-03-06T21:00[UTC]",
            "2026-03-07T12:00[UTC]",
            "2026-03-08T23:59[UTC]",
            "2026-03-09T07:59[UTC]",
        ] {
            assert_eq!(table.rate_at(at(weekend)), None, "{weekend}");
        }
        assert_eq!(table.rate_at(at("2026-03-09T08:00[UTC]")), Some(512 << 10));
        assert_eq!(table.next_change_after(at("2026-03-07T12:00[UTC]")), Some(at("2026-03-09T08:00[UTC]")));
        let single = timetable("TZ=UTC Wed-10:00,1M");
        assert_eq!(single.rate_at(at("2026-03-04T09:59[UTC]")), Some(MIB));
        assert_eq!(single.next_change_after(at("2026-03-04T10:00[UTC]")), Some(at("2026-03-11T10:00[UTC]")));
    }

    #[test]
    fn entries_may_be_in_any_order_and_the_last_one_for_a_time_counts() {
        let table = timetable("TZ=UTC 23:00,off 08:00,512k Sun-08:00,1M");
        assert_eq!(table.rate_at(at("2026-03-08T03:00[UTC]")), None);
        assert_eq!(table.rate_at(at("2026-03-08T08:00[UTC]")), Some(MIB));
        assert_eq!(table.rate_at(at("2026-03-09T08:00[UTC]")), Some(512 << 10));
        assert_eq!(
            timetable("TZ=UTC Sun-08:00,1M 08:00,2M").rate_at(at("2026-03-08T09:00[UTC]")),
            Some(2 * MIB)
        );
    }

    #[test]
    fn an_entry_in_the_hour_that_is_skipped_takes_effect_at_the_jump() {
        let table = timetable("TZ=Europe/Rome 02:30,1M 02:45,2M 03:15,3M");
        let jump = at("2026-03-29T03:00[Europe/Rome]");
        assert_eq!(table.rate_at(at("2026-03-29T01:59[Europe/Rome]")), Some(3 * MIB));
        assert_eq!(table.next_change_after(at("2026-03-29T01:59[Europe/Rome]")), Some(jump));
        assert_eq!(table.rate_at(jump), Some(2 * MIB));
        assert_eq!(table.rate_at(at("2026-03-29T03:15[Europe/Rome]")), Some(3 * MIB));
        assert_eq!(table.rate_at(at("2026-03-29T03:45[Europe/Rome]")), Some(3 * MIB));
    }

    #[test]
    fn an_entry_in_the_hour_that_comes_twice_takes_effect_once() {
        let table = timetable("TZ=Europe/Rome 02:30,1M 04:00,2M");
        let first = at("2026-10-25T02:30+02:00[Europe/Rome]");
        let second = at("2026-10-25T02:30+01:00[Europe/Rome]");
        assert_eq!(table.rate_at(at("2026-10-25T02:29+02:00[Europe/Rome]")), Some(2 * MIB));
        for moment in [first, at("2026-10-25T02:00+01:00[Europe/Rome]"), second] {
            assert_eq!(table.rate_at(moment), Some(MIB));
        }
        assert_eq!(table.next_change_after(first), Some(at("2026-10-25T04:00[Europe/Rome]")));
    }

    #[test]
    fn the_zone_decides_which_day_it_is() {
        let now = at("2026-03-02T23:30[UTC]");
        assert_eq!(timetable("TZ=UTC Mon-00:00,1M Tue-00:00,2M").rate_at(now), Some(MIB));
        assert_eq!(timetable("TZ=Asia/Tokyo Mon-00:00,1M Tue-00:00,2M").rate_at(now), Some(2 * MIB));
    }

    #[test]
    fn semicolons_and_whole_names_are_read_too() {
        assert_eq!(timetable("08:00,512k;12:00,10M"), timetable("08:00,512k 12:00,10M"));
        assert_eq!(timetable("Monday-08:00,512k"), timetable("mon-08:00,512k"));
        assert_eq!(timetable(" 1M "), timetable("1M"));
    }

    #[test]
    fn mistakes_are_named() {
        use TimetableError as E;
        let error = |text: &str| Timetable::parse(text).expect_err(text);
        assert_eq!(error(""), E::Empty);
        assert_eq!(error("TZ=UTC"), E::Empty);
        assert_eq!(error("TZ=Mars/Olympus 1M"), E::Zone("Mars/Olympus".into()));
        assert_eq!(error("fast"), E::Bandwidth("fast".into()));
        assert_eq!(error("-1M"), E::Bandwidth("-1M".into()));
        assert_eq!(error("10Mb"), E::Bandwidth("10Mb".into()));
        assert_eq!(error("1M 2M"), E::Entry("1M".into()));
        assert_eq!(error("Foo-08:00,1M"), E::Day("Foo".into()));
        for time in ["8:00", "24:00", "08:60", "0800", "+8:00", "08-00", ""] {
            assert!(Timetable::parse(&format!("{time},1M")).is_err(), "{time}");
        }
        assert_eq!(error("08:00,1M,2M"), E::Bandwidth("1M,2M".into()));
        assert_eq!(error(&"08:00,1M ".repeat(1_000)), E::TooLong);
    }

    proptest! {
        #[test]
        fn any_text_is_a_timetable_or_an_error(text in any::<String>()) {
            let _ = Timetable::parse(&text);
        }

        #[test]
        fn nearly_right_text_is_a_timetable_or_an_error(text in "(TZ=UTC )?((mon-|Sunday-)?[0-2][0-9]:[0-9]{2},([0-9]{1,3}[kMB]?|off)[ ;]?){0,6}") {
            let _ = Timetable::parse(&text);
        }

        #[test]
        fn what_is_printed_reads_back_as_the_same(
            entries in prop::collection::vec((0_usize..8, 0_u16..1_440, prop::option::of(1_u64..(1 << 50))), 1..8),
            zone in prop_oneof![Just(""), Just("TZ=UTC "), Just("TZ=America/New_York ")],
        ) {
            let days = ["", "Mon-", "Tue-", "Wed-", "Thu-", "Fri-", "Sat-", "Sun-"];
            let text = entries.iter().map(|(day, minute, rate)| {
                let rate = rate.map_or("off".to_owned(), |rate| format!("{rate}B"));
                format!("{}{:02}:{:02},{rate}", days[*day], minute / 60, minute % 60)
            }).collect::<Vec<_>>().join(" ");
            let table = timetable(&format!("{zone}{text}"));
            prop_assert_eq!(&timetable(&table.to_string()), &table);
        }

        /// The announced changes are all there are: between two of them the rate stays.
        #[test]
        fn between_two_changes_nothing_changes(
            hours in prop::collection::vec((0_usize..7, 0_u16..1_440, 1_u64..4), 1..6),
            start in 1_700_000_000_i64..1_900_000_000,
            share in 0.0_f64..1.0,
        ) {
            let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
            let text = hours.iter().map(|(day, minute, rate)| {
                format!("{}-{:02}:{:02},{rate}M", days[*day], minute / 60, minute % 60)
            }).collect::<Vec<_>>().join(" ");
            let table = timetable(&format!("TZ=Europe/Rome {text}"));
            let now = Timestamp::from_second(start).expect("a time");
            let next = table.next_change_after(now).expect("a change within a week");
            prop_assert!(next > now);
            #[allow(clippy::cast_possible_truncation)]
            let between = now.as_second() + ((next.as_second() - now.as_second()) as f64 * share) as i64;
            let between = Timestamp::from_second(between.min(next.as_second() - 1)).expect("a time");
            prop_assert_eq!(table.rate_at(now), table.rate_at(between));
        }
    }
}
