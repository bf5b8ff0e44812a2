//! A running member of one circle: its files, its node on the wire, its control socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::base::{MemberId, Time, TokenId};
use crate::driver::{self, BootClock, DriverError, Handle, random_bytes};
use crate::fetch::limit::Limiter;
use crate::fetch::timetable::Timetable;
use crate::jobs::{Board, Slots};
use crate::node::{self, Command, Event, Identity, Node};
use crate::proto::{agent, directory, handoff};
use crate::trust::{Credentials, FileError, Home, Refusal, expiry_warning};
use crate::wire::codec::{Reader, Writer};
use crate::wire::records::Entry;

use super::certificates::check_certificate;
use super::control::{self, ControlError};
use super::dials::Dials;
use super::lending::{self, Lending};
use super::notices::{self, Notices};
use super::place::{Place, shown_address};
use super::report::BACK_OFF_OF_ANOTHER;
use super::{history, page, ring};

/// How long the certificates of new members are valid.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// How long a member that was told to go tries to hand its token over, unless its options say otherwise.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// How often the directory is saved, if nobody new is in it.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// And if somebody is: so many newcomers at once are saved together. A founder that is killed before it has saved its first
/// member would take itself for the only one, and bring a second token.
const SAVE_GAP: Duration = Duration::from_secs(1);

/// How often the log says that somebody else offers a token that is here.
const CONFLICTS_EVERY: Duration = Duration::from_secs(60);

/// How a member runs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Pretend to pull for the whole of every slot; otherwise there is nothing to pull, and slots pass by.
    pub hold: bool,
    /// Listen here instead of where the files say.
    pub listen: Option<SocketAddr>,
    /// Tell others this address instead of the one that is listened on. Who listens everywhere and is not told one tells
    /// the address from which it reaches the first members.
    pub address: Option<SocketAddr>,
    /// The host's name and port behind that address, if it was said so: it is looked up again while the member runs.
    pub host: Option<String>,
    /// Make the circle's first token: what the founder's member does when it starts. Who begins a ring of tickets is
    /// written in the charter.
    pub found: bool,
    /// How long to try to hand the token over at the end.
    pub leave_within: Option<Duration>,
    /// Serve the status page here.
    pub page: Option<SocketAddr>,
    /// How fast all jobs together may pull, until somebody says otherwise.
    pub limit: Timetable,
    /// Who is told of overload and of data that is about to be lost.
    pub notices: Notices,
}

/// Why a member cannot run.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Its files.
    #[error(transparent)]
    Files(#[from] FileError),
    /// Its certificate.
    #[error("the certificate is not valid: {0}; ask the authority for a new one")]
    Certificate(Refusal),
    /// Its charter.
    #[error("the charter makes no sense")]
    Charter(#[from] agent::Invalid),
    /// The address is taken, or not of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The page's address cannot be used, as it is not of this machine.
    #[error("cannot serve the status page on {address}")]
    Page {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The member was banned, or its certificate has expired, while it ran.
    #[error("this member is no longer one: banned, or its certificate has expired")]
    Expelled,
}

/// A running member.
#[derive(Debug)]
pub struct Member {
    pub(super) home: Home,
    pub(super) handle: Handle,
    driver: JoinHandle<Result<(), DriverError>>,
    lending: Lending,
    board: Board,
    dials: Dials,
    page: Option<SocketAddr>,
    /// What ends with the member.
    tasks: Vec<JoinHandle<()>>,
    control_path: PathBuf,
    /// Somebody changed the files.
    reload: mpsc::Receiver<()>,
    pub(super) clock: BootClock,
    options: Options,
    /// When the directory was saved, and when it is next.
    saved_at: Time,
    save_at: Time,
    /// When the log last spoke of a conflict.
    conflict_at: Option<Time>,
    /// When the circle's ring is begun, should that be this member's to do.
    pub(super) ring_at: Option<Time>,
    /// Of how few days of the certificate the log has spoken.
    pub(super) warned_days: Option<u64>,
}

impl Member {
    /// Reads the files, binds the sockets, greets the circle.
    pub async fn start(home: Home, options: Options) -> Result<Self, PeerError> {
        let credentials = home.load_credentials()?;
        let clock = BootClock::new();
        check_certificate(&credentials, wall_s())?;
        let warned_days = expiry_warning(&credentials.certificate, wall_s());
        let address = options.listen.unwrap_or(credentials.listen);
        let socket =
            UdpSocket::bind(address).await.map_err(|source| PeerError::Listen { address, source })?;
        let bound = socket.local_addr().map_err(|source| PeerError::Listen { address, source })?;
        let shown = options.address.unwrap_or_else(|| shown_address(bound, &credentials.bootstrap));
        let place = Place::new(options.address, options.host.as_deref(), bound, &credentials.bootstrap);
        let config = node::Config {
            address: shown,
            sequence: home.begin_life(first_number())?,
            boot_secret: random_bytes()?,
            wall_offset_ms: clock.wall_offset_ms(),
            seed: u64::from_be_bytes(random_bytes()?),
            directory: directory::Config::default(),
        };
        let Credentials { key, certificate, roll, gate, bootstrap, name, .. } = credentials;
        let circle = roll.charter().name.clone();
        let node = Node::new(Identity { key, certificate, roll, gate }, config, clock.now())?;
        let (handle, driver) = driver::spawn(node, socket, BootClock::new())
            .map_err(|source| PeerError::Listen { address, source })?;
        let control_path = control::path_in(home.path());
        let (told, reload) = mpsc::channel(1);
        let (lending, lender) = lending::spawn(handle.clone());
        let board = Board::default();
        let (history, historian) = history::spawn(&handle, board.clone());
        let dials = Dials::new(options.limit.clone(), options.notices.clone());
        let throttled = tokio::spawn(dials.clone().keep());
        let names = (circle, name);
        let (jobs, turned) = ((board.clone(), lending.clone()), dials.clone());
        let served = control::Served::new(handle.clone(), names, told, jobs, turned);
        let control = control::serve(&control_path, served.clone()).await?;
        let noticing = notices::spawn(&handle, served.clone(), dials.clone());
        let mut tasks = vec![lender, historian, throttled, control, noticing];
        tasks.extend(place.map(|place| tokio::spawn(place.follow(shown, handle.clone()))));
        let mut page = None;
        if let Some(address) = options.page {
            let shown = page::Shown { served, history };
            let (bound, task) =
                page::serve(address, shown).await.map_err(|source| PeerError::Page { address, source })?;
            tasks.push(task);
            page = bound;
        }
        let mut member = Self {
            home,
            handle,
            driver,
            lending,
            board,
            dials,
            page,
            tasks,
            control_path,
            reload,
            saved_at: clock.now(),
            save_at: clock.now(),
            conflict_at: None,
            ring_at: None,
            clock,
            options,
            warned_days,
        };
        member.greet(bootstrap).await?;
        Ok(member)
    }

    /// A way to talk to the node.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A way to the member's slots.
    pub fn lending(&self) -> &Lending {
        &self.lending
    }

    /// Where its jobs write what they do.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// What its jobs share: how fast they may pull.
    pub fn limiter(&self) -> &Limiter {
        self.dials.limiter()
    }

    /// What can be changed while it runs.
    pub fn dials(&self) -> &Dials {
        &self.dials
    }

    /// Where its status page is, if it has one, and had its address from the start.
    pub fn page(&self) -> Option<SocketAddr> {
        self.page
    }

    async fn greet(&mut self, bootstrap: Vec<SocketAddr>) -> Result<(), PeerError> {
        for entry in self.saved_directory() {
            let address = entry.record.address;
            self.handle.command(Command::Learn { entry }).await?;
            self.handle.command(Command::Greet { address }).await?;
        }
        for address in bootstrap {
            if address != self.handle.address() {
                self.handle.command(Command::Greet { address }).await?;
            }
        }
        if self.options.hold {
            tokio::spawn(hold(self.lending.borrow().await?));
        }
        if self.options.found {
            self.handle.command(Command::Found).await?;
        }
        self.plan_ring().await
    }

    /// Runs until `stop` is ready, then hands the token over and goes.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<(), PeerError> {
        let mut events = self.handle.events();
        tokio::pin!(stop);
        let outcome = loop {
            tokio::select! {
                () = &mut stop => break Ok(()),
                ended = &mut self.driver => break Err(driver_end(ended)),
                () = sleep(self.save_at.since(self.clock.now())) => {
                    self.save_directory().await;
                    self.look_after_certificate().await?;
                }
                () = sleep(self.ring_at.unwrap_or_default().since(self.clock.now())), if self.ring_at.is_some() => {
                    self.ring_at = None;
                    self.begin_ring().await?;
                }
                Some(()) = self.reload.recv() => self.read_again().await?,
                event = events.recv() => match event {
                    Ok((_, Event::Expelled)) => break Err(PeerError::Expelled),
                    Ok((_, event)) => self.on_event(event).await?,
                    // More happened than was read: nothing that a member's duties depend on but slots, and those
                    // are ended by the node's own order.
                    Err(RecvError::Lagged(missed)) => warn!(missed, "events were missed"),
                    Err(RecvError::Closed) => break Ok(()),
                },
            }
        };
        if outcome.is_ok() {
            self.leave().await;
        }
        self.save_directory().await;
        self.tasks.iter().for_each(JoinHandle::abort);
        // The socket's file is of no use to anybody now.
        let _ = std::fs::remove_file(&self.control_path);
        outcome
    }

    async fn on_event(&mut self, event: Event) -> Result<(), PeerError> {
        match event {
            // The lender's, and the notices'.
            Event::SlotBegan { .. } | Event::StopSlot | Event::SlotEnded | Event::Load(_) => {}
            Event::Tickets(event) => ring::log(&event),
            Event::Enrol { member, key, invitation, mac, address } => {
                self.on_enrol(member, &key, &invitation, &mac, address).await?;
            }
            Event::Renew { member, nonce, address } => self.on_renew(member, nonce, address).await?,
            Event::Renewed { .. } => self.save_certificate().await,
            Event::Agent(agent::Event::Generated { token, because: agent::Origin::Founded }) => {
                info!(%token, "made the circle's first token");
            }
            Event::Agent(agent::Event::Generated { token, because }) => {
                warn!(%token, ?because, "made a new token");
            }
            Event::Agent(agent::Event::Discarded { token, because }) => {
                warn!(%token, ?because, "discarded a spurious token");
            }
            Event::Handoff(handoff::Event::Unreachable { to, .. }) => warn!(member = %to, "does not answer"),
            Event::Handoff(handoff::Event::Dropped { token, because }) => {
                warn!(%token, ?because, "gave up the token");
            }
            Event::Handoff(handoff::Event::AuthorityConflict { token, from }) => {
                self.on_conflict(token, from);
            }
            Event::DuplicateIdentity { address } => {
                warn!(%address, "duplicate identity: another process has this member's key");
            }
            Event::MemberLearned { member } => {
                info!(%member, "learnt of a member");
                self.save_at = self.save_at.min(self.saved_at + SAVE_GAP);
            }
            Event::CharterChanged { version } => {
                info!(version, "a new charter is in force");
                self.save_roll().await;
                self.plan_ring().await?;
            }
            Event::BansChanged { version } => {
                info!(version, "new bans are in force");
                self.save_roll().await;
            }
            Event::Cooling { until, reason } => {
                let for_s = until.since(self.clock.now()).as_secs_f64();
                warn!(for_s, "backing off: {}", reason.as_deref().unwrap_or(BACK_OFF_OF_ANOTHER));
            }
            other => debug!(?other, "event"),
        }
        Ok(())
    }

    /// Every one is counted; whoever repeats its offer does not fill the log.
    fn on_conflict(&mut self, token: TokenId, from: MemberId) {
        let now = self.clock.now();
        if self.conflict_at.is_none_or(|at| now.since(at) >= CONFLICTS_EVERY) {
            self.conflict_at = Some(now);
            warn!(%token, member = %from, "authority conflict: somebody else offers the token that is here");
        }
    }

    /// Only the member that has the authority's key can say yes; and what is wrong is not told to strangers.
    async fn on_enrol(
        &self,
        member: MemberId,
        key: &[u8; 32],
        invitation: &[u8; 8],
        mac: &[u8; 16],
        address: SocketAddr,
    ) -> Result<(), PeerError> {
        let Some(authority) = self.home.load_authority()? else { return Ok(()) };
        let now = wall_s();
        // On disk before the answer leaves, or a crash in between would give two labs one invitation.
        let redeemed = self.home.update_ledger(|ledger| {
            ledger.redeem(invitation, key, mac, now, &authority, CERTIFICATE_LIFETIME)
        })?;
        match redeemed {
            Ok(certificate) => {
                info!(%member, name = certificate.name, "enrolled");
                self.handle.command(Command::Welcome { to: address, member, certificate }).await?;
            }
            Err(refusal) => warn!(%member, %refusal, "an enrolment was refused"),
        }
        Ok(())
    }

    /// A new charter or new bans, made by another command: the node takes them if they are newer, and tells the circle.
    async fn read_again(&self) -> Result<(), PeerError> {
        match self.home.load_credentials() {
            Ok(Credentials { roll, certificate, .. }) => {
                self.handle.command(Command::Certificate { certificate }).await?;
                self.handle.command(Command::Charter { charter: roll.charter().clone() }).await?;
                if let Some(bans) = roll.bans().cloned() {
                    self.handle.command(Command::Bans { bans }).await?;
                }
            }
            Err(error) => warn!(%error, "cannot read the changed files"),
        }
        Ok(())
    }

    async fn leave(&mut self) {
        // Before the order, or its answer could be missed.
        let mut events = self.handle.events();
        if self.handle.command(Command::Leave).await.is_err() {
            return;
        }
        let left = async {
            loop {
                match events.recv().await {
                    Ok((_, Event::Tickets(event))) => ring::log(&event),
                    Ok((_, Event::RingClosed { epoch })) => self.keep_ring(epoch),
                    Ok((_, Event::Left)) | Err(RecvError::Closed) => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                }
            }
        };
        let within = self.options.leave_within.unwrap_or(LEAVE_WITHIN);
        if timeout(within, left).await.is_err() {
            warn!("nobody took the token or the ticket; leaving without");
        }
    }

    async fn save_roll(&self) {
        let Ok(roll) = self.handle.roll().await else { return };
        if let Err(error) = self.home.save_roll(&roll) {
            warn!(%error, "cannot save the charter");
        }
    }

    /// Whom to greet at the next start. Losing it costs nothing but time.
    async fn save_directory(&mut self) {
        self.saved_at = self.clock.now();
        self.save_at = self.saved_at + SAVE_EVERY;
        if let Err(error) = self.home.keep_numbers(first_number()) {
            warn!(%error, "cannot save how far this member's numbers have come");
        }
        let Ok(entries) = self.handle.entries().await else { return };
        let mut out = Writer::new();
        for entry in &entries {
            entry.write(&mut out);
        }
        if let Err(error) = self.home.save_directory(&out.finish()) {
            warn!(%error, "cannot save the directory");
        }
    }

    fn saved_directory(&self) -> Vec<Entry> {
        let Ok(Some(bytes)) = self.home.load_directory() else { return Vec::new() };
        let mut input = Reader::new(&bytes);
        std::iter::from_fn(|| (!input.rest().is_empty()).then(|| Entry::read(&mut input).ok()).flatten())
            .collect()
    }
}

/// A job that pulls nothing, for as long as every slot lasts.
async fn hold(mut slots: Slots) {
    slots.want(true);
    while let Some(turn) = slots.next().await {
        turn.slot.over().await;
    }
}

fn driver_end(ended: Result<Result<(), DriverError>, tokio::task::JoinError>) -> PeerError {
    match ended {
        Ok(Err(error)) => error.into(),
        Ok(Ok(())) | Err(_) => DriverError::Ended.into(),
    }
}

/// Where the numbers of a life begin that starts now, by the clocks.
pub fn first_number() -> u64 {
    let clock = BootClock::new();
    node::first_sequence(clock.now().wall_ms(clock.wall_offset_ms()))
}

/// By the clocks as they are now: the wall clock may have been set since the start.
pub(super) fn wall_s() -> u64 {
    let clock = BootClock::new();
    clock.now().wall_s(clock.wall_offset_ms())
}
