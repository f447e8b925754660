//! Rows that wait, and what is remembered of each key's, in snapshots.
//!
//! Keys are written in the order of their numbers, and what is remembered of each behind them: how much that is differs from key to key.

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use pelton_data::block::ticks;

use super::call::{Counted, KeyRows};
use super::deferred::DeferredRows;
use super::frame::FrameTicks;
use super::planned::PlannedCall;
use super::{Argument, OverRows, Partition};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

/// A key of more rows would be written by nobody, and their positions can be added.
const ROWS_MAX: u64 = u64::MAX >> 2;

impl Snapshot for OverRows {
    fn description(&self) -> String {
        let spec = &self.spec;
        let columns: Vec<String> =
            spec.input_schema.fields().iter().map(|field| field.data_type().to_string()).collect();
        format!("rows ({}) by {:?} in the order of {:?}, {:?}", columns.join(", "), spec.keys, spec.time, spec.calls)
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        self.pending.write_to(&self.spec.input_schema, out)?;
        self.keys.as_ref().map_or(Ok(()), |keys| keys.write_to(out))?;
        out.count(self.partitions.len());
        self.partitions.iter().try_for_each(|partition| partition.write_to(self.needs_times, out))?;
        self.deferred.as_ref().map_or(Ok(()), |deferred| deferred.write_to(&self.spec.input_schema, out))
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let time = self.spec.time.map(|time| time.index);
        self.pending.read_from(&self.spec.input_schema, time, input)?;
        let keys = self.keys.as_mut().map_or(Ok(1), |keys| keys.read_from(input))?;
        let count = input.count(1, "keys with rows")?;
        let has_all = if self.keys.is_some() { count == keys } else { count <= 1 };
        input.check(has_all, "as many keys with rows as there are")?;
        for number in 0..count {
            self.add_partitions(number + 1);
            self.partitions[number].read_from((&self.calls, &self.arguments, &self.frames), self.needs_times, input)?;
            self.measure(number, 0);
        }
        self.idle_looked_for_at = self.idle_looked_for_at.max(2 * count);
        match (&mut self.deferred, self.spec.time) {
            (Some(deferred), Some(time)) => {
                deferred.read_from(&self.spec.input_schema, time.index, &mut self.partitions, input)
            }
            _ => Ok(()),
        }
    }
}

impl DeferredRows {
    /// Writes the rows. Which are due is told by those behind them, and the next watermark.
    fn write_to(&self, schema: &SchemaRef, out: &mut Writer) -> Result<(), SnapshotError> {
        let rows = self.in_order();
        let keys: Vec<u32> = rows.iter().map(|(_, _, key)| *key).collect();
        out.list(&keys);
        for chunk in rows.chunk_by(|(one, ..), (next, ..)| std::ptr::eq(*one, *next)) {
            let places = UInt32Array::from_iter_values(chunk.iter().map(|(_, row, _)| *row as u32));
            let taken = take_record_batch(chunk[0].0, &places);
            out.batch(&taken.map_err(|error| SnapshotError::NoForm(error.to_string()))?, schema)?;
        }
        Ok(())
    }

    fn read_from(
        &mut self,
        schema: &SchemaRef,
        time: usize,
        partitions: &mut [Partition],
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let keys = input.list::<u32>("keys of rows that wait")?;
        input.check(keys.iter().all(|&key| (key as usize) < partitions.len()), "keys that there are")?;
        let mut first = 0;
        while first < keys.len() {
            let rows = input.batch(schema, "rows that wait for others")?;
            let end = first + rows.num_rows();
            input.check(first < end && end <= keys.len(), "as many rows that wait as keys of them")?;
            let ticks = ticks(rows.column(time)).values().to_vec();
            self.add(rows, keys[first..end].to_vec(), ticks, partitions);
            first = end;
        }
        let are_all = partitions.iter().all(|partition| partition.deferred().rows() == partition.rows);
        input.check(are_all, "all rows that have come and not left")
    }
}

impl Partition {
    fn write_to(&self, needs_times: bool, out: &mut Writer) -> Result<(), SnapshotError> {
        out.number(self.rows);
        if let Some(deferred) = &self.deferred {
            out.number(deferred.left);
            out.number(deferred.entered);
        }
        out.instant(self.last_tick);
        out.column(&self.starts);
        if needs_times {
            self.times.write_to(out);
        }
        self.kept.iter().flatten().try_for_each(|kept| kept.write_to(out))?;
        self.states.iter().try_for_each(|state| state.write_to(out))
    }

    fn read_from(
        &mut self,
        (calls, arguments, frames): (&[PlannedCall], &[Argument], &[FrameTicks]),
        needs_times: bool,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        self.rows = input.number("rows of a key")?;
        let (rows, mut computed, mut entered) = (self.rows, self.rows, self.rows);
        if let Some(deferred) = &mut self.deferred {
            (computed, entered) = (input.number("rows that have left")?, input.number("rows that are in frames")?);
            input.check(computed <= entered && entered <= rows, "no more rows in frames than there are")?;
            input.check((computed == 0) == (entered == 0), "rows that are in frames of rows that have left")?;
            (deferred.left, deferred.entered) = (computed, entered);
        }
        self.last_tick = input.instant("the time of a key's last row")?;
        input.check(rows <= ROWS_MAX, "rows that can be counted")?;
        self.starts = input.column(frames.len(), "starts of frames")?.to_vec();
        let mut starts = frames.iter().zip(&self.starts);
        let is_last = |(frame, start): (&FrameTicks, &u64)| match frame.last_start(computed) {
            Some(last) => *start == last,
            None => *start < computed.max(1),
        };
        input.check(starts.all(is_last), "frames of rows that have come")?;
        if needs_times {
            let first = self.times.read_from(rows, input)?;
            let mut timed = frames.iter().zip(&self.starts).filter(|(frame, _)| frame.length().is_some());
            input.check(timed.all(|(_, start)| first <= *start), "frames of times that are kept")?;
            input.check(self.deferred.is_none() || first <= computed, "times of rows that wait")?;
        }
        let mut first_kept = vec![entered; arguments.len()];
        for ((kept, argument), first) in self.kept.iter_mut().zip(arguments).zip(&mut first_kept) {
            let Some(kept) = kept else { continue };
            *first = kept.read_from(entered, input)?;
            let starts = argument.frames_kept.iter().map(|&frame| self.starts[frame]);
            let rows = argument.rows_kept.map(|kept| rows.saturating_sub(kept));
            input.check(starts.chain(rows).all(|start| *first <= start), "values that frames look back at")?;
        }
        for (planned, state) in calls.iter().zip(&mut self.states) {
            let frame_start = self.starts[planned.frame];
            let kept = planned.argument.filter(|&argument| arguments[argument].frames_kept.contains(&planned.frame));
            let kept = kept.and_then(|argument| self.kept[argument].as_ref());
            let rows = KeyRows {
                end: entered,
                frame_start,
                kept_from: planned.argument.map_or(entered, |argument| first_kept[argument]),
                counted: Counted::of(planned),
                valid: kept.and_then(|kept| kept.count_valid_from(frame_start)),
            };
            state.read_from(&rows, &planned.udaf_types, input)?;
        }
        Ok(())
    }
}
