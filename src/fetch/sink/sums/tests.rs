//! Lists as they are found in the wild.

use proptest::prelude::*;

use super::*;

const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
const SHA: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const OTHER: &str = "0a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn sha() -> Said {
    Said::Digest(Digest::from_hex(Algorithm::Sha256, SHA).expect("a digest"))
}

fn parse(text: &str, hint: Option<Algorithm>) -> Sums {
    Sums::parse(text.as_bytes(), hint).expect("a list")
}

#[test]
fn all_usual_shapes_are_read() {
    let upper = SHA.to_uppercase();
    let spaced: Vec<String> = upper.as_bytes().chunks(8).map(|c| String::from_utf8_lossy(c).into()).collect();
    let list = format!(
        "# made by hand\n{SHA}  text.dat\r\n{SHA} *binary.dat\n{SHA}\ttab.dat\nSHA256 (bsd (1).dat) = {SHA}\n\
         \\{SHA}  new\\nline\\\\.dat\n{SHA}  ./sub/file.dat\n{SHA}   blank first\n{upper}  upper.dat\n\
         SHA2-256(openssl.dat)= {SHA}\n12:01:00.gwf: {SHA}\ngpg.dat: {}\n{SHA} one blank.dat\n\
         SHA256 (./dotted) = {SHA}\n; remark\n",
        spaced.join(" ")
    );
    let sums = parse(&list, None);
    for name in [
        "text.dat",
        "binary.dat",
        "tab.dat",
        "bsd (1).dat",
        "new\nline\\.dat",
        "sub/file.dat",
        " blank first",
        "upper.dat",
        "openssl.dat",
        "12:01:00.gwf",
        "gpg.dat",
        "one blank.dat",
        "dotted",
    ] {
        assert_eq!(sums.said_of(name.as_bytes()), sha(), "{name:?}");
    }
    assert_eq!((sums.len(), sums.unused()), (13, 0));
}

#[test]
fn a_byte_order_mark_and_names_that_are_no_text_are_read() {
    let list = [b"\xef\xbb\xbf", SHA.as_bytes(), b"  first\n", SHA.as_bytes(), b"  caf\xe9\n"].concat();
    let sums = Sums::parse(&list, None).expect("a list");
    assert_eq!((sums.said_of(b"first"), sums.said_of(b"caf\xe9")), (sha(), sha()));
}

#[test]
fn a_signed_list_is_read_and_its_signature_is_not() {
    let list = format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# a.iso: 12 bytes\nSHA256 (a.iso) = {SHA}\n\
         - -----a line with dashes\n{SHA}  b\n-----BEGIN PGP SIGNATURE-----\n\n{OTHER}  c\n\
         -----END PGP SIGNATURE-----\n"
    );
    let sums = parse(&list, None);
    assert_eq!(
        (sums.said_of(b"a.iso"), sums.said_of(b"b"), sums.said_of(b"c")),
        (sha(), sha(), Said::Nothing)
    );
    assert_eq!(sums.len(), 2);
}

#[test]
fn a_page_is_not_a_list() {
    for page in ["<!DOCTYPE html><title>404</title>", "\u{feff}\r\n \n<html>", "<?xml version='1.0'?>"] {
        let page = format!("{page}\n<pre>\n{SHA}  x\n</pre>\n");
        assert_eq!(Sums::parse(page.as_bytes(), None), Err(SumsError::Page), "{page}");
    }
    assert!(parse("{\"error\": 404}\n", None).is_empty());
    assert!(parse("", None).is_empty());
}

#[test]
fn digests_of_other_functions_are_counted_and_not_used() {
    let list = format!("{SHA1}  x\nSHA1 (y) = {SHA1}\nRMD160 (z) = {SHA1}\n{MD5}  m\n");
    let sums = parse(&list, Some(Algorithm::Sha256));
    assert!(sums.is_empty() && sums.unused() == 4, "{sums:?}");
    assert_eq!(parse(&list, None).len(), 1, "MD5 is known");
}

#[test]
fn the_strongest_of_several_digests_is_taken() {
    let sums = parse(&format!("MD5 (x) = {MD5}\nSHA256 (x) = {SHA}\n"), None);
    assert_eq!(sums.said_of(b"x"), sha());
    assert_eq!(sums.said_of_only(b"x"), sha(), "two lines about one file");
}

#[test]
fn a_list_about_one_file_may_leave_its_name_out() {
    for bare in
        [format!("{SHA}\n"), format!("{SHA}  -\n"), format!("{SHA} *-"), format!("{SHA}  build/out/f.dat\n")]
    {
        let sums = parse(&bare, Some(Algorithm::Sha256));
        assert_eq!(sums.said_of_only(b"f.dat"), sha(), "{bare}");
        assert_eq!(sums.said_of(b"f.dat"), Said::Nothing, "{bare}");
    }
    for other in [format!("{SHA}  other.dat\n"), format!("{SHA}  a/f.dat\n{SHA}  b/f.dat\n")] {
        assert_eq!(parse(&other, None).said_of_only(b"f.dat"), Said::Nothing, "{other}");
    }
}

#[test]
fn a_name_of_blanks_is_a_name() {
    for name in [" ", "\t", "  ", "\u{a0}", "\u{2003}"] {
        let sums = parse(&format!("{SHA}  {name}\n"), None);
        assert_eq!(sums.said_of(name.as_bytes()), sha(), "{name:?}");
    }
    for blanks in ["", " ", "\t", "  "] {
        let sums = parse(&format!("{SHA}{blanks}\n"), None);
        assert_eq!(sums.said_of_only(b"x"), sha(), "{blanks:?}");
    }
}

#[test]
fn a_file_with_two_digests_is_a_conflict() {
    let sums = parse(&format!("{SHA}  x\n{OTHER}  ./x\n{SHA}  x\n{SHA}  y\n{SHA}  y\n"), None);
    assert_eq!((sums.said_of(b"x"), sums.said_of(b"y")), (Said::Conflict, sha()));
    assert_eq!(parse(&format!("{SHA}\n{OTHER}\n"), None).said_of_only(b"x"), Said::Conflict);
}

#[test]
fn the_lists_name_tells_what_it_is_about() {
    let (sha256, sha512, md5) = (Some(Algorithm::Sha256), Some(Algorithm::Sha512), Some(Algorithm::Md5));
    for (list, about, algorithm) in [
        ("SHA256SUMS", None, sha256),
        ("SHA256SUMS.txt", None, sha256),
        ("sha256sum.txt", None, sha256),
        ("sha256sums.asc", None, sha256),
        ("sha512sums.txt", None, sha512),
        ("SHA256", None, sha256),
        ("MD5SUMS", None, md5),
        ("md5sum.txt", None, md5),
        ("release-1.2.sha256sums", None, sha256),
        ("CHECKSUM", None, None),
        ("checksums.txt", None, None),
        ("Fedora-42-CHECKSUM", None, None),
        ("run-7.gwf.md5", Some("run-7.gwf"), md5),
        ("run-7.GWF.sha256", Some("run-7.GWF"), sha256),
        ("a.iso.sha256sum", Some("a.iso"), sha256),
        ("a.iso.sha512.txt", Some("a.iso"), sha512),
        ("x.b3", Some("x"), Some(Algorithm::Blake3)),
    ] {
        assert_eq!(ListName::of(list), Some(ListName { about, algorithm }), "{list}");
    }
    for other in
        ["README", "sums", "x.gwf", ".md5", "sha1sums", "a.iso.sha256.asc", "lorem.txt", "mychecksum"]
    {
        assert_eq!(ListName::of(other), None, "{other}");
    }
}

#[test]
fn a_list_is_read_in_pieces_of_any_size() {
    let list = format!("{SHA}  a\n\n{SHA}  {}\n{SHA}  b\r\n{SHA}  c", "y".repeat(LONGEST_LINE));
    for size in [1, 7, 4_096, list.len()] {
        let mut reader = SumsReader::new(None);
        for piece in list.as_bytes().chunks(size) {
            reader.push(piece).expect("small");
        }
        let sums = reader.finish().expect("small");
        assert_eq!((sums.len(), sums.said_of(b"b"), sums.said_of(b"c")), (3, sha(), sha()), "{size}");
    }
}

#[test]
fn an_endless_list_is_refused_while_it_is_read() {
    let mut reader = SumsReader::new(None);
    let lines: Vec<String> = (0..1_000).map(|n| format!("{n:0128x}  {n}\n")).collect();
    let piece = lines.concat();
    let failed = (0..2_000).find_map(|_| reader.push(piece.as_bytes()).err());
    assert_eq!(failed, Some(SumsError::TooMany));
    assert!(reader.memory() <= MOST_MEMORY + 1_000);
    let mut reader = SumsReader::new(None);
    let piece = vec![b'x'; 1 << 20];
    let failed = (0..=LARGEST >> 20).find_map(|_| reader.push(&piece).err());
    assert_eq!(failed, Some(SumsError::TooLarge));
}

proptest! {
    #[test]
    fn no_list_makes_it_panic(content in prop::collection::vec(any::<u8>(), 0..400), text in ".{0,200}") {
        for bytes in [content.as_slice(), text.as_bytes()] {
            if let Ok(sums) = Sums::parse(bytes, None) {
                prop_assert!(sums.len() <= bytes.len());
            }
            let _ = ListName::of(&text);
        }
    }

    #[test]
    fn what_md5sum_writes_is_read_back(name in "[^\0/\n]{1,60}", digest in any::<[u8; 16]>(), star in any::<bool>()) {
        prop_assume!(name != "-");
        let escaped = name.replace('\\', "\\\\").replace('\r', "\\r");
        let mark = if escaped == name { "" } else { "\\" };
        let hex = Digest::Md5(digest).to_string();
        let hex = hex.split(':').nth(1).expect("digits");
        let line = format!("{mark}{hex} {}{escaped}\n", if star { '*' } else { ' ' });
        let said = Sums::parse(line.as_bytes(), None).expect("a list").said_of(name.as_bytes());
        prop_assert_eq!(said, Said::Digest(Digest::Md5(digest)));
    }
}
