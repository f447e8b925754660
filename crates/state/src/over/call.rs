//! One call over the rows of one key.

use arrow::array::{Array, ArrowPrimitiveType, PrimitiveArray};
use pelton_data::over::{OverCall, OverFunction};

use super::extreme::Extreme;
use super::frame::Bounds;
use super::row_store::ColumnStore;
use super::sum::FrameSum;
use super::value::{DecimalMean, Form, Results, Value};

/// What a call remembers of the rows of one key.
#[derive(Debug)]
pub(super) enum CallState {
    /// Nothing: positions are enough.
    Positions,
    Integer(FrameState<i64>),
    Float(FrameState<f64>),
    Decimal(FrameState<i128>),
}

/// What a call over values of one form remembers.
#[derive(Debug)]
pub(super) struct FrameState<T: Value> {
    state: State<T>,
    /// Values in the frame that are not NULL.
    count: u64,
    /// Rows of the frame so far.
    start: u64,
    end: u64,
}

#[derive(Debug)]
enum State<T: Value> {
    /// The count is all, or values are looked up.
    None,
    Sum(T::Sum),
    Extreme(Extreme<T>),
    /// The first value of all.
    First(Option<T>),
}

/// Rows of one key that come next: `values[rows]`, the first of which is at `position`.
pub(super) struct Run<'a, A: ArrowPrimitiveType> {
    pub values: &'a PrimitiveArray<A>,
    pub first_row: usize,
    pub position: u64,
}

/// A mean that has too many digits for its type.
#[derive(Debug)]
pub(super) struct Overflow;

impl CallState {
    /// `argument` is the form of the argument, where there is one.
    pub fn new(call: &OverCall, argument: Option<Form>) -> CallState {
        match argument {
            None => CallState::Positions,
            Some(Form::Integer) => CallState::Integer(FrameState::new(call)),
            Some(Form::Float) => CallState::Float(FrameState::new(call)),
            Some(Form::Decimal) => CallState::Decimal(FrameState::new(call)),
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        match self {
            CallState::Positions => 0,
            CallState::Integer(state) => state.bytes(),
            CallState::Float(state) => state.bytes(),
            CallState::Decimal(state) => state.bytes(),
        }
    }
}

/// Results of a call that counts rows.
pub(super) fn count_rows(function: OverFunction, position: u64, bounds: &Bounds, results: &mut Results) {
    let frames = bounds.starts.iter().zip(&bounds.ends);
    match function {
        OverFunction::RowNumber => {
            (position..).zip(frames).for_each(|(row, _)| results.push_integer(row as i64 + 1));
        }
        _ => frames.for_each(|(start, end)| results.push_integer((end - start) as i64)),
    }
}

impl<T: Value> FrameState<T> {
    fn new(call: &OverCall) -> FrameState<T> {
        let is_bounded = call.frame.is_bounded();
        let state = match call.function {
            OverFunction::Sum | OverFunction::Mean => State::Sum(T::Sum::new(is_bounded)),
            OverFunction::Minimum => State::Extreme(Extreme::new(false, is_bounded)),
            OverFunction::Maximum => State::Extreme(Extreme::new(true, is_bounded)),
            OverFunction::First if !is_bounded => State::First(None),
            _ => State::None,
        };
        FrameState { state, count: 0, start: 0, end: 0 }
    }

    fn bytes(&self) -> usize {
        match &self.state {
            State::Sum(sum) => sum.bytes(),
            State::Extreme(extreme) => extreme.bytes(),
            State::None | State::First(_) => 0,
        }
    }

    /// Pushes the result of each row of a run. `kept` holds the values from the first frame's start to the run's end, where the call
    /// looks back at any.
    pub fn compute<A: ArrowPrimitiveType<Native = T>>(
        &mut self,
        call: &OverCall,
        run: &Run<'_, A>,
        bounds: &Bounds,
        kept: Option<&ColumnStore<T>>,
        decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        match call.function {
            OverFunction::Lag { rows } => lag(run, bounds, rows, kept, results),
            OverFunction::First => self.first(run, bounds, kept, results),
            OverFunction::Last => bounds.ends.iter().for_each(|&end| push(run.value(end - 1), results)),
            OverFunction::Minimum | OverFunction::Maximum => self.extreme(run, bounds, results),
            OverFunction::Sum => self.sum(run, bounds, kept, results, |sum, _, results| {
                T::push_sum(sum, results);
                Ok(())
            })?,
            OverFunction::Mean => self.sum(run, bounds, kept, results, |sum, count, results| {
                if T::push_mean(sum, count, decimal, results) { Ok(()) } else { Err(Overflow) }
            })?,
            OverFunction::Count => self.count(run, bounds, kept, results),
            OverFunction::CountRows | OverFunction::RowNumber => unreachable!("rows are counted without values"),
        }
        Ok(())
    }

    /// `finish` pushes what comes of a sum and a count of values that is not zero.
    fn sum<A: ArrowPrimitiveType<Native = T>>(
        &mut self,
        run: &Run<'_, A>,
        bounds: &Bounds,
        kept: Option<&ColumnStore<T>>,
        results: &mut Results,
        finish: impl Fn(<T::Sum as FrameSum<T>>::Total, u64, &mut Results) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        let FrameState { state: State::Sum(sum), count, start, end } = self else { unreachable!("a sum is kept") };
        for (&frame_start, &frame_end) in bounds.starts.iter().zip(&bounds.ends) {
            while *end < frame_end {
                let value = run.value(*end);
                *count += u64::from(value.is_some());
                sum.push(*end, value.unwrap_or(T::ZERO));
                *end += 1;
            }
            if *start < frame_start {
                let kept = kept.expect("a bounded frame looks back");
                *count -= kept.count_valid(*start, frame_start);
                sum.evict(frame_start, frame_end, kept);
                *start = frame_start;
            }
            match *count {
                0 => results.push_null(),
                count => finish(sum.total(), count, results)?,
            }
        }
        Ok(())
    }

    fn count<A: ArrowPrimitiveType<Native = T>>(
        &mut self,
        run: &Run<'_, A>,
        bounds: &Bounds,
        kept: Option<&ColumnStore<T>>,
        results: &mut Results,
    ) {
        for (&start, &end) in bounds.starts.iter().zip(&bounds.ends) {
            while self.end < end {
                self.count += u64::from(run.value(self.end).is_some());
                self.end += 1;
            }
            if self.start < start {
                self.count -= kept.expect("a bounded frame looks back").count_valid(self.start, start);
                self.start = start;
            }
            results.push_integer(self.count as i64);
        }
    }

    fn extreme<A: ArrowPrimitiveType<Native = T>>(&mut self, run: &Run<'_, A>, bounds: &Bounds, results: &mut Results) {
        let FrameState { state: State::Extreme(extreme), end, .. } = self else {
            unreachable!("an extreme value is kept")
        };
        for (&frame_start, &frame_end) in bounds.starts.iter().zip(&bounds.ends) {
            while *end < frame_end {
                if let Some(value) = run.value(*end) {
                    extreme.push(*end, value);
                }
                *end += 1;
            }
            extreme.evict(frame_start);
            push(extreme.value(), results);
        }
    }

    fn first<A: ArrowPrimitiveType<Native = T>>(
        &mut self,
        run: &Run<'_, A>,
        bounds: &Bounds,
        kept: Option<&ColumnStore<T>>,
        results: &mut Results,
    ) {
        if let State::First(first) = &mut self.state {
            if run.position == 0 {
                *first = run.value(0);
            }
            return bounds.starts.iter().for_each(|_| push(*first, results));
        }
        let kept = kept.expect("a bounded frame looks back");
        bounds.starts.iter().for_each(|&start| push(kept.value(start), results));
    }
}

fn lag<A: ArrowPrimitiveType>(
    run: &Run<'_, A>,
    bounds: &Bounds,
    rows: u64,
    kept: Option<&ColumnStore<A::Native>>,
    results: &mut Results,
) where
    A::Native: Value,
{
    let kept = kept.expect("LAG looks back");
    for (position, _) in (run.position..).zip(&bounds.starts) {
        push(position.checked_sub(rows).and_then(|position| kept.value(position)), results);
    }
}

#[inline]
fn push<T: Value>(value: Option<T>, results: &mut Results) {
    match value {
        Some(value) => value.push(results),
        None => results.push_null(),
    }
}

impl<A: ArrowPrimitiveType> Run<'_, A> {
    /// The value at a position of the run; `None` where it is NULL.
    #[inline]
    fn value(&self, position: u64) -> Option<A::Native> {
        let row = self.first_row + (position - self.position) as usize;
        match self.values.nulls() {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.values.values()[row]),
        }
    }
}
