//! Index pages of nginx, Apache (plain, fancy, table) and lighttpd.
//!
//! Only links count, and of those only the ones that lead to a direct child of the folder. What a link leads to is the
//! name; the text that people see is often cut. Behind the link, up to the next one, may stand a date and a size. The
//! date has no zone, so it only tells whether it is another one than before; the size is used where it is written to the byte:
//! digits and nothing else.

use html5gum::{Token, Tokenizer};
use url::Url;

use super::super::Listing;
use super::super::address::percent_decode;
use super::times::{clock, date, seconds, size};
use super::{Collector, Found, Kind, When};

/// More text behind a link than this says nothing about it.
const TAIL_LIMIT: usize = 256;

/// Reads a whole page; `folder` is its address.
pub fn parse(page: &[u8], folder: &Url, hidden: bool) -> Listing {
    let mut reader =
        Reader { folder, collector: Collector::new(hidden), child: None, in_link: false, ended: false };
    let text = String::from_utf8_lossy(page);
    for Ok(token) in Tokenizer::new(text.as_ref()) {
        reader.take(&token);
    }
    reader.settle();
    // Every server closes what it opened: a page without its end was cut.
    if !reader.ended {
        reader.collector.mark_truncated();
    }
    reader.collector.finish(None)
}

struct Child {
    name: Vec<u8>,
    kind: Kind,
    /// What stands behind the link.
    tail: String,
}

struct Reader<'a> {
    folder: &'a Url,
    collector: Collector,
    child: Option<Child>,
    in_link: bool,
    ended: bool,
}

impl Reader<'_> {
    fn take(&mut self, token: &Token) {
        match token {
            Token::StartTag(tag) if tag.name.as_slice() == b"a" => {
                let href = tag.attributes.get(&b"href"[..]);
                self.begin(href.map(|href| String::from_utf8_lossy(href).into_owned()));
            }
            Token::EndTag(tag) => match tag.name.as_slice() {
                b"a" => self.in_link = false,
                b"tr" | b"li" => self.settle(),
                b"html" | b"body" => self.ended = true,
                _ => self.write(" "),
            },
            Token::StartTag(_) => self.write(" "),
            Token::String(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.write(&text);
            }
            _ => {}
        }
    }

    fn begin(&mut self, href: Option<String>) {
        let child = href.and_then(|href| child(self.folder, &href));
        // A picture and a name that lead to the same place are one entry.
        let same = match (&self.child, &child) {
            (Some(before), Some(now)) => before.name == now.name && before.kind == now.kind,
            _ => false,
        };
        if !same {
            self.settle();
            self.child = child;
        }
        self.in_link = true;
    }

    fn write(&mut self, text: &str) {
        if let (false, Some(child)) = (self.in_link, &mut self.child)
            && child.tail.len() < TAIL_LIMIT
        {
            child.tail.extend(text.chars().take(TAIL_LIMIT));
        }
    }

    fn settle(&mut self) {
        if let Some(Child { name, kind, tail }) = self.child.take() {
            let (when, size) = date_and_size(&tail);
            self.collector.add(&Found { name: &name, kind, size, when });
        }
    }
}

/// The child of the folder that a link leads to, if it leads to one.
fn child(folder: &Url, href: &str) -> Option<Child> {
    let url = folder.join(href).ok()?;
    if url.origin() != folder.origin() || url.query().is_some() || !url.username().is_empty() {
        return None;
    }
    let parents = folder.path_segments()?.filter(|part| !part.is_empty()).map(percent_decode);
    let mut parts = url.path_segments()?.map(percent_decode).collect::<Vec<_>>();
    let kind = if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
        Kind::Folder
    } else {
        Kind::File
    };
    let name = parts.pop()?;
    // The folder itself and its ancestors have no part to pop beyond those of the folder.
    (parts.into_iter().filter(|part| !part.is_empty()).eq(parents)).then_some(())?;
    Some(Child { name, kind, tail: String::new() })
}

/// The date, and the size behind it if that is all digits.
fn date_and_size(tail: &str) -> (When, Option<u64>) {
    let mut words = tail.split_whitespace();
    let mut day = None;
    while let Some(word) = words.next() {
        if let Some(time) = clock(word.as_bytes()) {
            let when = day.and_then(|day| seconds(day, time)).map_or(When::Unknown, When::Roughly);
            return (when, words.next().and_then(|word| size(word.as_bytes())));
        }
        day = date(word.as_bytes());
    }
    (When::Unknown, None)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::super::super::{EntryKind, NameError};
    use super::*;

    fn read(page: &str) -> Listing {
        parse(page.as_bytes(), &Url::parse("http://h/pub/").expect("a URL"), false)
    }

    fn seen(listing: &Listing) -> Vec<(&str, bool, Option<u64>)> {
        listing
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind == EntryKind::Folder, entry.size))
            .collect()
    }

    const EXPECTED: [(&str, bool, Option<u64>); 3] =
        [("a b.dat", false, Some(1_234)), ("big", false, Some(5)), ("sub", true, None)];

    #[test]
    fn a_page_of_nginx_is_read() {
        let listing = read(
            "<html>\r\n<head><title>Index of /pub/</title></head>\r\n<body>\r\n<h1>Index of /pub/</h1><hr><pre>\
             <a href=\"../\">../</a>\r\n\
             <a href=\"sub/\">sub/</a>                  16-Nov-2026 07:43                   -\r\n\
             <a href=\"a%20b.dat\">a b.dat</a>          16-Nov-2026 07:43                1234\r\n\
             <a href=\"big\">big</a>                    16-Nov-2026 07:43                   5\r\n\
             </pre><hr></body>\r\n</html>\r\n",
        );
        assert_eq!(seen(&listing), EXPECTED);
        assert!(listing.entries.iter().all(|entry| entry.modified_s.is_none()) && !listing.truncated);
    }

    #[test]
    fn a_table_of_apache_is_read() {
        let listing = read(
            "<html><body><table>\
             <tr><th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">Last modified</a></th></tr>\
             <tr><td><a href=\"/\">Parent Directory</a></td><td>&nbsp;</td><td align=\"right\">  - </td></tr>\
             <tr><td><a href=\"a%20b.dat\"><img src=\"/i\"></a></td><td><a href=\"a%20b.dat\">a b..&gt;</a></td><td align=\"right\">2026-11-16 07:43  </td><td align=\"right\">1234</td><td>&nbsp;</td></tr>\
             <tr><td><a href=\"big\">big</a></td><td align=\"right\">2026-11-16 07:43  </td><td align=\"right\">  5 </td><td>&nbsp;</td></tr>\
             <tr><td><a href=\"sub/\">sub/</a></td><td align=\"right\">2026-11-16 07:43  </td><td align=\"right\">  - </td><td>&nbsp;</td></tr>\
             </table></body></html>",
        );
        assert_eq!(seen(&listing), EXPECTED);
        let rounded = read("<body><pre><a href=\"x\">x</a> 2026-11-16 07:43  1.2M</pre></body>");
        assert_eq!(seen(&rounded), [("x", false, None)]);
    }

    #[test]
    fn a_plain_list_of_apache_and_a_page_of_lighttpd_are_read() {
        let plain = read(
            "<ul><li><a href=\"/pub/\"> Parent</a></li><li><a href=\"a\"> a</a></li></ul></body></html>",
        );
        assert_eq!(seen(&plain), [("a", false, None)]);
        let lighttpd = read(
            "<html><body><table><tbody>\
             <tr class=\"d\"><td class=\"n\"><a href=\"../\">..</a>/</td><td class=\"m\">&nbsp;</td><td class=\"s\">- &nbsp;</td></tr>\
             <tr class=\"d\"><td class=\"n\"><a href=\"sub/\">sub</a>/</td><td class=\"m\">2026-Nov-16 07:43:00</td><td class=\"s\">- &nbsp;</td></tr>\
             <tr><td class=\"n\"><a href=\"a\">a</a></td><td class=\"m\">2026-Nov-16 07:43:00</td><td class=\"s\">1.2K</td></tr>\
             </tbody></table></body></html>",
        );
        assert_eq!(seen(&lighttpd), [("a", false, None), ("sub", true, None)]);
    }

    #[test]
    fn links_that_lead_elsewhere_are_no_entries() {
        for href in [
            "http://evil/pub/x",
            "https://h/pub/x",
            "//evil/x",
            "/x",
            "../x",
            "x/y",
            "?C=N",
            "x?y",
            "#top",
            "",
            "mailto:a@b",
            "javascript:alert(1)",
            "ftp://h/pub/x",
            "http://u@h/pub/x",
            "./",
            ".",
            "..",
            "/pub",
            "%2e%2e/",
        ] {
            let listing = read(&format!("<a href=\"{href}\">x</a></body>"));
            assert_eq!((listing.entries.len(), listing.refused.len()), (0, 0), "{href}");
        }
        for href in ["x", "./x", "/pub/x", "http://h/pub/x", "//h/pub/x", "/%70ub/x", "x#top"] {
            assert_eq!(
                seen(&read(&format!("<a href=\"{href}\">y</a></body>"))),
                [("x", false, None)],
                "{href}"
            );
        }
    }

    #[test]
    fn encoded_tricks_are_refused_by_name() {
        for (href, why) in [
            ("%2e%2e%2fx", NameError::Separator),
            ("a%5cb", NameError::Separator),
            ("a%0d%0ab", NameError::Invisible),
            ("caf%e9", NameError::NotText),
            (".ssh/", NameError::Hidden),
        ] {
            let listing = read(&format!("<a href=\"{href}\">x</a></body>"));
            assert_eq!(listing.refused.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [why], "{href}");
        }
    }

    #[test]
    fn a_page_without_its_end_is_not_complete() {
        assert!(read("<html><body><pre><a href=\"a\">a</a> 16-Nov-2026 07:43 12").truncated);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes, &Url::parse("http://h/pub/").expect("a URL"), false);
        }

        #[test]
        fn any_tags_are_read_without_harm(page in "(<a href=[\"'x/.%2ef]{0,9}>|</a>|<td>|</tr>|[0-9: ]{1,6}|<){0,30}") {
            let _ = read(&page);
        }

        #[test]
        fn what_was_written_is_read(names in proptest::collection::btree_set("[a-z][a-z0-9 äß%?#&\"<]{0,12}[a-z]", 0..20), size in 0u64..1 << 40) {
            let folder = Url::parse("http://h/pub/").expect("a URL");
            let mut page = String::from("<html><pre>");
            for name in &names {
                let mut url = folder.clone();
                url.path_segments_mut().expect("a base").pop_if_empty().push(name);
                let href = url.path().rsplit('/').next().unwrap_or_default().replace('&', "&amp;");
                write!(page, "<a href=\"{href}\">…</a>  16-Nov-2026 07:43  {size}\r\n").expect("a String takes all");
            }
            page.push_str("</pre></html>");
            let listing = read(&page);
            let expected = names.iter().map(|name| (name.as_str(), false, Some(size))).collect::<Vec<_>>();
            prop_assert_eq!(seen(&listing), expected);
        }
    }
}
