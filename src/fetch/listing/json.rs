//! Indexes in JSON: nginx with `autoindex_format json`, and caddy's. Read element by element while they arrive.
//!
//! | server | an element |
//! |---|---|
//! | nginx | `{"name": "a", "type": "file", "mtime": "Wed, 01 Jan 2025 00:00:00 GMT", "size": 12}` |
//! | caddy | `{"name": "a", "size": 12, "mod_time": "2025-01-01T00:00:00.5Z", "is_dir": false, …}` |
//!
//! Anything else is a fault, and so is an index that ends early.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};

use super::super::fault::escape;
use super::super::{Fault, PackedListing};
use super::{Collector, Found, Kind, When};

/// No name or time is longer, in bytes of JSON.
const LONGEST_STRING: usize = 8 << 10;

/// Read ahead by the parser.
const BUFFER_BYTES: usize = 16 << 10;

#[derive(Deserialize)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    is_dir: Option<bool>,
    mtime: Option<String>,
    mod_time: Option<String>,
    size: Option<u64>,
}

impl Item {
    /// `None` if it is no element of an index.
    fn kind(&self) -> Option<Kind> {
        match (self.kind.as_deref(), self.is_dir) {
            (Some("file"), _) | (None, Some(false)) => Some(Kind::File),
            (Some("directory"), _) | (None, Some(true)) => Some(Kind::Folder),
            (Some("other" | "link"), _) => Some(Kind::Other),
            _ => None,
        }
    }

    fn when(&self) -> When {
        let nginx = self.mtime.as_deref().and_then(http_date);
        let time_s = nginx.or_else(|| self.mod_time.as_deref().and_then(timestamp));
        time_s.map_or(When::Unknown, When::Utc)
    }

    fn collect(&self, collector: &mut Collector) -> Option<()> {
        let kind = self.kind()?;
        // caddy marks folders in their names, too.
        let name =
            if kind == Kind::Folder { self.name.strip_suffix('/').unwrap_or(&self.name) } else { &self.name };
        let size = self.size.filter(|size| i64::try_from(*size).is_ok());
        collector.add(&Found { name: name.as_bytes(), kind, size, when: self.when() });
        Some(())
    }
}

/// Reads an index while it arrives.
pub fn read(index: impl Read, hidden: bool) -> Result<PackedListing, Fault> {
    let is_too_long = Cell::new(false);
    let bounded = Bounded { inner: index, state: Place::Outside, length: 0, is_too_long: &is_too_long };
    let mut collector = Collector::new(hidden);
    // Every element states its type.
    collector.mark_folders();
    let mut parser =
        serde_json::Deserializer::from_reader(io::BufReader::with_capacity(BUFFER_BYTES, bounded));
    let result = parser.deserialize_seq(Elements(&mut collector)).and_then(|()| parser.end());
    match result {
        Ok(()) => Ok(collector.finish(None)),
        Err(_) if is_too_long.get() => {
            Err(Fault::NotAnIndex(format!("JSON with a string of more than {LONGEST_STRING} bytes")))
        }
        Err(error) if error.is_eof() => Err(Fault::Nonsense("an index in JSON that ends early".to_owned())),
        Err(error) => Err(Fault::NotAnIndex(escape(&format!("JSON of another form: {error}")))),
    }
}

/// Reads a whole index.
pub fn parse(index: &[u8], hidden: bool) -> Result<PackedListing, Fault> {
    read(index, hidden)
}

/// The elements of the array, each collected as it is read.
struct Elements<'a>(&'a mut Collector);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of files and folders")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(item) = elements.next_element::<Item>()? {
            item.collect(self.0)
                .ok_or_else(|| A::Error::custom("an element that is neither file nor folder"))?;
        }
        Ok(())
    }
}

/// Where in the JSON text the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    InString,
    Escaped,
}

/// Ends the input at a string that is too long to be held.
struct Bounded<'a, R> {
    inner: R,
    state: Place,
    length: usize,
    is_too_long: &'a Cell<bool>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        for byte in buffer.iter().take(count) {
            self.state = match (self.state, byte) {
                (Place::Outside, b'"') => {
                    self.length = 0;
                    Place::InString
                }
                (Place::InString, b'"') => Place::Outside,
                (Place::InString, b'\\') => Place::Escaped,
                (Place::Escaped, _) => Place::InString,
                (state, _) => state,
            };
            self.length += 1;
            if self.state != Place::Outside && self.length > LONGEST_STRING {
                self.is_too_long.set(true);
                return Err(io::Error::other("a string that is too long"));
            }
        }
        Ok(count)
    }
}

fn http_date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
}

fn timestamp(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_nanosecond().div_euclid(1_000_000_000)).and_then(|seconds| i64::try_from(seconds).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::{EntryKind, NameError};
    use super::*;

    #[test]
    fn an_index_of_nginx_is_read() {
        let page = br#"[
            { "name":"sub", "type":"directory", "mtime":"Wed, 01 Jan 2025 00:00:00 GMT" },
            { "name":"a b", "type":"file", "mtime":"Wed, 01 Jan 2025 00:00:01 GMT", "size":12 },
            { "name":"pipe", "type":"other", "mtime":"Wed, 01 Jan 2025 00:00:00 GMT" },
            { "name":"../x", "type":"file", "size":1 }
        ]"#;
        let listing = parse(page, false).expect("an index").unpack();
        let found = listing
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind, entry.size, entry.modified_s));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("a b", EntryKind::File, Some(12), Some(1_735_689_601)),
                ("sub", EntryKind::Folder, None, Some(1_735_689_600)),
            ]
        );
        assert_eq!(listing.refused, [("../x".to_owned(), NameError::Separator)]);
        assert!(parse(b"[\r\n]\r\n", false).expect("an index").entries.is_empty());
    }

    #[test]
    fn an_index_of_caddy_is_read() {
        let page = br#"[{"name":"a","size":7,"url":"./a","mod_time":"2025-01-01T00:00:01.9Z","mode":420,"is_dir":false,"is_symlink":false},
            {"name":"sub/","size":4096,"url":"./sub/","mod_time":"2025-01-01T01:00:00+01:00","mode":2147484141,"is_dir":true,"is_symlink":false}]"#;
        let listing = parse(page, false).expect("an index").unpack();
        let found = listing
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind, entry.size, entry.modified_s));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("a", EntryKind::File, Some(7), Some(1_735_689_601)),
                ("sub", EntryKind::Folder, None, Some(1_735_689_600)),
            ]
        );
    }

    #[test]
    fn what_is_no_index_is_a_fault() {
        for page in [
            &b"{}"[..],
            b"[{\"name\":1}]",
            b"[{\"name\":\"a\"}]",
            b"[{\"name\":\"a\",\"type\":\"user\"}]",
            b"[\"a\",\"b\"]",
            b"[[]]",
            b"null",
            b"[{\"name\":\"a\",\"type\":\"file\",\"size\":-1}]",
            b"[] []",
            b"<html>",
        ] {
            assert!(matches!(parse(page, false), Err(Fault::NotAnIndex(_))), "{page:?}");
        }
    }

    #[test]
    fn an_index_that_ends_early_is_a_fault() {
        for page in [
            &b""[..],
            b"[",
            b"[{\"name\":\"a\",\"type\":\"file\"},",
            b"[{\"name\":\"a\",\"type\":\"file\"}",
            b"[{\"na",
        ] {
            assert!(matches!(parse(page, false), Err(Fault::Nonsense(_))), "{page:?}");
        }
    }

    #[test]
    fn an_endless_string_is_not_held() {
        let endless = io::Cursor::new(b"[{\"name\":\"").chain(io::repeat(b'}'));
        let fault = read(endless, false).expect_err("it never ends");
        assert!(fault.to_string().contains("more than 8192 bytes"), "{fault}");
        let escaped = io::Cursor::new(b"[{\"name\":\"").chain(io::repeat(b'\\'));
        assert!(read(escaped, false).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, false);
        }
    }
}
