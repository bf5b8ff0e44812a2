//! Polite, coordinated downloading: independent labs that pull from one server behave like one polite client.
//!
//! The labs form a *circle*. One signed *token* wanders among them; only the member that holds it pulls, for at most
//! one *slot*; then it hands the token off. Nobody is in charge and the server does not know. This crate is the
//! `stroll` program and the machines of which it is made.
//!
//! # The house
//!
//! Imports go only to the left (`tests/tidy.rs` checks it):
//!
//! ```text
//! base <- wire <- trust <- proto <- node <- driver <- peer <- cli <- main
//!                                   node <- sim <----------- cli
//! base <--------------------------------- fetch <- jobs <- peer
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`base`] | values: time, seeded randomness, identities, units |
//! | [`wire`] | the datagram: envelope, messages, records, canonical bytes, size limits |
//! | [`trust`] | authority, certificate, charter, invitation, bans, key files |
//! | [`proto::handoff`] | one passing of one token: Move, Ack, Commit, EarlyStop |
//! | [`proto::directory`] | whom a member knows, and whom to forget |
//! | [`proto::agent`] | what a member does with a token and without one: removal, regeneration, routing, custody |
//! | [`proto::tickets`] | the other way to take turns: n members at once, and never two with the same ticket |
//! | [`proto::load`] | what a member's visits tell about the circle: return times, the load factor, the verdict on overload |
//! | [`node`] | composes them into one machine: datagrams, commands and time in; datagrams and events out |
//! | [`sim`] | the same machines on virtual time: bare agents for the papers' figures, whole nodes over a faulty network |
//! | [`driver`] | tokio: UDP, clock. The only place that owns a socket or reads a clock for the node |
//! | [`fetch`] | pulling: HTTP and FTP, listings, limits, chunk planning, files that are never corrupt. Knows nothing of tokens |
//! | [`jobs`] | what to pull next, and what to do with it: get, subscribe, mirror, exec |
//! | [`peer`] | the running member: files, enrolment, slots for jobs, control socket, status page, metrics |
//! | `cli` | arguments, settings, progress, messages; one file per command. Part of the program, not of this library |
//!
//! # Sources
//!
//! The protocols come from five papers. The documentation of each machine has a table of what it does differently, and why;
//! `config/scenarios` has the papers' case studies with their figures beside ours.
//!
//! | paper | idea | here |
//! |---|---|---|
//! | A. Ciuffoletti, *The Wandering Token: Congestion Avoidance of a Shared Resource*, in: Distributed and Parallel Systems, Springer 2007 (the version of 2006) | the early rules: Δ_max timeout with an adaptive Δ_gen, removal by precedence within Δ_min | [`proto::agent`], `rules = "early"` |
//! | A. Ciuffoletti, *The wandering token: Congestion avoidance of a shared resource*, Future Generation Computer Systems 26 (2010) 473–478, online 2009 | soft mutual exclusion by a token on a random walk: Poisson regeneration, sandwich removal, Δ_min = Δ_op·N_max/2 | [`proto::agent`], `rules = "classic"` |
//! | A. Ciuffoletti, *Secure token passing at application level*, the version of 2007 | the four datagrams Move, Ack, Commit and EarlyStop over UDP; certificates of an authority | [`proto::handoff`], [`trust`] |
//! | A. Ciuffoletti, *Secure token passing at application level*, Future Generation Computer Systems 26 (2010) 1026–1031 | the same with its state machines and a run of 20 days | [`proto::handoff`], `config/scenarios/endurance.toml` |
//! | A. Gidenstam, B. Koldehofe, M. Papatriantafilou, P. Tsigas, *Dynamic and fault-tolerant cluster management* | n tickets, never two owners of one, k faults tolerated | [`proto::tickets`] |
//!
//! The first two also describe the benchmark, members that pull when they like: `rules = "uncoordinated"` in [`sim`].
//! Scouting, sightings, custody, stretched regeneration and work-conserving slots (`rules = "guarded"`, the default) are this
//! project's own.
//!
//! # The contract of the machines
//!
//! Protocols are machines without clock, socket, task, lock, global or unseeded randomness. They have three verbs:
//!
//! - `handle(input, now)` changes the state once;
//! - `poll_output()` is then called until it gives `None`;
//! - `next_deadline()` says when the machine wants to be woken. Late, early and spurious wake-ups are harmless.
//!
//! So the simulator, the tests and a real member run the very same code, and a run is repeated bit for bit by
//! its seed. A machine never panics on what comes from others; a panic means a bug of its driver.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use stroll::base::{MemberId, Rng, Time};
//! use stroll::proto::agent::{Agent, Config, Event, Input, Output, Rules};
//!
//! let config = Config::new(Duration::from_secs(4), Duration::from_millis(100), 300, Rules::classic())?;
//! let me = MemberId::from_bytes([1; 16]);
//! let mut agent = Agent::new(me, Arc::new(config), Rng::seeded(1), 0, Time::ZERO);
//!
//! agent.handle(Input::Work(true), Time::ZERO);
//! assert!(agent.poll_output().is_none());
//!
//! agent.found(Time::ZERO);
//! let outputs: Vec<Output> = std::iter::from_fn(|| agent.poll_output()).collect();
//! assert!(matches!(outputs.last(), Some(Output::Event(Event::SlotBegan { .. }))));
//! assert_eq!(agent.next_deadline(), Time::from_secs(4));
//! # Ok::<(), stroll::proto::agent::Invalid>(())
//! ```

#![forbid(unsafe_code)]

pub mod base;
pub mod driver;
pub mod fetch;
pub mod jobs;
pub mod node;
pub mod peer;
pub mod proto;
pub mod sim;
pub mod trust;
pub mod wire;
