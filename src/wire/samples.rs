//! Values for the tests of this room: a few fixed ones, and strategies that draw any.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::member_id;
use super::records::{
    ALIASES_LIMIT, AddressRecord, BANS_LIMIT, Bans, Certificate, Charter, Entry, Mode, NAME_LIMIT, PublicKey,
    Ring, RuleSet, SOURCE_LIMIT, Signature,
};
use super::ticket_samples::{any_ticket_message, longest_ask};
use super::{Body, COOL_LIMIT, Datagram, ENTRIES_LIMIT, Header, Kind, pad_to};
use crate::base::{CircleId, Hearsay, MemberId, Nonce, Session, Sighting, TicketMessage, TokenId};

pub(super) const GATE: [u8; 32] = [0x6a; 32];

/// A signature that depends on what is signed; that is all that the tests need of one.
pub(super) fn sign(bytes: &[u8]) -> Signature {
    let mut signature = [0; 64];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut signature);
    signature
}

pub(super) fn sighting(byte: u8) -> Sighting {
    let generator = MemberId::from_bytes([byte; 16]);
    Sighting {
        token: TokenId { created_ms: 1_000, generator, random: 7 },
        session: Session(byte.into()),
        age: Duration::from_millis(1_234),
    }
}

pub(super) fn certificate(byte: u8, name: &str) -> Certificate {
    Certificate {
        circle: CircleId::from_bytes([1; 16]),
        serial: byte.into(),
        not_before_s: 1_700_000_000,
        not_after_s: 1_800_000_000,
        key: [byte; 32],
        name: name.to_owned(),
        signature: [byte; 64],
    }
}

fn entry(byte: u8, name: &str, address: SocketAddr) -> Entry {
    let record = AddressRecord {
        circle: CircleId::from_bytes([1; 16]),
        member: member_id(&[byte; 32]),
        sequence: 1,
        address,
        signature: [byte; 64],
    };
    Entry { record, certificate: certificate(byte, name) }
}

pub(super) fn short_entry(byte: u8) -> Entry {
    entry(byte, "l", SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7433))
}

pub(super) fn longest_entry(byte: u8) -> Entry {
    entry(byte, &"n".repeat(NAME_LIMIT), SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 7433))
}

pub(super) fn longest_certificate(byte: u8) -> Certificate {
    certificate(byte, &"n".repeat(NAME_LIMIT))
}

/// The longest charter from before there were aliases, which is written as it was then.
pub(super) fn charter_without_aliases() -> Charter {
    Charter { source: "s".repeat(SOURCE_LIMIT), aliases: Vec::new(), ..longest_charter() }
}

pub(super) fn longest_charter() -> Charter {
    Charter {
        circle: CircleId::from_bytes([1; 16]),
        version: 1,
        issued_s: 1_700_000_000,
        name: "c".repeat(NAME_LIMIT),
        source: "s".repeat(SOURCE_LIMIT - ALIASES_LIMIT),
        aliases: vec!["a".to_owned(); ALIASES_LIMIT],
        slot: Duration::from_secs(4),
        skip: Duration::from_millis(100),
        capacity: 300,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 2,
        retention: Duration::from_secs(u32::MAX.into()),
        mode: Mode::Tickets(Ring { tickets: 5, faults: 2, first: MemberId::from_bytes([3; 16]), epoch: 1 }),
        signature: [2; 64],
    }
}

pub(super) fn longest_bans() -> Bans {
    let serials = (0..).take(BANS_LIMIT).collect();
    Bans { circle: CircleId::from_bytes([1; 16]), version: 1, serials, signature: [2; 64] }
}

/// The longest body of this kind.
pub(super) fn longest_body(kind: Kind) -> Body {
    let hearsay: Hearsay = [Some(sighting(1)), Some(sighting(2))];
    let entries = vec![longest_entry(3); ENTRIES_LIMIT];
    let (age, cool) = (Duration::from_millis(u64::MAX), COOL_LIMIT);
    match kind {
        Kind::Move => Body::Move,
        Kind::EarlyStop => Body::EarlyStop,
        Kind::Release => Body::Release,
        Kind::Check => Body::Check,
        Kind::Holding => Body::Holding,
        Kind::Passed => Body::Passed,
        Kind::Leave => Body::Leave { sequence: 5 },
        Kind::Ack => Body::Ack { entries },
        Kind::Commit => Body::Commit { age, cool, entries },
        Kind::Scout => Body::Scout { record: 1, hearsay, charter_version: 2, bans_version: 3, entries },
        Kind::Report => Body::Report {
            hearsay,
            waited: Some(age),
            has_work: true,
            charter_version: 2,
            bans_version: 3,
            wall_ms: 4,
            entries,
        },
        Kind::Charter => Body::Charter(longest_charter()),
        Kind::Bans => Body::Bans(longest_bans()),
        Kind::Enrol => Body::Enrol { key: SENDER_KEY, invitation: [1; 8], mac: [2; 16] },
        Kind::Enrolled => Body::Enrolled { certificate: longest_certificate(9), charter: longest_charter() },
        Kind::Renew => Body::Renew,
        Kind::Renewed => Body::Renewed { certificate: longest_certificate(9) },
        Kind::Demand => Body::Demand { entry: longest_entry(3) },
        Kind::Ticket => Body::Ticket { epoch: 1, message: TicketMessage::Ask(longest_ask()) },
    }
}

/// The key of who sends the fixed datagrams.
pub(super) const SENDER_KEY: PublicKey = [5; 32];

/// A header of this kind with everything in it that the kind uses.
pub(super) fn header(kind: Kind) -> Header {
    let circle = CircleId::from_bytes([1; 16]);
    let mut header = Header::bare(kind, circle, member_id(&SENDER_KEY), MemberId::from_bytes([6; 16]));
    if kind.has_token() {
        (header.token, header.session) = (sighting(7).token, Session(8));
    }
    if kind.has_nonce() {
        header.nonce = Nonce::from_bytes([9; 16]);
    }
    header
}

/// A datagram of this kind with the sender's certificate, and with one entry where entries can be.
pub(super) fn datagram(kind: Kind) -> Datagram {
    let mut body = longest_body(kind);
    if let Body::Ack { entries }
    | Body::Commit { entries, .. }
    | Body::Scout { entries, .. }
    | Body::Report { entries, .. } = &mut body
    {
        *entries = vec![short_entry(4)];
    }
    if let Body::Charter(charter) | Body::Enrolled { charter, .. } = &mut body {
        *charter = charter_without_aliases();
    }
    Datagram { header: header(kind), body, certificate: Some(certificate(5, "lab-e")), padding: 0 }
}

pub(super) fn any_bytes<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    vec(any::<u8>(), N).prop_map(|bytes| bytes.try_into().expect("as long as asked for"))
}

pub(super) fn any_member() -> impl Strategy<Value = MemberId> {
    any_bytes().prop_map(MemberId::from_bytes)
}

pub(super) fn any_circle() -> impl Strategy<Value = CircleId> {
    any_bytes().prop_map(CircleId::from_bytes)
}

fn any_token() -> impl Strategy<Value = TokenId> {
    (any::<u64>(), any_member(), any::<u64>()).prop_map(|(created_ms, generator, random)| TokenId {
        created_ms,
        generator,
        random,
    })
}

/// Texts that a reader takes, now and then as long as may be.
fn any_text(limit: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "\\PC{0,16}".prop_filter("too long", move |text| text.len() <= limit),
        1 => Just("x".repeat(limit)),
    ]
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<[u8; 4]>().prop_map(|ip| IpAddr::V4(ip.into()));
    let v6 = any::<[u8; 16]>().prop_map(|ip| IpAddr::V6(ip.into()).to_canonical());
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

pub(super) fn any_certificate() -> impl Strategy<Value = Certificate> {
    let numbers = any::<(u64, u64, u64)>();
    (any_circle(), numbers, any_bytes(), any_text(NAME_LIMIT), any_bytes()).prop_map(
        |(circle, (serial, not_before_s, not_after_s), key, name, signature)| Certificate {
            circle,
            serial,
            not_before_s,
            not_after_s,
            key,
            name,
            signature,
        },
    )
}

pub(super) fn any_address_record() -> impl Strategy<Value = AddressRecord> {
    (any_circle(), any_member(), any::<u64>(), any_address(), any_bytes()).prop_map(
        |(circle, member, sequence, address, signature)| AddressRecord {
            circle,
            member,
            sequence,
            address,
            signature,
        },
    )
}

pub(super) fn any_entry() -> impl Strategy<Value = Entry> {
    (any_address_record(), any_certificate()).prop_map(|(record, certificate)| Entry { record, certificate })
}

fn any_mode() -> impl Strategy<Value = Mode> {
    let ring = (any::<(u16, u8, u32)>(), any_member()).prop_map(|((tickets, faults, epoch), first)| Ring {
        tickets,
        faults,
        first,
        epoch,
    });
    prop_oneof![Just(Mode::Token), ring.prop_map(Mode::Tickets)]
}

pub(super) fn any_charter() -> impl Strategy<Value = Charter> {
    let rules = prop_oneof![Just(RuleSet::Early), Just(RuleSet::Classic), Just(RuleSet::Guarded)];
    let numbers = any::<(u32, u64, u32, u32, u32, u64, u8, u32)>();
    let modes = (rules, any_mode());
    let aliases = prop_oneof![Just(Vec::new()), vec(any_text(SOURCE_LIMIT / 16), 1..=ALIASES_LIMIT)];
    let sources =
        prop_oneof![(any_text(SOURCE_LIMIT), Just(Vec::new())), (any_text(SOURCE_LIMIT / 2), aliases),];
    (any_circle(), any_text(NAME_LIMIT), sources, numbers, modes, any_bytes()).prop_map(
        |(circle, name, (source, aliases), numbers, (rules, mode), signature)| {
            let (version, issued_s, slot, skip, capacity, bandwidth, scouts, retention) = numbers;
            Charter {
                circle,
                version,
                issued_s,
                name,
                source,
                aliases,
                slot: Duration::from_millis(slot.into()),
                skip: Duration::from_millis(skip.into()),
                capacity,
                bandwidth,
                rules,
                scouts,
                retention: Duration::from_secs(retention.into()),
                mode,
                signature,
            }
        },
    )
}

pub(super) fn any_bans() -> impl Strategy<Value = Bans> {
    (any_circle(), any::<u32>(), btree_set(any::<u64>(), 0..=BANS_LIMIT), any_bytes()).prop_map(
        |(circle, version, serials, signature)| Bans {
            circle,
            version,
            serials: serials.into_iter().collect(),
            signature,
        },
    )
}

pub(super) fn any_millis() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_millis)
}

fn any_sighting() -> impl Strategy<Value = Sighting> {
    (any_token(), any::<u64>(), any_millis()).prop_map(|(token, session, age)| Sighting {
        token,
        session: Session(session),
        age,
    })
}

fn any_hearsay() -> impl Strategy<Value = Hearsay> {
    [option::of(any_sighting()), option::of(any_sighting())]
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    vec(any_entry(), 0..=ENTRIES_LIMIT)
}

fn any_scout() -> impl Strategy<Value = Body> {
    (any_hearsay(), any::<(u64, u32, u32)>(), any_entries()).prop_map(
        |(hearsay, (record, charter_version, bans_version), entries)| Body::Scout {
            record,
            hearsay,
            charter_version,
            bans_version,
            entries,
        },
    )
}

fn any_report() -> impl Strategy<Value = Body> {
    (any_hearsay(), any::<(u64, u32, u32)>(), option::of(any_millis()), any::<bool>(), any_entries())
        .prop_map(|(hearsay, (wall_ms, charter_version, bans_version), waited, has_work, entries)| {
            Body::Report { hearsay, waited, has_work, charter_version, bans_version, wall_ms, entries }
        })
}

fn any_commit() -> impl Strategy<Value = Body> {
    let most = u64::try_from(COOL_LIMIT.as_millis()).expect("an hour");
    (any_millis(), 0..=most, any_entries()).prop_map(|(age, cool, entries)| Body::Commit {
        age,
        cool: Duration::from_millis(cool),
        entries,
    })
}

/// A body, and the key of who sends it: in an Enrol that is the key in the body.
fn any_body() -> impl Strategy<Value = (Body, PublicKey)> {
    let empty = [
        Body::Move,
        Body::EarlyStop,
        Body::Release,
        Body::Check,
        Body::Holding,
        Body::Passed,
        Body::Renew,
        Body::Leave { sequence: 7 },
    ];
    let body = prop_oneof![
        4 => prop::sample::select(empty.to_vec()),
        1 => any_entries().prop_map(|entries| Body::Ack { entries }),
        1 => any_commit(),
        2 => any_scout(),
        2 => any_report(),
        1 => any_charter().prop_map(Body::Charter),
        2 => (any::<u32>(), any_ticket_message()).prop_map(|(epoch, message)| Body::Ticket { epoch, message }),
        1 => any_bans().prop_map(Body::Bans),
        1 => any_certificate().prop_map(|certificate| Body::Renewed { certificate }),
        1 => any_entry().prop_map(|entry| Body::Demand { entry }),
        1 => (any_certificate(), any_charter())
            .prop_map(|(certificate, charter)| Body::Enrolled { certificate, charter }),
        1 => (any_bytes(), any_bytes(), any_bytes())
            .prop_map(|(key, invitation, mac)| Body::Enrol { key, invitation, mac }),
    ];
    (body, any_bytes()).prop_map(|(body, key)| match body {
        Body::Enrol { key, .. } => (body, key),
        _ => (body, key),
    })
}

/// Any datagram that a receiver would read, if it fits.
pub(super) fn any_datagram() -> impl Strategy<Value = Datagram> {
    let ids = (any_circle(), any_member(), any_token(), any::<u64>(), any_bytes());
    (any_body(), ids, option::of(any_certificate()), option::of(0_usize..1300)).prop_map(
        |((body, key), (circle, receiver, token, session, nonce), certificate, length)| {
            let mut header = Header::bare(body.kind(), circle, member_id(&key), receiver);
            if header.kind.has_token() {
                (header.token, header.session) = (token, Session(session));
            }
            if header.kind.has_nonce() {
                header.nonce = Nonce::from_bytes(nonce);
            }
            let certificate = certificate.map(|certificate| Certificate { key, ..certificate });
            pad_to(Datagram { header, body, certificate, padding: 0 }, length.unwrap_or(0))
        },
    )
}
