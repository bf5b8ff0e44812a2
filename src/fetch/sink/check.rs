//! Reads a file that is there already, to see what its bytes add up to. Jobs call it: size and time of a replica may be
//! right and its bytes wrong.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::Arc;
use std::thread;

use rustix::fs::{FileType, Mode, OFlags};

use super::digest::{Algorithm, Digest, Hasher};
use super::disk::Reply;
use super::error::SinkError;
use super::folder::{Folder, called};
use crate::fetch::name::Name;

/// How much is read at a time; all the memory that it takes.
const READ_BYTES: usize = 256 << 10;

/// What the bytes of a file add up to. Waits for the disk.
pub fn digest_of(folder: &Folder, name: &Name, algorithm: Algorithm) -> Result<Digest, SinkError> {
    read(folder, name, algorithm, || true)
}

/// Begins to read the file of that name, on a thread of its own: what is pulled meanwhile does not wait for it. Whoever
/// drops the reply ends it.
pub fn begin_digest(folder: Arc<Folder>, name: Name, algorithm: Algorithm) -> Reply<Digest> {
    let (answer, reply) = Reply::channel();
    let work = move || {
        let digest = read(&folder, &name, algorithm, || !answer.is_closed());
        // Nobody need wait for it.
        let _ = answer.send(digest);
    };
    // Without a thread the answer's sender is dropped, which is an answer too.
    let _ = thread::Builder::new().name("disk-reader".to_owned()).spawn(work);
    reply
}

fn read(
    folder: &Folder,
    name: &Name,
    algorithm: Algorithm,
    is_wanted: impl Fn() -> bool,
) -> Result<Digest, SinkError> {
    let path = folder.path_of(&name.to_os_string());
    let failed = |error: &std::io::Error| SinkError::from_io(&path, "read", error);
    let mut file = open(folder, name)?;
    let (mut buffer, mut hasher) = (vec![0; READ_BYTES], Hasher::new(algorithm));
    while is_wanted() {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(len) => hasher.update(buffer.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Err(SinkError::Gone)
}

/// Opens the file, and nothing that is none.
fn open(folder: &Folder, name: &Name) -> Result<File, SinkError> {
    let path = folder.path_of(&name.to_os_string());
    let file = folder
        .open_file(&name.to_os_string(), OFlags::RDONLY, Mode::empty())
        .map_err(|errno| SinkError::at(&path, "read", errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| SinkError::at(&path, "look at the file", errno))?;
    match super::folder::kind(&stat) {
        FileType::RegularFile => Ok(file),
        other => Err(SinkError::NotAFile { path, what: called(other) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(bytes: &[u8]) -> (tempfile::TempDir, Arc<Folder>) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("f"), bytes).expect("written");
        let opened = Arc::new(Folder::open(folder.path(), false).expect("opened"));
        (folder, opened)
    }

    fn name(name: &str) -> Name {
        Name::new(name).expect("a name")
    }

    #[tokio::test]
    async fn a_file_of_many_reads_gives_its_digest() {
        let bytes: Vec<u8> = (0..3 * READ_BYTES + 7).map(|n| (n % 251).try_into().expect("small")).collect();
        let (_kept, folder) = place(&bytes);
        for algorithm in [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512, Algorithm::Blake3] {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&bytes);
            let read = begin_digest(Arc::clone(&folder), name("f"), algorithm).await;
            assert_eq!(read.expect("read"), hasher.finish());
        }
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_read() {
        let (kept, folder) = place(b"x");
        std::fs::create_dir(kept.path().join("folder")).expect("made");
        std::os::unix::fs::symlink("f", kept.path().join("link")).expect("made");
        for absent in ["folder", "link", "nothing"] {
            let read = begin_digest(Arc::clone(&folder), name(absent), Algorithm::Md5).await;
            assert!(read.is_err(), "{absent}: {read:?}");
        }
    }

    #[tokio::test]
    async fn a_reader_that_nobody_waits_for_ends() {
        let (kept, folder) = place(b"x");
        std::fs::File::create(kept.path().join("f")).and_then(|file| file.set_len(1 << 40)).expect("sparse");
        // Reading it all would take an hour.
        let read = read(&folder, &name("f"), Algorithm::Sha256, || false);
        assert!(matches!(read, Err(SinkError::Gone)), "{read:?}");
    }
}
