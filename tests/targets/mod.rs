//! What the fuzzers run: one function per target, which takes any bytes and must neither panic nor break its promise.
//!
//! `tests/fuzz` lets libFuzzer choose the bytes; `tests/fuzz_targets.rs` does it with proptest in every ordinary test
//! run, so that the targets cannot rot.

#![allow(dead_code, reason = "each fuzzer uses one target")]

pub(crate) mod answers;
pub(crate) mod datagram;
pub(crate) mod grant;
pub(crate) mod handoff;
pub(crate) mod invitation;
pub(crate) mod node;
pub(crate) mod records;
pub(crate) mod request;
pub(crate) mod sealed;
pub(crate) mod settings;
pub(crate) mod source;
pub(crate) mod sources;
pub(crate) mod units;
