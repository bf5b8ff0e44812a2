//! `stroll verify`: are the files of a folder still what was pulled?

use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::json;
use stroll::base::units::human_size;
use stroll::fetch::escape;
use stroll::jobs::verify::{self, Kind, Report};

use super::exit::{Code, Failed, NotFound};
use super::job::{Sums, state_folder};
use super::progress::{Progress, Style};

/// Read the files of a folder again, and compare them with what was pulled.
///
/// Compared are size and SHA-256 of everything that a mirror or a subscription put there, and with --sums auto also what
/// lists of checksums in the folder say. Ends with exit code 11 if a file has other bytes or is missing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder
    #[arg(value_name = "DIR")]
    target: PathBuf,

    /// Also compare with the lists of checksums in the folder (SHA256SUMS, MD5SUMS, FILE.sha256, FILE.md5)
    #[arg(long, value_enum, default_value_t, env = "STROLL_SUMS")]
    sums: Sums,

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
    let state = state_folder(args.state.clone())?;
    let total = verify::count(&state, &args.target)?;
    let report = {
        let progress = Progress::new(args.progress, total, "verifying");
        verify::verify(&state, &args.target, args.sums == Sums::Auto, &|files| progress.advance(files))?
    };
    print(args, &report)?;
    if report.is_wrong() {
        let message =
            format!("{} files have other bytes, and {} are missing", report.changed, report.missing);
        return Err(Failed { code: Code::Integrity, message }.into());
    }
    Ok(())
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
    for finding in report.findings.iter().filter(|finding| finding.kind != Kind::Unknown) {
        let word = if finding.kind == Kind::Missing { "missing" } else { "changed" };
        writeln!(out, "{word} {}: {}", escape(&finding.path), finding.why)?;
    }
    let Report { ok, changed, missing, unknown, bytes, .. } = report;
    writeln!(
        out,
        "{ok} files are right ({}), {changed} changed, {missing} missing, {unknown} not known",
        human_size(*bytes)
    )?;
    out.flush()
}
