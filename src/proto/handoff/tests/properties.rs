//! Whatever comes in, in whatever order: no panic, no growth, no deadline left behind, nothing where nothing was
//! relevant.

use proptest::prelude::*;

use super::super::nouns::{Input, Message, Output};
use super::*;

/// What is done to a member, with small numbers so that inputs have to do with each other.
#[derive(Clone, Debug)]
enum Step {
    Input(Input),
    /// Brings a nonce that the machine made itself back in a Commit, or any that it used in its own Commits.
    Echo {
        from: u8,
        which: usize,
        kind: u8,
    },
    Pass(Duration),
    NextDeadline,
}

fn tokens() -> impl Strategy<Value = TokenId> {
    (0_u64..100, any::<bool>())
        .prop_map(|(random, same)| if same { TOKEN } else { TokenId { random, ..TOKEN } })
}

fn sessions() -> impl Strategy<Value = Session> {
    prop_oneof![6 => 0_u64..6, 1 => any::<u64>()].prop_map(Session)
}

fn messages() -> impl Strategy<Value = Message> {
    let nonce = any::<[u8; 16]>().prop_map(Nonce::from_bytes);
    (0..6, nonce).prop_map(|(kind, nonce)| match kind {
        0..3 => Message::Move,
        3 => Message::Ack(nonce),
        4 => Message::Commit(nonce),
        _ => Message::EarlyStop(nonce),
    })
}

fn inputs() -> impl Strategy<Value = Input> {
    let received = (0_u8..5, tokens(), sessions(), messages()).prop_map(|(from, token, session, message)| {
        Input::Received(Received { from: member(from), token, session, message })
    });
    let timeout = proptest::option::of((0_u64..10_000).prop_map(Duration::from_millis));
    let offer = (tokens(), 0_u8..5, timeout).prop_map(|(token, taker, timeout)| Input::Offer {
        token,
        taker: member(taker),
        timeout,
    });
    prop_oneof![
        1 => Just(Input::Wake),
        3 => tokens().prop_map(|token| Input::Generated { token }),
        4 => offer,
        4 => tokens().prop_map(|token| Input::SlotStopped { token }),
        2 => (tokens(), sessions()).prop_map(|(token, session)| Input::Renewed { token, session }),
        1 => tokens().prop_map(|token| Input::Discard { token }),
        1 => (0_u8..5).prop_map(|taker| Input::Banned { member: member(taker) }),
        8 => received,
        1 => (0_u64..1000, any::<[u8; 32]>()).prop_map(|(secs, fresh_secret)| Input::Slept {
            asleep: Duration::from_secs(secs),
            fresh_secret,
        }),
        1 => any::<bool>().prop_map(Input::Open),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => inputs().prop_map(Step::Input),
        4 => (0_u8..5, any::<usize>(), 0_u8..3).prop_map(|(from, which, kind)| Step::Echo { from, which, kind }),
        1 => (0_u64..200_000).prop_map(|ms| Step::Pass(Duration::from_millis(ms))),
        1 => Just(Step::NextDeadline),
    ]
}

/// An answer to one of the datagrams that the machine sent.
fn echo(sent: &[Datagram], from: u8, which: usize, kind: u8) -> Option<Input> {
    let Datagram { to, received } = *sent.get(which.checked_rem(sent.len())?)?;
    let nonce = match received.message {
        Message::Move => A_NONCE,
        Message::Ack(nonce) | Message::Commit(nonce) | Message::EarlyStop(nonce) => nonce,
    };
    let message = match kind {
        0 => Message::Ack(nonce),
        1 => Message::Commit(nonce),
        _ => Message::EarlyStop(nonce),
    };
    let from = if from == 0 { member(2) } else { to };
    Some(Input::Received(Received { from, message, ..received }))
}

/// Runs these steps, checks what must hold after each, and gives all outputs.
fn run(steps: &[Step]) -> Result<Vec<Output>, TestCaseError> {
    let mut machine = machine(1, 1, Time::ZERO);
    let (mut now, mut sent, mut trace) = (Time::ZERO, Vec::new(), Vec::new());
    for step in steps {
        let input = match *step {
            Step::Input(input) => input,
            Step::Echo { from, which, kind } => echo(&sent, from, which, kind).unwrap_or(Input::Wake),
            Step::Pass(span) => {
                now = now + span;
                Input::Wake
            }
            Step::NextDeadline => {
                now = machine.next_deadline().unwrap_or(now);
                Input::Wake
            }
        };
        // Deadlines first, so that all outputs below are caused by the input.
        machine.handle(Input::Wake, now);
        trace.extend(std::iter::from_fn(|| machine.poll_output()));
        let before = machine.records.clone();
        let relevant = match &input {
            Input::Received(received) => machine.is_relevant(received, now),
            _ => true,
        };
        machine.handle(input, now);
        let said: Vec<Output> = std::iter::from_fn(|| machine.poll_output()).collect();
        prop_assert_eq!(relevant || (said.is_empty() && machine.records == before), true, "{:?}", input);
        if matches!(input, Input::Received(_)) {
            prop_assert!(relevant == (!said.is_empty() || machine.records != before), "{:?}", input);
            let sends = said.iter().filter(|output| matches!(output, Output::Send { .. })).count();
            prop_assert!(sends <= 1, "one datagram has at most one answer");
        }
        prop_assert!(machine.records.len() <= TOKENS_MAX);
        prop_assert!(machine.next_deadline().is_none_or(|due| due > now), "{:?}", step);
        for output in &said {
            if let Output::Send { to, token, session, message, .. } = *output {
                prop_assert!(to != member(1), "nobody writes to itself");
                sent.push(Datagram { to, received: Received { from: to, token, session, message } });
            }
        }
        trace.extend(said);
    }
    Ok(trace)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_sequence_of_inputs_keeps_the_machine_whole(steps in proptest::collection::vec(steps(), 0..400)) {
        let trace = run(&steps)?;
        prop_assert_eq!(run(&steps)?, trace, "the same inputs give the same trace");
    }
}
