//! `cargo fuzz run --fuzz-dir tests/fuzz ftp_reply`: see tests/targets/answers.rs.

#![no_main]

#[path = "../../targets/cli.rs"]
mod cli;
#[path = "../../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::answers::ftp_reply(data));
