//! Which answers with a `Content-Encoding` are stored. Called by the connection for every answer that brings bytes.
//!
//! `Accept-Encoding: identity` is sent, so there are two reasons for an encoding. A file that is stored compressed may carry
//! one by its name (Apache's `AddEncoding`, mini-httpd): its bytes are kept as sent, as wget, lftp and rclone do. A server
//! or proxy that compresses on the fly sends other bytes than the file has: an error.

use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use super::redirect::Target;
use crate::fetch::{Address, Fault, escape};

/// Names of a coding, and endings of file names that imply it.
const CODINGS: [(&[&str], &[&str]); 9] = [
    (&["gzip", "x-gzip"], &["gz", "gzip", "tgz", "taz", "svgz", "emz", "wmz", "z"]),
    (&["compress", "x-compress"], &["z", "taz"]),
    (&["bzip2", "x-bzip2", "bzip", "x-bzip", "bz2"], &["bz2", "bz", "tbz", "tbz2"]),
    (&["xz", "x-xz"], &["xz", "txz"]),
    (&["lzma", "x-lzma"], &["lzma", "tlz"]),
    (&["zstd", "x-zstd"], &["zst", "zstd", "tzst"]),
    (&["br", "brotli"], &["br"]),
    (&["lz4", "x-lz4"], &["lz4"]),
    (&["lzip", "x-lzip"], &["lz", "tlz"]),
];

/// Written into the field by mistake (S3 clients do so): the bytes are those of the file.
const NO_CODING: [&str; 8] = ["", "identity", "none", "binary", "7bit", "8bit", "utf-8", "aws-chunked"];

/// Checks the encoding of a file or listing that was asked for at `asked` and answered at `here`.
pub(super) fn check(
    headers: &HeaderMap,
    asked: &Address,
    here: &Address,
    target: Target,
) -> Result<(), Fault> {
    let fields = headers.get_all(CONTENT_ENCODING).iter();
    let fields = fields.map(|value| value.to_str().unwrap_or("unreadable").to_ascii_lowercase());
    let fields = fields.collect::<Vec<_>>().join(",");
    let mut codings = fields.split(',').map(str::trim).filter(|coding| !NO_CODING.contains(coding));
    let Some(coding) = codings.next() else { return Ok(()) };
    let is_single = codings.next().is_none();
    let is_stored = |address: &Address| implies(&address.path(), coding);
    if target == Target::File && is_single && (is_stored(asked) || is_stored(here)) {
        return Ok(());
    }
    let said = escape(&fields);
    Err(Fault::Nonsense(format!(
        "Content-Encoding: {said}, although no encoding was asked for; the bytes are not those of the file"
    )))
}

/// True if an ending in the name stands for this coding. Not only the last one: Apache counts `x.gz.asc` as gzip, too.
fn implies(path: &[u8], coding: &str) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let endings = CODINGS.iter().find(|(names, _)| names.contains(&coding)).map(|(_, endings)| *endings);
    let mut parts = name.split(|byte| *byte == b'.').skip(1);
    parts.any(|part| {
        endings.unwrap_or_default().iter().any(|ending| part.eq_ignore_ascii_case(ending.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn is_stored(name: &str, fields: &[&'static str], target: Target) -> bool {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(field));
        }
        let address = Address::parse(&format!("http://h.gz/x.gz/{name}")).expect("an address").0;
        check(&headers, &address, &address, target).is_ok()
    }

    #[test]
    fn a_compressed_file_is_kept_as_sent_and_nothing_else_is() {
        for (name, coding) in [
            ("a.gz", "gzip"),
            ("a.tar.GZ", "x-gzip"),
            ("a.tgz", "GZip"),
            ("a.gz.asc", "x-gzip"),
            ("a.Z", "compress"),
            ("a.bz2", "x-bzip2"),
            ("a.xz", "xz"),
            ("a.zst", "zstd"),
            ("a.br", "br"),
            ("a.csv", "identity"),
            ("a.csv", "aws-chunked"),
        ] {
            assert!(is_stored(name, &[coding], Target::File), "{name} {coding}");
        }
        for (name, coding) in [
            ("a.csv", "gzip"),
            ("gz", "gzip"),
            ("a.gz", "br"),
            ("a.gz", "gzip, gzip"),
            ("a.gz", "unheard-of"),
        ] {
            assert!(!is_stored(name, &[coding], Target::File), "{name} {coding}");
        }
        assert!(!is_stored("a.gz", &["gzip", "gzip"], Target::File));
        assert!(is_stored("a.gz", &["identity", "gzip"], Target::File));
        assert!(!is_stored("a.gz", &["gzip"], Target::Folder));
    }
}
