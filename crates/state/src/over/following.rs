//! What is computed over frames that end after their rows: once a frame is whole, its calls go over it as over any other, and its row leaves.
//!
//! Rows come into frames only as far as frames reach that are computed, whatever has come: what is rounded does not depend on how rows were cut into batches.

use std::ops::Range;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use pelton_data::Micros;
use pelton_data::over::OverColumn;

use super::deferred::{DeferredRows, Due};
use super::frame::Bounds;
use super::row_store::Coming;
use super::value::{Column, Results};
use super::{Columns, OverRows, inverse, state_error};
use crate::kernel::KernelError;
use crate::key_numbers::Grouped;
use crate::pending::Ordered;

/// Rows of one key that leave.
struct Leaving {
    key: usize,
    /// How many.
    rows: usize,
    /// Where the rows that come into their frames are, among those of all keys.
    entering: Range<usize>,
}

impl OverRows {
    /// Takes rows in order, and returns those whose frames are whole, about so many, with the values of their calls.
    pub(super) fn follow(
        &mut self,
        deferred: &mut DeferredRows,
        pieces: Vec<Ordered>,
        (until, rows_max): (i64, usize),
    ) -> Result<Option<RecordBatch>, KernelError> {
        for piece in pieces {
            self.come(deferred, piece).map_err(state_error)?;
        }
        deferred.pass(until, until == i64::MAX, &mut self.partitions);
        let due = deferred.take_due(rows_max);
        if due.is_empty() {
            return Ok(None);
        }
        let rows = self.compute_due(deferred, &due)?;
        deferred.leave(&due).map_err(state_error)?;
        Ok(Some(rows))
    }

    /// Takes rows in order, which wait.
    fn come(&mut self, deferred: &mut DeferredRows, piece: Ordered) -> Result<(), ArrowError> {
        let time = self.spec.time.map(|time| time.index);
        let piece = piece.alone(time)?;
        let ticks = piece.ticks();
        let Grouped { order, runs } = match &mut self.keys {
            Some(keys) => {
                let columns: Vec<ArrayRef> = keys.columns.iter().map(|&key| piece.column(key, time)).collect();
                keys.group(&columns)
            }
            None => Grouped { order: (0..ticks.len() as u32).collect(), runs: vec![(0, 0..ticks.len())] },
        };
        let by_key = take(&ticks, &UInt32Array::from(order.clone()), None)?;
        let by_key = Int64Array::from(by_key.to_data());
        let mut keys = vec![0; ticks.len()];
        let mut lengths = Vec::with_capacity(runs.len());
        for (number, run) in runs {
            lengths.push((number, run.len()));
            self.add_partitions(number + 1);
            order[run.clone()].iter().for_each(|&row| keys[row as usize] = number as u32);
            self.partitions[number].rows += run.len() as u64;
            if self.needs_times {
                let coming = Coming::of::<Int64Type>(&by_key, false);
                self.partitions[number].times.append(coming, run);
            }
        }
        let ticks = ticks.values().to_vec();
        deferred.add(piece.batch(time)?, keys, ticks, &mut self.partitions);
        // Its number and its time.
        lengths.into_iter().for_each(|(number, rows)| self.measure(number, 2 * size_of::<u64>() * rows));
        Ok(())
    }

    /// Rows whose frames are whole, with the values of their calls.
    fn compute_due(&mut self, deferred: &DeferredRows, due: &[Due]) -> Result<RecordBatch, KernelError> {
        let mut order: Vec<u32> = (0..due.len() as u32).collect();
        order.sort_by_key(|&row| due[row as usize].key);
        let (mut leaving, mut entering, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for run in order.chunk_by(|&one, &next| due[one as usize].key == due[next as usize].key) {
            let key = due[run[0] as usize].key as usize;
            let partition = &self.partitions[key];
            let of_key = partition.deferred();
            let mut end = of_key.entered;
            for row in of_key.left..of_key.left + run.len() as u64 {
                end = deferred.end.of(row, of_key.rows(), end, &partition.times);
                ends.push(end);
            }
            let first = entering.len();
            entering.extend(of_key.numbers(of_key.entered..end));
            leaving.push(Leaving { key, rows: run.len(), entering: first..entering.len() });
        }
        let picked = deferred.pick(entering.iter().copied());
        let arguments = self.arguments.iter().map(|argument| Ok(Column::new(&picked.column(argument.column)?)));
        let own = self.calls.iter().map(|call| call.udaf_columns.iter().map(|&column| picked.column(column)).collect());
        let columns = Columns {
            arguments: arguments.collect::<Result<_, ArrowError>>().map_err(state_error)?,
            ticks: Vec::new().into(),
            own: own.collect::<Result<_, ArrowError>>().map_err(state_error)?,
            is_whole: false,
        };
        let mut results: Vec<Results> = self.calls.iter().map(|call| call.results(due.len())).collect();
        let mut ends = ends.as_slice();
        for Leaving { key, rows, entering } in leaving {
            let of_key;
            (of_key, ends) = ends.split_at(rows);
            self.compute_leaving(key, of_key, &columns, entering, &mut results)?;
        }
        let places = inverse(&order);
        let values = results.into_iter().zip(&self.calls);
        let values = values.map(|(results, call)| take(&results.finish(&call.call.data_type), &places, None));
        let values: Vec<ArrayRef> = values.collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let picked = deferred.pick(due.iter().map(|due| due.number));
        let columns = self.spec.columns.iter().map(|column| match column {
            OverColumn::Input(column) => picked.column(*column),
            OverColumn::Value(call) => Ok(values[*call].clone()),
        });
        let columns = columns.collect::<Result<_, ArrowError>>().map_err(state_error)?;
        let options = RecordBatchOptions::new().with_row_count(Some(due.len()));
        RecordBatch::try_new_with_options(self.spec.schema.clone(), columns, &options).map_err(state_error)
    }

    /// Computes the next rows of one key, whose frames end at `ends`. The rows that come into these frames are at `entering` of the columns.
    fn compute_leaving(
        &mut self,
        key: usize,
        ends: &[u64],
        columns: &Columns,
        entering: Range<usize>,
        results: &mut [Results],
    ) -> Result<(), KernelError> {
        let partition = &mut self.partitions[key];
        let (first, position) = (partition.deferred().left, partition.deferred().entered);
        for (kept, column) in partition.kept.iter_mut().zip(&columns.arguments) {
            if let Some(kept) = kept {
                kept.append(column, false, entering.clone());
            }
        }
        for ((frame, bounds), start) in self.frames.iter().zip(&mut self.bounds).zip(&mut partition.starts) {
            let Bounds::Each(frames) = bounds else { unreachable!("all frames end after their rows") };
            frames.clear();
            frames.extend((first..).zip(ends).map(|(row, &end)| {
                frame.move_start(start, row, &partition.times);
                (*start, end)
            }));
        }
        let rows = entering.len();
        self.compute_calls(key, columns, (entering, position), results)?;
        let partition = &mut self.partitions[key];
        let of_key = partition.deferred_mut();
        of_key.leave(ends.len());
        of_key.entered = position + rows as u64;
        partition.forget(&self.frames, &self.arguments);
        self.measure(key, (rows + ends.len()) * super::STATE_BYTES_PER_ROW);
        Ok(())
    }

    /// Up to which time all rows have left, where they come up to `passed`.
    pub fn left_until(&self, passed: Micros) -> Micros {
        let first = self.deferred.as_ref().and_then(DeferredRows::first_tick);
        let ticks = first.zip(self.spec.time).map(|(tick, time)| tick.saturating_mul(time.micros_per_tick));
        ticks.map_or(passed, |first| passed.min(first))
    }
}
