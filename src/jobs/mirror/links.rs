//! Symbolic links of a listing: where they lead, and whether following one would never end. Pure; the walk asks.
//!
//! Paths are lists of components below the mirrored root. Servers that lock users into a folder list absolute targets
//! of the machine's own tree, so an absolute target is matched with the root's path wherever that occurs in it.

use crate::fetch::PackedListing;

/// A path below the mirrored root.
pub(super) type Below = Vec<Vec<u8>>;

/// More links on one path are a loop that was not recognised.
pub(super) const MOST_LINKS: usize = 8;

/// What a listing states of a link's target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To this path in the mirrored tree, if nothing on the way is a link.
    Inside(Below),
    /// Out of the mirrored tree.
    Outside,
    /// Not stated, or relative to a folder of unknown path.
    Unknown,
}

/// Where a link leads. `root` is the path of the mirrored folder at the source, `folder` that of the link's folder below it.
pub(super) fn leads(root: &[Vec<u8>], folder: Option<&Below>, target: Option<&[u8]>) -> Leads {
    let Some(target) = target.filter(|target| !target.is_empty()) else { return Leads::Unknown };
    let parts = target.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    if target.starts_with(b"/") {
        return absolute(root, &parts.map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
    let Some(folder) = folder else { return Leads::Unknown };
    let mut path = folder.clone();
    for part in parts {
        if part != b".." {
            path.push(part.to_vec());
        } else if path.pop().is_none() {
            return Leads::Outside;
        }
    }
    Leads::Inside(path)
}

fn absolute(root: &[Vec<u8>], parts: &[Vec<u8>]) -> Leads {
    let begins = (0..=parts.len()).find(|at| parts.get(*at..).is_some_and(|rest| rest.starts_with(root)));
    let Some(rest) = begins.and_then(|at| parts.get(at + root.len()..)) else { return Leads::Outside };
    if rest.iter().any(|part| part == b"..") {
        return Leads::Unknown;
    }
    Leads::Inside(rest.to_vec())
}

/// Fingerprint of a listing. A folder that lists the same as one above it, links included, is that folder.
pub(super) fn fingerprint(listing: &PackedListing) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for entry in listing.entries.iter() {
        let text = format!("{:?} {:?} {:?} {:?}", entry.kind, entry.size, entry.modified_s, entry.coarse_s);
        hasher.update(entry.name.as_str().as_bytes()).update(b"\0").update(text.as_bytes()).update(b"\0");
    }
    for link in &listing.links {
        hasher.update(link.name.as_str().as_bytes()).update(b"\0link\0");
    }
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &str) -> Below {
        path.split('/').filter(|part| !part.is_empty()).map(|part| part.as_bytes().to_vec()).collect()
    }

    #[test]
    fn targets_are_followed_by_their_components_only() {
        let inside = |path| Leads::Inside(below(path));
        for (folder, target, expected) in [
            ("", "f", inside("f")),
            ("a", "../b/./f", inside("b/f")),
            ("a", ".", inside("a")),
            ("a", "..", inside("")),
            ("a/b", "../..//c/", inside("c")),
            ("a", "../../x", Leads::Outside),
            ("", "../data/x", Leads::Outside),
            ("a", "/etc/passwd", Leads::Outside),
            ("a", "/pub/data/x/y", inside("x/y")),
            ("a", "/srv/ftp/pub/data/x", inside("x")),
            ("a", "/pub/data", inside("")),
            ("a", "/pub/data/../x", Leads::Unknown),
            ("a", "/pub/database", Leads::Outside),
            ("a", "", Leads::Unknown),
        ] {
            let found = leads(&below("pub/data"), Some(&below(folder)), Some(target.as_bytes()));
            assert_eq!(found, expected, "{folder}: {target}");
        }
        assert_eq!(leads(&below(""), Some(&below("a")), Some(b"/x/y")), inside("x/y"));
        assert_eq!(leads(&below("pub"), None, Some(b"x")), Leads::Unknown);
        assert_eq!(leads(&below("pub"), Some(&below("")), None), Leads::Unknown);
    }
}
