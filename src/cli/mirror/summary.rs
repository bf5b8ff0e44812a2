//! What a `mirror` says at its end, and its exit code.

use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::json;
use stroll::base::units::human_size;
use stroll::fetch::Fault;
use stroll::fetch::engine::PullError;
use stroll::jobs::mirror::delete::Refusal;
use stroll::jobs::mirror::{Counts, Links, Outcome, Plan, Spec, Trouble, What};

use crate::cli::bars::{Bars, chain};
use crate::cli::ending::Stopped;
use crate::cli::exit::{Code, Failed};
use crate::cli::get::summary::{checksums, code_of, pace};
use crate::cli::job::GOES_ON;
use crate::cli::progress::counted;

/// So many troubles are told one by one.
const MOST_LINES: usize = 20;

/// What is printed as JSON. A plan may have a hundred thousand lines, and is written as it is.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    report: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Plan>,
}

/// The end of a mirror.
pub(in crate::cli) struct Summary<'a> {
    pub(in crate::cli) spec: &'a Spec,
    pub(in crate::cli) outcome: &'a Outcome,
    pub(in crate::cli) stopped: Stopped,
    /// The address as it was typed, if a slash had to be put behind it.
    pub(in crate::cli) unslashed: Option<&'a str>,
}

impl Summary<'_> {
    pub(super) fn print(&self, as_json: bool, is_quiet: bool, bars: &Bars) -> io::Result<()> {
        self.tell_troubles(bars);
        let mut out = io::stdout().lock();
        if as_json {
            serde_json::to_writer(&mut out, &self.json()).map_err(io::Error::from)?;
            writeln!(out)?;
            return out.flush();
        }
        if self.spec.dry_run {
            self.print_plan(&mut out)?;
        }
        if !is_quiet {
            bars.bars().suspend(|| eprintln!("{}", self.line()));
        }
        Ok(())
    }

    /// Troubles with files were told when they happened; these were not.
    fn tell_troubles(&self, bars: &Bars) {
        let untold: Vec<&Trouble> = self
            .outcome
            .found
            .troubles
            .iter()
            .filter(|trouble| match &trouble.what {
                What::Pull(error) => is_without_checksum(error) && !self.lacks_all_checksums(),
                _ => !is_root(trouble),
            })
            .collect();
        bars.bars().suspend(|| {
            for Trouble { path, what } in untold.iter().take(MOST_LINES) {
                let path = if path.is_empty() { "/" } else { path };
                eprintln!("{path}: {}", chain(what));
            }
            if untold.len() > MOST_LINES {
                eprintln!("… and {} more like these", untold.len() - MOST_LINES);
            }
            // Links that are skipped by order are only counted.
            let links = self.outcome.found.links.iter().filter(|_| self.spec.links == Links::Follow);
            for link in links.clone().take(MOST_LINES) {
                eprintln!("{link}");
            }
            if links.clone().count() > MOST_LINES {
                eprintln!("… and {} more symbolic links", links.count() - MOST_LINES);
            }
            if let Some(refusal) = self.outcome.refusal.as_ref().filter(|refusal| !is_verdict(refusal)) {
                eprintln!("{refusal}");
            }
        });
    }

    fn print_plan(&self, out: &mut impl io::Write) -> io::Result<()> {
        for planned in self.outcome.found.planned.iter() {
            let planned = planned?;
            let size = planned.size.map_or("size unknown".into(), human_size);
            writeln!(out, "pull {} ({size}, {})", planned.path, planned.why.word())?;
        }
        for path in &self.outcome.found.folders_made {
            writeln!(out, "make {path}")?;
        }
        for path in self.outcome.deleted.iter().chain(&self.outcome.deleted_folders) {
            writeln!(out, "remove {path}")?;
        }
        out.flush()
    }

    /// Summary of the run on one line.
    pub(in crate::cli) fn line(&self) -> String {
        let counts = self.outcome.found.counts;
        let some =
            |count: u64, text: &str| if count > 0 { format!(", {count} {text}") } else { String::new() };
        let named = |count: u64, one: &str, many: &str| some(count, if count == 1 { one } else { many });
        let (first, removed, made) = match (self.spec.dry_run, self.spec.delete.as_ref()) {
            (true, _) => {
                (format!("{} would be pulled", files(counts.planned)), "would be removed", "would be made")
            }
            (_, Some(delete)) if delete.backup.is_some() => {
                (format!("{} pulled", files(counts.pulled)), "moved away", "made")
            }
            _ => (format!("{} pulled", files(counts.pulled)), "removed", "made"),
        };
        [
            first,
            some(counts.up_to_date, "up to date"),
            some(counts.deleted, removed),
            some(counts.kept, "in no listing but not known to be gone: kept"),
            named(counts.folders_made, &format!("empty folder {made}"), &format!("empty folders {made}")),
            named(counts.links_followed, "symbolic link followed", "symbolic links followed"),
            named(counts.links_skipped, "symbolic link skipped", "symbolic links skipped"),
            named(counts.links_broken, "broken symbolic link", "broken symbolic links"),
            some(counts.failed, "failed"),
            named(counts.refused, "name refused", "names refused"),
            some(counts.left, "left for the next run"),
            named(counts.folders, "folder", "folders"),
            pace(&self.outcome.totals),
            checksums(&self.outcome.totals),
        ]
        .concat()
    }

    fn json(&self) -> Report<'_> {
        let Outcome { found, totals, deleted, deleted_folders, kept, refusal, delete_error } = self.outcome;
        let troubles: Vec<_> = found
            .troubles
            .iter()
            .map(|trouble| json!({"path": trouble.path, "error": chain(&trouble.what)}))
            .collect();
        let report = json!({
            "version": 1,
            "source": self.spec.source.to_string(),
            "target": self.spec.target.display().to_string(),
            "dry_run": self.spec.dry_run,
            "complete": found.is_complete,
            "counts": found.counts,
            "totals": totals,
            "checksums": totals.checksums,
            "failures": troubles,
            "links": found.links,
            "folders_made": found.folders_made,
            "deleted": deleted,
            "deleted_folders": deleted_folders,
            "kept": kept,
            "not_deleted_because": refusal.as_ref().map(ToString::to_string),
            "delete_error": delete_error.as_ref().map(ToString::to_string),
        });
        Report { report, plan: self.spec.dry_run.then_some(&found.planned) }
    }

    /// All is well, or an error with the exit code that says what is not.
    pub(super) fn verdict(&self, fail_if_nothing: bool) -> anyhow::Result<()> {
        let Outcome { found, refusal, delete_error, .. } = self.outcome;
        let Counts { failed, refused, left, .. } = found.counts;
        let goes_on = GOES_ON;
        let root = found.troubles.iter().find(|trouble| is_root(trouble));
        let (code, message) = if let Some(Trouble { what: What::List(fault), .. }) = root {
            let code = match fault {
                Fault::NotFound(_) => Code::FolderNotFound,
                fault if fault.is_temporary() => Code::Refused,
                Fault::Local { .. } => Code::Other,
                _ => Code::Fatal,
            };
            let message = match (fault, self.unslashed) {
                (Fault::NotFound(_), Some(url)) => {
                    format!("{url}: no such folder at the source; if it is a file, use `stroll get {url}`")
                }
                _ => format!("{}: {}", self.spec.source, chain(fault)),
            };
            (code, message)
        } else if let Some(error) = delete_error {
            (code_of(&PullError::Sink(error.clone())), chain(error))
        } else if self.lacks_all_checksums() {
            let message = format!(
                "{}: no list of checksums there (such as SHA256SUMS) has any of its files, and --compare checksum needs \
                 one; use --compare mtime or --compare size",
                self.spec.source
            );
            (Code::Fatal, message)
        } else if failed + refused > 0 {
            (self.code_of_failures(), self.failures(failed, refused))
        } else if found.is_full {
            (Code::Quota, format!("as much as --max-transfer allows has come; {goes_on}"))
        } else if !found.is_whole || left > 0 {
            match self.stopped {
                Stopped::OutOfTime => (Code::Deadline, format!("out of time; {goes_on}")),
                Stopped::Interrupted => (Code::Other, format!("interrupted; {goes_on}")),
                Stopped::No => (Code::Unreachable, "the circle gives no more slots".to_owned()),
            }
        } else if let Some(refusal) = refusal {
            (Code::MaxDelete, refusal.to_string())
        } else if fail_if_nothing && self.is_nothing() {
            (Code::Nothing, "nothing to do".to_owned())
        } else {
            return Ok(());
        };
        Err(Failed { code, message }.into())
    }

    /// Whether files need a checksum and none has one: one error then, and not one for each file.
    fn lacks_all_checksums(&self) -> bool {
        let is_used = self.outcome.totals.checksums.as_ref().is_none_or(|checksums| checksums.files > 0);
        let mut troubles = self.outcome.found.troubles.iter().peekable();
        let is_of_checksum =
            |trouble: &Trouble| matches!(&trouble.what, What::Pull(error) if is_without_checksum(error));
        !is_used && troubles.peek().is_some() && troubles.all(is_of_checksum)
    }

    /// What failed, in one line. Listings that do not show what exists say more than the number of folders.
    fn failures(&self, failed: u64, refused: u64) -> String {
        let unlisted = self.outcome.found.troubles.iter().filter_map(|trouble| match trouble.what {
            What::Unlisted(count) => Some(count),
            _ => None,
        });
        let (folders, count) = unlisted.fold((0, 0), |(folders, sum), count| (folders + 1, sum + count));
        if folders == 0 || folders < failed || refused > 0 {
            return failures(failed, refused);
        }
        let verb = if count == 1 { "exists" } else { "exist" };
        format!("the source's listings are not complete: they do not show {} that {verb}", files(count))
    }

    fn is_nothing(&self) -> bool {
        let Counts { pulled, planned, deleted, folders_made, folders_deleted, .. } =
            self.outcome.found.counts;
        pulled + planned + deleted + folders_made + folders_deleted == 0
    }

    /// If nothing else came of it, what was wrong with all; otherwise, that some failed.
    fn code_of_failures(&self) -> Code {
        let found = &self.outcome.found;
        let codes = found.troubles.iter().map(|trouble| match &trouble.what {
            What::Pull(error) => code_of(error),
            _ => Code::SomeFailed,
        });
        let same = codes.reduce(|a, b| if a == b { a } else { Code::SomeFailed });
        match same {
            Some(code) if code == Code::DiskFull || found.counts.pulled + found.counts.up_to_date == 0 => {
                code
            }
            _ => Code::SomeFailed,
        }
    }
}

fn is_without_checksum(error: &PullError) -> bool {
    matches!(error, PullError::Source(Fault::NoChecksum(_)))
}

fn files(count: u64) -> String {
    counted(count, "file")
}

/// Whether it is the root itself that could not be listed.
fn is_root(trouble: &Trouble) -> bool {
    trouble.path.is_empty() && matches!(trouble.what, What::List(_))
}

/// Whether it is told by the exit code, and not only beside other troubles.
fn is_verdict(refusal: &Refusal) -> bool {
    !matches!(refusal, Refusal::Incomplete)
}

fn failures(failed: u64, refused: u64) -> String {
    let failures = match failed {
        1 => "1 file or folder failed".to_owned(),
        count => format!("{count} files or folders failed"),
    };
    let refusals = match refused {
        1 => "1 name was refused".to_owned(),
        count => format!("{count} names were refused"),
    };
    match (failed, refused) {
        (_, 0) => failures,
        (0, _) => refusals,
        (..) => format!("{failures}, and {refusals}"),
    }
}
