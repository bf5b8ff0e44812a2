//! Standard output with a thread of its own: whoever reads it slowly makes nobody wait but the delivery.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;

/// How much is read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A way out, in order.
#[derive(Clone, Debug)]
pub(super) struct Out(mpsc::Sender<(What, oneshot::Sender<io::Result<()>>)>);

/// What goes out.
#[derive(Debug)]
pub(super) enum What {
    /// Bytes of a file, from the first to before the second.
    Bytes(Arc<File>, u64, u64),
    /// A line.
    Line(String),
}

impl Out {
    /// Starts the thread. It is left behind when the process ends: nobody can make a reader read.
    ///
    /// # Panics
    ///
    /// If the system allows no more threads.
    pub(super) fn start(mut to: impl Write + Send + 'static) -> Self {
        let (ask, asked) = mpsc::channel::<(What, oneshot::Sender<io::Result<()>>)>();
        let work = move || {
            for (what, answer) in asked {
                // Nobody need wait for it.
                let _ = answer.send(put(&mut to, what));
            }
        };
        thread::Builder::new().name("out".to_owned()).spawn(work).expect("the system allows one more thread");
        Self(ask)
    }

    /// Ready when it is out.
    pub(super) async fn put(&self, what: What) -> io::Result<()> {
        let (answer, answered) = oneshot::channel();
        // If the thread is gone, the answer is, too.
        let _ = self.0.send((what, answer));
        answered.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

fn put(to: &mut impl Write, what: What) -> io::Result<()> {
    match what {
        What::Line(line) => writeln!(to, "{line}")?,
        What::Bytes(file, mut from, end) => {
            let mut buffer = vec![0; PIECE_BYTES];
            while from < end {
                let most = usize::try_from(end - from).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                let read = file.read_at(buffer.get_mut(..most).unwrap_or_default(), from)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                to.write_all(buffer.get(..read).unwrap_or_default())?;
                from += read as u64;
            }
        }
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_and_lines_come_out_in_order_and_a_short_file_is_said_to_be_one() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let (out, file) = (Out::start(writer), Arc::new(file));
        out.put(What::Bytes(Arc::clone(&file), 2, 5)).await.unwrap();
        out.put(What::Line("and".to_owned())).await.unwrap();
        let short = out.put(What::Bytes(file, 8, 20)).await;
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        drop(out);
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).unwrap();
        assert_eq!(text, "234and\n89");
    }
}
