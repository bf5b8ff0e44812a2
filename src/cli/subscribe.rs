//! `stroll subscribe`: follow a stream of files, alone or in a circle's slots.

mod teller;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::json;
use stroll::base::units::{deserialize_duration, human_duration, human_size, parse_duration, parse_size};
use stroll::fetch::engine::PullError;
use stroll::fetch::limit::Limiter;
use stroll::fetch::timetable::{Timetable, throttled};
use stroll::fetch::{Address, Fault, Logins};
use stroll::jobs::filter::{Filter, Rules};
use stroll::jobs::hook::Hook;
use stroll::jobs::pull::Config;
use stroll::jobs::stop::or_stop;
use stroll::jobs::subscribe::{
    self as job, DeliveryError, How, Lag, Order, Outcome, Output, Since, Spec, SubscribeError, named,
};
use stroll::jobs::template::Template;

use super::bars::{Bars, Counting, chain};
use super::circles;
use super::ending::{END_WITHIN, Ending, Stopped};
use super::exit::{Code, Failed, UsageError};
use super::get::summary::{checksums, code_of};
use super::job::{JobArgs, check_state};
use super::logging;
use super::transfer::{self, Transfer};
use teller::Teller;

/// Looks are at least so far apart: a listing is work for a source, and NCEP asks not to list at all.
const POLL: Duration = Duration::from_secs(10);

/// As long as two looks are apart.
const SETTLE: Duration = POLL;

/// Whoever writes a file at its moment has written it by then.
const DELAY: Duration = Duration::from_secs(5);
const GIVE_UP: Duration = Duration::from_secs(3_600);

/// A command that takes longer hangs.
const EXEC_TIMEOUT: Duration = Duration::from_secs(3_600);

/// How often one file is tried before the next one has its turn; it is tried again later.
pub(super) const RETRIES: u32 = 4;

/// Follow a stream: files that appear in a folder, files whose names are known, or a file that grows; alone, or in the slots of a circle.
///
/// What appears from the first start on is pulled, in order, and delivered at least once: a restart goes on where the last
/// run ended, and delivers first what is here and was not delivered. A file is pulled when it has not changed for a
/// while, and again if it changes later. How far behind the source we are is shown all the time.
///
/// Names that cannot be used here are told once each, counted, and make the exit code 6.
///
/// The command of --exec finds STROLL_FILE, STROLL_PATH, STROLL_URL, STROLL_SIZE, STROLL_SHA256 and STROLL_MODIFIED in its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The folder in which files appear; with --follow, a folder or a file that grows
    #[arg(value_name = "URL")]
    url: String,

    /// Where replicas go
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    #[command(flatten)]
    stream: StreamOptions,

    #[command(flatten)]
    job: JobArgs,
}

const EXAMPLES: &str = "\
Examples:
  stroll subscribe https://example.org/frames/ frames/
  stroll subscribe ftp://example.org/stream/ in/ --exec 'process \"$STROLL_FILE\"'
  stroll subscribe https://example.org/granules/ in/ --since 2d --recursive
  stroll subscribe https://example.org/frames/ in/ --stdout | analyse
  stroll subscribe https://example.org/events.log in/ --follow
  stroll subscribe https://example.org/frames/ in/ --step 60s \\
      --name-template '%Y/%j/frame-%H%M.gwf'

Exit codes:
   0  ended by a signal            1  something else, such as a failing reader
   2  wrong arguments              3  no such folder, here or at the source
   4  no such file, with --follow  5  refused or no answer: try again later
   6  some names were refused      7  the source will not give it
  10  out of time                 13  the circle gives no slots
  14  disk full";

/// What is wanted of a stream: as flags, and as a table of the settings.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of the user's flags")]
pub(super) struct StreamOptions {
    /// The first time, from when on: now, all, a time (2026-01-31, 2026-01-31T12:00Z) or how long ago (2d) [default: now]
    #[arg(long, value_name = "now|all|TIME|SPAN", env = "STROLL_SINCE")]
    pub(super) since: Option<String>,

    /// The least time between two looks at the source [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_POLL")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) poll: Option<Duration>,

    /// For how long a file must not have changed, over two looks or by its own time [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_SETTLE")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) settle: Option<Duration>,

    /// In which order files are delivered [default: time]
    #[arg(long, value_enum, value_name = "ORDER", env = "STROLL_ORDER")]
    pub(super) order: Option<ByWhat>,

    /// Folders in the folder, too
    #[arg(long, env = "STROLL_RECURSIVE")]
    pub(super) recursive: bool,

    /// Refuse names that some platform cannot hold: `:` and `\`, spaces and dots at the end, CON, other than UTF-8, more
    /// than 250 bytes, or equal but for case
    #[arg(long, env = "STROLL_PORTABLE_NAMES")]
    pub(super) portable_names: bool,

    /// Files that grow: what is new of the file, or of those in the folder, is appended and delivered as it comes, settled
    /// or not
    #[arg(long, env = "STROLL_FOLLOW")]
    pub(super) follow: bool,

    /// What to do with the replica of a growing file that is suddenly another one: keep it as NAME.TIME, or drop it
    /// [default: keep]
    #[arg(long, value_enum, value_name = "WHAT", env = "STROLL_ON_ROTATE")]
    pub(super) on_rotate: Option<OnRotate>,

    /// Names that are known, by strftime in UTC: %Y/%m/%d/frame-%H%M%S.gwf. Nothing is listed then; needs --step
    #[arg(long, value_name = "TEMPLATE", conflicts_with_all = ["follow", "include", "exclude", "recursive"], env = "STROLL_NAME_TEMPLATE")]
    pub(super) name_template: Option<String>,

    /// How often there is a new name
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_STEP")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) step: Option<Duration>,

    /// How long after its moment a file is expected [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_DELAY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) delay: Option<Duration>,

    /// How long after its moment a file is waited for, if the one after it does not come either [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_GIVE_UP")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) give_up: Option<Duration>,

    /// Only files that match, as rclone's filters; may be given several times
    #[arg(long, value_name = "PATTERN", env = "STROLL_INCLUDE")]
    pub(super) include: Vec<String>,

    /// No files that match; may be given several times
    #[arg(long, value_name = "PATTERN", env = "STROLL_EXCLUDE")]
    pub(super) exclude: Vec<String>,

    /// File with more of them, as rclone's
    #[arg(long, value_name = "FILE", env = "STROLL_FILTER_FROM")]
    pub(super) filter_from: Option<PathBuf>,

    /// No larger files
    #[arg(long, value_name = "SIZE", env = "STROLL_MAX_SIZE")]
    pub(super) max_size: Option<String>,

    /// No smaller files
    #[arg(long, value_name = "SIZE", env = "STROLL_MIN_SIZE")]
    pub(super) min_size: Option<String>,

    /// Command for each file that is here, in order
    #[arg(long, value_name = "CMD", env = "STROLL_EXEC")]
    pub(super) exec: Option<String>,

    /// What to do when it fails: try until it succeeds, or go on with the next file after three times [default: retry]
    #[arg(long, value_enum, value_name = "WHAT", env = "STROLL_EXEC_FAILURE")]
    pub(super) exec_failure: Option<OnFailure>,

    /// How long it may take [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_EXEC_TIMEOUT")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) exec_timeout: Option<Duration>,

    /// The bytes to standard output, too, in order
    #[arg(long, env = "STROLL_STDOUT")]
    pub(super) stdout: bool,

    /// Remove replicas so long after they were pulled, if they were delivered [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, env = "STROLL_KEEP")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) keep: Option<Duration>,
}

/// By what files are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ByWhat {
    /// By the time of their last change, then by name
    Time,
    /// By name
    Name,
}

/// What becomes of an old replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnRotate {
    /// It is kept under another name
    Keep,
    /// It is removed
    Drop,
}

/// What to do when a command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnFailure {
    /// Try again, later each time; what comes after it waits
    Retry,
    /// Try three times, then go on
    Skip,
}

impl StreamOptions {
    /// What it comes to. Times that are relative are so to `now_s`.
    pub(super) fn spec(&self, address: Address, target: PathBuf, now_s: i64) -> Result<Spec, UsageError> {
        if !address.is_folder() && !self.follow {
            let why =
                format!("{address}: a folder ends in a slash; a single file can be followed with --follow");
            return Err(UsageError(why));
        }
        let hook = self.exec.as_deref().map(Hook::parse).transpose();
        Ok(Spec {
            how: self.how(&address)?,
            since: since(self.since.as_deref().unwrap_or("now"), now_s)?,
            poll: self.poll.unwrap_or(POLL),
            hook: hook.map_err(|error| UsageError(format!("exec: {error}")))?,
            hook_limit: self.exec_timeout.unwrap_or(EXEC_TIMEOUT),
            skip_failures: self.exec_failure == Some(OnFailure::Skip),
            output: if self.stdout { Output::Bytes } else { Output::Nothing },
            keep: self.keep,
            address,
            target,
        })
    }

    fn how(&self, address: &Address) -> Result<How, UsageError> {
        if let Some(template) = &self.name_template {
            return self.named(template);
        }
        if let Some(flag) = self.is_for_names() {
            return Err(UsageError(format!("{flag}: is for --name-template")));
        }
        let keep_old = self.on_rotate != Some(OnRotate::Drop);
        if self.follow && !address.is_folder() {
            return Ok(How::Growing { keep_old });
        }
        let size = |name: &str, text: Option<&str>| {
            let size = text.map(parse_size).transpose();
            size.map_err(|error| UsageError(format!("{name}: {error}")))
        };
        let rules = Rules {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            filter_from: self.filter_from.clone(),
            max_size: size("max-size", self.max_size.as_deref())?,
            min_size: size("min-size", self.min_size.as_deref())?,
            ..Rules::default()
        };
        let filter = Filter::new(&rules).map_err(|error| UsageError(chain(&error)))?;
        Ok(How::Folder {
            filter: Box::new(filter),
            order: if self.order == Some(ByWhat::Name) { Order::Name } else { Order::Time },
            settle: self.settle.unwrap_or(SETTLE),
            recursive: self.recursive,
            follow: self.follow.then_some(keep_old),
        })
    }

    fn is_for_names(&self) -> Option<&'static str> {
        let flags = [("step", self.step), ("delay", self.delay), ("give-up", self.give_up)];
        flags.into_iter().find_map(|(flag, span)| span.map(|_| flag))
    }

    fn named(&self, template: &str) -> Result<How, UsageError> {
        let step = self.step.ok_or_else(|| UsageError("name-template: needs --step".into()))?;
        if self.since.as_deref() == Some("all") {
            return Err(UsageError("since: names by a template have no first one; say a time".into()));
        }
        let template =
            Template::parse(template, step).map_err(|error| UsageError(format!("name-template: {error}")))?;
        Ok(How::Named(named::Config {
            template,
            delay: self.delay.unwrap_or(DELAY),
            give_up: self.give_up.unwrap_or(GIVE_UP),
            again: self.poll.unwrap_or(POLL),
            portable: self.portable_names,
        }))
    }
}

fn since(text: &str, now_s: i64) -> Result<Since, UsageError> {
    match text {
        "now" => return Ok(Since::Now),
        "all" => return Ok(Since::All),
        _ => {}
    }
    if let Ok(span) = parse_duration(text) {
        return Ok(Since::At(now_s.saturating_sub_unsigned(span.as_secs())));
    }
    let date = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| Some(date()?.timestamp()));
    time.map(|time| Since::At(time.as_second())).ok_or_else(|| {
        let why =
            format!("since: `{text}` is neither now, all, a time such as 2026-01-31 nor a span such as 2d");
        UsageError(why)
    })
}

pub(super) fn run(args: &Args, settings: Transfer) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    let mut transfer = args.job.transfer.clone().or(settings);
    transfer.retries.get_or_insert(RETRIES);
    let (address, logins) = login(&args.url, &transfer)?;
    let mut spec = args.stream.spec(address, args.dir.clone(), jiff::Timestamp::now().as_second())?;
    if args.job.json {
        if spec.output == Output::Bytes {
            return Err(UsageError("json: standard output has the stream already".into()).into());
        }
        spec.output = Output::Lines;
    }
    let timetable = transfer.timetable()?;
    let mut config = args.job.config(&transfer, logins, true)?;
    check_state(&config)?;
    config.patience.at_first = true;
    Arc::make_mut(&mut config.options).portable_names = args.stream.portable_names;
    let show = args.job.show(spec.output != Output::Nothing);
    let bars = Bars::new(show, Counting::Stream);
    logging::start_through(&args.job.log, bars.bars().clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(follow(args, spec, &config, timetable, &bars, ending));
    // A reader that does not read keeps nobody here.
    runtime.shutdown_background();
    done
}

/// Where a stream is, and who we are there.
pub(super) fn login(url: &str, transfer: &Transfer) -> anyhow::Result<(Address, Logins)> {
    let mut logins = transfer.logins()?;
    let address = transfer::address(url, &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        logins.give(address.clone(), login);
    }
    Ok((address, logins))
}

async fn follow(
    args: &Args,
    spec: Spec,
    config: &Config,
    timetable: Timetable,
    bars: &Bars,
    ending: Ending,
) -> anyhow::Result<()> {
    let (stop, reason) = ending.heed(args.job.max_duration, END_WITHIN);
    let limiter = Limiter::new(None);
    let address = spec.address.clone();
    let addresses = [&spec.address];
    let entering = circles::enter("subscribe", &args.job.home, args.job.solo, &addresses);
    let Some(entered) = or_stop(&stop, entering).await else { return verdict(*reason.borrow()) };
    let mut circle = entered?;
    bars.entered(&circle);
    let done = {
        let teller = Teller::new(bars, &spec);
        let job = job::subscribe(spec, config, circle.slots(), &limiter, &stop, &teller);
        bars.shown(throttled(&timetable, &limiter, Box::pin(job))).await
    };
    bars.clear();
    circle.leave().await;
    let outcome = done.map_err(|error| failed(error, &address))?;
    if !args.job.log.is_quiet() {
        eprintln!("{}", line(&outcome));
    }
    let Lag { refused, .. } = outcome.lag;
    let checksums = &outcome.totals.checksums;
    bars.event(
        &json!({"event": "end", "totals": outcome.totals, "refused": refused, "checksums": checksums}),
    );
    let stopped = *reason.borrow();
    if stopped == Stopped::No {
        return verdict(stopped);
    }
    some_refused(refused)?;
    verdict(stopped)
}

/// Files that were never pulled make a run that failed in part, also when its time is over: that is how most runs end.
fn some_refused(refused: usize) -> anyhow::Result<()> {
    if refused == 0 {
        return Ok(());
    }
    let names = if refused == 1 { "name was" } else { "names were" };
    let message = format!("{refused} {names} refused, so not everything at the source is here");
    Err(Failed { code: Code::SomeFailed, message }.into())
}

fn line(outcome: &Outcome) -> String {
    let bytes = human_size(outcome.totals.bytes);
    let span = human_duration(Duration::from_secs_f64(outcome.totals.elapsed_s));
    format!("{bytes} in {span}, {}{}", outcome.lag, checksums(&outcome.totals))
}

/// A subscription has no end of its own, so being told to end is none that failed.
fn verdict(stopped: Stopped) -> anyhow::Result<()> {
    let (code, message) = match stopped {
        Stopped::Interrupted => return Ok(()),
        Stopped::OutOfTime => (Code::Deadline, "out of time; the same command goes on where this one ended"),
        Stopped::No => (Code::Unreachable, "the circle gives no more slots"),
    };
    Err(Failed { code, message: message.to_owned() }.into())
}

fn failed(error: SubscribeError, address: &Address) -> anyhow::Error {
    match error {
        // Whoever closes the pipe has had enough.
        SubscribeError::Delivery(DeliveryError::Output(error)) => {
            anyhow::Error::from(error).context("standard output")
        }
        SubscribeError::Source(fault) => {
            let message = format!("{address}: {}", chain(&fault));
            let is_folder = matches!(fault, Fault::NotFound(_)) && address.is_folder();
            let code = if is_folder { Code::FolderNotFound } else { code_of(&PullError::Source(fault)) };
            Failed { code, message }.into()
        }
        SubscribeError::Pull(error) => Failed { code: code_of(&error), message: chain(&error) }.into(),
        SubscribeError::Target(error) => {
            let message = chain(&error);
            Failed { code: code_of(&PullError::Sink(error)), message }.into()
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_word_a_time_or_a_span() {
        let now_s = 1_000_000_000;
        assert_eq!(since("now", now_s).unwrap(), Since::Now);
        assert_eq!(since("all", now_s).unwrap(), Since::All);
        assert_eq!(since("2h", now_s).unwrap(), Since::At(now_s - 7_200));
        assert_eq!(since("1970-01-02", now_s).unwrap(), Since::At(86_400));
        assert_eq!(since("1970-01-01T00:01:00Z", now_s).unwrap(), Since::At(60));
        assert!(since("yesterday", now_s).unwrap_err().to_string().starts_with("since:"));
    }

    #[test]
    fn a_table_of_the_settings_says_the_same_as_the_flags() {
        let table = "since = \"2d\"\npoll = \"30s\"\ninclude = [\"*.gwf\"]\norder = \"name\"\nexec_failure = \"skip\"";
        let options: StreamOptions = toml::from_str(table).unwrap();
        assert_eq!(options.poll, Some(Duration::from_secs(30)));
        assert_eq!((options.order, options.exec_failure), (Some(ByWhat::Name), Some(OnFailure::Skip)));
        assert!(toml::from_str::<StreamOptions>("sinse = \"now\"").is_err());
        let address = Address::parse("http://h/a/").unwrap().0;
        assert_eq!(options.spec(address, "x".into(), 0).unwrap().since, Since::At(-172_800));
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let address = Address::parse("http://h/a").unwrap().0;
        let error = StreamOptions::default().spec(address, "x".into(), 0).unwrap_err();
        assert!(error.to_string().contains("slash"), "{error}");
    }
}
