//! Each row of the giver's table.

use super::super::nouns::{Dropped, Event, Input, Message, Output};
use super::*;

#[test]
fn an_offer_advances_the_session_and_sends_a_move() {
    let mut bench = Bench::holding();
    bench.offer(2);
    assert_eq!(bench.said, [send(2, 1, Message::Move, false)]);
    assert!(bench.holds(), "the slot goes on while the Move is on its way");
    assert_eq!(bench.machine.session(TOKEN), Some(Session(1)));
}

#[test]
fn an_offer_without_the_token_or_during_another_offer_is_ignored() {
    let mut bench = Bench::idle();
    bench.offer(2);
    assert!(bench.said.is_empty());
    let mut bench = Bench::offering();
    bench.offer(3);
    assert!(bench.said.is_empty());
    assert_eq!(bench.machine.session(TOKEN), Some(Session(1)));
}

#[test]
fn a_token_that_is_kept_advances_its_session_and_never_goes_back() {
    let renew = |session| Input::Renewed { token: TOKEN, session: Session(session) };
    let mut bench = Bench::holding();
    bench.handle(renew(1));
    assert_eq!((bench.said.len(), bench.machine.session(TOKEN)), (0, Some(Session(1))));
    bench.handle(renew(0));
    assert_eq!(bench.machine.session(TOKEN), Some(Session(1)));
    bench.offer(2);
    assert_eq!(bench.said, [send(2, 2, Message::Move, false)], "K7: above all that was used before");
    bench.handle(renew(9));
    assert_eq!(bench.machine.session(TOKEN), Some(Session(2)), "not while it is on offer");
    let mut bench = Bench::idle();
    bench.handle(renew(1));
    assert!(!bench.holds(), "to keep a token one must have it");
}

#[test]
fn an_unanswered_move_is_repeated_with_certificate_then_given_up() {
    let mut bench = Bench::offering();
    for _ in 0..2 {
        bench.wake();
        assert_eq!(bench.said, [send(2, 1, Message::Move, true)]);
    }
    bench.wake();
    assert_eq!(bench.said, [Output::Event(Event::Unreachable { token: TOKEN, to: member(2) })]);
    assert_eq!(bench.machine.session(TOKEN), Some(Session(1)), "we hold it, in the session of the attempt");
    assert_eq!(bench.now, Time::from_secs(1) + 3 * config().rto_first);
    bench.offer(3);
    assert_eq!(bench.said, [send(3, 2, Message::Move, false)]);
}

#[test]
fn the_wait_for_an_answer_is_the_measured_one_within_bounds() {
    for (timeout_ms, rto_ms) in [(Some(1), 100), (Some(200), 200), (Some(9000), 2000), (None, 1000)] {
        let mut bench = Bench::holding();
        let timeout = timeout_ms.map(Duration::from_millis);
        bench.handle(Input::Offer { token: TOKEN, taker: member(2), timeout });
        let due = bench.machine.next_deadline().unwrap();
        assert_eq!(due.since(bench.now), Duration::from_millis(rto_ms), "{timeout_ms:?} ms");
    }
}

#[test]
fn an_ack_of_the_current_offer_stops_the_slot_and_nothing_else_yet() {
    let bench = Bench::releasing(A_NONCE);
    assert_eq!(bench.said, [Output::StopSlot { token: TOKEN }]);
    assert!(bench.holds(), "a pull that does not stop keeps the Commit back");
    assert_eq!(bench.machine.next_deadline(), None);
}

#[test]
fn an_ack_that_waited_while_we_were_busy_is_still_in_time() {
    let mut bench = Bench::offering();
    bench.now = bench.now + Duration::from_secs(30);
    bench.receive(2, 1, Message::Ack(A_NONCE));
    assert_eq!(bench.said, [Output::StopSlot { token: TOKEN }]);
}

#[test]
fn a_stopped_slot_releases_the_token_before_the_commit_is_sent() {
    let bench = Bench::committing(A_NONCE);
    let released = Event::Released { token: TOKEN, session: Session(1), to: member(2) };
    assert_eq!(bench.said, [Output::Event(released), send(2, 1, Message::Commit(A_NONCE), false)]);
    assert!(!bench.holds());
}

#[test]
fn who_is_banned_gets_nothing_that_was_not_committed() {
    let mut releasing = Bench::offering();
    releasing.receive(2, 1, Message::Ack(A_NONCE));
    for mut bench in [Bench::offering(), releasing] {
        bench.handle(Input::Banned { member: member(3) });
        assert!(bench.said.is_empty(), "somebody else");
        bench.handle(Input::Banned { member: member(2) });
        assert_eq!(bench.said, [Output::Event(Event::Unreachable { token: TOKEN, to: member(2) })]);
        assert!(bench.holds());
        bench.handle(Input::SlotStopped { token: TOKEN });
        assert!(bench.said.is_empty(), "the stopped pull releases nothing");
        bench.receive(2, 1, Message::Ack(A_NONCE));
        assert!(bench.said.is_empty(), "nor does its Ack, should it be heard again");
        bench.handle(Input::Offer { token: TOKEN, taker: member(3), timeout: None });
        assert_eq!(bench.said, [send(3, 2, Message::Move, false)], "another attempt, another session");
    }
    let mut committing = Bench::committing(A_NONCE);
    committing.handle(Input::Banned { member: member(2) });
    assert!(committing.said.is_empty() && !committing.holds(), "what was given is gone");
}

#[test]
fn a_stopped_slot_means_nothing_unless_we_are_releasing() {
    for mut bench in [Bench::idle(), Bench::holding(), Bench::offering(), Bench::committing(A_NONCE)] {
        let held = bench.holds();
        bench.handle(Input::SlotStopped { token: TOKEN });
        assert!(bench.said.is_empty());
        assert_eq!(bench.holds(), held);
    }
}

#[test]
fn a_repeated_ack_gets_the_commit_again_once_per_rto() {
    let mut bench = Bench::committing(A_NONCE);
    bench.receive(2, 1, Message::Ack(A_NONCE));
    assert!(bench.said.is_empty(), "the first Commit may still be on its way");
    // The timer takes its turn first; the Ack after it is again too early.
    bench.pass(config().rto_first);
    assert_eq!(bench.said, [send(2, 1, Message::Commit(A_NONCE), true)]);
    bench.receive(2, 1, Message::Ack(A_NONCE));
    assert!(bench.said.is_empty());
    bench.pass(config().rto_first);
    assert!(bench.said.is_empty(), "by now the timer waits longer than an RTO");
    bench.receive(2, 1, Message::Ack(A_NONCE));
    assert_eq!(bench.said, [send(2, 1, Message::Commit(A_NONCE), true)]);
}

#[test]
fn any_other_ack_is_dropped_before_verification() {
    let ack = |from, session, nonce| received(from, session, Message::Ack(nonce));
    // Late enough for a repetition: the right Ack would get one.
    let mut committing = Bench::committing(A_NONCE);
    committing.pass(config().rto_first);
    committing.pass(config().rto_first);
    assert!(committing.machine.is_relevant(&ack(2, 1, A_NONCE), committing.now));
    for (bench, acks) in [
        (Bench::idle(), vec![ack(2, 1, A_NONCE)]),
        (Bench::holding(), vec![ack(2, 0, A_NONCE), ack(2, 1, A_NONCE)]),
        (
            Bench::offering(),
            vec![ack(3, 1, A_NONCE), ack(2, 0, A_NONCE), ack(2, 2, A_NONCE), ack(1, 1, A_NONCE)],
        ),
        (Bench::releasing(A_NONCE), vec![ack(2, 1, A_NONCE), ack(2, 1, ANOTHER_NONCE)]),
        (committing, vec![ack(2, 1, ANOTHER_NONCE), ack(3, 1, A_NONCE), ack(2, 2, A_NONCE)]),
    ] {
        for received in acks {
            assert!(!bench.machine.is_relevant(&received, bench.now), "{received:?}");
            let mut machine = bench.machine.clone();
            machine.handle(Input::Received(received), bench.now);
            assert_eq!(machine.poll_output(), None, "{received:?}");
            assert_eq!(machine.records, bench.machine.records);
        }
    }
}

#[test]
fn a_commit_is_repeated_ever_more_slowly_until_h_commit() {
    let mut bench = Bench::committing(A_NONCE);
    let (began, mut last, mut gaps) = (bench.now, bench.now, Vec::new());
    loop {
        bench.wake();
        if bench.said != [send(2, 1, Message::Commit(A_NONCE), true)] {
            break;
        }
        gaps.push(bench.now.since(last));
        last = bench.now;
    }
    let abandoned = Event::CommitAbandoned { token: TOKEN, session: Session(1), to: member(2) };
    assert_eq!(bench.said, [Output::Event(abandoned)]);
    assert_eq!(bench.now.since(began), config().h_commit());
    assert_eq!(gaps[..3], [1000, 1500, 2250].map(Duration::from_millis));
    assert!(gaps.is_sorted() && gaps.last() == Some(&config().commit_gap_max));
    assert!(!bench.holds(), "K8");
    assert_eq!(bench.machine.next_deadline(), None);
    assert!(bench.machine.records.is_empty());
}

#[test]
fn an_ack_after_h_commit_gets_nothing() {
    let mut bench = Bench::committing(A_NONCE);
    bench.now = bench.now + config().h_commit();
    assert!(!bench.machine.is_relevant(&received(2, 1, Message::Ack(A_NONCE)), bench.now));
}

#[test]
fn early_stop_ends_the_commit_if_it_is_the_right_one() {
    let mut bench = Bench::committing(A_NONCE);
    for (from, session, nonce) in [(3, 1, A_NONCE), (2, 2, A_NONCE), (2, 1, ANOTHER_NONCE)] {
        bench.receive(from, session, Message::EarlyStop(nonce));
        assert!(bench.said.is_empty());
        assert!(bench.machine.next_deadline().is_some(), "Commits go on");
    }
    bench.receive(2, 1, Message::EarlyStop(A_NONCE));
    let confirmed = Event::Confirmed { token: TOKEN, session: Session(1), to: member(2) };
    assert_eq!(bench.said, [Output::Event(confirmed)]);
    assert_eq!(bench.machine.next_deadline(), None);
}

#[test]
fn a_move_of_a_later_session_proves_delivery_also_to_who_is_draining() {
    let confirmed = Output::Event(Event::Confirmed { token: TOKEN, session: Session(1), to: member(2) });
    let mut bench = Bench::committing(A_NONCE);
    bench.receive(2, 2, Message::Move);
    assert_eq!(bench.said[0], confirmed);
    assert!(matches!(bench.said[1..], [Output::Send { message: Message::Ack(_), .. }]));

    let mut bench = Bench::committing(A_NONCE);
    bench.handle(Input::Open(false));
    bench.receive(2, 1, Message::Move);
    assert!(bench.said.is_empty(), "the same session proves nothing");
    bench.receive(2, 2, Message::Move);
    assert_eq!(bench.said, [confirmed]);
}

#[test]
fn a_nap_stops_the_slot_and_a_long_sleep_drops_the_token() {
    let slept = |asleep| Input::Slept { asleep, fresh_secret: [8; 32] };
    let fence = config().t_selffence();
    for mut bench in [Bench::holding(), Bench::offering(), Bench::releasing(A_NONCE)] {
        bench.handle(slept(fence));
        assert!(bench.holds());
        assert_eq!(bench.said, [Output::StopSlot { token: TOKEN }]);
        bench.handle(slept(fence + Duration::from_millis(1)));
        assert!(!bench.holds());
        let dropped = Event::Dropped { token: TOKEN, because: Dropped::Slept };
        assert_eq!(bench.said, [Output::StopSlot { token: TOKEN }, Output::Event(dropped)]);
        bench.handle(Input::SlotStopped { token: TOKEN });
        assert!(bench.said.is_empty(), "what was dropped is not committed");
    }
}

#[test]
fn a_discarded_token_is_gone_at_once() {
    for mut bench in [Bench::holding(), Bench::offering(), Bench::releasing(A_NONCE)] {
        bench.handle(Input::Discard { token: TOKEN });
        assert!(bench.said.is_empty(), "another token's slot may be running");
        assert!(!bench.holds() && bench.machine.next_deadline().is_none());
        bench.handle(Input::SlotStopped { token: TOKEN });
        bench.receive(2, 1, Message::Ack(A_NONCE));
        assert!(bench.said.is_empty());
    }
}

#[test]
fn a_token_whose_sessions_are_used_up_is_dropped() {
    let mut bench = Bench::holding();
    bench.machine.records.get_mut(&TOKEN).unwrap().authority =
        record::Authority::Holding { session: Session(u64::MAX) };
    bench.offer(2);
    let dropped = Event::Dropped { token: TOKEN, because: Dropped::SessionsUsedUp };
    assert_eq!(bench.said, [Output::StopSlot { token: TOKEN }, Output::Event(dropped)]);
    assert!(!bench.holds());
}
