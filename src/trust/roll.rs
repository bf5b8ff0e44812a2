//! What a member believes of its circle.
//!
//! Pure: it is asked, it never asks. `node` keeps one, shows it every certificate, entry, charter and ban list that
//! comes by, and counts the refusals. It remembers no certificates: which ones were checked is the directory's to know.

use std::time::Duration;

use crate::base::CircleId;
use crate::wire::records::{Bans, Certificate, Charter, Entry, PublicKey, Ring, Signed};
use crate::wire::{circle_id, member_id};

use super::Refusal;
use super::authority::{Succession, check_name};
use super::keys::{Suite, is_usable, verify};

/// How far a member's wall clock may be off before certificates at the edge of their validity are misjudged. Ten minutes:
/// clocks without NTP drift by less between two looks of their owner, and certificates live for months.
///
/// Nothing else goes by wall clocks: they order tokens, and tokens may come from a clock that is hours ahead. In the midst of
/// a certificate's validity clocks may differ by as much as is left on either side. A member whose clock is more than this
/// behind refuses a certificate that was issued just now, until its clock has caught up; one whose clock is more than this
/// ahead takes a certificate for expired that much before its end; and one that is behind by that much keeps its own
/// for as much longer, while the others refuse it.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(600);

/// As in `proto::agent`, to which this room cannot look: beyond it the derived times overflow.
const CAPACITY_LIMIT: u32 = 100_000_000;

/// More tickets than any source bears connections.
const TICKETS_LIMIT: u16 = 1000;

/// The witnesses of more faults would not fit into a datagram.
const FAULTS_LIMIT: u8 = 4;

/// What a member believes of its circle: the authority's key (two during a rotation), the newest charter and bans.
#[derive(Clone, Debug)]
pub struct Roll {
    suite: Suite,
    authority: PublicKey,
    succession: Option<Succession>,
    circle: CircleId,
    charter: Charter,
    bans: Option<Bans>,
}

impl Roll {
    /// Begins with what came with the credentials, and believes none of it unseen.
    pub fn new(
        suite: Suite,
        authority: PublicKey,
        charter: Charter,
        bans: Option<Bans>,
    ) -> Result<Self, Refusal> {
        Self::with_succession(suite, authority, None, charter, bans)
    }

    /// The same for a circle whose authority's key was rotated.
    pub fn with_succession(
        suite: Suite,
        authority: PublicKey,
        succession: Option<Succession>,
        charter: Charter,
        bans: Option<Bans>,
    ) -> Result<Self, Refusal> {
        let circle = circle_id(&authority);
        let mut roll = Self { suite, authority, succession: None, circle, charter, bans: None };
        if let Some(succession) = succession {
            roll.offer_succession(succession)?;
        }
        roll.check_charter(&roll.charter)?;
        if let Some(bans) = bans {
            roll.offer_bans(bans)?;
        }
        Ok(roll)
    }

    /// Takes a charter if it is newer. `Ok(true)`: it is now in force. `Ok(false)`: the version is the one in force.
    pub fn offer_charter(&mut self, charter: Charter) -> Result<bool, Refusal> {
        if charter.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        if charter.version < self.charter.version {
            return Err(Refusal::Older);
        }
        // Charters come by all the time: the one in force needs no second look.
        if charter == self.charter {
            return Ok(false);
        }
        self.check_charter(&charter)?;
        let is_newer = charter.version > self.charter.version;
        if is_newer {
            check_mode(&self.charter, &charter)?;
            self.charter = charter;
        }
        Ok(is_newer)
    }

    /// Takes a list of bans if it is newer. `Ok(true)`: it is now in force. `Ok(false)`: the version is the one in force.
    pub fn offer_bans(&mut self, bans: Bans) -> Result<bool, Refusal> {
        if bans.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        if bans.version < self.bans_version() {
            return Err(Refusal::Older);
        }
        if self.bans.as_ref() == Some(&bans) {
            return Ok(false);
        }
        self.check_bans(&bans)?;
        let is_newer = bans.version > self.bans_version();
        if is_newer {
            self.bans = Some(bans);
        }
        Ok(is_newer)
    }

    /// Takes a second key for the authority. `Ok(false)`: it is known already. There can be only one successor.
    pub fn offer_succession(&mut self, succession: Succession) -> Result<bool, Refusal> {
        if succession.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        // By the founding key alone: a successor does not name the next one.
        if !verify(self.suite, &self.authority, &succession.signed_bytes(), &succession.signature) {
            return Err(Refusal::BadSignature);
        }
        if !is_usable(self.suite, &succession.key) {
            return Err(Refusal::Nonsense("this is nobody's public key"));
        }
        match &self.succession {
            Some(known) if known.key != succession.key => {
                Err(Refusal::Nonsense("another successor was named before"))
            }
            Some(_) => Ok(false),
            None => {
                self.succession = Some(succession);
                Ok(true)
            }
        }
    }

    /// The circle.
    pub fn circle(&self) -> CircleId {
        self.circle
    }

    /// Which signatures count.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The founding authority's key: the one that the circle's identity stands for.
    pub fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// The authority's second key, during a rotation.
    pub fn succession(&self) -> Option<&Succession> {
        self.succession.as_ref()
    }

    /// The charter in force.
    pub fn charter(&self) -> &Charter {
        &self.charter
    }

    /// The bans in force.
    pub fn bans(&self) -> Option<&Bans> {
        self.bans.as_ref()
    }

    /// The version of the bans in force; 0 for none.
    pub fn bans_version(&self) -> u32 {
        self.bans.as_ref().map_or(0, |bans| bans.version)
    }

    /// Whether the certificate with this serial was taken back.
    pub fn is_banned(&self, serial: u64) -> bool {
        self.bans.as_ref().is_some_and(|bans| bans.serials.binary_search(&serial).is_ok())
    }

    /// Whether a certificate is the authority's word, holds at this time, and was not taken back. The cheap checks
    /// come first, so a forged certificate may be refused for another reason than its signature.
    pub fn check_certificate(&self, certificate: &Certificate, wall_s: u64) -> Result<(), Refusal> {
        self.check_validity(certificate, wall_s)?;
        self.check_origin(certificate)
    }

    /// The same without the signature: for certificates that were checked before.
    pub fn check_validity(&self, certificate: &Certificate, wall_s: u64) -> Result<(), Refusal> {
        let tolerance_s = CLOCK_TOLERANCE.as_secs();
        if certificate.circle != self.circle {
            Err(Refusal::WrongCircle)
        } else if wall_s.saturating_add(tolerance_s) < certificate.not_before_s {
            Err(Refusal::NotYetValid)
        } else if wall_s > certificate.not_after_s.saturating_add(tolerance_s) {
            Err(Refusal::Expired)
        } else if self.is_banned(certificate.serial) {
            Err(Refusal::Banned)
        } else {
            Ok(())
        }
    }

    /// Whether an entry's certificate is good, and its address is the word of that very key.
    pub fn check_entry(&self, entry: &Entry, wall_s: u64) -> Result<(), Refusal> {
        let (record, certificate) = (&entry.record, &entry.certificate);
        if record.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        if record.member != member_id(&certificate.key) {
            return Err(Refusal::WrongMember);
        }
        self.check_certificate(certificate, wall_s)?;
        if verify(self.suite, &certificate.key, &record.signed_bytes(), &record.signature) {
            Ok(())
        } else {
            Err(Refusal::BadSignature)
        }
    }

    /// Circle and signature of a certificate, whatever the time and the bans.
    pub(super) fn check_origin(&self, certificate: &Certificate) -> Result<(), Refusal> {
        if certificate.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        self.check_signature(certificate)
    }

    fn check_charter(&self, charter: &Charter) -> Result<(), Refusal> {
        if charter.circle != self.circle {
            return Err(Refusal::WrongCircle);
        }
        self.check_signature(charter)?;
        check_constants(charter)
    }

    fn check_bans(&self, bans: &Bans) -> Result<(), Refusal> {
        self.check_signature(bans)?;
        if bans.version == 0 {
            return Err(Refusal::Nonsense("versions count from 1"));
        }
        // A signature covers what is written; a list out of order or too long is not written as it is.
        if Bans::decode(&bans.encode()).as_ref() != Ok(bans) {
            return Err(Refusal::Nonsense("the list of bans is out of order or too long"));
        }
        Ok(())
    }

    fn check_signature(&self, record: &impl Signed) -> Result<(), Refusal> {
        let message = record.signed_bytes();
        let is_by = |key| verify(self.suite, key, &message, record.signature());
        if is_by(&self.authority) || self.succession.as_ref().is_some_and(|next| is_by(&next.key)) {
            Ok(())
        } else {
            Err(Refusal::BadSignature)
        }
    }
}

/// The same limits that the agent's configuration has, so that a charter which is in force can be run by.
fn check_constants(charter: &Charter) -> Result<(), Refusal> {
    check_name(&charter.name)?;
    let capacity = f64::from(charter.capacity);
    let complaint = if charter.version == 0 {
        "versions count from 1"
    } else if charter.slot.is_zero() {
        "the slot must be longer than zero"
    } else if charter.skip.is_zero() {
        "the skip must be longer than zero"
    } else if charter.skip >= charter.slot {
        "the skip must be shorter than the slot"
    } else if charter.capacity < 1 || charter.capacity > CAPACITY_LIMIT {
        "the capacity must be between 1 and a hundred million members"
    } else if charter.slot.as_secs_f64() * capacity * capacity > 1e17 {
        "the slot is too long for that capacity"
    } else if let Some(complaint) = charter.ring().and_then(|ring| ring_complaint(&ring)) {
        complaint
    } else if Charter::decode(&charter.encode()).as_ref() != Ok(charter) {
        // A signature covers what is written; spans that are no whole milliseconds are not written as they are.
        "its constants cannot be written exactly"
    } else {
        return Ok(());
    };
    Err(Refusal::Nonsense(complaint))
}

fn ring_complaint(ring: &Ring) -> Option<&'static str> {
    if !(2..=TICKETS_LIMIT).contains(&ring.tickets) {
        Some("the tickets must be between 2 and 1000: for one at a time there is the token")
    } else if !(1..=FAULTS_LIMIT).contains(&ring.faults) {
        Some("the faults must be between 1 and 4")
    } else if ring.epoch == 0 {
        Some("epochs count from 1")
    } else {
        None
    }
}

/// A circle keeps its mode, and a ring its constants: members that went by different ones at the same time would give out
/// tickets twice.
fn check_mode(old: &Charter, new: &Charter) -> Result<(), Refusal> {
    let complaint = match (old.ring(), new.ring()) {
        (None, None) => return Ok(()),
        (Some(old), Some(new)) if new == old || new.epoch > old.epoch => return Ok(()),
        (Some(_), Some(_)) => "what is different in the ring needs a higher epoch",
        (None, Some(_)) | (Some(_), None) => "a circle keeps its mode",
    };
    Err(Refusal::Nonsense(complaint))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::base::MemberId;
    use crate::trust::samples::{NOW_S, authority, charter, private_key};
    use crate::trust::{Authority, sign_address};
    use crate::wire::records::{AddressRecord, BANS_LIMIT, Mode, RuleSet};

    const END_S: u64 = NOW_S + 90 * 86_400;
    const TOLERANCE_S: u64 = CLOCK_TOLERANCE.as_secs();

    fn roll() -> Roll {
        let charter = authority().sign_charter(charter());
        let bans = authority().sign_bans(3, vec![30, 10]).unwrap();
        Roll::new(Suite::Ed25519, authority().public(), charter, Some(bans)).unwrap()
    }

    fn forger() -> Authority {
        Authority::succeeding(private_key(66), authority().circle())
    }

    fn stranger() -> Authority {
        Authority::new(private_key(67))
    }

    fn certificate_by(authority: &Authority, serial: u64) -> Certificate {
        authority.issue(serial, private_key(2).public(), "lab-a", NOW_S, END_S).unwrap()
    }

    fn entry() -> Entry {
        let address: SocketAddr = "192.0.2.1:7433".parse().unwrap();
        let record = sign_address(&private_key(2), authority().circle(), 5, address);
        Entry { record, certificate: certificate_by(&authority(), 20) }
    }

    fn bytes_of(entry: &Entry) -> Vec<u8> {
        let mut out = crate::wire::codec::Writer::new();
        entry.write(&mut out);
        out.finish()
    }

    fn entry_from(bytes: &[u8]) -> Option<Entry> {
        let mut input = crate::wire::codec::Reader::new(bytes);
        let entry = Entry::read(&mut input).ok()?;
        input.finish().ok().map(|()| entry)
    }

    /// Every variant of these bytes with one bit changed.
    fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
        (0..bytes.len() * 8).map(|bit| {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            (bit, flipped)
        })
    }

    #[test]
    fn the_authoritys_word_is_believed() {
        let roll = roll();
        assert_eq!(roll.circle(), authority().circle());
        assert_eq!((roll.charter().version, roll.bans_version()), (7, 3));
        assert_eq!(roll.check_certificate(&certificate_by(&authority(), 20), NOW_S), Ok(()));
        assert_eq!(roll.check_entry(&entry(), NOW_S), Ok(()));
    }

    #[test]
    fn a_forged_certificate_is_refused() {
        let certificate = certificate_by(&forger(), 20);
        assert_eq!(roll().check_certificate(&certificate, NOW_S), Err(Refusal::BadSignature));
        assert_eq!(roll().check_validity(&certificate, NOW_S), Ok(()), "which looks at no signature");
    }

    #[test]
    fn a_signature_of_another_kind_of_record_is_refused() {
        let mut certificate = certificate_by(&authority(), 20);
        certificate.signature = authority().sign_charter(charter()).signature;
        assert_eq!(roll().check_certificate(&certificate, NOW_S), Err(Refusal::BadSignature));
        // The same content under another word.
        let mut message = Charter::DOMAIN.to_vec();
        message.extend(&certificate.signed_bytes()[Certificate::DOMAIN.len()..]);
        certificate.signature = private_key(1).sign(&message);
        assert_eq!(roll().check_certificate(&certificate, NOW_S), Err(Refusal::BadSignature));
    }

    #[test]
    fn records_of_another_circle_are_refused() {
        let mut roll = roll();
        let certificate = certificate_by(&stranger(), 20);
        assert_eq!(roll.check_certificate(&certificate, NOW_S), Err(Refusal::WrongCircle));
        assert_eq!(roll.check_validity(&certificate, NOW_S), Err(Refusal::WrongCircle));
        assert_eq!(roll.offer_charter(stranger().sign_charter(charter())), Err(Refusal::WrongCircle));
        assert_eq!(roll.offer_bans(stranger().sign_bans(9, vec![]).unwrap()), Err(Refusal::WrongCircle));
        let record = sign_address(&private_key(2), stranger().circle(), 5, "192.0.2.1:1".parse().unwrap());
        assert_eq!(roll.check_entry(&Entry { record, ..entry() }, NOW_S), Err(Refusal::WrongCircle));
        let foreign = Entry { certificate, ..entry() };
        assert_eq!(roll.check_entry(&foreign, NOW_S), Err(Refusal::WrongCircle));
        let charter = stranger().sign_charter(charter());
        let begun = Roll::new(Suite::Ed25519, authority().public(), charter, None);
        assert_eq!(begun.unwrap_err(), Refusal::WrongCircle);
    }

    #[test]
    fn validity_has_a_tolerance_either_way_and_no_more() {
        let (roll, certificate) = (roll(), certificate_by(&authority(), 20));
        let at = |wall_s| roll.check_certificate(&certificate, wall_s);
        assert_eq!(at(NOW_S - TOLERANCE_S - 1), Err(Refusal::NotYetValid));
        assert_eq!((at(NOW_S - TOLERANCE_S), at(END_S + TOLERANCE_S)), (Ok(()), Ok(())));
        assert_eq!(at(END_S + TOLERANCE_S + 1), Err(Refusal::Expired));
        assert_eq!((at(0), at(u64::MAX)), (Err(Refusal::NotYetValid), Err(Refusal::Expired)));
        let endless = authority().issue(20, private_key(2).public(), "lab-a", 0, u64::MAX).unwrap();
        assert_eq!(roll.check_certificate(&endless, u64::MAX), Ok(()));
    }

    #[test]
    fn banned_serials_are_refused() {
        let roll = roll();
        for (serial, banned) in [(9, false), (10, true), (20, false), (30, true), (31, false)] {
            assert_eq!(roll.is_banned(serial), banned, "serial {serial}");
            let expected = if banned { Err(Refusal::Banned) } else { Ok(()) };
            assert_eq!(roll.check_certificate(&certificate_by(&authority(), serial), NOW_S), expected);
            assert_eq!(roll.check_validity(&certificate_by(&authority(), serial), NOW_S), expected);
        }
    }

    #[test]
    fn an_address_by_another_key_is_refused() {
        let address = "192.0.2.9:7433".parse().unwrap();
        let record = sign_address(&private_key(3), authority().circle(), 6, address);
        let other = Entry { record: record.clone(), ..entry() };
        assert_eq!(roll().check_entry(&other, NOW_S), Err(Refusal::WrongMember));
        let record = AddressRecord { member: private_key(2).member_id(), ..record };
        assert_eq!(roll().check_entry(&Entry { record, ..entry() }, NOW_S), Err(Refusal::BadSignature));
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_refused() {
        let mut roll = roll();
        for (bit, bytes) in flips(&certificate_by(&authority(), 20).encode()) {
            if let Ok(certificate) = Certificate::decode(&bytes) {
                assert!(roll.check_certificate(&certificate, NOW_S).is_err(), "certificate, bit {bit}");
            }
        }
        for (bit, bytes) in flips(&bytes_of(&entry())) {
            if let Some(entry) = entry_from(&bytes) {
                assert!(roll.check_entry(&entry, NOW_S).is_err(), "entry, bit {bit}");
            }
        }
        let newer = Charter { version: 8, ..charter() };
        for (bit, bytes) in flips(&authority().sign_charter(newer).encode()) {
            if let Ok(charter) = Charter::decode(&bytes) {
                assert!(roll.offer_charter(charter).is_err(), "charter, bit {bit}");
            }
        }
        for (bit, bytes) in flips(&authority().sign_bans(8, vec![10, 20, 300]).unwrap().encode()) {
            if let Ok(bans) = Bans::decode(&bytes) {
                assert!(roll.offer_bans(bans).is_err(), "bans, bit {bit}");
            }
        }
        for (bit, bytes) in flips(&authority().sign_succession(private_key(9).public()).unwrap().encode()) {
            if let Ok(succession) = Succession::decode(&bytes) {
                assert!(roll.offer_succession(succession).is_err(), "succession, bit {bit}");
            }
        }
        assert_eq!((roll.charter().version, roll.bans_version(), roll.succession()), (7, 3, None));
    }

    #[test]
    fn a_newer_charter_is_in_force_the_same_is_known_and_an_older_one_is_refused() {
        let mut roll = roll();
        let at = |version| authority().sign_charter(Charter { version, ..charter() });
        assert_eq!(roll.offer_charter(at(7)), Ok(false));
        assert_eq!(roll.offer_charter(at(9)), Ok(true));
        assert_eq!(roll.offer_charter(at(8)), Err(Refusal::Older));
        assert_eq!(roll.charter().version, 9);
        let twin = authority().sign_charter(Charter { version: 9, capacity: 5, ..charter() });
        assert_eq!(
            (roll.offer_charter(twin), roll.charter().capacity),
            (Ok(false), 300),
            "the first one stays"
        );
    }

    fn ring() -> Ring {
        Ring { tickets: 5, faults: 2, first: MemberId::from_bytes([4; 16]), epoch: 3 }
    }

    fn with(version: u32, ring: Ring) -> Charter {
        authority().sign_charter(Charter { version, mode: Mode::Tickets(ring), ..charter() })
    }

    #[test]
    fn a_circle_keeps_its_mode() {
        let mut token = roll();
        assert_eq!(token.offer_charter(with(8, ring())), Err(Refusal::Nonsense("a circle keeps its mode")));
        let mut tickets = Roll::new(Suite::Ed25519, authority().public(), with(7, ring()), None).unwrap();
        let back = authority().sign_charter(Charter { version: 8, ..charter() });
        assert_eq!(tickets.offer_charter(back), Err(Refusal::Nonsense("a circle keeps its mode")));
        assert_eq!((token.charter().version, tickets.charter().version), (7, 7));
    }

    #[test]
    fn a_ring_keeps_its_constants_until_there_is_a_new_one() {
        let first = MemberId::from_bytes([5; 16]);
        let mut roll = Roll::new(Suite::Ed25519, authority().public(), with(7, ring()), None).unwrap();
        for changed in [
            Ring { tickets: 6, ..ring() },
            Ring { faults: 1, ..ring() },
            Ring { first, ..ring() },
            Ring { epoch: 2, ..ring() },
            Ring { epoch: 2, tickets: 6, ..ring() },
        ] {
            assert!(matches!(roll.offer_charter(with(8, changed)), Err(Refusal::Nonsense(_))), "{changed:?}");
        }
        assert_eq!(roll.offer_charter(with(8, ring())), Ok(true), "something else may be different");
        let new = Ring { tickets: 6, faults: 1, first, epoch: 4 };
        assert_eq!(roll.offer_charter(with(9, new)), Ok(true));
        assert_eq!(roll.charter().ring(), Some(new));
        assert_eq!(roll.offer_charter(with(8, ring())), Err(Refusal::Older));
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_refused() {
        let begun = |ring| Roll::new(Suite::Ed25519, authority().public(), with(1, ring), None).map(|_| ());
        for (tickets, faults) in [(2, 1), (1000, 4)] {
            assert_eq!(begun(Ring { tickets, faults, ..ring() }), Ok(()));
        }
        for nonsense in [
            Ring { tickets: 1, ..ring() },
            Ring { tickets: 1001, ..ring() },
            Ring { faults: 0, ..ring() },
            Ring { faults: 5, ..ring() },
            Ring { epoch: 0, ..ring() },
        ] {
            assert!(matches!(begun(nonsense), Err(Refusal::Nonsense(_))), "{nonsense:?}");
        }
    }

    #[test]
    fn newer_bans_are_in_force_the_same_are_known_and_older_ones_are_refused() {
        let mut roll = roll();
        let at = |version| authority().sign_bans(version, vec![u64::from(version)]).unwrap();
        assert_eq!(roll.offer_bans(at(3)), Ok(false), "another list with the same version changes nothing");
        assert!(roll.is_banned(10));
        assert_eq!(roll.offer_bans(at(5)), Ok(true));
        assert_eq!(roll.offer_bans(at(4)), Err(Refusal::Older));
        assert_eq!((roll.bans_version(), roll.is_banned(5), roll.is_banned(10)), (5, true, false));
    }

    #[test]
    fn a_forged_charter_or_ban_list_changes_nothing() {
        let mut roll = roll();
        let newer = Charter { version: 8, ..charter() };
        assert_eq!(roll.offer_charter(forger().sign_charter(newer)), Err(Refusal::BadSignature));
        assert_eq!(roll.offer_bans(forger().sign_bans(9, vec![1]).unwrap()), Err(Refusal::BadSignature));
        assert_eq!((roll.charter().version, roll.bans_version()), (7, 3));
        let forged = Roll::new(Suite::Ed25519, authority().public(), forger().sign_charter(charter()), None);
        assert_eq!(forged.unwrap_err(), Refusal::BadSignature);
        let (charter, bans) = (authority().sign_charter(charter()), forger().sign_bans(9, vec![]).unwrap());
        let forged = Roll::new(Suite::Ed25519, authority().public(), charter, Some(bans));
        assert_eq!(forged.unwrap_err(), Refusal::BadSignature);
    }

    #[test]
    fn a_charter_that_makes_no_sense_is_refused_though_signed() {
        let good = Charter { version: 8, ..charter() };
        let millis = Duration::from_millis;
        for wrong in [
            Charter { slot: millis(0), ..good.clone() },
            Charter { skip: millis(0), ..good.clone() },
            Charter { skip: millis(4000), ..good.clone() },
            Charter { capacity: 0, ..good.clone() },
            Charter { capacity: CAPACITY_LIMIT + 1, ..good.clone() },
            Charter { capacity: CAPACITY_LIMIT, slot: millis(60_000), ..good.clone() },
            Charter { slot: Duration::from_micros(4_000_500), ..good.clone() },
            Charter { slot: Duration::from_secs(u64::from(u32::MAX)), ..good.clone() },
            Charter { name: String::new(), ..good.clone() },
            Charter { name: "../virgo".to_owned(), ..good.clone() },
            Charter { source: "ftp://a\nb".to_owned(), ..good.clone() },
            Charter { source: "x".repeat(301), ..good.clone() },
            Charter { aliases: vec!["x".repeat(301)], ..good.clone() },
            Charter { aliases: vec!["x".to_owned(); 9], ..good.clone() },
        ] {
            let answer = roll().offer_charter(authority().sign_charter(wrong.clone()));
            assert!(matches!(answer, Err(Refusal::Nonsense(_))), "{wrong:?}: {answer:?}");
        }
        assert_eq!(roll().offer_charter(authority().sign_charter(good)), Ok(true));
        let none = authority().sign_charter(Charter { version: 0, rules: RuleSet::Classic, ..charter() });
        let begun = Roll::new(Suite::Ed25519, authority().public(), none, None);
        assert_eq!(begun.unwrap_err(), Refusal::Nonsense("versions count from 1"));
    }

    #[test]
    fn bans_that_make_no_sense_are_refused_though_signed() {
        let sign = |version, serials: Vec<u64>| {
            let mut bans = Bans { circle: authority().circle(), version, serials, signature: [0; 64] };
            bans.signature = private_key(1).sign(&bans.signed_bytes());
            bans
        };
        let mut too_many = (0..=BANS_LIMIT as u64).collect::<Vec<_>>();
        for serials in [vec![2, 1], vec![1, 1], too_many.clone()] {
            assert!(matches!(roll().offer_bans(sign(9, serials)), Err(Refusal::Nonsense(_))));
        }
        too_many.pop();
        assert_eq!(roll().offer_bans(sign(9, too_many)), Ok(true));
        let charter = authority().sign_charter(charter());
        let begun = Roll::new(Suite::Ed25519, authority().public(), charter, Some(sign(0, vec![1])));
        assert_eq!(begun.unwrap_err(), Refusal::Nonsense("versions count from 1"));
    }

    #[test]
    fn during_a_rotation_both_keys_are_good() {
        let mut roll = roll();
        let successor = Authority::succeeding(private_key(9), authority().circle());
        let certificate = certificate_by(&successor, 40);
        assert_eq!(roll.check_certificate(&certificate, NOW_S), Err(Refusal::BadSignature));
        let succession = authority().sign_succession(successor.public()).unwrap();
        assert_eq!(roll.offer_succession(succession.clone()), Ok(true));
        assert_eq!(roll.offer_succession(succession), Ok(false));
        assert_eq!(roll.check_certificate(&certificate, NOW_S), Ok(()));
        assert_eq!(roll.check_certificate(&certificate_by(&authority(), 20), NOW_S), Ok(()));
        assert_eq!(roll.offer_bans(successor.sign_bans(4, vec![20]).unwrap()), Ok(true));
        assert_eq!(roll.authority(), &authority().public(), "the circle stays what it was");
    }

    #[test]
    fn only_the_founding_key_names_one_successor() {
        let mut roll = roll();
        let by = |authority: &Authority, seed| authority.sign_succession(private_key(seed).public()).unwrap();
        assert_eq!(roll.offer_succession(by(&forger(), 9)), Err(Refusal::BadSignature));
        assert_eq!(roll.offer_succession(by(&stranger(), 9)), Err(Refusal::WrongCircle));
        assert_eq!(roll.offer_succession(by(&authority(), 66)), Ok(true));
        assert_eq!(
            roll.offer_succession(by(&forger(), 9)),
            Err(Refusal::BadSignature),
            "not by the successor"
        );
        assert!(matches!(roll.offer_succession(by(&authority(), 9)), Err(Refusal::Nonsense(_))));
    }

    #[test]
    fn the_simulated_suite_behaves_the_same() {
        let key = |seed| crate::trust::PrivateKey::from_seed(Suite::Simulated, [seed; 32]);
        let authority = Authority::new(key(1));
        let charter = authority.sign_charter(charter());
        let roll = Roll::new(Suite::Simulated, authority.public(), charter, None).unwrap();
        let certificate = authority.issue(1, key(2).public(), "lab-a", NOW_S, END_S).unwrap();
        let record = sign_address(&key(2), roll.circle(), 1, "192.0.2.1:1".parse().unwrap());
        let entry = Entry { record, certificate };
        assert_eq!((roll.check_entry(&entry, NOW_S), roll.bans_version()), (Ok(()), 0));
        for (bit, bytes) in flips(&bytes_of(&entry)) {
            if let Some(entry) = entry_from(&bytes) {
                assert!(roll.check_entry(&entry, NOW_S).is_err(), "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..500),
            wall_s in any::<u64>(),
        ) {
            let mut roll = roll();
            if let Ok(certificate) = Certificate::decode(&bytes) {
                prop_assert!(roll.check_certificate(&certificate, wall_s).is_err());
            }
            if let Some(entry) = entry_from(&bytes) {
                prop_assert!(roll.check_entry(&entry, wall_s).is_err());
            }
            if let Ok(charter) = Charter::decode(&bytes) {
                prop_assert!(roll.offer_charter(charter).is_err());
            }
            if let Ok(bans) = Bans::decode(&bytes) {
                prop_assert!(roll.offer_bans(bans).is_err());
            }
        }
    }
}
