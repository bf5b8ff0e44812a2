//! `stroll verify`: are the files of a folder still what was pulled?

use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::json;
use stroll::base::units::human_size;
use stroll::fetch::escape;
use stroll::jobs::verify::{self, Kind, Report, Spec};

use super::exit::{Code, Failed, NotFound};
use super::job::{Sums, state_folder};
use super::progress::{Progress, Style, counted};

/// So many files with nothing to compare them with are told one by one; --json tells more.
const MOST_UNVERIFIED: usize = 20;

/// Read the files of a folder again, and compare them with what was pulled.
///
/// Compared are size and SHA-256 of everything that a mirror or a subscription put there, and with --sums auto also what
/// lists of checksums in the folder say. A folder that was moved or copied is recognised.
///
/// Exit codes: 0 all files are right; 11 files have other bytes or are missing; 6 the others are right, but some files
/// could not be verified because nothing is known of them or they cannot be read; 1 nothing could be verified; 3 no
/// such folder.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder
    #[arg(value_name = "DIR")]
    target: PathBuf,

    /// Also compare with the lists of checksums in the folder (SHA256SUMS, MD5SUMS, CHECKSUM, FILE.sha256, FILE.md5)
    #[arg(long, value_enum, default_value_t, env = "STROLL_SUMS")]
    sums: Sums,

    /// Hash files with nothing to compare them with, and remember them as they are now: from then on these bytes are right.
    /// What a list of checksums in the folder says must hold; changed files stay changed
    #[arg(long, env = "STROLL_ADOPT")]
    adopt: bool,

    /// Accept files with nothing to compare them with: they are counted, and the exit code is 0 if the others are right
    #[arg(long, conflicts_with = "adopt", env = "STROLL_ALLOW_UNKNOWN")]
    allow_unknown: bool,

    /// Where manifests are kept [default: stroll in the state folder]
    #[arg(long, value_name = "DIR", env = "STROLL_STATE")]
    state: Option<PathBuf>,

    /// Print the findings as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// How progress is shown
    #[arg(long, value_enum, default_value_t, env = "STROLL_PROGRESS")]
    progress: Style,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.target.is_dir() {
        return Err(NotFound::NoFolder(args.target.display().to_string()).into());
    }
    let spec = Spec {
        state: state_folder(args.state.clone())?,
        target: args.target.clone(),
        sums: args.sums == Sums::Auto,
        adopt: args.adopt,
    };
    let total = verify::count(&spec.state, &spec.target)?;
    let report = {
        let progress = Progress::new(args.progress, total, "verifying");
        verify::verify(&spec, &|files| progress.advance(files))?
    };
    print(args, &report)?;
    verdict(args, &report)
}

fn print(args: &Args, report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let folder = args.target.display().to_string();
        let document = json!({"version": 1, "folder": folder, "result": report});
        serde_json::to_writer(&mut out, &document).map_err(io::Error::from)?;
        writeln!(out)?;
        return out.flush();
    }
    if let Some(known_as) = &report.known_as {
        let known_as = escape(known_as);
        writeln!(
            out,
            "this folder is known as {known_as}: its files are compared with what was pulled there"
        )?;
    }
    let mut unverified = 0;
    for finding in &report.findings {
        let word = match finding.kind {
            Kind::Changed => "changed",
            Kind::Missing => "missing",
            Kind::Unreadable => "unreadable",
            Kind::Unknown => "unknown",
            Kind::Unhashed => "unhashed",
        };
        if matches!(finding.kind, Kind::Unknown | Kind::Unhashed) {
            unverified += 1;
            if unverified > MOST_UNVERIFIED {
                continue;
            }
        }
        writeln!(out, "{word} {}: {}", escape(&finding.path), escape(&finding.why))?;
    }
    if unverified > MOST_UNVERIFIED {
        let more = report.unverified() - MOST_UNVERIFIED as u64;
        writeln!(out, "… and {more} more with nothing to compare them with; --json tells them")?;
    }
    writeln!(out, "{}", line(report))?;
    out.flush()
}

fn line(report: &Report) -> String {
    let Report { ok, adopted, changed, missing, unreadable, unknown, unhashed, bytes, .. } = report;
    let some = |count: u64, text: &str| if count > 0 { format!(", {count} {text}") } else { String::new() };
    let right = ok + adopted;
    [
        format!(
            "{right} {} right ({})",
            if right == 1 { "file is" } else { "files are" },
            human_size(*bytes)
        ),
        some(*adopted, "of them adopted as they are now"),
        format!(", {changed} changed, {missing} missing, {unknown} not known"),
        some(*unhashed, "never hashed"),
        some(*unreadable, "unreadable"),
        report.checksums.as_ref().map_or_else(String::new, |checksums| format!("; {checksums}")),
    ]
    .concat()
}

/// What is wrong with the files.
fn wrong(changed: u64, missing: u64) -> String {
    let have = if changed == 1 { "has" } else { "have" };
    let are = if missing == 1 { "is" } else { "are" };
    match (changed, missing) {
        (_, 0) => format!("{} {have} other bytes", counted(changed, "file")),
        (0, _) => format!("{} {are} missing", counted(missing, "file")),
        _ => format!("{} {have} other bytes, and {missing} {are} missing", counted(changed, "file")),
    }
}

/// All is well, or an error with the exit code that says what is not.
fn verdict(args: &Args, report: &Report) -> anyhow::Result<()> {
    let folder = args.target.display();
    let (code, message) = if report.is_wrong() {
        (Code::Integrity, wrong(report.changed, report.missing))
    } else if report.is_empty() {
        let remedy = match (report.unverified(), &args.sums) {
            (0, _) => "there are no files that a mirror or a subscription put there",
            (_, Sums::Off) => {
                "use --sums auto if there are lists of checksums, or --adopt to take the files as right"
            }
            (_, Sums::Auto) => "--adopt takes the files as they are now for right",
        };
        (Code::Other, format!("{folder}: nothing was verified: {remedy}"))
    } else if report.unreadable > 0 {
        let what = if report.unreadable == 1 { "file or folder" } else { "files or folders" };
        (Code::SomeFailed, format!("{} {what} could not be read", report.unreadable))
    } else if report.unverified() > 0 && !args.allow_unknown {
        let message = format!(
            "{} could not be verified: nothing to compare with is known; --adopt takes files as they are now, and \
             --allow-unknown leaves them out",
            counted(report.unverified(), "file")
        );
        (Code::SomeFailed, message)
    } else {
        return Ok(());
    };
    Err(Failed { code, message }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_not_files() {
        assert_eq!(wrong(1, 1), "1 file has other bytes, and 1 is missing");
        assert_eq!(wrong(2, 0), "2 files have other bytes");
        assert_eq!(wrong(0, 3), "3 files are missing");
    }
}
