//! What every command that pulls has in common: its flags and its configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use directories::ProjectDirs;
use serde::Deserialize;
use stroll::base::units::parse_duration;
use stroll::driver::random_bytes;
use stroll::fetch::Logins;
use stroll::jobs::pull::{Alike, Config};

use super::exit::UsageError;
use super::homes::HomeArgs;
use super::logging::LogArgs;
use super::progress::Style;
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
