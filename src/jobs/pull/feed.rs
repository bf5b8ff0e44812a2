//! What there is to do at a source, one thing at a time: the line between a job's rules and the pulling itself.
//!
//! A feed is a machine without clock, socket or disk. The puller asks it for the next [`Task`], does it while a slot
//! lasts, and tells how it ended; a get, a mirror and a subscription differ in their feeds alone.
//!
//! ```text
//!   feed ── Next::Task(List) ──> puller ── Listing ──> feed ── Next::Task(Pull) ──> puller ── Fate ──> feed ── …
//!                                                      feed ── Next::Wait ──> the token goes on
//! ```

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::Time;
use crate::fetch::engine::PullError;
use crate::fetch::sink::Digest;
use crate::fetch::{Address, Fault, LinkTarget, Name, PackedListing, Version};

use super::report::Fate;

/// The time, as a feed is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On the puller's own clock, which is never set.
    pub now: Time,
    /// In seconds since 1970.
    pub wall_s: i64,
}

/// Where a job's work comes from.
pub trait Feed: Send {
    /// What to do next.
    fn next(&mut self, at: Moment) -> Next;

    /// A task has ended. Tasks that were given out and not ended when the pull is over did not end.
    fn ended(&mut self, id: usize, end: End, at: Moment);

    /// Where the next task will probably be, so that a connection can be opened before its turn.
    fn outlook(&self) -> Option<Address>;

    /// How many tasks may be done side by side. If it is one, all connections work on it.
    fn abreast(&self) -> usize {
        usize::MAX
    }

    /// Whether the job itself waits until files have settled at the source: streams have `--settle`.
    fn waits_until_settled(&self) -> bool {
        false
    }

    /// How fast the stream grows at its source, if this is a stream.
    fn stream_rate(&self) -> Option<u64> {
        None
    }

    /// How many bytes are known to be at the source and not here, if this is a stream.
    fn backlog(&self) -> u64 {
        0
    }

    /// A turn begins, in a slot that ends by itself or not; or (`false`) it is over.
    fn slot_changed(&mut self, is_in_limited_slot: bool) {
        let _ = is_in_limited_slot;
    }
}

/// What to do next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is asked for, looked at and gone; never stored")]
pub enum Next {
    /// This. The number is the feed's own, and never given twice.
    Task(usize, Task),
    /// Nothing yet: finding it out takes a while. Ask again when others had their turn.
    Again,
    /// Nothing now. Ask again then, or when a task has ended.
    Wait(Option<Time>),
    /// Nothing any more.
    Done,
}

/// Something to do at a source.
#[derive(Clone, Debug)]
pub enum Task {
    /// Pull a file.
    Pull(Want),
    /// List a folder.
    List(Address),
    /// Append what is new of a file that grows.
    Follow(Follow),
    /// Ask whether a file exists, before its replica is removed.
    Probe(Address),
    /// Ask what is at an address without a slash at its end: a file, a folder, nothing.
    Resolve(Address),
}

/// How a task ended.
#[derive(Debug)]
pub enum End {
    /// What became of a file.
    Pulled(Fate),
    /// A folder, or why there is none.
    Listed(Result<PackedListing, Fault>),
    /// How far a growing file has come, or why it has not.
    Followed(Result<Followed, PullError>),
    /// False only if the source states that there is no such file.
    Probed(Result<bool, Fault>),
    /// What is at the address.
    Resolved(Result<LinkTarget, Fault>),
}

/// A growing file that is wanted. Only one task at a time may be about it.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Where it is.
    pub address: Address,
    /// The folder that the user named; made if it is not there.
    pub root: PathBuf,
    /// The way down from it.
    pub below: Vec<Name>,
    /// The name.
    pub name: Name,
    /// Whether the old replica is kept under another name when the file is suddenly another one.
    pub keep_old: bool,
}

/// How far a growing file has come.
#[derive(Debug)]
pub struct Followed {
    /// The replica.
    pub file: Arc<File>,
    /// So many bytes of it are durable.
    pub len: u64,
    /// What the source says of the file, if it said something.
    pub version: Option<Version>,
    /// Whether everything that the source had is here.
    pub is_complete: bool,
    /// If the source has another file: this was the replica until now, and `file` is a new one.
    pub rotated: Option<Rotated>,
}

/// The replica of a file that is no more.
#[derive(Debug)]
pub struct Rotated {
    /// The old replica.
    pub file: Arc<File>,
    /// So many bytes of it are durable.
    pub len: u64,
    /// The name that it has now, if it was kept.
    pub kept: Option<Name>,
}

/// A file that is wanted.
#[derive(Clone, Debug)]
pub struct Want {
    /// Where it is.
    pub address: Address,
    /// Where it goes.
    pub to: To,
    /// What its bytes must add up to.
    pub expected: Option<Digest>,
    /// Whether to ask the source first if the replica that is here is the same. Who has seen a listing knows already.
    pub ask_first: bool,
    /// It is wanted only if it was changed within these times, in seconds since 1970: the source is asked.
    pub changed_within: Option<RangeInclusive<i64>>,
    /// Entity tag of the replica, if the replica is unchanged since it was pulled. Decides where the source sends no time.
    pub known_etag: Option<String>,
}

/// Where a file goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// Into a folder, under a name.
    File {
        /// The folder that the user named; made if it is not there.
        root: PathBuf,
        /// The way down from it. No link is followed there.
        below: Vec<Name>,
        /// The name.
        name: Name,
    },
    /// To standard output, in order.
    Stdout,
}

impl Task {
    /// Where it is to be done.
    pub fn address(&self) -> &Address {
        match self {
            Self::Pull(want) => &want.address,
            Self::List(address) | Self::Probe(address) | Self::Resolve(address) => address,
            Self::Follow(follow) => &follow.address,
        }
    }
}

impl To {
    /// Where the file will be, for people.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::File { root, below, name } => {
                let mut path = root.clone();
                path.extend(below.iter().map(Name::to_os_string));
                path.push(name.to_os_string());
                Some(path)
            }
            Self::Stdout => None,
        }
    }
}
