//! The peer: a running member. It joins the driver to the files, answers who wants to enrol, and can be asked over its
//! control socket.

mod borrowed;
mod borrowing;
mod certificates;
mod control;
mod dials;
mod enrol;
mod greetings;
mod health;
mod history;
mod lending;
mod member;
mod metrics;
mod notices;
mod pace;
mod page;
mod place;
mod report;
mod ring;
mod ring_report;
mod sockets;
mod turn_terms;

pub use borrowing::Errand;
pub use control::{Client, ControlError, LimitReport, Ordered};
pub use dials::Dials;
pub use enrol::{EnrolError, Enrolled, enrol};
pub use greetings::who_answers;
pub use health::{Health, Severity};
pub use history::{History, Past, Sample, Visit};
pub use lending::{Lending, Paused, Terms};
pub use member::{Member, Options, PeerError, first_number};
pub use notices::{Notices, Webhook};
pub use report::{
    BorrowerReport, CoordinatorReport, MemberReport, PageReport, RangeReport, RingReport, RiskReport,
    SpanReport, StatusReport, VerdictReport,
};

/// Target of the log lines that are shown by default though nothing is wrong: one per finished run of a job, per delivered
/// batch and per change of the settings, and when something that was missing is there again.
pub const DONE: &str = "stroll_done";
