//! A file on its way: what is to be prepared for it, where its bytes go, and how it gets its name. Used by the worker alone.

use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedMutexGuard;
use tracing::{debug, warn};

use crate::fetch::engine::{self, PullError};
use crate::fetch::sink::{
    Algorithm, Digest, Finish, Finished, Folder, JournalPlace, Opening, Part, Pipe, SinkError,
};
use crate::fetch::source::Source;
use crate::fetch::store::{Store as _, Stream};
use crate::fetch::{Connection as _, Fault, Name, Version};

use super::replica::{Answer, Reading, is_up_to_date};
use super::report::{Event, Fate};
use super::sums::is_list;
use super::{Alike, Common, Config, Feed, To, Want};

/// A file on its way.
pub(super) struct OnItsWay {
    pub(super) index: usize,
    pub(super) want: Want,
    /// A new part that is being opened: asked for while the file before was pulled.
    pub(super) opening: Option<Opening>,
    /// The file that is here already, while it is read.
    pub(super) reading: Reading,
    pub(super) place: Option<Place>,
    /// The most bytes that were ever here at once: only more are progress.
    pub(super) most_bytes: Option<u64>,
    /// What is known of a date that is too young.
    pub(super) deferral: engine::Deferral,
    /// Lists of checksums at the source were asked for it.
    has_asked_sums: bool,
}

/// Where its bytes go.
pub(super) enum Place {
    Part(Box<Part>),
    Stream(Box<Stream>),
}

impl Place {
    /// How many bytes of the file are there.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Part(part) => part.have().bytes(),
            Self::Stream(stream) => stream.have().bytes(),
        }
    }
}

/// A file that is whole, until it has its name.
pub(super) type Done = Pin<Box<dyn Future<Output = (usize, Fate)> + Send>>;

impl OnItsWay {
    pub(super) fn new(index: usize, want: Want) -> Self {
        Self {
            index,
            want,
            opening: None,
            reading: None,
            place: None,
            most_bytes: None,
            deferral: engine::Deferral::default(),
            has_asked_sums: false,
        }
    }
}

/// Takes the next file out ahead and begins to open its part, if that is all there is to prepare.
pub(super) fn begin_next<F: Feed>(common: &Common<'_, F>) -> Option<OnItsWay> {
    let config = common.config;
    if config.dry_run || config.sums || !config.resume {
        return None;
    }
    let (index, want) = common.want_ahead()?;
    let mut next = OnItsWay::new(index, want);
    if let To::File { root, below, name } = &next.want.to
        && let Ok(folder) = common.folder(root, below)
        && next.want.changed_within.is_none()
        // What is there may be up to date: the source has to be asked.
        && (!next.want.ask_first || matches!(folder.replica(name), Ok(None)))
    {
        let journal = JournalPlace::for_file(&config.state, &folder.path().join(name.to_os_string()));
        next.opening = Some(Part::begin_to_open(&common.disk, folder, name.clone(), Some(journal)));
    }
    Some(next)
}

/// Finds out what is to be done for a file, before its first byte.
pub(super) async fn prepare<F: Feed>(
    common: &Common<'_, F>,
    source: &mut Source,
    file: &mut OnItsWay,
) -> Result<Prepared, PullError> {
    let (config, OnItsWay { want, reading, has_asked_sums, .. }) = (common.config, file);
    if !is_of_age(common, source, want).await? {
        return Ok(Prepared::Fate(Fate::NotMeant));
    }
    if config.sums && want.expected.is_none() && !*has_asked_sums {
        want.expected = common.sums.lock().await.find(source, &want.address).await?;
        *has_asked_sums = true;
    }
    // Lists of checksums do not name themselves: they are compared by size and time.
    if config.alike == Alike::Digest
        && want.expected.is_none()
        && !want.address.file_name().is_ok_and(|name| is_list(&name))
    {
        return Err(Fault::NoChecksum(want.address.to_string()).into());
    }
    if config.dry_run {
        return Ok(Prepared::Fate(plan(common, source, want, reading).await?));
    }
    let wanted = algorithms(config, want.expected.as_ref());
    let To::File { root, below, name } = &want.to else {
        // What was pulled before may still be on its way out.
        let turn = Arc::clone(&common.output).lock_owned().await;
        let output = InTurn { output: std::io::stdout(), _turn: turn };
        let mut stream = Stream::new(Pipe::start("standard output", output));
        if let Some(algorithm) = wanted.first() {
            stream.hash_along(*algorithm);
        }
        return Ok(Prepared::Place(Place::Stream(Box::new(stream))));
    };
    let folder = common.folder(root, below)?;
    if want.ask_first
        && let Answer::UpToDate(version) =
            is_up_to_date(config.alike, &folder, name, source, want, reading).await?
    {
        return Ok(Prepared::Fate(Fate::UpToDate(version)));
    }
    let journal = JournalPlace::for_file(&config.state, &folder.path().join(name.to_os_string()));
    let mut part = Part::open(&common.disk, folder, name.clone(), Some(journal)).await?;
    if !config.resume {
        part.restart().await?;
    }
    part.hash_along(&wanted);
    Ok(Prepared::Place(Place::Part(Box::new(part))))
}

/// Decides as a real run would, without writing anything.
async fn plan<F: Feed>(
    common: &Common<'_, F>,
    source: &mut Source,
    want: &Want,
    reading: &mut Reading,
) -> Result<Fate, PullError> {
    if let To::File { root, below, name } = &want.to
        && want.ask_first
        && let Some(folder) = existing_folder(root, below)?
        && let Answer::UpToDate(version) =
            is_up_to_date(common.config.alike, &folder, name, source, want, reading).await?
    {
        return Ok(Fate::UpToDate(version));
    }
    let size = source.probe(&want.address).await?.version.size;
    Ok(Fate::Planned { size })
}

/// Opens a folder of the target; `None` if it does not exist.
fn existing_folder(root: &Path, below: &[Name]) -> Result<Option<Arc<Folder>>, SinkError> {
    if !root.exists() {
        return Ok(None);
    }
    let mut folder = Arc::new(Folder::open(root, false)?);
    for name in below {
        if folder.look(name)?.is_none() {
            return Ok(None);
        }
        folder = Arc::new(folder.subfolder(name, false)?);
    }
    Ok(Some(folder))
}

/// Standard output, which is one file's until all of it is out.
struct InTurn {
    output: std::io::Stdout,
    _turn: OwnedMutexGuard<()>,
}

impl Write for InTurn {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.output.flush()
    }
}

/// Whether a file is as old as it should be, where only the source can tell. If it does not, the file is meant: it is better
/// pulled once too often than silently left out.
async fn is_of_age<F: Feed>(
    common: &Common<'_, F>,
    source: &mut Source,
    want: &Want,
) -> Result<bool, PullError> {
    let Some(times) = &want.changed_within else { return Ok(true) };
    let modified_s = source.probe(&want.address).await?.version.modified_s;
    if modified_s.is_none() && !common.told_ageless.swap(true, Ordering::Relaxed) {
        warn!(file = %want.address, "the source does not say how old its files are: no limit of age applies to them");
    }
    Ok(modified_s.is_none_or(|modified_s| times.contains(&modified_s)))
}

/// Which digests will be wanted at the end.
pub(super) fn algorithms(config: &Config, expected: Option<&Digest>) -> Vec<Algorithm> {
    let sha256 = config.sha256.then_some(Algorithm::Sha256);
    let mut wanted: Vec<Algorithm> = expected.map(Digest::algorithm).into_iter().chain(sha256).collect();
    wanted.dedup();
    wanted
}

/// What is to be done for a file.
pub(super) enum Prepared {
    Place(Place),
    Fate(Fate),
    SlotOver,
}

/// Sends a whole file on its way to the disk and to its name.
pub(super) fn finish<F: Feed>(common: &Common<'_, F>, file: &OnItsWay, place: Place) -> Done {
    let index = file.index;
    let version = match &place {
        Place::Part(part) => part.version().cloned().unwrap_or_default(),
        Place::Stream(_) => Version::default(),
    };
    let (modified_s, etag) = (version.modified_s, version.tag());
    let wish = Finish {
        expected: file.want.expected,
        modified_s: modified_s.filter(|_| common.config.times),
        total: None,
        want_sha256: common.config.sha256,
    };
    Box::pin(async move {
        let finished = match place {
            Place::Part(part) => match part.finish(wish).await {
                Ok(pending) => pending.await,
                Err(error) => Err(error),
            },
            Place::Stream(stream) => stream.finish(wish).await,
        };
        match finished {
            Ok(Finished { size, sha256 }) => (index, Fate::Pulled { size, sha256, modified_s, etag }),
            Err(error) => (index, Fate::Failed(error.into())),
        }
    })
}

/// Passes on what happens to one file.
pub(super) struct FileWatch<'a, F> {
    pub(super) common: &'a Common<'a, F>,
    pub(super) index: usize,
}

impl<F: Feed> engine::Watch for FileWatch<'_, F> {
    fn on(&self, event: engine::Event) {
        let mut totals = self.common.totals();
        match &event {
            engine::Event::Bytes(bytes) => {
                totals.bytes += bytes;
                self.common.tally.add(*bytes);
            }
            engine::Event::WasCut(_) => totals.cuts += 1,
            engine::Event::Surplus(why) => {
                warn!("{why}; continuing with fewer connections");
                self.common.surplus.fetch_add(1, Ordering::Relaxed);
            }
            engine::Event::Opened { .. } | engine::Event::Restarted(_) => {}
        }
        drop(totals);
        if !matches!(event, engine::Event::Bytes(_)) {
            debug!(file = self.index, ?event);
        }
        self.common.watch.on(Event::File { index: self.index, event: &event });
    }
}
