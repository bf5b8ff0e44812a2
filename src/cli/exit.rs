//! Exit codes, all in one table, and which error gives which.

use std::io;
use std::process::ExitCode;

use stroll::peer::ControlError;
use stroll::proto::agent::Invalid;

/// What the process says to its parent. The numbers are an interface; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// Something that no other code names.
    Other = 1,
    /// Wrong arguments or settings.
    Usage = 2,
    /// A folder is not there.
    FolderNotFound = 3,
    /// A file is not there.
    FileNotFound = 4,
    /// The source refuses, or does not answer: try again later.
    Refused = 5,
    /// Some files came and some did not.
    SomeFailed = 6,
    /// The source will not give it, however often it is asked.
    Fatal = 7,
    /// As much as `--max-transfer` allows.
    Quota = 8,
    /// Nothing to do, where that was asked for.
    Nothing = 9,
    /// Out of time.
    Deadline = 10,
    /// The bytes are not the right ones.
    Integrity = 11,
    /// More would be removed than is allowed.
    MaxDelete = 12,
    /// No token, or nobody of the circle answers.
    Unreachable = 13,
    /// No room on the disk.
    DiskFull = 14,
    /// The circle is overloaded, and that was asked for.
    Overloaded = 15,
}

/// Wrong arguments or settings: the message names the field.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// The doctor found something that must be mended.
#[derive(Debug, thiserror::Error)]
#[error("{0} {noun} must be mended", noun = if *.0 == 1 { "finding" } else { "findings" })]
pub(super) struct Ailing(pub(super) usize);

/// A file or folder that was named is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotFound {
    /// A file.
    #[error("{0}: no such file")]
    File(String),
    /// A folder that cannot be made either.
    #[error("{0}: no such folder, and it cannot be made")]
    Folder(String),
    /// A folder that is not made.
    #[error("{0}: no such folder")]
    NoFolder(String),
}

/// Nobody of the circle answers: the message says what to look at.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) String);

/// A transfer that failed knows its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failed {
    pub(super) code: Code,
    pub(super) message: String,
}

/// Somebody else's exit code, which is passed on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Passed {
    pub(super) code: u8,
    pub(super) message: String,
}

/// An exit code whose reason was written to standard output already.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub(super) struct Told(pub(super) u8);

pub(super) fn code(error: &anyhow::Error) -> ExitCode {
    if let Some(Passed { code, .. }) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if let Some(Told(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    ExitCode::from(classify(error) as u8)
}

fn classify(error: &anyhow::Error) -> Code {
    for cause in error.chain() {
        if let Some(Failed { code, .. }) = cause.downcast_ref() {
            return *code;
        }
        if cause.is::<UsageError>() || cause.is::<Invalid>() || cause.is::<toml::de::Error>() {
            return Code::Usage;
        }
        let is_silent =
            matches!(cause.downcast_ref(), Some(ControlError::NotRunning(_) | ControlError::Silent(_)));
        if is_silent || cause.is::<Unreachable>() {
            return Code::Unreachable;
        }
        match cause.downcast_ref() {
            Some(NotFound::File(_)) => return Code::FileNotFound,
            Some(NotFound::Folder(_) | NotFound::NoFolder(_)) => return Code::FolderNotFound,
            None => {}
        }
        if cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::StorageFull) {
            return Code::DiskFull;
        }
    }
    Code::Other
}

/// An error with its causes, in one line. A cause that the error before it has told is not told again.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !line.ends_with(&told) {
            line = format!("{line}: {told}");
        }
        cause = error.source();
    }
    line
}

/// Whether the reader of our output has gone (`stroll … | head`): nothing to complain about.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use stroll::peer::EnrolError;
    use stroll::trust::Refusal;

    use super::*;

    #[test]
    fn the_cause_decides_however_deep_it_lies() {
        let full = anyhow::Error::from(io::Error::from(io::ErrorKind::StorageFull)).context("figures");
        assert_eq!(classify(&full), Code::DiskFull);
        let wrong = anyhow::Error::from(Invalid::new("slot", "too short")).context("scenario");
        assert_eq!(classify(&wrong), Code::Usage);
        let silent = anyhow::Error::from(Unreachable("nobody answered".into())).context("join");
        assert_eq!(classify(&silent), Code::Unreachable);
        assert_eq!(classify(&anyhow::anyhow!("something else")), Code::Other);
    }

    #[test]
    fn causes_are_told_in_one_line() {
        let error = anyhow::anyhow!("no such file").context("cannot read").context("list");
        assert_eq!(chain(error.as_ref()), "list: cannot read: no such file");
    }

    #[test]
    fn a_cause_that_was_told_already_is_not_repeated() {
        let error = anyhow::Error::from(EnrolError::Refused(Refusal::Expired)).context("cannot join virgo");
        let line = chain(error.as_ref());
        assert_eq!(
            line,
            "cannot join virgo: the answer is not the authority's word for this key: it has expired"
        );
    }
}
