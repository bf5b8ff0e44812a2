//! What a `get` says at its end, and its exit code.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::json;
use stroll::base::units::{human_duration, human_size};
use stroll::fetch::Fault;
use stroll::fetch::engine::PullError;
use stroll::fetch::sink::SinkError;
use stroll::jobs::pull::{Fate, Totals, Want};

use crate::cli::bars::chain;
use crate::cli::ending::Stopped;
use crate::cli::exit::{Code, Failed};
use crate::cli::progress::counted;

/// A file by its address and place.
pub(super) struct Named {
    url: String,
    path: Option<String>,
}

impl Named {
    pub(super) fn new(want: &Want) -> Self {
        let path = want.to.path().map(|path| path.display().to_string());
        Self { url: want.address.to_string(), path }
    }
}

/// The end of a get.
pub(super) struct Summary<'a> {
    pub(super) names: &'a [Named],
    pub(super) fates: &'a [Fate],
    pub(super) totals: Totals,
    pub(super) stopped: Stopped,
    /// What the same command does the next time.
    pub(super) goes_on: &'a str,
}

impl Summary<'_> {
    pub(super) fn print(&self, as_json: bool, is_quiet: bool) -> io::Result<()> {
        if as_json {
            let mut out = io::stdout().lock();
            serde_json::to_writer(&mut out, &self.json()).map_err(io::Error::from)?;
            return writeln!(out);
        }
        for (named, fate) in self.names.iter().zip(self.fates) {
            if let Fate::Planned { size } = fate {
                let size = size.map_or("size unknown".into(), human_size);
                println!("{} ({size}) -> {}", named.url, named.path.as_deref().unwrap_or("-"));
            }
        }
        if !is_quiet {
            eprintln!("{}", self.line());
        }
        Ok(())
    }

    fn line(&self) -> String {
        let count = |is: fn(&Fate) -> bool| self.fates.iter().filter(|fate| is(fate)).count();
        let pulled = count(|fate| matches!(fate, Fate::Pulled { .. }));
        let here = count(|fate| matches!(fate, Fate::UpToDate(_)));
        let failed = count(|fate| matches!(fate, Fate::Failed(_)));
        let maybe = |is_told: bool, text: String| if is_told { text } else { String::new() };
        [
            format!("{} pulled", counted(pulled as u64, "file")),
            maybe(here > 0, format!(", {here} up to date")),
            maybe(failed > 0, format!(", {failed} failed")),
            pace(&self.totals),
            checksums(&self.totals),
        ]
        .concat()
    }

    /// What is wrong with the only file, by its address unless the message has a path or the address.
    fn only(&self, error: &PullError) -> String {
        let (message, url) = (chain(error), self.names.first().map_or("", |named| &named.url));
        match error {
            PullError::Source(Fault::NotFound(said)) if may_be_folder(url, said) => {
                format!(
                    "{url}: {}; if it is a folder, copy it with `stroll mirror`",
                    message.trim_end_matches('.')
                )
            }
            PullError::Source(_) if !message.contains(url) => format!("{url}: {message}"),
            _ => message,
        }
    }

    fn json(&self) -> serde_json::Value {
        let files: Vec<_> =
            self.names.iter().zip(self.fates).map(|(named, fate)| file_json(named, fate)).collect();
        json!({"version": 1, "files": files, "totals": self.totals, "checksums": self.totals.checksums})
    }

    /// All is well, or an error with the exit code that says what is not.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        let failures: Vec<&PullError> = self
            .fates
            .iter()
            .filter_map(|fate| match fate {
                Fate::Failed(error) => Some(error),
                _ => None,
            })
            .collect();
        let is_unfinished = self.fates.iter().any(|fate| matches!(fate, Fate::Interrupted));
        let (code, message) = match (failures.as_slice(), self.stopped) {
            ([], Stopped::OutOfTime) if is_unfinished => {
                (Code::Deadline, format!("out of time; {}", self.goes_on))
            }
            ([], Stopped::Interrupted) if is_unfinished => {
                (Code::Other, format!("interrupted; {}", self.goes_on))
            }
            ([], _) if is_unfinished => (Code::Unreachable, "the circle gives no more slots".to_owned()),
            ([], _) => return Ok(()),
            ([only], _) if self.fates.len() == 1 => (code_of(only), self.only(only)),
            (failures, _) if failures.len() == self.fates.len() && is_same(failures) => (
                code_of(failures[0]),
                format!("none of the {} files came: {}", failures.len(), chain(failures[0])),
            ),
            (failures, _) => {
                (Code::SomeFailed, format!("{} of {} files failed", failures.len(), self.fates.len()))
            }
        };
        Err(Failed { code, message }.into())
    }
}

/// Whether an FTP server may mean that the path is a folder. Some say it, and some only that they cannot open it.
fn may_be_folder(url: &str, said: &str) -> bool {
    let said = said.to_lowercase();
    let is_absent = ["no such", "not found", "not exist"].iter().any(|words| said.contains(words));
    url.starts_with("ftp") && !is_absent
}

fn is_same(failures: &[&PullError]) -> bool {
    failures.windows(2).all(|pair| matches!(pair, [a, b] if code_of(a) == code_of(b)))
}

/// Which exit code an error gives.
pub(in crate::cli) fn code_of(error: &PullError) -> Code {
    match error {
        PullError::Source(fault) => match fault {
            Fault::NotFound(_) => Code::FileNotFound,
            Fault::Login(_)
            | Fault::Denied(_)
            | Fault::Unsupported(_)
            | Fault::NoChecksum(_)
            | Fault::NotAnIndex(_)
            | Fault::Redirect(_)
            | Fault::IsFolder(_)
            | Fault::Tls(_) => Code::Fatal,
            Fault::Nonsense(_) => Code::Integrity,
            Fault::Local { .. } => Code::Other,
            _ => Code::Refused,
        },
        PullError::Sink(sink) => match sink {
            SinkError::Integrity { .. } | SinkError::SizeDiffers { .. } => Code::Integrity,
            SinkError::DiskFull { .. } => Code::DiskFull,
            SinkError::NotAFolder { .. } => Code::FolderNotFound,
            _ => Code::Other,
        },
    }
}

/// Size, time, rate, slots, share of waiting: how a line about a pull ends.
pub(in crate::cli) fn pace(totals: &Totals) -> String {
    let Totals { bytes, elapsed_s, waited_s, paused_s, slots, .. } = *totals;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and no petabyte")]
    let rate = (bytes as f64 / elapsed_s.max(1e-3)) as u64;
    let span = |seconds: f64| human_duration(Duration::from_secs_f64(seconds));
    // A rate of nothing says nothing.
    let mut text = match bytes {
        0 => format!(" in {}", span(elapsed_s)),
        _ => format!(": {} in {}, {}/s", human_size(bytes), span(elapsed_s), human_size(rate)),
    };
    if waited_s > 0.0 {
        let share = 100.0 * waited_s / elapsed_s.max(1e-3);
        let slots = counted(slots, "slot");
        let _ = write!(text, ", {slots}, {share:.0} % of the time waiting for a slot");
    }
    if paused_s > 0.0 {
        let _ = write!(text, ", {} leaving the source alone", span(paused_s));
    }
    text
}

/// Which lists of checksums were used, if that was asked for: the last part of a line about a pull.
pub(in crate::cli) fn checksums(totals: &Totals) -> String {
    totals.checksums.as_ref().map_or_else(String::new, |checksums| format!("; {checksums}"))
}

fn file_json(named: &Named, fate: &Fate) -> serde_json::Value {
    let mut file = json!({"url": named.url, "path": named.path});
    let (result, more) = match fate {
        Fate::Pulled { size, sha256, .. } => {
            let sha256 = sha256.map(|digest| data_encoding::HEXLOWER.encode(&digest));
            ("pulled", json!({"size": size, "sha256": sha256}))
        }
        Fate::UpToDate(_) => ("up_to_date", json!({})),
        Fate::NotMeant => ("not_meant", json!({})),
        Fate::Planned { size } => ("planned", json!({"size": size})),
        Fate::Failed(error) => ("failed", json!({"error": chain(error)})),
        Fate::Interrupted => ("interrupted", json!({})),
    };
    if let (Some(file), Some(more)) = (file.as_object_mut(), more.as_object()) {
        file.insert("result".into(), result.into());
        file.extend(more.clone());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_at_an_ftp_server_is_not_just_not_found() {
        for said in ["550 Is a directory.", "550 pub: Not a regular file", "550 Failed to open file."] {
            assert!(may_be_folder("ftp://h/pub", said), "{said}");
        }
        assert!(!may_be_folder("ftp://h/pub", "550 No such file or directory."));
        assert!(!may_be_folder("http://h/pub", "HTTP 404 Not Found"));
    }
}
