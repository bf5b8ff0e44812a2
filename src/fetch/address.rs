//! Where a file or folder is.
//!
//! One parser (the URL standard's) for everything, and nothing of it guessed: no shorthand, no user or password inside
//! (those are taken out when it is read), no fragment.

use std::fmt;

use url::{Host, Url};

use super::fault::escape;
use super::{Name, NameError};

/// Longer addresses are nobody's.
const LONGEST: usize = 8_192;

/// How to talk to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP in TLS.
    Https,
    /// FTP; in TLS from `AUTH TLS` on, where that is wanted.
    Ftp,
    /// FTP in TLS from the first byte.
    Ftps,
}

impl Scheme {
    /// Whether it is one of the two FTPs.
    pub fn is_ftp(self) -> bool {
        matches!(self, Self::Ftp | Self::Ftps)
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ftp => 21,
            Self::Ftps => 990,
        }
    }
}

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("`{0}` is not an address; write for example https://example.org/file")]
    NotAUrl(String),
    /// A URL of another kind.
    #[error("`{0}` is not a kind of source; use http, https, ftp or ftps")]
    Scheme(String),
    /// No host, or one that is none.
    #[error("`{0}` names no host")]
    NoHost(String),
    /// Longer than any server takes.
    #[error("the address is longer than {LONGEST} bytes")]
    TooLong,
    /// A path that climbs, or that would inject a command.
    #[error("`{path}` is not a path to pull from: {why}")]
    Path {
        /// The path, escaped.
        path: String,
        /// What is wrong with it.
        why: NameError,
    },
}

/// User and password that stood in an address. Not for printing.
#[derive(Clone, PartialEq, Eq)]
pub struct UserInfo {
    /// The user.
    pub user: String,
    /// The password, if there was one.
    pub password: Option<zeroize::Zeroizing<String>>,
}

impl fmt::Debug for UserInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserInfo").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Where a file or folder is. Folders end in a slash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    url: Url,
    scheme: Scheme,
}

impl Address {
    /// Reads an address, and takes user and password out of it.
    pub fn parse(text: &str) -> Result<(Self, Option<UserInfo>), AddressError> {
        if text.len() > LONGEST {
            return Err(AddressError::TooLong);
        }
        let url = Url::parse(text.trim()).map_err(|_| AddressError::NotAUrl(escape(&without_login(text))))?;
        Self::from_url(url)
    }

    /// The same from a URL, such as that of a redirect.
    pub fn from_url(mut url: Url) -> Result<(Self, Option<UserInfo>), AddressError> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "ftp" => Scheme::Ftp,
            "ftps" => Scheme::Ftps,
            other => return Err(AddressError::Scheme(escape(other))),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(AddressError::NoHost(escape(&without_login(url.as_str()))));
        }
        let user_info = take_user_info(&mut url);
        url.set_fragment(None);
        let address = Self { url, scheme };
        address.check_path()?;
        Ok((address, user_info))
    }

    /// How to talk to the source.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(ip)) => ip.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.url.port().unwrap_or(self.scheme.default_port())
    }

    /// Whether both are at the same source: credentials for one are good for the other.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host() == other.host() && self.port() == other.port()
    }

    /// Whether the other one is this one, or below it.
    pub fn contains(&self, other: &Self) -> bool {
        let (folder, path) = (self.url.path().trim_end_matches('/'), other.url.path());
        let below = path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.same_origin(other) && below
    }

    /// As a URL, for those who ask by it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The path as the source's file system would say it: decoded once, from the root of the login for FTP.
    pub fn path(&self) -> Vec<u8> {
        percent_decode(self.url.path())
    }

    /// Whether this is a folder.
    pub fn is_folder(&self) -> bool {
        self.url.path().ends_with('/')
    }

    /// The name that a replica of this file gets: always from the address that was asked for.
    pub fn file_name(&self) -> Result<Name, NameError> {
        let path = self.url.path().trim_end_matches('/');
        let last = path.rsplit('/').next().unwrap_or_default();
        Name::from_bytes(&percent_decode(last))
    }

    /// A file in this folder.
    #[must_use]
    pub fn file(&self, name: &Name) -> Self {
        self.below(name, false)
    }

    /// A folder in this folder.
    #[must_use]
    pub fn folder(&self, name: &Name) -> Self {
        self.below(name, true)
    }

    /// The folder in which this is; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let mut url = self.url.clone();
        url.set_query(None);
        let path = url.path().trim_end_matches('/').to_owned();
        let (folder, _) = path.rsplit_once('/')?;
        url.set_path(&format!("{folder}/"));
        Some(Self { url, scheme: self.scheme })
    }

    fn below(&self, name: &Name, folder: bool) -> Self {
        let mut url = self.url.clone();
        url.set_query(None);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(PLACEHOLDER);
            if folder {
                segments.push("");
            }
        }
        // The library encodes text only, so the name's bytes are encoded here.
        let end = if folder { "/" } else { "" };
        let path = url.path().strip_suffix(&format!("{PLACEHOLDER}{end}")).unwrap_or_default().to_owned();
        url.set_path(&format!("{path}{}{end}", percent_encode(&name.to_bytes())));
        Self { url, scheme: self.scheme }
    }

    /// Once decoded, no part of the path may climb, hide a separator or end a command's line.
    fn check_path(&self) -> Result<(), AddressError> {
        let refuse = |why| Err(AddressError::Path { path: escape(self.url.path()), why });
        for part in self.url.path().split('/') {
            let decoded = percent_decode(part);
            if decoded == b".." || decoded == b"." {
                return refuse(NameError::NotAName);
            }
            if decoded.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
                return refuse(NameError::Invisible);
            }
            if decoded.contains(&b'/') {
                return refuse(NameError::Separator);
            }
        }
        Ok(())
    }
}

fn take_user_info(url: &mut Url) -> Option<UserInfo> {
    let text = |part: &str| String::from_utf8_lossy(&percent_decode(part)).into_owned();
    let user = text(url.username());
    let password = url.password().map(|password| zeroize::Zeroizing::new(text(password)));
    // Cannot fail for an address with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    (!user.is_empty() || password.is_some()).then_some(UserInfo { user, password })
}

/// Stands for a name while its URL is made: plain letters, which no URL encodes.
const PLACEHOLDER: &str = "n";

/// Encodes a name's bytes as one component of a path. All that the URL standard encodes there is, and a backslash, which
/// the standard would take for a slash.
fn percent_encode(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        let is_plain = byte.is_ascii_graphic() && !br##""#%/<>?\^`{|}"##.contains(byte);
        if is_plain {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            out.push_str(&data_encoding::HEXUPPER.encode(&[*byte]));
        }
    }
    out
}

/// Decodes `%41` once. A stray percent sign stands for itself.
pub(super) fn percent_decode(text: impl AsRef<[u8]>) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut rest = text.as_ref();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        if let (b'%', Some(high), Some(low)) = (first, digit(after.first()), digit(after.get(1))) {
            out.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
            rest = after.get(2..).unwrap_or_default();
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A parsed URL is plain ASCII: what is not, is encoded.
        f.write_str(self.url.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What can be shown of something that is no address: it may have a password in it all the same.
fn without_login(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).expect(text).0
    }

    #[test]
    fn user_and_password_are_taken_out_and_never_printed() {
        let (address, info) = Address::parse("ftp://ada:p%40ss@example.org/a").expect("an address");
        let info = info.expect("a user");
        assert_eq!((info.user.as_str(), info.password.as_deref().map(String::as_str)), ("ada", Some("p@ss")));
        assert_eq!(address.to_string(), "ftp://example.org/a");
        assert!(!format!("{address:?} {info:?}").contains("p@ss"));
    }

    #[test]
    fn a_name_comes_from_the_last_part_of_the_path_alone() {
        assert_eq!(address("http://h/a/b.dat?x=/../y#z").file_name().expect("a name").as_str(), "b.dat");
        assert_eq!(address("ftp://h/a%20b").file_name().expect("a name").as_str(), "a b");
        assert_eq!(address("http://h/").file_name(), Err(NameError::NotAName));
        assert_eq!(address("http://h/a%5c..%5cb").file_name().expect("a name").as_str(), "a\\..\\b");
        assert_eq!(address("http://h/caf%e9").file_name().expect("a name").to_bytes(), b"caf\xe9");
    }

    #[test]
    fn paths_that_climb_or_inject_are_refused() {
        for text in ["http://h/a%2f..%2fb", "ftp://h/a%0d%0aDELE%20b", "ftp://h/%00"] {
            assert!(matches!(Address::parse(text), Err(AddressError::Path { .. })), "{text}");
        }
        // The URL standard takes these out before anybody sees them.
        assert_eq!(address("http://h/a/../../b").to_string(), "http://h/b");
        assert_eq!(address("http://h/a/%2e%2e/b").to_string(), "http://h/b");
    }

    #[test]
    fn other_kinds_of_address_are_refused() {
        for text in ["file:///etc/passwd", "gopher://h/", "example.org/x", "", "http://", "javascript:1"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        assert_eq!(Address::parse(&format!("http://h/{}", "x".repeat(9_000))), Err(AddressError::TooLong));
    }

    #[test]
    fn origin_is_scheme_host_and_port() {
        let here = address("http://h/a");
        assert!(here.same_origin(&address("http://h:80/b")));
        for other in ["https://h/a", "http://g/a", "http://h:81/a"] {
            assert!(!here.same_origin(&address(other)), "{other}");
        }
    }

    #[test]
    fn a_file_is_in_its_parent() {
        assert_eq!(address("http://h/a/b.dat?x").parent(), Some(address("http://h/a/")));
        assert_eq!(address("http://h/a/").parent(), Some(address("http://h/")));
        assert_eq!(address("http://h/").parent(), None);
    }

    #[test]
    fn a_folder_contains_what_is_below_it() {
        let folder = address("ftp://h/pub/");
        assert!(folder.contains(&address("ftp://h/pub/a/b")) && folder.contains(&address("ftp://h/pub/")));
        for other in ["ftp://h/public/a", "ftp://h/", "ftp://g/pub/a", "http://h/pub/a"] {
            assert!(!folder.contains(&address(other)), "{other}");
        }
    }

    #[test]
    fn entries_are_found_below_their_folder() {
        let folder = address("ftp://h/pub/");
        let name = Name::new("a b?#%2f.txt").expect("a name");
        let file = folder.file(&name);
        assert_eq!(file.to_string(), "ftp://h/pub/a%20b%3F%23%252f.txt");
        assert_eq!(file.path(), b"/pub/a b?#%2f.txt");
        assert_eq!(file.file_name(), Ok(name.clone()));
        assert_eq!(folder.folder(&name).folder(&name).path(), b"/pub/a b?#%2f.txt/a b?#%2f.txt/");
    }

    #[test]
    fn a_name_reaches_its_url_byte_by_byte_whatever_the_scheme() {
        let hard: [&[u8]; 9] =
            [b"a\\b", b"caf\xe9", b"T12:01:00", b" x ", b"...", b"n", b"%41", "漢".as_bytes(), b"a;b=c&d+e"];
        for folder in ["http://h/", "https://h/pub/n/", "ftp://h/pub/", "ftps://h/"] {
            let folder = address(folder);
            for bytes in hard {
                let name = Name::from_bytes(bytes).expect("a name");
                let expected = [folder.path(), bytes.to_vec()].concat();
                assert_eq!(folder.file(&name).path(), expected);
                assert_eq!(folder.file(&name).file_name(), Ok(name.clone()));
                assert_eq!(folder.folder(&name).path(), [expected, b"/".to_vec()].concat());
                let file = folder.file(&name);
                assert_eq!(Address::parse(&file.to_string()).expect("reads back").0, file);
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in any::<String>()) {
            let _ = Address::parse(&text);
        }

        #[test]
        fn what_is_printed_reads_back_as_the_same(path in "[a-zA-Z0-9 %._~/-]{0,40}") {
            if let Ok((address, _)) = Address::parse(&format!("https://example.org/{path}")) {
                prop_assert_eq!(Address::parse(&address.to_string()).expect("reads back").0, address);
            }
        }
    }

    #[test]
    fn a_password_in_something_that_is_no_address_is_not_shown() {
        for text in
            ["http://ada:secret@[bad/x", "ada:secret@host", "http://ada:secret@/x", "ftp://a:secret@b:99999/"]
        {
            let error = Address::parse(text).map(|_| ()).expect_err(text);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
