//! The cycle of tickets: after ticket i comes i-1, and after 0 the last one.

use crate::base::Ticket;

/// How many steps it is from one ticket to another; the whole way round from a ticket to itself.
pub(super) fn steps(tickets: Ticket, from: Ticket, to: Ticket) -> Ticket {
    let steps = (u32::from(from) + u32::from(tickets) - u32::from(to)) % u32::from(tickets.max(1));
    if steps == 0 { tickets } else { Ticket::try_from(steps).unwrap_or(tickets) }
}

/// Whether a ticket comes after the first and before the second.
pub(super) fn is_between(tickets: Ticket, ticket: Ticket, from: Ticket, to: Ticket) -> bool {
    ticket != from && steps(tickets, from, ticket) < steps(tickets, from, to)
}

/// The ticket so many steps after another one.
pub(super) fn after(tickets: Ticket, from: Ticket, steps: Ticket) -> Ticket {
    let (tickets, from, steps) = (u32::from(tickets.max(1)), u32::from(from), u32::from(steps));
    Ticket::try_from((from + tickets - steps % tickets) % tickets).unwrap_or(0)
}

/// How many of so many witnesses must vouch: k+1 of 2k+1. In a ring too small for that, with ourselves more than half of
/// all.
pub(super) const fn needed_to_stay(witnesses: usize) -> usize {
    witnesses.div_ceil(2)
}

/// How many of so many witnesses must renounce: k+1 of 2k+1. In a ring too small for that, with themselves alone more than
/// half of all, so that two members can never exclude each other.
pub(super) const fn needed_to_exclude(witnesses: usize, faults: usize) -> usize {
    if witnesses > 2 * faults { faults + 1 } else { witnesses.div_ceil(2) + 1 }
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
    }

    #[test]
    fn those_who_stay_and_those_who_exclude_always_have_one_in_common() {
        for faults in 1..=4 {
            for witnesses in 1..=2 * faults + 1 {
                let (stay, exclude) = (needed_to_stay(witnesses), needed_to_exclude(witnesses, faults));
                assert!(stay + exclude > witnesses, "k = {faults}, {witnesses} witnesses");
            }
            assert_eq!(needed_to_stay(2 * faults + 1), faults + 1);
            assert_eq!(needed_to_exclude(2 * faults + 1, faults), faults + 1);
        }
        // Two members: the other's only witness is not enough. Three: both others. Four: all three.
        let small: Vec<usize> = (1..=3).map(|witnesses| needed_to_exclude(witnesses, 2)).collect();
        assert_eq!(small, [2, 2, 3]);
    }
}
