//! In which circle's slots a job runs, and where those come from: every command that pulls asks here.

use stroll::fetch::Address;
use stroll::jobs::Slots;
use stroll::peer::{Client, ControlError, Errand, Member, Options, PeerError};
use stroll::trust::Home;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::homes::{HomeArgs, load_address};
use super::run::is_founder_alone;

/// Where slots come from while this lasts.
pub(super) struct Circle {
    /// Its name here; `None` without a circle.
    name: Option<String>,
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
    /// No circle at all: slots without end.
    fn none() -> Self {
        Self { name: None, slots: Slots::eternal(), member: None }
    }

    /// Its name here; `None` without a circle.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
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

/// Enters the circle for these addresses: the one that was named, or the one whose source has them all. No circle if that
/// is asked for, or there is none such. A member that runs there is told that this is for a command of this `kind`.
pub(super) async fn enter(
    kind: &str,
    home: &HomeArgs,
    solo: bool,
    addresses: &[&Address],
) -> anyhow::Result<Circle> {
    let found = if solo {
        None
    } else if home.circle.is_some() {
        Some(home.open()?)
    } else {
        find(home, addresses)?
    };
    let what = match addresses {
        [] => String::new(),
        [only] => only.to_string(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    };
    enter_found(found, &Errand::new(kind, &what)).await
}

/// Enters the circle that was named, or the only one here. No circle if that is asked for, or there is none.
pub(super) async fn enter_only(home: &HomeArgs, solo: bool, errand: &Errand) -> anyhow::Result<Circle> {
    let is_none = solo || (home.circle.is_none() && home.root.circles()?.is_empty());
    enter_found(if is_none { None } else { Some(home.open()?) }, errand).await
}

async fn enter_found(found: Option<(String, Home)>, errand: &Errand) -> anyhow::Result<Circle> {
    let Some((name, home)) = found else { return Ok(Circle::none()) };
    let (slots, member) = match Client::new(home.path()).borrow(errand).await {
        Ok(slots) => (slots, None),
        Err(ControlError::NotRunning(_)) => start(home).await?,
        Err(error) => return Err(error.into()),
    };
    Ok(Circle { name: Some(name), slots, member })
}

fn find(home: &HomeArgs, addresses: &[&Address]) -> anyhow::Result<Option<(String, Home)>> {
    for name in home.root.circles()? {
        let Ok((name, home)) = home.root.open(Some(&name)) else { continue };
        let Ok(credentials) = home.load_credentials() else { continue };
        let Ok((source, _)) = Address::parse(&credentials.roll.charter().source) else { continue };
        if addresses.iter().all(|address| source.contains(address)) {
            return Ok(Some((name, home)));
        }
    }
    Ok(None)
}

/// A member of our own, for as long as the job lasts.
async fn start(home: Home) -> anyhow::Result<(Slots, Option<OwnMember>)> {
    let listen = home.load_credentials()?.listen;
    let address = load_address(&home, listen)?;
    let found = is_founder_alone(&home)?;
    let member = Member::start(home, Options { address, found, ..Options::default() }).await?;
    let slots = member.lending().borrow().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(member.run_until(async move {
        // Dropped, not sent to.
        let _ = stopped.await;
    }));
    Ok((slots, Some(OwnMember { stop, running })))
}
