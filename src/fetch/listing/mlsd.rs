//! The listing that was made for machines (RFC 3659): `type=file;size=7;modify=20240101120000; name`.

use super::times::{size, stamp};
use super::{Found, Kind, Line, When};

/// Reads one line, without its end.
pub fn line(line: &[u8]) -> Line<'_> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Line::Nothing;
    }
    // Some servers indent the facts, as MLST does.
    let line = line.strip_prefix(b" ").filter(|rest| rest.starts_with(b"type=")).unwrap_or(line);
    // Facts end at the first blank; the name is all the rest, blanks and all.
    let Some(end) = line.iter().position(|byte| *byte == b' ') else { return Line::Strange };
    let (facts, name) = (line.get(..end).unwrap_or_default(), line.get(end + 1..).unwrap_or_default());
    let mut found = Found { name, kind: Kind::Other, size: None, when: When::Unknown };
    let mut typed = false;
    let mut target = None;
    for fact in facts.split(|byte| *byte == b';').filter(|fact| !fact.is_empty()) {
        let Some(equals) = fact.iter().position(|byte| *byte == b'=') else { return Line::Strange };
        let value = fact.get(equals + 1..).unwrap_or_default();
        match fact.get(..equals).unwrap_or_default().to_ascii_lowercase().as_slice() {
            b"type" => {
                typed = true;
                match kind(value) {
                    Some(kind) => found.kind = kind,
                    None => return Line::Nothing,
                }
                target = link_target(value);
            }
            b"size" => found.size = size(value),
            b"modify" => found.when = stamp(value).map_or(When::Unknown, When::Utc),
            _ => {}
        }
    }
    match found {
        _ if !typed => Line::Strange,
        // Some servers call the folder itself and its parent `dir`.
        Found { kind: Kind::Folder, name: b"." | b"..", .. } => Line::Nothing,
        Found { kind: Kind::Link, name, .. } => Line::Link { name, target },
        found => Line::Entry(found),
    }
}

/// What it is; `None` for the folder itself and its parent.
fn kind(value: &[u8]) -> Option<Kind> {
    match value.to_ascii_lowercase().as_slice() {
        b"file" => Some(Kind::File),
        b"dir" => Some(Kind::Folder),
        b"cdir" | b"pdir" => None,
        lower if is_link(lower) => Some(Kind::Link),
        _ => Some(Kind::Other),
    }
}

/// `OS.unix=symlink`, `OS.unix=slink`, `OS.unix=slink:target`, `symlink`; expects lower case.
fn is_link(lower: &[u8]) -> bool {
    let name = lower.strip_prefix(b"os.unix=").unwrap_or(lower);
    let name = name.split(|byte| *byte == b':').next().unwrap_or(name);
    matches!(name, b"slink" | b"symlink" | b"link")
}

fn link_target(value: &[u8]) -> Option<&[u8]> {
    let colon = value.iter().position(|byte| *byte == b':')?;
    value.get(colon + 1..).filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_real_servers_are_read() {
        let proftpd = b"modify=20240101120000;perm=adfrw;size=12;type=file;unique=801U2;UNIX.group=0;UNIX.mode=0644; a b.txt";
        assert_eq!(
            line(proftpd),
            Line::Entry(Found {
                name: b"a b.txt",
                kind: Kind::File,
                size: Some(12),
                when: When::Utc(1_704_110_400)
            })
        );
        let pure = b"type=dir;sizd=4096;modify=20240101120000;UNIX.mode=0755; sub";
        assert!(matches!(line(pure), Line::Entry(Found { kind: Kind::Folder, size: None, .. })));
        let link = b"modify=20240101120000;type=OS.unix=symlink;size=3; l";
        assert_eq!(line(link), Line::Link { name: b"l", target: None });
        assert_eq!(
            line(b"type=OS.unix=slink:../data;size=3; l"),
            Line::Link { name: b"l", target: Some(b"../data") }
        );
        assert!(matches!(line(b"type=OS.unix=blkdev; sda"), Line::Entry(Found { kind: Kind::Other, .. })));
        assert_eq!(line(b"type=dir; ."), Line::Nothing);
        assert_eq!(line(b"type=dir;modify=20240101120000; .."), Line::Nothing);
        assert_eq!(line(b"type=cdir;modify=20240101120000; ."), Line::Nothing);
        assert_eq!(line(b"Type=pdir; .."), Line::Nothing);
        for odd in [&b" type=file;size=7; a"[..], b"type=file;size=7 a"] {
            let expected = Found { name: b"a", kind: Kind::File, size: Some(7), when: When::Unknown };
            assert_eq!(line(odd), Line::Entry(expected), "{odd:?}");
        }
    }

    #[test]
    fn a_way_up_that_calls_itself_a_file_stays_an_entry_to_be_refused() {
        assert!(matches!(line(b"type=file;size=1; .."), Line::Entry(Found { name: b"..", .. })));
        assert!(matches!(line(b"type=file;size=1; ../x"), Line::Entry(Found { name: b"../x", .. })));
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        for strange in [&b"type=file"[..], b"size=1; a", b"hello world", b" a", b"type; a", b"drwxr-xr-x 1 a"]
        {
            assert_eq!(line(strange), Line::Strange, "{strange:?}");
        }
        assert_eq!(line(b""), Line::Nothing);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = line(&bytes);
        }

        #[test]
        fn what_was_written_is_read(name in "[^\r\n\0]{1,40}", bytes in 0..i64::MAX as u64, time_s in 0i64..4_000_000_000) {
            let when = jiff::Timestamp::from_second(time_s).expect("a time").strftime("%Y%m%d%H%M%S").to_string();
            let written = format!("type=file;size={bytes};modify={when}; {name}");
            let expected = Found { name: name.as_bytes(), kind: Kind::File, size: Some(bytes), when: When::Utc(time_s) };
            prop_assert_eq!(line(written.as_bytes()), Line::Entry(expected));
        }
    }
}
