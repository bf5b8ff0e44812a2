//! One component of a path that is safe to create on every machine.
//!
//! Whatever a listing or a URL says, only such a name ever gets near the disk: no way up, no separator of any
//! platform, no device, nothing invisible, nothing too long.

use std::fmt;

use unicode_normalization::UnicodeNormalization as _;

use super::fault::is_harmless;

/// The longest name that common file systems take, in bytes.
const LONGEST: usize = 255;

/// Room that a name must leave for the ending of its partial file.
pub const PART_ENDING: &str = ".part";

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing, `.` or `..`.
    #[error("not a name")]
    NotAName,
    /// A separator of some platform: `/`, `\` or `:`.
    #[error("a name with a separator")]
    Separator,
    /// A control character or an invisible one.
    #[error("a name with invisible characters")]
    Invisible,
    /// `CON`, `NUL` and their like.
    #[error("a device's name on some machines")]
    Device,
    /// A dot or blank at the end, which some machines drop: two names would become one.
    #[error("a name that ends in a dot or a blank")]
    Ending,
    /// Longer than file systems take.
    #[error("a name that is too long")]
    TooLong,
    /// A hidden name, where those were not asked for.
    #[error("a hidden name")]
    Hidden,
    /// The same name twice in one folder, or two that are the same on some machines.
    #[error("the same name as another one's")]
    Twice,
    /// Bytes that are no text.
    #[error("a name that is no text")]
    NotText,
}

/// A safe name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name == "." || name == ".." {
            return Err(NameError::NotAName);
        }
        if name.contains(['/', '\\', ':']) {
            return Err(NameError::Separator);
        }
        if !name.chars().all(is_harmless) {
            return Err(NameError::Invisible);
        }
        if name.ends_with(['.', ' ']) || name.starts_with(' ') {
            return Err(NameError::Ending);
        }
        if name.len() > LONGEST - PART_ENDING.len() {
            return Err(NameError::TooLong);
        }
        if is_device(name) {
            return Err(NameError::Device);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it starts with a dot.
    pub fn is_hidden(&self) -> bool {
        self.0.starts_with('.')
    }

    /// What two names have in common that are one and the same on a machine that does not tell case or composition.
    pub fn folded(&self) -> String {
        self.0.nfkc().flat_map(char::to_lowercase).nfkc().collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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
            ("a\\b", NameError::Separator),
            ("C:evil", NameError::Separator),
            ("file:stream", NameError::Separator),
            ("a\0b", NameError::Invisible),
            ("a\r\nDELE b", NameError::Invisible),
            ("\u{1b}[2J", NameError::Invisible),
            ("a\u{202e}b", NameError::Invisible),
            ("x.", NameError::Ending),
            ("x ", NameError::Ending),
            ("con", NameError::Device),
            ("NUL.txt", NameError::Device),
            ("com1.tar.gz", NameError::Device),
            ("LPT²", NameError::Device),
            ("conin$", NameError::Device),
        ] {
            assert_eq!(Name::new(name), Err(why), "{name:?}");
        }
        assert_eq!(Name::new(&"x".repeat(251)), Err(NameError::TooLong));
    }

    #[test]
    fn names_that_people_use_are_kept() {
        for name in [
            "a",
            "frame-0001.gwf",
            ".hidden",
            "Ümläut 漢字.dat",
            "a b",
            "com10",
            "console",
            "x..y",
            "~x",
            "-rf",
        ] {
            assert_eq!(Name::new(name).expect(name).as_str(), name);
        }
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
        fn a_name_stays_one_component_below_its_folder(text in any::<String>()) {
            if let Ok(name) = Name::new(&text) {
                let joined = std::path::Path::new("folder").join(name.as_str());
                prop_assert_eq!(joined.parent(), Some(std::path::Path::new("folder")));
                prop_assert_eq!(joined.components().count(), 2);
            }
        }
    }
}
