//! Names of a listing that cannot be used here: refused, unless the filter leaves them out. Used by the walk alone.

use super::spec::Spec;
use super::walk::Replicas;
use crate::fetch::{NameError, PackedListing};

/// Refuses twins that the target's file system does not distinguish, and drops refused names that the filter leaves out. Gives
/// how many were left out. `folder` is the folder's path with a slash at its end, or nothing for the root.
pub(super) fn settle<R: Replicas>(
    listing: &mut PackedListing,
    folder: &str,
    spec: &Spec,
    here: &mut R,
) -> u64 {
    if spec.portable_names {
        listing.refuse_links(|name| name.check_portable().err());
    }
    let twins = listing.twins();
    if !twins.is_empty() && (spec.portable_names || !here.distinguishes_twins()) {
        listing.refuse_twins(&twins, |name, kind| {
            spec.filter.allows_entry(&format!("{folder}{}", name.as_str()), kind)
        });
    }
    let before = listing.refused.len();
    listing.refused.retain(|(name, why)| {
        *why == NameError::Hidden || spec.filter.allows_refused(&format!("{folder}{name}"))
    });
    (before - listing.refused.len()) as u64
}
