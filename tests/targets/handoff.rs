//! Three honest handoff machines and a network that does what it likes: never two of them hold one token.

use std::time::Duration;

use stroll::base::{CircleId, MemberId, Nonce, Session, Time, TokenId};
use stroll::proto::handoff::{Config, Event, Handoff, Input, Message, Output, Received, TOKENS_MAX};

use super::source::Source;

const MEMBERS: usize = 3;
const WALL_MS: i64 = 1_700_000_000_000;
/// Steps of one history.
const STEPS: usize = 2_000;
/// A datagram can be delivered again and again, but only the last so many.
const REMEMBERED: usize = 256;

struct World {
    machines: Vec<Handoff>,
    /// To whom, and what: everything that was ever sent.
    sent: Vec<(usize, Received)>,
    tokens: Vec<TokenId>,
    boots: u64,
    now: Time,
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let mut world = World {
        machines: Vec::new(),
        sent: Vec::new(),
        tokens: Vec::new(),
        boots: 0,
        now: Time::from_secs(1),
    };
    for member in 0..MEMBERS {
        let machine = world.boot(member);
        world.machines.push(machine);
    }
    world.generate(0);
    for _ in 0..STEPS {
        if source.is_empty() {
            break;
        }
        world.step(&mut source);
        world.check();
    }
}

fn id(member: usize) -> MemberId {
    MemberId::from_bytes([u8::try_from(member + 1).unwrap_or(0); 16])
}

impl World {
    fn boot(&mut self, member: usize) -> Handoff {
        let circle = CircleId::from_bytes([9; 16]);
        let config = Config::new(Duration::from_secs(1), Duration::from_secs(8));
        Handoff::new(id(member), circle, config, self.fresh_secret(), WALL_MS, self.now)
    }

    /// Never used before.
    fn fresh_secret(&mut self) -> [u8; 32] {
        self.boots += 1;
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&self.boots.to_be_bytes());
        secret
    }

    fn step(&mut self, source: &mut Source<'_>) {
        let member = source.below(MEMBERS);
        let token = self.tokens[source.below(self.tokens.len())];
        match source.below(16) {
            0..=5 => self.deliver(source),
            6..=8 => {
                let taker = id(source.below(MEMBERS));
                let timeout = (source.below(2) == 0).then(|| Duration::from_millis(source.number() % 10_000));
                self.feed(member, Input::Offer { token, taker, timeout });
            }
            9 | 10 => self.feed(member, Input::SlotStopped { token }),
            11 => {
                self.now = self.now + Duration::from_millis(source.number() % 40_000);
                for member in 0..MEMBERS {
                    self.feed(member, Input::Wake);
                }
            }
            12 => {
                let machine = self.boot(member);
                self.machines[member] = machine;
            }
            13 => {
                let fresh_secret = self.fresh_secret();
                let asleep = Duration::from_millis(source.number() % 60_000);
                self.feed(member, Input::Slept { asleep, fresh_secret });
            }
            14 => self.rarely(member, token, source),
            _ => self.lie(member, source),
        }
    }

    fn rarely(&mut self, member: usize, token: TokenId, source: &mut Source<'_>) {
        match source.below(4) {
            3 => self.feed(member, Input::Banned { member: id(source.below(MEMBERS)) }),
            0 => self.feed(member, Input::Discard { token }),
            1 => self.feed(member, Input::Open(source.below(2) == 0)),
            _ => self.generate(member),
        }
    }

    fn generate(&mut self, member: usize) {
        if self.tokens.len() < 4 {
            let random = self.tokens.len() as u64;
            let created_ms = WALL_MS.cast_unsigned();
            let token = TokenId { created_ms, generator: id(member), random };
            self.tokens.push(token);
            self.feed(member, Input::Generated { token });
        }
    }

    fn deliver(&mut self, source: &mut Source<'_>) {
        if self.sent.is_empty() {
            return;
        }
        let back = source.below(self.sent.len().min(REMEMBERED));
        let (to, received) = self.sent[self.sent.len() - 1 - back];
        self.feed(to, Input::Received(received));
    }

    /// A fourth member, which lies: about tokens that it made up, so many that records must make room.
    fn lie(&mut self, member: usize, source: &mut Source<'_>) {
        let from = id(MEMBERS);
        let random = u64::from(source.byte()) % (2 * TOKENS_MAX as u64);
        let token = TokenId { created_ms: 5, generator: from, random };
        let session = Session(source.number() >> source.below(64));
        let nonce = match self.sent.last() {
            Some((_, Received { message: Message::Ack(nonce), .. })) => *nonce,
            _ => Nonce::default(),
        };
        let message = match source.below(4) {
            0 => Message::Move,
            1 => Message::Ack(nonce),
            2 => Message::Commit(nonce),
            _ => Message::EarlyStop(nonce),
        };
        self.feed(member, Input::Received(Received { from, token, session, message }));
    }

    fn feed(&mut self, member: usize, input: Input) {
        let machine = &mut self.machines[member];
        if let Input::Received(received) = &input {
            // Asking changes nothing, whatever is asked.
            let _ = machine.is_relevant(received, self.now);
        }
        machine.handle(input, self.now);
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Send { to, token, session, message, .. } => {
                    assert_ne!(to, id(member), "nobody speaks to itself");
                    let received = Received { from: id(member), token, session, message };
                    if let Some(to) = (0..MEMBERS).find(|other| id(*other) == to) {
                        self.sent.push((to, received));
                    } else if matches!(message, Message::Ack(_)) {
                        self.sent.push((member, received)); // for the liar to read the nonce
                    }
                }
                Output::Event(Event::Arrived { token, session, .. }) => {
                    assert_eq!(machine.session(token), Some(session));
                }
                Output::StopSlot { .. } | Output::Event(_) => {}
            }
        }
        if let Some(deadline) = machine.next_deadline() {
            assert!(deadline > self.now, "what was due has been done");
        }
    }

    fn check(&self) {
        for token in &self.tokens {
            let holders = self.machines.iter().filter(|machine| machine.holds(*token)).count();
            assert!(holders <= 1, "{holders} hold {token}");
        }
    }
}
