//! Two members of one circle on loopback, with the library: who holds the token when.
//!
//! `cargo run --example two_members` ends by itself, with 0 if both had their slots.

mod founding;

use std::error::Error;
use std::time::Duration;

use founding::Founder;
use stroll::driver::BootClock;
use stroll::jobs::Slots;
use stroll::peer::{Member, Options};

/// After so many slots each, it is enough.
const ENOUGH: u32 = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut founder = Founder::new()?;

    // The first member brings the token; the second greets the first.
    let home = founder.admit("lab-a", &[], folder.path())?;
    let a = Member::start(home, Options { found: true, ..Options::default() }).await?;
    let home = founder.admit("lab-b", &[a.handle().address()], folder.path())?;
    let b = Member::start(home, Options::default()).await?;

    let clock = BootClock::new();
    let jobs = async {
        let slots_of_a = a.lending().borrow().await?;
        let slots_of_b = b.lending().borrow().await?;
        Ok::<_, Box<dyn Error>>((slots_of_a, slots_of_b))
    };
    let (slots_of_a, slots_of_b) = jobs.await?;
    let both = async {
        tokio::join!(use_slots("lab-a", slots_of_a, &clock), use_slots("lab-b", slots_of_b, &clock))
    };
    let (done, is_done) = tokio::sync::watch::channel(false);
    let stop = || {
        let mut is_done = is_done.clone();
        async move { drop(is_done.wait_for(|done| *done).await) }
    };
    let working = async {
        let counted = tokio::time::timeout(Duration::from_secs(60), both).await;
        done.send_replace(true);
        counted
    };

    // A member takes part only while it is driven; told to stop, it hands the token over and says goodbye.
    let (counted, ended_a, ended_b) = tokio::join!(working, a.run_until(stop()), b.run_until(stop()));
    ended_a?;
    ended_b?;
    let (of_a, of_b) = counted.map_err(|_| "somebody did not get its slots within a minute")?;
    println!("lab-a had {of_a} slots, lab-b {of_b}");
    if of_a.min(of_b) < ENOUGH {
        return Err("the slots ended early".into());
    }
    Ok(())
}

/// Here a job would pull, until the slot is over.
async fn use_slots(name: &str, mut slots: Slots, clock: &BootClock) -> u32 {
    slots.want(true);
    let started = clock.now();
    for had in 0..ENOUGH {
        let Some(turn) = slots.next().await else { return had };
        println!("{:>6.2} s  {name} holds the token", clock.now().since(started).as_secs_f64());
        turn.slot.over().await;
        println!("{:>6.2} s  {name} hands it on", clock.now().since(started).as_secs_f64());
    }
    ENOUGH
}
