//! Follows a file that grows: what is new of it is appended to its replica, while the slot lasts.
//!
//! A version with another size and time is not another file here, so its word proves nothing: each request begins with the
//! last bytes that are here, and only if the source has the same there does anything get appended. A source that has
//! less, or something else, has another file: that is [`Fault::Changed`], and up to the caller.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::time::Instant;

use super::pace::Pace;
use super::{Event, Outcome, Pull, PullError};
use crate::fetch::plan::Planner;
use crate::fetch::sink::Growing;
use crate::fetch::{Ask, Connection, Fault, Opened, Version};

/// How much of the end is compared.
const TAIL: usize = 64 << 10;

/// How far it came, and what the source said of the file.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Everything that the source had is here, or the slot is over.
    pub outcome: Outcome,
    /// What the source said last, if it said something.
    pub version: Option<Version>,
}

/// Appends what is new until nothing is, or the slot is over.
pub async fn follow<C: Connection>(
    connection: &mut C,
    growing: &mut Growing,
    planner: &mut Planner,
    with: Pull<'_>,
) -> Result<Followed, PullError> {
    let mut version = None;
    loop {
        let before = growing.len();
        let outcome = match request(connection, growing, planner, with, &mut version).await {
            Ok(outcome) => outcome,
            Err(error) => {
                connection.cut().await;
                return Err(error);
            }
        };
        let size = version.as_ref().and_then(|version: &Version| version.size);
        let is_more = size.is_some_and(|size| size > growing.len()) && growing.len() > before;
        if outcome == Outcome::SlotOver || !is_more {
            return Ok(Followed { outcome, version });
        }
    }
}

async fn request<C: Connection>(
    connection: &mut C,
    growing: &mut Growing,
    planner: &mut Planner,
    with: Pull<'_>,
    version: &mut Option<Version>,
) -> Result<Outcome, PullError> {
    let fits = planner.next(with.slot.left(), None, with.room(planner, 1));
    let Some(fits) = fits.filter(|_| !with.slot.is_spent()) else { return Ok(Outcome::SlotOver) };
    let tail = growing.tail(TAIL).await?;
    let (begun, back) = (Instant::now(), tail.len() as u64);
    let from = growing.len() - back;
    let length = (fits < u64::MAX).then(|| fits.saturating_add(back));
    let ask = Ask { address: with.address, from, length, known: None };
    let opened = tokio::select! {
        biased;
        () = with.slot.over() => return Ok(Outcome::SlotOver),
        opened = connection.open(ask) => opened?,
    };
    let waited = begun.elapsed();
    accept(&opened, from, growing.len())?;
    with.watch.on(Event::Opened { size: opened.version.size, have: growing.len() });
    *version = Some(opened.version.clone());
    let before = growing.len();
    let (outcome, held_back) = body(connection, growing, with, tail, opened.length).await?;
    planner.measured(growing.len() - before, waited, begun.elapsed(), held_back);
    Ok(outcome)
}

fn accept(opened: &Opened, asked: u64, have: u64) -> Result<(), PullError> {
    if opened.version.size.is_some_and(|size| size < have) {
        return Err(Fault::Changed.into());
    }
    if opened.from != asked {
        return Err(Fault::Unsupported("it cannot continue a file, so none can be followed".into()).into());
    }
    Ok(())
}

/// Reads what was promised: compares first, then appends. Gives also how long it waited for the limits.
async fn body<C: Connection>(
    connection: &mut C,
    growing: &mut Growing,
    with: Pull<'_>,
    mut tail: Bytes,
    promised: Option<u64>,
) -> Result<(Outcome, Duration), PullError> {
    let mut left = promised;
    let mut held_back = Duration::ZERO;
    let mut pace = Pace::new(with.min_speed);
    // The source is not asked whether that was all: it may have grown meanwhile, which is no fault of this file.
    while left != Some(0) {
        let asked = Instant::now();
        let Some(piece) = read(connection, with).await? else {
            return Ok((cut(connection, with).await, held_back));
        };
        let Some(mut piece) = piece else { break };
        pace.note(piece.len() as u64, asked.elapsed())?;
        left = left.map(|left| left.saturating_sub(piece.len() as u64));
        held_back += with.limit(piece.len()).await;
        let both = piece.len().min(tail.len());
        if piece.slice(..both) != tail.slice(..both) {
            return Err(Fault::Changed.into());
        }
        tail.advance(both);
        piece.advance(both);
        if !piece.is_empty() {
            let len = piece.len() as u64;
            tokio::select! {
                biased;
                appended = growing.append(piece) => appended?,
                () = with.slot.over() => return Ok((cut(connection, with).await, held_back)),
            }
            with.watch.on(Event::Bytes(len));
        }
    }
    if !tail.is_empty() {
        // It ends before what is here does.
        return Err(Fault::Changed.into());
    }
    connection.cut().await;
    Ok((Outcome::Complete, held_back))
}

async fn read<C: Connection>(connection: &mut C, with: Pull<'_>) -> Result<Option<Option<Bytes>>, PullError> {
    if with.slot.is_over() {
        return Ok(None);
    }
    tokio::select! {
        biased;
        piece = connection.read() => Ok(Some(piece?)),
        () = with.slot.over() => Ok(None),
    }
}

async fn cut<C: Connection>(connection: &mut C, with: Pull<'_>) -> Outcome {
    let cut = connection.cut().await;
    with.watch.on(Event::WasCut(cut));
    Outcome::SlotOver
}
