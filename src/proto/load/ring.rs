//! The verdict in a circle with tickets: from the tickets in use and the members that wait for one, not from intervals.
//!
//! A member in the ring knows both. Outside of it a member knows only how long it has waited itself. The load is demand over
//! tickets, averaged over some turns, because a ticket is idle for a moment each time it changes hands.
//!
//! Called by [`Load`](super::Load) alone.

use std::time::Duration;

use crate::base::Time;
use crate::base::units::human_duration;

use super::level::Level;

/// The load is averaged over so many turns, …
const TURNS: u32 = 8;
/// … but over this at least and at most.
const LEAST_MEMORY: Duration = Duration::from_secs(10);
const MOST_MEMORY: Duration = Duration::from_secs(600);

/// As with a token: the circle is full from here on, and until it is below there.
const FULL_FROM: f64 = 0.97;
const FULL_UNTIL: f64 = 0.88;

/// As with a token: overload begins above the first and ends below the second.
const OVERLOADED_FROM: f64 = 1.2;
const OVERLOADED_UNTIL: f64 = 1.0;

/// The ring repairs itself within seconds. A ticket that its witnesses do not vouch for after this time needs people.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// A member without a ticket is starved after so many times the wait that the members explain, …
const STARVED_WAITS: f64 = 4.0;
/// … but not before this time.
const LEAST_STARVED: Duration = Duration::from_secs(60);

/// A newcomer has its ticket within this time if one is free.
const JOINING: Duration = Duration::from_secs(10);

/// The ring as one member knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingView {
    /// How many tickets there are.
    pub tickets: u16,
    /// How many of them are held by members that may have something to pull.
    pub in_use: usize,
    /// How many members wait for one.
    pub waiting: usize,
    /// Whether this member has a ticket, be it one that it may not use.
    pub has_ticket: bool,
    /// How long this member has waited for a ticket that it may use.
    pub waited: Option<Duration>,
    /// How many members, this one included, can want a ticket; `None` if not all are known.
    pub members: Option<usize>,
    /// How long a member pulls while others wait.
    pub turn: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RingJudge {
    view: Option<RingView>,
    has_work: bool,
    seen_at: Time,
    load: Option<f64>,
    is_full: bool,
    is_overloaded: bool,
}

impl RingJudge {
    pub(super) fn handle(&mut self, view: RingView, has_work: bool, now: Time) {
        if self.view.is_some_and(|before| before.tickets != view.tickets) || !has_work {
            *self = Self::default();
        }
        if has_work && let Some(demand) = demand(&view) {
            self.average(demand / f64::from(view.tickets.max(1)), memory(view.turn), now);
        }
        self.seen_at = now;
        (self.view, self.has_work) = (Some(view), has_work);
        let load = self.load.unwrap_or(0.0);
        self.is_full = load >= if self.is_full { FULL_UNTIL } else { FULL_FROM };
        self.is_overloaded = load >= if self.is_overloaded { OVERLOADED_UNTIL } else { OVERLOADED_FROM };
    }

    /// What is in use counts at once; members that wait count as they go on waiting.
    fn average(&mut self, load: f64, memory: Duration, now: Time) {
        let Some(before) = self.load else {
            self.load = Some(load.min(1.0));
            return;
        };
        let passed = now.since(self.seen_at).as_secs_f64() / memory.as_secs_f64();
        self.load = Some(before + (load - before) * (1.0 - (-passed).exp()));
    }

    pub(super) fn level(&self) -> Level {
        match self {
            _ if self.is_starved() => Level::Starved,
            Self { is_overloaded: true, .. } => Level::Overloaded,
            Self { is_full: true, .. } => Level::Full,
            _ => Level::Nominal,
        }
    }

    /// Demand over tickets.
    pub(super) fn load(&self) -> Option<f64> {
        self.load
    }

    fn is_starved(&self) -> bool {
        self.view
            .is_some_and(|view| self.has_work && view.waited.is_some_and(|waited| waited >= patience(&view)))
    }

    pub(super) fn reason(&self) -> String {
        let Some(view) = self.view.filter(|_| self.has_work) else {
            return "nothing to pull, so nothing to wait for".to_owned();
        };
        let RingView { tickets, waiting, waited, has_ticket, .. } = view;
        let waited = human_duration(waited.unwrap_or_default());
        let queue = match waiting {
            0 => String::new(),
            1 => ", and 1 member waits for one".to_owned(),
            count => format!(", and {count} members wait for one"),
        };
        match (self.level(), self.load) {
            (Level::Starved, _) if has_ticket => format!(
                "the ring is dead: too few members have vouched for our ticket for {waited}, so it is not used"
            ),
            (Level::Starved, _) => format!("no ticket for {waited} though there is something to pull"),
            (Level::Overloaded, Some(load)) => {
                format!("demand is {load:.2} times the {tickets} tickets: all are in use{queue}")
            }
            (Level::Full, _) => format!("all {tickets} tickets are in use{queue}"),
            (_, Some(load)) => format!("{:.0} % of the {tickets} tickets are in use{queue}", load * 100.0),
            _ => "waits for its first ticket".to_owned(),
        }
    }
}

/// How many tickets members would use; `None` if this member cannot know.
fn demand(view: &RingView) -> Option<f64> {
    let tickets = usize::from(view.tickets);
    let demand = match view.waited {
        // Those who wait would have a ticket if there were one.
        _ if view.has_ticket && view.waiting > 0 => tickets + view.waiting,
        _ if view.has_ticket => view.in_use.min(tickets),
        Some(waited) if waited >= JOINING => tickets + view.waiting.max(1),
        _ => return None,
    };
    Some(demand as f64)
}

fn memory(turn: Duration) -> Duration {
    (turn * TURNS).clamp(LEAST_MEMORY, MOST_MEMORY)
}

/// How long a member waits for a ticket that it may use before it is starved.
fn patience(view: &RingView) -> Duration {
    if view.has_ticket {
        return DEAD_AFTER;
    }
    let turns =
        view.members.map_or(f64::from(u16::MAX), |members| members as f64) / f64::from(view.tickets.max(1));
    let wait = Duration::try_from_secs_f64(turns * STARVED_WAITS * view.turn.as_secs_f64());
    wait.unwrap_or(Duration::MAX).max(LEAST_STARVED)
}
