//! What the authority signs, and what a member signs about itself.
//!
//! An authority is a key, not a service: nothing runs. `cli` uses it to found a circle and to sign requests, `peer` to
//! answer enrolments where the key is at hand. Which serial comes next is the ledger's to know.

use std::net::SocketAddr;

use crate::base::CircleId;
use crate::wire::codec::{Malformed, Reader, Writer};
use crate::wire::records::{
    AddressRecord, BANS_LIMIT, Bans, Certificate, Charter, NAME_LIMIT, PublicKey, Signature, Signed,
};
use crate::wire::{circle_id, member_id};

use super::Refusal;
use super::keys::{PrivateKey, is_usable};

const DAY_S: u64 = 86_400;

/// How long before its end a certificate is worth a warning. Thirty days: time enough for two people in different
/// institutes to answer a mail.
const WARNING_DAYS: u64 = 30;

/// The key that signs charters, certificates and bans.
#[derive(Debug)]
pub struct Authority {
    key: PrivateKey,
    circle: CircleId,
}

impl Authority {
    /// The authority of the circle that this key founds.
    pub fn new(key: PrivateKey) -> Self {
        let circle = circle_id(&key.public());
        Self { key, circle }
    }

    /// The authority that took over an existing circle with this key, by a [`Succession`].
    pub fn succeeding(key: PrivateKey, circle: CircleId) -> Self {
        Self { key, circle }
    }

    /// The public half of its key.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// Its circle.
    pub fn circle(&self) -> CircleId {
        self.circle
    }

    pub(super) fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Certifies that a key belongs to a member. The same key may be certified again, with a new serial: that is a
    /// renewal.
    pub fn issue(
        &self,
        serial: u64,
        key: PublicKey,
        name: &str,
        not_before_s: u64,
        not_after_s: u64,
    ) -> Result<Certificate, Refusal> {
        check_name(name)?;
        if not_before_s >= not_after_s {
            return Err(Refusal::Nonsense("a certificate must begin before it ends"));
        }
        if !is_usable(self.key.suite(), &key) {
            return Err(Refusal::Nonsense("this is nobody's public key"));
        }
        let mut certificate = Certificate {
            circle: self.circle,
            serial,
            not_before_s,
            not_after_s,
            key,
            name: name.to_owned(),
            signature: [0; 64],
        };
        certificate.signature = self.key.sign(&certificate.signed_bytes());
        Ok(certificate)
    }

    /// Signs a charter for this circle: circle and signature are filled in. Whether its constants make sense is
    /// checked where it is taken up, by [`Roll`](super::Roll).
    #[must_use]
    pub fn sign_charter(&self, mut charter: Charter) -> Charter {
        charter.circle = self.circle;
        charter.signature = self.key.sign(&charter.signed_bytes());
        charter
    }

    /// Signs a list of serials that are no longer valid, in any order. Versions count from 1.
    pub fn sign_bans(&self, version: u32, mut serials: Vec<u64>) -> Result<Bans, Refusal> {
        serials.sort_unstable();
        serials.dedup();
        if serials.len() > BANS_LIMIT {
            return Err(Refusal::Nonsense("too many bans; drop those whose certificates have expired"));
        }
        if version == 0 {
            return Err(Refusal::Nonsense("versions count from 1"));
        }
        let mut bans = Bans { circle: self.circle, version, serials, signature: [0; 64] };
        bans.signature = self.key.sign(&bans.signed_bytes());
        Ok(bans)
    }

    /// Names the key that may sign for this circle from now on, beside this one.
    pub fn sign_succession(&self, key: PublicKey) -> Result<Succession, Refusal> {
        if !is_usable(self.key.suite(), &key) {
            return Err(Refusal::Nonsense("this is nobody's public key"));
        }
        let mut succession = Succession { circle: self.circle, key, signature: [0; 64] };
        succession.signature = self.key.sign(&succession.signed_bytes());
        Ok(succession)
    }
}

/// The founding authority's word that another key may sign for its circle too: how the authority's key is rotated while the
/// circle keeps its identity. Both keys are good from then on; a circle whose founding key was *stolen* needs to be
/// founded anew, since the thief can sign as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Succession {
    /// Of which circle.
    pub circle: CircleId,
    /// The second key.
    pub key: PublicKey,
    /// Of the founding authority.
    pub signature: Signature,
}

impl Signed for Succession {
    const DOMAIN: &'static [u8] = b"stroll 1 succession\0";

    fn write_content(&self, out: &mut Writer) {
        out.bytes(self.circle.as_bytes()).bytes(&self.key);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            circle: CircleId::from_bytes(input.array()?),
            key: input.array()?,
            signature: input.array()?,
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

/// Makes a self-signed address record.
pub fn sign_address(key: &PrivateKey, circle: CircleId, sequence: u64, address: SocketAddr) -> AddressRecord {
    // An IPv4 address in IPv6 clothes, as dual-stack sockets report it, would be unreadable to everybody else.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let mut record =
        AddressRecord { circle, member: member_id(&key.public()), sequence, address, signature: [0; 64] };
    record.signature = key.sign(&record.signed_bytes());
    record
}

/// Whether it is time to have a certificate renewed: thirty days before its end, as the warning; of one that was made
/// for a shorter time, when two thirds of it are over.
pub fn renewal_is_due(certificate: &Certificate, wall_s: u64) -> bool {
    let lifetime_s = certificate.not_after_s.saturating_sub(certificate.not_before_s);
    let ahead_s = (WARNING_DAYS * DAY_S).min(lifetime_s / 3);
    wall_s.saturating_add(ahead_s) > certificate.not_after_s
}

/// In how many days this certificate ends, if that is soon: within thirty days. 0 on the last day and ever after.
pub fn expiry_warning(certificate: &Certificate, wall_s: u64) -> Option<u64> {
    let days = certificate.not_after_s.saturating_sub(wall_s) / DAY_S;
    (days < WARNING_DAYS).then_some(days)
}

/// A name that people can read, that a record can carry, and that may become part of a path: names from an invitation
/// must not lead out of the folder that somebody makes for them.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if name.trim().is_empty() {
        return Err(Refusal::Nonsense("the name is empty"));
    }
    if name.len() > NAME_LIMIT {
        return Err(Refusal::Nonsense("the name is longer than 64 bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::Nonsense("the name has control characters"));
    }
    if name.starts_with('.') || name.contains(['/', '\\']) {
        return Err(Refusal::Nonsense("the name begins with a dot or has a slash"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::samples::{NOW_S, authority, charter, private_key};

    #[test]
    fn the_circle_stands_for_the_authoritys_key() {
        assert_eq!(authority().circle(), circle_id(&private_key(1).public()));
        assert_ne!(Authority::new(private_key(2)).circle(), authority().circle());
        assert_eq!(authority().sign_charter(charter()).circle, authority().circle());
    }

    #[test]
    fn certificates_that_cannot_be_meant_are_not_issued() {
        let key = private_key(2).public();
        let issue = |key, name: &str, from_s, until_s| authority().issue(1, key, name, from_s, until_s);
        assert!(issue(key, "lab-a", 1, 2).is_ok());
        assert!(issue(key, &"x".repeat(NAME_LIMIT), 1, 2).is_ok());
        let long = "x".repeat(NAME_LIMIT + 1);
        for name in ["", "  ", "a\nb", "a/b", "a\\b", ".", "..", long.as_str()] {
            assert!(matches!(issue(key, name, 1, 2), Err(Refusal::Nonsense(_))), "{name:?}");
        }
        assert!(matches!(issue(key, "lab-a", 2, 2), Err(Refusal::Nonsense(_))), "no time to be valid");
        assert!(matches!(issue([0; 32], "lab-a", 1, 2), Err(Refusal::Nonsense(_))), "a key of small order");
        assert!(matches!(authority().sign_succession([0; 32]), Err(Refusal::Nonsense(_))));
    }

    #[test]
    fn bans_are_sorted_and_bounded() {
        assert_eq!(authority().sign_bans(1, vec![3, 1, 3, 2]).unwrap().serials, vec![1, 2, 3]);
        assert!(authority().sign_bans(1, (0..BANS_LIMIT as u64).collect()).is_ok());
        let too_many = (0..=BANS_LIMIT as u64).collect();
        assert!(matches!(authority().sign_bans(1, too_many), Err(Refusal::Nonsense(_))));
        assert!(matches!(authority().sign_bans(0, vec![]), Err(Refusal::Nonsense(_))));
    }

    #[test]
    fn a_certificate_fits_where_it_must() {
        let name = "x".repeat(NAME_LIMIT);
        let certificate = authority().issue(1, private_key(2).public(), &name, 1, 2).unwrap();
        assert!(certificate.encode().len() <= 512);
    }

    #[test]
    fn an_address_in_ipv6_clothes_is_written_as_ipv4() {
        let address = "[::ffff:192.0.2.1]:7433".parse().unwrap();
        let record = sign_address(&private_key(2), authority().circle(), 1, address);
        assert_eq!(AddressRecord::decode(&record.encode()), Ok(record.clone()));
        assert_eq!(record.address, "192.0.2.1:7433".parse().unwrap());
    }

    #[test]
    fn the_warning_comes_thirty_days_ahead_and_stays() {
        let end_s = NOW_S + 100 * DAY_S;
        let certificate = authority().issue(1, private_key(2).public(), "lab-a", NOW_S, end_s).unwrap();
        let at = |wall_s| expiry_warning(&certificate, wall_s);
        assert_eq!((at(NOW_S), at(end_s - 30 * DAY_S)), (None, None));
        assert_eq!((at(end_s - 30 * DAY_S + 1), at(end_s - DAY_S)), (Some(29), Some(1)));
        assert_eq!((at(end_s - 1), at(end_s), at(u64::MAX)), (Some(0), Some(0), Some(0)));
    }

    #[test]
    fn an_authority_prints_without_its_key() {
        let text = format!("{:?}", Authority::new(private_key(0xa7))).to_lowercase();
        for secret in ["167, 167", "a7a7", "u6t2p"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
