//! A rate that holds at any moment: what a user without a circle has.
//!
//! governor counts; the waiting is ours, on the runtime's clock, because governor's own timer does not follow a paused
//! one. Its cells are a power of two of bytes, so large that rounding one cell's time up to a whole nanosecond costs
//! a thousandth at most: with one byte to a cell 600 MB/s became 1 GB/s, and 4 GiB/s was the end.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::NANOS_PER_SEC;

/// The smallest burst: what one read brings. Smaller ones cost more waking up than they smooth.
const SMALLEST_BURST_BYTES: u64 = 64 << 10;

/// A burst is what comes in this time. A timer that wakes later than three quarters of it loses bandwidth: on a loaded
/// machine that is 15 ms.
const BURST_PERIOD: Duration = Duration::from_millis(20);

/// Pieces of a burst. With a whole burst at once every late wake-up was lost: 70 MB/s became 60.
const QUANTA: u32 = 4;

/// A cell takes at least so long, so that rounding it up to a whole nanosecond costs a thousandth at most.
const SHORTEST_CELL_NANOS: u128 = 1_000;

/// A rate that holds at any moment.
#[derive(Debug)]
pub(super) struct Steady {
    cell_bytes: u64,
    burst_cells: NonZeroU32,
    clock: RuntimeClock,
    cells: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>>,
    /// Governor has no queue: without one, small takers starve large ones. Holds the bytes that are paid for already
    /// because cells are whole.
    turn: Mutex<u64>,
}

impl Steady {
    pub(super) fn new(rate: u64) -> Self {
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
        Self { cell_bytes, burst_cells, clock, cells, turn: Mutex::new(0) }
    }

    /// What passes in one piece, the same for everybody.
    pub(super) fn quantum(&self) -> u64 {
        let cells = NonZeroU32::new(self.burst_cells.get() / QUANTA).unwrap_or(NonZeroU32::MIN);
        self.bytes(cells)
    }

    /// What may pass at once after a pause of any length.
    pub(super) fn burst(&self) -> u64 {
        self.bytes(self.burst_cells)
    }

    fn bytes(&self, cells: NonZeroU32) -> u64 {
        u64::from(cells.get()).saturating_mul(self.cell_bytes)
    }

    pub(super) async fn pass(&self, bytes: u64) {
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
