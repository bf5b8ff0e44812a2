//! A source of whatever kind its address says.

use std::sync::Arc;

use bytes::Bytes;

use super::ftp::Ftp;
use super::http::Http;
use super::{
    Address, Ask, Connection, Cut, Fault, LinkTarget, Opened, Options, PackedListing, Sameness, Version,
};

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

    async fn probe_bytes(&mut self, address: &Address) -> Result<Opened, Fault> {
        match self {
            Self::Http(http) => http.probe_bytes(address).await,
            Self::Ftp(ftp) => ftp.probe_bytes(address).await,
        }
    }

    async fn verify(&mut self, address: &Address, known: &Version) -> Result<Sameness, Fault> {
        match self {
            Self::Http(http) => http.verify(address, known).await,
            Self::Ftp(ftp) => ftp.verify(address, known).await,
        }
    }

    async fn exists(&mut self, address: &Address) -> Result<bool, Fault> {
        match self {
            Self::Http(http) => http.exists(address).await,
            Self::Ftp(ftp) => ftp.exists(address).await,
        }
    }

    async fn resolve(&mut self, address: &Address) -> Result<LinkTarget, Fault> {
        match self {
            Self::Http(http) => http.resolve(address).await,
            Self::Ftp(ftp) => ftp.resolve(address).await,
        }
    }

    async fn list_packed(&mut self, address: &Address) -> Result<PackedListing, Fault> {
        let (mut listing, is_portable) = match self {
            Self::Http(http) => (http.list_packed(address).await?, http.options().portable_names),
            Self::Ftp(ftp) => (ftp.list_packed(address).await?, ftp.options().portable_names),
        };
        if is_portable {
            listing.keep_portable();
        }
        Ok(listing)
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
