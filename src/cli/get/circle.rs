//! Whether a job pulls in a circle's slots, and where those come from.

use stroll::fetch::Address;
use stroll::jobs::Slots;
use stroll::peer::{Client, ControlError, Member, Options, PeerError};
use stroll::trust::Home;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::bars::Bars;
use crate::cli::homes::load_address;
use crate::cli::job::JobArgs;

/// Where slots come from while this lasts.
pub(in crate::cli) struct Circle {
    slots: Slots,
    /// If none was running.
    member: Option<OwnMember>,
}

/// A member of our own; it leaves when its `stop` is dropped.
struct OwnMember {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), PeerError>>,
}

impl Circle {
    pub(in crate::cli) fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Hands the token over, if it is here, and goes.
    pub(in crate::cli) async fn leave(self) {
        drop(self.slots);
        if let Some(OwnMember { stop, running }) = self.member {
            drop(stop);
            if let Ok(Err(error)) = running.await {
                tracing::warn!(%error, "the member ended with an error");
            }
        }
    }
}

/// Finds the circle for these files: the one that was named, or the one whose source has them all.
pub(in crate::cli) async fn enter(
    job: &JobArgs,
    is_dry_run: bool,
    addresses: &[&Address],
    bars: &Bars,
) -> anyhow::Result<Circle> {
    let found = if job.solo || is_dry_run {
        None
    } else if job.home.circle.is_some() {
        Some(job.home.open()?)
    } else {
        find(job, addresses)?
    };
    let Some((name, home)) = found else { return Ok(Circle { slots: Slots::eternal(), member: None }) };
    bars.say(&format!("in the slots of circle {name}"));
    match Client::new(home.path()).borrow().await {
        Ok(slots) => Ok(Circle { slots, member: None }),
        Err(ControlError::NotRunning(_)) => start(home).await,
        Err(error) => Err(error.into()),
    }
}

fn find(job: &JobArgs, addresses: &[&Address]) -> anyhow::Result<Option<(String, Home)>> {
    for name in job.home.root.circles()? {
        let Ok((name, home)) = job.home.root.open(Some(&name)) else { continue };
        let Ok(credentials) = home.load_credentials() else { continue };
        let Ok((source, _)) = Address::parse(&credentials.roll.charter().source) else { continue };
        if addresses.iter().all(|address| source.contains(address)) {
            return Ok(Some((name, home)));
        }
    }
    Ok(None)
}

/// A member of our own, for as long as the job lasts.
async fn start(home: Home) -> anyhow::Result<Circle> {
    let listen = home.load_credentials()?.listen;
    let address = load_address(&home, listen)?;
    let found = crate::cli::run::is_founder_alone(&home)?;
    let member = Member::start(home, Options { address, found, ..Options::default() }).await?;
    let slots = member.lending().borrow().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(member.run_until(async move {
        // Dropped, not sent to.
        let _ = stopped.await;
    }));
    Ok(Circle { slots, member: Some(OwnMember { stop, running }) })
}
