//! Calls over all values of a frame: over the distinct ones, the most frequent, and the one at a place in their order.

use std::ops::Range;

use pelton_data::over::OverFunction;
use pelton_data::percentile::{between, continuous_place, discrete_place};

use super::call::{KeyRows, Run, Scratch, push};
use super::distinct::DistinctSums;
use super::frequencies::{Findable, Frequencies};
use super::order_statistics::OrderStatistics;
use super::value::{Counts, DecimalMean, Overflow, Results, Value};
use crate::snapshot::{Reader, SnapshotError, Writer};

/// A call whose values are held, and which of all calls it is.
#[derive(Debug, Clone)]
pub(super) struct HeldCall {
    pub index: usize,
    pub function: OverFunction,
    pub decimal: Option<DecimalMean>,
}

/// The values of a frame that are not NULL.
#[derive(Debug)]
pub(super) struct Held<T: Value> {
    values: HeldValues<T::Key>,
    /// Of the distinct ones, where it is asked for.
    sums: Option<Box<T::DistinctSums>>,
    members: Members,
}

/// Values, as calls need them.
#[derive(Debug)]
pub(super) struct HeldValues<K> {
    /// How often each comes, where distinct ones are looked for.
    frequencies: Option<Frequencies<K>>,
    /// In their order, each once where distinct ones are looked for.
    ranked: Option<OrderStatistics<K>>,
}

/// The rows of a frame whose values are held.
#[derive(Debug)]
pub(super) struct Members {
    start: u64,
    end: u64,
    /// Whether rows leave again. Where they do, values are kept that are held, and need not be written down.
    pub is_bounded: bool,
}

impl Members {
    pub fn new(is_bounded: bool) -> Members {
        Members { start: 0, end: 0, is_bounded }
    }

    /// Moves on to a frame: which rows enter, and which leave then.
    pub fn move_to(&mut self, (start, end): (u64, u64)) -> (Range<u64>, Range<u64>) {
        let entering = self.end..end.max(self.end);
        let leaving = self.start..start.max(self.start);
        (self.start, self.end) = (leaving.end, entering.end);
        (entering, leaving)
    }

    /// The first row that is in it.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// As when rows had come of a key whose snapshot is read.
    pub fn resume(&mut self, rows: &KeyRows) {
        (self.start, self.end) = (rows.frame_start, rows.end);
    }

    /// The same, and values that are kept enter again.
    pub fn begin_again(&mut self, rows: &KeyRows) {
        self.start = rows.frame_start;
        self.end = if self.is_bounded { rows.frame_start } else { rows.end };
    }
}

impl<K: Findable> HeldValues<K> {
    /// What calls over one frame of values need, all of which count values, or none; `None` where there are no calls.
    pub fn of(calls: &[HeldCall], counts_values: bool) -> Option<HeldValues<K>> {
        let any = |is_it: fn(&OverFunction) -> bool| calls.iter().any(|call| is_it(&call.function));
        let has_modes = any(|function| *function == OverFunction::Mode);
        let has_percentiles = any(|function| matches!(function, OverFunction::Percentile { .. }));
        let frequencies = counts_values.then(|| Frequencies::new(has_modes));
        let ranked = has_percentiles.then(OrderStatistics::new);
        (!calls.is_empty()).then_some(HeldValues { frequencies, ranked })
    }

    /// Takes a value. Whether distinct ones are looked for, and there was none like it.
    pub fn enter(&mut self, value: &K::Borrowed) -> bool {
        self.enter_times(value, 1)
    }

    fn enter_times(&mut self, value: &K::Borrowed, times: u64) -> bool {
        let is_new = self.frequencies.as_mut().map(|frequencies| frequencies.enter(value, times));
        if let Some(ranked) = self.ranked.as_mut().filter(|_| is_new.unwrap_or(true)) {
            ranked.enter(value);
        }
        is_new.unwrap_or_default()
    }

    /// Takes a value out that has come. Whether distinct ones are looked for, and there is none like it any more.
    pub fn leave(&mut self, value: &K::Borrowed) -> bool {
        let is_gone = self.frequencies.as_mut().map(|frequencies| frequencies.leave(value));
        if let Some(ranked) = self.ranked.as_mut().filter(|_| is_gone.unwrap_or(true)) {
            ranked.leave(value);
        }
        is_gone.unwrap_or_default()
    }

    /// How many are distinct, where those are looked for.
    pub fn distinct(&self) -> u64 {
        self.frequencies.as_ref().map_or(0, Frequencies::distinct) as u64
    }

    /// Those in their order.
    fn ranked(&self) -> &OrderStatistics<K> {
        self.ranked.as_ref().expect("values are in order where there are percentiles")
    }

    /// The one that a function picks, the most frequent or a percentile; `None` where there are none.
    pub fn picked(&self, function: &OverFunction) -> Option<&K> {
        match function {
            OverFunction::Percentile { fraction, is_descending, .. } => {
                let ranked = self.ranked();
                (ranked.len() > 0).then(|| ranked.nth(discrete_place(ranked.len(), *fraction, *is_descending)))
            }
            _ => self.frequencies.as_ref().expect("values are counted where there are modes").mode(),
        }
    }

    /// All in ascending order, and, where they are counted, each once and how often it comes.
    pub fn in_order(&self) -> (Vec<&K>, Vec<u64>) {
        match &self.frequencies {
            Some(frequencies) => frequencies.in_order().into_iter().unzip(),
            None => (self.ranked().iter().collect(), Vec::new()),
        }
    }

    /// Takes what was in order, of no more rows than so many: whether it can have been.
    #[must_use]
    pub fn restore<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = &'v K::Borrowed>,
        counts: &[u64],
        rows: u64,
    ) -> bool
    where
        K: 'v,
    {
        if self.frequencies.is_none() {
            let are_right = values.len() as u64 <= rows && counts.is_empty();
            values.for_each(|value| {
                self.enter(value);
            });
            return are_right;
        }
        let sum = counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        let are_right = sum.is_some_and(|sum| sum <= rows) && !counts.contains(&0) && counts.len() == values.len();
        are_right && values.zip(counts).all(|(value, &count)| self.enter_times(value, count))
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.frequencies.as_ref().map_or(0, Frequencies::bytes) + self.ranked.as_ref().map_or(0, OrderStatistics::bytes)
    }
}

impl<T: Value> Held<T> {
    /// What calls over one frame of values hold, all of which count values, or none; `None` where there are no calls.
    pub fn new(calls: &[HeldCall], counts_values: bool, is_bounded: bool) -> Option<Held<T>> {
        let have_variances = calls.iter().any(|call| matches!(call.function, OverFunction::Variance { .. }));
        let have_sums = calls.iter().any(|call| matches!(call.function, OverFunction::Sum | OverFunction::Mean));
        let sums = (have_sums || have_variances).then(|| Box::new(DistinctSums::new(have_variances)));
        let values = HeldValues::of(calls, counts_values)?;
        Some(Held { values, sums, members: Members::new(is_bounded) })
    }

    /// Appends the results of each row of a run to those of their calls.
    ///
    /// # Errors
    /// Where a sum or mean does not fit its type.
    pub fn compute(
        &mut self,
        calls: &[HeldCall],
        run: &Run<'_, T>,
        scratch: &mut Scratch<T>,
        results: &mut [Results],
    ) -> Result<(), Overflow> {
        run.bounds.frames().try_for_each(|frame| {
            self.move_to(frame, run);
            calls.iter().try_for_each(|call| self.push_result(call, scratch, &mut results[call.index]))
        })
    }

    /// Takes in what enters with a frame of a run, and out what leaves.
    fn move_to(&mut self, frame: (u64, u64), run: &Run<'_, T>) {
        let (entering, leaving) = self.members.move_to(frame);
        let kept = |row: u64| run.kept.filter(|kept| kept.is_valid(row)).map(|kept| kept.get(row));
        let entering = entering.filter_map(|row| if row < run.position { kept(row) } else { run.value(row) });
        for value in entering {
            if let (true, Some(sums)) = (self.values.enter(&value.key()), &mut self.sums) {
                sums.enter(value);
            }
        }
        for value in leaving.filter_map(kept) {
            if let (true, Some(sums)) = (self.values.leave(&value.key()), &mut self.sums) {
                sums.leave(value);
            }
        }
    }

    /// Appends the result of a frame.
    fn push_result(
        &self,
        HeldCall { function, decimal, .. }: &HeldCall,
        scratch: &mut Scratch<T>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        let count = self.values.distinct();
        match function {
            OverFunction::Count => {
                results.integers().push(count as i64);
                results.append_valid(1);
            }
            OverFunction::Sum | OverFunction::Mean => {
                let totals = T::totals(results, &mut scratch.totals);
                let first = totals.len();
                totals.push(self.sums().total());
                match function {
                    OverFunction::Sum => T::finish_sums(&mut scratch.totals, first, results)?,
                    _ => T::finish_means(&mut scratch.totals, first, Counts::Valid(&[count]), *decimal, results)?,
                }
                results.append_validity(std::iter::once(count > 0));
            }
            OverFunction::Variance { is_sample, is_root } => {
                let variance = self.sums().variance(count, *is_sample);
                push(variance.map(|variance| if *is_root { variance.sqrt() } else { variance }), results);
            }
            OverFunction::Percentile { fraction, is_continuous: true, is_descending } => {
                push(continuous_percentile::<T>(self.values.ranked(), *fraction, *is_descending), results);
            }
            function => push(self.values.picked(function).map(|&key| T::of_key(key)), results),
        }
        Ok(())
    }

    fn sums(&self) -> &T::DistinctSums {
        self.sums.as_ref().expect("sums are kept where they are asked for")
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.values.bytes() + self.sums.as_ref().map_or(0, |sums| sums.bytes())
    }

    /// Writes the values of which nothing else is kept.
    pub fn write_to(&self, out: &mut Writer) {
        if !self.members.is_bounded {
            let (values, counts) = self.values.in_order();
            out.list(&values.into_iter().copied().collect::<Vec<_>>());
            out.list(&counts);
        }
    }

    /// Becomes what was written.
    pub fn read_from(&mut self, rows: &KeyRows, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.members.begin_again(rows);
        if self.members.is_bounded {
            return Ok(());
        }
        let values = input.list::<T::Key>("values")?;
        let counts = input.list::<u64>("how often each value comes")?;
        let is_right = self.values.restore(values.iter(), &counts, rows.end);
        if let Some(sums) = &mut self.sums {
            values.iter().for_each(|&value| sums.enter(T::of_key(value)));
        }
        input.check(is_right, "values of rows that have come")
    }
}

fn continuous_percentile<T: Value>(
    ranked: &OrderStatistics<T::Key>,
    fraction: f64,
    is_descending: bool,
) -> Option<f64> {
    let last = ranked.len().checked_sub(1)?;
    let (place, share) = continuous_place(ranked.len(), fraction, is_descending);
    let value = |place: usize| T::of_key(*ranked.nth(place)).float();
    let low = value(place);
    let high = if share > 0.0 { value((place + 1).min(last)) } else { low };
    Some(between(low, high, share))
}
