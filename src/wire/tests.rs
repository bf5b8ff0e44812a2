//! Tests of whole datagrams: the checks in their order, one encoding per message, nothing beyond the limits.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::records::{Certificate, Signature};
use super::samples::{self, GATE, sign};
use super::*;
use crate::base::{Nonce, Session};

const CIRCLE: std::ops::Range<usize> = 8..24;
const SENDER: std::ops::Range<usize> = 24..40;
const RECEIVER: std::ops::Range<usize> = 40..56;

fn encode(datagram: &Datagram) -> Option<Vec<u8>> {
    datagram.encode(&GATE, sign)
}

/// Opens the bytes as the one for whom this datagram is.
fn open<'a>(bytes: &'a [u8], datagram: &Datagram) -> Result<Envelope<'a>, Rejected> {
    Envelope::open(bytes, datagram.header.circle, datagram.header.receiver, &GATE)
}

/// Makes the gate right again, as whoever knows the key can.
fn regate(bytes: &mut [u8]) {
    let (gated, tag) = bytes.split_last_chunk_mut::<16>().expect("as long as a gate");
    blake3::Hasher::new_keyed(&GATE).update(gated).finalize_xof().fill(tag);
}

fn one_of_each_kind() -> impl Iterator<Item = (Datagram, Vec<u8>)> {
    Kind::ALL.into_iter().map(|kind| {
        let datagram = samples::datagram(kind);
        let datagram = if kind == Kind::Scout { pad_to(datagram, 900) } else { datagram };
        let bytes = encode(&datagram).expect("it fits");
        (datagram, bytes)
    })
}

/// Opens and reads; what can be read must be written as it was.
fn read_and_rewrite(bytes: &[u8], circle: CircleId, me: MemberId) -> Result<bool, TestCaseError> {
    let Ok(envelope) = Envelope::open(bytes, circle, me, &GATE) else { return Ok(false) };
    let _ = envelope.certificate();
    let Ok(datagram) = envelope.read() else { return Ok(false) };
    prop_assert_eq!(envelope.certificate(), Ok(datagram.certificate.clone()));
    prop_assert_eq!(datagram.len(), bytes.len());
    let again = datagram.encode(&GATE, |_| *envelope.signature());
    prop_assert_eq!(again.as_deref(), Some(bytes));
    Ok(true)
}

proptest! {
    #[test]
    fn any_datagram_that_fits_is_read_back(datagram in samples::any_datagram()) {
        let mut signed = Vec::new();
        let bytes = datagram.encode(&GATE, |content| {
            signed = content.to_vec();
            sign(content)
        });
        prop_assert_eq!(bytes.is_some(), datagram.len() <= DATAGRAM_LIMIT);
        let Some(bytes) = bytes else { return Ok(()) };
        prop_assert_eq!(bytes.len(), datagram.len());

        let envelope = open(&bytes, &datagram).unwrap();
        prop_assert_eq!(envelope.header(), &datagram.header);
        prop_assert_eq!(envelope.len(), bytes.len());
        prop_assert_eq!(envelope.signed_bytes(), &signed[..]);
        prop_assert_eq!(envelope.signature(), &sign(&signed));
        prop_assert_eq!(envelope.certificate(), Ok(datagram.certificate.clone()));
        prop_assert_eq!(envelope.read(), Ok(datagram));
    }

    #[test]
    fn any_bytes_are_rejected(bytes in vec(any::<u8>(), 0..1300)) {
        let [circle, me] = [[1; 16], [2; 16]];
        let opened = Envelope::open(&bytes, CircleId::from_bytes(circle), MemberId::from_bytes(me), &GATE);
        prop_assert!(opened.is_err());
    }

    /// Small bytes, so that counts, lengths and marks often make sense.
    #[test]
    fn any_content_under_a_right_header_has_one_encoding_or_none(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        flags in 0_u8..4,
        content in vec(prop_oneof![4 => 0_u8..3, 1 => any::<u8>()], 0..1000),
    ) {
        let header = samples::header(kind);
        let mut out = codec::Writer::new();
        header.write(header::Flags { certificate: false, padded: false }, &mut out);
        out.bytes(&content).bytes(&[0; 80]);
        let mut bytes = out.finish();
        bytes[7] = flags;
        regate(&mut bytes);
        read_and_rewrite(&bytes, header.circle, header.receiver)?;
    }

    /// Up to four changes in a datagram that was good, by somebody who knows the gate key.
    #[test]
    fn a_datagram_that_was_tampered_with_has_one_encoding_or_none(
        datagram in samples::any_datagram(),
        changes in vec((any::<Index>(), any::<u8>()), 1..5),
    ) {
        let Some(mut bytes) = encode(&datagram) else { return Ok(()) };
        for (index, byte) in changes {
            let place = index.index(bytes.len());
            bytes[place] = byte;
        }
        regate(&mut bytes);
        read_and_rewrite(&bytes, datagram.header.circle, datagram.header.receiver)?;
    }

    #[test]
    fn a_datagram_cut_or_prolonged_anywhere_is_not_read_as_it_was(
        datagram in samples::any_datagram(),
        at in any::<Index>(),
        more in vec(any::<u8>(), 1..40),
        cut in 1_usize..40,
    ) {
        let Some(bytes) = encode(&datagram) else { return Ok(()) };
        let was = open(&bytes, &datagram).unwrap();
        let at = at.index(bytes.len());
        let longer = [&bytes[..at], &more, &bytes[at..]].concat();
        let shorter = [&bytes[..at], bytes.get(at + cut..).unwrap_or_default()].concat();
        for mut other in [longer, shorter] {
            prop_assert!(open(&other, &datagram).is_err());
            if other.len() >= 16 {
                regate(&mut other);
            }
            if let Ok(envelope) = open(&other, &datagram) {
                prop_assert_ne!(envelope.signed_bytes(), was.signed_bytes());
            }
        }
    }
}

#[test]
fn one_of_each_kind_is_read_back() {
    for (datagram, bytes) in one_of_each_kind() {
        assert_eq!(open(&bytes, &datagram).unwrap().read(), Ok(datagram));
    }
}

#[test]
fn every_flipped_bit_is_noticed_by_the_gate_and_behind_it_by_the_signature() {
    for (datagram, bytes) in one_of_each_kind() {
        let was = open(&bytes, &datagram).unwrap();
        let signature = bytes.len() - 80..bytes.len() - 16;
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                assert!(open(&flipped, &datagram).is_err(), "bit {bit} of byte {place}");
                if place >= signature.end {
                    continue;
                }
                regate(&mut flipped);
                let Ok(now) = open(&flipped, &datagram) else { continue };
                if signature.contains(&place) {
                    assert_ne!(now.signature(), was.signature());
                } else {
                    assert_ne!(now.signed_bytes(), was.signed_bytes());
                }
            }
        }
    }
}

#[test]
fn every_truncation_and_extension_is_rejected() {
    for (datagram, bytes) in one_of_each_kind() {
        for length in 0..bytes.len() {
            let expected = if length < DATAGRAM_MIN { Rejected::TooShort } else { Rejected::Gate };
            assert_eq!(open(&bytes[..length], &datagram).unwrap_err(), expected);
        }
        for more in 1..=DATAGRAM_LIMIT - bytes.len() + 1 {
            let longer = [&bytes[..], &vec![0; more]].concat();
            let fits = longer.len() <= DATAGRAM_LIMIT;
            let expected = if fits { Rejected::Gate } else { Rejected::TooLong };
            assert_eq!(open(&longer, &datagram).unwrap_err(), expected);
        }
    }
}

#[test]
fn content_cut_or_prolonged_under_a_right_gate_is_malformed() {
    for (datagram, bytes) in one_of_each_kind().filter(|(datagram, _)| datagram.padding == 0) {
        let (content, seals) = bytes.split_at(bytes.len() - 80);
        for length in 112..content.len() {
            let mut cut = [&content[..length], seals].concat();
            regate(&mut cut);
            assert_eq!(open(&cut, &datagram).unwrap().read(), Err(Rejected::Malformed), "{length}");
        }
        let mut longer = [content, &[0], seals].concat();
        regate(&mut longer);
        assert_eq!(open(&longer, &datagram).unwrap().read(), Err(Rejected::Malformed));
    }
}

/// Spoils one thing after the other, from the last that is looked at to the first.
#[test]
fn of_two_faults_the_first_in_the_order_of_checks_is_named() {
    let (datagram, mut bytes) = one_of_each_kind().next().unwrap();
    let rejection = |bytes: &[u8]| open(bytes, &datagram).err();
    assert_eq!(rejection(&bytes), None);
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(rejection(&bytes), Some(Rejected::Gate));
    bytes[SENDER].copy_from_slice(datagram.header.receiver.as_bytes());
    assert_eq!(rejection(&bytes), Some(Rejected::OwnEcho));
    bytes[RECEIVER].fill(0xee);
    assert_eq!(rejection(&bytes), Some(Rejected::Receiver));
    bytes[CIRCLE].fill(0xee);
    assert_eq!(rejection(&bytes), Some(Rejected::Circle));
    bytes[7] |= 4;
    assert_eq!(rejection(&bytes), Some(Rejected::Flags));
    bytes[5] = 0;
    assert_eq!(rejection(&bytes), Some(Rejected::Kind));
    bytes[4] = 1;
    assert_eq!(rejection(&bytes), Some(Rejected::Version));
    bytes[0] = b'S';
    assert_eq!(rejection(&bytes), Some(Rejected::Magic));
    let mut long = bytes.clone();
    long.resize(DATAGRAM_LIMIT + 1, 0);
    assert_eq!(rejection(&long), Some(Rejected::TooLong));
    bytes.truncate(DATAGRAM_MIN - 1);
    assert_eq!(rejection(&bytes), Some(Rejected::TooShort));
    assert_eq!(rejection(&[]), Some(Rejected::TooShort));
}

/// Everything but the one fault is right, the gate included.
#[test]
fn each_check_rejects_for_itself() {
    let (datagram, bytes) = one_of_each_kind().next().unwrap();
    let spoilt = |spoil: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        spoil(&mut bytes);
        regate(&mut bytes);
        open(&bytes, &datagram).err()
    };
    assert_eq!(spoilt(&|_| ()), None);
    assert_eq!(spoilt(&|bytes| bytes[3] ^= 1), Some(Rejected::Magic));
    assert_eq!(spoilt(&|bytes| bytes[4] = 0), Some(Rejected::Version));
    assert_eq!(spoilt(&|bytes| bytes[5] = 20), Some(Rejected::Kind));
    assert_eq!(spoilt(&|bytes| bytes[6] = 0x80), Some(Rejected::Flags));
    assert_eq!(spoilt(&|bytes| bytes[23] ^= 1), Some(Rejected::Circle));
    assert_eq!(spoilt(&|bytes| bytes[55] ^= 1), Some(Rejected::Receiver));
    assert_eq!(spoilt(&|bytes| bytes.copy_within(RECEIVER, SENDER.start)), Some(Rejected::OwnEcho));
    let other_gate = Envelope::open(&bytes, datagram.header.circle, datagram.header.receiver, &[0; 32]);
    assert_eq!(other_gate.err(), Some(Rejected::Gate));
}

#[test]
fn the_shortest_and_the_longest_datagram_are_opened() {
    let shortest = Datagram { certificate: None, ..samples::datagram(Kind::Move) };
    let longest = pad_to(shortest.clone(), DATAGRAM_LIMIT);
    for (datagram, length) in [(shortest, DATAGRAM_MIN), (longest, DATAGRAM_LIMIT)] {
        let bytes = encode(&datagram).unwrap();
        assert_eq!(bytes.len(), length);
        assert_eq!(open(&bytes, &datagram).unwrap().read(), Ok(datagram));
    }
}

#[test]
fn a_padded_kind_needs_zeros_and_others_may_not_be_padded() {
    let padded = pad_to(Datagram { certificate: None, ..samples::datagram(Kind::Move) }, 200);
    assert_eq!(padded.padding, 8);
    let bytes = encode(&padded).unwrap();
    let read = |mut bytes: Vec<u8>| {
        regate(&mut bytes);
        open(&bytes, &padded).and_then(|envelope| envelope.read())
    };
    assert!(read(bytes.clone()).is_ok());
    let mut not_zero = bytes.clone();
    not_zero[119] = 1;
    assert_eq!(read(not_zero), Err(Rejected::Malformed));
    let mut not_announced = bytes.clone();
    not_announced[7] = 0;
    assert_eq!(read(not_announced), Err(Rejected::Malformed));
    let none_there = [&bytes[..112], &bytes[120..]].concat();
    assert_eq!(read(none_there), Err(Rejected::Malformed));
    let mut release = bytes;
    release[5] = Kind::Release as u8;
    assert_eq!(read(release), Err(Rejected::Flags));
}

#[test]
fn padding_fills_to_the_length_asked_for_and_never_beyond_the_limit() {
    let scout = samples::datagram(Kind::Scout);
    let bare = scout.len();
    for length in bare..=DATAGRAM_LIMIT {
        let padded = pad_to(scout.clone(), length);
        assert_eq!(encode(&padded).unwrap().len(), length);
    }
    assert_eq!(pad_to(scout.clone(), usize::MAX).len(), DATAGRAM_LIMIT);
    assert_eq!(pad_to(scout.clone(), 0), scout);
    let padded = pad_to(scout, 1000);
    assert_eq!(pad_to(padded.clone(), bare), padded, "never shorter");
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.may_be_padded()) {
        assert_eq!(pad_to(samples::datagram(kind), DATAGRAM_LIMIT), samples::datagram(kind));
    }
}

#[test]
fn fields_that_the_kind_does_not_use_make_it_malformed() {
    for (datagram, bytes) in one_of_each_kind() {
        // The last byte of token, session and nonce each.
        for (place, used) in [
            (87, datagram.header.kind.has_token()),
            (95, datagram.header.kind.has_token()),
            (111, datagram.header.kind.has_nonce()),
        ] {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1;
            regate(&mut bytes);
            let read = open(&bytes, &datagram).unwrap().read();
            assert_eq!(read.err(), (!used).then_some(Rejected::Malformed), "{:?}", datagram.header.kind);
        }
    }
}

#[test]
fn a_certificate_of_somebody_else_is_rejected() {
    let (datagram, mut bytes) = one_of_each_kind().next().unwrap();
    bytes[SENDER].fill(0xee);
    regate(&mut bytes);
    let envelope = open(&bytes, &datagram).unwrap();
    assert_eq!(envelope.certificate(), Err(Rejected::Sender));
    assert_eq!(envelope.read(), Err(Rejected::Sender));
}

#[test]
fn a_certificate_is_found_although_the_body_is_nonsense() {
    let datagram = samples::datagram(Kind::Ack);
    let mut bytes = encode(&datagram).unwrap();
    let count = 112 + records::Signed::encode(&samples::certificate(5, "lab-e")).len();
    assert_eq!(bytes[count], 1, "one entry");
    bytes[count] = 99;
    regate(&mut bytes);
    let envelope = open(&bytes, &datagram).unwrap();
    assert_eq!(envelope.certificate(), Ok(datagram.certificate));
    assert_eq!(envelope.read(), Err(Rejected::Malformed));
}

#[test]
fn a_key_to_be_enrolled_must_be_the_senders() {
    let enrol = Datagram { certificate: None, ..samples::datagram(Kind::Enrol) };
    let mut bytes = encode(&enrol).unwrap();
    bytes[112] ^= 1;
    regate(&mut bytes);
    assert_eq!(open(&bytes, &enrol).unwrap().read(), Err(Rejected::Sender));
}

#[test]
fn what_no_receiver_would_read_is_not_encoded() {
    let good = samples::datagram(Kind::Release);
    assert!(encode(&good).is_some());
    let header = good.header;
    let with_header = |header| Datagram { header, ..good.clone() };
    for (bad, why) in [
        (with_header(Header { kind: Kind::Check, ..header }), "another kind than the body"),
        (with_header(Header { receiver: header.sender, ..header }), "to itself"),
        (with_header(Header { nonce: Nonce::from_bytes([1; 16]), ..header }), "a nonce in a Release"),
        (with_header(Header { sender: MemberId::from_bytes([7; 16]), ..header }), "not its certificate"),
        (Datagram { padding: 1, ..good.clone() }, "padding in a Release"),
        (Datagram { certificate: Some(samples::certificate(5, "a\nb")), ..good.clone() }, "a bad name"),
    ] {
        assert_eq!(encode(&bad), None, "{why}");
    }
    let mut scout = samples::datagram(Kind::Scout);
    scout.header.session = Session(1);
    assert_eq!(encode(&scout), None, "a session in a Scout");
    let four = Body::Ack { entries: vec![samples::short_entry(1); ENTRIES_LIMIT + 1] };
    let four = Datagram { body: four, certificate: None, ..samples::datagram(Kind::Ack) };
    assert!(four.len() <= DATAGRAM_LIMIT);
    assert_eq!(encode(&four), None, "four entries");
}

#[test]
fn what_does_not_fit_is_not_signed() {
    let never = |_: &[u8]| -> Signature { unreachable!("a signature for nothing") };
    let move_ = Datagram { certificate: None, ..samples::datagram(Kind::Move) };
    for padding in [1009, u16::MAX] {
        assert_eq!(Datagram { padding, ..move_.clone() }.encode(&GATE, never), None);
    }
    assert_eq!(encode(&Datagram { padding: 1008, ..move_ }).map(|bytes| bytes.len()), Some(DATAGRAM_LIMIT));
}

/// Callers drop entries until it fits; nothing else is ever too long.
#[test]
fn everything_but_entries_fits_together_with_the_longest_certificate() {
    for kind in Kind::ALL {
        let certificate = Some(Certificate { key: samples::SENDER_KEY, ..samples::longest_certificate(5) });
        let mut datagram = Datagram {
            header: samples::header(kind),
            body: samples::longest_body(kind),
            certificate,
            padding: 0,
        };
        assert_eq!(encode(&datagram).is_some(), datagram.len() <= DATAGRAM_LIMIT, "{kind:?}");
        if let Body::Ack { entries }
        | Body::Commit { entries, .. }
        | Body::Scout { entries, .. }
        | Body::Report { entries, .. } = &mut datagram.body
        {
            entries.truncate(2);
        }
        assert!(encode(&datagram).is_some(), "{kind:?}: {} bytes", datagram.len());
    }
}

#[test]
fn three_entries_of_the_longest_fit_without_a_certificate_where_no_hearsay_is() {
    for kind in [Kind::Ack, Kind::Commit] {
        let body = samples::longest_body(kind);
        let datagram = Datagram { header: samples::header(kind), body, certificate: None, padding: 0 };
        assert!(encode(&datagram).is_some(), "{kind:?}: {} bytes", datagram.len());
    }
}

#[test]
fn names_of_rejections_differ() {
    let names: std::collections::BTreeSet<_> = Rejected::ALL.map(Rejected::name).into();
    assert_eq!(names.len(), Rejected::ALL.len());
}

/// The bytes are a promise to members that run another build. Whoever changes them on purpose changes the version too.
#[test]
fn one_of_each_kind_has_the_bytes_that_it_always_had() {
    let hashes = Kind::ALL.map(|kind| {
        let bytes = encode(&samples::datagram(kind)).unwrap();
        (kind.name(), bytes.len(), blake3::hash(&bytes).to_hex().as_str()[..16].to_owned())
    });
    let expected = [
        ("move", 335, "56eefaaeb8362516"),
        ("ack", 586, "04f05e0e443e83dd"),
        ("commit", 598, "34da79db1cfbd52c"),
        ("early_stop", 335, "5e7c1000e5b98be2"),
        ("scout", 699, "ec2ebe152a923e2b"),
        ("report", 708, "f04e09e22da1cafd"),
        ("release", 335, "15cb1e6ec34463b1"),
        ("check", 335, "5b485b71504eacfd"),
        ("holding", 335, "8af95fd73b7b476d"),
        ("passed", 335, "05a69b4224b065dd"),
        ("leave", 343, "584bef8511681bde"),
        ("charter", 845, "d73f0509e89fab3b"),
        ("bans", 1140, "98c643e728a1f768"),
        ("enrol", 391, "b52a4e3fe52415a5"),
        ("enrolled", 1047, "2f6030718ef85930"),
        ("renew", 335, "d039fe381e4fd48c"),
        ("renewed", 537, "bcd4bf31cab35ab1"),
        ("ticket", 1098, "28663700fc26bde7"),
        ("demand", 660, "c0075ad3f912597d"),
    ];
    assert_eq!(hashes, expected.map(|(name, length, hash)| (name, length, hash.to_owned())));
}

#[test]
fn a_newcomer_may_speak_to_whoever_is_at_an_address_and_nobody_else_may() {
    for kind in Kind::ALL {
        let mut datagram = samples::datagram(kind);
        let me = datagram.header.receiver;
        datagram.header.receiver = ANYONE;
        let bytes = encode(&datagram).unwrap();
        let opened = Envelope::open(&bytes, datagram.header.circle, me, &GATE);
        match kind {
            Kind::Scout | Kind::Enrol => assert!(opened.is_ok()),
            _ => assert_eq!(opened.map(|_| ()), Err(Rejected::Receiver), "{kind:?}"),
        }
    }
}

#[test]
fn nobody_speaks_as_anyone() {
    let circle = CircleId::from_bytes([1; 16]);
    let from = |sender| {
        let header = Header::bare(Kind::Leave, circle, sender, MemberId::from_bytes([2; 16]));
        encode(&Datagram { header, body: Body::Leave { sequence: 1 }, certificate: None, padding: 0 })
    };
    assert!(from(MemberId::from_bytes([3; 16])).is_some());
    assert!(from(ANYONE).is_none(), "nor could it be read: both go by the same rule");
}
