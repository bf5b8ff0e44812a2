//! Who of the circle answers, before this member runs: what `stroll join` ends with.
//!
//! ```text
//!  newcomer, at any port                        a member
//!     |---- Scout, without an address record ----->|  nothing to learn from it, so nothing is remembered
//!     |<--- Report(clock, a few entries) ----------|  goes back to where the question came from
//! ```
//!
//! Nobody is told where we are: the port is gone in a moment, and a record of it would be newer than any that others have.
//! So no token can come here either. Who is told of in a report is asked in turn. A member that runs has to ask itself: our
//! questions would be newer than its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::base::{MemberId, Nonce, Time};
use crate::driver::{BootClock, random_bytes};
use crate::node::MemberStatus;
use crate::trust::{self, Credentials};
use crate::wire::records::Entry;
use crate::wire::{ANYONE, Body, Datagram, Envelope, Header, Kind, member_id, pad_to};

use super::report::MemberReport;
use super::sockets::Sockets;

/// How long to wait for an answer before the question is repeated.
const REPEAT_EVERY: Duration = Duration::from_millis(500);

/// As a running member's questions: the answer may carry a certificate and two entries.
const QUESTION_LEN: usize = 1100;

/// Members asked at most: enough to see whether the circle can be reached.
const ASKED_LIMIT: usize = 64;

/// Asks at the first addresses, and then whomever the answers tell of, until all of them have answered or `patience` ends.
/// Everybody who was asked is told of; somebody unknown at a first address only if nobody has answered at all. The questions
/// are numbered from here on, in a [life](crate::trust::files::Home::begin_life) of their own.
pub async fn who_answers(
    credentials: &Credentials,
    first: u64,
    patience: Duration,
) -> io::Result<Vec<MemberReport>> {
    let sockets = Sockets::bind().await?;
    let mut round = Round::new(credentials, first);
    // That not everybody has answered by then is seen in the rows.
    timeout(patience, round.ask_all(&sockets)).await.unwrap_or(Ok(()))?;
    Ok(round.reports())
}

/// Somebody who is asked.
#[derive(Debug)]
struct Row {
    /// [`ANYONE`] at a first address, until somebody answers there.
    member: MemberId,
    name: String,
    address: SocketAddr,
    expires_s: u64,
    /// The questions so far, and when they were asked.
    asked: Vec<(Nonce, Time)>,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Time,
    round_trip: Duration,
    clock_offset_ms: i64,
}

impl Row {
    fn at(address: SocketAddr) -> Self {
        let name = "the member".to_owned();
        Self { member: ANYONE, name, address, expires_s: 0, asked: Vec::new(), answer: None }
    }

    fn of(entry: &Entry) -> Self {
        let Entry { record, certificate } = entry;
        Self {
            member: record.member,
            name: certificate.name.clone(),
            expires_s: certificate.not_after_s,
            ..Self::at(record.address)
        }
    }

    fn is_due(&self, now: Time) -> bool {
        self.answer.is_none() && self.asked.last().is_none_or(|(_, at)| now.since(*at) >= REPEAT_EVERY)
    }

    fn asked_at(&self, nonce: Nonce) -> Option<Time> {
        self.asked.iter().find_map(|(asked, at)| (*asked == nonce).then_some(*at))
    }
}

/// One look around.
struct Round<'a> {
    credentials: &'a Credentials,
    clock: BootClock,
    /// The last number of a question.
    sequence: u64,
    rows: Vec<Row>,
}

impl<'a> Round<'a> {
    fn new(credentials: &'a Credentials, sequence: u64) -> Self {
        let clock = BootClock::new();
        let others = credentials.bootstrap.iter().filter(|address| **address != credentials.listen);
        let rows = others.take(ASKED_LIMIT).map(|address| Row::at(*address)).collect();
        Self { credentials, clock, sequence, rows }
    }

    async fn ask_all(&mut self, sockets: &Sockets) -> io::Result<()> {
        while self.rows.iter().any(|row| row.answer.is_none()) {
            for (bytes, to) in self.due_questions()? {
                sockets.send(&bytes, to).await;
            }
            tokio::select! {
                received = sockets.receive() => {
                    let (bytes, _) = received?;
                    self.on_datagram(&bytes);
                }
                () = sleep(REPEAT_EVERY) => {}
            }
        }
        Ok(())
    }

    fn due_questions(&mut self) -> io::Result<Vec<(Vec<u8>, SocketAddr)>> {
        let now = self.clock.now();
        let mut questions = Vec::new();
        for row in self.rows.iter_mut().filter(|row| row.is_due(now)) {
            self.sequence = self.sequence.saturating_add(1);
            let chance = random_bytes().map_err(io::Error::other)?;
            let nonce = Nonce::of_question(self.sequence, u64::from_be_bytes(chance));
            row.asked.push((nonce, now));
            questions.push((question(self.credentials, row.member, nonce), row.address));
        }
        Ok(questions)
    }

    /// Anything but a member's answer to what was just asked is noise.
    fn on_datagram(&mut self, bytes: &[u8]) -> Option<()> {
        let Credentials { key, roll, gate, .. } = self.credentials;
        let (now, wall_offset_ms) = (self.clock.now(), self.clock.wall_offset_ms());
        let envelope = Envelope::open(bytes, roll.circle(), key.member_id(), gate.as_bytes()).ok()?;
        let sender = envelope.header().sender;
        let place = self.rows.iter().position(|row| row.asked_at(envelope.header().nonce).is_some())?;
        let certificate = envelope.certificate().ok()??;
        let wall_s = now.wall_s(wall_offset_ms);
        roll.check_certificate(&certificate, wall_s).ok()?;
        let is_signed =
            trust::verify(key.suite(), &certificate.key, &envelope.signed_bytes(), envelope.signature());
        if !is_signed || member_id(&certificate.key) != sender {
            return None;
        }
        let Datagram { header, body: Body::Report { wall_ms, entries, .. }, .. } = envelope.read().ok()?
        else {
            return None;
        };
        let row = self.rows.get_mut(place)?;
        let round_trip = now.since(row.asked_at(header.nonce)?);
        let clock_offset_ms = clock_offset_ms(wall_ms, now.wall_ms(wall_offset_ms), round_trip);
        (row.member, row.name, row.expires_s) = (sender, certificate.name, certificate.not_after_s);
        row.answer.get_or_insert(Answer { at: now, round_trip, clock_offset_ms });
        self.forget_doubles_of(place);
        for entry in entries.iter().filter(|entry| roll.check_entry(entry, wall_s).is_ok()) {
            self.learn(entry);
        }
        Some(())
    }

    /// Who answered at a first address may have been told of by others before.
    fn forget_doubles_of(&mut self, place: usize) {
        let Some(member) = self.rows.get(place).map(|row| row.member) else { return };
        let mut index = 0;
        self.rows.retain(|row| {
            let is_double = row.member == member && index != place;
            index += 1;
            !is_double
        });
    }

    fn learn(&mut self, entry: &Entry) {
        let member = entry.record.member;
        let is_known =
            member == self.credentials.key.member_id() || self.rows.iter().any(|row| row.member == member);
        if !is_known && self.rows.len() < ASKED_LIMIT {
            self.rows.push(Row::of(entry));
        }
    }

    fn reports(&self) -> Vec<MemberReport> {
        let now = self.clock.now();
        let has_answers = self.rows.iter().any(|row| row.answer.is_some());
        // An address is a way in: once we are in, members count.
        let told = self.rows.iter().filter(|row| row.member != ANYONE || !has_answers);
        told.map(|row| MemberReport::from(&status(row, now))).collect()
    }
}

fn question(credentials: &Credentials, to: MemberId, nonce: Nonce) -> Vec<u8> {
    let Credentials { key, certificate, roll, gate, .. } = credentials;
    let header = Header { nonce, ..Header::bare(Kind::Scout, roll.circle(), key.member_id(), to) };
    let body = Body::Scout {
        record: 0,
        hearsay: [None; 2],
        charter_version: roll.charter().version,
        bans_version: roll.bans_version(),
        entries: Vec::new(),
    };
    let certificate = Some(certificate.clone());
    let datagram = pad_to(Datagram { header, body, certificate, padding: 0 }, QUESTION_LEN);
    datagram.encode(gate.as_bytes(), |bytes| key.sign(bytes)).unwrap_or_default()
}

/// How far the other's wall clock is ahead of ours, if its answer took half of the round trip.
fn clock_offset_ms(theirs_ms: u64, ours_ms: i64, round_trip: Duration) -> i64 {
    let then = ours_ms.saturating_sub(i64::try_from(round_trip.as_millis() / 2).unwrap_or(0));
    i64::try_from(theirs_ms).unwrap_or(i64::MAX).saturating_sub(then)
}

fn status(row: &Row, now: Time) -> MemberStatus {
    MemberStatus {
        member: row.member,
        name: row.name.clone(),
        address: row.address,
        heard_ago: row.answer.map(|answer| now.since(answer.at)),
        round_trip: row.answer.map(|answer| answer.round_trip),
        clock_offset_ms: row.answer.map(|answer| answer.clock_offset_ms),
        waits_for: None,
        is_suspected: row.answer.is_none(),
        expires_s: row.expires_s,
    }
}
