//! What goes wrong with members and their network, and what the authority does meanwhile.

use std::time::Duration;

use crate::base::Time;
use crate::node::{Command, Input};

use super::place::{Pause, Place, address, bytes32};
use super::rows::Row;
use super::world::{Parcel, Whole};

/// Something that happens now and then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Crash,
    Pause,
    Split,
    Ban,
}

impl Fault {
    pub(super) const ALL: [Self; 4] = [Self::Crash, Self::Pause, Self::Split, Self::Ban];
}

/// How many members the authority tells itself; the others hear it from them.
const TOLD_OF_BANS: usize = 3;

impl Whole {
    pub(super) fn schedule(&mut self, fault: Fault) {
        let faults = self.network.faults();
        let every = match fault {
            Fault::Crash => faults.crash_every,
            Fault::Pause => faults.pause_every,
            Fault::Split => faults.split_every,
            Fault::Ban => faults.ban_every,
        };
        if let Some(every) = every {
            let wait = self.rng.exponential(every).max(Duration::from_millis(1));
            self.mail.post(Parcel::Fault(fault), self.now + wait, self.now);
        }
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        let member = self.rng.below(self.places.len());
        let faults = self.network.faults().clone();
        match fault {
            Fault::Crash => self.crash(member, faults.restart_after),
            Fault::Pause => self.pause(member, self.now + faults.pause_for),
            Fault::Split => {
                self.network.split(self.places.len());
                self.turns.disturbed(self.now);
                self.mail.post(Parcel::Join, self.now + faults.split_for, self.now);
            }
            Fault::Ban => self.ban(member),
        }
    }

    pub(super) fn crash(&mut self, member: usize, restart_after: Duration) {
        self.outcome.rejected += self.rejected_by(member);
        let Some(place) = self.places.get_mut(member) else { return };
        let Some(node) = place.node.take() else { return };
        place.paused = None;
        #[cfg(test)]
        self.sabotage.keep(member, node);
        #[cfg(not(test))]
        drop(node);
        self.outcome.lost_by_crash += self.checks.crashed(member);
        self.turns.ended(member, self.now);
        self.turns.disturbed(self.now);
        self.ticket_pull_ended(member);
        self.look_at_ticket(member);
        // One in four is back at once: the replays of its former life still fly.
        let wait = if self.rng.below(4) == 0 { Duration::from_millis(1) } else { restart_after };
        // In any case before the peace, so that everybody is there to be served.
        let back = (self.now + wait).min(self.peace_at);
        let has_files = self.rng.fraction() >= self.network.faults().forgetting;
        self.mail.post(Parcel::Restart { member, has_files }, back, self.now);
    }

    /// A member is back, with what its files say or with nothing but its papers.
    pub(super) fn restart(&mut self, member: usize, has_files: bool) {
        if self.places.get(member).is_none_or(|place| place.node.is_some()) {
            return;
        }
        self.memory.started(member);
        self.turns.disturbed(self.now);
        self.outcome.rows.reached(Row::Started);
        if has_files {
            self.start(member);
            self.introduce_one(member);
        } else {
            self.lose_files(member);
            self.start(member);
            self.bootstrap(member);
        }
    }

    /// Its key and its certificate are still there, and the charter that came with them.
    fn lose_files(&mut self, member: usize) {
        let Some(place) = self.places.get_mut(member) else { return };
        place.charter = None;
        place.bans = None;
        self.checks.standing_mut().forgot(member);
        self.outcome.forgotten += 1;
    }

    /// All that an invitation tells of others is where one of them was.
    fn bootstrap(&mut self, member: usize) {
        let (members, others) = (self.places.len(), self.places.len().saturating_sub(1));
        if others > 0 {
            let other = (member + 1 + self.rng.below(others)) % members;
            self.command(member, Command::Greet { address: address(other) });
        }
    }

    fn pause(&mut self, member: usize, until: Time) {
        let now = self.now;
        let Some(place) = self.places.get_mut(member) else { return };
        if place.is_awake() {
            place.paused = Some(Pause::since(now));
            self.turns.frozen(member, true, now);
            self.mail.post(Parcel::Resume(member), until.min(self.peace_at), now);
            self.ticket_pull_frozen(member, true);
        }
    }

    /// What a driver does when it finds that its loop stood still; then the socket's buffer.
    pub(super) fn resume(&mut self, member: usize) {
        let fresh_secret = bytes32(&mut self.rng);
        let Some(place) = self.places.get_mut(member) else { return };
        let Some(pause) = place.paused.take() else { return };
        let asleep = place.clock.shows(self.now).since(place.clock.shows(pause.since));
        self.ticket_pull_frozen(member, false);
        self.turns.frozen(member, false, self.now);
        if asleep > Duration::from_secs(1) {
            self.command(member, Command::Slept { asleep, fresh_secret });
        }
        if pause.slot_stopped {
            self.command(member, Command::SlotStopped);
        }
        for (from, bytes) in pause.buffer {
            self.feed(member, Input::Datagram { bytes: &bytes, from: address(from) });
        }
        self.feed(member, Input::Wake);
    }

    // --- the authority ----------------------------------------------------------------------------------------

    /// The authority bans a member. At least half of the circle stays: a token needs somewhere to go.
    fn ban(&mut self, member: usize) {
        let going = (0..self.places.len()).filter(|member| self.checks.standing().goes(*member)).count();
        if going >= self.places.len() / 2 || self.checks.standing().is_banned(member) {
            return;
        }
        let Some(serial) = self.places.get(member).map(|place| place.certificate.serial) else { return };
        let mut serials = self.bans.as_ref().map(|bans| bans.serials.clone()).unwrap_or_default();
        serials.push(serial);
        let version = self.bans.as_ref().map_or(1, |bans| bans.version.saturating_add(1));
        let Ok(bans) = self.authority.sign_bans(version, serials) else { return };
        self.bans = Some(bans);
        self.outcome.banned += 1;
        self.checks.banned(member, version);
        let told = 1 + self.rng.below(TOLD_OF_BANS);
        self.tell_bans(told);
    }

    /// The authority gives its newest bans to some members that listen and will stay; they spread by themselves.
    pub(super) fn tell_bans(&mut self, count: usize) {
        let Some(bans) = self.bans.clone() else { return };
        let mut listening = self.listening();
        for _ in 0..count.min(listening.len()) {
            let member = listening.swap_remove(self.rng.below(listening.len()));
            self.command(member, Command::Bans { bans: bans.clone() });
        }
    }

    /// Members that listen and will stay.
    pub(super) fn listening(&self) -> Vec<usize> {
        let stays = |member: &usize| {
            self.places.get(*member).is_some_and(Place::is_awake) && !self.checks.standing().goes(*member)
        };
        (0..self.places.len()).filter(stays).collect()
    }
}
