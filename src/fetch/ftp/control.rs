//! One login at one server: the control connection, and the data connections that are opened beside it.
//!
//! suppaftp speaks the control connection; what it would do by itself beyond that is done here instead: data sockets
//! are ours (only the port of a PASV answer is used, never its address), every wait has an end, every reply is seen.
//!
//! ```text
//!   connect ── AUTH TLS ── USER, PASS ── FEAT ── TYPE I        once
//!   EPSV ── (our socket) ── REST ── RETR ── bytes ── 226        for each range
//! ```
//!
//! A call that is cancelled leaves it out of step, so [`super::Ftp`] owns it by value while it works: what is not put
//! back is thrown away.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::buf::BufMut;
use rustls::pki_types::ServerName;
use suppaftp::tokio::{AsyncRustlsConnector, AsyncRustlsFtpStream};
use suppaftp::{FtpError, ReplyTooLarge};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::fault::escape;
use super::super::{Address, Fault, FtpTls, Login, Options, Refusal, Scheme, Secret};
use super::replies::{Asked, Features, Reply};

/// What may lie unread in a data socket when a slot ends: the source has sent it for nothing.
const RECEIVE_BUFFER: u32 = 256 * 1_024;

/// Below are the services of others.
const LOWEST_DATA_PORT: u16 = 1_024;

/// How long an end may take that nobody waits for gladly.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);

/// A data connection.
pub(super) enum Data {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Data {
    /// Reads what is there; 0 is the end. May be cancelled.
    pub(super) async fn read(&mut self, into: &mut (impl BufMut + Send)) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_buf(into).await,
            Self::Secure(stream) => stream.read_buf(into).await,
        }
    }

    /// Closes politely what was read to its end.
    pub(super) async fn close(self) {
        if let Self::Secure(mut stream) = self {
            // Whether the other side still listens is its own affair.
            let _ = tokio::time::timeout(GOODBYE_WITHIN, stream.shutdown()).await;
        }
    }
}

/// A login at a server.
pub(super) struct Control {
    stream: AsyncRustlsFtpStream,
    peer: SocketAddr,
    /// With what to protect data connections.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    within: Duration,
    lost: bool,
    /// EPSV, until the server does not know it.
    extended: bool,
    pub(super) features: Features,
}

impl Control {
    /// Connects, and logs in. `refused` remembers that the server offers TLS but does not have it: some do.
    pub(super) async fn connect(
        address: &Address,
        options: &Options,
        refused: &mut bool,
    ) -> Result<Self, Fault> {
        if options.proxy.is_some() {
            return Err(Fault::Unsupported("FTP through a proxy".to_owned()));
        }
        let login = login(address, options)?;
        let mut control = Self::greeted(address, options).await?;
        if address.scheme() == Scheme::Ftp && control.wants_tls(options.ftp_tls, *refused).await? {
            control = match control.secured(address, options).await? {
                Ok(control) => control,
                Err(said) if options.ftp_tls == FtpTls::Required => {
                    return Err(Fault::Tls(format!("the server does not offer it: {said}")));
                }
                Err(_) => {
                    *refused = true;
                    Self::greeted(address, options).await?
                }
            };
        }
        control.log_in(&login).await?;
        control.features = Features::read(&control.ask("FEAT").await?);
        control.expect("TYPE I", 200).await?;
        if control.features.utf8 {
            // Those who speak nothing else do not always know the command.
            control.ask("OPTS UTF8 ON").await?;
        }
        Ok(control)
    }

    /// Whether no further command makes sense.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// No further command makes sense.
    pub(super) fn give_up(&mut self) {
        self.lost = true;
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn ask(&mut self, command: impl Into<Command>) -> Result<Reply, Fault> {
        let Command(line) = command.into();
        // Nothing is expected, so every reply comes back as it is.
        let reply = within(self.within, self.stream.custom_command(line, &[])).await;
        self.heard(reply)
    }

    /// Waits for one more reply.
    pub(super) async fn hear(&mut self) -> Result<Reply, Fault> {
        let reply = within(self.within, self.stream.read_response_in(&[])).await;
        self.heard(reply)
    }

    fn heard(&mut self, result: Result<suppaftp::types::Response, Wait>) -> Result<Reply, Fault> {
        let reply = match result {
            Ok(reply) | Err(Wait::Failed(FtpError::UnexpectedResponse(reply))) => Reply::read(&reply.body),
            Err(wait) => {
                self.lost = true;
                return Err(wait.fault());
            }
        };
        let Some(reply) = reply else {
            self.lost = true;
            return Err(Fault::Nonsense("a reply without a code".to_owned()));
        };
        if reply.code == 421 {
            self.lost = true;
            return Err(reply.fault(Asked::Manners));
        }
        Ok(reply)
    }

    async fn expect(&mut self, command: &str, code: u16) -> Result<(), Fault> {
        let reply = self.ask(command).await?;
        if reply.code == code { Ok(()) } else { Err(reply.fault(Asked::Manners)) }
    }

    /// Asks for something that comes on a data connection. `rest` is where to begin, in the words of the server.
    pub(super) async fn transfer(
        &mut self,
        command: Command,
        rest: Option<u64>,
        asked: Asked,
    ) -> Result<Data, Fault> {
        let socket = self.passive().await?;
        if let Some(from) = rest {
            let reply = self.ask(format!("REST {from}").as_str()).await?;
            if reply.code != 350 {
                return Err(reply.fault(Asked::Manners));
            }
        }
        let reply = self.ask(command).await?;
        if !matches!(reply.code, 125 | 150) {
            return Err(reply.fault(asked));
        }
        let Some((connector, name)) = self.tls.clone() else { return Ok(Data::Plain(socket)) };
        let handshake = tokio::time::timeout(self.within, connector.connect(name, socket)).await;
        // The reply to a transfer that never began is still to come.
        self.lost = true;
        let stream = handshake
            .map_err(|_| Fault::Stalled(self.within))?
            .map_err(|error| Fault::Tls(escape(&format!("on the data connection: {error}"))))?;
        self.lost = false;
        Ok(Data::Secure(Box::new(stream)))
    }

    /// After a data connection was dropped: reads what belongs to it, and makes sure that nothing is left.
    pub(super) async fn resync(&mut self) -> Result<(), Fault> {
        // 426 or 226, whatever the server makes of it: pure-ftpd's last word on a cut transfer is another 150.
        self.hear().await?;
        let mut reply = self.ask("NOOP").await?;
        for _ in 0..3 {
            if !matches!(reply.code, 100..200 | 225 | 226 | 250 | 426 | 450 | 451) {
                return Ok(());
            }
            reply = self.hear().await?;
        }
        self.lost = true;
        Err(Fault::Nonsense("replies that belong to nothing".to_owned()))
    }

    /// Says goodbye, shortly. A server that has hung up, too, does not count us any more.
    pub(super) async fn quit(mut self) {
        let goodbye = async {
            if self.ask("QUIT").await.is_ok() {
                let _ = self.hear().await;
            }
        };
        let _ = tokio::time::timeout(GOODBYE_WITHIN, goodbye).await;
    }

    /// Connects, and listens to the greeting; with `ftps` inside TLS.
    async fn greeted(address: &Address, options: &Options) -> Result<Self, Fault> {
        let time = options.answer_within;
        let (stream, tls) = if address.scheme() == Scheme::Ftps {
            let (connector, name) = security(address, options)?;
            let peer = resolve(address, time).await?;
            let wrapped = AsyncRustlsConnector::from(connector.clone());
            let host = address.host();
            let connect = AsyncRustlsFtpStream::connect_secure_implicit(peer.as_slice(), wrapped, &host);
            (within(time, connect).await, Some((connector, name)))
        } else {
            let socket = connect_to(address, time).await?;
            (within(time, AsyncRustlsFtpStream::connect_with_stream(socket)).await, None)
        };
        let mut stream = stream.map_err(|wait| unwelcome(wait, address))?;
        stream.set_encoding(Raw).await;
        let peer = {
            let socket = stream.get_ref().await;
            let _ = socket.set_nodelay(true);
            socket.peer_addr().map_err(|error| Fault::Broken(error.to_string()))?
        };
        let features = Features::default();
        let mut control = Self { stream, peer, tls, within: time, lost: false, extended: true, features };
        if control.tls.is_some() {
            control.protect_data().await?;
        }
        Ok(control)
    }

    async fn wants_tls(&mut self, rule: FtpTls, refused: bool) -> Result<bool, Fault> {
        match rule {
            FtpTls::Off => Ok(false),
            FtpTls::Required => Ok(true),
            FtpTls::Try => Ok(!refused && Features::read(&self.ask("FEAT").await?).tls),
        }
    }

    /// `AUTH TLS`. What came before the handshake is thrown away with the connection's buffer. If the server will not,
    /// its words; the connection is gone then.
    async fn secured(self, address: &Address, options: &Options) -> Result<Result<Self, String>, Fault> {
        let (connector, name) = security(address, options)?;
        let host = address.host();
        let wrapped = AsyncRustlsConnector::from(connector.clone());
        match within(self.within, self.stream.into_secure(wrapped, &host)).await {
            Ok(stream) => Ok(Ok(Self { stream, tls: Some((connector, name)), ..self })),
            Err(Wait::Failed(FtpError::UnexpectedResponse(reply))) => match Reply::read(&reply.body) {
                Some(reply) if reply.code >= 500 => Ok(Err(reply.said())),
                Some(reply) => Err(reply.fault(Asked::Entry)),
                None => Err(Fault::Nonsense("a reply without a code".to_owned())),
            },
            Err(wait) => Err(wait.fault()),
        }
    }

    async fn protect_data(&mut self) -> Result<(), Fault> {
        // Servers whose connections are secure from the first byte need not know the first of these.
        self.ask("PBSZ 0").await?;
        let reply = self.ask("PROT P").await?;
        if reply.code == 200 { Ok(()) } else { Err(Fault::Tls(reply.said())) }
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let (user, password) =
            (raw(login.user.as_bytes()), zeroize::Zeroizing::new(raw(login.password.reveal().as_bytes())));
        if user.chars().chain(password.chars()).any(char::is_control) {
            return Err(Fault::Login("a user or password with control characters".to_owned()));
        }
        let result = within(self.within, self.stream.login(user.as_str(), password.as_str())).await;
        match result {
            Ok(()) => Ok(()),
            Err(Wait::Failed(FtpError::UnexpectedResponse(reply))) => match Reply::read(&reply.body) {
                // Logged in already: the password was not needed.
                Some(reply) if reply.code == 202 => Ok(()),
                Some(reply) => Err(reply.fault(Asked::Entry)),
                None => Err(Fault::Nonsense("a reply without a code".to_owned())),
            },
            Err(wait) => Err(wait.fault()),
        }
    }

    /// A data connection to the peer of the control connection, and to nobody else.
    async fn passive(&mut self) -> Result<TcpStream, Fault> {
        if self.extended {
            let reply = self.ask("EPSV").await?;
            if let (229, Some(port)) = (reply.code, reply.extended_port()) {
                let connected = self.connect_data(port).await;
                // Some gates know only the older command.
                if connected.is_ok() || self.peer.is_ipv6() {
                    return connected;
                }
            }
            self.extended = false;
        }
        if self.peer.is_ipv6() {
            return Err(Fault::Unsupported("EPSV, which IPv6 needs".to_owned()));
        }
        let reply = self.ask("PASV").await?;
        match (reply.code, reply.passive_port()) {
            (227, Some(port)) => self.connect_data(port).await,
            (227, None) => Err(Fault::Nonsense(reply.said())),
            _ => Err(reply.fault(Asked::Manners)),
        }
    }

    async fn connect_data(&self, port: u16) -> Result<TcpStream, Fault> {
        if port < LOWEST_DATA_PORT {
            return Err(Fault::Nonsense(format!("a data connection to port {port}")));
        }
        let broken = |error: io::Error| Fault::Broken(format!("no data connection: {error}"));
        let mut to = self.peer;
        to.set_port(port);
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(broken)?;
        // If the machine does not take the hint, more is lost at a cut.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        let stream = tokio::time::timeout(self.within, socket.connect(to))
            .await
            .map_err(|_| Fault::Stalled(self.within))?
            .map_err(broken)?;
        if stream.peer_addr().map_err(broken)? == to {
            Ok(stream)
        } else {
            Err(Fault::Broken("a data connection to somebody else".to_owned()))
        }
    }
}

/// A command's line. Made only of what cannot end it early.
pub(super) struct Command(String);

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self(line.to_owned())
    }
}

impl Command {
    /// A verb with a path, byte for byte.
    pub(super) fn with_path(verb: &str, path: &[u8]) -> Result<Self, Fault> {
        if path.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
            return Err(Fault::Unsupported("a path with control characters".to_owned()));
        }
        if path.is_empty() { Ok(Self(verb.to_owned())) } else { Ok(Self(format!("{verb} {}", raw(path)))) }
    }
}

/// Bytes as the characters of the same numbers: what [`Raw`] sends as the same bytes.
fn raw(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Sends the characters of [`raw`] as they are: paths are bytes, in whatever encoding the server likes.
#[derive(Debug)]
struct Raw;

impl suppaftp::Encoding for Raw {
    fn decode(&self, bytes: &[u8]) -> String {
        raw(bytes)
    }

    fn encode(&self, text: &str) -> io::Result<Vec<u8>> {
        let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
        text.chars().map(|c| u8::try_from(u32::from(c)).map_err(wrong)).collect()
    }
}

enum Wait {
    TooLong(Duration),
    Failed(FtpError),
}

impl Wait {
    fn fault(self) -> Fault {
        match self {
            Self::TooLong(within) => Fault::Stalled(within),
            Self::Failed(FtpError::SecureError(why)) => Fault::Tls(escape(&why)),
            Self::Failed(FtpError::ConnectionError(error)) if is::<rustls::Error>(&error) => {
                Fault::Tls(escape(&error.to_string()))
            }
            Self::Failed(FtpError::ConnectionError(error)) if is::<ReplyTooLarge>(&error) => {
                Fault::Nonsense(escape(&error.to_string()))
            }
            Self::Failed(FtpError::ConnectionError(error)) => Fault::Broken(escape(&error.to_string())),
            Self::Failed(other) => Fault::Nonsense(escape(&other.to_string())),
        }
    }
}

fn is<E: std::error::Error + 'static>(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<E>)
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, FtpError>>) -> Result<T, Wait> {
    match tokio::time::timeout(time, work).await {
        Ok(result) => result.map_err(Wait::Failed),
        Err(_) => Err(Wait::TooLong(time)),
    }
}

fn security(address: &Address, options: &Options) -> Result<(TlsConnector, ServerName<'static>), Fault> {
    let name = ServerName::try_from(address.host()).map_err(|error| Fault::Tls(error.to_string()))?;
    Ok((TlsConnector::from(Arc::clone(&options.tls)), name))
}

/// Who we are there: somebody, or anybody with an address to write to.
fn login(address: &Address, options: &Options) -> Result<Login, Fault> {
    let anonymous = || {
        let contact = options.contact.clone().unwrap_or_else(|| "stroll@".to_owned());
        Login { user: "anonymous".to_owned(), password: Secret::new(contact) }
    };
    Ok(options.logins.lookup(address)?.unwrap_or_else(anonymous))
}

/// What it means that there was no greeting.
fn unwelcome(wait: Wait, address: &Address) -> Fault {
    match wait {
        Wait::Failed(FtpError::UnexpectedResponse(reply)) => match Reply::read(&reply.body) {
            Some(reply) => reply.fault(Asked::Entry),
            None => Fault::Nonsense("a greeting without a code".to_owned()),
        },
        Wait::Failed(FtpError::ConnectionError(error))
            if error.kind() == io::ErrorKind::ConnectionRefused =>
        {
            refused(address, &error)
        }
        other => other.fault(),
    }
}

/// It would not even connect.
fn refused(address: &Address, error: &io::Error) -> Fault {
    Fault::Refused(Refusal::new(None, None, &format!("{}: {error}", place(address))))
}

fn place(address: &Address) -> String {
    escape(&format!("{}:{}", address.host(), address.port()))
}

async fn resolve(address: &Address, time: Duration) -> Result<Vec<SocketAddr>, Fault> {
    let fault = |why: String| Fault::Connect { to: place(address), why };
    let host = address.host();
    let found = tokio::time::timeout(time, tokio::net::lookup_host((host.as_str(), address.port())))
        .await
        .map_err(|_| fault("its name is not resolved in time".to_owned()))?
        .map_err(|error| fault(error.to_string()))?
        .collect::<Vec<_>>();
    if found.is_empty() { Err(fault("its name has no address".to_owned())) } else { Ok(found) }
}

/// Tries the host's addresses one after the other; each gets its share of the time.
async fn connect_to(address: &Address, time: Duration) -> Result<TcpStream, Fault> {
    let found = resolve(address, time).await?;
    let share = time / u32::try_from(found.len()).unwrap_or(u32::MAX);
    let connect = |why| Fault::Connect { to: place(address), why };
    let mut fault = connect("no address".to_owned());
    for to in found {
        fault = match tokio::time::timeout(share, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => refused(address, &error),
            Ok(Err(error)) => connect(error.to_string()),
            Err(_) => connect(format!("no answer within {share:?}")),
        };
    }
    Err(fault)
}
