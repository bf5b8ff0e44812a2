//! No datagram makes its reader allocate more than a small multiple of its own length, whatever its bytes claim, and one
//! that is dropped before its content is read makes it allocate nothing. An allocator that counts looks on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

use common::datagrams::{GATE, forge};
use common::{Circle, secs};
use stroll::base::{Ask, Deed, MemberId, Rng, Seat, Standing, TicketMessage, Waiter};
use stroll::wire::records::{BANS_LIMIT, Entry};
use stroll::wire::{
    Body, DATAGRAM_LIMIT, DATAGRAM_MIN, ENTRIES_LIMIT, Envelope, Kind, SEATS_LIMIT, WAITERS_LIMIT,
};

/// No single allocation is longer than so many times the datagram: a list has room for four entries from its first one on.
const LARGEST: usize = 4;

/// All of them together, freed ones included: lists grow in steps, and the bytes under the signature are copied.
const SUM: usize = 8;

/// Mutations of each datagram.
const MUTATIONS: usize = 3_000;

/// Where the content begins, and how much stands behind it: signature and gate.
const CONTENT_AT: usize = 112;
const BEHIND: usize = 80;

// --- who counts -------------------------------------------------------------------------------------------------

/// What was allocated while somebody looked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    largest: usize,
    sum: usize,
}

thread_local! {
    // Without a destructor and known at compile time, so that to look at it allocates nothing.
    static USED: Cell<Option<Used>> = const { Cell::new(None) };
}

struct Counting;

fn note(size: usize) {
    // A thread that ends may allocate when its cell is gone.
    let _ = USED.try_with(|cell| {
        if let Some(Used { largest, sum }) = cell.get() {
            cell.set(Some(Used { largest: largest.max(size), sum: sum + size }));
        }
    });
}

// SAFETY: all is left to the system's allocator; nothing is done with its memory here.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What somebody allocates, on this thread.
fn used<T>(does: impl FnOnce() -> T) -> (T, Used) {
    USED.set(Some(Used::default()));
    let result = does();
    (result, USED.take().unwrap())
}

// --- what is read -----------------------------------------------------------------------------------------------

fn seat(ticket: u16) -> Seat {
    Seat { ticket, member: MemberId::from_bytes([5; 16]), incarnation: 1 }
}

fn longest_ask() -> TicketMessage {
    let deed = |version| Deed {
        version,
        next: seat(1),
        beyond: Some(seat(2)),
        witnesses: (0..).take(SEATS_LIMIT).map(seat).collect(),
    };
    let waiter = Waiter { member: MemberId::from_bytes([6; 16]), incarnation: 1, waited: secs(1) };
    TicketMessage::Ask(Ask {
        seat: seat(0),
        standing: Standing { number: 1, deed: deed(1), proposed: Some(deed(2)) },
        unsure_for: secs(0),
        is_settled: true,
        is_reminder: true,
        waiters: vec![waiter; WAITERS_LIMIT],
    })
}

/// Datagrams of every kind from member 0 to member 1, and the longest ones.
fn datagrams(circle: &Circle) -> Vec<Vec<u8>> {
    let entries: Vec<Entry> = vec![circle.entry(0); ENTRIES_LIMIT];
    let serials = (0..).take(BANS_LIMIT).collect();
    let longest = [
        Body::Ack { entries: entries.clone() },
        Body::Scout { record: 0, hearsay: [None; 2], charter_version: 1, bans_version: 0, entries },
        Body::Bans(circle.authority.sign_bans(1, serials).unwrap()),
        Body::Ticket { epoch: 1, message: longest_ask() },
    ];
    let write = |body: Body| {
        let len = if body.kind().may_be_padded() { DATAGRAM_LIMIT } else { 0 };
        [(false, 0), (true, 0), (false, len)].map(|(certificate, len)| {
            let fits = body.kind() != Kind::Enrolled && body.kind() != Kind::Bans || !certificate;
            circle.write(0, circle.id(1), body.clone(), certificate && fits, len)
        })
    };
    circle.bodies(0).into_iter().chain(longest).flat_map(write).collect()
}

/// The same datagram with some bytes of its content changed, in front of all those that announce how much follows, or cut.
fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let content = bytes.len() - CONTENT_AT - BEHIND;
    let mut mutated = bytes.to_vec();
    if rng.below(4) == 0 {
        let kept = rng.below(content + 1);
        mutated.drain(CONTENT_AT + kept..CONTENT_AT + content);
    }
    let content = mutated.len() - CONTENT_AT - BEHIND;
    forge(&mutated, |bytes| {
        for _ in 0..rng.below(6) {
            let place = CONTENT_AT + rng.below(content.max(1));
            bytes[place] = [0, 1, 3, 9, 0xff, rng.next_u64().to_be_bytes()[0]][rng.below(6)];
        }
        // Now and then another kind is claimed, and other flags.
        if rng.below(8) == 0 {
            bytes[5] = u8::try_from(1 + rng.below(18)).unwrap();
            bytes[7] = u8::try_from(rng.below(4)).unwrap();
        }
    })
}

#[test]
fn what_is_dropped_at_the_gate_costs_no_memory() {
    let circle = Circle::of(2).with_token_at(0);
    let (circle_id, me) = (circle.authority.circle(), circle.id(1));
    let mut rng = Rng::seeded(1);
    let mut junk: Vec<Vec<u8>> =
        (0..1_400).map(|len| (0..len).map(|_| rng.next_u64().to_be_bytes()[0]).collect()).collect();
    for bytes in datagrams(&circle) {
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            junk.push(damaged);
        }
        junk.push(bytes);
    }
    for bytes in junk {
        let (_, used) = used(|| Envelope::open(&bytes, circle_id, me, &GATE).map(|_| ()));
        assert_eq!(used, Used::default(), "{bytes:?}");
    }
}

#[test]
fn no_datagram_makes_its_reader_allocate_more_than_a_few_times_its_length() {
    let circle = Circle::of(2).with_token_at(0);
    let (circle_id, me) = (circle.authority.circle(), circle.id(1));
    let mut rng = Rng::seeded(1);
    let (mut read, mut refused, mut worst) = (BTreeSet::new(), 0, (0.0_f64, 0.0_f64));
    for sample in datagrams(&circle) {
        assert!(sample.len() >= DATAGRAM_MIN);
        for number in 0..MUTATIONS {
            let bytes = if number == 0 { sample.clone() } else { mutated(&sample, &mut rng) };
            let Ok(envelope) = Envelope::open(&bytes, circle_id, me, &GATE) else { continue };
            let (datagram, used) = used(|| {
                drop(envelope.certificate());
                drop(envelope.signed_bytes());
                envelope.read()
            });
            let kind = envelope.header().kind;
            assert!(used.largest <= LARGEST * bytes.len(), "{}, {used:?}: {bytes:?}", kind.name());
            assert!(used.sum <= SUM * bytes.len(), "{}, {used:?}: {bytes:?}", kind.name());
            let len = bytes.len() as f64;
            worst = (worst.0.max(used.largest as f64 / len), worst.1.max(used.sum as f64 / len));
            match datagram {
                Ok(datagram) => _ = read.insert(datagram.header.kind),
                Err(_) => refused += 1,
            }
        }
    }
    assert_eq!(read.len(), 18, "every kind was read: {read:?}");
    assert!(refused > 10_000, "and many were not: {refused}");
    // Otherwise nobody counts, or the limits say nothing.
    assert!(worst.0 > LARGEST as f64 / 4.0 && worst.1 > SUM as f64 / 4.0, "{worst:?}");
}
