//! Demand: how an idle token finds a member that has something to pull.
//!
//! ```text
//!   A, has work           B, told by A                  H, holds the token
//!    |---- Demand(A) ------->|                              |
//!    |                       |<------------------ Scout ----|
//!    |                       |---- Report, Demand(A) ------>|
//!    |<--------------------------------------------- Scout -|
//!    |---- Report: has work ------------------------------->|
//!    |<=========================================== token ===|
//! ```
//!
//! The holder scouts a few members per visit; in a large circle it would take many visits until it scouts A. A demand
//! proves nothing and grants nothing: it makes the holder scout one more member. Each told member passes a demand on once, so
//! demands never cause more datagrams than were sent to announce them.

use std::time::Duration;

use crate::base::{MemberId, Time};

use super::rules::Announcing;

/// Demands of others that are kept at a time; the oldest makes room.
const KEPT: usize = 16;

/// How long a demand is worth passing on. By then an idle token has visited a circle of a hundred members.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Demands known to one member: those of others, and its own announcement.
#[derive(Clone, Debug, Default)]
pub(super) struct Demands {
    heard: Vec<(MemberId, Time)>,
    announced_at: Option<Time>,
    /// The next round of the announcement, while one is under way.
    next: Option<Time>,
    rounds_left: u32,
}

impl Demands {
    /// Starts to announce the own demand, or starts over. Rounds of two announcements are as far apart as those of one.
    pub(super) fn announce(&mut self, rules: &Announcing, now: Time) {
        self.rounds_left = rules.rounds;
        self.next = Some(self.announced_at.map_or(now, |at| now.max(at + rules.every)));
    }

    /// True if the own demand was ever announced.
    pub(super) fn was_announced(&self) -> bool {
        self.next.is_some() || self.announced_at.is_some()
    }

    /// The token came, or there is no work any more.
    pub(super) fn stop_announcing(&mut self) {
        self.next = None;
    }

    /// When the next round is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// True once per round, when it is due.
    pub(super) fn take_round(&mut self, rules: &Announcing, now: Time) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.announced_at = Some(now);
        self.rounds_left = self.rounds_left.saturating_sub(1);
        self.next = (self.rounds_left > 0).then(|| now + rules.every);
        true
    }

    /// Another member has work.
    pub(super) fn hear(&mut self, member: MemberId, now: Time) {
        self.heard.retain(|&(known, at)| known != member && is_fresh(at, now));
        if self.heard.len() >= KEPT {
            self.heard.remove(0);
        }
        self.heard.push((member, now));
    }

    /// The oldest demand that is worth telling this member.
    pub(super) fn take_for(&mut self, receiver: MemberId, now: Time) -> Option<MemberId> {
        self.heard.retain(|&(_, at)| is_fresh(at, now));
        let index = self.heard.iter().position(|&(member, _)| member != receiver)?;
        Some(self.heard.remove(index).0)
    }

    /// All demands, oldest first: the token is here.
    pub(super) fn take_all(&mut self, now: Time) -> Vec<MemberId> {
        let heard = std::mem::take(&mut self.heard);
        heard.into_iter().filter(|&(_, at)| is_fresh(at, now)).map(|(member, _)| member).collect()
    }
}

fn is_fresh(at: Time, now: Time) -> bool {
    now.since(at) < KEPT_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8) -> MemberId {
        MemberId::from_bytes([n; 16])
    }

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    /// The seconds at which a round is due, if it is looked at ten times a second.
    fn rounds(demands: &mut Demands, from: u64, until: u64) -> Vec<f64> {
        let tenths = (from * 10..until * 10).map(|tenth| at(0) + Duration::from_millis(tenth * 100));
        tenths
            .filter(|&now| demands.take_round(&Announcing::default(), now))
            .map(|now| now.since(at(0)).as_secs_f64())
            .collect()
    }

    #[test]
    fn an_announcement_has_three_rounds_a_second_apart() {
        let mut demands = Demands::default();
        assert_eq!(rounds(&mut demands, 0, 5), [0.0; 0]);
        demands.announce(&Announcing::default(), at(5));
        assert_eq!(demands.deadline(), Some(at(5)));
        assert_eq!(rounds(&mut demands, 5, 20), [5.0, 6.0, 7.0]);
    }

    #[test]
    fn work_that_comes_and_goes_is_announced_once_a_second_at_most() {
        let mut demands = Demands::default();
        let mut told = Vec::new();
        for tenth in 0..100 {
            let now = at(0) + Duration::from_millis(tenth * 100);
            demands.announce(&Announcing::default(), now);
            if demands.take_round(&Announcing::default(), now) {
                told.push(now);
            }
            demands.stop_announcing();
        }
        assert_eq!(told, (0..10).map(at).collect::<Vec<_>>());
    }

    #[test]
    fn a_demand_is_passed_on_once_and_not_to_the_member_itself() {
        let mut demands = Demands::default();
        demands.hear(member(1), at(0));
        demands.hear(member(2), at(1));
        demands.hear(member(1), at(2));
        assert_eq!(demands.take_for(member(2), at(3)), Some(member(1)));
        assert_eq!(demands.take_for(member(2), at(3)), None);
        assert_eq!(demands.take_all(at(3)), [member(2)]);
        assert_eq!(demands.take_all(at(3)), []);
    }

    #[test]
    fn old_demands_are_forgotten_and_their_number_is_bounded() {
        let mut demands = Demands::default();
        demands.hear(member(1), at(0));
        assert_eq!(demands.take_for(member(9), at(10)), None);
        for n in 0..100 {
            demands.hear(member(n), at(20));
        }
        assert_eq!(demands.take_all(at(21)), (84..100).map(member).collect::<Vec<_>>());
    }
}
