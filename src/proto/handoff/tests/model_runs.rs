//! What the model checker is asked: that sound rules keep the token single, and that each broken one does not.

use std::collections::BTreeSet;

use super::super::flaw::Flaw;
use super::super::nouns::Message;
use super::model::{Action, Broken, PROCESSES, State, Tables, World, numbers};
use super::*;

/// How a search ended.
struct Found {
    states: usize,
    /// What was broken, and the shortest way there.
    broken: Option<(Broken, Vec<String>)>,
    /// The highest session that anybody accepted.
    accepted: u64,
    /// How many states lead nowhere.
    ends: usize,
}

/// Breadth first, so that the first violation is one of the shortest.
fn search(world: World) -> Found {
    let (mut tables, start) = Tables::new(world);
    let mut seen = BTreeSet::from([start]);
    let mut order = vec![(start, 0_usize, None)];
    let mut found = Found { states: 0, broken: None, accepted: 0, ends: 0 };
    let mut at = 0;
    while at < order.len() {
        let state = order[at].0;
        let mut ends = true;
        for (process, action) in all_actions(&tables, &state) {
            let Some((next, broken)) = tables.step(&state, process, action) else { continue };
            ends = false;
            if let Some(broken) = broken {
                let mut way = vec![describe(&tables, Some((process, action)))];
                let mut back = at;
                while back > 0 {
                    way.push(describe(&tables, order[back].2));
                    back = order[back].1;
                }
                way.reverse();
                found.broken = Some((broken, way));
                found.states = order.len();
                return found;
            }
            if seen.insert(next) {
                order.push((next, at, Some((process, action))));
            }
        }
        if usize::from(state.clock) + 1 < tables.world.clock.len() {
            let next = State { clock: state.clock + 1, ..state };
            if seen.insert(next) {
                order.push((next, at, None));
            }
            ends = false;
        }
        found.ends += usize::from(ends);
        at += 1;
    }
    let stops =
        tables.datagrams.iter().filter(|datagram| matches!(datagram.received.message, Message::EarlyStop(_)));
    found.accepted = stops.map(|datagram| datagram.received.session.0).max().unwrap_or(0);
    found.states = order.len();
    found
}

fn all_actions(tables: &Tables, state: &State) -> Vec<(usize, Action)> {
    let mut all = Vec::new();
    for process in 0..PROCESSES {
        let own = tables.actions(state.locals[process], state);
        all.extend(own.into_iter().map(|action| (process, action)));
        let arriving = numbers(&state.sent).filter(|&number| tables.reaches(number, process));
        all.extend(arriving.map(|number| (process, Action::Deliver(number))));
    }
    all
}

fn describe(tables: &Tables, step: Option<(usize, Action)>) -> String {
    match step {
        None => "time passes".to_owned(),
        Some((process, Action::Deliver(number))) => {
            let Datagram { received, .. } = tables.datagrams[usize::from(number)];
            format!("{process}: {:?} of {} in {}", received.message, received.from, received.session)
        }
        Some((process, action)) => format!("{process}: {action:?}"),
    }
}

fn assert_sound(world: World, at_least: usize) {
    let shown = format!("{world:?}");
    let sessions = world.sessions;
    let found = search(world);
    assert!(found.broken.is_none(), "{shown}\n{:#?}", found.broken);
    assert!(found.states >= at_least, "only {} states: nothing was searched in {shown}", found.states);
    assert_eq!(found.accepted, sessions, "the last session was reached");
    assert!(found.ends > 0, "all histories end");
}

fn assert_broken(world: World, expected: Broken) {
    let shown = format!("{world:?}");
    let found = search(World { watched: vec![expected], ..world });
    let Some((broken, way)) = found.broken else {
        panic!("not noticed in {} states: {shown}", found.states);
    };
    assert_eq!(broken, expected, "{shown}\n{way:#?}");
    assert!(way.len() < 30);
}

/// A broken world. Commits on their way do not count as holders, so two members must really hold the token.
fn flawed(flaw: Flaw) -> World {
    World { flaw: Some(flaw), grants_count: false, ..World::sound() }
}

/// Now; a tick later, when nonces differ; when all nonces have expired; when all records are forgotten.
fn clock() -> Vec<Duration> {
    let config = config();
    let expired = config.h_accept() + 2 * config.nonce_tick;
    vec![Duration::ZERO, config.nonce_tick, expired, config.record_life() + 2 * expired]
}

#[test]
fn four_sessions_and_a_crash() {
    assert_sound(World { sessions: 4, ..World::sound() }, 50_000);
}

#[test]
fn three_sessions_and_two_crashes() {
    assert_sound(World { crashes: 2, ..World::sound() }, 50_000);
}

#[test]
fn expiry_and_forgetting_at_any_moment() {
    let mut clock = clock();
    clock.remove(1);
    assert_sound(World { crashes: 0, clock, ..World::sound() }, 50_000);
}

#[test]
fn expiry_forgetting_and_a_crash_at_any_moment() {
    assert_sound(World { sessions: 2, clock: clock(), ..World::sound() }, 50_000);
}

#[test]
fn an_eviction_and_a_crash_at_any_moment() {
    assert_sound(World { evictions: 1, ..World::sound() }, 20_000);
}

#[test]
fn two_processes_with_one_key() {
    for members in [[1, 2, 2], [1, 1, 2]] {
        assert_sound(World { members, ..World::sound() }, 1_000);
    }
}

#[test]
fn misdelivered_datagrams_alone_are_caught_by_the_nonce() {
    assert_sound(World { misdelivered: true, ..World::sound() }, 1_000);
}

#[test]
fn acks_matched_by_token_and_session_only() {
    assert_broken(flawed(Flaw::AckByTokenAndSession), Broken::I3);
    assert_broken(flawed(Flaw::AckByTokenAndSession), Broken::I1);
}

#[test]
fn the_giver_takes_back_without_early_stop() {
    assert_broken(World { crashes: 0, ..flawed(Flaw::TakenBack) }, Broken::I1);
}

#[test]
fn possession_persists_across_a_crash() {
    assert_broken(World { possession_persists: true, ..World::sound() }, Broken::I7);
}

#[test]
fn nobody_binds_the_receiver() {
    let unbound = World { crashes: 0, ..flawed(Flaw::NonceUnbound) };
    let bound_by_the_signature = search(World { sessions: 2, ..unbound.clone() });
    assert!(bound_by_the_signature.broken.is_none(), "without crashes the signature is enough");
    assert_broken(World { misdelivered: true, ..unbound }, Broken::I1);
}

#[test]
fn a_second_nonce_of_one_session_is_committed() {
    assert_broken(flawed(Flaw::SecondNonceCommitted), Broken::I3);
    assert_broken(flawed(Flaw::SecondNonceCommitted), Broken::I1);
    let clock = clock()[..2].to_vec();
    assert_broken(World { crashes: 0, clock, ..flawed(Flaw::SecondNonceCommitted) }, Broken::I3);
}

#[test]
fn nonces_repeat_after_a_restart() {
    assert_broken(World { secrets_repeat: true, grants_count: false, ..World::sound() }, Broken::I1);
}

#[test]
fn accepted_sessions_are_not_recorded() {
    assert_broken(World { crashes: 0, ..flawed(Flaw::NothingRecorded) }, Broken::I1);
}

#[test]
fn a_record_is_evicted_without_a_new_secret() {
    let world = World { crashes: 0, evictions: 1, ..flawed(Flaw::EvictedWithoutNewSecret) };
    assert_broken(world, Broken::I1);
}

#[test]
fn two_processes_with_one_key_and_no_nonce() {
    let world = World { members: [1, 2, 2], crashes: 0, secrets_repeat: true, ..World::sound() };
    assert_broken(World { grants_count: false, ..world }, Broken::I1);
}

#[test]
fn the_papers_rules_with_one_crash() {
    // Recorded at the Commit, and with nothing in the Commit that a restart would change.
    assert_broken(World { secrets_repeat: true, grants_count: false, ..World::sound() }, Broken::I1);
    // Recorded at the Move: the replayed Move brings the record back.
    assert_broken(World { secrets_repeat: true, ..flawed(Flaw::RecordedAtMove) }, Broken::I1);
    let without = World { crashes: 0, sessions: 2, secrets_repeat: true, ..flawed(Flaw::RecordedAtMove) };
    assert!(search(without).broken.is_none(), "the paper is right as long as nobody forgets");
}

#[test]
fn the_papers_rules_with_an_evicted_record() {
    for flaw in [Flaw::EvictedWithoutNewSecret, Flaw::RecordedAtMove] {
        let world = World { crashes: 0, evictions: 1, secrets_repeat: true, ..flawed(flaw) };
        assert_broken(world, Broken::I1);
    }
}

#[test]
fn the_late_ack_of_an_abandoned_offer_is_honoured() {
    assert_broken(World { crashes: 0, ..flawed(Flaw::LateAckHonoured) }, Broken::I1);
}
