//! `stroll exec`: run somebody else's command, in a circle's slots only.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use stroll::base::units::parse_duration;
use stroll::driver::random_bytes;
use stroll::jobs::Patience;
use stroll::jobs::exec::{self, ExecError, Outcome, Plan, exit_code};
use stroll::jobs::stop::or_stop;
use stroll::jobs::timing::{RunLog, Timing};
use stroll::peer::Errand;
use tokio::sync::watch;

use super::circles::{self, Circle};
use super::ending::{END_WITHIN, Ending, Stopped, before_the_end};
use super::exit::{Code, Failed, Passed, Unreachable, UsageError};
use super::homes::HomeArgs;
use super::job::state_folder;
use super::logging::{self, LogArgs};

/// Run any resumable command in the slots of a circle only.
///
/// The command is started when the token comes. A little before the slot's end it gets SIGTERM; what is left of it at the end
/// is killed, with everything that it started. In the next slot it is started again, so it must be one that goes on where
/// it was. Exit code 0 means that its work is done. It sees STROLL_CIRCLE, STROLL_SLOT_UNTIL (RFC 3339), STROLL_SLOT_SECONDS
/// and STROLL_DEADLINE_S (seconds since 1970).
///
/// Without a circle it is run once, directly. Its exit code is passed on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to run, after --
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,

    /// How long before the slot's end it gets SIGTERM
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms", env = "STROLL_GRACE")]
    grace: Duration,

    /// How often to try again after a failure, later each time
    #[arg(long, value_name = "N", default_value_t = 0, env = "STROLL_RETRIES")]
    retries: u32,

    /// Run it again so long after it began last
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_EVERY", conflicts_with = "schedule")]
    every: Option<Duration>,

    /// Run it when cron would: "30 2 * * *", or "TZ=Europe/Rome 30 2 * * *"
    #[arg(long, value_name = "CRON", env = "STROLL_SCHEDULE")]
    schedule: Option<String>,

    /// With --schedule: run it at once if a time of the schedule was missed since the last run, or there was none yet
    #[arg(long, env = "STROLL_CATCH_UP", requires = "schedule")]
    catch_up: bool,

    /// Where the time of the last run is kept [default: stroll in the state folder]
    #[arg(long, value_name = "DIR", env = "STROLL_STATE")]
    state: Option<PathBuf>,

    /// End after so long, with exit code 10
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MAX_DURATION")]
    max_duration: Option<Duration>,

    /// Let the command read standard input; it is in the background of a terminal all the same
    #[arg(long, env = "STROLL_STDIN")]
    stdin: bool,

    /// Run it at once, in no circle
    #[arg(long, conflicts_with = "circle", env = "STROLL_SOLO")]
    solo: bool,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  stroll exec -- wget -c ftp://example.org/stream/big.dat
  stroll exec --grace 1s -- rsync -a --partial rsync://example.org/pub/ pub/
  stroll exec --every 6h -- lftp -c 'mirror -c https://example.org/data/ data/'";

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    logging::start(&args.log)?;
    let timing = Timing::new(args.every, args.schedule.as_deref(), args.catch_up);
    let timing = timing.map_err(|error| UsageError(error.to_string()))?;
    let plan = plan(args)?;
    let log = match timing.schedule() {
        Some(_) => {
            Some(RunLog::of_command(&state_folder(args.state.clone())?, "", &plan.program, &plan.args))
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stop, reason) = ending.heed(args.max_duration, END_WITHIN);
        // The program alone: its arguments may be secret, and the member shows this on its page.
        let errand = Errand::new("exec", &plan.program.to_string_lossy());
        let entering = circles::enter_only(&args.home, args.solo, &errand);
        let mut circle = before_the_end(&stop, &reason, entering).await?;
        announce(args, &circle);
        let plan = Plan { circle: circle.name().map(str::to_owned), ..plan };
        let outcome = repeat(&plan, &timing, log, &mut circle, &stop).await;
        circle.leave().await;
        let reason = *reason.borrow();
        verdict(&plan, outcome, reason)
    })
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(UsageError("command: there is none".into()).into());
    };
    Ok(Plan {
        program: program.clone(),
        args: rest.to_vec(),
        circle: None,
        grace: args.grace,
        stdin: args.stdin,
        patience: Patience { retries: args.retries, ..Patience::default() },
        seed: u64::from_be_bytes(random_bytes()?),
    })
}

fn announce(args: &Args, circle: &Circle) {
    match circle.name() {
        _ if args.log.is_quiet() => {}
        Some(name) => eprintln!("in the slots of circle {name}"),
        None if args.solo => {}
        None => eprintln!("there is no circle here: running alone"),
    }
}

/// Runs the command until its work is done, when the timing says so. By a schedule a run that fails does not end it.
async fn repeat(
    plan: &Plan,
    timing: &Timing,
    mut log: Option<RunLog>,
    circle: &mut Circle,
    stop: &watch::Receiver<bool>,
) -> Result<Outcome, ExecError> {
    let last_run = log.as_ref().and_then(RunLog::last_run);
    match or_stop(stop, timing.wait_for_first(last_run, Timestamp::now)).await {
        None => return Ok(Outcome::Stopped),
        Some(false) => return Ok(Outcome::Done),
        Some(true) => {}
    }
    loop {
        let started = Timestamp::now();
        let outcome = exec::exec(plan, circle.slots(), stop, &()).await?;
        let Some(schedule) = timing.schedule() else { return Ok(outcome) };
        let success = match outcome {
            Outcome::Done => {
                tracing::info!(%schedule, "done; it is run again");
                Some("done")
            }
            Outcome::Failed(status) => {
                tracing::error!(%status, %schedule, "failed; it is run again");
                None
            }
            Outcome::Stopped | Outcome::NoSlots => return Ok(outcome),
        };
        if let Some(log) = &mut log
            && let Err(error) = log.completed(started, Timestamp::now(), success)
        {
            tracing::warn!(%error, "the state folder cannot be written: this run is not remembered");
        }
        match or_stop(stop, timing.wait_for_next(started, Timestamp::now)).await {
            None => return Ok(Outcome::Stopped),
            Some(false) => return Ok(outcome),
            Some(true) => {}
        }
    }
}

fn verdict(plan: &Plan, outcome: Result<Outcome, ExecError>, reason: Stopped) -> anyhow::Result<()> {
    let program = plan.program.to_string_lossy();
    match outcome {
        Ok(Outcome::Done) => Ok(()),
        Ok(Outcome::Failed(status)) => {
            Err(Passed { code: exit_code(status), message: format!("{program}: {status}") }.into())
        }
        Ok(Outcome::Stopped) if reason == Stopped::OutOfTime => {
            Err(Failed { code: Code::Deadline, message: "out of time".into() }.into())
        }
        Ok(Outcome::Stopped) => Err(Failed { code: Code::Other, message: "interrupted".into() }.into()),
        Ok(Outcome::NoSlots) => Err(Unreachable("the circle gives no more slots".into()).into()),
        // As env, timeout and shells do.
        Err(ExecError::Start { error, .. }) => {
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            Err(Passed { code, message: format!("{program}: {error}") }.into())
        }
        Err(error) => Err(error.into()),
    }
}
