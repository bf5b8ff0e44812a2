//! The jobs of the settings: `[[subscribe]]`, `[[mirror]]` and `[[exec]]`.
//!
//! Each table has a few keys that all jobs have (`name`, `url`, `to`, `circle`, `priority`, `sums`), and those of its command,
//! spelled as its flags are, with underscores.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use stroll::base::units::deserialize_duration;
use toml::{Table, Value};

use crate::cli::exit::UsageError;
use crate::cli::job::Sums;
use crate::cli::{mirror, subscribe};

/// What all jobs have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::cli) struct Head {
    /// By which it is called in `status`, `pause` and the log.
    pub(super) name: Option<String>,
    /// What it pulls.
    pub(super) url: Option<String>,
    /// Where to.
    pub(super) to: Option<PathBuf>,
    /// In which circle's slots, if its source does not tell.
    pub(super) circle: Option<String>,
    /// The higher, the sooner it has its part of a slot.
    pub(super) priority: i32,
    /// Whether lists of checksums are looked for.
    pub(super) sums: Sums,
}

const HEAD: [&str; 6] = ["name", "url", "to", "circle", "priority", "sums"];

/// A table of one job.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct JobTable<O> {
    pub(super) head: Head,
    pub(super) options: O,
}

impl<'de, O: DeserializeOwned> Deserialize<'de> for JobTable<O> {
    /// Both halves refuse keys that they do not know, which flattening one into the other would not.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut table = Table::deserialize(from)?;
        let head: Table = HEAD.iter().filter_map(|key| table.remove_entry(*key)).collect();
        Ok(Self {
            head: Head::deserialize(Value::Table(head)).map_err(D::Error::custom)?,
            options: O::deserialize(Value::Table(table)).map_err(D::Error::custom)?,
        })
    }
}

/// What `exec` needs to know.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::cli) struct ExecOptions {
    /// The program and its arguments; no shell reads them.
    pub(super) command: Vec<String>,
    /// How long before the slot's end it is asked to end.
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) grace: Option<Duration>,
    /// How often to try again after a failure.
    pub(super) retries: u32,
    /// Run it again so long after it began last.
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) every: Option<Duration>,
    /// The same at the times of a line of cron.
    pub(super) schedule: Option<String>,
    /// At the start, run it at once if a time of the schedule was missed.
    pub(super) catch_up: bool,
}

/// A job of the settings.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum Job {
    Subscribe(JobTable<subscribe::StreamOptions>),
    Mirror(JobTable<mirror::Options>),
    Exec(JobTable<ExecOptions>),
}

impl Job {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Subscribe(_) => "subscribe",
            Self::Mirror(_) => "mirror",
            Self::Exec(_) => "exec",
        }
    }

    pub(super) fn head(&self) -> &Head {
        match self {
            Self::Subscribe(job) => &job.head,
            Self::Mirror(job) => &job.head,
            Self::Exec(job) => &job.head,
        }
    }

    /// What it is called: as it was named, or by what it does.
    pub(super) fn name(&self) -> String {
        let Head { name, to, .. } = self.head();
        if let Some(name) = name {
            return name.clone();
        }
        let what = match self {
            Self::Exec(job) => job.options.command.first().cloned(),
            Self::Subscribe(_) | Self::Mirror(_) => {
                to.as_ref().and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned()))
            }
        };
        what.unwrap_or_else(|| self.kind().to_owned())
    }

    /// What it pulls, and where to.
    pub(super) fn ends(&self) -> Result<(&str, &PathBuf), UsageError> {
        let Head { url, to, .. } = self.head();
        let missing = |key: &str| self.wrong(&format!("`{key}` is missing"));
        let url = url.as_deref().ok_or_else(|| missing("url"))?;
        Ok((url, to.as_ref().ok_or_else(|| missing("to"))?))
    }

    pub(super) fn wrong(&self, why: &str) -> UsageError {
        UsageError(format!("{} {}: {why}", self.kind(), self.name()))
    }
}

/// All jobs, each with a name of its own.
pub(in crate::cli) fn named(jobs: Vec<Job>) -> Result<Vec<(String, Job)>, UsageError> {
    let mut named: Vec<(String, Job)> = Vec::new();
    for job in jobs {
        let name = job.name();
        if named.iter().any(|(taken, _)| *taken == name) {
            return Err(job.wrong("there are two jobs of this name; give them names with `name = …`"));
        }
        named.push((name, job));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(text: &str) -> Result<JobTable<mirror::Options>, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_table_has_the_keys_of_all_jobs_and_those_of_its_command() {
        let job = mirror("url = \"ftp://x/\"\nto = \"/data/x\"\npriority = 2\ndelete = true\nevery = \"6h\"")
            .unwrap();
        assert_eq!((job.head.priority, job.options.delete), (2, true));
        assert_eq!(job.options.every, Some(Duration::from_secs(6 * 3_600)));
        assert_eq!(Job::Mirror(job).name(), "x");
    }

    #[test]
    fn a_key_that_does_not_exist_and_a_wrong_unit_are_named() {
        let error = mirror("url = \"ftp://x/\"\nevry = \"6h\"").unwrap_err().to_string();
        assert!(error.contains("evry"), "{error}");
        let error = mirror("every = \"6 parsecs\"").unwrap_err().to_string();
        assert!(error.contains("parsecs"), "{error}");
    }

    #[test]
    fn two_jobs_of_one_name_are_refused() {
        let job = |name: &str| Job::Mirror(mirror(&format!("name = \"{name}\"")).unwrap());
        assert!(named(vec![job("a"), job("b")]).is_ok());
        let error = named(vec![job("a"), job("a")]).unwrap_err();
        assert!(error.0.contains("two jobs of this name"), "{error}");
    }
}
