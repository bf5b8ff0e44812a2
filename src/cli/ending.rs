//! The end of a command that runs for a while: by a signal, or when its time is over.

use std::time::Duration;

use stroll::jobs::stop::or_stop;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::exit::{Code, Failed};

/// Why a command was told to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It was not.
    #[default]
    No,
    /// By a signal.
    Interrupted,
    /// The time that it was given is over.
    OutOfTime,
}

/// The signals that end a command, each with the exit code of a process that it kills.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where it is to be ignored, as `nohup` wants it.
    hangup: Option<Signal>,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let is_ignored =
            std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if is_ignored { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = hangup => 129,
        }
    }
}

/// Whether whoever started the process wants it to outlive a hangup, by what the system says of it. To listen for the signal
/// would undo that. Where the system does not say, a hangup ends the command, as it always did.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal, so it is the lowest bit.
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// Gives the order to stop at SIGINT, SIGTERM, SIGHUP or when the time is over. A second signal ends the process at once.
pub(super) fn watch_for_the_end(
    order: watch::Sender<bool>,
    after: Option<Duration>,
) -> anyhow::Result<watch::Receiver<Stopped>> {
    let mut signals = Signals::new()?;
    let (tell, reason) = watch::channel(Stopped::No);
    tokio::spawn(async move {
        let time = async {
            match after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = signals.next() => tell.send_replace(Stopped::Interrupted),
            () = time => tell.send_replace(Stopped::OutOfTime),
        };
        order.send_replace(true);
        // Who is asked twice goes at once.
        std::process::exit(signals.next().await);
    });
    Ok(reason)
}

/// What comes of work that has to be done before the command can begin, unless it is told to stop before that.
pub(super) async fn before_the_end<T>(
    stop: &watch::Receiver<bool>,
    reason: &watch::Receiver<Stopped>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    if let Some(done) = or_stop(stop, work).await {
        return done;
    }
    let (code, message) = match *reason.borrow() {
        Stopped::OutOfTime => (Code::Deadline, "out of time"),
        Stopped::No | Stopped::Interrupted => (Code::Other, "interrupted"),
    };
    Err(Failed { code, message: message.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_is_ignored_where_the_mask_says_so() {
        let status = |mask: &str| format!("Name:\tstroll\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores_hangup(&status("0000000000000001")) && ignores_hangup(&status("0000000000001001")));
        assert!(
            !ignores_hangup(&status("0000000000001000"))
                && !ignores_hangup("")
                && !ignores_hangup(&status("?"))
        );
    }
}
