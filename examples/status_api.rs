//! How a running member is, over its control socket: a line per member and per job.
//!
//! `cargo run --example status_api -- ~/.local/share/stroll/circles/virgo` asks the member of that home. Without an argument
//! it starts two itself, one with a job that pulls nothing, and asks that one.

mod founding;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use founding::Founder;
use stroll::jobs::State;
use stroll::peer::{Client, ControlError, Member, Options, StatusReport};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(home) => tell(&Client::new(Path::new(&home)).status().await?),
        None => ask_one_of_our_own().await?,
    }
    Ok(())
}

async fn ask_one_of_our_own() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut founder = Founder::new()?;
    let home = founder.admit("lab-a", &[], folder.path())?;
    let client = Client::new(home.path());
    let member = Member::start(home, Options { found: true, ..Options::default() }).await?;
    let home = founder.admit("lab-b", &[member.handle().address()], folder.path())?;
    let _other = Member::start(home, Options::default()).await?;

    // Jobs write what they do on the member's board.
    let line = member.board().enter("mirror", "archive", "ftp://ftp.example.org/stream/", "/data/archive");
    line.set_state(State::Waiting);

    let mut answer = None;
    let ask = async { answer = Some(until_met(&client).await) };
    member.run_until(ask).await?;
    tell(&answer.ok_or("the member ended before it could be asked")??);
    Ok(())
}

/// Asks until the two know each other, or for a few seconds.
async fn until_met(client: &Client) -> Result<StatusReport, ControlError> {
    let mut status = client.status().await?;
    for _ in 0..200 {
        if status.members.iter().any(|member| member.heard_s.is_some()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        status = client.status().await?;
    }
    Ok(status)
}

fn tell(status: &StatusReport) {
    println!("circle {}: {} [{}], load {}", status.circle, status.name, status.state, status.verdict.level);
    for member in &status.members {
        let heard = member.heard_s.map_or("never heard".to_owned(), |ago| format!("heard {ago:.1} s ago"));
        println!("member {} at {}: {heard}", member.name, member.address);
    }
    for job in &status.jobs {
        println!(
            "job {} [{}]: {} files, {} bytes, {}",
            job.name,
            job.state.word(),
            job.files,
            job.bytes,
            job.source
        );
    }
}
