//! Slots of arbitrary bytes against the bitwise sum.

#![no_main]
#![allow(dead_code, reason = "the harness serves all targets")]

#[path = "../../tests/core/feed.rs"]
mod feed;
#[path = "../../tests/core/generate.rs"]
mod generate;
#[path = "../../tests/core/harness.rs"]
mod harness;
#[path = "../../tests/core/models.rs"]
mod models;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::slots(data));
