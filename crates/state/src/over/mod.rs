//! OVER: functions of the rows before each row.
//!
//! Rows wait until the watermark has passed their time and leave in the order of their times ([`Pending`]). Those of each key are
//! brought together, column by column; what a key's frames look back at is kept in a [`row_store`], and each call follows its
//! [`frame`] over the key's rows in a loop of its own ([`call`], over [`sum`] and [`extreme`]). Results go back to the places of their rows.

mod pending;

mod row_store;

mod frame;

mod value;

mod sum;

mod extreme;

mod call;

mod keys;

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use pelton_data::Micros;
use pelton_data::aggregate::KeyColumn;
use pelton_data::column::sql_name;
use pelton_data::over::{Frame, OverCall, OverColumn, OverFunction, OverSpec};

use self::call::{CallState, Overflow, Run, count_rows};
use self::frame::{Bounds, FrameTicks};
use self::keys::{Grouped, Keys};
use self::pending::{Ordered, Pending};
use self::row_store::ColumnStore;
use self::value::{Column, DecimalMean, Form, Results};
use crate::kernel::KernelError;

/// Rows of one key that are computed at a time, so that all that is touched for them stays in the second-level cache.
const RUN_ROWS: usize = 1024;

/// Rows of all keys, and what is computed for each.
pub struct OverRows {
    spec: OverSpec,
    calls: Vec<PlannedCall>,
    /// Frames of the calls, each once.
    frames: Vec<FrameTicks>,
    /// Arguments of the calls, each once.
    arguments: Vec<Argument>,
    /// Whether any call's frame begins at a time.
    needs_times: bool,
    pending: Pending,
    /// None where all rows are of one key.
    keys: Option<Keys>,
    partitions: Vec<Partition>,
    /// For each frame, of the run that is computed.
    bounds: Vec<Bounds>,
}

/// A call, and what it is computed from.
struct PlannedCall {
    call: OverCall,
    /// Index in `OverRows::frames`.
    frame: usize,
    /// Index in `OverRows::arguments`.
    argument: Option<usize>,
    decimal: Option<DecimalMean>,
}

/// A column that calls are computed from.
struct Argument {
    column: usize,
    form: Form,
    nullable: bool,
    /// How far back it is kept: from the starts of frames, and for so many rows.
    frames_kept: Vec<usize>,
    rows_kept: Option<u64>,
    /// About how many rows are kept, where that is known.
    rows_hint: Option<u64>,
}

/// The rows of one key.
#[derive(Debug)]
struct Partition {
    /// Rows so far.
    rows: u64,
    /// For each frame, where that of the last row began.
    starts: Vec<u64>,
    times: ColumnStore<i64>,
    /// For each argument what is kept of it.
    kept: Vec<Option<Kept>>,
    /// For each call.
    states: Vec<CallState>,
}

#[derive(Debug)]
enum Kept {
    Integers(ColumnStore<i64>),
    Floats(ColumnStore<f64>),
    Decimals(ColumnStore<i128>),
}

impl OverRows {
    /// No rows yet.
    pub fn new(spec: OverSpec) -> OverRows {
        let mut frames: Vec<FrameTicks> = Vec::new();
        let mut arguments: Vec<Argument> = Vec::new();
        let mut calls = Vec::new();
        for call in &spec.calls {
            let ticks = FrameTicks::new(call.frame, spec.time.micros_per_tick);
            let frame = position_or_push(&mut frames, |known| *known == ticks, || ticks);
            let argument = call.argument.map(|column| {
                let is_it = |known: &Argument| known.column == column;
                let index = position_or_push(&mut arguments, is_it, || Argument::new(&spec, column));
                arguments[index].keep_for(call, frame);
                index
            });
            calls.push(PlannedCall { call: call.clone(), frame, argument, decimal: decimal_mean(&spec, call) });
        }
        let key = |&column: &usize| {
            let field = spec.input_schema.field(column);
            (column, KeyColumn { data_type: field.data_type().clone(), nullable: field.is_nullable() })
        };
        let keys = (!spec.keys.is_empty()).then(|| Keys::new(spec.keys.iter().map(key).collect()));
        OverRows {
            bounds: frames.iter().map(|_| Bounds::default()).collect(),
            needs_times: frames.iter().any(|frame| frame.needs_times()),
            calls,
            frames,
            arguments,
            pending: Pending::default(),
            keys,
            partitions: Vec::new(),
            spec,
        }
    }

    /// Takes rows of one input. Returns how many of them are left out: those before the time up to which rows have left.
    ///
    /// # Errors
    /// Where arrow cannot put them in order.
    pub fn add(&mut self, input: usize, rows: RecordBatch) -> Result<usize, KernelError> {
        if rows.num_rows() == 0 {
            return Ok(0);
        }
        self.pending.add(input, rows, self.spec.time.index).map_err(state_error)
    }

    /// The rows before `watermark` with the values of their calls, in the order of their times, at most `rows_max` in a batch.
    ///
    /// # Errors
    /// Where a mean does not fit its type.
    pub fn advance(&mut self, watermark: Micros, rows_max: usize) -> Result<Vec<RecordBatch>, KernelError> {
        let last = match watermark {
            Micros::MAX => Micros::MAX,
            _ => watermark.div_euclid(self.spec.time.micros_per_tick).saturating_sub(1),
        };
        let peers_together = self.frames.iter().any(|frame| frame.needs_peers());
        let pieces = self.pending.take_until(last, self.spec.time.index, peers_together).map_err(state_error)?;
        let mut output = Vec::new();
        for piece in pieces {
            let rows = self.compute(piece)?;
            let starts = (0..rows.num_rows()).step_by(rows_max);
            output.extend(starts.map(|start| rows.slice(start, rows_max.min(rows.num_rows() - start))));
        }
        Ok(output)
    }

    /// Rows that wait.
    pub fn waiting_rows(&self) -> usize {
        self.pending.rows()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, Keys::bytes);
        self.pending.bytes() + keys + self.partitions.iter().map(Partition::bytes).sum::<usize>()
    }

    /// Rows that are in order, with the values of their calls.
    fn compute(&mut self, Ordered { rows, ticks }: Ordered) -> Result<RecordBatch, KernelError> {
        let Grouped { order, runs } = match &mut self.keys {
            Some(keys) => keys.group(&rows),
            None => Grouped { order: Vec::new(), runs: vec![(0, 0..rows.num_rows())] },
        };
        // Where there is one key, its rows are side by side as they are.
        let order = (runs.len() > 1).then(|| UInt32Array::from(order));
        let by_key = |array: &dyn Array| match &order {
            Some(order) => take(array, order, None),
            None => Ok(arrow::array::make_array(array.to_data())),
        };
        let columns = self.arguments.iter().map(|argument| by_key(rows.column(argument.column)));
        let columns: Vec<Column> =
            columns.map(|column| Ok(Column::new(&column?))).collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let ticks = by_key(&ticks).map_err(state_error)?;
        let ticks: &[i64] = ticks.as_primitive::<Int64Type>().values();
        let mut results: Vec<Results> =
            self.calls.iter().map(|call| Results::new(&call.call.data_type, rows.num_rows())).collect();
        for (number, run) in runs {
            self.add_partitions(number + 1);
            for rows in self.pieces(ticks, run) {
                self.compute_run(number, &columns, ticks, rows, &mut results)?;
            }
        }
        let places = order.map(|order| inverse(order.values()));
        let values = results.into_iter().zip(&self.calls).map(|(results, call)| {
            let array = results.finish(&call.call.data_type);
            places.as_ref().map_or(Ok(array.clone()), |places| take(&array, places, None))
        });
        let values: Vec<ArrayRef> = values.collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let columns = self.spec.columns.iter().map(|column| match column {
            OverColumn::Input(column) => rows.column(*column).clone(),
            OverColumn::Value(call) => values[*call].clone(),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.spec.schema.clone(), columns.collect(), &options).map_err(state_error)
    }

    fn add_partitions(&mut self, count: usize) {
        while self.partitions.len() < count {
            let partition = Partition::new(&self.calls, &self.arguments, self.frames.len());
            self.partitions.push(partition);
        }
    }

    /// A run of rows in pieces that fit the cache. Rows of one time are in one piece where frames need them together.
    fn pieces(&self, ticks: &[i64], run: Range<usize>) -> Vec<Range<usize>> {
        let peers_together = self.frames.iter().any(|frame| frame.needs_peers());
        let mut pieces = Vec::with_capacity(run.len().div_ceil(RUN_ROWS));
        let mut start = run.start;
        while start < run.end {
            let mut end = run.end.min(start + RUN_ROWS);
            if peers_together {
                end += ticks[end..run.end].iter().take_while(|&&tick| tick == ticks[end - 1]).count();
            }
            pieces.push(start..end);
            start = end;
        }
        pieces
    }

    /// Computes the next rows of one key.
    fn compute_run(
        &mut self,
        number: usize,
        columns: &[Column],
        ticks: &[i64],
        rows: Range<usize>,
        results: &mut [Results],
    ) -> Result<(), KernelError> {
        let partition = &mut self.partitions[number];
        let position = partition.rows;
        partition.rows += rows.len() as u64;
        if self.needs_times {
            partition.times.append(ticks, None, rows.clone());
        }
        for (kept, column) in partition.kept.iter_mut().zip(columns) {
            if let Some(kept) = kept {
                kept.append(column, rows.clone());
            }
        }
        for ((frame, bounds), start) in self.frames.iter().zip(&mut self.bounds).zip(&mut partition.starts) {
            frame.bounds(&ticks[rows.clone()], position, start, &partition.times, bounds);
        }
        for ((planned, state), results) in self.calls.iter().zip(&mut partition.states).zip(results) {
            let argument = planned.argument.map(|argument| (&columns[argument], partition.kept[argument].as_ref()));
            let place = Place { first_row: rows.start, position, bounds: &self.bounds[planned.frame] };
            planned.compute(state, argument, place, results)?;
        }
        partition.forget(&self.frames, &self.arguments);
        Ok(())
    }
}

/// Where the rows of a run are: in their batch, among all rows of their key, and what their frames are.
#[derive(Clone, Copy)]
struct Place<'a> {
    first_row: usize,
    position: u64,
    bounds: &'a Bounds,
}

impl PlannedCall {
    fn compute(
        &self,
        state: &mut CallState,
        argument: Option<(&Column, Option<&Kept>)>,
        place: Place<'_>,
        results: &mut Results,
    ) -> Result<(), KernelError> {
        let Place { first_row, position, bounds } = place;
        let (call, decimal) = (&self.call, self.decimal);
        let computed = match (state, argument) {
            (CallState::Positions, _) => {
                count_rows(call.function, position, bounds, results);
                Ok(())
            }
            (CallState::Integer(state), Some((Column::Integers(values), kept))) => {
                let run = Run { values, first_row, position };
                state.compute(call, &run, bounds, kept.map(Kept::integers), decimal, results)
            }
            (CallState::Float(state), Some((Column::Floats(values), kept))) => {
                let run = Run { values, first_row, position };
                state.compute(call, &run, bounds, kept.map(Kept::floats), decimal, results)
            }
            (CallState::Decimal(state), Some((Column::Decimals(values), kept))) => {
                let run = Run { values, first_row, position };
                state.compute(call, &run, bounds, kept.map(Kept::decimals), decimal, results)
            }
            (_, _) => unreachable!("the state has the form of its argument"),
        };
        computed.map_err(|Overflow| KernelError::Expression(format!("AVG does not fit {}", sql_name(&call.data_type))))
    }
}

impl Argument {
    fn new(spec: &OverSpec, column: usize) -> Argument {
        let field = spec.input_schema.field(column);
        Argument {
            column,
            form: Form::of(field.data_type()),
            nullable: field.is_nullable(),
            frames_kept: Vec::new(),
            rows_kept: None,
            rows_hint: None,
        }
    }

    /// Keeps what a call over a frame looks back at.
    fn keep_for(&mut self, call: &OverCall, frame: usize) {
        let argument = match self.form {
            Form::Integer => DataType::Int64,
            Form::Float => DataType::Float64,
            Form::Decimal => DataType::Decimal128(38, 0),
        };
        let kept = call.kept(Some(&argument));
        match (call.function, kept) {
            (_, None) => return,
            (OverFunction::Lag { rows }, _) => self.rows_kept = self.rows_kept.max(Some(rows)),
            (_, Some(_)) => self.frames_kept.push(frame),
        }
        if let Some(Frame::Rows { preceding }) = kept {
            self.rows_hint = self.rows_hint.max(preceding);
        }
    }

    fn store(&self) -> Option<Kept> {
        if self.frames_kept.is_empty() && self.rows_kept.is_none() {
            return None;
        }
        Some(match self.form {
            Form::Integer => Kept::Integers(ColumnStore::new(self.nullable, self.rows_hint)),
            Form::Float => Kept::Floats(ColumnStore::new(self.nullable, self.rows_hint)),
            Form::Decimal => Kept::Decimals(ColumnStore::new(self.nullable, self.rows_hint)),
        })
    }
}

impl Partition {
    fn new(calls: &[PlannedCall], arguments: &[Argument], frames: usize) -> Partition {
        let state = |planned: &PlannedCall| {
            CallState::new(&planned.call, planned.argument.map(|argument| arguments[argument].form))
        };
        Partition {
            rows: 0,
            starts: vec![0; frames],
            times: ColumnStore::new(false, None),
            kept: arguments.iter().map(Argument::store).collect(),
            states: calls.iter().map(state).collect(),
        }
    }

    /// Forgets what no later row looks back at.
    fn forget(&mut self, frames: &[FrameTicks], arguments: &[Argument]) {
        let timed = frames.iter().zip(&self.starts).filter(|(frame, _)| frame.needs_times());
        self.times.forget(timed.map(|(_, start)| *start).min().unwrap_or(0));
        for (kept, argument) in self.kept.iter_mut().zip(arguments) {
            let Some(kept) = kept else { continue };
            let starts = argument.frames_kept.iter().map(|&frame| self.starts[frame]);
            let rows = argument.rows_kept.map(|rows| self.rows.saturating_sub(rows));
            kept.forget(starts.chain(rows).min().expect("what is kept is kept for something"));
        }
    }

    fn bytes(&self) -> usize {
        let kept: usize = self.kept.iter().flatten().map(Kept::bytes).sum();
        let states: usize = self.states.iter().map(|state| size_of::<CallState>() + state.bytes()).sum();
        size_of::<Partition>() + self.starts.capacity() * 8 + self.times.bytes() + kept + states
    }
}

impl Kept {
    fn append(&mut self, column: &Column, rows: Range<usize>) {
        match (self, column) {
            (Kept::Integers(kept), Column::Integers(column)) => kept.append(column.values(), column.nulls(), rows),
            (Kept::Floats(kept), Column::Floats(column)) => kept.append(column.values(), column.nulls(), rows),
            (Kept::Decimals(kept), Column::Decimals(column)) => kept.append(column.values(), column.nulls(), rows),
            (_, _) => unreachable!("what is kept has the form of its column"),
        }
    }

    fn integers(&self) -> &ColumnStore<i64> {
        if let Kept::Integers(kept) = self { kept } else { unreachable!("integers are kept") }
    }

    fn floats(&self) -> &ColumnStore<f64> {
        if let Kept::Floats(kept) = self { kept } else { unreachable!("floats are kept") }
    }

    fn decimals(&self) -> &ColumnStore<i128> {
        if let Kept::Decimals(kept) = self { kept } else { unreachable!("decimals are kept") }
    }

    fn forget(&mut self, until: u64) {
        match self {
            Kept::Integers(kept) => kept.forget(until),
            Kept::Floats(kept) => kept.forget(until),
            Kept::Decimals(kept) => kept.forget(until),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Kept::Integers(kept) => kept.bytes(),
            Kept::Floats(kept) => kept.bytes(),
            Kept::Decimals(kept) => kept.bytes(),
        }
    }
}

/// How a call's mean is written, where it is one of decimals.
fn decimal_mean(spec: &OverSpec, call: &OverCall) -> Option<DecimalMean> {
    match (call.function, spec.argument_type(call), &call.data_type) {
        (OverFunction::Mean, Some(DataType::Decimal128(_, scale)), DataType::Decimal128(precision, mean_scale)) => {
            Some(DecimalMean { digits: mean_scale - scale, precision: *precision })
        }
        _ => None,
    }
}

/// For each row the place where `order` has it.
fn inverse(order: &[u32]) -> UInt32Array {
    let mut places = vec![0; order.len()];
    (0..).zip(order).for_each(|(place, &row)| places[row as usize] = place);
    UInt32Array::from(places)
}

/// Index of the item that is looked for; it is made where there is none.
fn position_or_push<T>(items: &mut Vec<T>, is_it: impl FnMut(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    items.iter().position(is_it).unwrap_or_else(|| {
        items.push(make());
        items.len() - 1
    })
}

fn state_error(error: ArrowError) -> KernelError {
    KernelError::State(error.to_string())
}
