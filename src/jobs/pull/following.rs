//! What a worker does for a file that grows: appends what is new, and notices when it is another file. Used by the
//! worker alone.

use std::path::PathBuf;

use crate::fetch::engine::{self, Outcome, Pull, PullError};
use crate::fetch::sink::{Growing, JournalPlace};
use crate::fetch::{Fault, Name, Slot};

use super::feed::{End, Follow, Followed, Rotated};
use super::file::FileWatch;
use super::worker::{Step, Worker};
use super::{Common, Feed};

/// A growing file that is open.
pub(super) struct LastGrowing {
    root: PathBuf,
    below: Vec<Name>,
    name: Name,
    growing: Growing,
}

impl LastGrowing {
    fn is(&self, follow: &Follow) -> bool {
        self.root == follow.root && self.below == follow.below && self.name == follow.name
    }
}

impl Worker {
    /// Appends what is new. The task ends with the slot, too: what has come so far is worth delivering.
    pub(super) async fn follow<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        id: usize,
        follow: &Follow,
    ) -> Result<Step, PullError> {
        let mut growing = self.open_growing(common, follow).await?;
        let watch = FileWatch { common, index: id };
        let with = Pull {
            address: &follow.address,
            slot,
            limiters: &common.limiters,
            min_speed: common.config.min_speed,
            abreast: common.work().busy,
            watch: &watch,
        };
        let before = growing.len();
        let source = self.sources.first(&follow.address)?;
        let came = engine::follow(source, &mut growing, &mut self.planner, with).await;
        if growing.len() > before {
            self.answered(common);
        }
        let (outcome, version) = match came {
            Ok(followed) => (Some(followed.outcome), followed.version),
            Err(PullError::Source(Fault::Changed)) => (None, None),
            Err(error) => {
                // What came before is worth keeping.
                growing.checkpoint(None).await?;
                self.growing = Some(last(follow, growing));
                return Err(error);
            }
        };
        self.answered(common);
        let modified_s = version.as_ref().and_then(|version| version.modified_s);
        let len = growing.checkpoint(modified_s.filter(|_| common.config.times)).await?;
        let mut rotated = None;
        if outcome.is_none() {
            let file = growing.file();
            let (new, kept) = growing.rotate(follow.keep_old).await?;
            rotated = Some(Rotated { file, len, kept });
            growing = new;
        }
        let followed = Followed {
            file: growing.file(),
            len: if rotated.is_some() { 0 } else { len },
            version,
            is_complete: outcome == Some(Outcome::Complete),
            rotated,
        };
        self.growing = Some(last(follow, growing));
        common.end(id, End::Followed(Ok(followed)));
        Ok(if outcome == Some(Outcome::SlotOver) { Step::DoneForNow } else { Step::Done })
    }

    async fn open_growing<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        follow: &Follow,
    ) -> Result<Growing, PullError> {
        if let Some(last) = self.growing.take().filter(|last| last.is(follow) && last.growing.is_in_place()) {
            return Ok(last.growing);
        }
        let folder = common.folder(&follow.root, &follow.below)?;
        let journal =
            JournalPlace::for_file(&common.config.state, &folder.path().join(follow.name.to_os_string()));
        Ok(Growing::open(&common.disk, folder, follow.name.clone(), journal).await?)
    }
}

fn last(follow: &Follow, growing: Growing) -> LastGrowing {
    let Follow { root, below, name, .. } = follow.clone();
    LastGrowing { root, below, name, growing }
}
