//! A source of whatever kind its address says.

use std::sync::Arc;

use bytes::Bytes;

use super::ftp::Ftp;
use super::http::Http;
use super::{Address, Ask, Connection, Cut, Fault, Listing, Opened, Options};

/// A connection of the right kind.
pub enum Source {
    /// HTTP and HTTPS.
    Http(Box<Http>),
    /// FTP and FTPS.
    Ftp(Box<Ftp>),
}

impl Source {
    /// For everything at the origin of this address.
    pub fn new(address: &Address, options: &Arc<Options>) -> Result<Self, Fault> {
        Ok(if address.scheme().is_ftp() {
            Self::Ftp(Box::new(Ftp::new(Arc::clone(options))))
        } else {
            Self::Http(Box::new(Http::new(Arc::clone(options))?))
        })
    }
}

impl Connection for Source {
    async fn probe(&mut self, address: &Address) -> Result<Opened, Fault> {
        match self {
            Self::Http(http) => http.probe(address).await,
            Self::Ftp(ftp) => ftp.probe(address).await,
        }
    }

    async fn list(&mut self, address: &Address) -> Result<Listing, Fault> {
        match self {
            Self::Http(http) => http.list(address).await,
            Self::Ftp(ftp) => ftp.list(address).await,
        }
    }

    async fn warm(&mut self, address: &Address) {
        match self {
            Self::Http(http) => http.warm(address).await,
            Self::Ftp(ftp) => ftp.warm(address).await,
        }
    }

    async fn open(&mut self, ask: Ask<'_>) -> Result<Opened, Fault> {
        match self {
            Self::Http(http) => http.open(ask).await,
            Self::Ftp(ftp) => ftp.open(ask).await,
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        match self {
            Self::Http(http) => http.read().await,
            Self::Ftp(ftp) => ftp.read().await,
        }
    }

    async fn cut(&mut self) -> Cut {
        match self {
            Self::Http(http) => http.cut().await,
            Self::Ftp(ftp) => ftp.cut().await,
        }
    }

    async fn close(&mut self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Ftp(ftp) => ftp.close().await,
        }
    }
}

/// Pulls a small file into memory; `None` if there is none of that name.
pub async fn pull_small<C: Connection>(
    connection: &mut C,
    address: &Address,
    limit: usize,
) -> Result<Option<Vec<u8>>, Fault> {
    let ask = Ask { address, from: 0, length: None, known: None };
    match connection.open(ask).await {
        Ok(_) => {}
        Err(Fault::NotFound(_)) => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let mut bytes = Vec::new();
    while let Some(piece) = connection.read().await? {
        if bytes.len() + piece.len() > limit {
            connection.cut().await;
            return Err(Fault::Nonsense(format!("{address} is larger than {limit} bytes")));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes))
}
