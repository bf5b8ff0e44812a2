//! What becomes of a file that is here: noted, given to the user's command, put out, and noted again. In order, at least
//! once: what a crash leaves half done is done again by the next run.
//!
//! ```text
//!   feed ──> note: here, not delivered ──> command ──> standard output ──> note: delivered
//! ```
//!
//! Two tasks, so that what is here is noted at once, however long a command takes or a reader sleeps. Neither has
//! anything to do with the token.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tracing::warn;

use super::item::{Item, Output, Piece};
use super::lag::Backlog;
use super::out::{Out, What};
use super::{Delivered, Tell};
use crate::fetch::name::{disk_path, shown};
use crate::fetch::sink::{Folder, SinkError};
use crate::jobs::hook::{Hook, HookError};
use crate::jobs::manifest::{Manifest, ManifestError, Record};

/// The first wait after a command that failed; doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How often a command is tried where failures are to be skipped.
const TRIES_BEFORE_SKIPPING: u32 = 3;

/// So many deliveries are noted at once at most.
const BATCH: usize = 64;

/// The note that says that the subscription has begun.
pub(super) const BEGUN: &str = "subscribe.begun";

/// The note that says how far the names of a template were pulled.
pub(super) const REACHED: &str = "subscribe.reached";

/// What ends a delivery.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The replica cannot be read.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The reader of standard output.
    #[error("standard output")]
    Output(#[source] io::Error),
    /// The command.
    #[error(transparent)]
    Hook(#[from] HookError),
}

/// What is to be delivered, or told in its turn.
pub(super) enum Due {
    /// A file.
    Item(Box<Item>),
    /// A listed name that cannot be used; told where deliveries are lines.
    Refused {
        /// The path, escaped.
        path: String,
        /// Why.
        why: String,
    },
}

/// How things are delivered.
pub(super) struct Delivery<'a> {
    pub(super) target: PathBuf,
    pub(super) manifest: Arc<Manifest>,
    pub(super) backlog: Arc<Mutex<Backlog>>,
    pub(super) hook: Option<Hook>,
    pub(super) hook_limit: Duration,
    pub(super) skip_failures: bool,
    /// Where bytes go, if they are to.
    pub(super) bytes: Option<Out>,
    /// Where lines go, if they are to.
    pub(super) lines: Option<Out>,
    pub(super) tell: &'a dyn Tell,
}

impl Delivery<'_> {
    /// Notes what the feed finds out, and passes on what is to be delivered, until there is no more.
    pub(super) async fn note(
        &self,
        mut found: mpsc::UnboundedReceiver<Output>,
        next: mpsc::UnboundedSender<Due>,
    ) -> Result<(), DeliveryError> {
        let mut outputs = Vec::new();
        while found.recv_many(&mut outputs, BATCH).await > 0 {
            let mut changes = Vec::new();
            let (mut items, mut notes) = (Vec::new(), Vec::new());
            for output in outputs.drain(..) {
                match output {
                    Output::Arrived(item) => {
                        if item.piece.is_none() {
                            changes.push((item.path.clone(), Some(item.record.clone())));
                        }
                        items.push(Due::Item(item));
                    }
                    Output::Before(before) => {
                        changes.extend(before.into_iter().map(|(path, record)| (path, Some(record))));
                        notes.push((BEGUN, Vec::new()));
                    }
                    Output::Forgotten(path) => changes.extend(self.forgotten(path).await?),
                    Output::Reached(at_s) => notes.push((REACHED, at_s.to_be_bytes().to_vec())),
                    Output::Trouble(why) => self.tell.trouble(&why),
                    Output::Refused { path, why } => {
                        warn!(path, why, "name refused");
                        self.tell.refused(&path, &why);
                        items.push(Due::Refused { path, why });
                    }
                    Output::Link(path) => self.tell.link(&path),
                    Output::Gap(path) => self.tell.gap(&path),
                    Output::Rotated { path, kept } => {
                        self.tell.rotated(&path, kept.as_deref());
                        // Nothing of the new one was delivered yet.
                        changes.push((path, None));
                    }
                }
            }
            self.write(changes, notes).await?;
            for item in items {
                // Whoever delivers is there as long as this is.
                let _ = next.send(item);
            }
        }
        Ok(())
    }

    /// Of a replica that was flushed nothing need be known when the source has none either.
    async fn forgotten(&self, path: String) -> Result<Option<(String, Option<Record>)>, DeliveryError> {
        let manifest = Arc::clone(&self.manifest);
        let found = blocking(move || manifest.find(&path).map(|record| (path, record))).await?;
        Ok(match found {
            (path, Some(record)) if record.flushed => Some((path, None)),
            _ => None,
        })
    }

    /// Delivers one thing after the other, until there is no more.
    pub(super) async fn deliver(&self, mut items: mpsc::UnboundedReceiver<Due>) -> Result<(), DeliveryError> {
        let mut done = Vec::new();
        loop {
            let due = match items.try_recv() {
                Ok(item) if done.len() < BATCH => Some(item),
                Ok(item) => {
                    self.write(std::mem::take(&mut done), Vec::new()).await?;
                    Some(item)
                }
                Err(_) => {
                    self.write(std::mem::take(&mut done), Vec::new()).await?;
                    items.recv().await
                }
            };
            let item = match due {
                None => return Ok(()),
                Some(Due::Item(item)) => item,
                Some(Due::Refused { path, why }) => {
                    self.put_line(json!({"refused": path, "why": why})).await?;
                    continue;
                }
            };
            // If somebody removed it, nothing was ever here.
            let record = self.one(&item).await?.filter(|_| !item.is_gone);
            done.push((item.path.clone(), record));
            self.backlog.lock().expect("nobody panics with the backlog in hand").remove(&item.path);
        }
    }

    /// Delivers this. What is to be remembered of it; `None` if it is not here any more.
    async fn one(&self, item: &Item) -> Result<Option<Record>, DeliveryError> {
        let Some(piece) = self.piece(item).await? else {
            warn!(path = shown(&item.path), "removed before it was delivered");
            return Ok(None);
        };
        let record = Record { size: piece.range.end, delivered: true, ..item.record.clone() };
        let file = self.target.join(disk_path(&item.path));
        if let Some(hook) = &self.hook {
            self.run(hook, item, &record, piece.range.start, &file).await;
        }
        let delivered = Delivered { item, from: piece.range.start, record: &record, file: &file };
        if let Some(out) = &self.bytes {
            let what = What::Bytes(piece.file, piece.range.start, piece.range.end);
            out.put(what).await.map_err(DeliveryError::Output)?;
        }
        self.put_line(delivered.json()).await?;
        self.tell.delivered(&delivered);
        Ok(Some(record))
    }

    async fn put_line(&self, line: serde_json::Value) -> Result<(), DeliveryError> {
        let Some(out) = &self.lines else { return Ok(()) };
        out.put(What::Line(line.to_string())).await.map_err(DeliveryError::Output)
    }

    /// The bytes to deliver, by the open file: its name may be another's by the time they are read.
    async fn piece(&self, item: &Item) -> Result<Option<Piece>, DeliveryError> {
        if let Some(piece) = &item.piece {
            return Ok(Some(piece.clone()));
        }
        let (target, below, name) = (self.target.clone(), item.below.clone(), item.name.clone());
        let opened = blocking(move || -> Result<Option<Piece>, SinkError> {
            let mut folder = Arc::new(Folder::open(&target, true)?);
            for name in &below {
                folder = Arc::new(folder.subfolder(name, true)?);
            }
            let (Some(file), Some(replica)) = (folder.open_replica(&name)?, folder.replica(&name)?) else {
                return Ok(None);
            };
            Ok(Some(Piece { file: Arc::new(file), range: 0..replica.size }))
        });
        Ok(opened.await?)
    }

    /// Runs the user's command until it succeeds, or has failed often enough where that is allowed.
    async fn run(&self, hook: &Hook, item: &Item, record: &Record, from: u64, file: &std::path::Path) {
        let hex = |digest: [u8; 32]| data_encoding::HEXLOWER.encode(&digest);
        // The names as the disk has them: they need not be text.
        let vars = [
            ("STROLL_FILE", file.into()),
            ("STROLL_PATH", disk_path(&item.path).into_os_string()),
            ("STROLL_URL", item.address.to_string().into()),
            ("STROLL_SIZE", record.size.to_string().into()),
            ("STROLL_FROM", from.to_string().into()),
            ("STROLL_SHA256", record.sha256.map(hex).unwrap_or_default().into()),
            ("STROLL_MODIFIED", item.modified_s.map(|time| time.to_string()).unwrap_or_default().into()),
        ];
        let mut tries = 0_u32;
        loop {
            let why = match hook.run(&vars, self.hook_limit).await {
                Ok(status) if status.success() => return,
                Ok(status) => format!("{status}"),
                Err(error) => error.to_string(),
            };
            tries += 1;
            let is_last = self.skip_failures && tries >= TRIES_BEFORE_SKIPPING;
            self.tell.hook_failed(&shown(&item.path), &why, is_last);
            if is_last {
                return;
            }
            tokio::time::sleep(FIRST_WAIT.saturating_mul(1 << (tries - 1).min(16)).min(LONGEST_WAIT)).await;
        }
    }

    async fn write(
        &self,
        changes: Vec<(String, Option<Record>)>,
        notes: Vec<(&'static str, Vec<u8>)>,
    ) -> Result<(), DeliveryError> {
        if changes.is_empty() && notes.is_empty() {
            return Ok(());
        }
        let manifest = Arc::clone(&self.manifest);
        let written = blocking(move || {
            if !changes.is_empty() {
                manifest.write(changes.iter().map(|(path, record)| (path.as_str(), record.as_ref())))?;
            }
            // Behind what they are about.
            notes.iter().try_for_each(|(key, value)| manifest.write_note(key, value))
        });
        Ok(written.await?)
    }
}

/// Does something that waits for the disk, where nobody else waits for it.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
