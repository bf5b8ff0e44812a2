//! How fast bytes may be read. The engine takes every piece that it has read out of the limiter before it reads on.
//!
//! Without a circle a rate holds at any moment (`steady`). A member of a circle may read in its slots only, so its limit is
//! an average (`average`): with a [period](Limiter::average_over) it makes up in a slot for the time between two slots. A
//! new rate begins without credit: changing the rate often gains nothing. Nor does the time count in which [no job waits for a
//! slot](Waiting): a limit is no account to save up in.

mod average;
mod steady;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use average::Average;
use steady::Steady;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The smallest of several limits; `None` is no limit.
pub fn smallest(rates: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    rates.into_iter().flatten().min()
}

/// How fast bytes may be read, by everyone who shares it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Limiter {
    gate: Arc<watch::Sender<Gate>>,
    /// Over which time the rate is an average.
    period: Arc<Mutex<Option<Duration>>>,
    /// Jobs that have something to read.
    waiting: Arc<AtomicUsize>,
}

/// Whether one job has something to read, now or in its next slot. Only then what it cannot read is saved.
#[derive(Debug)]
pub struct Waiting {
    limiter: Limiter,
    is_waiting: bool,
}

impl Waiting {
    /// It has something to read from now on, or nothing any more.
    pub fn set(&mut self, is_waiting: bool) {
        if std::mem::replace(&mut self.is_waiting, is_waiting) == is_waiting {
            return;
        }
        if !is_waiting {
            self.limiter.waiting.fetch_sub(1, Ordering::SeqCst);
        } else if self.limiter.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.limiter.forget_savings();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl Limiter {
    /// At most so many bytes per second; `None` is as many as come, zero is none at all until that changes.
    pub fn new(bytes_per_sec: Option<u64>) -> Self {
        let gate = Arc::new(watch::Sender::new(Gate::new(bytes_per_sec, None)));
        Self { gate, period: Arc::default(), waiting: Arc::default() }
    }

    /// For another job that is kept to the limit.
    pub fn waiting(&self) -> Waiting {
        Waiting { limiter: self.clone(), is_waiting: false }
    }

    /// Changes the rate, also for those who wait right now. Setting the same rate again changes nothing.
    pub fn set_rate(&self, bytes_per_sec: Option<u64>) {
        let period = *self.period();
        self.gate.send_if_modified(|gate| {
            let other = gate.rate() != bytes_per_sec;
            if other {
                *gate = Gate::new(bytes_per_sec, period);
            }
            other
        });
    }

    /// From now on the rate is an average over such periods: what is not read in one may be read in the next. `None`: it
    /// holds at any moment.
    pub fn average_over(&self, period: Option<Duration>) {
        *self.period() = period;
        if let Some(metered) = self.metered() {
            metered.set_period(period);
        }
    }

    /// Begins with so much credit, whatever there was before: another process counts what is left.
    pub fn begin_with(&self, bytes_per_sec: Option<u64>, saved: u64, period: Option<Duration>) {
        self.set_rate(bytes_per_sec);
        self.average_over(period);
        if let Some(average) = self.average() {
            average.begin_with(saved);
        }
    }

    fn forget_savings(&self) {
        if let Some(average) = self.average() {
            average.forget_savings();
        }
    }

    /// So many bytes were read elsewhere, and count as well where the rate is an average.
    pub fn charge(&self, bytes: u64) {
        if let Some(average) = self.average() {
            average.charge(bytes);
        }
    }

    /// The rate; `None` is no limit.
    pub fn rate(&self) -> Option<u64> {
        self.gate.borrow().rate()
    }

    /// How many bytes may pass within so much time, if they are all that does; `None` if that is not limited, or unknown
    /// because nothing passes until the rate changes.
    pub fn within(&self, time: Duration) -> Option<u64> {
        let metered = self.metered()?;
        Some(match metered.average() {
            Some(average) => average.within(time),
            None => metered.steady_within(time),
        })
    }

    /// How many bytes may pass at once after a pause of any length without a period; `None` without limit.
    pub fn burst(&self) -> Option<u64> {
        match &*self.gate.borrow() {
            Gate::Metered(metered) => Some(metered.steady.burst()),
            Gate::Shut => Some(0),
            Gate::Open => None,
        }
    }

    /// Waits until so many bytes may pass. Whoever came first is served first.
    ///
    /// Harmless to cancel: what was taken by then stays taken.
    pub async fn take(&self, bytes: usize) {
        let mut left = bytes as u64;
        let mut news = self.gate.subscribe();
        while left > 0 {
            let gate = news.borrow_and_update().clone();
            match gate {
                Gate::Open => return,
                Gate::Shut => {
                    if news.changed().await.is_err() {
                        return;
                    }
                }
                Gate::Metered(metered) => {
                    let piece = left.min(metered.steady.quantum());
                    tokio::select! {
                        biased;
                        () = metered.pass(piece) => left -= piece,
                        changed = news.changed() => if changed.is_err() { return },
                    }
                }
            }
        }
    }

    fn metered(&self) -> Option<Arc<Metered>> {
        match &*self.gate.borrow() {
            Gate::Metered(metered) => Some(Arc::clone(metered)),
            Gate::Open | Gate::Shut => None,
        }
    }

    fn average(&self) -> Option<Arc<Average>> {
        self.metered()?.average()
    }

    fn period(&self) -> MutexGuard<'_, Option<Duration>> {
        self.period.lock().expect("nobody panics with the period in hand")
    }
}

#[derive(Clone, Debug)]
enum Gate {
    Open,
    Shut,
    Metered(Arc<Metered>),
}

impl Gate {
    fn new(bytes_per_sec: Option<u64>, period: Option<Duration>) -> Self {
        match bytes_per_sec {
            None => Self::Open,
            Some(0) => Self::Shut,
            Some(rate) => Self::Metered(Arc::new(Metered::new(rate, period))),
        }
    }

    fn rate(&self) -> Option<u64> {
        match self {
            Self::Open => None,
            Self::Shut => Some(0),
            Self::Metered(metered) => Some(metered.rate),
        }
    }
}

#[derive(Debug)]
struct Metered {
    rate: u64,
    steady: Steady,
    /// Instead of it, if the rate is an average.
    average: Mutex<Option<Arc<Average>>>,
}

impl Metered {
    fn new(rate: u64, period: Option<Duration>) -> Self {
        let metered = Self { rate, steady: Steady::new(rate), average: Mutex::default() };
        metered.set_period(period);
        metered
    }

    fn set_period(&self, period: Option<Duration>) {
        let mut average = self.lock();
        match (&*average, period) {
            (Some(average), Some(period)) => average.set_period(period),
            (None, Some(period)) => {
                *average = Some(Arc::new(Average::new(self.rate, self.steady.burst(), period)));
            }
            (_, None) => *average = None,
        }
    }

    fn average(&self) -> Option<Arc<Average>> {
        self.lock().clone()
    }

    fn steady_within(&self, time: Duration) -> u64 {
        let earned = u128::from(self.rate).saturating_mul(time.as_nanos()) / NANOS_PER_SEC;
        u64::try_from(earned).unwrap_or(u64::MAX).saturating_add(self.steady.burst())
    }

    async fn pass(&self, bytes: u64) {
        match self.average() {
            Some(average) => average.pass(bytes).await,
            None => self.steady.pass(bytes).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Average>>> {
        self.average.lock().expect("nobody panics with the average in hand")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use tokio::time::Instant;

    use super::*;

    /// Runs on virtual time.
    fn paused<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(work)
    }

    /// Takes all these pieces one after the other and says when each had passed.
    async fn times(limiter: &Limiter, pieces: &[usize]) -> Vec<(Duration, u64)> {
        let begun = Instant::now();
        let mut passed = Vec::new();
        for piece in pieces {
            limiter.take(*piece).await;
            passed.push((begun.elapsed(), *piece as u64));
        }
        passed
    }

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(smallest([None, Some(7), Some(3), None]), Some(3));
        assert_eq!(smallest([None, None]), None);
    }

    #[test]
    fn any_rate_is_hit_to_a_percent() {
        for rate in [1_000, 70_000_000, 150_000_000, 600_000_000, 8_u64 << 30, 100 << 30] {
            let took = paused(async {
                let limiter = Limiter::new(Some(rate));
                let begun = Instant::now();
                let pieces = 2_000;
                for _ in 0..pieces {
                    limiter.take(usize::try_from(rate / 100).expect("fits")).await;
                }
                begun.elapsed().as_secs_f64() / (f64::from(pieces) / 100.0)
            });
            assert!((0.999..1.01).contains(&took), "{rate}: {took}");
        }
    }

    #[test]
    fn no_limit_never_waits_and_zero_waits_until_it_changes() {
        paused(async {
            let begun = Instant::now();
            Limiter::new(None).take(usize::MAX).await;
            assert_eq!(begun.elapsed(), Duration::ZERO);
            let limiter = Limiter::new(Some(0));
            let shared = limiter.clone();
            let waiting = tokio::spawn(async move { shared.take(1).await });
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            assert!(!waiting.is_finished());
            limiter.set_rate(None);
            waiting.await.expect("passes");
        });
    }

    #[test]
    fn a_new_rate_reaches_those_who_wait() {
        paused(async {
            let limiter = Limiter::new(Some(1));
            let shared = limiter.clone();
            let begun = Instant::now();
            let waiting = tokio::spawn(async move { shared.take(1 << 20).await });
            tokio::time::sleep(Duration::from_secs(10)).await;
            limiter.set_rate(Some(1 << 20));
            waiting.await.expect("passes");
            let took = begun.elapsed();
            assert!((10.9..11.1).contains(&took.as_secs_f64()), "{took:?}");
        });
    }

    #[test]
    fn changing_the_rate_all_the_time_gains_nothing() {
        let took = paused(async {
            let limiter = Limiter::new(Some(1 << 20));
            let begun = Instant::now();
            for turn in 0..160_u64 {
                limiter.set_rate(Some((1 << 20) + turn % 2));
                limiter.take(64 << 10).await;
            }
            begun.elapsed()
        });
        assert!(took.as_secs_f64() > 9.9, "{took:?}");
    }

    #[test]
    fn setting_the_same_rate_again_changes_nothing() {
        let took = paused(async {
            let limiter = Limiter::new(Some(1 << 20));
            let begun = Instant::now();
            for _ in 0..1_000 {
                limiter.set_rate(Some(1 << 20));
                limiter.take(1 << 10).await;
            }
            begun.elapsed()
        });
        assert!((0.9..1.05).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[test]
    fn large_and_small_takers_get_the_same_time() {
        paused(async {
            let limiter = Limiter::new(Some(20_000_000));
            let taker = |piece: usize| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    let begun = Instant::now();
                    let mut turns = 0_u64;
                    while begun.elapsed() < Duration::from_secs(5) {
                        limiter.take(piece).await;
                        turns += 1;
                    }
                    turns * piece as u64
                })
            };
            let (large, small) = (taker(256 << 10), taker(16 << 10));
            let (large, small) = (large.await.expect("ends"), small.await.expect("ends"));
            assert!(large > 2 * small, "a taker of large pieces starves: {large} {small}");
            assert!(small > large / 40, "a taker of small pieces starves: {large} {small}");
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Over every window, whatever is taken and however long one pauses between.
        #[test]
        fn never_more_than_rate_and_burst(
            rate in prop_oneof![1_u64..5_000, 5_000_u64..50_000_000, 50_000_000_u64..50_000_000_000],
            steps in prop::collection::vec((0.0_f64..3.0, 0_u64..40), 1..40),
        ) {
            let limiter_and_log = paused(async {
                let limiter = Limiter::new(Some(rate));
                let begun = Instant::now();
                let mut log = Vec::new();
                for (bursts, pause_ms) in &steps {
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    let piece = (limiter.burst().unwrap_or(0) as f64 * bursts) as usize;
                    let asked = begun.elapsed();
                    limiter.take(piece).await;
                    log.push((asked, begun.elapsed(), piece as u64));
                    tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
                }
                (limiter.burst().unwrap_or(0), log)
            });
            let (burst, log) = limiter_and_log;
            for (index, (asked, _, _)) in log.iter().enumerate() {
                let mut sum = 0_u64;
                for (_, passed, piece) in log.iter().skip(index) {
                    sum += piece;
                    let window = passed.saturating_sub(*asked).as_secs_f64();
                    let most = rate as f64 * window + burst as f64;
                    // Floating point.
                    let most = most * (1.0 + 1e-9) + 1.0;
                    prop_assert!(sum as f64 <= most, "{sum} in {window} s, at most {most}");
                }
            }
        }
    }

    #[test]
    fn pieces_pass_in_order_and_in_time() {
        let passed =
            paused(async { times(&Limiter::new(Some(1 << 20)), &[1 << 20, 1 << 19, 1 << 19]).await });
        let seconds = passed.iter().map(|(at, _)| at.as_secs_f64().round()).collect::<Vec<_>>();
        assert_eq!(seconds, [1.0, 2.0, 2.0]);
    }

    /// What is read in ten slots of a second, one every ten seconds, over a link that could bring far more.
    fn read_in_ten_slots(period: Option<Duration>) -> u64 {
        paused(async move {
            let limiter = Limiter::new(Some(1_000_000));
            limiter.average_over(period);
            let mut taken = 0;
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                let end = Instant::now() + Duration::from_secs(1);
                while tokio::time::timeout_at(end, limiter.take(10_000)).await.is_ok() {
                    taken += 10_000;
                }
            }
            taken
        })
    }

    #[test]
    fn an_average_makes_up_for_the_time_between_slots_and_a_plain_rate_does_not() {
        let average = read_in_ten_slots(Some(Duration::from_secs(10)));
        assert!((99_000_000..=100_000_000).contains(&average), "{average}");
        let plain = read_in_ten_slots(None);
        assert!((9_900_000..11_000_000).contains(&plain), "{plain}");
    }

    #[test]
    fn no_more_than_two_periods_are_saved_and_a_new_rate_saves_nothing() {
        paused(async {
            let limiter = Limiter::new(Some(1_000));
            limiter.average_over(Some(Duration::from_secs(100)));
            let at_once = || limiter.within(Duration::ZERO);
            tokio::time::sleep(Duration::from_secs(150)).await;
            assert_eq!(at_once(), Some(150_000));
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            assert_eq!(at_once(), Some(200_000));
            assert_eq!(limiter.within(Duration::from_secs(5)), Some(205_000));
            limiter.set_rate(Some(1_001));
            assert_eq!(at_once(), Some(0));
            limiter.set_rate(None);
            assert_eq!(at_once(), None);
        });
    }

    #[test]
    fn nothing_is_saved_while_no_job_has_anything_to_read() {
        paused(async {
            let limiter = Limiter::new(Some(1_000_000));
            limiter.average_over(Some(Duration::from_secs(100)));
            let (mut first, mut second) = (limiter.waiting(), limiter.waiting());
            first.set(true);
            second.set(true);
            tokio::time::sleep(Duration::from_secs(7)).await;
            first.set(false);
            first.set(true);
            assert_eq!(limiter.within(Duration::ZERO), Some(7_000_000), "the other one waits");
            first.set(false);
            drop(second);
            tokio::time::sleep(Duration::from_secs(60)).await;
            first.set(true);
            assert!(limiter.within(Duration::ZERO) <= limiter.burst());
        });
    }

    #[test]
    fn what_was_read_elsewhere_counts_and_is_no_eternal_debt() {
        paused(async {
            let limiter = Limiter::new(Some(1_000_000));
            limiter.average_over(Some(Duration::from_secs(5)));
            tokio::time::sleep(Duration::from_secs(8)).await;
            limiter.charge(6_000_000);
            assert_eq!(limiter.within(Duration::ZERO), Some(2_000_000));
            limiter.charge(u64::MAX);
            assert_eq!(limiter.within(Duration::from_secs(11)), Some(1_000_000), "two periods at most");
            limiter.begin_with(Some(1_000_000), 7_000_000, Some(Duration::from_secs(5)));
            assert_eq!(limiter.within(Duration::ZERO), Some(7_000_000));
        });
    }
}
