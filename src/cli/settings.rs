//! The settings file: where it is, what it may say. `config/stroll.toml` is its documentation.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use directories::ProjectDirs;
use serde::Deserialize;

use super::exit::{NotFound, UsageError};
use super::run::RunOptions;
use super::run::tables::{ExecOptions, Job, JobTable, named};
use super::transfer::Transfer;
use super::{mirror, simulate, subscribe};

/// What the settings file says. Unknown keys are errors that name the key.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// How to pull.
    pub(super) transfer: Transfer,
    /// How a member runs.
    pub(super) run: RunOptions,
    /// Who is told: another name for what `run` says of it.
    notify: Notify,
    /// Streams to follow.
    subscribe: Vec<JobTable<subscribe::StreamOptions>>,
    /// Trees to mirror.
    mirror: Vec<JobTable<mirror::Options>>,
    /// Commands to run in slots.
    exec: Vec<JobTable<ExecOptions>>,
    /// Defaults for `stroll simulate`.
    pub(super) simulate: simulate::Options,
}

/// Who is told what people should know.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Notify {
    /// Where it is posted to.
    webhook: Option<String>,
}

impl Settings {
    /// Reads the file that was named, or the one in the configuration folder if there is one.
    pub(super) fn load(named: Option<&Path>) -> anyhow::Result<Self> {
        let mut settings: Self = match named {
            Some(path) => read_toml(path)?,
            None => match default_path().filter(|path| path.exists()) {
                Some(path) => read_toml(&path)?,
                None => Self::default(),
            },
        };
        if let Some(webhook) = settings.notify.webhook.take() {
            settings.run.webhook.get_or_insert(webhook);
        }
        Ok(settings)
    }
}

impl Settings {
    /// All jobs, each with a name of its own.
    pub(super) fn jobs(&self) -> Result<Vec<(String, Job)>, UsageError> {
        let subscribe = self.subscribe.iter().cloned().map(Job::Subscribe);
        let mirror = self.mirror.iter().cloned().map(Job::Mirror);
        let exec = self.exec.iter().cloned().map(Job::Exec);
        named(subscribe.chain(mirror).chain(exec).collect())
    }
}

fn default_path() -> Option<PathBuf> {
    ProjectDirs::from("", "", "stroll").map(|dirs| dirs.config_dir().join("stroll.toml"))
}

/// Reads a TOML file; the error names the file and, if it is the content, the line.
pub(super) fn read_toml<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<T> {
    let text = read_text(path)?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Reads a file; the error names it.
pub(super) fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NotFound::File(path.display().to_string()).into(),
        _ => anyhow::Error::new(error).context(path.display().to_string()),
    })
}
