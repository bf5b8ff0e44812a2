//! Which tokens were here, in the order of their last visit: what the sandwich rule looks at.
//!
//! ```text
//!   older visits  …  t …… elder … now      t comes again: it is sandwiched, discard it
//! ```
//!
//! A token that was here before and comes again after an elder one did is spurious: both were alive in between.

use crate::base::{Session, TokenId};

/// How many tokens are remembered. More than a handful never lives at once; what is forgotten is only found later.
pub(super) const LIMIT: usize = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The most recent visit last. Short, so a scan beats any index.
    visits: Vec<Visit>,
}

#[derive(Clone, Copy, Debug)]
struct Visit {
    token: TokenId,
    session: Session,
}

impl History {
    /// The token is here now.
    pub(super) fn note(&mut self, token: TokenId, session: Session) {
        self.forget(token);
        if self.visits.len() == LIMIT {
            self.visits.remove(0);
        }
        self.visits.push(Visit { token, session });
    }

    /// The token was never here, as far as we know.
    pub(super) fn forget(&mut self, token: TokenId) {
        self.visits.retain(|visit| visit.token != token);
    }

    /// Whether the token was here before, and an elder one since.
    pub(super) fn is_sandwiched(&self, token: TokenId) -> bool {
        self.visits
            .iter()
            .skip_while(|visit| visit.token != token)
            .any(|visit| visit.token.is_elder_than(&token))
    }

    /// Whether the token was here in this session or a later one.
    pub(super) fn had(&self, token: TokenId, session: Session) -> bool {
        self.visits.iter().any(|visit| visit.token == token && visit.session >= session)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.visits.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MemberId;

    fn token(created_ms: u64) -> TokenId {
        TokenId { created_ms, generator: MemberId::from_bytes([0; 16]), random: 0 }
    }

    fn history(visits: &[u64]) -> History {
        let mut history = History::default();
        for &created in visits {
            history.note(token(created), Session(0));
        }
        history
    }

    #[test]
    fn a_younger_token_around_an_elder_one_is_sandwiched() {
        assert!(history(&[2, 1]).is_sandwiched(token(2)));
        assert!(history(&[3, 2, 1]).is_sandwiched(token(2)));
    }

    #[test]
    fn an_elder_token_around_a_younger_one_is_not() {
        assert!(!history(&[1, 2]).is_sandwiched(token(1)));
    }

    #[test]
    fn a_token_that_was_never_here_is_not_sandwiched() {
        assert!(!history(&[1]).is_sandwiched(token(2)));
        assert!(!history(&[]).is_sandwiched(token(2)));
    }

    #[test]
    fn only_the_last_visit_of_a_token_counts() {
        assert!(!history(&[2, 1, 2]).is_sandwiched(token(2)));
    }

    #[test]
    fn it_forgets_the_least_recent_first_and_stays_bounded() {
        let history = history(&(0..100).rev().collect::<Vec<_>>());
        assert_eq!(history.len(), LIMIT);
        assert!(history.had(token(0), Session(0)));
        assert!(!history.had(token(50), Session(0)));
    }
}
