//! Which files are lists of digests, by their names alone.

use crate::fetch::sink::digest::Algorithm;

/// What the name of a list tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListName<'a> {
    /// The one file that the list is about, such as `f` for `f.sha256`; `None` for a list of many.
    pub about: Option<&'a str>,
    /// Which function its digests are of, if the name says so.
    pub algorithm: Option<Algorithm>,
}

impl<'a> ListName<'a> {
    /// Whether a file of this name is a list of digests, and what it is about.
    pub fn of(name: &'a str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let signed = lower.strip_suffix(".asc").unwrap_or(&lower);
        let stem = signed.strip_suffix(".txt").unwrap_or(signed);
        if is_general(stem) {
            return Some(Self { about: None, algorithm: None });
        }
        if let Some(algorithm) = Algorithm::named(stem).or_else(|| of_many(stem)) {
            return Some(Self { about: None, algorithm: Some(algorithm) });
        }
        let (about, end) = stem.rsplit_once('.')?;
        let algorithm = Algorithm::named(end).or_else(|| Algorithm::named(end.strip_suffix("sum")?))?;
        // What follows a signature's ending is not about a file, but about its signature.
        let is_signed_alone = signed.len() < lower.len();
        let about = name.get(..about.len()).filter(|about| !about.is_empty() && !is_signed_alone)?;
        Some(Self { about: Some(about), algorithm: Some(algorithm) })
    }
}

/// Names of lists that do not tell the function: `CHECKSUM`, `Fedora-42-CHECKSUM`.
fn is_general(stem: &str) -> bool {
    ["checksum", "checksums"].iter().any(|word| {
        stem.strip_suffix(word).is_some_and(|before| before.is_empty() || before.ends_with(['-', '_', '.']))
    })
}

/// The function of `sha256sums`, `md5sum`, `release-1.2.sha256sums`.
fn of_many(stem: &str) -> Option<Algorithm> {
    let algorithm = |word: &str| Algorithm::named(word.trim_end_matches(['-', '_', '.']));
    if let Some(algorithm) = stem.strip_suffix("sum").and_then(algorithm) {
        return Some(algorithm);
    }
    let before = stem.strip_suffix("sums")?;
    let last = before.trim_end_matches(['-', '_', '.']).rsplit(['-', '_', '.']).next()?;
    algorithm(before).or_else(|| algorithm(last))
}
