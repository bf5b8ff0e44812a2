//! `--kill-holder`: when to kill which member, when to start it again, and how long the others were without a slot, or
//! without its ticket. Pure; the demo's loop asks it and does what it says.

use std::time::Duration;

use stroll::base::Ticket;
use stroll::peer::{RingReport, StatusReport};
use tokio::time::Instant;

/// A killed member is started again after this, and not before the others have gone on without it …
const DEAD_FOR: Duration = Duration::from_secs(2);
/// … unless that takes for ever. For a ticket they wait until its lease has ended by every clock; and where too few are
/// left to take it back, nothing is to be waited for.
const DEAD_AT_MOST: Duration = Duration::from_secs(8);
const DEAD_AT_MOST_WITH_TICKETS: Duration = Duration::from_secs(14);

/// What is to be done with the member of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Kill(usize),
    Restart(usize),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Custody {
    /// Who was killed.
    pub(super) member: usize,
    /// Its ticket, where there are some.
    pub(super) ticket: Option<Ticket>,
    /// How long after that the next slot began anywhere, or the ticket was somebody's to use or to give.
    pub(super) made_good: Option<Duration>,
    /// Whether it had been started again by then.
    pub(super) was_back: bool,
}

/// Where we are.
#[derive(Debug)]
pub(super) struct Killing {
    /// Not before this; `None` never.
    from: Option<Instant>,
    killed: Option<Killed>,
}

#[derive(Debug)]
struct Killed {
    at: Instant,
    /// It is started again after this, whatever the others do.
    at_most: Duration,
    slots_of_others: u64,
    is_back: bool,
    custody: Custody,
}

impl Killed {
    fn new(member: usize, status: &StatusReport, members: &[Option<StatusReport>], now: Instant) -> Self {
        let ring = status.ring.as_ref();
        let at_most = match ring.map(|ring| ring.faults_borne(members.len())) {
            None => DEAD_AT_MOST,
            Some(0) => DEAD_FOR,
            Some(_) => DEAD_AT_MOST_WITH_TICKETS,
        };
        let ticket = ring.and_then(|ring| ring.ticket);
        let custody = Custody { member, ticket, made_good: None, was_back: false };
        Self { at: now, at_most, slots_of_others: slots_without(members, member), is_back: false, custody }
    }
}

impl Killing {
    /// Kills nobody before this moment; nobody at all, if there is none.
    pub(super) fn new(from: Option<Instant>) -> Self {
        Self { from, killed: None }
    }

    /// Whether moments count now.
    pub(super) fn is_close(&self, now: Instant) -> bool {
        match &self.killed {
            None => self.from.is_some_and(|from| now >= from),
            Some(killed) => killed.custody.made_good.is_none() || !killed.is_back,
        }
    }

    /// What came of it, if somebody was killed.
    pub(super) fn custody(&self) -> Option<Custody> {
        self.killed.as_ref().map(|killed| killed.custody)
    }

    /// Takes in how the members are now.
    pub(super) fn look(&mut self, members: &[Option<StatusReport>], now: Instant) -> Option<Order> {
        let Some(killed) = &mut self.killed else {
            let (holder, status) = holder(members).filter(|_| self.is_close(now))?;
            self.killed = Some(Killed::new(holder, status, members, now));
            return Some(Order::Kill(holder));
        };
        let Custody { member, ticket, made_good, was_back } = &mut killed.custody;
        let since = now.duration_since(killed.at);
        let is_good = match ticket {
            None => slots_without(members, *member) > killed.slots_of_others,
            Some(ticket) => is_somebodys(members, *ticket),
        };
        if made_good.is_none() && is_good {
            (*made_good, *was_back) = (Some(since), killed.is_back);
        }
        let (member, is_due) = (*member, since >= DEAD_FOR && made_good.is_some() || since >= killed.at_most);
        if !killed.is_back && is_due {
            killed.is_back = true;
            return Some(Order::Restart(member));
        }
        None
    }
}

/// Who pulls right now. Not the founder: it has the page that people look at. And where there are tickets, none whose ring
/// could bear its loss, but not at this moment: who is left would have to wait for it.
fn holder(members: &[Option<StatusReport>]) -> Option<(usize, &StatusReport)> {
    let is_borne = |ring: &RingReport| {
        ring.faults_borne(ring.coordinators.len()) >= ring.faults_borne(members.len()).min(1)
    };
    let mut alive =
        members.iter().enumerate().skip(1).filter_map(|(member, status)| Some((member, status.as_ref()?)));
    alive.find(|(_, status)| status.state == "pulling" && status.ring.as_ref().is_none_or(is_borne))
}

fn is_somebodys(members: &[Option<StatusReport>], ticket: Ticket) -> bool {
    members.iter().flatten().filter_map(|status| status.ring.as_ref()).any(|ring| ring.has(ticket))
}

fn slots_without(members: &[Option<StatusReport>], member: usize) -> u64 {
    let others = members.iter().enumerate().filter(|(index, _)| *index != member);
    others.filter_map(|(_, status)| status.as_ref()?.counters.get("slots")).sum()
}

#[cfg(test)]
mod tests {
    use stroll::peer::{CoordinatorReport, RangeReport};

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as the members' answers come")]
    fn status(state: &str, slots: u64) -> Option<StatusReport> {
        let text = format!(
            r#"{{"version":1,"circle":"demo","name":"lab","member":"m","listen":"","expires_s":0,"state":"{state}",
                "cooling_s":0.0,"charter_version":1,"bans_version":0,"verdict":{{"level":"nominal","reason":"",
                "since_s":0.0}},"counters":{{"slots":{slots}}},"rejected":{{}},"members":[]}}"#
        );
        Some(serde_json::from_str(&text).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_is_killed_and_comes_back_while_the_others_go_on() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut killing = Killing::new(Some(at(1_000)));
        let running = [status("waiting", 3), status("waiting", 3), status("pulling", 4)];
        assert_eq!(killing.look(&running, at(500)), None);
        assert!(!killing.is_close(at(500)) && killing.is_close(at(1_000)));
        let founder = [status("pulling", 3), status("waiting", 3), status("waiting", 4)];
        assert_eq!(killing.look(&founder, at(1_000)), None);
        assert_eq!(killing.look(&running, at(1_100)), Some(Order::Kill(2)));
        assert_eq!(killing.look(&[status("waiting", 3), status("waiting", 3), None], at(1_200)), None);
        assert_eq!(
            killing.custody(),
            Some(Custody { member: 2, ticket: None, made_good: None, was_back: false })
        );
        assert_eq!(killing.look(&[status("waiting", 3), status("pulling", 4), None], at(1_350)), None);
        let made_good = Some(Duration::from_millis(250));
        assert_eq!(killing.custody(), Some(Custody { member: 2, ticket: None, made_good, was_back: false }));
        let later = [status("waiting", 4), status("pulling", 4), None];
        assert_eq!(killing.look(&later, at(3_100)), Some(Order::Restart(2)));
        assert_eq!(killing.look(&later, at(3_200)), None);
        assert!(!killing.is_close(at(3_200)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_killed_comes_back_even_if_nobody_else_goes_on() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut killing = Killing::new(Some(begun));
        assert_eq!(killing.look(&[status("waiting", 3), status("pulling", 3)], begun), Some(Order::Kill(1)));
        let alone = [status("waiting", 3), None];
        assert_eq!(killing.look(&alone, at(2_500)), None);
        assert_eq!(killing.look(&alone, at(8_000)), Some(Order::Restart(1)));
        assert_eq!(
            killing.custody(),
            Some(Custody { member: 1, ticket: None, made_good: None, was_back: false })
        );
    }

    /// A member that has this ticket of three, and knows of so many members with one.
    #[expect(clippy::unnecessary_wraps, reason = "as the members' answers come")]
    fn holding(ticket: Ticket, coordinators: usize) -> Option<StatusReport> {
        let one = CoordinatorReport { ticket, member: String::new(), name: None };
        let ring = RingReport {
            tickets: 3,
            faults: 1,
            epoch: 1,
            ticket: Some(ticket),
            sure: true,
            coordinates: Some(RangeReport { from: ticket, to: ticket, count: 1 }),
            coordinators: vec![one; coordinators],
            waiting: 0,
            waited_s: None,
        };
        Some(StatusReport { ring: Some(ring), ..status("pulling", 1).unwrap() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_back_when_it_is_somebodys() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut killing = Killing::new(Some(begun));
        let small = [holding(0, 2), holding(2, 2), status("waiting", 1)];
        assert_eq!(killing.look(&small, at(0)), None, "the ring is too small just now");
        let running = [holding(0, 3), holding(2, 3), holding(1, 3)];
        assert_eq!(killing.look(&running, at(100)), Some(Order::Kill(1)));
        // Others go on; that is not enough.
        assert_eq!(killing.look(&[holding(0, 3), None, holding(1, 3)], at(8_500)), None);
        assert_eq!(
            killing.custody(),
            Some(Custody { member: 1, ticket: Some(2), made_good: None, was_back: false })
        );
        assert_eq!(killing.look(&[holding(2, 3), None, None], at(9_100)), Some(Order::Restart(1)));
        let custody = killing.custody().unwrap();
        assert_eq!((custody.made_good, custody.was_back), (Some(Duration::from_secs(9)), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_ring_of_two_is_not_waited_for_and_it_is_told_that_it_needed_the_dead_one() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut killing = Killing::new(Some(begun));
        assert_eq!(killing.look(&[holding(0, 2), holding(2, 2)], at(0)), Some(Order::Kill(1)));
        assert_eq!(killing.look(&[holding(0, 2), None], at(2_000)), Some(Order::Restart(1)));
        assert_eq!(killing.look(&[holding(0, 2), holding(2, 2)], at(5_000)), None);
        let custody = killing.custody().unwrap();
        assert_eq!((custody.made_good, custody.was_back), (Some(Duration::from_secs(5)), true));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_killed_unasked() {
        let mut killing = Killing::new(None);
        assert_eq!(killing.look(&[status("waiting", 1), status("pulling", 1)], Instant::now()), None);
        assert_eq!(killing.custody(), None);
    }
}
