//! `stroll mirror`: keep a folder here like one at the source, alone or in a circle's slots.

mod options;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use stroll::fetch::limit::Limiter;
use stroll::fetch::timetable::{Timetable, throttled};
use stroll::fetch::{Address, Logins};
use stroll::jobs::mirror::{Compare, Spec, mirror};
use stroll::jobs::pull::{Alike, Config};
use stroll::jobs::schedule::Schedule;
use stroll::jobs::stop::or_stop;
use tokio::sync::watch;

use super::bars::Bars;
use super::circles::{self, Circle};
use super::ending::{END_WITHIN, Ending, Stopped, before_the_end};
use super::exit::UsageError;
use super::job::JobArgs;
use super::logging;
use super::transfer::{self, Transfer};
pub(super) use options::Options;
use summary::Summary;

/// Keep a folder here like one at a source: HTTP index pages (nginx, Apache, lighttpd, JSON) and FTP.
///
/// Pulls what is new or changed, folder by folder; files with the size and time of their originals are not pulled again, and
/// what was interrupted goes on. Nothing is removed here unless --delete says so, and then only after everything at the
/// source was seen and pulled. One job per folder at a time.
///
/// If you are a member of a circle whose source has the folder, it is mirrored in its slots; --solo does not wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The folder at the source
    #[arg(value_name = "URL")]
    url: String,

    /// The folder here; made if it is not there
    #[arg(value_name = "DIR")]
    target: PathBuf,

    #[command(flatten)]
    options: Options,

    /// Only show what would be done; with --json as a plan
    #[arg(short = 'n', long, env = "STROLL_DRY_RUN")]
    dry_run: bool,

    /// End with exit code 9 if there was nothing to do
    #[arg(long, env = "STROLL_FAIL_IF_NOTHING")]
    fail_if_nothing: bool,

    #[command(flatten)]
    job: JobArgs,
}

const EXAMPLES: &str = "\
Examples:
  stroll mirror https://example.org/data/ replicas/
  stroll mirror ftp://example.org/pub/frames/ frames/ --include '*.gwf' --max-age 7d --every 1h
  stroll mirror https://example.org/data/ replicas/ --delete --max-delete 5% --backup-dir removed/
  stroll mirror https://example.org/data/ replicas/ --delete --dry-run --json";

pub(super) fn run(args: &Args, settings: Transfer) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    let transfer = args.job.transfer.clone().or(settings);
    let mut logins = transfer.logins()?;
    let source = folder_address(&args.url, &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        logins.give(source.clone(), login);
    }
    let spec = args.options.spec(source, args.target.clone(), args.dry_run)?;
    let schedule = args.options.schedule()?;
    let timetable = transfer.timetable()?;
    let config = config_for(&spec, args.job.config(&transfer, logins, true)?);
    let bars = Bars::new(args.job.progress.resolve(args.job.log.is_quiet()), None);
    logging::start_through(&args.job.log, bars.bars().clone())?;
    // One thread: with more, each answer of the source would wake another one first, which then wakes this one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(repeat(args, &spec, &config, &timetable, schedule.as_ref(), &bars, ending))
}

/// Pull configuration for a mirror: hidden names only if asked for, and nothing is written in a dry run.
pub(super) fn config_for(spec: &Spec, mut config: Config) -> Config {
    let options = Arc::make_mut(&mut config.options);
    options.hidden = spec.hidden;
    options.portable_names = spec.portable_names;
    config.dry_run = spec.dry_run;
    config.alike = match spec.compare {
        Compare::Exists | Compare::Size => Alike::Size,
        Compare::Mtime => Alike::SizeAndTime,
        Compare::Checksum => Alike::Digest,
    };
    config.sums |= spec.compare == Compare::Checksum;
    config
}

/// The address of a folder, with or without the slash at its end, and the login that stood in it.
pub(super) fn folder_address(text: &str, logins: &mut Logins) -> Result<Address, UsageError> {
    let address = transfer::address(text, logins)?;
    if address.is_folder() {
        return Ok(address);
    }
    let mut url = address.url().clone();
    url.set_path(&format!("{}/", url.path()));
    let (folder, _) = Address::from_url(url).map_err(|error| UsageError(error.to_string()))?;
    Ok(folder)
}

/// Once, or again and again until told to stop.
async fn repeat(
    args: &Args,
    spec: &Spec,
    config: &Config,
    timetable: &Timetable,
    schedule: Option<&Schedule>,
    bars: &Bars,
    ending: Ending,
) -> anyhow::Result<()> {
    let (stop, reason) = ending.heed(args.job.max_duration, END_WITHIN);
    let limiter = Limiter::new(None);
    let addresses = [&spec.source];
    let entering = circles::enter("mirror", &args.job.home, args.job.solo, &addresses);
    let mut circle = before_the_end(&stop, &reason, entering).await?;
    if let Some(name) = circle.name() {
        bars.say(&format!("in the slots of circle {name}"));
    }
    let all = async {
        loop {
            let started = jiff::Timestamp::now();
            let result = once(args, spec, config, &limiter, &stop, &reason, &mut circle, bars).await;
            let Some(schedule) = schedule.filter(|_| !*stop.borrow()) else { return result };
            if let Err(error) = &result {
                bars.say(&format!("{error:#}"));
            }
            match or_stop(&stop, schedule.wait(started, jiff::Timestamp::now)).await {
                None => return Ok(()),
                Some(false) => return result,
                Some(true) => {}
            }
        }
    };
    let result = throttled(timetable, &limiter, Box::pin(all)).await;
    bars.clear();
    circle.leave().await;
    result
}

#[expect(clippy::too_many_arguments, reason = "they are what one run has in common with the next")]
async fn once(
    args: &Args,
    spec: &Spec,
    config: &Config,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    reason: &watch::Receiver<Stopped>,
    circle: &mut Circle,
    bars: &Bars,
) -> anyhow::Result<()> {
    let outcome = mirror(spec, config, circle.slots(), limiter, stop, bars).await?;
    let is_repeated = args.options.every.is_some() || args.options.schedule.is_some();
    if !is_repeated {
        bars.clear();
    }
    let summary = Summary { spec, outcome: &outcome, stopped: *reason.borrow() };
    summary.print(args.job.json, args.job.log.is_quiet(), bars).context("standard output")?;
    summary.verdict(args.fail_if_nothing)
}
