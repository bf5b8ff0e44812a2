//! Whether a command pulls in a circle's slots, and where those come from.

use stroll::fetch::Address;
use stroll::jobs::Slots;
use stroll::peer::{Client, ControlError, Member, Options, PeerError};
use stroll::trust::Home;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::bars::Bars;
use super::homes::load_address;
use super::job::JobArgs;

/// Where slots come from while this lasts.
pub(super) struct Circle {
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
    /// Nobody to wait for.
    pub(super) fn none() -> Self {
        Self { slots: Slots::eternal(), member: None }
    }

    pub(super) fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Hands the token over, if it is here, and goes.
    pub(super) async fn leave(self) {
        drop(self.slots);
        if let Some(OwnMember { stop, running }) = self.member {
            drop(stop);
            if let Ok(Err(error)) = running.await {
                tracing::warn!(%error, "the member ended with an error");
            }
        }
    }
}

/// Finds the circle for what is pulled: the one that was named, or the one whose source has it all.
pub(super) async fn enter(job: &JobArgs, wanted: &[Address], bars: &Bars) -> anyhow::Result<Circle> {
    let found = if job.solo {
        None
    } else if job.home.circle.is_some() {
        Some(job.home.open()?)
    } else {
        find(job, wanted)?
    };
    let Some((name, home)) = found else { return Ok(Circle::none()) };
    bars.say(&format!("in the slots of circle {name}"));
    match Client::new(home.path()).borrow().await {
        Ok(slots) => Ok(Circle { slots, member: None }),
        Err(ControlError::NotRunning(_)) => start(home).await,
        Err(error) => Err(error.into()),
    }
}

fn find(job: &JobArgs, wanted: &[Address]) -> anyhow::Result<Option<(String, Home)>> {
    for name in job.home.root.circles()? {
        let Ok((name, home)) = job.home.root.open(Some(&name)) else { continue };
        let Ok(credentials) = home.load_credentials() else { continue };
        let Ok((source, _)) = Address::parse(&credentials.roll.charter().source) else { continue };
        if wanted.iter().all(|address| source.contains(address)) {
            return Ok(Some((name, home)));
        }
    }
    Ok(None)
}

/// A member of our own, for as long as the job lasts.
async fn start(home: Home) -> anyhow::Result<Circle> {
    let listen = home.load_credentials()?.listen;
    let address = load_address(&home, listen)?;
    let found = super::run::is_founder_alone(&home)?;
    let member = Member::start(home, Options { address, found, ..Options::default() }).await?;
    let slots = member.lending().borrow().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(member.run_until(async move {
        // Dropped, not sent to.
        let _ = stopped.await;
    }));
    Ok(Circle { slots, member: Some(OwnMember { stop, running }) })
}
