//! Questions about an address that bring no bytes: does the file exist, what is there. Used by the worker alone.

use crate::fetch::engine::PullError;
use crate::fetch::source::Source;
use crate::fetch::{Address, Ask, Connection as _, Fault, LinkTarget, Slot};

use super::worker::{Step, Worker};
use super::{Common, End, Feed};

/// A question to the source.
pub(super) enum Question {
    /// Does this file exist?
    Exists(Address),
    /// Is this a file, a folder, nothing?
    Resolve(Address),
}

impl Question {
    pub(super) fn address(&self) -> &Address {
        match self {
            Self::Exists(address) | Self::Resolve(address) => address,
        }
    }

    /// The end of a question that the source did not answer.
    pub(super) fn failed(&self, fault: Fault) -> End {
        match self {
            Self::Exists(_) => End::Probed(Err(fault)),
            Self::Resolve(_) => End::Resolved(Err(fault)),
        }
    }
}

impl Worker {
    pub(super) async fn ask<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        id: usize,
        question: &Question,
    ) -> Result<Step, PullError> {
        let source = self.sources.first(question.address())?;
        let end = tokio::select! {
            biased;
            () = slot.over() => return Ok(Step::SlotOver),
            end = answer(source, question) => end?,
        };
        self.answered(common);
        common.end(id, end);
        Ok(Step::Done)
    }
}

async fn answer(source: &mut Source, question: &Question) -> Result<End, Fault> {
    Ok(match question {
        Question::Exists(address) => End::Probed(Ok(source.exists(address).await?)),
        Question::Resolve(address) => End::Resolved(Ok(resolve(source, address).await?)),
    })
}

/// What is at an address. Some HTTP servers answer HEAD with 404 and GET with the file, so GET is asked, too.
async fn resolve(source: &mut Source, address: &Address) -> Result<LinkTarget, Fault> {
    let target = source.resolve(address).await?;
    if target != LinkTarget::Missing || address.scheme().is_ftp() {
        return Ok(target);
    }
    let opened = source.open(Ask { address, from: 0, length: Some(1), known: None }).await;
    source.cut().await;
    match opened {
        Ok(opened) => Ok(LinkTarget::File(opened.version)),
        Err(Fault::IsFolder(_)) => Ok(LinkTarget::Folder),
        Err(Fault::NotFound(_) | Fault::Denied(_)) => Ok(LinkTarget::Missing),
        Err(fault) => Err(fault),
    }
}
