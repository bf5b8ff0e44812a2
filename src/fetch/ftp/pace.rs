//! Reading with patience that ends: for silence, and for a source that sends just enough to seem alive.

use std::time::Duration;

use bytes::buf::BufMut;
use tokio::time::Instant;

use super::super::Fault;
use super::control::Data;

/// Below this a source does not send, it drips.
const LEAST_BYTES_PER_SEC: u64 = 1_024;

/// How a source has kept up so far. Only time spent waiting for it counts, not our own pauses.
pub(super) struct Pace {
    patience: Duration,
    waited: Duration,
    came: u64,
}

impl Pace {
    /// Waits this long for anything, and as long for a minimum.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, waited: Duration::ZERO, came: 0 }
    }

    /// Reads what comes next; 0 is the end. May be cancelled.
    pub(super) async fn read(
        &mut self,
        data: &mut Data,
        into: &mut (impl BufMut + Send),
    ) -> Result<usize, Fault> {
        let begun = Instant::now();
        let read = tokio::time::timeout(self.patience, data.read(into)).await;
        let count = match read {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => return Err(Fault::Broken(error.to_string())),
            Err(_) => return Err(Fault::Stalled(self.patience)),
        };
        if count > 0 { self.note(begun.elapsed(), count as u64).map(|()| count) } else { Ok(0) }
    }

    fn note(&mut self, waited: Duration, count: u64) -> Result<(), Fault> {
        self.waited += waited;
        self.came += count;
        if self.waited < self.patience {
            return Ok(());
        }
        let enough = self.waited.as_millis() * u128::from(LEAST_BYTES_PER_SEC) / 1_000;
        if u128::from(self.came) < enough {
            return Err(Fault::Slow(LEAST_BYTES_PER_SEC));
        }
        *self = Self::new(self.patience);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_drip_is_too_slow_once_patience_is_over() {
        let mut pace = Pace::new(30 * SECOND);
        for _ in 0..2 {
            assert!(pace.note(10 * SECOND, 1).is_ok());
        }
        assert!(matches!(pace.note(10 * SECOND, 1), Err(Fault::Slow(LEAST_BYTES_PER_SEC))));
    }

    #[test]
    fn who_sends_enough_may_go_on_for_ever() {
        let mut pace = Pace::new(30 * SECOND);
        for _ in 0..1_000 {
            assert!(pace.note(SECOND, LEAST_BYTES_PER_SEC).is_ok());
        }
    }
}
