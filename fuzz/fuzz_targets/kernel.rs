//! Random programs: the interpreter, the compiled kernel and the model agree.
#![no_main]

#[path = "../../crates/compiler/tests/properties/choices.rs"]
mod choices;
#[path = "../../crates/compiler/tests/properties/columns.rs"]
mod columns;
#[path = "../../crates/compiler/tests/properties/expressions.rs"]
mod expressions;
#[path = "../../crates/compiler/tests/made/mod.rs"]
mod made;
#[path = "../../crates/compiler/tests/properties/model.rs"]
mod model;
#[path = "../../crates/compiler/tests/properties/queries.rs"]
mod queries;
#[path = "../../crates/compiler/tests/properties/runs.rs"]
mod runs;
#[path = "../../crates/compiler/tests/properties/tiers.rs"]
mod tiers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tiers::check_bytes(bytes));
