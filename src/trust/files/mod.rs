//! A member's home for one circle: a folder with its key, its credentials and what it learnt.
//!
//! ```text
//! member.key       secret   the member's private key
//! gate.key         secret   the circle's gate key
//! authority.key    secret   the authority's private key, where that is at hand
//! invitations      secret   whom the authority's member invited, which certificates it issued
//! certificate, charter, bans, succession   signed records
//! circle.toml               authority, own name, listen address, bootstrap addresses
//! directory                 members met before; may be deleted at any time
//! ring                      whether this member has begun the circle's ring of tickets; never put an old copy back
//! ```
//!
//! The only part of this room that touches the file system. `cli` and `peer` call it; nothing here is asynchronous. Every
//! write goes to a new file that then takes the place of the old one, so a crash leaves the old or the new content, never
//! half of it. Nothing is ever readable by others, from the first byte on.

mod disk;
mod error;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::wire::circle_id;
use crate::wire::records::{Bans, Certificate, Charter, PublicKey, Signed};

use super::text::{Kind, TextError, from_text, to_text};
use super::{Authority, GateKey, InvitationLedger, PrivateKey, Refusal, Roll, Succession, Suite};

use disk::{Folder, Lock, Secrecy};
pub use error::FileError;

const MEMBER_KEY: &str = "member.key";
const GATE_KEY: &str = "gate.key";
const AUTHORITY_KEY: &str = "authority.key";
const INVITATIONS: &str = "invitations";
const CERTIFICATE: &str = "certificate";
const CHARTER: &str = "charter";
const BANS: &str = "bans";
const SUCCESSION: &str = "succession";
const FACTS: &str = "circle.toml";
const DIRECTORY: &str = "directory";
const RING: &str = "ring";
const LIFE: &str = "life";
const WRITE_LOCK: &str = ".lock";
const AUTHORITY_LOCK: &str = ".authority.lock";

/// All that a member needs to run.
#[derive(Debug)]
pub struct Credentials {
    /// Its private key.
    pub key: PrivateKey,
    /// The authority's word for it. Whether it has expired or was banned is not checked here: ask the roll.
    pub certificate: Certificate,
    /// What it believes of its circle.
    pub roll: Roll,
    /// The circle's gate key.
    pub gate: GateKey,
    /// Whom to greet first.
    pub bootstrap: Vec<SocketAddr>,
    /// Its own name.
    pub name: String,
    /// Where it listens.
    pub listen: SocketAddr,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    #[serde(with = "super::shapes::bytes")]
    authority: PublicKey,
    name: String,
    listen: SocketAddr,
    #[serde(default)]
    bootstrap: Vec<SocketAddr>,
}

/// What this member has done with a ring of tickets.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RingFacts {
    epoch: u32,
    /// It was the last to leave, and nobody holds a ticket.
    is_closed: bool,
}

/// How far the numbers of this member have come.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LifeFacts {
    /// No life of it has used this number, nor a higher one.
    next: u64,
}

/// Numbers that are kept for one life of a member, beyond those that its clock gives: more than it can use up.
const NUMBERS: u64 = 1 << 36;

/// Held by who makes a new version of charter or bans.
#[derive(Debug)]
#[must_use = "the lock goes with it"]
pub struct AuthorityLock(#[expect(dead_code, reason = "the lock goes when it is dropped")] Lock);

/// A member's home for one circle.
#[derive(Debug)]
pub struct Home {
    folder: Folder,
}

impl Home {
    /// Makes a new home, closed to others. A folder with something in it is left alone: there may be a key in it.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        Folder::create(path.into()).map(|folder| Self { folder })
    }

    /// The home in this folder.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        Folder::open(path.into()).map(|folder| Self { folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether the member has all that it needs: the facts are written last.
    pub fn is_complete(&self) -> bool {
        self.folder.path().join(FACTS).exists()
    }

    /// Everything that the member needs, with all signatures checked.
    pub fn load_credentials(&self) -> Result<Credentials, FileError> {
        let facts = self.load_facts()?;
        let key = self.load_key()?.ok_or_else(|| self.missing(MEMBER_KEY))?;
        let gate =
            self.load_text(GATE_KEY, Secrecy::Secret, Kind::GATE)?.ok_or_else(|| self.missing(GATE_KEY))?;
        let gate = GateKey::from_bytes(self.exactly_32(GATE_KEY, &gate)?);
        let roll = self.load_roll(facts.authority)?;
        let certificate: Certificate =
            self.load_record(CERTIFICATE, Kind::CERTIFICATE)?.ok_or_else(|| self.missing(CERTIFICATE))?;
        let own = if certificate.key == key.public() { Ok(()) } else { Err(Refusal::WrongMember) };
        own.and_then(|()| roll.check_origin(&certificate)).map_err(self.refused(CERTIFICATE))?;
        let Facts { name, listen, bootstrap, .. } = facts;
        Ok(Credentials { key, certificate, roll, gate, bootstrap, name, listen })
    }

    /// Saves everything that the member needs.
    pub fn save_credentials(&self, credentials: &Credentials) -> Result<(), FileError> {
        self.save_key(&credentials.key)?;
        let gate = Zeroizing::new(to_text(Kind::GATE, credentials.gate.as_bytes()));
        self.write_line(&self.folder.lock(WRITE_LOCK)?, GATE_KEY, &gate)?;
        self.save_certificate(&credentials.certificate)?;
        self.save_roll(&credentials.roll)?;
        let facts = Facts {
            authority: *credentials.roll.authority(),
            name: credentials.name.clone(),
            listen: credentials.listen,
            bootstrap: credentials.bootstrap.clone(),
        };
        // Last: a home without facts is known to be incomplete.
        self.write_toml(&self.folder.lock(WRITE_LOCK)?, FACTS, &facts)
    }

    /// The member's key, if it was made already.
    pub fn load_key(&self) -> Result<Option<PrivateKey>, FileError> {
        self.load_private_key(MEMBER_KEY)
    }

    /// Saves the member's key. Another key that is there already is never overwritten.
    pub fn save_key(&self, key: &PrivateKey) -> Result<(), FileError> {
        self.save_private_key(MEMBER_KEY, key)
    }

    /// Saves a certificate, new or renewed.
    pub fn save_certificate(&self, certificate: &Certificate) -> Result<(), FileError> {
        self.save_record(CERTIFICATE, Kind::CERTIFICATE, certificate)
    }

    /// Saves a charter that is now in force.
    pub fn save_charter(&self, charter: &Charter) -> Result<(), FileError> {
        self.save_record(CHARTER, Kind::CHARTER, charter)
    }

    /// Saves bans that are now in force.
    pub fn save_bans(&self, bans: &Bans) -> Result<(), FileError> {
        self.save_record(BANS, Kind::BANS, bans)
    }

    /// Saves the authority's second key.
    pub fn save_succession(&self, succession: &Succession) -> Result<(), FileError> {
        self.save_record(SUCCESSION, Kind::SUCCESSION, succession)
    }

    /// Saves all that the roll knows.
    pub fn save_roll(&self, roll: &Roll) -> Result<(), FileError> {
        if let Some(succession) = roll.succession() {
            self.save_succession(succession)?;
        }
        self.save_charter(roll.charter())?;
        roll.bans().map_or(Ok(()), |bans| self.save_bans(bans))
    }

    /// The authority, if its key is at hand. It must be that of this home's circle.
    pub fn load_authority(&self) -> Result<Option<Authority>, FileError> {
        let Some(key) = self.load_private_key(AUTHORITY_KEY)? else { return Ok(None) };
        let founder = self.load_facts()?.authority;
        let roll = self.load_roll(founder)?;
        if key.public() == founder {
            Ok(Some(Authority::new(key)))
        } else if roll.succession().is_some_and(|succession| succession.key == key.public()) {
            Ok(Some(Authority::succeeding(key, circle_id(&founder))))
        } else {
            Err(self.refused(AUTHORITY_KEY)(Refusal::WrongCircle))
        }
    }

    /// Saves the authority's key. Another key that is there already is never overwritten.
    pub fn save_authority(&self, authority: &Authority) -> Result<(), FileError> {
        self.save_private_key(AUTHORITY_KEY, authority.key())
    }

    /// The ledger; an empty one if there is none. To change it use [`update_ledger`](Self::update_ledger).
    pub fn load_ledger(&self) -> Result<InvitationLedger, FileError> {
        Ok(self.load_toml(INVITATIONS, Secrecy::Secret)?.unwrap_or_default())
    }

    /// Changes the ledger and saves it before the outcome is given out, while nobody else can change it: an invitation
    /// is used once even if `circle invite` and a running member meet, or the power fails.
    pub fn update_ledger<T>(&self, change: impl FnOnce(&mut InvitationLedger) -> T) -> Result<T, FileError> {
        let lock = self.folder.lock(WRITE_LOCK)?;
        let mut ledger = self.load_ledger()?;
        let outcome = change(&mut ledger);
        self.write_toml(&lock, INVITATIONS, &ledger)?;
        Ok(outcome)
    }

    /// While it lives, no other command changes what the authority says: between reading a charter or bans and saving the
    /// next version of them nobody else may do the same. A lock of its own, because every saving takes the other one.
    pub fn lock_authority(&self) -> Result<AuthorityLock, FileError> {
        self.folder.lock(AUTHORITY_LOCK).map(AuthorityLock)
    }

    /// The members met before, as they were saved.
    pub fn load_directory(&self) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.folder.read(DIRECTORY, Secrecy::Public)?.map(|bytes| bytes.to_vec()))
    }

    /// Saves the members met.
    pub fn save_directory(&self, bytes: &[u8]) -> Result<(), FileError> {
        self.folder.write(&self.folder.lock(WRITE_LOCK)?, DIRECTORY, bytes)
    }

    /// Where the numbers of a new life of this member begin: at this one, by its clock, or higher if a life before may have come
    /// so far, as its clock was ahead. On disk before it is given: others take whoever comes with lower numbers for a
    /// recording of what was, and a witness in a ring of tickets would vouch for what it has renounced and forgotten.
    pub fn begin_life(&self, number: u64) -> Result<u64, FileError> {
        let lock = self.folder.lock(WRITE_LOCK)?;
        let known = self.load_toml::<LifeFacts>(LIFE, Secrecy::Public)?.map_or(0, |known| known.next);
        let first = number.max(known);
        self.write_toml(&lock, LIFE, &LifeFacts { next: first.saturating_add(NUMBERS) })?;
        Ok(first)
    }

    /// The clock of a running member gives this number now: the next life begins above it.
    pub fn keep_numbers(&self, number: u64) -> Result<(), FileError> {
        let lock = self.folder.lock(WRITE_LOCK)?;
        let known = self.load_toml::<LifeFacts>(LIFE, Secrecy::Public)?.map_or(0, |known| known.next);
        if known >= number.saturating_add(NUMBERS / 2) {
            return Ok(());
        }
        self.write_toml(&lock, LIFE, &LifeFacts { next: number.saturating_add(NUMBERS) })
    }

    /// Takes the right to begin the ring of this epoch: true for the first member of it, once, and for the last one that left
    /// it in good order. On disk before it is given, so that there is never a second ring with the same tickets: not after
    /// a crash either, which may so cost the ring.
    pub fn take_ring(&self, epoch: u32, is_first: bool) -> Result<bool, FileError> {
        let lock = self.folder.lock(WRITE_LOCK)?;
        let may_begin = match self.load_toml::<RingFacts>(RING, Secrecy::Public)? {
            Some(known) if known.epoch == epoch => known.is_closed,
            Some(known) if known.epoch > epoch => false,
            Some(_) | None => is_first,
        };
        if may_begin {
            self.write_toml(&lock, RING, &RingFacts { epoch, is_closed: false })?;
        }
        Ok(may_begin)
    }

    /// Keeps the right to begin a ring again: this member was its last one, and has left it.
    pub fn keep_ring(&self, epoch: u32) -> Result<(), FileError> {
        self.write_toml(&self.folder.lock(WRITE_LOCK)?, RING, &RingFacts { epoch, is_closed: true })
    }

    fn load_roll(&self, authority: PublicKey) -> Result<Roll, FileError> {
        let charter = self.load_record(CHARTER, Kind::CHARTER)?.ok_or_else(|| self.missing(CHARTER))?;
        let succession = self.load_record(SUCCESSION, Kind::SUCCESSION)?;
        let mut roll = Roll::with_succession(Suite::Ed25519, authority, succession, charter, None)
            .map_err(self.refused(CHARTER))?;
        if let Some(bans) = self.load_record(BANS, Kind::BANS)? {
            roll.offer_bans(bans).map_err(self.refused(BANS))?;
        }
        Ok(roll)
    }

    fn load_facts(&self) -> Result<Facts, FileError> {
        self.load_toml(FACTS, Secrecy::Public)?.ok_or_else(|| self.missing(FACTS))
    }

    fn load_private_key(&self, name: &str) -> Result<Option<PrivateKey>, FileError> {
        let Some(seed) = self.load_text(name, Secrecy::Secret, Kind::KEY)? else { return Ok(None) };
        Ok(Some(PrivateKey::from_seed(Suite::Ed25519, self.exactly_32(name, &seed)?)))
    }

    fn save_private_key(&self, name: &str, key: &PrivateKey) -> Result<(), FileError> {
        assert!(key.suite() == Suite::Ed25519, "simulated keys never leave the simulator");
        let lock = self.folder.lock(WRITE_LOCK)?;
        match self.load_private_key(name)? {
            Some(known) if known.public() == key.public() => Ok(()),
            Some(_) => Err(FileError::WouldReplace { path: self.folder.path().join(name) }),
            None => self.write_line(&lock, name, &Zeroizing::new(to_text(Kind::KEY, key.seed()))),
        }
    }

    fn load_record<R: Signed>(&self, name: &str, kind: Kind) -> Result<Option<R>, FileError> {
        let Some(bytes) = self.load_text(name, Secrecy::Public, kind)? else { return Ok(None) };
        let record = R::decode(&bytes).map_err(|_| self.damaged(name, TextError::Malformed))?;
        Ok(Some(record))
    }

    fn save_record(&self, name: &str, kind: Kind, record: &impl Signed) -> Result<(), FileError> {
        self.write_line(&self.folder.lock(WRITE_LOCK)?, name, &to_text(kind, &record.encode()))
    }

    fn load_text(
        &self,
        name: &str,
        secrecy: Secrecy,
        kind: Kind,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, FileError> {
        let Some(bytes) = self.folder.read(name, secrecy)? else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| self.damaged(name, TextError::Damaged))?;
        from_text(kind, text).map(Some).map_err(|source| self.damaged(name, source))
    }

    fn load_toml<T: for<'de> Deserialize<'de>>(
        &self,
        name: &str,
        secrecy: Secrecy,
    ) -> Result<Option<T>, FileError> {
        let Some(bytes) = self.folder.read(name, secrecy)? else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| self.damaged(name, TextError::Damaged))?;
        let value = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            FileError::Toml { path: self.folder.path().join(name), line, reason: error.message().to_owned() }
        })?;
        Ok(Some(value))
    }

    fn write_toml(&self, lock: &Lock, name: &str, value: &impl Serialize) -> Result<(), FileError> {
        let text = toml::to_string(value).map_err(|error| {
            let path = self.folder.path().join(name);
            FileError::Toml { path, line: 0, reason: error.to_string() }
        })?;
        self.folder.write(lock, name, Zeroizing::new(text).as_bytes())
    }

    fn write_line(&self, lock: &Lock, name: &str, text: &str) -> Result<(), FileError> {
        let mut line = Zeroizing::new(String::with_capacity(text.len() + 1));
        line.push_str(text);
        line.push('\n');
        self.folder.write(lock, name, line.as_bytes())
    }

    fn exactly_32(&self, name: &str, bytes: &[u8]) -> Result<[u8; 32], FileError> {
        bytes.try_into().map_err(|_| self.damaged(name, TextError::Malformed))
    }

    fn missing(&self, name: &str) -> FileError {
        FileError::Missing { path: self.folder.path().join(name) }
    }

    fn damaged(&self, name: &str, source: TextError) -> FileError {
        FileError::Damaged { path: self.folder.path().join(name), source }
    }

    fn refused(&self, name: &str) -> impl Fn(Refusal) -> FileError {
        let path = self.folder.path().join(name);
        move |refusal| FileError::Damaged { path: path.clone(), source: refusal.into() }
    }
}

#[cfg(test)]
mod tests;
