//! What joins look rows up in.
//!
//! Rows become immutable buckets, in which rows of another stream find those with the same key. In reading order: [`bucket`], [`build`] (how many threads build one),
//! [`matching`] (what a kind of join makes of the pairs that match), [`lookups`] (the bounded tables that a program's pipelines join with), [`unmatched`] (those of their rows that are not found), [`list`] (several buckets that are probed as one), [`streams`] (joins of two streams); [`gather`] (values of the rows that are found), `keys` (key columns), `index`
//! (from a key to rows), `dense` and `hashed` (its kinds), `partition` (rows divided by their keys) are what they stand on.

pub mod bucket;

pub mod build;

pub mod matching;

pub mod lookups;

pub mod unmatched;

pub mod list;

pub mod streams;

pub mod gather;

mod chosen;

mod keys;

mod index;

mod partition;

mod dense;

mod hashed;

pub use self::bucket::{Bucket, Shape};
pub use self::build::BucketBuild;
pub use self::dense::DensePlaces;
pub use self::gather::gather;
pub use self::list::{BucketRow, Buckets, RowMatches};
pub use self::lookups::Lookups;

/// The match of a row that has none.
pub const UNMATCHED: u32 = u32::MAX;
