//! The index of nginx with `autoindex_format json`.

use serde::Deserialize;

use super::super::fault::escape;
use super::super::{Fault, Listing};
use super::{Collector, Found, Kind, When};

#[derive(Deserialize)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    mtime: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

/// Reads a whole index.
pub fn parse(page: &[u8], hidden: bool) -> Result<Listing, Fault> {
    let items: Vec<Item> = serde_json::from_slice(page)
        .map_err(|error| Fault::Nonsense(escape(&format!("an index that cannot be read: {error}"))))?;
    let mut collector = Collector::new(hidden);
    for item in &items {
        let kind = match item.kind.as_str() {
            "file" => Kind::File,
            "directory" => Kind::Folder,
            _ => Kind::Other,
        };
        let when = item.mtime.as_deref().and_then(http_date).map_or(When::Unknown, When::Utc);
        let size = item.size.filter(|size| i64::try_from(*size).is_ok());
        collector.add(&Found { name: item.name.as_bytes(), kind, size, when });
    }
    Ok(collector.finish(None))
}

fn http_date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::{EntryKind, NameError};
    use super::*;

    #[test]
    fn an_index_of_nginx_is_read() {
        let page = br#"[
            { "name":"sub", "type":"directory", "mtime":"Wed, 01 Jan 2025 00:00:00 GMT" },
            { "name":"a b", "type":"file", "mtime":"Wed, 01 Jan 2025 00:00:01 GMT", "size":12 },
            { "name":"pipe", "type":"other", "mtime":"Wed, 01 Jan 2025 00:00:00 GMT" },
            { "name":"../x", "type":"file", "size":1 }
        ]"#;
        let listing = parse(page, false).expect("an index");
        let found = listing
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind, entry.size, entry.modified_s));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("a b", EntryKind::File, Some(12), Some(1_735_689_601)),
                ("sub", EntryKind::Folder, None, Some(1_735_689_600)),
            ]
        );
        assert_eq!(listing.refused, [("../x".to_owned(), NameError::Separator)]);
    }

    #[test]
    fn what_is_no_index_is_a_fault() {
        for page in [
            &b""[..],
            b"{}",
            b"[{\"name\":1}]",
            b"[{\"name\":\"a\",\"type\":\"file\",\"size\":-1}]",
            b"<html>",
        ] {
            assert!(matches!(parse(page, false), Err(Fault::Nonsense(_))), "{page:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, false);
        }
    }
}
