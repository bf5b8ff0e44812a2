//! How fast bytes may be read. The engine takes every piece that it has read out of the limiter before it reads on.
//!
//! governor counts; the waiting is ours, on the runtime's clock, because governor's own timer does not follow a paused
//! one. Its cells are a power of two of bytes, so large that rounding one cell's time up to a whole nanosecond costs
//! a thousandth at most: with one byte to a cell 600 MB/s became 1 GB/s, and 4 GiB/s was the end. Quotas cannot
//! be changed, so a new rate is a new gate, which starts empty: whoever changes the rate often gains nothing.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// The smallest burst: what one read brings. Smaller ones cost more waking up than they smooth.
const SMALLEST_BURST_BYTES: u64 = 64 << 10;

/// A burst is what comes in this time. A timer that wakes later than three quarters of it loses bandwidth: on a loaded
/// machine that is 15 ms.
const BURST_PERIOD: Duration = Duration::from_millis(20);

/// Pieces of a burst. With a whole burst at once every late wake-up was lost: 70 MB/s became 60.
const QUANTA: u32 = 4;

/// A cell takes at least so long, so that rounding it up to a whole nanosecond costs a thousandth at most.
const SHORTEST_CELL_NANOS: u128 = 1_000;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The smallest of several limits; `None` is no limit.
pub fn smallest(rates: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    rates.into_iter().flatten().min()
}

/// How fast bytes may be read, by everyone who shares it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Limiter {
    gate: Arc<watch::Sender<Gate>>,
}

impl Limiter {
    /// At most so many bytes per second; `None` is as many as come, zero is none at all until that changes.
    pub fn new(bytes_per_sec: Option<u64>) -> Self {
        Self { gate: Arc::new(watch::Sender::new(Gate::new(bytes_per_sec))) }
    }

    /// Changes the rate, also for those who wait right now. Setting the same rate again changes nothing.
    pub fn set_rate(&self, bytes_per_sec: Option<u64>) {
        self.gate.send_if_modified(|gate| {
            let other = gate.rate() != bytes_per_sec;
            if other {
                *gate = Gate::new(bytes_per_sec);
            }
            other
        });
    }

    /// The rate; `None` is no limit.
    pub fn rate(&self) -> Option<u64> {
        self.gate.borrow().rate()
    }

    /// How many bytes may pass at once after a pause; `None` without limit.
    pub fn burst(&self) -> Option<u64> {
        match &*self.gate.borrow() {
            Gate::Metered(metered) => Some(metered.bytes(metered.burst_cells)),
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
                    let piece = left.min(metered.quantum());
                    tokio::select! {
                        biased;
                        () = metered.pass(piece) => left -= piece,
                        changed = news.changed() => if changed.is_err() { return },
                    }
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Gate {
    Open,
    Shut,
    Metered(Arc<Metered>),
}

impl Gate {
    fn new(bytes_per_sec: Option<u64>) -> Self {
        match bytes_per_sec {
            None => Self::Open,
            Some(0) => Self::Shut,
            Some(rate) => Self::Metered(Arc::new(Metered::new(rate))),
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
    cell_bytes: u64,
    burst_cells: NonZeroU32,
    clock: RuntimeClock,
    cells: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>>,
    /// Governor has no queue: without one, small takers starve large ones. Holds the bytes that are paid for already
    /// because cells are whole.
    turn: Mutex<u64>,
}

impl Metered {
    fn new(rate: u64) -> Self {
        let cell_bytes = cell_bytes(rate);
        let period = (u128::from(cell_bytes) * NANOS_PER_SEC).div_ceil(u128::from(rate));
        let period = Duration::from_nanos(u64::try_from(period).unwrap_or(u64::MAX));
        let burst_cells = burst_cells(rate, cell_bytes);
        // The period is not zero: a cell is at least one byte, and no rate is so high.
        let quota = Quota::with_period(period)
            .unwrap_or_else(|| Quota::per_second(NonZeroU32::MIN))
            .allow_burst(burst_cells);
        let clock = RuntimeClock { start: Instant::now() };
        let cells = RateLimiter::direct_with_clock(quota, clock);
        // Starts empty.
        let _ = cells.check_n(burst_cells);
        Self { rate, cell_bytes, burst_cells, clock, cells, turn: Mutex::new(0) }
    }

    /// What passes in one piece, the same for everybody.
    fn quantum(&self) -> u64 {
        let cells = NonZeroU32::new(self.burst_cells.get() / QUANTA).unwrap_or(NonZeroU32::MIN);
        self.bytes(cells)
    }

    fn bytes(&self, cells: NonZeroU32) -> u64 {
        u64::from(cells.get()).saturating_mul(self.cell_bytes)
    }

    async fn pass(&self, bytes: u64) {
        let mut paid = self.turn.lock().await;
        let owed = bytes.saturating_sub(*paid);
        let cells = owed.div_ceil(self.cell_bytes);
        if let Some(cells) = u32::try_from(cells).ok().and_then(NonZeroU32::new) {
            self.wait_for(cells.min(self.burst_cells)).await;
        }
        *paid = (*paid + cells * self.cell_bytes).saturating_sub(bytes);
    }

    async fn wait_for(&self, cells: NonZeroU32) {
        // Insufficient capacity is impossible, as no more than the burst is asked for.
        while let Ok(Err(not_yet)) = self.cells.check_n(cells) {
            let wait = not_yet.wait_time_from(self.clock.now());
            // The runtime's timer counts in milliseconds.
            tokio::time::sleep(wait.max(Duration::from_micros(1))).await;
        }
    }
}

/// The smallest power of two of bytes that takes at least [`SHORTEST_CELL_NANOS`].
fn cell_bytes(rate: u64) -> u64 {
    let bytes = (SHORTEST_CELL_NANOS * u128::from(rate)).div_ceil(NANOS_PER_SEC);
    u64::try_from(bytes).unwrap_or(u64::MAX >> 1).max(1).next_power_of_two()
}

fn burst_cells(rate: u64, cell_bytes: u64) -> NonZeroU32 {
    let by_time = u128::from(rate) * BURST_PERIOD.as_nanos() / NANOS_PER_SEC;
    let bytes = by_time.max(u128::from(SMALLEST_BURST_BYTES));
    let cells = bytes.div_ceil(u128::from(cell_bytes));
    u32::try_from(cells).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX)
}

/// The runtime's clock, which tests can pause.
#[derive(Clone, Copy, Debug)]
struct RuntimeClock {
    start: Instant,
}

impl Clock for RuntimeClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
                    // One cell of bytes that were paid for before the window, and floating point.
                    let most = most * (1.0 + 1e-9) + cell_bytes(rate) as f64;
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
}
