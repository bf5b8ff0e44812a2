//! `cargo fuzz run --fuzz-dir tests/fuzz mlsd`: see tests/targets/sources.rs.

#![no_main]

#[path = "../../targets/cli.rs"]
mod cli;
#[path = "../../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::sources::mlsd_listing(data));
