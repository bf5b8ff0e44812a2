//! `stroll run`: be a member and run the jobs of the settings, until told to stop.

mod jobs;
pub(super) mod tables;
mod work;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use serde::Deserialize;
use stroll::driver::Handle;
use stroll::fetch::Logins;
use stroll::fetch::timetable::Timetable;
use stroll::jobs::hook::Hook;
use stroll::jobs::stop::or_stop;
use stroll::node::Event;
use stroll::peer::{DONE, Dials, Member, Notices, Options, Webhook};
use stroll::proto::load::Level;
use stroll::trust::{FileError, Home};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::circles::sources;
use super::ending::{END_WITHIN, Ending};
use super::exit::{Code, Failed, UsageError};
use super::homes::{HomeArgs, load_address, resolve};
use super::logging::{self, LogArgs};
use super::settings::Settings;
use jobs::{Jobs, Place};
use tables::Job;

/// How long the token may take to be handed over when the member is told to end. Together with the time that its jobs have,
/// this is less than the two seconds after which the process is ended by force.
const LEAVE_WITHIN: Duration = Duration::from_millis(1_200);

/// The same for a ticket. Its holder leaves the ring in several steps, one lease apart, and one that leaves without them
/// may be missed like one that crashed.
const LEAVE_RING_WITHIN: Duration = Duration::from_secs(8);

/// Be a member of a circle: take part in handing the token on, and pull in its slots what the settings say.
///
/// Runs in the foreground until SIGINT or SIGTERM; then it hands the token over, says goodbye and ends. SIGHUP reads the
/// settings again: jobs that changed are begun anew, the others do not notice; a new rate and new hooks hold at once, a new
/// address of the page from the next start on. One process per circle; the settings may have
/// jobs for several circles, and each member runs its own. Other commands (`get`, `mirror`, …) borrow its slots; when it is
/// started again they wait for it for up to a minute, and go on.
///
/// The log has one line for each finished run of a job and each batch of delivered files; with -v also one for each slot.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArgs,

    /// Pretend to pull for the whole of every slot
    #[arg(long, env = "STROLL_HOLD")]
    hold: bool,

    /// Listen on this UDP address instead of the one that the circle's files say
    #[arg(long, value_name = "IP:PORT", env = "STROLL_LISTEN")]
    listen: Option<SocketAddr>,

    /// Tell others this address, if it is not the one that is listened on (NAT, 0.0.0.0)
    #[arg(long, value_name = "HOST:PORT", env = "STROLL_ADDRESS")]
    address: Option<String>,

    #[command(flatten)]
    more: RunOptions,

    #[command(flatten)]
    log: LogArgs,
}

/// What flags and settings may say alike.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunOptions {
    /// Serve the status page, its JSON and the metrics for Prometheus here, such as 127.0.0.1:7480 [default: nowhere]
    #[arg(long, visible_alias = "metrics-addr", value_name = "IP:PORT", env = "STROLL_PAGE")]
    page: Option<SocketAddr>,

    /// Command for when the circle's load is judged anew, or data is about to be lost: see STROLL_EVENT, STROLL_LEVEL,
    /// STROLL_REASON, STROLL_ADVICE and STROLL_JOB in its environment
    #[arg(long, value_name = "CMD", env = "STROLL_ON_OVERLOAD")]
    on_overload: Option<String>,

    /// Address to which the same is posted as JSON
    #[arg(long, value_name = "URL", env = "STROLL_WEBHOOK")]
    pub(super) webhook: Option<String>,

    /// End with exit code 15 when the circle is overloaded
    #[arg(long, env = "STROLL_FAIL_ON_OVERLOAD")]
    fail_on_overload: bool,
}

const EXAMPLES: &str = "\
Examples:
  stroll run
  stroll run --circle virgo --page 127.0.0.1:7480
  stroll run --on-overload 'logger \"$STROLL_LEVEL: $STROLL_REASON\"'

A job in the settings (config/stroll.toml has them all):
  [[subscribe]]
  url = \"ftp://ftp.example.org/stream/\"
  to = \"/data/stream\"";

impl RunOptions {
    fn or(self, settings: Self) -> Self {
        Self {
            page: self.page.or(settings.page),
            on_overload: self.on_overload.or(settings.on_overload),
            webhook: self.webhook.or(settings.webhook),
            fail_on_overload: self.fail_on_overload || settings.fail_on_overload,
        }
    }

    fn notices(&self, settings: &Settings) -> anyhow::Result<Notices> {
        let hook = self.on_overload.as_deref().map(Hook::parse).transpose();
        let hook = hook.map_err(|error| UsageError(format!("on-overload: {error}")))?;
        let webhook = match &self.webhook {
            Some(text) => {
                let url = url::Url::parse(text).map_err(|error| UsageError(format!("webhook: {error}")))?;
                Some(Webhook::new(url, &settings.transfer.options(Logins::default())?)?)
            }
            None => None,
        };
        Ok(Notices { hook, webhook })
    }
}

pub(super) fn run(args: &Args, settings: &Settings, named: Option<&Path>) -> anyhow::Result<()> {
    let ending = Ending::watch_but_hangup()?;
    logging::start(&args.log)?;
    let (circle, home) = args.home.open()?;
    let running = Run { args, circle, named };
    let more = running.options(settings);
    let found = is_founder_alone(&home)?;
    let own = home.load_credentials()?;
    let listen = args.listen.unwrap_or(own.listen);
    let is_ring = own.roll.charter().ring().is_some();
    let leave_within = if is_ring { LEAVE_RING_WITHIN } else { LEAVE_WITHIN };
    let address = match &args.address {
        Some(text) => Some(resolve(text, listen)?),
        None => load_address(&home, listen)?,
    };
    let options = Options {
        hold: args.hold,
        listen: args.listen,
        address,
        host: args.address.clone(),
        found,
        leave_within: Some(leave_within),
        page: more.page,
        limit: settings.transfer.timetable()?,
        notices: more.notices(settings)?,
    };
    let jobs = own_jobs(args, settings, &running.circle)?;
    // Looking at a large folder takes a while, and the token does not wait.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (stop, _) = ending.heed(None, END_WITHIN + leave_within.saturating_sub(LEAVE_WITHIN));
    let ended = runtime.block_on(running.until_stopped(home, options, jobs, settings, &stop));
    // A job that hangs in a call of the system keeps nobody here.
    runtime.shutdown_background();
    ended
}

/// The jobs of the settings that belong to this circle.
fn own_jobs(args: &Args, settings: &Settings, circle: &str) -> anyhow::Result<Vec<(String, Job)>> {
    let all = settings.jobs()?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    Ok(jobs::of_circle(all, circle, &sources(&args.home)?, &args.home)?)
}

struct Run<'a> {
    args: &'a Args,
    circle: String,
    /// The settings file that was named.
    named: Option<&'a Path>,
}

/// What was said last about what can be changed while the member runs.
struct Said {
    more: RunOptions,
    limit: Timetable,
}

impl Run<'_> {
    async fn until_stopped(
        &self,
        home: Home,
        options: Options,
        jobs: Vec<(String, Job)>,
        settings: &Settings,
        stop: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let circle = &self.circle;
        let mut said = Said { more: self.options(settings), limit: options.limit.clone() };
        let member = Member::start(home, options).await.with_context(|| format!("circle {circle}"))?;
        eprintln!("member of circle {circle}, listening on {}", member.handle().address());
        if let Some(page) = member.page() {
            eprintln!("status page at http://{page}/");
        }
        let place = Place {
            lending: member.lending().clone(),
            board: member.board().clone(),
            limiter: member.limiter().clone(),
        };
        let mut running = Jobs::default();
        running.follow(jobs, &settings.transfer, circle, &place).await?;
        tell_manager(&[NotifyState::Ready, NotifyState::Status(&format!("{} jobs", running.count()))]);
        let (handle, dials) = (member.handle().clone(), member.dials().clone());
        let mut is_overloaded = false;
        let stop = async {
            loop {
                tokio::select! {
                    None = or_stop(stop, std::future::pending::<()>()) => break,
                    () = overloaded(&handle), if said.more.fail_on_overload => {
                        is_overloaded = true;
                        break;
                    }
                    _ = hangup.recv() => self.read_again(&mut said, &mut running, &place, &dials).await,
                }
            }
            eprintln!("handing over and leaving");
            tell_manager(&[NotifyState::Stopping]);
            std::mem::take(&mut running).end().await;
        };
        member.run_until(stop).await?;
        if is_overloaded {
            let message = "the circle is overloaded".to_owned();
            return Err(Failed { code: Code::Overloaded, message }.into());
        }
        Ok(())
    }

    fn options(&self, settings: &Settings) -> RunOptions {
        self.args.more.clone().or(settings.run.clone())
    }

    /// Settings that make no sense are told, and change nothing.
    async fn read_again(&self, said: &mut Said, running: &mut Jobs, place: &Place, dials: &Dials) {
        let followed = async {
            let settings = Settings::load(self.named)?;
            let new = Said { more: self.options(&settings), limit: settings.transfer.timetable()? };
            let notices = new.more.notices(&settings)?;
            let jobs = own_jobs(self.args, &settings, &self.circle)?;
            let changes = running.follow(jobs, &settings.transfer, &self.circle, place).await?;
            dials.set_notices(notices);
            // What `stroll bwlimit` has said since stays, unless the settings now say something else than before.
            if new.limit != said.limit {
                dials.set_limit(new.limit.clone());
            }
            anyhow::Ok((new, changes))
        };
        match followed.await {
            Ok((new, changes)) => {
                let limit =
                    if new.limit == said.limit { String::new() } else { format!("; limit {}", new.limit) };
                info!(target: DONE, "settings read again: {changes}{limit}");
                if new.more.page != said.more.page {
                    warn!("the status page stays as it is until the member is started again");
                }
                // The page as it is, so that it is told again for as long as it is not as it should be.
                let page = said.more.page;
                *said = Said { more: RunOptions { page, ..new.more }, ..new };
            }
            Err(error) => error!("the settings were not changed: {error:#}"),
        }
    }
}

/// Ready when the circle is found to be overloaded, or was before.
async fn overloaded(handle: &Handle) {
    // From here on, so that nothing is missed after the question.
    let mut events = handle.events();
    if handle.status().await.is_ok_and(|status| status.verdict.level >= Level::Overloaded) {
        return;
    }
    loop {
        match events.recv().await {
            Ok((_, Event::Load(level))) if level >= Level::Overloaded => return,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// systemd, if it is there, wants to know.
fn tell_manager(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// The founder of a circle that nobody else knows yet brings its first token; everybody else waits for it.
pub(super) fn is_founder_alone(home: &Home) -> Result<bool, FileError> {
    Ok(home.load_authority()?.is_some() && home.load_directory()?.is_none_or(|known| known.is_empty()))
}

#[cfg(test)]
mod documented;
