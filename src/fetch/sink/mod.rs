//! Files that are never corrupt: what a pull leaves on the disk is complete and right, or a `.part` that can be resumed.
//!
//! | file | what it is |
//! |---|---|
//! | [`folder`] | a folder held open; nothing below it is reached by a path |
//! | [`part`] | one file being pulled: begin, write, checkpoint, finish |
//! | `file` | the same as the disk's threads see it |
//! | [`disk`] | the threads that wait for the disk |
//! | `commit` | proved, durable, named: for one file or many at once |
//! | `check` | what a file that is there already adds up to |
//! | [`journal`] | what is remembered of a part across crashes |
//! | `chunks` | hashes of the bytes that are there, verified before a resume |
//! | `space` | room on the disk, reserved in steps |
//! | [`ranges`] | which bytes are there |
//! | [`digest`], [`sums`] | checksums, given by hand or in a list |
//! | [`growing`] | the replica of a file that grows |
//! | [`stdout`] | bytes in order into a pipe instead |
//! | [`error`] | what goes wrong, where, and what helps |
//!
//! What holds, whatever happens and whenever the process is killed or the power fails:
//!
//! - Under its final name a file is complete: all bytes are durable before it gets that name.
//! - The journal claims only bytes that were durable before the claim; what came after the last checkpoint is pulled again.
//! - Bytes of two versions never meet: a record goes before the bytes of the next version come.
//! - Nothing is written, renamed or removed outside the target, nor any file but the one we made and hold locked.

mod along;
mod check;
mod chunks;
mod commit;
pub mod digest;
pub mod disk;
pub mod error;
mod file;
pub mod folder;
pub mod growing;
pub mod journal;
pub mod part;
pub mod ranges;
mod space;
pub mod stdout;
pub mod sums;

pub use check::{begin_digest, digest_of};
pub use commit::{Finish, Finished};
pub use digest::{Algorithm, Digest, DigestError, Hasher};
pub use disk::{Disk, Reply};
pub use error::SinkError;
pub use folder::{Folder, Here, Replica};
pub use growing::Growing;
pub use journal::{Journal, JournalPlace};
pub use part::{Opening, Part, Pending};
pub use ranges::Ranges;
pub use stdout::Pipe;
pub use sums::Sums;
