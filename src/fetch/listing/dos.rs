//! `LIST` as IIS writes it, after `dir`: `01-31-24  12:34PM  <DIR>  name`, in the styles of different countries.

use super::times::{clock, number, seconds, size};
use super::{Found, Kind, Line, When};

/// The width of the column that holds `<DIR>` or a size, with the blank before the name.
const COLUMN: usize = 15;

/// Reads one line, without its end.
pub fn line(line: &[u8]) -> Line<'_> {
    parse(line).unwrap_or(Line::Strange)
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (date, rest) = word(line)?;
    let (time, rest) = word(rest)?;
    let (half, rest) = match word(rest)? {
        (half, rest) if later(half).is_some() => (Some(half), rest),
        _ => (None, rest),
    };
    let (time, is_half_day) = time_of_day(time, half)?;
    let when = When::Somewhere(seconds(day(date, is_half_day)?, time)?);
    let (what, rest) = word(rest)?;
    if !what.starts_with(b"<") {
        // Files' names stand one blank behind the size.
        let (size, name) = (grouped(what)?, rest.strip_prefix(b" ")?);
        let found = Found { name, kind: Kind::File, size: Some(size), when };
        return (!name.is_empty()).then_some(Line::Entry(found));
    }
    // Others' names are set in a column.
    let blanks = COLUMN.saturating_sub(what.len());
    let is_column = rest.len() > blanks && rest.iter().take(blanks).all(|byte| *byte == b' ');
    let name = if is_column { rest.get(blanks..)? } else { rest.trim_ascii_start() };
    if name.is_empty() {
        return None;
    }
    Some(match what {
        b"<DIR>" | b"<REP>" if matches!(name, b"." | b"..") => Line::Nothing,
        b"<DIR>" | b"<REP>" => Line::Entry(Found { name, kind: Kind::Folder, size: None, when }),
        b"<SYMLINKD>" | b"<SYMLINK>" | b"<JUNCTION>" => {
            let (name, target) = link(name);
            Line::Link { name, target }
        }
        _ => Line::Entry(Found { name, kind: Kind::Other, size: None, when }),
    })
}

/// `name [target]`.
fn link(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let target = || {
        let inside = text.strip_suffix(b"]")?;
        let bracket = inside.windows(2).position(|bytes| bytes == b" [")?;
        Some((inside.get(..bracket)?, inside.get(bracket + 2..)?))
    };
    match target() {
        Some((name, target)) if !name.is_empty() => (name, Some(target)),
        _ => (text, None),
    }
}

/// The first word, and what follows it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace)?;
    text.split_at_checked(end)
}

/// `01-31-24`, `01-31-2024`, `2024-01-31`, `31.01.2024` or `31/01/2024`. Where day and month may be meant either way,
/// hyphens and the half of the day are American.
fn day(text: &[u8], is_half_day: bool) -> Option<(i16, i8, i8)> {
    let separator = *text.iter().find(|byte| b"-./".contains(byte))?;
    let mut parts = text.split(|byte| *byte == separator);
    let mut next = || parts.next().and_then(|part| Some((number(part)?, part.len())));
    let ((a, a_digits), (b, _), (c, c_digits)) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    let small = |value: u64| i8::try_from(value).ok();
    if a_digits == 4 {
        return Some((i16::try_from(a).ok()?, small(b)?, small(c)?));
    }
    let year = if c_digits == 2 { c + if c < 70 { 2_000 } else { 1_900 } } else { c };
    let is_day_first = match separator {
        b'.' => true,
        b'/' => a > 12 || (b <= 12 && !is_half_day),
        _ => a > 12 && b <= 12,
    };
    let (month, day) = if is_day_first { (b, a) } else { (a, b) };
    Some((i16::try_from(year).ok()?, small(month)?, small(day)?))
}

/// Hours to add for `AM`, `PM`, `a`, `p`.
fn later(half: &[u8]) -> Option<i8> {
    match half.to_ascii_uppercase().as_slice() {
        b"AM" | b"A" => Some(0),
        b"PM" | b"P" => Some(12),
        _ => None,
    }
}

/// `12:34PM`, `12:34 PM` or `12:34`, and whether it counts by halves of the day.
fn time_of_day(text: &[u8], half: Option<&[u8]>) -> Option<((i8, i8, i8), bool)> {
    let digits = text.iter().take_while(|byte| !byte.is_ascii_alphabetic()).count();
    let (digits, letters) = text.split_at_checked(digits)?;
    let half = if letters.is_empty() { half } else { Some(letters) };
    let Some(half) = half else { return Some((clock(digits)?, false)) };
    let (hour, minute, second) = clock(digits).filter(|(hour, ..)| (1..=12).contains(hour))?;
    Some(((hour % 12 + later(half)?, minute, second), true))
}

/// A size, perhaps in groups of three digits: `1,234,567`, `1.234.567`, `1'234'567`, or with a narrow blank in whatever
/// encoding.
fn grouped(text: &[u8]) -> Option<u64> {
    if let Some(size) = size(text) {
        return Some(size);
    }
    let mut groups = text.split(|byte| !byte.is_ascii_digit()).filter(|group| !group.is_empty());
    let first = groups.next().filter(|first| first.len() <= 3 && text.starts_with(first))?;
    let mut digits = first.to_vec();
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        digits.extend_from_slice(group);
    }
    let separators = text.split(u8::is_ascii_digit).filter(|separator| !separator.is_empty());
    let is_separator = |separator: &[u8]| {
        matches!(separator, b"," | b"." | b"'" | b"\xa0" | b"\xff" | b"\xc2\xa0" | b"\xe2\x80\xaf")
    };
    let is_sound = text.last().is_some_and(u8::is_ascii_digit) && separators.into_iter().all(is_separator);
    size(&digits).filter(|_| is_sound)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stamp;
    use super::*;

    fn when(text: &[u8]) -> When {
        When::Somewhere(stamp(text).expect("a time"))
    }

    #[test]
    fn lines_of_iis_are_read() {
        for (text, name, kind, size, time) in [
            (
                "01-31-24  12:34PM       <DIR>          a folder",
                "a folder",
                Kind::Folder,
                None,
                b"20240131123400",
            ),
            (
                "01-31-2024  12:04AM                 1234 a file.txt",
                "a file.txt",
                Kind::File,
                Some(1_234),
                b"20240131000400",
            ),
            ("2024-01-31  13:34                 7 x", "x", Kind::File, Some(7), b"20240131133400"),
            (
                "01-31-24  03:09 PM        1,234,567 a b",
                "a b",
                Kind::File,
                Some(1_234_567),
                b"20240131150900",
            ),
            ("31.01.2024  15:09         1.234.567 x", "x", Kind::File, Some(1_234_567), b"20240131150900"),
            ("31/01/2024  15:09             1'234 x", "x", Kind::File, Some(1_234), b"20240131150900"),
            ("31/01/2024  15:09             1\u{a0}234 x", "x", Kind::File, Some(1_234), b"20240131150900"),
            ("01/02/2024  03:09 AM          1,234 x", "x", Kind::File, Some(1_234), b"20240102030900"),
            ("01/02/2024  03:09             1,234 x", "x", Kind::File, Some(1_234), b"20240201030900"),
            ("01-31-24  03:09p                 12 x", "x", Kind::File, Some(12), b"20240131150900"),
            (
                "01-31-24  12:34PM       <DIR>           two blanks",
                " two blanks",
                Kind::Folder,
                None,
                b"20240131123400",
            ),
        ] {
            let expected = Found { name: name.as_bytes(), kind, size, when: when(time) };
            assert_eq!(line(text.as_bytes()), Line::Entry(expected), "{text}");
        }
    }

    #[test]
    fn links_of_windows_are_links() {
        for (text, name, target) in [
            ("01-31-98  01:34PM       <JUNCTION>     link [C:\\x]", &b"link"[..], Some(&b"C:\\x"[..])),
            ("01-31-98  01:34PM       <SYMLINKD>     to there", b"to there", None),
            ("01-31-98  01:34PM       <SYMLINK>      f [..\\g h]", b"f", Some(b"..\\g h")),
        ] {
            assert_eq!(line(text.as_bytes()), Line::Link { name, target }, "{text}");
        }
        assert_eq!(line(b"01-31-98  01:34PM       <DIR>          .."), Line::Nothing);
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        for text in [
            "01-31-24  12:34PM 1,23 x",
            "01-31-24  12:34PM 1234,567 x",
            "01-31-24  12:34PM ,567 x",
            "01-31-24  12:34PM 567, x",
            "01-31-24  12:34PM 1/234 x",
            "01-31-24  12:34PM",
            "13-31-24  12:34PM 7 x",
            "01-31-24 13:34PM 7 x",
            "01-31-24 12:34PM seven x",
            "hello world x y",
        ] {
            assert_eq!(line(text.as_bytes()), Line::Strange, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = line(&bytes);
        }

        #[test]
        fn what_was_written_is_read(name in "[^\r\n\0]{1,40}", size in 0..i64::MAX as u64, time_s in 0i64..1_700_000_000) {
            let time_s = time_s / 60 * 60;
            let when = jiff::Timestamp::from_second(time_s).expect("a time").strftime("%m-%d-%Y  %I:%M%p").to_string();
            let written = format!("{when} {size:>20} {name}");
            let expected = Found { name: name.as_bytes(), kind: Kind::File, size: Some(size), when: When::Somewhere(time_s) };
            prop_assert_eq!(line(written.as_bytes()), Line::Entry(expected));
        }
    }
}
