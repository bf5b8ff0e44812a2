//! The end of a command that runs for a while: by a signal, or when its time is over.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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

/// Gives the order to stop at SIGINT, SIGTERM or when the time is over.
pub(super) fn watch_for_the_end(
    order: watch::Sender<bool>,
    after: Option<Duration>,
) -> anyhow::Result<watch::Receiver<Stopped>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (tell, reason) = watch::channel(Stopped::No);
    tokio::spawn(async move {
        let time = async {
            match after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => tell.send_replace(Stopped::Interrupted),
            _ = terminate.recv() => tell.send_replace(Stopped::Interrupted),
            () = time => tell.send_replace(Stopped::OutOfTime),
        };
        order.send_replace(true);
        // Who is asked twice goes at once.
        interrupt.recv().await;
        std::process::exit(130);
    });
    Ok(reason)
}
