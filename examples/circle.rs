//! A circle of thirty members for an hour, with the library: who pulled how often, and how long the link idled.
//!
//! `cargo run --release --example circle`

use std::time::Duration;

use stroll::proto::agent::{Event, Invalid, Rules};
use stroll::sim::{Circle, Scenario, Trace};

fn main() -> Result<(), Invalid> {
    let scenario = Scenario {
        members: 30,
        capacity: 30,
        duration: Duration::from_secs(3600),
        loss_every: Some(Duration::from_secs(600)),
        ..Scenario::default()
    };
    let mut circle = Circle::new(&scenario, &Rules::guarded(), 1)?;
    circle.keep_trace();
    while circle.step() {}

    let mut slots = vec![0_u32; scenario.members];
    for moment in circle.trace() {
        match moment.what {
            Trace::Agent(Event::SlotBegan { .. }) => slots[moment.member as usize] += 1,
            Trace::Agent(Event::Generated { because, .. }) => {
                println!(
                    "{:>12}  member {:2} made a new token: {because:?}",
                    moment.at.to_string(),
                    moment.member
                );
            }
            Trace::Lost(_) => println!("{:>12}  a token was lost", moment.at.to_string()),
            _ => {}
        }
    }
    println!("slots per member: {slots:?}");
    let outcome = circle.finish();
    println!("nobody pulled for {:.2} % of the time", outcome.pulling_percent()[0]);
    Ok(())
}
