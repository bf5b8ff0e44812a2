//! `stroll run`: be a member, until told to stop.

use std::net::SocketAddr;

use anyhow::Context as _;
use stroll::peer::{Member, Options};
use stroll::trust::{FileError, Home};
use tokio::signal::unix::{SignalKind, signal};

use super::homes::{HomeArgs, load_address, resolve};
use super::logging::{self, LogArgs};

/// Be a member of a circle: take part in handing the token on.
///
/// Runs in the foreground until SIGINT or SIGTERM; then it hands the token over, says goodbye and ends. One process per
/// circle. There are no jobs yet: slots pass by, unless --hold pretends to use them.
#[derive(Debug, clap::Args)]
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

    /// Serve the status page, its JSON and the metrics for Prometheus here, such as 127.0.0.1:7480 [default: nowhere]
    #[arg(long, visible_alias = "metrics-addr", value_name = "IP:PORT", env = "STROLL_PAGE")]
    page: Option<SocketAddr>,

    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    logging::start(&args.log)?;
    let (circle, home) = args.home.open()?;
    let found = is_founder_alone(&home)?;
    let listen = args.listen.map_or_else(|| home.load_credentials().map(|own| own.listen), Ok)?;
    let address = match &args.address {
        Some(text) => Some(resolve(text, listen)?),
        None => load_address(&home, listen)?,
    };
    let options = Options {
        hold: args.hold,
        listen: args.listen,
        address,
        found,
        page: args.page,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let member = Member::start(home, options).await.with_context(|| format!("circle {circle}"))?;
        eprintln!("member of circle {circle}, listening on {}", member.handle().address());
        if let Some(page) = member.page() {
            eprintln!("status page at http://{page}/");
        }
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            eprintln!("handing over and leaving");
        };
        member.run_until(stop).await?;
        Ok(())
    })
}

/// The founder of a circle that nobody else knows yet brings its first token; everybody else waits for it.
pub(super) fn is_founder_alone(home: &Home) -> Result<bool, FileError> {
    Ok(home.load_authority()?.is_some() && home.load_directory()?.is_none_or(|known| known.is_empty()))
}
