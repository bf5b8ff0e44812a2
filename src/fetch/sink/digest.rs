//! Digests: what a file's bytes should give, in the spellings that people use, and what they do give.
//!
//! MD5 is here because sources publish it; it tells accidents, not attackers.

use std::fmt;
use std::io::{ErrorKind, Read as _};
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use md5::Md5;
use sha2::digest::Digest as _;
use sha2::{Sha256, Sha512};

use super::error::SinkError;
use super::folder::Folder;
use crate::fetch::name::Name;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// BLAKE3.
    Blake3,
}

impl Algorithm {
    /// Its name as we write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Blake3 => "blake3",
        }
    }

    /// By a name in any usual spelling: `sha256`, `SHA-256`, `SHA2-256`, `b3`.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "md5" => Some(Self::Md5),
            "sha256" | "sha-256" | "sha2-256" => Some(Self::Sha256),
            "sha512" | "sha-512" | "sha2-512" => Some(Self::Sha512),
            "blake3" | "b3" => Some(Self::Blake3),
            _ => None,
        }
    }
}

/// A digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// MD5.
    Md5([u8; 16]),
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
    /// BLAKE3.
    Blake3([u8; 32]),
}

/// Why a text is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Not `NAME:HEX`.
    #[error("not a checksum: write it as sha256:HEX, sha512:HEX, md5:HEX or blake3:HEX")]
    Shape,
    /// A function that is not known here.
    #[error("an unknown kind of checksum: sha256, sha512, md5 and blake3 are known")]
    Unknown,
    /// Not hexadecimal, or not of the right length.
    #[error("a checksum with too few, too many or wrong digits")]
    Digits,
}

impl Digest {
    /// From hexadecimal digits.
    pub fn from_hex(algorithm: Algorithm, hex: &str) -> Result<Self, DigestError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| DigestError::Digits)?;
        let digest = match algorithm {
            Algorithm::Md5 => bytes.try_into().map(Self::Md5),
            Algorithm::Sha256 => bytes.try_into().map(Self::Sha256),
            Algorithm::Sha512 => bytes.try_into().map(Self::Sha512),
            Algorithm::Blake3 => bytes.try_into().map(Self::Blake3),
        };
        digest.map_err(|_| DigestError::Digits)
    }

    /// Which function it is of.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Md5(_) => Algorithm::Md5,
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Sha512(_) => Algorithm::Sha512,
            Self::Blake3(_) => Algorithm::Blake3,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Md5(bytes) => bytes,
            Self::Sha256(bytes) | Self::Blake3(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    /// `sha256:HEX`, or as aria2 writes it: `sha-256=HEX`.
    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (name, hex) = text.trim().split_once([':', '=']).ok_or(DigestError::Shape)?;
        Self::from_hex(Algorithm::named(name.trim()).ok_or(DigestError::Unknown)?, hex.trim())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm().name(), HEXLOWER.encode(self.bytes()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A digest in the making.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Of nothing yet.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Md5 => State::Md5(Md5::new()),
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Box::default()),
            Algorithm::Blake3 => State::Blake3(Box::default()),
        })
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Md5(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
            State::Blake3(state) => {
                state.update(bytes);
            }
        }
    }

    /// What all bytes give.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Md5(state) => Digest::Md5(state.finalize().into()),
            State::Sha256(state) => Digest::Sha256(state.finalize().into()),
            State::Sha512(state) => Digest::Sha512(state.finalize().into()),
            State::Blake3(state) => Digest::Blake3(*state.finalize().as_bytes()),
        }
    }
}

/// What the bytes of a file add up to. Waits for the disk.
pub fn digest_of(folder: &Folder, name: &Name, algorithm: Algorithm) -> Result<Digest, SinkError> {
    let mut file = folder.read(name)?;
    let path = || folder.path().join(name.as_str());
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(read) => hasher.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(SinkError::from_io(&path(), "read the file", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: [&str; 4] = [
        "md5:900150983cd24fb0d6963f7d28e17f72",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    ];

    #[test]
    fn published_digests_of_abc_are_met() {
        for text in ABC {
            let expected = text.parse::<Digest>().expect(text);
            let mut hasher = Hasher::new(expected.algorithm());
            hasher.update(b"a");
            hasher.update(b"bc");
            assert_eq!(hasher.finish(), expected);
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn the_spellings_of_others_are_understood() {
        let ours = ABC[1].parse::<Digest>();
        let hex = ABC[1].split(':').nth(1).expect("digits");
        for text in
            [format!("sha-256={hex}"), format!("SHA256:{}", hex.to_uppercase()), format!(" sha256: {hex}\n")]
        {
            assert_eq!(text.parse(), ours, "{text}");
        }
    }

    #[test]
    fn what_is_no_digest_is_refused_with_its_reason() {
        for (text, why) in [
            ("", DigestError::Shape),
            ("abc", DigestError::Shape),
            ("crc32:00000000", DigestError::Unknown),
            ("md5:900150983cd24fb0d6963f7d28e17f7", DigestError::Digits),
            ("md5:900150983cd24fb0d6963f7d28e17f7200", DigestError::Digits),
            ("md5:zz0150983cd24fb0d6963f7d28e17f72", DigestError::Digits),
        ] {
            assert_eq!(text.parse::<Digest>(), Err(why), "{text}");
        }
    }
}
