//! What a subscription's feeds tell the rest of it, and how: the line between the pure feeds and the delivery.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::fetch::{Address, Name};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Feed, Moment, Next};

/// Something that is here, whole, and is to be delivered.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its path below the target, with slashes.
    pub path: String,
    /// The folders on the way there.
    pub below: Vec<Name>,
    /// Its name.
    pub name: Name,
    /// Where it came from.
    pub address: Address,
    /// What is remembered of it.
    pub record: Record,
    /// When the original was changed, by the listing or by what the source said as it sent it.
    pub modified_s: Option<i64>,
    /// Of a growing file, the bytes that are new; of any other, `None`: all of them.
    pub piece: Option<Piece>,
    /// The replica is gone: nothing is to be remembered of it.
    pub is_gone: bool,
}

/// A piece of a growing file. The open file stays what it is when its name goes to another one.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The file.
    pub file: Arc<File>,
    /// Which bytes of it.
    pub range: Range<u64>,
}

/// What a feed has found out.
#[derive(Debug)]
pub enum Output {
    /// This is here, and all that is to be delivered before it was told before.
    Arrived(Box<Item>),
    /// These were there before the subscription began, and are not wanted.
    Before(Vec<(String, Record)>),
    /// The source has not listed this for a long time.
    Forgotten(String),
    /// The source cannot be looked at, which may pass.
    Trouble(String),
    /// A listed name that cannot be used: the path, escaped, and why.
    Refused {
        /// The path.
        path: String,
        /// The reason.
        why: String,
    },
    /// A symbolic link, which is not followed.
    Link(String),
    /// There was never a file of this name.
    Gap(String),
    /// Everything up to this moment, in seconds since 1970, is done with (names by template).
    Reached(i64),
    /// A growing file was another one suddenly: the old replica is kept under this name, or dropped.
    Rotated {
        /// The file.
        path: String,
        /// Where its old replica is.
        kept: Option<String>,
    },
}

/// What is wrong, told once.
#[derive(Debug, Default)]
pub(super) struct Trouble(Option<String>);

impl Trouble {
    /// This is wrong, perhaps still.
    pub(super) fn tell(&mut self, why: &impl ToString, outputs: &mut VecDeque<Output>) {
        let why = why.to_string();
        if self.0.as_ref() != Some(&why) {
            outputs.push_back(Output::Trouble(why.clone()));
            self.0 = Some(why);
        }
    }
}

/// A feed of a subscription: tells what it has found out, one thing at a time.
pub trait Machine: Feed {
    /// The next thing, until there is none.
    fn poll_output(&mut self) -> Option<Output>;
}

/// Passes on what a feed finds out, as soon as it has.
pub(super) struct Told<M> {
    pub(super) machine: M,
    pub(super) to: mpsc::UnboundedSender<Output>,
}

impl<M: Machine> Told<M> {
    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            // Nobody listens any more only when all is over.
            let _ = self.to.send(output);
        }
    }
}

impl<M: Machine> Feed for Told<M> {
    fn next(&mut self, at: Moment) -> Next {
        let next = self.machine.next(at);
        self.drain();
        next
    }

    fn ended(&mut self, id: usize, end: End, at: Moment) {
        self.machine.ended(id, end, at);
        self.drain();
    }

    fn outlook(&self) -> Option<Address> {
        self.machine.outlook()
    }

    fn abreast(&self) -> usize {
        self.machine.abreast()
    }

    fn waits_until_settled(&self) -> bool {
        true
    }

    fn stream_rate(&self) -> Option<u64> {
        self.machine.stream_rate()
    }

    fn backlog(&self) -> u64 {
        self.machine.backlog()
    }

    fn slot_changed(&mut self, is_in_limited_slot: bool) {
        self.machine.slot_changed(is_in_limited_slot);
    }
}
