//! Keys of those who speak to us: certificates of members that are not in the directory, and keys that are ready to check
//! signatures with. `admission` fills it, with nothing but certificates that were found to be good.

use std::collections::BTreeMap;

use crate::base::MemberId;
use crate::trust::{Checker, Suite};
use crate::wire::records::{Certificate, PublicKey};

/// So many of each are kept. Beyond, whoever has been silent for longest makes room, but nobody with whom a handoff is open:
/// a crowd that speaks meanwhile must not make us deaf to it.
const KEPT: usize = 256;

/// What is known of the keys of others.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    certificates: Kept<Certificate>,
    /// A member is its key, so none of these is ever out of date.
    checkers: Kept<Checker>,
    /// Grows with every use: who was heard last has the highest.
    uses: u64,
}

impl Keyring {
    pub(super) fn certificate(&self, member: MemberId) -> Option<&Certificate> {
        self.certificates.0.get(&member).map(|(certificate, _)| certificate)
    }

    pub(super) fn certificates(&self) -> impl Iterator<Item = (MemberId, &Certificate)> {
        self.certificates.0.iter().map(|(member, (certificate, _))| (*member, certificate))
    }

    /// Keeps a certificate. `is_needed` says with whom something is open.
    pub(super) fn add(
        &mut self,
        member: MemberId,
        certificate: Certificate,
        is_needed: impl Fn(MemberId) -> bool,
    ) {
        self.uses += 1;
        self.certificates.insert(member, certificate, self.uses, is_needed);
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&Certificate) -> bool) {
        self.certificates.0.retain(|_, (certificate, _)| is_kept(certificate));
    }

    /// What checks the signatures of this member, whose key this is.
    pub(super) fn checker(
        &mut self,
        suite: Suite,
        member: MemberId,
        key: &PublicKey,
        is_needed: impl Fn(MemberId) -> bool,
    ) -> Option<&Checker> {
        self.uses += 1;
        self.certificates.touch(member, self.uses);
        if !self.checkers.touch(member, self.uses) {
            self.checkers.insert(member, Checker::new(suite, key)?, self.uses, is_needed);
        }
        self.checkers.0.get(&member).map(|(checker, _)| checker)
    }
}

/// Things by member, each with its last use.
#[derive(Debug)]
struct Kept<T>(BTreeMap<MemberId, (T, u64)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Kept<T> {
    /// Whether it is here.
    fn touch(&mut self, member: MemberId, use_number: u64) -> bool {
        self.0.get_mut(&member).map(|(_, used)| *used = use_number).is_some()
    }

    fn insert(&mut self, member: MemberId, thing: T, use_number: u64, is_needed: impl Fn(MemberId) -> bool) {
        if self.0.len() >= KEPT && !self.0.contains_key(&member) {
            let need = |(member, (_, used)): &(&MemberId, &(T, u64))| (is_needed(**member), *used);
            let silent = self.0.iter().min_by_key(need).map(|(member, _)| *member);
            silent.map(|member| self.0.remove(&member));
        }
        self.0.insert(member, (thing, use_number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::PrivateKey;

    fn speaker(number: usize) -> PrivateKey {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        PrivateKey::from_seed(Suite::Simulated, seed)
    }

    fn hear(keyring: &mut Keyring, speaker: &PrivateKey, is_needed: impl Fn(MemberId) -> bool) {
        let (member, signature) = (speaker.member_id(), speaker.sign(b"hello"));
        let checker = keyring.checker(Suite::Simulated, member, &speaker.public(), is_needed).unwrap();
        assert!(checker.check(b"hello", &signature) && !checker.check(b"hallo", &signature));
    }

    #[test]
    fn a_key_is_made_ready_once_and_few_are_kept() {
        let mut keyring = Keyring::default();
        for number in 0..=KEPT {
            for _ in 0..2 {
                hear(&mut keyring, &speaker(number), |_| false);
            }
        }
        assert_eq!(keyring.checkers.0.len(), KEPT);
    }

    /// It was the one with the lowest name, whoever that was.
    #[test]
    fn who_has_been_silent_for_longest_makes_room_and_nobody_with_an_open_handoff() {
        let mut keyring = Keyring::default();
        let (first, engaged) = (speaker(0), speaker(1).member_id());
        for number in 0..3 * KEPT {
            hear(&mut keyring, &speaker(number), |member| member == engaged);
            hear(&mut keyring, &first, |member| member == engaged);
            let is_here = |member| keyring.checkers.0.contains_key(&member);
            assert!(is_here(first.member_id()), "{number}: it speaks all the time");
            assert!(number == 0 || is_here(engaged), "{number}: a handoff with it is open");
        }
        let silent = speaker(2).member_id();
        assert!(!keyring.checkers.0.contains_key(&silent) && keyring.checkers.0.len() == KEPT);
    }

    #[test]
    fn what_is_nobodys_key_is_not_kept() {
        let mut keyring = Keyring::default();
        let mut nobody = [0; 32];
        nobody[0] = 2;
        let member = MemberId::from_bytes([1; 16]);
        assert!(keyring.checker(Suite::Ed25519, member, &nobody, |_| false).is_none());
        assert!(keyring.checkers.0.is_empty());
    }
}
