//! Lends the member's slots to jobs, one at a time.
//!
//! Jobs of this process and of others (through the control socket) ask for turns. A slot goes to one of those that have
//! something to pull: the most urgent first, equals each in their order; what it leaves of the slot goes to the next one.
//! Who is paused gets none. With its turn a job learns how often such turns come, and while it lasts whether somebody else
//! waits for the slot: another member, as the node knows, or another job here. When the node orders a stop,
//! the job that pulls is told, and the node hears [`Command::SlotStopped`] only when that job has let go of its turn.
//!
//! ```text
//!   node ── SlotBegan ──> lender ── Turn ──> job
//!   node ── StopSlot ───> lender ── stop ──> job
//!   node <─ SlotStopped ─ lender <─ drop ─── job
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::base::{Seat, Session, Time};
use crate::driver::{BootClock, DriverError, Handle};
use crate::fetch::Slot;
use crate::fetch::slot::Clock;
use crate::jobs::{Giver, Outlook, Slots, Turn, Wish};
use crate::node::{Command, Event, Right};
use crate::proto::tickets;

use super::pace::Pace;

/// Less than this of a slot is not worth another job's request.
const WORTH_IT: Duration = Duration::from_millis(100);

/// Jobs at a time. More than anybody runs.
const JOBS: usize = 64;

/// A job that keeps its turn for so long after the order to stop is hung, or its process frozen: it looks at the clock
/// before it reads on, should it ever wake.
const PATIENCE: Duration = Duration::from_secs(2);

/// On which terms a job borrows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// By which name it can be paused.
    pub name: String,
    /// The higher, the sooner it has its part of a slot. All are equal by default.
    pub priority: i32,
}

/// Which jobs are paused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paused {
    all: bool,
    names: BTreeSet<String>,
}

impl Paused {
    /// Whether the job of this name is.
    pub fn is(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

/// A patience that ends so much later than it should was slept through by this process itself.
const LATE: Duration = Duration::from_millis(500);

/// A way to ask for slots. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lending {
    newcomers: mpsc::Sender<(Giver, Terms)>,
    paused: Arc<watch::Sender<Paused>>,
}

impl Lending {
    /// Slots for one job; they end when the member does.
    pub async fn borrow(&self) -> Result<Slots, DriverError> {
        self.borrow_on(Terms::default()).await
    }

    /// The same, on these terms.
    pub async fn borrow_on(&self, terms: Terms) -> Result<Slots, DriverError> {
        let (slots, giver) = Slots::given();
        self.newcomers.send((giver, terms)).await.map_err(|_| DriverError::Ended)?;
        Ok(slots)
    }

    /// Pauses the job of this name, or all of them. A turn that is out ends at once.
    pub fn pause(&self, name: Option<&str>) {
        self.paused.send_modify(|paused| match name {
            Some(name) => drop(paused.names.insert(name.to_owned())),
            None => paused.all = true,
        });
    }

    /// Lets it, or all of them, go on.
    pub fn resume(&self, name: Option<&str>) {
        self.paused.send_modify(|paused| match name {
            Some(name) => drop(paused.names.remove(name)),
            None => *paused = Paused::default(),
        });
    }

    /// Which jobs are paused.
    pub fn paused(&self) -> Paused {
        self.paused.borrow().clone()
    }
}

/// Starts to lend a node's slots, until the node ends.
pub(super) fn spawn(handle: Handle) -> (Lending, JoinHandle<()>) {
    let (newcomers, arrivals) = mpsc::channel(JOBS);
    let (wishes, heard) = mpsc::channel(JOBS);
    let events = handle.events();
    let paused = Arc::new(watch::Sender::new(Paused::default()));
    let lender = Lender {
        handle,
        borrowers: VecDeque::new(),
        paused: paused.subscribe(),
        next_id: 0,
        wishes,
        turn: None,
        served: Vec::new(),
        begun: None,
        carried: 0,
        bandwidth: None,
        has_tickets: false,
        lease: watch::Sender::new(Time::ZERO),
        others_wait: false,
        is_slot_wanted: watch::Sender::new(false),
        wanted: false,
        clock: Arc::new(|| BootClock::new().now()),
    };
    let task = tokio::spawn(async move {
        if let Err(error) = lender.run(arrivals, heard, events).await {
            debug!(%error, "no more slots to lend");
        }
    });
    (Lending { newcomers, paused }, task)
}

/// A job that wants turns.
#[derive(Debug)]
struct Borrower {
    id: u64,
    terms: Terms,
    turns: mpsc::Sender<Turn>,
    soon: watch::Sender<()>,
    outlook: Outlook,
    has_work: bool,
    pace: Pace,
}

impl Borrower {
    fn may_pull(&self, paused: &Paused) -> bool {
        self.has_work && !paused.is(&self.terms.name)
    }
}

/// Whose turn it is: the first among the most urgent that have work, are not paused and have not had a part of this slot.
fn next_in_order(borrowers: &VecDeque<Borrower>, paused: &Paused, served: &[u64]) -> Option<usize> {
    let waiting = borrowers
        .iter()
        .enumerate()
        .filter(|(_, borrower)| borrower.may_pull(paused) && !served.contains(&borrower.id));
    // Of equals the last one wins, so the order is turned around.
    waiting.rev().max_by_key(|(_, borrower)| borrower.terms.priority).map(|(index, _)| index)
}

/// A turn that is out.
#[derive(Debug)]
struct Out {
    /// To whom.
    borrower: u64,
    order: watch::Sender<bool>,
    until: Time,
    /// Ready when the job has let go: what it brought.
    ended: oneshot::Receiver<u64>,
    /// The node has ordered the stop, then.
    stopping_since: Option<Time>,
    /// This process slept through the time that the job had to let go.
    has_slept: bool,
    /// The ticket stays here until the job has let go, however long that takes: the source counts its connection.
    is_hard: bool,
    /// It was told that the job takes long.
    is_told: bool,
}

impl Out {
    fn new(borrower: u64, order: watch::Sender<bool>, until: Time, ended: oneshot::Receiver<u64>) -> Self {
        Self {
            borrower,
            order,
            until,
            ended,
            stopping_since: None,
            has_slept: false,
            is_hard: false,
            is_told: false,
        }
    }
}

struct Lender {
    handle: Handle,
    /// The first is the one whose turn is next.
    borrowers: VecDeque<Borrower>,
    paused: watch::Receiver<Paused>,
    next_id: u64,
    wishes: mpsc::Sender<(u64, Option<Wish>)>,
    turn: Option<Out>,
    /// Who has had a part of this slot.
    served: Vec<u64>,
    /// By which right this slot is ours, and since when, for the log.
    begun: Option<(Right, Session, Time)>,
    /// What this slot has brought.
    carried: u64,
    bandwidth: Option<u64>,
    /// Whether the circle goes by tickets, which are for sources that count connections.
    has_tickets: bool,
    /// Until when its ticket is the member's for sure, as was told last.
    lease: watch::Sender<Time>,
    /// Whether another member is known to wait for the token that is here.
    others_wait: bool,
    /// Whether that is so, or another job here waits for its part of the slot.
    is_slot_wanted: watch::Sender<bool>,
    /// What the node was told last.
    wanted: bool,
    clock: Clock,
}

impl Lender {
    async fn run(
        mut self,
        mut arrivals: mpsc::Receiver<(Giver, Terms)>,
        mut heard: mpsc::Receiver<(u64, Option<Wish>)>,
        mut events: broadcast::Receiver<(Time, Event)>,
    ) -> Result<(), DriverError> {
        self.read_charter().await?;
        loop {
            tokio::select! {
                Some((giver, terms)) = arrivals.recv() => {
                    self.on_newcomer(giver, terms);
                    self.tell_outlook().await?;
                }
                Some((id, wish)) = heard.recv() => self.on_wish(id, wish).await?,
                Ok(()) = self.paused.changed() => self.on_pause().await?,
                brought = ended(&mut self.turn, &self.clock) => {
                    self.carried += brought.unwrap_or(0);
                    self.on_turn_ended(brought.is_none()).await?;
                }
                event = events.recv() => match event {
                    Ok((at, Event::SlotBegan { right, session, until })) => {
                        log_slot(true, right, session, until.since(at), 0);
                        self.begun = Some((right, session, at));
                        self.on_slot_began(until).await?;
                    }
                    Ok((_, Event::Expecting { .. })) => self.on_expecting(),
                    Ok((_, Event::Tickets(tickets::Event::Leased { until }))) => {
                        self.lease.send_replace(until);
                    }
                    Ok((_, Event::StopSlot)) => self.on_stop().await?,
                    Ok((_, Event::Wanted(others_wait))) => {
                        self.others_wait = others_wait;
                        self.tell_wanted();
                    }
                    Ok((_, Event::CharterChanged { .. })) => self.read_charter().await?,
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        warn!(missed, "events were missed; ending the pull, to be safe");
                        self.on_stop().await?;
                    }
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    fn on_newcomer(&mut self, giver: Giver, terms: Terms) {
        let Giver { turns, soon, mut wishes, outlook } = giver;
        if self.borrowers.len() >= JOBS {
            // Its slots end at once.
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let (has_work, pace) = (false, Pace::default());
        self.borrowers.push_back(Borrower { id, terms, turns, soon, outlook, has_work, pace });
        let tell = self.wishes.clone();
        tokio::spawn(async move {
            loop {
                let wish = wishes.recv().await;
                let is_last = wish.is_none();
                if tell.send((id, wish)).await.is_err() || is_last {
                    return;
                }
            }
        });
    }

    async fn on_wish(&mut self, id: u64, wish: Option<Wish>) -> Result<(), DriverError> {
        match wish {
            Some(Wish::Work(has_work)) => {
                if let Some(borrower) = self.borrowers.iter_mut().find(|borrower| borrower.id == id) {
                    borrower.has_work = has_work;
                    borrower.pace.work(has_work, (self.clock)());
                }
            }
            Some(Wish::Cool(span, reason)) => self.handle.command(Command::Cool { span, reason }).await?,
            None => self.borrowers.retain(|borrower| borrower.id != id),
        }
        self.tell_work().await
    }

    /// The node hears of work when there is some, and of its end when no turn is out: the end of a turn tells it then.
    async fn tell_work(&mut self) -> Result<(), DriverError> {
        self.tell_wanted();
        let wanted = self.borrowers.iter().any(|borrower| self.may_pull(borrower));
        if wanted != self.wanted && (wanted || self.turn.is_none()) {
            self.wanted = wanted;
            self.handle.command(Command::Work(wanted)).await?;
        }
        Ok(())
    }

    /// Tells the job whose turn it is whether somebody else waits for the slot.
    fn tell_wanted(&self) {
        let is_wanted = self.others_wait || self.next_in_order().is_some();
        self.is_slot_wanted.send_if_modified(|before| std::mem::replace(before, is_wanted) != is_wanted);
    }

    async fn on_slot_began(&mut self, until: Time) -> Result<(), DriverError> {
        self.served.clear();
        self.carried = 0;
        if !self.give_turn(until) {
            self.slot_stopped().await?;
        }
        Ok(())
    }

    /// Whoever would get the slot may get ready.
    fn on_expecting(&self) {
        if let Some(next) = self.next_in_order().and_then(|index| self.borrowers.get(index)) {
            next.soon.send_replace(());
        }
    }

    fn may_pull(&self, borrower: &Borrower) -> bool {
        borrower.may_pull(&self.paused.borrow())
    }

    fn next_in_order(&self) -> Option<usize> {
        next_in_order(&self.borrowers, &self.paused.borrow(), &self.served)
    }

    /// Somebody was paused, or not any more.
    async fn on_pause(&mut self) -> Result<(), DriverError> {
        let paused = self.paused.borrow_and_update().clone();
        let is_paused = |id: u64| {
            self.borrowers.iter().any(|borrower| borrower.id == id && paused.is(&borrower.terms.name))
        };
        if let Some(turn) = &mut self.turn
            && is_paused(turn.borrower)
        {
            turn.order.send_replace(true);
        }
        self.tell_work().await
    }

    /// Gives the slot, or what is left of it, to the next job that has not had a part of it.
    fn give_turn(&mut self, until: Time) -> bool {
        while let Some(mut borrower) = self.next_in_order().and_then(|index| self.borrowers.remove(index)) {
            // One that does not take it is as good as served.
            self.served.push(borrower.id);
            self.tell_wanted();
            let given = self.give_to(&mut borrower, until);
            self.borrowers.push_back(borrower);
            if given {
                return true;
            }
        }
        false
    }

    fn give_to(&mut self, borrower: &mut Borrower, until: Time) -> bool {
        let (order, stop) = watch::channel(false);
        let slot = Slot::until(until, Arc::clone(&self.clock), stop)
            .at_rate(self.bandwidth)
            .counting_connections(self.has_tickets)
            .wanted_when(self.is_slot_wanted.subscribe())
            .leased(self.has_tickets.then(|| self.lease.subscribe()));
        let (turn, ended) = Turn::new(slot);
        let turn = turn.at_rhythm(borrower.pace.turn((self.clock)()));
        if borrower.turns.try_send(turn).is_err() {
            return false;
        }
        self.turn = Some(Out { is_hard: self.has_tickets, ..Out::new(borrower.id, order, until, ended) });
        true
    }

    async fn on_turn_ended(&mut self, is_hung: bool) -> Result<(), DriverError> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let now = (self.clock)();
        if is_hung {
            warn!("a job does not let go of its turn; it gets no more of them");
            self.borrowers.retain(|borrower| borrower.id != turn.borrower);
        }
        let is_over = turn.stopping_since.is_some() || turn.until.since(now) < WORTH_IT;
        if !is_over && self.give_turn(turn.until) {
            return Ok(());
        }
        self.slot_stopped().await
    }

    async fn slot_stopped(&mut self) -> Result<(), DriverError> {
        if let Some((right, session, at)) = self.begun.take() {
            log_slot(false, right, session, (self.clock)().since(at), self.carried);
        }
        self.handle.command(Command::SlotStopped).await?;
        self.handle.command(Command::Carried { bytes: self.carried }).await?;
        self.tell_work().await?;
        self.tell_outlook().await
    }

    async fn on_stop(&mut self) -> Result<(), DriverError> {
        match &mut self.turn {
            Some(turn) => {
                turn.order.send_replace(true);
                turn.stopping_since.get_or_insert((self.clock)());
                Ok(())
            }
            None => self.handle.command(Command::SlotStopped).await,
        }
    }

    /// What a job can tell its user: the next slot is about as far away as its last few were, or those of the member.
    async fn tell_outlook(&mut self) -> Result<(), DriverError> {
        let status = self.handle.status().await?;
        let wait = status.access_intervals.or(status.return_times).map(|summary| summary.recent);
        for borrower in &self.borrowers {
            borrower.outlook.set(borrower.pace.interval().or(wait));
        }
        Ok(())
    }

    async fn read_charter(&mut self) -> Result<(), DriverError> {
        let roll = self.handle.roll().await?;
        let bandwidth = roll.charter().bandwidth;
        self.bandwidth = (bandwidth > 0).then_some(bandwidth);
        self.has_tickets = roll.charter().ring().is_some();
        Ok(())
    }
}

/// One line for each slot, when it has ended; its beginning is a detail.
fn log_slot(begins: bool, right: Right, session: Session, span: Duration, bytes: u64) {
    let for_s = span.as_secs_f64();
    match (begins, right) {
        (true, Right::Token(token)) => debug!(%token, %session, for_s, "slot began"),
        (true, Right::Ticket(Seat { ticket, .. })) => debug!(ticket, %session, for_s, "slot began"),
        (false, Right::Token(token)) => info!(%token, %session, for_s, bytes, "slot ended"),
        (false, Right::Ticket(Seat { ticket, .. })) => info!(ticket, %session, for_s, bytes, "slot ended"),
    }
}

/// Ready when the turn that is out has ended, with what it brought, or is given up; never if none is.
async fn ended(turn: &mut Option<Out>, clock: &Clock) -> Option<u64> {
    let Some(out) = turn else { return std::future::pending().await };
    let Some(since) = out.stopping_since else { return Some((&mut out.ended).await.unwrap_or(0)) };
    let left = PATIENCE.saturating_sub(clock().since(since));
    if out.is_hard {
        return Some(ended_at_last(out, left).await);
    }
    let mut brought = timeout(left, &mut out.ended).await;
    // Who was frozen with us has had no time at all: it begins now, once.
    if brought.is_err() && clock().since(since) > PATIENCE + LATE && !out.has_slept {
        (out.has_slept, out.stopping_since) = (true, Some(clock()));
        brought = timeout(PATIENCE, &mut out.ended).await;
    }
    brought.ok().map(|brought| brought.unwrap_or(0))
}

/// Ready when the turn has ended, whenever that is. Who waits for long is told why.
async fn ended_at_last(out: &mut Out, patience: Duration) -> u64 {
    if !out.is_told {
        if let Ok(brought) = timeout(patience, &mut out.ended).await {
            return brought.unwrap_or(0);
        }
        warn!("a job does not let go of its turn; the ticket is kept until it does, or its process ends");
        out.is_told = true;
    }
    (&mut out.ended).await.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs with work, by name and priority; the first is the one that waits for longest.
    fn queue(jobs: &[(&str, i32)]) -> VecDeque<Borrower> {
        let borrower = |(id, (name, priority)): (u64, &(&str, i32))| {
            let (_, Giver { turns, soon, outlook, .. }) = Slots::given();
            let terms = Terms { name: (*name).to_owned(), priority: *priority };
            Borrower { id, terms, turns, soon, outlook, has_work: true, pace: Pace::default() }
        };
        (0..).zip(jobs).map(borrower).collect()
    }

    fn paused(names: &[&str]) -> Paused {
        Paused { all: false, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn the_most_urgent_goes_first_and_equals_go_in_their_order() {
        let jobs = queue(&[("a", 0), ("b", 5), ("c", 5), ("d", -1)]);
        let mut served = Vec::new();
        while let Some(next) = next_in_order(&jobs, &Paused::default(), &served) {
            served.push(u64::try_from(next).unwrap());
        }
        assert_eq!(served, [1, 2, 0, 3], "everybody has a part of the slot, and nobody has two");
    }

    #[test]
    fn who_has_nothing_to_pull_or_is_paused_is_passed_over() {
        let mut jobs = queue(&[("a", 9), ("b", 5), ("c", 0)]);
        jobs[0].has_work = false;
        assert_eq!(next_in_order(&jobs, &Paused::default(), &[]), Some(1));
        assert_eq!(next_in_order(&jobs, &paused(&["b"]), &[]), Some(2));
        assert_eq!(next_in_order(&jobs, &paused(&["b", "c"]), &[]), None);
        assert_eq!(next_in_order(&jobs, &Paused { all: true, names: BTreeSet::new() }, &[]), None);
    }

    #[test]
    fn to_resume_all_is_to_resume_each() {
        let (newcomers, _arrivals) = mpsc::channel(1);
        let lending = Lending { newcomers, paused: Arc::new(watch::Sender::new(Paused::default())) };
        lending.pause(Some("a"));
        lending.pause(None);
        lending.resume(Some("a"));
        assert!(lending.paused().is("a"), "all are paused, and so is this one");
        lending.pause(Some("a"));
        lending.resume(None);
        assert!(!lending.paused().is("a") && !lending.paused().is("b"));
    }
}
