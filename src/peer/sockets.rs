//! A socket of each family, at any port: for questions of somebody who is not a running member, to wherever they must go.

use std::io;
use std::net::SocketAddr;

use tokio::net::UdpSocket;

use crate::wire::DATAGRAM_LIMIT;

/// One for each family, as far as this computer has it.
#[derive(Debug)]
pub(super) struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Sockets {
    /// At ports that the system chooses; fails only if neither family can be had.
    pub(super) async fn bind() -> io::Result<Self> {
        match (UdpSocket::bind("0.0.0.0:0").await, UdpSocket::bind("[::]:0").await) {
            (Err(error), Err(_)) => Err(error),
            (v4, v6) => Ok(Self { v4: v4.ok(), v6: v6.ok() }),
        }
    }

    /// What cannot be sent is lost, as it might be on its way: whoever asks asks again.
    pub(super) async fn send(&self, bytes: &[u8], to: SocketAddr) {
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        if let Some(socket) = socket {
            let _ = socket.send_to(bytes, to).await;
        }
    }

    /// The next datagram, and from where it came.
    pub(super) async fn receive(&self) -> io::Result<(Vec<u8>, SocketAddr)> {
        tokio::select! {
            received = receive(self.v4.as_ref()) => received,
            received = receive(self.v6.as_ref()) => received,
        }
    }
}

async fn receive(socket: Option<&UdpSocket>) -> io::Result<(Vec<u8>, SocketAddr)> {
    let Some(socket) = socket else { return std::future::pending().await };
    let mut buffer = vec![0; DATAGRAM_LIMIT + 1];
    let (len, from) = socket.recv_from(&mut buffer).await?;
    buffer.truncate(len);
    Ok((buffer, from))
}
