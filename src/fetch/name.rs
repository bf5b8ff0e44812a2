//! One component of a path that is safe to create below a folder.
//!
//! Only such a name gets near the disk: no path traversal, no separator of this platform, no control or invisible
//! character, nothing longer than a file system takes. Everything else that Linux and macOS accept is accepted; the
//! stricter rule of `--portable-names` is [`Name::check_portable`].
//!
//! Names are bytes on disk and in URLs. [`Name::as_str`] is text, for keys, filters and JSON: each byte that is not part of
//! valid UTF-8 is mapped to the private code point U+10FF00 + byte. The bytes of a code point U+10FF00..=U+10FFFF that
//! occurs in the input itself are mapped the same way, so the mapping is reversible.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use unicode_normalization::UnicodeNormalization as _;

use super::fault::is_harmless;

/// The longest name that common file systems take, in bytes.
const LONGEST: usize = 255;

/// The longest name by the portable rule: leaves room for short endings that other tools append.
const LONGEST_PORTABLE: usize = 250;

/// Ending of temporary files. Reserved: an entry of a listing that ends like this is rejected, so a temporary file never
/// collides with a replica, not even with one that is called `NAME.part`.
pub const PART_ENDING: &str = ".stroll.part";

/// Ending of temporary files whose name had to be shortened; apart from the other one so that both never meet.
const LONG_PART_ENDING: &str = ".stroll-long.part";

/// Code point of byte 0 in the mapping of bytes that are not UTF-8.
const FIRST_MAPPED: u32 = 0x10_ff00;

/// Why a name is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing, `.` or `..`.
    #[error("not a name")]
    NotAName,
    /// A path separator; with `--portable-names` that of any platform: `/`, `\` or `:`.
    #[error("a name with a separator")]
    Separator,
    /// A control character or an invisible one.
    #[error("a name with invisible characters")]
    Invisible,
    /// `CON`, `NUL` and their like, with `--portable-names`.
    #[error("a device's name on some machines")]
    Device,
    /// A dot or space at the end or a space at the start, which some machines drop; with `--portable-names`.
    #[error("a name that ends in a dot or a blank")]
    Ending,
    /// Longer than file systems take.
    #[error("a name that is too long")]
    TooLong,
    /// A hidden name, where those were not asked for.
    #[error("a hidden name")]
    Hidden,
    /// The same name twice in one folder, or two that the target's file system does not distinguish.
    #[error("the same name as another one's")]
    Twice,
    /// Bytes that are not UTF-8, where text is needed: with `--portable-names`, or in an FTP command.
    #[error("a name that is not UTF-8 text")]
    NotText,
    /// A link of an index page that cannot be told from the name of another file: `?` or `#` is not encoded.
    #[error("a name that the index page does not encode")]
    NotEncoded,
    /// The ending of our own temporary files.
    #[error("a name reserved for temporary files")]
    Reserved,
}

/// A safe name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks a name that is text.
    pub fn new(name: &str) -> Result<Self, NameError> {
        Self::from_bytes(name.as_bytes())
    }

    /// Checks a name as a source or a folder has it.
    pub fn from_bytes(name: &[u8]) -> Result<Self, NameError> {
        if name.is_empty() || name == b"." || name == b".." {
            return Err(NameError::NotAName);
        }
        if name.contains(&b'/') {
            return Err(NameError::Separator);
        }
        if name.len() > LONGEST {
            return Err(NameError::TooLong);
        }
        let mapped = map(name);
        if !mapped.chars().all(is_visible) {
            return Err(NameError::Invisible);
        }
        Ok(Self(mapped))
    }

    /// Reads back the text that [`as_str`](Self::as_str) gave, such as a part of a manifest's key.
    pub fn from_key(key: &str) -> Result<Self, NameError> {
        Self::from_bytes(&unmap(key))
    }

    /// The name whose checked text [`as_str`](Self::as_str) gave before.
    pub(super) fn from_mapped(text: &str) -> Self {
        debug_assert!(Self::from_key(text).is_ok(), "{text:?} was not checked");
        Self(text.to_owned())
    }

    /// The name as text, bytes that are not UTF-8 mapped.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the disk and the source have it.
    pub fn to_bytes(&self) -> Vec<u8> {
        unmap(&self.0)
    }

    /// The name as the disk has it.
    pub fn to_os_string(&self) -> OsString {
        OsString::from_vec(self.to_bytes())
    }

    /// Whether it is valid UTF-8, so that [`as_str`](Self::as_str) is the name itself.
    pub fn is_text(&self) -> bool {
        !self.0.chars().any(is_mapped)
    }

    /// Whether it starts with a dot.
    pub fn is_hidden(&self) -> bool {
        self.0.starts_with('.')
    }

    /// Whether it is the name of one of our temporary files.
    pub fn is_temporary(&self) -> bool {
        let bytes = self.0.as_bytes();
        [PART_ENDING, LONG_PART_ENDING].iter().any(|ending| {
            bytes
                .len()
                .checked_sub(ending.len())
                .and_then(|at| bytes.get(at..))
                .is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
        })
    }

    /// The name of the temporary file in which this one is pulled. It always fits: a long name is shortened, and told from
    /// others by its hash.
    pub fn part_name(&self) -> OsString {
        let own = self.to_bytes();
        if own.len() + PART_ENDING.len() <= LONGEST {
            let mut part = OsString::from_vec(own);
            part.push(PART_ENDING);
            return part;
        }
        let hash = blake3::hash(&own).to_hex();
        let ending = format!(".{}{LONG_PART_ENDING}", hash.get(..16).unwrap_or_default());
        let mut stem = Vec::new();
        for c in self.0.chars() {
            let next = unmap(c.encode_utf8(&mut [0; 4]));
            if stem.len() + next.len() + ending.len() > LONGEST {
                break;
            }
            stem.extend(next);
        }
        stem.extend_from_slice(ending.as_bytes());
        OsString::from_vec(stem)
    }

    /// The strict rule of `--portable-names`: a name that every platform can hold, unchanged.
    pub fn check_portable(&self) -> Result<(), NameError> {
        if !self.is_text() {
            return Err(NameError::NotText);
        }
        if self.0.contains(['\\', ':']) {
            return Err(NameError::Separator);
        }
        if self.0.ends_with(['.', ' ']) || self.0.starts_with(' ') {
            return Err(NameError::Ending);
        }
        if self.0.len() > LONGEST_PORTABLE {
            return Err(NameError::TooLong);
        }
        if is_device(&self.0) { Err(NameError::Device) } else { Ok(()) }
    }

    /// A text that is equal for names that differ only in case or Unicode composition.
    pub fn folded(&self) -> String {
        self.0.nfkc().flat_map(char::to_lowercase).nfkc().collect()
    }
}

/// Bytes that are not UTF-8 are shown as `\xE9`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// A text made of names, such as a manifest's key, for people: mapped bytes as `\xE9`.
pub fn shown(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for c in key.chars() {
        match mapped_byte(c) {
            // Writing to a String cannot fail.
            Some(byte) => drop(write!(out, "\\x{byte:02X}")),
            None => out.push(c),
        }
    }
    out
}

/// The path on disk of names joined by slashes, such as a manifest's key.
pub fn disk_path(key: &str) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&unmap(key)).to_owned())
}

fn mapped_byte(c: char) -> Option<u8> {
    u32::from(c).checked_sub(FIRST_MAPPED).and_then(|byte| u8::try_from(byte).ok())
}

fn is_mapped(c: char) -> bool {
    mapped_byte(c).is_some()
}

/// C1 control bytes that are not part of UTF-8 are ordinary bytes of other encodings; only ASCII controls are dangerous
/// there, and those are always valid UTF-8.
fn is_visible(c: char) -> bool {
    is_mapped(c) || is_harmless(c)
}

fn map(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let push_bytes = |text: &mut String, bytes: &[u8]| {
        text.extend(bytes.iter().filter_map(|byte| char::from_u32(FIRST_MAPPED + u32::from(*byte))));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_mapped(c) {
                push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

fn unmap(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match mapped_byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    if matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") {
        return true;
    }
    ["COM", "LPT"].iter().filter_map(|port| stem.strip_prefix(port)).any(|number| {
        let mut chars = number.chars();
        matches!((chars.next(), chars.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_way_out_of_the_folder_is_refused() {
        for (name, why) in [
            ("", NameError::NotAName),
            (".", NameError::NotAName),
            ("..", NameError::NotAName),
            ("../x", NameError::Separator),
            ("/etc/passwd", NameError::Separator),
            ("a\0b", NameError::Invisible),
            ("a\r\nDELE b", NameError::Invisible),
            ("\u{1b}[2J", NameError::Invisible),
            ("a\u{9b}b", NameError::Invisible),
            ("a\u{202e}b", NameError::Invisible),
        ] {
            assert_eq!(Name::new(name), Err(why), "{name:?}");
        }
        assert_eq!(Name::new(&"x".repeat(256)), Err(NameError::TooLong));
    }

    #[test]
    fn names_that_people_use_are_kept() {
        let long = "x".repeat(255);
        for name in [
            "a",
            "frame-2026-11-18T12:01:00.gwf",
            ".hidden",
            "Ümläut 漢字.dat",
            "a b",
            " a ",
            "a.",
            "...",
            "a\\b",
            "CON",
            "x.part",
            "~x",
            "-rf",
            "\u{10ff00}\u{10ffff}",
            &long,
        ] {
            let kept = Name::new(name).expect(name);
            assert_eq!(kept.to_bytes(), name.as_bytes());
            assert_eq!(Name::from_key(kept.as_str()), Ok(kept));
        }
    }

    #[test]
    fn the_portable_rule_rejects_names_that_other_platforms_cannot_hold() {
        let check = |name: &str| Name::new(name).expect(name).check_portable();
        for (name, why) in [
            ("a\\b", NameError::Separator),
            ("file:stream", NameError::Separator),
            ("x.", NameError::Ending),
            ("x ", NameError::Ending),
            (" x", NameError::Ending),
            ("con", NameError::Device),
            ("NUL.txt", NameError::Device),
            ("com1.tar.gz", NameError::Device),
            ("LPT²", NameError::Device),
            ("conin$", NameError::Device),
            (&"x".repeat(251), NameError::TooLong),
        ] {
            assert_eq!(check(name), Err(why), "{name:?}");
        }
        for name in ["com10", "console", "x..y", "Ümläut", ".hidden"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        assert_eq!(Name::from_bytes(b"caf\xe9").expect("a name").check_portable(), Err(NameError::NotText));
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_and_shown_as_escapes() {
        let name = Name::from_bytes(b"caf\xe9.dat").expect("a name");
        assert_eq!(name.to_bytes(), b"caf\xe9.dat");
        assert_eq!(name.to_string(), "caf\\xE9.dat");
        assert!(!name.is_text());
        assert_ne!(name, Name::new("caf\u{10ffe9}.dat").expect("a name"));
        assert_eq!(disk_path(name.as_str()).as_os_str().as_bytes(), b"caf\xe9.dat");
    }

    #[test]
    fn temporary_names_fit_are_recognised_and_meet_no_other() {
        let long = |last: &str| Name::new(&format!("{}{last}", "漢".repeat(84))).expect("a name");
        let names = [
            Name::new("x").expect("a name"),
            Name::new("x.part").expect("a name"),
            Name::new(&"y".repeat(243)).expect("a name"),
            Name::new(&"y".repeat(244)).expect("a name"),
            Name::new(&"y".repeat(255)).expect("a name"),
            Name::from_bytes(&[0xe9; 255]).expect("a name"),
            long("abc"),
            long("abd"),
        ];
        let parts: std::collections::BTreeSet<_> = names.iter().map(Name::part_name).collect();
        assert_eq!(parts.len(), names.len());
        for part in &parts {
            assert!(part.len() <= 255);
            assert!(Name::from_bytes(part.as_bytes()).expect("a name").is_temporary(), "{part:?}");
        }
        assert!(names.iter().all(|name| !name.is_temporary()));
        assert_eq!(names.first().map(Name::part_name), Some("x.stroll.part".into()));
    }

    #[test]
    fn twins_fold_to_one() {
        let fold = |name| Name::new(name).expect(name).folded();
        assert_eq!(fold("README"), fold("readme"));
        assert_eq!(fold("\u{e9}"), fold("e\u{301}"));
        assert_ne!(fold("a"), fold("b"));
    }

    proptest! {
        #[test]
        fn a_name_stays_one_component_below_its_folder(bytes in any::<Vec<u8>>()) {
            if let Ok(name) = Name::from_bytes(&bytes) {
                prop_assert_eq!(name.to_bytes(), bytes);
                prop_assert_eq!(Name::from_key(name.as_str()), Ok(name.clone()));
                let joined = std::path::Path::new("folder").join(name.to_os_string());
                prop_assert_eq!(joined.parent(), Some(std::path::Path::new("folder")));
                prop_assert_eq!(joined.components().count(), 2);
            }
        }
    }
}
