//! `stroll mirror`: keep a folder here like one at the source, alone or in a circle's slots.

mod options;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use stroll::fetch::engine::PullError;
use stroll::fetch::limit::Limiter;
use stroll::fetch::timetable::{Timetable, throttled};
use stroll::fetch::{Address, Logins};
use stroll::jobs::mirror::{Compare, MirrorError, Spec, mirror};
use stroll::jobs::pull::{Alike, Config};
use stroll::jobs::stop::or_stop;
use stroll::jobs::timing::{RunLog, Timing};
use tokio::sync::watch;

use super::bars::{Bars, Counting, chain};
use super::circles::{self, Circle};
use super::ending::{END_WITHIN, Ending, Stopped, before_the_end};
use super::exit::{Failed, UsageError};
use super::get::summary::code_of;
use super::job::{self, JobArgs};
use super::logging;
use super::transfer::{self, Transfer};
use super::utc;
pub(super) use options::Options;
pub(super) use summary::Summary;

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
  stroll mirror ftp://example.org/pub/ pub/ --include '*.gwf' --every 1h
  stroll mirror https://example.org/data/ replicas/ --delete --backup-dir old/
  stroll mirror https://example.org/data/ replicas/ --delete --dry-run --json

Exit codes:
   0  the replica is complete      1  interrupted, or cannot be written here
   2  wrong arguments              3  no such folder, here or at the source
   5  refused or no answer: later  6  some files or folders failed
   7  the source will not give it  8  --max-transfer is reached
   9  nothing to do, with --fail-if-nothing
  10  out of time                 11  wrong bytes
  12  --max-delete is exceeded    13  the circle gives no slots
  14  disk full";

pub(super) fn run(args: &Args, settings: Transfer) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    let transfer = args.job.transfer.clone().or(settings);
    let mut logins = transfer.logins()?;
    let source = folder_address(&args.url, &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        logins.give(source.clone(), login);
    }
    let spec = args.options.spec(source, args.target.clone(), args.dry_run)?;
    let timing = args.options.timing()?;
    let timetable = transfer.timetable()?;
    let config = config_for(&spec, args.job.config(&transfer, logins, true)?);
    if !args.dry_run {
        job::check_state(&config)?;
    }
    let bars = Bars::new(args.job.show(args.job.json && timing.schedule().is_some()), Counting::Tree);
    logging::start_through(&args.job.log, bars.bars().clone())?;
    // One thread: with more, each answer of the source would wake another one first, which then wakes this one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(repeat(args, &spec, &config, &timetable, &timing, &bars, ending))
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
    timing: &Timing,
    bars: &Bars,
    ending: Ending,
) -> anyhow::Result<()> {
    let (stop, reason) = ending.heed(args.job.max_duration, END_WITHIN);
    let limiter = Limiter::new(None);
    let addresses = [&spec.source];
    let entering = circles::enter("mirror", &args.job.home, args.job.solo, &addresses);
    let mut circle = before_the_end(&stop, &reason, entering).await?;
    bars.entered(&circle);
    let mut log = RunLog::of_mirror(&config.state, &spec.source.to_string(), &spec.target);
    let runs = Runs { args, spec, config, limiter: &limiter, stop: &stop, reason: &reason, bars };
    let all = runs.by(timing, &mut log, &mut circle);
    let result = bars.shown(throttled(timetable, &limiter, Box::pin(all))).await;
    bars.clear();
    circle.leave().await;
    result
}

fn failed(error: MirrorError) -> anyhow::Error {
    match error {
        MirrorError::Target(error) => {
            let message = chain(&error);
            Failed { code: code_of(&PullError::Sink(error)), message }.into()
        }
        error => error.into(),
    }
}

/// Parameters that all runs of one command share.
struct Runs<'a> {
    args: &'a Args,
    spec: &'a Spec,
    config: &'a Config,
    limiter: &'a Limiter,
    stop: &'a watch::Receiver<bool>,
    reason: &'a watch::Receiver<Stopped>,
    bars: &'a Bars,
}

impl Runs<'_> {
    /// Runs when the timing says so.
    async fn by(&self, timing: &Timing, log: &mut RunLog, circle: &mut Circle) -> anyhow::Result<()> {
        let (clock, bars) = (Timestamp::now, self.bars);
        let now = clock();
        if let Some(due) = timing.first_due(log.last_run(), now).filter(|due| *due > now) {
            bars.say(&format!("the first run begins at {}", utc::format_moment(due)));
        }
        if or_stop(self.stop, timing.wait_for_first(log.last_run(), clock)).await != Some(true) {
            return Ok(());
        }
        loop {
            let started = clock();
            let result = self.once(timing, log, started, circle).await;
            if timing.schedule().is_none() || *self.stop.borrow() {
                return result;
            }
            if let Err(error) = &result {
                bars.say(&chain(error.as_ref()));
            }
            match or_stop(self.stop, timing.wait_for_next(started, clock)).await {
                None => return Ok(()),
                Some(false) => return result,
                Some(true) => {}
            }
        }
    }

    async fn once(
        &self,
        timing: &Timing,
        log: &mut RunLog,
        started: Timestamp,
        circle: &mut Circle,
    ) -> anyhow::Result<()> {
        let Self { args, spec, config, limiter, stop, reason, bars } = *self;
        bars.begin_anew();
        let outcome = mirror(spec, config, circle.slots(), limiter, stop, bars).await.map_err(failed)?;
        let is_repeated = timing.schedule().is_some();
        if !is_repeated {
            bars.clear();
        }
        let stopped = *reason.borrow();
        let unslashed = (!args.url.ends_with('/') && !args.url.contains('@')).then_some(args.url.as_str());
        let summary = Summary { spec, outcome: &outcome, stopped, unslashed };
        summary.print(args.job.json, args.job.log.is_quiet(), bars).context("standard output")?;
        let verdict = summary.verdict(args.fail_if_nothing);
        if is_repeated && !spec.dry_run && stopped == Stopped::No {
            let success = verdict.is_ok().then(|| summary.line());
            if let Err(error) = log.completed(started, Timestamp::now(), success.as_deref()) {
                tracing::warn!(%error, "the state folder cannot be written: this run is not remembered");
            }
        }
        verdict
    }
}
