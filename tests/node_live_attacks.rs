//! The node against mutations of the very datagram that it waits for, in every state of a handoff: an Ack while it offers, a
//! Commit after it said yes, an EarlyStop while it commits. Nothing but the sound datagram has any effect, and that one
//! has it afterwards.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::net::SocketAddr;

use common::datagrams::{GATE, forge};
use common::{Circle, Fate, Packet, WALL_START_S, elsewhere, secs};
use stroll::base::{CircleId, MemberId};
use stroll::node::{Command, Event};
use stroll::proto::handoff;
use stroll::trust::{PrivateKey, Suite};
use stroll::wire::records::Certificate;
use stroll::wire::{Datagram, Envelope, Kind};

/// What somebody waits for, as the last part of a handoff.
const AWAITED: [Kind; 3] = [Kind::Ack, Kind::Commit, Kind::EarlyStop];

/// So many signatures of answers are looked at at one moment; beyond, silence proves nothing. Two are for each mutation, and
/// one for the sound datagram.
const SIGNATURES: u64 = 100;

const DAY_S: u64 = 86_400;

/// A circle at the moment when a datagram has been sent and has not arrived.
struct Pending {
    circle: Circle,
    /// The datagram.
    packet: Packet,
    /// Who waits for it.
    waiting: usize,
}

/// Two members in the middle of a handoff.
fn pending(kind: Kind) -> Pending {
    let mut circle = Circle::running(2);
    circle.set_network(move |packet| if packet.kind() == kind { Fate::Hold } else { Fate::Deliver });
    assert!(circle.drive_until(secs(10), |circle| !circle.held.is_empty()), "no {}", kind.name());
    let packet = circle.held.remove(0);
    Pending { waiting: packet.receiver.unwrap(), circle, packet }
}

impl Pending {
    fn name(&self) -> &'static str {
        self.packet.kind().name()
    }

    fn len(&self) -> usize {
        self.packet.bytes.len()
    }

    /// Neither let in nor answered, and nothing happened: no event, no change of what is held or known.
    #[track_caller]
    fn assert_silent(&mut self, bytes: &[u8], what: &str) {
        let what = format!("{}, {what}", self.name());
        let before = self.look();
        let from = self.packet.from;
        assert!(self.circle.inject(self.waiting, bytes, from).is_empty(), "{what}");
        assert!(self.circle.inject(self.waiting, bytes, elsewhere(1)).is_empty(), "{what}");
        assert_eq!(self.look(), before, "{what}");
        assert_eq!(self.rejected("too_many"), 0, "{what}: silent for another reason");
    }

    /// What the one that waits has let in, knows, has and may use, and how much has happened to it.
    fn look(&self) -> (u64, usize, bool, usize) {
        let node = self.circle.node(self.waiting);
        let token = self.packet.header.token;
        let events = self.circle.members[self.waiting].events.len();
        (self.circle.accepted(self.waiting), node.directory().len(), node.holds(token), events)
    }

    fn rejected(&self, reason: &str) -> u64 {
        self.circle.rejected(self.waiting, reason)
    }

    /// Whether the one that waits has done what the datagram is for.
    fn is_done(&self) -> bool {
        let is_it = |event: &Event| match self.packet.kind() {
            // The pull has to end before anything else.
            Kind::Ack => *event == Event::StopSlot,
            Kind::Commit => matches!(event, Event::Handoff(handoff::Event::Arrived { .. })),
            _ => matches!(event, Event::Handoff(handoff::Event::Confirmed { .. })),
        };
        let now = self.circle.now;
        self.circle.members[self.waiting].events.iter().any(|(at, event)| *at == now && is_it(event))
    }

    /// After all that was tried, the sound datagram has its effect, once.
    #[track_caller]
    fn assert_sound_is_accepted(mut self) {
        assert!(!self.is_done(), "{}", self.name());
        let (accepted, from, bytes) =
            (self.circle.accepted(self.waiting), self.packet.from, self.packet.bytes.clone());
        self.circle.inject(self.waiting, &bytes, from);
        assert_eq!(self.circle.accepted(self.waiting), accepted + 1, "{}", self.name());
        assert!(self.is_done(), "{}", self.name());
        self.assert_silent(&bytes, "once more");
    }

    /// The same content, signed by this key for this receiver in this circle, in the name of the key's owner.
    fn signed(
        &self,
        key: &PrivateKey,
        certificate: Option<Certificate>,
        to: MemberId,
        circle: CircleId,
    ) -> Vec<u8> {
        let own = self.circle.authority.circle();
        let sound = Envelope::open(&self.packet.bytes, own, self.me(), &GATE).unwrap().read().unwrap();
        let mut header = sound.header;
        (header.circle, header.sender, header.receiver) = (circle, key.member_id(), to);
        let datagram = Datagram { header, certificate, ..sound };
        datagram.encode(&GATE, |bytes| key.sign(bytes)).unwrap()
    }

    fn me(&self) -> MemberId {
        self.circle.id(self.waiting)
    }

    fn sender_key(&self) -> PrivateKey {
        self.circle.key(self.packet.sender)
    }
}

fn stranger() -> PrivateKey {
    PrivateKey::from_seed(Suite::Ed25519, [50; 32])
}

#[test]
fn the_awaited_datagram_cut_anywhere_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let bytes = pending.packet.bytes.clone();
        for len in 0..bytes.len() {
            pending.assert_silent(&bytes[..len], &format!("cut to {len}"));
            // The same by somebody who knows the gate key.
            if len > 16 {
                pending.assert_silent(&forge(&bytes[..len], |_| {}), &format!("cut to {len} and gated"));
            }
            if pending.rejected("signature") + 4 > SIGNATURES {
                pending = self::pending(kind);
            }
        }
        pending.assert_silent(&[&bytes[..], &[0]].concat(), "a byte more");
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_with_one_bit_changed_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let bytes = pending.packet.bytes.clone();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            pending.assert_silent(&damaged, &format!("bit {bit} changed"));
        }
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_changed_by_who_knows_the_gate_key_has_no_effect() {
    for kind in AWAITED {
        let mut signatures = 0;
        let mut pending = pending(kind);
        for place in 0..pending.len() - 16 {
            let bit = 1 << (place % 8);
            let forged = forge(&pending.packet.bytes, |bytes| bytes[place] ^= bit);
            pending.assert_silent(&forged, &format!("byte {place} forged"));
            if pending.rejected("signature") + 4 > SIGNATURES {
                signatures += pending.rejected("signature");
                pending.assert_sound_is_accepted();
                pending = self::pending(kind);
            }
        }
        signatures += pending.rejected("signature");
        // The content and the signature, and nothing of the header: that is of interest only as it was expected.
        assert!(signatures >= 2 * 64, "{}: {signatures}", kind.name());
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_of_the_wrong_sender_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let (me, sender) = (pending.me(), pending.circle.id(pending.packet.sender));
        let circle = pending.circle.authority.circle();
        let key = stranger();
        let certificate = pending
            .circle
            .authority
            .issue(50, key.public(), "stranger", WALL_START_S - DAY_S, WALL_START_S + DAY_S)
            .unwrap();
        // A member like any other, in its own name.
        let own_name = pending.signed(&key, Some(certificate), me, circle);
        pending.assert_silent(&own_name, "by another member");
        // In the name of the right one, with another key.
        let signed = pending.signed(&key, None, me, circle);
        let in_its_name = forge(&signed, |bytes| bytes[24..40].copy_from_slice(sender.as_bytes()));
        pending.assert_silent(&in_its_name, "with another's signature");
        assert!(pending.rejected("signature") >= 2, "{}", kind.name());
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_for_another_or_of_another_circle_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let (circle, key, me) = (pending.circle.authority.circle(), pending.sender_key(), pending.me());
        let for_another = pending.signed(&key, None, stranger().member_id(), circle);
        pending.assert_silent(&for_another, "for another");
        let readdressed = forge(&for_another, |bytes| bytes[40..56].copy_from_slice(me.as_bytes()));
        pending.assert_silent(&readdressed, "signed for another");
        let elsewhere = CircleId::from_bytes([3; 16]);
        let of_another = pending.signed(&key, None, me, elsewhere);
        pending.assert_silent(&of_another, "of another circle");
        let brought_over = forge(&of_another, |bytes| bytes[8..24].copy_from_slice(circle.as_bytes()));
        pending.assert_silent(&brought_over, "signed for another circle");
        assert!(pending.rejected("receiver") >= 2 && pending.rejected("circle") >= 2, "{}", kind.name());
        assert!(pending.rejected("signature") >= 4, "{}", kind.name());
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_of_who_has_expired_meanwhile_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let waiting = pending.waiting;
        // Its own certificate is still good then.
        let seed = pending.circle.members[waiting].seed;
        let longer = pending.circle.issue(waiting, seed, WALL_START_S - DAY_S, WALL_START_S + 300 * DAY_S);
        pending.circle.command(waiting, Command::Certificate { certificate: longer });
        let right_ms = pending.circle.members[waiting].wall_offset_ms;
        let late_ms = right_ms + i64::try_from(150 * DAY_S * 1000).unwrap();
        pending.circle.command(waiting, Command::WallClock { offset_ms: late_ms });
        let bytes = pending.packet.bytes.clone();
        pending.assert_silent(&bytes, "expired");
        assert_eq!(
            pending.rejected("unknown_sender") + pending.rejected("certificate"),
            2,
            "{}",
            kind.name()
        );
        // The clock was wrong, and all is well.
        pending.circle.command(waiting, Command::WallClock { offset_ms: right_ms });
        pending.assert_sound_is_accepted();
    }
}

#[test]
fn the_awaited_datagram_of_who_was_banned_meanwhile_has_no_effect() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        let (waiting, sender, token) = (pending.waiting, pending.packet.sender, pending.packet.header.token);
        let held = pending.circle.node(waiting).holds(token);
        let bans = pending.circle.bans(1, &[sender]);
        pending.circle.command(waiting, Command::Bans { bans });
        let bytes = pending.packet.bytes.clone();
        pending.assert_silent(&bytes, "banned");
        let certificate = pending.circle.members[sender].certificate.clone();
        let (key, circle, me) = (pending.sender_key(), pending.circle.authority.circle(), pending.me());
        let with_certificate = pending.signed(&key, Some(certificate), me, circle);
        pending.assert_silent(&with_certificate, "banned, with its certificate");
        assert!(!pending.is_done(), "{}", kind.name());
        assert_eq!(
            pending.circle.node(waiting).holds(token),
            held,
            "{}: what was not given stays",
            kind.name()
        );
    }
}

/// The addresses in use are not what is believed: the sound datagram counts wherever it comes from.
#[test]
fn the_awaited_datagram_counts_from_any_address() {
    for kind in AWAITED {
        let mut pending = pending(kind);
        pending.packet.from = SocketAddr::from(([198, 51, 100, 7], 4000));
        pending.assert_sound_is_accepted();
    }
}
