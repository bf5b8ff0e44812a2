//! What members say to each other about tickets, as bytes: one tag, then what the message needs.
//!
//! | tag | message | bytes |
//! |---:|---|---|
//! | 1 | Ask | seat, number 8, next seat, marks 1 (bit 0 settled, bit 1 adopted, bit 2 proposed), each list that is marked (version 4, seats), waiters |
//! | 2 | Vouch | number 8, marks 1 (bit 0 adopted, bit 1 proposed), each version that is marked 4, waiters |
//! | 3 | Gone | number 8 |
//! | 4 | NotMe | seat |
//! | 5 | Join | incarnation 8, waited ms 8 |
//! | 6 | Wait | count 1, then each coordinator 16 |
//! | 7 | Grant | by seat, seat, followers, witnesses |
//! | 8 | Update | to seat, witnesses |
//! | 9 | Lock | seat, attempt 8, to seat |
//! | 10–13 | Locked, Unlock, Confirm, Confirmed | attempt 8 |
//! | 14 | Release | seat, next seat, number 8 |
//! | 15, 16 | Released, Refused | number 8 |
//!
//! A seat: ticket 2, member 16, incarnation 8. Seats (followers and witnesses too): count 1, then each. Waiters: count 1,
//! then each member 16, incarnation 8, waited ms 8. The [body](super::Body) calls this; what it means, `proto::tickets`
//! knows.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::base::{Ask, MemberId, Seat, TicketMessage, Waiter, Witnesses};

use super::body::{read_millis, write_millis};
use super::codec::{Malformed, Reader, Writer};

/// Seats in one list, at most: the witnesses of a circle that bears four faults at once.
pub const SEATS_LIMIT: usize = 9;

/// Members told of that wait for a ticket, at most.
pub const WAITERS_LIMIT: usize = 4;

/// Members told of that may have a ticket to give, at most.
pub const COORDINATORS_LIMIT: usize = 4;

const ASK_SETTLED: u8 = 1;
const ASK_ADOPTED: u8 = 1 << 1;
const ASK_PROPOSED: u8 = 1 << 2;

const VOUCH_ADOPTED: u8 = 1;
const VOUCH_PROPOSED: u8 = 1 << 1;

pub(super) fn write(message: &TicketMessage, out: &mut Writer) {
    match message {
        TicketMessage::Ask(ask) => write_ask(ask, out.u8(1)),
        TicketMessage::Vouch { number, adopted, proposed, waiters } => {
            let marks = mark(adopted.is_some(), VOUCH_ADOPTED) | mark(proposed.is_some(), VOUCH_PROPOSED);
            out.u8(2).u64(*number).u8(marks);
            for version in [adopted, proposed].into_iter().flatten() {
                out.u32(*version);
            }
            write_waiters(waiters, out);
        }
        TicketMessage::Gone { number } => write_number(3, *number, out),
        TicketMessage::NotMe { seat } => write_seat(seat, out.u8(4)),
        TicketMessage::Join { incarnation, waited } => write_millis(*waited, out.u8(5).u64(*incarnation)),
        TicketMessage::Wait { coordinators } => out.u8(6).list(coordinators, write_member),
        TicketMessage::Grant { by, seat, followers, witnesses } => {
            out.u8(7);
            write_seat(by, out);
            write_seat(seat, out);
            out.list(followers, write_seat);
            out.list(witnesses, write_seat);
        }
        TicketMessage::Update { to, witnesses } => {
            write_seat(to, out.u8(8));
            out.list(witnesses, write_seat);
        }
        TicketMessage::Lock { seat, attempt, to } => {
            write_seat(seat, out.u8(9));
            write_seat(to, out.u64(*attempt));
        }
        TicketMessage::Locked { attempt } => write_number(10, *attempt, out),
        TicketMessage::Unlock { attempt } => write_number(11, *attempt, out),
        TicketMessage::Confirm { attempt } => write_number(12, *attempt, out),
        TicketMessage::Confirmed { attempt } => write_number(13, *attempt, out),
        TicketMessage::Release { seat, next, number } => {
            write_seat(seat, out.u8(14));
            write_seat(next, out);
            out.u64(*number);
        }
        TicketMessage::Released { number } => write_number(15, *number, out),
        TicketMessage::Refused { number } => write_number(16, *number, out),
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<TicketMessage, Malformed> {
    Ok(match input.u8()? {
        1 => TicketMessage::Ask(read_ask(input)?),
        2 => read_vouch(input)?,
        3 => TicketMessage::Gone { number: input.u64()? },
        4 => TicketMessage::NotMe { seat: read_seat(input)? },
        5 => TicketMessage::Join { incarnation: input.u64()?, waited: read_millis(input)? },
        6 => TicketMessage::Wait { coordinators: input.list(COORDINATORS_LIMIT, read_member)? },
        7 => TicketMessage::Grant {
            by: read_seat(input)?,
            seat: read_seat(input)?,
            followers: read_seats(input)?,
            witnesses: read_seats(input)?,
        },
        8 => TicketMessage::Update { to: read_seat(input)?, witnesses: read_seats(input)? },
        9 => TicketMessage::Lock { seat: read_seat(input)?, attempt: input.u64()?, to: read_seat(input)? },
        10 => TicketMessage::Locked { attempt: input.u64()? },
        11 => TicketMessage::Unlock { attempt: input.u64()? },
        12 => TicketMessage::Confirm { attempt: input.u64()? },
        13 => TicketMessage::Confirmed { attempt: input.u64()? },
        14 => {
            TicketMessage::Release { seat: read_seat(input)?, next: read_seat(input)?, number: input.u64()? }
        }
        15 => TicketMessage::Released { number: input.u64()? },
        16 => TicketMessage::Refused { number: input.u64()? },
        _ => return Err(Malformed),
    })
}

fn write_ask(ask: &Ask, out: &mut Writer) {
    write_seat(&ask.seat, out);
    write_seat(&ask.next, out.u64(ask.number));
    let marks = mark(ask.is_settled, ASK_SETTLED)
        | mark(ask.adopted.is_some(), ASK_ADOPTED)
        | mark(ask.proposed.is_some(), ASK_PROPOSED);
    out.u8(marks);
    for list in [&ask.adopted, &ask.proposed].into_iter().flatten() {
        out.u32(list.version).list(&list.seats, write_seat);
    }
    write_waiters(&ask.waiters, out);
}

fn read_ask(input: &mut Reader<'_>) -> Result<Ask, Malformed> {
    let (seat, number, next) = (read_seat(input)?, input.u64()?, read_seat(input)?);
    let marks = read_marks(input, ASK_SETTLED | ASK_ADOPTED | ASK_PROPOSED)?;
    let mut list = |mark: u8| if marks & mark == 0 { Ok(None) } else { read_witnesses(input).map(Some) };
    let (adopted, proposed) = (list(ASK_ADOPTED)?, list(ASK_PROPOSED)?);
    let is_settled = marks & ASK_SETTLED != 0;
    Ok(Ask { seat, number, next, is_settled, adopted, proposed, waiters: read_waiters(input)? })
}

fn read_vouch(input: &mut Reader<'_>) -> Result<TicketMessage, Malformed> {
    let number = input.u64()?;
    let marks = read_marks(input, VOUCH_ADOPTED | VOUCH_PROPOSED)?;
    let mut version = |mark: u8| if marks & mark == 0 { Ok(None) } else { input.u32().map(Some) };
    let (adopted, proposed) = (version(VOUCH_ADOPTED)?, version(VOUCH_PROPOSED)?);
    Ok(TicketMessage::Vouch { number, adopted, proposed, waiters: read_waiters(input)? })
}

fn mark(is_there: bool, bit: u8) -> u8 {
    if is_there { bit } else { 0 }
}

fn read_marks(input: &mut Reader<'_>, known: u8) -> Result<u8, Malformed> {
    let marks = input.u8()?;
    if marks & !known == 0 { Ok(marks) } else { Err(Malformed) }
}

fn write_number(tag: u8, number: u64, out: &mut Writer) {
    out.u8(tag).u64(number);
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

fn read_witnesses(input: &mut Reader<'_>) -> Result<Witnesses, Malformed> {
    Ok(Witnesses { version: input.u32()?, seats: read_seats(input)? })
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
    use crate::wire::samples::{self, longest_ask, seat};

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
        assert_eq!(lengths, [669, 147, 9, 27, 17, 66, 523, 262, 61, 9, 9, 9, 9, 61, 9, 9]);
        let all = samples::ticket_messages().map(|message| written(&message)).concat();
        assert_eq!(&blake3::hash(&all).to_hex()[..16], "57c04757f5a22159");
    }

    #[test]
    fn marks_that_do_not_exist_are_refused() {
        let ask = Ask { adopted: None, proposed: None, waiters: Vec::new(), ..longest_ask() };
        let vouch = TicketMessage::Vouch { number: 1, adopted: None, proposed: None, waiters: Vec::new() };
        for (message, place, known) in [(TicketMessage::Ask(ask), 1 + 26 + 8 + 26, 3), (vouch, 1 + 8, 2)] {
            let bytes = written(&message);
            assert_eq!(read_back(&bytes), Ok(message));
            for bit in known..8 {
                let mut bad = bytes.clone();
                bad[place] |= 1 << bit;
                assert_eq!(read_back(&bad), Err(Malformed), "bit {bit} of byte {place}");
            }
        }
    }

    #[test]
    fn lists_beyond_their_limit_are_refused() {
        let seats = |count| vec![seat(3); count];
        let witnesses = |count| Some(Witnesses { version: 1, seats: seats(count) });
        let waiters = |count| vec![longest_ask().waiters[0]; count];
        let (by, seat) = (seat(1), seat(2));
        let messages = |seats_count: usize, few: usize| {
            [
                TicketMessage::Update { to: seat, witnesses: seats(seats_count) },
                TicketMessage::Grant { by, seat, followers: seats(seats_count), witnesses: Vec::new() },
                TicketMessage::Grant { by, seat, followers: Vec::new(), witnesses: seats(seats_count) },
                TicketMessage::Ask(Ask { adopted: witnesses(seats_count), ..longest_ask() }),
                TicketMessage::Ask(Ask { proposed: witnesses(seats_count), ..longest_ask() }),
                TicketMessage::Ask(Ask { waiters: waiters(few), ..longest_ask() }),
                TicketMessage::Vouch { number: 1, adopted: None, proposed: None, waiters: waiters(few) },
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
