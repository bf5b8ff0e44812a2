//! `LIST` as most servers write it, after `ls -l`: vsftpd, proftpd, pure-ftpd and their like.
//!
//! There is no specification. What is relied on: rights first, then somewhere a size, a date in a known style, one blank,
//! and the name. The leftmost place where this fits is taken, so that a name cannot pretend to be a date.

use super::times::{clock, number, recent, seconds, size};
use super::words::{self, marked_numbers, month};
use super::{Found, Kind, Line, When};

/// Reads one line, without its end; `now_s` tells which year is meant where none is given.
pub fn line(line: &[u8], now_s: i64) -> Line<'_> {
    let words = words(line);
    let Some(first) = words.first() else { return Line::Nothing };
    if is_total(&words) {
        return Line::Nothing;
    }
    let Some(kind) = kind(first.text) else { return Line::Strange };
    // Without links, owner and group the size is the second word; an owner may have the name of a month, so last.
    let found = (2..words.len()).chain([1]).find_map(|at| dated(line, &words, at, now_s));
    let Some((size, when, name)) = found else { return Line::Strange };
    if kind == Kind::Link {
        let (name, target) = link(name);
        return Line::Link { name, target };
    }
    if kind == Kind::Folder && (name == b"." || name == b"..") {
        return Line::Nothing;
    }
    Line::Entry(Found { name, kind, size, when })
}

pub(super) struct Word<'a> {
    pub(super) text: &'a [u8],
    end: usize,
}

/// The words up to where a name must have begun: its words are of no interest.
pub(super) fn words(line: &[u8]) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut begin = None;
    for (index, byte) in line.iter().chain(b" ").enumerate() {
        match (byte.is_ascii_whitespace(), begin) {
            (false, None) => begin = Some(index),
            (true, Some(from)) => {
                words.push(Word { text: line.get(from..index).unwrap_or_default(), end: index });
                begin = None;
            }
            _ => {}
        }
        if words.len() == 16 {
            break;
        }
    }
    words
}

fn is_total(words: &[Word<'_>]) -> bool {
    match words {
        [first, rest @ ..] => words::is_total(first.text) && rest.len() <= 2,
        [] => false,
    }
}

/// Ten letters of type and rights, perhaps with a sign for more rights behind them.
fn kind(rights: &[u8]) -> Option<Kind> {
    if !(10..=11).contains(&rights.len()) || !rights.iter().all(|byte| b"-dlbcpsDrwxStT+.@Ll".contains(byte))
    {
        return None;
    }
    match rights.first()? {
        b'-' => Some(Kind::File),
        b'd' => Some(Kind::Folder),
        b'l' => Some(Kind::Link),
        b'b' | b'c' | b'p' | b's' | b'D' => Some(Kind::Other),
        _ => None,
    }
}

/// If word `at` is a size with a date behind it: both, and the name behind them.
pub(super) fn dated<'a>(
    line: &'a [u8],
    words: &[Word<'a>],
    at: usize,
    now_s: i64,
) -> Option<(Option<u64>, When, &'a [u8])> {
    let digits = words.get(at)?.text;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let behind = words.get(at + 1..)?.iter().take(5).map(|word| word.text).collect::<Vec<_>>();
    let (when, length) = in_digits(&behind)
        .or_else(|| named_month(&behind, now_s))
        .or_else(|| marked(&behind, now_s))
        .or_else(|| short_digits(&behind, now_s))?;
    let end = words.get(at + length)?.end;
    let name = line.get(end + 1..)?;
    // A day alone is padded to the width of a day with its time.
    let name = match length {
        1 => name.strip_prefix(b" ").unwrap_or(name),
        _ => name,
    };
    // A number that is too large for a size is still a place where one stands.
    (!name.is_empty()).then_some((size(digits), when, name))
}

/// `Jan 31 12:34`, `Jan 31 2024`, `31. Jan 12:34`; also how many words that is.
fn named_month(words: &[&[u8]], now_s: i64) -> Option<(When, usize)> {
    let [first, second, rest @ ..] = words else { return None };
    let (month, day) = match month(first) {
        Some(month) => (month, day(second)?),
        None => (month(second)?, day(first)?),
    };
    let (when, length) = time_or_year((month, day), rest, now_s)?;
    Some((when, 2 + length))
}

/// `18`, `18.` or `18日`.
fn day(text: &[u8]) -> Option<i8> {
    let digits = text.strip_suffix(b".").or_else(|| text.strip_suffix(b",")).unwrap_or(text);
    let day = number(digits).or_else(|| single(text))?;
    i8::try_from(day).ok().filter(|day| (1..=31).contains(day))
}

fn year(text: &[u8]) -> Option<i16> {
    let digits = text.strip_suffix(b".").unwrap_or(text);
    let year = number(digits).or_else(|| single(text))?;
    i16::try_from(year).ok().filter(|year| (1_900..10_000).contains(year))
}

fn single(text: &[u8]) -> Option<u64> {
    match marked_numbers(text)?.as_slice() {
        [number] => Some(*number),
        _ => None,
    }
}

/// A time of day, which stands for the last year in which the day has been, or a year; also how many words that is.
/// Without a time of day it says little. BSD writes both, and only then seconds.
fn time_or_year((month, day): (i8, i8), words: &[&[u8]], now_s: i64) -> Option<(When, usize)> {
    let (first, second) = (words.first()?, words.get(1));
    let somewhere = |time_s: Option<i64>| time_s.map_or(When::Unknown, When::Somewhere);
    if let Some(time) = clock(first) {
        let has_seconds = first.split(|byte| *byte == b':').count() == 3;
        return match second.filter(|_| has_seconds).and_then(|text| year(text)) {
            Some(year) => Some((somewhere(seconds((year, month, day), time)), 2)),
            None => Some((somewhere(recent((month, day), time, now_s)), 1)),
        };
    }
    let midnight = seconds((year(first)?, month, day), (0, 0, 0));
    Some((midnight.map_or(When::Unknown, When::Roughly), 1))
}

/// Dates of East Asian locales: `3月 18 12:34`, `11月18日 12:34`, `2026年 3月 18日`; also how many words that is.
fn marked(words: &[&[u8]], now_s: i64) -> Option<(When, usize)> {
    let first = marked_numbers(words.first()?)?;
    let small = |number: u64| i8::try_from(number).ok();
    let is_day = |(month, day): (i8, i8)| (1..=12).contains(&month) && (1..=31).contains(&day);
    let full = |year: u64, month_day: (i8, i8), length: usize| {
        let year = i16::try_from(year).ok().filter(|year| (1_900..10_000).contains(year))?;
        let date = (year, month_day.0, month_day.1);
        match words.get(length).and_then(|text| clock(text)) {
            Some(time) => Some((seconds(date, time).map_or(When::Unknown, When::Somewhere), length + 1)),
            None => Some((seconds(date, (0, 0, 0)).map_or(When::Unknown, When::Roughly), length)),
        }
    };
    let (month_day, length) = match *first.as_slice() {
        [year, month, day] => return full(year, (small(month)?, small(day)?), 1),
        [month, day] => ((small(month)?, small(day)?), 1),
        [year] if year >= 1_900 => {
            let month_day = match marked_numbers(words.get(1)?)?.as_slice() {
                [month] => (small(*month)?, day(words.get(2)?)?),
                [month, day] => return full(year, (small(*month)?, small(*day)?), 2),
                _ => return None,
            };
            return full(year, month_day, 3);
        }
        [month] => ((small(month)?, day(words.get(1)?)?), 2),
        _ => return None,
    };
    let (when, more) =
        time_or_year(Some(month_day).filter(|date| is_day(*date))?, words.get(length..)?, now_s)?;
    Some((when, length + more))
}

/// `03-18 12:34` or `2023-03-18`, which `ls` writes in its style `iso`; also how many words that is.
fn short_digits(words: &[&[u8]], now_s: i64) -> Option<(When, usize)> {
    let first = words.first()?;
    let parts = first.split(|byte| *byte == b'-').map(number).collect::<Option<Vec<_>>>()?;
    let small = |number: u64| i8::try_from(number).ok();
    match *parts.as_slice() {
        [month, day] if first.len() == 5 => {
            let time = clock(words.get(1)?)?;
            let month_day = (small(month)?, small(day)?);
            Some((recent(month_day, time, now_s).map_or(When::Unknown, When::Somewhere), 2))
        }
        [year, month, day] if first.len() == 10 => {
            let date = (i16::try_from(year).ok()?, small(month)?, small(day)?);
            Some((When::Roughly(seconds(date, (0, 0, 0))?), 1))
        }
        _ => None,
    }
}

/// `2024-01-31 12:34`, perhaps with seconds, a fraction and a zone; also how many words that is.
fn in_digits(words: &[&[u8]]) -> Option<(When, usize)> {
    let [date, time, rest @ ..] = words else { return None };
    let mut parts = date.split(|byte| *byte == b'-');
    let mut next = || parts.next().and_then(number);
    let (year, month, day) = (next()?, next()?, next()?);
    let date = (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let time = clock(time.split(|byte| *byte == b'.').next()?)?;
    let time_s = seconds(date, time)?;
    match rest.first().and_then(|zone| zone_s(zone)) {
        Some(zone_s) => Some((When::Utc(time_s - zone_s), 3)),
        None => Some((When::Somewhere(time_s), 2)),
    }
}

/// `+0130` is 5,400 seconds.
fn zone_s(text: &[u8]) -> Option<i64> {
    let (sign, digits) = text.split_first()?;
    let value = i64::try_from(number(digits).filter(|_| digits.len() == 4)?).ok()?;
    let zone_s = (value / 100) * 3_600 + (value % 100) * 60;
    match sign {
        b'+' => Some(zone_s),
        b'-' => Some(-zone_s),
        _ => None,
    }
}

/// `name -> target`.
fn link(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let arrow = text.windows(4).position(|bytes| bytes == b" -> ");
    match arrow.and_then(|at| Some((text.get(..at)?, text.get(at + 4..)?))) {
        Some((name, target)) => (name, Some(target)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stamp;
    use super::*;

    fn now_s() -> i64 {
        stamp(b"20240310120000").expect("a time")
    }

    fn read(text: &str) -> Line<'_> {
        line(text.as_bytes(), now_s())
    }

    fn entry(name: &str, kind: Kind, size: u64, when: When) -> Line<'_> {
        Line::Entry(Found { name: name.as_bytes(), kind, size: Some(size), when })
    }

    #[test]
    fn lines_of_real_servers_are_read() {
        let march = When::Somewhere(stamp(b"20240301123400").expect("a time"));
        for (text, expected) in [
            (
                "-rw-r--r--    1 0        0             123 Mar 01 12:34 a b.txt",
                entry("a b.txt", Kind::File, 123, march),
            ),
            (
                "-rw-r--r--   1 ftp      ftp           123 Mar  1 12:34 Grüße",
                entry("Grüße", Kind::File, 123, march),
            ),
            (
                "-rw-r--r--    1 0          0                 123 Mar  1  2021 x",
                entry("x", Kind::File, 123, When::Roughly(stamp(b"20210301000000").expect("a time"))),
            ),
            (
                "drwxr-xr-x+  2 me domain users 4096 Mar  1 12:34 sub",
                entry("sub", Kind::Folder, 4_096, march),
            ),
            (
                "lrwxrwxrwx   1 0 0 3 Mar  1 12:34 link -> ../etc",
                Line::Link { name: b"link", target: Some(b"../etc") },
            ),
            ("crw-rw-rw- 1 root root 1, 3 Mar  1 12:34 null", entry("null", Kind::Other, 3, march)),
            ("-rw-r--r-- 1 me 123 Mar  1 12:34 no group", entry("no group", Kind::File, 123, march)),
            ("-rw-r--r-- 1 0 0 123 2024-03-01 12:34 x", entry("x", Kind::File, 123, march)),
            (
                "-rw-r--r-- 1 0 0 123 2024-03-01 13:34:00.000000000 +0100 x",
                entry("x", Kind::File, 123, When::Utc(stamp(b"20240301123400").expect("a time"))),
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    fn somewhere(time: &[u8]) -> When {
        When::Somewhere(stamp(time).expect("a time"))
    }

    fn roughly(time: &[u8]) -> When {
        When::Roughly(stamp(time).expect("a time"))
    }

    #[test]
    fn dates_of_other_languages_are_read() {
        let (recent, old) = (somewhere(b"20240301123400"), roughly(b"20210301000000"));
        for (text, when) in [
            ("Mär  1 12:34", recent),
            ("1. Mär 12:34", recent),
            (" 1 Mrz 12:34", recent),
            ("mars   1  2021", old),
            (" 1 mars  2021", old),
            ("мар  1 12:34", recent),
            (" 1 марта 12:34", recent),
            (" 3月  1 12:34", recent),
            (" 3月  1  2021", old),
            ("3月 1 2021年", old),
            ("3月1日 12:34", recent),
            ("2021年 3月  1日", old),
            ("2021年3月1日", old),
            (" 3월  1 12:34", recent),
            ("márc.  1 12:34", recent),
            ("mar. 1. 12:34", recent),
            ("03-01 12:34", recent),
            ("2021-03-01 ", old),
            ("Mar  1 12:34:00 2024", recent),
        ] {
            let line = format!("-rw-r--r--   1 ada  lab     7 {text} a b");
            assert_eq!(read(&line), entry("a b", Kind::File, 7, when), "{line}");
        }
        let latin1 = b"-rw-r--r-- 1 ada lab 7 M\xe4r  1 12:34 caf\xe9";
        let expected = Found { name: b"caf\xe9", kind: Kind::File, size: Some(7), when: recent };
        assert_eq!(line(latin1, now_s()), Line::Entry(expected));
    }

    #[test]
    fn columns_may_be_missing() {
        let march = somewhere(b"20240301123400");
        for (text, name, kind, size) in [
            ("-rw-r--r-- 7 Mar  1 12:34 a", "a", Kind::File, 7),
            ("-rw-r--r--   1 7 Mar  1 12:34 a", "a", Kind::File, 7),
            ("drwxrwxr-x               folder        2 Mar  1 12:34 net", "net", Kind::Folder, 2),
            ("-------r--         326  1391972  1392298 Mar  1 12:34 a", "a", Kind::File, 1_392_298),
            // An owner whose name is a month.
            ("-rw-r--r-- 1 jan 12 2001 Mar  1 12:34 a", "a", Kind::File, 2_001),
            ("-rw-r--r-- 1 may may 18 Mar  1 12:34 a", "a", Kind::File, 18),
        ] {
            assert_eq!(read(text), entry(name, kind, size, march), "{text}");
        }
    }

    #[test]
    fn totals_blanks_and_the_folder_itself_are_nothing() {
        for text in [
            "total 12",
            "total 4.0K",
            "Gesamt 12",
            "insgesamt 12",
            "合計 12",
            "итого 12",
            "",
            "   ",
            "drwxr-xr-x 2 0 0 4096 Mar  1 12:34 .",
            "drwxr-xr-x 2 0 0 4096 Mar  1 12:34 ..",
        ] {
            assert_eq!(read(text), Line::Nothing, "{text}");
        }
    }

    #[test]
    fn a_name_cannot_pretend_to_be_a_date() {
        let text = "-rw-r--r-- 1 0 0 7 Mar  1 12:34 9 Jan  2 2001 evil";
        assert!(matches!(read(text), Line::Entry(Found { name: b"9 Jan  2 2001 evil", size: Some(7), .. })));
    }

    #[test]
    fn impossible_sizes_are_no_sizes_but_names_stay_in_place() {
        let text = "-rw-r--r-- 1 0 0 18446744073709551616 Mar  1 12:34 big";
        assert!(matches!(read(text), Line::Entry(Found { name: b"big", size: None, .. })));
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        for text in [
            "hello",
            "-rw-r--r-- 1 0 0 123 Mar  1 12:34",
            "-rw-r--r-- 1 0 0 x Foo 1 12:34 a",
            "zrw-r--r-- 1 0 0 1 Mar 1 12:34 a",
        ] {
            assert_eq!(read(text), Line::Strange, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), now_s: i64) {
            let _ = line(&bytes, now_s);
        }

        #[test]
        fn any_near_miss_is_read_without_harm(text in "[-dl][rwx-]{9} +[0-9]{1,3} [a-z0-9]{1,5} [0-9]{1,25} (Mar|Foo|2024-01-0)[ 0-9]{1,3} [0-9:]{1,6} .{0,9}") {
            let _ = line(text.as_bytes(), now_s());
        }

        #[test]
        fn what_was_written_is_read(name in "[^\r\n\0]{1,40}", size in 0..i64::MAX as u64, ago_s in 0i64..10_000_000) {
            let time_s = (now_s() - ago_s) / 60 * 60;
            let when = jiff::Timestamp::from_second(time_s).expect("a time").strftime("%b %e %H:%M").to_string();
            let written = format!("-rw-r--r--    1 0        0        {size:>10} {when} {name}");
            let expected = Found { name: name.as_bytes(), kind: Kind::File, size: Some(size), when: When::Somewhere(time_s) };
            prop_assert_eq!(line(written.as_bytes(), now_s()), Line::Entry(expected));
        }
    }
}
