//! One call over the rows of one key.

use arrow::array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType};
use hashbrown::HashSet;
use pelton_data::over::{OverCall, OverFunction};

use super::extreme::{Candidates, Key};
use super::frame::{Bounds, Moves, Step};
use super::held::Held;
use super::planned::PlannedCall;
use super::row_store::ColumnStore;
use super::scanned::Scanned;
use super::sum::FrameSum;
use super::text::TextState;
use super::totals::{Entering, Totals};
use super::udaf::UdafState;
use super::valid_count::ValidCount;
use super::value::{Counts, DecimalMean, Form, Overflow, Results, Value};
use super::variance::Variances;
use crate::aggregates::{Aggregate, Minimum, Variance};
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::vector::{extend_prefetching, vectorised};

/// What a call remembers of the rows of one key.
#[derive(Debug)]
pub(super) enum CallState {
    /// Nothing: positions are enough.
    Positions,
    /// How many times there were.
    Times(u64),
    Integer(FrameState<i64>),
    Float(FrameState<f64>),
    Decimal(FrameState<i128>),
    Bytes(TextState),
    /// Rows and states.
    Udaf(Box<UdafState>),
    /// Nothing: an earlier call has what it is computed from.
    OfAnother,
}

/// What a call over values of one form remembers.
#[derive(Debug)]
pub(super) struct FrameState<T: Value> {
    state: State<T>,
    /// Values in the last frame that are not NULL, where the column may be.
    valid: ValidCount,
}

#[derive(Debug)]
enum State<T: Value> {
    /// The count is all, or values are looked up.
    None,
    Sum(T::Sum),
    Variance(Variances<T::Powers>),
    /// Keys, or their complements where the largest is looked for.
    Extreme(Totals<Candidates<T::Key>>),
    /// The first value of all that is not NULL, or the last so far.
    Value(Option<T>),
    /// All values of the frame.
    Held(Held<T>),
}

/// The rows of one key so far.
pub(super) struct KeyRows {
    /// How many.
    pub end: u64,
    /// The first of the last row's frame.
    pub frame_start: u64,
    /// The first whose argument is kept; the end where none is.
    pub kept_from: u64,
    /// What the call counts of values that are not NULL.
    pub counted: Counted,
    /// How many there are in the last row's frame, where its values are kept.
    pub valid: Option<u64>,
}

/// What a call counts of values that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Nothing,
    /// Those of each frame.
    Frames,
    /// Nothing, but it knows the last,
    Last,
    /// or the first of the last row's frame.
    First,
}

impl Counted {
    /// By a call.
    pub fn of(planned: &PlannedCall) -> Counted {
        match planned.call.function {
            _ if planned.sliding.counts_values() => Counted::Nothing,
            OverFunction::Count => Counted::Frames,
            _ if !planned.nullable => Counted::Nothing,
            OverFunction::Sum | OverFunction::Mean | OverFunction::Variance { .. } => Counted::Frames,
            OverFunction::Minimum | OverFunction::Maximum | OverFunction::Last => Counted::Last,
            OverFunction::First => Counted::First,
            _ => Counted::Nothing,
        }
    }
}

/// Rows of one key that come next, and where their frames are.
pub(super) struct Run<'a, T: ArrowNativeType> {
    pub values: &'a [T],
    /// Where any is NULL.
    pub nulls: Option<NullBuffer>,
    /// Of the first row.
    pub position: u64,
    pub bounds: &'a Bounds,
    /// The values from the first frame's start to the run's end, where the call looks back at any.
    pub kept: Option<&'a ColumnStore<T>>,
    /// Totals of the values that sums of several frames share.
    pub scanned: Option<&'a Scanned<T>>,
}

/// What is computed on the way; overwritten by each run.
#[derive(Debug)]
pub(super) struct Scratch<T: Value> {
    values: Vec<T>,
    buffer: Vec<T>,
    keys: Vec<T::Key>,
    key_buffer: Vec<T::Key>,
    smallest: Vec<T::Key>,
    pub totals: Vec<<T::Sum as FrameSum<T>>::Total>,
    pub counts: Vec<u64>,
}

impl<T: Value> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        Scratch {
            values: Vec::new(),
            buffer: Vec::new(),
            keys: Vec::new(),
            key_buffer: Vec::new(),
            smallest: Vec::new(),
            totals: Vec::new(),
            counts: Vec::new(),
        }
    }
}

impl CallState {
    /// `argument` is the form of the argument, where there is one. All rows are `of_one_key`, or these are of one of several.
    pub fn new(planned: &PlannedCall, argument: Option<Form>, of_one_key: bool) -> CallState {
        if planned.is_of_another() {
            return CallState::OfAnother;
        }
        let call = &planned.call;
        if let OverFunction::Udaf { function, condition, .. } = &call.function {
            let state = UdafState::new(function, call.frame.is_bounded(), condition.is_some());
            return CallState::Udaf(Box::new(state));
        }
        match argument {
            None if call.function == (OverFunction::Rank { is_dense: true }) => CallState::Times(0),
            None => CallState::Positions,
            Some(Form::Integer) => CallState::Integer(FrameState::new(planned, of_one_key)),
            Some(Form::Float) => CallState::Float(FrameState::new(planned, of_one_key)),
            Some(Form::Decimal) => CallState::Decimal(FrameState::new(planned, of_one_key)),
            Some(Form::Bytes) => CallState::Bytes(TextState::new(planned)),
        }
    }

    /// Writes what is remembered.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        match self {
            CallState::Positions | CallState::OfAnother => {}
            CallState::Times(times) => out.number(*times),
            CallState::Integer(state) => state.write_to(out),
            CallState::Float(state) => state.write_to(out),
            CallState::Decimal(state) => state.write_to(out),
            CallState::Bytes(state) => state.write_to(out),
            CallState::Udaf(state) => state.write_to(out)?,
        }
        Ok(())
    }

    /// Becomes what was written. `columns` are the types of the columns of one of the program's own functions.
    pub fn read_from(
        &mut self,
        rows: &KeyRows,
        columns: &[DataType],
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        match self {
            CallState::Positions | CallState::OfAnother => Ok(()),
            CallState::Times(times) => {
                *times = input.number("times of rows")?;
                input.check(*times <= rows.end, "no more times than rows")
            }
            CallState::Integer(state) => state.read_from(rows, input),
            CallState::Float(state) => state.read_from(rows, input),
            CallState::Decimal(state) => state.read_from(rows, input),
            CallState::Bytes(state) => state.read_from(rows, input),
            CallState::Udaf(state) => state.read_from((rows, columns), input),
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        match self {
            CallState::Positions | CallState::Times(_) | CallState::OfAnother => 0,
            CallState::Integer(state) => state.bytes(),
            CallState::Float(state) => state.bytes(),
            CallState::Decimal(state) => state.bytes(),
            CallState::Bytes(state) => state.bytes(),
            CallState::Udaf(state) => size_of::<UdafState>() + state.bytes(),
        }
    }
}

impl<T: Value> FrameState<T> {
    fn new(planned: &PlannedCall, of_one_key: bool) -> FrameState<T> {
        let PlannedCall { call, held, sliding, .. } = planned;
        let is_bounded = call.frame.is_bounded();
        if let Some(held) = Held::new(held, sliding.counts_values(), is_bounded) {
            return FrameState { state: State::Held(held), valid: ValidCount::default() };
        }
        let state = match call.function {
            OverFunction::Sum | OverFunction::Mean => State::Sum(T::Sum::new(call.frame, of_one_key)),
            OverFunction::Variance { .. } => State::Variance(Variances::new()),
            OverFunction::Minimum | OverFunction::Maximum => {
                State::Extreme(Totals::new(call.frame, of_one_key, Candidates::new))
            }
            OverFunction::First if !is_bounded => State::Value(None),
            OverFunction::Last => State::Value(None),
            _ => State::None,
        };
        FrameState { state, valid: ValidCount::default() }
    }

    fn bytes(&self) -> usize {
        match &self.state {
            State::Sum(sum) => sum.bytes(),
            State::Variance(variances) => variances.bytes(),
            State::Extreme(extreme) => extreme.bytes(),
            State::Held(held) => held.bytes(),
            State::None | State::Value(_) => 0,
        }
    }

    fn write_to(&self, out: &mut Writer) {
        let ValidCount { count, start, end, last } = self.valid;
        out.column(&[count, start, end, last]);
        match &self.state {
            State::None => {}
            State::Sum(sum) => sum.write_to(out),
            State::Variance(variances) => variances.write_to(out),
            State::Extreme(extreme) => extreme.write_to(out),
            State::Value(value) => {
                out.flag(value.is_some());
                out.column(value.as_slice());
            }
            State::Held(held) => held.write_to(out),
        }
    }

    fn read_from(&mut self, rows: &KeyRows, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut number = || input.number("values that are not NULL");
        let [count, start, end, last] = [number()?, number()?, number()?, number()?];
        let is_right = match rows.counted {
            Counted::Nothing => (count, start, end, last) == (0, 0, 0, 0),
            Counted::First => (count, start, end) == (0, 0, 0) && last <= rows.end,
            Counted::Last => (count, start, end) == (0, 0, rows.end) && last <= end,
            Counted::Frames => {
                let are_counted = rows.valid.is_none_or(|valid| count == valid) && count <= rows.end - rows.frame_start;
                (start, end, last) == (rows.frame_start, rows.end, 0) && are_counted
            }
        };
        input.check(is_right, "values that are not NULL, of rows that have come")?;
        self.valid = ValidCount { count, start, end, last };
        match &mut self.state {
            State::None => {}
            State::Sum(sum) => sum.read_from(rows.frame_start, rows.end, input)?,
            State::Variance(variances) => variances.read_from(rows.frame_start, rows.end, input)?,
            State::Extreme(extreme) => extreme.read_from(rows.frame_start, rows.end, input)?,
            State::Value(value) => {
                let is_there = input.flag("whether there is a value")?;
                *value = input.column(usize::from(is_there), "a value")?.first().copied();
            }
            State::Held(held) => held.read_from(rows, input)?,
        }
        Ok(())
    }

    /// Appends the result of each row of a run to those of the call, the `index`th of all, and of those that are computed with it.
    pub fn compute(
        &mut self,
        planned: &PlannedCall,
        run: &Run<'_, T>,
        scratch: &mut Scratch<T>,
        (index, results): (usize, &mut [Results]),
    ) -> Result<(), Overflow> {
        let PlannedCall { call, nullable, decimal, held, .. } = planned;
        let (nullable, decimal) = (*nullable, *decimal);
        if let State::Held(values) = &mut self.state {
            return values.compute(held, run, scratch, results);
        }
        let results = &mut results[index];
        match call.function {
            OverFunction::Lag { rows } => run.lag(rows, results),
            OverFunction::Lead { rows } => run.lead(rows, results),
            OverFunction::First => self.first(run, nullable, results),
            OverFunction::Last if nullable => self.last(run, results),
            OverFunction::Last => run.last(results),
            OverFunction::Minimum => self.extreme(run, nullable, false, scratch, results),
            OverFunction::Maximum => self.extreme(run, nullable, true, scratch, results),
            OverFunction::Count => {
                self.valid.slide(run, &mut scratch.counts);
                results.integers().extend(scratch.counts.iter().map(|&count| count as i64));
                results.append_valid(run.bounds.rows());
            }
            OverFunction::Sum | OverFunction::Mean => return self.sum(call, run, nullable, decimal, scratch, results),
            OverFunction::Variance { is_sample, is_root } => {
                self.variance((is_sample, is_root), run, nullable, scratch, results);
            }
            OverFunction::CountRows | OverFunction::RowNumber | OverFunction::Rank { .. } => {
                unreachable!("rows are counted without values")
            }
            OverFunction::Udaf { .. } => unreachable!("it is computed from rows"),
            OverFunction::Array { ignores_nulls } => return run.arrays((ignores_nulls, call.is_distinct), results),
            OverFunction::Joined { .. } => unreachable!("text is joined"),
            OverFunction::Mode | OverFunction::Percentile { .. } => unreachable!("all values are held"),
        }
        Ok(())
    }

    fn sum(
        &mut self,
        call: &OverCall,
        run: &Run<'_, T>,
        nullable: bool,
        decimal: Option<DecimalMean>,
        scratch: &mut Scratch<T>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        let State::Sum(sum) = &mut self.state else { unreachable!("a sum is kept") };
        let Scratch { values, buffer, totals, counts, .. } = scratch;
        let values = run.values_or(T::ZERO, values);
        let entering = Entering { values, position: run.position, scanned: run.scanned };
        let totals = T::totals(results, totals);
        let first = totals.len();
        sum.slide(run.bounds, entering, run.kept, buffer, totals);
        let counts = match nullable {
            true => {
                self.valid.slide(run, counts);
                Counts::Valid(counts)
            }
            false => Counts::Rows(run.bounds),
        };
        match call.function {
            OverFunction::Sum => T::finish_sums(&mut scratch.totals, first, results)?,
            _ => T::finish_means(&mut scratch.totals, first, counts, decimal, results)?,
        }
        match counts {
            Counts::Rows(bounds) => results.append_valid(bounds.rows()),
            Counts::Valid(counts) => results.append_validity(counts.iter().map(|&count| count > 0)),
        }
        Ok(())
    }

    fn variance(
        &mut self,
        (is_sample, is_root): (bool, bool),
        run: &Run<'_, T>,
        nullable: bool,
        scratch: &mut Scratch<T>,
        results: &mut Results,
    ) {
        let State::Variance(variances) = &mut self.state else { unreachable!("sums of powers are kept") };
        let Scratch { values, counts, .. } = scratch;
        match nullable {
            true => self.valid.slide(run, counts),
            false => {
                counts.clear();
                counts.extend(run.bounds.steps().flat_map(Step::lengths));
            }
        }
        let entering = Entering::new(run.values_or(T::ZERO, values), run.position);
        let mut counts = counts.iter();
        variances.slide(run.bounds, entering, run.kept, |sums| {
            let count = *counts.next().expect("each frame has a count");
            let variance = T::Powers::finalize(sums, count as i64, is_sample)
                .map(|variance| if is_root { variance.sqrt() } else { variance });
            push(variance, results);
        });
    }

    fn extreme(
        &mut self,
        run: &Run<'_, T>,
        nullable: bool,
        is_largest: bool,
        scratch: &mut Scratch<T>,
        results: &mut Results,
    ) {
        let State::Extreme(extreme) = &mut self.state else { unreachable!("an extreme value is kept") };
        let Scratch { keys, key_buffer, smallest, .. } = scratch;
        keys.clear();
        vectorised(
            #[inline(always)]
            || match is_largest {
                false => extend_prefetching(keys, run.values, |value| value.key()),
                true => extend_prefetching(keys, run.values, |value| value.key().reversed()),
            },
        );
        if let Some(nulls) = &run.nulls {
            let null = (0..keys.len()).filter(|&row| nulls.is_null(row));
            null.for_each(|row| keys[row] = Minimum::<T::Key>::EMPTY);
        }
        smallest.clear();
        let entering = Entering::new(keys.as_slice(), run.position);
        extreme.slide(run.bounds, entering, None, key_buffer, smallest);
        let values = T::results(results);
        vectorised(
            #[inline(always)]
            || match is_largest {
                false => values.extend(smallest.iter().map(|&key| T::of_key(key))),
                true => values.extend(smallest.iter().map(|&key| T::of_key(key.reversed()))),
            },
        );
        match nullable {
            false => results.append_valid(run.bounds.rows()),
            true => {
                results.append_validity(run.bounds.frames().map(|(start, end)| self.valid.has_any(run, start, end)));
            }
        }
    }

    /// The first value of each frame that is not NULL.
    fn first(&mut self, run: &Run<'_, T>, nullable: bool, results: &mut Results) {
        if let State::Value(first) = &mut self.state {
            // A frame that ends by itself may end before what enters.
            if run.nulls.is_none() && first.is_none() && !matches!(run.bounds, Bounds::Each(_)) {
                *first = run.values.first().copied();
            }
            if let Some(first) = *first {
                let values = T::results(results);
                values.resize(values.len() + run.bounds.rows(), first);
                return results.append_valid(run.bounds.rows());
            }
            let mut passed = run.position;
            for (_, end) in run.bounds.frames() {
                if first.is_none() {
                    *first = (passed..end).find_map(|row| run.value(row));
                    passed = end;
                }
                push(*first, results);
            }
            return;
        }
        let kept = run.kept.expect("a bounded frame looks back");
        if !nullable {
            T::results(results).extend(run.bounds.steps().flat_map(Step::starts).map(|start| kept.get(start)));
            return results.append_valid(run.bounds.rows());
        }
        let first = &mut self.valid.last;
        for (start, end) in run.bounds.frames() {
            *first = (start.max(*first)..end).find(|&row| kept.is_valid(row)).unwrap_or(end);
            push((*first < end).then(|| kept.get(*first)), results);
        }
    }

    /// The last value of each frame that is not NULL: nothing else is kept of the rows before.
    fn last(&mut self, run: &Run<'_, T>, results: &mut Results) {
        let State::Value(last) = &mut self.state else { unreachable!("the last value is kept") };
        let valid = &mut self.valid;
        for (start, end) in run.bounds.frames() {
            if let Some(row) = (valid.end..end).rev().find(|&row| run.is_valid(row)) {
                (*last, valid.last) = (run.value(row), row + 1);
            }
            valid.end = end;
            push(last.filter(|_| valid.last > start), results);
        }
    }
}

/// Appends a result.
pub(super) fn push<T: Value>(value: Option<T>, results: &mut Results) {
    T::results(results).push(value.unwrap_or(T::ZERO));
    results.append_validity(std::iter::once(value.is_some()));
}

impl<'a, T: Value> Run<'a, T> {
    /// Of the rows of an array from `first_row` on, as many as `bounds` has frames.
    pub fn new<A: ArrowPrimitiveType<Native = T>>(
        array: &'a PrimitiveArray<A>,
        rows: std::ops::Range<usize>,
        position: u64,
        bounds: &'a Bounds,
        kept: Option<&'a ColumnStore<T>>,
    ) -> Run<'a, T> {
        let nulls = array.nulls().map(|nulls| nulls.slice(rows.start, rows.len()));
        Run {
            nulls: nulls.filter(|nulls| nulls.null_count() > 0),
            values: &array.values()[rows],
            position,
            bounds,
            kept,
            scanned: None,
        }
    }

    #[inline]
    pub fn is_valid(&self, position: u64) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid((position - self.position) as usize))
    }

    /// The value at a position; `None` where it is NULL.
    pub fn value(&self, position: u64) -> Option<T> {
        self.is_valid(position).then(|| self.values[(position - self.position) as usize])
    }

    /// The values, `neutral` where one is NULL.
    fn values_or<'v>(&'v self, neutral: T, buffer: &'v mut Vec<T>) -> &'v [T] {
        let Some(nulls) = &self.nulls else { return self.values };
        buffer.clear();
        let valid = nulls.iter().zip(self.values);
        buffer.extend(valid.map(|(is_valid, &value)| if is_valid { value } else { neutral }));
        buffer
    }

    /// The values of the last row of each frame, none of which is NULL.
    fn last(&self, results: &mut Results) {
        let values = Entering::new(self.values, self.position);
        for step in self.bounds.steps() {
            let last = T::results(results);
            match step.moves {
                Moves::Nothing => last.extend(step.ends().flat_map(|end| values.between(end - 1, end))),
                _ => last.extend_from_slice(values.between(step.end - 1, step.end - 1 + step.rows as u64)),
            }
        }
        results.append_valid(self.values.len());
    }

    fn arrays(&self, (ignores_nulls, is_distinct): (bool, bool), results: &mut Results) -> Result<(), Overflow> {
        let kept = self.kept.expect("a frame that is listed is kept");
        let mut listed = HashSet::new();
        self.bounds.frames().try_for_each(|(start, end)| {
            listed.clear();
            let values = (start..end).map(|row| kept.is_valid(row).then(|| kept.get(row)));
            let values = values.filter(|value| value.is_some() || !ignores_nulls);
            let values = values.filter(|value| !is_distinct || listed.insert(value.map(T::key)));
            results.push_list(|items| values.for_each(|value| push(value, items)))
        })
    }

    /// The value with which each frame ends, where that is so many rows behind its first.
    fn lead(&self, rows: u64, results: &mut Results) {
        for (start, end) in self.bounds.frames() {
            push(if end - start > rows { self.value(end - 1) } else { None }, results);
        }
    }

    fn lag(&self, rows: u64, results: &mut Results) {
        let kept = self.kept.expect("LAG looks back");
        let before = || (self.position..self.position + self.values.len() as u64).map(|row| row.checked_sub(rows));
        T::results(results).extend(before().map(|row| row.map_or(T::ZERO, |row| kept.get(row))));
        results.append_validity(before().map(|row| row.is_some_and(|row| kept.is_valid(row))));
    }
}
