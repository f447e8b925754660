//! SIMD selection: which rows pass a predicate.
//!
//! A mask has one bit a row of the block, row 0's first. Each predicate clears the bits of rows that it is not true of
//! ([`Selector::refine`], [`compare_columns`]); those that remain become ascending row numbers ([`append_rows`]), of which further predicates
//! keep some ([`Selector::keep`]), and over which compiled code then runs. Precompiled primitives do this at several rows a cycle, which no loop with a branch a row reaches.
//!
//! In reading order: [`level`] (what the processor offers), [`mask`] (masks and row numbers), [`selector`] (a predicate
//! over one column), [`range`] (what most comparisons become), [`reached`] (which slice a time is of), [`multiple`] (remainders), [`strings`], [`codes`] (dictionary-coded strings), `listed` (rows that are listed already),
//! [`pair`] (two columns compared).

mod level;

mod mask;

mod selector;

mod range;

mod reached;

mod multiple;

mod strings;

mod codes;

mod listed;

mod pair;

pub(crate) use level::at_level;
pub use mask::{append_rows, clear_invalid, set_range, words};
pub(crate) use mask::{bits_in_range, bits_of_word};
pub use pair::compare_columns;
pub(crate) use pelton_state::vector::Instructions;
pub use pelton_state::vector::Level;
pub(crate) use range::{Integers, ordered_f32, ordered_f64, refine_between};
pub(crate) use reached::count_reached;
pub use selector::{Comparison, Selector};
pub(crate) use selector::{between, number};
