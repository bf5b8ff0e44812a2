//! The parts of an X.509 certificate that decide how it is trusted. Reads only certificates of a file that the user has
//! named, never those that a server sends.

use super::super::listing::stamp;

/// 2.5.29.19
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// What a certificate says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificate {
    /// In seconds since 1970.
    pub(super) not_before_s: i64,
    pub(super) not_after_s: i64,
    /// Common name of the subject: the host, in certificates without alternative names.
    pub(super) common_name: Option<String>,
    pub(super) has_alt_names: bool,
    /// Whether it may sign others. Before version 3 there was no way to say so, and roots could.
    pub(super) is_authority: bool,
}

impl Certificate {
    /// Reads it from DER.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let mut signed = Der(Der(der).take(SEQUENCE)?);
        let mut body = Der(signed.take(SEQUENCE)?);
        let has_version = body.take(VERSION).is_some();
        let (_serial, _algorithm) = (body.next()?, body.next()?);
        let issuer = body.take(SEQUENCE)?;
        let mut validity = Der(body.take(SEQUENCE)?);
        let subject = body.take(SEQUENCE)?;
        let mut certificate = Self {
            not_before_s: validity.time_s()?,
            not_after_s: validity.time_s()?,
            common_name: common_name(subject),
            has_alt_names: false,
            is_authority: !has_version && issuer == subject,
        };
        let _key = body.take(SEQUENCE)?;
        while let Some((tag, content)) = body.next() {
            if tag == EXTENSIONS {
                certificate.read_extensions(content)?;
            }
        }
        Some(certificate)
    }

    fn read_extensions(&mut self, content: &[u8]) -> Option<()> {
        let mut extensions = Der(Der(content).take(SEQUENCE)?);
        while let Some(extension) = extensions.take(SEQUENCE) {
            let mut extension = Der(extension);
            let id = extension.take(OBJECT_ID)?;
            let _is_critical = extension.take(BOOLEAN);
            let value = extension.take(OCTETS)?;
            match id {
                SUBJECT_ALT_NAME => self.has_alt_names = true,
                BASIC_CONSTRAINTS => {
                    let mut constraints = Der(Der(value).take(SEQUENCE)?);
                    self.is_authority = constraints.take(BOOLEAN).is_some_and(|value| value != [0]);
                }
                _ => {}
            }
        }
        Some(())
    }
}

/// The last one, as OpenSSL has it.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut sets = Der(subject);
    let mut found = None;
    while let Some(set) = sets.take(SET) {
        let mut pairs = Der(set);
        while let Some(pair) = pairs.take(SEQUENCE) {
            let mut pair = Der(pair);
            if pair.take(OBJECT_ID)? == COMMON_NAME {
                found = pair.next().and_then(|(_, text)| String::from_utf8(text.to_vec()).ok());
            }
        }
    }
    found
}

/// Values of DER, one after the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value: its tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(*short), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next value if it has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.next().map(|(_, content)| content) } else { None }
    }

    fn time_s(&mut self) -> Option<i64> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        match tag {
            TIME => stamp(digits),
            // RFC 5280, 4.1.2.5.1: 50 to 99 are of the last century.
            UTC_TIME if *digits.first()? >= b'5' => stamp(&[b"19", digits].concat()),
            UTC_TIME => stamp(&[b"20", digits].concat()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn der(params: &CertificateParams) -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn what_decides_about_trust_is_read() {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, "host.example");
        params.not_before = date_time_ymd(2024, 1, 31);
        params.not_after = date_time_ymd(2055, 2, 28);
        let expected = Certificate {
            not_before_s: stamp(b"20240131000000").expect("a time"),
            not_after_s: stamp(b"20550228000000").expect("a time"),
            common_name: Some("host.example".to_owned()),
            has_alt_names: false,
            is_authority: false,
        };
        assert_eq!(Certificate::read(&der(&params)), Some(expected.clone()));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        assert_eq!(
            Certificate::read(&der(&params)),
            Some(Certificate { is_authority: true, ..expected.clone() })
        );
        params.is_ca = IsCa::ExplicitNoCa;
        let mut named = CertificateParams::new(vec!["host.example".to_owned()]).expect("parameters");
        named.is_ca = IsCa::ExplicitNoCa;
        assert_eq!(Certificate::read(&der(&params)), Some(expected));
        assert!(Certificate::read(&der(&named)).is_some_and(|read| read.has_alt_names && !read.is_authority));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Certificate::read(&bytes);
        }
    }
}
