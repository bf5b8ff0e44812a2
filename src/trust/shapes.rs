//! How keys, secrets and certificates are written in the TOML files of a home.

/// Bytes of fixed number, as hexadecimal digits.
pub(super) mod bytes {
    use data_encoding::HEXLOWER;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use zeroize::Zeroizing;

    pub(in super::super) fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.serialize_str(&Zeroizing::new(HEXLOWER.encode(bytes)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        input: D,
    ) -> Result<[u8; N], D::Error> {
        // The text may be a secret: the error must not repeat it.
        let wrong = || D::Error::custom(format_args!("expected {} hexadecimal digits", 2 * N));
        let text = Zeroizing::new(String::deserialize(input)?);
        let bytes = Zeroizing::new(HEXLOWER.decode(text.as_bytes()).map_err(|_| wrong())?);
        bytes.as_slice().try_into().map_err(|_| wrong())
    }
}

/// A one-time secret, as hexadecimal digits.
pub(super) mod secret {
    use serde::{Deserializer, Serializer};

    use super::super::OneTimeSecret;
    use super::bytes;

    pub(in super::super) fn serialize<S: Serializer>(
        secret: &OneTimeSecret,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        bytes::serialize(secret.as_bytes(), out)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<OneTimeSecret, D::Error> {
        bytes::deserialize(input).map(OneTimeSecret::from_bytes)
    }
}

/// Certificates in the same text form as in a file of their own.
pub(super) mod certificates {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::wire::records::{Certificate, Signed as _};

    use super::super::text::{Kind, from_text, to_text};

    pub(in super::super) fn serialize<S: Serializer>(
        certificates: &[Certificate],
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(certificates.iter().map(|one| to_text(Kind::CERTIFICATE, &one.encode())))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Vec<Certificate>, D::Error> {
        let read = |text: String| {
            let bytes = from_text(Kind::CERTIFICATE, &text).map_err(D::Error::custom)?;
            Certificate::decode(&bytes).map_err(D::Error::custom)
        };
        Vec::<String>::deserialize(input)?.into_iter().map(read).collect()
    }
}
