//! A source of your own: something that is neither HTTP nor FTP, pulled in slots into a file that is never corrupt.
//!
//! `cargo run --example custom_source`

use std::error::Error;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use stroll::driver::BootClock;
use stroll::fetch::engine::{Deferral, Outcome, Pull, pull};
use stroll::fetch::plan::{self, Planner};
use stroll::fetch::sink::{Disk, Finish, Folder, Part};
use stroll::fetch::{Address, Ask, Connection, Cut, Fault, Name, Opened, PackedListing, Slot, Version};
use tokio::sync::watch;

const SIZE: u64 = 2 << 20;
const PIECE: u64 = 64 << 10;
const SLOT: Duration = Duration::from_millis(200);

/// One file, made up as it is read, some 6 MB a second.
#[derive(Default)]
struct Toy {
    /// What is being sent: from where, to where.
    open: Option<(u64, u64)>,
}

/// Any byte of it.
fn byte(at: u64) -> u8 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

impl Toy {
    /// Size and time tell one version from another: bytes of two versions never meet in one file.
    fn version() -> Version {
        Version { size: Some(SIZE), modified_s: Some(1_700_000_000), ..Version::default() }
    }
}

impl Connection for Toy {
    async fn probe(&mut self, _: &Address) -> Result<Opened, Fault> {
        Ok(Opened { version: Self::version(), from: 0, length: Some(SIZE), ranges: true })
    }

    async fn list_packed(&mut self, _: &Address) -> Result<PackedListing, Fault> {
        Err(Fault::Unsupported("there are no folders".into()))
    }

    async fn warm(&mut self, _: &Address) {}

    async fn open(&mut self, ask: Ask<'_>) -> Result<Opened, Fault> {
        let from = ask.from.min(SIZE);
        let to = ask.length.map_or(SIZE, |length| SIZE.min(from.saturating_add(length)));
        self.open = Some((from, to));
        Ok(Opened { version: Self::version(), from, length: Some(to - from), ranges: true })
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some((from, to)) = self.open.filter(|(from, to)| from < to) else {
            self.open = None;
            return Ok(None);
        };
        // May be given up here, at the slot's end: then nothing was taken.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let until = to.min(from + PIECE);
        self.open = Some((until, to));
        Ok(Some((from..until).map(byte).collect()))
    }

    async fn cut(&mut self) -> Cut {
        self.open = None;
        Cut::Kept
    }

    async fn close(&mut self) {
        self.open = None;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir()?;
    let folder = Arc::new(Folder::open(temp.path(), false)?);
    // Without a journal nothing is resumed after a crash; between slots it is all the same.
    let mut part = Part::open(&Disk::start(), folder, Name::new("toy.bin")?, None).await?;
    let (address, _) = Address::parse("http://toy.example/toy.bin")?;
    let mut connection = Toy::default();
    let mut planner = Planner::new(plan::Config::default());
    let mut deferral = Deferral::default();

    // A member's slots come from `Member::lending`; here every one follows at once.
    let (_order, stop) = watch::channel(false);
    let clock = Arc::new(BootClock::new());
    let mut slots = 0;
    loop {
        slots += 1;
        let reads = Arc::clone(&clock);
        let slot = Slot::until(clock.now() + SLOT, Arc::new(move || reads.now()), stop.clone());
        planner.slot_began();
        let with =
            Pull { address: &address, slot: &slot, limiters: &[], min_speed: 0, abreast: 1, watch: &() };
        let connection = slice::from_mut(&mut connection);
        let outcome = pull(connection, &mut part, &mut planner, &mut deferral, with).await?;
        println!("slot {slots}: {} of {SIZE} bytes are here", part.have().end());
        if outcome == Outcome::Complete {
            break;
        }
    }

    // Proved, made durable, named.
    let path = part.path();
    let finished = part.finish(Finish { total: Some(SIZE), ..Finish::default() }).await?.await?;
    assert_eq!(finished.size, SIZE);
    let expected: Vec<u8> = (0..SIZE).map(byte).collect();
    assert!(std::fs::read(path)? == expected, "every byte is right");
    println!("complete after {slots} slots");
    Ok(())
}
