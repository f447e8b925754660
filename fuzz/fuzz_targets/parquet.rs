//! Bytes of a Parquet file to columns.
#![no_main]

use pelton_connectors::filesystem::fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::parquet(bytes));
