//! Folders of an FTP source: their listings, and whether a name is in one.
//!
//! `MLSD`, or `LIST` if the server refuses it. `LIST` is asked from within the folder: in a path as its argument servers
//! see options and patterns.

use std::collections::BTreeSet;

use bytes::BytesMut;

use super::super::listing::{Collector, Line, Lines, ListReader, MOST_ENTRIES, Piece, mlsd};
use super::super::{Address, Fault, NameError, PackedListing};
use super::control::{Command, Refused};
use super::pace::Pace;
use super::replies::Asked;
use super::session::{READ, Session, argument};

/// Zones are multiples of this.
const ZONE_STEP_S: i64 = 15 * 60;

/// No zone is farther from Greenwich.
const FARTHEST_ZONE_S: i64 = 15 * 3_600;

/// The folder of the login, to which every `CWD` returns.
pub(super) enum Home {
    /// `PWD` has not been sent yet.
    Unasked,
    /// The answer.
    At(Vec<u8>),
    /// The server does not tell it: after a `CWD` the login cannot be used any more.
    Unknown,
}

/// What is gathered from the lines of a listing.
pub(super) trait Rows: Send {
    fn line(&mut self, line: &Line<'_>);
    fn too_long(&mut self, start: &[u8]);
    fn mark_incomplete(&mut self);
}

impl Rows for Collector {
    fn line(&mut self, line: &Line<'_>) {
        line.collect(self);
    }

    fn too_long(&mut self, start: &[u8]) {
        self.refuse(start, NameError::TooLong);
        self.mark_truncated();
    }

    fn mark_incomplete(&mut self) {
        self.mark_truncated();
    }
}

/// Names in a folder, of whatever is there.
#[derive(Default)]
pub(super) struct Names {
    names: BTreeSet<Vec<u8>>,
    is_incomplete: bool,
}

impl Rows for Names {
    fn line(&mut self, line: &Line<'_>) {
        let name = match line {
            Line::Entry(found) => found.name,
            Line::Link { name, .. } => name,
            Line::Nothing => return,
            Line::Strange => return self.is_incomplete = true,
        };
        if self.names.len() < MOST_ENTRIES {
            self.names.insert(name.to_vec());
        } else {
            self.is_incomplete = true;
        }
    }

    fn too_long(&mut self, _: &[u8]) {
        self.is_incomplete = true;
    }

    fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }
}

/// Lines of which command.
enum Style {
    Mlsd,
    /// Asked from within the folder, which is thus known to exist.
    List(ListReader),
    /// Asked with the folder as argument.
    ListOf(ListReader),
}

impl Style {
    fn read<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        match self {
            Self::Mlsd => mlsd::line(line),
            Self::List(reader) | Self::ListOf(reader) => reader.line(line),
        }
    }
}

impl Session {
    /// The entries of a folder.
    pub(super) async fn list(&mut self, address: &Address) -> Result<PackedListing, Fault> {
        let hidden = self.hidden;
        let collector = self.rows(&argument(address), hidden, || Collector::new(hidden)).await?;
        let offset_s = match collector.sample() {
            Some((name, time_s)) if !self.control.is_lost() => {
                let modified_s = self.modified_s(&argument(&address.file(&name))).await?;
                modified_s.and_then(|modified_s| zone_of(modified_s.checked_sub(time_s)?))
            }
            _ => None,
        };
        Ok(collector.finish(offset_s))
    }

    /// Whether there is a folder at this path, to which the server lets us go.
    pub(super) async fn is_folder(&mut self, path: &[u8]) -> Result<bool, Fault> {
        match self.enter(path).await {
            Ok(()) => {
                self.leave().await?;
                Ok(true)
            }
            Err(fault) if fault.is_temporary() || self.control.is_lost() => Err(fault),
            Err(_) => Ok(false),
        }
    }

    /// Whether a path is in the listing of its folder; `None` if that cannot be said. A folder that does not exist is
    /// looked for in its own.
    pub(super) async fn is_listed(&mut self, path: &[u8]) -> Result<Option<bool>, Fault> {
        let mut path = path;
        let mut is_above = false;
        loop {
            let Some((parent, name)) = split(path) else { return Ok(None) };
            match self.read_names(parent).await {
                Ok(()) => {
                    let Some((_, names)) = &self.names else { return Ok(None) };
                    return Ok(match names.names.contains(name) {
                        true if is_above => None,
                        false if names.is_incomplete => None,
                        is_listed => Some(is_listed),
                    });
                }
                Err(Fault::NotFound(_)) if !parent.is_empty() => (path, is_above) = (parent, true),
                Err(fault) if fault.is_temporary() || self.control.is_lost() => return Err(fault),
                Err(_) => return Ok(None),
            }
        }
    }

    /// Reads the names in a folder. They are kept until another question is asked, because files that are gone come in
    /// groups.
    async fn read_names(&mut self, folder: &[u8]) -> Result<(), Fault> {
        if self.names.as_ref().is_none_or(|(of, _)| of != folder) {
            self.names = None;
            let names = self.rows(folder, true, Names::default).await?;
            self.names = Some((folder.to_vec(), names));
        }
        Ok(())
    }

    /// Reads a folder, by the first command that the server does not refuse. `all` includes hidden names.
    async fn rows<T: Rows>(
        &mut self,
        folder: &[u8],
        all: bool,
        make: impl Fn() -> T + Send,
    ) -> Result<T, Fault> {
        if !self.control.features.mlsd {
            return Ok(self.list_rows(folder, all, &make).await?.0);
        }
        let mut rows = make();
        let refused = match self.gather(Command::with_path("MLSD", folder)?, Style::Mlsd, &mut rows).await {
            // Not even the folder itself is listed: some servers answer so if it does not exist.
            Ok(0) if !folder.is_empty() => {
                self.enter(folder).await?;
                self.leave().await?;
                return Ok(rows);
            }
            Ok(_) => return Ok(rows),
            Err(fault @ Fault::Refused(_)) => return Err(fault),
            Err(fault) if self.control.is_lost() => return Err(fault),
            Err(fault) => fault,
        };
        let (rows, count) = self.list_rows(folder, all, &make).await?;
        if count > 0 || matches!(refused, Fault::Unsupported(_)) {
            self.control.features.mlsd = false;
        }
        Ok(rows)
    }

    /// Reads a folder by `LIST`. Gives the number of its lines, too.
    async fn list_rows<T: Rows>(
        &mut self,
        folder: &[u8],
        all: bool,
        make: &(impl Fn() -> T + Send),
    ) -> Result<(T, u64), Fault> {
        self.ask_home().await?;
        if matches!(self.home, Home::Unknown) && is_plain(folder) {
            let mut rows = make();
            let command = Command::with_path("LIST", folder)?;
            let count = self.gather(command, Style::ListOf(list_reader()), &mut rows).await?;
            // Some servers list nothing for a folder that does not exist.
            if count > 0 {
                return Ok((rows, count));
            }
        }
        self.enter(folder).await?;
        let result = self.list_here(all, make).await;
        if !self.control.is_lost() {
            self.leave().await?;
        }
        result
    }

    async fn list_here<T: Rows>(
        &mut self,
        all: bool,
        make: &(impl Fn() -> T + Send),
    ) -> Result<(T, u64), Fault> {
        let mut rows = make();
        let is_plain = !all || self.lists_plainly;
        if !is_plain {
            match self.gather("LIST -a".into(), Style::List(list_reader()), &mut rows).await {
                Ok(count) if count > 0 => return Ok((rows, count)),
                Err(fault) if self.control.is_lost() || fault.is_temporary() => return Err(fault),
                // Some servers take the option for a name.
                _ => rows = make(),
            }
        }
        let count = self.gather("LIST".into(), Style::List(list_reader()), &mut rows).await?;
        self.lists_plainly |= !is_plain && count > 0;
        Ok((rows, count))
    }

    async fn ask_home(&mut self) -> Result<(), Fault> {
        if matches!(self.home, Home::Unasked) {
            let reply = self.control.ask("PWD").await?;
            let home = reply.folder().filter(|_| reply.is_done());
            self.home = home.map_or(Home::Unknown, Home::At);
        }
        Ok(())
    }

    /// Changes into a folder.
    async fn enter(&mut self, folder: &[u8]) -> Result<(), Fault> {
        if folder.is_empty() {
            return Ok(());
        }
        self.ask_home().await?;
        let reply = self.control.ask(Command::with_path("CWD", folder)?).await?;
        if !reply.is_done() {
            return Err(reply.fault(Asked::Anything));
        }
        self.is_away = true;
        Ok(())
    }

    /// Returns to the folder of the login. Where that is not possible the login is given up.
    async fn leave(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_away) {
            return Ok(());
        }
        if let Home::At(home) = &self.home {
            let reply = self.control.ask(Command::with_path("CWD", home)?).await?;
            if reply.is_done() {
                return Ok(());
            }
        }
        self.control.give_up();
        Ok(())
    }

    /// Reads a listing from its data connection, line by line and within bounds. Gives the number of lines.
    async fn gather(
        &mut self,
        command: Command,
        mut style: Style,
        rows: &mut impl Rows,
    ) -> Result<u64, Fault> {
        let mut data = match self.control.transfer(command, None).await? {
            Ok(data) => data,
            Err(Refused::Rest(reply) | Refused::Command(reply)) => {
                let is_empty = matches!(style, Style::List(_)) && reply.says_empty();
                return if is_empty { Ok(0) } else { Err(reply.fault(Asked::Anything)) };
            }
        };
        let mut lines = Lines::default();
        let mut pace = Pace::new(self.stall_after);
        let mut buffer = BytesMut::with_capacity(READ);
        let mut count = 0;
        let mut give = |piece: Piece<'_>| {
            count += 1;
            match piece {
                Piece::Line(line) => rows.line(&style.read(line)),
                Piece::TooLong(start) => rows.too_long(start),
            }
        };
        loop {
            buffer.clear();
            match pace.read(&mut data, &mut buffer).await {
                Ok(0) => break,
                Ok(_) => lines.push(&buffer, &mut give),
                Err(fault) => {
                    self.control.give_up();
                    return Err(fault);
                }
            }
            if lines.is_over() {
                rows.mark_incomplete();
                self.control.resync(data).await?;
                return Ok(count);
            }
        }
        lines.end(&mut give);
        let is_list = matches!(style, Style::List(_));
        match self.control.finish(data).await? {
            Some(reply) if reply.is_done() && reply.says_truncated() => rows.mark_incomplete(),
            Some(reply) if reply.is_done() => {}
            Some(reply) if count == 0 && is_list && reply.says_empty() => {}
            Some(reply) => return Err(reply.fault(Asked::Anything)),
            None => {}
        }
        Ok(count)
    }
}

/// Reads lines of `LIST`; the time tells which year is meant where none is given.
fn list_reader() -> ListReader {
    ListReader::new(jiff::Timestamp::now().as_second())
}

/// Whether a path as the argument of `LIST` is neither an option nor a pattern.
fn is_plain(path: &[u8]) -> bool {
    !path.is_empty()
        && !path.starts_with(b"-")
        && path
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/._-+~,=@:".contains(byte) || *byte >= 0x80)
}

/// The folder of a path, and the last name in it.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (path.get(..1)?, path.get(1..)?),
        Some(slash) => (path.get(..slash)?, path.get(slash + 1..)?),
        None => (&b""[..], path),
    };
    (!name.is_empty() && name != b"." && name != b"..").then_some((parent, name))
}

/// Listed times are whole minutes, rounded down; zones are whole quarters of an hour.
fn zone_of(difference_s: i64) -> Option<i64> {
    let zone_s = difference_s.div_euclid(ZONE_STEP_S) * ZONE_STEP_S;
    (difference_s - zone_s < 60 && zone_s.abs() <= FARTHEST_ZONE_S).then_some(zone_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_into_folder_and_name() {
        for (path, parent, name) in [
            ("a/b/c", "a/b", "c"),
            ("c", "", "c"),
            ("/c", "/", "c"),
            ("/a/c", "/a", "c"),
            ("./-c", ".", "-c"),
        ] {
            assert_eq!(split(path.as_bytes()), Some((parent.as_bytes(), name.as_bytes())), "{path}");
        }
        for none in ["", "/", ".", "a/..", "a/"] {
            assert_eq!(split(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn zones_are_whole_quarters_and_on_this_earth() {
        assert_eq!(zone_of(37), Some(0));
        assert_eq!(zone_of(3_600 + 59), Some(3_600));
        assert_eq!(zone_of(-5 * 3_600 + 1), Some(-5 * 3_600));
        assert_eq!(zone_of(20_700), Some(20_700));
        for nonsense in [61, -1, 100 * 3_600, 500] {
            assert_eq!(zone_of(nonsense), None, "{nonsense}");
        }
    }
}
