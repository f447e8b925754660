//! The values of a column into one state, at the speed of the memory that they lie in.
//!
//! What a step does with each value may be done in any order where some value is neutral to it. It is then compiled to vector
//! instructions, and values that do not count are replaced by the neutral one, 64 at a time, instead of being jumped over. Without
//! one (sums of floating-point values round) values are taken in the order of their rows.

use arrow::buffer::NullBuffer;

use crate::select::{Level, at_level, bits_in_range, bits_of_word};

/// Which rows of a column count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedRows<'a> {
    /// Neighbours: the first row, and one past the last.
    Range(usize, usize),
    /// Of these neighbours those whose bit is set; bit 0 is row 0's.
    Masked(usize, usize, &'a [u64]),
    /// These, each as often as it is listed.
    Listed(&'a [u32]),
}

impl CountedRows<'_> {
    /// How many of them are not NULL.
    pub(crate) fn count(self, nulls: Option<&NullBuffer>) -> usize {
        match (self, nulls) {
            (CountedRows::Range(first, end), None) => end - first,
            (CountedRows::Listed(rows), None) => rows.len(),
            (CountedRows::Listed(rows), Some(nulls)) => {
                rows.iter().filter(|&&row| nulls.is_valid(row as usize)).count()
            }
            _ => self.words(nulls).map(|(_, bits)| bits.count_ones() as usize).sum(),
        }
    }

    /// For each 64 rows their number and the bits of those that count and are not NULL. Rows are not listed.
    #[inline(always)]
    fn words(self, nulls: Option<&NullBuffer>) -> impl Iterator<Item = (usize, u64)> {
        let (first, end, mask) = match self {
            CountedRows::Range(first, end) => (first, end, None),
            CountedRows::Masked(first, end, mask) => (first, end, Some(mask)),
            CountedRows::Listed(_) => unreachable!("listed rows have no bits"),
        };
        let words = if first < end { first / 64..end.div_ceil(64) } else { 0..0 };
        words.map(move |word| {
            let kept = bits_in_range(word, first, end) & mask.map_or(u64::MAX, |mask| mask[word]);
            (word, kept & nulls.map_or(u64::MAX, |nulls| bits_of_word(nulls.inner(), word)))
        })
    }
}

/// `state = step(state, value)` for each of `values` that counts and is not NULL. A step with `neutral`, which changes no state, must
/// not depend on the order of values.
///
/// # Panics
/// Where a row is out of range.
pub(crate) fn fold<S: Copy, V: Copy, F: Fn(S, V) -> S>(
    level: Level,
    values: &[V],
    nulls: Option<&NullBuffer>,
    kept: CountedRows<'_>,
    neutral: Option<V>,
    state: S,
    step: F,
) -> S {
    at_level!(level, fold_here::<S: Copy, V: Copy, F: Fn(S, V) -> S>(
        values: &[V], nulls: Option<&NullBuffer>, kept: CountedRows<'_>, neutral: Option<V>, state: S, step: F
    ) -> S)
}

/// The smallest and the largest of some integers, of which there is at least one.
pub(crate) fn extent(integers: &[i64]) -> (i64, i64) {
    let (level, all) = (Level::best(), CountedRows::Range(0, integers.len()));
    let minimum = fold(level, integers, None, all, Some(i64::MAX), i64::MAX, |least: i64, integer| least.min(integer));
    let maximum = fold(level, integers, None, all, Some(i64::MIN), i64::MIN, |most: i64, integer| most.max(integer));
    (minimum, maximum)
}

#[inline(always)]
fn fold_here<S: Copy, V: Copy, F: Fn(S, V) -> S>(
    values: &[V],
    nulls: Option<&NullBuffer>,
    kept: CountedRows<'_>,
    neutral: Option<V>,
    state: S,
    step: F,
) -> S {
    match (kept, nulls) {
        (CountedRows::Range(first, end), None) => {
            values[first..end].iter().fold(state, |state, &value| step(state, value))
        }
        (CountedRows::Listed(rows), None) => rows.iter().fold(state, |state, &row| step(state, values[row as usize])),
        (CountedRows::Listed(rows), Some(nulls)) => {
            rows.iter().fold(state, |state, &row| match nulls.is_valid(row as usize) {
                true => step(state, values[row as usize]),
                false => state,
            })
        }
        _ => {
            let mut state = state;
            for (word, bits) in kept.words(nulls) {
                let rest = &values[word * 64..];
                state = match (rest.first_chunk::<64>(), neutral) {
                    _ if bits == 0 => state,
                    (Some(chunk), Some(neutral)) => fold_chunk(chunk, bits, neutral, state, &step),
                    _ => fold_bits(rest, bits, state, &step),
                };
            }
            state
        }
    }
}

/// The values of 64 rows whose bits are set.
#[inline(always)]
fn fold_chunk<S: Copy, V: Copy>(values: &[V; 64], bits: u64, neutral: V, state: S, step: impl Fn(S, V) -> S) -> S {
    let counted: [V; 64] = std::array::from_fn(|row| if bits >> row & 1 == 1 { values[row] } else { neutral });
    counted.iter().fold(state, |state, &value| step(state, value))
}

/// The values of at most 64 rows whose bits are set, in the order of their rows.
#[inline(always)]
fn fold_bits<S: Copy, V: Copy>(values: &[V], bits: u64, mut state: S, step: impl Fn(S, V) -> S) -> S {
    let mut rest = bits;
    while rest != 0 {
        state = step(state, values[rest.trailing_zeros() as usize]);
        rest &= rest - 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One step after the other.
    fn expected<S: Copy>(
        values: &[i64],
        rows: &[u32],
        nulls: Option<&NullBuffer>,
        state: S,
        step: fn(S, i64) -> S,
    ) -> S {
        let valid = rows.iter().filter(|&&row| nulls.is_none_or(|nulls| nulls.is_valid(row as usize)));
        valid.fold(state, |state, &row| step(state, values[row as usize]))
    }

    fn check(values: &[i64], nulls: Option<&NullBuffer>, kept: CountedRows<'_>, rows: &[u32]) {
        let in_order = |state: i64, value: i64| state.wrapping_mul(31).wrapping_add(value);
        assert_eq!(kept.count(nulls), expected(values, rows, nulls, 0, |count, _| count + 1));
        for level in Level::available() {
            let fold =
                |neutral, state, step: fn(i64, i64) -> i64| fold(level, values, nulls, kept, neutral, state, step);
            assert_eq!(
                fold(Some(0), 7, i64::wrapping_add),
                expected(values, rows, nulls, 7, i64::wrapping_add),
                "{level}"
            );
            assert_eq!(fold(Some(i64::MAX), 9, i64::min), expected(values, rows, nulls, 9, i64::min), "{level}");
            assert_eq!(fold(Some(i64::MIN), -9, i64::max), expected(values, rows, nulls, -9, i64::max), "{level}");
            assert_eq!(fold(None, 1, in_order), expected(values, rows, nulls, 1, in_order), "{level}");
        }
    }

    #[test]
    fn an_extent_holds_all_integers() {
        assert_eq!(extent(&[5]), (5, 5));
        assert_eq!(extent(&[3, i64::MIN, 0, i64::MAX, -1]), (i64::MIN, i64::MAX));
        assert_eq!(extent(&(-70..=90).rev().collect::<Vec<_>>()), (-70, 90));
    }

    proptest! {
        #[test]
        fn all_ways_to_say_which_rows_count_give_the_same(
            values in prop::collection::vec(any::<i64>(), 0..400),
            valid in prop::option::of(prop::collection::vec(prop::bool::weighted(0.8), 410)),
            mask in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)], 7),
            listed in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
            bounds in any::<[prop::sample::Index; 2]>(),
            offset in 0..10_usize,
        ) {
            let rows = values.len();
            // Arrays that are slices of others have NULLs that begin inside of a byte.
            let nulls = valid.map(|valid| NullBuffer::from(valid).slice(offset, rows));
            let mut bounds = bounds.map(|bound| bound.index(rows + 1));
            bounds.sort_unstable();
            let [first, end] = bounds;
            let range: Vec<u32> = (first as u32..end as u32).collect();
            let is_set = |row: &u32| mask[*row as usize / 64] >> (row % 64) & 1 == 1;
            let masked: Vec<u32> = range.iter().copied().filter(is_set).collect();
            let listed: Vec<u32> = listed.iter().filter(|_| rows > 0).map(|row| row.index(rows) as u32).collect();
            check(&values, nulls.as_ref(), CountedRows::Range(first, end), &range);
            check(&values, nulls.as_ref(), CountedRows::Masked(first, end, &mask), &masked);
            check(&values, nulls.as_ref(), CountedRows::Listed(&listed), &listed);
        }
    }
}
