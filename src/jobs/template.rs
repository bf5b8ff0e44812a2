//! Names that are known without a listing: `%Y/%m/%d/frame-%H%M%S.gwf`, one every so often.
//!
//! Times are the multiples of the step since 1970, written by `strftime` in UTC, or in the zone that stands before the
//! template (`TZ=Europe/Rome %Y…`). Who follows a stream whose names it can predict asks here what comes next; a source
//! is then never asked for a list, as some of them wish.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::schedule::{ScheduleError, split_zone};
use crate::fetch::{Name, NameError};

/// Longer templates are nobody's.
const LONGEST: usize = 1_024;

/// The most folders above a name.
const DEEPEST: usize = 64;

/// The most steps that one call looks at: what is further away is for the next call.
const MOST_STEPS: usize = 100_000;

/// Longer steps than this are nobody's: ten years.
const LONGEST_STEP_S: i64 = 10 * 366 * 86_400;

/// A moment with which a template is tried.
const SOME_MOMENT: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// One that differs from it in everything that can be written of a moment: the year, with and without its century, the month,
/// the day, its weekday, the hour, the minute and the second.
const ANOTHER_MOMENT: Timestamp =
    Timestamp::constant(4_102_444_800 + 40 * 86_400 + 13 * 3_600 + 14 * 60 + 15, 0);

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Longer than anybody's.
    #[error("a template longer than {LONGEST} bytes")]
    TooLong,
    /// Not a step.
    #[error("a step must be from 1s to 10 years, in whole seconds")]
    Step,
    /// Not a zone that this machine knows.
    #[error("`{0}` is not a time zone; write for example TZ=Europe/Rome")]
    Zone(String),
    /// Not what strftime knows.
    #[error("`{0}` is not a template; write for example %Y/%m/%d/frame-%H%M%S.gwf: {1}")]
    Format(String, String),
    /// It is the same at all times.
    #[error("`{0}` makes the same name at all times; write for example %Y/%m/%d/frame-%H%M%S.gwf")]
    Constant(String),
    /// It makes a name that is none.
    #[error("`{template}` makes the name `{name}`: {why}")]
    Name {
        /// As it was written.
        template: String,
        /// What became of it.
        name: String,
        /// What is wrong with that.
        why: NameError,
    },
    /// Too many folders.
    #[error("a template with more than {DEEPEST} folders")]
    TooDeep,
}

/// A template of names, and how often there is a new one.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    zone: TimeZone,
    step_s: i64,
}

impl Template {
    /// Reads a template, and tries it once.
    pub fn parse(text: &str, step: Duration) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError::TooLong);
        }
        let step_s = i64::try_from(step.as_secs()).unwrap_or(i64::MAX);
        if step.subsec_nanos() != 0 || !(1..=LONGEST_STEP_S).contains(&step_s) {
            return Err(TemplateError::Step);
        }
        let (zone, text) = split_zone(text.trim()).map_err(|error| match error {
            ScheduleError::Zone(name) => TemplateError::Zone(name),
            other => TemplateError::Zone(other.to_string()),
        })?;
        let template = Self { text: text.to_owned(), zone: zone.unwrap_or(TimeZone::UTC), step_s };
        if template.name_at(SOME_MOMENT)? == template.name_at(ANOTHER_MOMENT)? {
            return Err(TemplateError::Constant(template.text));
        }
        Ok(template)
    }

    /// How often there is a new name.
    pub fn step(&self) -> Duration {
        Duration::from_secs(self.step_s.unsigned_abs())
    }

    /// The name of this moment: the folders, and the file last.
    pub fn name_at(&self, at: Timestamp) -> Result<Vec<Name>, TemplateError> {
        let zoned = at.to_zoned(self.zone.clone());
        let text = strtime::format(&self.text, &zoned)
            .map_err(|error| TemplateError::Format(self.text.clone(), error.to_string()))?;
        let names = text.split('/').map(|part| {
            Name::new(part).map_err(|why| TemplateError::Name {
                template: self.text.clone(),
                name: part.to_owned(),
                why,
            })
        });
        let names = names.take(DEEPEST + 1).collect::<Result<Vec<_>, _>>()?;
        if names.len() > DEEPEST { Err(TemplateError::TooDeep) } else { Ok(names) }
    }

    /// The names of the moments after `after` (from the last moment before `until` on, if there is none) until `until`, each
    /// once if steps in a row have the same. A call looks at a bounded number of steps; [`Names::reached`] is where
    /// the next call begins.
    pub fn names_after(&self, after: Option<Timestamp>, until: Timestamp) -> Names<'_> {
        let last = until.as_second().div_euclid(self.step_s);
        let first = match after {
            Some(after) => after.as_second().div_euclid(self.step_s).saturating_add(1),
            None => last,
        };
        // So that the first new step with an old name is not reported again.
        let before = after.and_then(|after| self.moment(after.as_second().div_euclid(self.step_s)));
        let previous = before.and_then(|before| self.name_at(before).ok());
        Names { template: self, next: first, last, left: MOST_STEPS, previous }
    }

    fn moment(&self, step: i64) -> Option<Timestamp> {
        Timestamp::from_second(step.checked_mul(self.step_s)?).ok()
    }
}

/// Moments and their names, in order.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    template: &'a Template,
    /// In steps since 1970.
    next: i64,
    last: i64,
    left: usize,
    previous: Option<Vec<Name>>,
}

impl Names<'_> {
    /// The last moment that was looked at; `None` before the first.
    pub fn reached(&self) -> Option<Timestamp> {
        self.template.moment(self.next.checked_sub(1)?).filter(|_| self.left < MOST_STEPS)
    }
}

impl Iterator for Names<'_> {
    type Item = (Timestamp, Vec<Name>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.next <= self.last && self.left > 0 {
            let step = self.next;
            self.next += 1;
            self.left -= 1;
            // A moment whose name is none (a zone's odd abbreviation, say) has no file.
            let Some(at) = self.template.moment(step) else { continue };
            let Ok(name) = self.template.name_at(at) else { continue };
            if self.previous.as_ref() != Some(&name) {
                self.previous = Some(name.clone());
                return Some((at, name));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(text: &str, step_s: u64) -> Template {
        Template::parse(text, Duration::from_secs(step_s)).expect(text)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    fn paths(names: Names<'_>) -> Vec<String> {
        names.map(|(_, names)| names.iter().map(Name::as_str).collect::<Vec<_>>().join("/")).collect()
    }

    #[test]
    fn a_template_that_is_the_same_at_all_times_is_none() {
        let parse = |text: &str| Template::parse(text, Duration::from_secs(60));
        for text in ["frame.gwf", "%%Y/frame", "a/b", "TZ=Europe/Rome frame"] {
            assert!(matches!(parse(text), Err(TemplateError::Constant(_))), "{text}: {:?}", parse(text));
        }
        for text in
            ["%Y", "%C", "%y", "%m", "%d", "%j", "%H", "%I", "%M", "%S", "%a", "%b", "%p", "%s", "%u", "%V"]
        {
            assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn names_come_at_the_multiples_of_the_step_over_midnight() {
        let frames = template("%Y/%m/%d/frame-%H%M%S.gwf", 600);
        let names = frames.names_after(Some(at("2026-12-31T23:41:07Z")), at("2027-01-01T00:10:00Z"));
        assert_eq!(
            paths(names),
            ["2026/12/31/frame-235000.gwf", "2027/01/01/frame-000000.gwf", "2027/01/01/frame-001000.gwf"]
        );
        let moments: Vec<_> =
            frames.names_after(Some(at("2026-12-31T23:50:00Z")), at("2027-01-01T00:00:00Z")).collect();
        assert_eq!(moments.len(), 1);
        assert_eq!(moments[0].0, at("2027-01-01T00:00:00Z"));
    }

    #[test]
    fn without_a_past_there_is_the_newest_name_only_and_nothing_from_the_future() {
        let frames = template("%H%M", 60);
        assert_eq!(paths(frames.names_after(None, at("2026-01-01T08:30:59Z"))), ["0830"]);
        let now = at("2026-01-01T08:30:59Z");
        assert_eq!(frames.names_after(Some(now), now).count(), 0);
        assert_eq!(frames.names_after(Some(at("2026-02-01T00:00Z")), now).count(), 0);
    }

    #[test]
    fn steps_that_give_the_same_name_give_it_once_across_calls_too() {
        let daily = template("%Y%m%d.dat", 3_600);
        let (from, until) = (at("2026-01-01T05:00Z"), at("2026-01-03T07:00Z"));
        assert_eq!(paths(daily.names_after(Some(from), until)), ["20260102.dat", "20260103.dat"]);
    }

    #[test]
    fn another_zone_is_written_by_its_clocks() {
        let rome = template("TZ=Europe/Rome %d-%H%M", 3_600);
        let names = rome.names_after(Some(at("2026-03-29T00:00:00Z")), at("2026-03-29T02:00:00Z"));
        assert_eq!(paths(names), ["29-0300", "29-0400"]);
        // In the double hour of autumn two moments have one name.
        let names = rome.names_after(Some(at("2026-10-24T23:00:00Z")), at("2026-10-25T02:00:00Z"));
        assert_eq!(paths(names), ["25-0200", "25-0300"]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let parse = |text: &str| Template::parse(text, Duration::from_secs(60)).expect_err(text);
        assert!(matches!(parse("%Y/%!"), TemplateError::Format(..)));
        assert!(matches!(parse("../%Y"), TemplateError::Name { why: NameError::NotAName, .. }));
        assert!(matches!(parse("/%Y"), TemplateError::Name { .. }));
        assert!(matches!(parse("%Y/"), TemplateError::Name { .. }));
        assert!(Template::parse("%H:%M", Duration::from_secs(60)).is_ok());
        assert_eq!(parse("TZ=Mars/Olympus %Y"), TemplateError::Zone("Mars/Olympus".into()));
        assert_eq!(parse(&"x".repeat(2_000)), TemplateError::TooLong);
        assert_eq!(parse(&"x/".repeat(80)), TemplateError::TooDeep);
        for step in [Duration::ZERO, Duration::from_millis(1_500), Duration::MAX] {
            assert_eq!(Template::parse("%Y", step).expect_err("no step"), TemplateError::Step);
        }
    }

    #[test]
    fn a_long_past_is_given_in_pieces_and_nothing_is_lost() {
        for (text, expected) in [("%s", 36 * 3_600), ("%Y%m%d", 1), ("%Y", 0)] {
            let frames = template(text, 1);
            let (mut after, until) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T12:00:00Z"));
            let (mut count, mut calls) = (0, 0);
            while after < until {
                let mut names = frames.names_after(Some(after), until);
                count += names.by_ref().count();
                calls += 1;
                after = names.reached().expect("something was looked at");
            }
            assert_eq!((count, calls), (expected, 2), "{text}");
        }
    }

    proptest! {
        #[test]
        fn moments_grow_and_stay_between(after in 0i64..4_000_000_000, span in 0i64..100_000, step in 1u64..5_000) {
            let frames = template("%Y/%j/%H%M%S", step);
            let (from, until) = (Timestamp::from_second(after).expect("a time"), Timestamp::from_second(after + span).expect("a time"));
            let mut last = from;
            for (moment, names) in frames.names_after(Some(from), until) {
                prop_assert!(last < moment && moment <= until);
                prop_assert_eq!(moment.as_second().unsigned_abs() % step, 0);
                prop_assert_eq!(names.len(), 3);
                last = moment;
            }
            prop_assert!(until.as_second() - last.as_second() < i64::try_from(step).expect("small") || last == from);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>(), odd in "[%a-zA-Z0-9/_:.^#-]{0,30}") {
            for text in [text, odd] {
                if let Ok(template) = Template::parse(&text, Duration::from_secs(3_600)) {
                    let until = SOME_MOMENT;
                    prop_assert!(template.names_after(None, until).count() <= 1);
                }
            }
        }
    }
}
