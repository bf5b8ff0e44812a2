//! What a datagram says beyond its header, and how that is written.
//!
//! The reader refuses what the writer would not write, so there is one encoding per message. Whether what is said is
//! true, and whose signature an entry or a charter bears, is not looked at here. The [envelope](super::Envelope) calls
//! this after its cheap checks.
//!
//! | kind | bytes |
//! |---|---|
//! | Move, EarlyStop, Release, Check, Holding, Passed, Renew | none |
//! | Leave | sequence 8 |
//! | Ack | entries |
//! | Commit | age ms 8, cool ms 4, entries |
//! | Scout | hearsay, charter version 4, bans version 4, entries |
//! | Report | hearsay, marks 1 (bit 0 waited, bit 1 has work), waited ms 8 if marked, versions 4 + 4, wall clock ms 8, entries |
//! | Charter, Bans | the record |
//! | Enrol | key 32, invitation 8, mac 16 |
//! | Enrolled | certificate, charter |
//! | Renewed | certificate |
//! | Demand | entry |
//! | Ticket | epoch 4, then the message: see `tickets` |
//!
//! Entries: count 1, then each address record with its certificate. Hearsay: marks 1 (bit i: sighting i is there), then
//! each sighting that is: token 32, session 8, age ms 8.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::time::Duration;

use crate::base::{Hearsay, SIGHTINGS, Session, Sighting, TicketMessage};

use super::codec::{Malformed, Reader, Writer};
use super::header::{Kind, read_token, write_token};
use super::records::{Bans, Certificate, Charter, Entry, PublicKey, Signed as _};
use super::tickets;

/// Directory entries in one datagram, at most: with the longest names and IPv6 three fit beside a header, and not four.
pub const ENTRIES_LIMIT: usize = 3;

/// How long a holder can make the circle leave the source alone, at most. A server that wants more is asked again after
/// that, and a member that cheats cannot stop everybody for longer.
pub const COOL_LIMIT: Duration = Duration::from_secs(3600);

const MARK_WAITED: u8 = 1;
const MARK_HAS_WORK: u8 = 1 << 1;

const _: () = assert!(SIGHTINGS <= 8, "the marks of a hearsay are the bits of one byte");

/// What a datagram says beyond its header. Durations lose on the wire what is below a millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// May I hand you this token?
    Move,
    /// I have it, stop repeating.
    EarlyStop,
    /// It went on.
    Release,
    /// Do you still have it?
    Check,
    /// I have it.
    Holding,
    /// It went on, in the header's session.
    Passed,
    /// Yes, with the header's nonce.
    Ack {
        /// Whom the taker knows.
        entries: Vec<Entry>,
    },
    /// It is yours.
    Commit {
        /// The token's age.
        age: Duration,
        /// How long everybody should leave the source alone. More than [`COOL_LIMIT`] is written as that.
        cool: Duration,
        /// Whom the giver knows.
        entries: Vec<Entry>,
    },
    /// How long did you wait, what have you seen?
    Scout {
        /// The number of the receiver's own address record, as far as the one who asks knows it; zero if it does not. So
        /// whoever has started anew tells what is said to it now from what was said to it before.
        record: u64,
        /// What the one who asks has seen.
        hearsay: Hearsay,
        /// Of the charter that it runs by.
        charter_version: u32,
        /// Of the bans that it knows.
        bans_version: u32,
        /// Whom it knows.
        entries: Vec<Entry>,
    },
    /// The answer to a scout.
    Report {
        /// What the one who answers has seen.
        hearsay: Hearsay,
        /// How long ago its last slot began, if it had one.
        waited: Option<Duration>,
        /// Whether it would use a slot.
        has_work: bool,
        /// Of the charter that it runs by.
        charter_version: u32,
        /// Of the bans that it knows.
        bans_version: u32,
        /// Its wall clock, in milliseconds since 1970: to be shown, never to be relied upon.
        wall_ms: u64,
        /// Whom it knows.
        entries: Vec<Entry>,
    },
    /// I go.
    Leave {
        /// Of the address record that ends with it: a newer record is a member that came back.
        sequence: u64,
    },
    /// The circle's constants.
    Charter(Charter),
    /// Who is no longer a member.
    Bans(Bans),
    /// May I become a member? From somebody who is none yet: the datagram's signature is by this very key.
    Enrol {
        /// The key to be certified. The header's sender is its [`member_id`](super::member_id()).
        key: PublicKey,
        /// Which invitation.
        invitation: [u8; 8],
        /// Shows that the sender knows the invitation's secret.
        mac: [u8; 16],
    },
    /// You are one.
    Enrolled {
        /// The new member's.
        certificate: Certificate,
        /// The circle's constants.
        charter: Charter,
    },
    /// My certificate ends soon.
    Renew,
    /// Here is another one.
    Renewed {
        /// With the serial of the old one.
        certificate: Certificate,
    },
    /// A member has something to pull: the sender, or one that told it.
    Demand {
        /// Which member, and where it is.
        entry: Entry,
    },
    /// About tickets.
    Ticket {
        /// Of the ring that is meant: what is said in another one counts for nothing.
        epoch: u32,
        /// What is said.
        message: TicketMessage,
    },
}

impl Body {
    /// The kind that the header must name.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Move => Kind::Move,
            Self::EarlyStop => Kind::EarlyStop,
            Self::Release => Kind::Release,
            Self::Check => Kind::Check,
            Self::Holding => Kind::Holding,
            Self::Passed => Kind::Passed,
            Self::Ack { .. } => Kind::Ack,
            Self::Commit { .. } => Kind::Commit,
            Self::Scout { .. } => Kind::Scout,
            Self::Report { .. } => Kind::Report,
            Self::Leave { .. } => Kind::Leave,
            Self::Charter(_) => Kind::Charter,
            Self::Bans(_) => Kind::Bans,
            Self::Enrol { .. } => Kind::Enrol,
            Self::Enrolled { .. } => Kind::Enrolled,
            Self::Renew => Kind::Renew,
            Self::Renewed { .. } => Kind::Renewed,
            Self::Ticket { .. } => Kind::Ticket,
            Self::Demand { .. } => Kind::Demand,
        }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        match self {
            Self::Move
            | Self::EarlyStop
            | Self::Release
            | Self::Check
            | Self::Holding
            | Self::Passed
            | Self::Renew => {}
            Self::Leave { sequence } => {
                out.u64(*sequence);
            }
            Self::Ack { entries } => write_entries(entries, out),
            Self::Commit { age, cool, entries } => {
                write_millis(*age, out);
                write_cool(*cool, out);
                write_entries(entries, out);
            }
            Self::Scout { record, hearsay, charter_version, bans_version, entries } => {
                out.u64(*record);
                write_hearsay(hearsay, out);
                out.u32(*charter_version).u32(*bans_version);
                write_entries(entries, out);
            }
            Self::Report { hearsay, waited, has_work, charter_version, bans_version, wall_ms, entries } => {
                write_hearsay(hearsay, out);
                write_wait(*waited, *has_work, out);
                out.u32(*charter_version).u32(*bans_version).u64(*wall_ms);
                write_entries(entries, out);
            }
            Self::Charter(charter) => charter.write(out),
            Self::Bans(bans) => bans.write(out),
            Self::Enrol { key, invitation, mac } => {
                out.bytes(key).bytes(invitation).bytes(mac);
            }
            Self::Enrolled { certificate, charter } => {
                certificate.write(out);
                charter.write(out);
            }
            Self::Renewed { certificate } => certificate.write(out),
            Self::Demand { entry } => entry.write(out),
            Self::Ticket { epoch, message } => tickets::write(message, out.u32(*epoch)),
        }
    }

    /// Reads the body of this kind; what comes after it is left.
    pub(super) fn read(kind: Kind, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            Kind::Move => Self::Move,
            Kind::EarlyStop => Self::EarlyStop,
            Kind::Release => Self::Release,
            Kind::Check => Self::Check,
            Kind::Holding => Self::Holding,
            Kind::Passed => Self::Passed,
            Kind::Leave => Self::Leave { sequence: input.u64()? },
            Kind::Ack => Self::Ack { entries: read_entries(input)? },
            Kind::Commit => Self::Commit {
                age: read_millis(input)?,
                cool: read_cool(input)?,
                entries: read_entries(input)?,
            },
            Kind::Scout => Self::Scout {
                record: input.u64()?,
                hearsay: read_hearsay(input)?,
                charter_version: input.u32()?,
                bans_version: input.u32()?,
                entries: read_entries(input)?,
            },
            Kind::Report => Self::read_report(input)?,
            Kind::Charter => Self::Charter(Charter::read(input)?),
            Kind::Bans => Self::Bans(Bans::read(input)?),
            Kind::Enrol => {
                Self::Enrol { key: input.array()?, invitation: input.array()?, mac: input.array()? }
            }
            Kind::Enrolled => {
                Self::Enrolled { certificate: Certificate::read(input)?, charter: Charter::read(input)? }
            }
            Kind::Renew => Self::Renew,
            Kind::Renewed => Self::Renewed { certificate: Certificate::read(input)? },
            Kind::Demand => Self::Demand { entry: Entry::read(input)? },
            Kind::Ticket => Self::Ticket { epoch: input.u32()?, message: tickets::read(input)? },
        })
    }

    fn read_report(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let hearsay = read_hearsay(input)?;
        let (waited, has_work) = read_wait(input)?;
        Ok(Self::Report {
            hearsay,
            waited,
            has_work,
            charter_version: input.u32()?,
            bans_version: input.u32()?,
            wall_ms: input.u64()?,
            entries: read_entries(input)?,
        })
    }
}

/// Spans beyond 584 million years are written as that.
pub(super) fn write_millis(span: Duration, out: &mut Writer) {
    out.u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
}

pub(super) fn read_millis(input: &mut Reader<'_>) -> Result<Duration, Malformed> {
    input.u64().map(Duration::from_millis)
}

/// Capped, not refused: a server that asks for a day of rest must not cost the circle its token.
fn write_cool(cool: Duration, out: &mut Writer) {
    out.u32(u32::try_from(cool.min(COOL_LIMIT).as_millis()).unwrap_or(u32::MAX));
}

fn read_cool(input: &mut Reader<'_>) -> Result<Duration, Malformed> {
    let cool = Duration::from_millis(input.u32()?.into());
    if cool > COOL_LIMIT { Err(Malformed) } else { Ok(cool) }
}

fn write_wait(waited: Option<Duration>, has_work: bool, out: &mut Writer) {
    let waited_mark = if waited.is_some() { MARK_WAITED } else { 0 };
    let work_mark = if has_work { MARK_HAS_WORK } else { 0 };
    out.u8(waited_mark | work_mark);
    if let Some(waited) = waited {
        write_millis(waited, out);
    }
}

fn read_wait(input: &mut Reader<'_>) -> Result<(Option<Duration>, bool), Malformed> {
    let marks = input.u8()?;
    if marks & !(MARK_WAITED | MARK_HAS_WORK) != 0 {
        return Err(Malformed);
    }
    let waited = if marks & MARK_WAITED == 0 { None } else { Some(read_millis(input)?) };
    Ok((waited, marks & MARK_HAS_WORK != 0))
}

/// More entries than [`ENTRIES_LIMIT`] are written all the same, and then no reader takes them.
fn write_entries(entries: &[Entry], out: &mut Writer) {
    out.list(entries, Entry::write);
}

fn read_entries(input: &mut Reader<'_>) -> Result<Vec<Entry>, Malformed> {
    input.list(ENTRIES_LIMIT, Entry::read)
}

fn write_hearsay(hearsay: &Hearsay, out: &mut Writer) {
    let marks = hearsay
        .iter()
        .zip(hearsay_marks())
        .fold(0, |marks, (sighting, mark)| if sighting.is_some() { marks | mark } else { marks });
    out.u8(marks);
    for sighting in hearsay.iter().flatten() {
        write_token(&sighting.token, out);
        out.u64(sighting.session.0);
        write_millis(sighting.age, out);
    }
}

fn read_hearsay(input: &mut Reader<'_>) -> Result<Hearsay, Malformed> {
    let mut marks = input.u8()?;
    let mut hearsay = [None; SIGHTINGS];
    for (sighting, mark) in hearsay.iter_mut().zip(hearsay_marks()) {
        if marks & mark != 0 {
            *sighting = Some(read_sighting(input)?);
            marks &= !mark;
        }
    }
    if marks == 0 { Ok(hearsay) } else { Err(Malformed) }
}

fn read_sighting(input: &mut Reader<'_>) -> Result<Sighting, Malformed> {
    Ok(Sighting { token: read_token(input)?, session: Session(input.u64()?), age: read_millis(input)? })
}

/// The bits of a byte, lowest first.
fn hearsay_marks() -> impl Iterator<Item = u8> {
    (0..u8::BITS).map(|bit| 1_u8.rotate_left(bit))
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that indexes wrongly fails")]
mod tests {
    use super::*;
    use crate::wire::samples;

    fn written(body: &Body) -> Vec<u8> {
        let mut out = Writer::new();
        body.write(&mut out);
        out.finish()
    }

    fn read_back(body: &Body) -> Result<Body, Malformed> {
        read(body.kind(), &written(body))
    }

    fn read(kind: Kind, bytes: &[u8]) -> Result<Body, Malformed> {
        let mut input = Reader::new(bytes);
        let body = Body::read(kind, &mut input)?;
        input.finish()?;
        Ok(body)
    }

    fn commit(age: Duration, cool: Duration) -> Body {
        Body::Commit { age, cool, entries: Vec::new() }
    }

    #[test]
    fn spans_lose_what_is_below_a_millisecond() {
        let body = commit(Duration::new(7, 1_999_999), Duration::new(2, 999_999_999));
        assert_eq!(read_back(&body), Ok(commit(Duration::from_millis(7_001), Duration::from_millis(2_999))));
    }

    #[test]
    fn spans_without_end_are_written_as_the_longest() {
        let longest = Duration::from_millis(u64::MAX);
        assert_eq!(read_back(&commit(Duration::MAX, Duration::MAX)), Ok(commit(longest, COOL_LIMIT)));
    }

    #[test]
    fn a_longer_rest_than_the_limit_is_refused() {
        let with_cool = |millis: u32| {
            let mut bytes = vec![0; 8];
            bytes.extend(millis.to_be_bytes());
            bytes.push(0);
            read(Kind::Commit, &bytes)
        };
        assert_eq!(with_cool(3_600_000), Ok(commit(Duration::ZERO, COOL_LIMIT)));
        assert_eq!(with_cool(3_600_001), Err(Malformed));
        assert_eq!(with_cool(u32::MAX), Err(Malformed));
    }

    #[test]
    fn three_entries_are_read_and_four_are_not() {
        let entries = |count| Body::Ack { entries: vec![samples::short_entry(1); count] };
        for count in 0..=ENTRIES_LIMIT {
            assert_eq!(read_back(&entries(count)), Ok(entries(count)));
        }
        assert_eq!(read_back(&entries(ENTRIES_LIMIT + 1)), Err(Malformed));
        assert_eq!(read_back(&entries(256)), Err(Malformed), "256 is not 0");
    }

    #[test]
    fn each_place_of_a_hearsay_is_kept_apart() {
        let sighting = Some(samples::sighting(3));
        for hearsay in [[None, None], [sighting, None], [None, sighting], [sighting, sighting]] {
            let (record, charter_version, bans_version) = (1, 2, 3);
            let body = Body::Scout { record, hearsay, charter_version, bans_version, entries: Vec::new() };
            assert_eq!(read_back(&body), Ok(body));
        }
    }

    #[test]
    fn marks_that_do_not_exist_are_refused() {
        let report = Body::Report {
            hearsay: [None; SIGHTINGS],
            waited: None,
            has_work: true,
            charter_version: 0,
            bans_version: 0,
            wall_ms: 0,
            entries: Vec::new(),
        };
        let bytes = written(&report);
        assert_eq!(bytes, [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for place in [0, 1] {
            for bit in 2..8 {
                let mut bad = bytes.clone();
                bad[place] |= 1 << bit;
                assert_eq!(read(Kind::Report, &bad), Err(Malformed), "bit {bit} of byte {place}");
            }
        }
    }

    #[test]
    fn a_wait_of_zero_is_not_no_wait() {
        let report = |waited| Body::Report {
            hearsay: [None; SIGHTINGS],
            waited,
            has_work: false,
            charter_version: 0,
            bans_version: 0,
            wall_ms: 0,
            entries: Vec::new(),
        };
        for waited in [None, Some(Duration::ZERO), Some(Duration::from_millis(5))] {
            assert_eq!(read_back(&report(waited)), Ok(report(waited)));
        }
    }
}
