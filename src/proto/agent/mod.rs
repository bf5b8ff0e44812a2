//! The agent: what a member does with a token that visits it, and what it does without one.
//!
//! ```text
//!               Arrived                        Accepted by the next member
//!   (no token) ---------> slot or rest ------> offer -----------------------> custody, then (no token)
//!        |                     |                 | Unreachable
//!        |                     | spurious        +---> offer to another
//!        |                     v
//!        |                  discarded, silently
//!        +--- no news for long, even when asked for, or a check unanswered ---> a new token: as if it had arrived
//! ```
//!
//! One machine serves all sets of rules; [`Rules`] says which parts are on. The agent knows nothing of datagrams,
//! keys or addresses. Whoever drives it (the node, or the simulator) passes tokens and messages on, draws members
//! from the directory where it is asked to, and ends a pull when the slot ends. In particular a handoff is the
//! driver's: the agent says [`Output::Offer`], and hears [`Input::Accepted`] or [`Input::Unreachable`].

//!
//! # What differs from the papers
//!
//! "2006/07" and "2009" are Ciuffoletti's two papers on the wandering token, implemented as [`Rules::early`] and
//! [`Rules::classic`]; "here" is [`Rules::guarded`], the default. Figures are those of `config/scenarios/comparison.toml`
//! (300 members, a token lost every 10,000 s) unless the row says otherwise.
//!
//! | paper | here | why |
//! |---|---|---|
//! | the next member is drawn uniformly | the holder asks *d* members how long they have waited, and hands off to the one with work that has waited longest | the p99 of the access interval falls from three times its mean to 1.5 times, and no visit is wasted on a member that needs no slot |
//! | a slot is due Δ_min = Δ_op·N_max/2 after the last one | a slot is due whenever there is work and no member is known to wait longer | with 3 of 300 members the source idles for 98 % of the time under Δ_min |
//! | 2006/07: a member makes a token after Δ_gen without a visit, where Δ_gen starts at Δ_max and adapts | 2009's rule, stretched by the member's own quiet times, and only after asking others | at N = 150 the early rules make 105 tokens in 10⁵ s without any loss; after a loss they need 14,000 s on average to become stable (`config/scenarios/early.toml`) |
//! | 2009: Δ_min without a visit, then a Poisson process of mean γ = Δ_min·N_max | the same as a last resort; before it, custody: the giver asks the taker, and replaces a token that is lost within seconds | without custody a loss costs about 800 s without a token |
//! | 2006/07: a token is removed if an older one enabled this member less than Δ_min ago | not used | members that the lost token served keep removing its successors for Δ_min, so that the circle has no token again and again |
//! | 2009: a token is removed if it was here before and an older one came in between | the same, and also if an older one was seen anywhere after its birth (sightings) | under the sandwich rule alone, two members pull for 7 % of the time |
//! | two tokens that meet at a member stay two | the older one stays | they would be used at the same time otherwise |
//! | every member knows all others | a view of some others is enough | views of 32 of 300 members cost 0.01 % of idle time |

mod config;
mod custody;
mod demand;
mod history;
mod hold;
mod machine;
mod nouns;
mod regeneration;
mod routing;
pub mod rules;
mod sightings;
#[cfg(test)]
mod tests;

pub use config::{CAPACITY_LIMIT, Config, Intervals, Invalid};
pub use machine::Agent;
pub use nouns::{Event, Input, Message, Origin, Output, Spurious, Token};
pub use rules::Rules;
