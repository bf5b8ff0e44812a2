//! Trusts the certificates of a file and no others: authorities for what they have signed, any certificate for the server
//! that shows exactly this one.
//!
//! A certificate that is no authority vouches for no other, even if its key has signed one. curl and wget do the same.

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier as _};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore};

use super::certificate::Certificate;
use super::{Shown, Trust};

/// The certificates of a file.
#[derive(Debug)]
pub(super) struct Named {
    /// `None` if there is no authority among them.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    certificates: Vec<(CertificateDer<'static>, Certificate)>,
}

impl Named {
    /// The error says what is wrong with one of them.
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        let mut all = Vec::new();
        for der in certificates {
            let certificate = Certificate::read(&der).ok_or("not an X.509 certificate")?;
            if certificate.is_authority {
                let wrong = |error| format!("not an authority's certificate ({error})");
                store.add(der.clone()).map_err(wrong)?;
            }
            all.push((der, certificate));
        }
        let authorities = if store.is_empty() {
            None
        } else {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
            Some(builder.build().map_err(|error| error.to_string())?)
        };
        Ok(Self { authorities, certificates: all })
    }
}

impl Trust for Named {
    fn check(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, rustls::Error> {
        let Shown { end_entity, intermediates, name, ocsp_response, now } = *shown;
        if let Some((der, certificate)) = self.certificates.iter().find(|(der, _)| der == end_entity) {
            certificate.check_time(now)?;
            return certificate.check_name(der, name).map(|()| ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(authorities) => {
                authorities.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

impl Certificate {
    fn check_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        match i64::try_from(now.as_secs()) {
            Ok(now_s) if now_s < self.not_before_s => Err(CertificateError::NotValidYet),
            Ok(now_s) if now_s <= self.not_after_s => Ok(()),
            _ => Err(CertificateError::Expired),
        }
    }

    /// By its alternative names; without any, by its common name, as `openssl req -x509` writes it.
    fn check_name(&self, der: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), rustls::Error> {
        if self.has_alt_names {
            return verify_server_name(&ParsedCertificate::try_from(der)?, name);
        }
        let is_same = self.common_name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(&name.to_str()));
        if is_same { Ok(()) } else { Err(CertificateError::NotValidForName.into()) }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        date_time_ymd,
    };

    use super::*;

    fn params(host: Option<&str>, is_ca: bool) -> CertificateParams {
        let mut params =
            CertificateParams::new(host.map(str::to_owned).into_iter().collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "named.example");
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    fn signed(params: &CertificateParams) -> CertificateDer<'static> {
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verify(
        trusted: &CertificateDer<'static>,
        shown: &CertificateDer<'static>,
        name: &str,
    ) -> Result<(), CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let named = Named::new(vec![trusted.clone()], &provider).unwrap();
        // 2026
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_790_000_000));
        let name = ServerName::try_from(name).unwrap();
        let shown = Shown { end_entity: shown, intermediates: &[], name: &name, ocsp_response: &[], now };
        match named.check(&shown) {
            Ok(_) => Ok(()),
            Err(rustls::Error::InvalidCertificate(why)) => Err(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_certificate_is_trusted_for_itself_whether_or_not_it_is_an_authority() {
        for is_ca in [false, true] {
            let own = signed(&params(Some("host.example"), is_ca));
            assert_eq!(verify(&own, &own, "host.example"), Ok(()), "{is_ca}");
            assert!(verify(&own, &own, "other.example").is_err(), "{is_ca}");
            // Common names count only without other names.
            assert!(verify(&own, &own, "named.example").is_err(), "{is_ca}");
            let other = signed(&params(Some("host.example"), is_ca));
            assert!(verify(&own, &other, "host.example").is_err(), "{is_ca}");
            let bare = signed(&params(None, is_ca));
            assert_eq!(verify(&bare, &bare, "Named.example"), Ok(()), "{is_ca}");
            assert_eq!(verify(&bare, &bare, "host.example"), Err(CertificateError::NotValidForName));
        }
    }

    #[test]
    fn a_certificate_is_trusted_in_its_time_only() {
        for is_ca in [false, true] {
            let mut params = params(Some("host.example"), is_ca);
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
            let old = signed(&params);
            assert_eq!(verify(&old, &old, "host.example"), Err(CertificateError::Expired), "{is_ca}");
            (params.not_before, params.not_after) = (date_time_ymd(2040, 1, 1), date_time_ymd(2041, 1, 1));
            let young = signed(&params);
            assert_eq!(verify(&young, &young, "host.example"), Err(CertificateError::NotValidYet), "{is_ca}");
        }
    }

    #[test]
    fn only_an_authority_vouches_for_others() {
        for is_ca in [false, true] {
            let (own, key) = (params(Some("ca.example"), is_ca), KeyPair::generate().unwrap());
            let own_der = own.self_signed(&key).unwrap().der().clone();
            let mut below = params(Some("host.example"), false);
            below.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let issuer = Issuer::new(own, key);
            let below = below.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone();
            assert_eq!(verify(&own_der, &below, "host.example").is_ok(), is_ca);
        }
    }
}
