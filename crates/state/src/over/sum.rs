//! Sums of frames.

use std::ops::Range;

use arrow::datatypes::ArrowNativeType;
use pelton_data::decimal::DecimalTotal;
use pelton_data::over::Frame;
use pelton_data::wide_float::WideFloat;

use super::frame::{Bounds, Moves, Step};
use super::row_store::ColumnStore;
use super::scan::scan_slices_backwards;
use super::totals::{Entering, Middle, RUN_ROWS, Totals};
use crate::aggregates::{Aggregate, SumDecimal, SumFloat, SumWide, Takes};
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::two_stacks::TwoStacks;
use crate::vector::{extend_prefetching, extend_prefetching_both};

/// The sum of a frame that moves forward.
pub(super) trait FrameSum<T: ArrowNativeType> {
    /// What the sum is.
    type Total: Copy + std::fmt::Debug;

    /// No rows yet. All are `of_one_key`, or these are of one of several.
    fn new(frame: Frame, of_one_key: bool) -> Self;

    /// Appends the sums of the frames of a run to `totals`. `entering` has the run's values, zero for NULL, `kept` those from the start
    /// of the frame before the first on, where rows leave; `buffer` is overwritten.
    fn slide(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, T>,
        kept: Option<&ColumnStore<T>>,
        buffer: &mut Vec<T>,
        totals: &mut Vec<Self::Total>,
    );

    /// Writes what is remembered.
    fn write_to(&self, out: &mut Writer);

    /// Becomes what was written when there were so many rows, those from `start` on in the last frame.
    fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError>;

    /// Bytes of memory held elsewhere.
    fn bytes(&self) -> usize;
}

/// A sum of integers.
pub(super) type IntegerSum = ExactSum<SumWide>;

/// A sum of decimals that knows when it does not fit 128 bits: it is then the smallest number, which has more digits than a decimal.
pub(super) type DecimalSum = ExactSum<SumDecimal>;

/// A sum that is added to, and subtracted from, without loss.
pub(super) trait WholeSum: Takes<i128> {
    fn total(sum: Self::State) -> i128;

    /// Its lower 128 bits, and what comes above.
    fn parts(sum: Self::State) -> (i128, i64);

    fn of_parts(low: i128, carry: i64) -> Self::State;
}

impl WholeSum for SumWide {
    #[inline]
    fn total(sum: i128) -> i128 {
        sum
    }

    fn parts(sum: i128) -> (i128, i64) {
        (sum, 0)
    }

    fn of_parts(low: i128, _carry: i64) -> i128 {
        low
    }
}

impl WholeSum for SumDecimal {
    #[inline]
    fn total(sum: DecimalTotal) -> i128 {
        sum.digits().unwrap_or(i128::MIN)
    }

    fn parts(sum: DecimalTotal) -> (i128, i64) {
        sum.parts()
    }

    fn of_parts(low: i128, carry: i64) -> DecimalTotal {
        DecimalTotal::of_parts(low, carry)
    }
}

/// A sum of integers or decimals: what leaves is subtracted, exactly.
#[derive(Debug)]
pub(super) struct ExactSum<A: Aggregate> {
    sum: A::State,
    /// First row that is in the sum.
    start: u64,
    /// One past the last.
    end: u64,
}

impl<A: WholeSum, T: ArrowNativeType + Into<i128>> FrameSum<T> for ExactSum<A> {
    type Total = i128;

    fn new(_frame: Frame, _of_one_key: bool) -> ExactSum<A> {
        ExactSum { sum: A::EMPTY, start: 0, end: 0 }
    }

    fn slide(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, T>,
        kept: Option<&ColumnStore<T>>,
        _buffer: &mut Vec<T>,
        totals: &mut Vec<i128>,
    ) {
        bounds.steps().for_each(|step| self.slide_step(step, entering, kept, totals));
    }

    fn write_to(&self, out: &mut Writer) {
        let (low, carry) = A::parts(self.sum);
        out.column(&[low]);
        out.column(&[carry]);
        out.number(self.start);
        out.number(self.end);
    }

    fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let low = input.column(1, "a sum")?[0];
        self.sum = A::of_parts(low, input.column(1, "a sum")?[0]);
        (self.start, self.end) = (input.number("the start of a frame")?, input.number("its end")?);
        input.check((self.start, self.end) == (start, rows), "the sum of the last frame")
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl<A: WholeSum> ExactSum<A> {
    fn slide_step<T: ArrowNativeType + Into<i128>>(
        &mut self,
        step: Step,
        entering: Entering<'_, T>,
        kept: Option<&ColumnStore<T>>,
        totals: &mut Vec<i128>,
    ) {
        let Step { rows, start, end, moves } = step;
        let mut sum = self.sum;
        entering.between(self.end, end).iter().for_each(|&value| sum = A::add(sum, value.into()));
        let leaving = |rows: Range<u64>| {
            let kept = (!rows.is_empty()).then(|| kept.expect("a bounded frame looks back"));
            kept.into_iter().flat_map(move |kept| kept.slices(rows.start, rows.end))
        };
        leaving(self.start..start).flatten().for_each(|&value| sum = A::invert(sum, A::of(value.into())));
        totals.push(A::total(sum));
        let further = rows as u64 - 1;
        (self.start, self.end) = (start, end);
        if moves != Moves::Nothing {
            self.end += further;
        }
        let mut entering = entering.between(end, self.end);
        match moves {
            Moves::Nothing => totals.resize(totals.len() + rows - 1, A::total(sum)),
            Moves::End => extend_prefetching(totals, entering, |value| {
                sum = A::add(sum, value.into());
                A::total(sum)
            }),
            Moves::Both => {
                self.start += further;
                for leaving in leaving(start..self.start) {
                    let (now, later) = entering.split_at(leaving.len());
                    extend_prefetching_both(totals, now, leaving, |value, leaving| {
                        sum = A::slide(sum, A::of(value.into()), A::of(leaving.into()));
                        A::total(sum)
                    });
                    entering = later;
                }
            }
        }
        self.sum = sum;
    }
}

/// A sum of doubles from which nothing is ever subtracted: it has no more error than adding the frame's values anew, whatever has
/// passed through it, and an infinity leaves no trace. Where no row ever leaves, whole runs are added in about 106 bits.
pub(super) type FloatSum = Totals<Runs>;

/// Sums of whole runs of rows.
#[derive(Debug)]
pub(super) enum Runs {
    /// Those that leave again.
    Leaving(RunStacks),
    /// The sum of all.
    Growing(WideFloat),
}

/// Sums of whole runs, the first of which leaves first, by one past their last rows.
#[derive(Debug)]
pub(super) struct RunStacks {
    stacks: TwoStacks<u64, f64>,
    /// The runs of the back stack.
    back: Vec<(u64, f64)>,
}

impl RunStacks {
    fn new() -> RunStacks {
        RunStacks { stacks: TwoStacks::new(SumFloat::EMPTY), back: Vec::new() }
    }

    fn push(&mut self, end: u64, sum: f64) {
        self.back.push((end, sum));
        *self.stacks.prefix_mut() += sum;
    }

    /// Takes out the runs that end at `end` or before.
    fn take_until(&mut self, end: u64) {
        loop {
            while self.stacks.pop_until(end).is_some() {}
            if self.stacks.oldest().is_some() || self.back.is_empty() {
                return;
            }
            let behind = |behind: Option<&f64>| behind.copied().unwrap_or(SumFloat::EMPTY);
            self.stacks.flip(self.back.drain(..).rev(), |younger, run| SumFloat::combine(behind(younger), run));
            *self.stacks.prefix_mut() = SumFloat::EMPTY;
        }
    }

    fn total(&self) -> f64 {
        self.stacks.oldest().copied().unwrap_or(SumFloat::EMPTY) + self.stacks.prefix()
    }
}

impl Runs {
    fn leaving(&mut self) -> &mut RunStacks {
        if let Runs::Leaving(runs) = self { runs } else { unreachable!("no row leaves an unbounded frame") }
    }
}

impl Middle for Runs {
    type Of = SumFloat;

    type Value = f64;

    fn enter(&mut self, _values: &[f64]) {}

    fn end_run(&mut self, end: u64, total: f64) {
        match self {
            Runs::Leaving(runs) => runs.push(end, total),
            Runs::Growing(sum) => {
                let plain = sum.high + total;
                let wide = sum.plus(WideFloat::new(total));
                // Infinities have no 106 bits.
                *sum = if plain.is_finite() { wide } else { WideFloat::new(plain) };
            }
        }
    }

    fn leave_until(&mut self, end: u64) {
        self.leaving().take_until(end);
    }

    fn take_until(&mut self, start: u64, end: u64, kept: Option<&ColumnStore<f64>>, front: &mut Vec<f64>) {
        self.leave_until(end);
        // All are overwritten, so that it does not matter what they are.
        front.resize((end - start) as usize, 0.0);
        scan_slices_backwards::<SumFloat>(kept.expect("a bounded frame looks back").slices(start, end), front);
    }

    fn take_last(&mut self, start: u64, end: u64, kept: Option<&ColumnStore<f64>>, front: &mut Vec<f64>) {
        self.take_until(start, end, kept, front);
    }

    fn total(&self) -> f64 {
        match self {
            Runs::Leaving(runs) => runs.total(),
            Runs::Growing(sum) => sum.high,
        }
    }

    fn write_to(&self, out: &mut Writer) {
        match self {
            Runs::Leaving(runs) => {
                for stack in [runs.stacks.front(), &runs.back] {
                    let (ends, sums): (Vec<u64>, Vec<f64>) = stack.iter().copied().unzip();
                    out.list(&ends);
                    out.column(&sums);
                }
                out.column(&[*runs.stacks.prefix()]);
            }
            Runs::Growing(WideFloat { high, low }) => out.column(&[*high, *low]),
        }
    }

    fn read_from(&mut self, whole: Range<u64>, _last_rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        match self {
            Runs::Leaving(runs) => {
                let mut stacks = [Vec::new(), Vec::new()];
                for stack in &mut stacks {
                    let ends = input.list::<u64>("ends of runs")?;
                    let sums = input.column::<f64>(ends.len(), "sums of runs")?;
                    *stack = ends.iter().copied().zip(sums.iter().copied()).collect();
                }
                let [front, back] = stacks;
                let ends = front.iter().rev().chain(&back).map(|(end, _)| *end);
                let first = (whole.start + 1).next_multiple_of(RUN_ROWS);
                let are_all = ends.eq((first..=whole.end).step_by(RUN_ROWS as usize));
                input.check(are_all, "the ends of all whole runs, in their order")?;
                let prefix = input.column(1, "a sum of runs")?[0];
                *runs = RunStacks { stacks: TwoStacks::of_parts(front, prefix), back };
            }
            Runs::Growing(sum) => {
                let parts = input.column(2, "the sum of all runs")?;
                *sum = WideFloat { high: parts[0], low: parts[1] };
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        match self {
            Runs::Leaving(runs) => (runs.stacks.capacity() + runs.back.capacity()) * size_of::<(u64, f64)>(),
            Runs::Growing(_) => 0,
        }
    }
}

impl FrameSum<f64> for FloatSum {
    type Total = f64;

    fn new(frame: Frame, of_one_key: bool) -> FloatSum {
        Totals::new(frame, of_one_key, |is_bounded| match is_bounded {
            true => Runs::Leaving(RunStacks::new()),
            false => Runs::Growing(WideFloat::default()),
        })
    }

    fn slide(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, f64>,
        kept: Option<&ColumnStore<f64>>,
        buffer: &mut Vec<f64>,
        totals: &mut Vec<f64>,
    ) {
        Totals::slide(self, bounds, entering, kept, buffer, totals);
    }

    fn write_to(&self, out: &mut Writer) {
        Totals::write_to(self, out);
    }

    fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        Totals::read_from(self, start, rows, input)
    }

    fn bytes(&self) -> usize {
        Totals::bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::ScalarBuffer;
    use arrow::datatypes::ArrowNativeType;

    use super::super::row_store::Coming;
    use super::*;

    /// Sums of the last `rows` values, each computed anew.
    fn fresh(values: &[f64], rows: usize) -> Vec<f64> {
        (0..values.len()).map(|row| values[(row + 1).saturating_sub(rows)..=row].iter().sum()).collect()
    }

    /// The same by a sum that moves, which is given the values in runs.
    fn sliding<S: FrameSum<T>, T: ArrowNativeType>(
        values: &[T],
        rows: u64,
        run_rows: usize,
        of_one_key: bool,
    ) -> Vec<S::Total> {
        let mut kept = ColumnStore::new(false, Some(rows));
        let frame = Frame::Rows { preceding: Some(rows - 1) };
        let (mut sum, mut buffer) = (S::new(frame, of_one_key), Vec::new());
        let (mut sums, mut position) = (Vec::new(), 0);
        for values in values.chunks(run_rows) {
            let column = ScalarBuffer::from(values.to_vec());
            kept.append(Coming { values: &column, nulls: None, is_whole: true }, 0..values.len());
            let bounds = Bounds::Rows { position, rows: values.len(), preceding: Some(rows - 1) };
            sum.slide(&bounds, Entering::new(values, position), Some(&kept), &mut buffer, &mut sums);
            position += values.len() as u64;
            kept.forget((position).saturating_sub(rows));
        }
        sums
    }

    #[test]
    fn a_sliding_sum_is_a_fresh_one() {
        let values: Vec<f64> = (0..5_000).map(|row| f64::from(row * 7_919 % 1_009 - 500)).collect();
        let integers: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        for rows in [1, 2, 3, 10, 500, 1023, 1024, 1025, 2500, 20_000] {
            let fresh = fresh(&values, rows as usize);
            for run_rows in [1, 100, 3000] {
                for of_one_key in [false, true] {
                    let sums = sliding::<FloatSum, _>(&values, rows, run_rows, of_one_key);
                    assert_eq!(sums, fresh, "{rows} rows in runs of {run_rows}");
                }
                let whole: Vec<i128> = fresh.iter().map(|&sum| sum as i128).collect();
                assert_eq!(sliding::<IntegerSum, _>(&integers, rows, run_rows, true), whole);
            }
        }
    }

    #[test]
    fn what_is_rounded_does_not_depend_on_runs() {
        let values: Vec<f64> = (0..10_000).map(|row| f64::from(row * 7_919 % 1_009) / 7.0).collect();
        for rows in [2, 30, 300, 1000, 5000] {
            for (of_one_key, run_rows) in [(false, 1), (false, 7), (false, 1000), (true, 1), (true, 7), (true, 1000)] {
                let whole = sliding::<FloatSum, _>(&values, rows, 10_000, of_one_key);
                let sums = sliding::<FloatSum, _>(&values, rows, run_rows, of_one_key);
                assert_eq!(sums, whole, "{rows} rows in runs of {run_rows}");
            }
        }
    }

    #[test]
    fn what_has_passed_leaves_no_trace() {
        let mut values: Vec<f64> = (0..20_000).map(|row| f64::from(row % 100) / 8.0).collect();
        for (row, spike) in [(100, 1e300), (3_000, f64::INFINITY), (7_000, f64::NAN), (11_111, -1e17)] {
            values[row] = spike;
        }
        for rows in [5, 700, 1_500] {
            let (sums, fresh) = (sliding::<FloatSum, _>(&values, rows, 4096, false), fresh(&values, rows as usize));
            for (row, (sum, fresh)) in sums.iter().zip(&fresh).enumerate() {
                let is_calm = fresh.abs() < 1e6;
                assert!(!is_calm || sum == fresh, "row {row} of {rows}: {sum} is not {fresh}");
            }
            assert!(sums[19_999].is_finite());
        }
    }

    #[test]
    fn a_growing_sum_does_not_drift() {
        let mut sum = <FloatSum as FrameSum<f64>>::new(Frame::Rows { preceding: None }, true);
        let (values, mut sums, mut naive) = (vec![0.1; 10_000], Vec::new(), 0.0);
        for position in (0..10_000_000).step_by(values.len()) {
            sums.clear();
            let bounds = Bounds::Rows { position, rows: values.len(), preceding: None };
            let entering = Entering::new(values.as_slice(), position);
            sum.slide(&bounds, entering, None, &mut Vec::new(), &mut sums);
            values.iter().for_each(|value| naive += value);
        }
        assert!((sums[9_999] / 1e6 - 1.0).abs() < 1e-13);
        assert!((naive / 1e6 - 1.0_f64).abs() > 1e-11, "a plain sum drifts: the test would see it");
    }
}
