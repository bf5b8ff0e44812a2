//! The threads that wait for the disk, so that nobody else has to.
//!
//! ```text
//!   Part::write ──bytes──> writer ──after all writes before it──> settler
//!                          open, pwrite, hash                     fdatasync, journal, finish
//! ```
//!
//! One thread writes, in the order in which it was asked. What makes bytes durable goes through the writer's queue, so
//! it comes after them, and is then done by the second thread: a disk that takes a second to sync does not hold up what
//! arrives meanwhile. What is in flight is bounded in bytes; who wants to write more waits.
//!
//! A [`Part`](super::Part) calls it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::commit::{Finishing, commit};
use super::error::SinkError;
use super::file::PartFile;

/// How many bytes may wait for the writer: at 1 GB/s what comes in 8 ms, and little beside what a process needs anyway.
const IN_FLIGHT_BYTES: u32 = 8 << 20;
/// A write counts at least so much: tiny ones must not pile up either.
const LEAST_BYTES: u32 = 4 << 10;
/// How many finished files may wait to become durable; each is an open file. Two batches: one on its way, one waiting.
const FINISHING: usize = 2 * BATCH;
/// How many finished files are made durable together at most.
const BATCH: usize = 128;
/// If the last batch is no older than this, files come one after the other, and more will come: then a batch waits for
/// them until it is full, but not for long. A single file never waits.
const BUSY: Duration = Duration::from_millis(50);
const WAIT_FOR_MORE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A handle to the threads; they end with the last one.
#[derive(Clone, Debug)]
pub struct Disk {
    jobs: mpsc::Sender<Job>,
    in_flight: Arc<Semaphore>,
    finishing: Arc<Semaphore>,
}

/// On which thread something is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Thread {
    /// After all writes asked for before.
    Writer,
    /// After all writes, checkpoints and finishes asked for before.
    Settler,
}

type Work = Box<dyn FnOnce() + Send>;

enum Job {
    Write { file: Arc<PartFile>, offset: u64, bytes: Bytes, _permit: OwnedSemaphorePermit },
    Do(Work),
    Settle(Settle),
}

enum Settle {
    Do(Work),
    Finish(Box<Finishing>),
}

/// The answer of a thread, when it comes. What was asked for is done whether somebody waits or not.
#[derive(Debug)]
#[must_use = "the answer says whether it worked"]
pub struct Reply<T>(oneshot::Receiver<Result<T, SinkError>>);

impl<T> Reply<T> {
    /// For a thread that will answer.
    pub(super) fn channel() -> (oneshot::Sender<Result<T, SinkError>>, Self) {
        let (answer, reply) = oneshot::channel();
        (answer, Self(reply))
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, SinkError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(SinkError::Gone)))
    }
}

impl Disk {
    /// Starts the threads.
    ///
    /// # Panics
    ///
    /// If the system allows no more threads.
    pub fn start() -> Self {
        let (jobs, to_write) = mpsc::channel();
        let (settle, to_settle) = mpsc::channel();
        let spawn = |name: &str, work: Work| {
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .expect("the system allows one more thread");
        };
        spawn("disk-writer", Box::new(move || write_all(&to_write, &settle)));
        spawn("disk-settler", Box::new(move || settle_all(&to_settle)));
        Self {
            jobs,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_BYTES as usize)),
            finishing: Arc::new(Semaphore::new(FINISHING)),
        }
    }

    /// Room for so many bytes; waits for it.
    pub(super) async fn room(&self, len: usize) -> Result<OwnedSemaphorePermit, SinkError> {
        let cost = u32::try_from(len).unwrap_or(u32::MAX).clamp(LEAST_BYTES, IN_FLIGHT_BYTES);
        Arc::clone(&self.in_flight).acquire_many_owned(cost).await.map_err(|_| SinkError::Gone)
    }

    /// Queues a write for which there is room.
    pub(super) fn write(
        &self,
        file: Arc<PartFile>,
        offset: u64,
        bytes: Bytes,
        room: OwnedSemaphorePermit,
    ) -> Result<(), SinkError> {
        self.send(Job::Write { file, offset, bytes, _permit: room })
    }

    /// Does something on one of the threads.
    pub(super) fn run<T: Send + 'static>(
        &self,
        thread: Thread,
        work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
    ) -> Reply<T> {
        let (answer, reply) = Reply::channel();
        let work = Box::new(move || {
            // Nobody need wait for it.
            let _ = answer.send(work());
        });
        let job = match thread {
            Thread::Writer => Job::Do(work),
            Thread::Settler => Job::Settle(Settle::Do(work)),
        };
        // If it cannot be sent the answer's sender is dropped, which is an answer too.
        let _ = self.send(job);
        reply
    }

    /// Waits until all that was asked for is done, and partial files that were dropped are closed: a process that ends
    /// before leaves empty ones behind, and room that was reserved.
    pub async fn idle(&self) {
        // Every job passes through the writer's queue, so this is the last one of both. Threads that are gone are idle.
        let _ = self.run(Thread::Settler, || Ok(())).await;
    }

    /// Queues a file to be finished; waits while too many are.
    pub(super) async fn finish(
        &self,
        finishing: impl FnOnce(
            oneshot::Sender<Result<super::Finished, SinkError>>,
            OwnedSemaphorePermit,
        ) -> Finishing,
    ) -> Result<Reply<super::Finished>, SinkError> {
        let permit = Arc::clone(&self.finishing).acquire_owned().await.map_err(|_| SinkError::Gone)?;
        let (answer, reply) = Reply::channel();
        self.send(Job::Settle(Settle::Finish(Box::new(finishing(answer, permit)))))?;
        Ok(reply)
    }

    fn send(&self, job: Job) -> Result<(), SinkError> {
        self.jobs.send(job).map_err(|_| SinkError::Gone)
    }
}

fn write_all(jobs: &mpsc::Receiver<Job>, settle: &mpsc::Sender<Settle>) {
    for job in jobs {
        match job {
            Job::Write { file, offset, bytes, _permit } => file.write(offset, &bytes),
            Job::Do(work) => work(),
            Job::Settle(job) => {
                if settle.send(job).is_err() {
                    return;
                }
            }
        }
    }
}

fn settle_all(jobs: &mpsc::Receiver<Settle>) {
    let mut next = None;
    let mut last_batch = None;
    while let Some(job) = next.take().or_else(|| jobs.recv().ok()) {
        match job {
            Settle::Do(work) => work(),
            Settle::Finish(first) => {
                let batch;
                (batch, next) = gather(*first, jobs, wait_for_more(last_batch));
                commit(batch);
                last_batch = Some(now());
            }
        }
    }
}

/// Until when a batch waits for more files.
fn wait_for_more(last_batch: Option<Instant>) -> Instant {
    let is_busy = last_batch.is_some_and(|last| last.elapsed() < BUSY);
    if is_busy { now() + WAIT_FOR_MORE } else { now() }
}

#[allow(clippy::disallowed_methods, reason = "this thread waits for a real disk")]
fn now() -> Instant {
    Instant::now()
}

/// Gathers finished files until there are enough, or the time is over and no more are there, or something else is asked
/// for, which must not be done before them. It looks now and then instead of being woken for each file.
#[allow(clippy::disallowed_methods, reason = "this thread waits for a real disk")]
fn gather(
    first: Finishing,
    jobs: &mpsc::Receiver<Settle>,
    until: Instant,
) -> (Vec<Finishing>, Option<Settle>) {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match jobs.try_recv() {
            Ok(Settle::Finish(another)) => batch.push(*another),
            Ok(other) => return (batch, Some(other)),
            Err(mpsc::TryRecvError::Empty) if now() < until => thread::sleep(LOOK_EVERY),
            Err(_) => break,
        }
    }
    (batch, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn things_are_done_in_the_order_asked() {
        let disk = Disk::start();
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut replies = Vec::new();
        for number in 0..100 {
            let done = Arc::clone(&done);
            replies.push(disk.run(Thread::Settler, move || {
                done.lock().expect("no panic").push(number);
                Ok(())
            }));
        }
        for reply in replies {
            reply.await.expect("done");
        }
        assert_eq!(*done.lock().expect("no panic"), (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_in_flight_is_bounded() {
        let disk = Disk::start();
        let all = disk.room(usize::MAX).await.expect("room");
        assert!(disk.room(1).now_or_never().is_none());
        drop(all);
        assert!(disk.room(1).await.is_ok());
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_is_an_error_and_no_hang() {
        let disk = Disk::start();
        let gone = disk.run(Thread::Settler, || -> Result<(), SinkError> { panic!("a bug, for this test") });
        assert!(matches!(gone.await, Err(SinkError::Gone)));
        assert!(matches!(disk.run(Thread::Settler, || Ok(())).await, Err(SinkError::Gone)));
    }
}
