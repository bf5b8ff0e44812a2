//! Pulling: bytes from an HTTP or FTP source into files that are never corrupt.
//!
//! This room knows nothing of tokens. It gets a [`Slot`] (until when, how fast, and an order to stop that may come any
//! time), reads through a [`Connection`], and hands back what it did.
//!
//! ```text
//!   Address ──> Connection (http, ftp) ──> engine ──> Part (sink) ──> the file
//!                 version, refusal           │          journal, digest
//!                                 plan, limit, slot
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`address`] | where a file is, without its password |
//! | [`name`] | one component of a path that is safe on every machine |
//! | [`slot`] | the time in which bytes may be read |
//! | [`version`] | what tells one version of a file from another |
//! | [`connection`] | what every kind of source can do |
//! | [`fault`] | what goes wrong, and what a refusal means |
//! | [`http`] | HTTP and HTTPS sources |
//! | [`limit`], [`timetable`] | how fast bytes may be read, and when how fast |
//! | [`plan`] | how much to ask for next |
//! | [`engine`] | pulls one file, range after range, while the slot lasts |
//! | [`store`] | where the engine puts bytes |
//! | [`source`] | a connection of whatever kind an address says |
//! | [`sink`] | files that are never corrupt: parts, journal, digests, the disk's threads |
//! | [`ftp`] | FTP and FTPS |
//! | [`listing`] | folders, as sources write them |
//! | [`children`] | process groups of the commands that this process has started |
//! | [`options`], [`login`], [`tls`] | how connections behave, who we are, whom to trust |

pub mod address;
pub mod children;
pub mod connection;
pub mod engine;
pub mod fault;
pub mod ftp;
pub mod http;
pub mod limit;
pub mod listing;
pub mod login;
pub mod name;
pub mod options;
pub mod plan;
pub mod sink;
pub mod slot;
pub mod source;
pub mod store;
pub mod timetable;
pub mod tls;
pub mod version;

pub use address::{Address, AddressError, Scheme};
pub use connection::{
    Ask, Connection, Cut, Entry, EntryKind, Link, LinkTarget, Listing, Opened, PackedListing,
};
pub use fault::{Fault, Refusal, escape};
pub use login::{Login, Logins, Secret};
pub use name::{Name, NameError};
pub use options::{FtpTls, Options};
pub use slot::Slot;
pub use version::{Sameness, Version};
