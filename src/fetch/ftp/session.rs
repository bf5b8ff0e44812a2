//! What is asked of one login: versions and ranges. Folders are in `folders`.
//!
//! Servers differ in which questions they answer, and 550 means many things: absent, not allowed, not a plain file, not
//! in this mode. So each question is asked by itself, a refusal counts as absence only if its words say so, and in doubt
//! `RETR` decides.

use std::time::Duration;

use super::super::listing::{Found, Kind, Line, When, mlsd};
use super::super::{Address, Ask, Fault, LinkTarget, Opened, Options, Sameness, Version};
use super::control::{Command, Control, Data, Refused};
use super::folders::{Home, Names};
use super::replies::{Asked, Reply};

/// How much is read at once: half the processor time of 64 KiB.
pub(super) const READ: usize = 256 * 1_024;

/// Whether the server answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// Not known: it has refused for single files only.
    Perhaps,
    Yes,
    No,
}

impl Answers {
    /// The server refused the question about a file that exists.
    fn doubt(&mut self) {
        if *self == Self::Perhaps {
            *self = Self::No;
        }
    }
}

/// A login at a source, with what it has learnt of it.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing learnt of the server")]
pub(super) struct Session {
    /// Any address of the source.
    at: Address,
    pub(super) control: Control,
    pub(super) stall_after: Duration,
    pub(super) hidden: bool,
    /// Answers to `SIZE` and `MDTM`.
    sizes: Answers,
    times: Answers,
    /// Whether the server knows `REST`; `None` before the first question.
    rests: Option<bool>,
    /// Whether the server has refused the position of a `REST` once.
    has_refused_position: bool,
    /// Where relative paths begin.
    pub(super) home: Home,
    /// Whether a `CWD` has left that folder.
    pub(super) is_away: bool,
    /// Whether `LIST -a` is refused or lists nothing.
    pub(super) lists_plainly: bool,
    /// Names in the folder that was read last to see whether a file exists.
    pub(super) names: Option<(Vec<u8>, Names)>,
}

/// What `open` found, and the data connection if there is anything to read.
pub(super) struct Begun {
    pub(super) opened: Opened,
    /// How many bytes to read at most.
    pub(super) limit: Option<u64>,
    pub(super) data: Option<Data>,
}

/// Answers of the server about a path.
pub(super) struct Look {
    /// Size and time, as far as it tells them.
    pub(super) version: Version,
    /// The last refusal, if it tells neither; one that says that the path does not exist comes first.
    pub(super) refusal: Option<Reply>,
    is_folder: bool,
}

impl Look {
    fn new() -> Self {
        Self { version: Version::default(), refusal: None, is_folder: false }
    }

    /// Whether it shows that there is a file.
    pub(super) fn is_file(&self) -> bool {
        self.version != Version::default()
    }

    /// Whether the server states that the path does not exist.
    pub(super) fn is_absent(&self) -> bool {
        !self.is_file() && self.refusal.as_ref().is_some_and(Reply::says_absent)
    }

    /// Whether the server told its size or time before, and refuses now.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_file() && self.refusal.is_some()
    }

    fn refuse(&mut self, reply: Reply) {
        if !self.refusal.as_ref().is_some_and(Reply::says_absent) {
            self.refusal = Some(reply);
        }
    }
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn begin(address: &Address, options: &Options) -> Result<Self, Fault> {
        let control = Control::connect(address, options).await?;
        let rests = control.features.rest.then_some(true);
        Ok(Self {
            at: address.clone(),
            control,
            stall_after: options.stall_after,
            hidden: options.hidden,
            sizes: Answers::Perhaps,
            times: Answers::Perhaps,
            rests,
            has_refused_position: false,
            home: Home::Unasked,
            is_away: false,
            lists_plainly: false,
            names: None,
        })
    }

    /// Whether it is good for this address.
    pub(super) fn serves(&self, address: &Address) -> bool {
        self.at.same_origin(address) && !self.control.is_lost()
    }

    /// What the server says of a path: size and time, as far as it knows how.
    pub(super) async fn look(&mut self, path: &[u8]) -> Result<Look, Fault> {
        let mut look = Look::new();
        if self.sizes != Answers::No
            && let Some(reply) = self.question("SIZE", path, &mut look).await?
        {
            look.version.size = Some(reply.size().ok_or_else(|| Fault::Nonsense(reply.said()))?);
        }
        if self.times != Answers::No
            && let Some(reply) = self.question("MDTM", path, &mut look).await?
        {
            look.version.modified_s = reply.time_s();
        }
        let is_known = look.version.size.is_some() && look.version.modified_s.is_some();
        if self.control.features.mlst && !is_known && !look.is_absent() {
            self.facts(path, &mut look).await?;
        }
        // FTP does not tell the server's clock.
        look.version = look.version.described_at(jiff::Timestamp::now().as_second());
        Ok(look)
    }

    /// Asks `SIZE` or `MDTM`. Gives the answer if there is one; notes a refusal.
    async fn question(&mut self, verb: &str, path: &[u8], look: &mut Look) -> Result<Option<Reply>, Fault> {
        let reply = self.control.ask(Command::with_path(verb, path)?).await?;
        let answers = if verb == "SIZE" { &mut self.sizes } else { &mut self.times };
        match reply.code {
            213 => {
                *answers = Answers::Yes;
                return Ok(Some(reply));
            }
            _ if reply.is_unknown_command() => answers.doubt(),
            _ if reply.is_overload() => return Err(reply.fault(Asked::Anything)),
            450 | 451 => look.refuse(reply),
            400..500 => return Err(reply.fault(Asked::Anything)),
            _ => look.refuse(reply),
        }
        Ok(None)
    }

    /// Asks `MLST` for what `SIZE` and `MDTM` did not tell.
    async fn facts(&mut self, path: &[u8], look: &mut Look) -> Result<(), Fault> {
        let reply = self.control.ask(Command::with_path("MLST", path)?).await?;
        if reply.code != 250 {
            if reply.is_unknown_command() {
                self.control.features.mlst = false;
            } else if look.refusal.is_some() {
                look.refuse(reply);
            }
            return Ok(());
        }
        match reply.facts().map(mlsd::line) {
            Some(Line::Entry(Found { kind: Kind::File, size, when, .. })) => {
                look.version.size = look.version.size.or(size);
                if let When::Utc(time_s) = when {
                    look.version.modified_s.get_or_insert(time_s);
                }
            }
            Some(Line::Entry(Found { kind: Kind::Folder, .. }) | Line::Nothing) => look.is_folder = true,
            _ => {}
        }
        Ok(())
    }

    /// What the source says of a file, without pulling it.
    pub(super) async fn probe(&mut self, address: &Address) -> Result<Opened, Fault> {
        let path = argument(address);
        let look = self.look(&path).await?;
        if !look.is_file() {
            let is_folder = || Fault::IsFolder(format!("{address}/"));
            match look.refusal {
                _ if look.is_folder => return Err(is_folder()),
                Some(reply) if reply.says_absent() => return Err(reply.fault(Asked::Anything)),
                Some(_) if self.is_folder(&path).await? => return Err(is_folder()),
                Some(_) => self.try_retr(&path).await?.map_err(|reply| reply.fault(Asked::Anything))?,
                // It answers no questions at all.
                None => {}
            }
        }
        let ranges = self.can_rest().await?;
        Ok(Opened { length: look.version.size, version: look.version, from: 0, ranges })
    }

    /// What the symbolic link at this address leads to. `CWD` first: some servers tell sizes and times of folders.
    pub(super) async fn resolve(&mut self, address: &Address) -> Result<LinkTarget, Fault> {
        let path = argument(address);
        if self.is_folder(&path).await? {
            return Ok(LinkTarget::Folder);
        }
        let look = self.look(&path).await?;
        if look.is_file() {
            return Ok(LinkTarget::File(look.version));
        }
        if look.is_absent() {
            return Ok(LinkTarget::Missing);
        }
        match self.try_retr(&path).await?.map_err(|reply| reply.fault(Asked::Anything)) {
            Ok(()) => Ok(LinkTarget::File(look.version)),
            Err(fault) if fault.is_temporary() => Err(fault),
            Err(_) => Ok(LinkTarget::Missing),
        }
    }

    /// False only if the server states that there is no such file: its folder is listed without it and `RETR` is
    /// refused, or the words of the refusal say so.
    pub(super) async fn exists(&mut self, address: &Address) -> Result<bool, Fault> {
        let path = argument(address);
        if self.look(&path).await?.is_file() {
            return Ok(true);
        }
        let listed = self.is_listed(&path).await?;
        if listed == Some(true) {
            return Ok(true);
        }
        let Err(reply) = self.try_retr(&path).await? else { return Ok(true) };
        match reply.fault(Asked::Anything) {
            fault if fault.is_temporary() => Err(fault),
            Fault::NotFound(_) => Ok(listed.is_none() && !reply.says_absent()),
            _ => Ok(true),
        }
    }

    /// Begins to pull a file and stops. Gives the refusal if there is one.
    async fn try_retr(&mut self, path: &[u8]) -> Result<Result<(), Reply>, Fault> {
        match self.control.transfer(Command::with_path("RETR", path)?, None).await? {
            Ok(data) => {
                self.control.resync(data).await?;
                self.sizes.doubt();
                self.times.doubt();
                Ok(Ok(()))
            }
            Err(Refused::Rest(reply) | Refused::Command(reply)) => Ok(Err(reply)),
        }
    }

    /// Asks for a range.
    pub(super) async fn open(&mut self, ask: &Ask<'_>) -> Result<Begun, Fault> {
        let path = argument(ask.address);
        let Look { version, refusal, .. } = self.look(&path).await?;
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
        let reply = match self.control.transfer(command, (from > 0).then_some(from)).await? {
            Ok(data) => {
                if refusal.is_some() && opened.version == Version::default() {
                    self.sizes.doubt();
                    self.times.doubt();
                }
                return Ok(Begun { opened, limit, data: Some(data) });
            }
            Err(Refused::Rest(reply)) if !reply.is_overload() && reply.code >= 500 => {
                return Err(self.position_fault(&reply));
            }
            Err(Refused::Command(reply)) if from > 0 && reply.refuses_position() => {
                return Err(self.position_fault(&reply));
            }
            Err(Refused::Rest(reply) | Refused::Command(reply)) => reply,
        };
        Err(reply.fault(asked))
    }

    /// A refused position means that the file is shorter now: it is pulled from its start. A server that refuses again,
    /// or does not know the command, cannot continue files at all.
    fn position_fault(&mut self, reply: &Reply) -> Fault {
        if self.has_refused_position || reply.is_unknown_command() {
            self.rests = Some(false);
        }
        self.has_refused_position = true;
        Fault::Changed
    }

    async fn can_rest(&mut self) -> Result<bool, Fault> {
        if let Some(known) = self.rests {
            return Ok(known);
        }
        let can = self.control.ask("REST 0").await?.code == 350;
        self.rests = Some(can);
        Ok(can)
    }

    /// Answer to `MDTM`, if the server gives one.
    pub(super) async fn modified_s(&mut self, path: &[u8]) -> Result<Option<i64>, Fault> {
        if self.times == Answers::No {
            return Ok(None);
        }
        let reply = self.control.ask(Command::with_path("MDTM", path)?).await?;
        Ok(reply.time_s().filter(|_| reply.code == 213))
    }
}

/// The path as a command's argument: from the folder of the login, and with a second slash from the root, as curl has
/// it. Never an option.
pub(super) fn argument(address: &Address) -> Vec<u8> {
    let path = address.path();
    let path = path.strip_prefix(b"/").unwrap_or(&path);
    let path = if path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    // A blank at the start would be taken for one between command and argument.
    if path.starts_with(b"-") || path.starts_with(b" ") { [b"./", path].concat() } else { path.to_vec() }
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
            ("ftp://h/%20a", "./ a"),
            ("ftp://h/a%20b", "a b"),
        ] {
            let address = Address::parse(address).expect(address).0;
            assert_eq!(argument(&address), expected.as_bytes(), "{address}");
        }
    }
}
