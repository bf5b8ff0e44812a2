//! What the authority's member remembers: whom it invited, and which certificates it issued.
//!
//! Pure: it is a value, changed by `peer` (enrolments) and `cli` (invitations, signed requests, renewals, bans) through
//! [`Home::update_ledger`](super::files::Home::update_ledger), which saves it before anybody sees the outcome. That order
//! matters: a certificate that left before the ledger was on disk could be issued twice.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::records::{Certificate, PublicKey};

use super::authority::renewal_is_due;
use super::invitation::{Invitation, OneTimeSecret, verify_enrolment};
use super::{Authority, Refusal};

/// Invitations that are remembered, at most.
const INVITATIONS_LIMIT: usize = 10_000;

/// Why an enrolment is not granted. The one who asked gets silence; this is for counters and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnrolRefusal {
    /// There is no such invitation, or it was withdrawn.
    #[error("there is no such invitation")]
    Unknown,
    /// The proof was not made with the invitation's secret, or for another key.
    #[error("the proof is wrong")]
    BadProof,
    /// Another key was faster.
    #[error("the invitation was used by another key")]
    AlreadyUsed,
    /// Too late.
    #[error("the invitation has expired")]
    Expired,
    /// The authority does not sign such a thing.
    #[error("the authority refuses: {0}")]
    Refused(#[from] Refusal),
}

/// One invitation, as the authority's member remembers it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invited {
    /// Which invitation.
    #[serde(with = "super::shapes::bytes")]
    pub id: [u8; 8],
    /// Whom.
    pub name: String,
    /// Until when it can be used.
    pub expires_s: u64,
    #[serde(with = "super::shapes::secret")]
    secret: OneTimeSecret,
    /// The certificate that was issued for it; none while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
}

impl Invited {
    fn is_open(&self) -> bool {
        self.serial.is_none()
    }
}

/// What the authority's member remembers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvitationLedger {
    last_serial: u64,
    #[serde(default)]
    invitations: Vec<Invited>,
    #[serde(default, with = "super::shapes::certificates")]
    certificates: Vec<Certificate>,
}

impl InvitationLedger {
    /// Nobody invited, nothing issued. The first certificate, the founder's, gets serial 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers an invitation, so that it can be redeemed. An open one for the same name is withdrawn: inviting again
    /// is how a lost invitation is replaced, and only one of them shall work.
    pub fn open(&mut self, invitation: &Invitation, wall_s: u64) -> Result<(), Refusal> {
        self.forget_expired(wall_s);
        self.withdraw(&invitation.name);
        if self.invitations.len() >= INVITATIONS_LIMIT {
            return Err(Refusal::Nonsense("too many invitations are open"));
        }
        if self.invitations.iter().any(|invited| invited.id == invitation.id) {
            return Err(Refusal::Nonsense(
                "an invitation with this id exists; was the randomness used twice?",
            ));
        }
        self.invitations.push(Invited {
            id: invitation.id,
            name: invitation.name.clone(),
            expires_s: invitation.expires_s,
            secret: OneTimeSecret::from_bytes(*invitation.secret.as_bytes()),
            serial: None,
        });
        Ok(())
    }

    /// Makes the open invitations for this name worthless; says whether there were any.
    pub fn withdraw(&mut self, name: &str) -> bool {
        let before = self.invitations.len();
        self.invitations.retain(|invited| !(invited.is_open() && invited.name == name));
        self.invitations.len() < before
    }

    /// Turns an invitation into a certificate for this key, once. The same key asking again, because the answer was
    /// lost, gets the same certificate again; another key is refused.
    pub fn redeem(
        &mut self,
        id: &[u8; 8],
        key: &PublicKey,
        mac: &[u8; 16],
        wall_s: u64,
        authority: &Authority,
        lifetime: Duration,
    ) -> Result<Certificate, EnrolRefusal> {
        let at =
            self.invitations.iter().position(|invited| invited.id == *id).ok_or(EnrolRefusal::Unknown)?;
        let invited = &self.invitations[at];
        if !verify_enrolment(&invited.secret, key, id, mac) {
            return Err(EnrolRefusal::BadProof);
        }
        if let Some(serial) = invited.serial {
            let issued = self.certificate(serial).filter(|certificate| certificate.key == *key);
            return issued.cloned().ok_or(EnrolRefusal::AlreadyUsed);
        }
        if wall_s > invited.expires_s {
            return Err(EnrolRefusal::Expired);
        }
        let name = invited.name.clone();
        let certificate = self.issue(authority, *key, &name, wall_s, lifetime)?;
        self.invitations[at].serial = Some(certificate.serial);
        Ok(certificate)
    }

    /// Certifies a key with the next serial, valid from now on. For a key that has a certificate this is its renewal:
    /// the old one goes on until its own end.
    pub fn issue(
        &mut self,
        authority: &Authority,
        key: PublicKey,
        name: &str,
        wall_s: u64,
        lifetime: Duration,
    ) -> Result<Certificate, Refusal> {
        let serial = self.last_serial.checked_add(1).ok_or(Refusal::Nonsense("the serials are used up"))?;
        let not_after_s = wall_s.saturating_add(lifetime.as_secs());
        let certificate = authority.issue(serial, key, name, wall_s, not_after_s)?;
        self.last_serial = serial;
        self.certificates.push(certificate.clone());
        Ok(certificate)
    }

    /// Prolongs the certificate of a key, if it is time, by as long as it was good before. Number, name and key stay, so a
    /// ban holds for both. The same question again, because the answer was lost, gets the same answer.
    pub fn renew(
        &mut self,
        authority: &Authority,
        key: &PublicKey,
        wall_s: u64,
    ) -> Result<Certificate, EnrolRefusal> {
        let of_key = self.certificates.iter_mut().filter(|certificate| certificate.key == *key);
        let newest = of_key.max_by_key(|certificate| certificate.not_after_s).ok_or(EnrolRefusal::Unknown)?;
        if renewal_is_due(newest, wall_s) {
            let lifetime_s = newest.not_after_s.saturating_sub(newest.not_before_s);
            let (serial, until_s) = (newest.serial, wall_s.saturating_add(lifetime_s));
            *newest = authority.issue(serial, newest.key, &newest.name, wall_s, until_s)?;
        }
        Ok(newest.clone())
    }

    /// Forgets what has expired: open invitations, and certificates with the invitations that led to them.
    pub fn forget_expired(&mut self, wall_s: u64) {
        self.certificates.retain(|certificate| certificate.not_after_s >= wall_s);
        let certificates = &self.certificates;
        self.invitations.retain(|invited| match invited.serial {
            None => invited.expires_s >= wall_s,
            Some(serial) => certificates.iter().any(|certificate| certificate.serial == serial),
        });
    }

    /// The invitations that are remembered, open and used.
    pub fn invitations(&self) -> &[Invited] {
        &self.invitations
    }

    /// The certificates that were issued, oldest first.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The certificate with this serial.
    pub fn certificate(&self, serial: u64) -> Option<&Certificate> {
        self.certificates.iter().find(|certificate| certificate.serial == serial)
    }

    /// The serials to ban when this member shall go: all of its certificates that still hold. A renewal leaves the
    /// old certificate valid, so banning the newest one would not be enough.
    pub fn serials_of(&self, name: &str, wall_s: u64) -> Vec<u64> {
        let holds =
            |certificate: &&Certificate| certificate.name == name && certificate.not_after_s >= wall_s;
        self.certificates.iter().filter(holds).map(|certificate| certificate.serial).collect()
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;
    use crate::trust::{GateKey, PrivateKey, Suite};

    const NOW_S: u64 = 1_700_000_000;
    const EXPIRES_S: u64 = NOW_S + 72 * 3600;
    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    fn authority() -> Authority {
        Authority::new(PrivateKey::from_seed(Suite::Ed25519, [1; 32]))
    }

    fn key(seed: u8) -> PublicKey {
        PrivateKey::from_seed(Suite::Ed25519, [seed; 32]).public()
    }

    fn invitation(name: &str, random: u8) -> Invitation {
        let gate = GateKey::from_bytes([2; 32]);
        let bootstrap = vec!["192.0.2.1:7433".parse().unwrap()];
        Invitation::new(authority().public(), "virgo", name, gate, bootstrap, EXPIRES_S, [random; 32])
            .unwrap()
    }

    /// The founder has serial 1, and lab-b is invited.
    fn inviting() -> (InvitationLedger, Invitation) {
        let mut ledger = InvitationLedger::new();
        ledger.issue(&authority(), key(2), "lab-a", NOW_S, YEAR).unwrap();
        let invitation = invitation("lab-b", 0xd3);
        ledger.open(&invitation, NOW_S).unwrap();
        (ledger, invitation)
    }

    fn redeem(
        ledger: &mut InvitationLedger,
        invitation: &Invitation,
        key: PublicKey,
        wall_s: u64,
    ) -> Result<Certificate, EnrolRefusal> {
        ledger.redeem(&invitation.id, &key, &invitation.mac(&key), wall_s, &authority(), YEAR)
    }

    #[test]
    fn an_invitation_gives_one_certificate_with_the_next_serial() {
        let (mut ledger, invitation) = inviting();
        let certificate = redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        assert_eq!((certificate.serial, certificate.name.as_str()), (2, "lab-b"));
        assert_eq!((certificate.key, certificate.circle), (key(3), authority().circle()));
        assert_eq!(certificate.not_after_s, NOW_S + YEAR.as_secs());
    }

    #[test]
    fn the_same_key_gets_the_same_certificate_again_even_late() {
        let (mut ledger, invitation) = inviting();
        let first = redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        assert_eq!(redeem(&mut ledger, &invitation, key(3), NOW_S + 9), Ok(first.clone()));
        assert_eq!(redeem(&mut ledger, &invitation, key(3), EXPIRES_S + 9), Ok(first));
        assert_eq!(ledger.certificates().len(), 2);
    }

    #[test]
    fn another_key_is_refused_once_it_is_used() {
        let (mut ledger, invitation) = inviting();
        redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        assert_eq!(redeem(&mut ledger, &invitation, key(4), NOW_S), Err(EnrolRefusal::AlreadyUsed));
    }

    #[test]
    fn a_wrong_proof_is_refused_and_uses_nothing_up() {
        let (mut ledger, invitation) = inviting();
        let id = invitation.id;
        for mac in [[0; 16], invitation.mac(&key(4))] {
            let answer = ledger.redeem(&id, &key(3), &mac, NOW_S, &authority(), YEAR);
            assert_eq!(answer, Err(EnrolRefusal::BadProof));
        }
        assert!(redeem(&mut ledger, &invitation, key(3), NOW_S).is_ok());
    }

    #[test]
    fn an_unknown_invitation_is_refused() {
        let (mut ledger, _) = inviting();
        let other = invitation("lab-c", 9);
        assert_eq!(redeem(&mut ledger, &other, key(3), NOW_S), Err(EnrolRefusal::Unknown));
    }

    #[test]
    fn an_expired_invitation_is_refused() {
        let (mut ledger, invitation) = inviting();
        assert_eq!(redeem(&mut ledger, &invitation, key(3), EXPIRES_S + 1), Err(EnrolRefusal::Expired));
        assert!(redeem(&mut ledger, &invitation, key(3), EXPIRES_S).is_ok());
    }

    #[test]
    fn a_key_that_is_nobodys_is_refused_and_uses_nothing_up() {
        let (mut ledger, invitation) = inviting();
        let answer = redeem(&mut ledger, &invitation, [0; 32], NOW_S);
        assert!(matches!(answer, Err(EnrolRefusal::Refused(Refusal::Nonsense(_)))), "{answer:?}");
        assert_eq!(redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap().serial, 2);
    }

    #[test]
    fn inviting_again_withdraws_the_first_invitation() {
        let (mut ledger, first) = inviting();
        let second = invitation("lab-b", 9);
        ledger.open(&second, NOW_S).unwrap();
        assert_eq!(redeem(&mut ledger, &first, key(3), NOW_S), Err(EnrolRefusal::Unknown));
        assert!(redeem(&mut ledger, &second, key(3), NOW_S).is_ok());
        assert!(!ledger.withdraw("lab-b"), "a used invitation stays");
    }

    #[test]
    fn the_same_randomness_twice_is_refused() {
        let (mut ledger, _) = inviting();
        assert!(matches!(ledger.open(&invitation("lab-c", 0xd3), NOW_S), Err(Refusal::Nonsense(_))));
    }

    #[test]
    fn serials_are_not_used_again_after_certificates_are_forgotten() {
        let (mut ledger, _) = inviting();
        let later_s = NOW_S + 2 * YEAR.as_secs();
        ledger.forget_expired(later_s);
        assert!(ledger.certificates().is_empty() && ledger.invitations().is_empty());
        assert_eq!(ledger.issue(&authority(), key(2), "lab-a", later_s, YEAR).unwrap().serial, 2);
    }

    #[test]
    fn a_renewal_has_the_same_key_and_a_new_serial_and_a_ban_names_both() {
        let (mut ledger, invitation) = inviting();
        let first = redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        let renewed = ledger.issue(&authority(), first.key, &first.name, NOW_S + 9, YEAR).unwrap();
        assert_eq!((renewed.key, renewed.serial), (first.key, 3));
        assert_eq!(ledger.serials_of("lab-b", NOW_S), vec![2, 3]);
        assert_eq!(ledger.serials_of("lab-b", first.not_after_s + 1), vec![3], "one has expired");
    }

    #[test]
    fn a_renewal_by_wire_keeps_number_name_and_length_and_is_made_once() {
        let (mut ledger, invitation) = inviting();
        let first = redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        assert_eq!(ledger.renew(&authority(), &key(3), NOW_S + 9), Ok(first.clone()), "not yet");
        let late_s = first.not_after_s - 29 * 86_400;
        let renewed = ledger.renew(&authority(), &key(3), late_s).unwrap();
        assert_eq!((renewed.serial, &renewed.name, renewed.key), (first.serial, &first.name, first.key));
        assert_eq!((renewed.not_before_s, renewed.not_after_s), (late_s, late_s + YEAR.as_secs()));
        assert_eq!(ledger.renew(&authority(), &key(3), late_s + 9), Ok(renewed.clone()), "the same again");
        assert_eq!(ledger.serials_of("lab-b", late_s), vec![first.serial], "one ban is enough");
        assert_eq!(ledger.renew(&authority(), &key(7), late_s), Err(EnrolRefusal::Unknown));
    }

    #[test]
    fn the_ledger_comes_back_from_toml_and_json() {
        let (mut ledger, invitation) = inviting();
        ledger.open(&self::invitation("lab-c", 9), NOW_S).unwrap();
        let issued = redeem(&mut ledger, &invitation, key(3), NOW_S).unwrap();
        let text = toml::to_string(&ledger).unwrap();
        let mut again: InvitationLedger = toml::from_str(&text).unwrap();
        assert_eq!(toml::to_string(&again).unwrap(), text);
        assert_eq!(redeem(&mut again, &invitation, key(4), NOW_S), Err(EnrolRefusal::AlreadyUsed));
        assert_eq!(redeem(&mut again, &invitation, key(3), NOW_S), Ok(issued));
        assert!(redeem(&mut again, &self::invitation("lab-c", 9), key(4), NOW_S).is_ok());
        let json = serde_json::to_string(&ledger).unwrap();
        let again: InvitationLedger = serde_json::from_str(&json).unwrap();
        assert_eq!(toml::to_string(&again).unwrap(), text);
    }

    #[test]
    fn a_ledger_with_an_unknown_key_or_a_cut_secret_is_refused_without_showing_it() {
        let (ledger, _) = inviting();
        let text = toml::to_string(&ledger).unwrap();
        assert!(toml::from_str::<InvitationLedger>(&format!("more = 1\n{text}")).is_err());
        let secret = HEXLOWER.encode(&[0xd3; 16]);
        let cut = text.replace(&secret, &secret[2..]);
        let error = toml::from_str::<InvitationLedger>(&cut).unwrap_err();
        assert!(!error.message().contains("d3d3"), "{}", error.message());
    }

    #[test]
    fn the_ledger_prints_without_its_secrets() {
        let text = format!("{:?}", inviting().0.invitations());
        assert!(text.contains("OneTimeSecret(redacted)"), "{text}");
        assert!(
            text.matches("211").count() <= 8,
            "only the id, which is no secret, shows those bytes: {text}"
        );
    }
}
