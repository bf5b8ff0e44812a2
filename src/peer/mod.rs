//! The peer: a running member. It joins the driver to the files, answers who wants to enrol, and can be asked over its
//! control socket.

mod borrowing;
mod control;
mod enrol;
mod lending;
mod member;
mod place;

pub use control::{Client, ControlError, MemberReport, SpanReport, StatusReport};
pub use enrol::{EnrolError, Enrolled, enrol};
pub use lending::Lending;
pub use member::{Member, Options, PeerError};
