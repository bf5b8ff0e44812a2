//! Signed records that travel inside the circle: certificates, addresses, charters, bans.
//!
//! Here is what they say and how it is written; who may sign them, and what a signature is worth, is the business of
//! `trust`. Every record ends with its signature, over a word that names the kind of record and everything before it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{CircleId, MemberId, Ticket};

use super::codec::{Malformed, Reader, Writer};

/// A signature. What it is worth, `trust` knows.
pub type Signature = [u8; 64];

/// A public key. Whose it is, `trust` knows.
pub type PublicKey = [u8; 32];

/// Bytes of a member's or a circle's name, at most.
pub const NAME_LIMIT: usize = 64;

/// Bytes of a source's address, at most: a charter must fit into one datagram together with a certificate.
pub const SOURCE_LIMIT: usize = 300;

/// Further addresses of a source, at most. Together with the source's own address they have no more than [`SOURCE_LIMIT`]
/// bytes.
pub const ALIASES_LIMIT: usize = 8;

/// Banned serial numbers, at most: the list must fit into one datagram together with a certificate. Older bans may be
/// dropped once the certificate has expired.
pub const BANS_LIMIT: usize = 90;

/// A record that is signed.
pub trait Signed: Sized {
    /// Separates this kind of record from all others, so that no signature can be used for another kind.
    const DOMAIN: &'static [u8];

    /// Writes everything but the signature.
    fn write_content(&self, out: &mut Writer);

    /// Reads everything; the rest of the input is left.
    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// The signature.
    fn signature(&self) -> &Signature;

    /// What is signed.
    fn signed_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.bytes(Self::DOMAIN);
        self.write_content(&mut out);
        out.finish()
    }

    /// Writes the whole record.
    fn write(&self, out: &mut Writer) {
        self.write_content(out);
        out.bytes(self.signature());
    }

    /// The whole record as bytes.
    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.write(&mut out);
        out.finish()
    }

    /// The record that these bytes are, and nothing but it.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let record = Self::read(&mut input)?;
        input.finish()?;
        Ok(record)
    }
}

/// The authority's word that a key belongs to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Of which circle.
    pub circle: CircleId,
    /// Unique in the circle; bans go by it.
    pub serial: u64,
    /// Valid from here on, in seconds since 1970.
    pub not_before_s: u64,
    /// Valid until here.
    pub not_after_s: u64,
    /// The member's key.
    pub key: PublicKey,
    /// The member's name, for people.
    pub name: String,
    /// Of the authority.
    pub signature: Signature,
}

impl Signed for Certificate {
    const DOMAIN: &'static [u8] = b"stroll 1 certificate\0";

    fn write_content(&self, out: &mut Writer) {
        out.bytes(self.circle.as_bytes()).u64(self.serial).u64(self.not_before_s).u64(self.not_after_s);
        out.bytes(&self.key).text(&self.name);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            circle: CircleId::from_bytes(input.array()?),
            serial: input.u64()?,
            not_before_s: input.u64()?,
            not_after_s: input.u64()?,
            key: input.array()?,
            name: input.text(NAME_LIMIT)?,
            signature: input.array()?,
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

/// A member's word where it can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRecord {
    /// Of which circle.
    pub circle: CircleId,
    /// Whose address.
    pub member: MemberId,
    /// The higher, the newer.
    pub sequence: u64,
    /// Where.
    pub address: SocketAddr,
    /// Of the member itself.
    pub signature: Signature,
}

impl Signed for AddressRecord {
    const DOMAIN: &'static [u8] = b"stroll 1 address\0";

    fn write_content(&self, out: &mut Writer) {
        out.bytes(self.circle.as_bytes()).bytes(self.member.as_bytes());
        // A socket of both families reports IPv4 addresses in IPv6 clothes, which a reader refuses.
        let address = SocketAddr::new(self.address.ip().to_canonical(), self.address.port());
        out.u64(self.sequence).address(address);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            circle: CircleId::from_bytes(input.array()?),
            member: MemberId::from_bytes(input.array()?),
            sequence: input.u64()?,
            address: input.address()?,
            signature: input.array()?,
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

/// An address with the certificate of its member: all that a stranger needs to believe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the member is.
    pub record: AddressRecord,
    /// Who the member is.
    pub certificate: Certificate,
}

impl Entry {
    /// Writes both records.
    pub fn write(&self, out: &mut Writer) {
        self.record.write(out);
        self.certificate.write(out);
    }

    /// Reads both records.
    pub fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { record: AddressRecord::read(input)?, certificate: Certificate::read(input)? })
    }
}

/// Which rules a circle follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSet {
    /// The earlier paper's.
    Early,
    /// The 2009 paper's.
    Classic,
    /// Ours.
    Guarded,
}

/// How the members of a circle take turns. A circle keeps its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A token wanders: one at a time, with rare short exceptions.
    Token,
    /// Tickets: never more than so many at once, possibly fewer.
    Tickets(Ring),
}

/// The ring of those who hold a ticket, as the authority founds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// n: how many tickets there are.
    pub tickets: Ticket,
    /// k: how many neighbours in the ring may fail at once.
    pub faults: u8,
    /// Who begins the ring. Two that did would give out every ticket twice.
    pub first: MemberId,
    /// Which ring: a higher one takes the place of all before it, and what was granted in those is void.
    pub epoch: u32,
}

/// The circle's constants, signed by its authority. Members run by the one with the highest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charter {
    /// Of which circle.
    pub circle: CircleId,
    /// The higher, the newer.
    pub version: u32,
    /// When it was made, in seconds since 1970.
    pub issued_s: u64,
    /// The circle's name, for people.
    pub name: String,
    /// What is pulled: a URL.
    pub source: String,
    /// Other URLs of the same source. A charter without any is written as it was before there were aliases; members of that
    /// time refuse one with aliases, and go on by the charter that they have.
    pub aliases: Vec<String>,
    /// Δ_op, in whole milliseconds.
    pub slot: Duration,
    /// Δ_skip, in whole milliseconds.
    pub skip: Duration,
    /// N_max.
    pub capacity: u32,
    /// Bytes per second that a holder may pull; 0 for no limit.
    pub bandwidth: u64,
    /// Which rules.
    pub rules: RuleSet,
    /// d: how many members a holder asks.
    pub scouts: u8,
    /// How long the source keeps what it has, in whole seconds; 0 if unknown.
    pub retention: Duration,
    /// How the members take turns.
    pub mode: Mode,
    /// Of the authority.
    pub signature: Signature,
}

impl Charter {
    /// The ring, in a circle with tickets.
    pub fn ring(&self) -> Option<Ring> {
        match self.mode {
            Mode::Token => None,
            Mode::Tickets(ring) => Some(ring),
        }
    }

    /// All addresses of the source; the first is the one by which it is called.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.source).chain(&self.aliases).map(String::as_str)
    }
}

impl Signed for Charter {
    const DOMAIN: &'static [u8] = b"stroll 1 charter\0";

    fn write_content(&self, out: &mut Writer) {
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        out.bytes(self.circle.as_bytes()).u32(self.version).u64(self.issued_s);
        out.text(&self.name).text(&self.source);
        out.u32(millis(self.slot)).u32(millis(self.skip)).u32(self.capacity).u64(self.bandwidth);
        out.u8(match self.rules {
            RuleSet::Early => 1,
            RuleSet::Classic => 2,
            RuleSet::Guarded => 3,
        });
        out.u8(self.scouts).u32(u32::try_from(self.retention.as_secs()).unwrap_or(u32::MAX));
        let has_aliases = !self.aliases.is_empty();
        match self.mode {
            Mode::Token => out.u8(if has_aliases { 3 } else { 1 }),
            Mode::Tickets(Ring { tickets, faults, first, epoch }) => {
                out.u8(if has_aliases { 4 } else { 2 });
                out.u16(tickets).u8(faults).bytes(first.as_bytes()).u32(epoch)
            }
        };
        if has_aliases {
            out.list(&self.aliases, |alias, out| {
                out.text(alias);
            });
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut charter = Self {
            circle: CircleId::from_bytes(input.array()?),
            version: input.u32()?,
            issued_s: input.u64()?,
            name: input.text(NAME_LIMIT)?,
            source: input.text(SOURCE_LIMIT)?,
            aliases: Vec::new(),
            slot: Duration::from_millis(input.u32()?.into()),
            skip: Duration::from_millis(input.u32()?.into()),
            capacity: input.u32()?,
            bandwidth: input.u64()?,
            rules: match input.u8()? {
                1 => RuleSet::Early,
                2 => RuleSet::Classic,
                3 => RuleSet::Guarded,
                _ => return Err(Malformed),
            },
            scouts: input.u8()?,
            retention: Duration::from_secs(input.u32()?.into()),
            mode: Mode::Token,
            signature: [0; 64],
        };
        let mode = input.u8()?;
        charter.mode = match mode {
            1 | 3 => Mode::Token,
            2 | 4 => Mode::Tickets(Ring {
                tickets: input.u16()?,
                faults: input.u8()?,
                first: MemberId::from_bytes(input.array()?),
                epoch: input.u32()?,
            }),
            _ => return Err(Malformed),
        };
        if mode > 2 {
            charter.aliases = input.list(ALIASES_LIMIT, |input| input.text(SOURCE_LIMIT))?;
            // An empty list has another encoding: the one without a list.
            if charter.aliases.is_empty() || charter.sources().map(str::len).sum::<usize>() > SOURCE_LIMIT {
                return Err(Malformed);
            }
        }
        charter.signature = input.array()?;
        Ok(charter)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

/// Who is no longer a member: serial numbers of certificates, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bans {
    /// Of which circle.
    pub circle: CircleId,
    /// The higher, the newer.
    pub version: u32,
    /// Ascending, without repetition.
    pub serials: Vec<u64>,
    /// Of the authority.
    pub signature: Signature,
}

impl Signed for Bans {
    const DOMAIN: &'static [u8] = b"stroll 1 bans\0";

    fn write_content(&self, out: &mut Writer) {
        let serials = self.serials.get(..BANS_LIMIT).unwrap_or(&self.serials);
        out.bytes(self.circle.as_bytes()).u32(self.version);
        out.u8(u8::try_from(serials.len()).unwrap_or(u8::MAX));
        for serial in serials {
            out.u64(*serial);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let circle = CircleId::from_bytes(input.array()?);
        let version = input.u32()?;
        let count = usize::from(input.u8()?);
        if count > BANS_LIMIT {
            return Err(Malformed);
        }
        let serials = (0..count).map(|_| input.u64()).collect::<Result<Vec<_>, _>>()?;
        if !serials.is_sorted_by(|a, b| a < b) {
            return Err(Malformed);
        }
        Ok(Self { circle, version, serials, signature: input.array()? })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::samples;
    use proptest::prelude::*;

    /// What every kind of record promises: it is read back, and neither less nor more than its bytes is.
    fn is_read_back<R: Signed + PartialEq + std::fmt::Debug>(record: &R) {
        let bytes = record.encode();
        assert_eq!(R::decode(&bytes).as_ref(), Ok(record));
        for length in 0..bytes.len() {
            assert_eq!(R::decode(&bytes[..length]), Err(Malformed), "cut to {length} bytes");
        }
        assert_eq!(R::decode(&[&bytes[..], &[0]].concat()), Err(Malformed), "one byte more");
        let (content, signature) = bytes.split_last_chunk().unwrap();
        assert_eq!(signature, record.signature());
        assert_eq!(record.signed_bytes(), [R::DOMAIN, content].concat());
    }

    /// Whatever is read is written in the same way again.
    fn has_one_encoding<R: Signed>(bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut input = Reader::new(bytes);
        if let Ok(record) = R::read(&mut input) {
            let length = bytes.len() - input.rest().len();
            prop_assert_eq!(&bytes[..length], record.encode());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_certificate_is_read_back(certificate in samples::any_certificate()) {
            is_read_back(&certificate);
        }

        #[test]
        fn any_address_record_is_read_back(record in samples::any_address_record()) {
            is_read_back(&record);
        }

        #[test]
        fn any_charter_is_read_back(charter in samples::any_charter()) {
            is_read_back(&charter);
        }

        #[test]
        fn any_bans_are_read_back(bans in samples::any_bans()) {
            is_read_back(&bans);
        }

        #[test]
        fn any_entry_is_read_back(entry in samples::any_entry()) {
            let mut out = Writer::new();
            entry.write(&mut out);
            let bytes = out.finish();
            prop_assert_eq!(Entry::read(&mut Reader::new(&bytes)), Ok(entry));
        }

        /// Lengths and counts are made small, so that a good part of the bytes is read to the end.
        #[test]
        fn any_bytes_have_one_encoding_or_none(
            bytes in proptest::collection::vec(prop_oneof![3 => 0_u8..7, 1 => any::<u8>()], 0..600),
        ) {
            has_one_encoding::<Certificate>(&bytes)?;
            has_one_encoding::<AddressRecord>(&bytes)?;
            has_one_encoding::<Charter>(&bytes)?;
            has_one_encoding::<Bans>(&bytes)?;
        }
    }

    #[test]
    fn no_kind_of_record_can_pass_for_another() {
        let domains = [Certificate::DOMAIN, AddressRecord::DOMAIN, Charter::DOMAIN, Bans::DOMAIN];
        for (index, a) in domains.iter().enumerate() {
            assert_eq!(a.iter().position(|&byte| byte == 0), Some(a.len() - 1), "ends with its only zero");
            assert!(domains.iter().skip(index + 1).all(|b| a != b));
        }
    }

    #[test]
    fn names_and_sources_beyond_their_limit_are_refused() {
        let long = |limit: usize| "n".repeat(limit + 1);
        let certificate = Certificate { name: long(NAME_LIMIT), ..samples::certificate(1, "") };
        assert_eq!(Certificate::decode(&certificate.encode()), Err(Malformed));
        let charter = samples::longest_charter();
        assert_eq!(Charter::decode(&charter.encode()).as_ref(), Ok(&charter));
        for charter in [
            Charter { name: long(NAME_LIMIT), ..charter.clone() },
            Charter { source: long(SOURCE_LIMIT), ..charter.clone() },
            Charter { source: charter.source.clone() + "s", ..charter.clone() },
            Charter { source: String::new(), aliases: vec![String::new(); ALIASES_LIMIT + 1], ..charter },
        ] {
            assert_eq!(Charter::decode(&charter.encode()), Err(Malformed));
        }
    }

    #[test]
    fn names_that_could_steer_a_terminal_are_refused() {
        for name in ["a\nb", "a\rb", "\x1b[2J", "\0", "\u{9b}31m", "\x7f"] {
            let certificate = samples::certificate(1, name);
            assert_eq!(Certificate::decode(&certificate.encode()), Err(Malformed), "{name:?}");
        }
    }

    #[test]
    fn bans_out_of_order_or_twice_are_refused() {
        let bans = samples::longest_bans();
        for serials in [vec![2, 1], vec![1, 1], vec![1, 2, 2]] {
            assert_eq!(Bans::decode(&Bans { serials, ..bans.clone() }.encode()), Err(Malformed));
        }
    }

    #[test]
    fn a_count_of_bans_beyond_the_limit_is_refused_unread() {
        let mut bytes = samples::longest_bans().encode();
        let count = 16 + 4;
        assert_eq!(usize::from(bytes[count]), BANS_LIMIT);
        bytes[count] += 1;
        bytes.extend([0xff; 8]);
        assert_eq!(Bans::decode(&bytes), Err(Malformed));
    }

    #[test]
    fn rules_and_modes_that_do_not_exist_are_refused() {
        let charter = samples::longest_charter();
        let aliases = 1 + charter.aliases.iter().map(|alias| 2 + alias.len()).sum::<usize>();
        let bytes = charter.encode();
        let mode = bytes.len() - 64 - aliases - 24;
        let rules = mode - 4 - 2;
        for byte in 0..=255 {
            let with = |place: usize| {
                let mut bytes = bytes.clone();
                bytes[place] = byte;
                Charter::decode(&bytes)
            };
            assert_eq!(with(rules).is_ok(), (1..=3).contains(&byte), "rules {byte}");
            assert_eq!(with(mode).is_ok(), byte == 4, "mode {byte}: the ring belongs to tickets alone");
        }
    }

    /// Members from before there were aliases go on taking such charters, and their signatures hold.
    #[test]
    fn a_charter_without_aliases_is_written_as_it_always_was() {
        let charter = samples::charter_without_aliases();
        let mut before = Writer::new();
        before.bytes(&[1; 16]).u32(1).u64(1_700_000_000).text(&charter.name).text(&charter.source);
        before.u32(4_000).u32(100).u32(300).u64(0).u8(3).u8(2).u32(u32::MAX);
        before.u8(2).u16(5).u8(2).bytes(&[3; 16]).u32(1).bytes(&[2; 64]);
        let mut bytes = charter.encode();
        assert_eq!(bytes, before.finish());
        let mode = bytes.len() - 64 - 24;
        assert_eq!(bytes[mode], 2);
        // The same with an empty list would be a second encoding.
        bytes[mode] = 4;
        bytes.insert(mode + 24, 0);
        assert_eq!(Charter::decode(&bytes), Err(Malformed));
    }

    #[test]
    fn a_charter_keeps_whole_milliseconds_and_no_more_than_fit() {
        let charter =
            Charter { slot: Duration::new(4, 999_999), skip: Duration::MAX, ..samples::longest_charter() };
        let read = Charter::decode(&charter.encode()).unwrap();
        assert_eq!(read.slot, Duration::from_secs(4));
        assert_eq!(read.skip, Duration::from_millis(u32::MAX.into()));
        assert_eq!(read.signed_bytes(), charter.signed_bytes(), "so its signature holds");
        let charter = Charter { retention: Duration::new(86_400, 1), ..charter };
        assert_eq!(Charter::decode(&charter.encode()).unwrap().retention, Duration::from_secs(86_400));
    }

    #[test]
    fn an_address_from_a_socket_of_both_families_is_written_as_what_it_is() {
        // A dual-stack socket reports IPv4 peers in IPv6 clothes, which no reader takes.
        let record = AddressRecord {
            address: "[::ffff:192.0.2.1]:7433".parse().unwrap(),
            ..samples::short_entry(1).record
        };
        let read = AddressRecord::decode(&record.encode()).unwrap();
        assert_eq!(read.address, "192.0.2.1:7433".parse().unwrap());
        assert_eq!(read.signed_bytes(), record.signed_bytes(), "so its signature holds");
    }
}
