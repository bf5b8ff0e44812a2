//! The body of an answer, counted: not a byte more than promised, not one less, and not too slowly. Called by the
//! connection.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, Version};
use tokio::time::{Instant, timeout};

use super::errors;
use crate::fetch::{Address, Cut, Fault};

/// Fewer bytes per second than this, for as long as nothing at all may come, is too slow (C8).
const SLOWEST_BYTES_PER_SEC: u64 = 1_024;

/// So little is read to the end instead of closing the connection, if it comes at once.
const WORTH_DRAINING: u64 = 64 << 10;
const DRAIN_WITHIN: Duration = Duration::from_millis(50);

/// A body that is being read.
#[derive(Debug)]
pub(super) struct Body {
    /// `None` if there is nothing to read at all.
    response: Option<Response>,
    from: Address,
    /// What must still come, where that was said.
    promised: Option<u64>,
    /// How many bytes have come.
    came: u64,
    /// What may still be given out.
    wanted: Option<u64>,
    pace: Pace,
}

impl Body {
    pub(super) fn new(
        response: Response,
        from: Address,
        promised: Option<u64>,
        wanted: Option<u64>,
        stall_after: Duration,
    ) -> Self {
        Self { response: Some(response), from, promised, came: 0, wanted, pace: Pace::new(stall_after) }
    }

    /// The body of an answer that says that there is no more.
    pub(super) fn empty(from: Address) -> Self {
        let pace = Pace::new(Duration::ZERO);
        Self { response: None, from, promised: Some(0), came: 0, wanted: Some(0), pace }
    }

    /// The next bytes; `None` at the end. Harmless to cancel.
    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let Some(response) = &mut self.response else { return Ok(None) };
            if self.wanted == Some(0) && self.promised != Some(0) {
                // The source cannot stop where it should; we can.
                self.response = None;
                return Ok(None);
            }
            let begun = Instant::now();
            let Ok(chunk) = timeout(self.pace.window, response.chunk()).await else {
                return Err(Fault::Stalled(self.pace.window));
            };
            let chunk = chunk.map_err(|error| self.broken(errors::fault(&error, &self.from, None)))?;
            let Some(mut chunk) = chunk else { return self.ended() };
            self.pace.came(chunk.len() as u64, begun.elapsed())?;
            self.count(chunk.len() as u64)?;
            if let Some(wanted) = &mut self.wanted {
                chunk.truncate(usize::try_from(*wanted).unwrap_or(usize::MAX));
                *wanted -= chunk.len() as u64;
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
    }

    /// Says how much had come, too.
    fn broken(&self, fault: Fault) -> Fault {
        let Fault::Broken(why) = fault else { return fault };
        // In the words of hyper.
        let is_closed = why.contains("end of file before message length");
        let why = if is_closed { "closed" } else { &why };
        match self.promised {
            Some(left) => Fault::Broken(format!("{why} after {} of {} bytes", self.came, self.came + left)),
            None => Fault::Broken(format!("{why} after {} bytes", self.came)),
        }
    }

    fn count(&mut self, came: u64) -> Result<(), Fault> {
        self.came = self.came.saturating_add(came);
        let Some(promised) = &mut self.promised else { return Ok(()) };
        *promised = promised
            .checked_sub(came)
            .ok_or_else(|| Fault::Nonsense("more bytes than it promised".into()))?;
        Ok(())
    }

    fn ended(&mut self) -> Result<Option<Bytes>, Fault> {
        match self.promised {
            Some(missing) if missing > 0 => Err(self.broken(Fault::Broken("closed".to_owned()))),
            _ => {
                self.response = None;
                Ok(None)
            }
        }
    }

    /// Ends it early.
    pub(super) async fn cut(self) -> Cut {
        let Some(response) = self.response else { return Cut::Kept };
        // One stream of many is reset; the connection does not mind.
        if response.version() == Version::HTTP_2 {
            return Cut::Kept;
        }
        match self.promised {
            Some(left) if left <= WORTH_DRAINING => drain(response).await,
            _ => Cut::Closed,
        }
    }
}

/// Reads a body to its end, if that is near, so that the connection can be used again.
pub(super) async fn drain(mut response: Response) -> Cut {
    let reading = async {
        let mut came = 0_u64;
        while let Ok(chunk) = response.chunk().await {
            let Some(chunk) = chunk else { return Cut::Kept };
            came += chunk.len() as u64;
            if came > WORTH_DRAINING {
                break;
            }
        }
        Cut::Closed
    };
    timeout(DRAIN_WITHIN, reading).await.unwrap_or(Cut::Closed)
}

/// Looks at how fast bytes come while somebody waits for them. Our own pauses do not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    window: Duration,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, waited: Duration::ZERO, bytes: 0 }
    }

    /// So many bytes came after such a wait.
    pub(super) fn came(&mut self, bytes: u64, waited: Duration) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.waited = self.waited.saturating_add(waited);
        if self.waited < self.window {
            return Ok(());
        }
        let least = self.waited.as_millis().saturating_mul(u128::from(SLOWEST_BYTES_PER_SEC)) / 1_000;
        let too_slow = u128::from(self.bytes) < least;
        *self = Self::new(self.window);
        if too_slow { Err(Fault::Slow(SLOWEST_BYTES_PER_SEC)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drip_is_noticed_once_the_window_is_over_and_pauses_of_our_own_are_not() {
        let mut pace = Pace::new(Duration::from_secs(30));
        let drip = (0..)
            .find_map(|second: u32| pace.came(1, Duration::from_secs(1)).err().map(|fault| (second, fault)));
        assert!(matches!(drip, Some((29, Fault::Slow(1_024)))), "{drip:?}");
        let mut pace = Pace::new(Duration::from_secs(30));
        for _ in 0..10_000 {
            pace.came(512, Duration::from_millis(400)).expect("fast enough");
        }
    }
}
