//! Jobs: what to pull next, and what to do with it.
//!
//! A job knows sources and files, and takes its time from [`Slots`]; it does not know who gives them.
//!
//! | file | what it is |
//! |---|---|
//! | [`slots`] | a job's end of the line to whoever gives it slots |
//! | [`backoff`] | how long to wait before the next try |
//! | [`pull`] | the loop behind every job that pulls: what a feed wants, in slots |
//! | [`get`] | pulls single files |
//! | [`mirror`] | pulls what is new in a tree, and removes what is gone |
//! | [`verify`] | reads replicas again: are they what was pulled? |
//! | [`subscribe`] | follows a stream of files |
//! | [`manifest`] | what is remembered of a tree of replicas |
//! | `moved` | finds the manifest of a folder that was moved |
//! | [`board`] | what the jobs are doing, for all to see |
//! | [`schedule`] | when a job runs again |
//! | [`timing`] | when the first run of a job begins, and the record of its runs on disk |
//! | [`filter`] | which files are meant |
//! | [`template`] | names that are known without a listing |
//! | [`group`] | a command and all that it starts |
//! | [`hook`] | runs a user's command, and ends it |
//! | [`exec`] | runs a command in slots only |

pub mod backoff;
pub mod board;
pub mod exec;
pub mod filter;
pub mod get;
pub mod group;
pub mod hook;
pub mod manifest;
pub mod mirror;
mod moved;
pub mod pull;
pub mod schedule;
pub mod slots;
pub mod stop;
pub mod subscribe;
pub mod template;
pub mod timing;
pub mod verify;

pub use backoff::{Backoff, Patience};
pub use board::{Board, JobReport, Line, State};
pub use manifest::{Manifest, ManifestError, Record};
pub use slots::{Allowance, Giver, Outlook, Rhythm, Sign, Slots, Turn, Wish, average_period};
