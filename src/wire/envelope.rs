//! Datagrams: how one is written, and how a stranger's bytes are looked at, cheapest check first.
//!
//! ```text
//! | header 112 | certificate, if flag 0 | body | zeros, if flag 1 | signature 64 | gate 16 |
//! |<------------------- signed, after a domain separator ------>|
//! |<------------------- under the gate ------------------------------------->|
//! ```
//!
//! | part | bytes | what |
//! |---|---:|---|
//! | header | 112 | see [`Header`] |
//! | certificate | 138–202 | of the sender; in front of the body, so that the key is found without reading that |
//! | body | 0–1008 | see [`Body`] |
//! | padding | 1– | zeros up to the signature; its length is what is left |
//! | signature | 64 | over the domain separator and everything before it |
//! | gate | 16 | keyed BLAKE3 over everything before it |
//!
//! [`Envelope::open`] does the checks that need neither state nor a signature and answers with the first that fails, in
//! the order of [`Rejected`]. The node then asks whether the header is of any interest to it, finds the sender's key
//! ([`Envelope::certificate`], if it does not know it), verifies [`Envelope::signed_bytes`] against
//! [`Envelope::signature`], and only then uses what [`Envelope::read`] gives. Nothing here verifies a signature: until
//! somebody did, all of it is hearsay. The gate keeps noise out, it proves nothing: every member has its key.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use constant_time_eq::constant_time_eq_16;

use crate::base::{CircleId, MemberId};

use super::body::Body;
use super::codec::{Malformed, Reader, Writer};
use super::header::{ANYONE, Flags, Header, Kind, MAGIC, VERSION};
use super::member_id;
use super::records::{Certificate, Signature, Signed as _};

/// Bytes of a datagram, at most: what passes every path of today's internet unfragmented, tunnels included.
pub const DATAGRAM_LIMIT: usize = 1200;

/// Header 112, signature 64, gate 16: the shortest datagram.
pub const DATAGRAM_MIN: usize = 192;

const SIGNATURE_LEN: usize = 64;
const GATE_LEN: usize = 16;

/// Separates datagrams from all records, so that no signature can be used for the other.
const DOMAIN: &[u8] = b"stroll 1 datagram\0";

/// Why a datagram was dropped, in the order of the checks. The sender never hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[error("{}", self.name())]
pub enum Rejected {
    /// Shorter than [`DATAGRAM_MIN`].
    TooShort,
    /// Longer than [`DATAGRAM_LIMIT`].
    TooLong,
    /// Not one of ours.
    Magic,
    /// Of another version.
    Version,
    /// A kind that does not exist.
    Kind,
    /// A flag that does not exist, or not for this kind.
    Flags,
    /// Of another circle.
    Circle,
    /// For somebody else.
    Receiver,
    /// From myself: an echo, or another process with my key.
    OwnEcho,
    /// Not by anybody who knows the gate key, or damaged on the way.
    Gate,
    /// The content is not what its kind says, or not written in the one way.
    Malformed,
    /// The certificate, or the key that wants to be enrolled, is not the sender's.
    Sender,
}

impl Rejected {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::TooShort,
        Self::TooLong,
        Self::Magic,
        Self::Version,
        Self::Kind,
        Self::Flags,
        Self::Circle,
        Self::Receiver,
        Self::OwnEcho,
        Self::Gate,
        Self::Malformed,
        Self::Sender,
    ];

    /// For metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::Magic => "magic",
            Self::Version => "version",
            Self::Kind => "kind",
            Self::Flags => "flags",
            Self::Circle => "circle",
            Self::Receiver => "receiver",
            Self::OwnEcho => "own_echo",
            Self::Gate => "gate",
            Self::Malformed => "malformed",
            Self::Sender => "sender",
        }
    }
}

impl From<Malformed> for Rejected {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// A datagram with everything in it but its signature and its gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who says it to whom, about which token.
    pub header: Header,
    /// What is said.
    pub body: Body,
    /// Of the sender, for a receiver that may not know its key.
    pub certificate: Option<Certificate>,
    /// How many zeros make it longer; none but in Move, Scout, Enrol and Renew.
    pub padding: u16,
}

impl Datagram {
    /// The datagram's bytes: written and sealed at once.
    pub fn encode(&self, gate: &[u8; 32], sign: impl FnOnce(&[u8]) -> Signature) -> Option<Vec<u8>> {
        Some(self.write()?.seal(gate, sign))
    }

    /// Everything but signature and gate.
    ///
    /// `None` if it would not fit, and if no receiver would read it: a header of another kind than the body, to oneself,
    /// or with a field that the kind does not use; padding where none may be; somebody else's certificate; content
    /// beyond its limits.
    pub fn write(&self) -> Option<Letter> {
        let (kind, flags) = (self.header.kind, self.flags());
        if self.header.sender == self.header.receiver || kind != self.body.kind() || !flags.suits(kind) {
            return None;
        }
        let mut out = Writer::new();
        out.bytes(DOMAIN);
        self.header.write(flags, &mut out);
        let content_at = out.len();
        self.write_content(&mut out);
        let letter = Letter { kind, bytes: out.finish() };
        let content = letter.bytes.get(content_at..)?;
        let is_readable =
            letter.len() <= DATAGRAM_LIMIT && read_content(&self.header, flags, content).is_ok();
        is_readable.then_some(letter)
    }

    /// How many bytes it has, whether or not it fits: no answer may be longer than its question.
    #[expect(clippy::len_without_is_empty, reason = "no datagram is empty")]
    pub fn len(&self) -> usize {
        let mut out = Writer::new();
        self.write_content(&mut out);
        DATAGRAM_MIN.saturating_add(out.len())
    }

    fn flags(&self) -> Flags {
        Flags { certificate: self.certificate.is_some(), padded: self.padding > 0 }
    }

    /// What is between header and signature.
    fn write_content(&self, out: &mut Writer) {
        if let Some(certificate) = &self.certificate {
            certificate.write(out);
        }
        self.body.write(out);
        out.zeros(self.padding.into());
    }
}

/// A datagram that is written, and not signed yet: that is left to the last moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    kind: Kind,
    /// A domain separator, the header, and everything up to the signature.
    bytes: Vec<u8>,
}

impl Letter {
    /// What it says.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many bytes the datagram will have.
    #[expect(clippy::len_without_is_empty, reason = "no datagram is empty")]
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_sub(DOMAIN.len()).saturating_add(SIGNATURE_LEN).saturating_add(GATE_LEN)
    }

    /// The datagram's bytes. `sign` signs a domain separator, the header, and everything behind it.
    pub fn seal(self, gate: &[u8; 32], sign: impl FnOnce(&[u8]) -> Signature) -> Vec<u8> {
        let mut bytes = self.bytes;
        let signature = sign(&bytes);
        bytes.drain(..DOMAIN.len());
        bytes.extend_from_slice(&signature);
        let tag = gate_tag(gate, &bytes);
        bytes.extend_from_slice(&tag);
        bytes
    }
}

/// The datagram made longer, to `len` bytes or as far as the limit allows. It never becomes shorter; kinds that may not
/// be padded stay as they are.
#[must_use]
pub fn pad_to(mut datagram: Datagram, len: usize) -> Datagram {
    if datagram.header.kind.may_be_padded() {
        let missing = len.min(DATAGRAM_LIMIT).saturating_sub(datagram.len());
        // At most 1200, so the conversion never saturates.
        let missing = u16::try_from(missing).unwrap_or(u16::MAX);
        datagram.padding = datagram.padding.saturating_add(missing);
    }
    datagram
}

/// A datagram of which only the header was read: it passed the cheap checks, nothing more.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    header: Header,
    flags: Flags,
    /// Everything before the signature.
    signed: &'a [u8],
    /// What is between header and signature.
    content: &'a [u8],
    signature: &'a Signature,
}

impl<'a> Envelope<'a> {
    /// Checks length, magic, version, kind, flags, circle, receiver, sender and gate, in this order.
    pub fn open(bytes: &'a [u8], circle: CircleId, me: MemberId, gate: &[u8; 32]) -> Result<Self, Rejected> {
        if bytes.len() < DATAGRAM_MIN {
            return Err(Rejected::TooShort);
        }
        if bytes.len() > DATAGRAM_LIMIT {
            return Err(Rejected::TooLong);
        }
        let (gated, tag) = bytes.split_last_chunk::<GATE_LEN>().ok_or(Rejected::TooShort)?;
        let (signed, signature) = gated.split_last_chunk::<SIGNATURE_LEN>().ok_or(Rejected::TooShort)?;
        let mut input = Reader::new(signed);
        let (kind, flags) = read_preamble(&mut input)?;
        let header = Header::read(kind, &mut input)?;
        if header.circle != circle {
            return Err(Rejected::Circle);
        }
        if header.receiver != me && !(header.receiver == ANYONE && header.kind.may_be_to_anyone()) {
            return Err(Rejected::Receiver);
        }
        if header.sender == me {
            return Err(Rejected::OwnEcho);
        }
        if !constant_time_eq_16(tag, &gate_tag(gate, gated)) {
            return Err(Rejected::Gate);
        }
        Ok(Self { header, flags, signed, content: input.rest(), signature })
    }

    /// Who claims to say it to whom, about which token.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many bytes the whole datagram has.
    #[expect(clippy::len_without_is_empty, reason = "no datagram is empty")]
    pub fn len(&self) -> usize {
        self.signed.len().saturating_add(SIGNATURE_LEN).saturating_add(GATE_LEN)
    }

    /// What the signature must be of: a domain separator, the header, and everything up to the signature.
    pub fn signed_bytes(&self) -> Vec<u8> {
        [DOMAIN, self.signed].concat()
    }

    /// The signature, not verified.
    pub fn signature(&self) -> &Signature {
        self.signature
    }

    /// The certificate alone, to find the sender's key. Its key is the sender's, but whether the authority signed it was
    /// not looked at.
    pub fn certificate(&self) -> Result<Option<Certificate>, Rejected> {
        read_certificate(&self.header, self.flags, &mut Reader::new(self.content))
    }

    /// Everything.
    pub fn read(&self) -> Result<Datagram, Rejected> {
        read_content(&self.header, self.flags, self.content)
    }
}

fn read_preamble(input: &mut Reader<'_>) -> Result<(Kind, Flags), Rejected> {
    if input.array()? != MAGIC {
        return Err(Rejected::Magic);
    }
    if input.u8()? != VERSION {
        return Err(Rejected::Version);
    }
    let kind = Kind::from_byte(input.u8()?).ok_or(Rejected::Kind)?;
    let flags = Flags::from_bits(input.u16()?, kind).ok_or(Rejected::Flags)?;
    Ok((kind, flags))
}

fn read_content(header: &Header, flags: Flags, content: &[u8]) -> Result<Datagram, Rejected> {
    if !header.is_canonical() {
        return Err(Rejected::Malformed);
    }
    let mut input = Reader::new(content);
    let certificate = read_certificate(header, flags, &mut input)?;
    let body = Body::read(header.kind, &mut input)?;
    let zeros = input.rest();
    if zeros.is_empty() == flags.padded || zeros.iter().any(|&byte| byte != 0) {
        return Err(Rejected::Malformed);
    }
    if let Body::Enrol { key, .. } = &body
        && member_id(key) != header.sender
    {
        return Err(Rejected::Sender);
    }
    let padding = u16::try_from(zeros.len()).map_err(|_| Rejected::Malformed)?;
    Ok(Datagram { header: *header, body, certificate, padding })
}

/// A certificate for another key than the sender's would let its owner speak in the sender's name, if anybody forgot to
/// compare the two. So it is done here.
fn read_certificate(
    header: &Header,
    flags: Flags,
    input: &mut Reader<'_>,
) -> Result<Option<Certificate>, Rejected> {
    if !flags.certificate {
        return Ok(None);
    }
    let certificate = Certificate::read(input)?;
    if member_id(&certificate.key) != header.sender {
        return Err(Rejected::Sender);
    }
    Ok(Some(certificate))
}

fn gate_tag(gate: &[u8; 32], bytes: &[u8]) -> [u8; GATE_LEN] {
    let hash = blake3::keyed_hash(gate, bytes);
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}
