//! Where the engine puts bytes: a part on the disk, or a pipe.

use std::future::Future;

use bytes::{Bytes, BytesMut};

use super::sink::{Algorithm, Digest, Finish, Finished, Hasher, Part, Pipe, Ranges, SinkError};
use super::{Sameness, Version};

/// How much of the end of a stream is kept, to compare with.
const TAIL: usize = 64 << 10;

/// A place for bytes, of one version at a time. Writes may be given up before they are done: then nothing was given.
pub trait Store: Send {
    /// Of which version the bytes are.
    fn version(&self) -> Option<&Version>;

    /// Which bytes are there.
    fn have(&self) -> &Ranges;

    /// True if there are bytes of an earlier run, and nothing was begun since.
    fn is_inherited(&self) -> bool;

    /// False if bytes that were given cannot be taken back.
    fn can_restart(&self) -> bool;

    /// Says of which version the bytes to come are; bytes that may be of another are dropped.
    fn begin(&mut self, version: Version) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// The same after the last bytes were compared: only a contradiction drops them.
    fn begin_compared(&mut self, version: Version) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// The last bytes before the first gap.
    fn tail(&self, len: usize) -> impl Future<Output = Result<Bytes, SinkError>> + Send;

    /// Puts bytes there.
    fn write(&mut self, offset: u64, bytes: Bytes) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Makes what is there durable, in the background; what goes wrong is told by the next write.
    fn checkpoint(&mut self);

    /// Drops everything.
    fn restart(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send;
}

impl Store for Part {
    fn version(&self) -> Option<&Version> {
        self.version()
    }

    fn have(&self) -> &Ranges {
        self.have()
    }

    fn is_inherited(&self) -> bool {
        self.is_inherited()
    }

    fn can_restart(&self) -> bool {
        true
    }

    async fn begin(&mut self, version: Version) -> Result<(), SinkError> {
        self.begin(version).await
    }

    async fn begin_compared(&mut self, version: Version) -> Result<(), SinkError> {
        self.begin_compared(version).await
    }

    async fn tail(&self, len: usize) -> Result<Bytes, SinkError> {
        self.tail(len).await
    }

    async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<(), SinkError> {
        self.write(offset, bytes).await
    }

    fn checkpoint(&mut self) {
        drop(self.checkpoint());
    }

    async fn restart(&mut self) -> Result<(), SinkError> {
        self.restart().await
    }
}

/// A pipe whose reader takes the bytes as they come: what is out cannot be taken back.
pub struct Stream {
    pipe: Pipe,
    version: Option<Version>,
    have: Ranges,
    tail: BytesMut,
    hasher: Option<Hasher>,
}

impl Stream {
    /// Into this pipe.
    pub fn new(pipe: Pipe) -> Self {
        Self { pipe, version: None, have: Ranges::default(), tail: BytesMut::new(), hasher: None }
    }

    /// Which digest [`finish`](Self::finish) will want.
    pub fn hash_along(&mut self, algorithm: Algorithm) {
        if self.have.is_empty() {
            self.hasher = Some(Hasher::new(algorithm));
        }
    }

    /// Ready when everything is out. If the digest is not the right one it is too late, but it is said.
    pub async fn finish(self, wish: Finish) -> Result<Finished, SinkError> {
        let size = self.pipe.finish().await?;
        let got = self.hasher.map(Hasher::finish);
        if let (Some(expected), Some(got)) = (wish.expected, got)
            && expected != got
        {
            return Err(SinkError::Integrity {
                path: "standard output".into(),
                expected: Box::new(expected),
                got: Box::new(got),
            });
        }
        let sha256 = match got {
            Some(Digest::Sha256(digest)) => Some(digest),
            _ => None,
        };
        Ok(Finished { size, sha256 })
    }
}

impl Store for Stream {
    fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn have(&self) -> &Ranges {
        &self.have
    }

    fn is_inherited(&self) -> bool {
        false
    }

    fn can_restart(&self) -> bool {
        false
    }

    async fn begin(&mut self, version: Version) -> Result<(), SinkError> {
        let is_same = self.version.as_ref().is_none_or(|had| had.compare(&version) == Sameness::Same);
        if !is_same {
            self.restart().await?;
        }
        self.version = Some(version);
        Ok(())
    }

    async fn begin_compared(&mut self, version: Version) -> Result<(), SinkError> {
        self.version = Some(version);
        Ok(())
    }

    async fn tail(&self, len: usize) -> Result<Bytes, SinkError> {
        let from = self.tail.len().saturating_sub(len);
        Ok(Bytes::copy_from_slice(self.tail.get(from..).unwrap_or_default()))
    }

    async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<(), SinkError> {
        self.pipe.write(offset, bytes.clone()).await?;
        self.have.insert(offset..offset + bytes.len() as u64);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
        }
        let kept = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
        self.tail.extend_from_slice(kept);
        let surplus = self.tail.len().saturating_sub(TAIL);
        drop(self.tail.split_to(surplus));
        Ok(())
    }

    fn checkpoint(&mut self) {}

    async fn restart(&mut self) -> Result<(), SinkError> {
        if self.have.is_empty() {
            return Ok(());
        }
        Err(SinkError::TooLate { path: "standard output".into() })
    }
}
