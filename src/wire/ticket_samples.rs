//! What members say about tickets, for the tests of this room: one of each, and any.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::samples::{any_member, any_millis};
use super::{COORDINATORS_LIMIT, SEATS_LIMIT, WAITERS_LIMIT};
use crate::base::{Ask, Deed, MemberId, Seat, Standing, TicketMessage, Vouch, Waiter};

pub(super) fn seat(byte: u8) -> Seat {
    Seat { ticket: byte.into(), member: MemberId::from_bytes([byte; 16]), incarnation: 70 + u64::from(byte) }
}

pub(super) fn longest_ask() -> Ask {
    let waiter = |byte| Waiter {
        member: MemberId::from_bytes([byte; 16]),
        incarnation: 5,
        waited: Duration::from_millis(u64::MAX),
    };
    let deed = |version, from| Deed {
        version,
        next: seat(2),
        beyond: Some(seat(3)),
        witnesses: (from..).take(SEATS_LIMIT).map(seat).collect(),
    };
    Ask {
        seat: seat(1),
        standing: Standing { number: 7, deed: deed(3, 10), proposed: Some(deed(4, 20)) },
        unsure_for: Duration::from_millis(u64::MAX),
        is_settled: true,
        is_reminder: true,
        waiters: (30..).take(WAITERS_LIMIT).map(waiter).collect(),
    }
}

/// One of each, in the order of their tags.
pub(super) fn ticket_messages() -> [TicketMessage; 16] {
    let Ask { standing, waiters, .. } = longest_ask();
    let witnesses = standing.deed.witnesses.clone();
    let introduction = Some(standing.deed.clone());
    let standing = Some(standing);
    let (one, other, attempt, since) = (seat(1), seat(2), 9, 10);
    [
        TicketMessage::Ask(longest_ask()),
        TicketMessage::Vouch(Vouch { number: 8, since, proposed: Some(2), is_sure: true, waiters }),
        TicketMessage::Gone { seat: one },
        TicketMessage::NotMe { seat: one, since, is_vacant: false, standing: standing.clone() },
        TicketMessage::Join { incarnation: 3, waited: Duration::from_secs(4) },
        TicketMessage::Wait { coordinators: witnesses.iter().take(4).map(|seat| seat.member).collect() },
        TicketMessage::Grant {
            by: one,
            seat: other,
            next: seat(3),
            witnesses: witnesses.clone(),
            deed: introduction.clone(),
        },
        TicketMessage::Update { to: one, witnesses },
        TicketMessage::Knock { seat: one },
        TicketMessage::Here { seat: one },
        TicketMessage::Lock { by: one, attempt, seat: other },
        TicketMessage::Locked { attempt, seat: one, since, quiet_for: Duration::from_secs(5), standing },
        TicketMessage::Bound { seat: one, by: other, attempt, witness: other.member },
        TicketMessage::Unlock { seat: one, by: other, attempt },
        TicketMessage::Release { seat: one, next: other, deed: introduction },
        TicketMessage::Released { seat: one },
    ]
}

fn any_seat() -> impl Strategy<Value = Seat> {
    (any::<u16>(), any_member(), any::<u64>()).prop_map(|(ticket, member, incarnation)| Seat {
        ticket,
        member,
        incarnation,
    })
}

fn any_seats() -> impl Strategy<Value = Vec<Seat>> {
    vec(any_seat(), 0..=SEATS_LIMIT)
}

fn any_deed() -> impl Strategy<Value = Deed> {
    (any::<u32>(), any_seat(), option::of(any_seat()), any_seats())
        .prop_map(|(version, next, beyond, witnesses)| Deed { version, next, beyond, witnesses })
}

fn any_standing() -> impl Strategy<Value = Standing> {
    (any::<u64>(), any_deed(), option::of(any_deed())).prop_map(|(number, deed, proposed)| Standing {
        number,
        deed,
        proposed,
    })
}

fn any_waiters() -> impl Strategy<Value = Vec<Waiter>> {
    let waiter = (any_member(), any::<u64>(), any_millis())
        .prop_map(|(member, incarnation, waited)| Waiter { member, incarnation, waited });
    vec(waiter, 0..=WAITERS_LIMIT)
}

fn any_ask() -> impl Strategy<Value = Ask> {
    (any_seat(), any_standing(), any_millis(), any::<[bool; 2]>(), any_waiters()).prop_map(
        |(seat, standing, unsure_for, [is_settled, is_reminder], waiters)| Ask {
            seat,
            standing,
            unsure_for,
            is_settled,
            is_reminder,
            waiters,
        },
    )
}

fn any_vouch() -> impl Strategy<Value = TicketMessage> {
    (any::<(u64, u64, Option<u32>, bool)>(), any_waiters()).prop_map(|(words, waiters)| {
        let (number, since, proposed, is_sure) = words;
        TicketMessage::Vouch(Vouch { number, since, proposed, is_sure, waiters })
    })
}

fn any_grant() -> impl Strategy<Value = TicketMessage> {
    (any_seat(), any_seat(), any_seat(), any_seats(), option::of(any_deed())).prop_map(
        |(by, seat, next, witnesses, deed)| TicketMessage::Grant { by, seat, next, witnesses, deed },
    )
}

pub(super) fn any_ticket_message() -> impl Strategy<Value = TicketMessage> {
    prop_oneof![
        2 => prop::sample::select(ticket_messages().to_vec()),
        2 => any_ask().prop_map(TicketMessage::Ask),
        1 => any_vouch(),
        1 => any_grant(),
        1 => (any_seat(), any_seats()).prop_map(|(to, witnesses)| TicketMessage::Update { to, witnesses }),
        1 => vec(any_member(), 0..=COORDINATORS_LIMIT)
            .prop_map(|coordinators| TicketMessage::Wait { coordinators }),
        1 => (any::<u64>(), any_millis())
            .prop_map(|(incarnation, waited)| TicketMessage::Join { incarnation, waited }),
    ]
}
