//! What members say to each other about tickets, as bytes: one tag, then what the message needs.
//!
//! | tag | message | bytes |
//! |---:|---|---|
//! | 1 | Ask | seat, standing, unsure for ms 8, settled 1, reminder 1, waiters |
//! | 2 | Vouch | number 8, since 8, optional version 4, sure 1, waiters |
//! | 3 | Gone | seat |
//! | 4 | NotMe | seat, since 8, vacant 1, optional standing |
//! | 5 | Join | incarnation 8, waited ms 8 |
//! | 6 | Wait | count 1, then each coordinator 16 |
//! | 7 | Grant | by seat, seat, next seat, witnesses, optional deed |
//! | 8 | Update | to seat, witnesses |
//! | 9, 10 | Knock, Here | seat |
//! | 11 | Lock | by seat, attempt 8, seat |
//! | 12 | Locked | attempt 8, seat, since 8, quiet for ms 8, optional standing |
//! | 13 | Bound | seat, by seat, attempt 8, witness 16 |
//! | 14 | Unlock | seat, by seat, attempt 8 |
//! | 15 | Release | seat, next seat, optional deed |
//! | 16 | Released | seat |
//!
//! A seat: ticket 2, member 16, incarnation 8. Witnesses: count 1, then each seat. A deed: version 4, next seat, optional
//! seat beyond, witnesses. A standing: number 8, deed, optional deed. What is optional begins with a byte, 0 or 1. Waiters:
//! count 1, then each member 16, incarnation 8, waited ms 8. The [body](super::Body) calls this; what it means,
//! `proto::tickets` knows.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::base::{Ask, Deed, MemberId, Seat, Standing, TicketMessage, Vouch, Waiter};

use super::body::{read_millis, write_millis};
use super::codec::{Malformed, Reader, Writer};

/// Seats in one list, at most: the witnesses of a circle that bears four faults at once.
pub const SEATS_LIMIT: usize = 9;

/// Members told of that wait for a ticket, at most.
pub const WAITERS_LIMIT: usize = 4;

/// Members told of that may have a ticket to give, at most.
pub const COORDINATORS_LIMIT: usize = 4;

pub(super) fn write(message: &TicketMessage, out: &mut Writer) {
    match message {
        TicketMessage::Ask(ask) => write_ask(ask, out.u8(1)),
        TicketMessage::Vouch(Vouch { number, since, proposed, is_sure, waiters }) => {
            out.u8(2).u64(*number).u64(*since);
            write_option(proposed.as_ref(), out, |version, out| {
                out.u32(*version);
            });
            out.u8(u8::from(*is_sure));
            write_waiters(waiters, out);
        }
        TicketMessage::Gone { seat } => write_seat(seat, out.u8(3)),
        TicketMessage::NotMe { seat, since, is_vacant, standing } => {
            write_seat(seat, out.u8(4));
            out.u64(*since).u8(u8::from(*is_vacant));
            write_option(standing.as_ref(), out, write_standing);
        }
        TicketMessage::Join { incarnation, waited } => write_millis(*waited, out.u8(5).u64(*incarnation)),
        TicketMessage::Wait { coordinators } => out.u8(6).list(coordinators, write_member),
        TicketMessage::Grant { by, seat, next, witnesses, deed } => {
            write_seat(by, out.u8(7));
            write_seat(seat, out);
            write_seat(next, out);
            out.list(witnesses, write_seat);
            write_option(deed.as_ref(), out, write_deed);
        }
        TicketMessage::Update { to, witnesses } => {
            write_seat(to, out.u8(8));
            out.list(witnesses, write_seat);
        }
        TicketMessage::Knock { seat } => write_seat(seat, out.u8(9)),
        TicketMessage::Here { seat } => write_seat(seat, out.u8(10)),
        TicketMessage::Lock { by, attempt, seat } => {
            write_seat(by, out.u8(11));
            write_seat(seat, out.u64(*attempt));
        }
        TicketMessage::Locked { attempt, seat, since, quiet_for, standing } => {
            write_seat(seat, out.u8(12).u64(*attempt));
            write_millis(*quiet_for, out.u64(*since));
            write_option(standing.as_ref(), out, write_standing);
        }
        TicketMessage::Bound { seat, by, attempt, witness } => {
            write_seat(seat, out.u8(13));
            write_seat(by, out);
            write_member(witness, out.u64(*attempt));
        }
        TicketMessage::Unlock { seat, by, attempt } => {
            write_seat(seat, out.u8(14));
            write_seat(by, out);
            out.u64(*attempt);
        }
        TicketMessage::Release { seat, next, deed } => {
            write_seat(seat, out.u8(15));
            write_seat(next, out);
            write_option(deed.as_ref(), out, write_deed);
        }
        TicketMessage::Released { seat } => write_seat(seat, out.u8(16)),
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<TicketMessage, Malformed> {
    Ok(match input.u8()? {
        1 => TicketMessage::Ask(read_ask(input)?),
        2 => TicketMessage::Vouch(Vouch {
            number: input.u64()?,
            since: input.u64()?,
            proposed: read_option(input, Reader::u32)?,
            is_sure: read_flag(input)?,
            waiters: read_waiters(input)?,
        }),
        3 => TicketMessage::Gone { seat: read_seat(input)? },
        4 => TicketMessage::NotMe {
            seat: read_seat(input)?,
            since: input.u64()?,
            is_vacant: read_flag(input)?,
            standing: read_option(input, read_standing)?,
        },
        5 => TicketMessage::Join { incarnation: input.u64()?, waited: read_millis(input)? },
        6 => TicketMessage::Wait { coordinators: input.list(COORDINATORS_LIMIT, read_member)? },
        7 => TicketMessage::Grant {
            by: read_seat(input)?,
            seat: read_seat(input)?,
            next: read_seat(input)?,
            witnesses: read_seats(input)?,
            deed: read_option(input, read_deed)?,
        },
        8 => TicketMessage::Update { to: read_seat(input)?, witnesses: read_seats(input)? },
        9 => TicketMessage::Knock { seat: read_seat(input)? },
        10 => TicketMessage::Here { seat: read_seat(input)? },
        11 => TicketMessage::Lock { by: read_seat(input)?, attempt: input.u64()?, seat: read_seat(input)? },
        12 => TicketMessage::Locked {
            attempt: input.u64()?,
            seat: read_seat(input)?,
            since: input.u64()?,
            quiet_for: read_millis(input)?,
            standing: read_option(input, read_standing)?,
        },
        13 => TicketMessage::Bound {
            seat: read_seat(input)?,
            by: read_seat(input)?,
            attempt: input.u64()?,
            witness: read_member(input)?,
        },
        14 => TicketMessage::Unlock { seat: read_seat(input)?, by: read_seat(input)?, attempt: input.u64()? },
        15 => TicketMessage::Release {
            seat: read_seat(input)?,
            next: read_seat(input)?,
            deed: read_option(input, read_deed)?,
        },
        16 => TicketMessage::Released { seat: read_seat(input)? },
        _ => return Err(Malformed),
    })
}

fn write_ask(ask: &Ask, out: &mut Writer) {
    write_seat(&ask.seat, out);
    write_standing(&ask.standing, out);
    write_millis(ask.unsure_for, out);
    write_waiters(&ask.waiters, out.u8(u8::from(ask.is_settled)).u8(u8::from(ask.is_reminder)));
}

fn read_ask(input: &mut Reader<'_>) -> Result<Ask, Malformed> {
    Ok(Ask {
        seat: read_seat(input)?,
        standing: read_standing(input)?,
        unsure_for: read_millis(input)?,
        is_settled: read_flag(input)?,
        is_reminder: read_flag(input)?,
        waiters: read_waiters(input)?,
    })
}

fn write_standing(standing: &Standing, out: &mut Writer) {
    write_deed(&standing.deed, out.u64(standing.number));
    write_option(standing.proposed.as_ref(), out, write_deed);
}

fn read_standing(input: &mut Reader<'_>) -> Result<Standing, Malformed> {
    Ok(Standing { number: input.u64()?, deed: read_deed(input)?, proposed: read_option(input, read_deed)? })
}

fn write_deed(deed: &Deed, out: &mut Writer) {
    write_seat(&deed.next, out.u32(deed.version));
    write_option(deed.beyond.as_ref(), out, write_seat);
    out.list(&deed.witnesses, write_seat);
}

fn read_deed(input: &mut Reader<'_>) -> Result<Deed, Malformed> {
    Ok(Deed {
        version: input.u32()?,
        next: read_seat(input)?,
        beyond: read_option(input, read_seat)?,
        witnesses: read_seats(input)?,
    })
}

fn write_option<T>(value: Option<&T>, out: &mut Writer, write: impl Fn(&T, &mut Writer)) {
    out.u8(u8::from(value.is_some()));
    if let Some(value) = value {
        write(value, out);
    }
}

fn read_option<'a, T>(
    input: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    if read_flag(input)? { read(input).map(Some) } else { Ok(None) }
}

fn read_flag(input: &mut Reader<'_>) -> Result<bool, Malformed> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn write_member(member: &MemberId, out: &mut Writer) {
    out.bytes(member.as_bytes());
}

fn read_member(input: &mut Reader<'_>) -> Result<MemberId, Malformed> {
    input.array().map(MemberId::from_bytes)
}

fn write_seat(seat: &Seat, out: &mut Writer) {
    write_member(&seat.member, out.u16(seat.ticket));
    out.u64(seat.incarnation);
}

fn read_seat(input: &mut Reader<'_>) -> Result<Seat, Malformed> {
    Ok(Seat { ticket: input.u16()?, member: read_member(input)?, incarnation: input.u64()? })
}

fn read_seats(input: &mut Reader<'_>) -> Result<Vec<Seat>, Malformed> {
    input.list(SEATS_LIMIT, read_seat)
}

fn write_waiters(waiters: &[Waiter], out: &mut Writer) {
    out.list(waiters, |waiter, out| {
        write_member(&waiter.member, out);
        write_millis(waiter.waited, out.u64(waiter.incarnation));
    });
}

fn read_waiters(input: &mut Reader<'_>) -> Result<Vec<Waiter>, Malformed> {
    input.list(WAITERS_LIMIT, |input| {
        Ok(Waiter { member: read_member(input)?, incarnation: input.u64()?, waited: read_millis(input)? })
    })
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that indexes wrongly fails")]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::ticket_samples::{self as samples, longest_ask, seat};

    fn written(message: &TicketMessage) -> Vec<u8> {
        let mut out = Writer::new();
        write(message, &mut out);
        out.finish()
    }

    fn read_back(bytes: &[u8]) -> Result<TicketMessage, Malformed> {
        let mut input = Reader::new(bytes);
        let message = read(&mut input)?;
        input.finish()?;
        Ok(message)
    }

    proptest! {
        #[test]
        fn any_message_is_read_back_whole_and_not_in_part(message in samples::any_ticket_message()) {
            let bytes = written(&message);
            prop_assert_eq!(read_back(&bytes), Ok(message));
            for length in 0..bytes.len() {
                prop_assert_eq!(read_back(&bytes[..length]), Err(Malformed), "cut to {} bytes", length);
            }
            prop_assert_eq!(read_back(&[&bytes[..], &[0]].concat()), Err(Malformed));
        }

        /// Small bytes, so that tags, counts and marks often make sense.
        #[test]
        fn any_bytes_have_one_encoding_or_none(
            tag in 0_u8..20,
            bytes in proptest::collection::vec(prop_oneof![4 => 0_u8..4, 1 => any::<u8>()], 0..400),
        ) {
            let bytes = [&[tag], &bytes[..]].concat();
            let mut input = Reader::new(&bytes);
            if let Ok(message) = read(&mut input) {
                prop_assert_eq!(bytes.strip_suffix(input.rest()), Some(&written(&message)[..]));
            }
        }
    }

    #[test]
    fn every_message_has_a_tag_of_its_own_and_no_other_tag_is_read() {
        let tags: Vec<u8> = samples::ticket_messages().iter().map(|message| written(message)[0]).collect();
        assert_eq!(tags, (1..=16).collect::<Vec<u8>>());
        for tag in (0..=u8::MAX).filter(|tag| !tags.contains(tag)) {
            assert_eq!(read_back(&[&[tag], &[0; 300][..]].concat()), Err(Malformed), "tag {tag}");
            assert_eq!(
                read(&mut Reader::new(&[&[tag], &[0; 300][..]].concat())),
                Err(Malformed),
                "tag {tag}"
            );
        }
    }

    /// The bytes are a promise to members that run another build.
    #[test]
    fn every_message_has_the_bytes_that_it_always_had() {
        let lengths = samples::ticket_messages().map(|message| written(&message).len());
        assert_eq!(lengths, [759, 152, 27, 630, 17, 66, 607, 262, 27, 27, 61, 645, 77, 61, 346, 27]);
        let all = samples::ticket_messages().map(|message| written(&message)).concat();
        assert_eq!(&blake3::hash(&all).to_hex()[..16], "7451b7fbc35ae8ad");
    }

    #[test]
    fn what_is_neither_yes_nor_no_is_refused() {
        let message = TicketMessage::NotMe { seat: seat(1), since: 2, is_vacant: true, standing: None };
        let bytes = written(&message);
        assert_eq!(read_back(&bytes), Ok(message));
        for value in 2..=u8::MAX {
            let bad = [&bytes[..bytes.len() - 1], &[value]].concat();
            assert_eq!(read_back(&bad), Err(Malformed), "{value}");
        }
    }

    #[test]
    fn lists_beyond_their_limit_are_refused() {
        let seats = |count| vec![seat(3); count];
        let deed = |count| Deed { version: 1, next: seat(1), beyond: None, witnesses: seats(count) };
        let standing = |count, few| Standing { number: 1, deed: deed(count), proposed: Some(deed(few)) };
        let waiters = |count| vec![longest_ask().waiters[0]; count];
        let (by, seat) = (seat(1), seat(2));
        let messages = |count: usize, few: usize| {
            [
                TicketMessage::Update { to: seat, witnesses: seats(count) },
                TicketMessage::Grant { by, seat, next: by, witnesses: seats(count), deed: None },
                TicketMessage::Ask(Ask { standing: standing(count, 0), ..longest_ask() }),
                TicketMessage::Ask(Ask { standing: standing(0, count), ..longest_ask() }),
                TicketMessage::Ask(Ask { waiters: waiters(few), ..longest_ask() }),
                TicketMessage::Vouch(Vouch {
                    number: 1,
                    since: 1,
                    proposed: None,
                    is_sure: false,
                    waiters: waiters(few),
                }),
                TicketMessage::Wait { coordinators: vec![by.member; few] },
            ]
        };
        for message in messages(SEATS_LIMIT, WAITERS_LIMIT) {
            assert_eq!(read_back(&written(&message)), Ok(message));
        }
        for (seats, few) in [(SEATS_LIMIT + 1, WAITERS_LIMIT + 1), (256, 256)] {
            for message in messages(seats, few) {
                assert_eq!(read_back(&written(&message)), Err(Malformed), "{message:?}");
            }
        }
    }

    #[test]
    fn a_wait_loses_what_is_below_a_millisecond_and_has_an_end() {
        let join = |waited| TicketMessage::Join { incarnation: 5, waited };
        assert_eq!(read_back(&written(&join(Duration::new(1, 999_999)))), Ok(join(Duration::from_secs(1))));
        let longest = Duration::from_millis(u64::MAX);
        assert_eq!(read_back(&written(&join(Duration::MAX))), Ok(join(longest)));
    }
}
