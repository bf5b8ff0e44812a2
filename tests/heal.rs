//! Two halves of a circle that were cut off from each other, each with a token of its own, meet again: one token is left
//! within two return times. `cargo bench --bench heal` measures the same over more seeds.

use std::time::Duration;

use stroll::sim::whole::{Healing, Scenario};
use stroll::trust::Suite;

/// Gives how many of the seeds had two tokens when the halves met.
fn halves_become_one(members: u8, cut: u64, seeds: impl IntoIterator<Item = u64>) -> usize {
    let whole = Duration::from_secs(20 * u64::from(members));
    let scenario = Scenario {
        members: members.into(),
        suite: Suite::Simulated,
        duration: whole + Duration::from_secs(cut),
        settle: Duration::from_secs(10 * u64::from(members)),
        ..Scenario::default()
    };
    let measure = |seed| {
        let healing = Healing::measure(&scenario, whole, seed);
        assert!(healing.return_times() <= 2.0, "seed {seed}, cut for {cut} s: {healing:?}");
        assert!(healing.left <= 1 && healing.violations == 0, "seed {seed}, cut for {cut} s: {healing:?}");
        healing
    };
    seeds.into_iter().map(measure).filter(|healing| healing.tokens > 1).count()
}

#[test]
fn halves_that_suspect_each_other_have_one_token_within_two_return_times() {
    assert!(halves_become_one(8, 120, 0..12) >= 10, "a cut that makes no second token shows nothing");
}

#[test]
fn halves_that_have_forgotten_each_other_have_one_token_within_two_return_times() {
    assert!(halves_become_one(8, 1_200, 0..4) >= 3, "a cut that makes no second token shows nothing");
}

#[test]
fn nobody_in_a_larger_circle_that_healed_takes_bad_luck_for_a_loss() {
    // A holder asks 8 of the 15 others, so now and then one of them hears nothing for ten seconds. In these seeds such a
    // member made a second token, up to eight return times after the halves had long found together.
    assert!(halves_become_one(16, 300, [36, 38, 49]) >= 2, "a cut that makes no second token shows nothing");
    assert!(halves_become_one(16, 1_200, [37]) >= 1, "a cut that makes no second token shows nothing");
}
