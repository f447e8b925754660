//! The benchmark runner: `bench/*.bench`, each case in alternation with its reference.
//!
//! In reading order: [`file`] (a benchmark as text).

pub mod file;
