//! SQL text to pipelines.
#![no_main]

#[path = "../../crates/plan/tests/fuzz/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::sql(bytes));
