//! Names of a listing that cannot be used here: refused, unless the filter leaves them out. Used by the walk alone.

use std::collections::BTreeSet;

use super::spec::Spec;
use super::walk::Replicas;
use crate::fetch::{EntryKind, Name, NameError, PackedListing, escape};

/// Refuses twins that the target's file system does not distinguish, and drops refused names that the filter leaves out. Gives
/// how many were left out. `folder` is the folder's path with a slash at its end, or nothing for the root.
pub(super) fn settle<R: Replicas>(
    listing: &mut PackedListing,
    folder: &str,
    spec: &Spec,
    here: &mut R,
) -> u64 {
    if spec.portable_names {
        refuse_links(listing, |name| name.check_portable().err());
    }
    let links: Vec<&Name> = listing.links.iter().map(|link| &link.name).collect();
    let twins = listing.entries.twins(&links);
    if !twins.is_empty() && (spec.portable_names || !here.distinguishes_twins()) {
        refuse_twins(listing, &twins, folder, spec);
    }
    let before = listing.refused.len();
    listing.refused.retain(|(name, why)| {
        *why == NameError::Hidden || spec.filter.allows_refused(&format!("{folder}{name}"))
    });
    (before - listing.refused.len()) as u64
}

/// The first of several twins that the filter allows stays, and entries come before links.
fn refuse_twins(listing: &mut PackedListing, twins: &BTreeSet<String>, folder: &str, spec: &Spec) {
    let mut taken = BTreeSet::new();
    let is_meant = |name: &Name, kind| {
        let path = format!("{folder}{}", name.as_str());
        match kind {
            EntryKind::File => spec.filter.allows_refused(&path),
            EntryKind::Folder => spec.filter.allows_folder(&path),
        }
    };
    let refused = &mut listing.refused;
    listing.entries.retain(|entry| {
        let key = entry.name.folded();
        let is_free = !twins.contains(&key) || !is_meant(&entry.name, entry.kind) || taken.insert(key);
        if !is_free {
            refused.push((escape(&entry.name.to_string()), NameError::Twice));
        }
        is_free
    });
    refuse_links(listing, |name| {
        let key = name.folded();
        (twins.contains(&key) && !taken.insert(key)).then_some(NameError::Twice)
    });
}

fn refuse_links(listing: &mut PackedListing, mut rule: impl FnMut(&Name) -> Option<NameError>) {
    let refused = &mut listing.refused;
    listing.links.retain(|link| match rule(&link.name) {
        Some(why) => {
            refused.push((escape(&link.name.to_string()), why));
            false
        }
        None => true,
    });
}
