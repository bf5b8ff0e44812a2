//! A door before a server: lets everybody through to it, counts who is inside, and hears whom the server sends away.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The door. Its threads end with those who come through, and with the test.
#[derive(Clone)]
pub(crate) struct Turnstile {
    pub(crate) at: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    inside: AtomicUsize,
    most: AtomicUsize,
    came: AtomicUsize,
    /// What the server said to those that it did not let in.
    refusals: Mutex<Vec<String>>,
}

impl Turnstile {
    /// Before the FTP server at this port.
    pub(crate) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, counts) = (listener.local_addr().unwrap(), Arc::new(Counts::default()));
        let serving = Arc::clone(&counts);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let counts = Arc::clone(&serving);
                counts.enter();
                thread::spawn(move || counts.serve(&client, port));
            }
        });
        Self { at, counts }
    }

    /// How many are connected now.
    pub(crate) fn inside(&self) -> usize {
        self.counts.inside.load(Ordering::SeqCst)
    }

    /// How many were connected at once, at most.
    pub(crate) fn most(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }

    /// How many have ever come.
    pub(crate) fn came(&self) -> usize {
        self.counts.came.load(Ordering::SeqCst)
    }

    pub(crate) fn refusals(&self) -> Vec<String> {
        self.counts.refusals.lock().unwrap().clone()
    }
}

impl Counts {
    fn enter(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
    }

    /// Carries both ways. Who closes or is killed is outside at that moment.
    fn serve(self: Arc<Self>, client: &TcpStream, port: u16) {
        let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (back, said) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let counts = Arc::clone(&self);
        let answers = thread::spawn(move || counts.carry_answers(&said, &back));
        carry(client, &server, |_| {});
        self.inside.fetch_sub(1, Ordering::SeqCst);
        answers.join().unwrap();
    }

    fn carry_answers(&self, server: &TcpStream, client: &TcpStream) {
        carry(server, client, |said| {
            if said.starts_with(b"421") {
                self.refusals.lock().unwrap().push(String::from_utf8_lossy(said).into_owned());
            }
        });
    }
}

/// Until the one side closes; then the other side hears of it.
fn carry(mut from: &TcpStream, mut to: &TcpStream, mut look: impl FnMut(&[u8])) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        look(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Gone already, if this fails.
    let _ = to.shutdown(Shutdown::Write);
}
