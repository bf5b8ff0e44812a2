//! Listings of folders, as sources write them. Pure: bytes in, a [`Listing`](super::Listing) out.
//!
//! The FTP connection feeds [`mlsd`], [`unix`] and [`dos`] line by line; the HTTP one hands whole pages to [`html`] and
//! [`json`]. All of them put what they find into one [`Collector`], which alone decides what becomes an entry:
//!
//! ```text
//!   bytes ──> line or page ──> Found ──> Collector ──> Listing
//!              what was written            names, twins, bounds, order
//! ```
//!
//! What a parser does not understand makes the listing incomplete, so nothing is ever deleted because of it.

mod collector;
pub mod dos;
pub mod html;
pub mod json;
mod lines;
pub mod mlsd;
mod times;
pub mod unix;

pub use collector::{Collector, Found, Kind, MOST_ENTRIES, When};
pub use lines::{Lines, Piece};
pub use times::stamp;

/// What one line of an FTP listing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An entry.
    Entry(Found<'a>),
    /// A line that is none: a total, the folder itself, its parent, a blank.
    Nothing,
    /// Something else, which may have been an entry.
    Strange,
}

/// A line of `LIST`, in whatever style; `now_s` tells which year is meant where none is given.
pub fn list_line(line: &[u8], now_s: i64) -> Line<'_> {
    match unix::line(line, now_s) {
        Line::Strange => dos::line(line),
        understood => understood,
    }
}
