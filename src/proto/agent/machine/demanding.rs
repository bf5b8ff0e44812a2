//! What an agent does about demand: its own, and that of others. See [`demand`](super::super::demand).

use std::time::Duration;

use crate::base::{MemberId, Time};

use super::super::hold::Stage;
use super::super::nouns::{Message, Output};
use super::super::rules::Announcing;
use super::Agent;

impl Agent {
    /// Whether another member is known to wait for the token that is here.
    pub fn is_wanted(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.candidates.has_waiting())
    }

    /// There is work now. With a token here a slot begins as soon as it may; otherwise the demand is announced. A member that
    /// has never heard of another one has nobody to tell.
    pub(super) fn seek_slot(&mut self, now: Time) {
        if self.hold.is_some() {
            self.begin_slot_of_resting_token(now);
        } else if self.has_heard {
            self.announce(now);
        }
    }

    /// A newcomer announces its work when it gets to know its first members.
    pub(super) fn on_members(&mut self, members: u32, now: Time) {
        self.timer.set_members(members, &self.config, &mut self.rng);
        let is_new = self.last_slot.is_none() && !self.demands.was_announced();
        if members > 1 && is_new && self.has_work && self.hold.is_none() {
            self.announce(now);
        }
    }

    fn announce(&mut self, now: Time) {
        if let Some(rules) = self.announcing() {
            self.demands.announce(&rules, now);
        }
    }

    pub(super) fn announce_when_due(&mut self, now: Time) {
        let Some(rules) = self.announcing() else { return };
        if self.demands.take_round(&rules, now) {
            self.outputs.push_back(Output::Announce { count: rules.told });
        }
    }

    fn announcing(&self) -> Option<Announcing> {
        let rules = self.config.rules.announcing()?;
        let every = rules.every.max(self.round_trips.map_or(Duration::ZERO, |known| known.timeout() * 2));
        Some(Announcing { every, ..rules.clone() })
    }

    /// The holder asks the member that has work; anybody else waits to be asked by the holder.
    pub(super) fn on_demand(&mut self, member: MemberId, now: Time) {
        if member == self.me || self.config.rules.announcing().is_none() {
            return;
        }
        if self.hold.as_ref().is_some_and(|hold| hold.stage != Stage::Offered) {
            self.invite(member, now);
        } else {
            self.demands.hear(member, now);
        }
    }

    /// Tells a member that scouts of one demand. Most often it is the holder; if not, it passes the demand on itself.
    pub(super) fn pass_on_demand(&mut self, scout: MemberId, now: Time) {
        if let Some(member) = self.demands.take_for(scout, now) {
            self.send(scout, Message::Demand { member });
        }
    }

    /// Scouts a member that is said to have work. A token that only rests waits for the answer, but not long: the demand
    /// may be wrong.
    pub(super) fn invite(&mut self, member: MemberId, now: Time) {
        let Some(rules) = &self.config.rules.scouting else { return };
        let (limit, patience) = (rules.scouts, self.config.skip + self.scouting_patience(rules));
        let Some(hold) = &mut self.hold else { return };
        if !hold.candidates.invite(member, limit, now) {
            return;
        }
        if let (Stage::Kept { until }, None) = (&mut hold.stage, hold.slot)
            && !hold.candidates.has_waiting()
        {
            *until = (*until).max(hold.since + patience);
        }
        let scout = self.scout(now);
        self.send(member, scout);
    }
}
