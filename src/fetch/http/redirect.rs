//! Which redirects are followed. Called by the connection for each one; `guard` checks the network that it leads into.
//!
//! | from | to | |
//! |---|---|---|
//! | file | the same path plus `/` | not followed: it is a folder |
//! | https | http | never |
//! | http | https | followed |
//! | host | another host | only if [`Options::follow_to`] names it, and without credentials |

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION};

use crate::fetch::{Address, Fault, Options, Scheme, escape};

/// The kind of entry that a request expects at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    File,
    Folder,
}

/// True for the statuses whose `Location` is an address to go to.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The address to which an answer redirects, if it may be followed. `asked` is the user's address, `here` the one that
/// has answered.
pub(super) fn next(
    options: &Options,
    asked: &Address,
    here: &Address,
    headers: &HeaderMap,
    target: Target,
) -> Result<Address, Fault> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| Fault::Nonsense("a redirect without a Location".into()))?;
    let no = |to: &str, why: String| Fault::Redirect(format!("redirect to {}: {why}", escape(to)));
    let url = here.url().join(location).map_err(|error| no(location, error.to_string()))?;
    // Credentials in a redirect are not ours: they are dropped.
    let (next, _) = Address::from_url(url).map_err(|error| no(location, error.to_string()))?;
    let to = without_query(&next, "");
    // Checked before the host: many servers write a host name of their own into this redirect.
    if target == Target::File && is_folder_of(asked, &next) {
        return Err(Fault::IsFolder(without_query(asked, "/")));
    }
    let is_upgrade = here.scheme() == Scheme::Http && next.scheme() == Scheme::Https;
    if next.scheme() != here.scheme() && !is_upgrade {
        let why = format!(
            "from {} to another scheme; ask for that address yourself if you trust it",
            here.url().scheme()
        );
        return Err(no(&to, why));
    }
    let host = next.host();
    if host != asked.host() && !options.follows_to(&host) {
        return Err(no(&to, format!("another host; allow it with --follow-to {}", escape(&host))));
    }
    Ok(next)
}

/// An address for a message, with `end` behind its path. The query is left out: it may be a presigned secret.
fn without_query(address: &Address, end: &str) -> String {
    let mut url = address.url().clone();
    url.set_query(None);
    format!("{url}{end}")
}

/// True if `next` is the path of `asked` plus a slash: web servers add it for folders only.
fn is_folder_of(asked: &Address, next: &Address) -> bool {
    // Servers differ in which characters they escape, so decoded paths are compared.
    next.path().strip_suffix(b"/").is_some_and(|folder| !folder.ends_with(b"/") && folder == asked.path())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;
    use crate::fetch::tls;

    fn address(text: &str) -> Address {
        Address::parse(text).expect(text).0
    }

    /// Judges a redirect of the file `asked`, with `hosts` as --follow-to.
    fn judge(asked: &str, location: &str, hosts: &[&str]) -> Result<String, Fault> {
        let mut options = Options::new(tls::client_config(None).expect("a configuration"));
        options.follow_to = hosts.iter().map(ToString::to_string).collect();
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_str(location).expect("a value"));
        let asked = address(asked);
        next(&options, &asked, &asked, &headers, Target::File).map(|next| next.to_string())
    }

    #[test]
    fn a_file_that_redirects_to_itself_with_a_slash_is_a_folder() {
        for (asked, location) in [
            ("http://a/x/data", "/x/data/"),
            ("http://a/x/data", "data/"),
            ("http://a/x/data", "http://inside.example:8080/x/data/"),
            ("http://a/x/data", "https://a/x/data/"),
            ("http://a/a%20b", "/a b/"),
            ("http://a/a:b", "/a%3Ab/"),
            ("http://a/data?C=M", "/data/?C=M"),
        ] {
            let result = judge(asked, location, &[]);
            assert!(matches!(&result, Err(Fault::IsFolder(_))), "{asked} {location}: {result:?}");
        }
        for (asked, location) in
            [("http://a/x/data", "/x/data2/"), ("http://a/x/data", "/data/"), ("http://a/data", "/data//")]
        {
            assert!(judge(asked, location, &[]).is_ok(), "{asked} {location}");
        }
    }

    #[test]
    fn https_is_followed_and_http_is_not() {
        assert_eq!(judge("http://a/f", "https://a/f", &[]).expect("followed"), "https://a/f");
        assert!(judge("http://a:8080/f", "https://a:8443/f", &[]).is_ok());
        for location in ["http://a/f", "ftp://a/f", "file:///etc/passwd"] {
            let result = judge("https://a/f", location, &["*"]);
            assert!(matches!(result, Err(Fault::Redirect(_))), "{location}: {result:?}");
        }
    }

    #[test]
    fn another_host_needs_the_flag_that_the_error_names() {
        let to = "https://Store.example/f?sig=1";
        let error = judge("https://a/f", to, &[]).expect_err("not followed").to_string();
        assert!(error.contains("redirect to https://store.example/f: another host"), "{error}");
        assert!(error.ends_with("allow it with --follow-to store.example"), "{error}");
        assert!(judge("https://a/f", to, &["b", "STORE.example"]).is_ok());
        assert!(judge("https://a/f", to, &["*"]).is_ok());
        assert!(judge("https://a/f", to, &["example", "tore.example"]).is_err());
        assert!(judge("http://a/f", "http://b/f", &[]).is_err());
    }
}
