//! Bytes of a CSV file to columns.
#![no_main]

use pelton_connectors::filesystem::fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::csv(bytes));
