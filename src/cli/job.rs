//! What every command that pulls has in common: its flags and its configuration.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use directories::ProjectDirs;
use rustix::fs::{Access, access};
use serde::Deserialize;
use stroll::base::units::parse_duration;
use stroll::driver::random_bytes;
use stroll::fetch::Logins;
use stroll::jobs::pull::{Alike, Config};

use super::exit::UsageError;
use super::homes::HomeArgs;
use super::logging::LogArgs;
use super::progress::{Show, Style};
use super::transfer::Transfer;

/// The flags that `get`, `mirror` and `subscribe` share.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub(super) struct JobArgs {
    /// Use the lists of checksums that lie beside the files (SHA256SUMS, MD5SUMS, FILE.sha256, FILE.md5)
    #[arg(long, value_enum, default_value_t, env = "STROLL_SUMS")]
    pub(super) sums: Sums,

    /// Do not go on where an earlier run ended
    #[arg(long, env = "STROLL_NO_RESUME")]
    pub(super) no_resume: bool,

    /// Do not give the files the time of their originals
    #[arg(long, env = "STROLL_NO_TIMES")]
    pub(super) no_times: bool,

    /// End after so long, with exit code 10; the same command goes on
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_duration, env = "STROLL_MAX_DURATION")]
    pub(super) max_duration: Option<Duration>,

    /// Pull alone, in no circle
    #[arg(long, conflicts_with = "circle", env = "STROLL_SOLO")]
    pub(super) solo: bool,

    #[command(flatten)]
    pub(super) home: HomeArgs,

    #[command(flatten)]
    pub(super) transfer: Transfer,

    /// Where journals are kept [default: stroll in the state folder]
    #[arg(long, value_name = "DIR", env = "STROLL_STATE")]
    pub(super) state: Option<PathBuf>,

    /// Print what was done as JSON
    #[arg(long, env = "STROLL_JSON")]
    pub(super) json: bool,

    /// How progress is shown
    #[arg(long, value_enum, default_value_t, env = "STROLL_PROGRESS")]
    pub(super) progress: Style,

    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Whether lists of checksums are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sums {
    /// Look for them
    Auto,
    /// Do not
    #[default]
    Off,
}

impl JobArgs {
    /// How progress is shown by a command that writes data to standard output meanwhile, or does not. On a terminal both
    /// are on one screen, where a bar would erase lines of the data.
    pub(super) fn show(&self, writes_data: bool) -> Show {
        let shares_screen = writes_data && std::io::stdout().is_terminal();
        match self.progress.resolve(self.log.is_quiet()) {
            Show::Bar if shares_screen => Show::Line,
            show => show,
        }
    }

    /// How to pull; `transfer` is what the flags and the settings come to. Digests are computed where somebody will see them.
    pub(super) fn config(&self, transfer: &Transfer, logins: Logins, sha256: bool) -> anyhow::Result<Config> {
        Ok(Config {
            sums: self.sums == Sums::Auto,
            resume: !self.no_resume,
            times: !self.no_times,
            sha256,
            ..config(transfer, logins, state_folder(self.state.clone())?)?
        })
    }
}

/// How to pull, by the transfer options alone.
pub(super) fn config(transfer: &Transfer, logins: Logins, state: PathBuf) -> anyhow::Result<Config> {
    Ok(Config {
        options: Arc::new(transfer.options(logins)?),
        connections: transfer.connections()?,
        patience: transfer.patience(),
        min_speed: transfer.min_speed()?,
        sums: false,
        resume: true,
        times: true,
        sha256: false,
        chunk: transfer.chunk()?,
        idle_grace: transfer.idle_grace(),
        state,
        dry_run: false,
        alike: Alike::default(),
        seed: u64::from_be_bytes(random_bytes()?),
    })
}

/// How a message ends about a pull that was not completed.
pub(super) const GOES_ON: &str = "the same command goes on where this one ended";

/// The same where nothing is remembered of it.
pub(super) const BEGINS_ANEW: &str = "the same command starts from the beginning, as nothing was remembered";

/// Refuses a state folder in which nothing can be remembered: mirrors and subscriptions cannot do without.
pub(super) fn check_state(config: &Config) -> Result<(), UsageError> {
    match why_not_writable(&config.state) {
        Some(why) => {
            Err(UsageError(format!("state: {why}; name a folder that you can write to with --state")))
        }
        None => Ok(()),
    }
}

/// Why no files can be made in a folder that need not exist yet; `None` if they can.
pub(super) fn why_not_writable(folder: &Path) -> Option<String> {
    // Its parents are made with it.
    let place = folder.ancestors().find(|place| place.exists())?;
    // A relative path ends in an empty one.
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let why = if place.is_dir() {
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        access(place, wanted).err().map(|errno| std::io::Error::from(errno).to_string())
    } else {
        Some("not a folder".to_owned())
    };
    let (wanted, there) = (folder.display(), place.display());
    why.map(|why| {
        if place == folder {
            format!("cannot write to {wanted}: {why}")
        } else {
            format!("cannot make {wanted}: {there}: {why}")
        }
    })
}

/// Where journals and manifests are kept.
pub(super) fn state_folder(named: Option<PathBuf>) -> Result<PathBuf, UsageError> {
    if let Some(path) = named {
        return Ok(path);
    }
    let dirs = ProjectDirs::from("", "", "stroll").ok_or_else(|| {
        UsageError("state: there is no home folder; say with --state where to keep journals".into())
    })?;
    Ok(dirs.state_dir().unwrap_or_else(|| dirs.data_dir()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_that_cannot_be_made_is_named_with_what_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(why_not_writable(folder.path()), None);
        assert_eq!(why_not_writable(&folder.path().join("a/b")), None);
        assert_eq!(why_not_writable(Path::new("state")), None);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let why = why_not_writable(&file.join("state")).unwrap();
        assert!(why.contains(&format!("{}: not a folder", file.display())), "{why}");
        let why = why_not_writable(Path::new("/proc/state")).or(why_not_writable(Path::new("/dev/null")));
        assert!(why.is_some_and(|why| why.starts_with("cannot ")));
    }
}
