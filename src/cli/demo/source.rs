//! The lab source: the demo's content over HTTP and FTP, through one link that all transfers share. Real servers, in this
//! process, on ports of loopback that are free.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use stroll::fetch::limit::Limiter;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::content::served;
use super::meter::Meter;
use super::{ftp, http};

/// What goes out in one piece.
pub(super) const PIECE: usize = 16 << 10;

/// A protocol that the source speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Ftp,
}

impl Protocol {
    /// The members take turns in what they speak.
    pub(super) fn of_member(number: usize) -> Self {
        if number.is_multiple_of(2) { Self::Ftp } else { Self::Http }
    }

    /// Its name, as in an address.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Ftp => "ftp",
        }
    }
}

/// What the servers work with.
#[derive(Clone, Debug)]
pub(super) struct Shop {
    pub(super) link: Limiter,
    pub(super) meter: Meter,
}

/// A running source; it ends with this value.
#[derive(Debug)]
pub(super) struct Source {
    http: SocketAddr,
    ftp: SocketAddr,
    meter: Meter,
    servers: [JoinHandle<()>; 2],
}

impl Source {
    /// Serves what is laid out in the folder, at so many bytes a second, to so many at once as is told apart from more.
    pub(super) async fn start(folder: &Path, bytes_per_sec: u64, at_once: usize) -> io::Result<Self> {
        let shop = Shop { link: Limiter::new(Some(bytes_per_sec)), meter: Meter::new(at_once) };
        let (web, control) = (listener().await?, listener().await?);
        let root = served(folder);
        Ok(Self {
            http: web.local_addr()?,
            ftp: control.local_addr()?,
            meter: shop.meter.clone(),
            servers: [
                tokio::spawn(http::serve(web, root.clone(), shop.clone())),
                tokio::spawn(ftp::serve(control, root, shop)),
            ],
        })
    }

    /// The address of one of its folders.
    pub(super) fn url(&self, protocol: Protocol, folder: &str) -> String {
        let at = match protocol {
            Protocol::Http => self.http,
            Protocol::Ftp => self.ftp,
        };
        let slash = if folder.is_empty() { "" } else { "/" };
        format!("{}://{at}/{folder}{slash}", protocol.name())
    }

    /// What it sees.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

async fn listener() -> io::Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").await
}
