//! A path to a source that takes its time: a TCP relay that delays bytes each way and notes when they pass its far end. Used
//! by the benchmark of a circle's link.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// Pieces on their way: more than a round trip brings, and not much more.
const PIECES: usize = 64;

/// Something that passed the far end.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: Instant,
    connection: usize,
    bytes: usize,
    is_up: bool,
}

/// What was made of the source in some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) bytes_per_sec: f64,
    /// The share of the time with no, one, two and more transfers.
    pub(crate) shares: [f64; 4],
    /// The sum of all transfers.
    pub(crate) busy_s: f64,
    pub(crate) requests: usize,
    /// Connections with a request.
    pub(crate) connections: usize,
    /// The median pause between two transfers, the ninth decile, and the longest.
    pub(crate) pauses: [f64; 3],
}

/// The path.
pub(crate) struct Delay {
    address: SocketAddr,
    passed: Arc<Mutex<Vec<Passed>>>,
}

impl Delay {
    /// A path to `source`, each way so long.
    pub(crate) fn start(source: SocketAddr, one_way: Duration) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::<Mutex<Vec<Passed>>>::default();
        let notes = Arc::clone(&passed);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, source, one_way, notes));
        });
        Self { address, passed }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was made of the source between then and then.
    pub(crate) fn used(&self, from: Instant, to: Instant) -> Use {
        let passed = self.passed.lock().unwrap().clone();
        let within = |at: Instant| at >= from && at < to;
        let down: usize = passed.iter().filter(|one| !one.is_up && within(one.at)).map(|one| one.bytes).sum();
        let transfers = transfers(&passed, from, to);
        let span = (to - from).as_secs_f64();
        let seconds = |at: Instant| at.saturating_duration_since(from).as_secs_f64();
        let mut steps: Vec<(f64, i32)> = transfers
            .iter()
            .flat_map(|(_, begun, ended)| [(seconds(*begun), 1), (seconds(*ended), -1)])
            .collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut shares = [0.0; 4];
        let mut pauses = Vec::new();
        let (mut at, mut count) = (0.0, 0_i32);
        for (next, change) in steps.into_iter().chain([(span, 0)]) {
            let place = usize::try_from(count).unwrap_or(0).min(3);
            shares[place] += (next - at) / span;
            if place == 0 {
                pauses.push(next - at);
            }
            (at, count) = (next, count + change);
        }
        pauses.sort_by(f64::total_cmp);
        let quantile = |permille: usize| pauses.get((pauses.len() - 1) * permille / 1_000).copied().unwrap();
        let mut connections: Vec<usize> = transfers.iter().map(|(connection, ..)| *connection).collect();
        connections.sort_unstable();
        connections.dedup();
        Use {
            bytes_per_sec: down as f64 / span,
            shares,
            busy_s: transfers.iter().map(|(_, begun, ended)| seconds(*ended) - seconds(*begun)).sum(),
            requests: transfers.len(),
            connections: connections.len(),
            pauses: [quantile(500), quantile(900), quantile(1_000)],
        }
    }
}

/// From each request to the last byte of its answer, as far as it lies in that time.
fn transfers(passed: &[Passed], from: Instant, to: Instant) -> Vec<(usize, Instant, Instant)> {
    let mut open: Vec<Option<(Instant, Instant)>> = Vec::new();
    let mut all = Vec::new();
    for one in passed {
        if open.len() <= one.connection {
            open.resize(one.connection + 1, None);
        }
        let place = &mut open[one.connection];
        if one.is_up {
            all.extend(place.take().map(|(begun, ended)| (one.connection, begun, ended)));
            *place = Some((one.at, one.at));
        } else if let Some((_, ended)) = place {
            *ended = one.at;
        }
    }
    let rest = open.iter().enumerate();
    all.extend(rest.filter_map(|(connection, place)| place.map(|(begun, ended)| (connection, begun, ended))));
    all.retain(|(_, begun, ended)| *ended > from && *begun < to && ended > begun);
    all.into_iter().map(|(connection, begun, ended)| (connection, begun.max(from), ended.min(to))).collect()
}

async fn accept(
    listener: StdListener,
    source: SocketAddr,
    one_way: Duration,
    notes: Arc<Mutex<Vec<Passed>>>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    for connection in 0.. {
        let (near, _) = listener.accept().await.unwrap();
        // Two ways for the set-up, and one for what is said first.
        let ready = Instant::now() + 2 * one_way;
        let notes = Arc::clone(&notes);
        tokio::spawn(async move {
            tokio::time::sleep(one_way).await;
            let Ok(far) = TcpStream::connect(source).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let (near_read, near_write) = near.into_split();
            let (far_read, far_write) = far.into_split();
            let note = move |is_up, bytes| {
                let at = Instant::now();
                notes.lock().unwrap().push(Passed { at, connection, bytes, is_up });
            };
            let (up, down) = (note.clone(), note);
            let upwards = carry(near_read, far_write, one_way, ready, |_| {}, move |bytes| up(true, bytes));
            let downwards =
                carry(far_read, near_write, one_way, ready, move |bytes| down(false, bytes), |_| {});
            // When the near end is closed, so is the far one, a way later: whatever still comes is in vain.
            tokio::select! {
                () = upwards => {}
                () = downwards => {}
            }
        });
    }
}

/// Carries bytes from here to there, each piece a way later and none before the connection is ready.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    one_way: Duration,
    ready: Instant,
    on_read: impl Fn(usize),
    on_write: impl Fn(usize),
) {
    let (put, mut take) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let reading = async move {
        let mut buffer = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            on_read(count);
            let due = Instant::now().max(ready) + one_way;
            if put.send((due, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
        let _ = put.send((Instant::now().max(ready) + one_way, Vec::new())).await;
    };
    let writing = async move {
        while let Some((due, bytes)) = take.recv().await {
            tokio::time::sleep_until(due.into()).await;
            if bytes.is_empty() {
                return;
            }
            // Whoever is gone gets nothing; that it is gone comes the other way, in its time.
            let _ = to.write_all(&bytes).await;
            on_write(bytes.len());
        }
    };
    tokio::join!(reading, writing);
}
