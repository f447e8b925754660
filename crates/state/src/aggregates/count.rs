//! COUNT: of rows, or of values that are not NULL.

use super::Aggregate;

/// How many there are.
#[derive(Debug)]
pub struct Count;

impl Aggregate for Count {
    type State = u64;

    const EMPTY: u64 = 0;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: u64, younger: u64) -> u64 {
        older.wrapping_add(younger)
    }

    #[inline]
    fn invert(all: u64, leaving: u64) -> u64 {
        all.wrapping_sub(leaving)
    }
}
