//! A bad network between real processes: a UDP relay that delays, reorders, loses, doubles and cuts.
//!
//! ```text
//!  member A                 relay                          member B
//!     |--- to B's front ----->|  as from an upstream socket    |
//!     |                       |------------------------------->|
//!     |                       |<------------- its answer ------|
//!     |<-- from B's front ----|                                |
//! ```
//!
//! Every member has a front: the port that it tells the others. There is one upstream socket per sender and front, as at
//! a NAT: the receiver sees that as the sender's address, and what it answers there finds its way back.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stroll::base::Rng;

/// How long a listening thread waits before it looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Upstream sockets at once; beyond that the oldest is given up, as a NAT forgets.
const UPSTREAMS: usize = 64;

/// Datagrams on their way at once; a full network loses the rest.
const ON_THEIR_WAY: usize = 4096;

/// Datagrams that are remembered per receiver, to be replayed.
const RECORDED: usize = 64;

/// What happens to datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// How long they take.
    pub(crate) delay: Duration,
    /// By how much more or less; this reorders.
    pub(crate) jitter: Duration,
    /// The share that is lost.
    pub(crate) loss: f64,
    /// The share that arrives twice.
    pub(crate) duplication: f64,
}

/// What happened to datagrams so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) heard: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) cut: u64,
    /// Upstream sockets that were opened.
    pub(crate) mappings: u64,
}

/// A running relay. Its threads end when it is dropped.
pub(crate) struct Relay {
    shared: Arc<Shared>,
}

struct Shared {
    is_over: AtomicBool,
    state: Mutex<State>,
    /// Something new is on its way.
    sent: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct State {
    rng: Rng,
    faults: Faults,
    /// From whom to whom nothing passes, by the members' own addresses.
    cuts: BTreeSet<(SocketAddr, SocketAddr)>,
    /// By sender and front.
    upstreams: BTreeMap<(SocketAddr, SocketAddr), Upstream>,
    on_their_way: BinaryHeap<Reverse<Parcel>>,
    recorded: BTreeMap<SocketAddr, VecDeque<Vec<u8>>>,
    counts: Counts,
}

struct Upstream {
    socket: Arc<UdpSocket>,
    number: u64,
    is_closed: Arc<AtomicBool>,
}

/// A datagram on its way.
struct Parcel {
    due: Instant,
    number: u64,
    by: Arc<UdpSocket>,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Relay {
    /// A perfect network, until it is told otherwise.
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            rng: Rng::seeded(seed),
            faults: Faults::default(),
            cuts: BTreeSet::new(),
            upstreams: BTreeMap::new(),
            on_their_way: BinaryHeap::new(),
            recorded: BTreeMap::new(),
            counts: Counts::default(),
        };
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            state: Mutex::new(state),
            sent: Condvar::new(),
            threads: Mutex::default(),
        });
        shared.spawn(Shared::deliver);
        Self { shared }
    }

    /// A front for the member that listens at this address: where the others reach it from now on.
    pub(crate) fn front(&self, member: SocketAddr) -> SocketAddr {
        let socket = Arc::new(listening().unwrap());
        let front = socket.local_addr().unwrap();
        self.shared.spawn(move |shared| {
            while let Some((bytes, sender)) = shared.receive(&socket, &AtomicBool::new(false)) {
                shared.on_question(&bytes, sender, member, &socket);
            }
        });
        front
    }

    /// From now on datagrams fare like this.
    pub(crate) fn set(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    /// Nothing passes from any of these members to any of those; the other way it does.
    pub(crate) fn cut(&self, from: &[SocketAddr], to: &[SocketAddr]) {
        let links = from.iter().flat_map(|from| to.iter().map(|to| (*from, *to)));
        self.shared.lock().cuts.extend(links);
    }

    /// All links are whole again.
    pub(crate) fn heal(&self) {
        self.shared.lock().cuts.clear();
    }

    /// Forgets all mappings: every sender is seen at a new address, and what is sent to its old one is lost.
    pub(crate) fn rebind(&self) {
        let forgotten = std::mem::take(&mut self.shared.lock().upstreams);
        for upstream in forgotten.values() {
            upstream.close();
        }
    }

    /// The last datagrams that went to the member that listens at this address.
    pub(crate) fn recorded(&self, member: SocketAddr) -> Vec<Vec<u8>> {
        self.shared
            .lock()
            .recorded
            .get(&member)
            .map(|bytes| bytes.iter().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.lock().counts
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.sent.notify_all();
        // Taken out first: a thread that opens an upstream adds itself to the list.
        loop {
            let threads = std::mem::take(&mut *guard(&self.shared.threads));
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                // One that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        guard(&self.state)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let shared = Arc::clone(self);
        let thread = std::thread::spawn(move || work(&shared));
        guard(&self.threads).push(thread);
    }

    /// The next datagram; `None` when it is time to end.
    fn receive(&self, socket: &UdpSocket, is_closed: &AtomicBool) -> Option<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; 2048];
        while !self.is_over() && !is_closed.load(Ordering::Relaxed) {
            // A time-out, or somebody whom we sent to is not there: neither is a reason to end.
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                buffer.truncate(len);
                return Some((buffer, from));
            }
        }
        None
    }

    /// Somebody sent to a front.
    fn on_question(
        self: &Arc<Self>,
        bytes: &[u8],
        sender: SocketAddr,
        member: SocketAddr,
        front: &Arc<UdpSocket>,
    ) {
        let Ok(upstream) = self.upstream(sender, member, front) else { return };
        self.send(sender, member, &upstream, member, bytes);
    }

    /// The socket by which this sender's datagrams to this front go on; opened if there is none.
    fn upstream(
        self: &Arc<Self>,
        sender: SocketAddr,
        member: SocketAddr,
        front: &Arc<UdpSocket>,
    ) -> io::Result<Arc<UdpSocket>> {
        let key = (sender, front.local_addr()?);
        let mut state = self.lock();
        if let Some(upstream) = state.upstreams.get(&key) {
            return Ok(Arc::clone(&upstream.socket));
        }
        if state.upstreams.len() >= UPSTREAMS {
            let oldest = state.upstreams.iter().min_by_key(|(_, upstream)| upstream.number);
            let oldest = oldest.map(|(key, _)| *key);
            if let Some(upstream) = oldest.and_then(|key| state.upstreams.remove(&key)) {
                upstream.close();
            }
        }
        let socket = Arc::new(listening()?);
        let is_closed = Arc::new(AtomicBool::new(false));
        state.counts.mappings += 1;
        let number = state.counts.mappings;
        let upstream = Upstream { socket: Arc::clone(&socket), number, is_closed: Arc::clone(&is_closed) };
        state.upstreams.insert(key, upstream);
        drop(state);
        let (listener, front) = (Arc::clone(&socket), Arc::clone(front));
        self.spawn(move |shared| {
            while let Some((bytes, from)) = shared.receive(&listener, &is_closed) {
                // A NAT lets in only those to whom something went out, and nobody by a mapping that it forgot.
                if from == member && !is_closed.load(Ordering::Relaxed) {
                    shared.send(member, sender, &front, sender, &bytes);
                }
            }
        });
        Ok(socket)
    }

    /// Puts a datagram on its way, if it is lucky.
    fn send(&self, from: SocketAddr, member: SocketAddr, by: &Arc<UdpSocket>, to: SocketAddr, bytes: &[u8]) {
        let mut state = self.lock();
        let state = &mut *state;
        state.counts.heard += 1;
        if state.cuts.contains(&(from, member)) {
            state.counts.cut += 1;
            return;
        }
        let recorded = state.recorded.entry(to).or_default();
        if recorded.len() >= RECORDED {
            recorded.pop_front();
        }
        recorded.push_back(bytes.to_vec());
        let Faults { delay, jitter, loss, duplication } = state.faults;
        let copies = 1 + usize::from(state.rng.fraction() < duplication);
        state.counts.doubled += u64::from(copies > 1);
        for _ in 0..copies {
            if state.rng.fraction() < loss || state.on_their_way.len() >= ON_THEIR_WAY {
                state.counts.lost += 1;
                continue;
            }
            let takes = state.rng.uniform(delay.saturating_sub(jitter), delay + jitter);
            state.counts.delivered += 1;
            state.on_their_way.push(Reverse(Parcel {
                due: Instant::now() + takes,
                number: state.counts.delivered,
                by: Arc::clone(by),
                to,
                bytes: bytes.to_vec(),
            }));
        }
        self.sent.notify_one();
    }

    /// Hands over what is due, until the end.
    fn deliver(self: &Arc<Self>) {
        let mut state = self.lock();
        while !self.is_over() {
            let now = Instant::now();
            let wait = state
                .on_their_way
                .peek()
                .map_or(LOOK_EVERY, |next| next.0.due.saturating_duration_since(now));
            if wait.is_zero()
                && let Some(Reverse(parcel)) = state.on_their_way.pop()
            {
                drop(state);
                // Whoever is not there does not get it.
                let _ = parcel.by.send_to(&parcel.bytes, parcel.to);
                state = self.lock();
            } else {
                let woken = self.sent.wait_timeout(state, wait.min(LOOK_EVERY));
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Upstream {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// By time, and what was sent first if that is equal.
impl Ord for Parcel {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Parcel {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Parcel {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Parcel {}

fn listening() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

/// A test that failed elsewhere is no reason to fail here.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
