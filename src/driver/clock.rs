//! A clock that goes on counting while the computer sleeps, and notices that it did.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::base::Time;

/// A wall clock that moves this much against the boot-time clock was set, or the machine was rolled back.
const JUMP: Duration = Duration::from_secs(5);

/// A suspension shorter than this is no more than a busy moment.
const NAP: Duration = Duration::from_millis(500);

/// CLOCK_BOOTTIME, where `std`'s `Instant` would stand still during a suspension; with an eye on the other clocks.
#[derive(Debug)]
pub struct BootClock {
    /// Boot time minus monotonic time: grows by every suspension.
    slept: Duration,
    /// Wall time minus boot time, in milliseconds.
    wall_offset_ms: i64,
}

/// Something happened to the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The computer slept for so long.
    Slept(Duration),
    /// The wall clock jumped; this is the new offset.
    Jumped {
        /// What to add to the time to get the wall clock.
        wall_offset_ms: i64,
    },
}

impl BootClock {
    /// The clock as it stands.
    pub fn new() -> Self {
        Self { slept: slept(), wall_offset_ms: wall_offset_ms() }
    }

    /// The time, on a clock that counts suspensions.
    pub fn now(&self) -> Time {
        Time::ZERO + boot_time()
    }

    /// What to add to the time to get the wall clock, in milliseconds since 1970.
    pub fn wall_offset_ms(&self) -> i64 {
        self.wall_offset_ms
    }

    /// What has happened to the clocks since the last look.
    pub fn look(&mut self) -> Option<Disturbance> {
        let slept = slept();
        let nap = slept.saturating_sub(self.slept);
        self.slept = slept;
        let offset = wall_offset_ms();
        let jump = offset.abs_diff(self.wall_offset_ms);
        // A slow drift is followed, so that it never adds up to a jump.
        self.wall_offset_ms = offset;
        if Duration::from_millis(jump) > JUMP {
            return Some(Disturbance::Jumped { wall_offset_ms: offset });
        }
        (nap > NAP).then_some(Disturbance::Slept(nap))
    }
}

#[cfg(test)]
impl BootClock {
    /// A clock that last saw the wall clock so far behind of what it shows.
    pub(super) fn before_jump(jump: Duration) -> Self {
        let mut clock = Self::new();
        clock.wall_offset_ms -= i64::try_from(jump.as_millis()).unwrap();
        clock
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

fn boot_time() -> Duration {
    duration(clock_gettime(ClockId::Boottime))
}

fn slept() -> Duration {
    boot_time().saturating_sub(duration(clock_gettime(ClockId::Monotonic)))
}

#[expect(clippy::disallowed_methods, reason = "the driver is where clocks are read")]
fn wall_offset_ms() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    millis(wall).saturating_sub(millis(boot_time()))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_a_quiet_clock_has_nothing_to_tell() {
        let mut clock = BootClock::new();
        let before = clock.now();
        assert!(clock.now() >= before);
        assert_eq!(clock.look(), None);
    }

    #[test]
    fn a_sleep_and_a_jump_are_noticed_once() {
        let mut clock = BootClock::new();
        clock.slept = clock.slept.saturating_sub(Duration::from_secs(7));
        // On a machine that never slept there is nothing to subtract from.
        if slept() > Duration::from_secs(7) {
            assert!(matches!(clock.look(), Some(Disturbance::Slept(nap)) if nap >= Duration::from_secs(6)));
        }
        clock.wall_offset_ms -= 60_000;
        assert!(matches!(clock.look(), Some(Disturbance::Jumped { .. })));
        assert_eq!(clock.look(), None);
    }
}
