//! Rows that wait until the watermark has passed their time, and leave in the order of their times.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use pelton_data::block::{shifted, ticks};
use pelton_data::column::{bytes_of, compacted, gathered};

use crate::snapshot::{Reader, SnapshotError, Writer};

/// Rows that wait hold the batch that they came with as long as no more than so many rows of it are held for each: then they are copied.
const HELD_PER_ROW_MAX: usize = 4;

/// Rows that wait.
///
/// Each batch is put in order when it comes; then those of its rows whose time has come are always at its front. Rows of one time
/// leave by their input, and then as they came, so that nothing depends on how rows were cut into batches.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// By the first row's time, the input and the number of the batch.
    batches: BTreeMap<(i64, usize, u64), Ordered>,
    next_batch: u64,
    rows: usize,
    /// No more rows come up to this time.
    passed: Option<i64>,
    /// Rows that wait for no time, as they came.
    arrived: Vec<Ordered>,
}

/// Rows that come together.
#[derive(Debug)]
pub struct Arriving {
    /// The rows. Their time is what their column says, and the shift.
    pub rows: RecordBatch,
    /// In ticks of that column.
    pub time_shift_ticks: i64,
    /// The times of the first and the last, with the shift, where the rows are known to be in the order of their times: then these are not
    /// looked at.
    pub in_time_order: Option<(i64, i64)>,
}

impl From<RecordBatch> for Arriving {
    /// Rows of which nothing is known.
    fn from(rows: RecordBatch) -> Arriving {
        Arriving { rows, time_shift_ticks: 0, in_time_order: None }
    }
}

/// Rows in the order of their times.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// The time is as it came, without the shift.
    pub rows: RecordBatch,
    /// The same column.
    ticks: Int64Array,
    /// What is added to each of them.
    shift: i64,
    /// The first and the last of them, where they are known without a look at rows that nobody looks at.
    ends: Option<(i64, i64)>,
    /// What is held of the batch that came: its bytes and rows, of which these may be a part.
    held: (usize, usize),
}

impl Ordered {
    /// The rows from `first` on, so many.
    fn slice(&self, first: usize, rows: usize) -> Ordered {
        let ends = self.ends.filter(|_| rows == self.ticks.len());
        let (ticks, held) = (self.ticks.slice(first, rows), self.held);
        Ordered { rows: self.rows.slice(first, rows), ticks, shift: self.shift, ends, held }
    }

    fn new(rows: RecordBatch, ticks: Int64Array, shift: i64, ends: Option<(i64, i64)>) -> Ordered {
        let held = (bytes_of(&rows), rows.num_rows());
        Ordered { rows, ticks, shift, ends, held }
    }

    /// The same rows, copied: the batch that they are a part of is not held.
    fn copied(&self, time: usize) -> Result<Ordered, ArrowError> {
        let places = UInt32Array::from_iter_values(0..self.rows.num_rows() as u32);
        let taken = take_record_batch(&self.rows, &places)?;
        let rows = RecordBatch::try_new(taken.schema(), taken.columns().iter().map(compacted).collect())?;
        let ticks = ticks(rows.column(time));
        Ok(Ordered::new(rows, ticks, self.shift, self.ends))
    }

    fn first_tick(&self) -> Option<i64> {
        self.ends.map(|(first, _)| first).or_else(|| self.ticks.values().first().map(|tick| tick + self.shift))
    }

    fn last_tick(&self) -> Option<i64> {
        self.ends.map(|(_, last)| last).or_else(|| self.ticks.values().last().map(|tick| tick + self.shift))
    }

    /// How many rows there are up to a time. Mostly all, none or nearly all: then no more is looked at than what is known, or the last ones.
    fn count_until(&self, last: i64) -> usize {
        let ticks = self.ticks.values();
        match (self.first_tick(), self.last_tick()) {
            (Some(first), _) if first > last => 0,
            (_, Some(tick)) if tick > last => {
                let mut looked_at = 1;
                while looked_at < ticks.len() && ticks[ticks.len() - looked_at] + self.shift > last {
                    looked_at *= 2;
                }
                let first = ticks.len().saturating_sub(looked_at);
                first + ticks[first..].partition_point(|&tick| tick + self.shift <= last)
            }
            _ => ticks.len(),
        }
    }

    /// The time of each row.
    pub fn ticks(&self) -> Int64Array {
        match self.shift {
            0 => self.ticks.clone(),
            shift => self.ticks.unary(|tick| tick + shift),
        }
    }

    /// The column, which is the time where its index is `time`, shifted.
    pub fn column(&self, column: usize, time: Option<usize>) -> ArrayRef {
        let raw = self.rows.column(column);
        if time == Some(column) && self.shift != 0 { shifted(raw, self.shift) } else { raw.clone() }
    }

    /// The same rows, copied where they are few of the batch that they are a part of.
    pub fn alone(self, time: Option<usize>) -> Result<Ordered, ArrowError> {
        let are_few = self.rows.num_rows() < self.held.1 / HELD_PER_ROW_MAX;
        time.filter(|_| are_few)
            .map_or(Ok(None), |time| self.copied(time).map(Some))
            .map(|copied| copied.unwrap_or(self))
    }

    /// The rows with their times.
    pub fn batch(&self, time: Option<usize>) -> Result<RecordBatch, ArrowError> {
        let columns = (0..self.rows.num_columns()).map(|column| self.column(column, time));
        RecordBatch::try_new(self.rows.schema(), columns.collect())
    }
}

impl Pending {
    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory that they hold.
    pub fn bytes(&self) -> usize {
        self.batches.values().chain(&self.arrived).map(|batch| batch.held.0).sum()
    }

    /// The time of the first row.
    pub fn first_tick(&self) -> Option<i64> {
        self.batches.keys().next().map(|&(first, ..)| first)
    }

    /// From now on rows up to this time are left out.
    pub fn pass(&mut self, last: i64) {
        self.passed = self.passed.max(Some(last));
    }

    /// Takes rows of one input. Column `time` is their time. Returns how many of them are left out, because their time has passed.
    pub fn add(&mut self, input: usize, arriving: Arriving, time: usize) -> Result<usize, ArrowError> {
        let ordered = in_order(arriving, time)?;
        let late = self.passed.map_or(0, |last| ordered.count_until(last));
        self.put_back(input, self.next_batch, ordered.slice(late, ordered.ticks.len() - late));
        self.next_batch += 1;
        Ok(late)
    }

    /// Takes rows that stay in the order of their arrival.
    pub fn arrive(&mut self, rows: RecordBatch) {
        self.rows += rows.num_rows();
        self.arrived.push(Ordered::new(rows, Int64Array::from(Vec::<i64>::new()), 0, None));
    }

    /// Takes out all rows that arrived.
    pub fn take_arrived(&mut self) -> Vec<Ordered> {
        self.rows = 0;
        std::mem::take(&mut self.arrived)
    }

    /// Writes the rows, which have this schema.
    pub fn write_to(&self, schema: &SchemaRef, out: &mut Writer) -> Result<(), SnapshotError> {
        out.flag(self.passed.is_some());
        self.passed.into_iter().for_each(|until| out.instant(until));
        let mut batches: Vec<_> = self.batches.iter().collect();
        batches.sort_by_key(|((_, _, number), _)| *number);
        out.count(batches.len());
        for ((_, input, _), batch) in batches {
            out.count(*input);
            out.instant(batch.shift);
            out.batch(&batch.rows, schema)?;
        }
        out.count(self.arrived.len());
        self.arrived.iter().try_for_each(|batch| out.batch(&batch.rows, schema))
    }

    /// Becomes what was written. Column `time`, if there is one, is the time of the rows.
    pub fn read_from(
        &mut self,
        schema: &SchemaRef,
        time: Option<usize>,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let passed = match input.flag("whether time has passed")? {
            true => Some(input.instant("up to which time no more rows come")?),
            false => None,
        };
        for _ in 0..input.count(1, "batches")? {
            let number = input.count(0, "an input")?;
            let shift = input.instant("a shift of times")?;
            let rows = input.batch(schema, "rows that wait")?;
            let Some(time) = time else { return input.check(false, "rows that wait for no time") };
            let are_times = ticks(rows.column(time)).values().iter().all(|tick| tick.checked_add(shift).is_some());
            input.check(are_times, "times of rows")?;
            let arriving = Arriving { rows, time_shift_ticks: shift, in_time_order: None };
            let added = self.add(number, arriving, time);
            input.check(added.is_ok(), "rows that can be put in order")?;
        }
        self.passed = passed;
        for _ in 0..input.count(1, "batches that wait for no time")? {
            let rows = input.batch(schema, "rows that wait for no time")?;
            self.arrive(rows);
        }
        Ok(())
    }

    fn put_back(&mut self, input: usize, number: u64, batch: Ordered) {
        if let Some(first) = batch.first_tick() {
            self.rows += batch.ticks.len();
            self.batches.insert((first, input, number), batch);
        }
    }

    /// The last time up to `last` such that no more than `rows_max` rows have come up to it, or one time's.
    pub fn last_of(&self, last: i64, rows_max: usize) -> i64 {
        let ready = |last: i64| self.batches.range(..=(last, usize::MAX, u64::MAX)).map(|(_, batch)| batch);
        // The first batches that have more rows end behind it.
        let (mut rows, mut end) = (0, i64::MIN);
        let has_more = |batch: &Ordered| {
            rows += batch.ticks.len();
            end = end.max(batch.last_tick().unwrap_or(end));
            rows > rows_max
        };
        if !ready(last).any(has_more) {
            return last;
        }
        let many = end.min(last);
        let count = |until: i64| ready(many).map(|batch| batch.count_until(until)).sum::<usize>();
        if count(many) <= rows_max {
            return last;
        }
        let mut few = self.batches.keys().next().map_or(last, |first| first.0);
        let mut more = many;
        while more.abs_diff(few) > 1 {
            let between = few.midpoint(more);
            if count(between) <= rows_max { few = between } else { more = between }
        }
        few
    }

    /// Takes out all rows up to the time `last`, in as many pieces as there are: later pieces are later. Where `peers_together`, rows of
    /// one time are in one piece.
    pub fn take_until(&mut self, last: i64, time: usize, peers_together: bool) -> Result<Vec<Ordered>, ArrowError> {
        let mut pieces: Vec<((usize, u64), Ordered)> = Vec::new();
        while let Some(first) = self.batches.first_entry().filter(|first| first.key().0 <= last) {
            let ((_, input, number), batch) = first.remove_entry();
            let count = batch.count_until(last);
            self.rows -= batch.ticks.len();
            let left = batch.slice(count, batch.ticks.len() - count);
            let are_few = (1..left.held.1 / HELD_PER_ROW_MAX).contains(&left.ticks.len());
            self.put_back(input, number, if are_few { left.copied(time)? } else { left });
            pieces.push(((input, number), batch.slice(0, count)));
        }
        pieces.sort_by_key(|(order, _)| *order);
        let pieces: Vec<Ordered> = pieces.into_iter().map(|(_, piece)| piece).collect();
        let follows = |pair: &[Ordered]| {
            let (last, next) = (pair[0].last_tick(), pair[1].first_tick());
            last < next || (last == next && !peers_together)
        };
        if pieces.windows(2).all(follows) {
            return Ok(pieces);
        }
        let batches = pieces.iter().map(|piece| piece.batch(Some(time))).collect::<Result<Vec<_>, _>>()?;
        let all = concat_batches(&pieces[0].rows.schema(), &batches)?;
        let columns = all.columns().iter().map(|column| gathered(column.clone())).collect();
        let all = RecordBatch::try_new(all.schema(), columns)?;
        Ok(vec![in_order(all.into(), time)?])
    }
}

/// The rows by their time; those of one time stay as they are.
fn in_order(arriving: Arriving, time: usize) -> Result<Ordered, ArrowError> {
    let Arriving { rows, time_shift_ticks: shift, in_time_order } = arriving;
    let unordered = ticks(rows.column(time));
    debug_assert!(in_time_order.is_none() || unordered.values().is_sorted());
    if in_time_order.is_some() || unordered.values().is_sorted() {
        return Ok(Ordered::new(rows, unordered, shift, in_time_order));
    }
    let mut order: Vec<u32> = (0..unordered.len() as u32).collect();
    order.sort_by_key(|&row| unordered.value(row as usize));
    let rows = take_record_batch(&rows, &UInt32Array::from(order))?;
    let ticks = ticks(rows.column(time));
    Ok(Ordered::new(rows, ticks, shift, None))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::TimestampMicrosecondArray;

    use super::*;

    fn batch(ticks: &[i64]) -> Arriving {
        let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(ticks.to_vec()));
        RecordBatch::try_from_iter([("t", column)]).unwrap().into()
    }

    #[test]
    fn rows_up_to_a_time_are_counted_from_the_last() {
        for times in [vec![0_i64; 7], (0..20).collect(), (0..33).map(|row| row / 5).collect()] {
            let ordered = in_order(batch(&times), 0).unwrap();
            for last in -1..35 {
                let expected = times.iter().filter(|time| **time <= last).count();
                assert_eq!(ordered.count_until(last), expected, "{times:?} up to {last}");
            }
        }
    }

    #[test]
    fn rows_leave_in_bounded_numbers_but_those_of_one_time_together() {
        let mut pending = Pending::default();
        for ticks in [[1, 5, 9], [2, 4, 6], [4, 4, 30], [3, 8, 20]] {
            assert_eq!(pending.add(0, batch(&ticks), 0).unwrap(), 0);
        }
        assert_eq!(pending.last_of(25, 100), 25);
        assert_eq!(pending.last_of(25, 3), 3);
        assert_eq!(pending.last_of(25, 5), 3);
        assert_eq!(pending.last_of(25, 6), 4);
        assert_eq!(pending.last_of(9, 10), 9);
        let mut take = |last, rows_max| {
            let last = pending.last_of(last, rows_max);
            pending.pass(last);
            let pieces = pending.take_until(last, 0, true).unwrap();
            (last, pieces.iter().flat_map(|piece| piece.ticks().values().to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(take(25, 3), (3, vec![1, 2, 3]));
        // More than were asked for: they are of one time.
        assert_eq!(take(25, 2), (4, vec![4, 4, 4]));
        assert_eq!(take(25, 4), (19, vec![5, 6, 8, 9]));
        assert_eq!(take(25, 4), (25, vec![20]));
        assert_eq!(pending.add(0, batch(&[7, 25, 26]), 0).unwrap(), 2);
        assert_eq!(pending.rows(), 2);
    }
}
