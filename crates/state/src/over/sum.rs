//! Sums of frames.

use pelton_data::wide_float::WideFloat;

use super::row_store::ColumnStore;

/// Rows whose sum is kept as one number where they neither begin nor end a frame.
const RUN_ROWS: u64 = 1024;

/// The sum of a frame that moves forward.
pub(super) trait FrameSum<T> {
    /// What the sum is.
    type Total: Copy;

    /// No rows yet. Rows leave where the frame `is_bounded` only.
    fn new(is_bounded: bool) -> Self;

    /// The value at `position`, behind all others, enters.
    fn push(&mut self, position: u64, value: T);

    /// The frame begins at `start` from now on: what lies before leaves. `end` is one past the last row that entered, and `kept`
    /// holds the values from `start`'s predecessor on.
    fn evict(&mut self, start: u64, end: u64, kept: &ColumnStore<T>);

    /// The sum.
    fn total(&self) -> Self::Total;

    /// Bytes of memory held elsewhere.
    fn bytes(&self) -> usize;
}

/// A sum of integers or decimals in 128 bits: what leaves is subtracted, exactly.
#[derive(Debug, Default)]
pub(super) struct IntegerSum {
    sum: i128,
    /// First row that is in the sum.
    start: u64,
}

impl<T: Copy + Default + Into<i128>> FrameSum<T> for IntegerSum {
    type Total = i128;

    fn new(_is_bounded: bool) -> IntegerSum {
        IntegerSum::default()
    }

    #[inline]
    fn push(&mut self, _position: u64, value: T) {
        self.sum = self.sum.wrapping_add(value.into());
    }

    #[inline]
    fn evict(&mut self, start: u64, _end: u64, kept: &ColumnStore<T>) {
        for position in self.start..start {
            self.sum = self.sum.wrapping_sub(kept.get(position).into());
        }
        self.start = start;
    }

    #[inline]
    fn total(&self) -> i128 {
        self.sum
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// A sum of doubles from which nothing is ever subtracted: it has no more error than adding the frame's values anew, whatever has
/// passed through it, and an infinity leaves no trace.
///
/// It is two stacks (Tangwongsan et al., General incremental sliding-window aggregation, 2015, section 3.1) on two levels. `front` has for
/// each row that leaves next the sum from it to the end of its run; `back` sums the run that rows enter; between them there are
/// whole runs, whose sums lie on two stacks of their own. So a frame of any length costs a few additions a row, and little memory
/// beside its values. A row that leaves is popped; when `front` is empty, the next run is summed up backwards. Where no row ever
/// leaves, whole runs are added in about 106 bits.
#[derive(Debug)]
pub(super) struct FloatSum {
    /// The sum from each row to `front_end`, the first row last.
    front: Vec<f64>,
    /// One past the last row of `front`.
    front_end: u64,
    runs: Runs,
    /// The sum of all of `runs`.
    runs_total: f64,
    /// The sum of the rows after these.
    back: f64,
}

/// Whole runs of rows.
#[derive(Debug)]
enum Runs {
    /// Those that leave again.
    Leaving(TwoStacks),
    /// The sum of all.
    Growing(WideFloat),
}

/// Sums of whole runs, the first of which leaves first.
#[derive(Debug, Default)]
struct TwoStacks {
    /// For each run that leaves next, one past its last row, and the sum from it to the last run of this stack. The first run is last.
    front: Vec<(u64, f64)>,
    /// The runs that entered since: one past its last row, and its sum.
    back: Vec<(u64, f64)>,
    /// Sum of `back`.
    back_sum: f64,
}

impl TwoStacks {
    fn push(&mut self, end: u64, sum: f64) {
        self.back.push((end, sum));
        self.back_sum += sum;
    }

    /// Takes the first run out. Returns one past its last row.
    fn pop(&mut self) -> Option<u64> {
        if self.front.is_empty() {
            let mut sum = 0.0;
            while let Some((end, run)) = self.back.pop() {
                sum += run;
                self.front.push((end, sum));
            }
            self.back_sum = 0.0;
        }
        self.front.pop().map(|(end, _)| end)
    }

    fn total(&self) -> f64 {
        self.front.last().map_or(0.0, |front| front.1) + self.back_sum
    }
}

impl FloatSum {
    /// Puts the rows that entered since the last run into a run of their own.
    fn end_run(&mut self, end: u64) {
        self.runs_total = match &mut self.runs {
            Runs::Leaving(runs) => {
                runs.push(end, self.back);
                runs.total()
            }
            Runs::Growing(sum) => {
                let plain = sum.high + self.back;
                let wide = sum.plus(WideFloat::new(self.back));
                // Infinities have no 106 bits.
                *sum = if plain.is_finite() { wide } else { WideFloat::new(plain) };
                sum.high
            }
        };
        self.back = 0.0;
    }

    /// Sums up backwards what leaves next, from `start` on.
    #[cold]
    fn refill(&mut self, start: u64, end: u64, kept: &ColumnStore<f64>) {
        let Runs::Leaving(runs) = &mut self.runs else { unreachable!("no row leaves an unbounded frame") };
        self.front_end = loop {
            match runs.pop() {
                Some(run_end) if run_end <= start => {}
                Some(run_end) => break run_end,
                None => {
                    self.back = 0.0;
                    break end;
                }
            }
        };
        self.runs_total = runs.total();
        self.front.clear();
        let mut sum = 0.0;
        for slice in kept.slices_backwards(start, self.front_end) {
            self.front.extend(slice.iter().rev().map(|value| {
                sum += value;
                sum
            }));
        }
    }
}

impl FrameSum<f64> for FloatSum {
    type Total = f64;

    fn new(is_bounded: bool) -> FloatSum {
        let runs = if is_bounded { Runs::Leaving(TwoStacks::default()) } else { Runs::Growing(WideFloat::default()) };
        FloatSum { front: Vec::new(), front_end: 0, runs, runs_total: 0.0, back: 0.0 }
    }

    #[inline]
    fn push(&mut self, position: u64, value: f64) {
        self.back += value;
        if (position + 1).is_multiple_of(RUN_ROWS) {
            self.end_run(position + 1);
        }
    }

    #[inline]
    fn evict(&mut self, start: u64, end: u64, kept: &ColumnStore<f64>) {
        if start < self.front_end {
            self.front.truncate((self.front_end - start) as usize);
        } else {
            self.refill(start, end, kept);
        }
    }

    #[inline]
    fn total(&self) -> f64 {
        self.front.last().map_or(0.0, |front| *front) + self.runs_total + self.back
    }

    fn bytes(&self) -> usize {
        let runs = match &self.runs {
            Runs::Leaving(runs) => (runs.front.capacity() + runs.back.capacity()) * size_of::<(u64, f64)>(),
            Runs::Growing(_) => 0,
        };
        self.front.capacity() * 8 + runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of the last `rows` values, each computed anew.
    fn fresh(values: &[f64], rows: usize) -> Vec<f64> {
        (0..values.len()).map(|row| values[(row + 1).saturating_sub(rows)..=row].iter().sum()).collect()
    }

    fn sliding(values: &[f64], rows: u64) -> Vec<f64> {
        let mut kept = ColumnStore::new(false, Some(rows));
        let mut sum = FloatSum::new(true);
        let mut sums = Vec::new();
        for (position, &value) in (0_u64..).zip(values) {
            kept.append(&[value], None, 0..1);
            sum.push(position, value);
            let start = (position + 1).saturating_sub(rows);
            if start > 0 {
                sum.evict(start, position + 1, &kept);
            }
            kept.forget(start);
            sums.push(sum.total());
        }
        sums
    }

    #[test]
    fn a_sliding_sum_is_a_fresh_one() {
        let values: Vec<f64> = (0..10_000).map(|row| f64::from(row * 7_919 % 1_009 - 500)).collect();
        for rows in [1, 2, 3, 10, 500, 1023, 1024, 1025, 2500, 9_999, 20_000] {
            assert_eq!(sliding(&values, rows), fresh(&values, rows as usize), "{rows} rows");
        }
    }

    #[test]
    fn what_has_passed_leaves_no_trace() {
        let mut values: Vec<f64> = (0..20_000).map(|row| f64::from(row % 100) / 8.0).collect();
        for (row, spike) in [(100, 1e300), (3_000, f64::INFINITY), (7_000, f64::NAN), (11_111, -1e17)] {
            values[row] = spike;
        }
        for rows in [5, 700, 1_500] {
            let (sums, fresh) = (sliding(&values, rows), fresh(&values, rows as usize));
            for (row, (sum, fresh)) in sums.iter().zip(&fresh).enumerate() {
                let is_calm = fresh.abs() < 1e6;
                assert!(!is_calm || sum == fresh, "row {row} of {rows}: {sum} is not {fresh}");
            }
            assert!(sums[19_999].is_finite());
        }
    }

    #[test]
    fn a_growing_sum_does_not_drift() {
        let mut sum = FloatSum::new(false);
        let mut naive = 0.0;
        for position in 0..10_000_000 {
            sum.push(position, 0.1);
            naive += 0.1;
        }
        assert!((sum.total() / 1e6 - 1.0).abs() < 1e-13);
        assert!((naive / 1e6 - 1.0_f64).abs() > 1e-11, "a plain sum drifts: the test would see it");
    }
}
