//! Which certificates are trusted: those of the machine's authorities, or those that the user names.

mod certificate;
mod named;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use self::named::Named;
use super::{Fault, escape};

/// A file of authorities is no larger; Debian's has 220 KB.
const FILE_LIMIT: u64 = 16 << 20;

/// TLS with the machine's authorities, or only with the certificates in `trusted` (PEM) if it is given: authorities, and
/// servers' own ones.
///
/// A machine without authorities can still use what is not TLS: the message comes when one is needed.
pub fn client_config(trusted: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trusted {
        Some(file) => Arc::new(Trusting { trust: of_file(file, &provider)?, provider: provider.clone() }),
        None => match Verifier::new(provider.clone()) {
            Ok(verifier) => Arc::new(verifier),
            Err(_) => Arc::new(Trusting { trust: Nobody, provider: provider.clone() }),
        },
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::Tls(error.to_string()))?
        // "Dangerous" because any verifier goes; all of these verify.
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Flags to name in a message about a handshake that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// None: another handshake with the same server has worked.
    None,
    /// `--ca-file`, if the certificate is not trusted.
    CaFile,
    /// The same, or `--ftp-tls off`.
    CaFileOrPlain,
}

/// A handshake that failed, as tokio-rustls tells it.
pub(super) fn handshake_fault(error: &io::Error, advice: Advice) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => fault(error, advice),
        None => {
            Fault::Tls(with_plain(format!("the handshake failed: {}", escape(&error.to_string())), advice))
        }
    }
}

/// What rustls refuses, and what to do about it.
pub(super) fn fault(error: &rustls::Error, advice: Advice) -> Fault {
    let said = escape(&error.to_string());
    let rustls::Error::InvalidCertificate(why) = error else {
        return Fault::Tls(with_plain(said, advice));
    };
    let said = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired ({said})")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the server's certificate is not for this host name ({said})")
        }
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnhandledCriticalExtension
        | CertificateError::Other(_)
            if advice != Advice::None =>
        {
            format!(
                "the server's certificate is not trusted ({said}); to trust it or its authority, name the file that holds \
             it with --ca-file"
            )
        }
        _ => said,
    };
    Fault::Tls(with_plain(said, advice))
}

fn with_plain(said: String, advice: Advice) -> String {
    match advice {
        Advice::CaFileOrPlain => {
            format!("{said}; --ftp-tls off transfers in plain text, the password included")
        }
        Advice::None | Advice::CaFile => said,
    }
}

fn of_file(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Named, Fault> {
    let name = file.display();
    let local =
        |source: io::Error| Fault::Local { what: format!("cannot read the certificates in {name}"), source };
    let wrong = |why: String| Fault::Tls(format!("{name}: {why}"));
    let mut pem = Vec::new();
    File::open(file).map_err(local)?.take(FILE_LIMIT + 1).read_to_end(&mut pem).map_err(local)?;
    if pem.len() as u64 > FILE_LIMIT {
        return Err(wrong("larger than any file of certificates".into()));
    }
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(format!("not a PEM file ({error})")))?;
    if certificates.is_empty() {
        return Err(wrong("no certificate in it; it must be PEM, with BEGIN CERTIFICATE".into()));
    }
    Named::new(certificates, provider).map_err(wrong)
}

/// A certificate chain that a server shows.
struct Shown<'a> {
    end_entity: &'a CertificateDer<'a>,
    intermediates: &'a [CertificateDer<'a>],
    name: &'a ServerName<'a>,
    ocsp_response: &'a [u8],
    now: UnixTime,
}

/// A rule that decides which certificates are trusted.
trait Trust: std::fmt::Debug + Send + Sync {
    fn check(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, rustls::Error>;
}

/// Trusts no certificate, and says why.
#[derive(Debug)]
struct Nobody;

impl Trust for Nobody {
    fn check(&self, _: &Shown<'_>) -> Result<ServerCertVerified, rustls::Error> {
        Err(rustls::Error::General(
            "this machine knows no authorities; install ca-certificates, or name a file of them with --ca-file".into(),
        ))
    }
}

/// Checks certificates by a rule, and signatures as usual.
#[derive(Debug)]
struct Trusting<T> {
    trust: T,
    provider: Arc<CryptoProvider>,
}

impl<T: Trust> ServerCertVerifier for Trusting<T> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.trust.check(&Shown { end_entity, intermediates, name, ocsp_response, now })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_authorities_is_read_or_its_mistake_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        let error = client_config(Some(&file)).expect_err("no such file");
        assert!(matches!(&error, Fault::Local { what, .. } if what.contains("ca.pem")), "{error}");
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(&file, text).expect("written");
            let error = client_config(Some(&file)).expect_err(text);
            assert!(matches!(&error, Fault::Tls(why) if why.contains("ca.pem")), "{error}");
        }
        let certificate = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
        fs::write(&file, certificate.cert.pem()).expect("written");
        client_config(Some(&file)).expect("a server's certificate");
    }

    #[test]
    fn messages_name_the_flag_that_helps() {
        let untrusted = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let expired = rustls::Error::InvalidCertificate(CertificateError::Expired);
        for (error, advice, ca_file, plain) in [
            (&untrusted, Advice::CaFile, true, false),
            (&untrusted, Advice::CaFileOrPlain, true, true),
            (&untrusted, Advice::None, false, false),
            (&expired, Advice::CaFile, false, false),
            (&expired, Advice::CaFileOrPlain, false, true),
        ] {
            let said = fault(error, advice).to_string();
            assert_eq!(
                (said.contains("--ca-file"), said.contains("--ftp-tls off")),
                (ca_file, plain),
                "{said}"
            );
        }
    }

    #[test]
    fn without_authorities_there_is_a_message_that_names_the_cure() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let nobody = Trusting { trust: Nobody, provider };
        let certificate = CertificateDer::from(vec![0]);
        let name = ServerName::try_from("localhost").expect("a name");
        let error = nobody.verify_server_cert(
            &certificate,
            &[],
            &name,
            &[],
            UnixTime::since_unix_epoch(std::time::Duration::ZERO),
        );
        assert!(error.expect_err("trusts nobody").to_string().contains("ca-certificates"));
        assert!(!nobody.supported_verify_schemes().is_empty());
    }
}
