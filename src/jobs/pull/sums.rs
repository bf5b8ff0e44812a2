//! Checksums that lie beside the files at the source: `SHA256SUMS`, `CHECKSUM`, `FILE.sha256` and their like.
//!
//! In a folder that was listed only the lists that are there are asked for, and so are those of the listed folders above
//! it, which may name files by their paths. Elsewhere a few usual names are tried. Lists are parsed as they come, and the
//! least recently used ones are dropped when all together would take too much memory.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::fetch::sink::sums::{ListName, MOST_MEMORY, Said, Sums, SumsError, SumsReader};
use crate::fetch::sink::{Algorithm, Digest};
use crate::fetch::source::pull_small;
use crate::fetch::{Address, Ask, Connection, EntryKind, Fault, Name, PackedListing};

use super::checksums::Checksums;

/// A checksum of one file is a line; ten thousand bytes are generous.
const SINGLE_LIMIT: usize = 10_000;

/// The lists that are tried in a folder that was not listed, best first.
const USUAL_LISTS: [&str; 8] = [
    "SHA256SUMS",
    "sha256sum.txt",
    "sha256sums.txt",
    "SHA512SUMS",
    "CHECKSUMS",
    "CHECKSUM",
    "MD5SUMS",
    "md5sum.txt",
];

/// What may lie beside a single file, best first.
const ENDINGS: [(&str, Algorithm); 10] = [
    (".sha256", Algorithm::Sha256),
    (".sha512", Algorithm::Sha512),
    (".md5", Algorithm::Md5),
    (".sha256sum", Algorithm::Sha256),
    (".sha512sum", Algorithm::Sha512),
    (".md5sum", Algorithm::Md5),
    (".sha256.txt", Algorithm::Sha256),
    (".sha512.txt", Algorithm::Sha512),
    (".md5.txt", Algorithm::Md5),
    (".b3", Algorithm::Blake3),
];

/// So many of [`ENDINGS`] are tried where nothing was listed.
const USUAL_ENDINGS: usize = 3;

/// A list that does not know a file may be older than the file: then it is read again, but not more often than this.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// So many folders are remembered.
const MOST_FOLDERS: usize = 4_096;

/// So many lists are used in one folder.
const MOST_LISTS: usize = 64;

/// A list that was cut off by so many slots does not fit into one.
const LIST_TRIES: u32 = 5;

/// Looks for checksums at the source, each list once, and again if it may have changed.
#[derive(Debug, Default)]
pub(super) struct SumsBeside {
    folders: BTreeMap<String, Folder>,
    /// Counts the uses of folders.
    uses: u64,
    report: Checksums,
}

/// What is known of the lists in a folder.
#[derive(Debug)]
struct Folder {
    lists: Vec<List>,
    /// Hashes of the names of files such as `FILE.sha256`, sorted; `None` if the folder was not listed.
    beside: Option<Vec<u64>>,
    /// Whether a list that does not know a file may be read again.
    may_read_again: bool,
    last_use: u64,
}

/// A list.
#[derive(Debug)]
struct List {
    name: Name,
    algorithm: Option<Algorithm>,
    /// Size and times, as listed.
    version: (Option<u64>, Option<i64>, Option<i64>),
    /// How often it was begun to be read, and not ended.
    tries: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Unread,
    /// It is not there, or is no list.
    Absent,
    Read {
        sums: Sums,
        at: Instant,
    },
    /// It is there, and cannot be used.
    Unusable(String),
}

impl List {
    fn new(name: Name) -> Option<Self> {
        let algorithm = ListName::of(name.as_str())?.algorithm;
        Some(Self { name, algorithm, version: (None, None, None), tries: 0, state: State::Unread })
    }

    fn memory(&self) -> usize {
        if let State::Read { sums, .. } = &self.state { sums.memory() } else { 0 }
    }

    /// Stronger functions first; lists that do not tell theirs before MD5.
    fn rank(&self) -> (u8, &str) {
        let rank = match self.algorithm {
            Some(Algorithm::Sha256) => 0,
            Some(Algorithm::Sha512) => 1,
            Some(Algorithm::Blake3) => 2,
            None => 3,
            Some(Algorithm::Md5) => 4,
        };
        (rank, self.name.as_str())
    }
}

impl Folder {
    /// Of which nothing is known: usual names are tried.
    fn unlisted() -> Self {
        let lists = USUAL_LISTS.iter().filter_map(|name| List::new(Name::new(name).ok()?)).collect();
        Self { lists, beside: None, may_read_again: true, last_use: 0 }
    }

    fn listed(listing: &PackedListing) -> Self {
        let files = || listing.entries.iter().filter(|entry| entry.kind == EntryKind::File);
        // Only a list about one file has to be told from one of many.
        let mut all = Vec::new();
        let is_about_one = |name: &str| ListName::of(name).is_some_and(|list| list.about.is_some());
        if files().any(|entry| is_about_one(entry.name.as_str())) {
            all.extend(files().map(|entry| hash(entry.name.as_str())));
            all.sort_unstable();
        }
        let is_there = |about: &str| all.binary_search(&hash(about)).is_ok();
        let (mut lists, mut beside) = (Vec::new(), Vec::new());
        for entry in files() {
            let Some(list) = ListName::of(entry.name.as_str()) else { continue };
            if list.about.is_some_and(is_there) {
                beside.push(hash(entry.name.as_str()));
            } else if lists.len() < MOST_LISTS
                && let Some(list) = List::new(entry.name.clone())
            {
                lists.push(List { version: (entry.size, entry.modified_s, entry.coarse_s), ..list });
            }
        }
        lists.sort_by(|a, b| a.rank().cmp(&b.rank()));
        beside.sort_unstable();
        Self { lists, beside: Some(beside), may_read_again: true, last_use: 0 }
    }

    /// Keeps what was read of lists that have not changed since.
    fn keep(&mut self, before: Self) {
        for old in before.lists {
            let same =
                self.lists.iter_mut().find(|list| list.name == old.name && list.version == old.version);
            if let Some(list) = same {
                *list = old;
            }
        }
    }

    fn memory(&self) -> usize {
        self.lists.iter().map(List::memory).sum()
    }
}

impl SumsBeside {
    /// A folder was listed.
    pub(super) fn listed(&mut self, folder: &Address, listing: &PackedListing) {
        if listing.truncated {
            return;
        }
        let key = folder.to_string();
        let mut new = Folder::listed(listing);
        if let Some(before) = self.folders.remove(&key) {
            new.keep(before);
        }
        self.insert(key, new);
    }

    /// What was used.
    pub(super) fn into_report(self) -> Checksums {
        self.report
    }

    /// The checksum of a file, if the source has one. To be asked once for each file, which is counted.
    pub(super) async fn find<C: Connection>(
        &mut self,
        source: &mut C,
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        let (Ok(name), Some(folder)) = (address.file_name(), address.parent()) else { return Ok(None) };
        let mut digest = self.in_lists(source, &folder, &name, address).await?;
        if digest.is_none() {
            digest = self.beside(source, &folder, &name, address).await?;
        }
        // A list need not name itself.
        self.report.files_without += u64::from(digest.is_none() && !is_list(&name));
        Ok(digest)
    }

    fn insert(&mut self, key: String, folder: Folder) {
        if self.folders.len() >= MOST_FOLDERS
            && let Some(oldest) = self.least_used(|_, _| true)
        {
            self.folders.remove(&oldest);
        }
        self.uses += 1;
        self.folders.insert(key, Folder { last_use: self.uses, ..folder });
    }

    fn least_used(&self, which: impl Fn(&str, &Folder) -> bool) -> Option<String> {
        let some = self.folders.iter().filter(|(key, folder)| which(key, folder));
        some.min_by_key(|(_, folder)| folder.last_use).map(|(key, _)| key.clone())
    }

    /// Looks into the lists of the file's folder, and of the listed folders above it.
    async fn in_lists<C: Connection>(
        &mut self,
        source: &mut C,
        own: &Address,
        name: &Name,
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        if !self.folders.contains_key(&own.to_string()) {
            self.insert(own.to_string(), Folder::unlisted());
        }
        let (mut path, mut folder) = (name.to_bytes(), own.clone());
        loop {
            let key = folder.to_string();
            let found = self.in_folder(source, &folder, &key, &path, address).await?;
            if found.is_some() {
                return Ok(found);
            }
            let (Some(above), Some(below)) = (folder.parent(), last_part(&folder)) else { return Ok(None) };
            let is_listed = |above: &Folder| above.beside.is_some();
            if !self.folders.get(&above.to_string()).is_some_and(is_listed) {
                return Ok(None);
            }
            path = [&below[..], b"/", &path].concat();
            folder = above;
        }
    }

    async fn in_folder<C: Connection>(
        &mut self,
        source: &mut C,
        folder: &Address,
        key: &str,
        path: &[u8],
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        self.uses += 1;
        let uses = self.uses;
        let Some(known) = self.folders.get_mut(key) else { return Ok(None) };
        known.last_use = uses;
        let mut is_second = false;
        loop {
            let count = self.folders.get(key).map_or(0, |known| known.lists.len());
            for index in 0..count {
                if let Some(digest) = self.in_list(source, folder, key, index, path, address).await? {
                    return Ok(Some(digest));
                }
            }
            if is_second || !self.forget_old(key) {
                return Ok(None);
            }
            is_second = true;
        }
    }

    /// Forgets what was read a while ago, if that is worth another look.
    fn forget_old(&mut self, key: &str) -> bool {
        let Some(folder) = self.folders.get_mut(key) else { return false };
        if !folder.may_read_again {
            return false;
        }
        let mut has_forgotten = false;
        for list in &mut folder.lists {
            if matches!(&list.state, State::Read { at, .. } if at.elapsed() > READ_AGAIN_AFTER) {
                list.state = State::Unread;
                has_forgotten = true;
            }
        }
        // A listed folder tells when there is another version to be read.
        folder.may_read_again = !has_forgotten || folder.beside.is_none();
        has_forgotten
    }

    async fn in_list<C: Connection>(
        &mut self,
        source: &mut C,
        folder: &Address,
        key: &str,
        index: usize,
        path: &[u8],
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        if self.list(key, index).is_some_and(|list| matches!(list.state, State::Unread)) {
            self.read(source, folder, key, index).await?;
        }
        let Some(list) = self.list(key, index) else { return Ok(None) };
        let at = folder.file(&list.name);
        match &list.state {
            State::Unread | State::Absent => Ok(None),
            State::Unusable(why) => Err(Fault::Unsupported(format!("{at}: {why}; without it: --sums off"))),
            State::Read { sums, .. } => {
                let said = sums.said_of(path);
                self.judge(said, &at.to_string(), &at, address)
            }
        }
    }

    /// What follows from what a list says.
    fn judge(
        &mut self,
        said: Said,
        told_as: &str,
        list: &Address,
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        match said {
            Said::Nothing => Ok(None),
            Said::Digest(digest) => {
                self.report.used(told_as);
                Ok(Some(digest))
            }
            Said::Conflict => Err(Fault::Nonsense(format!(
                "{list} has different checksums for {address}; ask who made the list"
            ))),
        }
    }

    fn list(&mut self, key: &str, index: usize) -> Option<&mut List> {
        self.folders.get_mut(key)?.lists.get_mut(index)
    }

    async fn read<C: Connection>(
        &mut self,
        source: &mut C,
        folder: &Address,
        key: &str,
        index: usize,
    ) -> Result<(), Fault> {
        let Some(known) = self.folders.get_mut(key) else { return Ok(()) };
        let is_listed = known.beside.is_some();
        let Some(list) = known.lists.get_mut(index) else { return Ok(()) };
        // Counted before: a slot that ends drops this call in the middle.
        list.tries += 1;
        let (at, algorithm, tries) = (folder.file(&list.name), list.algorithm, list.tries);
        let state = if tries > LIST_TRIES {
            State::Unusable("reading the list of checksums takes longer than a slot".to_owned())
        } else {
            match self.pull(source, key, &at, algorithm).await {
                Ok(Ok(sums)) if !sums.is_empty() => State::Read { sums, at: Instant::now() },
                Ok(Ok(sums)) if sums.unused() > 0 => self
                    .not_a_list(&at, "only checksums of other kinds than SHA-256, SHA-512, BLAKE3 and MD5"),
                Ok(Ok(_)) if is_listed => self.not_a_list(&at, "no checksums in it"),
                Ok(Err(SumsError::Page)) if is_listed => self.not_a_list(&at, &SumsError::Page.to_string()),
                // Where usual names are tried, what cannot be had is not there.
                Ok(Ok(_) | Err(SumsError::Page)) | Err(Fault::NotFound(_)) => State::Absent,
                Ok(Err(error)) => {
                    self.report.cannot_use(&at.to_string(), error.to_string());
                    State::Unusable(error.to_string())
                }
                Err(Fault::Denied(_) | Fault::IsFolder(_) | Fault::Redirect(_)) if !is_listed => {
                    State::Absent
                }
                Err(fault) => {
                    if let Some(list) = self.list(key, index) {
                        list.tries = 0;
                    }
                    return Err(fault);
                }
            }
        };
        if let Some(list) = self.list(key, index) {
            (list.state, list.tries) = (state, 0);
        }
        Ok(())
    }

    fn not_a_list(&mut self, at: &Address, why: &str) -> State {
        warn!(list = %at, why, "a list of checksums is not used");
        self.report.cannot_use(&at.to_string(), why.to_owned());
        State::Absent
    }

    /// Reads a list as it comes, and drops others for it if need be.
    async fn pull<C: Connection>(
        &mut self,
        source: &mut C,
        key: &str,
        at: &Address,
        algorithm: Option<Algorithm>,
    ) -> Result<Result<Sums, SumsError>, Fault> {
        source.open(Ask { address: at, from: 0, length: None, known: None }).await?;
        let mut reader = SumsReader::new(algorithm);
        while let Some(piece) = source.read().await? {
            if let Err(error) = reader.push(&piece) {
                source.cut().await;
                return Ok(Err(error));
            }
            self.make_room(reader.memory(), key);
        }
        Ok(reader.finish())
    }

    /// Drops the least recently used lists until `wanted` more bytes fit.
    fn make_room(&mut self, wanted: usize, keep: &str) {
        let mut taken: usize = self.folders.values().map(Folder::memory).sum();
        while taken + wanted > MOST_MEMORY {
            let oldest = self.least_used(|key, folder| key != keep && folder.memory() > 0);
            // Those of the same folder go last.
            let oldest = oldest.or_else(|| self.least_used(|_, folder| folder.memory() > 0));
            let Some(folder) = oldest.and_then(|key| self.folders.get_mut(&key)) else { return };
            taken -= folder.memory();
            for list in folder.lists.iter_mut().filter(|list| list.memory() > 0) {
                list.state = State::Unread;
            }
        }
    }

    /// Looks for a file such as `FILE.sha256`.
    async fn beside<C: Connection>(
        &mut self,
        source: &mut C,
        folder: &Address,
        name: &Name,
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        let own = folder.to_string();
        for (index, (ending, algorithm)) in ENDINGS.into_iter().enumerate() {
            let Ok(beside) = Name::from_bytes(&[&name.to_bytes(), ending.as_bytes()].concat()) else {
                continue;
            };
            let is_there = match self.folders.get(&own).and_then(|folder| folder.beside.as_ref()) {
                Some(listed) => listed.binary_search(&hash(beside.as_str())).is_ok(),
                None => index < USUAL_ENDINGS && !is_list(name),
            };
            if !is_there {
                continue;
            }
            let list = folder.file(&beside);
            let content = match pull_small(source, &list, SINGLE_LIMIT).await {
                Ok(content) => content,
                Err(Fault::Denied(_) | Fault::IsFolder(_) | Fault::Redirect(_) | Fault::Nonsense(_)) => None,
                Err(fault) => return Err(fault),
            };
            // A page that says that there is nothing is not a list.
            let sums = content.and_then(|content| Sums::parse(&content, Some(algorithm)).ok());
            let said = sums.map_or(Said::Nothing, |sums| sums.said_of_only(&name.to_bytes()));
            if let Some(digest) = self.judge(said, &format!("FILE{ending}"), &list, address)? {
                return Ok(Some(digest));
            }
        }
        Ok(None)
    }
}

/// Whether a file is a list itself, or the signature of one: no list can name those.
pub(super) fn is_list(name: &Name) -> bool {
    let text = name.as_str();
    let signed = [".asc", ".sig", ".sign", ".gpg"].iter().find_map(|ending| text.strip_suffix(ending));
    ListName::of(text).is_some() || signed.is_some_and(|signed| ListName::of(signed).is_some())
}

/// A listing of a million names takes eight megabytes.
fn hash(name: &str) -> u64 {
    let mut hash = [0; 8];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut hash);
    u64::from_be_bytes(hash)
}

/// The name of a folder.
fn last_part(folder: &Address) -> Option<Vec<u8>> {
    let path = folder.path();
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.next_back().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Entry;

    fn listing(names: &[&str]) -> PackedListing {
        let entry = |name: &&str| Entry {
            name: Name::new(name).expect(name),
            kind: EntryKind::File,
            size: Some(1),
            modified_s: None,
            coarse_s: None,
        };
        PackedListing { entries: names.iter().map(entry).collect(), ..PackedListing::default() }
    }

    fn lists(folder: &Folder) -> Vec<&str> {
        folder.lists.iter().map(|list| list.name.as_str()).collect()
    }

    #[test]
    fn lists_are_taken_from_the_listing_the_strongest_first() {
        let folder = Folder::listed(&listing(&[
            "MD5SUMS",
            "CHECKSUM",
            "SHA256SUMS",
            "a",
            "a.md5",
            "release.sha256",
            "sha512sums.txt",
        ]));
        let expected = ["SHA256SUMS", "release.sha256", "sha512sums.txt", "CHECKSUM", "MD5SUMS"];
        assert_eq!(lists(&folder), expected);
        assert_eq!(folder.beside, Some(vec![hash("a.md5")]));
    }

    #[test]
    fn a_list_that_is_listed_with_another_size_is_read_again() {
        let folder = Address::parse("http://h/d/").expect("an address").0;
        let mut sums = SumsBeside::default();
        let seen = listing(&["SHA256SUMS", "MD5SUMS"]);
        sums.listed(&folder, &seen);
        let key = folder.to_string();
        for index in 0..2 {
            let list = sums.list(&key, index).expect("a list");
            list.state = State::Read { sums: Sums::default(), at: Instant::now() };
        }
        let mut changed = seen.unpack();
        changed.entries[0].size = Some(2);
        sums.listed(&folder, &changed.pack());
        let is_read = |index: usize| matches!(sums.folders[&key].lists[index].state, State::Read { .. });
        assert!(!is_read(0) && is_read(1));
    }

    #[test]
    fn folders_are_bounded_and_the_least_used_is_dropped_first() {
        let mut sums = SumsBeside::default();
        let address = |n: usize| Address::parse(&format!("http://h/{n}/")).expect("an address").0;
        for n in 0..MOST_FOLDERS + 10 {
            sums.listed(&address(n), &listing(&["SHA256SUMS"]));
        }
        assert_eq!(sums.folders.len(), MOST_FOLDERS);
        assert!(!sums.folders.contains_key(&address(9).to_string()));
        assert!(sums.folders.contains_key(&address(10).to_string()));
    }
}
