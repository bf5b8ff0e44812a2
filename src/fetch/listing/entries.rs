//! Entries of a folder in little memory: 20 bytes for each, and its name.
//!
//! A folder may have a million entries. As [`Entry`] values they would take more than 100 MB, so parsers, the walk and the
//! stream keep them packed and unpack one at a time. Names are those of [`Name::as_str`], one behind the other.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use unicode_normalization::UnicodeNormalization as _;

use super::{Kind, When};
use crate::fetch::{Entry, EntryKind, Name};

/// Time zones differ from UTC by a multiple of a quarter of an hour.
const ZONE_STEP_S: i64 = 900;

/// Bytes of a packed entry besides its name.
pub(super) const RECORD_BYTES: usize = size_of::<Record>();

/// Entries, packed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Entries {
    names: String,
    records: Vec<Record>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Record {
    start: u32,
    length: u16,
    state: State,
    /// Offset of the listed time to UTC in quarters of an hour.
    zone: i8,
    /// 48 bits hold 281 TB. Larger sizes are unknown.
    size: [u8; 6],
    /// Seconds since 1970, signed.
    time: [u8; 6],
}

/// Kind, meaning of the time, and whether there is a size, in one byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u8);

impl State {
    const KINDS: [Kind; 4] = [Kind::File, Kind::Folder, Kind::Link, Kind::Other];
    const TIMES: [Time; 5] = [Time::Unknown, Time::Utc, Time::Somewhere, Time::Zoned, Time::Roughly];

    fn new(kind: Kind, time: Time, has_size: bool) -> Self {
        Self(kind as u8 | (time as u8) << 2 | u8::from(has_size) << 5)
    }

    fn kind(self) -> Kind {
        Self::KINDS.get(usize::from(self.0 & 3)).copied().unwrap_or(Kind::Other)
    }

    fn time(self) -> Time {
        Self::TIMES.get(usize::from(self.0 >> 2 & 7)).copied().unwrap_or(Time::Unknown)
    }

    fn has_size(self) -> bool {
        self.0 & 1 << 5 != 0
    }
}

/// The meaning of a record's time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Unknown,
    Utc,
    /// Of a zone that a sample may tell.
    Somewhere,
    /// The same, with the zone in [`Record::zone`].
    Zoned,
    Roughly,
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Entries {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entries, unpacked one at a time.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.records.iter().map(|record| self.unpack(record))
    }

    /// Keeps the entries that a rule is true for.
    pub fn retain(&mut self, mut rule: impl FnMut(&Entry) -> bool) {
        let names = &self.names;
        self.records.retain(|record| rule(&unpack(names, record)));
    }

    /// Sorts by a key made of size and time (exact or as listed); names decide between equal ones.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(Option<u64>, Option<i64>) -> K) {
        let names = &self.names;
        let key = |record: &Record| {
            let (modified_s, coarse_s) = record.times();
            key(record.size(), modified_s.or(coarse_s))
        };
        self.records
            .sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| name(names, a).cmp(name(names, b))));
    }

    /// Reverses the order.
    pub fn reverse(&mut self) {
        self.records.reverse();
    }

    /// Separates files and folders. The smaller half is copied.
    #[must_use]
    pub fn split(mut self) -> (Self, Self) {
        let is_folder = |record: &Record| record.state.kind() == Kind::Folder;
        let folders = self.records.iter().filter(|record| is_folder(record)).count();
        let is_mostly_folders = folders > self.records.len() / 2;
        let mut smaller = Self::default();
        for record in self.records.iter().filter(|record| is_folder(record) != is_mostly_folders) {
            smaller.push_record(name(&self.names, record), *record);
        }
        self.records.retain(|record| is_folder(record) == is_mostly_folders);
        if is_mostly_folders { (smaller, self) } else { (self, smaller) }
    }

    /// Names, folded, that two or more entries have, or an entry and one of `others`, or two of those.
    pub fn twins(&self, others: &[&Name]) -> BTreeSet<String> {
        let names = || self.names().chain(others.iter().map(|name| name.as_str()));
        let mut hashes: Vec<u32> = names().map(folded_hash).collect();
        hashes.sort_unstable();
        let repeated: BTreeSet<u32> = hashes
            .windows(2)
            .filter_map(|pair| (pair.first() == pair.last()).then(|| pair.first().copied())?)
            .collect();
        drop(hashes);
        if repeated.is_empty() {
            return BTreeSet::new();
        }
        let suspects = names().filter(|name| repeated.contains(&folded_hash(name))).map(fold);
        let (mut taken, mut twins) = (BTreeSet::new(), BTreeSet::new());
        for folded in suspects {
            if !taken.insert(folded.clone()) {
                twins.insert(folded);
            }
        }
        twins
    }

    /// Adds an entry.
    ///
    /// # Panics
    ///
    /// With more than 4 GiB of names; collectors hold far less.
    pub fn push(&mut self, entry: &Entry) {
        let kind = if entry.kind == EntryKind::Folder { Kind::Folder } else { Kind::File };
        let (when, zone) = match (entry.modified_s, entry.coarse_s) {
            (None, None) => (When::Unknown, None),
            (Some(exact_s), None) => (When::Utc(exact_s), None),
            (None, Some(coarse_s)) => (When::Roughly(coarse_s), None),
            (Some(exact_s), Some(coarse_s)) => (When::Somewhere(coarse_s), exact_s.checked_sub(coarse_s)),
        };
        self.add(entry.name.as_str(), kind, entry.size, when);
        if let (Some(zone), Some(record)) = (zone, self.records.last_mut()) {
            record.settle(Some(zone));
        }
    }

    pub(super) fn add(&mut self, name: &str, kind: Kind, size: Option<u64>, when: When) {
        let (time, time_s) = match when {
            When::Unknown => (Time::Unknown, 0),
            When::Utc(time_s) => (Time::Utc, time_s),
            When::Somewhere(time_s) => (Time::Somewhere, time_s),
            When::Roughly(time_s) => (Time::Roughly, time_s),
        };
        let size_bytes = size.and_then(|size| small(size.to_le_bytes(), 0));
        // 47 bits reach four million years.
        let is_sane = time_s.unsigned_abs() < 1 << 47;
        let time_bytes = small(time_s.to_le_bytes(), if time_s < 0 { 0xff } else { 0 }).filter(|_| is_sane);
        let time = if time_bytes.is_some() { time } else { Time::Unknown };
        let state = State::new(kind, time, size_bytes.is_some());
        let record = Record {
            start: 0,
            length: 0,
            state,
            zone: 0,
            size: size_bytes.unwrap_or_default(),
            time: time_bytes.unwrap_or_default(),
        };
        self.push_record(name, record);
    }

    fn push_record(&mut self, name: &str, record: Record) {
        let start = u32::try_from(self.names.len()).expect("names of less than 4 GiB");
        let length = u16::try_from(name.len()).expect("a name is short");
        self.names.push_str(name);
        self.records.push(Record { start, length, ..record });
    }

    /// Bytes that the entries take.
    pub(super) fn bytes(&self) -> usize {
        self.names.len() + self.records.len() * RECORD_BYTES
    }

    /// The first file with a time whose zone is not known.
    pub(super) fn sample(&self) -> Option<(Name, i64)> {
        let found = self
            .records
            .iter()
            .find(|record| record.state.kind() == Kind::File && record.state.time() == Time::Somewhere)?;
        Some((Name::from_mapped(name(&self.names, found)), found.time()))
    }

    /// Sorts by name and gives every entry to `fate`, which keeps it or not. `is_repeated`: another entry has the same name.
    /// With `merge`, repeated entries of one kind become one without size and time first.
    pub(super) fn settle(
        &mut self,
        offset_s: Option<i64>,
        merge: bool,
        mut fate: impl FnMut(&str, Kind, bool) -> bool,
    ) {
        let names = std::mem::take(&mut self.names);
        self.records.sort_unstable_by(|a, b| name(&names, a).cmp(name(&names, b)));
        if merge {
            self.records.dedup_by(|later, first| {
                let is_same =
                    later.state.kind() == first.state.kind() && name(&names, later) == name(&names, first);
                if is_same && (later.size(), later.times()) != (first.size(), first.times()) {
                    first.forget();
                }
                is_same
            });
        }
        let mut before: Option<Record> = None;
        let mut kept = 0;
        for at in 0..self.records.len() {
            let Some(mut record) = self.records.get(at).copied() else { break };
            let is_same = |other: &Record| name(&names, other) == name(&names, &record);
            let is_repeated =
                before.as_ref().is_some_and(is_same) || self.records.get(at + 1).is_some_and(is_same);
            before = Some(record);
            if fate(name(&names, &record), record.state.kind(), is_repeated) {
                record.settle(offset_s);
                if let Some(place) = self.records.get_mut(kept) {
                    *place = record;
                    kept += 1;
                }
            }
        }
        self.records.truncate(kept);
        self.names = names;
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.records.iter().map(|record| name(&self.names, record))
    }

    fn unpack(&self, record: &Record) -> Entry {
        unpack(&self.names, record)
    }
}

impl Record {
    fn size(&self) -> Option<u64> {
        self.state.has_size().then(|| u64::from_le_bytes(wide(self.size, 0)))
    }

    fn time(&self) -> i64 {
        let is_negative = self.time.last().is_some_and(|byte| byte & 0x80 != 0);
        i64::from_le_bytes(wide(self.time, if is_negative { 0xff } else { 0 }))
    }

    /// Exact time and listed time.
    fn times(&self) -> (Option<i64>, Option<i64>) {
        let time_s = self.time();
        match self.state.time() {
            Time::Unknown => (None, None),
            Time::Utc => (Some(time_s), None),
            Time::Somewhere | Time::Roughly => (None, Some(time_s)),
            Time::Zoned => (Some(time_s + i64::from(self.zone) * ZONE_STEP_S), Some(time_s)),
        }
    }

    /// Applies the zone of the listing to a time without one.
    fn settle(&mut self, offset_s: Option<i64>) {
        if self.state.time() != Time::Somewhere {
            return;
        }
        let steps = offset_s.filter(|offset_s| offset_s % ZONE_STEP_S == 0);
        if let Some(zone) = steps.and_then(|offset_s| i8::try_from(offset_s / ZONE_STEP_S).ok()) {
            self.zone = zone;
            self.state = State::new(self.state.kind(), Time::Zoned, self.state.has_size());
        }
    }

    fn forget(&mut self) {
        self.state = State::new(self.state.kind(), Time::Unknown, false);
    }
}

/// The lower six bytes of a number whose upper two are all `fill`.
fn small(bytes: [u8; 8], fill: u8) -> Option<[u8; 6]> {
    let (low, high) = bytes.split_first_chunk()?;
    (high == [fill, fill]).then_some(*low)
}

/// Eight bytes with these six as the lower ones.
fn wide(low: [u8; 6], fill: u8) -> [u8; 8] {
    let mut bytes = [fill; 8];
    for (to, from) in bytes.iter_mut().zip(low) {
        *to = from;
    }
    bytes
}

fn name<'a>(names: &'a str, record: &Record) -> &'a str {
    let start = record.start as usize;
    names.get(start..start + usize::from(record.length)).unwrap_or_default()
}

fn unpack(names: &str, record: &Record) -> Entry {
    let (modified_s, coarse_s) = record.times();
    Entry {
        name: Name::from_mapped(name(names, record)),
        kind: if record.state.kind() == Kind::Folder { EntryKind::Folder } else { EntryKind::File },
        size: record.size(),
        modified_s,
        coarse_s,
    }
}

/// The same as [`Name::folded`].
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.nfkc().flat_map(char::to_lowercase).nfkc().collect()
}

fn folded_hash(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    fold(name).hash(&mut hasher);
    u32::try_from(hasher.finish() & u64::from(u32::MAX)).unwrap_or_default()
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut packed = Self::default();
        for entry in entries {
            packed.push(&entry);
        }
        packed
    }
}

impl From<Vec<Entry>> for Entries {
    fn from(entries: Vec<Entry>) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Entries {
    type Item = Entry;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter { names: self.names, records: self.records.into_iter() }
    }
}

/// Entries on their way out, unpacked one at a time.
#[derive(Default)]
pub struct IntoIter {
    names: String,
    records: std::vec::IntoIter<Record>,
}

impl std::fmt::Debug for IntoIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} entries", self.records.len())
    }
}

impl Iterator for IntoIter {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.records.next().map(|record| unpack(&self.names, &record))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl DoubleEndedIterator for IntoIter {
    fn next_back(&mut self) -> Option<Entry> {
        self.records.next_back().map(|record| unpack(&self.names, &record))
    }
}

impl ExactSizeIterator for IntoIter {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, kind: EntryKind) -> Entry {
        Entry { name: Name::new(name).expect(name), kind, size: None, modified_s: None, coarse_s: None }
    }

    #[test]
    fn an_entry_takes_twenty_bytes_and_its_name() {
        assert_eq!(RECORD_BYTES, 20);
        let packed: Entries = vec![entry("abc", EntryKind::File)].into();
        assert_eq!(packed.bytes(), 23);
    }

    #[test]
    fn files_and_folders_are_separated_and_keep_their_order() {
        use EntryKind::{File, Folder};
        for kinds in [[File, Folder, Folder, File, Folder], [Folder, File, File, Folder, File]] {
            let all: Vec<Entry> =
                ["a", "b", "c", "d", "e"].iter().zip(kinds).map(|(name, kind)| entry(name, kind)).collect();
            let (files, folders) = Entries::from(all.clone()).split();
            let of = |kind| all.iter().filter(|entry| entry.kind == kind).cloned().collect::<Vec<_>>();
            assert_eq!((files.into_iter().collect(), folders.into_iter().collect()), (of(File), of(Folder)));
        }
    }

    #[test]
    fn twins_are_found_without_keeping_every_folded_name() {
        let names = ["A", "README", "Stra\u{df}e", "e\u{301}", "readme", "x", "\u{e9}"];
        let packed: Entries = names.iter().map(|name| entry(name, EntryKind::File)).collect();
        let link = Name::new("X").expect("a name");
        let twins = packed.twins(&[&link]).into_iter().collect::<Vec<_>>();
        assert_eq!(twins, ["readme", "x", "\u{e9}"]);
        assert!(packed.twins(&[]).len() == 2 && Entries::default().twins(&[&link]).is_empty());
        for name in names {
            assert_eq!(fold(name), Name::new(name).expect(name).folded());
        }
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            name in "[a-z漢é]{1,20}", size in proptest::option::of(0u64..1 << 48), time_s in -(1i64 << 40)..1 << 40,
            zone in -60i64..60, kind in 0..4,
        ) {
            let (modified_s, coarse_s) = match kind {
                0 => (None, None),
                1 => (Some(time_s), None),
                2 => (None, Some(time_s)),
                _ => (Some(time_s + zone * ZONE_STEP_S), Some(time_s)),
            };
            let entry = Entry { size, modified_s, coarse_s, ..entry(&name, EntryKind::File) };
            let packed: Entries = vec![entry.clone()].into();
            prop_assert_eq!(packed.into_iter().collect::<Vec<_>>(), vec![entry]);
        }
    }
}
