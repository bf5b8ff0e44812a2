//! FTP and FTPS: a [`Connection`] over one login.
//!
//! ```text
//!   Idle ── open ──> Flowing ── read … ──> Ending ──> Idle
//!     └─ probe, list   └── cut ─────────────────────────┘
//! ```
//!
//! Whoever works with the login owns it and puts it back when the server and we are in step again; so a call that is
//! cancelled midway, or one that fails badly, throws it away by itself, and the next call connects anew. Only reading
//! leaves everything in place, because reading may be cancelled.
//!
//! | file | what it is |
//! |---|---|
//! | `wire` | bytes in and out: commands, replies |
//! | `control` | the control connection: TLS, login, data connections |
//! | `session` | versions, ranges |
//! | `folders` | listings |
//! | `replies` | what the server's words mean (pure) |
//! | `pace` | how long a source may take |
//!
//! The control connection is our own, and of the crate suppaftp only the words for reply codes are used. Its client takes no
//! greeting but 220, waits for ever for a reply without text (`250` and the end of the line), and fuses AUTH with PBSZ and PROT
//! before the login, each with one code only, so servers that answer otherwise could not be used; its parsers of replies are
//! private, and its parser of listings takes no names that are not UTF-8 and no months that are not English. A second client
//! for the servers that it takes would have to be kept in step with this one, which has to serve all of them anyway.

mod control;
mod folders;
mod pace;
#[doc(hidden)]
pub mod replies;
mod session;
mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

use self::control::Data;
use self::pace::Pace;
use self::replies::Asked;
use self::session::{READ, Session, argument};
use super::{
    Address, Ask, Connection, Cut, Fault, LinkTarget, Opened, Options, PackedListing, Sameness, Version,
};

/// A server at which `MLSD` has ended this many logins is not asked for it again.
const MOST_LOST_BY_MLSD: u32 = 2;

/// A cut that takes longer than this is made by closing: the next member waits.
const CUT_WITHIN: Duration = Duration::from_secs(2);

/// A way to an FTP source. Connects when it is needed.
pub struct Ftp {
    options: Arc<Options>,
    state: State,
    /// Logins that were lost while the server sent an `MLSD`.
    lost_by_mlsd: u32,
}

enum State {
    Idle(Option<Box<Session>>),
    Flowing(Box<Flow>),
    Ending(Pin<Box<dyn Future<Output = End> + Send>>),
}

/// A range that is being read.
struct Flow {
    session: Box<Session>,
    /// `None` if there is nothing to read.
    data: Option<Data>,
    address: Address,
    opened: Opened,
    /// How many bytes may be given out at most.
    limit: Option<u64>,
    /// How many bytes have been given out.
    given: u64,
    buffer: BytesMut,
    pace: Pace,
}

/// How a range ended.
struct End {
    session: Option<Box<Session>>,
    result: Result<(), Fault>,
}

/// Why no more is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// As many bytes as were asked for, and the file goes on.
    Enough,
    /// The server has closed the data connection.
    Closed,
    /// There are more bytes than the server said.
    TooMuch,
}

impl Ftp {
    /// Not connected yet.
    pub fn new(options: Arc<Options>) -> Self {
        Self { options, state: State::Idle(None), lost_by_mlsd: 0 }
    }

    /// The options that it was made with.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// A login for this address, and whether it had been waiting: then the server may have hung up in the meantime.
    async fn take(&mut self, address: &Address) -> Result<(Box<Session>, bool), Fault> {
        self.cut().await;
        if let State::Idle(Some(session)) = std::mem::replace(&mut self.state, State::Idle(None)) {
            if session.serves(address) {
                return Ok((session, true));
            }
            session.control.quit().await;
        }
        Ok((Box::new(Session::begin(address, &self.options).await?), false))
    }

    fn put_back(&mut self, session: Box<Session>) {
        let session = (!session.control.is_lost()).then_some(session);
        self.state = State::Idle(session);
    }
}

impl Connection for Ftp {
    async fn probe(&mut self, address: &Address) -> Result<Opened, Fault> {
        loop {
            let (mut session, waited) = self.take(address).await?;
            session.names = None;
            let result = session.probe(address).await;
            if waited && session.control.is_lost() && result.is_err() {
                continue;
            }
            self.put_back(session);
            return result;
        }
    }

    async fn list_packed(&mut self, address: &Address) -> Result<PackedListing, Fault> {
        loop {
            let (mut session, waited) = self.take(address).await?;
            session.names = None;
            session.control.features.mlsd &= self.lost_by_mlsd < MOST_LOST_BY_MLSD;
            let asks_mlsd = session.control.features.mlsd;
            let result = session.list(address).await;
            if waited && session.control.is_lost() && result.is_err() {
                continue;
            }
            let is_by_mlsd = asks_mlsd && matches!(result, Err(Fault::Broken(_) | Fault::Stalled(_)));
            if is_by_mlsd && session.control.is_lost() {
                return self.list_without_mlsd(address).await;
            }
            self.put_back(session);
            return result;
        }
    }

    async fn exists(&mut self, address: &Address) -> Result<bool, Fault> {
        loop {
            let (mut session, waited) = self.take(address).await?;
            let result = session.exists(address).await;
            if waited && session.control.is_lost() && result.is_err() {
                continue;
            }
            self.put_back(session);
            return result;
        }
    }

    async fn resolve(&mut self, address: &Address) -> Result<LinkTarget, Fault> {
        loop {
            let (mut session, waited) = self.take(address).await?;
            session.names = None;
            let result = session.resolve(address).await;
            if waited && session.control.is_lost() && result.is_err() {
                continue;
            }
            self.put_back(session);
            return result;
        }
    }

    async fn warm(&mut self, address: &Address) {
        // Whatever goes wrong does so again when it matters.
        if let Ok((session, _)) = self.take(address).await {
            self.put_back(session);
        }
    }

    async fn open(&mut self, ask: Ask<'_>) -> Result<Opened, Fault> {
        loop {
            let (mut session, waited) = self.take(ask.address).await?;
            session.names = None;
            let result = session.open(&ask).await;
            if waited && session.control.is_lost() && result.is_err() {
                continue;
            }
            let begun = match result {
                Ok(begun) => begun,
                Err(fault) => {
                    self.put_back(session);
                    return Err(fault);
                }
            };
            let opened = begun.opened.clone();
            self.state = State::Flowing(Box::new(Flow {
                session,
                data: begun.data,
                address: ask.address.clone(),
                limit: begun.limit,
                opened: begun.opened,
                given: 0,
                buffer: BytesMut::new(),
                pace: Pace::new(self.options.stall_after),
            }));
            return Ok(opened);
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            match &mut self.state {
                State::Idle(_) => return Ok(None),
                State::Flowing(flow) => match flow.read().await {
                    Ok(Step::Bytes(bytes)) => return Ok(Some(bytes)),
                    Ok(Step::Over(why)) => self.begin_end(why),
                    Err(fault) => {
                        self.state = State::Idle(None);
                        return Err(fault);
                    }
                },
                State::Ending(end) => {
                    let End { session, result } = end.as_mut().await;
                    self.state = State::Idle(session);
                    return result.map(|()| None);
                }
            }
        }
    }

    async fn cut(&mut self) -> Cut {
        let session = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::Idle(session) => {
                self.state = State::Idle(session);
                return Cut::Kept;
            }
            State::Flowing(flow) => {
                let Flow { mut session, data, .. } = *flow;
                let resynced = match data {
                    None => true,
                    Some(data) => {
                        let resync = session.control.resync(data);
                        matches!(tokio::time::timeout(CUT_WITHIN, resync).await, Ok(Ok(())))
                    }
                };
                resynced.then_some(session)
            }
            State::Ending(end) => {
                tokio::time::timeout(CUT_WITHIN, end).await.ok().and_then(|end| end.session)
            }
        };
        let cut = if session.is_some() { Cut::Kept } else { Cut::Closed };
        self.state = State::Idle(session);
        cut
    }

    async fn close(&mut self) {
        self.cut().await;
        if let State::Idle(Some(session)) = std::mem::replace(&mut self.state, State::Idle(None)) {
            session.control.quit().await;
        }
    }
}

impl Ftp {
    /// Lists a folder by `LIST`, after a login was lost while the server sent an `MLSD`.
    async fn list_without_mlsd(&mut self, address: &Address) -> Result<PackedListing, Fault> {
        let (mut session, _) = self.take(address).await?;
        session.control.features.mlsd = false;
        let result = session.list(address).await;
        if result.is_ok() {
            self.lost_by_mlsd += 1;
        }
        self.put_back(session);
        result
    }

    /// From here on the login belongs to the end of this range, which goes on where it was when a read is cancelled.
    fn begin_end(&mut self, why: Why) {
        if let State::Flowing(flow) = std::mem::replace(&mut self.state, State::Idle(None)) {
            self.state = State::Ending(Box::pin(flow.end(why)));
        }
    }
}

enum Step {
    Bytes(Bytes),
    Over(Why),
}

impl Flow {
    /// Reads once. May be cancelled: what was read is in the buffer, and nothing else has changed.
    async fn read(&mut self) -> Result<Step, Fault> {
        let left = self.limit.map(|limit| limit.saturating_sub(self.given));
        if left == Some(0) && !self.ends_the_file() {
            return Ok(Step::Over(Why::Enough));
        }
        let Some(data) = &mut self.data else { return Ok(Step::Over(Why::Enough)) };
        // At the end of the file one more byte would be one too many.
        let most = left.map_or(READ, |left| usize::try_from(left).unwrap_or(READ).clamp(1, READ));
        self.buffer.reserve(READ.min(most));
        let read = self.pace.read(data, &mut (&mut self.buffer).limit(most)).await;
        let count = match (read, left) {
            // Many servers end TLS by closing the socket. All bytes are here; the reply will say whether it is so.
            (Err(Fault::Broken(_)), Some(0)) => 0,
            (read, _) => read?,
        };
        match (count, left) {
            (0, _) => Ok(Step::Over(Why::Closed)),
            (_, Some(0)) => Ok(Step::Over(Why::TooMuch)),
            _ => {
                self.given += count as u64;
                Ok(Step::Bytes(self.buffer.split().freeze()))
            }
        }
    }

    /// Whether the end of this range is known to be the end of the file.
    fn ends_the_file(&self) -> bool {
        match (self.opened.version.size, self.limit) {
            (Some(size), Some(limit)) => self.opened.from.saturating_add(limit) == size,
            _ => false,
        }
    }

    /// Ends the transfer, and says whether the range is what it should be.
    async fn end(self: Box<Self>, why: Why) -> End {
        let Self { mut session, data, address, opened, given, .. } = *self;
        let finished = match (data, why) {
            (None, _) => Ok(()),
            (Some(data), Why::Closed) => complete(&mut session, data).await,
            // A server that falls silent (pure-ftpd, at times, inside TLS) must not take the rest of the slot.
            (Some(data), _) => tokio::time::timeout(CUT_WITHIN, session.control.resync(data))
                .await
                .unwrap_or(Err(Fault::Stalled(CUT_WITHIN))),
        };
        if why == Why::Enough {
            // The range is complete; whether the login can be used again is another matter.
            return End { session: finished.is_ok().then_some(session), result: Ok(()) };
        }
        let mut result = finished.and_then(|()| count(&opened, given, why));
        // A file that changed meanwhile explains everything else that may be wrong.
        if !session.control.is_lost()
            && let Err(fault) = recheck(&mut session, &address, &opened.version).await
        {
            result = Err(fault);
        }
        End { session: (!session.control.is_lost()).then_some(session), result }
    }
}

/// The data connection is closed: only the server can say whether that was all.
async fn complete(session: &mut Session, data: Data) -> Result<(), Fault> {
    match session.control.finish(data).await? {
        Some(reply) if !reply.is_done() => Err(reply.fault(Asked::FileThatIs)),
        _ => Ok(()),
    }
}

fn count(opened: &Opened, given: u64, why: Why) -> Result<(), Fault> {
    match opened.length {
        _ if why == Why::TooMuch => Err(Fault::Nonsense("more bytes than the file has".to_owned())),
        Some(length) if given < length => {
            Err(Fault::Broken(format!("the file ended after {given} of {length} bytes")))
        }
        _ => Ok(()),
    }
}

/// At the end of a file: whether it is still the one that was opened.
async fn recheck(session: &mut Session, address: &Address, before: &Version) -> Result<(), Fault> {
    if *before == Version::default() {
        return Ok(());
    }
    let now = session.look(&argument(address)).await?;
    let is_other = now.is_refused() || before.compare(&now.version) == Sameness::Changed;
    if is_other { Err(Fault::Changed) } else { Ok(()) }
}
