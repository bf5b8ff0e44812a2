//! Where a job's slots come from: a member's visits of the token, or eternity.
//!
//! A job says whether it has something to pull, waits for a [`Turn`], pulls while the turn's slot lasts, and drops it. The
//! drop is its word that not one more byte is read; the token does not go on before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::fetch::Slot;

/// What a job tells whoever gives it slots.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// Whether there is something to pull.
    Work(bool),
    /// The source asks to be left alone, with its reason for people to read.
    Cool(Duration, String),
}

/// How often a job's slots come, as its giver measured it. Durations, not clock readings: the giver may be another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rhythm {
    /// The recent inter-arrival time: between the beginnings of the job's slots, a mean of the last few, without the time in
    /// which the job had nothing to pull. A token that is kept for slot after slot comes once in a slot's length. `None`
    /// before the second slot.
    pub interval: Option<Duration>,
    /// How long ago the slot before this one began; `None` if this is the first.
    pub since_last: Option<Duration>,
}

/// Before the first inter-arrival time is known, a limit is an average over so many slots.
const SLOTS_AT_FIRST: u32 = 10;

/// Over which time a limit on the rate is an average, for a job with these inter-arrival times and slots of this length.
pub fn average_period(interval: Option<Duration>, slot: Duration) -> Duration {
    interval.unwrap_or(slot.saturating_mul(SLOTS_AT_FIRST)).max(slot)
}

/// A limit that the giver shares among jobs of several processes. It keeps the account: what it allows is told with each
/// turn, and what the turn brought is told at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// How many bytes per second on average; `None` is as many as come.
    pub bytes_per_sec: Option<u64>,
    /// How many bytes could have been read since the last slot, and were not.
    pub saved: u64,
}

/// The right to pull, as long as it is kept and its slot is not over.
#[derive(Debug)]
pub struct Turn {
    /// Until when.
    pub slot: Slot,
    /// How often such turns come.
    pub rhythm: Rhythm,
    /// What the giver's own limit leaves to it.
    pub allowance: Allowance,
    carried: u64,
    /// Sent to when the turn is dropped, which is how the giver learns of its end.
    kept: Option<oneshot::Sender<u64>>,
}

impl Turn {
    /// A turn, and what is ready when it has ended: the bytes that it brought.
    pub fn new(slot: Slot) -> (Self, oneshot::Receiver<u64>) {
        let (kept, ended) = oneshot::channel();
        let (rhythm, allowance) = (Rhythm::default(), Allowance::default());
        (Self { slot, rhythm, allowance, carried: 0, kept: Some(kept) }, ended)
    }

    /// The same turn, which came at this rhythm.
    #[must_use]
    pub fn at_rhythm(mut self, rhythm: Rhythm) -> Self {
        self.rhythm = rhythm;
        self
    }

    /// The same turn, to which the giver's limit leaves so much.
    #[must_use]
    pub fn within(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// Says what the turn brought.
    pub fn carried(&mut self, bytes: u64) {
        self.carried = bytes;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            // A giver that is gone does not want to know.
            let _ = kept.send(self.carried);
        }
    }
}

/// What comes of waiting for a turn.
#[derive(Debug)]
pub enum Sign {
    /// A turn.
    Turn(Turn),
    /// A turn may come in a moment: time to get ready.
    Soon,
    /// There will be none any more.
    Never,
}

/// What is known about the wait for the next turn, for people to see.
#[derive(Clone, Debug, Default)]
pub struct Outlook(Arc<AtomicU64>);

impl Outlook {
    /// The wait is expected to last so long; `None` if nobody knows.
    pub fn set(&self, wait: Option<Duration>) {
        let millis = wait.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        self.0.store(millis, Ordering::Relaxed);
    }

    /// How long a wait that begins now is expected to last.
    pub fn wait(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        }
    }
}

/// A job's end of the line.
#[derive(Debug)]
pub struct Slots {
    turns: Turns,
    outlook: Outlook,
}

#[derive(Debug)]
enum Turns {
    /// No circle: every turn lasts for ever. The order to end it never comes.
    Eternal(watch::Sender<bool>),
    Given {
        turns: mpsc::Receiver<Turn>,
        soon: watch::Receiver<()>,
        wishes: mpsc::UnboundedSender<Wish>,
    },
}

/// The giver's end of the line.
#[derive(Debug)]
pub struct Giver {
    /// Turns go in here.
    pub turns: mpsc::Sender<Turn>,
    /// Sent to when a turn may come in a moment.
    pub soon: watch::Sender<()>,
    /// Wishes come out here; closed when the job is gone.
    pub wishes: mpsc::UnboundedReceiver<Wish>,
    /// What the job shows while it waits.
    pub outlook: Outlook,
}

impl Slots {
    /// Slots without end.
    pub fn eternal() -> Self {
        Self { turns: Turns::Eternal(watch::Sender::new(false)), outlook: Outlook::default() }
    }

    /// Slots that somebody gives.
    pub fn given() -> (Self, Giver) {
        // One turn at a time: the next is not given before the last has ended.
        let (give, turns) = mpsc::channel(1);
        let (wishes, heard) = mpsc::unbounded_channel();
        let (say_soon, soon) = watch::channel(());
        let outlook = Outlook::default();
        let giver = Giver { turns: give, soon: say_soon, wishes: heard, outlook: outlook.clone() };
        (Self { turns: Turns::Given { turns, soon, wishes }, outlook }, giver)
    }

    /// Whether turns are without end.
    pub fn is_eternal(&self) -> bool {
        matches!(self.turns, Turns::Eternal(_))
    }

    /// The next turn; `None` if there will be none any more.
    pub async fn next(&mut self) -> Option<Turn> {
        match &mut self.turns {
            Turns::Eternal(order) => Some(Turn::new(Slot::eternal(order.subscribe())).0),
            Turns::Given { turns, .. } => turns.recv().await,
        }
    }

    /// The next turn, or a sign that it may come in a moment.
    pub async fn sign(&mut self) -> Sign {
        match &mut self.turns {
            Turns::Eternal(_) => self.next().await.map_or(Sign::Never, Sign::Turn),
            Turns::Given { turns, soon, .. } => tokio::select! {
                biased;
                turn = turns.recv() => turn.map_or(Sign::Never, Sign::Turn),
                Ok(()) = soon.changed() => Sign::Soon,
            },
        }
    }

    /// Whatever sign was given until now is of no interest any more.
    pub fn forget_signs(&mut self) {
        if let Turns::Given { soon, .. } = &mut self.turns {
            soon.mark_unchanged();
        }
    }

    /// How long the next turn is expected to be away.
    pub fn expected_wait(&self) -> Option<Duration> {
        self.outlook.wait()
    }

    /// Says whether there is something to pull.
    pub fn want(&self, work: bool) {
        self.wish(Wish::Work(work));
    }

    /// Says that the source asks to be left alone, and what it said.
    pub fn cool(&self, span: Duration, reason: String) {
        self.wish(Wish::Cool(span, reason));
    }

    fn wish(&self, wish: Wish) {
        if let Turns::Given { wishes, .. } = &self.turns {
            // A giver that is gone gives no turns either, which is noticed there.
            let _ = wishes.send(wish);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_giver_learns_when_a_turn_has_ended() {
        let (mut slots, giver) = Slots::given();
        let (_order, stop) = watch::channel(false);
        let (turn, mut ended) = Turn::new(Slot::eternal(stop));
        giver.turns.send(turn).await.expect("the job is there");
        let mut turn = slots.next().await.expect("a turn");
        assert!(ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        turn.carried(7);
        drop(turn);
        assert_eq!(ended.await, Ok(7));
    }

    #[tokio::test]
    async fn a_turn_that_nobody_takes_has_ended_with_the_job() {
        let (slots, giver) = Slots::given();
        let (_order, stop) = watch::channel(false);
        let (turn, ended) = Turn::new(Slot::eternal(stop));
        giver.turns.send(turn).await.expect("the job is there");
        drop(slots);
        assert_eq!(ended.await, Ok(0));
    }

    #[tokio::test]
    async fn a_sign_comes_before_its_turn_once_and_an_old_one_not_at_all() {
        let (mut slots, giver) = Slots::given();
        giver.soon.send_replace(());
        assert!(matches!(slots.sign().await, Sign::Soon));
        giver.soon.send_replace(());
        slots.forget_signs();
        let (_order, stop) = watch::channel(false);
        giver.turns.send(Turn::new(Slot::eternal(stop)).0).await.expect("the job is there");
        assert!(matches!(slots.sign().await, Sign::Turn(_)));
        drop(giver);
        assert!(matches!(slots.sign().await, Sign::Never));
    }

    #[tokio::test]
    async fn wishes_reach_the_giver_and_solo_needs_none() {
        let (slots, mut giver) = Slots::given();
        slots.want(true);
        slots.cool(Duration::from_secs(7), "busy".to_owned());
        assert_eq!(giver.wishes.recv().await, Some(Wish::Work(true)));
        assert_eq!(giver.wishes.recv().await, Some(Wish::Cool(Duration::from_secs(7), "busy".to_owned())));
        drop(slots);
        assert_eq!(giver.wishes.recv().await, None);

        let mut solo = Slots::eternal();
        solo.want(true);
        assert!(solo.next().await.is_some_and(|turn| turn.slot.left().is_none()));
    }
}
