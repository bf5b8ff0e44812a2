//! Whom to trust: the machine's authorities, or those that the user names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::Fault;

/// A file of authorities is no larger; Debian's has 220 KB.
const FILE_LIMIT: u64 = 16 << 20;

/// TLS with the machine's authorities, or only with those in `authorities` (PEM) if it is given.
///
/// A machine without authorities can still use what is not TLS: the message comes when one is needed.
pub fn client_config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match authorities {
        Some(file) => of_file(file, provider.clone())?,
        None => match Verifier::new(provider.clone()) {
            Ok(verifier) => Arc::new(verifier),
            Err(_) => Arc::new(Nobody { provider: provider.clone() }),
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

fn of_file(file: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Fault> {
    let name = file.display();
    let local =
        |source: io::Error| Fault::Local { what: format!("cannot read the authorities in {name}"), source };
    let wrong = |why: String| Fault::Tls(format!("{name}: {why}"));
    let mut pem = Vec::new();
    File::open(file).map_err(local)?.take(FILE_LIMIT + 1).read_to_end(&mut pem).map_err(local)?;
    if pem.len() as u64 > FILE_LIMIT {
        return Err(wrong("larger than any file of authorities".into()));
    }
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(format!("not a PEM file ({error})")))?;
        store.add(certificate).map_err(|error| wrong(format!("not an authority's certificate ({error})")))?;
    }
    if store.is_empty() {
        return Err(wrong("no certificate in it; it must be PEM, with BEGIN CERTIFICATE".into()));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| wrong(error.to_string()))
}

/// Trusts nobody, and says why.
#[derive(Debug)]
struct Nobody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Nobody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Err(rustls::Error::General(
            "this machine knows no authorities; install ca-certificates, or name a file of them".into(),
        ))
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
        client_config(Some(&file)).expect("an authority");
    }

    #[test]
    fn without_authorities_there_is_a_message_that_names_the_cure() {
        let nobody = Nobody { provider: Arc::new(rustls::crypto::ring::default_provider()) };
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
