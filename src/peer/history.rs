//! What a member has seen lately: visits of the token with their neighbours, times between them, throughput and lag over
//! time. Fed by the node's events and the jobs' board; read by the page and the metrics.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use crate::base::{MemberId, Session, Time, TokenId};
use crate::driver::{BootClock, Handle};
use crate::jobs::Board;
use crate::node::Event;
use crate::proto::{agent, handoff};

/// Visits that are kept: enough for a histogram.
const VISITS: usize = 512;

/// How often throughput and lag are looked at, and how many of these looks are kept: an hour.
const SAMPLE_EVERY: Duration = Duration::from_secs(2);
const SAMPLES: usize = 1_800;

/// Upper bounds of the histograms' buckets for times between visits and slots, in seconds: from a handoff on a local network
/// to a day. A circle's nominal period may lie anywhere between.
const TIME_BOUNDS: [f64; 17] = [
    0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0,
    43_200.0, 86_400.0,
];

/// The same for handoffs: from a loopback to the last retry.
const HANDOFF_BOUNDS: [f64; 10] = [0.0005, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// One visit of a token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Visit {
    /// Its number, counted from the start.
    pub number: u64,
    /// How long ago it began, in seconds, when the history was read.
    pub ago_s: f64,
    /// Which token, in short.
    pub token: String,
    /// Who handed it over; nobody, if it was made here.
    pub from: Option<String>,
    /// To whom it was handed on.
    pub to: Option<String>,
    /// Whether it was used, and not only passed through.
    pub slot: bool,
    /// How long it stayed, in seconds.
    pub stayed_s: Option<f64>,
}

/// Throughput and lag at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// How long ago, in seconds, when the history was read.
    pub ago_s: f64,
    /// Bytes that came until then, of all jobs.
    pub bytes: u64,
    /// The lag of the job that is furthest behind, in seconds.
    pub lag_s: Option<f64>,
    /// The chunk of the job that planned one last, in bytes.
    pub chunk_bytes: Option<u64>,
}

/// A count of values by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Upper bounds; the last bucket has none.
    pub bounds: &'static [f64],
    /// How many fell into each bucket.
    pub counts: Vec<u64>,
    /// Their sum.
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, span: Duration) {
        let value = span.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += value;
    }
}

/// What was seen, at one moment.
#[derive(Clone, Debug)]
pub struct Past {
    /// The last visits, oldest first.
    pub visits: Vec<Visit>,
    /// The last times between visits, in seconds, oldest first.
    pub return_times: Vec<f64>,
    /// The last times between slots.
    pub access_intervals: Vec<f64>,
    /// Throughput and lag over time, oldest first.
    pub samples: Vec<Sample>,
    /// All times between visits since the start.
    pub return_time_histogram: Histogram,
    /// All times between slots since the start.
    pub access_interval_histogram: Histogram,
    /// From our yes to a token to its arrival.
    pub handoff_histogram: Histogram,
    /// From our first Move for a token to the news that it was delivered.
    pub confirmation_histogram: Histogram,
    /// Seconds of slots in total.
    pub slot_s: f64,
}

/// The history of one member. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    memory: Arc<Mutex<Memory>>,
}

impl History {
    /// What was seen until now.
    pub fn past(&self) -> Past {
        self.lock().past(BootClock::new().now())
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("nobody panics with the history in hand")
    }
}

/// Starts to remember, until the node ends.
pub(super) fn spawn(handle: &Handle, board: Board) -> (History, JoinHandle<()>) {
    let history = History { memory: Arc::new(Mutex::new(Memory::default())) };
    let (memory, mut events) = (history.clone(), handle.events());
    let task = tokio::spawn(async move {
        let mut looks = tokio::time::interval(SAMPLE_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => memory.lock().look(&board, BootClock::new().now()),
                event = events.recv() => match event {
                    Ok((at, event)) => memory.lock().on(&event, at),
                    // A gap in a history is no harm.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
        }
    });
    (history, task)
}

#[derive(Debug)]
struct Memory {
    visits: VecDeque<(Time, Visit)>,
    count: u64,
    last_visit: Option<Time>,
    last_slot: Option<Time>,
    slot_began: Option<Time>,
    expecting: Option<(TokenId, Time)>,
    /// The last attempt to hand a token off, and when its first Move left.
    offering: Option<(TokenId, Session, Time)>,
    arrived_from: Option<MemberId>,
    return_times: VecDeque<f64>,
    access_intervals: VecDeque<f64>,
    samples: VecDeque<(Time, Sample)>,
    return_time_histogram: Histogram,
    access_interval_histogram: Histogram,
    handoff_histogram: Histogram,
    confirmation_histogram: Histogram,
    slot_time: Duration,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            visits: VecDeque::new(),
            count: 0,
            last_visit: None,
            last_slot: None,
            slot_began: None,
            expecting: None,
            offering: None,
            arrived_from: None,
            return_times: VecDeque::new(),
            access_intervals: VecDeque::new(),
            samples: VecDeque::new(),
            return_time_histogram: Histogram::new(&TIME_BOUNDS),
            access_interval_histogram: Histogram::new(&TIME_BOUNDS),
            handoff_histogram: Histogram::new(&HANDOFF_BOUNDS),
            confirmation_histogram: Histogram::new(&HANDOFF_BOUNDS),
            slot_time: Duration::ZERO,
        }
    }
}

impl Memory {
    fn on(&mut self, event: &Event, at: Time) {
        match event {
            Event::Expecting { token } => self.expecting = Some((*token, at)),
            Event::Handoff(handoff::Event::Arrived { token, from, .. }) => {
                self.arrived_from = Some(*from);
                if let Some((expected, since)) = self.expecting.take()
                    && expected == *token
                {
                    self.handoff_histogram.observe(at.since(since));
                }
            }
            Event::Offering { token, session } => self.offering = Some((*token, *session, at)),
            Event::Handoff(handoff::Event::Released { to, .. }) => self.on_released(*to, at),
            Event::Handoff(handoff::Event::Confirmed { token, session, .. }) => {
                let offered =
                    self.offering.take_if(|(of, in_session, _)| of == token && in_session == session);
                if let Some((.., since)) = offered {
                    self.confirmation_histogram.observe(at.since(since));
                }
            }
            Event::Agent(agent::Event::Visited { token }) => self.on_visit(*token, at),
            Event::SlotBegan { .. } => self.on_slot(at),
            Event::SlotEnded => {
                if let Some(began) = self.slot_began.take() {
                    self.slot_time += at.since(began);
                }
            }
            _ => {}
        }
    }

    fn on_visit(&mut self, token: TokenId, at: Time) {
        if let Some(last) = self.last_visit.replace(at) {
            let span = at.since(last);
            self.return_time_histogram.observe(span);
            push(&mut self.return_times, span.as_secs_f64(), VISITS);
        }
        let visit = Visit {
            number: self.count,
            ago_s: 0.0,
            token: token.to_string(),
            from: self.arrived_from.take().map(|member| member.to_string()),
            to: None,
            slot: false,
            stayed_s: None,
        };
        self.count += 1;
        push(&mut self.visits, (at, visit), VISITS);
    }

    fn on_slot(&mut self, at: Time) {
        if let Some(last) = self.last_slot.replace(at) {
            let span = at.since(last);
            self.access_interval_histogram.observe(span);
            push(&mut self.access_intervals, span.as_secs_f64(), VISITS);
        }
        self.slot_began = Some(at);
        if let Some((_, visit)) = self.visits.back_mut() {
            visit.slot = true;
        }
    }

    fn on_released(&mut self, to: MemberId, at: Time) {
        if let Some((began, visit)) = self.visits.back_mut() {
            visit.to = Some(to.to_string());
            visit.stayed_s = Some(at.since(*began).as_secs_f64());
        }
    }

    fn look(&mut self, board: &Board, at: Time) {
        let reports = board.reports();
        let lags = reports.iter().filter_map(|job| job.lag_s);
        let sample = Sample {
            ago_s: 0.0,
            bytes: reports.iter().map(|job| job.bytes).sum::<u64>() + board.borrowed_bytes(),
            lag_s: lags.fold(None, |most: Option<f64>, lag| Some(most.map_or(lag, |most| most.max(lag)))),
            chunk_bytes: reports.iter().rev().find_map(|job| job.chunk_bytes),
        };
        push(&mut self.samples, (at, sample), SAMPLES);
    }

    fn past(&self, now: Time) -> Past {
        let ago_s = |at: Time| now.since(at).as_secs_f64();
        let running = self.slot_began.map_or(Duration::ZERO, |began| now.since(began));
        Past {
            visits: self
                .visits
                .iter()
                .map(|(at, visit)| Visit { ago_s: ago_s(*at), ..visit.clone() })
                .collect(),
            return_times: self.return_times.iter().copied().collect(),
            access_intervals: self.access_intervals.iter().copied().collect(),
            samples: self
                .samples
                .iter()
                .map(|(at, sample)| Sample { ago_s: ago_s(*at), ..*sample })
                .collect(),
            return_time_histogram: self.return_time_histogram.clone(),
            access_interval_histogram: self.access_interval_histogram.clone(),
            handoff_histogram: self.handoff_histogram.clone(),
            confirmation_histogram: self.confirmation_histogram.clone(),
            slot_s: (self.slot_time + running).as_secs_f64(),
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, value: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Right;

    fn token() -> TokenId {
        TokenId { created_ms: 1, generator: MemberId::from_bytes([1; 16]), random: 2 }
    }

    #[test]
    fn a_visit_knows_where_the_token_came_from_and_went() {
        let mut memory = Memory::default();
        let (a, b) = (MemberId::from_bytes([7; 16]), MemberId::from_bytes([8; 16]));
        let (token, session) = (token(), Session(3));
        memory.on(&Event::Expecting { token }, Time::from_secs(9));
        memory.on(&Event::Handoff(handoff::Event::Arrived { token, session, from: a }), Time::from_secs(10));
        memory.on(&Event::Agent(agent::Event::Visited { token }), Time::from_secs(10));
        memory.on(
            &Event::SlotBegan { right: Right::Token(token), session, until: Time::from_secs(14) },
            Time::from_secs(10),
        );
        memory.on(&Event::SlotEnded, Time::from_secs(13));
        memory.on(&Event::Handoff(handoff::Event::Released { token, session, to: b }), Time::from_secs(14));
        memory.on(&Event::Agent(agent::Event::Visited { token }), Time::from_secs(30));
        let past = memory.past(Time::from_secs(40));
        let first = past.visits.first().expect("a visit");
        assert_eq!((first.from.clone(), first.to.clone()), (Some(a.to_string()), Some(b.to_string())));
        assert_eq!((first.slot, first.stayed_s, first.ago_s), (true, Some(4.0), 30.0));
        assert_eq!(past.visits.get(1).and_then(|visit| visit.from.clone()), None);
        assert_eq!((past.return_times, past.slot_s), (vec![20.0], 3.0));
        assert_eq!(past.handoff_histogram.counts.iter().sum::<u64>(), 1);
    }

    #[test]
    fn a_handoff_takes_from_its_first_move_to_its_confirmation() {
        let mut memory = Memory::default();
        let (token, to) = (token(), MemberId::from_bytes([8; 16]));
        let confirmed =
            |session| Event::Handoff(handoff::Event::Confirmed { token, session: Session(session), to });
        let offering = |session| Event::Offering { token, session: Session(session) };
        memory.on(&offering(3), Time::from_secs(10));
        // Nobody answered: another attempt.
        memory.on(&offering(4), Time::from_secs(12));
        memory.on(&confirmed(3), Time::from_secs(13));
        memory.on(&confirmed(4), Time::from_secs(15));
        memory.on(&confirmed(4), Time::from_secs(99));
        let histogram = memory.past(Time::from_secs(100)).confirmation_histogram;
        assert_eq!((histogram.counts.iter().sum::<u64>(), histogram.sum), (1, 3.0));
    }

    #[test]
    fn a_history_stays_bounded() {
        let mut memory = Memory::default();
        for second in 0..2_000 {
            memory.on(&Event::Agent(agent::Event::Visited { token: token() }), Time::from_secs(second));
        }
        let past = memory.past(Time::from_secs(2_000));
        assert_eq!((past.visits.len(), past.return_times.len()), (VISITS, VISITS));
        assert_eq!(past.visits.last().map(|visit| visit.number), Some(1_999));
        assert_eq!(past.return_time_histogram.counts.iter().sum::<u64>(), 1_999);
    }

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for millis in [500, 1_000, 1_500, 2_000, 2_001] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.counts, [2, 2, 1]);
    }
}
