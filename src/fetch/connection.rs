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

use std::future::Future;

use bytes::Bytes;

use super::{Address, Fault, Name, NameError, Version};

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

/// What an entry of a folder is. Links are not followed and anything else is not pulled, so they are not entries.
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

/// A folder, as the source tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// What can be pulled, in the order of the names.
    pub entries: Vec<Entry>,
    /// What was refused: the name, escaped, and why.
    pub refused: Vec<(String, NameError)>,
    /// Whether the source said, or let see, that this is not all.
    pub truncated: bool,
}

/// A way to a source.
pub trait Connection: Send {
    /// What the source says of a file, without pulling it.
    fn probe(&mut self, address: &Address) -> impl Future<Output = Result<Opened, Fault>> + Send;

    /// The entries of a folder.
    fn list(&mut self, address: &Address) -> impl Future<Output = Result<Listing, Fault>> + Send;

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
