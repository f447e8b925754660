//! OVER: functions of the rows around each row.
//!
//! Rows wait until the watermark has passed their time, or come to it where that is enough, and leave in the order of their times ([`Pending`]). Those of each key are
//! brought together, column by column; what a key's frames look back at is kept in a [`row_store`], and each call follows its
//! [`frame`] over the key's rows in loops of its own ([`call`], over [`totals`], [`sum`], [`extreme`], [`held`], [`text`] and [`udaf`]), as many rows at a time as lie alike. Results go back to the places of their rows. Rows whose frames end after them
//! wait for the rows behind them ([`deferred`], [`following`]).

mod row_store;

mod frame;

mod value;

mod valid_count;

mod retained;

mod scan;

mod scanned;

mod short;

mod totals;

mod sum;

mod variance;

mod extreme;

mod frequencies;

mod order_statistics;

mod held;

mod text;

mod call;

mod number;

mod distinct;

mod udaf;

mod planned;

mod partition;

mod deferred;

mod following;

mod snapshot;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use pelton_data::aggregate::KeyColumn;
use pelton_data::column::{bytes_beside, row_bytes};
use pelton_data::over::{Frame, OverCall, OverColumn, OverFunction, OverSpec};
use pelton_data::{Micros, TimeColumn};

use self::deferred::{DeferredRows, EndTicks};
use self::frame::{Bounds, FrameTicks};
use self::partition::Partition;
use self::planned::{ArgumentRows, PlannedCall, RunRows, Scratches};
use self::retained::RetainedColumn;
use self::row_store::{ColumnStore, Coming};
use self::scanned::Scanned;
use self::short::is_short;
use self::text::TextStore;
use self::value::{Column, Form, Results};
use crate::aggregates::SumFloat;
use crate::kernel::KernelError;
use crate::key_numbers::{Grouped, KeyNumbers};
pub use crate::pending::Arriving;
use crate::pending::{Ordered, Pending};

/// Rows of one key that are computed at a time, so that all that is touched for them stays in the second-level cache.
const RUN_ROWS: usize = 1024;

/// Rows that are computed at once, at most: those who wait for them may be full, and other input waits.
pub const ROWS_AT_ONCE_MAX: usize = 1 << 16;

/// What a key has is measured again when this part of it may have come since: to go through its chunks then costs little for each row.
const MEASURED_PART: usize = 8;

/// What a row may take of a key's state beside its values.
const STATE_BYTES_PER_ROW: usize = 32;

/// With fewer keys than this, those that no row looks back at any more stay: they cost little.
const IDLE_KEYS_MIN: usize = 1024;

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
    /// Whether any call's frame depends on the times of its rows.
    needs_ticks: bool,
    /// Whether any call's frame has all rows of its row's time.
    peers_together: bool,
    /// Whether rows leave as soon as the watermark has come to their time. Those of the same time that come later follow them: all are of
    /// one input, and none belongs to the frames of those before it.
    leave_at_watermark: bool,
    /// How many ticks a row looks back, where that is limited: a key that has been idle for longer begins anew.
    looks_back: Option<i64>,
    pending: Pending,
    /// Rows whose frames end after them, where frames do.
    deferred: Option<DeferredRows>,
    /// None where all rows are of one key.
    keys: Option<KeyNumbers>,
    partitions: Vec<Partition>,
    /// Bytes of these, when each was measured last.
    partitions_bytes: usize,
    /// With so many keys the idle ones are looked for.
    idle_looked_for_at: usize,
    /// For each frame, of the run that is computed.
    bounds: Vec<Bounds>,
    scratch: Scratches,
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
    /// Frames of long sums, where there are several of them.
    frames_scanned: Vec<usize>,
}

impl OverRows {
    /// No rows yet of so many inputs.
    pub fn new(spec: OverSpec, inputs: usize) -> OverRows {
        let mut frames: Vec<FrameTicks> = Vec::new();
        let mut arguments: Vec<Argument> = Vec::new();
        let mut calls = Vec::new();
        let micros_per_tick = spec.time.map_or(1, |time| time.micros_per_tick);
        for call in &spec.calls {
            let ticks = FrameTicks::new(call.frame, micros_per_tick);
            let frame = position_or_push(&mut frames, |known| *known == ticks, || ticks);
            let argument = call.argument.map(|column| {
                let is_it = |known: &Argument| known.column == column;
                let index = position_or_push(&mut arguments, is_it, || Argument::new(&spec, column));
                arguments[index].keep_for(call, frame, spec.keys.is_empty());
                index
            });
            let nullable = argument.is_some_and(|argument| arguments[argument].nullable);
            calls.push(PlannedCall::new(&spec, call, frame, argument, nullable));
        }
        PlannedCall::share(&mut calls);
        for (index, argument) in arguments.iter_mut().enumerate() {
            let long = calls.iter().filter(|planned| planned.is_long_sum && planned.argument == Some(index));
            let frames: Vec<usize> = long.map(|planned| planned.frame).collect();
            argument.frames_scanned = if frames.len() > 1 { frames } else { Vec::new() };
        }
        let key = |&column: &usize| {
            let field = spec.input_schema.field(column);
            (column, KeyColumn { data_type: field.data_type().clone(), nullable: field.is_nullable() })
        };
        let keys = (!spec.keys.is_empty()).then(|| KeyNumbers::new(spec.keys.iter().map(key).collect()));
        let peers_together = frames.iter().any(|frame| frame.needs_peers());
        OverRows {
            bounds: frames.iter().map(|frame| frame.no_bounds()).collect(),
            scratch: Scratches::default(),
            needs_times: frames.iter().any(|frame| frame.needs_times()),
            needs_ticks: frames.iter().any(|frame| frame.needs_ticks()),
            peers_together,
            leave_at_watermark: inputs == 1 && !peers_together,
            looks_back: looks_back(&calls, &frames),
            idle_looked_for_at: IDLE_KEYS_MIN,
            calls,
            frames,
            arguments,
            pending: Pending::default(),
            deferred: spec.frame_end().map(|end| DeferredRows::new(EndTicks::new(end, micros_per_tick))),
            keys,
            partitions: Vec::new(),
            partitions_bytes: 0,
            spec,
        }
    }

    /// Takes rows of one input. Returns how many of them are left out: those before the time up to which rows have left.
    ///
    /// # Errors
    /// Where arrow cannot put them in order.
    pub fn add(&mut self, input: usize, arriving: Arriving) -> Result<usize, KernelError> {
        if arriving.rows.num_rows() == 0 {
            return Ok(0);
        }
        match self.spec.time {
            Some(time) => self.pending.add(input, arriving, time.index).map_err(state_error),
            None => {
                self.pending.arrive(arriving.rows);
                Ok(0)
            }
        }
    }

    /// The next rows before `watermark` (and at it, where they are of one input and all frames are by rows), about `rows_max`, or all that have come where they stay in the order of their arrival, with the values of their calls, at most
    /// `batch_rows_max` in a batch. There are more where they are many; the time is that up to which all have been returned.
    ///
    /// # Errors
    /// Where a mean does not fit its type.
    pub fn advance(
        &mut self,
        watermark: Micros,
        (rows_max, batch_rows_max): (usize, usize),
    ) -> Result<(Vec<RecordBatch>, Micros), KernelError> {
        let Some(TimeColumn { index: time, micros_per_tick }) = self.spec.time else {
            let pieces = self.pending.take_arrived();
            return Ok((self.compute_all(pieces, batch_rows_max)?, watermark));
        };
        let complete = match watermark {
            Micros::MAX => Micros::MAX,
            _ => watermark.div_euclid(micros_per_tick).saturating_sub(1),
        };
        let last = if self.leave_at_watermark { complete.saturating_add(1) } else { complete };
        let until = self.pending.last_of(last, rows_max);
        self.pending.pass(until.min(complete));
        let pieces = self.pending.take_until(until, time, self.peers_together).map_err(state_error)?;
        if let Some(mut deferred) = self.deferred.take() {
            let rows = self.follow(&mut deferred, pieces, (until, rows_max));
            let has_more = deferred.has_due();
            self.deferred = Some(deferred);
            let passed = if until < last { (until + 1) * micros_per_tick } else { watermark };
            // A time before the watermark asks for another turn.
            let passed = if has_more { passed.min(watermark.saturating_sub(1)) } else { passed };
            return Ok((rows?.into_iter().flat_map(|rows| cut(rows, batch_rows_max)).collect(), passed));
        }
        let output = self.compute_all(pieces, batch_rows_max)?;
        self.drop_idle_keys(until);
        Ok((output, if until < last { (until + 1) * micros_per_tick } else { watermark }))
    }

    fn compute_all(&mut self, pieces: Vec<Ordered>, batch_rows_max: usize) -> Result<Vec<RecordBatch>, KernelError> {
        let mut output = Vec::new();
        for piece in pieces {
            output.extend(cut(self.compute(piece)?, batch_rows_max));
        }
        Ok(output)
    }

    /// Drops the keys that no row after the time `until` can look back at, when they are the most.
    fn drop_idle_keys(&mut self, until: i64) {
        let (Some(looks_back), Some(keys)) = (self.looks_back, &mut self.keys) else { return };
        if self.partitions.len() < self.idle_looked_for_at {
            return;
        }
        let is_idle = |partition: &Partition| until.saturating_sub(partition.last_tick) >= looks_back;
        let kept: Vec<bool> = self.partitions.iter().map(|partition| !is_idle(partition)).collect();
        let kept_count = kept.iter().filter(|is_kept| **is_kept).count();
        if kept_count <= kept.len() / 2 {
            keys.retain(&kept);
            let mut kept = kept.into_iter();
            self.partitions.retain(|_| kept.next().expect("each key was looked at"));
            self.partitions.shrink_to_fit();
            self.partitions_bytes = self.partitions.iter().map(|partition| partition.measured_bytes).sum();
        }
        self.idle_looked_for_at = (self.partitions.len() * 2).max(IDLE_KEYS_MIN);
    }

    /// Rows that wait.
    pub fn waiting_rows(&self) -> usize {
        self.pending.rows() + self.deferred.as_ref().map_or(0, DeferredRows::rows)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, KeyNumbers::bytes);
        let reserved = self.partitions.capacity() - self.partitions.len();
        let deferred = self.deferred.as_ref().map_or(0, DeferredRows::bytes);
        self.pending.bytes() + deferred + keys + self.partitions_bytes + reserved * size_of::<Partition>()
    }

    /// Rows that are in order, with the values of their calls.
    fn compute(&mut self, ordered: Ordered) -> Result<RecordBatch, KernelError> {
        let (rows, time) = (&ordered.rows, self.spec.time.map(|time| time.index));
        let Grouped { order, runs } = match &mut self.keys {
            Some(keys) => {
                let columns: Vec<ArrayRef> = keys.columns.iter().map(|&key| ordered.column(key, time)).collect();
                keys.group(&columns)
            }
            None => Grouped { order: Vec::new(), runs: vec![(0, 0..rows.num_rows())] },
        };
        // Where there is one key, its rows are side by side as they are.
        let order = (runs.len() > 1).then(|| UInt32Array::from(order));
        let by_key = |array: ArrayRef| match &order {
            Some(order) => take(&array, order, None),
            None => Ok(array),
        };
        let columns = self.arguments.iter().map(|argument| by_key(ordered.column(argument.column, time)));
        let arguments = columns.map(|column| Ok(Column::new(&column?))).collect::<Result<_, ArrowError>>();
        let own = self.calls.iter().map(|call| {
            let columns = call.udaf_columns.iter().map(|&column| by_key(ordered.column(column, time)));
            columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()
        });
        let own = own.collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let ticks = match self.needs_ticks {
            true => by_key(Arc::new(ordered.ticks())).map_err(state_error)?,
            false => Arc::new(Int64Array::from(Vec::<i64>::new())),
        };
        let columns = Columns {
            arguments: arguments.map_err(state_error)?,
            ticks: ticks.as_primitive::<Int64Type>().values().clone(),
            own,
            is_whole: runs.len() == 1,
        };
        let mut results: Vec<Results> = self.calls.iter().map(|call| call.results(rows.num_rows())).collect();
        let (columns_beside, rows_of_all) = (bytes_beside(rows.columns()), rows.num_rows().max(1));
        let row_bytes = row_bytes(rows.columns()) + columns_beside / rows_of_all + STATE_BYTES_PER_ROW;
        for (number, run) in runs {
            self.add_partitions(number + 1);
            let mut start = run.start;
            while start < run.end {
                let end = self.piece_end(number, &columns.ticks, start..run.end);
                self.compute_run(number, &columns, start..end, &mut results)?;
                start = end;
            }
            self.measure(number, run.len() * row_bytes);
        }
        let places = order.map(|order| inverse(order.values()));
        let values = results.into_iter().zip(&self.calls).map(|(results, call)| {
            let array = results.finish(&call.call.data_type);
            places.as_ref().map_or(Ok(array.clone()), |places| take(&array, places, None))
        });
        let values: Vec<ArrayRef> = values.collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let columns = self.spec.columns.iter().map(|column| match column {
            OverColumn::Input(column) => ordered.column(*column, time),
            OverColumn::Value(call) => values[*call].clone(),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.spec.schema.clone(), columns.collect(), &options).map_err(state_error)
    }

    fn add_partitions(&mut self, count: usize) {
        while self.partitions.len() < count {
            let mut partition = Partition::new(&self.calls, &self.arguments, self.frames.len(), self.keys.is_none());
            partition.deferred = self.spec.frame_end().map(|_| Box::default());
            self.partitions.push(partition);
        }
    }

    /// Measures what a key has, unless rows that may take so much are too little for that.
    fn measure(&mut self, number: usize, more_bytes: usize) {
        let partition = &mut self.partitions[number];
        partition.unmeasured_bytes += more_bytes;
        if partition.unmeasured_bytes >= partition.measured_bytes / MEASURED_PART {
            let bytes = partition.bytes();
            self.partitions_bytes = self.partitions_bytes - partition.measured_bytes + bytes;
            (partition.measured_bytes, partition.unmeasured_bytes) = (bytes, 0);
        }
    }

    /// One past the first rows of `run` that are computed together, few enough to stay in the cache. Rows of one time are together where
    /// frames need them, and where a row can look back at none before it, it is the first.
    fn piece_end(&self, number: usize, ticks: &[i64], run: Range<usize>) -> usize {
        // Whole chunks of what is kept lie inside one piece.
        let begun = self.partitions[number].rows as usize % RUN_ROWS;
        let mut end = run.end.min(run.start + RUN_ROWS - begun);
        if self.peers_together {
            end += ticks[end..run.end].iter().take_while(|&&tick| tick == ticks[end - 1]).count();
        }
        let Some(looks_back) = self.looks_back else { return end };
        let is_near = |pair: &[i64]| pair[1].saturating_sub(pair[0]) <= looks_back;
        run.start + 1 + ticks[run.start..end].windows(2).take_while(|pair| is_near(pair)).count()
    }

    /// Computes the next rows of one key.
    fn compute_run(
        &mut self,
        number: usize,
        columns: &Columns,
        rows: Range<usize>,
        results: &mut [Results],
    ) -> Result<(), KernelError> {
        let partition = &mut self.partitions[number];
        let ticks = &columns.ticks;
        if let Some(looks_back) = self.looks_back {
            // The key may have been dropped, or not yet: what is rounded must not depend on it.
            if partition.rows > 0 && ticks[rows.start].saturating_sub(partition.last_tick) > looks_back {
                self.partitions_bytes -= partition.measured_bytes;
                *partition = Partition::new(&self.calls, &self.arguments, self.frames.len(), self.keys.is_none());
            }
            partition.last_tick = ticks[rows.end - 1];
        }
        let position = partition.rows;
        partition.rows += rows.len() as u64;
        if self.needs_times {
            partition.times.append(Coming { values: ticks, nulls: None, is_whole: false }, rows.clone());
        }
        for (kept, column) in partition.kept.iter_mut().zip(&columns.arguments) {
            if let Some(kept) = kept {
                kept.append(column, columns.is_whole, rows.clone());
            }
        }
        let run_ticks = if self.needs_ticks { &ticks[rows.clone()] } else { &[] };
        for ((frame, bounds), start) in self.frames.iter().zip(&mut self.bounds).zip(&mut partition.starts) {
            frame.bounds((run_ticks, rows.len(), position), start, &partition.times, bounds);
        }
        for (scanned, kept) in partition.scanned.iter_mut().zip(&partition.kept) {
            if let (Some(scanned), Some(kept)) = (scanned, kept) {
                scanned.enter::<SumFloat>(position, rows.len(), kept.floats());
            }
        }
        self.compute_calls(number, columns, (rows, position), results)?;
        self.partitions[number].forget(&self.frames, &self.arguments);
        Ok(())
    }

    /// Computes the calls over the frames of `bounds`. Rows of a key come into them, the first of which has this position.
    fn compute_calls(
        &mut self,
        number: usize,
        columns: &Columns,
        (rows, position): (Range<usize>, u64),
        results: &mut [Results],
    ) -> Result<(), KernelError> {
        let partition = &mut self.partitions[number];
        let calls = self.calls.iter().zip(&columns.own).zip(&mut partition.states).enumerate();
        for (index, ((planned, own), state)) in calls {
            let argument = planned.argument.map(|argument| {
                let values = &columns.arguments[argument];
                let (kept, scanned) = (partition.kept[argument].as_ref(), partition.scanned[argument].as_ref());
                ArgumentRows { values, kept, scanned }
            });
            let place = RunRows { rows: rows.clone(), position, bounds: &self.bounds[planned.frame] };
            planned.compute(state, (argument, own), place, &mut self.scratch, (index, &mut *results))?;
        }
        results.iter_mut().for_each(Results::end_run);
        Ok(())
    }
}

/// What rows are computed from, those of each key side by side.
struct Columns {
    /// For each of `OverRows::arguments`.
    arguments: Vec<Column>,
    /// Their times, where any frame depends on times.
    ticks: ScalarBuffer<i64>,
    /// For each call those of one of the program's own functions.
    own: Vec<Vec<ArrayRef>>,
    /// All are of one key.
    is_whole: bool,
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
            frames_scanned: Vec::new(),
        }
    }

    /// Keeps what a call over a frame looks back at.
    fn keep_for(&mut self, call: &OverCall, frame: usize, of_one_key: bool) {
        let argument = match self.form {
            Form::Integer => DataType::Int64,
            Form::Float => DataType::Float64,
            Form::Decimal => DataType::Decimal128(38, 0),
            Form::Bytes => DataType::BinaryView,
        };
        let kept = call.kept(Some(&argument));
        // Short frames of doubles keep their values themselves; which are NULL is looked up.
        let is_sum = !call.is_distinct && matches!(call.function, OverFunction::Sum | OverFunction::Mean);
        if is_sum && self.form == Form::Float && !self.nullable && is_short(call.frame, of_one_key) {
            return;
        }
        match (&call.function, kept) {
            (_, None) => return,
            (OverFunction::Lag { rows }, _) => self.rows_kept = self.rows_kept.max(Some(*rows)),
            (_, Some(_)) => self.frames_kept.push(frame),
        }
        if let Some(Frame::Rows { preceding }) = kept {
            self.rows_hint = self.rows_hint.max(preceding);
        }
    }

    /// What sums of several frames share.
    fn scanned(&self) -> Option<Scanned<f64>> {
        (!self.frames_scanned.is_empty()).then(Scanned::new::<SumFloat>)
    }

    fn store(&self) -> Option<RetainedColumn> {
        if self.frames_kept.is_empty() && self.rows_kept.is_none() {
            return None;
        }
        Some(match self.form {
            Form::Integer => RetainedColumn::Integers(ColumnStore::new(self.nullable, self.rows_hint)),
            Form::Float => RetainedColumn::Floats(ColumnStore::new(self.nullable, self.rows_hint)),
            Form::Decimal => RetainedColumn::Decimals(ColumnStore::new(self.nullable, self.rows_hint)),
            Form::Bytes => RetainedColumn::Bytes(TextStore::default()),
        })
    }
}

/// How many ticks a row looks back at most, where all calls' frames begin at times.
fn looks_back(calls: &[PlannedCall], frames: &[FrameTicks]) -> Option<i64> {
    let ticks = calls.iter().map(|planned| match (&planned.call.function, frames[planned.frame]) {
        (OverFunction::RowNumber | OverFunction::Rank { .. } | OverFunction::Lag { .. }, _) => None,
        // Rows wait that no later row looks back at.
        (_, FrameTicks::RowsAround(_) | FrameTicks::RangeAround(_)) => None,
        (_, frame) => frame.length(),
    });
    ticks.collect::<Option<Vec<i64>>>()?.into_iter().max()
}

/// Rows in batches of so many.
fn cut(rows: RecordBatch, batch_rows_max: usize) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..rows.num_rows()).step_by(batch_rows_max);
    starts.map(move |start| rows.slice(start, batch_rows_max.min(rows.num_rows() - start)))
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
