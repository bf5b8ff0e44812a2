//! The cycle of tickets: after ticket i comes i-1, and after 0 the last one.

#![deny(clippy::arithmetic_side_effects)]

use crate::base::{Seat, Ticket};

/// A member numbers its seats in steps of this; within a step the number is drawn by whoever grants the seat, so that no
/// two grants make the same one: they would need the same draw, for the same ticket.
pub(super) const DRAWS: u64 = 1 << 26;

/// How many steps it is from one ticket to another; the whole way round from a ticket to itself.
pub(super) fn steps(tickets: Ticket, from: Ticket, to: Ticket) -> Ticket {
    let tickets = tickets.max(1);
    // Others may name tickets that there are none of.
    let (from, to) = (from.checked_rem(tickets).unwrap_or(0), to.checked_rem(tickets).unwrap_or(0));
    if to < from { from.saturating_sub(to) } else { tickets.saturating_sub(to).saturating_add(from) }
}

/// Whether a ticket comes after the first and before the second.
pub(super) fn is_between(tickets: Ticket, ticket: Ticket, from: Ticket, to: Ticket) -> bool {
    ticket != from && steps(tickets, from, ticket) < steps(tickets, from, to)
}

/// The ticket so many steps after another one.
pub(super) fn after(tickets: Ticket, from: Ticket, steps: Ticket) -> Ticket {
    let tickets = u32::from(tickets.max(1));
    let left = tickets.saturating_sub(u32::from(steps).checked_rem(tickets).unwrap_or(0));
    let ticket = u32::from(from).saturating_add(left).checked_rem(tickets);
    ticket.and_then(|ticket| Ticket::try_from(ticket).ok()).unwrap_or(0)
}

/// Whether a seat whose next is that one leaves no room for another.
pub(super) fn covers(tickets: Ticket, seat: Seat, next: Seat, other: Seat) -> bool {
    let has_ticket = |ours: Seat| other.ticket == ours.ticket && other != ours;
    has_ticket(seat) || has_ticket(next) || is_between(tickets, other.ticket, seat.ticket, next.ticket)
}

/// The witnesses of who comes right after a seat: that one, and its own. Nobody vouches for itself, or twice; and beyond
/// itself begins what is once round the ring already, or no longer in it.
pub(super) fn list_after(seat: Seat, witnesses: &[Seat], next: Seat, most: usize) -> Vec<Seat> {
    let mut list: Vec<Seat> = Vec::with_capacity(most);
    for witness in [&seat].into_iter().chain(witnesses).take_while(|witness| **witness != next) {
        if witness.member != next.member && list.iter().all(|other| other.member != witness.member) {
            list.push(*witness);
        }
    }
    list.truncate(most);
    list
}

/// How many of so many witnesses must vouch: k+1 of 2k+1. In a ring too small for that, with ourselves more than half of
/// all. As many must know a deed before it counts.
pub(super) const fn needed_to_stay(witnesses: usize) -> usize {
    witnesses.div_ceil(2)
}

/// How many of so many witnesses must renounce: k+1 of 2k+1. In a ring too small for that, with themselves alone more than
/// half of all, so that two members can never exclude each other.
pub(super) const fn needed_to_exclude(witnesses: usize, faults: usize) -> usize {
    if witnesses > faults.saturating_mul(2) {
        faults.saturating_add(1)
    } else {
        witnesses.div_ceil(2).saturating_add(1)
    }
}

/// How many of so many witnesses must tell what a seat that is no more has said, so that nothing that counts is missed.
pub(super) const fn needed_to_read(witnesses: usize) -> usize {
    witnesses.saturating_sub(needed_to_stay(witnesses)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_goes_down_and_round() {
        assert_eq!((steps(5, 3, 2), steps(5, 2, 3), steps(5, 3, 3), steps(1, 0, 0)), (1, 4, 5, 1));
        assert_eq!((after(5, 3, 1), after(5, 0, 1), after(5, 2, 5)), (2, 4, 2));
        assert!(is_between(5, 4, 0, 3) && !is_between(5, 3, 0, 3) && !is_between(5, 0, 0, 3));
        assert!(is_between(5, 1, 3, 3), "all others are on the way round");
        assert!(!is_between(5, 3, 3, 3));
        assert_eq!((steps(5, 3, Ticket::MAX), steps(5, Ticket::MAX, 3), after(5, Ticket::MAX, 1)), (3, 2, 4));
    }

    /// In a small ring the lists went round it more than once, and kept those who were no longer there. Nobody made room
    /// any more, as one of them never answered.
    #[test]
    fn a_list_goes_once_round_the_ring_and_no_further() {
        let seat = |ticket: Ticket| Seat {
            ticket,
            member: crate::base::MemberId::from_bytes([u8::try_from(ticket).unwrap(); 16]),
            incarnation: 1,
        };
        let list = |tickets: &[Ticket]| tickets.iter().map(|ticket| seat(*ticket)).collect::<Vec<_>>();
        assert_eq!(list_after(seat(4), &list(&[1, 2, 3, 9, 8]), seat(3), 5), list(&[4, 1, 2]));
        assert_eq!(list_after(seat(4), &list(&[5, 6, 7, 8, 9]), seat(3), 5), list(&[4, 5, 6, 7, 8]));
        // Another seat of the same member is no end, and nobody vouches for itself.
        let earlier = Seat { ticket: 6, ..seat(3) };
        assert_eq!(list_after(seat(4), &[seat(5), earlier, seat(7)], seat(3), 5), list(&[4, 5, 7]));
    }

    #[test]
    fn those_who_stay_and_those_who_exclude_always_have_one_in_common() {
        for faults in 1..=4 {
            for witnesses in 1..=2 * faults + 1 {
                let (stay, exclude) = (needed_to_stay(witnesses), needed_to_exclude(witnesses, faults));
                assert!(stay + exclude > witnesses, "k = {faults}, {witnesses} witnesses");
            }
            for witnesses in 0..=2 * faults + 1 {
                assert!(needed_to_stay(witnesses) + needed_to_read(witnesses) > witnesses);
            }
            assert_eq!(needed_to_stay(2 * faults + 1), faults + 1);
            assert_eq!(needed_to_exclude(2 * faults + 1, faults), faults + 1);
        }
        // Two members: the other's only witness is not enough. Three: both others. Four: all three.
        let small: Vec<usize> = (1..=3).map(|witnesses| needed_to_exclude(witnesses, 2)).collect();
        assert_eq!(small, [2, 2, 3]);
    }
}
