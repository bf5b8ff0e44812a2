//! `LIST` as most servers write it, after `ls -l`: vsftpd, proftpd, pure-ftpd and their like.
//!
//! Nobody ever specified it. What is relied on: rights first, then somewhere a size, a date in one of three styles, one
//! blank, and the name. The leftmost place where this fits is taken, so that a name cannot pretend to be a date.

use super::times::{clock, month, number, recent, seconds, size};
use super::{Found, Kind, Line, When};

/// Reads one line, without its end; `now_s` tells which year is meant where none is given.
pub fn line(line: &[u8], now_s: i64) -> Line<'_> {
    let words = words(line);
    let Some(first) = words.first() else { return Line::Nothing };
    if is_total(line, &words) {
        return Line::Nothing;
    }
    let Some(kind) = kind(first.text) else { return Line::Strange };
    let found = (2..words.len()).find_map(|at| dated(line, &words, at, now_s));
    let Some((size, when, name)) = found else { return Line::Strange };
    let name = if kind == Kind::Other { without_target(name) } else { name };
    if kind == Kind::Folder && (name == b"." || name == b"..") {
        return Line::Nothing;
    }
    Line::Entry(Found { name, kind, size, when })
}

struct Word<'a> {
    text: &'a [u8],
    end: usize,
}

/// The words up to where a name must have begun: its words are of no interest.
fn words(line: &[u8]) -> Vec<Word<'_>> {
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

fn is_total(line: &[u8], words: &[Word<'_>]) -> bool {
    line.to_ascii_lowercase().starts_with(b"total") && words.len() <= 3
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
        b'l' | b'b' | b'c' | b'p' | b's' | b'D' => Some(Kind::Other),
        _ => None,
    }
}

/// If word `at` is a size with a date behind it: both, and the name behind them.
fn dated<'a>(
    line: &'a [u8],
    words: &[Word<'a>],
    at: usize,
    now_s: i64,
) -> Option<(Option<u64>, When, &'a [u8])> {
    number(words.get(at)?.text).or_else(|| is_huge(words.get(at)?.text).then_some(0))?;
    let text = |ahead: usize| words.get(at + ahead).map(|word| word.text);
    let (when, length) = named_month(text(1)?, text(2)?, text(3)?, now_s)
        .map(|when| (when, 3))
        .or_else(|| in_digits(text(1)?, text(2)?, text(3)))?;
    let end = words.get(at + length)?.end;
    let name = line.get(end + 1..).filter(|name| !name.is_empty())?;
    Some((size(words.get(at)?.text), when, name))
}

/// A number that is no size: still a place where one stands.
fn is_huge(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// `Jan 31 12:34` or `Jan 31 2024`. Without a time of day it says little.
fn named_month(month_name: &[u8], day: &[u8], rest: &[u8], now_s: i64) -> Option<When> {
    let month = month(month_name)?;
    let day = i8::try_from(number(day)?).ok().filter(|day| (1..=31).contains(day))?;
    if let Some(time) = clock(rest) {
        return Some(recent((month, day), time, now_s).map_or(When::Unknown, When::Somewhere));
    }
    let year = number(rest).filter(|year| (1_900..10_000).contains(year))?;
    let midnight = i16::try_from(year).ok().and_then(|year| seconds((year, month, day), (0, 0, 0)));
    Some(midnight.map_or(When::Unknown, When::Roughly))
}

/// `2024-01-31 12:34`, perhaps with seconds, a fraction and a zone; also how many words that is.
fn in_digits(date: &[u8], time: &[u8], zone: Option<&[u8]>) -> Option<(When, usize)> {
    let mut parts = date.split(|byte| *byte == b'-');
    let mut next = || parts.next().and_then(number);
    let (year, month, day) = (next()?, next()?, next()?);
    let date = (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let time = clock(time.split(|byte| *byte == b'.').next()?)?;
    let time_s = seconds(date, time)?;
    match zone.and_then(zone_s) {
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

fn without_target(name: &[u8]) -> &[u8] {
    let arrow = name.windows(4).position(|bytes| bytes == b" -> ");
    arrow.and_then(|at| name.get(..at)).unwrap_or(name)
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
            ("lrwxrwxrwx   1 0 0 3 Mar  1 12:34 link -> ../etc", entry("link", Kind::Other, 3, march)),
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

    #[test]
    fn totals_blanks_and_the_folder_itself_are_nothing() {
        for text in [
            "total 12",
            "total 4.0K",
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
