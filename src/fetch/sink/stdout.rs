//! Bytes in order into something that is read while we write: `get -o -`.
//!
//! No part, no journal, no way back: what is out is out. The engine calls it; a thread of its own waits for the reader.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::error::SinkError;

/// How many bytes may wait for the reader.
const IN_FLIGHT_BYTES: u32 = 4 << 20;
/// A write counts at least so much.
const LEAST_BYTES: u32 = 4 << 10;

/// A way out for bytes, in order.
#[derive(Debug)]
pub struct Pipe {
    path: PathBuf,
    pieces: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    done: oneshot::Receiver<Result<(), SinkError>>,
    at: u64,
}

impl Pipe {
    /// Starts a thread that writes to `to`; `called` is its name in messages.
    ///
    /// # Panics
    ///
    /// If the system allows no more threads.
    pub fn start(called: &str, to: impl Write + Send + 'static) -> Self {
        let (pieces, waiting) = mpsc::channel();
        let (answer, done) = oneshot::channel();
        let path = PathBuf::from(called);
        let shown = path.clone();
        let work = move || {
            let result = write_all(&waiting, to);
            // What waits is dropped first, so that nobody waits for room that never comes.
            drop(waiting);
            let _ = answer.send(result.map_err(|error| SinkError::from_io(&shown, "write", &error)));
        };
        thread::Builder::new()
            .name("pipe".to_owned())
            .spawn(work)
            .expect("the system allows one more thread");
        Self { path, pieces, room: Arc::new(Semaphore::new(IN_FLIGHT_BYTES as usize)), done, at: 0 }
    }

    /// How many bytes were given.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Gives bytes out, which must be the next ones; waits while the reader is slow.
    pub async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<(), SinkError> {
        if offset != self.at {
            return Err(SinkError::Misuse { path: self.path.clone(), what: "bytes out of order" });
        }
        let len = bytes.len();
        let cost = u32::try_from(len).unwrap_or(u32::MAX).clamp(LEAST_BYTES, IN_FLIGHT_BYTES);
        let room = Arc::clone(&self.room).acquire_many_owned(cost).await.map_err(|_| SinkError::Gone)?;
        if self.pieces.send((bytes, room)).is_err() {
            return Err(self.failure().await);
        }
        self.at += len as u64;
        Ok(())
    }

    /// Ready when everything is out. How many bytes that were.
    pub async fn finish(self) -> Result<u64, SinkError> {
        drop(self.pieces);
        self.done.await.unwrap_or(Err(SinkError::Gone))?;
        Ok(self.at)
    }

    async fn failure(&mut self) -> SinkError {
        match (&mut self.done).await {
            Ok(Err(error)) => error,
            _ => SinkError::Closed { path: self.path.clone() },
        }
    }
}

fn write_all(
    pieces: &mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>,
    mut to: impl Write,
) -> std::io::Result<()> {
    for (bytes, _room) in pieces {
        to.write_all(&bytes)?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _};

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn bytes_come_out_in_order_and_whole() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let mut pipe = Pipe::start("<stdout>", writer);
        let piece = Bytes::from(vec![7; 300 << 10]);
        for number in 0..40 {
            pipe.write(number * piece.len() as u64, piece.clone()).await.expect("written");
        }
        assert!(matches!(pipe.write(0, piece.clone()).await, Err(SinkError::Misuse { .. })));
        let size = 40 * piece.len();
        assert_eq!(pipe.finish().await.expect("all out"), size as u64);
        let all = reading.join().expect("no panic").expect("read");
        assert_eq!(all.len(), size);
        assert!(all.iter().all(|byte| *byte == 7));
    }

    #[tokio::test]
    async fn a_slow_reader_holds_up_the_pull() {
        let (_reader, writer) = io::pipe().expect("a pipe");
        let mut pipe = Pipe::start("<stdout>", writer);
        pipe.write(0, Bytes::from(vec![0; IN_FLIGHT_BYTES as usize])).await.expect("there is room");
        let next = pipe.write(u64::from(IN_FLIGHT_BYTES), Bytes::from_static(b"x"));
        assert!(next.now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_reader_that_leaves_ends_the_pull() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut pipe = Pipe::start("<stdout>", writer);
        let piece = Bytes::from(vec![0; 1 << 20]);
        let error = loop {
            if let Err(error) = pipe.write(pipe.at(), piece.clone()).await {
                break error;
            }
        };
        assert!(matches!(error, SinkError::Closed { .. }), "{error}");
        assert!(error.to_string().starts_with("<stdout>"));
    }
}
