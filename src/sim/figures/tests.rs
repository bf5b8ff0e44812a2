//! The figures by what is in them: every one of them parses, and odd data does not matter.

use std::time::Duration;

use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::*;
use crate::proto::agent::Rules;
use crate::sim::{Coordination, Outcome, Scenario, Simulation};

const NAMES: [&str; 4] = ["uncoordinated", "early", "classic", "guarded"];

/// Says what a reader sees, after checks that hold for every figure.
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("a figure is XML");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    let (width, height) = (root.attribute("width"), root.attribute("height"));
    let (width, height) = (width.unwrap().parse::<i32>().unwrap(), height.unwrap().parse::<i32>().unwrap());
    let scaled = format!("0 0 {} {}", width * look::SCALE, height * look::SCALE);
    assert_eq!(root.attribute("viewBox"), Some(scaled.as_str()));
    for (x, y) in root.descendants().flat_map(points_of) {
        assert!(
            (0..=width * look::SCALE).contains(&x) && (0..=height * look::SCALE).contains(&y),
            "{x}, {y}"
        );
    }
    let texts = root.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

/// The places of a shape; whole numbers all of them.
fn points_of(node: Node<'_, '_>) -> Vec<(i32, i32)> {
    let number = |text: &str| text.parse().expect("a whole number");
    let pair = |text: &str| text.split_once(',').map(|(x, y)| (number(x), number(y)));
    let listed = node.attribute("points").unwrap_or_default().split_whitespace().filter_map(pair);
    listed.chain(node.attribute("x").map(number).zip(node.attribute("y").map(number))).collect()
}

fn assert_says(svg: &str, expected: &[&str]) {
    let texts = texts(svg);
    for text in expected {
        assert!(texts.iter().any(|found| found == text), "{text} is not among {texts:?}");
    }
}

fn named<T>(data: impl Fn(usize) -> T) -> Vec<(String, T)> {
    NAMES.iter().enumerate().map(|(n, name)| ((*name).to_owned(), data(n))).collect()
}

fn shares() -> Vec<(String, Vec<f64>)> {
    let shares: [&[f64]; 4] = [
        &[36.7, 36.8, 18.5, 6.1, 1.5, 0.3, 0.05, 0.01, 0.001, 0.001],
        &[8.1, 83.0, 8.6, 0.3],
        &[9.2, 83.7, 6.9, 0.24, 0.01],
        &[0.06, 99.9, 0.03],
    ];
    named(|n| shares[n].to_vec())
}

fn runs() -> Vec<(String, SharesByMembers)> {
    let shares = shares();
    named(|n| [70.0, 100.0, 120.0].map(|members| (members, shares[n].1.clone())).to_vec())
}

fn tokens() -> Vec<(String, Vec<(f64, usize)>)> {
    named(|n| vec![(0.0, 1), (2_000.0, 2 + n), (2_100.0, 0), (5_000.0, 1), (100_000.0, 1)])
}

/// A small circle that loses its token every so often.
fn lossy(loss_every: Duration, seed: u64) -> Outcome {
    let scenario = Scenario {
        coordination: Coordination::Agents(Rules::classic()),
        members: 20,
        capacity: 20,
        duration: Duration::from_secs(10_000),
        loss_every: Some(loss_every),
        ..Scenario::default()
    };
    Simulation::new(&scenario, seed).unwrap().run()
}

#[test]
fn concurrent_operations_name_axes_and_rules() {
    let svg = concurrent_operations(&shares()).unwrap();
    assert_says(&svg, &NAMES);
    assert_says(&svg, &["Concurrent operations", "members pulling at the same time", "share of time (%)"]);
    assert_says(&svg, &["0", "7", "8+", "0.001", "100"]);
}

#[test]
fn memberships_name_axes_and_rules() {
    let svg = memberships(&runs()).unwrap();
    assert_says(&svg, &NAMES);
    assert_says(&svg, &["members (% of the capacity)", "share of time (%)", "more than 2", "70", "120"]);
}

#[test]
fn access_intervals_name_axes_rules_and_the_nominal_period() {
    let outcome = lossy(Duration::from_secs(500), 1);
    let svg = access_intervals(&named(|_| outcome.access_intervals()), 1_200.0).unwrap();
    assert_says(&svg, &NAMES);
    assert_says(
        &svg,
        &["access interval (s)", "share of longer intervals (%)", "nominal period (1,200 s)", "0.01"],
    );
}

#[test]
fn availability_names_axes_shares_and_the_prediction() {
    let points = vec![(0.3, 10.0), (0.01, 99.0), (f64::NAN, 1.0)];
    let svg =
        availability(&[("half held".to_owned(), points, 0.25), ("none".to_owned(), vec![], 0.5)]).unwrap();
    assert_says(
        &svg,
        &["half held", "none (no data)", "predicted up to here", "requests served (%)", "0.01"],
    );
    assert_says(&availability(&[]).unwrap(), &["no data"]);
}

#[test]
fn tokens_over_time_name_axes_and_rules() {
    let svg = tokens_over_time(&tokens()).unwrap();
    assert_says(&svg, &NAMES);
    assert_says(&svg, &["number of tokens", "time (s)", "0", "100,000"]);
}

#[test]
fn regeneration_names_axes_and_rules() {
    let outcome = lossy(Duration::from_secs(500), 1);
    assert!(outcome.recovery().count() > 1);
    let svg = regeneration(&named(|_| outcome.recovery())).unwrap();
    assert_says(&svg, &NAMES);
    assert_says(&svg, &["time without a token (s)", "share of losses recovered (%)", "100"]);
}

/// Two panels with the same data.
fn twice(spread: &Spread) -> Vec<(String, NamedSpreads<'_>)> {
    ["N = 20 members", "N/2 = 10 members"].map(|name| (name.to_owned(), named(|_| spread))).to_vec()
}

/// A panel per rule set, a line per membership.
fn by_membership(spread: &Spread) -> Vec<(String, NamedSpreads<'_>)> {
    let line = |percent: u32| (format!("{percent} %"), spread);
    named(|_| [70, 80, 90, 100, 110, 120].map(line).to_vec())
}

#[test]
fn figures_side_by_side_name_axes_panels_and_lines() {
    let outcome = lossy(Duration::from_secs(500), 1);
    assert!(outcome.stabilisation().count() > 1);
    let stable = stabilisation(&twice(outcome.stabilisation())).unwrap();
    let intervals = access_intervals_full_and_half(&twice(outcome.access_intervals()), 80.0).unwrap();
    for svg in [&stable, &intervals] {
        assert_says(svg, &NAMES);
        assert_says(svg, &["N = 20 members", "N/2 = 10 members"]);
    }
    assert_says(
        &stable,
        &["from the loss to the end of the last time without a token (s)", "share of losses (%)"],
    );
    assert_says(
        &intervals,
        &["access interval (s)", "share of longer intervals (%)", "nominal period (80 s)"],
    );
    let grades = access_intervals_by_membership(&by_membership(outcome.access_intervals()), 80.0).unwrap();
    assert_says(&grades, &NAMES);
    assert_says(
        &grades,
        &["70 %", "100 %", "120 %", "share of intervals within (%)", "nominal period (80 s)"],
    );
}

#[test]
fn rules_with_data_in_one_panel_are_not_marked() {
    let (outcome, empty) = (lossy(Duration::from_secs(500), 1), Spread::default());
    let panel = |spread| vec![("uncoordinated".to_owned(), &empty), ("classic".to_owned(), spread)];
    let panels = [("N".to_owned(), panel(&empty)), ("N/2".to_owned(), panel(outcome.stabilisation()))];
    assert_says(&stabilisation(&panels).unwrap(), &["uncoordinated (no data)", "classic", "no data"]);
}

#[test]
fn without_data_a_figure_says_so() {
    let empty = Spread::default();
    let spreads = named(|_| &empty);
    for svg in [
        concurrent_operations(&[]),
        concurrent_operations(&named(|_| Vec::new())),
        concurrent_operations(&named(|_| vec![0.0; 64])),
        memberships(&[]),
        memberships(&named(|_| Vec::new())),
        memberships(&named(|_| vec![(70.0, vec![]), (80.0, vec![0.0; 64])])),
        access_intervals(&[], 1_200.0),
        access_intervals(&spreads, f64::NAN),
        tokens_over_time(&[]),
        tokens_over_time(&named(|_| Vec::new())),
        tokens_over_time(&named(|_| vec![(f64::NAN, 1), (5.0, 1), (f64::INFINITY, 1)])),
        regeneration(&[]),
        regeneration(&spreads),
        stabilisation(&[]),
        stabilisation(&twice(&empty)),
        access_intervals_full_and_half(&[], 80.0),
        access_intervals_full_and_half(&twice(&empty), f64::NAN),
        access_intervals_by_membership(&[], 80.0),
        access_intervals_by_membership(&by_membership(&empty), f64::NAN),
    ] {
        let svg = svg.unwrap();
        assert_says(&svg, &["no data"]);
        assert!(every_remark_is_on_its_block(&svg), "{svg}");
    }
}

/// "No data" stands in the middle of a white block, 60 by 18 pixels, that hides the grid.
fn every_remark_is_on_its_block(svg: &str) -> bool {
    let document = Document::parse(svg).unwrap();
    let (half_width, half_height) = (look::px(30), look::px(9));
    let all = || document.descendants().filter(Node::is_element);
    let mut remarks = all().filter(|node| node.text().is_some_and(|text| text.trim() == "no data"));
    remarks.all(|remark| {
        let middles = points_of(remark);
        let corners: Vec<_> = middles.iter().map(|(x, y)| (x - half_width, y - half_height)).collect();
        all().any(|node| node.tag_name().name() == "rect" && points_of(node) == corners)
    })
}

#[test]
fn rules_without_data_are_told_from_those_with() {
    let (outcome, empty) = (lossy(Duration::from_secs(500), 1), Spread::default());
    let spreads = [("uncoordinated".to_owned(), &empty), ("classic".to_owned(), outcome.recovery())];
    let svg = regeneration(&spreads).unwrap();
    assert_says(&svg, &["uncoordinated (no data)", "classic"]);
    assert!(!texts(&svg).contains(&"no data".to_owned()));
}

#[test]
fn a_single_measurement_is_enough() {
    let mut outcomes = (1..50).map(|seed| lossy(Duration::from_mins(100), seed));
    let outcome =
        outcomes.find(|outcome| outcome.recovery().count() == 1).expect("one loss, mostly of the last token");
    let spreads = [("classic".to_owned(), outcome.recovery())];
    assert_says(&regeneration(&spreads).unwrap(), &["classic"]);
    assert_says(&access_intervals(&spreads, 80.0).unwrap(), &["classic"]);
    assert_says(&concurrent_operations(&[("classic".to_owned(), vec![100.0])]).unwrap(), &["classic"]);
    assert_says(&memberships(&[("classic".to_owned(), vec![(100.0, vec![100.0])])]).unwrap(), &["classic"]);
}

#[test]
fn names_are_escaped_cleaned_and_cut() {
    let odd = "a<b&\"c'>";
    let name = |name: &str| vec![(name.to_owned(), vec![50.0, 50.0])];
    assert_says(&concurrent_operations(&name(odd)).unwrap(), &[odd]);
    assert_says(&concurrent_operations(&name("bell\u{7}\0\u{ffff}")).unwrap(), &["bell"]);
    assert_says(&concurrent_operations(&name(&"é".repeat(99))).unwrap(), &[&("é".repeat(23) + "…")]);
    let svg = tokens_over_time(&[(odd.to_owned(), vec![(0.0, 1), (9.0, 1)])]).unwrap();
    assert_says(&svg, &[odd]);
}

#[test]
fn more_rules_than_fit_into_a_row_have_a_higher_legend() {
    let many: Vec<_> = (0..30).map(|n| (format!("rule set number {n}"), vec![50.0, 50.0])).collect();
    assert_says(&concurrent_operations(&many).unwrap(), &["rule set number 0", "rule set number 29"]);
    let many: Vec<_> = (0..30).map(|n| (format!("rule set number {n}"), vec![(0.0, 1), (9.0, 1)])).collect();
    assert_says(&tokens_over_time(&many).unwrap(), &["rule set number 29"]);
}

#[test]
fn a_long_run_makes_no_long_figure() {
    let busy = (0..1_000_000).map(|n| (f64::from(n), usize::from(n % 3 == 0))).collect();
    let svg = tokens_over_time(&[("early".to_owned(), busy)]).unwrap();
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
}

#[test]
fn same_data_same_bytes() {
    let draw = || {
        let outcome = lossy(Duration::from_secs(500), 1);
        [
            concurrent_operations(&shares()).unwrap(),
            memberships(&runs()).unwrap(),
            access_intervals(&named(|_| outcome.access_intervals()), 80.0).unwrap(),
            tokens_over_time(&tokens()).unwrap(),
            regeneration(&named(|_| outcome.recovery())).unwrap(),
            stabilisation(&twice(outcome.stabilisation())).unwrap(),
            access_intervals_full_and_half(&twice(outcome.access_intervals()), 80.0).unwrap(),
            access_intervals_by_membership(&by_membership(outcome.access_intervals()), 80.0).unwrap(),
        ]
    };
    assert_eq!(draw(), draw());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_numbers_are_drawn(
        shares in prop::collection::vec(any::<f64>(), 0..12),
        members in prop::collection::vec(any::<f64>(), 0..6),
        times in prop::collection::vec((any::<f64>(), any::<usize>()), 0..20),
        name in any::<String>(),
        nominal in any::<f64>(),
    ) {
        let runs = members.into_iter().map(|members| (members, shares.clone())).collect();
        texts(&memberships(&[(name.clone(), runs)]).unwrap());
        texts(&concurrent_operations(&[(name.clone(), shares)]).unwrap());
        texts(&tokens_over_time(&[(name.clone(), times)]).unwrap());
        texts(&access_intervals(&[(name, &Spread::default())], nominal).unwrap());
    }
}
