//! Rows that wait and rows that may match again in snapshots. What finds them by key is made anew.

use arrow::array::Array;
use pelton_data::block::ticks;
use pelton_data::join::Side;

use super::{Method, TimedJoin};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

impl Snapshot for TimedJoin {
    fn description(&self) -> String {
        let spec = &self.spec;
        let sides: Vec<String> = spec
            .sides
            .iter()
            .map(|side| {
                let types: Vec<String> =
                    side.schema.fields().iter().map(|field| field.data_type().to_string()).collect();
                format!("({}) by {:?} at {:?}", types.join(", "), side.keys, side.time)
            })
            .collect();
        format!("{:?} join {:?} of rows {}", spec.kind, spec.time, sides.join(" and "))
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        for (side, rows) in Side::BOTH.into_iter().zip(&self.sides) {
            rows.pending.write_to(&rows.side.schema, out)?;
            let (first, next, end) = rows.numbers();
            let held = rows.held().map_err(|error| SnapshotError::NoForm(error.to_string()))?;
            out.batch(&held, &rows.side.schema)?;
            out.number(next - first);
            (first..end).for_each(|row| out.flag(rows.has_matched(row)));
            let waits =
                |row| matches!(&self.method, Method::Nearest(nearest) if side == Side::Left && nearest.waits(row));
            (first..next).for_each(|row| out.flag(waits(row)));
        }
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for side in Side::BOTH {
            let rows = &mut self.sides[side.port()];
            rows.pending.read_from(&rows.side.schema, Some(rows.time.index), input)?;
            let held = self.read_rows(side, input)?;
            let joined = input.number("rows that have been joined")?;
            input.check(joined <= held, "no more rows that have been joined than there are")?;
            let rows = &mut self.sides[side.port()];
            let (first, ..) = rows.numbers();
            for row in first..first + held {
                if input.flag("whether a row has had a match")? {
                    rows.set_matched(row);
                }
            }
            let keys = self.keys.as_ref().map_or(1, |keys| keys.count());
            for _ in 0..joined {
                let waits = input.flag("whether a row waits for its match")?;
                let rows = &mut self.sides[side.port()];
                let Some(row) = rows.peek() else { return input.check(false, "rows that have been joined") };
                rows.skip(1);
                match &mut self.method {
                    Method::Interval(interval) => interval.restore(side, row, keys),
                    Method::Nearest(nearest) => nearest.restore(side, row, waits, keys),
                }
            }
        }
        Ok(())
    }
}

impl TimedJoin {
    /// Reads the rows of a side that are in order. Returns how many.
    fn read_rows(&mut self, side: Side, input: &mut Reader<'_>) -> Result<u64, SnapshotError> {
        let rows = &mut self.sides[side.port()];
        let batch = input.batch(&rows.side.schema, "rows in order")?;
        let ticks = ticks(batch.column(rows.time.index));
        let are_ordered = ticks.null_count() == 0 && ticks.values().is_sorted();
        input.check(are_ordered, "rows in the order of their times")?;
        let times = ticks.values().iter().map(|&tick| rows.micros(tick)).collect();
        let count = batch.num_rows() as u64;
        let pushed = rows.push(batch, times, &mut self.keys);
        input.check(pushed.is_ok(), "rows that have keys")?;
        Ok(count)
    }
}
