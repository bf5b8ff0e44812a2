//! `cargo fuzz run --fuzz-dir tests/fuzz netrc`: see tests/targets/answers.rs.

#![no_main]

#[path = "../../targets/cli.rs"]
mod cli;
#[path = "../../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::answers::netrc(data));
