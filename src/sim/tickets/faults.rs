//! What goes wrong with members and their network, and what they do of their own will.

use std::time::Duration;

use crate::proto::tickets::{Input, Tickets};
use crate::sim::numbers::{member_id, member_number};

use super::place::{Pause, Place};
use super::trace::Trace;
use super::world::{Parcel, Ring};

/// Something that happens now and then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Crash,
    Pause,
    Split,
    Leave,
    Idle,
}

impl Fault {
    pub(super) const ALL: [Self; 5] = [Self::Crash, Self::Pause, Self::Split, Self::Leave, Self::Idle];
}

impl Ring {
    pub(super) fn schedule(&mut self, fault: Fault) {
        let faults = self.network.faults();
        let every = match fault {
            Fault::Crash => faults.crash_every,
            Fault::Pause => faults.pause_every,
            Fault::Split => faults.split_every,
            Fault::Leave => faults.leave_every,
            Fault::Idle => faults.idle_every,
        };
        if let Some(every) = every {
            let wait = self.rng.exponential(every).max(Duration::from_millis(1));
            self.mail.post(Parcel::Fault(fault), self.now + wait, self.now);
        }
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        let member = u32::try_from(self.rng.below(self.places.len())).unwrap_or(0);
        let faults = self.network.faults().clone();
        match fault {
            Fault::Crash => {
                for victim in self.neighbours(member) {
                    self.crash(victim);
                }
            }
            Fault::Pause => self.pause(member),
            Fault::Split => {
                self.note(member, || Trace::Split);
                self.load.changed(self.now);
                self.network.split(self.places.len());
                self.mail.post(Parcel::Join, self.now + faults.split_for, self.now);
            }
            Fault::Leave => self.leave(member),
            Fault::Idle => {
                self.work(member, false);
                let back = (self.now + faults.idle_for).min(self.peace_at);
                self.mail.post(Parcel::Work(member), back, self.now);
            }
        }
    }

    /// The member alone, or now and then up to k who follow each other in the ring.
    fn neighbours(&mut self, member: u32) -> Vec<u32> {
        let most = usize::from(self.scenario.config.faults).max(1);
        let count = if self.rng.below(3) == 0 { 1 + self.rng.below(most) } else { 1 };
        let ring = self.place(member).and_then(|place| place.machine.as_ref()).map(Tickets::ring);
        let others = ring.unwrap_or_default().into_iter().map(|seat| member_number(seat.member));
        let mut victims = vec![member];
        victims.extend(others.filter(|other| *other != member).take(count - 1));
        victims
    }

    /// It is gone at once, with its pull and all that it knew.
    pub(super) fn crash(&mut self, member: u32) {
        let restart_after = self.network.faults().restart_after;
        // One in four is back at once: what was meant for its former life still flies.
        let wait = if self.rng.below(4) == 0 { Duration::from_millis(1) } else { restart_after };
        if self.take_down(member) {
            self.outcome.crashes += 1;
            self.note(member, || Trace::Crashed);
            // In any case before the peace, so that everybody is there to be served.
            let back = (self.now + wait).min(self.peace_at);
            self.mail.post(Parcel::Restart(member), back, self.now);
        }
    }

    /// The machine is no more, and its pull with it. False if there was none.
    fn take_down(&mut self, member: u32) -> bool {
        let now = self.now;
        let sure = self.place(member).and_then(|place| place.sure_seat(now));
        let Some(place) = self.place_mut(member).filter(|place| place.machine.is_some()) else {
            return false;
        };
        place.machine = None;
        place.paused = None;
        place.waits_since = None;
        place.begins_again = false;
        let (pull, seat) = (place.pull.take(), place.seat);
        if let Some(pull) = pull {
            self.checks.pull_ended(member, pull.ticket);
        }
        self.checks.claimed(member, None, now, |_| false);
        if let Some(seat) = seat {
            self.seated(member, None);
            if !self.fell_silent(seat, sure.is_some()) {
                self.checks.debts.lose(seat.ticket);
            }
        }
        true
    }

    fn pause(&mut self, member: u32) {
        let (now, peace_at) = (self.now, self.peace_at);
        let until = now + self.network.faults().pause_for;
        let Some(place) = self.place_mut(member).filter(|place| place.is_awake()) else { return };
        place.paused = Some(Pause::default());
        let (pull, seat) = (place.pull, place.seat);
        if let Some(pull) = pull {
            self.checks.pull_frozen(member, pull.ticket, true);
        }
        if let Some(seat) = seat {
            self.fell_silent(seat, false);
        }
        self.note(member, || Trace::Paused);
        self.mail.post(Parcel::Resume(member), until.min(peace_at), now);
    }

    /// It goes on: with the clock or with what its socket has kept, whichever it looks at first.
    pub(super) fn resume(&mut self, member: u32) {
        let now = self.now;
        let Some(place) = self.place_mut(member) else { return };
        let Some(pause) = place.paused.take() else { return };
        place.awake_since = now;
        let (pull, is_sure, seat) = (place.pull, place.sure_seat(now).is_some(), place.seat);
        if let Some(pull) = pull.filter(|_| is_sure) {
            self.checks.pull_frozen(member, pull.ticket, false);
        }
        if let Some(seat) = seat {
            self.fell_silent(seat, false);
        }
        self.note(member, || Trace::Resumed);
        if self.rng.below(2) == 0 {
            self.feed(member, Input::Wake);
        }
        if pause.pull_ended {
            self.feed(member, Input::SlotStopped);
        }
        for (from, message) in pause.buffer {
            self.feed(member, Input::Received { from: member_id(from), message });
        }
        self.feed(member, Input::Wake);
    }

    fn leave(&mut self, member: u32) {
        let Some(place) = self.place_mut(member) else { return };
        if place.is_awake() && !place.is_leaving {
            place.is_leaving = true;
            self.note(member, || Trace::Leaves);
            self.feed(member, Input::Leave);
        }
    }

    /// It has left in good order, and will be back as somebody new.
    pub(super) fn left(&mut self, member: u32) {
        let away_for = self.network.faults().away_for;
        if !self.place(member).is_some_and(Place::is_awake) {
            return;
        }
        if let Some(place) = self.place_mut(member) {
            place.machine = None;
            place.waits_since = None;
        }
        let back = (self.now + away_for).min(self.peace_at);
        self.mail.post(Parcel::Restart(member), back, self.now);
    }
}
