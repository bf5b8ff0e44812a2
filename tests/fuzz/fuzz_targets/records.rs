//! `cargo fuzz run --fuzz-dir tests/fuzz records`: see tests/targets/records.rs.

#![no_main]

#[path = "../../targets/cli.rs"]
mod cli;
#[path = "../../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::records::run(data));
