//! Listings of folders, as sources write them. Pure: bytes in, a [`Listing`](super::Listing) out.
//!
//! The FTP connection feeds [`mlsd`], [`unix`], [`dos`] and [`rare`] line by line; the HTTP one hands whole pages to [`html`] and
//! [`json`]. All of them put what they find into one [`Collector`], which alone decides what becomes an entry:
//!
//! ```text
//!   bytes ──> line or page ──> Found ──> Collector ──> Listing
//!              what was written            names, twins, bounds, order
//! ```
//!
//! What a parser does not understand makes the listing incomplete, so nothing is ever deleted because of it.

mod collector;
mod dates;
pub mod dos;
mod entries;
pub mod html;
pub mod json;
mod lines;
pub mod mlsd;
pub mod rare;
mod times;
pub mod unix;
mod words;

pub use collector::{Collector, Found, Kind, MOST_ENTRIES, When};
pub use entries::{Entries, IntoIter};
pub use lines::{Lines, Piece};
pub use times::stamp;

/// What one line of an FTP listing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An entry.
    Entry(Found<'a>),
    /// A symbolic link.
    Link {
        /// Name of the link itself.
        name: &'a [u8],
        /// Its target, if the line states it.
        target: Option<&'a [u8]>,
    },
    /// A line that is none: a total, the folder itself, its parent, a blank.
    Nothing,
    /// Something else, which may have been an entry.
    Strange,
}

impl Line<'_> {
    /// Adds the line to a listing. A line that is not understood makes the listing incomplete.
    pub fn collect(&self, collector: &mut Collector) {
        match self {
            Self::Entry(found) => collector.add(found),
            Self::Link { name, target } => collector.add_link(name, *target),
            Self::Nothing => {}
            Self::Strange => collector.mark_truncated(),
        }
    }
}

/// A line of `LIST`, in whatever style; `now_s` tells which year is meant where none is given.
pub fn list_line(line: &[u8], now_s: i64) -> Line<'_> {
    let readers: [fn(&[u8], i64) -> Line<'_>; 3] = [unix::line, |line, _| dos::line(line), rare::line];
    let mut read = readers.into_iter().map(|read| read(line, now_s));
    read.find(|read| *read != Line::Strange).unwrap_or(Line::Strange)
}

/// Reads the lines of one `LIST`, with the headers of servers that list as `ls -R` does.
#[derive(Clone, Debug)]
pub struct ListReader {
    now_s: i64,
    has_begun: bool,
    /// Whether a header has begun the listing of another folder.
    is_elsewhere: bool,
}

impl ListReader {
    /// `now_s` tells which year is meant where none is given.
    pub fn new(now_s: i64) -> Self {
        Self { now_s, has_begun: false, is_elsewhere: false }
    }

    /// Reads the next line. What follows the header of another folder is not of this one.
    pub fn line<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        if self.is_elsewhere {
            return Line::Nothing;
        }
        let read = list_line(line, self.now_s);
        if read == Line::Strange && is_header(line) {
            self.is_elsewhere = self.has_begun;
            self.has_begun = true;
            return Line::Nothing;
        }
        self.has_begun |= read != Line::Nothing;
        read
    }
}

/// `.:`, `./sub:` or `/pub/data:`.
fn is_header(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line == b".:" || (line.ends_with(b":") && (line.starts_with(b"/") || line.starts_with(b"./")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lines: &[&str]) -> (Vec<String>, bool) {
        let mut reader = ListReader::new(1_710_072_000);
        let mut collector = Collector::new(false);
        for line in lines {
            reader.line(line.as_bytes()).collect(&mut collector);
        }
        let listing = collector.finish(None);
        (listing.entries.iter().map(|entry| entry.name.to_string()).collect(), listing.truncated)
    }

    #[test]
    fn a_header_is_no_entry_and_the_next_one_begins_another_folder() {
        let (a, sub) = ("-rw-r--r-- 1 0 0 1 Mar  1 12:34 a", "drwxr-xr-x 2 0 0 1 Mar  1 12:34 sub");
        let expected = (vec!["a".to_owned(), "sub".to_owned()], false);
        for header in [".:", "/pub/data:", "./data:"] {
            assert_eq!(names(&[header, "Gesamt 2", a, sub]), expected, "{header}");
        }
        let other = "-rw-r--r-- 1 0 0 1 Mar  1 12:34 other";
        assert_eq!(names(&[".:", "total 2", a, sub, "./sub:", "total 1", other]), expected);
        assert_eq!(names(&["total 2", a, sub, "./sub:", "total 1", other]), expected);
        assert_eq!(names(&[a, sub, "sub:", other]), (vec!["a".into(), "other".into(), "sub".into()], true));
    }
}
