//! Histories that break lesser protocols, one by one: what the model checker covers in numbers, told as stories.

use super::super::nouns::{Event, Input, Message, Output};
use super::*;

/// Three members on a network in which nothing arrives unless it is delivered, and everything can be, again and again.
struct Circle {
    machines: Vec<Handoff>,
    boots: u8,
    now: Time,
    sent: Vec<Datagram>,
    events: Vec<Event>,
}

impl Circle {
    /// Member 1 holds the token.
    fn new() -> Self {
        let machines = (1..=3).map(|n| machine(n, n, Time::ZERO)).collect();
        let mut circle = Self { machines, boots: 3, now: Time::ZERO, sent: Vec::new(), events: Vec::new() };
        circle.input(1, Input::Generated { token: TOKEN });
        circle
    }

    fn input(&mut self, n: u8, input: Input) {
        let machine = &mut self.machines[usize::from(n) - 1];
        machine.handle(input, self.now);
        let mut stop = false;
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Send { to, token, session, message, .. } => {
                    let received = Received { from: member(n), token, session, message };
                    self.sent.push(Datagram { to, received });
                }
                Output::StopSlot { .. } => stop = true,
                Output::Event(event) => self.events.push(event),
            }
        }
        if stop {
            self.input(n, Input::SlotStopped { token: TOKEN });
        }
        assert!(self.holders().len() <= 1, "two holders");
    }

    fn offer(&mut self, from: u8, to: u8) -> Datagram {
        let taker = member(to);
        self.input(from, Input::Offer { token: TOKEN, taker, timeout: None });
        self.last()
    }

    /// Delivers this datagram, and gives what was sent in answer, if anything was.
    fn deliver(&mut self, datagram: Datagram) -> Option<Datagram> {
        let before = self.sent.len();
        let n = datagram.to.as_bytes()[0];
        self.input(n, Input::Received(datagram.received));
        self.sent.get(before).copied()
    }

    fn answer(&mut self, datagram: Datagram) -> Datagram {
        self.deliver(datagram).expect("an answer")
    }

    /// A whole handoff; gives its Move, Ack, Commit and EarlyStop, the last of which is not delivered.
    fn hand_over(&mut self, from: u8, to: u8) -> [Datagram; 4] {
        let ask = self.offer(from, to);
        let ack = self.answer(ask);
        let commit = self.answer(ack);
        let stop = self.answer(commit);
        assert_eq!(self.holders(), [to]);
        [ask, ack, commit, stop]
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for n in 1..=3 {
            self.input(n, Input::Wake);
        }
    }

    /// Lets all Moves of the present offer go unanswered.
    fn give_up(&mut self) {
        for _ in 0..3 {
            self.pass(config().rto_max);
        }
        assert!(matches!(self.events.last(), Some(Event::Unreachable { .. })));
    }

    fn restart(&mut self, n: u8) {
        self.boots += 1;
        self.machines[usize::from(n) - 1] = machine(n, self.boots, self.now);
    }

    fn last(&self) -> Datagram {
        *self.sent.last().expect("something was sent")
    }

    fn holders(&self) -> Vec<u8> {
        (1..=3).filter(|n| self.machines[usize::from(*n) - 1].holds(TOKEN)).collect()
    }
}

#[test]
fn lost_moves_and_acks_are_made_up_for() {
    let mut circle = Circle::new();
    circle.offer(1, 2);
    circle.pass(config().rto_first);
    let second = circle.last();
    circle.deliver(second);
    circle.pass(config().rto_first);
    let third = circle.last();
    assert_eq!(third.received, second.received);
    let ack = circle.answer(third);
    let commit = circle.answer(ack);
    circle.deliver(commit);
    assert_eq!(circle.holders(), [2]);
}

#[test]
fn giving_up_with_the_ack_in_flight_keeps_the_token() {
    let mut circle = Circle::new();
    let ask = circle.offer(1, 2);
    let ack = circle.answer(ask);
    circle.give_up();
    assert_eq!(circle.deliver(ack), None);
    assert_eq!(circle.holders(), [1]);
}

#[test]
fn a_late_ack_during_an_offer_to_another_means_nothing() {
    let mut circle = Circle::new();
    let first = circle.offer(1, 2);
    let late = circle.answer(first);
    circle.give_up();
    let second = circle.offer(1, 3);
    assert_eq!(circle.deliver(late), None);
    let ack = circle.answer(second);
    let commit = circle.answer(ack);
    assert_eq!(circle.deliver(late), None);
    circle.deliver(commit);
    assert_eq!(circle.holders(), [3]);
}

#[test]
fn a_late_ack_does_not_pass_for_one_of_the_next_offer_to_the_same_taker() {
    let mut circle = Circle::new();
    let first = circle.offer(1, 2);
    let late = circle.answer(first);
    circle.give_up();
    let second = circle.offer(1, 2);
    assert!(first.received.session < second.received.session);
    assert_eq!(circle.deliver(late), None);
    let ack = circle.answer(second);
    let commit = circle.answer(ack);
    circle.deliver(commit);
    assert_eq!(circle.holders(), [2]);
}

#[test]
fn a_token_whose_commits_are_all_lost_is_lost_and_not_doubled() {
    let mut circle = Circle::new();
    let ask = circle.offer(1, 2);
    let ack = circle.answer(ask);
    let commit = circle.answer(ack);
    let until = circle.now + config().h_commit();
    while circle.now < until {
        circle.pass(Duration::from_secs(1));
        assert!(circle.holders().is_empty());
    }
    assert!(matches!(circle.events.last(), Some(Event::CommitAbandoned { .. })));
    assert_eq!(circle.deliver(ack), None);
    circle.pass(config().h_accept());
    assert_eq!(circle.deliver(commit), None, "too late to revive it");
    assert!(circle.holders().is_empty());
}

#[test]
fn a_commit_that_took_long_still_arrives() {
    let mut circle = Circle::new();
    let ask = circle.offer(1, 2);
    let ack = circle.answer(ask);
    circle.pass(Duration::from_millis(400));
    let commit = circle.answer(ack);
    circle.pass(config().h_commit());
    circle.deliver(commit);
    assert_eq!(circle.holders(), [2]);
}

#[test]
fn a_repeated_commit_is_no_second_arrival() {
    let mut circle = Circle::new();
    let [.., commit, stop] = circle.hand_over(1, 2);
    circle.pass(Duration::from_secs(1));
    assert_eq!(circle.answer(commit), stop, "while it holds the token");
    circle.hand_over(2, 3);
    circle.pass(Duration::from_secs(1));
    assert_eq!(circle.answer(commit), stop, "after it passed the token on");
    assert_eq!(circle.holders(), [3]);
}

#[test]
fn a_replay_to_a_restarted_taker_is_nothing() {
    // The paper's own rules give two holders here.
    let mut circle = Circle::new();
    let [ask, _, commit, _] = circle.hand_over(1, 2);
    circle.hand_over(2, 3);
    circle.restart(2);
    assert_eq!(circle.deliver(commit), None);
    let ack = circle.answer(ask);
    assert_eq!(circle.deliver(ack), None, "the giver has its nonce already");
    assert_eq!(circle.deliver(commit), None);
    assert_eq!(circle.holders(), [3]);
}

#[test]
fn a_replay_after_eviction_is_nothing() {
    let mut circle = Circle::new();
    let [ask, _, commit, _] = circle.hand_over(1, 2);
    let [.., second_stop] = circle.hand_over(2, 3);
    circle.deliver(second_stop);
    circle.machines[1].evict_now(TOKEN);
    assert_eq!(circle.deliver(commit), None);
    circle.answer(ask);
    assert_eq!(circle.deliver(commit), None);
    assert_eq!(circle.holders(), [3]);
}

#[test]
fn a_taker_that_restarts_between_ack_and_commit_gets_nothing() {
    let mut circle = Circle::new();
    let ask = circle.offer(1, 2);
    let ack = circle.answer(ask);
    circle.restart(2);
    let commit = circle.answer(ack);
    assert_eq!(circle.deliver(commit), None);
    let second_ack = circle.answer(ask);
    assert_ne!(second_ack, ack);
    circle.pass(Duration::from_secs(1));
    assert_eq!(circle.deliver(second_ack), None, "K2");
    assert!(circle.holders().is_empty(), "lost: the circle will make a new one");
}

#[test]
fn of_two_acks_with_different_nonces_the_first_counts() {
    let mut circle = Circle::new();
    let ask = circle.offer(1, 2);
    let early = circle.answer(ask);
    circle.now = circle.now + Duration::from_secs(2);
    let late = circle.answer(ask);
    assert_ne!(early, late);
    let commit = circle.answer(late);
    assert_eq!(circle.deliver(early), None);
    circle.deliver(commit);
    assert_eq!(circle.holders(), [2]);
}

#[test]
fn a_giver_that_restarts_anywhere_holds_nothing() {
    for steps in 0..4 {
        let mut circle = Circle::new();
        let mut datagram = circle.offer(1, 2);
        for _ in 0..steps {
            datagram = circle.answer(datagram);
        }
        circle.restart(1);
        let delivered = circle.holders();
        for old in circle.sent.clone() {
            circle.deliver(old);
        }
        let survives = steps >= 2;
        assert_eq!(circle.holders(), if survives { vec![2] } else { vec![] }, "after {steps} answers");
        assert_eq!(delivered.is_empty(), steps < 3);
    }
}

#[test]
fn the_token_comes_back_while_its_giver_still_repeats_the_commit() {
    let mut circle = Circle::new();
    let [.., commit, stop] = circle.hand_over(1, 2);
    circle.pass(config().rto_first);
    assert_eq!(circle.last(), commit, "no EarlyStop yet");
    let back = circle.offer(2, 1);
    let ack = circle.answer(back);
    assert!(circle.events.contains(&Event::Confirmed { token: TOKEN, session: Session(1), to: member(2) }));
    let commit_back = circle.answer(ack);
    circle.deliver(commit_back);
    assert_eq!(circle.holders(), [1]);
    for old in [commit, stop, commit_back] {
        circle.deliver(old);
        assert_eq!(circle.holders(), [1]);
    }
    assert_eq!(circle.machines[0].session(TOKEN), Some(Session(2)));
}

#[test]
fn a_move_for_a_token_that_we_hold_is_reported_and_not_answered() {
    let mut circle = Circle::new();
    let received = received(3, 5, Message::Move);
    assert_eq!(circle.deliver(Datagram { to: member(1), received }), None);
    assert_eq!(circle.events, [Event::AuthorityConflict { token: TOKEN, from: member(3) }]);
}

#[test]
fn of_two_givers_with_one_session_one_succeeds() {
    // Member 1 runs twice with copied memory, which the rules do not promise to survive; even so the taker takes one.
    let mut circle = Circle::new();
    let ask = circle.offer(1, 3);
    let mut clone = circle.machines[0].clone();
    let ack = circle.answer(ask);
    let commit = circle.answer(ack);
    clone.handle(Input::Received(ack.received), circle.now);
    circle.deliver(commit);
    circle.pass(Duration::from_secs(1));
    assert_eq!(
        circle.answer(commit).received.message,
        match commit.received.message {
            Message::Commit(nonce) => Message::EarlyStop(nonce),
            other => other,
        }
    );
    assert_eq!(circle.holders(), [3]);
    let arrivals = circle.events.iter().filter(|event| matches!(event, Event::Arrived { .. })).count();
    assert_eq!(arrivals, 1);
}

#[test]
fn an_offer_to_myself_is_refused_and_costs_no_session() {
    let mut circle = Circle::new();
    circle.input(1, Input::Offer { token: TOKEN, taker: member(1), timeout: None });
    assert_eq!(circle.events, [Event::Unreachable { token: TOKEN, to: member(1) }]);
    assert!(circle.sent.is_empty());
    assert_eq!(circle.machines[0].session(TOKEN), Some(Session(0)));
}
