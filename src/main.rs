use std::time::*;
use stroll::proto::agent::Rules;
use stroll::sim::*;
#[allow(clippy::all)]
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let rules = match a[1].as_str() {
        "early" => Coordination::Agents(Rules::early()),
        "classic" => Coordination::Agents(Rules::classic()),
        "guarded" => Coordination::Agents(Rules::guarded()),
        _ => Coordination::Uncoordinated,
    };
    let mut s = Scenario { coordination: rules, members: a[2].parse().unwrap(), ..Default::default() };
    s.capacity = a[3].parse().unwrap();
    s.skip = Duration::from_secs_f64(a[4].parse().unwrap());
    s.duration = Duration::from_secs_f64(a[5].parse().unwrap());
    let l: f64 = a[6].parse().unwrap();
    if l > 0.0 {
        s.loss_every = Some(Duration::from_secs_f64(l));
    }
    if let (Ok(d), Coordination::Agents(x)) = (std::env::var("D"), &mut s.coordination) {
        x.scouting.as_mut().unwrap().scouts = d.parse().unwrap();
    }
    let runs: u64 = a[7].parse().unwrap();
    if a.len() > 8 {
        s.view = View::Random(a[8].parse().unwrap());
    }
    let t = Instant::now();
    let mut o = Outcome::default();
    for seed in 0..runs {
        o.add(&Simulation::new(&s, seed).unwrap().run());
    }
    println!("{}", serde_json::to_string(&Report::new(&a[1], &s, &o, t.elapsed().as_secs_f64())).unwrap());
}
