//! One login at one server: the control connection, and the data connections that are opened beside it.
//!
//! Every wait has an end, every reply is seen, and only the port of a PASV answer is used, never its address.
//!
//! ```text
//!   connect ── AUTH TLS ── USER, PASS ── PBSZ, PROT ── FEAT ── TYPE I        once
//!   EPSV ── (our socket) ── REST ── RETR ── bytes ── 226                      for each range
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
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::fault::escape;
use super::super::tls::{self, Advice};
use super::super::{Address, Fault, FtpTls, Login, Options, Scheme, Secret};
use super::replies::{Asked, Features, Reply};
use super::wire::{Socket, Wire};

/// What may lie unread in a data socket when a slot ends: the source has sent it for nothing.
const RECEIVE_BUFFER: u32 = 256 * 1_024;

/// Below are the services of others.
const LOWEST_DATA_PORT: u16 = 1_024;

/// How long an end may take that nobody waits for gladly.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);

/// Time for data after the server has reported the end of the transfer. Some servers never open a data connection for an
/// empty listing.
const LATE_DATA_WITHIN: Duration = Duration::from_secs(1);

/// Replies without meaning before one that has.
const STRAY_REPLIES: usize = 3;

/// A data connection.
pub(super) struct Data {
    /// `None` if the server has reported the end without one.
    socket: Option<Socket>,
    /// Whether the server has already reported the end of the transfer.
    is_done: bool,
    has_begun: bool,
}

impl Data {
    fn new(socket: Option<Socket>, is_done: bool) -> Self {
        Self { socket, is_done, has_begun: false }
    }

    /// Reads what is there; 0 is the end. May be cancelled.
    pub(super) async fn read(&mut self, into: &mut (impl BufMut + Send)) -> io::Result<usize> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        if !self.is_done || self.has_begun {
            return socket.read(into).await;
        }
        // Some servers close the socket without taking the connection.
        match tokio::time::timeout(LATE_DATA_WITHIN, socket.read(into)).await {
            Ok(Ok(count)) => {
                self.has_begun = count > 0;
                Ok(count)
            }
            Ok(Err(_)) | Err(_) => Ok(0),
        }
    }

    async fn close(self) {
        if let Some(socket) = self.socket {
            socket.close().await;
        }
    }
}

/// The reply with which a server refuses a transfer.
pub(super) enum Refused {
    /// The position.
    Rest(Reply),
    /// The transfer itself.
    Command(Reply),
}

/// Security of a connection: TLS settings and the name to be proved.
type Security = (TlsConnector, ServerName<'static>);

/// A login at a server.
pub(super) struct Control {
    wire: Wire,
    peer: SocketAddr,
    /// With what to protect data connections.
    tls: Option<Security>,
    within: Duration,
    lost: bool,
    /// Whether the greeting was that of a session that needs no login.
    is_let_in: bool,
    /// EPSV, until the server does not know it.
    extended: bool,
    pub(super) features: Features,
}

impl Control {
    /// Connects, and logs in.
    pub(super) async fn connect(address: &Address, options: &Options) -> Result<Self, Fault> {
        if options.proxy.is_some() {
            return Err(Fault::Unsupported("FTP through a proxy".to_owned()));
        }
        let login = login(address, options)?;
        let mut control = Self::greeted(address, options).await?;
        if address.scheme() == Scheme::Ftp && control.wants_tls(options.ftp_tls, &login).await? {
            control = control.secured(address, options).await?;
        }
        control.log_in(&login).await?;
        if control.tls.is_some() {
            control.protect_data(address.scheme()).await?;
        }
        control.features = Features::read(&control.ask("FEAT").await?);
        let reply = control.ask("TYPE I").await?;
        if !reply.is_done() {
            return Err(reply.fault(Asked::Manners));
        }
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
        let sent = within(self.within, self.wire.send(&line)).await;
        self.lost |= sent.is_err();
        sent?;
        self.hear().await
    }

    /// Waits for one more reply.
    pub(super) async fn hear(&mut self) -> Result<Reply, Fault> {
        let reply = within(self.within, self.wire.hear()).await;
        self.lost |= reply.is_err();
        let reply = reply?;
        if reply.code == 421 {
            self.lost = true;
            return Err(reply.fault(Asked::Manners));
        }
        Ok(reply)
    }

    /// Asks for something that comes on a data connection, or tells how the server refuses it.
    pub(super) async fn transfer(
        &mut self,
        command: Command,
        rest: Option<u64>,
    ) -> Result<Result<Data, Refused>, Fault> {
        let socket = self.passive().await?;
        if let Some(from) = rest {
            let reply = self.ask(format!("REST {from}").as_str()).await?;
            if !(reply.is_done() || reply.code == 350) {
                return Ok(Err(Refused::Rest(reply)));
            }
        }
        let reply = self.ask(command).await?;
        // Some servers report the end at once, if there is nothing to send.
        let is_done = matches!(reply.code, 225 | 226 | 250);
        if !is_done && !(100..200).contains(&reply.code) {
            return Ok(Err(Refused::Command(reply)));
        }
        let Some((connector, name)) = self.tls.clone() else {
            return Ok(Ok(Data::new(Some(Socket::Plain(socket)), is_done)));
        };
        let time = if is_done { LATE_DATA_WITHIN } else { self.within };
        let handshake = within(time, handshake(&connector, name, socket, Advice::None)).await;
        match handshake {
            Ok(stream) => Ok(Ok(Data::new(Some(Socket::Secure(Box::new(stream))), is_done))),
            Err(_) if is_done => Ok(Ok(Data::new(None, is_done))),
            Err(fault) => {
                // The reply to a transfer that never began is still to come.
                self.lost = true;
                Err(match fault {
                    Fault::Tls(why) => Fault::Tls(format!("on the data connection: {why}")),
                    other => other,
                })
            }
        }
    }

    /// Ends a transfer whose data connection is at its end. Only the server can say whether that was all.
    pub(super) async fn finish(&mut self, data: Data) -> Result<Option<Reply>, Fault> {
        let is_done = data.is_done;
        data.close().await;
        if is_done {
            return Ok(None);
        }
        let mut reply = self.hear().await?;
        for _ in 0..STRAY_REPLIES {
            if !(100..200).contains(&reply.code) {
                break;
            }
            reply = self.hear().await?;
        }
        Ok(Some(reply))
    }

    /// Drops a data connection, reads what belongs to it, and makes sure that nothing is left.
    pub(super) async fn resync(&mut self, data: Data) -> Result<(), Fault> {
        let is_done = data.is_done;
        drop(data);
        if !is_done {
            // 426 or 226, whatever the server makes of it: pure-ftpd's last word on a cut transfer is another 150.
            self.hear().await?;
        }
        let mut reply = self.ask("NOOP").await?;
        for _ in 0..STRAY_REPLIES {
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
        let socket = connect_to(address, time).await?;
        let _ = socket.set_nodelay(true);
        let peer = socket.peer_addr().map_err(|error| Fault::Broken(error.to_string()))?;
        let (socket, tls) = if address.scheme() == Scheme::Ftps {
            let (connector, name) = security(address, options)?;
            let stream = within(time, handshake(&connector, name.clone(), socket, Advice::CaFile)).await?;
            (Socket::Secure(Box::new(stream)), Some((connector, name)))
        } else {
            (Socket::Plain(socket), None)
        };
        let features = Features::default();
        let wire = Wire::new(socket);
        let mut control =
            Self { wire, peer, tls, within: time, lost: false, is_let_in: false, extended: true, features };
        control.is_let_in = control.greeting().await?.code == 230;
        Ok(control)
    }

    /// The greeting. After `120` the server may be ready within the time of one answer; otherwise it says when.
    async fn greeting(&mut self) -> Result<Reply, Fault> {
        let first = self.hear().await?;
        if first.is_done() {
            return Ok(first);
        }
        if first.code == 120
            && let Ok(reply) = self.hear().await
        {
            return if reply.is_done() { Ok(reply) } else { Err(reply.fault(Asked::Entry)) };
        }
        Err(first.fault(Asked::Entry))
    }

    /// Whether to begin TLS. A password goes out in plain text only if the user has asked for that.
    async fn wants_tls(&mut self, rule: FtpTls, login: &Login) -> Result<bool, Fault> {
        match rule {
            FtpTls::Off => Ok(false),
            FtpTls::Required => Ok(true),
            FtpTls::Try if !login.is_anonymous() => Ok(true),
            FtpTls::Try => Ok(Features::read(&self.ask("FEAT").await?).tls),
        }
    }

    /// `AUTH TLS` and the handshake. An anonymous login goes on without TLS if the server refuses it and TLS is not
    /// required; nothing goes on after a handshake that has failed.
    async fn secured(mut self, address: &Address, options: &Options) -> Result<Self, Fault> {
        let reply = self.ask("AUTH TLS").await?;
        if !matches!(reply.code, 200..300 | 334) {
            return match options.ftp_tls {
                _ if reply.is_overload() => Err(reply.fault(Asked::Entry)),
                FtpTls::Required => {
                    Err(Fault::Tls(format!("the server does not offer TLS: {}", reply.said())))
                }
                _ if login(address, options)?.is_anonymous() => Ok(self),
                _ => Err(Fault::Tls(format!(
                    "the server does not offer TLS ({}), and the password is not sent in plain text unless \
                     --ftp-tls off is given",
                    reply.said()
                ))),
            };
        }
        let (connector, name) = security(address, options)?;
        let advice = if options.ftp_tls == FtpTls::Required { Advice::CaFile } else { Advice::CaFileOrPlain };
        let plain = self.wire.into_plain().ok_or_else(|| Fault::Nonsense("TLS inside TLS".to_owned()))?;
        let stream = within(self.within, handshake(&connector, name.clone(), plain, advice)).await?;
        let wire = Wire::new(Socket::Secure(Box::new(stream)));
        Ok(Self { wire, tls: Some((connector, name)), ..self })
    }

    /// Protects data connections. After the login, because some servers know the command only then.
    async fn protect_data(&mut self, scheme: Scheme) -> Result<(), Fault> {
        self.ask("PBSZ 0").await?;
        let reply = self.ask("PROT P").await?;
        // Servers whose connections are secure from the first byte need not know the command; data that is not
        // protected then fails at its handshake.
        let is_implied = scheme == Scheme::Ftps && reply.is_unknown_command();
        if reply.is_done() || is_implied {
            return Ok(());
        }
        Err(Fault::Tls(format!(
            "the server refuses to protect data connections (PROT P: {}); --ftp-tls off transfers everything in \
             plain text, the password included",
            reply.said()
        )))
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let (user, password) = (login.user.as_bytes(), login.password.reveal().as_bytes());
        if user.iter().chain(password).any(u8::is_ascii_control) {
            return Err(Fault::Login("a user or password with control characters".to_owned()));
        }
        if self.is_let_in && self.tls.is_none() {
            return Ok(());
        }
        let mut reply = self.ask(Command::with_path("USER", user)?).await?;
        if matches!(reply.code, 300..400) && reply.code != 332 {
            reply = self.ask(Command::secret("PASS", password)).await?;
        }
        match reply.code {
            200..300 => Ok(()),
            503 if self.is_let_in => Ok(()),
            332 if !reply.is_overload() => Err(Fault::Login(format!(
                "the server wants an account besides user and password (ACCT), which stroll cannot send: {}",
                reply.said()
            ))),
            _ if self.tls.is_none() && reply.wants_encryption() => {
                Err(Fault::Tls(format!("the server wants TLS; use --ftp-tls required: {}", reply.said())))
            }
            _ => Err(reply.login_fault(login)),
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

/// A command's line. Made only of what cannot end it early. Its bytes are wiped, because it may hold a password.
pub(super) struct Command(zeroize::Zeroizing<Vec<u8>>);

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self(line.as_bytes().to_vec().into())
    }
}

impl Command {
    /// A verb with a path, byte for byte.
    pub(super) fn with_path(verb: &str, path: &[u8]) -> Result<Self, Fault> {
        if path.iter().any(u8::is_ascii_control) {
            return Err(Fault::Unsupported("a path with control characters".to_owned()));
        }
        Ok(if path.is_empty() { verb.into() } else { Self::secret(verb, path) })
    }

    /// A verb with bytes that hold no control characters.
    fn secret(verb: &str, argument: &[u8]) -> Self {
        Self([verb.as_bytes(), b" ", argument].concat().into())
    }
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::time::timeout(time, work).await.unwrap_or(Err(Fault::Stalled(time)))
}

async fn handshake(
    connector: &TlsConnector,
    name: ServerName<'static>,
    socket: TcpStream,
    advice: Advice,
) -> Result<TlsStream<TcpStream>, Fault> {
    connector.connect(name, socket).await.map_err(|error| tls::handshake_fault(&error, advice))
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

/// A refused connection is no rejection by the operator: the server may be restarting.
fn refused(address: &Address, error: &io::Error) -> Fault {
    Fault::Connect { to: place(address), why: error.to_string() }
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
