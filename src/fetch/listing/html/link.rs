//! Where a link of an index page leads, and whether its text is the name of what it leads to.

use url::Url;

use super::super::Kind;
use crate::fetch::address::percent_decode;

/// A text that is cut without any sign is at least this long: mini-httpd cuts at 32 characters.
const SHORTEST_CUT: usize = 16;

/// Signs at the end of a text that was cut.
const CUT_SIGNS: [&str; 6] = ["..>", "...", "\u{2026}", "..", "~", ">"];

/// Query keys of links to the next part of a listing.
const PAGE_KEYS: [&str; 9] =
    ["page", "p", "offset", "start", "marker", "cursor", "after", "from", "continuation-token"];

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To a direct child of the folder.
    Child { name: Vec<u8>, kind: Kind },
    /// To a direct child, with a `?` or `#` in the link that may be part of the name.
    Unclear(Vec<u8>),
    /// To the folder itself.
    Itself,
    /// To the folder in another order (`?C=N;O=D`).
    Sorted,
    /// To another part of the folder (`?page=2`).
    Paged,
    /// To a folder above.
    Above,
    /// To something else.
    Elsewhere,
}

/// The folder that a page is about.
pub(super) struct Folder {
    url: Url,
    /// What links are relative to: the folder, or what `<base>` says.
    base: Url,
    /// Decoded components of the path.
    parts: Vec<Vec<u8>>,
}

impl Folder {
    pub(super) fn new(url: &Url) -> Self {
        Self { parts: components(url).0, base: url.clone(), url: url.clone() }
    }

    /// Takes the address in a `<base>` tag.
    pub(super) fn set_base(&mut self, href: &[u8]) {
        if let Ok(base) = self.url.join(&encoded(href)) {
            self.base = base;
        }
    }

    /// Last component of the path, and the whole decoded path with slashes at both ends.
    pub(super) fn path(&self) -> (Vec<u8>, Vec<u8>) {
        let mut path = b"/".to_vec();
        for part in &self.parts {
            path.extend_from_slice(part);
            path.push(b'/');
        }
        (self.parts.last().cloned().unwrap_or_default(), path)
    }

    /// The host and port of the page.
    pub(super) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default().to_ascii_lowercase();
        self.url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    /// Where a link with this text leads.
    pub(super) fn follow(&self, href: &[u8], text: &Text) -> Leads {
        let href = trimmed_href(href, text);
        if let Some(name) = unencoded_name(href, text) {
            let kind = if href.ends_with(b"/") { Kind::Folder } else { Kind::File };
            return Leads::Child { name, kind };
        }
        let Ok(url) = self.base.join(&encoded(href)) else { return Leads::Elsewhere };
        if url.origin() != self.url.origin() || !url.username().is_empty() {
            return Leads::Elsewhere;
        }
        let (mut parts, is_folder) = components(&url);
        if self.parts.starts_with(&parts) {
            let is_itself = parts.len() == self.parts.len();
            return match url.query() {
                Some(query) if is_itself && is_page(query) => Leads::Paged,
                Some(_) if is_itself => Leads::Sorted,
                _ if is_itself => Leads::Itself,
                _ => Leads::Above,
            };
        }
        let kind = if is_folder { Kind::Folder } else { Kind::File };
        match parts.pop() {
            Some(name) if parts == self.parts => {
                let has_more = url.query().is_some() || url.fragment().is_some();
                if has_more && text.begins_like(&percent_decode(href)) {
                    Leads::Unclear(percent_decode(href))
                } else if url.query().is_some() {
                    Leads::Elsewhere
                } else {
                    Leads::Child { name, kind }
                }
            }
            _ => Leads::Elsewhere,
        }
    }
}

/// Decoded components of a path, empty ones left out, and whether it ends with a slash.
fn components(url: &Url) -> (Vec<Vec<u8>>, bool) {
    let parts = url.path().split('/').filter(|part| !part.is_empty()).map(percent_decode).collect();
    (parts, url.path().ends_with('/'))
}

fn is_page(query: &str) -> bool {
    url::form_urlencoded::parse(query.as_bytes()).any(|(key, value)| {
        let is_number_of_first = matches!(value.as_ref(), "" | "0" | "1");
        PAGE_KEYS.iter().any(|page| key.eq_ignore_ascii_case(page)) && !is_number_of_first
    })
}

/// Blanks around a link do not count, unless the text has them, too.
fn trimmed_href<'a>(href: &'a [u8], text: &Text) -> &'a [u8] {
    if text.parts.iter().any(|part| part == href) { href } else { href.trim_ascii() }
}

/// Some servers write names into links as they are. What looks like a scheme, a query or a fragment then is part of the
/// name, if the text says so.
fn unencoded_name(href: &[u8], text: &Text) -> Option<Vec<u8>> {
    let has_special = href.iter().any(|byte| matches!(byte, b':' | b'?' | b'#'));
    let name = percent_decode(href.strip_suffix(b"/").unwrap_or(href));
    let is_name = has_special && !name.is_empty() && !name.contains(&b'/') && !name.starts_with(b"?");
    (is_name && !name.starts_with(b"#") && text.is_whole(&name)).then_some(name)
}

/// A link in which everything is encoded that URLs do not take literally: other parsers would drop line breaks, turn
/// backslashes around and guess at bytes that are not UTF-8.
fn encoded(href: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(href.len());
    for byte in href {
        match byte {
            0x21..=0x7e if !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'`' | b'{' | b'}' | b'|' | b'^') => {
                out.push(char::from(*byte));
            }
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The text of a link: one part for each element inside it.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) parts: Vec<Vec<u8>>,
    bytes: usize,
}

/// More text inside one link says nothing more.
const TEXT_LIMIT: usize = 2 << 10;

impl Text {
    /// Adds text to the last part.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let room = TEXT_LIMIT.saturating_sub(self.bytes);
        let piece = piece.get(..room).unwrap_or(piece);
        self.bytes += piece.len();
        match self.parts.last_mut() {
            Some(last) => last.extend_from_slice(piece),
            None => self.parts.push(piece.to_vec()),
        }
    }

    /// Begins another part.
    pub(super) fn split(&mut self) {
        if self.parts.last().is_some_and(|last| !last.is_empty()) && self.parts.len() < 16 {
            self.parts.push(Vec::new());
        }
    }

    /// The whole text.
    pub(super) fn all(&self) -> Vec<u8> {
        self.parts.concat()
    }

    /// Number of letters and digits.
    pub(super) fn letters(&self) -> usize {
        String::from_utf8_lossy(&self.all()).chars().filter(|c| c.is_alphanumeric()).count()
    }

    /// The part that is this name, in full or cut; `None` if none is.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.parts
            .iter()
            .position(|part| is_name(part, name))
            .or_else(|| is_name(&self.all(), name).then_some(usize::MAX))
    }

    fn is_whole(&self, name: &[u8]) -> bool {
        let text = |part| trim(part).strip_suffix(b"/").unwrap_or(trim(part));
        self.parts.iter().chain([&self.all()]).any(|part| text(part) == trim(name))
    }

    /// True if the text is the beginning of `name` or all of it.
    fn begins_like(&self, name: &[u8]) -> bool {
        self.parts.iter().chain([&self.all()]).any(|part| {
            let text = without_cut_sign(trim(part));
            text.iter().any(|byte| matches!(byte, b'?' | b'#')) && name.starts_with(text)
        })
    }

    /// True if some part names a folder by a slash at its end.
    pub(super) fn is_folder(&self, name: &[u8]) -> bool {
        self.parts.iter().any(|part| trim(part).strip_suffix(b"/") == Some(name))
    }
}

fn is_name(text: &[u8], name: &[u8]) -> bool {
    let text = trim(text);
    let text = text.strip_suffix(b"/").unwrap_or(text);
    let name = trim(name);
    if text.is_empty() {
        return false;
    }
    let stem = without_cut_sign(text);
    // Some pages show the whole path.
    text == name
        || text.strip_suffix(name).is_some_and(|path| path.starts_with(b"/") && path.ends_with(b"/"))
        || percent_decode(text) == name
        || (stem.len() < text.len() && !stem.is_empty() && name.starts_with(stem))
        || (text.len() >= SHORTEST_CUT && name.starts_with(text))
}

fn without_cut_sign(text: &[u8]) -> &[u8] {
    let cut = CUT_SIGNS.iter().find_map(|sign| text.strip_suffix(sign.as_bytes()));
    cut.unwrap_or(text)
}

/// Without blanks around it, those that HTML writes as `&nbsp;` included.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let mut text = text.trim_ascii();
    loop {
        let shorter =
            text.strip_prefix("\u{a0}".as_bytes()).or_else(|| text.strip_suffix("\u{a0}".as_bytes()));
        match shorter {
            Some(shorter) => text = shorter.trim_ascii(),
            None => return text,
        }
    }
}
