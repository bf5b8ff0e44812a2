//! The log: to stderr or a file, as text or JSON, as much of it as asked for.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgAction, ValueEnum};
use indicatif::MultiProgress;
use stroll::peer::DONE;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::SystemTime;

use super::exit::UsageError;

/// How much is logged, and how it looks.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Say more; twice for everything
    #[arg(short, long, action = ArgAction::Count, env = "STROLL_VERBOSE")]
    verbose: u8,

    /// Say only what is wrong
    #[arg(short, long, conflicts_with = "verbose", env = "STROLL_QUIET")]
    quiet: bool,

    /// How log lines look
    #[arg(long, value_enum, default_value_t, env = "STROLL_LOG_FORMAT")]
    log_format: Format,

    /// Append log lines to this file, not to stderr; progress and what a command has to say stay there
    #[arg(long, value_name = "FILE", env = "STROLL_LOG_FILE")]
    log_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// One object per line
    Json,
}

impl LogArgs {
    /// Whether only what is wrong is to be said.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// Starts logging, to stderr if no file is named. Once per process.
pub(super) fn start(args: &LogArgs) -> Result<(), UsageError> {
    match &args.log_file {
        Some(path) => start_in(args, path),
        None => start_to(args, std::io::stderr, is_coloured()),
    }
}

/// The same, to stderr around these bars.
pub(super) fn start_through(args: &LogArgs, bars: MultiProgress) -> Result<(), UsageError> {
    match &args.log_file {
        Some(path) => start_in(args, path),
        None => start_to(args, move || AroundBars(bars.clone()), is_coloured()),
    }
}

fn start_in(args: &LogArgs, path: &Path) -> Result<(), UsageError> {
    let file = open(path).map_err(|error| UsageError(format!("log-file: {}: {error}", path.display())))?;
    start_to(args, Arc::new(file), false)
}

/// Others may write to it as well: whole lines, one after the other. Nobody else reads what is pulled from where.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// Writes to stderr while the bars are out of the way.
struct AroundBars(MultiProgress);

impl Write for AroundBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn start_to<W>(args: &LogArgs, writer: W, is_coloured: bool) -> Result<(), UsageError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = match (args.quiet, args.verbose) {
        (true, _) => "stroll=error".to_owned(),
        (false, 0) => format!("stroll=warn,{DONE}=info"),
        (false, 1) => "stroll=info".to_owned(),
        (false, _) => "stroll=debug".to_owned(),
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| UsageError(error.to_string()))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(is_coloured)
        .with_timer(SystemTime)
        .with_target(false);
    // A second start changes nothing, which is as well.
    let _ = match args.log_format {
        Format::Text => log.try_init(),
        Format::Json => log.json().try_init(),
    };
    Ok(())
}
