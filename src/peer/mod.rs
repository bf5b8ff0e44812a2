//! The peer: a running member. It joins the driver to the files, answers who wants to enrol, and can be asked over its
//! control socket.

mod borrowing;
mod certificates;
mod control;
mod dials;
mod enrol;
mod greetings;
mod history;
mod lending;
mod member;
mod metrics;
mod notices;
mod page;
mod place;
mod report;
mod ring;
mod sockets;

pub use borrowing::Errand;
pub use control::{Client, ControlError};
pub use dials::Dials;
pub use enrol::{EnrolError, Enrolled, enrol};
pub use greetings::who_answers;
pub use history::{History, Past, Sample, Visit};
pub use lending::{Lending, Paused, Terms};
pub use member::{Member, Options, PeerError, first_number};
pub use notices::{Notices, Webhook};
pub use report::{
    BorrowerReport, CoordinatorReport, MemberReport, RangeReport, RingReport, SpanReport, StatusReport,
    VerdictReport,
};
