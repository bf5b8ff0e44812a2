//! Reads lists of digests as sources publish them: `SHA256SUMS`, `MD5SUMS`, `file.md5`, `file.sha256`.
//!
//! Pure, and bounded: such a list comes from a stranger. Lines that are none are skipped (signatures, remarks), and a
//! name that is there twice with different digests is not answered for.

use std::collections::BTreeMap;

use super::digest::{Algorithm, Digest};

/// The largest list that is read: a million lines of a usual length.
pub const LARGEST: usize = 128 << 20;
/// Longer lines are skipped.
const LONGEST_LINE: usize = 8 << 10;
/// What comes after so many is left out.
const MOST: usize = 1_000_000;

/// Digests by the name that the list gives a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    named: BTreeMap<String, Option<Digest>>,
    nameless: Option<Digest>,
    skipped: usize,
}

impl Sums {
    /// Which function a list is of, by the list's own name; `None` if it does not look like a list of digests.
    pub fn algorithm_of(list: &str) -> Option<Algorithm> {
        let lower = list.to_ascii_lowercase();
        let stem = lower.strip_suffix(".txt").unwrap_or(&lower);
        if let Some(name) = stem.strip_suffix("sums").or_else(|| stem.strip_suffix("sum")) {
            return Algorithm::named(name.trim_end_matches(['-', '_', '.']));
        }
        Algorithm::named(stem.rsplit_once('.')?.1)
    }

    /// Reads a list. Without a hint the function follows from the number of digits.
    pub fn parse(content: &[u8], hint: Option<Algorithm>) -> Self {
        let mut sums = Self::default();
        let content = content.get(..content.len().min(LARGEST)).unwrap_or_default();
        for line in content.split(|byte| *byte == b'\n') {
            sums.read_line(line, hint);
        }
        sums
    }

    /// The digest of a file, by its path relative to the list.
    pub fn digest_of(&self, name: &str) -> Option<Digest> {
        self.named.get(name).copied().flatten()
    }

    /// The digest of the one file that a list such as `file.md5` is about: under its name, or without any name.
    pub fn digest_of_only(&self, name: &str) -> Option<Digest> {
        let bare = || self.named.is_empty().then_some(self.nameless).flatten();
        self.digest_of(name).or_else(bare)
    }

    /// How many files it knows.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether it knows no file by name.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// How many lines made no sense.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    fn read_line(&mut self, line: &[u8], hint: Option<Algorithm>) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            return;
        }
        let text = (line.len() <= LONGEST_LINE).then(|| std::str::from_utf8(line).ok()).flatten();
        match text.and_then(|text| bsd(text).or_else(|| gnu(text, hint))) {
            Some((Some(name), digest)) => self.add(name, digest),
            Some((None, digest)) if self.nameless.is_none_or(|known| known == digest) => {
                self.nameless = Some(digest);
            }
            _ => self.skipped += 1,
        }
    }

    fn add(&mut self, name: String, digest: Digest) {
        let name = name.strip_prefix("./").map(str::to_owned).unwrap_or(name);
        if self.named.len() >= MOST && !self.named.contains_key(&name) {
            self.skipped += 1;
            return;
        }
        let known = self.named.entry(name).or_insert(Some(digest));
        if *known != Some(digest) {
            *known = None;
        }
    }
}

type Line = (Option<String>, Digest);

/// `SHA256 (name) = HEX`; names may contain anything, parentheses too.
fn bsd(line: &str) -> Option<Line> {
    let (line, escaped) = unmarked(line);
    let (function, rest) = line.split_once(" (")?;
    let (name, hex) = rest.rsplit_once(") = ")?;
    let digest = Digest::from_hex(Algorithm::named(function)?, hex.trim_end()).ok()?;
    Some((Some(unescaped(name, escaped)?), digest))
}

/// `HEX  name`, `HEX *name`, or only `HEX`.
fn gnu(line: &str, hint: Option<Algorithm>) -> Option<Line> {
    let (line, escaped) = unmarked(line);
    let digits = line.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(line.len());
    let (hex, rest) = line.split_at_checked(digits)?;
    let digest = Digest::from_hex(function_of(digits, hint)?, hex).ok()?;
    // A blank and a marker with no name behind them; more blanks than these are a name, as for md5sum.
    if matches!(rest, "" | " " | "\t" | "  ") {
        return Some((None, digest));
    }
    // One blank and a marker: blank for text, star for binary. Some writers leave the marker out, or use a tab.
    let rest = rest.strip_prefix([' ', '\t'])?;
    let name = rest.strip_prefix([' ', '*']).unwrap_or(rest);
    Some((Some(unescaped(name, escaped)?), digest))
}

/// A backslash at the start of a line says that its name is escaped.
fn unmarked(line: &str) -> (&str, bool) {
    line.strip_prefix('\\').map_or((line, false), |rest| (rest, true))
}

fn function_of(digits: usize, hint: Option<Algorithm>) -> Option<Algorithm> {
    match (digits, hint) {
        (32, None | Some(Algorithm::Md5)) => Some(Algorithm::Md5),
        (64, Some(Algorithm::Blake3)) => Some(Algorithm::Blake3),
        (64, None | Some(Algorithm::Sha256)) => Some(Algorithm::Sha256),
        (128, None | Some(Algorithm::Sha512)) => Some(Algorithm::Sha512),
        _ => None,
    }
}

fn unescaped(name: &str, escaped: bool) -> Option<String> {
    if name.is_empty() || !escaped {
        return (!name.is_empty()).then(|| name.to_owned());
    }
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const SHA: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn sha() -> Option<Digest> {
        Digest::from_hex(Algorithm::Sha256, SHA).ok()
    }

    #[test]
    fn all_usual_shapes_are_read() {
        let list = format!(
            "# made by hand\n{SHA}  text.dat\r\n{SHA} *binary.dat\n{SHA}\ttab.dat\nSHA256 (bsd (1).dat) = {SHA}\n\
             \\{SHA}  new\\nline\\\\.dat\n{SHA}  ./sub/file.dat\n{SHA}   blank first\n-----BEGIN PGP SIGNATURE-----\n"
        );
        let sums = Sums::parse(list.as_bytes(), None);
        for name in [
            "text.dat",
            "binary.dat",
            "tab.dat",
            "bsd (1).dat",
            "new\nline\\.dat",
            "sub/file.dat",
            " blank first",
        ] {
            assert_eq!(sums.digest_of(name), sha(), "{name:?}");
        }
        assert_eq!((sums.len(), sums.skipped()), (7, 1));
    }

    #[test]
    fn a_list_about_one_file_may_leave_its_name_out() {
        let bare = Sums::parse(format!("{SHA}\n").as_bytes(), Some(Algorithm::Sha256));
        assert_eq!(bare.digest_of_only("anything"), sha());
        assert_eq!(bare.digest_of("anything"), None);
        let named = Sums::parse(format!("{SHA}  other.dat\n").as_bytes(), None);
        assert_eq!(named.digest_of_only("file.dat"), None);
    }

    #[test]
    fn a_name_of_blanks_is_a_name() {
        for name in [" ", "\t", "  ", "\u{a0}", "\u{2003}"] {
            let sums = Sums::parse(format!("{SHA}  {name}\n").as_bytes(), None);
            assert_eq!((sums.digest_of(name), sums.len()), (sha(), 1), "{name:?}");
        }
        for blanks in ["", " ", "\t", "  "] {
            let sums = Sums::parse(format!("{SHA}{blanks}\n").as_bytes(), None);
            assert_eq!((sums.digest_of_only("x"), sums.len()), (sha(), 0), "{blanks:?}");
        }
    }

    #[test]
    fn a_name_with_two_digests_is_not_answered_for() {
        let other = SHA.replace('b', "c");
        let sums =
            Sums::parse(format!("{SHA}  x\n{other}  x\n{SHA}  x\n{SHA}  y\n{SHA}  y\n").as_bytes(), None);
        assert_eq!(sums.digest_of("x"), None);
        assert_eq!(sums.digest_of("y"), sha());
    }

    #[test]
    fn the_lists_name_tells_the_function() {
        for (list, algorithm) in [
            ("SHA256SUMS", Some(Algorithm::Sha256)),
            ("sha512sums.txt", Some(Algorithm::Sha512)),
            ("MD5SUMS", Some(Algorithm::Md5)),
            ("md5sum.txt", Some(Algorithm::Md5)),
            ("run-7.gwf.md5", Some(Algorithm::Md5)),
            ("run-7.gwf.sha256", Some(Algorithm::Sha256)),
            ("x.b3", Some(Algorithm::Blake3)),
            ("README", None),
            ("sums", None),
            ("x.gwf", None),
        ] {
            assert_eq!(Sums::algorithm_of(list), algorithm, "{list}");
        }
        let wrong = Sums::parse(format!("{MD5}  x\n").as_bytes(), Some(Algorithm::Sha256));
        assert!(wrong.is_empty() && wrong.skipped() == 1);
    }

    #[test]
    fn endless_lines_are_skipped() {
        let list = format!("{SHA}  {}\n{SHA}  x\n", "y".repeat(LONGEST_LINE));
        let sums = Sums::parse(list.as_bytes(), None);
        assert_eq!((sums.len(), sums.skipped()), (1, 1));
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(content in prop::collection::vec(any::<u8>(), 0..400), text in ".{0,200}") {
            for bytes in [content.as_slice(), text.as_bytes()] {
                let sums = Sums::parse(bytes, None);
                prop_assert!(sums.len() + sums.skipped() <= bytes.len());
            }
        }

        #[test]
        fn what_md5sum_writes_is_read_back(name in "[^\0/\n]{1,60}", digest in any::<[u8; 16]>(), star in any::<bool>()) {
            let escaped = name.replace('\\', "\\\\").replace('\r', "\\r");
            let mark = if escaped == name { "" } else { "\\" };
            let hex = Digest::Md5(digest).to_string();
            let hex = hex.split(':').nth(1).expect("digits");
            let line = format!("{mark}{hex} {}{escaped}\n", if star { '*' } else { ' ' });
            prop_assert_eq!(Sums::parse(line.as_bytes(), None).digest_of(&name), Some(Digest::Md5(digest)));
        }
    }
}
