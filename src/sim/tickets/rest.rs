//! Promises that need a look around, or time: nobody loses its ticket without need (T3), a crashed owner's ticket comes back
//! (T4), and when the faults are over everybody is served (T7).

use std::time::Duration;

use crate::base::{Seat, Ticket, Time};
use crate::proto::tickets::Config;

use super::violation::Violation;
use super::world::{Parcel, Ring};

/// From the crash of its owner until somebody has a ticket to give: it is missed, k+1 agree, their word is waited for, and
/// some rounds are for those who had to change their lists first.
fn freed_within(config: &Config) -> Duration {
    3 * config.lease + config.wait() + 10 * config.round
}

impl Ring {
    /// A seat was lost against its owner's will.
    pub(super) fn check_loss(&mut self, member: u32, seat: Seat) {
        let now = self.now;
        let config = &self.scenario.config;
        let Some(place) = self.place(member) else { return };
        // It may have been excluded long before it hears of that. What is heard counts for a lease, and a question takes
        // its time.
        let since = place.unsure_since.unwrap_or(now) - (config.lease + 2 * config.round);
        let Some(deed) = &place.deed else { return };
        let was_there = |witness: &&Seat| {
            let there = self.place(crate::sim::numbers::member_number(witness.member));
            there.is_some_and(|there| {
                there.is_awake() && there.awake_since < since && there.seat == Some(**witness)
            })
        };
        let live = deed.witnesses.iter().filter(was_there).count();
        let is_calm = place.awake_since < since && self.network.was_whole_since(since);
        if is_calm && live >= deed.witnesses.len().div_ceil(2) {
            self.checks.complain(Violation::LostAgainstItsWill {
                at: now,
                member,
                ticket: seat.ticket,
                live,
            });
        }
    }

    /// The owner of a seat crashed, or stands still, or is back from that. Gives whether its ticket must come back.
    pub(super) fn fell_silent(&mut self, seat: Seat, is_owed: bool) -> bool {
        let config = &self.scenario.config;
        let within = freed_within(config);
        // In a small ring more than half must be there.
        let borne = usize::from(config.faults).min(self.checks.sure().saturating_sub(1) / 2);
        self.checks.debts.silenced(self.now, 2 * within, borne);
        self.load.changed(self.now);
        // With fewer witnesses, or in a smaller ring, a few crashes are most of them.
        let witnesses = 2 * usize::from(config.faults) + 1;
        let deed =
            self.place(crate::sim::numbers::member_number(seat.member)).and_then(|it| it.deed.as_ref());
        let is_large =
            self.checks.sure() > witnesses && deed.is_some_and(|it| it.witnesses.len() >= witnesses);
        if is_owed && is_large {
            self.checks.debts.owed(seat.ticket, self.now);
            self.mail.post(Parcel::Due { ticket: seat.ticket, since: self.now }, self.now + within, self.now);
        }
        is_owed && is_large
    }

    /// By now somebody must have had it.
    pub(super) fn check_debt(&mut self, ticket: Ticket, since: Time) {
        let within = freed_within(&self.scenario.config);
        let most = usize::from(self.scenario.config.faults);
        let is_overdue = self.checks.debts.is_overdue(ticket, since, within, most);
        if is_overdue && self.network.was_whole_since(since - within) {
            let since = self.now.since(since);
            self.checks.complain(Violation::NotFreed { at: self.now, ticket, since });
        }
    }

    /// Nobody has been sure for so long that another ring must be founded: too many must have been silent at once.
    pub(super) fn check_standstill(&mut self, since: Time) {
        if !self.checks.debts.were_too_many() && self.network.was_whole_since(since) {
            self.checks.complain(Violation::StoodStill { at: self.now });
        }
    }

    /// The time is up: everybody with work was served, and who wanted to leave has left, if there was time for that.
    pub(super) fn check_rest(&mut self) {
        let at = self.now;
        if self.scenario.settle.is_zero() {
            return;
        }
        for member in 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX) {
            let Some(place) = self.place(member) else { continue };
            let (has_work, is_served, is_leaving) = (place.has_work, place.served_in_peace, place.is_leaving);
            if is_leaving {
                self.checks.complain(Violation::NotLeft { at, member });
            } else if has_work && !is_served {
                self.checks.complain(Violation::NotServed { at, member });
            }
        }
    }
}
