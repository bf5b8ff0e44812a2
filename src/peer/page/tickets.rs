//! The ring of tickets as a picture: the cycle in its order, clockwise from our own ticket, who has which, and which are
//! ours to give. In words, too.

use std::fmt::Write as _;

use crate::base::Ticket;
use crate::peer::report::{RangeReport, RingReport};

use super::View;
use super::chart::seconds;
use super::html::escape;
use super::ring::{NAMED, RADIUS, SIZE, member, place};

/// Of more tickets only those are drawn that somebody has.
const DRAWN: Ticket = 72;

pub(super) fn ring(view: &View, ring: &RingReport) -> String {
    let status = &view.status;
    let (tickets, top) = (ring.tickets.max(1), ring.ticket.unwrap_or(0));
    let steps = |ticket: Ticket| (i32::from(top) - i32::from(ticket)).rem_euclid(tickets.into());
    let at = |ticket: Ticket| place(usize::try_from(steps(ticket)).unwrap_or(0), tickets.into());
    let middle = SIZE / 2.0;
    let mut out = format!(
        r#"<svg class="ring" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="the ring of tickets"><circle class="round" cx="{middle}" cy="{middle}" r="{RADIUS}"/>"#
    );
    if let Some(RangeReport { from, to, count }) = ring.coordinates.filter(|range| range.count > 1) {
        let ((x1, y1), (x2, y2)) = (at(from), at(to));
        let is_long = u8::from(2 * (u32::from(count) - 1) > tickets.into());
        // Writing to a string does not fail.
        let _ = write!(
            out,
            r#"<path class="range" d="M{x1:.1} {y1:.1} A{RADIUS} {RADIUS} 0 {is_long} 1 {x2:.1} {y2:.1}"/>"#
        );
    }
    let is_free = |ticket: &Ticket| !ring.coordinators.iter().any(|one| one.ticket == *ticket);
    for ticket in (0..tickets).filter(is_free).filter(|_| tickets <= DRAWN) {
        let (x, y) = at(ticket);
        let _ = write!(
            out,
            r#"<circle class="free" cx="{x:.1}" cy="{y:.1}" r="3"><title>ticket {ticket}</title></circle>"#
        );
    }
    let own = if status.state == "pulling" { "self holds" } else { "self" };
    for one in &ring.coordinators {
        let known = status.members.iter().find(|member| member.member == one.member);
        let class = match known {
            None if one.member == status.member => own,
            Some(known) if known.suspected => "other suspected",
            _ => "other",
        };
        let name = format!("{} {}", one.ticket, one.called());
        member(&mut out, at(one.ticket), class, &name, ring.coordinators.len() <= NAMED);
    }
    if ring.ticket.is_none() {
        member(&mut out, (middle, middle), own, &status.name, true);
    }
    out.push_str("</svg>");
    out
}

/// The same in words.
pub(super) fn words(ring: &RingReport) -> String {
    let RingReport { tickets, faults, epoch, waiting, .. } = ring;
    let waited =
        ring.waited_s.map_or(String::new(), |waited| format!(", and has waited for {}", seconds(waited)));
    let own = match (ring.ticket, ring.coordinates) {
        (Some(ticket), Some(range)) => {
            let sure = if ring.sure { "" } else { ", but too few members vouch for it" };
            let gives = match range.count {
                1 => String::new(),
                _ => format!(r#"; <span class="in">it coordinates</span> {}"#, range.describe(*tickets)),
            };
            format!("This member has ticket {ticket}{sure}{waited}{gives}. {}.", followers(ring))
        }
        _ => format!("This member has no ticket{waited}. Who has one is known to those in the ring."),
    };
    format!("<p>{own}</p><p>{tickets} tickets, faults {faults}, {waiting} waiting; ring {epoch}.</p>")
}

fn followers(ring: &RingReport) -> String {
    let others = ring.coordinators.iter().skip(1);
    let others: Vec<String> =
        others.map(|one| format!("{} ({})", escape(one.called()), one.ticket)).collect();
    match others.as_slice() {
        [] => "Nobody else is in the ring".to_owned(),
        others => format!("After it come {}", others.join(", ")),
    }
}
