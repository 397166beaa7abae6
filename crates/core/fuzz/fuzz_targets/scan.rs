//! Arbitrary bytes, and streams made from them, whole and in arbitrary pieces: no panic, and the same rows as the model's.

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

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::scan(data));
