//! Each row of the taker's table.

use super::super::nouns::{Dropped, Event, Input, Message, Output};
use super::*;

#[test]
fn a_move_is_answered_and_nothing_is_kept() {
    let mut bench = Bench::idle();
    let first = bench.acked(2, 5);
    assert!(matches!(bench.said[..], [Output::Send { to, with_certificate: false, .. }] if to == member(2)));
    assert!(bench.machine.records.is_empty() && bench.machine.next_deadline().is_none());
    assert_eq!(bench.acked(2, 5), first, "a repeated Move gets the identical Ack");
    bench.pass(Duration::from_secs(3));
    let later = bench.acked(2, 5);
    assert_ne!(later, first);
    for nonce in [later, first] {
        let commit = received(2, 5, Message::Commit(nonce));
        assert!(bench.machine.is_relevant(&commit, bench.now), "both can be committed to, one will");
    }
}

#[test]
fn nonces_are_for_one_token_session_giver_and_taker() {
    let mut bench = Bench::idle();
    let nonce = bench.acked(2, 5);
    let other_token = TokenId { random: 8, ..TOKEN };
    let right = received(2, 5, Message::Commit(nonce));
    assert!(bench.machine.is_relevant(&right, bench.now));
    for wrong in [
        Received { token: other_token, ..right },
        Received { session: Session(6), ..right },
        Received { from: member(3), ..right },
    ] {
        assert!(!bench.machine.is_relevant(&wrong, bench.now), "{wrong:?}");
    }
    let twin = Handoff::new(member(7), CIRCLE, config(), [1; 32], WALL_MS, Time::ZERO);
    assert!(!twin.is_relevant(&right, bench.now), "another taker, even with the same secret");
    let elsewhere = CircleId::from_bytes([8; 16]);
    let elsewhere = Handoff::new(member(1), elsewhere, config(), [1; 32], WALL_MS, Time::ZERO);
    assert!(!elsewhere.is_relevant(&right, bench.now), "another circle");
    let reborn = machine(1, 2, Time::ZERO);
    assert!(!reborn.is_relevant(&right, bench.now), "another boot");
    for byte in 0..16 {
        let mut bytes = *nonce.as_bytes();
        bytes[byte] ^= 1;
        let forged = received(2, 5, Message::Commit(Nonce::from_bytes(bytes)));
        assert!(!bench.machine.is_relevant(&forged, bench.now), "byte {byte}");
    }
}

#[test]
fn who_is_draining_answers_no_move_but_takes_what_it_asked_for() {
    let mut bench = Bench::idle();
    let nonce = bench.acked(2, 5);
    bench.handle(Input::Open(false));
    bench.receive(2, 5, Message::Move);
    assert!(bench.said.is_empty());
    bench.receive(2, 5, Message::Commit(nonce));
    assert!(bench.holds());
}

#[test]
fn a_token_of_absurd_sessions_is_refused_and_one_from_the_future_is_not() {
    const YEAR: u64 = 365 * 86_400 * 1000;
    let bench = Bench::idle();
    let ask = |created_ms: i64, session| {
        let token = TokenId { created_ms: created_ms.unsigned_abs(), ..TOKEN };
        let received = Received { token, ..received(2, session, Message::Move) };
        bench.machine.is_relevant(&received, bench.now)
    };
    let wall = WALL_MS + 1000;
    for created_ms in [wall, wall + 3_600_000, i64::MAX] {
        // A busy circle uses ten sessions a second: it must not run out of them while clocks catch up with the birth.
        assert!(ask(created_ms, 1) && ask(created_ms, YEAR) && !ask(created_ms, YEAR + 1), "{created_ms}");
    }
    assert!(ask(wall - 5000, YEAR + 5000) && !ask(wall - 5000, YEAR + 5001));
    assert!(ask(0, 1_000_000) && !ask(0, u64::MAX) && !ask(-1, u64::MAX));
}

#[test]
fn a_move_for_a_token_that_we_hold_is_a_conflict() {
    for mut bench in [Bench::holding(), Bench::offering(), Bench::releasing(A_NONCE)] {
        bench.receive(3, 9, Message::Move);
        let conflict = Event::AuthorityConflict { token: TOKEN, from: member(3) };
        assert_eq!(bench.said, [Output::Event(conflict)]);
        assert!(bench.holds());
    }
}

#[test]
fn an_old_move_is_dropped_also_while_we_hold_the_token() {
    let (mut bench, _) = Bench::arrived();
    bench.receive(2, 5, Message::Move);
    assert!(bench.said.is_empty(), "a late copy of the Move that brought it is no conflict");
    bench.pass(config().record_life() * 2);
    bench.receive(2, 5, Message::Move);
    assert!(bench.said.is_empty(), "nor is it one much later");
    bench.handle(Input::Discard { token: TOKEN });
    let (mut bench, _) = Bench::arrived();
    bench.handle(Input::Discard { token: TOKEN });
    for session in [4, 5] {
        bench.receive(2, session, Message::Move);
        assert!(bench.said.is_empty());
    }
    bench.receive(2, 6, Message::Move);
    assert_eq!(bench.said.len(), 1);
}

#[test]
fn a_commit_with_our_nonce_brings_the_token() {
    let (bench, nonce) = Bench::arrived();
    let arrived = Event::Arrived { token: TOKEN, session: Session(5), from: member(2) };
    assert_eq!(bench.said, [Output::Event(arrived), send(2, 5, Message::EarlyStop(nonce), false)]);
    assert_eq!(bench.machine.session(TOKEN), Some(Session(5)));
}

#[test]
fn a_commit_is_believed_for_h_accept_and_no_longer() {
    let mut bench = Bench::idle();
    let nonce = bench.acked(2, 5);
    let commit = received(2, 5, Message::Commit(nonce));
    let accept = config().h_accept();
    assert!(bench.machine.is_relevant(&commit, bench.now + accept));
    bench.now = bench.now + accept + Duration::from_secs(1);
    bench.receive(2, 5, Message::Commit(nonce));
    assert!(bench.said.is_empty() && !bench.holds());
    let before = machine(1, 1, Time::ZERO);
    assert!(!before.is_relevant(&commit, Time::ZERO), "a nonce from the future is nobody's");
}

#[test]
fn a_repeated_commit_gets_early_stop_once_a_second() {
    let (mut bench, nonce) = Bench::arrived();
    let mut answers = 0;
    for _ in 0..30 {
        bench.pass(Duration::from_millis(100));
        bench.receive(2, 5, Message::Commit(nonce));
        answers += bench.said.len();
    }
    assert_eq!(answers, 3);
    bench.handle(Input::Discard { token: TOKEN });
    bench.pass(Duration::from_secs(1));
    bench.receive(2, 5, Message::Commit(nonce));
    assert_eq!(bench.said, [send(2, 5, Message::EarlyStop(nonce), false)], "also when it is gone again");
    assert!(!bench.holds());
}

#[test]
fn any_other_commit_is_dropped_before_verification() {
    let mut bench = Bench::idle();
    bench.receive(2, 5, Message::Commit(A_NONCE));
    assert!(bench.said.is_empty());
    let nonce = bench.acked(2, 5);
    bench.handle(Input::Generated { token: TOKEN });
    assert!(bench.holds());
    bench.receive(2, 5, Message::Commit(nonce));
    assert!(bench.said.is_empty(), "what we hold nobody can give us");
    assert_eq!(bench.machine.session(TOKEN), Some(Session(0)));
}

#[test]
fn a_member_that_starts_holds_nothing_and_knows_nothing() {
    let bench = Bench::idle();
    assert!(!bench.holds() && bench.machine.records.is_empty() && bench.machine.next_deadline().is_none());
}

#[test]
fn what_comes_from_ourselves_is_irrelevant() {
    for bench in [Bench::idle(), Bench::holding(), Bench::offering(), Bench::committing(A_NONCE)] {
        for message in [Message::Move, Message::Ack(A_NONCE), Message::EarlyStop(A_NONCE)] {
            assert!(!bench.machine.is_relevant(&received(1, 1, message), bench.now));
        }
    }
}

#[test]
fn a_sleep_makes_all_nonces_worthless() {
    let mut bench = Bench::idle();
    let nonce = bench.acked(2, 5);
    bench.handle(Input::Slept { asleep: Duration::from_secs(1), fresh_secret: [77; 32] });
    bench.receive(2, 5, Message::Commit(nonce));
    assert!(!bench.holds());
}

#[test]
fn an_accepted_session_is_forgotten_after_its_last_nonce_and_not_before() {
    let (mut bench, nonce) = Bench::arrived();
    bench.handle(Input::Discard { token: TOKEN });
    let commit = received(2, 5, Message::Commit(nonce));
    let accepted_at = bench.now;
    while bench.now.since(accepted_at) < config().record_life() {
        assert_eq!(bench.machine.records.len(), 1);
        bench.pass(Duration::from_secs(1));
        bench.receive(2, 5, Message::Commit(nonce));
        assert!(!bench.holds());
    }
    assert!(bench.machine.records.is_empty(), "forgotten");
    assert!(!bench.machine.is_relevant(&commit, bench.now), "and expired");
}

fn nth(n: u64) -> TokenId {
    TokenId { random: 1000 + n, ..TOKEN }
}

/// Lets the member accept this token from `OTHER`, and discard it again or not.
fn take(bench: &mut Bench, token: TokenId, keep: bool) -> Option<Received> {
    let ask = Received { token, ..received(2, 5, Message::Move) };
    bench.handle(Input::Received(ask));
    let Some(Output::Send { message: Message::Ack(nonce), .. }) = bench.said.pop() else { return None };
    let commit = Received { message: Message::Commit(nonce), ..ask };
    bench.handle(Input::Received(commit));
    if !keep {
        bench.handle(Input::Discard { token });
    }
    Some(commit)
}

#[test]
fn evicting_a_live_record_makes_all_nonces_worthless() {
    let mut bench = Bench::idle();
    let commits: Vec<Received> = (0..64).map(|n| take(&mut bench, nth(n), false).unwrap()).collect();
    let waiting = bench.acked(2, 5);
    assert_eq!(bench.machine.records.len(), TOKENS_MAX);
    take(&mut bench, nth(64), true).unwrap();
    assert_eq!(bench.machine.records.len(), TOKENS_MAX);
    assert!(bench.machine.holds(nth(64)), "the one that needed the room is in");
    for commit in commits {
        bench.handle(Input::Received(commit));
        assert!(!bench.machine.holds(commit.token));
    }
    bench.receive(2, 5, Message::Commit(waiting));
    assert!(!bench.holds(), "the price: what was on its way is lost");
    let again = bench.acked(2, 6);
    bench.receive(2, 6, Message::Commit(again));
    assert!(bench.holds(), "the new secret serves as well");
}

#[test]
fn room_is_made_by_what_has_expired_before_anything_is_evicted() {
    let mut bench = Bench::idle();
    for n in 0..64 {
        take(&mut bench, nth(n), false).unwrap();
    }
    let expiry = bench.now + config().record_life();
    bench.now = expiry - Duration::from_secs(1);
    let (first, second) = (bench.acked(2, 5), bench.acked(2, 6));
    bench.now = expiry;
    bench.receive(2, 5, Message::Commit(first));
    assert!(bench.holds());
    bench.handle(Input::Discard { token: TOKEN });
    bench.receive(2, 6, Message::Commit(second));
    assert!(bench.holds(), "the secret is still the same");
}

#[test]
fn who_accepts_a_token_repeats_no_commit_of_it() {
    // Only a cheat can hand us a token in the session in which we gave it away; even then we do not do both.
    let mut bench = Bench::committing(A_NONCE);
    let nonce = bench.acked(3, 1);
    bench.receive(3, 1, Message::Commit(nonce));
    assert!(bench.holds());
    assert_eq!(bench.machine.next_deadline(), None);
}

#[test]
fn held_tokens_are_never_evicted() {
    let mut bench = Bench::idle();
    for n in 0..64 {
        take(&mut bench, nth(n), true).unwrap();
    }
    take(&mut bench, nth(64), true);
    assert!(!bench.machine.holds(nth(64)) && bench.machine.holds(nth(0)));
    bench.handle(Input::Generated { token: TOKEN });
    let dropped = Event::Dropped { token: TOKEN, because: Dropped::NoRoom };
    assert_eq!(bench.said, [Output::Event(dropped)]);
    assert_eq!(bench.machine.records.len(), TOKENS_MAX);
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!("{:?}", machine(1, 0xab, Time::ZERO));
    let slept = Input::Slept { asleep: Duration::ZERO, fresh_secret: [0xab; 32] };
    let printed = printed + &format!("{slept:?}");
    assert!(!printed.contains("171") && !printed.contains("ab, ") && !printed.contains("abab"), "{printed}");
}

#[test]
fn a_charter_that_prolongs_the_times_makes_no_old_nonce_good_again() {
    // By short times the accepted session is forgotten; by long ones its nonce would be young enough.
    let short = Config::new(Duration::from_millis(100), Duration::from_secs(1));
    let long = Config::new(Duration::from_secs(60), Duration::from_secs(6000));
    let mut bench = Bench::idle();
    bench.machine.reconfigure(short.clone());
    let nonce = bench.acked(Bench::OTHER, 5);
    bench.receive(Bench::OTHER, 5, Message::Commit(nonce));
    bench.handle(Input::Discard { token: TOKEN });
    bench.now = bench.now + short.record_life() + Duration::from_secs(1);
    bench.handle(Input::Wake);
    bench.machine.reconfigure(long.clone());
    assert!(short.record_life() < long.h_accept(), "or this shows nothing");
    bench.receive(Bench::OTHER, 5, Message::Commit(nonce));
    assert!(!bench.machine.holds(TOKEN), "K5");
}
