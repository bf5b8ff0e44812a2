//! Whether a source is fast enough to be worth waiting for. The engine asks at every piece.

use std::time::Duration;

use crate::fetch::Fault;

/// Over how long the speed has to be too low: curl takes as long.
const SLOW_FOR: Duration = Duration::from_secs(30);

/// Whether bytes come fast enough. Only the time spent waiting for them counts: our own limit is not the source's fault.
pub(super) struct Pace {
    min_speed: u64,
    bytes: u64,
    waited: Duration,
}

impl Pace {
    pub(super) fn new(min_speed: u64) -> Self {
        Self { min_speed, bytes: 0, waited: Duration::ZERO }
    }

    /// So many bytes came after such a wait.
    pub(super) fn note(&mut self, bytes: u64, waited: Duration) -> Result<(), Fault> {
        self.bytes += bytes;
        self.waited += waited;
        if self.min_speed == 0 || self.waited < SLOW_FOR {
            return Ok(());
        }
        if (self.bytes as f64) < self.min_speed as f64 * self.waited.as_secs_f64() {
            return Err(Fault::Slow(self.min_speed));
        }
        *self = Self::new(self.min_speed);
        Ok(())
    }
}
