//! Calls over all values of a frame: over the distinct ones, the most frequent, and the one at a place in their order.

use std::ops::Range;

use pelton_data::decimal::DecimalTotal;
use pelton_data::over::{OverCall, OverFunction};
use pelton_data::percentile::{between, continuous_place, discrete_place};

use super::call::{KeyRows, Run, Scratch, push};
use super::frequencies::{Findable, Frequencies};
use super::planned::Percentile;
use super::ranked::Ranked;
use super::value::{Counts, DecimalMean, Overflow, Results, Value};
use crate::snapshot::{Reader, SnapshotError, Writer};

/// The values of a frame that are not NULL.
#[derive(Debug)]
pub(super) struct Held<T: Value> {
    values: HeldValues<T::Key>,
    /// Of the distinct ones, where it is asked for.
    sum: Option<DecimalTotal>,
    members: Members,
}

/// Values, as a call needs them.
#[derive(Debug)]
pub(super) enum HeldValues<K> {
    /// How often each comes.
    Frequencies(Frequencies<K>),
    /// In their order.
    Ranked(Ranked<K>),
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
    /// What a function needs; `None` where that is not all values.
    pub fn of(function: &OverFunction) -> Option<HeldValues<K>> {
        Some(match function {
            OverFunction::CountDistinct | OverFunction::SumDistinct | OverFunction::MeanDistinct => {
                HeldValues::Frequencies(Frequencies::new(false))
            }
            OverFunction::Mode => HeldValues::Frequencies(Frequencies::new(true)),
            OverFunction::Percentile { .. } => HeldValues::Ranked(Ranked::new()),
            _ => return None,
        })
    }

    /// Takes a value. Whether it is counted, and there was none like it.
    pub fn enter(&mut self, value: &K::Borrowed) -> bool {
        match self {
            HeldValues::Frequencies(frequencies) => frequencies.enter(value, 1),
            HeldValues::Ranked(ranked) => {
                ranked.enter(value);
                false
            }
        }
    }

    /// Takes a value out that has come. Whether it is counted, and there is none like it any more.
    pub fn leave(&mut self, value: &K::Borrowed) -> bool {
        match self {
            HeldValues::Frequencies(frequencies) => frequencies.leave(value),
            HeldValues::Ranked(ranked) => {
                ranked.leave(value);
                false
            }
        }
    }

    /// How many are distinct, where they are counted, or how many there are.
    pub fn count(&self) -> usize {
        match self {
            HeldValues::Frequencies(frequencies) => frequencies.distinct(),
            HeldValues::Ranked(ranked) => ranked.len(),
        }
    }

    /// The one that a function picks, the most frequent or a percentile; `None` where there are none.
    pub fn picked(&self, function: &OverFunction) -> Option<&K> {
        match (self, function) {
            (HeldValues::Frequencies(frequencies), _) => frequencies.mode(),
            (HeldValues::Ranked(ranked), OverFunction::Percentile { fraction, .. }) if ranked.len() > 0 => {
                Some(ranked.nth(discrete_place(ranked.len(), *fraction, false)))
            }
            (HeldValues::Ranked(_), _) => None,
        }
    }

    /// All in ascending order, and, where they are counted, each once and how often it comes.
    pub fn in_order(&self) -> (Vec<&K>, Vec<u64>) {
        match self {
            HeldValues::Frequencies(frequencies) => frequencies.in_order().into_iter().unzip(),
            HeldValues::Ranked(ranked) => (ranked.iter().collect(), Vec::new()),
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
        match self {
            HeldValues::Frequencies(frequencies) => {
                let sum = counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
                let are_right =
                    sum.is_some_and(|sum| sum <= rows) && !counts.contains(&0) && counts.len() == values.len();
                are_right && values.zip(counts).all(|(value, &count)| frequencies.enter(value, count))
            }
            HeldValues::Ranked(ranked) => {
                let are_right = values.len() as u64 <= rows && counts.is_empty();
                values.for_each(|value| ranked.enter(value));
                are_right
            }
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        match self {
            HeldValues::Frequencies(frequencies) => frequencies.bytes(),
            HeldValues::Ranked(ranked) => ranked.bytes(),
        }
    }
}

impl<T: Value> Held<T> {
    /// What a call holds; `None` where it holds no values.
    pub fn new(call: &OverCall) -> Option<Held<T>> {
        let is_summed = matches!(call.function, OverFunction::SumDistinct | OverFunction::MeanDistinct);
        let members = Members::new(call.frame.is_bounded());
        let values = HeldValues::of(&call.function)?;
        Some(Held { values, sum: is_summed.then(DecimalTotal::default), members })
    }

    /// Appends the result of each row of a run.
    ///
    /// # Errors
    /// Where a sum or mean does not fit its type.
    pub fn compute(
        &mut self,
        call: &OverCall,
        run: &Run<'_, T>,
        decimal: Option<DecimalMean>,
        scratch: &mut Scratch<T>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        scratch.counts.clear();
        let first = if self.sum.is_some() { T::totals(results, &mut scratch.totals).len() } else { 0 };
        for frame in run.bounds.frames() {
            self.move_to(frame, run);
            self.push_result(&call.function, scratch, results);
        }
        let Scratch { totals, counts, .. } = scratch;
        match call.function {
            OverFunction::CountDistinct => results.append_valid(run.values.len()),
            OverFunction::SumDistinct => T::finish_sums(totals, first, results)?,
            OverFunction::MeanDistinct => T::finish_means(totals, first, Counts::Valid(counts), decimal, results)?,
            // These know by themselves which are NULL.
            _ => {}
        }
        results.append_validity(counts.iter().map(|&count| count > 0));
        Ok(())
    }

    /// Appends the percentiles of each row of a run to the results of their calls.
    pub fn percentiles(&mut self, percentiles: &[Percentile], run: &Run<'_, T>, results: &mut [Results]) {
        for frame in run.bounds.frames() {
            self.move_to(frame, run);
            for (call, function) in percentiles {
                push_percentile::<T>(&self.values, function, &mut results[*call]);
            }
        }
    }

    /// Takes in what enters with a frame of a run, and out what leaves.
    fn move_to(&mut self, frame: (u64, u64), run: &Run<'_, T>) {
        let (entering, leaving) = self.members.move_to(frame);
        let kept = |row: u64| run.kept.filter(|kept| kept.is_valid(row)).map(|kept| kept.get(row));
        let entering = entering.filter_map(|row| if row < run.position { kept(row) } else { run.value(row) });
        for value in entering {
            if self.values.enter(&value.key()) {
                self.sum = self.sum.map(|sum| sum.plus(value.exact()));
            }
        }
        for value in leaving.filter_map(kept) {
            if self.values.leave(&value.key()) {
                self.sum = self.sum.map(|sum| sum.minus(value.exact()));
            }
        }
    }

    /// Appends the result of a frame; of a sum or mean what it is made of.
    fn push_result(&self, function: &OverFunction, scratch: &mut Scratch<T>, results: &mut Results) {
        match function {
            OverFunction::SumDistinct | OverFunction::MeanDistinct => {
                T::totals(results, &mut scratch.totals).push(T::total(self.sum.unwrap_or_default()));
                scratch.counts.push(self.values.count() as u64);
            }
            OverFunction::CountDistinct => results.integers().push(self.values.count() as i64),
            function => push(self.values.picked(function).map(|&key| T::of_key(key)), results),
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
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
        if let Some(sum) = &mut self.sum {
            *sum = values.iter().fold(*sum, |sum, &value| sum.plus(T::of_key(value).exact()));
        }
        input.check(is_right, "values of rows that have come")
    }
}

fn push_percentile<T: Value>(values: &HeldValues<T::Key>, function: &OverFunction, results: &mut Results) {
    match (values, function) {
        (HeldValues::Ranked(ranked), OverFunction::Percentile { fraction, is_continuous: true }) => {
            let percentile = continuous_percentile::<T>(ranked, *fraction);
            results.floats().push(percentile.unwrap_or_default());
            results.append_validity(std::iter::once(percentile.is_some()));
        }
        (values, function) => push(values.picked(function).map(|&key| T::of_key(key)), results),
    }
}

fn continuous_percentile<T: Value>(ranked: &Ranked<T::Key>, fraction: f64) -> Option<f64> {
    let last = ranked.len().checked_sub(1)?;
    let (place, share) = continuous_place(ranked.len(), fraction, false);
    let value = |place: usize| T::of_key(*ranked.nth(place)).float();
    let low = value(place);
    let high = if share > 0.0 { value((place + 1).min(last)) } else { low };
    Some(between(low, high, share))
}
