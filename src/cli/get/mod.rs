//! `stroll get`: pull files, alone or in a circle's slots.

mod output;
pub(super) mod summary;

use std::path::PathBuf;

use anyhow::Context as _;
use stroll::fetch::limit::Limiter;
use stroll::fetch::timetable::{Timetable, throttled};
use stroll::jobs::get;
use stroll::jobs::pull::{Config, To, Want};

use super::bars::{Bars, Counting};
use super::circles;
use super::ending::{END_WITHIN, Ending, before_the_end};
use super::exit::UsageError;
use super::job::{self, BEGINS_ANEW, GOES_ON, JobArgs};
use super::logging;
use super::transfer::Transfer;

/// Pull files over HTTP, HTTPS, FTP or FTPS: alone, or in the slots of a circle.
///
/// A file appears under its name only when it is whole and verified; until then it is NAME.stroll.part. The same command again
/// goes on where an earlier one ended, after asking the source whether it is still the same file. Files that are here
/// already, with the size and time of the original, are not pulled again.
///
/// If you are a member of a circle whose source has the files, they are pulled in its slots; --solo does not wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to pull
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// Where to: a file, a folder (with a slash behind it, if it is to be made), or - for standard output [default: this folder]
    #[arg(short, long, value_name = "FILE|DIR|-", env = "STROLL_OUTPUT")]
    output: Option<PathBuf>,

    /// File with more addresses, one a line; - for standard input
    #[arg(short, long, value_name = "FILE", env = "STROLL_INPUT")]
    input: Option<PathBuf>,

    /// What the file must add up to: sha256:HEX, sha512:HEX, md5:HEX or blake3:HEX
    #[arg(long, value_name = "KIND:HEX", env = "STROLL_CHECKSUM")]
    checksum: Option<String>,

    /// Only show what would be pulled
    #[arg(short = 'n', long, env = "STROLL_DRY_RUN")]
    dry_run: bool,

    #[command(flatten)]
    job: JobArgs,
}

const EXAMPLES: &str = "\
Examples:
  stroll get https://example.org/data/frame.gwf
  stroll get ftp://example.org/a.dat ftp://example.org/b.dat -o replicas/
  stroll get https://example.org/big.tar --checksum sha256:9f86d0… --bwlimit 2M
  stroll get https://example.org/log.txt -o - | grep -c ERROR
  stroll get -i list.txt -o replicas/ --sums auto --json

Exit codes:
   0  every file is here           1  interrupted, or cannot be written here
   2  wrong arguments              3  a folder here cannot be used
   4  not found at the source      5  refused or no answer: try again later
   6  some of the files failed     7  the source will not give it: login, denied
  10  out of time                 11  wrong bytes
  13  the circle gives no slots   14  disk full";

pub(super) fn run(args: &Args, settings: Transfer) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    let transfer = args.job.transfer.clone().or(settings);
    let addresses = output::addresses(&args.urls, args.input.as_deref())?;
    let mut logins = transfer.logins()?;
    let wants = output::wants(&addresses, args.output.as_deref(), args.checksum.as_deref(), &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        for want in &wants {
            logins.give(want.address.clone(), login.clone());
        }
    }
    let timetable = transfer.timetable()?;
    let sha256 = args.job.json && !args.dry_run;
    let config = Config { dry_run: args.dry_run, ..args.job.config(&transfer, logins, sha256)? };
    let forgets = forgets(args, &wants, &config)?;
    let show = args.job.show(wants.iter().any(|want| want.to == To::Stdout));
    let bars = Bars::new(show, Counting::Files(wants.len()));
    logging::start_through(&args.job.log, bars.bars().clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(why) = forgets.as_ref().filter(|why| !why.is_empty() && !args.job.log.is_quiet()) {
        bars.say(why);
    }
    let goes_on = if forgets.is_some() { BEGINS_ANEW } else { GOES_ON };
    runtime.block_on(pull(args, wants, &config, timetable, &bars, ending, goes_on))
}

/// Why an interrupted pull cannot be continued: empty if the user wants that, otherwise a warning. An error if a state
/// folder was named in vain.
fn forgets(args: &Args, wants: &[Want], config: &Config) -> Result<Option<String>, UsageError> {
    if !config.resume {
        return Ok(Some(String::new()));
    }
    if config.dry_run || wants.iter().all(|want| want.to == To::Stdout) {
        return Ok(None);
    }
    let Some(why) = job::why_not_writable(&config.state) else { return Ok(None) };
    if args.job.state.is_some() {
        job::check_state(config)?;
    }
    Ok(Some(format!(
        "nothing can be remembered for an interrupted pull: {why}; --state names another folder"
    )))
}

async fn pull(
    args: &Args,
    wants: Vec<Want>,
    config: &Config,
    timetable: Timetable,
    bars: &Bars,
    ending: Ending,
    goes_on: &str,
) -> anyhow::Result<()> {
    let (stop, reason) = ending.heed(args.job.max_duration, END_WITHIN);
    let limiter = Limiter::new(None);
    let addresses: Vec<_> = wants.iter().map(|want| &want.address).collect();
    let is_solo = args.job.solo || args.dry_run;
    let entering = circles::enter("get", &args.job.home, is_solo, &addresses);
    let mut circle = before_the_end(&stop, &reason, entering).await?;
    bars.entered(&circle);
    let names: Vec<_> = wants.iter().map(summary::Named::new).collect();
    let got = get::get(wants, config, circle.slots(), &limiter, &stop, bars);
    let (fates, totals) = bars.shown(throttled(&timetable, &limiter, got)).await;
    bars.clear();
    circle.leave().await;
    let summary =
        summary::Summary { names: &names, fates: &fates, totals, stopped: *reason.borrow(), goes_on };
    summary.print(args.job.json, args.job.log.is_quiet()).context("standard output")?;
    summary.verdict()
}
