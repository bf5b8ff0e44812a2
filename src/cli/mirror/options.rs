//! What a mirror is to do: flags of `stroll mirror`, and keys of a `[[mirror]]` table in the settings.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use stroll::base::units::{deserialize_duration, parse_duration, parse_size};
use stroll::fetch::Address;
use stroll::jobs::filter::{Filter, Rules};
use stroll::jobs::mirror::{Compare, Delete, Links, Spec};
use stroll::jobs::timing::Timing;

use crate::cli::exit::UsageError;

/// What to mirror, and when. Each may be left open; one struct serves flags and settings, so that they cannot differ.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of the user's flags")]
pub(in crate::cli) struct Options {
    /// Only files that match: rclone's patterns, such as *.gwf or /2026/**
    #[arg(long, value_name = "PATTERN", env = "STROLL_INCLUDE")]
    pub(in crate::cli) include: Vec<String>,

    /// No files that match
    #[arg(long, value_name = "PATTERN", env = "STROLL_EXCLUDE")]
    pub(in crate::cli) exclude: Vec<String>,

    /// File of rules, one a line: + PATTERN or - PATTERN, the first that matches decides
    #[arg(long, value_name = "FILE", env = "STROLL_FILTER_FROM")]
    pub(in crate::cli) filter_from: Option<PathBuf>,

    /// Nothing older
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MAX_AGE")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(in crate::cli) max_age: Option<Duration>,

    /// Nothing younger
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_MIN_AGE")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(in crate::cli) min_age: Option<Duration>,

    /// Nothing larger
    #[arg(long, value_name = "SIZE", env = "STROLL_MAX_SIZE")]
    pub(in crate::cli) max_size: Option<String>,

    /// Nothing smaller
    #[arg(long, value_name = "SIZE", env = "STROLL_MIN_SIZE")]
    pub(in crate::cli) min_size: Option<String>,

    /// When a replica is up to date [default: mtime]
    #[arg(long, value_enum, value_name = "HOW", env = "STROLL_COMPARE")]
    pub(in crate::cli) compare: Option<By>,

    /// Which files of a folder come first: name, size or mtime, with ,desc the last ones [default: name]
    #[arg(long, value_name = "ORDER", env = "STROLL_ORDER_BY")]
    pub(in crate::cli) order_by: Option<String>,

    /// Also names that start with a dot
    #[arg(long, env = "STROLL_HIDDEN")]
    pub(in crate::cli) hidden: bool,

    /// Refuse names that some platform cannot hold: `:` and `\`, spaces and dots at the end, CON, other than UTF-8, more
    /// than 250 bytes, or equal but for case
    #[arg(long, env = "STROLL_PORTABLE_NAMES")]
    pub(in crate::cli) portable_names: bool,

    /// Symbolic links at an FTP source: follow those that stay in the tree, skip them, or fail [default: follow]
    #[arg(long, value_enum, value_name = "HOW", env = "STROLL_LINKS")]
    pub(in crate::cli) links: Option<OnLink>,

    /// Remove here what is not there any more: last, and only if everything was seen and pulled
    #[arg(long, env = "STROLL_DELETE")]
    pub(in crate::cli) delete: bool,

    /// Remove nothing if it would be more than this: a number of files, or a share of those here [default: 10%]
    #[arg(long, value_name = "N|N%", env = "STROLL_MAX_DELETE")]
    pub(in crate::cli) max_delete: Option<String>,

    /// Also remove what the filter leaves out
    #[arg(long, env = "STROLL_DELETE_EXCLUDED")]
    pub(in crate::cli) delete_excluded: bool,

    /// Move what would be removed to this folder
    #[arg(long, value_name = "DIR", env = "STROLL_BACKUP_DIR")]
    pub(in crate::cli) backup_dir: Option<PathBuf>,

    /// Pull no more than this in one run, and end with exit code 8; the next run goes on
    #[arg(long, value_name = "SIZE", env = "STROLL_MAX_TRANSFER")]
    pub(in crate::cli) max_transfer: Option<String>,

    /// Begin again so long after the last beginning, until stopped
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_EVERY")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(in crate::cli) every: Option<Duration>,

    /// Begin at the times of a line of cron, such as "30 2 * * *", with TZ=Europe/Rome in front if need be; not at once
    #[arg(long, value_name = "CRON", env = "STROLL_SCHEDULE")]
    pub(in crate::cli) schedule: Option<String>,

    /// With --schedule: begin at once if a time of the schedule was missed since the last run, or there was none yet
    #[arg(long, env = "STROLL_CATCH_UP")]
    pub(in crate::cli) catch_up: bool,
}

/// When a replica is up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum By {
    /// When it is there
    Exists,
    /// When it has the size of the original
    Size,
    /// When it has its size and its time
    Mtime,
    /// When it adds up to what a list beside the original says (SHA256SUMS and its like)
    Checksum,
}

/// What is done about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum OnLink {
    /// Mirror what they lead to, if that is in the mirrored tree
    Follow,
    /// Count and report them
    Skip,
    /// Each is an error
    Fail,
}

impl From<OnLink> for Links {
    fn from(on_link: OnLink) -> Self {
        match on_link {
            OnLink::Follow => Self::Follow,
            OnLink::Skip => Self::Skip,
            OnLink::Fail => Self::Fail,
        }
    }
}

impl From<By> for Compare {
    fn from(by: By) -> Self {
        match by {
            By::Exists => Self::Exists,
            By::Size => Self::Size,
            By::Mtime => Self::Mtime,
            By::Checksum => Self::Checksum,
        }
    }
}

impl Options {
    /// What is to be done.
    pub(in crate::cli) fn spec(
        &self,
        source: Address,
        target: PathBuf,
        dry_run: bool,
    ) -> Result<Spec, UsageError> {
        let rules = Rules {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            filter_from: self.filter_from.clone(),
            max_age: self.max_age,
            min_age: self.min_age,
            max_size: size("max-size", self.max_size.as_deref())?,
            min_size: size("min-size", self.min_size.as_deref())?,
        };
        let delete = self.deletion()?;
        if let Some(backup) = delete.as_ref().and_then(|delete| delete.backup.as_deref())
            && is_within(backup, &target)
        {
            return Err(UsageError(format!(
                "backup-dir: {} is inside the mirror, where the next run would remove it; take a folder beside it",
                backup.display()
            )));
        }
        Ok(Spec {
            source,
            target,
            filter: Filter::new(&rules).map_err(|error| UsageError(error.to_string()))?,
            compare: self.compare.map(Compare::from).unwrap_or_default(),
            order: parsed("order-by", self.order_by.as_deref())?.unwrap_or_default(),
            delete,
            max_transfer: size("max-transfer", self.max_transfer.as_deref())?,
            hidden: self.hidden,
            portable_names: self.portable_names,
            links: self.links.map(Links::from).unwrap_or_default(),
            dry_run,
        })
    }

    fn deletion(&self) -> Result<Option<Delete>, UsageError> {
        let max = parsed("max-delete", self.max_delete.as_deref())?;
        if self.delete {
            let (is_told, max) = (max.is_some(), max.unwrap_or_default());
            let (excluded, backup) = (self.delete_excluded, self.backup_dir.clone());
            return Ok(Some(Delete { max, is_told, excluded, backup }));
        }
        let named = [
            ("max-delete", max.is_some()),
            ("delete-excluded", self.delete_excluded),
            ("backup-dir", self.backup_dir.is_some()),
        ];
        match named.iter().find(|(_, is_there)| *is_there) {
            Some((name, _)) => Err(UsageError(format!("{name}: means nothing without --delete"))),
            None => Ok(None),
        }
    }

    /// When to begin, and when to begin again.
    pub(in crate::cli) fn timing(&self) -> Result<Timing, UsageError> {
        let timing = Timing::new(self.every, self.schedule.as_deref(), self.catch_up);
        timing.map_err(|error| UsageError(error.to_string()))
    }
}

/// Whether a folder is another one, or in it, whatever way there was taken. Neither has to be there yet.
fn is_within(folder: &Path, other: &Path) -> bool {
    real(folder).starts_with(real(other))
}

/// Where a path leads to: without links as far as it is there, and without going up in the rest.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            part => real.push(part),
        }
        real = real.canonicalize().unwrap_or(real);
    }
    real
}

fn size(name: &str, text: Option<&str>) -> Result<Option<u64>, UsageError> {
    text.map(|text| parse_size(text).map_err(|error| UsageError(format!("{name}: {error}")))).transpose()
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    text: Option<&str>,
) -> Result<Option<T>, UsageError> {
    text.map(|text| text.parse().map_err(|error| UsageError(format!("{name}: {error}")))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Address {
        Address::parse("http://h/data/").expect("an address").0
    }

    #[test]
    fn a_table_of_the_settings_has_the_keys_of_the_flags() {
        let text = "include = ['*.gwf']\nmax_age = '7d'\nmin_size = '1k'\ncompare = 'size'\norder_by = 'mtime,desc'\n\
                    delete = true\nmax_delete = '5'\nbackup_dir = '/b'\nevery = '6h'\nlinks = 'skip'\n";
        let options: Options = toml::from_str(text).expect("options");
        let spec = options.spec(source(), "/t".into(), false).expect("a mirror");
        assert_eq!((spec.compare, spec.delete.map(|delete| delete.is_told)), (Compare::Size, Some(true)));
        assert_eq!(spec.links, Links::Skip);
        assert!(!spec.filter.allows_file("a.txt", None, None, 0));
        assert!(options.timing().expect("a timing").schedule().is_some());
        let error = toml::from_str::<Options>("delte = true").expect_err("no such key").to_string();
        assert!(error.contains("delte"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let wrong = |text: &str, field: &str| {
            let options: Options = toml::from_str(text).expect(text);
            let error = options.spec(source(), "/t".into(), false).map(drop);
            let error = error.and_then(|()| options.timing().map(drop)).expect_err(text).to_string();
            assert!(error.starts_with(field), "{error}");
        };
        wrong("max_delete = '5'", "max-delete");
        wrong("delete_excluded = true", "delete-excluded");
        wrong("backup_dir = 'x'", "backup-dir");
        wrong("delete = true\nmax_delete = 'all'", "max-delete");
        wrong("order_by = 'age'", "order-by");
        wrong("max_transfer = 'much'", "max-transfer");
        wrong("every = '1h'\nschedule = '@daily'", "every and schedule");
        wrong("schedule = 'soon'", "schedule");
        wrong("every = '1h'\ncatch_up = true", "catch-up");
        wrong("include = ['[a']", "pattern");
        for backup in ["/t", "/t/", "/t/old", "/t/./x/../old", "/x/../t/old"] {
            wrong(&format!("delete = true\nbackup_dir = '{backup}'"), "backup-dir");
        }
        for backup in ["/told", "/t/../old", "/"] {
            let options: Options =
                toml::from_str(&format!("delete = true\nbackup_dir = '{backup}'")).unwrap();
            assert!(options.spec(source(), "/t".into(), false).is_ok(), "{backup}");
        }
    }
}
