//! Variances of frames: what is kept are sums of values and of their squares, of which a variance is the small difference (see `pelton_data::wide_float`).

use std::ops::Range;

use arrow::datatypes::{ArrowNativeType, i256};
use pelton_data::aggregate::integer_variance;
use pelton_data::square_sum::SquareSum;
use pelton_data::wide_float::{WideFloat, variance};

use super::frame::Bounds;
use super::row_store::ColumnStore;
use super::two_stacks::Entering;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// Parts that [`Powers`] are written as.
const PARTS: usize = 4;

/// Sums of values and of their squares. A NULL comes as zero, which changes neither.
pub(super) trait Powers<T>: Copy + Default + std::fmt::Debug {
    /// What they are written as.
    type Part: ArrowNativeType;

    /// Whether a value that has left can be subtracted, without loss.
    const ARE_EXACT: bool;

    /// With one value more.
    #[must_use]
    fn plus(self, value: T) -> Self;

    /// With one value less, where they are exact.
    #[must_use]
    fn minus(self, value: T) -> Self;

    /// Of the values of both.
    #[must_use]
    fn and(self, other: Self) -> Self;

    /// The variance of so many values: of a whole population, or the estimate from a sample. `None` where there are too few.
    fn variance(self, count: u64, is_sample: bool) -> Option<f64>;

    fn parts(self) -> [Self::Part; PARTS];

    fn of_parts(parts: &[Self::Part]) -> Self;
}

/// Of integers, exact.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IntegerPowers {
    sum: i128,
    squares: SquareSum,
}

impl IntegerPowers {
    fn of(value: i64) -> IntegerPowers {
        IntegerPowers { sum: value.into(), squares: SquareSum::square(value) }
    }

    /// The sum of the values.
    pub fn sum(self) -> i128 {
        self.sum
    }
}

impl Powers<i64> for IntegerPowers {
    type Part = i128;

    const ARE_EXACT: bool = true;

    #[inline]
    fn plus(self, value: i64) -> IntegerPowers {
        self.and(IntegerPowers::of(value))
    }

    #[inline]
    fn minus(self, value: i64) -> IntegerPowers {
        let IntegerPowers { sum, squares } = IntegerPowers::of(value);
        IntegerPowers { sum: self.sum - sum, squares: self.squares.minus(squares) }
    }

    #[inline]
    fn and(self, other: IntegerPowers) -> IntegerPowers {
        IntegerPowers { sum: self.sum + other.sum, squares: self.squares.plus(other.squares) }
    }

    fn variance(self, count: u64, is_sample: bool) -> Option<f64> {
        integer_variance(self.sum, self.squares.exact(), count as i64, is_sample)
    }

    fn parts(self) -> [i128; PARTS] {
        let (low, high) = self.squares.exact().to_parts();
        [self.sum, low as i128, high, 0]
    }

    fn of_parts(parts: &[i128]) -> IntegerPowers {
        IntegerPowers { sum: parts[0], squares: SquareSum::of_exact(i256::from_parts(parts[1] as u128, parts[2])) }
    }
}

/// Of doubles, in about 106 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FloatPowers {
    sum: WideFloat,
    squares: WideFloat,
}

impl Powers<f64> for FloatPowers {
    type Part = f64;

    /// An infinity would never leave.
    const ARE_EXACT: bool = false;

    #[inline]
    fn plus(self, value: f64) -> FloatPowers {
        self.and(FloatPowers { sum: WideFloat::new(value), squares: WideFloat::square(value) })
    }

    fn minus(self, _value: f64) -> FloatPowers {
        unreachable!("nothing is subtracted from doubles")
    }

    #[inline]
    fn and(self, other: FloatPowers) -> FloatPowers {
        FloatPowers { sum: self.sum.plus(other.sum), squares: self.squares.plus(other.squares) }
    }

    fn variance(self, count: u64, is_sample: bool) -> Option<f64> {
        variance(self.sum, self.squares, count as i64, is_sample)
    }

    fn parts(self) -> [f64; PARTS] {
        [self.sum.high, self.sum.low, self.squares.high, self.squares.low]
    }

    fn of_parts(parts: &[f64]) -> FloatPowers {
        let wide = |high: usize| WideFloat { high: parts[high], low: parts[high + 1] };
        FloatPowers { sum: wide(0), squares: wide(2) }
    }
}

/// Of decimals there are none: planning makes doubles of those whose variance is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NoPowers;

impl Powers<i128> for NoPowers {
    type Part = i128;

    const ARE_EXACT: bool = true;

    fn plus(self, _value: i128) -> NoPowers {
        unreachable!("the variance of decimals is that of doubles")
    }

    fn minus(self, value: i128) -> NoPowers {
        self.plus(value)
    }

    fn and(self, _other: NoPowers) -> NoPowers {
        self
    }

    fn variance(self, _count: u64, _is_sample: bool) -> Option<f64> {
        None
    }

    fn parts(self) -> [i128; PARTS] {
        [0; PARTS]
    }

    fn of_parts(_parts: &[i128]) -> NoPowers {
        NoPowers
    }
}

/// What is kept of a frame that moves forward. What leaves is subtracted where that is exact; else there are two stacks (Tangwongsan et al., General incremental
/// sliding-window aggregation, 2015, section 3.1): nothing is subtracted, so nothing drifts.
#[derive(Debug, Default)]
pub(super) struct Variances<P> {
    /// For each row from `front_start` on that came before the last stack began, all from it to there.
    front: Vec<P>,
    front_start: u64,
    /// The rows behind these.
    back: P,
    /// First row of the last frame.
    start: u64,
    /// One past its last row.
    end: u64,
}

impl<P> Variances<P> {
    /// Follows the frames of a run, and hands on the sums of each. `entering` has the run's values, zero for NULL, `kept` those from the start of the frame before the
    /// first on, where rows leave.
    pub fn slide<T: ArrowNativeType>(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, T>,
        kept: Option<&ColumnStore<T>>,
        mut hand_on: impl FnMut(P),
    ) where
        P: Powers<T>,
    {
        for (start, end) in bounds.frames() {
            for &value in entering.between(self.end, end) {
                self.back = self.back.plus(value);
            }
            self.end = end;
            self.leave(start, kept);
            let front = self.front.get((start - self.front_start) as usize).copied().unwrap_or_default();
            hand_on(front.and(self.back));
        }
    }

    /// What lies before `start` leaves.
    fn leave<T: ArrowNativeType>(&mut self, start: u64, kept: Option<&ColumnStore<T>>)
    where
        P: Powers<T>,
    {
        let leaving = self.start..start;
        self.start = start;
        if leaving.is_empty() {
            return;
        }
        let kept = |rows: Range<u64>| kept.expect("a bounded frame looks back").slices(rows.start, rows.end);
        if P::ARE_EXACT {
            self.front_start = start;
            return kept(leaving).flatten().for_each(|&value| self.back = self.back.minus(value));
        }
        if start - self.front_start < self.front.len() as u64 {
            return;
        }
        let mut sums = P::default();
        self.front.clear();
        self.front.extend(kept(start..self.end).rev().flat_map(|values| values.iter().rev()).map(|&value| {
            sums = sums.plus(value);
            sums
        }));
        self.front.reverse();
        (self.front_start, self.back) = (start, P::default());
    }

    /// Writes what is remembered.
    pub fn write_to<T>(&self, out: &mut Writer)
    where
        P: Powers<T>,
    {
        out.number(self.front_start);
        out.number(self.start);
        out.number(self.end);
        out.column(&self.back.parts());
        out.list(&self.front.iter().flat_map(|sums| sums.parts()).collect::<Vec<_>>());
    }

    /// Becomes what was written when there were so many rows, those from `start` on in the last frame.
    pub fn read_from<T>(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError>
    where
        P: Powers<T>,
    {
        let mut position = || input.number("positions of a frame");
        (self.front_start, self.start, self.end) = (position()?, position()?, position()?);
        self.back = P::of_parts(&input.column(PARTS, "sums of the last rows")?);
        let parts = input.list::<P::Part>("sums of the first rows")?;
        self.front = parts.chunks_exact(PARTS).map(P::of_parts).collect();
        let front_end = self.front_start.checked_add(self.front.len() as u64);
        let is_right = parts.len().is_multiple_of(PARTS)
            && self.front_start <= self.start
            && front_end.is_some_and(|front_end| front_end <= self.end)
            && (self.start, self.end) == (start, rows);
        input.check(is_right, "positions of a frame that ends with the last row")
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.front.capacity() * size_of::<P>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::ScalarBuffer;

    use super::super::row_store::Coming;
    use super::*;

    /// The variances of the last `rows` values, by sums that move and are given the values in runs.
    fn sliding<T: ArrowNativeType, P: Powers<T>>(values: &[T], rows: u64, run_rows: usize) -> Vec<Option<f64>> {
        let mut kept = ColumnStore::new(false, Some(rows));
        let (mut variances, mut found, mut position) = (Variances::<P>::default(), Vec::new(), 0);
        for values in values.chunks(run_rows) {
            let column = ScalarBuffer::from(values.to_vec());
            kept.append(Coming { values: &column, nulls: None, is_whole: true }, 0..values.len());
            let bounds = Bounds::Rows { position, rows: values.len(), preceding: Some(rows - 1) };
            let mut counts = bounds.steps().flat_map(super::super::frame::Step::lengths);
            variances.slide(&bounds, Entering::new(values, position), Some(&kept), |sums: P| {
                found.push(sums.variance(counts.next().expect("a frame has rows"), true));
            });
            position += values.len() as u64;
            kept.forget(position.saturating_sub(rows));
        }
        found
    }

    /// In two passes, each anew.
    fn fresh(values: &[f64], rows: usize) -> Vec<Option<f64>> {
        let variance = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
        };
        (0..values.len()).map(|row| variance(&values[(row + 1).saturating_sub(rows)..=row])).collect()
    }

    #[test]
    fn a_sliding_variance_is_a_fresh_one() {
        let values: Vec<f64> = (0..3_000).map(|row| f64::from(row * 7_919 % 1_009 - 500)).collect();
        let integers: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        for rows in [1, 2, 3, 10, 700, 5_000] {
            let fresh = fresh(&values, rows as usize);
            for run_rows in [1, 7, 1000] {
                let floats = sliding::<f64, FloatPowers>(&values, rows, run_rows);
                let integers = sliding::<i64, IntegerPowers>(&integers, rows, run_rows);
                for (row, fresh) in fresh.iter().enumerate() {
                    let is_near = |found: Option<f64>| match (found, *fresh) {
                        (Some(found), Some(fresh)) => (found - fresh).abs() <= 1e-12 * fresh,
                        (found, fresh) => found == fresh,
                    };
                    assert!(is_near(floats[row]) && is_near(integers[row]), "row {row} of {rows}, runs of {run_rows}");
                }
            }
        }
    }

    #[test]
    fn what_has_passed_leaves_no_trace() {
        let mut values: Vec<f64> = (0..2_000).map(|row| f64::from(row % 2)).collect();
        (values[100], values[500]) = (f64::INFINITY, 1e150);
        for rows in [2, 300] {
            let found = sliding::<f64, FloatPowers>(&values, rows, 64);
            assert!(found[100].unwrap().is_nan() && found[500].unwrap() > 1e290);
            assert!(found[801..].iter().all(|found| found.is_some_and(|found| (0.25..=0.51).contains(&found))));
        }
        let mut values = vec![5_i64; 1_000];
        values[300] = i64::MIN;
        let found = sliding::<i64, IntegerPowers>(&values, 10, 64);
        assert!(found[300].unwrap() > 1e36 && found[310..].iter().all(|found| *found == Some(0.0)));
    }
}
