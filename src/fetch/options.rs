//! How connections behave: patience, manners, secrets.

use std::sync::Arc;
use std::time::Duration;

use super::login::Logins;

/// Whether FTP is spoken inside TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FtpTls {
    /// `AUTH TLS`, or no connection at all.
    Required,
    /// `AUTH TLS` where the server offers it. A login that is not anonymous is never sent in plain text.
    #[default]
    Try,
    /// Plain text, passwords included.
    Off,
}

/// How connections behave. Everything that affects identity or security is here, so that a connection made with one
/// set of options is never used with another.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a source has to accept a connection, and to answer a question. curl waits for 5 minutes, wget for 15;
    /// a slot is shorter than both.
    pub answer_within: Duration,
    /// How long nothing may come in the middle of a body.
    pub stall_after: Duration,
    /// Whom the operator of the source may write to: goes out in the User-Agent, and as anonymous FTP password.
    pub contact: Option<String>,
    /// `http://host:port` to go through, instead of what the environment says.
    pub proxy: Option<String>,
    /// Whom to trust.
    pub tls: Arc<rustls::ClientConfig>,
    /// FTP in TLS or not.
    pub ftp_tls: FtpTls,
    /// Users and passwords.
    pub logins: Logins,
    /// Hosts other than the source's to which redirects are followed, always without credentials; `*` for any.
    pub follow_to: Vec<String>,
    /// Whether listings may contain names that start with a dot.
    pub hidden: bool,
    /// Whether listed names that some platform cannot hold are refused.
    pub portable_names: bool,
}

impl Options {
    /// The usual manners.
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            answer_within: Duration::from_secs(30),
            stall_after: Duration::from_secs(30),
            contact: None,
            proxy: None,
            tls,
            ftp_tls: FtpTls::default(),
            logins: Logins::default(),
            follow_to: Vec::new(),
            hidden: false,
            portable_names: false,
        }
    }

    /// True if redirects to this host are followed although it is not the source's.
    pub fn follows_to(&self, host: &str) -> bool {
        self.follow_to.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(host))
    }

    /// What we call ourselves, with whom to write to.
    pub fn user_agent(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        match &self.contact {
            Some(contact) => format!("stroll/{version} ({contact})"),
            None => format!("stroll/{version}"),
        }
    }
}
