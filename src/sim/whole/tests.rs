//! Whether the checkers bite: worlds and nodes that break a rule, and what each checker says to that.

use std::time::Duration;

use crate::base::{MemberId, Session, Sighting, Time, TokenId};
use crate::proto::handoff::Flaw;
use crate::trust::Suite;

use super::checks::Checks;
use super::passings::Losses;
use super::place::{Place, WALL_START_S};
use super::{Faults, Outcome, Scenario, Violation, Whole};

/// So many seeds are tried until a broken rule must have shown.
const SEEDS: u64 = 12;

fn scenario(faults: Faults) -> Scenario {
    Scenario {
        suite: Suite::Simulated,
        duration: Duration::from_secs(120),
        // A circle that was quiet for long is slow to take its token for lost.
        settle: Duration::from_secs(400),
        faults: Some(faults),
        ..Scenario::default()
    }
}

/// A network on which every rule of the handoff is needed.
fn rough() -> Faults {
    Faults {
        loss: 0.25,
        duplication: 0.3,
        replay: 0.2,
        delay: Duration::from_millis(1),
        jitter: Duration::from_millis(400),
        crash_every: Some(Duration::from_secs(10)),
        restart_after: Duration::from_secs(2),
        ..Faults::default()
    }
}

/// Whether the checkers say so on one of the seeds.
fn shows(break_it: impl Fn(&mut Whole), wanted: impl Fn(&Violation) -> bool) -> bool {
    shows_on(SEEDS, break_it, wanted)
}

fn shows_on(seeds: u64, break_it: impl Fn(&mut Whole), wanted: impl Fn(&Violation) -> bool) -> bool {
    shows_under(&rough(), seeds, break_it, wanted)
}

fn shows_under(
    faults: &Faults,
    seeds: u64,
    break_it: impl Fn(&mut Whole),
    wanted: impl Fn(&Violation) -> bool,
) -> bool {
    (0..seeds).any(|seed| {
        let mut whole = Whole::new(&scenario(faults.clone()), seed);
        break_it(&mut whole);
        whole.run().violations.iter().any(&wanted)
    })
}

/// All that the checkers say of one run, which goes on after the first complaint.
fn all_complaints(faults: Faults, break_it: impl Fn(&mut Whole)) -> Vec<Violation> {
    let mut whole = Whole::new(&scenario(faults), 1);
    break_it(&mut whole);
    while whole.now < whole.end {
        whole.step();
    }
    whole.check_rest();
    whole.finish().violations
}

#[test]
fn sound_nodes_give_no_cause_for_complaint() {
    assert!(!shows(|_| {}, |_| true));
}

#[test]
fn broken_rules_of_the_handoff_show_in_whole_nodes() {
    // The others need a crash at one exact moment: the model checker finds that, chance does not.
    for flaw in [Flaw::LateAckHonoured, Flaw::NothingRecorded, Flaw::TakenBack] {
        assert!(shows_on(10 * SEEDS, |whole| whole.break_rule(flaw), Violation::is_duplicate), "{flaw:?}");
    }
}

#[test]
fn the_papers_rule_doubles_tokens_when_a_member_restarts() {
    let break_it = |whole: &mut Whole| {
        whole.sabotage.secrets_repeat = true;
        whole.break_rule(Flaw::RecordedAtMove);
    };
    // It takes a recording of a Commit that comes just after a restart.
    let faults = Faults { replay: 0.8, crash_every: Some(Duration::from_secs(4)), ..rough() };
    assert!(shows_under(&faults, 20 * SEEDS, break_it, Violation::is_duplicate));
}

#[test]
fn sessions_that_are_not_recorded_come_twice() {
    let is_old = |violation: &Violation| matches!(violation, Violation::SessionNotNewer { .. });
    assert!(shows(|whole| whole.break_rule(Flaw::NothingRecorded), is_old));
}

#[test]
fn a_commit_that_does_not_wait_for_the_pull_is_seen_at_both_ends() {
    let quick = Faults { delay: Duration::from_micros(100), jitter: Duration::ZERO, ..Faults::default() };
    let complaints = all_complaints(quick, |whole| whole.break_rule(Flaw::PullNotAwaited));
    let outlives = |violation: &Violation| matches!(violation, Violation::PullOutlivesHandoff { .. });
    let twice = |violation: &Violation| matches!(violation, Violation::TwoPulls { .. });
    assert!(complaints.iter().any(outlives) && complaints.iter().any(twice), "{complaints:?}");
}

#[test]
fn recordings_that_are_believed_are_seen() {
    let is_late = |violation: &Violation| matches!(violation, Violation::SeenAfterItsEnd { .. });
    assert!(shows(Whole::believe_recordings, is_late), "P47");
}

#[test]
fn a_pull_that_does_not_stop_in_time_is_seen() {
    let complaints = all_complaints(Faults::default(), |whole| whole.sabotage.slowness = Some(10));
    let overran = |violation: &Violation| matches!(violation, Violation::SlotOverran { .. });
    assert!(complaints.iter().any(overran), "{complaints:?}");
}

#[test]
fn possession_that_outlives_a_crash_is_seen() {
    let held = |violation: &Violation| matches!(violation, Violation::HeldAfterRestart { .. });
    assert!(shows(|whole| whole.sabotage.possession_persists = true, held));
}

#[test]
fn nodes_that_do_not_listen_to_a_ban_are_seen_at_all_three_ends() {
    // The checkers are told that everybody has heard it. The nodes have not: they act as if it did not matter.
    let complaints = all_complaints(Faults::default(), |whole| {
        whole.checks.banned(3, 1);
        for member in 0..8 {
            whole.checks.standing_mut().heard(member, 1);
        }
    });
    let count = |wanted: fn(&Violation) -> bool| complaints.iter().filter(|found| wanted(found)).count();
    assert!(count(|found| matches!(found, Violation::GivenToOutsider { outsider: 3, .. })) > 0);
    assert!(count(|found| matches!(found, Violation::TakenFromOutsider { outsider: 3, .. })) > 0);
    assert!(count(|found| matches!(found, Violation::HeldByOutsider { member: 3, .. })) > 0);
    let others =
        |found: &Violation| matches!(found, Violation::HeldByOutsider { member, .. } if *member != 3);
    assert!(!complaints.iter().any(others), "{complaints:?}");
}

#[test]
fn nodes_that_do_not_look_at_the_calendar_are_seen() {
    // The certificates in the nodes' hands are good for years; the checkers' books say that one has expired.
    let complaints = all_complaints(Faults::default(), |whole| {
        whole.checks.standing_mut().certified_until(5, WALL_START_S - 600);
    });
    let taken = |found: &Violation| matches!(found, Violation::TakenFromOutsider { outsider: 5, .. });
    let given = |found: &Violation| matches!(found, Violation::GivenToOutsider { outsider: 5, .. });
    let held = |found: &Violation| matches!(found, Violation::HeldByOutsider { member: 5, .. });
    assert!([taken, given, held].iter().all(|wanted| complaints.iter().any(wanted)), "{complaints:?}");
}

#[test]
fn a_split_that_never_ends_is_no_rest() {
    let mut whole = Whole::new(&scenario(Faults::default()), 1);
    while whole.now < whole.peace_at {
        assert!(whole.step());
    }
    // For long enough that the two sides have forgotten each other.
    whole.end = whole.now + Duration::from_secs(7_200);
    whole.network.split(8);
    // On both sides a token is in use, and that is complained of first.
    while whole.now < whole.end {
        whole.step();
    }
    whole.check_rest();
    let complaints = whole.finish().violations;
    assert!(
        complaints.iter().any(|found| matches!(found, Violation::TwoTokensInUse { .. })),
        "{complaints:?}"
    );
    assert!(complaints.iter().any(|found| matches!(found, Violation::NotOneToken { .. })), "{complaints:?}");
    assert!(complaints.iter().any(|found| matches!(found, Violation::Disconnected { .. })), "{complaints:?}");
}

/// Some time after the faults, with a token in somebody's hands.
fn in_peace() -> Whole {
    let mut whole = Whole::new(&scenario(Faults::default()), 1);
    while whole.now < whole.peace_at + Duration::from_secs(60) || whole.checks.tokens_alive() == 0 {
        assert!(whole.step());
    }
    whole
}

fn is_not_one(violation: &Violation) -> bool {
    matches!(violation, Violation::NotOneToken { .. })
}

#[test]
fn no_token_at_all_is_no_rest() {
    let mut whole = in_peace();
    let holds = |place: &Place| place.node.as_ref().is_some_and(|node| node.token().is_some());
    let holder = whole.places.iter().position(holds).unwrap();
    whole.crash(holder, Duration::ZERO);
    // So soon nobody can have made another one.
    whole.end = whole.now + Duration::from_millis(100);
    while whole.step() {}
    let at = whole.end;
    assert_eq!(whole.finish().violations, [Violation::NotOneToken { at, tokens: 0 }]);
}

#[test]
fn a_token_on_its_way_is_one() {
    let mut whole = in_peace();
    while whole.checks.tokens_alive() > 0 {
        assert!(whole.step());
    }
    assert_eq!(whole.checks.tokens_under_way(), 1);
    whole.end = whole.now;
    let complaints = whole.finish().violations;
    assert!(!complaints.iter().any(is_not_one), "{complaints:?}");
}

#[test]
fn a_token_that_got_lost_is_not_on_its_way() {
    let under_way = |between: fn(&mut Checks)| {
        let mut checks = Checks::default();
        checks.offered(0, 1, token(), Session(1), Time::ZERO);
        checks.released(0, 1, token(), Session(1), Time::ZERO);
        between(&mut checks);
        checks.tokens_under_way()
    };
    assert_eq!(under_way(|_| {}), 1);
    assert_eq!(under_way(|checks| assert_eq!(checks.crashed(1), 0)), 0, "its taker is not there any more");
    assert_eq!(under_way(|checks| checks.banned(1, 1)), 0);
    assert_eq!(under_way(|checks| checks.standing_mut().certified_until(0, 1)), 0);
    assert_eq!(under_way(|checks| checks.abandoned(token(), Session(1))), 0);
    assert_eq!(under_way(|checks| checks.arrived(1, 0, token(), Session(1), Time::ZERO)), 0, "it is there");
}

#[test]
fn who_is_not_served_or_has_not_heard_is_missed() {
    let complaints = all_complaints(Faults::default(), |whole| {
        whole.places[2].node = None;
        whole.checks.banned(4, 1);
        whole.checks.standing_mut().heard(6, 1);
    });
    let at = Time::from_secs(520);
    assert!(complaints.contains(&Violation::NotServed { at, member: 2 }), "{complaints:?}");
    assert!(!complaints.contains(&Violation::NotServed { at, member: 1 }), "{complaints:?}");
    assert!(complaints.contains(&Violation::BansNotHeard { at, member: 1 }), "{complaints:?}");
    assert!(!complaints.contains(&Violation::BansNotHeard { at, member: 6 }), "{complaints:?}");
    assert!(!complaints.contains(&Violation::BansNotHeard { at, member: 4 }), "it is out: {complaints:?}");
}

// --- bans and expiry --------------------------------------------------------------------------------------------

fn run(faults: &Faults, seeds: std::ops::Range<u64>) -> Outcome {
    let mut sum = Outcome::default();
    for seed in seeds {
        let outcome = Whole::new(&scenario(faults.clone()), seed).run();
        assert_eq!(outcome.violations, [], "seed {seed}");
        sum.add(outcome);
    }
    sum
}

#[test]
fn bans_spread_and_are_kept() {
    let faults = Faults { ban_every: Some(Duration::from_secs(20)), ..rough() };
    let outcome = run(&faults, 0..10);
    assert!(outcome.banned >= 20, "{outcome:?}");
    assert!(outcome.expelled >= outcome.banned / 4, "most hear it themselves: {outcome:?}");
}

/// Crashes and bans, and nobody has any files left when it comes back.
fn forgetful() -> Faults {
    Faults { ban_every: Some(Duration::from_secs(20)), forgetting: 1.0, ..rough() }
}

#[test]
fn members_that_come_back_with_nothing_but_their_papers_break_no_promise() {
    let outcome = run(&forgetful(), 0..20);
    assert!(outcome.forgotten > 100 && outcome.banned >= 40, "{outcome:?}");
}

#[test]
fn bans_that_were_in_the_files_and_are_not_heeded_are_seen() {
    // The checkers believe that files are kept. What a member does who has lost its bans is then a broken promise, so they
    // have to be told of losses: that is what `forgetting` is for.
    let ignores = |violation: &Violation| {
        matches!(
            violation,
            Violation::TakenFromOutsider { .. }
                | Violation::GivenToOutsider { .. }
                | Violation::HeldByOutsider { .. }
        )
    };
    let shows = (0..SEEDS).any(|seed| {
        let mut whole = Whole::new(&scenario(Faults { forgetting: 0.0, ..forgetful() }), seed);
        while whole.step() {
            whole.places.iter_mut().for_each(|place| place.bans = None);
        }
        whole.finish().violations.iter().any(ignores)
    });
    assert!(shows);
}

#[test]
fn members_whose_certificate_expires_stop_by_themselves() {
    let skew = Duration::from_secs(10);
    let outcome = run(&Faults { expiring: 1.0, clock_skew: skew, ..Faults::default() }, 0..5);
    assert_eq!(outcome.expelled, 10, "two of eight in each run: {outcome:?}");
}

// --- what became of tokens --------------------------------------------------------------------------------------

fn token() -> TokenId {
    TokenId { created_ms: 1, generator: MemberId::from_bytes([1; 16]), random: 1 }
}

/// A handoff from 0 to 1, let go of and given up; what happens between.
fn losses(between: impl FnOnce(&mut Checks)) -> Losses {
    let (session, at) = (Session(1), Time::from_secs(1));
    let mut checks = Checks::default();
    checks.generated(0, token(), Time::ZERO);
    checks.offered(0, 1, token(), session, at);
    checks.released(0, 1, token(), session, at);
    between(&mut checks);
    checks.abandoned(token(), session);
    assert_eq!(checks.violations(), []);
    checks.losses()
}

#[test]
fn a_lost_token_is_put_down_to_what_lost_it() {
    assert_eq!(losses(|_| {}), Losses { plain: 1, ..Losses::default() });
    let crash = Losses { by_crash: 1, ..Losses::default() };
    assert_eq!(losses(|checks| assert_eq!(checks.crashed(1), 0)), crash, "the taker crashed");
    assert_eq!(losses(|checks| assert_eq!(checks.crashed(0), 0)), crash, "the giver crashed");
    assert_eq!(losses(|checks| assert_eq!(checks.crashed(2), 0)).plain, 1, "somebody else crashed");
    assert_eq!(losses(|checks| checks.banned(1, 1)), Losses { by_ban: 1, ..Losses::default() });
    let arrived = |checks: &mut Checks| checks.arrived(1, 0, token(), Session(1), Time::from_secs(2));
    assert_eq!(losses(arrived), Losses::default());
    assert_eq!(losses(|checks| (arrived(checks), checks.ended(1, token())).1), Losses::default());
}

#[test]
fn a_crash_before_the_move_is_no_excuse() {
    let mut checks = Checks::default();
    assert_eq!(checks.crashed(1), 0);
    checks.offered(0, 1, token(), Session(1), Time::ZERO);
    checks.released(0, 1, token(), Session(1), Time::ZERO);
    checks.abandoned(token(), Session(1));
    assert_eq!(checks.losses(), Losses { plain: 1, ..Losses::default() });
}

#[test]
fn who_believes_that_a_token_was_seen_after_its_end_is_found() {
    let complaints = |age_s: u64| {
        let mut checks = Checks::default();
        checks.generated(0, token(), Time::ZERO);
        checks.believes(0, &[None; 2], Time::from_secs(10));
        assert_eq!(checks.crashed(0), 1);
        let sighting = Sighting { token: token(), session: Session(0), age: Duration::from_secs(age_s) };
        checks.believes(1, &[None, Some(sighting)], Time::from_secs(30));
        checks.violations().to_vec()
    };
    assert_eq!(complaints(20), [], "just before the crash");
    let (at, seen, last) = (Time::from_secs(30), Time::from_secs(29), Time::from_secs(10));
    assert_eq!(complaints(1), [Violation::SeenAfterItsEnd { at, member: 1, token: token(), seen, last }]);
}

#[test]
fn an_offer_that_came_to_nothing_loses_nothing() {
    let mut checks = Checks::default();
    checks.generated(0, token(), Time::ZERO);
    checks.offered(0, 1, token(), Session(1), Time::ZERO);
    checks.offered(0, 2, token(), Session(2), Time::ZERO);
    assert_eq!(checks.crashed(0), 1, "it held the token");
    assert_eq!(checks.losses(), Losses::default());
}
