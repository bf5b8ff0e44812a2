//! `stroll demo`: a circle on this computer, from invitation to replica, beside the same labs without one.
//!
//! ```text
//! content -> source (http, ftp; meter) <- lab processes -> replica -> report
//!                                          ^ killing        ^ screen, while it runs
//! ```

mod content;
mod folder;
mod ftp;
mod http;
mod killing;
mod lab;
mod meter;
mod plan;
mod process;
mod replica;
mod report;
mod running;
mod screen;
mod source;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use stroll::base::units::{human_duration, parse_duration};
use stroll::driver::random_bytes;
use tokio::signal::unix::{SignalKind, signal};

use content::Content;
use folder::Folder;
use plan::{Plan, Ring};
use report::Report;
use screen::Screen;
use source::{Protocol, Source};

use super::circle::ModeName;
use super::ending::{END_WITHIN, Ending};
use super::exit::{Code, Failed, Passed, UsageError};
use super::progress::Style;

pub(super) use process::end_with_parent;

/// In less time nothing is to be seen.
const SHORTEST: Duration = Duration::from_secs(4);

/// The smallest ring of tickets that goes on without one of its members.
const TICKETS: u16 = 3;
const FAULTS: u8 = 1;

/// Where the page is, if nobody says otherwise: at any port that is free.
const ANYWHERE: &str = "127.0.0.1:0";

/// Watch a circle at work on this computer; needs no set-up and no network.
///
/// Starts a source that produces a stream of files, with a link that is just large enough, and members of a circle that
/// replicate it in turn: each a process of its own, invited and joined as real labs would be. Beside them as many labs
/// pull from a source of the same kind without a circle. After 20 seconds every replica is compared with its original,
/// byte by byte, and what the two sources saw is printed side by side.
///
/// With `--mode tickets` no token wanders: up to three members pull at once, each by a ticket of its own, and one more than
/// that would end the demo with an error. Those who have a ticket vouch for each other; if one of three dies, the others
/// take its ticket back (`--kill-holder`). Of two nobody can tell who died, so the one that is left waits for the other.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
#[command(after_help = "Examples:
  stroll demo
  stroll demo --kill-holder              see that a token in custody is not lost
  stroll demo --mode tickets             see three at once, and never four
  stroll demo --mode tickets --tickets 2 --members 8
  stroll demo --overload --for 40s       see what members say when overloaded
  stroll demo --members 12 --keep demo/  look at logs and replicas afterwards")]
pub(super) struct Args {
    /// For how long, once all members are there
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "20s", env = "STROLL_FOR")]
    span: Duration,

    /// How many members
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=30), default_value = "5", env = "STROLL_MEMBERS")]
    members: u16,

    /// How members take turns
    #[arg(long, value_enum, default_value_t = ModeName::Token, env = "STROLL_MODE")]
    mode: ModeName,

    /// How many members may pull at once (tickets) [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=9), env = "STROLL_TICKETS")]
    tickets: Option<u16>,

    /// How many of those with a ticket may crash at once (tickets) [default: 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(1..=4), env = "STROLL_FAULTS")]
    faults: Option<u8>,

    /// Which rules the token follows
    #[arg(long, value_parser = PossibleValuesParser::new(["guarded", "classic", "early"]), default_value = "guarded", env = "STROLL_RULES")]
    rules: String,

    /// Kill a member while it holds the token or a ticket, and start it again
    #[arg(long, env = "STROLL_KILL_HOLDER")]
    kill_holder: bool,

    /// A stream that the link cannot carry, and more members than the circle was laid out for
    #[arg(long, env = "STROLL_OVERLOAD")]
    overload: bool,

    /// Without the labs that pull without a circle
    #[arg(long, env = "STROLL_NO_COMPARISON")]
    no_comparison: bool,

    /// Only run the source, to try other commands with
    #[arg(long, conflicts_with_all = ["kill_holder", "overload", "json"], env = "STROLL_SOURCE_ONLY")]
    source_only: bool,

    /// Do it in this folder, and leave everything there
    #[arg(long, value_name = "DIR", env = "STROLL_KEEP")]
    keep: Option<PathBuf>,

    /// Where the first member's status page is [default: a free port of this computer]
    #[arg(long, value_name = "IP:PORT", default_value = ANYWHERE, hide_default_value = true, env = "STROLL_PAGE")]
    page: SocketAddr,

    /// No status page
    #[arg(long, conflicts_with = "page", env = "STROLL_NO_PAGE")]
    no_page: bool,

    /// Print what was seen as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// How progress is shown
    #[arg(long, value_enum, default_value_t, env = "STROLL_PROGRESS")]
    progress: Style,
}

impl Args {
    fn plan(&self) -> Result<Plan, UsageError> {
        if self.span < SHORTEST {
            return Err(UsageError(format!("for: must be at least {}", human_duration(SHORTEST))));
        }
        Ok(Plan {
            members: usize::from(self.members),
            ring: self.ring()?,
            span: self.span,
            is_overload: self.overload,
            is_guarded: self.rules == "guarded",
            is_compared: !self.no_comparison,
            kills_holder: self.kill_holder,
        })
    }

    fn ring(&self) -> Result<Option<Ring>, UsageError> {
        match self.mode {
            ModeName::Token if self.tickets.is_some() || self.faults.is_some() => {
                Err(UsageError("tickets: --tickets and --faults go with --mode tickets".to_owned()))
            }
            ModeName::Token => Ok(None),
            ModeName::Tickets => {
                let (tickets, faults) = (self.tickets.unwrap_or(TICKETS), self.faults.unwrap_or(FAULTS));
                Ok(Some(Ring { tickets, faults }))
            }
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let _ = Ending::watch()?.heed(None, END_WITHIN);
    let plan = args.plan()?;
    let folder = Folder::create(args.keep.as_deref())?;
    let mut screen = Screen::new(args.progress.resolve(false));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let ended = {
            let demo = demo(args, &plan, &folder, &mut screen);
            tokio::select! {
                ended = demo => ended,
                interrupted = interrupted() => interrupted,
            }
        };
        screen.clear();
        let path = folder.path().display().to_string();
        let removed = folder.remove().await.with_context(|| format!("cannot remove {path}"));
        ended.and(removed)
    })
}

/// Ends at a signal. All processes end when the demo is dropped.
async fn interrupted() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let code = tokio::select! {
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
    };
    Err(Passed { code, message: "interrupted".to_owned() }.into())
}

async fn demo(args: &Args, plan: &Plan, folder: &Folder, screen: &mut Screen) -> anyhow::Result<()> {
    let content = Content::new(u64::from_be_bytes(random_bytes()?), plan.stream_rate());
    let lab = folder.path().join("source");
    content.lay_out(&lab).with_context(|| lab.display().to_string())?;
    let source = Source::start(&lab, plan.link_rate(), plan.at_once()).await?;
    if args.source_only {
        return source_only(plan, &content, &lab, &source).await;
    }
    let page = (!args.no_page).then_some(args.page);
    let report = running::run(plan, &args.rules, page, content, folder.path(), source, screen).await?;
    screen.clear();
    print(args, &report)?;
    if let Some(keep) = &args.keep {
        eprintln!("Everything is left in {}", keep.display());
    }
    verdict(&report)
}

/// The source alone, for as long as it is wanted.
async fn source_only(
    plan: &Plan,
    content: &Content,
    folder: &std::path::Path,
    source: &Source,
) -> anyhow::Result<()> {
    for protocol in [Protocol::Http, Protocol::Ftp] {
        println!("{}", source.url(protocol, ""));
    }
    let produced = content::Produced::default();
    Ok(content::produce(*content, folder, plan.span, &produced).await?)
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    let text = if args.json { format!("{}\n", report.to_json()) } else { report.to_text() };
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

fn verdict(report: &Report) -> anyhow::Result<()> {
    let wrongs = report.wrongs();
    if wrongs.is_empty() {
        return Ok(());
    }
    let is_about_bytes = report.circle.labs.iter().any(|lab| !lab.comparison.wrong.is_empty());
    let code = if is_about_bytes { Code::Integrity } else { Code::Other };
    Err(Failed { code, message: wrongs.join("; ") }.into())
}
