//! The task that owns node and socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::base::Time;
use crate::node::{Command, Event, Input, Node, Output, Status};
use crate::trust::Roll;
use crate::wire::records::Entry;

use super::clock::{BootClock, Disturbance};

/// A wake-up later than this means that this loop, or the whole computer, stood still.
const LATE: Duration = Duration::from_secs(1);

/// Datagrams are at most 1,200 bytes; one that fills more than this is none of ours.
const BUFFER: usize = 2048;

/// Datagrams taken in before the clock and the commands get their turn.
const BATCH: usize = 64;

/// Commands obeyed before the socket gets its turn again.
const REQUESTS: usize = 16;

/// Commands and events that may wait.
const QUEUE: usize = 1024;

/// The driver ended.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The socket failed for good.
    #[error("the UDP socket failed")]
    Socket(#[from] io::Error),
    /// The system gives no randomness.
    #[error("the system gives no random bytes")]
    Randomness,
    /// It has ended already.
    #[error("the member has ended")]
    Ended,
}

/// What the task is asked.
#[derive(Debug)]
enum Request {
    Command(Box<Command>),
    Status(oneshot::Sender<Status>),
    Roll(oneshot::Sender<Roll>),
    Entries(oneshot::Sender<Vec<Entry>>),
}

/// A way to talk to the running node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    events: broadcast::Sender<(Time, Event)>,
    address: SocketAddr,
}

impl Handle {
    /// Tells the node what its process wants.
    pub async fn command(&self, command: Command) -> Result<(), DriverError> {
        self.requests.send(Request::Command(Box::new(command))).await.map_err(|_| DriverError::Ended)
    }

    /// Asks the node about itself.
    pub async fn status(&self) -> Result<Status, DriverError> {
        self.ask(Request::Status).await
    }

    /// What the node believes of its circle: to be saved.
    pub async fn roll(&self) -> Result<Roll, DriverError> {
        self.ask(Request::Roll).await
    }

    /// Whom the node knows: to be saved.
    pub async fn entries(&self) -> Result<Vec<Entry>, DriverError> {
        self.ask(Request::Entries).await
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, DriverError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| DriverError::Ended)?;
        answered.await.map_err(|_| DriverError::Ended)
    }

    /// Everything that happens from now on.
    pub fn events(&self) -> broadcast::Receiver<(Time, Event)> {
        self.events.subscribe()
    }

    /// Where the socket is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What the socket should keep while the task is busy, as far as the system allows: a few hundredths of a second of a flood,
/// or what was really meant for us would be lost in it.
const SOCKET_BUFFER: usize = 4 << 20;

/// Runs a node on a socket until it has left or the last handle is gone.
pub fn spawn(
    node: Node,
    socket: UdpSocket,
    clock: BootClock,
) -> io::Result<(Handle, JoinHandle<Result<(), DriverError>>)> {
    // Less is no reason not to run.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER);
    let (requests, inbox) = mpsc::channel(QUEUE);
    let (events, _) = broadcast::channel(QUEUE);
    let handle = Handle { requests, events: events.clone(), address: socket.local_addr()? };
    let deadline = node.next_deadline();
    let task = Task { node, socket: Arc::new(socket), clock, inbox, events, deadline, has_left: false };
    Ok((handle, tokio::spawn(task.run())))
}

/// Why the task woke.
enum Call {
    Received(io::Result<(usize, SocketAddr)>),
    Request(Option<Request>),
    Deadline,
}

struct Task {
    node: Node,
    socket: Arc<UdpSocket>,
    clock: BootClock,
    inbox: mpsc::Receiver<Request>,
    events: broadcast::Sender<(Time, Event)>,
    /// When the node wants to be woken, as of its last input.
    deadline: Time,
    has_left: bool,
}

impl Task {
    async fn run(mut self) -> Result<(), DriverError> {
        let mut buffer = [0; BUFFER];
        let socket = Arc::clone(&self.socket);
        // A new socket is not known to be writable before somebody has waited for it; the first datagrams would be lost.
        socket.writable().await?;
        while !self.has_left {
            let wait = self.deadline.since(self.clock.now());
            let call = tokio::select! {
                // In this order: what was waiting in the socket is heard before time is said to have passed.
                biased;
                received = socket.recv_from(&mut buffer) => Call::Received(received),
                request = self.inbox.recv() => Call::Request(request),
                () = sleep(wait) => Call::Deadline,
            };
            // But before anything is heard: did we sleep? What is due or was said may no longer be true.
            self.notice_sleep()?;
            let mut is_flooded = false;
            match call {
                Call::Received(received) => is_flooded = self.on_received(received, &mut buffer)?,
                Call::Request(Some(request)) => self.on_request(request)?,
                Call::Request(None) => return Ok(()),
                Call::Deadline => self.on_deadline()?,
            }
            if self.take_turns()? {
                return Ok(());
            }
            if is_flooded {
                // Whoever wants to ask must get to it.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Whoever floods the socket makes it ready again at once, and it always goes first above. So after every batch the
    /// commands and the clock get their turn, and what they wait for is bounded by the batch. True if nobody is left to
    /// ask.
    fn take_turns(&mut self) -> Result<bool, DriverError> {
        for _ in 0..REQUESTS {
            match self.inbox.try_recv() {
                Ok(request) => self.on_request(request)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        if self.deadline <= self.clock.now() {
            self.on_deadline()?;
        }
        Ok(false)
    }

    /// One batch; true if there may be more.
    fn on_received(
        &mut self,
        first: io::Result<(usize, SocketAddr)>,
        buffer: &mut [u8],
    ) -> Result<bool, DriverError> {
        let mut first = Some(first);
        for _ in 0..BATCH {
            match first.take().unwrap_or_else(|| self.socket.try_recv_from(buffer)) {
                Ok((len, from)) => {
                    let now = self.now()?;
                    let bytes = buffer.get(..len).unwrap_or_default();
                    self.node.handle(Input::Datagram { bytes, from }, now);
                    self.drain(now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // An earlier datagram of ours found nobody: no reason to stop listening.
                Err(error) if is_harmless(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn on_request(&mut self, request: Request) -> Result<(), DriverError> {
        let now = self.now()?;
        match request {
            Request::Command(command) => {
                self.node.handle(Input::Command(*command), now);
                self.drain(now);
            }
            // Whoever asked may have gone; then nobody misses the answer.
            Request::Status(answer) => drop(answer.send(self.node.status(now))),
            Request::Roll(answer) => drop(answer.send(self.node.roll().clone())),
            Request::Entries(answer) => {
                let entries = self.node.directory().iter().map(|(_, known)| known.entry().clone());
                drop(answer.send(entries.collect()));
            }
        }
        Ok(())
    }

    /// The time at which the node hears the next thing. We may have stood still since the last one, in the midst of our
    /// work, and then it hears of that first: it would take what is overdue for something that just became due.
    fn now(&mut self) -> Result<Time, DriverError> {
        let now = self.clock.now();
        if now.since(self.deadline) <= LATE {
            return Ok(now);
        }
        self.notice_sleep()?;
        Ok(self.clock.now())
    }

    /// A deadline that passed more than a second ago while nobody looked, or clocks that moved against each other.
    fn notice_sleep(&mut self) -> Result<(), DriverError> {
        let late = self.clock.now().since(self.deadline);
        match self.clock.look() {
            Some(Disturbance::Slept(asleep)) => self.slept(asleep.max(late)),
            Some(Disturbance::Jumped { wall_offset_ms }) => {
                self.tell(Command::WallClock { offset_ms: wall_offset_ms });
                // Perhaps the machine was rolled back to a former state: hold nothing, believe nothing old.
                self.slept(Duration::MAX)
            }
            None if late > LATE => self.slept(late),
            None => Ok(()),
        }
    }

    fn on_deadline(&mut self) -> Result<(), DriverError> {
        let now = self.now()?;
        self.node.handle(Input::Wake, now);
        self.drain(now);
        Ok(())
    }

    fn slept(&mut self, asleep: Duration) -> Result<(), DriverError> {
        let fresh_secret = random_bytes()?;
        self.tell(Command::Slept { asleep, fresh_secret });
        Ok(())
    }

    fn tell(&mut self, command: Command) {
        let now = self.clock.now();
        self.node.handle(Input::Command(command), now);
        self.drain(now);
    }

    fn drain(&mut self, now: Time) {
        while let Some(output) = self.node.poll_output() {
            match output {
                // A full socket loses the datagram, as the network might: the protocol repeats what matters.
                Output::Datagram { to, bytes } => {
                    let _ = self.socket.try_send_to(&bytes, to);
                }
                Output::Event(event) => {
                    self.has_left |= event == Event::Left;
                    // Without listeners nobody misses it.
                    let _ = self.events.send((now, event));
                }
            }
        }
        self.deadline = self.node.next_deadline();
    }
}

fn is_harmless(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | Interrupted
    )
}

/// Bytes that nobody can guess.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], DriverError> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|_| DriverError::Randomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Config, Identity};
    use crate::proto::directory;
    use crate::proto::handoff::{self, Dropped};
    use crate::trust::{Authority, GateKey, PrivateKey, Suite};
    use crate::wire::records::{Charter, Mode, RuleSet};

    fn node(address: SocketAddr, clock: &BootClock, now: Time) -> Node {
        let authority = Authority::new(PrivateKey::from_seed(Suite::Simulated, [9; 32]));
        let charter = authority.sign_charter(Charter {
            circle: authority.circle(),
            version: 1,
            issued_s: 1,
            name: "flooded".to_owned(),
            source: "http://127.0.0.1/".to_owned(),
            aliases: Vec::new(),
            slot: Duration::from_secs(4),
            skip: Duration::from_millis(1),
            capacity: 2,
            bandwidth: 0,
            rules: RuleSet::Guarded,
            scouts: 1,
            retention: Duration::ZERO,
            mode: Mode::Token,
            signature: [0; 64],
        });
        let key = PrivateKey::from_seed(Suite::Simulated, [1; 32]);
        let certificate = authority.issue(1, key.public(), "lab", 1, 9_000_000_000).unwrap();
        let roll = Roll::new(Suite::Simulated, authority.public(), charter, None).unwrap();
        let config = Config {
            address,
            sequence: 1,
            boot_secret: [1; 32],
            wall_offset_ms: clock.wall_offset_ms(),
            seed: 1,
            directory: directory::Config::default(),
        };
        let identity = Identity { key, certificate, roll, gate: GateKey::from_bytes([3; 32]) };
        Node::new(identity, config, now).unwrap()
    }

    /// And none of the flood is lost between two batches: there may be a Commit in it.
    #[tokio::test]
    async fn a_command_waits_for_one_batch_of_a_flood_and_no_longer() {
        let (socket, clock) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), BootClock::new());
        let address = socket.local_addr().unwrap();
        let (handle, _task) = spawn(node(address, &clock, clock.now()), socket, clock).unwrap();
        let flood = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..=3 * BATCH {
            flood.send_to(b"junk", address).unwrap();
        }
        // One thread runs both: the task sees nothing of this before the question is in its queue.
        let batch = BATCH as u64;
        for asked in 1..=3 {
            let heard: u64 = handle.status().await.unwrap().rejected.values().sum();
            assert!(heard <= asked * batch, "question {asked} waited for {heard} datagrams");
            assert!(asked > 1 || heard > 0, "what waited in the socket goes first");
        }
        let flood = 3 * batch + 1;
        while handle.status().await.unwrap().rejected.values().sum::<u64>() < flood {
            tokio::task::yield_now().await;
        }
    }

    /// A task that has stood still in the midst of its work since its node pulled, longer than a token may be kept.
    async fn stalled_holder() -> (Task, mpsc::Sender<Request>, broadcast::Receiver<(Time, Event)>) {
        let (socket, clock) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), BootClock::new());
        let then = clock.now() - Duration::from_secs(60);
        let node = node(socket.local_addr().unwrap(), &clock, then);
        let (requests, inbox) = mpsc::channel(QUEUE);
        let (events, happened) = broadcast::channel(QUEUE);
        let deadline = node.next_deadline();
        let mut task =
            Task { node, socket: Arc::new(socket), clock, inbox, events, deadline, has_left: false };
        for command in [Command::Work(true), Command::Found] {
            task.node.handle(Input::Command(command), then);
            task.drain(then);
        }
        assert!(task.node.status(then).is_pulling);
        (task, requests, happened)
    }

    /// A virtual machine may have been set back to a former state: what it holds may be with another member by now.
    #[tokio::test]
    async fn a_jump_of_the_clocks_ends_the_token_that_is_here_and_names_the_next_by_the_new_time() {
        let jump = Duration::from_secs(3600);
        let (socket, clock) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), BootClock::before_jump(jump));
        let mut node = node(socket.local_addr().unwrap(), &clock, clock.now());
        node.handle(Input::Command(Command::Found), clock.now());
        while node.poll_output().is_some() {}
        let (before, _) = node.token().unwrap();
        let (handle, _task) = spawn(node, socket, clock).unwrap();
        let status = handle.status().await.unwrap();
        assert_eq!((status.token, status.dropped), (None, 1));
        handle.command(Command::Found).await.unwrap();
        let (after, _) = handle.status().await.unwrap().token.unwrap();
        assert!(after.created_ms - before.created_ms >= 3_600_000, "{before} {after}");
    }

    /// They were taken for a plain wake-up, and the token was kept.
    #[tokio::test]
    async fn a_stall_in_the_midst_of_work_is_told_before_anything_else() {
        for during in ["a turn", "a datagram", "a question"] {
            let (mut task, requests, mut happened) = stalled_holder().await;
            let (status, _asked) = oneshot::channel();
            match during {
                "a turn" => assert!(!task.take_turns().unwrap()),
                "a datagram" => {
                    let junk = Ok((4, task.socket.local_addr().unwrap()));
                    assert!(!task.on_received(junk, &mut [0; BUFFER]).unwrap());
                }
                _ => {
                    requests.send(Request::Status(status)).await.unwrap();
                    assert!(!task.take_turns().unwrap());
                }
            }
            let events = std::iter::from_fn(|| happened.try_recv().ok()).map(|(_, event)| event);
            let is_dropped = |event: &Event| {
                matches!(event, Event::Handoff(handoff::Event::Dropped { because: Dropped::Slept, .. }))
            };
            assert_eq!(events.filter(is_dropped).count(), 1, "during {during}");
        }
    }
}
