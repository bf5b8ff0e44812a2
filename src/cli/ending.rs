//! The end of a command that runs for a while: by a signal, or when its time is over.

use std::time::Duration;

use stroll::fetch::children::kill_all;
use stroll::jobs::stop::or_stop;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::exit::{Code, Failed};

/// A command that runs longer than this after a signal is ended by force. Two seconds are promised; an FTP session is closed
/// within less.
pub(super) const END_WITHIN: Duration = Duration::from_millis(1_800);

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

/// Watches for SIGINT, SIGTERM and SIGHUP while a command runs.
///
/// Signals are handled on a thread with its own runtime, so that they are heeded even if the command's runtime is blocked.
/// The end of the process by this thread is safe at any time: every file is either complete or a part that can be resumed, as
/// after `kill -9`. Commands that the process has started are killed with it.
pub(super) struct Ending {
    heeded: oneshot::Sender<Heeded>,
}

/// What happens at the first signal.
struct Heeded {
    order: watch::Sender<bool>,
    tell: watch::Sender<Stopped>,
    after: Option<Duration>,
    end_within: Duration,
}

impl Ending {
    /// From now on a signal ends the process at once. To be called before the command waits for anything.
    pub(super) fn watch() -> anyhow::Result<Self> {
        Self::watch_for(Signals::new)
    }

    /// The same for a command that has its own use for SIGHUP.
    pub(super) fn watch_but_hangup() -> anyhow::Result<Self> {
        Self::watch_for(|| Ok(Signals { hangup: None, ..Signals::new()? }))
    }

    fn watch_for(signals: impl FnOnce() -> std::io::Result<Signals>) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _guard = runtime.enter();
            signals()?
        };
        let (heeded, heed) = oneshot::channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let code = runtime.block_on(last_signal(signals, heed));
            kill_all();
            std::process::exit(code);
        })?;
        Ok(Self { heeded })
    }

    /// From now on the first signal, or the end of the time `after`, gives the order to stop. A second signal ends the
    /// process at once, and so does this thread `end_within` after the first one.
    pub(super) fn heed(
        self,
        after: Option<Duration>,
        end_within: Duration,
    ) -> (watch::Receiver<bool>, watch::Receiver<Stopped>) {
        let ((order, stop), (tell, reason)) = (watch::channel(false), watch::channel(Stopped::No));
        // The other side lives until the process ends.
        let _ = self.heeded.send(Heeded { order, tell, after, end_within });
        (stop, reason)
    }
}

/// Waits for the signal at which the process is to end at once, or for the end of the time that it has after the first one;
/// gives the exit code.
async fn last_signal(mut signals: Signals, mut heed: oneshot::Receiver<Heeded>) -> i32 {
    let heeded = tokio::select! {
        code = signals.next() => return code,
        heeded = &mut heed => heeded,
    };
    let Ok(Heeded { order, tell, after, end_within }) = heeded else { return signals.next().await };
    let time = async {
        match after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    let signal = tokio::select! {
        code = signals.next() => Some(code),
        () = time => None,
    };
    tell.send_replace(if signal.is_some() { Stopped::Interrupted } else { Stopped::OutOfTime });
    order.send_replace(true);
    match signal {
        Some(code) => tokio::select! {
            second = signals.next() => second,
            () = tokio::time::sleep(end_within) => code,
        },
        None => signals.next().await,
    }
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
