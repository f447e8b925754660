//! Variances of frames: what is kept are sums of values and of their squares, of which a variance is the small difference (see `pelton_data::wide_float`).

use std::ops::Range;

use arrow::datatypes::{ArrowNativeType, i256};
use pelton_data::square_sum::SquareSum;
use pelton_data::wide_float::WideFloat;

use super::frame::Bounds;
use super::row_store::ColumnStore;
use super::totals::Entering;
use crate::aggregates::{Aggregate, FloatVariance, IntegerVariance, NoVariance, Takes, Variance};
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::two_stacks::TwoStacks;

/// Parts that sums of powers are written as.
const PARTS: usize = 4;

/// Sums of values and of their squares, which snapshots have. A NULL comes as zero, which changes neither.
pub(super) trait Powers: Variance {
    /// What they are written as.
    type Part: ArrowNativeType;

    fn parts(sums: Self::State) -> [Self::Part; PARTS];

    fn of_parts(parts: &[Self::Part]) -> Self::State;
}

impl Powers for IntegerVariance {
    type Part = i128;

    fn parts((sum, squares): (i128, SquareSum)) -> [i128; PARTS] {
        let (low, high) = squares.exact().to_parts();
        [sum, low as i128, high, 0]
    }

    fn of_parts(parts: &[i128]) -> (i128, SquareSum) {
        (parts[0], SquareSum::of_exact(i256::from_parts(parts[1] as u128, parts[2])))
    }
}

impl Powers for FloatVariance {
    type Part = f64;

    fn parts((sum, squares): (WideFloat, WideFloat)) -> [f64; PARTS] {
        [sum.high, sum.low, squares.high, squares.low]
    }

    fn of_parts(parts: &[f64]) -> (WideFloat, WideFloat) {
        let wide = |high: usize| WideFloat { high: parts[high], low: parts[high + 1] };
        (wide(0), wide(2))
    }
}

impl Powers for NoVariance {
    type Part = i128;

    fn parts(_sums: ()) -> [i128; PARTS] {
        [0; PARTS]
    }

    fn of_parts(_parts: &[i128]) {}
}

/// What is kept of a frame that moves forward. What leaves is subtracted where that is exact; else there are two stacks of rows: nothing is subtracted,
/// so nothing drifts.
#[derive(Debug)]
pub(super) struct Variances<P: Aggregate> {
    /// Rows by their positions; all are in the back stack where what leaves is subtracted.
    stacks: TwoStacks<u64, P::State>,
    /// First row of the last frame.
    start: u64,
    /// One past its last row.
    end: u64,
}

impl<P: Powers> Variances<P> {
    /// No rows yet.
    pub fn new() -> Variances<P> {
        Variances { stacks: TwoStacks::new(P::EMPTY), start: 0, end: 0 }
    }

    /// Follows the frames of a run, and hands on the sums of each. `entering` has the run's values, zero for NULL, `kept` those from the start of the frame before the
    /// first on, where rows leave.
    pub fn slide<T: ArrowNativeType>(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, T>,
        kept: Option<&ColumnStore<T>>,
        mut hand_on: impl FnMut(P::State),
    ) where
        P: Takes<T>,
    {
        for (start, end) in bounds.frames() {
            let entering = entering.between(self.end, end).iter();
            let prefix = self.stacks.prefix_mut();
            *prefix = entering.fold(*prefix, |prefix, &value| P::add(prefix, value));
            self.end = end;
            self.leave(start, kept);
            let oldest = self.stacks.oldest().copied().unwrap_or(P::EMPTY);
            hand_on(P::combine(oldest, *self.stacks.prefix()));
        }
    }

    /// What lies before `start` leaves.
    fn leave<T: ArrowNativeType>(&mut self, start: u64, kept: Option<&ColumnStore<T>>)
    where
        P: Takes<T>,
    {
        let leaving = self.start..start;
        self.start = start;
        if leaving.is_empty() {
            return;
        }
        let kept = |rows: Range<u64>| kept.expect("a bounded frame looks back").slices(rows.start, rows.end);
        if P::IS_INVERTIBLE {
            let prefix = self.stacks.prefix_mut();
            let leaving = kept(leaving).flatten();
            return *prefix = leaving.fold(*prefix, |prefix, &value| P::invert(prefix, P::of(value)));
        }
        while self.stacks.pop_until(start - 1).is_some() {}
        if self.stacks.oldest().is_some() {
            return;
        }
        let values = kept(start..self.end).rev().flat_map(|values| values.iter().rev());
        let younger = |younger: Option<&P::State>| younger.copied().unwrap_or(P::EMPTY);
        self.stacks.flip((start..self.end).rev().zip(values), |behind, &value| P::add(younger(behind), value));
        *self.stacks.prefix_mut() = P::EMPTY;
    }

    /// Writes what is remembered.
    pub fn write_to(&self, out: &mut Writer) {
        let front = self.stacks.front();
        out.number(front.last().map_or(self.start, |(oldest, _)| *oldest));
        out.number(self.start);
        out.number(self.end);
        out.column(&P::parts(*self.stacks.prefix()));
        out.list(&front.iter().rev().flat_map(|(_, sums)| P::parts(*sums)).collect::<Vec<_>>());
    }

    /// Becomes what was written when there were so many rows, those from `start` on in the last frame.
    pub fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut position = || input.number("positions of a frame");
        let (front_start, known_start, known_end) = (position()?, position()?, position()?);
        let prefix = P::of_parts(&input.column(PARTS, "sums of the last rows")?);
        let parts = input.list::<P::Part>("sums of the first rows")?;
        let front_end = front_start.checked_add((parts.len() / PARTS) as u64);
        let is_right = parts.len().is_multiple_of(PARTS)
            && front_start == known_start
            && front_end.is_some_and(|front_end| front_end <= known_end)
            && (known_start, known_end) == (start, rows);
        input.check(is_right, "positions of a frame that ends with the last row")?;
        let front = (front_start..).zip(parts.chunks_exact(PARTS).map(P::of_parts));
        let mut front: Vec<(u64, P::State)> = front.collect();
        front.reverse();
        self.stacks = TwoStacks::of_parts(front, prefix);
        (self.start, self.end) = (start, rows);
        Ok(())
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.stacks.capacity() * size_of::<(u64, P::State)>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::ScalarBuffer;

    use super::super::row_store::Coming;
    use super::*;

    /// The variances of the last `rows` values, by sums that move and are given the values in runs.
    fn sliding<T: ArrowNativeType, P: Powers + Takes<T>>(values: &[T], rows: u64, run_rows: usize) -> Vec<Option<f64>> {
        let mut kept = ColumnStore::new(false, Some(rows));
        let (mut variances, mut found, mut position) = (Variances::<P>::new(), Vec::new(), 0);
        for values in values.chunks(run_rows) {
            let column = ScalarBuffer::from(values.to_vec());
            kept.append(Coming { values: &column, nulls: None, is_whole: true }, 0..values.len());
            let bounds = Bounds::Rows { position, rows: values.len(), preceding: Some(rows - 1) };
            let mut counts = bounds.steps().flat_map(super::super::frame::Step::lengths);
            variances.slide(&bounds, Entering::new(values, position), Some(&kept), |sums| {
                found.push(P::finalize(sums, counts.next().expect("a frame has rows") as i64, true));
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
                let floats = sliding::<f64, FloatVariance>(&values, rows, run_rows);
                let integers = sliding::<i64, IntegerVariance>(&integers, rows, run_rows);
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
            let found = sliding::<f64, FloatVariance>(&values, rows, 64);
            assert!(found[100].unwrap().is_nan() && found[500].unwrap() > 1e290);
            assert!(found[801..].iter().all(|found| found.is_some_and(|found| (0.25..=0.51).contains(&found))));
        }
        let mut values = vec![5_i64; 1_000];
        values[300] = i64::MIN;
        let found = sliding::<i64, IntegerVariance>(&values, 10, 64);
        assert!(found[300].unwrap() > 1e36 && found[310..].iter().all(|found| *found == Some(0.0)));
    }
}
