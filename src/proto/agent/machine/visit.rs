//! A visit of a token: the slot or the rest, and whether the token stays for another slot or is handed off.

use crate::base::Time;

use super::super::hold::{Custodian, Hold, Stage};
use super::super::nouns::{Event, Output, Token};
use super::super::routing::Candidates;
use super::Agent;

impl Agent {
    /// A slot if one is due and there is something to pull, a rest if not; and meanwhile the scouts go out.
    pub(super) fn begin_visit(&mut self, token: Token, custodian: Option<Custodian>, now: Time) {
        let id = token.id;
        let is_due = self.config.rules.is_work_conserving()
            || self.last_slot.is_none_or(|(began, _)| now.since(began) > self.config.min_interval());
        let slot = (is_due && self.has_work).then(|| now + self.config.slot);
        let until = slot.unwrap_or(now + self.config.skip);
        let mut candidates = Candidates::default();
        if let Some(rules) = &self.config.rules.scouting {
            candidates.ask(now);
            self.outputs.push_back(Output::Scout { count: rules.scouts });
        }
        self.emit(match slot {
            Some(until) => Event::SlotBegan { token: id, until },
            None => Event::Skipped,
        });
        if slot.is_some() {
            self.last_slot = Some((now, id));
        }
        let hold = Hold { token, since: now, custodian, slot, stage: Stage::Kept { until }, candidates };
        self.hold = Some(Box::new(hold));
        for member in self.demands.take_all(now) {
            self.invite(member, now);
        }
    }

    /// There is nobody else: the token stays, and it is as if it had come back.
    pub(super) fn visit_again(&mut self, now: Time) {
        let Some(hold) = self.hold.take() else { return };
        let Hold { mut token, since, .. } = *hold;
        token.age += now.since(since);
        self.timer.visited(&self.config, &mut self.rng, now);
        self.emit(Event::Visited { token: token.id });
        self.begin_visit(token, None, now);
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.slot.is_none()) {
            hold.stage = Stage::Kept { until: now + self.config.slot };
        }
    }

    /// Hands the token off, or keeps it for another slot if no other member is known to want one.
    pub(super) fn pass_on(&mut self, now: Time) {
        let Some(hold) = &self.hold else { return };
        // Without an answer this member may be alone, or deaf, or unheard: then the token must not stay unasked. And
        // without a custodian a crash would leave the circle without a token for long. Any other member gives the
        // token back at once, and watches over it from then on.
        let may_stay = hold.candidates.best().is_some() && hold.is_watched(self.patience_with_others(), now);
        if may_stay && self.is_token_useful_here() { self.keep(now) } else { self.offer() }
    }

    /// Whether there is work here, and no other member is known to have some.
    pub(super) fn is_token_useful_here(&self) -> bool {
        let is_wanted = self.hold.as_ref().is_some_and(|hold| hold.candidates.has_waiting());
        self.config.rules.is_work_conserving() && self.has_work && !is_wanted
    }

    /// The slot that runs goes on to its end; without one the next one begins.
    pub(super) fn keep(&mut self, now: Time) {
        match &mut self.hold {
            Some(hold) if hold.slot.is_some_and(|end| end > now) => {
                hold.stage = Stage::Kept { until: hold.slot.unwrap_or(now) };
            }
            _ => self.begin_next_slot(now),
        }
    }

    /// Another slot by the token that is here. Its custodian goes on watching: it is told when the token leaves.
    fn begin_next_slot(&mut self, now: Time) {
        let Some(hold) = self.hold.take() else { return };
        let Hold { mut token, since, custodian, slot, .. } = *hold;
        if slot.is_some() {
            self.emit(Event::SlotEnded);
        }
        token.age += now.since(since);
        // A token whose sessions are used up ends in its next handoff.
        token.session = token.session.next().unwrap_or(token.session);
        self.timer.news(&self.config, &mut self.rng, now);
        self.emit(Event::Kept { token: token.id, session: token.session });
        self.begin_visit(token, custodian, now);
    }

    /// There is work now: a token that rests here gives a slot at once.
    pub(super) fn begin_slot_of_resting_token(&mut self, now: Time) {
        let is_free = |hold: &Hold| {
            hold.slot.is_none() && hold.stage != Stage::Offered && !hold.candidates.has_waiting()
        };
        if self.config.rules.is_work_conserving() && self.hold.as_deref().is_some_and(is_free) {
            self.begin_next_slot(now);
        }
    }

    fn offer(&mut self) {
        let Some(hold) = &mut self.hold else { return };
        hold.stage = Stage::Offered;
        self.outputs.push_back(Output::Offer { to: hold.candidates.best() });
    }
}
