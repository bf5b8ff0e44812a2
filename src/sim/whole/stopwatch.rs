//! How long visits and handoffs take: by the events of the nodes, for figures; no checker goes by it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Session, Time, TokenId};
use crate::node::Event;
use crate::proto::{agent, handoff};
use crate::sim::measure::Spread;

use super::world::Whole;

/// What was measured, of one run or of several.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Between two visits of a token to a member.
    pub return_times: Spread,
    /// From the first Move of a handoff to the `EarlyStop`, or to another proof that the token was delivered.
    pub handoffs: Spread,
    /// From the end of one member's right to the beginning of the next one's: from the first Commit to its arrival.
    pub on_the_way: Spread,
}

impl Spans {
    pub(super) fn add(&mut self, other: &Self) {
        self.return_times.add(&other.return_times);
        self.handoffs.add(&other.handoffs);
        self.on_the_way.add(&other.on_the_way);
    }
}

/// What runs at this moment: at most one span per member or token.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    last_visits: BTreeMap<usize, Time>,
    offers: BTreeMap<usize, (TokenId, Session, Time)>,
    releases: BTreeMap<TokenId, (Session, Time)>,
}

impl Stopwatch {
    fn visited(&mut self, member: usize, now: Time) -> Option<Duration> {
        Some(now.since(self.last_visits.insert(member, now)?))
    }

    fn confirmed(&mut self, member: usize, about: (TokenId, Session), now: Time) -> Option<Duration> {
        let (token, session, at) = *self.offers.get(&member)?;
        ((token, session) == about).then(|| self.offers.remove(&member))?;
        Some(now.since(at))
    }

    fn arrived(&mut self, token: TokenId, session: Session, now: Time) -> Option<Duration> {
        let (released, at) = *self.releases.get(&token)?;
        (released == session).then(|| self.releases.remove(&token))?;
        Some(now.since(at))
    }
}

impl Whole {
    /// One event of a member.
    pub(super) fn time(&mut self, member: usize, event: &Event) {
        let (now, watch, spans) = (self.now, &mut self.stopwatch, &mut self.outcome.spans);
        let (spread, span) = match *event {
            Event::Agent(agent::Event::Visited { .. }) => {
                (&mut spans.return_times, watch.visited(member, now))
            }
            Event::Offering { token, session } => {
                watch.offers.insert(member, (token, session, now));
                return;
            }
            Event::Handoff(handoff::Event::Released { token, session, .. }) => {
                watch.releases.insert(token, (session, now));
                return;
            }
            Event::Handoff(handoff::Event::Arrived { token, session, .. }) => {
                (&mut spans.on_the_way, watch.arrived(token, session, now))
            }
            Event::Handoff(handoff::Event::Confirmed { token, session, .. }) => {
                (&mut spans.handoffs, watch.confirmed(member, (token, session), now))
            }
            _ => return,
        };
        if let Some(span) = span {
            spread.record(span);
        }
    }
}
