//! Subscribes to a stream: files that appear in a folder, files whose names are known, or one file that grows.
//!
//! ```text
//!   feed (pure) ──tasks──> pull, in slots ──> replica ──> feed ──in order──> delivery: note, command, output, note
//!        └── lag: what is known to be there and was not delivered
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`stream`], `look` | the feed of a folder in which files appear |
//! | [`growing`] | the feed of one file that grows |
//! | [`named`] | the feed of files whose names are known |
//! | [`mod@item`] | what feeds tell the delivery |
//! | [`lag`] | how far behind the source |
//! | `delivery` | what becomes of a file that is here, in order and at least once |
//! | `out` | standard output, with a thread of its own |
//! | `keep` | removes old replicas |

mod delivery;
pub mod growing;
pub mod item;
mod keep;
pub mod lag;
mod look;
pub mod named;
mod out;
pub mod stream;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::fetch::engine::PullError;
use crate::fetch::limit::Limiter;
use crate::fetch::name::{disk_path, shown};
use crate::fetch::sink::{Folder, SinkError};
use crate::fetch::{Address, Fault, Name, NameError};

use super::board::Line;
use super::filter::Filter;
use super::hook::Hook;
use super::manifest::{Manifest, ManifestError, Record};
use super::pull::{Config, Follow, Totals, Watch, pull};
use super::slots::Slots;
use delivery::{BEGUN, Delivery, Due, REACHED, blocking};
use growing::Growing;
use item::{Item, Machine, Told};
use named::Named;
use out::Out;

pub use delivery::DeliveryError;
pub use lag::{Backlog, Lag};
pub use stream::{Order, Since, Stream};

/// How often the lag is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How long a delivery may still take when there is an order to stop; what is not delivered then, the next run delivers.
const GRACE: Duration = Duration::from_secs(5);

/// The note that says from when on files are wanted.
const SINCE: &str = "subscribe.since";

/// What is subscribed to, and what is to be done with it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The folder, or the file that grows.
    pub address: Address,
    /// Where replicas go.
    pub target: PathBuf,
    /// How it is followed.
    pub how: How,
    /// From when on, the first time.
    pub since: Since,
    /// The least time between two looks.
    pub poll: Duration,
    /// What to do with each file.
    pub hook: Option<Hook>,
    /// How long that may take.
    pub hook_limit: Duration,
    /// Go on after a command that has failed several times.
    pub skip_failures: bool,
    /// Where the bytes go besides.
    pub output: Output,
    /// How long delivered replicas are kept.
    pub keep: Option<Duration>,
}

/// How a stream is followed.
#[derive(Clone, Debug)]
pub enum How {
    /// By looking into its folder.
    Folder {
        /// Which files are meant.
        filter: Box<Filter>,
        /// In which order.
        order: Order,
        /// For how long a file must not have changed.
        settle: Duration,
        /// Folders in it, too.
        recursive: bool,
        /// Files may still grow; whether the replica of one that is suddenly another is kept.
        follow: Option<bool>,
    },
    /// By appending to its replica: it is one file that grows.
    Growing {
        /// Whether the replica of one that is suddenly another is kept.
        keep_old: bool,
    },
    /// By names that are known.
    Named(named::Config),
}

/// What goes to standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    #[default]
    Nothing,
    /// The bytes, in order.
    Bytes,
    /// A line of JSON for each delivery.
    Lines,
}

/// Why a subscription cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The target folder.
    #[error(transparent)]
    Target(#[from] SinkError),
    /// What is remembered.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// What is to be done with the files.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// There is nothing to subscribe to.
    #[error(transparent)]
    Source(Fault),
    /// It cannot be followed.
    #[error(transparent)]
    Pull(PullError),
    /// There is no name to be had from the address.
    #[error("no file name to be had from the address")]
    Name(#[source] NameError),
}

/// How a subscription ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was pulled.
    pub totals: Totals,
    /// What is still to be delivered.
    pub lag: Lag,
}

/// Something was delivered.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// What.
    pub item: &'a Item,
    /// From which byte on.
    pub from: u64,
    /// What is remembered of it.
    pub record: &'a Record,
    /// Where it is.
    pub file: &'a Path,
}

impl Delivered<'_> {
    /// Where it is, with bytes that are no text as `\xE9`.
    fn shown_path(&self) -> String {
        let folder = self.file.ancestors().nth(self.item.below.len() + 1).unwrap_or(self.file);
        folder.join(shown(&self.item.path)).display().to_string()
    }

    fn json(&self) -> serde_json::Value {
        let sha256 = self.record.sha256.map(|digest| data_encoding::HEXLOWER.encode(&digest));
        json!({
            "url": self.item.address.to_string(),
            "path": self.shown_path(),
            "from": self.from,
            "size": self.record.size,
            "modified": self.item.modified_s,
            "sha256": sha256,
        })
    }
}

/// Whoever wants to know what happens.
pub trait Tell: Watch {
    /// So far behind.
    fn lag(&self, lag: Lag);
    /// This was delivered.
    fn delivered(&self, delivered: &Delivered<'_>) {
        let _ = delivered;
    }
    /// The command failed for this file, and is tried again or not.
    fn hook_failed(&self, path: &str, why: &str, is_skipped: bool);
    /// The source cannot be looked at, which may pass.
    fn trouble(&self, why: &str);
    /// This listed name cannot be used, so its file is never pulled. The path is escaped.
    fn refused(&self, path: &str, why: &str);
    /// A symbolic link was listed; it is not followed.
    fn link(&self, path: &str) {
        let _ = path;
    }

    /// There was never a file of this name.
    fn gap(&self, path: &str);
    /// A growing file was suddenly another one.
    fn rotated(&self, path: &str, kept: Option<&str>) {
        let _ = (path, kept);
    }
    /// So many old replicas were removed.
    fn flushed(&self, count: u64);
}

impl Tell for Line {
    fn lag(&self, lag: Lag) {
        self.set_lag(lag.behind(), Some(lag.bytes), Some(lag.unseen));
        self.set_refused(lag.refused as u64);
    }

    fn hook_failed(&self, path: &str, why: &str, _: bool) {
        self.failed(&format!("the command failed for {path}: {why}"));
    }

    fn trouble(&self, why: &str) {
        self.failed(why);
    }

    fn refused(&self, path: &str, why: &str) {
        self.failed(&format!("{path}: not pulled: {why}"));
    }

    fn gap(&self, path: &str) {
        self.failed(&format!("{path} never came"));
    }

    fn flushed(&self, count: u64) {
        self.deleted(count);
    }
}

/// Follows a stream, in the slots that are given, until `stop` says otherwise.
pub async fn subscribe(
    spec: Spec,
    config: &Config,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    tell: &dyn Tell,
) -> Result<Outcome, SubscribeError> {
    let (state, target, since) = (config.state.clone(), spec.target.clone(), spec.since);
    let memory = blocking(move || Memory::load(&state, &target, since)).await?;
    let config = Config { sha256: true, ..config.clone() };
    let backlog = match &spec.how {
        How::Named(_) => Backlog::foreknown(),
        How::Folder { .. } | How::Growing { .. } => Backlog::begun(jiff::Timestamp::now().as_second()),
    };
    let backlog = Arc::new(Mutex::new(backlog));
    let ways = Ways { config: &config, slots, limiter, stop, tell };
    match &spec.how {
        How::Folder { filter, order, settle, recursive, follow } => {
            let folder = stream::Config {
                root: spec.address.clone(),
                target: spec.target.clone(),
                filter: (**filter).clone(),
                order: *order,
                since: memory.since,
                poll: spec.poll,
                settle: *settle,
                recursive: *recursive,
                refuses_twins: memory.merges_twins || config.options.portable_names,
                follow: *follow,
            };
            let known = memory.known.clone();
            let stream = Stream::new(folder, known, memory.is_first, Arc::clone(&backlog));
            let (stream, outcome) = run(stream, &spec, memory, backlog, ways).await?;
            stream.into_failure().map_or(Ok(outcome), |fault| Err(SubscribeError::Source(fault)))
        }
        How::Growing { keep_old } => {
            let name = spec.address.file_name().map_err(SubscribeError::Name)?;
            let told = memory.known.iter().find(|(path, _)| path == name.as_str());
            let follow = Follow {
                address: spec.address.clone(),
                root: spec.target.clone(),
                below: Vec::new(),
                name,
                keep_old: *keep_old,
            };
            let told = told.map(|(_, record)| record.size);
            let feed = Growing::new(follow, spec.poll, told, Arc::clone(&backlog));
            let (feed, outcome) = run(feed, &spec, memory, backlog, ways).await?;
            feed.into_failure().map_or(Ok(outcome), |error| Err(SubscribeError::Pull(error)))
        }
        How::Named(names) => {
            let reached = memory.manifest.note(REACHED)?;
            let reached_s = reached.and_then(|bytes| Some(i64::from_be_bytes(bytes.try_into().ok()?)));
            let begin_s = reached_s.or(match memory.since {
                Since::At(from_s) => Some(from_s),
                Since::Now | Since::All => None,
            });
            let feed = Named::new(
                names.clone(),
                spec.address.clone(),
                spec.target.clone(),
                begin_s,
                Arc::clone(&backlog),
            );
            let (_, outcome) = run(feed, &spec, memory, backlog, ways).await?;
            Ok(outcome)
        }
    }
}

/// What it takes to pull.
struct Ways<'a> {
    config: &'a Config,
    slots: &'a mut Slots,
    limiter: &'a Limiter,
    stop: &'a watch::Receiver<bool>,
    tell: &'a dyn Tell,
}

/// What earlier runs remember.
struct Memory {
    manifest: Arc<Manifest>,
    known: Vec<(String, Record)>,
    since: Since,
    is_first: bool,
    /// The target takes names that differ only in case or Unicode composition for one.
    merges_twins: bool,
}

impl Memory {
    fn load(state: &Path, target: &Path, since: Since) -> Result<Self, SubscribeError> {
        let merges_twins = !Folder::open_tree_target(target, true)?.distinguishes_twins();
        let manifest = Manifest::open(state, target)?;
        let mut known = Vec::new();
        manifest.for_each(|path, record| {
            known.push((path.to_owned(), record));
            true
        })?;
        // What somebody removed before it was delivered was never here.
        known.retain(|(path, record)| {
            record.delivered || target.join(disk_path(path)).symlink_metadata().is_ok()
        });
        let is_first = manifest.note(BEGUN)?.is_none();
        // What was said the first time holds.
        let before = manifest.note(SINCE)?.and_then(|bytes| Some(i64::from_be_bytes(bytes.try_into().ok()?)));
        let since = match (before, since) {
            (Some(from_s), _) => Since::At(from_s),
            (None, Since::At(from_s)) => {
                manifest.write_note(SINCE, &from_s.to_be_bytes())?;
                since
            }
            (None, _) => since,
        };
        Ok(Self { manifest: Arc::new(manifest), known, since, is_first, merges_twins })
    }

    /// What is here and was not delivered, in the order of the stream.
    fn undelivered(&self, address: &Address) -> Vec<Item> {
        let mut waiting: Vec<_> = self.known.iter().filter(|(_, record)| !record.delivered).collect();
        waiting.sort_by_key(|(path, record)| (record.modified_s, path.clone()));
        waiting.into_iter().filter_map(|(path, record)| item(address, path, record)).collect()
    }
}

/// Something that an earlier run has pulled.
fn item(root: &Address, path: &str, record: &Record) -> Option<Item> {
    let mut below = path.split('/').map(Name::from_key).collect::<Result<Vec<_>, _>>().ok()?;
    let name = below.pop()?;
    let folder = below.iter().fold(root.clone(), |folder, name| folder.folder(name));
    let address = folder.file(&name);
    let (path, record, modified_s) = (path.to_owned(), record.clone(), record.modified_s);
    Some(Item { path, below, name, address, record, modified_s, piece: None, is_gone: false })
}

/// Pulls and delivers, until there is an order to stop or something fails.
async fn run<M: Machine>(
    machine: M,
    spec: &Spec,
    memory: Memory,
    backlog: Arc<Mutex<Backlog>>,
    ways: Ways<'_>,
) -> Result<(M, Outcome), SubscribeError> {
    let Ways { config, slots, limiter, stop, tell } = ways;
    let lag = || {
        let backlog = backlog.lock().expect("nobody panics with the backlog in hand");
        backlog.lag(jiff::Timestamp::now().as_second())
    };
    let (to, found) = mpsc::unbounded_channel();
    let (next, items) = mpsc::unbounded_channel();
    for item in memory.undelivered(&spec.address) {
        let mut backlog = backlog.lock().expect("nobody panics with the backlog in hand");
        backlog.add(&item.path, item.record.pulled_s, item.record.size);
        drop(backlog);
        let _ = next.send(Due::Item(Box::new(item)));
    }
    let out = (spec.output != Output::Nothing).then(|| Out::start(std::io::stdout()));
    let delivery = Delivery {
        target: std::path::absolute(&spec.target).unwrap_or_else(|_| spec.target.clone()),
        manifest: Arc::clone(&memory.manifest),
        backlog: Arc::clone(&backlog),
        hook: spec.hook.clone(),
        hook_limit: spec.hook_limit,
        skip_failures: spec.skip_failures,
        bytes: out.clone().filter(|_| spec.output == Output::Bytes),
        lines: out.filter(|_| spec.output == Output::Lines),
        tell,
    };
    let mut delivering =
        pin!(async { tokio::try_join!(delivery.note(found, next), delivery.deliver(items)).map(drop) });
    let pulling = async {
        let (told, totals) = pull(Told { machine, to }, config, slots, limiter, stop, tell).await;
        (told.machine, totals)
    };
    let (machine, totals) = tokio::select! {
        pulled = pulling => pulled,
        // It goes on as long as the feed does.
        delivered = &mut delivering => {
            delivered?;
            return Err(SubscribeError::Target(SinkError::Gone));
        }
        never = keep_some(spec, &memory.manifest, tell) => match never {},
        never = tell_lag(&lag, tell) => match never {},
    };
    if let Ok(delivered) = tokio::time::timeout(GRACE, delivering).await {
        delivered?;
    }
    let lag = lag();
    tell.lag(lag);
    Ok((machine, Outcome { totals, lag }))
}

async fn keep_some(spec: &Spec, manifest: &Arc<Manifest>, tell: &dyn Tell) -> std::convert::Infallible {
    match spec.keep {
        Some(span) => {
            // A file that grows is never old.
            let growing = matches!(spec.how, How::Growing { .. }).then(|| spec.address.file_name().ok());
            keep::keep(Arc::clone(manifest), spec.target.clone(), span, growing.flatten(), tell).await
        }
        None => std::future::pending().await,
    }
}

async fn tell_lag(lag: &impl Fn() -> Lag, tell: &dyn Tell) -> std::convert::Infallible {
    loop {
        tell.lag(lag());
        tokio::time::sleep(TELL_EVERY).await;
    }
}
