//! `LIST` as IIS writes it, after `dir`: `01-31-24  12:34PM  <DIR>  name`.

use super::times::{clock, number, seconds, size};
use super::{Found, Kind, Line, When};

/// Reads one line, without its end.
pub fn line(line: &[u8]) -> Line<'_> {
    let parsed = (|| {
        let (date, rest) = word(line)?;
        let (time, rest) = word(rest)?;
        let (what, rest) = word(rest)?;
        let time_s = seconds(day(date)?, half_day(time)?)?;
        let (kind, size) = match what {
            b"<DIR>" => (Kind::Folder, None),
            _ if what.starts_with(b"<") => (Kind::Other, None),
            digits => (Kind::File, Some(size(digits)?)),
        };
        // Folders' names are set in a column, files' stand one blank behind the size.
        let name = if kind == Kind::File { rest.strip_prefix(b" ")? } else { rest.trim_ascii_start() };
        (!name.is_empty()).then_some(Found { name, kind, size, when: When::Somewhere(time_s) })
    })();
    match parsed {
        Some(Found { name: b"." | b"..", kind: Kind::Folder, .. }) => Line::Nothing,
        Some(found) => Line::Entry(found),
        None => Line::Strange,
    }
}

/// The first word, and what follows it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace)?;
    text.split_at_checked(end)
}

/// `01-31-24`, `01-31-2024` or `2024-01-31`.
fn day(text: &[u8]) -> Option<(i16, i8, i8)> {
    let mut parts = text.split(|byte| *byte == b'-');
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
    Some((i16::try_from(year).ok()?, small(a)?, small(b)?))
}

/// `12:34PM` or `12:34`.
fn half_day(text: &[u8]) -> Option<(i8, i8, i8)> {
    let upper = text.to_ascii_uppercase();
    let (digits, later) = match (upper.strip_suffix(b"AM"), upper.strip_suffix(b"PM")) {
        (Some(digits), _) => (digits, 0),
        (_, Some(digits)) => (digits, 12),
        _ => return clock(text),
    };
    let (hour, minute, second) = clock(digits).filter(|(hour, ..)| (1..=12).contains(hour))?;
    Some((hour % 12 + later, minute, second))
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
                "01-31-98  01:34PM       <JUNCTION>     link [C:\\x]",
                "link [C:\\x]",
                Kind::Other,
                None,
                b"19980131133400",
            ),
        ] {
            let expected = Found { name: name.as_bytes(), kind, size, when: when(time) };
            assert_eq!(line(text.as_bytes()), Line::Entry(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        for text in [
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
