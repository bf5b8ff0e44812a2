//! Time zones of a source's listings, learnt from files of which both the listed time and the real one are known. Used by the
//! recorder.
//!
//! A listing without a zone may show local time. One file alone does not tell: an hour's difference may be the zone, or a
//! newer version than a cache serves. A zone counts once several files agree on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::compare::{MINUTE_S, ZONE_STEP_S, is_day};

/// UTC+14 and UTC-12 are the outermost zones.
const FARTHEST_S: i64 = 14 * 3_600;

/// Fewer files do not make a zone.
const LEAST_FILES: u64 = 3;

/// One file of so many has to agree. Summer and winter time of one place share the files between them.
const ONE_OF: u64 = 5;

/// Number of files, by the seconds that their listed times are ahead of UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Zones(BTreeMap<i64, u64>);

impl Zones {
    /// Counts a file: the time of its version, and its listed time.
    pub(super) fn observe(&mut self, version_s: i64, coarse_s: i64) {
        let ahead_s = coarse_s.saturating_sub(version_s);
        let seconds = ahead_s.saturating_neg().rem_euclid(ZONE_STEP_S);
        let zone_s = ahead_s.saturating_add(seconds);
        if !is_day(coarse_s) && seconds < MINUTE_S && zone_s.saturating_abs() <= FARTHEST_S {
            *self.0.entry(zone_s).or_default() += 1;
        }
    }

    /// The zones that enough files agree on.
    pub(super) fn usual(&self) -> impl Iterator<Item = i64> {
        let all: u64 = self.0.values().sum();
        let is_usual = move |count: u64| count >= LEAST_FILES && count.saturating_mul(ONE_OF) >= all;
        self.0.iter().filter(move |(_, count)| is_usual(**count)).map(|(zone_s, _)| *zone_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_needs_several_files_and_a_share_of_all() {
        let usual = |zones: &Zones| zones.usual().collect::<Vec<_>>();
        let mut zones = Zones::default();
        let listed = 1_700_000_040;
        for second in [0, 30, 59] {
            assert_eq!(usual(&zones), Vec::<i64>::new());
            zones.observe(listed + second + 5 * 3_600, listed);
        }
        assert_eq!(usual(&zones), [-5 * 3_600]);
        (0..20).for_each(|_| zones.observe(listed - 2_700, listed));
        assert_eq!(usual(&zones), [2_700]);
        // No zone: not a multiple of a quarter of an hour, too far, or the day alone.
        let before = zones.clone();
        zones.observe(listed - 61, listed);
        zones.observe(listed - 15 * 3_600, listed);
        zones.observe(1_700_006_400, 1_700_006_400);
        assert_eq!(zones, before);
    }
}
