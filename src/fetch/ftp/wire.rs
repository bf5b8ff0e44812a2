//! Bytes of an FTP server: commands and replies on the control connection, and whatever a data connection carries.

use std::io;
use std::time::Duration;

use bytes::buf::BufMut;
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::super::Fault;
use super::super::fault::escape;
use super::replies::{Reply, frame};

/// Limit for one reply. Greetings and `FEAT` of real servers are below 8 KiB.
const LARGEST_REPLY: usize = 64 * 1_024;

/// Bytes read at once.
const READ: usize = 4 * 1_024;

/// Time for a TLS connection to close.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A connection, plain or inside TLS.
pub(super) enum Socket {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Reads what is there; 0 is the end. May be cancelled.
    pub(super) async fn read(&mut self, into: &mut (impl BufMut + Send)) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_buf(into).await,
            Self::Secure(stream) => stream.read_buf(into).await,
        }
    }

    /// Acknowledges at once what has just come. Servers that write a reply in two pieces without `TCP_NODELAY` hold back the
    /// second one until the first is acknowledged, by default after 40 ms. The system forgets this with each read.
    fn acknowledge_at_once(&self) {
        #[cfg(target_os = "linux")]
        {
            let socket = match self {
                Self::Plain(socket) => socket,
                Self::Secure(stream) => stream.get_ref().0,
            };
            // Without it replies only come later.
            let _ = rustix::net::sockopt::set_tcp_quickack(socket, true);
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).await,
            Self::Secure(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Closes politely what was read to its end.
    pub(super) async fn close(self) {
        if let Self::Secure(mut stream) = self {
            // Whether the other side still listens is its own affair.
            let _ = tokio::time::timeout(CLOSE_WITHIN, stream.shutdown()).await;
        }
    }
}

/// Sends commands and cuts what comes into replies. A read may be cancelled: what came stays in the buffer.
pub(super) struct Wire {
    socket: Socket,
    buffer: BytesMut,
    is_over: bool,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, buffer: BytesMut::new(), is_over: false }
    }

    /// The plain socket, for a handshake on it. Bytes that came ahead of the handshake are not of the server that will
    /// prove its name: they are dropped.
    pub(super) fn into_plain(self) -> Option<TcpStream> {
        match self.socket {
            Socket::Plain(socket) => Some(socket),
            Socket::Secure(_) => None,
        }
    }

    /// Sends one command. Replies to nothing that have come until now are dropped, except one that ends the session.
    pub(super) async fn send(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.drop_stray_replies().await?;
        // 255 is a Telnet command unless doubled (RFC 959, 3.1.1.5; RFC 854).
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(2 * line.len() + 2));
        for byte in line {
            bytes.extend(std::iter::repeat_n(*byte, if *byte == 0xff { 2 } else { 1 }));
        }
        bytes.extend_from_slice(b"\r\n");
        self.socket.write(&bytes).await.map_err(|error| broken(&error))
    }

    /// The next reply.
    pub(super) async fn hear(&mut self) -> Result<Reply, Fault> {
        loop {
            match frame(&self.buffer, self.is_over) {
                Ok(Some(length)) => {
                    let reply = Reply::read(&self.buffer.split_to(length));
                    return reply.ok_or_else(|| Fault::Nonsense("a reply without a code".to_owned()));
                }
                Ok(None) if self.is_over => {
                    return Err(Fault::Broken("the server closed the control connection".to_owned()));
                }
                Ok(None) if self.buffer.len() > LARGEST_REPLY => {
                    return Err(Fault::Nonsense(format!("a reply of more than {LARGEST_REPLY} bytes")));
                }
                Ok(None) => self.fill().await?,
                Err(_) => return Err(Fault::Nonsense("a reply without a code".to_owned())),
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.reserve(READ);
        let count = self.socket.read(&mut self.buffer).await.map_err(|error| broken(&error))?;
        self.socket.acknowledge_at_once();
        self.is_over = count == 0;
        Ok(())
    }

    async fn drop_stray_replies(&mut self) -> Result<(), Fault> {
        // Only what has arrived already.
        if let Ok(result) = tokio::time::timeout(Duration::ZERO, self.fill()).await {
            result?;
        }
        while let Ok(Some(length)) = frame(&self.buffer, self.is_over) {
            let reply = Reply::read(&self.buffer.split_to(length));
            if let Some(reply) = reply.filter(|reply| reply.code == 421) {
                return Err(reply.fault(super::replies::Asked::Manners));
            }
        }
        if self.is_over {
            return Err(Fault::Broken("the server closed the control connection".to_owned()));
        }
        if frame(&self.buffer, false).is_err() {
            self.buffer.advance(self.buffer.len());
        }
        Ok(())
    }
}

fn broken(error: &io::Error) -> Fault {
    Fault::Broken(escape(&error.to_string()))
}
