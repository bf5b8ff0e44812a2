//! Joining where the authority has no network: two files instead of two datagrams.
//!
//! ```text
//! lab-b$ stroll join --request virgo > lab-b.req     sr1-…  a name and a key, signed with that key
//! lab-a$ stroll circle sign lab-b.req > lab-b.crt    sc1-…  all that a member needs
//! lab-b$ stroll join lab-b.crt
//! ```
//!
//! `cli` makes and reads both. That the request came from whom it says is for the people who carry the files to know.

use std::net::SocketAddr;

use zeroize::Zeroizing;

use crate::wire::codec::{Malformed, Reader, Writer};
use crate::wire::records::{Bans, Certificate, Charter, NAME_LIMIT, PublicKey, Signature, Signed};

use super::authority::check_name;
use super::invitation::{check_addresses, read_addresses, write_addresses};
use super::text::{Kind, TextError, from_text, to_text};
use super::{GateKey, PrivateKey, Refusal, Roll, Succession, Suite, verify};

/// What a lab asks to have certified: its name, and a key that it shows to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How the member wants to be called.
    pub name: String,
    /// The key that was made there.
    pub key: PublicKey,
    /// By that very key: nobody can have another's key certified under an own name.
    pub signature: Signature,
}

impl Signed for Request {
    const DOMAIN: &'static [u8] = b"stroll 1 request\0";

    fn write_content(&self, out: &mut Writer) {
        out.text(&self.name).bytes(&self.key);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { name: input.text(NAME_LIMIT)?, key: input.array()?, signature: input.array()? })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

impl Request {
    /// A request for this key.
    pub fn new(key: &PrivateKey, name: &str) -> Result<Self, Refusal> {
        check_name(name)?;
        let mut request = Self { name: name.to_owned(), key: key.public(), signature: [0; 64] };
        request.signature = key.sign(&request.signed_bytes());
        Ok(request)
    }

    /// One line, `sr1-…`. It is no secret.
    pub fn to_text(&self) -> String {
        to_text(Kind::REQUEST, &self.encode())
    }

    /// Reads that line; the signature is checked.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let request = Self::decode(&from_text(Kind::REQUEST, text)?)?;
        check_name(&request.name)?;
        if !verify(Suite::Ed25519, &request.key, &request.signed_bytes(), &request.signature) {
            return Err(Refusal::BadSignature.into());
        }
        Ok(request)
    }
}

/// All that a new member needs, besides the key that it made itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The founding authority's key.
    pub authority: PublicKey,
    /// The authority's second key, if it was rotated.
    pub succession: Option<Succession>,
    /// The member's certificate.
    pub certificate: Certificate,
    /// The charter in force.
    pub charter: Charter,
    /// The bans in force.
    pub bans: Option<Bans>,
    /// The circle's gate key.
    pub gate: GateKey,
    /// Whom to greet first.
    pub bootstrap: Vec<SocketAddr>,
}

impl Grant {
    /// One line, `sc1-…`. It holds the gate key, so it is not for everybody.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut out = Writer::new();
        out.bytes(&self.authority);
        write_optional(&mut out, self.succession.as_ref());
        self.certificate.write(&mut out);
        self.charter.write(&mut out);
        write_optional(&mut out, self.bans.as_ref());
        out.bytes(self.gate.as_bytes());
        write_addresses(&mut out, &self.bootstrap);
        Zeroizing::new(to_text(Kind::GRANT, &Zeroizing::new(out.finish())))
    }

    /// Reads that line. Nothing in it is believed before [`accept`](Self::accept).
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let bytes = from_text(Kind::GRANT, text)?;
        let mut input = Reader::new(&bytes);
        let grant = Self {
            authority: input.array()?,
            succession: read_optional(&mut input)?,
            certificate: Certificate::read(&mut input)?,
            charter: Charter::read(&mut input)?,
            bans: read_optional(&mut input)?,
            gate: GateKey::from_bytes(input.array()?),
            bootstrap: read_addresses(&mut input)?,
        };
        input.finish()?;
        check_addresses(&grant.bootstrap)?;
        Ok(grant)
    }

    /// What the owner of this key believes after reading it; an answer to somebody else's request is refused.
    pub fn accept(&self, key: &PrivateKey, wall_s: u64) -> Result<Roll, Refusal> {
        if self.certificate.key != key.public() {
            return Err(Refusal::WrongMember);
        }
        let (charter, bans) = (self.charter.clone(), self.bans.clone());
        let roll =
            Roll::with_succession(key.suite(), self.authority, self.succession.clone(), charter, bans)?;
        roll.check_certificate(&self.certificate, wall_s)?;
        Ok(roll)
    }
}

fn write_optional<R: Signed>(out: &mut Writer, record: Option<&R>) {
    match record {
        None => {
            out.u8(0);
        }
        Some(record) => {
            out.u8(1);
            record.write(out);
        }
    }
}

fn read_optional<R: Signed>(input: &mut Reader<'_>) -> Result<Option<R>, Malformed> {
    match input.u8()? {
        0 => Ok(None),
        1 => R::read(input).map(Some),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trust::Authority;
    use crate::trust::samples::{NOW_S, authority, charter, private_key};

    fn grant_by(authority: &Authority) -> Grant {
        Grant {
            authority: authority.public(),
            succession: None,
            certificate: authority
                .issue(5, private_key(3).public(), "lab-b", NOW_S, NOW_S + 999_999)
                .unwrap(),
            charter: authority.sign_charter(charter()),
            bans: Some(authority.sign_bans(2, vec![4, 3]).unwrap()),
            gate: GateKey::from_bytes([0xb8; 32]),
            bootstrap: vec!["192.0.2.1:7433".parse().unwrap()],
        }
    }

    #[test]
    fn a_request_comes_back_whole() {
        let request = Request::new(&private_key(3), "lab-b").unwrap();
        assert!(request.to_text().starts_with("sr1-"));
        assert_eq!(Request::parse(&request.to_text()), Ok(request));
    }

    #[test]
    fn a_request_for_a_key_that_one_does_not_have_is_refused() {
        let mut stolen = Request::new(&private_key(3), "lab-b").unwrap();
        stolen.name = "lab-x".to_owned();
        assert_eq!(Request::parse(&stolen.to_text()), Err(TextError::Refused(Refusal::BadSignature)));
        stolen = Request { key: private_key(4).public(), ..Request::new(&private_key(3), "lab-b").unwrap() };
        assert_eq!(Request::parse(&stolen.to_text()), Err(TextError::Refused(Refusal::BadSignature)));
    }

    #[test]
    fn every_flipped_byte_of_a_request_is_refused() {
        let bytes = Request::new(&private_key(3), "lab-b").unwrap().encode();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(Request::parse(&to_text(Kind::REQUEST, &flipped)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_request_under_a_bad_name_is_refused() {
        assert!(matches!(Request::new(&private_key(3), ""), Err(Refusal::Nonsense(_))));
        assert!(matches!(Request::new(&private_key(3), "a/b"), Err(Refusal::Nonsense(_))));
    }

    #[test]
    fn a_grant_comes_back_whole_and_gives_a_roll() {
        let grant = grant_by(&authority());
        let again = Grant::parse(&grant.to_text()).unwrap();
        assert_eq!(again, grant);
        let roll = again.accept(&private_key(3), NOW_S).unwrap();
        assert_eq!((roll.circle(), roll.bans_version()), (authority().circle(), 2));
    }

    #[test]
    fn somebody_elses_grant_is_refused() {
        assert_eq!(grant_by(&authority()).accept(&private_key(4), NOW_S).unwrap_err(), Refusal::WrongMember);
    }

    #[test]
    fn a_grant_by_somebody_who_is_not_the_authority_is_refused() {
        let forger = Authority::succeeding(private_key(66), authority().circle());
        let mut grant = grant_by(&forger);
        grant.authority = authority().public();
        assert_eq!(grant.accept(&private_key(3), NOW_S).unwrap_err(), Refusal::BadSignature);
    }

    #[test]
    fn an_expired_or_banned_grant_is_refused() {
        let mut grant = grant_by(&authority());
        assert_eq!(grant.accept(&private_key(3), NOW_S * 2).unwrap_err(), Refusal::Expired);
        grant.bans = Some(authority().sign_bans(3, vec![5]).unwrap());
        assert_eq!(grant.accept(&private_key(3), NOW_S).unwrap_err(), Refusal::Banned);
    }

    #[test]
    fn a_successors_grant_is_good_with_the_succession() {
        let successor = Authority::succeeding(private_key(66), authority().circle());
        let mut grant = grant_by(&successor);
        grant.authority = authority().public();
        grant.succession = Some(authority().sign_succession(successor.public()).unwrap());
        let grant = Grant::parse(&grant.to_text()).unwrap();
        assert_eq!(grant.accept(&private_key(3), NOW_S).unwrap().circle(), authority().circle());
    }

    #[test]
    fn a_grant_prints_without_the_gate_key() {
        let text = format!("{:?}", grant_by(&authority()));
        assert!(text.contains("GateKey(redacted)") && !text.contains("184, 184, 184"), "{text}");
    }

    proptest! {
        #[test]
        fn requests_round_trip(seed in any::<u8>(), name in "[a-z][a-z0-9-]{0,40}") {
            let request = Request::new(&private_key(seed), &name).unwrap();
            prop_assert_eq!(Request::parse(&request.to_text()), Ok(request));
        }

        #[test]
        fn any_bytes_with_a_right_checksum_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = Request::parse(&to_text(Kind::REQUEST, &bytes));
            let _ = Grant::parse(&to_text(Kind::GRANT, &bytes));
        }

        #[test]
        fn a_grant_with_any_byte_changed_is_read_without_panic(at in any::<usize>(), bit in 0_u32..8) {
            let mut bytes = from_text(Kind::GRANT, &grant_by(&authority()).to_text()).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1_u8 << bit;
            if let Ok(grant) = Grant::parse(&to_text(Kind::GRANT, &bytes)) {
                let _ = grant.accept(&private_key(3), NOW_S);
            }
        }
    }
}
