//! `stroll get`: pull files, alone or in a circle's slots.

mod bars;
mod output;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use directories::ProjectDirs;
use stroll::base::units::parse_duration;
use stroll::driver::random_bytes;
use stroll::fetch::limit::Limiter;
use stroll::fetch::timetable;
use stroll::jobs::get::{self, Config, Want};
use tokio::sync::watch;

use super::circles;
use super::ending::{Stopped, watch_for_the_end};
use super::exit::UsageError;
use super::homes::HomeArgs;
use super::logging::{self, LogArgs};
use super::progress::Style;
use super::transfer::Transfer;
use bars::Bars;

/// Pull files over HTTP, HTTPS, FTP or FTPS: alone, or in the slots of a circle.
///
/// A file appears under its name only when it is whole and verified; until then it is NAME.part. The same command again goes
/// on where an earlier one ended, after asking the source whether it is still the same file. Files that are here
/// already, with the size and time of the original, are not pulled again.
///
/// If you are a member of a circle whose source has the files, they are pulled in its slots; --solo does not wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub(super) struct Args {
    /// What to pull
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// Where to: a file, a folder, or - for standard output [default: this folder]
    #[arg(short, long, value_name = "FILE|DIR|-", env = "STROLL_OUTPUT")]
    output: Option<String>,

    /// File with more addresses, one a line; - for standard input
    #[arg(short, long, value_name = "FILE", env = "STROLL_INPUT")]
    input: Option<PathBuf>,

    /// What the file must add up to: sha256:HEX, sha512:HEX, md5:HEX or blake3:HEX
    #[arg(long, value_name = "KIND:HEX", env = "STROLL_CHECKSUM")]
    checksum: Option<String>,

    /// Use the lists of checksums that lie beside the files (SHA256SUMS, MD5SUMS, FILE.sha256, FILE.md5)
    #[arg(long, value_enum, default_value_t, env = "STROLL_SUMS")]
    sums: Sums,

    /// Do not go on where an earlier run ended
    #[arg(long, env = "STROLL_NO_RESUME")]
    no_resume: bool,

    /// Do not give the files the time of their originals
    #[arg(long, env = "STROLL_NO_TIMES")]
    no_times: bool,

    /// Only show what would be pulled
    #[arg(short = 'n', long, env = "STROLL_DRY_RUN")]
    dry_run: bool,

    /// End after so long, with exit code 10; the same command goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MAX_DURATION")]
    max_duration: Option<Duration>,

    /// Pull alone, in no circle
    #[arg(long, conflicts_with = "circle", env = "STROLL_SOLO")]
    solo: bool,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    transfer: Transfer,

    /// Where journals are kept [default: stroll in the state folder]
    #[arg(long, value_name = "DIR", env = "STROLL_STATE")]
    state: Option<PathBuf>,

    /// Print what was done as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// How progress is shown
    #[arg(long, value_enum, default_value_t, env = "STROLL_PROGRESS")]
    progress: Style,

    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  stroll get https://example.org/data/frame.gwf
  stroll get ftp://example.org/pub/a.dat ftp://example.org/pub/b.dat -o replicas/
  stroll get https://example.org/big.tar --checksum sha256:9f86d0… --bwlimit 2M
  stroll get https://example.org/log.txt -o - | grep -c ERROR
  stroll get -i list.txt -o replicas/ --sums auto --json";

/// Whether lists of checksums are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sums {
    /// Look for them
    Auto,
    /// Do not
    #[default]
    Off,
}

pub(super) fn run(args: &Args, settings: Transfer) -> anyhow::Result<()> {
    let transfer = args.transfer.clone().or(settings);
    let addresses = output::addresses(&args.urls, args.input.as_deref())?;
    let mut logins = transfer.logins()?;
    let wants = output::wants(&addresses, args.output.as_deref(), args.checksum.as_deref(), &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        for want in &wants {
            logins.give(want.address.clone(), login.clone());
        }
    }
    let timetable = transfer.timetable()?;
    let config = Config {
        options: Arc::new(transfer.options(logins)?),
        connections: transfer.connections()?,
        patience: transfer.patience(),
        min_speed: transfer.min_speed()?,
        sums: args.sums == Sums::Auto,
        resume: !args.no_resume,
        times: !args.no_times,
        sha256: args.json && !args.dry_run,
        chunk: transfer.chunk()?,
        idle_grace: transfer.idle_grace(),
        state: state_folder(args.state.clone())?,
        dry_run: args.dry_run,
        seed: u64::from_be_bytes(random_bytes()?),
    };
    let show = args.progress.resolve(args.log.is_quiet());
    let bars = Bars::new(show, wants.len());
    logging::start_through(&args.log, bars.bars().clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(pull(args, wants, &config, timetable, &bars))
}

async fn pull(
    args: &Args,
    wants: Vec<Want>,
    config: &Config,
    timetable: timetable::Timetable,
    bars: &Bars,
) -> anyhow::Result<()> {
    let (order, stop) = watch::channel(false);
    let reason = watch_for_the_end(order, args.max_duration)?;
    let limiter = Limiter::new(None);
    let addresses: Vec<_> = wants.iter().map(|want| &want.address).collect();
    let mut circle = circles::enter(&args.home, args.solo || args.dry_run, &addresses).await?;
    if let Some(name) = circle.name() {
        bars.say(&format!("in the slots of circle {name}"));
    }
    let names: Vec<_> = wants.iter().map(summary::Named::new).collect();
    let (fates, totals) = {
        let got = get::get(wants, config, circle.slots(), &limiter, &stop, bars);
        let throttled = timetable::follow(&timetable, &limiter);
        tokio::select! {
            got = got => got,
            never = throttled => match never {},
        }
    };
    bars.clear();
    circle.leave().await;
    let summary = summary::Summary { names: &names, fates: &fates, totals, stopped: *reason.borrow() };
    summary.print(args.json, args.log.is_quiet()).context("standard output")?;
    summary.verdict()
}

fn state_folder(named: Option<PathBuf>) -> Result<PathBuf, UsageError> {
    if let Some(path) = named {
        return Ok(path);
    }
    let dirs = ProjectDirs::from("", "", "stroll").ok_or_else(|| {
        UsageError("state: there is no home folder; say with --state where to keep journals".into())
    })?;
    Ok(dirs.state_dir().unwrap_or_else(|| dirs.data_dir()).to_owned())
}
