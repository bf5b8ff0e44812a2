//! `--kill-holder`: when to kill which member, when to start it again, and how long the others were without a slot. Pure;
//! the demo's loop asks it and does what it says.

use std::time::Duration;

use stroll::peer::StatusReport;
use tokio::time::Instant;

/// A killed member is started again after this, and not before the others have gone on without it …
const DEAD_FOR: Duration = Duration::from_secs(2);
/// … unless that takes for ever.
const DEAD_AT_MOST: Duration = Duration::from_secs(8);

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
    /// How long after that the next slot began anywhere.
    pub(super) next_slot: Option<Duration>,
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
    slots_of_others: u64,
    is_back: bool,
    custody: Custody,
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
            Some(killed) => killed.custody.next_slot.is_none() || !killed.is_back,
        }
    }

    /// What came of it, if somebody was killed.
    pub(super) fn custody(&self) -> Option<Custody> {
        self.killed.as_ref().map(|killed| killed.custody)
    }

    /// Takes in how the members are now.
    pub(super) fn look(&mut self, members: &[Option<StatusReport>], now: Instant) -> Option<Order> {
        let Some(killed) = &mut self.killed else {
            let holder = holder(members).filter(|_| self.is_close(now))?;
            let custody = Custody { member: holder, next_slot: None };
            let slots_of_others = slots_without(members, holder);
            self.killed = Some(Killed { at: now, slots_of_others, is_back: false, custody });
            return Some(Order::Kill(holder));
        };
        let (member, since) = (killed.custody.member, now.duration_since(killed.at));
        if killed.custody.next_slot.is_none() && slots_without(members, member) > killed.slots_of_others {
            killed.custody.next_slot = Some(since);
        }
        let is_due = since >= DEAD_FOR && killed.custody.next_slot.is_some() || since >= DEAD_AT_MOST;
        if !killed.is_back && is_due {
            killed.is_back = true;
            return Some(Order::Restart(member));
        }
        None
    }
}

/// Who pulls right now. Not the founder: it has the page that people look at.
fn holder(members: &[Option<StatusReport>]) -> Option<usize> {
    let pulls = |status: &Option<StatusReport>| status.as_ref().is_some_and(|status| status.state == "run");
    members.iter().skip(1).position(pulls).map(|index| index + 1)
}

fn slots_without(members: &[Option<StatusReport>], member: usize) -> u64 {
    let others = members.iter().enumerate().filter(|(index, _)| *index != member);
    others.filter_map(|(_, status)| status.as_ref()?.counters.get("slots")).sum()
}

#[cfg(test)]
mod tests {
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
        let running = [status("wtok", 3), status("wtok", 3), status("run", 4)];
        assert_eq!(killing.look(&running, at(500)), None);
        assert!(!killing.is_close(at(500)) && killing.is_close(at(1_000)));
        let founder = [status("run", 3), status("wtok", 3), status("wtok", 4)];
        assert_eq!(killing.look(&founder, at(1_000)), None);
        assert_eq!(killing.look(&running, at(1_100)), Some(Order::Kill(2)));
        assert_eq!(killing.look(&[status("wtok", 3), status("wtok", 3), None], at(1_200)), None);
        assert_eq!(killing.custody(), Some(Custody { member: 2, next_slot: None }));
        assert_eq!(killing.look(&[status("wtok", 3), status("run", 4), None], at(1_350)), None);
        let next_slot = Some(Duration::from_millis(250));
        assert_eq!(killing.custody(), Some(Custody { member: 2, next_slot }));
        let later = [status("wtok", 4), status("run", 4), None];
        assert_eq!(killing.look(&later, at(3_100)), Some(Order::Restart(2)));
        assert_eq!(killing.look(&later, at(3_200)), None);
        assert!(!killing.is_close(at(3_200)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_killed_comes_back_even_if_nobody_else_goes_on() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut killing = Killing::new(Some(begun));
        assert_eq!(killing.look(&[status("wtok", 3), status("run", 3)], begun), Some(Order::Kill(1)));
        let alone = [status("wtok", 3), None];
        assert_eq!(killing.look(&alone, at(2_500)), None);
        assert_eq!(killing.look(&alone, at(8_000)), Some(Order::Restart(1)));
        assert_eq!(killing.custody(), Some(Custody { member: 1, next_slot: None }));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_killed_unasked() {
        let mut killing = Killing::new(None);
        assert_eq!(killing.look(&[status("wtok", 1), status("run", 1)], Instant::now()), None);
        assert_eq!(killing.custody(), None);
    }
}
