//! How much members have to ask and to answer.
//!
//! A *reminder* is an ask that tells nothing which its receiver has not answered before, only that who asks is there: the
//! paper's ALIVE. All other asks tell of a changed deed, until that is answered: its UPDATE as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::base::{Ask, Time};

use super::violation::Violation;
use super::world::Ring;

/// Asks at rest are counted in windows of so many rounds: members do not ask in step.
const WINDOW_ROUNDS: u32 = 10;

/// Asks of a member whose answers may still come.
const UNDER_WAY: usize = 64;

/// What one member asks and is asked.
#[derive(Clone, Debug, Default)]
struct Counts {
    window: i64,
    asks: u32,
    asked: u32,
    /// When it sent its last reminders, by its own clock.
    reminders: VecDeque<Time>,
    /// When it answered the last ones.
    answers: VecDeque<Time>,
    /// The round in which it was reminded last, and by whom.
    reminded: (i64, BTreeSet<u32>),
    /// What it has asked lately, and whom it only reminded by that.
    said: VecDeque<(u64, Told, Vec<u32>)>,
}

/// By which seat, by which deed it goes and would go, and whether it was ever sure.
type Told = (u64, u32, Option<u32>, bool);

/// The counts of all.
#[derive(Debug)]
pub(super) struct Load {
    round: Duration,
    /// 2k+1.
    witnesses: usize,
    /// The ring is as it was since then.
    unchanged_since: Time,
    of: Vec<Counts>,
    most_at_rest: u32,
    /// Of what each has told each, the last that was answered, with its number.
    answered: BTreeMap<(u32, u32), (u64, Told)>,
    reminders: u64,
    most_reminded: usize,
}

impl Load {
    pub(super) fn new(round: Duration, faults: u8, members: usize) -> Self {
        Self {
            round,
            witnesses: 2 * usize::from(faults) + 1,
            unchanged_since: Time::ZERO,
            of: vec![Counts::default(); members],
            most_at_rest: 0,
            answered: BTreeMap::new(),
            reminders: 0,
            most_reminded: 0,
        }
    }

    /// Somebody came into the ring, went or fell silent, or the network lost something.
    pub(super) fn changed(&mut self, now: Time) {
        self.unchanged_since = now;
    }

    /// The member begins with another clock.
    pub(super) fn started(&mut self, member: u32) {
        if let Some(counts) = self.of.get_mut(member as usize) {
            counts.reminders.clear();
            counts.answers.clear();
        }
    }

    /// A question is sent. Gives who asked or was asked how often, for a window that is over and in which nothing changed.
    pub(super) fn asked(&mut self, from: u32, to: u32, now: Time) -> [Option<(u32, u32)>; 2] {
        let closed = [self.close(from, now), self.close(to, now)];
        if let Some(counts) = self.of.get_mut(from as usize) {
            counts.asks += 1;
        }
        if let Some(counts) = self.of.get_mut(to as usize) {
            counts.asked += 1;
        }
        closed
    }

    /// Takes notice of what is asked at this moment, and when that is by the clock of who asks. Gives within which time it
    /// has sent more reminders than there may be in a round.
    pub(super) fn told(
        &mut self,
        from: u32,
        to: u32,
        ask: &Ask,
        (now, shown): (Time, Time),
    ) -> Option<Duration> {
        let (number, told) = (ask.standing.number, told(ask));
        let is_reminder = self.answered.get(&(from, to)).is_some_and(|(_, answered)| *answered == told);
        let counts = self.of.get_mut(from as usize)?;
        if counts.said.back().is_none_or(|(last, ..)| *last != number) {
            counts.said.push_back((number, told, Vec::new()));
            let surplus = counts.said.len().saturating_sub(UNDER_WAY);
            counts.said.drain(..surplus);
        }
        if !is_reminder {
            return None;
        }
        self.reminders += 1;
        if let Some((.., reminded)) = counts.said.back_mut() {
            reminded.push(to);
        }
        let within = crowded(&mut counts.reminders, shown, self.witnesses);
        self.remind(from, to, now);
        within.filter(|within| *within < self.round)
    }

    /// Takes notice of an answer, and when that is by the clock of who gives it. Gives within which time it has answered
    /// more reminders than there may be in a round.
    fn vouched(&mut self, by: u32, to: u32, number: u64, shown: Time) -> Option<Duration> {
        let said = self.of.get(to as usize)?.said.iter().find(|(said, ..)| *said == number);
        said.filter(|(.., reminded)| reminded.contains(&by))?;
        let answers = &mut self.of.get_mut(by as usize)?.answers;
        crowded(answers, shown, self.witnesses).filter(|within| *within < self.round)
    }

    fn remind(&mut self, from: u32, to: u32, now: Time) {
        let now = now.as_nanos() / nanos(self.round);
        let Some(counts) = self.of.get_mut(to as usize) else { return };
        let (round, by) = &mut counts.reminded;
        if std::mem::replace(round, now) != now {
            by.clear();
        }
        by.insert(from);
        self.most_reminded = self.most_reminded.max(by.len());
    }

    /// An answer has come back.
    pub(super) fn answered(&mut self, by: u32, to: u32, number: u64) {
        let said = self.of.get(to as usize).and_then(|of| of.said.iter().find(|(said, ..)| *said == number));
        if let Some(said) = said.map(|(said, told, _)| (*said, *told)) {
            let known = self.answered.entry((to, by)).or_insert(said);
            // A later seat has a higher incarnation; its numbers begin anywhere.
            *known = if (said.1.0, said.0) > (known.1.0, known.0) { said } else { *known };
        }
    }

    /// Reminders so far.
    pub(super) fn reminders(&self) -> u64 {
        self.reminders
    }

    /// The most others that reminded one member in one round.
    pub(super) fn most_reminded(&self) -> usize {
        self.most_reminded
    }

    /// The most that a member asked or was asked in a window without changes, per round.
    pub(super) fn most_at_rest(&self) -> f64 {
        f64::from(self.most_at_rest) / f64::from(WINDOW_ROUNDS)
    }

    fn close(&mut self, member: u32, now: Time) -> Option<(u32, u32)> {
        let nanos = nanos(self.round * WINDOW_ROUNDS);
        let counts = self.of.get_mut(member as usize)?;
        let window = now.as_nanos() / nanos;
        if counts.window == window {
            return None;
        }
        let over = std::mem::replace(&mut counts.window, window);
        let most = std::mem::take(&mut counts.asks).max(std::mem::take(&mut counts.asked));
        // Lists settle in a few rounds, for which the window before is there.
        let is_at_rest = self.unchanged_since.as_nanos() < (over - 1) * nanos;
        is_at_rest.then(|| {
            self.most_at_rest = self.most_at_rest.max(most);
            (member, most)
        })
    }
}

impl Ring {
    /// A member asks so many times per round, and is asked so, when nothing changes: at most once by each of 2k+1.
    pub(super) fn check_asks(&mut self, member: u32, asks: u32) {
        let witnesses = 2 * u32::from(self.scenario.config.faults) + 1;
        // Who is cut off asks those by whom it went, though the others have gone on without it.
        if asks > witnesses * (WINDOW_ROUNDS + 1) && !self.network.is_split() {
            let at = self.now;
            self.checks.complain(Violation::TooManyAsks { at, member, asks, rounds: WINDOW_ROUNDS });
        }
    }

    /// Nobody sends more than 2k+1 reminders in a round, whatever happens around it.
    pub(super) fn check_reminders(&mut self, from: u32, to: u32, ask: &Ask) {
        let now = self.now;
        let shown = self.place(from).map_or(now, |place| place.clock.shows(now));
        if let Some(within) = self.load.told(from, to, ask, (now, shown)) {
            self.checks.complain(Violation::TooManyReminders { at: now, member: from, within });
        }
    }

    /// Nor does anybody answer more.
    pub(super) fn check_answers(&mut self, by: u32, to: u32, number: u64) {
        let now = self.now;
        let shown = self.place(by).map_or(now, |place| place.clock.shows(now));
        if let Some(within) = self.load.vouched(by, to, number, shown) {
            self.checks.complain(Violation::TooManyAnswers { at: now, member: by, within });
        }
    }
}

/// Within which time there were more than so many.
fn crowded(times: &mut VecDeque<Time>, now: Time, most: usize) -> Option<Duration> {
    times.push_back(now);
    let first = (times.len() > most).then(|| times.pop_front()).flatten();
    first.map(|first| now.since(first))
}

fn told(ask: &Ask) -> Told {
    let proposed = ask.standing.proposed.as_ref().map(|deed| deed.version);
    (ask.seat.incarnation, ask.standing.deed.version, proposed, ask.is_settled)
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
