//! When the jobs may pull and when they have to stop, whatever gave them the right to.

use crate::base::{Seat, Session, Time, TokenId};
use crate::proto::{agent, handoff};

use super::machine::Node;
use super::nouns::Event;

/// By what a member pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// A token that is here.
    Token(TokenId),
    /// A ticket of its own.
    Ticket(Seat),
}

/// A slot that is due, before the pull that was told to stop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    right: Right,
    session: Session,
    until: Time,
}

/// Whether the jobs pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pull {
    Idle,
    Running {
        right: Right,
    },
    /// Told to stop; a handoff of its token may wait for it.
    Stopping {
        right: Right,
        /// It begins when this pull has ended.
        next: Option<Due>,
    },
}

impl Node {
    /// Lets the jobs pull, but not before they have ended what they were told to stop.
    pub(super) fn begin_pull(&mut self, right: Right, session: Session, until: Time) {
        if let Pull::Stopping { next, .. } = &mut self.pull {
            *next = Some(Due { right, session, until });
            return;
        }
        self.pull = Pull::Running { right };
        self.outbox.tell(Event::SlotBegan { right, session, until });
    }

    /// Orders the pull to end, whichever it is.
    pub(super) fn end_pull(&mut self) {
        match &mut self.pull {
            Pull::Idle => {}
            Pull::Running { right } => {
                self.pull = Pull::Stopping { right: *right, next: None };
                self.outbox.tell(Event::StopSlot);
            }
            Pull::Stopping { next, .. } => *next = None,
        }
    }

    /// Orders the pull by this right to end, and tells when it has: at once if there is none. A pull by another right is
    /// none of its business.
    pub(super) fn stop_pull(&mut self, by: Right) {
        match &mut self.pull {
            Pull::Running { right } if *right == by => self.end_pull(),
            Pull::Stopping { right, next } => {
                next.take_if(|next| next.right == by);
                if *right != by {
                    self.pull_ended(by);
                }
            }
            Pull::Idle | Pull::Running { .. } => self.pull_ended(by),
        }
    }

    /// Tells whether another member waits for the token that is here, when that has changed.
    pub(super) fn tell_wanted(&mut self) {
        let is_wanted = self.agent.is_wanted();
        if std::mem::replace(&mut self.is_wanted, is_wanted) != is_wanted {
            self.outbox.tell(Event::Wanted(is_wanted));
        }
    }

    pub(super) fn on_slot_stopped(&mut self, now: Time) {
        if self.pull != Pull::Idle {
            self.outbox.tell(Event::SlotEnded);
        }
        match std::mem::replace(&mut self.pull, Pull::Idle) {
            Pull::Stopping { right, next } => {
                self.pull_ended(right);
                if let Some(Due { right, session, until }) = next.filter(|next| next.until > now) {
                    self.begin_pull(right, session, until);
                }
            }
            // The jobs let go before they had to: the token may go at once. There may be more to pull in the next slot.
            Pull::Running { right: Right::Token(_) } => {
                let has_more = self.may_work(now);
                let input = if has_more { agent::Input::SlotDone } else { agent::Input::Work(false) };
                self.to_agent.push_back(input);
            }
            Pull::Running { right } => self.pull_ended(right),
            Pull::Idle => {}
        }
    }

    fn pull_ended(&mut self, by: Right) {
        match by {
            Right::Token(token) => self.to_handoff.push_back(handoff::Input::SlotStopped { token }),
            Right::Ticket(seat) => self.tell_tickets_of_end(seat),
        }
    }
}
