//! Signed records that travel inside the circle: certificates, addresses, charters, bans.
//!
//! Here is what they say and how it is written; who may sign them, and what a signature is worth, is the business of
//! `trust`. Every record ends with its signature, over a word that names the kind of record and everything before it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{CircleId, MemberId};

use super::codec::{Malformed, Reader, Writer};

/// A signature. What it is worth, `trust` knows.
pub type Signature = [u8; 64];

/// A public key. Whose it is, `trust` knows.
pub type PublicKey = [u8; 32];

/// Bytes of a member's or a circle's name, at most.
pub const NAME_LIMIT: usize = 64;

/// Bytes of a source's address, at most: a charter must fit into one datagram together with a certificate.
pub const SOURCE_LIMIT: usize = 300;

/// Banned serial numbers, at most: the list must fit into one datagram. Older bans may be dropped once the certificate has
/// expired.
pub const BANS_LIMIT: usize = 100;

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
        out.u64(self.sequence).address(self.address);
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
    /// Of the authority.
    pub signature: Signature,
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
        out.u8(self.scouts);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            circle: CircleId::from_bytes(input.array()?),
            version: input.u32()?,
            issued_s: input.u64()?,
            name: input.text(NAME_LIMIT)?,
            source: input.text(SOURCE_LIMIT)?,
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
            signature: input.array()?,
        })
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
