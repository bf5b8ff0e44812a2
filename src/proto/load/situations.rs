//! Whole situations of a circle, and the verdict that one of its members must reach: level, load factor and reason
//! together, because they must never contradict each other.

use std::time::Duration;

use super::{Input, Level, Load, Output, RingView, Verdict};
use crate::base::{Rng, Time};

const SLOT: Duration = Duration::from_secs(4);

/// One member of a circle with a token, and how the others answer it.
struct Member {
    load: Load,
    now: Time,
    rng: Rng,
    told: Vec<Level>,
    /// How many members can want slots, this one included, as far as this one knows.
    members: Option<usize>,
    capacity: u32,
    /// The mean interval of the others that have work.
    others: Option<Duration>,
    /// How many can want slots once they were asked.
    asked_members: Option<usize>,
}

impl Member {
    /// Of a circle that was laid out for so many members.
    fn of(capacity: u32, members: usize) -> Self {
        let load = Load::new(SLOT * capacity);
        let mut member = Self {
            load,
            now: Time::ZERO,
            rng: Rng::seeded(1),
            told: Vec::new(),
            members: Some(members),
            capacity,
            others: None,
            asked_members: None,
        };
        member.handle(Input::Work(true));
        member
    }

    fn handle(&mut self, input: Input) {
        self.load.handle(input, self.now);
        self.load.handle(Input::Demand { members: self.members, capacity: self.capacity }, self.now);
        while let Some(output) = self.load.poll_output() {
            match output {
                Output::Changed(level) => self.told.push(level),
                Output::Ask { count } => self.ask(count),
            }
        }
    }

    fn ask(&mut self, count: usize) {
        self.members = self.asked_members.take().or(self.members);
        let Some(others) = self.others else { return };
        for _ in 0..count {
            let waited = Some(others.mul_f64(self.rng.fraction()));
            self.load.handle(Input::Heard { waited, has_work: true }, self.now);
        }
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(deadline) = self.load.next_deadline().filter(|&deadline| deadline <= until) {
            assert!(deadline > self.now, "it wants to be woken in the past");
            self.now = deadline;
            self.handle(Input::Wake);
        }
        self.now = until;
    }

    /// So many slots with this mean interval, a fifth more or less.
    fn slots(&mut self, count: usize, interval: Duration) {
        for _ in 0..count {
            let scatter = 0.8 + 0.4 * self.rng.fraction();
            self.pass(interval.mul_f64(scatter));
            self.handle(Input::SlotBegan);
        }
    }

    fn amend(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.load.set_nominal_period(SLOT * capacity, self.now);
    }

    fn verdict(&self) -> Verdict {
        self.load.verdict(self.now)
    }
}

/// A situation: how it came about, and what must be said.
struct Situation {
    name: &'static str,
    member: Member,
    level: Level,
    load: Option<std::ops::Range<f64>>,
    says: &'static str,
}

fn situation(
    name: &'static str,
    (capacity, members): (u32, usize),
    story: impl FnOnce(&mut Member),
    (level, load, says): (Level, Option<std::ops::Range<f64>>, &'static str),
) -> Situation {
    let mut member = Member::of(capacity, members);
    story(&mut member);
    Situation { name, member, level, load, says }
}

fn check(situations: Vec<Situation>) {
    for Situation { name, member, level, load, says } in situations {
        let verdict = member.verdict();
        assert_eq!(verdict.level, level, "{name}: {verdict:?}");
        assert_eq!(member.load.level(), level, "{name}: the word alone");
        match (&load, verdict.load) {
            (Some(range), Some(load)) => assert!(range.contains(&load), "{name}: {verdict:?}"),
            (None, None) => {}
            _ => panic!("{name}: {verdict:?}"),
        }
        assert!(verdict.reason.contains(says), "{name}: {verdict:?}");
        is_consistent(name, &verdict);
    }
}

/// What no verdict may say whatever happened.
fn is_consistent(name: &str, verdict: &Verdict) {
    let Verdict { level, load, reason, .. } = verdict;
    match level {
        Level::Nominal => {
            assert!(load.is_none_or(|load| load < 1.0), "{name}: nominal with a load of {load:?}");
        }
        Level::Overloaded => assert!(load.is_some_and(|load| load > 1.0), "{name}: overloaded with {load:?}"),
        Level::Full | Level::Disturbed | Level::Starved => {}
    }
    let percent = reason.split(" %").next().and_then(|text| text.split(' ').next_back());
    if let Some(percent) = percent.and_then(|text| text.parse::<f64>().ok()) {
        assert!(percent <= 100.0, "{name}: no more than all is in use: {reason}");
        let load = load.expect("a share is told where it is known").min(1.0) * 100.0;
        assert!((percent - load).abs() < 1.0, "{name}: {reason} with a load of {load}");
    }
}

/// How often a member of a full circle that was laid out for so many has a slot.
fn nominal(capacity: u32) -> Duration {
    SLOT * capacity
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_circle_with_room_is_nominal_and_one_without_is_full_or_overloaded() {
    check(vec![
        situation("just started", (300, 3), |_| {}, (Level::Nominal, None, "too few slots so far")),
        situation(
            "idle for long",
            (3, 3),
            |member| {
                member.slots(50, secs(12));
                member.handle(Input::Work(false));
                member.pass(secs(3600));
            },
            (Level::Nominal, None, "nothing to pull"),
        ),
        situation(
            "the only active one of three, laid out for 300",
            (300, 3),
            |member| member.slots(50, SLOT),
            (Level::Nominal, Some(0.002..0.005), "0.3 % of the capacity is in use: a slot comes every"),
        ),
        situation(
            "the only active one of three, laid out for three",
            (3, 1),
            |member| member.slots(50, SLOT),
            (Level::Nominal, Some(0.3..0.36), "33 % of the capacity"),
        ),
        situation(
            "half of the members want slots",
            (300, 150),
            |member| {
                member.others = Some(nominal(150));
                member.slots(50, nominal(150));
            },
            (Level::Nominal, Some(0.45..0.56), "of the capacity is in use"),
        ),
        situation(
            "exactly full",
            (12, 12),
            |member| {
                member.others = Some(nominal(12));
                member.slots(200, nominal(12).mul_f64(1.02));
            },
            (Level::Full, Some(0.97..1.001), "of the capacity is in use: a slot comes every 4"),
        ),
        situation(
            "a little more than it was laid out for",
            (100, 113),
            |member| member.slots(200, nominal(113)),
            (Level::Full, Some(1.1..1.17), "100 % of the capacity is in use"),
        ),
        situation(
            "overbooked",
            (12, 18),
            |member| {
                member.others = Some(nominal(18));
                member.slots(100, nominal(18));
            },
            (Level::Overloaded, Some(1.35..1.6), "demand is 1."),
        ),
        situation(
            "overbooked, in a circle too large to know all members",
            (300, 450),
            |member| {
                member.members = None;
                member.others = Some(nominal(450));
                member.slots(100, nominal(450));
            },
            (Level::Overloaded, Some(1.35..1.6), "laid out for one every 20 min"),
        ),
    ]);
}

#[test]
fn slots_that_come_late_by_faults_are_no_overload() {
    check(vec![
        situation(
            "late slots after many faults in a half idle circle",
            (6, 3),
            |member| member.slots(100, nominal(6) * 2),
            (Level::Disturbed, Some(0.49..0.51), "tokens were lost, or members cannot be reached"),
        ),
        situation(
            "the faults are over",
            (6, 3),
            |member| {
                member.slots(100, nominal(6) * 2);
                member.slots(60, nominal(3));
            },
            (Level::Nominal, Some(0.4..0.6), "of the capacity is in use"),
        ),
        situation(
            "the token was lost in a small circle that was laid out for many",
            (300, 3),
            |member| {
                member.slots(50, secs(12));
                member.pass(secs(180));
            },
            (Level::Disturbed, Some(0.005..0.011), "no slot for 3 min 0 s though there is something to pull"),
        ),
        situation(
            "alone after a partition",
            (12, 12),
            |member| {
                member.others = Some(nominal(12));
                member.slots(100, nominal(12));
                member.members = Some(1);
                member.slots(50, SLOT);
            },
            (Level::Nominal, Some(0.0..0.09), "8.3 % of the capacity"),
        ),
        situation(
            "no slot for long",
            (12, 12),
            |member| {
                member.slots(50, nominal(12));
                member.pass(nominal(12) * 10);
            },
            (Level::Starved, Some(0.9..1.1), "no slot for 8 min 0 s"),
        ),
    ]);
}

#[test]
fn what_was_measured_under_another_charter_or_while_idle_does_not_count() {
    check(vec![
        situation(
            "the authority has enlarged a circle that was overbooked",
            (2, 4),
            |member| {
                member.slots(50, nominal(4));
                member.amend(75);
                member.handle(Input::Wake);
            },
            (Level::Nominal, None, "too few slots so far"),
        ),
        situation(
            "the authority has made a circle small in which slots came late",
            (300, 3),
            |member| {
                member.slots(50, nominal(300));
                member.amend(8);
                member.slots(10, secs(12));
            },
            (Level::Nominal, Some(0.3..0.4), "of the capacity is in use"),
        ),
        situation(
            "work comes now and then, and a slot at once",
            (300, 3),
            |member| {
                for _ in 0..50 {
                    member.slots(1, SLOT);
                    member.handle(Input::Work(false));
                    member.pass(secs(300));
                    member.handle(Input::Work(true));
                }
                member.slots(20, SLOT);
            },
            (Level::Nominal, Some(0.002..0.006), "of the capacity is in use"),
        ),
    ]);
}

/// Others get work after this member was alone for long: its wait is long, and right.
#[test]
fn a_wait_that_the_others_explain_is_not_called_late() {
    let mut member = Member::of(100, 1);
    member.slots(100, SLOT);
    // It does not know of their work before it has asked.
    member.asked_members = Some(100);
    member.pass(SLOT * 99);
    assert_eq!(member.asked_members, None, "the others were asked");
    assert_eq!((member.verdict().level, member.told.as_slice()), (Level::Nominal, &[][..]));
    member.pass(SLOT * 400);
    assert_eq!(member.verdict().level, Level::Starved, "but not for ever");
}

#[test]
fn each_change_of_the_level_is_told_once() {
    let mut member = Member::of(12, 18);
    member.others = Some(SLOT * 18);
    member.slots(100, SLOT * 18);
    let last = member.told.last().copied();
    assert_eq!(last, Some(Level::Overloaded), "{:?}", member.told);
    assert!(member.told.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", member.told);
}

/// A member of a ring of two tickets, which sees it like this for so long.
fn in_ring(views: &[(u64, RingView)]) -> Load {
    let mut load = Load::new(SLOT * 150);
    load.handle(Input::Work(true), Time::ZERO);
    let mut now = Time::ZERO;
    for (seconds, view) in views {
        for second in 0..*seconds {
            now = now + secs(1);
            let waited = view.waited.map(|waited| waited + secs(second));
            load.handle(Input::Ring(RingView { waited, ..*view }), now);
        }
    }
    load
}

const PULLING: RingView = RingView {
    tickets: 2,
    in_use: 1,
    waiting: 0,
    has_ticket: true,
    waited: None,
    members: Some(4),
    turn: SLOT,
};

/// Its name, what the member sees and for how many seconds, and what it must say.
type RingSituation = (&'static str, &'static [(u64, RingView)], Level, Option<f64>, &'static str);

#[test]
fn members_of_a_ring_say_what_is_true() {
    const ALL: RingView = RingView { in_use: 2, ..PULLING };
    const QUEUE: RingView = RingView { waiting: 2, ..ALL };
    const OUTSIDE: RingView = RingView { has_ticket: false, waited: Some(Duration::ZERO), ..PULLING };
    const UNSURE: RingView = RingView { waited: Some(Duration::ZERO), ..ALL };
    let situations: &[RingSituation] = &[
        (
            "one of two tickets",
            &[(60, PULLING)],
            Level::Nominal,
            Some(0.5),
            "50 % of the 2 tickets are in use",
        ),
        ("all tickets", &[(60, ALL)], Level::Full, Some(1.0), "all 2 tickets are in use"),
        (
            "all tickets, and two members wait",
            &[(300, QUEUE)],
            Level::Overloaded,
            Some(2.0),
            "demand is 2.00 times the 2 tickets: all are in use, and 2 members wait for one",
        ),
        (
            "a member waits for a moment",
            &[(60, ALL), (2, QUEUE), (30, ALL)],
            Level::Full,
            None,
            "all 2 tickets",
        ),
        ("the queue is gone", &[(300, QUEUE), (300, PULLING)], Level::Nominal, Some(0.5), "50 %"),
        ("joins", &[(5, OUTSIDE)], Level::Nominal, None, "waits for its first ticket"),
        ("is outside for a while", &[(40, OUTSIDE)], Level::Overloaded, None, "demand is 1."),
        ("gets no ticket at all", &[(300, OUTSIDE)], Level::Starved, None, "no ticket for 4 min 59 s"),
        ("a witness is late", &[(60, ALL), (10, UNSURE)], Level::Full, Some(1.0), "all 2 tickets"),
        (
            "the ring is dead",
            &[(60, ALL), (45, UNSURE)],
            Level::Starved,
            None,
            "the ring is dead: too few members",
        ),
    ];
    for (name, views, level, load, says) in situations {
        let member = in_ring(views);
        let verdict = member.verdict(Time::from_secs(1000));
        assert_eq!(verdict.level, *level, "{name}: {verdict:?}");
        assert!(verdict.reason.contains(says), "{name}: {verdict:?}");
        if let Some(load) = load {
            assert!(verdict.load.is_some_and(|told| (told - load).abs() < 0.01), "{name}: {verdict:?}");
        }
        is_consistent(name, &verdict);
    }
}

#[test]
fn a_ring_with_nothing_to_pull_has_nothing_to_wait_for() {
    let mut load = in_ring(&[(300, RingView { waiting: 2, in_use: 2, ..PULLING })]);
    let now = Time::from_secs(301);
    load.handle(Input::Work(false), now);
    load.handle(Input::Ring(PULLING), now);
    let verdict = load.verdict(now);
    assert_eq!((verdict.level, verdict.load), (Level::Nominal, None));
    assert!(verdict.reason.contains("nothing to pull"), "{verdict:?}");
}
