//! Each rule by itself, on the machine.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::{Hearsay, MemberId, Rng, Session, Sighting, Time, TokenId};

const SLOT: u64 = 4;
const MIN_INTERVAL: u64 = 600;

fn member(n: u8) -> MemberId {
    MemberId::from_bytes([n; 16])
}

const ME: u8 = 0;

/// A token created at this moment by somebody else; the smaller the elder.
fn token_id(created_ms: u64) -> TokenId {
    TokenId { created_ms, generator: member(99), random: 0 }
}

fn token(created_ms: u64, session: u64, age_s: u64) -> Token {
    Token { id: token_id(created_ms), session: Session(session), age: Duration::from_secs(age_s) }
}

/// An agent, the time, and what it said last.
struct Bench {
    agent: Agent,
    now: Time,
    said: Vec<Output>,
}

impl Bench {
    /// A member of the case study's circle, with something to pull.
    fn new(rules: Rules) -> Self {
        let config = Config::new(Duration::from_secs(SLOT), Duration::from_millis(100), 300, rules).unwrap();
        let agent = Agent::new(member(ME), Arc::new(config), Rng::seeded(1), 1_000_000, Time::ZERO);
        let mut bench = Self { agent, now: Time::ZERO, said: Vec::new() };
        bench.tell(Input::Work(true));
        bench
    }

    fn tell(&mut self, input: Input) -> &mut Self {
        self.agent.handle(input, self.now);
        self.said = std::iter::from_fn(|| self.agent.poll_output()).collect();
        self
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = Time::ZERO + Duration::from_secs_f64(seconds);
        self
    }

    fn wake_at(&mut self, seconds: f64) -> &mut Self {
        self.at(seconds).tell(Input::Wake)
    }

    fn arrives(&mut self, token: Token, from: u8) -> &mut Self {
        self.tell(Input::Arrived { token, from: member(from) })
    }

    fn hears(&mut self, from: u8, message: Message) -> &mut Self {
        self.tell(Input::Received { from: member(from), message, round_trip: None })
    }

    /// One member has answered a question so soon.
    fn has_measured(&mut self, round_trip_ms: u64) -> &mut Self {
        let message = Message::Holding { token: token_id(77), session: Session(0) };
        let round_trip = Some(Duration::from_millis(round_trip_ms));
        self.tell(Input::Received { from: member(8), message, round_trip })
    }

    fn reports(&mut self, from: u8, waited_s: u64) -> &mut Self {
        let waited = Some(Duration::from_secs(waited_s));
        self.hears(from, Message::Report { waited, has_work: true, hearsay: Hearsay::default() })
    }

    /// Rests or pulls as long as it must, then hands the token to this member; the taker confirms.
    fn passes_to(&mut self, to: u8) -> &mut Self {
        let mut wakes = 0;
        while !self.offered() {
            self.now = self.agent.next_deadline();
            self.tell(Input::Wake);
            wakes += 1;
            assert!(wakes < 10, "it never offers: {:?}", self.said);
        }
        let session = self.agent.token().unwrap().session.next().unwrap();
        let id = self.agent.token().unwrap().id;
        self.tell(Input::Accepted { to: member(to), session, timeout: Duration::ZERO });
        let passed = std::mem::take(&mut self.said);
        self.tell(Input::Confirmed { token: id, session });
        self.said.splice(0..0, passed);
        self
    }

    fn offered(&self) -> bool {
        self.said.iter().any(|output| matches!(output, Output::Offer { .. }))
    }

    /// To whom it offered the token, if it did: outer `None` for no offer, inner `None` for anyone.
    #[expect(clippy::option_option, reason = "both levels mean something")]
    fn offer(&self) -> Option<Option<MemberId>> {
        self.said.iter().find_map(|output| match output {
            Output::Offer { to } => Some(*to),
            _ => None,
        })
    }

    fn events(&self) -> Vec<Event> {
        self.said
            .iter()
            .filter_map(|output| if let Output::Event(event) = output { Some(*event) } else { None })
            .collect()
    }

    fn sent(&self) -> Vec<(MemberId, Message)> {
        let sent = |output: &Output| match output {
            Output::Send { to, message } => Some((*to, message.clone())),
            _ => None,
        };
        self.said.iter().filter_map(sent).collect()
    }

    fn discarded(&self) -> Option<Spurious> {
        self.events().into_iter().find_map(|event| match event {
            Event::Discarded { because, .. } => Some(because),
            _ => None,
        })
    }

    fn generated(&self) -> Option<Origin> {
        self.events().into_iter().find_map(|event| match event {
            Event::Generated { because, .. } => Some(because),
            _ => None,
        })
    }
}

fn guarded_but(change: impl FnOnce(&mut Rules)) -> Rules {
    let mut rules = Rules::guarded();
    change(&mut rules);
    rules
}

// --- slot, skip, route ------------------------------------------------------------------------------------------

#[test]
fn a_first_visit_gives_a_slot_of_delta_op() {
    let mut bench = Bench::new(Rules::classic());
    bench.at(10.0).arrives(token(1, 0, 0), 1);
    let until = Time::from_secs(10 + SLOT);
    let id = token_id(1);
    assert_eq!(bench.events(), [Event::Visited { token: id }, Event::SlotBegan { token: id, until }]);
    assert!(bench.agent.is_pulling());
    bench.wake_at(13.999);
    assert!(bench.said.is_empty());
    bench.wake_at(14.0);
    assert_eq!(bench.events(), [Event::SlotEnded]);
    assert_eq!(bench.offer(), Some(None), "to anyone");
}

#[test]
fn a_visit_within_delta_min_of_the_last_slot_only_rests() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(1, 0, 0), 1).passes_to(2);
    bench.at(600.0).arrives(token(1, 7, 0), 3);
    assert_eq!(bench.events().last(), Some(&Event::Skipped), "Δ_min must be over, not just reached");
    bench.wake_at(600.1);
    assert_eq!(bench.offer(), Some(None));
    bench.passes_to(4).at(601.0).arrives(token(1, 12, 0), 3);
    assert!(matches!(bench.events().last(), Some(Event::SlotBegan { .. })));
}

#[test]
fn a_visit_without_anything_to_pull_only_rests() {
    let mut bench = Bench::new(Rules::classic());
    bench.tell(Input::Work(false)).arrives(token(1, 0, 0), 1);
    assert_eq!(bench.events().last(), Some(&Event::Skipped));
}

#[test]
fn a_slot_is_given_up_when_there_is_nothing_left_to_pull() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(1, 0, 0), 1).at(1.5).tell(Input::Work(false));
    assert_eq!(bench.events(), [Event::SlotEnded]);
    assert!(bench.offered());
}

#[test]
fn a_token_grows_older_where_it_is_held_and_keeps_the_session_of_its_handoff() {
    let mut bench = Bench::new(Rules::classic());
    bench.at(10.0).arrives(token(1, 5, 100), 1).passes_to(2);
    let passed = Token { id: token_id(1), session: Session(6), age: Duration::from_secs(100 + SLOT) };
    assert_eq!(bench.said.first(), Some(&Output::Pass { to: member(2), token: passed }));
    assert_eq!(bench.agent.token(), None);
}

#[test]
fn an_unreachable_member_leads_to_another_offer() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(1, 0, 0), 1).wake_at(4.0);
    bench.tell(Input::Unreachable { member: Some(member(2)) });
    assert_eq!(bench.offer(), Some(None));
    assert!(bench.agent.token().is_some(), "the token stays until somebody takes it");
}

#[test]
fn a_member_that_is_alone_keeps_the_token_and_pulls_again_when_a_slot_is_due() {
    let mut bench = Bench::new(Rules::guarded());
    bench.agent.found(Time::ZERO);
    while bench.agent.poll_output().is_some() {}
    let mut slots = 0;
    while bench.now < Time::from_secs(2000) {
        bench.now = bench.agent.next_deadline();
        bench.tell(Input::Wake);
        let mut said = std::mem::take(&mut bench.said);
        if said.iter().any(|output| matches!(output, Output::Offer { .. })) {
            bench.tell(Input::Unreachable { member: None });
            said.append(&mut bench.said);
        }
        slots +=
            said.iter().filter(|output| matches!(output, Output::Event(Event::SlotBegan { .. }))).count();
    }
    assert_eq!(slots, 500, "one after the other");
    assert!(bench.agent.token().is_some());
}

#[test]
fn an_acceptance_without_an_offer_passes_nothing() {
    let mut bench = Bench::new(Rules::classic());
    let accepted = Input::Accepted { to: member(1), session: Session(1), timeout: Duration::ZERO };
    assert!(bench.tell(accepted.clone()).said.is_empty());
    bench.arrives(token(1, 0, 0), 1).tell(accepted);
    assert!(bench.said.is_empty() && bench.agent.token().is_some());
}

#[test]
fn a_worn_out_token_ends() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(1, u64::MAX, 0), 1);
    assert_eq!(bench.discarded(), Some(Spurious::WornOut));
}

// --- removal ----------------------------------------------------------------------------------------------------

#[test]
fn classic_discards_a_token_that_comes_again_after_an_elder_one() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(20, 0, 0), 1).passes_to(2);
    bench.at(100.0).arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(200.0).arrives(token(20, 9, 0), 1);
    assert_eq!(bench.events(), [Event::Discarded { token: token_id(20), because: Spurious::Sandwiched }]);
    assert_eq!(bench.agent.token(), None);
}

#[test]
fn classic_keeps_the_elder_token_and_one_that_it_sees_for_the_first_time() {
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(100.0).arrives(token(20, 0, 0), 1);
    assert_eq!(bench.discarded(), None, "the first visit of a younger token proves nothing");
    bench.passes_to(2).at(200.0).arrives(token(10, 9, 0), 1);
    assert_eq!(bench.discarded(), None, "a younger one in between proves nothing");
}

#[test]
fn early_discards_a_token_if_an_elder_one_gave_a_slot_less_than_delta_min_ago() {
    let mut bench = Bench::new(Rules::early());
    bench.arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(599.0).arrives(token(20, 0, 0), 1);
    assert_eq!(bench.discarded(), Some(Spurious::Preceded));
}

#[test]
fn early_keeps_an_elder_token_and_any_token_after_delta_min() {
    let mut bench = Bench::new(Rules::early());
    bench.arrives(token(20, 0, 0), 1).passes_to(2);
    bench.at(100.0).arrives(token(10, 0, 0), 1);
    assert_eq!(bench.discarded(), None);
    let mut bench = Bench::new(Rules::early());
    bench.arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(600.0).arrives(token(20, 0, 0), 1);
    assert_eq!(bench.discarded(), None);
}

#[test]
fn early_knows_no_sandwich_and_classic_no_precedence() {
    let mut bench = Bench::new(Rules::early());
    bench.arrives(token(20, 0, 0), 1).passes_to(2);
    bench.at(700.0).arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(1400.0).arrives(token(20, 9, 0), 1);
    assert_eq!(bench.discarded(), None);
    let mut bench = Bench::new(Rules::classic());
    bench.arrives(token(10, 0, 0), 1).passes_to(2);
    bench.at(100.0).arrives(token(20, 0, 0), 1);
    assert_eq!(bench.discarded(), None);
}

#[test]
fn of_two_tokens_that_meet_the_elder_stays() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(20, 0, 0), 1).at(1.0).arrives(token(10, 0, 0), 2);
    assert_eq!(bench.discarded(), Some(Spurious::Met));
    assert_eq!(bench.agent.token().unwrap().id, token_id(10));
    bench.at(2.0).arrives(token(30, 0, 0), 3);
    assert_eq!(bench.discarded(), Some(Spurious::Met));
    assert_eq!(bench.agent.token().unwrap().id, token_id(10));
}

#[test]
fn in_the_papers_who_has_a_token_takes_no_other() {
    for (rules, is_open) in [(Rules::early(), false), (Rules::classic(), false), (Rules::guarded(), true)] {
        let mut bench = Bench::new(rules);
        assert!(bench.agent.is_open());
        bench.arrives(token(20, 0, 0), 1);
        assert_eq!(bench.agent.is_open(), is_open);
    }
}

fn seen(created_ms: u64, session: u64, age_s: u64) -> Hearsay {
    let age = Duration::from_secs(age_s);
    [Some(Sighting { token: token_id(created_ms), session: Session(session), age }), None]
}

#[test]
fn a_holder_that_hears_of_an_elder_token_seen_after_its_own_ones_birth_discards_it_at_once() {
    let mut bench = Bench::new(Rules::guarded());
    bench.at(100.0).arrives(token(20, 3, 60), 1);
    bench.at(101.0).hears(5, Message::Report { waited: None, has_work: true, hearsay: seen(10, 0, 2) });
    assert_eq!(
        bench.events()[..2],
        [Event::SlotEnded, Event::Discarded { token: token_id(20), because: Spurious::ElderSeen }]
    );
    let release = Message::Release { token: token_id(20), session: Session(3) };
    assert_eq!(bench.sent(), [(member(1), release)], "or its custodian would make a new one");
}

#[test]
fn an_elder_token_seen_before_the_birth_is_no_reason_to_discard() {
    let mut bench = Bench::new(Rules::guarded());
    bench.at(100.0).arrives(token(20, 3, 60), 1);
    bench.at(101.0).hears(5, Message::Report { waited: None, has_work: true, hearsay: seen(10, 0, 80) });
    assert_eq!(bench.discarded(), None);
}

#[test]
fn a_token_is_judged_on_arrival_by_what_was_heard_before() {
    let mut bench = Bench::new(Rules::guarded());
    bench.at(100.0).hears(5, Message::Scout { hearsay: seen(10, 0, 0) });
    bench.at(101.0).arrives(token(20, 3, 60), 1);
    assert_eq!(bench.discarded(), Some(Spurious::ElderSeen));
}

#[test]
fn without_sightings_nothing_is_told_and_nothing_believed() {
    let mut bench = Bench::new(guarded_but(|rules| rules.sightings = None));
    bench.at(100.0).hears(5, Message::Scout { hearsay: seen(10, 0, 0) });
    let report = Message::Report { waited: None, has_work: true, hearsay: Hearsay::default() };
    assert_eq!(bench.sent(), [(member(5), report)]);
    bench.at(101.0).arrives(token(20, 3, 60), 1);
    assert_eq!(bench.discarded(), None);
}

// --- regeneration -----------------------------------------------------------------------------------------------

#[test]
fn early_makes_a_token_after_delta_max_without_a_visit() {
    let mut bench = Bench::new(Rules::early());
    assert_eq!(bench.agent.next_deadline(), Time::from_secs(3 * MIN_INTERVAL));
    bench.wake_at(1799.0);
    assert_eq!(bench.generated(), None);
    bench.wake_at(1800.0);
    assert_eq!(bench.generated(), Some(Origin::NoNews));
    let made = bench.agent.token().unwrap();
    assert_eq!(made.id.created_ms, 1_000_000 + 1_800_000, "wall time of its creation");
    assert_eq!((made.session, made.age), (Session(0), Duration::ZERO));
    assert!(bench.agent.is_pulling(), "and uses it");
}

#[test]
fn a_visit_puts_regeneration_off() {
    let mut bench = Bench::new(Rules::early());
    bench.at(1000.0).arrives(token(1, 0, 0), 1).passes_to(2);
    bench.wake_at(1800.0);
    assert_eq!(bench.generated(), None);
    bench.wake_at(1004.0 + 1800.0);
    assert_eq!(bench.generated(), Some(Origin::NoNews));
}

#[test]
fn who_has_a_token_makes_none() {
    let mut bench = Bench::new(Rules::early());
    bench.arrives(token(1, 0, 0), 1).wake_at(4.0);
    bench.wake_at(1e6);
    assert_eq!(bench.generated(), None);
}

#[test]
fn hearing_of_a_token_puts_regeneration_off_and_a_replay_does_not() {
    let mut bench = Bench::new(Rules::guarded());
    let before = bench.agent.next_deadline();
    bench.at(500.0).hears(5, Message::Scout { hearsay: seen(10, 7, 0) });
    let after = bench.agent.next_deadline();
    assert_ne!(before, after);
    bench.at(900.0).hears(6, Message::Scout { hearsay: seen(10, 6, 0) });
    assert_eq!(bench.agent.next_deadline(), after, "an older session is no news");
}

/// A guarded member that has heard of nothing for so long that it asks around.
fn uneasy() -> Bench {
    let mut bench = Bench::new(Rules::guarded());
    bench.now = bench.agent.next_deadline();
    bench.tell(Input::Wake);
    assert_eq!(bench.said, [Output::Scout { count: 8 }], "it asks, and makes nothing yet");
    bench
}

#[test]
fn who_has_heard_of_no_token_for_long_asks_before_it_makes_one() {
    let mut bench = uneasy();
    bench.now = bench.agent.next_deadline();
    bench.tell(Input::Wake);
    assert_eq!(bench.generated(), Some(Origin::NoNews), "nobody knew of one");
}

#[test]
fn an_answer_that_tells_of_a_token_ends_the_alarm_and_one_that_does_not_is_no_comfort() {
    let tell = |hearsay| Message::Report { waited: None, has_work: true, hearsay };
    let mut bench = uneasy();
    let (asked_at, alarm) = (bench.now, bench.agent.next_deadline());
    bench.hears(5, tell(Hearsay::default()));
    assert_eq!(bench.agent.next_deadline(), alarm);
    bench.hears(6, tell(seen(10, 7, 30)));
    assert!(bench.agent.next_deadline() > asked_at + Duration::from_secs(MIN_INTERVAL - 31));
    bench.now = alarm;
    bench.tell(Input::Wake);
    assert_eq!(bench.said, []);
}

// --- scouting ---------------------------------------------------------------------------------------------------

#[test]
fn a_holder_scouts_and_hands_off_to_whom_waited_longest() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 0, 0), 1);
    assert!(bench.said.contains(&Output::Scout { count: 8 }));
    bench.reports(2, 50).reports(3, 900).reports(4, 70);
    bench.wake_at(4.0);
    assert_eq!(bench.offer(), Some(Some(member(3))));
    bench.tell(Input::Unreachable { member: Some(member(3)) });
    assert_eq!(bench.offer(), Some(Some(member(4))), "then the next in line");
}

#[test]
fn the_offer_leaves_one_round_trip_before_the_end_of_the_slot() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 0, 0), 1);
    bench.at(0.2).reports(2, 50);
    bench.wake_at(3.79);
    assert!(!bench.offered());
    bench.wake_at(3.8);
    assert_eq!(bench.offer(), Some(Some(member(2))));
    assert!(bench.agent.is_pulling(), "while the slot goes on");
    bench.at(4.0).tell(Input::Accepted { to: member(2), session: Session(1), timeout: Duration::ZERO });
    assert_eq!(bench.events(), [Event::SlotEnded], "before the token leaves");
    assert!(matches!(bench.said.last(), Some(Output::Pass { .. })));
}

#[test]
fn the_slot_ends_at_its_time_even_if_the_offer_is_not_answered() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 0, 0), 1).at(1.0).reports(2, 50);
    bench.wake_at(3.0);
    assert!(bench.offered());
    bench.wake_at(4.0);
    assert_eq!(bench.events(), [Event::SlotEnded]);
    assert!(bench.agent.token().is_some());
}

#[test]
fn a_resting_token_waits_for_the_first_answer_but_not_for_long() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false)).arrives(token(1, 0, 0), 1).wake_at(0.1);
    assert!(!bench.offered());
    bench.at(0.3).reports(2, 50);
    assert_eq!(bench.offer(), None);
    // Not to the nearest, but to the one that has waited longest of those whose answers come together.
    bench.at(0.305).reports(3, 60).wake_at(0.31);
    assert_eq!(bench.offer(), Some(Some(member(3))));

    // As long as answers take, also where that is more than half a second; as long as nobody has answered, a second.
    for (round_trip_ms, until) in [(Some(20), 0.5), (Some(400), 1.2), (Some(5000), 2.0), (None, 1.0)] {
        let mut bench = Bench::new(Rules::guarded());
        if let Some(round_trip_ms) = round_trip_ms {
            bench.has_measured(round_trip_ms);
        }
        bench.tell(Input::Work(false)).arrives(token(1, 0, 0), 1).wake_at(0.1).wake_at(until - 0.01);
        assert_eq!(bench.offer(), None, "{round_trip_ms:?} ms");
        bench.wake_at(until);
        assert_eq!(bench.offer(), Some(None), "nobody answered within {until} s: to anyone");
    }
}

#[test]
fn a_scouted_member_says_how_long_it_has_waited_and_whether_it_has_work() {
    let mut bench = Bench::new(Rules::guarded());
    let report = |bench: &Bench| match bench.sent().as_slice() {
        [(to, Message::Report { waited, has_work, .. })] => (*to, *waited, *has_work),
        other => panic!("not a report: {other:?}"),
    };
    bench.hears(5, Message::Scout { hearsay: Hearsay::default() });
    assert_eq!(report(&bench), (member(5), None, true));
    bench.at(10.0).arrives(token(1, 0, 0), 1).reports(2, 50).passes_to(2).tell(Input::Work(false));
    bench.hears(2, Message::Release { token: ID, session: Session(1) });
    bench.at(50.0).hears(5, Message::Scout { hearsay: Hearsay::default() });
    assert_eq!(report(&bench), (member(5), Some(Duration::from_secs(40)), false));
}

// --- work-conserving slots --------------------------------------------------------------------------------------

/// What has to happen next happens; the jobs pull as long as they may.
impl Bench {
    fn next(&mut self) -> &mut Self {
        self.now = self.agent.next_deadline();
        self.tell(Input::Wake)
    }

    fn reports_no_work(&mut self, from: u8) -> &mut Self {
        self.hears(from, Message::Report { waited: None, has_work: false, hearsay: Hearsay::default() })
    }

    fn kept(&self) -> Option<Session> {
        self.events().into_iter().find_map(|event| match event {
            Event::Kept { session, .. } => Some(session),
            _ => None,
        })
    }

    /// Ten slots one after the other; the custodian, member 1, asks in each.
    fn keeps_for_ten_slots(&mut self) -> &mut Self {
        for slot in 1..=10 {
            self.reports_no_work(2).at((SLOT * slot) as f64).tell(Input::Wake);
            let (id, until) = (token_id(1), Time::from_secs(SLOT * (slot + 1)));
            let session = Session(3 + slot);
            assert_eq!(
                self.events(),
                [Event::SlotEnded, Event::Kept { token: id, session }, Event::SlotBegan { token: id, until }]
            );
            assert!(self.said.contains(&Output::Scout { count: 8 }) && !self.offered());
            self.hears(1, Message::Check { token: ID, session: Session(3) });
            let holding = Message::Holding { token: ID, session: Session(3) };
            assert_eq!(self.sent(), [(member(1), holding)], "asked for the session of its own handoff");
        }
        self
    }
}

#[test]
fn the_only_member_with_work_pulls_slot_after_slot_and_scouts_in_each() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).keeps_for_ten_slots();
    assert_eq!(bench.agent.token().unwrap().age, Duration::from_secs(10 * SLOT));
}

#[test]
fn a_kept_token_goes_to_the_first_member_with_work_that_answers() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).keeps_for_ten_slots();
    bench.at(40.2).reports(5, 0).wake_at(43.7);
    assert!(!bench.offered());
    bench.wake_at(43.8);
    assert_eq!(bench.offer(), Some(Some(member(5))), "one round trip before the end of the slot");
    bench.at(44.0).tell(Input::Accepted { to: member(5), session: Session(14), timeout: Duration::ZERO });
    assert!(matches!(bench.said.last(), Some(Output::Pass { .. })));
}

#[test]
fn the_custodian_of_a_kept_token_is_released_with_the_session_of_its_own_handoff() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).keeps_for_ten_slots().reports(5, 0).passes_to(5);
    let release = Message::Release { token: ID, session: Session(3) };
    assert_eq!(bench.sent(), [(member(1), release.clone())]);

    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).keeps_for_ten_slots();
    bench.at(41.0).hears(7, Message::Report { waited: None, has_work: false, hearsay: seen(0, 0, 1) });
    assert_eq!(bench.discarded(), Some(Spurious::ElderSeen));
    assert_eq!(bench.sent(), [(member(1), release)]);
}

#[test]
fn a_kept_token_is_news_to_the_others_in_every_slot() {
    let mut holder = Bench::new(Rules::guarded());
    holder.arrives(token(1, 3, 0), 1);
    let mut other = Bench::new(Rules::guarded());
    let mut deadline = Time::ZERO;
    for slot in 1..50 {
        holder.reports_no_work(2).at((SLOT * slot) as f64).tell(Input::Wake);
        assert!(holder.kept().is_some(), "slot {slot}");
        holder.hears(1, Message::Check { token: ID, session: Session(3) });
        let scout = holder.agent.scout(holder.now);
        other.at((SLOT * slot) as f64).hears(9, scout);
        assert_ne!(other.agent.next_deadline(), deadline, "slot {slot}");
        deadline = other.agent.next_deadline();
    }
}

#[test]
fn a_token_that_no_other_member_watches_over_is_handed_off_once() {
    let mut bench = Bench::new(Rules::guarded());
    bench.agent.found(Time::ZERO);
    while bench.agent.poll_output().is_some() {}
    bench.reports_no_work(2).wake_at(4.0);
    assert_eq!(bench.offer(), Some(Some(member(2))));
    // The custodian does not ask for three slots.
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1);
    for end in [4.0, 8.0, 12.0] {
        bench.reports_no_work(2).wake_at(end);
        assert!(bench.kept().is_some() && !bench.offered(), "at {end}");
    }
    bench.reports_no_work(2).wake_at(16.0);
    assert_eq!(bench.offer(), Some(Some(member(2))));
    // If nobody else answers, the member keeps it.
    bench.tell(Input::Unreachable { member: Some(member(2)) });
    assert!(bench.kept().is_some() && bench.agent.is_pulling());
}

#[test]
fn a_holder_to_which_nobody_answers_offers_the_token_to_anyone_and_keeps_it_only_if_that_fails() {
    // A member with a wrong clock or a twin is heard but not answered. It kept the token for ever.
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).wake_at(4.0);
    assert_eq!(bench.offer(), Some(None));
    bench.at(5.0).tell(Input::Unreachable { member: Some(member(2)) });
    assert!(bench.kept().is_some() && bench.agent.is_pulling());
    bench.wake_at(9.0);
    assert_eq!(bench.offer(), Some(None), "in every slot");
}

#[test]
fn a_holder_knows_that_it_is_waited_for_as_soon_as_a_member_with_work_has_answered() {
    let mut bench = Bench::new(Rules::guarded());
    assert!(!bench.agent.is_wanted(), "no token is here");
    bench.arrives(token(1, 3, 0), 1).at(0.1).reports_no_work(2);
    assert!(!bench.agent.is_wanted(), "it has no work");
    bench.at(0.2).reports(3, 10);
    assert!(bench.agent.is_wanted());
    bench.at(1.0).tell(Input::SlotDone);
    assert_eq!(bench.offer(), Some(Some(member(3))), "what is left of the slot is its");
    bench.passes_to(3);
    assert!(!bench.agent.is_wanted(), "it has gone on");
}

#[test]
fn a_holder_that_hears_nothing_stops_telling_of_its_token_until_it_hears_again() {
    // It was heard by the others, and its news kept them from making a token of their own for ever.
    let mut bench = Bench::new(Rules::guarded());
    bench.has_measured(20).arrives(token(1, 3, 0), 1);
    let tells = |bench: &Bench| {
        let Message::Scout { hearsay } = bench.agent.scout(bench.now) else { panic!("not a scout") };
        hearsay.iter().flatten().any(|sighting| sighting.token == token_id(1) && sighting.age.is_zero())
    };
    for end in [4.0, 8.4, 12.8] {
        bench.wake_at(end);
        assert!(tells(&bench), "at {end}");
        bench.at(end + 0.4).tell(Input::Unreachable { member: Some(member(2)) });
    }
    bench.wake_at(13.6);
    assert!(!tells(&bench), "silent for three slots");
    assert!(bench.agent.is_pulling(), "it may be alone");
    bench.reports_no_work(2);
    assert!(tells(&bench));
}

#[test]
fn work_that_appears_where_a_token_rests_begins_a_slot_at_once() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false)).arrives(token(1, 3, 0), 1);
    assert_eq!(bench.events().last(), Some(&Event::Skipped));
    bench.at(0.05).tell(Input::Work(true));
    let until = bench.now + Duration::from_secs(SLOT);
    assert_eq!(bench.events().last(), Some(&Event::SlotBegan { token: token_id(1), until }));
    for rules in [Rules::early(), Rules::classic()] {
        let mut bench = Bench::new(rules);
        bench.tell(Input::Work(false)).arrives(token(1, 3, 0), 1).at(0.05).tell(Input::Work(true));
        assert_eq!(bench.said, [], "in the papers it goes on");
    }
}

#[test]
fn work_that_appears_where_the_token_is_wanted_elsewhere_waits() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false)).arrives(token(1, 3, 0), 1).reports(5, 10);
    assert_eq!(bench.offer(), Some(Some(member(5))), "at once: it rests here and is wanted there");
    bench.tell(Input::Work(true));
    assert_eq!(bench.said, []);
}

#[test]
fn when_no_taker_can_be_reached_the_running_slot_goes_on_and_the_next_one_follows() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).at(0.5).reports(5, 10).wake_at(3.5);
    assert_eq!(bench.offer(), Some(Some(member(5))));
    bench.at(3.7).tell(Input::Unreachable { member: Some(member(5)) });
    assert_eq!(bench.said, [], "the slot has time left");
    bench.wake_at(4.0);
    assert_eq!(bench.offer(), Some(None), "any other member that can be reached");
    bench.at(5.5).tell(Input::Unreachable { member: Some(member(6)) });
    assert_eq!(bench.kept(), Some(Session(4)));
    assert!(bench.agent.is_pulling());
}

#[test]
fn a_slot_that_is_done_early_is_followed_by_another_unless_a_member_waits() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).reports_no_work(2).at(1.0).tell(Input::SlotDone);
    assert_eq!(bench.kept(), Some(Session(4)));
    bench.at(1.01).reports_no_work(2).tell(Input::SlotDone);
    assert_eq!(bench.events(), [Event::SlotEnded], "no faster than a resting token moves");
    bench.next();
    assert_eq!(bench.now, Time::ZERO + Duration::from_millis(1_100));
    assert_eq!(bench.kept(), Some(Session(5)));
    bench.at(1.2).reports(5, 10).at(1.3).tell(Input::SlotDone);
    assert_eq!(bench.offer(), Some(Some(member(5))));

    for rules in [Rules::early(), Rules::classic()] {
        let mut bench = Bench::new(rules);
        bench.arrives(token(1, 3, 0), 1).at(1.0).tell(Input::SlotDone);
        assert!(bench.offered(), "in the papers the token goes on");
    }
}

#[test]
fn the_token_leaves_early_when_there_is_nothing_left_to_pull() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).reports_no_work(2).at(1.5).tell(Input::Work(false));
    assert_eq!(bench.events(), [Event::SlotEnded]);
    assert!(bench.offered());
}

#[test]
fn the_papers_rules_keep_delta_min() {
    for rules in [Rules::early(), Rules::classic()] {
        let mut bench = Bench::new(rules);
        bench.arrives(token(1, 3, 0), 1).wake_at(4.0);
        assert!(bench.offered(), "one slot in a visit");
        bench.passes_to(2).at(500.0).arrives(token(1, 9, 0), 3);
        assert_eq!(bench.events().last(), Some(&Event::Skipped));
    }
}

// --- custody ----------------------------------------------------------------------------------------------------

/// A member that handed token 1 to member 2 in session 4, at 4 s, and had it from member 1 in session 3.
fn custodian() -> Bench {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).reports(2, 50).passes_to(2);
    bench
}

const HANDED: Message = Message::Check { token: ID, session: Session(4) };
const ID: TokenId = TokenId { created_ms: 1, generator: MemberId::from_bytes([99; 16]), random: 0 };

#[test]
fn a_confirmed_handoff_releases_the_one_before() {
    let bench = custodian();
    let release = Message::Release { token: ID, session: Session(3) };
    assert_eq!(bench.sent(), [(member(1), release)]);
}

#[test]
fn an_unconfirmed_handoff_releases_nobody() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).reports(2, 50).wake_at(4.0);
    bench.tell(Input::Accepted { to: member(2), session: Session(4), timeout: Duration::ZERO });
    assert_eq!(bench.sent(), []);
    bench.tell(Input::Confirmed { token: ID, session: Session(9) });
    assert_eq!(bench.sent(), [], "that was another handoff");
}

#[test]
fn a_custodian_checks_after_slot_and_grace_and_then_makes_a_new_token() {
    let mut bench = custodian();
    bench.wake_at(8.4);
    assert_eq!(bench.sent(), []);
    for check in [8.5, 8.8, 9.1, 9.4] {
        bench.wake_at(check);
        assert_eq!(bench.sent(), [(member(2), HANDED)]);
    }
    bench.wake_at(9.7);
    assert_eq!(bench.generated(), Some(Origin::CustodyUnanswered));
    assert!(bench.agent.is_pulling(), "no other member is known to wait");
}

#[test]
fn a_custodian_waits_longer_where_answers_take_longer() {
    // By fixed times a taker 280 ms away was given up while its lost Commit was being repeated.
    let timeout = Duration::from_millis(700);
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).reports(2, 50).wake_at(4.0);
    bench.tell(Input::Accepted { to: member(2), session: Session(4), timeout });
    bench.wake_at(9.39);
    assert_eq!(bench.sent(), []);
    for check in [9.4, 10.1, 10.8, 11.5] {
        assert_eq!(bench.agent.next_deadline(), Time::ZERO + Duration::from_secs_f64(check));
        bench.wake_at(check);
        assert_eq!(bench.sent(), [(member(2), HANDED)]);
    }
    assert_eq!(bench.agent.next_deadline(), Time::ZERO + Duration::from_secs_f64(12.2));
    bench.at(12.1).hears(2, Message::Holding { token: ID, session: Session(4) });
    assert_eq!(bench.agent.next_deadline(), Time::ZERO + Duration::from_secs_f64(17.5), "all of it anew");
}

#[test]
fn what_is_told_over_a_long_path_is_as_old_as_the_question() {
    let mut bench = Bench::new(Rules::guarded());
    let message = Message::Report { waited: None, has_work: false, hearsay: seen(1, 5, 1) };
    let round_trip = Some(Duration::from_secs(2));
    bench.at(100.0).tell(Input::Received { from: member(5), message, round_trip });
    let age = bench.agent.hearsay(bench.now)[0].unwrap().age;
    assert_eq!(age, Duration::from_secs(3) + rules::Sightings::default().relay);
}

#[test]
fn a_proof_is_worth_a_question_where_it_may_change_something() {
    let mut bench = custodian();
    let wants =
        |bench: &Bench, created, session| bench.agent.wants_proof(&seen(created, session, 0), bench.now);
    assert!(wants(&bench, 1, 5), "the token in custody in a later session");
    assert!(!wants(&bench, 1, 4), "the session of our own handoff, just now");
    assert!(wants(&bench, 2, 0), "a token that was never heard of");
    let message = Message::Report { waited: None, has_work: false, hearsay: seen(2, 3, 0) };
    bench.hears(5, message);
    assert!(!wants(&bench, 2, 4), "it is known to be alive");
    bench.at(4.0 + 4.5);
    assert!(wants(&bench, 2, 4), "that was a slot ago");
    bench.arrives(token(5, 0, 0), 1);
    assert!(wants(&bench, 2, 4), "it would end the token that is here");
    assert!(!wants(&bench, 6, 0), "a younger one would not");
    assert!(!bench.agent.wants_proof(&Hearsay::default(), bench.now));
}

#[test]
fn a_release_or_the_word_passed_ends_custody() {
    for message in [
        Message::Release { token: ID, session: Session(4) },
        Message::Passed { token: ID, session: Session(4) },
    ] {
        let mut bench = custodian();
        bench.at(6.0).hears(2, message).wake_at(60.0);
        assert_eq!((bench.sent(), bench.generated()), (vec![], None));
    }
}

#[test]
fn a_release_of_another_member_or_session_is_not_heard() {
    for (from, session) in [(3, 4), (2, 3), (2, 5)] {
        let mut bench = custodian();
        bench.at(6.0).hears(from, Message::Release { token: ID, session: Session(session) }).wake_at(8.5);
        assert_eq!(bench.sent(), [(member(2), HANDED)]);
    }
}

#[test]
fn a_taker_that_still_holds_the_token_gets_one_more_slot() {
    let mut bench = custodian();
    bench.wake_at(8.5);
    bench.at(8.6).hears(2, Message::Holding { token: ID, session: Session(4) });
    bench.wake_at(13.0);
    assert_eq!(bench.sent(), []);
    bench.wake_at(13.1);
    assert_eq!(bench.sent(), [(member(2), HANDED)]);
}

#[test]
fn the_token_itself_or_a_sighting_of_a_later_session_ends_custody() {
    let mut bench = custodian();
    bench.at(5.0).arrives(token(1, 9, 4), 7).wake_at(8.6);
    assert_eq!(bench.sent(), [], "it is here: nobody need be asked");
    let mut bench = custodian();
    bench.at(8.0).hears(7, Message::Scout { hearsay: seen(1, 5, 0) });
    bench.wake_at(60.0);
    assert_eq!((bench.sent(), bench.generated()), (vec![], None));
}

#[test]
fn a_sighting_of_a_token_that_its_taker_may_have_kept_does_not_end_custody() {
    // The taker itself says that it has the token, or another member says so of it.
    for (from, age) in [(2, 0), (7, 1)] {
        let mut bench = custodian();
        bench.at(8.0).hears(from, Message::Scout { hearsay: seen(1, 5, age) }).wake_at(8.5);
        assert_eq!(bench.sent(), [(member(2), HANDED)]);
        // It does not answer, but was seen alive: the checks begin anew one slot after that.
        bench.at(8.6).hears(from, Message::Scout { hearsay: seen(1, 6, 0) });
        if from == 2 {
            bench.wake_at(13.0);
            assert_eq!(bench.sent(), []);
            bench.wake_at(13.1);
            assert_eq!(bench.sent(), [(member(2), HANDED)]);
        }
    }
}

#[test]
fn a_checked_member_says_what_became_of_the_token_and_nothing_of_what_it_never_had() {
    let check = Message::Check { token: ID, session: Session(3) };
    let mut bench = Bench::new(Rules::guarded());
    assert_eq!(bench.hears(1, check.clone()).sent(), []);
    bench.arrives(token(1, 3, 0), 1);
    let holding = Message::Holding { token: ID, session: Session(3) };
    assert_eq!(bench.at(1.0).hears(1, check.clone()).sent(), [(member(1), holding)]);
    bench.reports(2, 50).passes_to(2);
    let passed = Message::Passed { token: ID, session: Session(3) };
    assert_eq!(bench.at(5.0).hears(1, check).sent(), [(member(1), passed)]);
    let later = Message::Check { token: ID, session: Session(8) };
    assert_eq!(bench.hears(1, later).sent(), [], "that session never came here");
}

#[test]
fn who_lost_a_token_does_not_claim_to_have_passed_it_on() {
    let mut bench = Bench::new(Rules::guarded());
    bench.arrives(token(1, 3, 0), 1).at(1.0).tell(Input::Lost);
    assert_eq!(bench.events(), [Event::SlotEnded]);
    assert_eq!(bench.hears(1, Message::Check { token: ID, session: Session(3) }).sent(), []);
}

#[test]
fn after_a_stall_silence_proves_nothing() {
    let mut bench = custodian();
    bench.wake_at(8.5).wake_at(9.0);
    bench.at(60.0).tell(Input::Stalled);
    assert_eq!(bench.generated(), None, "it was not listening");
    for check in [60.3, 60.6, 60.9, 61.2] {
        bench.wake_at(check);
        assert_eq!(bench.sent(), [(member(2), HANDED)], "it asks again");
    }
    bench.wake_at(61.5);
    assert_eq!(bench.generated(), Some(Origin::CustodyUnanswered));

    let mut bench = Bench::new(Rules::early());
    bench.at(5000.0).tell(Input::Stalled);
    assert_eq!(bench.generated(), None);
    assert_eq!(bench.agent.next_deadline(), Time::from_secs(6800), "all of Δ_max anew");
}

#[test]
fn without_custody_nobody_checks_and_nobody_releases() {
    let mut bench = Bench::new(guarded_but(|rules| rules.custody = None));
    bench.arrives(token(1, 3, 0), 1).reports(2, 50).passes_to(2);
    assert_eq!(bench.sent(), []);
    bench.wake_at(60.0);
    assert_eq!((bench.sent(), bench.generated()), (vec![], None));
}

// --- any sequence -----------------------------------------------------------------------------------------------

fn any_token() -> impl Strategy<Value = Token> {
    (0..6_u64, prop_oneof![0..20_u64, Just(u64::MAX)], 0..2000_u64)
        .prop_map(|(created, session, age)| token(created, session, age))
}

fn any_hearsay() -> impl Strategy<Value = Hearsay> {
    let sighting =
        (0..6_u64, 0..20_u64, prop_oneof![(0..2000_u64).prop_map(Duration::from_secs), Just(Duration::MAX)])
            .prop_map(|(created, session, age)| Sighting {
                token: token_id(created),
                session: Session(session),
                age,
            });
    prop::array::uniform2(prop::option::of(sighting))
}

fn any_message() -> impl Strategy<Value = Message> {
    let waited =
        prop::option::of(prop_oneof![(0..2000_u64).prop_map(Duration::from_secs), Just(Duration::MAX)]);
    prop_oneof![
        any_hearsay().prop_map(|hearsay| Message::Scout { hearsay }),
        (waited, any::<bool>(), any_hearsay()).prop_map(|(waited, has_work, hearsay)| Message::Report {
            waited,
            has_work,
            hearsay
        }),
        (0..6_u64, 0..20_u64).prop_map(|(token, session)| Message::Release {
            token: token_id(token),
            session: Session(session)
        }),
        (0..6_u64, 0..20_u64).prop_map(|(token, session)| Message::Check {
            token: token_id(token),
            session: Session(session)
        }),
        (0..6_u64, 0..20_u64).prop_map(|(token, session)| Message::Holding {
            token: token_id(token),
            session: Session(session)
        }),
        (0..6_u64, 0..20_u64).prop_map(|(token, session)| Message::Passed {
            token: token_id(token),
            session: Session(session)
        }),
    ]
}

fn any_input() -> impl Strategy<Value = Input> {
    let someone = (1..9_u8).prop_map(member);
    prop_oneof![
        3 => Just(Input::Wake),
        4 => (any_token(), someone.clone()).prop_map(|(token, from)| Input::Arrived { token, from }),
        4 => (someone.clone(), 0..20_u64)
            .prop_map(|(to, session)| Input::Accepted { to, session: Session(session), timeout: Duration::ZERO }),
        1 => (0..6_u64, 0..20_u64)
            .prop_map(|(token, session)| Input::Confirmed { token: token_id(token), session: Session(session) }),
        1 => prop::option::of(someone.clone()).prop_map(|member| Input::Unreachable { member }),
        1 => Just(Input::Lost),
        1 => Just(Input::Stalled),
        2 => Just(Input::SlotDone),
        6 => (someone, any_message()).prop_map(|(from, message)| Input::Received { from, message, round_trip: None }),
        1 => any::<bool>().prop_map(Input::Work),
        1 => any::<u32>().prop_map(Input::Members),
    ]
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let parts = prop::array::uniform5(any::<bool>());
    let guarded = parts.prop_map(|[scouting, sightings, custody, stretch, meeting]| {
        guarded_but(|rules| {
            rules.scouting = rules.scouting.take().filter(|_| scouting);
            rules.sightings = rules.sightings.take().filter(|_| sightings);
            rules.custody = rules.custody.take().filter(|_| custody);
            rules.meeting = meeting;
            if !stretch {
                rules.regeneration = rules::Regeneration::Poisson;
            }
        })
    });
    prop_oneof![Just(Rules::early()), Just(Rules::classic()), guarded]
}

/// What must hold after any input.
struct Ledger {
    slots_open: i32,
    tokens: i32,
}

impl Ledger {
    fn check(&mut self, bench: &Bench) {
        for output in &bench.said {
            match output {
                Output::Event(Event::SlotBegan { until, .. }) => {
                    self.slots_open += 1;
                    assert!(*until <= bench.now + Duration::from_secs(SLOT));
                }
                Output::Event(Event::SlotEnded) => self.slots_open -= 1,
                Output::Event(Event::Visited { .. }) => self.tokens += 1,
                Output::Pass { .. } => self.tokens -= 1,
                _ => {}
            }
            assert!((0..=1).contains(&self.slots_open), "slots are disjoint");
        }
        let agent = &bench.agent;
        assert_eq!(agent.is_pulling(), self.slots_open == 1, "who pulls was told so, and who was told pulls");
        assert!(!agent.is_pulling() || agent.token().is_some(), "nobody pulls without a token");
        assert!(agent.next_deadline() > bench.now, "every deadline that has come was dealt with");
        assert!(agent.remembered() <= history::LIMIT);
        assert!(bench.said.len() <= 8, "one input has few consequences");
    }
}

proptest! {
    #[test]
    fn any_sequence_of_inputs_keeps_the_invariants(
        rules in any_rules(),
        steps in prop::collection::vec((any_input(), prop_oneof![Just(0.0), 0.0..5.0, 0.0..3000.0]), 1..120),
    ) {
        let mut bench = Bench::new(rules);
        let mut ledger = Ledger { slots_open: 0, tokens: 0 };
        for (input, pause) in steps {
            bench.now = bench.now + Duration::from_secs_f64(pause);
            let held = bench.agent.token().map(|token| token.id);
            let arrives = if let Input::Arrived { token, .. } = &input { Some(token.id) } else { None };
            bench.tell(input);
            ledger.check(&bench);
            if let (Some(held), Some(arrives)) = (held, arrives) {
                let kept = bench.agent.token().map(|token| token.id);
                prop_assert!(kept.is_none_or(|kept| kept <= held.max(arrives)), "of two the elder stays");
            }
        }
        prop_assert!(ledger.tokens >= 0);
    }

    #[test]
    fn waking_early_or_twice_changes_nothing(rules in any_rules(), pauses in prop::collection::vec(0.0..3000.0, 1..30)) {
        let (mut once, mut often) = (Bench::new(rules.clone()), Bench::new(rules));
        let mut at = 0.0;
        for (n, pause) in pauses.into_iter().enumerate() {
            let arrival = Input::Arrived { token: token(n as u64 % 3, n as u64, 0), from: member(1) };
            for bench in [&mut once, &mut often] {
                bench.at(at).tell(arrival.clone());
            }
            often.tell(Input::Wake).tell(Input::Wake);
            prop_assert_eq!(once.agent.next_deadline(), often.agent.next_deadline());
            prop_assert_eq!(once.agent.token(), often.agent.token());
            at += pause;
        }
    }
}

/// What a member with work that holds no token does when the work appears.
fn announced(bench: &Bench) -> Option<usize> {
    bench.said.iter().find_map(|output| match output {
        Output::Announce { count } => Some(*count),
        _ => None,
    })
}

fn demand(n: u8) -> Message {
    Message::Demand { member: member(n) }
}

fn is_scouted(bench: &Bench, n: u8) -> bool {
    bench.sent().iter().any(|(to, message)| *to == member(n) && matches!(message, Message::Scout { .. }))
}

#[test]
fn work_that_appears_is_announced_until_the_token_comes() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false));
    bench.reports(1, 5);
    bench.at(10.0).tell(Input::Work(true));
    assert_eq!(announced(&bench), Some(16));
    bench.wake_at(10.5);
    assert_eq!(announced(&bench), None);
    assert_eq!(bench.agent.next_deadline(), Time::from_secs(11));
    bench.wake_at(11.0);
    assert_eq!(announced(&bench), Some(16));
    bench.at(11.2).arrives(token(1, 3, 0), 1);
    bench.wake_at(12.0);
    assert_eq!(announced(&bench), None);
}

#[test]
fn only_work_conserving_rules_announce_and_only_to_members_that_were_heard() {
    for rules in [Rules::classic(), Rules::early(), guarded_but(|rules| rules.announcing = None)] {
        let mut bench = Bench::new(rules);
        bench.reports(1, 5);
        bench.tell(Input::Work(false)).tell(Input::Work(true));
        assert_eq!(announced(&bench), None);
    }
    let mut alone = Bench::new(Rules::guarded());
    alone.tell(Input::Work(false)).tell(Input::Work(true));
    assert_eq!(announced(&alone), None);
}

#[test]
fn a_newcomer_announces_its_work_when_it_knows_a_member() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Members(1));
    assert_eq!(announced(&bench), None);
    bench.tell(Input::Members(2));
    assert_eq!(announced(&bench), Some(16));
    bench.tell(Input::Members(3));
    assert_eq!(announced(&bench), None, "the rounds go on as they were");
}

#[test]
fn a_resting_token_goes_to_the_member_that_demands_it_once_that_has_answered() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false));
    bench.arrives(token(1, 3, 0), 1).reports_no_work(1);
    bench.at(0.05).hears(7, demand(5));
    assert!(is_scouted(&bench, 5));
    bench.wake_at(0.1);
    assert!(!bench.offered(), "it waits for the answer");
    bench.at(0.12).reports(5, 9);
    assert_eq!(bench.offer(), Some(Some(member(5))));
}

#[test]
fn a_wrong_demand_delays_a_resting_token_by_half_a_second_at_most() {
    let mut bench = Bench::new(Rules::guarded());
    bench.has_measured(20).tell(Input::Work(false));
    bench.arrives(token(1, 3, 0), 1).reports_no_work(1);
    let mut scouted = 0;
    for tenth in 0..20 {
        bench.at(f64::from(tenth) / 10.0).hears(7, demand(20 + u8::try_from(tenth).unwrap()));
        scouted +=
            usize::from(bench.sent().iter().any(|(_, message)| matches!(message, Message::Scout { .. })));
        if bench.offered() {
            assert!(tenth <= 6, "{tenth}");
            assert!(scouted <= 8, "{scouted}");
            return;
        }
    }
    panic!("the token stays");
}

#[test]
fn a_demand_reaches_the_holder_by_way_of_the_members_that_it_scouts() {
    let mut bench = Bench::new(Rules::guarded());
    bench.hears(5, demand(5));
    assert!(bench.sent().is_empty());
    bench.hears(5, bench.agent.scout(bench.now));
    assert!(!bench.sent().iter().any(|(_, message)| *message == demand(5)), "it knows that itself");
    bench.hears(7, bench.agent.scout(bench.now));
    assert!(bench.sent().contains(&(member(7), demand(5))));
    bench.hears(8, bench.agent.scout(bench.now));
    assert!(!bench.sent().iter().any(|(_, message)| *message == demand(5)), "once");
}

#[test]
fn a_member_to_which_the_token_comes_scouts_those_that_demand_it() {
    let mut bench = Bench::new(Rules::guarded());
    bench.hears(5, demand(5));
    bench.arrives(token(1, 3, 0), 1);
    assert!(is_scouted(&bench, 5));
    bench.hears(6, demand(5));
    assert!(!is_scouted(&bench, 5), "once in a visit");
}

#[test]
fn the_answer_of_a_member_that_got_work_meanwhile_counts() {
    let mut bench = Bench::new(Rules::guarded());
    bench.tell(Input::Work(false));
    bench.arrives(token(1, 3, 0), 1).reports_no_work(5);
    bench.hears(5, demand(5));
    assert!(is_scouted(&bench, 5));
    bench.reports(5, 9);
    assert_eq!(bench.offer(), Some(Some(member(5))));
}
