//! What goes wrong between us and a source, and what it means for the next try.
//!
//! Everything that a source says is escaped before it gets into a message: a server must not write to our users'
//! terminals.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// Longer words of a source are cut.
const SAID_LIMIT: usize = 300;

/// The source asks to be left alone: it has too much to do, or we ask too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of its answer (421, 429, 503, …); `None` if it would not even connect.
    pub code: Option<u16>,
    /// For how long it asks to be left alone, if it says so.
    pub after: Option<Duration>,
    /// Its words, escaped.
    pub said: String,
}

impl Refusal {
    /// A refusal with the source's words, which need not be escaped yet.
    pub fn new(code: Option<u16>, after: Option<Duration>, said: &str) -> Self {
        Self { code, after, said: escape(said) }
    }

    /// In one line, as it is shown beside the back-off: `429 Too Many Requests from example.org`.
    pub fn told_by(&self, host: Option<&str>) -> String {
        let said = self.said.strip_prefix("HTTP ").unwrap_or(&self.said).trim_end_matches('.');
        host.map_or_else(|| said.to_owned(), |host| format!("{said} from {}", escape(host)))
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The source asks to be left alone. Told to the circle; nobody tries again before.
    #[error("the source refuses for now: {}", .0.said)]
    Refused(Refusal),
    /// There is no such file or folder.
    #[error("not found at the source: {0}")]
    NotFound(String),
    /// The address of a file redirects to itself plus `/`: it is a folder. Holds the folder's address, with the slash.
    #[error("{0} is a folder, not a file; copy it with `stroll mirror`")]
    IsFolder(String),
    /// The user or the password is wrong, or one is needed. Holds the whole message; see [`Fault::login`].
    #[error("{0}")]
    Login(String),
    /// The file is not for us.
    #[error("the source does not allow it: {0}")]
    Denied(String),
    /// The file is another one than before: what is there of it cannot be used.
    #[error("the file has changed at the source")]
    Changed,
    /// The answer breaks the rules of its protocol, or contradicts itself.
    #[error("the source's answer makes no sense: {0}")]
    Nonsense(String),
    /// A folder's address answers with something else than a directory index.
    #[error(
        "not an index page: {0}; ask the operator to list this folder, or name its files and use `stroll get`"
    )]
    NotAnIndex(String),
    /// The source cannot do what is needed.
    #[error("the source cannot do this: {0}")]
    Unsupported(String),
    /// No list of checksums at the source has this file, and one is needed. Holds its address.
    #[error(
        "{0}: no list of checksums at the source has it; leave it out with --exclude, or use --compare mtime"
    )]
    NoChecksum(String),
    /// A redirect that is not followed.
    #[error("not followed: {0}")]
    Redirect(String),
    /// TLS: a certificate that cannot be trusted, or none where it is required.
    #[error("no secure connection: {0}")]
    Tls(String),
    /// The name cannot be resolved, or nobody listens there.
    #[error("cannot connect to {to}: {why}")]
    Connect {
        /// Host and port.
        to: String,
        /// Why.
        why: String,
    },
    /// The source answers that it fails, which may pass (HTTP 500 and its kind).
    #[error("the source answers {0}")]
    Failing(String),
    /// The connection broke, or ended before the last byte.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// Nothing came for so long.
    #[error("nothing came for {0:?}")]
    Stalled(Duration),
    /// Too little came for too long.
    #[error("slower than {0} bytes a second for too long")]
    Slow(u64),
    /// Our own side: a password file, a socket.
    #[error("{what}")]
    Local {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Fault {
    /// The source refuses this user, or wants one where none was sent. The message says where to put user and password.
    pub fn login(said: &str, user: Option<&str>) -> Self {
        let said = said.trim_end_matches('.');
        Self::Login(match user {
            None => format!(
                "the source wants a login: {said}; put user and password into ~/.netrc, or use --user with --password-file"
            ),
            Some(user) => format!(
                "the source wants another login than that of {}: {said}; correct user and password in ~/.netrc, or use \
                 --user with --password-file",
                escape(user)
            ),
        })
    }

    /// The proxy on the way to the source wants user and password.
    pub(super) fn proxy_login(proxy: &str) -> Self {
        Self::Login(format!(
            "the proxy {proxy} wants a login: HTTP 407 Proxy Authentication Required; put user and password into its \
             address, http://USER:PASSWORD@HOST:PORT, in STROLL_PROXY or HTTP_PROXY"
        ))
    }

    /// Whether the same question may well be answered at the next try.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Changed
                | Self::Connect { .. }
                | Self::Failing(_)
                | Self::Broken(_)
                | Self::Stalled(_)
                | Self::Slow(_)
        )
    }
}

/// Makes the words of a stranger fit for terminal, log and JSON: control characters, bidirectional overrides and other
/// invisible ones are written as escapes, and what is too long is cut.
pub fn escape(said: &str) -> String {
    let mut out = String::new();
    for c in said.trim().chars() {
        if out.len() >= SAID_LIMIT {
            out.push('…');
            break;
        }
        if is_harmless(c) {
            out.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        }
    }
    out
}

pub(super) fn is_harmless(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_overrides_and_c1_never_reach_a_terminal() {
        assert_eq!(escape("\u{1b}[2Jhello\r\n"), "\\u{1b}[2Jhello");
        assert_eq!(escape("evil\u{202e}gpj.exe"), "evil\\u{202e}gpj.exe");
        assert_eq!(escape("a\u{9b}b"), "a\\u{9b}b");
        assert_eq!(escape("Größe 7 µm, 漢字"), "Größe 7 µm, 漢字");
    }

    #[test]
    fn a_refused_login_names_the_user_and_says_where_logins_are_put() {
        let (without, with) =
            (Fault::login("HTTP 401", None), Fault::login("530 no\u{1b}", Some("a\u{1b}da")));
        for text in [without.to_string(), with.to_string()] {
            assert!(text.contains("~/.netrc") && text.contains("--password-file"), "{text}");
        }
        assert!(without.to_string().starts_with("the source wants a login: HTTP 401;"));
        let with = with.to_string();
        assert!(with.contains("another login than that of a\\u{1b}da: 530 no"), "{with}");
    }

    #[test]
    fn long_words_are_cut() {
        let long = escape(&"x".repeat(100_000));
        assert!(long.len() <= SAID_LIMIT + '…'.len_utf8());
        assert!(long.ends_with('…'));
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert!(Fault::Refused(Refusal::new(Some(421), None, "too many")).is_temporary());
        assert!(Fault::Broken("reset".into()).is_temporary());
        for lasting in [Fault::NotFound("x".into()), Fault::Login("530".into()), Fault::Nonsense("x".into())]
        {
            assert!(!lasting.is_temporary(), "{lasting}");
        }
    }
}
