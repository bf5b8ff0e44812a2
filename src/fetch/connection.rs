//! What every kind of source can do: say what it has, list a folder, give a range of a file.
//!
//! A connection is lazy (nothing is opened before it is needed) and heals itself: after a fault the next call connects
//! anew. One range at a time:
//!
//! ```text
//!   open ──> read ──> read ──> … ──> None            the range is complete, and the source said so
//!               └──> cut                              ended early; the connection survives where the source lets it
//! ```
//!
//! `read` may be cancelled at any time. Any other call that is cancelled leaves a connection that throws its socket away
//! before the next one.

use std::collections::BTreeSet;
use std::future::Future;

use bytes::Bytes;

use super::fault::escape;
use super::listing::Entries;
use super::{Address, Fault, Name, NameError, Sameness, Version};

/// A range of a file that is wanted.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Of which file.
    pub address: &'a Address,
    /// From which byte.
    pub from: u64,
    /// How many bytes at most; `None` for all the rest.
    pub length: Option<u64>,
    /// The version of which there are bytes already. With it the source is asked for more of *that* version only,
    /// where it understands such questions (`If-Range`).
    pub known: Option<&'a Version>,
}

/// A range that the source has begun to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Of which version the bytes are. Whoever asked compares it with what it has.
    pub version: Version,
    /// From which byte: as asked, or 0 if the source cannot start in the middle or has another version now.
    pub from: u64,
    /// How many bytes will come, if the source says so; never more than asked.
    pub length: Option<u64>,
    /// Whether the source can start in the middle.
    pub ranges: bool,
}

/// How a range was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection is still good: nothing to log in to again.
    Kept,
    /// The connection had to be closed.
    Closed,
}

/// Type of an entry. Symbolic links are listed in [`Listing::links`], devices and pipes are only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: EntryKind,
    /// Its size, if the listing says it to the byte.
    pub size: Option<u64>,
    /// When it was last changed, in seconds since 1970, if the listing says so with a zone.
    pub modified_s: Option<i64>,
    /// The same as the listing writes it, where that is no exact time: without its zone, to the minute or to the day. Good for
    /// nothing but to see whether it is another one than the last time.
    pub coarse_s: Option<i64>,
}

impl Entry {
    /// When it was last changed, if the listing says so to the second.
    pub fn exact_s(&self) -> Option<i64> {
        self.modified_s.filter(|_| self.coarse_s.is_none())
    }
}

/// A symbolic link in a folder. FTP only: HTTP servers resolve links themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name of the link itself.
    pub name: Name,
    /// Target as written by the server (not checked, not decoded), if the listing states it.
    pub target: Option<Vec<u8>>,
}

/// The entry that a symbolic link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A file, with its version.
    File(Version),
    /// A folder.
    Folder,
    /// Nothing that exists or may be read.
    Missing,
}

/// A folder, as the source tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing<E = Vec<Entry>> {
    /// What can be pulled, in the order of the names.
    pub entries: E,
    /// Symbolic links, in the order of the names.
    pub links: Vec<Link>,
    /// Number of devices, pipes, sockets and entries of unknown type.
    pub others: u64,
    /// What was refused: the name, escaped, and why.
    pub refused: Vec<(String, NameError)>,
    /// Whether the source said, or let see, that this is not all.
    pub truncated: bool,
    /// True if folders are marked with a slash, so that every other entry is a file. False: an index page without a sign of
    /// that (Express, mini-httpd), where an entry of type file may be a folder.
    pub marks_folders: bool,
}

/// A listing that takes little memory, however long it is.
pub type PackedListing = Listing<Entries>;

impl<E> Listing<E> {
    fn with_entries<F>(self, change: impl FnOnce(E) -> F) -> Listing<F> {
        let Self { entries, links, others, refused, truncated, marks_folders } = self;
        Listing { entries: change(entries), links, others, refused, truncated, marks_folders }
    }
}

impl Listing {
    /// The same in little memory.
    #[must_use]
    pub fn pack(self) -> PackedListing {
        self.with_entries(Entries::from)
    }
}

impl PackedListing {
    /// The same with entries as values, for listings that are known to be short.
    #[must_use]
    pub fn unpack(self) -> Listing {
        self.with_entries(|entries| entries.into_iter().collect())
    }

    /// Refuses names that not every platform can hold (`--portable-names`). Twins are another matter, see
    /// [`refuse_twins`](Self::refuse_twins).
    pub fn keep_portable(&mut self) {
        self.refuse_if(|entry| entry.name.check_portable().err());
    }

    /// Names, folded, that differ only in case or Unicode composition from another one.
    pub fn twins(&self) -> BTreeSet<String> {
        let links: Vec<&Name> = self.links.iter().map(|link| &link.name).collect();
        self.entries.twins(&links)
    }

    /// Refuses all of these `twins` but the first one that is meant, for a target that does not distinguish them. Entries are
    /// sorted and come before links, so the same one stays every time.
    pub fn refuse_twins(&mut self, twins: &BTreeSet<String>, is_meant: impl Fn(&Name, EntryKind) -> bool) {
        let mut taken = BTreeSet::new();
        self.refuse_if(|entry| {
            let key = entry.name.folded();
            let is_free = !twins.contains(&key) || !is_meant(&entry.name, entry.kind) || taken.insert(key);
            (!is_free).then_some(NameError::Twice)
        });
        self.refuse_links(|name| {
            let key = name.folded();
            (twins.contains(&key) && !taken.insert(key)).then_some(NameError::Twice)
        });
    }

    /// Refuses the links whose names a rule objects to.
    pub fn refuse_links(&mut self, mut rule: impl FnMut(&Name) -> Option<NameError>) {
        let refused = &mut self.refused;
        self.links.retain(|link| match rule(&link.name) {
            Some(why) => {
                refused.push((escape(&link.name.to_string()), why));
                false
            }
            None => true,
        });
    }

    fn refuse_if(&mut self, mut rule: impl FnMut(&Entry) -> Option<NameError>) {
        let refused = &mut self.refused;
        self.entries.retain(|entry| match rule(entry) {
            Some(why) => {
                refused.push((escape(&entry.name.to_string()), why));
                false
            }
            None => true,
        });
    }
}

/// A way to a source.
pub trait Connection: Send {
    /// What the source says of a file, without pulling it.
    fn probe(&mut self, address: &Address) -> impl Future<Output = Result<Opened, Fault>> + Send;

    /// The same as it is said along with bytes of the file, and whether it can be pulled in pieces.
    fn probe_bytes(&mut self, address: &Address) -> impl Future<Output = Result<Opened, Fault>> + Send {
        self.probe(address)
    }

    /// Whether the file is still of this version. Asked after the last byte.
    fn verify(
        &mut self,
        address: &Address,
        known: &Version,
    ) -> impl Future<Output = Result<Sameness, Fault>> + Send {
        async { Ok(known.compare(&self.probe(address).await?.version)) }
    }

    /// False only if the source states that there is no such file. Asked before a replica is removed, so whatever else it
    /// answers counts as "exists".
    fn exists(&mut self, address: &Address) -> impl Future<Output = Result<bool, Fault>> + Send {
        async {
            match self.probe(address).await {
                Err(Fault::NotFound(_)) => Ok(false),
                Ok(_) | Err(Fault::IsFolder(_) | Fault::Denied(_)) => Ok(true),
                Err(fault) => Err(fault),
            }
        }
    }

    /// What the symbolic link at this address leads to. `address` has no slash at its end.
    fn resolve(&mut self, address: &Address) -> impl Future<Output = Result<LinkTarget, Fault>> + Send {
        async {
            match self.probe(address).await {
                Ok(opened) => Ok(LinkTarget::File(opened.version)),
                Err(Fault::IsFolder(_)) => Ok(LinkTarget::Folder),
                Err(Fault::NotFound(_) | Fault::Denied(_)) => Ok(LinkTarget::Missing),
                Err(fault) => Err(fault),
            }
        }
    }

    /// The entries of a folder, packed.
    fn list_packed(&mut self, address: &Address)
    -> impl Future<Output = Result<PackedListing, Fault>> + Send;

    /// The entries of a folder, as values.
    fn list(&mut self, address: &Address) -> impl Future<Output = Result<Listing, Fault>> + Send {
        async { Ok(self.list_packed(address).await?.unpack()) }
    }

    /// Gets ready for what will be asked there: connects, and logs in. Nothing is asked yet, and what goes wrong is told by
    /// the next call. Harmless if it is ready already.
    fn warm(&mut self, address: &Address) -> impl Future<Output = ()> + Send;

    /// Asks for a range. What was open is cut.
    fn open(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Opened, Fault>> + Send;

    /// The next bytes of the range; `None` when it is complete. Fewer bytes than promised are a fault, and so are more.
    fn read(&mut self) -> impl Future<Output = Result<Option<Bytes>, Fault>> + Send;

    /// Ends what is open before its end. Harmless if nothing is.
    fn cut(&mut self) -> impl Future<Output = Cut> + Send;

    /// Says goodbye, shortly. The next call connects anew.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}
