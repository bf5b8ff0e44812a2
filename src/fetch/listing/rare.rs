//! Styles of `LIST` of single servers: EPLF (anonftpd, publicfile) and NetWare.

use super::times::{number, size};
use super::unix::{dated, words};
use super::{Found, Kind, Line, When};

/// Reads one line, without its end; `now_s` tells which year is meant where none is given.
pub fn line(line: &[u8], now_s: i64) -> Line<'_> {
    eplf(line).or_else(|| netware(line, now_s)).map_or(Line::Strange, Line::Entry)
}

/// `+i8388621.29609,m824255902,r,s280,` and a name behind a tab. A slash means that it can be entered, `r` that it can be
/// read.
fn eplf(line: &[u8]) -> Option<Found<'_>> {
    let rest = line.strip_prefix(b"+")?;
    let tab = rest.iter().position(|byte| *byte == b'\t')?;
    let name = rest.get(tab + 1..).filter(|name| !name.is_empty())?;
    let mut found = Found { name, kind: Kind::Other, size: None, when: When::Unknown };
    for fact in rest.get(..tab)?.split(|byte| *byte == b',') {
        match fact.split_first() {
            Some((b'/', [])) => found.kind = Kind::Folder,
            Some((b'r', [])) => found.kind = Kind::File,
            Some((b's', digits)) => found.size = size(digits),
            Some((b'm', digits)) => {
                let time_s = number(digits).and_then(|time_s| i64::try_from(time_s).ok());
                found.when = time_s.map_or(When::Unknown, When::Utc);
            }
            _ => {}
        }
    }
    Some(found)
}

/// `d [RWCEAFMS] ada  512 Jan 31 12:34 name`: rights in brackets, and the name in a column.
fn netware(line: &[u8], now_s: i64) -> Option<Found<'_>> {
    let words = words(line);
    let kind = match words.first()?.text {
        b"d" => Kind::Folder,
        b"-" => Kind::File,
        _ => return None,
    };
    let rights = words.get(1)?.text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    if !rights.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'-') {
        return None;
    }
    let (size, when, name) = (3..words.len()).find_map(|at| dated(line, &words, at, now_s))?;
    let name = name.trim_ascii_start();
    (!matches!(name, b"" | b"." | b"..")).then_some(Found { name, kind, size, when })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stamp;
    use super::*;

    fn read(text: &str) -> Line<'_> {
        line(text.as_bytes(), stamp(b"20240310120000").expect("a time"))
    }

    #[test]
    fn lines_of_eplf_are_read() {
        for (text, kind, size) in [
            ("+i8388621.29609,m824255902,r,s280,\ta b", Kind::File, Some(280)),
            ("+m824255902,/,\ta b", Kind::Folder, None),
            ("+m824255902,\ta b", Kind::Other, None),
        ] {
            let expected = Found { name: b"a b", kind, size, when: When::Utc(824_255_902) };
            assert_eq!(read(text), Line::Entry(expected), "{text}");
        }
        assert_eq!(read("+m824255902,/, name"), Line::Strange);
        assert_eq!(read("+m824255902,/,\t"), Line::Strange);
    }

    #[test]
    fn lines_of_netware_are_read() {
        let when = When::Somewhere(stamp(b"20240301123400").expect("a time"));
        for (text, kind) in [
            ("d [R----F--] ada                   512       Mar 01 12:34    a b", Kind::Folder),
            ("- [RWCEAFMS] ada                   512       Mar 01 12:34    a b", Kind::File),
        ] {
            let expected = Found { name: b"a b", kind, size: Some(512), when };
            assert_eq!(read(text), Line::Entry(expected), "{text}");
        }
        for strange in [
            "d [R----F--] ada 512 Mar 01 12:34",
            "x [RW] ada 512 Mar 01 12:34 a",
            "d RW ada 512 Mar 01 12:34 a",
        ] {
            assert_eq!(read(strange), Line::Strange, "{strange}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), now_s: i64) {
            let _ = line(&bytes, now_s);
        }
    }
}
