//! The examples do what they say. They are built with the tests and lie beside them.

use std::path::PathBuf;
use std::process::Command;

/// What an example prints; it must end well.
fn printed(name: &str) -> String {
    let own = std::env::current_exe().expect("this test has a path");
    // target/PROFILE/deps/examples-HASH: the examples are two folders up.
    let built = own.parent().and_then(|deps| deps.parent()).expect("two folders above it");
    let program: PathBuf = built.join("examples").join(name);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.rs"));
    // `cargo test` builds examples, `cargo test --test examples` does not.
    let changed = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let is_new = changed(&program) >= changed(&source);
    assert!(is_new, "{} is missing or old: run `cargo build --examples`", program.display());
    let output = Command::new(&program).output().expect("the example can be run");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {said}{told}");
    said.into_owned()
}

#[test]
fn two_members_take_turns() {
    let said = printed("two_members");
    assert_eq!(said.matches("lab-a holds").count(), 3, "{said}");
    assert_eq!(said.matches("lab-b holds").count(), 3, "{said}");
}

#[test]
fn a_custom_source_is_pulled_in_slots() {
    assert!(printed("custom_source").contains("complete after"));
}

#[test]
fn the_status_has_a_line_for_each_member_and_job() {
    let said = printed("status_api");
    assert!(said.starts_with("circle example: lab-a"), "{said}");
    assert!(said.contains("member lab-b at 127.0.0.1:"), "{said}");
    assert!(said.contains("job archive [waiting]"), "{said}");
}

#[test]
fn the_simulated_circle_serves_everybody() {
    let said = printed("circle");
    let slots = said.split_once('[').and_then(|(_, rest)| rest.split_once(']')).expect(&said).0;
    let slots: Vec<u32> = slots.split(", ").map(|count| count.parse().unwrap()).collect();
    assert_eq!(slots.len(), 30);
    assert!(slots.iter().all(|count| *count > 0), "{slots:?}");
}
