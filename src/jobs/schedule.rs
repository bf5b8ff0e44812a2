//! When a job runs again: so long after it began last, or by the lines of cron.
//!
//! ```text
//!   30 2 * * *                   every day at half past two, by this machine's clocks
//!   TZ=Europe/Rome 0 8 * * 1-5   on working days at eight, by the clocks of Rome
//!   @daily                       as cron's @hourly, @daily, @weekly, @monthly, @yearly
//! ```
//!
//! Where clocks are put forward, what is due at one time within the missing hour is due at the jump; where they are put back,
//! it is due at the first of the two times only. What is due several times an hour goes on through both.
//!
//! The commands that repeat themselves call [`Schedule::wait`]; everything below it is pure.

use std::fmt;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::base::units::format_duration;

/// Longer lines of cron are nobody's.
const LONGEST: usize = 256;

/// A job is not begun more often than this: even a look costs the source something.
const SHORTEST: Duration = Duration::from_secs(1);

/// How often the wall clock is looked at during a wait: it may be set, and timers stand still while the computer sleeps.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A clock that is put back by less only runs late; what is due is still the same.
const LARGE_STEP: SignedDuration = SignedDuration::from_hours(1);

/// The first moment for which it is asked whether a line of cron means any moment at all: without years, any will do.
const SOME_MOMENT: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Not a line of cron.
    #[error(
        "`{0}` is not a schedule; write five fields, minute hour day month weekday, such as \"30 2 * * *\": {1}"
    )]
    Cron(String, String),
    /// Longer than anybody's.
    #[error("a schedule longer than {LONGEST} bytes")]
    TooLong,
    /// Not a zone that this machine knows.
    #[error("`{0}` is not a time zone; write for example TZ=Europe/Rome")]
    Zone(String),
    /// No day of any year.
    #[error("`{0}` never comes")]
    Never(String),
    /// All the time.
    #[error("every {}: at least 1s", format_duration(*.0))]
    TooOften(Duration),
}

/// When a job runs again.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// So long after it began last.
    Every(Duration),
    /// By the clock on the wall.
    Cron(CronLine),
}

/// A line of cron, and whose clocks it means.
#[derive(Clone)]
pub struct CronLine {
    /// `None` is this machine's own, which may change while we run.
    zone: Option<TimeZone>,
    cron: Box<Cron>,
    text: String,
}

impl Schedule {
    /// So long after it began last.
    pub fn every(span: Duration) -> Result<Self, ScheduleError> {
        if span < SHORTEST {
            return Err(ScheduleError::TooOften(span));
        }
        Ok(Self::Every(span))
    }

    /// Reads a line of cron, with or without a zone before it.
    pub fn parse_cron(text: &str) -> Result<Self, ScheduleError> {
        if text.len() > LONGEST {
            return Err(ScheduleError::TooLong);
        }
        let (zone, fields) = split_zone(text.trim())?;
        let wrong = |why: String| ScheduleError::Cron(fields.to_owned(), why);
        // croner would take five to seven fields, and look for nicknames everywhere.
        let count = fields.split_whitespace().count();
        if count != 5 && !(count == 1 && fields.starts_with('@')) {
            return Err(wrong(format!("{count} fields")));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let parser = if count == 1 { CronParser::builder().year(Year::Disallowed).build() } else { parser };
        let cron = parser.parse(fields).map_err(|error| wrong(error.to_string()))?;
        let line = CronLine { zone, cron: Box::new(cron), text: text.trim().to_owned() };
        if line.next_after(SOME_MOMENT).is_none() {
            return Err(ScheduleError::Never(fields.to_owned()));
        }
        Ok(Self::Cron(line))
    }

    /// The first moment after this one; `None` at the end of time. For [`Self::Every`], `now` is when the job began last.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(span) => now.checked_add(SignedDuration::try_from(*span).ok()?).ok(),
            Self::Cron(line) => line.next_after(now),
        }
    }

    /// When a job that began last at `started` is due, seen from `now`: what was missed is not caught up with, except
    /// that one span that has gone by already means at once.
    pub fn due(&self, started: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(_) => self.next_after(started).map(|due| due.max(now)),
            Self::Cron(line) => line.next_after(now),
        }
    }

    /// Waits until a job that began last at `started` is due; `false` if that never is. Copes with suspension and with a
    /// clock that is set.
    pub async fn wait(&self, started: Timestamp, clock: impl Fn() -> Timestamp) -> bool {
        let mut last = clock();
        let Some(mut due) = self.due(started, last) else { return false };
        loop {
            let now = clock();
            match self.replanned(due, last, now) {
                Some(again) => due = again,
                None => return false,
            }
            last = now;
            if !nap_until(due, now).await {
                return true;
            }
        }
    }

    /// What is due after the clock went from `last` to `now`.
    fn replanned(&self, due: Timestamp, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let back = last.duration_since(now);
        match self {
            // The rest of the span stays as long as it was.
            Self::Every(_) if back > SignedDuration::ZERO => due.checked_sub(back).ok(),
            Self::Cron(line) if back > LARGE_STEP => line.next_after(now),
            Self::Every(_) | Self::Cron(_) => Some(due),
        }
    }
}

impl CronLine {
    fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let zone = self.zone.clone().unwrap_or_else(TimeZone::system);
        let from = Timestamp::from_second(now.as_second()).ok()?.to_zoned(zone.clone());
        if let Ok(next) = self.cron.find_next_occurrence(&from, false) {
            return Some(next.timestamp()).filter(|next| *next > now);
        }
        // A whole day that a zone skipped (Samoa did) is more than croner looks over: begin behind it.
        zone.following(now).take(4).find_map(|jump| {
            let behind = jump.timestamp().to_zoned(zone.clone());
            let next = self.cron.find_next_occurrence(&behind, true).ok()?.timestamp();
            (next > now).then_some(next)
        })
    }
}

/// Waits until then by the wall clock, however that is set.
pub async fn wait_until(at: Timestamp, clock: impl Fn() -> Timestamp) {
    while nap_until(at, clock()).await {}
}

/// Sleeps a while if it is not yet time, and says so.
async fn nap_until(at: Timestamp, now: Timestamp) -> bool {
    match Duration::try_from(at.duration_since(now)) {
        Ok(left) if !left.is_zero() => {
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
            true
        }
        _ => false,
    }
}

/// Splits `TZ=Europe/Rome rest`. Templates are written so, too.
pub(super) fn split_zone(text: &str) -> Result<(Option<TimeZone>, &str), ScheduleError> {
    let Some(rest) = text.strip_prefix("TZ=") else { return Ok((None, text)) };
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let zone = TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))?;
    Ok((Some(zone), rest.trim()))
}

impl fmt::Debug for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CronLine({:?})", self.text)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(span) => write!(f, "every {}", format_duration(*span)),
            Self::Cron(line) => f.write_str(&line.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn cron(text: &str) -> Schedule {
        Schedule::parse_cron(text).expect(text)
    }

    fn at(text: &str) -> Timestamp {
        text.parse::<jiff::Zoned>().expect(text).timestamp()
    }

    /// Fails unless the moments after `from` are these.
    #[track_caller]
    fn follows(schedule: &Schedule, from: &str, expected: &[&str]) {
        let mut now = at(from);
        for text in expected {
            let next = schedule.next_after(now).expect("a next time");
            assert_eq!(next, at(text), "after {now}: {next}, not {text}");
            now = next;
        }
    }

    #[test]
    fn a_daily_job_runs_each_day_once_and_on_the_second_day_too() {
        follows(
            &cron("TZ=UTC 30 2 * * *"),
            "2026-03-01T02:29:59.5[UTC]",
            &["2026-03-01T02:30[UTC]", "2026-03-02T02:30[UTC]", "2026-03-03T02:30[UTC]"],
        );
        follows(&cron("TZ=UTC 30 2 * * *"), "2026-03-01T02:30:00.5[UTC]", &["2026-03-02T02:30[UTC]"]);
    }

    #[test]
    fn midnight_belongs_to_the_new_day() {
        follows(
            &cron("TZ=UTC 0 0 * * tue"),
            "2026-03-02T23:59:59.999[UTC]",
            &["2026-03-03T00:00[UTC]", "2026-03-10T00:00[UTC]"],
        );
        follows(&cron("TZ=UTC @daily"), "2026-12-31T12:00[UTC]", &["2027-01-01T00:00[UTC]"]);
    }

    #[test]
    fn in_the_missing_hour_of_spring_a_job_runs_at_the_jump() {
        follows(
            &cron("TZ=Europe/Rome 30 2 * * *"),
            "2026-03-28T02:30[Europe/Rome]",
            &["2026-03-29T03:00[Europe/Rome]", "2026-03-30T02:30[Europe/Rome]"],
        );
    }

    #[test]
    fn in_the_double_hour_of_autumn_a_daily_job_runs_once_and_an_hourly_one_twice() {
        follows(
            &cron("TZ=Europe/Rome 30 2 * * *"),
            "2026-10-24T02:30[Europe/Rome]",
            &["2026-10-25T02:30+02:00[Europe/Rome]", "2026-10-26T02:30[Europe/Rome]"],
        );
        follows(
            &cron("TZ=Europe/Rome 30 * * * *"),
            "2026-10-25T01:30[Europe/Rome]",
            &[
                "2026-10-25T02:30+02:00[Europe/Rome]",
                "2026-10-25T02:30+01:00[Europe/Rome]",
                "2026-10-25T03:30[Europe/Rome]",
            ],
        );
    }

    #[test]
    fn months_without_that_day_are_left_out_and_the_last_day_is_found() {
        follows(
            &cron("TZ=UTC 0 6 31 * *"),
            "2026-01-31T06:00[UTC]",
            &["2026-03-31T06:00[UTC]", "2026-05-31T06:00[UTC]"],
        );
        follows(
            &cron("TZ=UTC 0 6 L * *"),
            "2028-01-31T06:00[UTC]",
            &["2028-02-29T06:00[UTC]", "2028-03-31T06:00[UTC]"],
        );
        follows(&cron("TZ=UTC 0 0 29 2 *"), "2026-03-01T00:00[UTC]", &["2028-02-29T00:00[UTC]"]);
    }

    #[test]
    fn a_day_that_a_zone_skipped_does_not_end_a_schedule() {
        follows(
            &cron("TZ=Pacific/Apia 30 2 * * *"),
            "2011-12-29T12:00[Pacific/Apia]",
            &["2011-12-31T02:30[Pacific/Apia]"],
        );
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_name() {
        for text in
            ["", "x", "* * * *", "* * * * * *", "0 * * * * * 2026", "61 * * * *", "@sometimes", "@daily x"]
        {
            let error = Schedule::parse_cron(text).expect_err(text);
            assert!(matches!(&error, ScheduleError::Cron(named, _) if named == text), "{text}: {error}");
        }
        assert_eq!(
            Schedule::parse_cron("TZ=Mars/Olympus * * * * *").expect_err("no such zone"),
            ScheduleError::Zone("Mars/Olympus".into())
        );
        assert_eq!(
            Schedule::parse_cron("0 0 30 2 *").expect_err("no such day"),
            ScheduleError::Never("0 0 30 2 *".into())
        );
        assert_eq!(Schedule::parse_cron(&"*".repeat(300)).expect_err("too long"), ScheduleError::TooLong);
        assert!(Schedule::every(Duration::from_millis(10)).is_err());
    }

    #[test]
    fn a_span_counts_from_the_last_start_and_what_was_missed_is_due_at_once() {
        let hourly = Schedule::every(Duration::from_secs(3_600)).expect("a span");
        let (started, soon, late) =
            (at("2026-03-02T08:00[UTC]"), at("2026-03-02T08:10[UTC]"), at("2026-03-02T11:10[UTC]"));
        assert_eq!(hourly.due(started, soon), Some(at("2026-03-02T09:00[UTC]")));
        assert_eq!(hourly.due(started, late), Some(late));
        assert_eq!(cron("TZ=UTC 0 * * * *").due(started, late), Some(at("2026-03-02T12:00[UTC]")));
        assert_eq!(hourly.next_after(Timestamp::MAX), None);
    }

    #[test]
    fn a_schedule_says_itself() {
        assert_eq!(cron(" TZ=Europe/Rome 30 2 * * * ").to_string(), "TZ=Europe/Rome 30 2 * * *");
        assert_eq!(Schedule::Every(Duration::from_secs(21_600)).to_string(), "every 6h");
    }

    /// A wall clock in seconds that goes with the runtime's time, plus what it was set by.
    fn wall(offset: &Arc<AtomicI64>) -> impl Fn() -> Timestamp + use<> {
        let (offset, begun) = (Arc::clone(offset), tokio::time::Instant::now());
        move || {
            let elapsed = SignedDuration::try_from(begun.elapsed()).expect("short");
            let base = Timestamp::from_second(1_767_225_600 + offset.load(Ordering::SeqCst)).expect("a time");
            base + elapsed
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_time_and_soon_after_a_suspension() {
        let offset = Arc::new(AtomicI64::new(0));
        let clock = wall(&offset);
        let begun = tokio::time::Instant::now();
        wait_until(clock() + SignedDuration::from_secs(100), &clock).await;
        assert_eq!(begun.elapsed().as_secs(), 100);
        // A night's sleep, of which the runtime's timers know nothing.
        let asleep = tokio::spawn({
            let offset = Arc::clone(&offset);
            async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                offset.fetch_add(8 * 3_600, Ordering::SeqCst);
            }
        });
        let begun = tokio::time::Instant::now();
        wait_until(clock() + SignedDuration::from_hours(7), &clock).await;
        assert!(begun.elapsed() <= LOOK_EVERY, "{:?}", begun.elapsed());
        asleep.await.expect("sleeps");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_by_a_year_does_not_cost_a_year() {
        for schedule in [Schedule::Every(Duration::from_secs(3_600)), cron("TZ=UTC 0 * * * *")] {
            let offset = Arc::new(AtomicI64::new(0));
            let clock = wall(&offset);
            let begun = tokio::time::Instant::now();
            let setter = tokio::spawn({
                let offset = Arc::clone(&offset);
                async move {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                    offset.fetch_sub(365 * 86_400, Ordering::SeqCst);
                }
            });
            assert!(schedule.wait(clock(), &clock).await);
            assert!((3_500..3_700).contains(&begun.elapsed().as_secs()), "{schedule}: {:?}", begun.elapsed());
            setter.await.expect("sets");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>(), fields in "(TZ=[A-Za-z/]{1,12} )?[-0-9*/,LW#?+@a-zé ]{0,40}") {
            let _ = Schedule::parse_cron(&text);
            let _ = Schedule::parse_cron(&fields);
        }

        #[test]
        fn the_next_time_is_later_and_nothing_lies_between(
            minute in prop_oneof!["[0-9]", "[0-5][0-9]", Just("*/7".to_owned()), Just("*".to_owned())],
            hour in prop_oneof!["[0-9]", Just("2".to_owned()), Just("*".to_owned()), Just("1-4".to_owned())],
            day in prop_oneof!["[1-9]", Just("*".to_owned()), Just("31".to_owned())],
            weekday in prop_oneof![Just("*".to_owned()), "[0-6]"],
            zone in prop_oneof![Just("UTC"), Just("Europe/Rome"), Just("America/St_Johns"), Just("Australia/Lord_Howe")],
            second in 1_700_000_000_i64..2_000_000_000,
            share in 0.0..1.0_f64,
        ) {
            let schedule = cron(&format!("TZ={zone} {minute} {hour} {day} * {weekday}"));
            let now = Timestamp::from_second(second).expect("a time");
            let next = schedule.next_after(now).expect("a next time");
            prop_assert!(next > now);
            #[allow(clippy::cast_possible_truncation)]
            let between = second + ((next.as_second() - second) as f64 * share) as i64;
            let between = Timestamp::from_second(between.min(next.as_second() - 1)).expect("a time");
            prop_assert_eq!(schedule.next_after(between), Some(next));
        }

        #[test]
        fn a_span_is_always_strictly_later(second in -1_000_000_000_i64..10_000_000_000, secs in 1u64..10_000_000) {
            let now = Timestamp::from_second(second).expect("a time");
            let every = Schedule::every(Duration::from_secs(secs)).expect("a span");
            prop_assert!(every.next_after(now).is_some_and(|next| next > now));
        }
    }
}
