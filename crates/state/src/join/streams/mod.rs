//! Joins of two streams: rows of both sides that wait, and the pairs that they make when the watermark has passed them.
//!
//! In reading order: [`pairs`] (numbers of rows of both sides, the residual condition, and what leaves), [`windows`] (rows of the same window), [`early`] (their pairs before it ends), [`window_pairs`] (the pairs of a window), [`partitions`] (the rows of a large one, divided), [`timed`] (rows by
//! the distance of their times).

pub mod pairs;

pub mod early;

pub mod windows;

pub mod window_pairs;

mod partitions;

pub mod timed;

pub use self::pairs::{Residual, Test};
pub use self::timed::{LeavingPairs, TimedJoin};
pub use self::window_pairs::{WindowPairs, WindowPart};
pub use self::windows::WindowJoin;
