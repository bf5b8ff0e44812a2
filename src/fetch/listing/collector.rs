//! What becomes an entry, and what is refused. All parsers end here.

use std::collections::BTreeMap;

use super::super::fault::{escape, is_harmless};
use super::super::{Link, Name, NameError, PackedListing};
use super::Entries;

/// More entries than this are nobody's folder.
pub const MOST_ENTRIES: usize = 1_000_000;

/// What a listing says that something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket: never an entry, but its name is taken.
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

/// Bytes that one listing may take in memory: a million entries with names of 30 characters. Larger listings are cut and
/// reported as incomplete.
const MOST_BYTES: usize = 52 << 20;

/// Memory of a string on the heap and its place in a vector or tree, besides its bytes.
const STRING_BYTES: usize = 96;

/// Gathers what a listing names, and makes a [`PackedListing`] of it.
#[allow(clippy::struct_excessive_bools, reason = "independent properties of a listing")]
pub struct Collector {
    hidden: bool,
    limit: usize,
    most_bytes: usize,
    entries: Entries,
    /// Targets of symbolic links, by name.
    targets: BTreeMap<Name, Vec<u8>>,
    refused: Vec<(String, NameError)>,
    /// Memory of links and of refused names.
    other_bytes: usize,
    merges_repeats: bool,
    truncated: bool,
    marks_folders: bool,
}

impl Collector {
    /// An empty one; `hidden` names are wanted or not.
    pub fn new(hidden: bool) -> Self {
        Self::with_limit(hidden, MOST_ENTRIES)
    }

    /// The same with another bound.
    pub fn with_limit(hidden: bool, limit: usize) -> Self {
        Self {
            hidden,
            limit,
            most_bytes: MOST_BYTES,
            entries: Entries::default(),
            targets: BTreeMap::new(),
            refused: Vec::new(),
            other_bytes: 0,
            merges_repeats: false,
            truncated: false,
            marks_folders: false,
        }
    }

    /// The same, for pages that may link to one file twice: equal names of one kind are one entry.
    #[must_use]
    pub fn merging_repeats(self) -> Self {
        Self { merges_repeats: true, ..self }
    }

    /// The source writes a slash behind the names of folders.
    pub fn mark_folders(&mut self) {
        self.marks_folders = true;
    }

    /// Takes one more, if there is room.
    pub fn add(&mut self, found: &Found<'_>) {
        self.marks_folders |= found.kind == Kind::Folder;
        if self.is_full() {
            self.truncated = true;
            return;
        }
        match self.check(found.name) {
            Ok(name) => {
                let Found { kind, size, when, .. } = *found;
                self.entries.add(name.as_str(), kind, size.filter(|_| kind == Kind::File), when);
            }
            // A slash tells the filter that a folder is meant.
            Err(why) if found.kind == Kind::Folder => {
                let start = found.name.get(..1_024).unwrap_or(found.name);
                self.refuse(&[start, b"/"].concat(), why);
            }
            Err(why) => self.refuse(found.name, why),
        }
    }

    /// Adds a symbolic link.
    pub fn add_link(&mut self, name: &[u8], target: Option<&[u8]>) {
        if let (Ok(name), false) = (self.check(name), self.is_full()) {
            self.other_bytes += name.as_str().len() + STRING_BYTES;
            if let Some(target) = target {
                self.other_bytes += name.as_str().len() + target.len() + 2 * STRING_BYTES;
                self.targets.insert(name, target.to_vec());
            }
        }
        self.add(&Found { name, kind: Kind::Link, size: None, when: When::Unknown });
    }

    /// Refuses a name, or a line that is too long to be one.
    pub fn refuse(&mut self, name: &[u8], why: NameError) {
        if self.is_full() {
            self.truncated = true;
        } else {
            // Longer than any name, and enough for a filter's pattern.
            let start = name.get(..1_025).unwrap_or(name);
            let shown = shown_whole(start);
            self.other_bytes += shown.len() + STRING_BYTES;
            self.refused.push((shown, why));
        }
    }

    /// The listing is not complete, or may not be.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Whether nothing more is taken.
    pub fn is_full(&self) -> bool {
        self.entries.len() + self.refused.len() >= self.limit
            || self.entries.bytes() + self.other_bytes >= self.most_bytes
    }

    /// Number of names so far, refused ones included.
    pub fn len(&self) -> usize {
        self.entries.len() + self.refused.len()
    }

    /// True if nothing was named yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A file whose time is known but for its zone: asking for its real time tells the zone of all.
    pub fn sample(&self) -> Option<(Name, i64)> {
        self.entries.sample()
    }

    /// The listing, in the order of the names. `offset_s` is what to add to times without a zone.
    pub fn finish(self, offset_s: Option<i64>) -> PackedListing {
        let Self { mut entries, mut targets, refused, truncated, marks_folders, merges_repeats, .. } = self;
        let mut listing = PackedListing { refused, truncated, marks_folders, ..PackedListing::default() };
        entries.settle(offset_s, merges_repeats, |name, kind, is_repeated| {
            if is_repeated {
                listing.refused.push((escape(&Name::from_mapped(name).to_string()), NameError::Twice));
                return false;
            }
            match kind {
                Kind::File | Kind::Folder => return true,
                Kind::Link => {
                    let name = Name::from_mapped(name);
                    let target = targets.remove(&name);
                    listing.links.push(Link { name, target });
                }
                Kind::Other => listing.others += 1,
            }
            false
        });
        listing.entries = entries;
        listing
    }

    fn check(&self, name: &[u8]) -> Result<Name, NameError> {
        let name = Name::from_bytes(name)?;
        if name.is_temporary() {
            return Err(NameError::Reserved);
        }
        if name.is_hidden() && !self.hidden { Err(NameError::Hidden) } else { Ok(name) }
    }
}

/// A name fit for a terminal, not cut: a filter may ask for its ending.
fn shown_whole(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars()
        .map(|c| if is_harmless(c) { c.to_string() } else { c.escape_unicode().to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::EntryKind;

    fn found(name: &str, kind: Kind) -> Found<'_> {
        Found { name: name.as_bytes(), kind, size: Some(1), when: When::Somewhere(60) }
    }

    fn listing(hidden: bool, names: &[(&str, Kind)]) -> PackedListing {
        let mut collector = Collector::new(hidden);
        for (name, kind) in names {
            collector.add(&found(name, *kind));
        }
        collector.finish(None)
    }

    fn names(listing: &PackedListing) -> Vec<String> {
        listing.entries.iter().map(|entry| entry.name.as_str().to_owned()).collect()
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_both_times_even_as_a_link() {
        let listing =
            listing(false, &[("b", Kind::File), ("a", Kind::Other), ("c", Kind::File), ("a", Kind::Folder)]);
        assert_eq!(names(&listing), ["b", "c"]);
        assert_eq!(listing.refused, vec![("a".to_owned(), NameError::Twice); 2]);
    }

    #[test]
    fn links_keep_their_targets_and_special_files_are_counted() {
        let mut collector = Collector::new(false);
        collector.add_link(b"latest", Some(b"v2/data"));
        collector.add_link(b"a", None);
        collector.add(&found("pipe", Kind::Other));
        let listing = collector.finish(None);
        let links = listing.links.iter().map(|link| (link.name.as_str(), link.target.as_deref()));
        assert_eq!(links.collect::<Vec<_>>(), [("a", None), ("latest", Some(&b"v2/data"[..]))]);
        assert_eq!((listing.entries.len(), listing.others, listing.refused.len()), (0, 1, 0));
    }

    fn refuse_twins(listing: &mut PackedListing, is_meant: impl Fn(&Name, EntryKind) -> bool) {
        let twins = listing.twins();
        listing.refuse_twins(&twins, is_meant);
    }

    #[test]
    fn twins_are_kept_unless_the_target_cannot_tell_them_apart() {
        for twins in [["README", "readme"], ["readme", "README"]] {
            let mut listing = listing(false, &twins.map(|name| (name, Kind::File)));
            assert_eq!(names(&listing), ["README", "readme"]);
            assert_eq!(listing.refused, []);
            refuse_twins(&mut listing, |_, _| true);
            assert_eq!(names(&listing), ["README"], "the same one, in whatever order they come");
            assert_eq!(listing.refused, [("readme".to_owned(), NameError::Twice)]);
        }
        let mut listing = listing(false, &[("e\u{301}", Kind::File), ("\u{e9}", Kind::File)]);
        refuse_twins(&mut listing, |_, _| true);
        assert_eq!((listing.entries.len(), listing.refused.len()), (1, 1));
    }

    #[test]
    fn a_twin_that_is_not_meant_takes_no_name() {
        let mut listing = listing(false, &["README", "ReadMe", "readme"].map(|name| (name, Kind::File)));
        refuse_twins(&mut listing, |name, _| name.as_str() != "README");
        assert_eq!(names(&listing), ["README", "ReadMe"], "the first one will be left out");
        assert_eq!(listing.refused, [("readme".to_owned(), NameError::Twice)]);
    }

    #[test]
    fn the_portable_rule_refuses_what_is_not_safe_on_every_platform() {
        let all = ["A", "T12:00", "b\\c", "ok"].map(|name| (name, Kind::File));
        let mut listing = listing(false, &all);
        assert_eq!(listing.entries.len(), 4);
        listing.keep_portable();
        assert_eq!(names(&listing), ["A", "ok"]);
        assert_eq!(listing.refused.len(), 2);
    }

    #[test]
    fn the_names_of_temporary_files_are_reserved() {
        let listed = listing(false, &[("x.part", Kind::File), ("x.stroll.part", Kind::File)]);
        assert_eq!(names(&listed), ["x.part"]);
        assert_eq!(listed.refused, [("x.stroll.part".to_owned(), NameError::Reserved)]);
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
    fn bytes_that_are_no_text_are_kept() {
        let mut collector = Collector::new(false);
        collector.add(&Found { name: b"caf\xe9", kind: Kind::File, size: None, when: When::Unknown });
        let listing = collector.finish(None);
        assert_eq!(
            listing.entries.iter().next().map(|entry| entry.name.to_bytes()),
            Some(b"caf\xe9".to_vec())
        );
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
    fn a_page_that_links_to_a_file_twice_has_one_entry_for_it() {
        let mut collector = Collector::new(false).merging_repeats();
        for (name, kind) in [("a", Kind::File), ("b", Kind::File), ("a", Kind::File), ("b", Kind::Folder)] {
            collector.add(&found(name, kind));
        }
        collector.add(&Found { when: When::Unknown, ..found("a", Kind::File) });
        let listing = collector.finish(None);
        let seen = listing.entries.iter().map(|entry| (entry.name.to_string(), entry.coarse_s));
        assert_eq!(seen.collect::<Vec<_>>(), [("a".to_owned(), None)], "contradictions are forgotten");
        assert_eq!(listing.refused.len(), 2, "a file and a folder of one name");
    }

    #[test]
    fn long_names_are_bounded_by_their_bytes() {
        let mut collector = Collector::new(false);
        let long = "n".repeat(240);
        for number in 0..MOST_BYTES / 200 {
            collector.add(&found(&format!("{long}{number}"), Kind::File));
            collector.add(&found(&format!("../{long}"), Kind::File));
        }
        assert!(
            collector.is_full() && collector.entries.bytes() + collector.other_bytes < MOST_BYTES + 1_024
        );
        assert!(collector.finish(None).truncated);
    }

    #[test]
    fn times_without_a_zone_need_an_offset_and_folders_have_no_size() {
        let mut collector = Collector::new(false);
        collector.add(&found("d", Kind::Folder));
        collector.add(&found("f", Kind::File));
        assert_eq!(collector.sample(), Some((Name::new("f").expect("a name"), 60)));
        let listing = collector.finish(Some(-3_600));
        assert_eq!(listing.entries.iter().next().map(|folder| folder.size), Some(None));
        assert_eq!(listing.entries.iter().last().map(|file| file.modified_s), Some(Some(-3_540)));
    }
}
