//! What a member sends to a lab that shall join: one line of text, by a private channel, good for one key.
//!
//! Not here: who was invited and whether the invitation was used, which is the [ledger](super::InvitationLedger)'s, and
//! the datagrams of the enrolment. `cli` makes and reads invitations.

use std::fmt;
use std::net::SocketAddr;

use constant_time_eq::constant_time_eq_16;
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

use crate::base::CircleId;
use crate::wire::circle_id;
use crate::wire::codec::{Malformed, Reader, Writer};
use crate::wire::records::{NAME_LIMIT, PublicKey};

use super::authority::check_name;
use super::text::{Kind, TextError, from_text, to_text};
use super::{CLOCK_TOLERANCE, GateKey, Refusal};

/// Addresses at which a new member begins, at most: more would only make the text longer.
pub const BOOTSTRAP_LIMIT: usize = 4;

/// The last second of the year 9999: any later expiry is a mistake.
const LATEST_S: u64 = 253_402_300_799;

/// What shows that an enrolment request comes from the one who was invited.
pub struct OneTimeSecret([u8; 16]);

impl OneTimeSecret {
    /// The secret with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The secret's bytes, for saving only.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl Drop for OneTimeSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for OneTimeSecret {}

impl fmt::Debug for OneTimeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTimeSecret(redacted)")
    }
}

/// The invitation of one lab into one circle.
#[derive(Debug)]
pub struct Invitation {
    /// The authority's public key: who signs certificates is settled before the first datagram.
    pub authority: PublicKey,
    /// The circle's name, for people and folders.
    pub circle_name: String,
    /// The invited member's name.
    pub name: String,
    /// The circle's gate key.
    pub gate: GateKey,
    /// Where to ask for the certificate, and whom to greet first.
    pub bootstrap: Vec<SocketAddr>,
    /// Good until here, in seconds since 1970.
    pub expires_s: u64,
    /// Which invitation it is; no secret.
    pub id: [u8; 8],
    /// Shows that the request comes from whoever was invited.
    pub secret: OneTimeSecret,
}

impl Invitation {
    /// A new invitation, with an id and a secret made of 32 random bytes. It is worth something once the ledger has
    /// it too.
    pub fn new(
        authority: PublicKey,
        circle_name: &str,
        name: &str,
        gate: GateKey,
        bootstrap: Vec<SocketAddr>,
        expires_s: u64,
        mut random: [u8; 32],
    ) -> Result<Self, Refusal> {
        let (mut id, mut secret) = ([0; 8], [0; 16]);
        id.copy_from_slice(&random[..8]);
        secret.copy_from_slice(&random[8..24]);
        random.zeroize();
        let invitation = Self {
            authority,
            circle_name: circle_name.to_owned(),
            name: name.to_owned(),
            gate,
            bootstrap: canonical(bootstrap),
            expires_s,
            id,
            secret: OneTimeSecret::from_bytes(secret),
        };
        secret.zeroize();
        invitation.check()?;
        Ok(invitation)
    }

    /// The circle into which it invites.
    pub fn circle(&self) -> CircleId {
        circle_id(&self.authority)
    }

    /// The line to send: `st1-…`. It is a secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut out = Writer::new();
        out.bytes(&self.authority).text(&self.circle_name).text(&self.name).bytes(self.gate.as_bytes());
        write_addresses(&mut out, &self.bootstrap);
        out.u64(self.expires_s).bytes(&self.id).bytes(self.secret.as_bytes());
        Zeroizing::new(to_text(Kind::INVITATION, &Zeroizing::new(out.finish())))
    }

    /// Reads the line as somebody pasted it, and says precisely what is wrong with it. Whether it is still open, only
    /// the authority's member knows.
    pub fn parse(text: &str, wall_s: u64) -> Result<Self, TextError> {
        let bytes = from_text(Kind::INVITATION, text)?;
        let mut input = Reader::new(&bytes);
        let invitation = Self {
            authority: input.array()?,
            circle_name: input.text(NAME_LIMIT)?,
            name: input.text(NAME_LIMIT)?,
            gate: GateKey::from_bytes(input.array()?),
            bootstrap: read_addresses(&mut input)?,
            expires_s: input.u64()?,
            id: input.array()?,
            secret: OneTimeSecret::from_bytes(input.array()?),
        };
        input.finish()?;
        invitation.check()?;
        if wall_s > invitation.expires_s.saturating_add(CLOCK_TOLERANCE.as_secs()) {
            return Err(TextError::Expired);
        }
        Ok(invitation)
    }

    /// The proof that goes with the enrolment of this key.
    pub fn mac(&self, key: &PublicKey) -> [u8; 16] {
        enrolment_mac(&self.secret, key, &self.id)
    }

    fn check(&self) -> Result<(), Refusal> {
        check_name(&self.circle_name)?;
        check_name(&self.name)?;
        if self.bootstrap.is_empty() {
            return Err(Refusal::Nonsense("an invitation needs an address at which to begin"));
        }
        check_addresses(&self.bootstrap)?;
        if self.expires_s > LATEST_S {
            return Err(Refusal::Nonsense("it expires after the year 9999"));
        }
        Ok(())
    }
}

/// What shows that whoever has the one-time secret asks for a certificate for this very key: somebody who only sees the
/// request can neither change the key nor learn the secret.
pub fn enrolment_mac(secret: &OneTimeSecret, key: &PublicKey, id: &[u8; 8]) -> [u8; 16] {
    let mac_key = Zeroizing::new(blake3::derive_key("stroll 1 enrolment", secret.as_bytes()));
    let mut mac = [0; 16];
    blake3::Hasher::new_keyed(&mac_key).update(id).update(key).finalize_xof().fill(&mut mac);
    mac
}

/// Whether this is the proof that [`enrolment_mac`] makes; takes the same time wherever it differs.
pub fn verify_enrolment(secret: &OneTimeSecret, key: &PublicKey, id: &[u8; 8], mac: &[u8; 16]) -> bool {
    constant_time_eq_16(&enrolment_mac(secret, key, id), mac)
}

/// Addresses as they are written: no IPv4 in IPv6 clothes, no scope.
pub(super) fn canonical(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses
        .into_iter()
        .map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()))
        .collect()
}

/// Few enough, and of a kind that somebody else can send to: `0.0.0.0`, the usual listen address, is not.
pub(super) fn check_addresses(addresses: &[SocketAddr]) -> Result<(), Refusal> {
    if addresses.len() > BOOTSTRAP_LIMIT {
        return Err(Refusal::Nonsense("more than four addresses at which to begin"));
    }
    let is_reachable = |address: &SocketAddr| {
        !address.ip().is_unspecified() && !address.ip().is_multicast() && address.port() != 0
    };
    if !addresses.iter().all(is_reachable) {
        return Err(Refusal::Nonsense("an address at which to begin must be one that others can reach"));
    }
    Ok(())
}

pub(super) fn write_addresses(out: &mut Writer, addresses: &[SocketAddr]) {
    let addresses = addresses.get(..BOOTSTRAP_LIMIT).unwrap_or(addresses);
    out.u8(u8::try_from(addresses.len()).unwrap_or(u8::MAX));
    for address in addresses {
        out.address(*address);
    }
}

pub(super) fn read_addresses(input: &mut Reader<'_>) -> Result<Vec<SocketAddr>, Malformed> {
    let count = usize::from(input.u8()?);
    if count > BOOTSTRAP_LIMIT {
        return Err(Malformed);
    }
    (0..count).map(|_| input.address()).collect()
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE32_NOPAD, HEXLOWER};
    use proptest::prelude::*;

    use super::*;

    const EXPIRES_S: u64 = 1_800_000_000;

    fn addresses() -> Vec<SocketAddr> {
        vec!["192.0.2.1:7433".parse().unwrap(), "[2001:db8::1]:7433".parse().unwrap()]
    }

    fn with(name: &str, bootstrap: Vec<SocketAddr>, expires_s: u64) -> Result<Invitation, Refusal> {
        let gate = GateKey::from_bytes([0xb8; 32]);
        Invitation::new([7; 32], "virgo", name, gate, bootstrap, expires_s, [0xc9; 32])
    }

    fn invitation() -> Invitation {
        with("lab-b", addresses(), EXPIRES_S).unwrap()
    }

    fn assert_same(a: &Invitation, b: &Invitation) {
        assert_eq!(a.authority, b.authority);
        assert_eq!((&a.circle_name, &a.name, &a.bootstrap), (&b.circle_name, &b.name, &b.bootstrap));
        assert_eq!((&a.gate, a.expires_s, a.id), (&b.gate, b.expires_s, b.id));
        assert_eq!(a.secret.as_bytes(), b.secret.as_bytes());
    }

    #[test]
    fn an_invitation_is_one_line_and_comes_back_whole() {
        let text = invitation().to_text();
        assert!(text.starts_with("st1-") && text.len() < 400, "{} characters", text.len());
        assert_same(&Invitation::parse(&text, EXPIRES_S).unwrap(), &invitation());
    }

    #[test]
    fn a_reflowed_invitation_is_read() {
        let text = invitation().to_text();
        let (first, second) = text.split_at(100);
        assert_same(&Invitation::parse(&format!("\n {first}\n  {second} \n"), 0).unwrap(), &invitation());
    }

    #[test]
    fn a_cut_or_altered_invitation_is_damaged() {
        let text = invitation().to_text();
        let cut = &text[..text.len() / 2];
        assert_eq!(Invitation::parse(cut, 0).unwrap_err(), TextError::Damaged);
        let other = if text[50..].starts_with('a') { "b" } else { "a" };
        let altered = format!("{}{other}{}", &text[..50], &text[51..]);
        assert_eq!(Invitation::parse(&altered, 0).unwrap_err(), TextError::Damaged);
    }

    #[test]
    fn an_expired_invitation_is_refused_beyond_the_tolerance() {
        let text = invitation().to_text();
        let tolerance_s = CLOCK_TOLERANCE.as_secs();
        assert!(Invitation::parse(&text, EXPIRES_S + tolerance_s).is_ok());
        assert_eq!(
            Invitation::parse(&text, EXPIRES_S + tolerance_s + 1).unwrap_err().to_string(),
            "it has expired; ask for a new one"
        );
    }

    #[test]
    fn invitations_that_cannot_work_are_not_made() {
        let one = |text: &str| vec![text.parse().unwrap()];
        for (name, bootstrap, expires_s) in [
            ("", addresses(), EXPIRES_S),
            ("../lab", addresses(), EXPIRES_S),
            ("lab\u{1b}[2J", addresses(), EXPIRES_S),
            ("lab-b", vec![], EXPIRES_S),
            ("lab-b", vec![addresses()[0]; 5], EXPIRES_S),
            ("lab-b", one("0.0.0.0:7433"), EXPIRES_S),
            ("lab-b", one("192.0.2.1:0"), EXPIRES_S),
            ("lab-b", one("224.0.0.1:7433"), EXPIRES_S),
            ("lab-b", addresses(), u64::MAX),
        ] {
            assert!(matches!(with(name, bootstrap, expires_s), Err(Refusal::Nonsense(_))));
        }
        let mapped = with("lab-b", one("[::ffff:192.0.2.1]:7433"), EXPIRES_S).unwrap();
        assert_eq!(mapped.bootstrap, one("192.0.2.1:7433"));
    }

    #[test]
    fn a_whole_text_with_nonsense_inside_is_malformed() {
        let text = to_text(Kind::INVITATION, b"nonsense");
        assert_eq!(Invitation::parse(&text, 0).unwrap_err(), TextError::Malformed);
    }

    #[test]
    fn the_proof_binds_secret_key_and_id() {
        let secret = |byte| OneTimeSecret::from_bytes([byte; 16]);
        let mac = enrolment_mac(&secret(1), &[2; 32], &[3; 8]);
        assert!(verify_enrolment(&secret(1), &[2; 32], &[3; 8], &mac));
        assert!(!verify_enrolment(&secret(9), &[2; 32], &[3; 8], &mac));
        assert!(!verify_enrolment(&secret(1), &[9; 32], &[3; 8], &mac));
        assert!(!verify_enrolment(&secret(1), &[2; 32], &[9; 8], &mac));
        assert!(!verify_enrolment(&secret(1), &[2; 32], &[3; 8], &[0; 16]));
        assert_eq!(
            invitation().mac(&[2; 32]),
            enrolment_mac(&invitation().secret, &[2; 32], &invitation().id)
        );
    }

    #[test]
    fn an_invitation_prints_without_its_secrets() {
        let text = format!("{:?} {:#?}", invitation(), invitation());
        for secret in [&[0xb8; 32][..], &[0xc9; 16]] {
            let bytes = format!("{secret:?}");
            assert!(!text.contains(bytes.trim_matches(['[', ']'])));
            assert!(!text.contains(&HEXLOWER.encode(&secret[..4])));
            assert!(!text.to_uppercase().contains(&BASE32_NOPAD.encode(&secret[..5])));
        }
        assert!(text.contains("lab-b"));
    }

    proptest! {
        #[test]
        fn invitations_round_trip(
            circle_name in "[a-z][a-z0-9 .-]{0,20}",
            name in "[a-z\u{e4}\u{e9}][a-z0-9-]{0,30}",
            v4 in any::<[u8; 4]>(),
            port in 1_u16..,
            expires_s in 0..LATEST_S,
            random in any::<[u8; 32]>(),
        ) {
            let ip = std::net::Ipv4Addr::from(v4);
            prop_assume!(!ip.is_unspecified() && !ip.is_multicast());
            let bootstrap = vec![SocketAddr::from((ip, port))];
            let gate = GateKey::from_bytes(random);
            let made = Invitation::new([7; 32], &circle_name, &name, gate, bootstrap, expires_s, random).unwrap();
            assert_same(&Invitation::parse(&made.to_text(), expires_s).unwrap(), &made);
        }

        #[test]
        fn any_bytes_with_a_right_checksum_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..250),
        ) {
            let _ = Invitation::parse(&to_text(Kind::INVITATION, &bytes), 0);
        }
    }
}
