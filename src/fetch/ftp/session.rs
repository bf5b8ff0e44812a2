//! What is asked of one login: versions, ranges, listings.

use std::time::Duration;

use bytes::BytesMut;

use super::super::listing::{Collector, Line, Lines, Piece, list_line, mlsd};
use super::super::{Address, Ask, Fault, Listing, NameError, Opened, Options, Sameness, Version};
use super::control::{Command, Control, Data};
use super::pace::Pace;
use super::replies::Asked;

/// How much is read at once: half the processor time of 64 KiB.
pub(super) const READ: usize = 256 * 1_024;

/// Zones are multiples of this.
const ZONE_STEP_S: i64 = 15 * 60;

/// No zone is farther from Greenwich.
const FARTHEST_ZONE_S: i64 = 15 * 3_600;

/// A login at a source, with what it has learnt of it.
pub(super) struct Session {
    /// Any address of the source.
    at: Address,
    pub(super) control: Control,
    stall_after: Duration,
    hidden: bool,
    /// Whether the server knows `SIZE`, `MDTM`, `REST`; until it does not.
    sizes: bool,
    times: bool,
    rests: Option<bool>,
}

/// What `open` found, and the data connection if there is anything to read.
pub(super) struct Begun {
    pub(super) opened: Opened,
    /// How many bytes to read at most.
    pub(super) limit: Option<u64>,
    pub(super) data: Option<Data>,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn begin(
        address: &Address,
        options: &Options,
        refused: &mut bool,
    ) -> Result<Self, Fault> {
        let control = Control::connect(address, options, refused).await?;
        let rests = control.features.rest.then_some(true);
        Ok(Self {
            at: address.clone(),
            control,
            stall_after: options.stall_after,
            hidden: options.hidden,
            sizes: true,
            times: true,
            rests,
        })
    }

    /// Whether it is good for this address.
    pub(super) fn serves(&self, address: &Address) -> bool {
        self.at.same_origin(address) && !self.control.is_lost()
    }

    /// What the server says of a file: size and time, as far as it knows how.
    pub(super) async fn version(&mut self, path: &[u8]) -> Result<Version, Fault> {
        let mut version = Version::default();
        if self.sizes {
            let reply = self.control.ask(Command::with_path("SIZE", path)?).await?;
            match reply.code {
                213 => {
                    version.size = Some(reply.size().ok_or_else(|| Fault::Nonsense(reply.said()))?);
                }
                _ if reply.is_unknown_command() => self.sizes = false,
                _ => return Err(reply.fault(Asked::Anything)),
            }
        }
        if self.times {
            let reply = self.control.ask(Command::with_path("MDTM", path)?).await?;
            match reply.code {
                213 => version.modified_s = reply.time_s(),
                _ if reply.is_unknown_command() => self.times = false,
                // It has a size, so it is there.
                550 if version.size.is_some() => {}
                _ => return Err(reply.fault(Asked::Anything)),
            }
        }
        Ok(version)
    }

    /// What the source says of a file, without pulling it.
    pub(super) async fn probe(&mut self, address: &Address) -> Result<Opened, Fault> {
        let version = self.version(&argument(address)).await?;
        let ranges = self.can_rest().await?;
        Ok(Opened { length: version.size, version, from: 0, ranges })
    }

    /// Asks for a range.
    pub(super) async fn open(&mut self, ask: &Ask<'_>) -> Result<Begun, Fault> {
        let path = argument(ask.address);
        let version = self.version(&path).await?;
        let ranges = self.can_rest().await?;
        let changed = ask.known.is_some_and(|known| known.compare(&version) == Sameness::Changed);
        let from = if changed || !ranges { 0 } else { ask.from };
        let rest = match version.size {
            Some(size) => Some(size.checked_sub(from).ok_or(Fault::Changed)?),
            None => None,
        };
        let limit = [rest, ask.length].into_iter().flatten().min();
        // Where the source does not say how long the file is, nobody knows how much will come.
        let opened = Opened { version, from, length: rest.and(limit), ranges };
        if limit == Some(0) {
            return Ok(Begun { opened, limit, data: None });
        }
        let asked = if opened.version.size.is_some() { Asked::FileThatIs } else { Asked::Anything };
        let command = Command::with_path("RETR", &path)?;
        let data = self.control.transfer(command, (from > 0).then_some(from), asked).await?;
        Ok(Begun { opened, limit, data: Some(data) })
    }

    /// The entries of a folder.
    pub(super) async fn list(&mut self, address: &Address) -> Result<Listing, Fault> {
        let folder = argument(address);
        let mut collector = Collector::new(self.hidden);
        if self.control.features.mlsd {
            self.gather(Command::with_path("MLSD", &folder)?, mlsd::line, &mut collector).await?;
            return Ok(collector.finish(None));
        }
        let home = self.enter(&folder).await?;
        let now_s = jiff::Timestamp::now().as_second();
        let verb = if self.hidden { "LIST -a" } else { "LIST" };
        self.gather(verb.into(), |line| list_line(line, now_s), &mut collector).await?;
        if let Some(home) = home {
            let reply = self.control.ask(Command::with_path("CWD", home.as_bytes())?).await?;
            if !matches!(reply.code, 200 | 250) {
                return Err(reply.fault(Asked::Manners));
            }
        }
        let offset_s = match collector.sample() {
            Some((name, time_s)) => self.zone(&argument(&address.file(name)), time_s).await?,
            None => None,
        };
        Ok(collector.finish(offset_s))
    }

    /// Goes into a folder to list it from there: in a path that is an argument of `LIST`, servers see options and
    /// patterns. Gives the way back.
    async fn enter(&mut self, folder: &[u8]) -> Result<Option<String>, Fault> {
        if folder.is_empty() {
            return Ok(None);
        }
        let reply = self.control.ask("PWD").await?;
        let home = reply.folder().filter(|_| reply.code == 257).ok_or_else(|| reply.fault(Asked::Manners))?;
        let reply = self.control.ask(Command::with_path("CWD", folder)?).await?;
        if matches!(reply.code, 200 | 250) { Ok(Some(home)) } else { Err(reply.fault(Asked::Anything)) }
    }

    /// Reads a listing from its data connection, line by line and within bounds.
    async fn gather(
        &mut self,
        command: Command,
        read: impl Fn(&[u8]) -> Line<'_>,
        collector: &mut Collector,
    ) -> Result<(), Fault> {
        let mut data = self.control.transfer(command, None, Asked::Anything).await?;
        let mut lines = Lines::default();
        let mut pace = Pace::new(self.stall_after);
        let mut buffer = BytesMut::with_capacity(READ);
        let mut give = |piece: Piece<'_>| match piece {
            Piece::Line(line) => match read(line) {
                Line::Entry(found) => collector.add(&found),
                Line::Nothing => {}
                Line::Strange => collector.mark_truncated(),
            },
            Piece::TooLong(line) => {
                collector.refuse(line, NameError::TooLong);
                collector.mark_truncated();
            }
        };
        loop {
            buffer.clear();
            let read = pace.read(&mut data, &mut buffer).await;
            match read {
                Ok(0) => break,
                Ok(_) => lines.push(&buffer, &mut give),
                Err(fault) => {
                    self.control.give_up();
                    return Err(fault);
                }
            }
            if lines.is_over() {
                drop(data);
                collector.mark_truncated();
                return self.control.resync().await;
            }
        }
        lines.end(&mut give);
        data.close().await;
        let reply = self.control.hear().await?;
        if !matches!(reply.code, 226 | 250) {
            return Err(reply.fault(Asked::Anything));
        }
        if reply.says_truncated() {
            collector.mark_truncated();
        }
        Ok(())
    }

    /// What to add to a listing's times: the difference between one of them and what `MDTM` says of it.
    async fn zone(&mut self, path: &[u8], listed_s: i64) -> Result<Option<i64>, Fault> {
        if !self.times {
            return Ok(None);
        }
        let reply = self.control.ask(Command::with_path("MDTM", path)?).await?;
        let time_s = reply.time_s().filter(|_| reply.code == 213);
        Ok(time_s.and_then(|time_s| zone_of(time_s.checked_sub(listed_s)?)))
    }

    async fn can_rest(&mut self) -> Result<bool, Fault> {
        if let Some(known) = self.rests {
            return Ok(known);
        }
        let can = self.control.ask("REST 0").await?.code == 350;
        self.rests = Some(can);
        Ok(can)
    }
}

/// Listed times are whole minutes, rounded down; zones are whole quarters of an hour.
fn zone_of(difference_s: i64) -> Option<i64> {
    let zone_s = difference_s.div_euclid(ZONE_STEP_S) * ZONE_STEP_S;
    (difference_s - zone_s < 60 && zone_s.abs() <= FARTHEST_ZONE_S).then_some(zone_s)
}

/// The path as a command's argument: from the folder of the login, and with a second slash from the root, as curl has
/// it. Never an option.
pub(super) fn argument(address: &Address) -> Vec<u8> {
    let path = address.path();
    let path = path.strip_prefix(b"/").unwrap_or(&path);
    let path = if path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    if path.starts_with(b"-") { [b"./", path].concat() } else { path.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_login_and_with_two_slashes_at_the_root() {
        for (address, expected) in [
            ("ftp://h/a/b", "a/b"),
            ("ftp://h//a/b", "/a/b"),
            ("ftp://h/a/", "a"),
            ("ftp://h/", ""),
            ("ftp://h//", "/"),
            ("ftp://h/-rf", "./-rf"),
            ("ftp://h/a%20b", "a b"),
        ] {
            let address = Address::parse(address).expect(address).0;
            assert_eq!(argument(&address), expected.as_bytes(), "{address}");
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
