//! Dates in the rows of index pages: numeric, with month names in several languages, with 12-hour and 24-hour clocks.
//!
//! A date that can be read in two ways (`05/04/2026`), or that lacks its year, is found but has no value.

use super::times::seconds;
use super::words::month_of_word;

/// Endings that full names of months have behind the prefixes: longer words are not months.
const LONGEST_MONTH_CHARS: usize = 12;

/// A date in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateFound {
    /// Where it begins and ends, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Seconds since 1970 as if it were UTC, or in the zone that it states; `None` if it cannot be told.
    pub(super) time_s: Option<i64>,
}

/// Every date in a text.
pub(super) fn find_all(text: &str) -> Vec<DateFound> {
    let tokens = scan(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let parser = Parser { tokens: &tokens, at };
        match parser.date_and_time() {
            Some((next, time_s)) => {
                let start = tokens.get(at).map_or(0, |token| token.start);
                let end = tokens.get(next.saturating_sub(1)).map_or(text.len(), |token| token.end);
                found.push(DateFound { start, end, time_s });
                at = next.max(at + 1);
            }
            None => at += 1,
        }
    }
    found
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Number { value: u32, digits: usize },
    Word(String),
    Blank,
    Other(char),
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

fn scan(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let class = |c: char| match c {
            '0'..='9' => 0,
            '年' | '月' | '日' => 3,
            _ if c.is_alphabetic() => 1,
            _ if c.is_whitespace() => 2,
            _ => 3,
        };
        let mut end = start + c.len_utf8();
        if class(c) < 3 {
            while let Some((_, next)) = chars.next_if(|(_, next)| class(*next) == class(c)) {
                end += next.len_utf8();
            }
        }
        let word = text.get(start..end).unwrap_or_default();
        let kind = match class(c) {
            0 => Kind::Number { value: word.parse().unwrap_or(u32::MAX), digits: word.len() },
            1 => Kind::Word(word.to_lowercase()),
            2 => Kind::Blank,
            _ => Kind::Other(c),
        };
        tokens.push(Token { kind, start, end });
    }
    tokens
}

/// Reads one date from a position. Every step returns the position behind it.
#[derive(Clone, Copy)]
struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

type Day = (i16, i8, i8);
type Clock = (i8, i8, i8);

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn number(&mut self, least_digits: usize, most_digits: usize) -> Option<u32> {
        match self.peek(0) {
            Some(Kind::Number { value, digits }) if (least_digits..=most_digits).contains(digits) => {
                let value = *value;
                self.at += 1;
                Some(value)
            }
            _ => None,
        }
    }

    fn small(&mut self) -> Option<i8> {
        self.number(1, 2).and_then(|value| i8::try_from(value).ok())
    }

    fn year(&mut self) -> Option<i16> {
        let year = self.number(4, 4).and_then(|value| i16::try_from(value).ok())?;
        (1970..=2200).contains(&year).then_some(year)
    }

    fn month(&mut self) -> Option<i8> {
        let Some(Kind::Word(word)) = self.peek(0) else { return None };
        let month = month(word)?;
        self.at += 1;
        self.other('.');
        Some(month)
    }

    fn other(&mut self, wanted: char) -> bool {
        let is_there = self.peek(0) == Some(&Kind::Other(wanted));
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self, wanted: &[&str]) -> bool {
        let is_there = matches!(self.peek(0), Some(Kind::Word(word)) if wanted.contains(&word.as_str()));
        self.at += usize::from(is_there);
        is_there
    }

    fn blank(&mut self) -> bool {
        let is_there = self.peek(0) == Some(&Kind::Blank);
        self.at += usize::from(is_there);
        is_there
    }

    /// One separator out of `-`, `/`, `.`; or blanks; or nothing.
    fn separator(&mut self) -> Option<char> {
        for wanted in ['-', '/', '.'] {
            if self.other(wanted) {
                self.blank();
                return Some(wanted);
            }
        }
        self.blank().then_some(' ')
    }

    /// A date with the time behind it, if there is one.
    fn date_and_time(mut self) -> Option<(usize, Option<i64>)> {
        if self.at > 0 && self.is_inside_a_word() {
            return None;
        }
        let day = self.day()?;
        let mut clock = self;
        let Some((time, zone_s)) = clock.time_behind() else {
            return Some((self.at, day.and_then(|day| seconds(day, (0, 0, 0)))));
        };
        self.at = clock.at;
        if day.is_none() {
            // `Wed Nov 18 20:13:12 2026`: the year behind the time is no size.
            clock.blank();
            self.at = clock.year().map_or(self.at, |_| clock.at);
        }
        let time_s = day.and_then(|day| seconds(day, time)).map(|time_s| time_s.saturating_sub(zone_s));
        Some((self.at, time_s))
    }

    /// Digits and letters before this token make it a part of something else.
    fn is_inside_a_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|token| &token.kind);
        match (before, self.peek(0)) {
            (Some(Kind::Number { .. } | Kind::Word(_)), _) => true,
            (Some(Kind::Other(c)), Some(Kind::Number { .. })) => matches!(c, '-' | '/' | '.' | ':' | '_'),
            _ => false,
        }
    }

    /// `None`: no date. `Some(None)`: a date that lacks its year or can be read in two ways.
    #[allow(clippy::option_option, reason = "private, and each level is documented")]
    fn day(&mut self) -> Option<Option<Day>> {
        let ways = [Self::year_first, Self::day_first, Self::month_first, Self::numeric];
        ways.iter().find_map(|way| {
            let mut attempt = *self;
            let day = way(&mut attempt)?;
            self.at = attempt.at;
            Some(day)
        })
    }

    /// `2026-11-18`, `2026-Nov-18`, `2026/11/18`, `2026年11月18日`.
    #[allow(clippy::option_option, reason = "see day")]
    fn year_first(&mut self) -> Option<Option<Day>> {
        let year = self.year()?;
        if self.other('年') {
            let month = self.small()?;
            let day = self.other('月').then(|| self.small()).flatten()?;
            return self.other('日').then_some(Some((year, month, day)));
        }
        let separator = self.separator()?;
        let month = self.month().or_else(|| self.small())?;
        let day = (self.separator()? == separator).then(|| self.small()).flatten()?;
        is_valid(month, day).then_some(Some((year, month, day)))
    }

    /// `18-Nov-2026`, `18 November 2026`, `18. Nov. 2026`, `18Nov2026`, `18 de noviembre de 2026`.
    #[allow(clippy::option_option, reason = "see day")]
    fn day_first(&mut self) -> Option<Option<Day>> {
        let day = self.small()?;
        self.separator();
        self.of();
        let month = self.month()?;
        self.separator();
        self.of();
        let year = self.year()?;
        is_valid(month, day).then_some(Some((year, month, day)))
    }

    fn of(&mut self) {
        if self.word(&["de", "del", "di"]) {
            self.blank();
        }
    }

    /// `Nov 18, 2026`, `Nov 18 2026`; without the year if a time follows: `Nov 18 20:13`.
    #[allow(clippy::option_option, reason = "see day")]
    fn month_first(&mut self) -> Option<Option<Day>> {
        let month = self.month()?;
        self.separator();
        let day = self.small()?;
        if !is_valid(month, day) {
            return None;
        }
        let mut with_year = *self;
        with_year.other(',');
        if with_year.separator().is_some()
            && let Some(year) = with_year.year()
            && with_year.peek(0) != Some(&Kind::Other(':'))
        {
            self.at = with_year.at;
            return Some(Some((year, month, day)));
        }
        let mut with_time = *self;
        with_time.time_behind().map(|_| None)
    }

    /// `18.11.2026`, `18/11/2026`, `11/18/2026`, `18-11-2026`; two-digit years cannot be told from days.
    #[allow(clippy::option_option, reason = "see day")]
    fn numeric(&mut self) -> Option<Option<Day>> {
        let first = self.small()?;
        let separator = self.separator().filter(|separator| *separator != ' ')?;
        let second = self.small()?;
        if self.separator()? != separator {
            return None;
        }
        let Some(year) = self.year() else {
            self.small()?;
            let mut clock = *self;
            return clock.time_behind().map(|_| None);
        };
        let is_day_first = separator == '.' || first > 12 || first == second;
        let day = match (is_valid(second, first), is_valid(first, second)) {
            (true, _) if is_day_first => Some((year, second, first)),
            (false, true) => Some((year, first, second)),
            (true, true) => None,
            _ => return None,
        };
        Some(day)
    }

    /// A time behind a date, and its distance from UTC.
    fn time_behind(&mut self) -> Option<(Clock, i64)> {
        let mut rest = *self;
        rest.other(',');
        rest.blank();
        if rest.word(&["t", "at", "um", "à", "a", "alle", "om", "в"]) {
            rest.blank();
        }
        let clock = rest.clock()?;
        let zone_s = rest.zone();
        self.at = rest.at;
        Some((clock, zone_s))
    }

    /// `15:09`, `15:09:12`, `15:09:12.345`, `3:09 PM`.
    fn clock(&mut self) -> Option<Clock> {
        let hour = self.small()?;
        let minute = self.other(':').then(|| self.number(2, 2)).flatten()?;
        let mut second = 0;
        let mut more = *self;
        if more.other(':') {
            second = more.number(2, 2)?;
            *self = more;
            let mut fraction = *self;
            if (fraction.other('.') || fraction.other(',')) && fraction.number(1, 9).is_some() {
                *self = fraction;
            }
        }
        let hour = self.twelve_hours(hour)?;
        let (minute, second) = (i8::try_from(minute).ok()?, i8::try_from(second).ok()?);
        (hour < 24 && minute < 60 && second <= 60).then_some((hour, minute, second))
    }

    fn twelve_hours(&mut self, hour: i8) -> Option<i8> {
        let mut rest = *self;
        rest.blank();
        let (before_noon, after_noon) = match rest.peek(0) {
            Some(Kind::Word(word)) => match word.as_str() {
                "am" => (true, false),
                "pm" => (false, true),
                "a" | "p" if rest.peek(1) == Some(&Kind::Other('.')) => (word == "a", word == "p"),
                _ => return Some(hour),
            },
            _ => return Some(hour),
        };
        rest.at += 1;
        if rest.other('.') {
            rest.blank();
            rest.word(&["m"]);
            rest.other('.');
        }
        self.at = rest.at;
        match hour {
            1..=12 if before_noon => Some(hour % 12),
            1..=12 if after_noon => Some(hour % 12 + 12),
            _ => None,
        }
    }

    /// `Z`, `UTC`, `GMT`, `+02:00`, `-0700`; nothing is as good as UTC.
    fn zone(&mut self) -> i64 {
        let mut rest = *self;
        rest.blank();
        if rest.word(&["z", "utc", "gmt"]) {
            self.at = rest.at;
            return 0;
        }
        let sign = match rest.peek(0) {
            Some(Kind::Other('+')) => 1,
            Some(Kind::Other('-')) => -1,
            _ => return 0,
        };
        rest.at += 1;
        let (hours, minutes) = match rest.peek(0) {
            Some(Kind::Number { value, digits: 4 }) => (value / 100, value % 100),
            Some(Kind::Number { value, digits: 2 }) if rest.peek(1) == Some(&Kind::Other(':')) => {
                let hours = *value;
                rest.at += 2;
                match rest.peek(0) {
                    Some(Kind::Number { value, digits: 2 }) => (hours, *value),
                    _ => return 0,
                }
            }
            _ => return 0,
        };
        if hours > 15 || minutes > 59 {
            return 0;
        }
        rest.at += 1;
        let mut name = rest;
        name.blank();
        if name.word(&["utc", "gmt"]) {
            rest = name;
        }
        self.at = rest.at;
        sign * i64::from(hours * 60 + minutes) * 60
    }
}

fn is_valid(month: i8, day: i8) -> bool {
    (1..=12).contains(&month) && (1..=31).contains(&day)
}

fn month(word: &str) -> Option<i8> {
    month_of_word(word).filter(|_| word.chars().count() <= LONGEST_MONTH_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<i64> {
        let found = find_all(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found.first().and_then(|found| found.time_s)
    }

    #[test]
    fn dates_are_read_in_every_style_and_language() {
        let minute = seconds((2026, 11, 18), (15, 9, 0));
        for text in [
            "18-Nov-2026 15:09",
            "2026-Nov-18 15:09",
            "2026-11-18 15:09",
            "2026/11/18 15:09",
            "2026-11-18T15:09:00Z",
            "2026-11-18 15:09:00.123",
            "2026-11-18 15:09:00 +0000 UTC",
            "2026-11-18T17:09:00+02:00",
            "2026-11-18 08:09:00 -0700",
            "18Nov2026 15:09",
            "Wed, 18 Nov 2026 15:09:00 GMT",
            "Nov 18, 2026, 3:09:00 PM",
            "Wednesday, November 18, 2026 3:09 PM",
            "11/18/2026  3:09 PM",
            "18/11/2026 15:09",
            "18.11.2026 15:09",
            "18. November 2026 15:09",
            "18 novembre 2026 à 15:09",
            "18 de noviembre de 2026 15:09",
            "18 ноября 2026 15:09",
            "18 listopada 2026 15:09",
            "2026年11月18日 15:09",
        ] {
            assert_eq!(one(text), minute, "{text}");
        }
        assert_eq!(one("2026-03-05 00:00"), seconds((2026, 3, 5), (0, 0, 0)));
        assert_eq!(one("5 März 2026 12:00 AM"), seconds((2026, 3, 5), (0, 0, 0)));
        assert_eq!(one("Aug 18  2025"), seconds((2025, 8, 18), (0, 0, 0)));
        for (number, text) in
            [(2, "fév."), (3, "marzo"), (5, "мая"), (7, "juillet"), (8, "août"), (10, "Okt"), (12, "dic")]
        {
            assert_eq!(month(&text.trim_end_matches('.').to_lowercase()), Some(number), "{text}");
        }
    }

    #[test]
    fn a_date_that_can_be_read_in_two_ways_is_found_without_a_value() {
        for text in ["05/04/2026 15:09", "04-05-2026 15:09", "Nov 18 20:13", "11/18/26  3:09 PM"] {
            assert_eq!(one(text), None, "{text}");
        }
        assert_eq!(one("05/05/2026 15:09"), seconds((2026, 5, 5), (15, 9, 0)));
        assert_eq!(one("05.04.2026"), seconds((2026, 4, 5), (0, 0, 0)));
    }

    #[test]
    fn other_numbers_and_words_are_no_dates() {
        for text in [
            "",
            "1234",
            "1.2.3",
            "12:34",
            "2026",
            "v2026-11-18",
            "1-2-3",
            "10.0.0.1",
            "2026-13-45",
            "May",
            "x 18",
            "99/99/2026",
        ] {
            assert_eq!(find_all(text), [], "{text}");
        }
    }

    #[test]
    fn the_place_of_a_date_is_known() {
        let text = "a 18-Nov-2026 15:09   12";
        let found = find_all(text);
        assert_eq!(found.first().map(|found| (found.start, found.end)), Some((2, 19)));
        assert_eq!(find_all("2026-11-18 15:09  2026-11-19 15:09").len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "[0-9A-Za-z年月日 :/.,+é-]{0,60}") {
            for found in find_all(&text) {
                proptest::prop_assert!(text.get(found.start..found.end).is_some());
            }
        }
    }
}
