//! What a record is.
//!
//! A record enters Pelton as one row of a [`Block`]: columns whose bytes are valid Arrow buffers, and a header that says
//! which event times it spans, where it stands in its stream, and how far event time had come before it. Everything
//! that later touches the row, interpreted or compiled, sees it through this crate.
//!
//! In reading order: [`time`] (the one unit of event time), [`column`] (which Arrow arrays a block may hold),
//! [`block`], [`aggregate`] (keys and accumulators), [`udaf`] (aggregate functions from outside), [`table_function`] (functions that make rows of rows), [`window`] (windows and their slices), [`over`] (frames of rows), [`ranking`] (the first rows of windows), [`join`] (joins of two streams), [`wide_float`], [`square_sum`], [`decimal`], [`significant`] (numbers by their first bits), [`float_text`] (FLOAT and DOUBLE as text), [`arrangement`] (which rows
//! leave, in which order), [`spelling`] (what a misspelt name was meant to be), [`abi`] (the structs that machine code reads and writes).

pub mod time;

pub mod column;

mod nested;

pub mod block;

pub mod batch_buffer;

pub mod aggregate;

pub mod udaf;

pub mod table_function;

pub mod zone;

pub mod window;

pub mod zoned_window;

pub mod over;

pub mod ranking;

pub mod join;

pub mod wide_float;

pub mod square_sum;

pub mod exact_float;

pub mod decimal;

pub mod significant;

pub mod percentile;

pub mod float_text;

pub mod decimal_text;

pub mod json;

pub mod arrangement;

pub mod spelling;

pub mod allowance;

pub mod abi;

pub use block::{Block, Origin, Provenance, Stamp, TimeColumn};
pub use time::{Micros, TimeRange};

/// Rows in a block unless the session says otherwise: 16 Ki rows of two eight-byte columns fill an eighth of a 2 MiB L2 cache.
pub const BLOCK_ROWS_DEFAULT: usize = 16 * 1024;

/// Rows in the largest block allowed: row numbers inside a block are 32 bits wide.
pub const BLOCK_ROWS_MAX: usize = 1 << 20;
