//! The derived times, for all circles.

use proptest::prelude::*;

use super::*;

#[test]
fn the_times_of_the_case_study() {
    let config = Config::new(Duration::from_secs(4), Duration::from_secs(1200));
    assert_eq!(config.t_regen_min(), Duration::from_secs(1200));
    assert_eq!(config.h_commit(), Duration::from_secs(60));
    assert_eq!(config.h_accept(), Duration::from_secs(71));
    assert_eq!(config.t_selffence(), Duration::from_secs(600));
}

#[test]
fn the_times_of_the_smallest_circle() {
    let config = Config::new(Duration::from_secs(4), Duration::ZERO);
    assert_eq!(config.t_regen_min(), Duration::from_secs(35));
    assert_eq!(config.h_commit(), Duration::from_millis(17_500));
    assert_eq!(config.h_accept(), Duration::from_millis(28_500));
}

proptest! {
    #[test]
    fn late_commits_end_before_regeneration(slot_ms in 0_u64..10_000_000, min_ms in 0_u64..10_000_000_000) {
        let config = Config::new(Duration::from_millis(slot_ms), Duration::from_millis(min_ms));
        prop_assert!(config.h_commit() < config.h_accept());
        prop_assert!(config.h_accept() + config.nonce_tick < config.t_regen_min(), "a nonce's age is known to a tick");
        prop_assert!(config.t_selffence() < config.t_regen_min());
    }
}
