//! Rows that wait, and what is remembered of each key's, in snapshots.
//!
//! Keys are written in the order of their numbers, and what is remembered of each behind them: how much that is differs from key to key.

use super::call::{Counted, KeyRows};
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
        self.partitions.iter().try_for_each(|partition| partition.write_to(self.needs_times, out))
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
        Ok(())
    }
}

impl Partition {
    fn write_to(&self, needs_times: bool, out: &mut Writer) -> Result<(), SnapshotError> {
        out.number(self.rows);
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
        self.last_tick = input.instant("the time of a key's last row")?;
        input.check(self.rows <= ROWS_MAX, "rows that can be counted")?;
        self.starts = input.column(frames.len(), "starts of frames")?.to_vec();
        let mut starts = frames.iter().zip(&self.starts);
        let is_last = |(frame, start): (&FrameTicks, &u64)| match frame.last_start(self.rows) {
            Some(last) => *start == last,
            None => *start < self.rows.max(1),
        };
        input.check(starts.all(is_last), "frames of rows that have come")?;
        if needs_times {
            let first = self.times.read_from(self.rows, input)?;
            let mut timed = frames.iter().zip(&self.starts).filter(|(frame, _)| frame.needs_times());
            input.check(timed.all(|(_, start)| first <= *start), "frames of times that are kept")?;
        }
        let mut first_kept = vec![self.rows; arguments.len()];
        for ((kept, argument), first) in self.kept.iter_mut().zip(arguments).zip(&mut first_kept) {
            let Some(kept) = kept else { continue };
            *first = kept.read_from(self.rows, input)?;
            let starts = argument.frames_kept.iter().map(|&frame| self.starts[frame]);
            let rows = argument.rows_kept.map(|rows| self.rows.saturating_sub(rows));
            input.check(starts.chain(rows).all(|start| *first <= start), "values that frames look back at")?;
        }
        for (planned, state) in calls.iter().zip(&mut self.states) {
            let frame_start = self.starts[planned.frame];
            let kept = planned.argument.filter(|&argument| arguments[argument].frames_kept.contains(&planned.frame));
            let kept = kept.and_then(|argument| self.kept[argument].as_ref());
            let rows = KeyRows {
                end: self.rows,
                frame_start,
                kept_from: planned.argument.map_or(self.rows, |argument| first_kept[argument]),
                counted: Counted::of(planned),
                valid: kept.and_then(|kept| kept.count_valid_from(frame_start)),
            };
            state.read_from(&rows, &planned.own_types, input)?;
        }
        Ok(())
    }
}
