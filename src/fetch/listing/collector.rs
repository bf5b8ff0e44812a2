//! What becomes an entry, and what is refused. All parsers end here.

use super::super::fault::escape;
use super::super::{Entry, EntryKind, Listing, Name, NameError};

/// More entries than this are nobody's folder.
pub const MOST_ENTRIES: usize = 1_000_000;

/// What a listing says that something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link, a device: never an entry, but its name is taken.
    Other,
}

/// When something was changed last, as far as a listing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing usable.
    Unknown,
    /// Seconds since 1970.
    Utc(i64),
    /// The same on the source's clock, to the minute, in a zone that is not said.
    Somewhere(i64),
    /// A day, or a time of which nobody can ask the zone.
    Roughly(i64),
}

/// One thing that a listing names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Its name, as it was written.
    pub name: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// Its size, if written to the byte.
    pub size: Option<u64>,
    /// When it was changed.
    pub when: When,
}

struct Kept {
    name: Name,
    kind: Kind,
    size: Option<u64>,
    when: When,
}

/// Gathers what a listing names, and makes the [`Listing`] of it.
pub struct Collector {
    hidden: bool,
    limit: usize,
    kept: Vec<Kept>,
    refused: Vec<(String, NameError)>,
    truncated: bool,
}

impl Collector {
    /// An empty one; `hidden` names are wanted or not.
    pub fn new(hidden: bool) -> Self {
        Self::with_limit(hidden, MOST_ENTRIES)
    }

    /// The same with another bound.
    pub fn with_limit(hidden: bool, limit: usize) -> Self {
        Self { hidden, limit, kept: Vec::new(), refused: Vec::new(), truncated: false }
    }

    /// Takes one more, if there is room.
    pub fn add(&mut self, found: &Found<'_>) {
        if self.is_full() {
            self.truncated = true;
            return;
        }
        match self.check(found.name) {
            Ok(name) => {
                let Found { kind, size, when, .. } = *found;
                self.kept.push(Kept { name, kind, size: size.filter(|_| kind == Kind::File), when });
            }
            Err(why) => self.refuse(found.name, why),
        }
    }

    /// Refuses a name, or a line that is too long to be one.
    pub fn refuse(&mut self, name: &[u8], why: NameError) {
        if self.is_full() {
            self.truncated = true;
        } else {
            // What `escape` would cut need not be decoded first.
            let start = name.get(..1_024).unwrap_or(name);
            self.refused.push((escape(&String::from_utf8_lossy(start)), why));
        }
    }

    /// The listing is not complete, or may not be.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Whether nothing more is taken.
    pub fn is_full(&self) -> bool {
        self.kept.len() + self.refused.len() >= self.limit
    }

    /// A file whose time is known but for its zone: asking for its real time tells the zone of all.
    pub fn sample(&self) -> Option<(&Name, i64)> {
        self.kept.iter().find_map(|kept| match kept.when {
            When::Somewhere(time_s) if kept.kind == Kind::File => Some((&kept.name, time_s)),
            _ => None,
        })
    }

    /// The listing, in the order of the names. `offset_s` is what to add to times without a zone.
    pub fn finish(mut self, offset_s: Option<i64>) -> Listing {
        self.kept.sort_by(|a, b| a.name.cmp(&b.name));
        let repeated = repeated(&self.kept);
        let mut listing = Listing { refused: self.refused, truncated: self.truncated, ..Listing::default() };
        // Folded names that are taken. Sorting has made it sure that the same twin wins every time.
        let mut taken = std::collections::BTreeSet::new();
        for (kept, repeated) in self.kept.into_iter().zip(repeated) {
            if repeated || !taken.insert(kept.name.folded()) {
                listing.refused.push((escape(kept.name.as_str()), NameError::Twice));
            } else if let Some(entry) = entry(kept, offset_s) {
                listing.entries.push(entry);
            }
        }
        listing
    }

    fn check(&self, name: &[u8]) -> Result<Name, NameError> {
        let name = std::str::from_utf8(name).map_err(|_| NameError::NotText)?;
        let name = Name::new(name)?;
        if name.is_hidden() && !self.hidden { Err(NameError::Hidden) } else { Ok(name) }
    }
}

/// Which of the sorted ones have a neighbour of exactly the same name.
fn repeated(sorted: &[Kept]) -> Vec<bool> {
    let mut repeated = vec![false; sorted.len()];
    for (index, pair) in sorted.windows(2).enumerate() {
        if let [a, b] = pair
            && a.name == b.name
            && let Some(both) = repeated.get_mut(index..index + 2)
        {
            both.fill(true);
        }
    }
    repeated
}

fn entry(kept: Kept, offset_s: Option<i64>) -> Option<Entry> {
    let kind = match kept.kind {
        Kind::File => EntryKind::File,
        Kind::Folder => EntryKind::Folder,
        Kind::Other => return None,
    };
    let (modified_s, coarse_s) = match kept.when {
        When::Unknown => (None, None),
        When::Utc(time_s) => (Some(time_s), None),
        When::Somewhere(time_s) => (offset_s.and_then(|offset_s| time_s.checked_add(offset_s)), Some(time_s)),
        When::Roughly(time_s) => (None, Some(time_s)),
    };
    Some(Entry { name: kept.name, kind, size: kept.size, modified_s, coarse_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, kind: Kind) -> Found<'_> {
        Found { name: name.as_bytes(), kind, size: Some(1), when: When::Somewhere(60) }
    }

    fn listing(hidden: bool, names: &[(&str, Kind)]) -> Listing {
        let mut collector = Collector::new(hidden);
        for (name, kind) in names {
            collector.add(&found(name, *kind));
        }
        collector.finish(None)
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_both_times_even_as_a_link() {
        let listing =
            listing(false, &[("b", Kind::File), ("a", Kind::Other), ("c", Kind::File), ("a", Kind::Folder)]);
        assert_eq!(names(&listing), ["b", "c"]);
        assert_eq!(listing.refused, vec![("a".to_owned(), NameError::Twice); 2]);
    }

    #[test]
    fn of_twins_the_same_one_is_refused_in_whatever_order_they_come() {
        for twins in [["README", "readme"], ["readme", "README"]] {
            let listing = listing(false, &twins.map(|name| (name, Kind::File)));
            assert_eq!(names(&listing), ["README"]);
            assert_eq!(listing.refused, [("readme".to_owned(), NameError::Twice)]);
        }
        let listing = listing(false, &[("e\u{301}", Kind::File), ("\u{e9}", Kind::File)]);
        assert_eq!((listing.entries.len(), listing.refused.len()), (1, 1));
    }

    #[test]
    fn unsafe_and_hidden_names_are_refused_with_the_reason() {
        let all =
            [("..", Kind::Folder), ("a/b", Kind::File), (".ssh", Kind::Folder), ("\u{1b}[2J", Kind::File)];
        let listed = listing(false, &all);
        let why = listed.refused.iter().map(|(_, why)| *why).collect::<Vec<_>>();
        assert_eq!(why, [NameError::NotAName, NameError::Separator, NameError::Hidden, NameError::Invisible]);
        assert!(listed.refused.iter().all(|(name, _)| !name.contains('\u{1b}')));
        assert_eq!(names(&listing(true, &all)), [".ssh"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let mut collector = Collector::new(false);
        collector.add(&Found { name: b"caf\xe9", kind: Kind::File, size: None, when: When::Unknown });
        assert_eq!(collector.finish(None).refused, [("caf\u{fffd}".to_owned(), NameError::NotText)]);
    }

    #[test]
    fn there_is_an_end_to_every_listing() {
        let mut collector = Collector::with_limit(false, 3);
        for name in ["a", "b", "..", "d", "e"] {
            collector.add(&found(name, Kind::File));
        }
        let listing = collector.finish(None);
        assert_eq!((listing.entries.len(), listing.refused.len(), listing.truncated), (2, 1, true));
    }

    #[test]
    fn times_without_a_zone_need_an_offset_and_folders_have_no_size() {
        let mut collector = Collector::new(false);
        collector.add(&found("d", Kind::Folder));
        collector.add(&found("f", Kind::File));
        assert_eq!(collector.sample().map(|(name, time_s)| (name.as_str(), time_s)), Some(("f", 60)));
        let listing = collector.finish(Some(-3_600));
        assert_eq!(listing.entries.first().map(|folder| folder.size), Some(None));
        assert_eq!(listing.entries.last().map(|file| file.modified_s), Some(Some(-3_540)));
    }
}
