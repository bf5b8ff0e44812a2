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
    /// Reason, with the remedy, if a circle exists here but the job runs without it.
    outside: Option<String>,
    /// Its slots come with tickets.
    has_tickets: bool,
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
        Self { name: None, outside: None, has_tickets: false, slots: Slots::eternal(), member: None }
    }

    /// Its name here; `None` without a circle.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Reason, with the remedy, why none of the circles here is used, if there are some.
    pub(super) fn outside(&self) -> Option<&str> {
        self.outside.as_deref()
    }

    /// Whether its slots come with tickets.
    pub(super) fn has_tickets(&self) -> bool {
        self.has_tickets
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
    let is_outside = found.is_none() && !solo;
    let mut circle = enter_found(found, &Errand::new(kind, &what)).await?;
    if is_outside {
        circle.outside = outside(&sources(home)?, addresses, home);
    }
    Ok(circle)
}

/// Enters the circle that was named, or the only one here. No circle if that is asked for, or there is none.
pub(super) async fn enter_only(home: &HomeArgs, solo: bool, errand: &Errand) -> anyhow::Result<Circle> {
    let is_none = solo || (home.circle.is_none() && home.root.circles()?.is_empty());
    enter_found(if is_none { None } else { Some(home.open()?) }, errand).await
}

async fn enter_found(found: Option<(String, Home)>, errand: &Errand) -> anyhow::Result<Circle> {
    let Some((name, home)) = found else { return Ok(Circle::none()) };
    let has_tickets = home.load_credentials()?.roll.charter().ring().is_some();
    let (slots, member) = match Client::new(home.path()).borrow(errand).await {
        Ok(slots) => (slots, None),
        Err(ControlError::NotRunning(_)) => start(home).await?,
        Err(error) => return Err(error.into()),
    };
    Ok(Circle { name: Some(name), outside: None, has_tickets, slots, member })
}

fn find(home: &HomeArgs, addresses: &[&Address]) -> anyhow::Result<Option<(String, Home)>> {
    let found = sources(home)?.into_iter().find(|source| addresses.iter().all(|one| source.covers(one)));
    found.map(|source| home.root.open(Some(&source.circle))).transpose()
}

/// A circle here, and where its source is.
pub(super) struct Source {
    pub(super) circle: String,
    /// As the charter has them; the first is the one by which the source is called.
    pub(super) urls: Vec<String>,
}

impl Source {
    /// Whether this address is at the circle's source.
    pub(super) fn covers(&self, address: &Address) -> bool {
        let known = self.urls.iter().filter_map(|url| Address::parse(url).ok());
        known.into_iter().any(|(source, _)| source.contains(address))
    }
}

/// `circle virgo (source http://127.0.0.1/stream/)`
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "circle {} (source {})", self.circle, self.urls.join(", "))
    }
}

/// The circles here whose files can be read.
pub(super) fn sources(home: &HomeArgs) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for name in home.root.circles()? {
        let Ok((circle, home)) = home.root.open(Some(&name)) else { continue };
        let Ok(credentials) = home.load_credentials() else { continue };
        let urls = credentials.roll.charter().sources().map(str::to_owned).collect();
        sources.push(Source { circle, urls });
    }
    Ok(sources)
}

/// Message for a pull outside of the circles that exist here; nothing if there is no circle.
fn outside(sources: &[Source], addresses: &[&Address], home: &HomeArgs) -> Option<String> {
    let is_uncovered = |address: &&&Address| !sources.iter().any(|source| source.covers(address));
    // If each is covered by some circle, no single one has them all.
    let Some(address) = addresses.iter().find(is_uncovered) else {
        let names = sources.iter().map(|source| source.circle.as_str()).collect::<Vec<_>>().join(", ");
        return Some(format!(
            "no circle covers all of these addresses ({names}): pulling without a circle; run one command for each circle"
        ));
    };
    let why = uncovered(address, sources)?;
    Some(format!("{why}: pulling without the circle; {}", remedy(address, sources, home)))
}

/// States that no circle here covers an address; nothing if there is no circle.
pub(super) fn uncovered(address: &Address, sources: &[Source]) -> Option<String> {
    if sources.is_empty() {
        return None;
    }
    let circles = sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    Some(format!("{address} is not covered by {circles}"))
}

/// The command that adds an address to the source of a circle.
pub(super) fn remedy(address: &Address, sources: &[Source], home: &HomeArgs) -> String {
    let flags = match sources {
        [only] => home.flags(&only.circle),
        _ => format!("{} --circle NAME", home.root.flags()),
    };
    let folder = if address.is_folder() { Some(address.clone()) } else { address.parent() };
    let alias = folder.unwrap_or_else(|| address.clone());
    format!(
        "if it is the same source, its authority can add it with `stroll circle amend --alias {alias}{flags}`"
    )
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
