//! Rows whose frames end after them: they wait until all rows of their frames have come.
//!
//! Rows are numbered in the order of their times, and stay in the batches that they came in. What is left of a batch is copied where it is little.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{interleave, take_record_batch};
use arrow::error::ArrowError;
use pelton_data::column::{bytes_of, compacted, gathered};
use pelton_data::over::FrameEnd;

use super::Partition;
use super::row_store::ColumnStore;

/// What is left of a batch is copied where the batch has more than so many times its rows.
const HELD_PER_ROW_MAX: usize = 4;

/// Where frames end, in the units of the time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndTicks {
    /// So many ticks after the row.
    Range(i64),
    /// So many rows after the row.
    Rows(u64),
    /// With the last row of all.
    Unbounded,
}

/// The rows of all keys that wait.
#[derive(Debug)]
pub(super) struct DeferredRows {
    pub end: EndTicks,
    batches: VecDeque<Batch>,
    next_number: u64,
    rows: usize,
    /// Bytes of the batches.
    bytes: usize,
    /// Rows whose frames are whole, in the order in which they leave.
    due: VecDeque<Due>,
    /// Rows before this one are due or have left, where they become due in their order.
    due_until: u64,
}

/// A row whose frame is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub number: u64,
    /// The number of its key.
    pub key: u32,
}

#[derive(Debug)]
struct Batch {
    rows: RecordBatch,
    numbers: Vec<u64>,
    keys: Vec<u32>,
    ticks: Vec<i64>,
    has_left: Vec<bool>,
    /// Rows before this one have left.
    first: usize,
    deferred: usize,
    bytes: usize,
}

/// Which rows of one key wait.
#[derive(Debug, Default)]
pub(super) struct DeferredOfKey {
    /// Their numbers; the first row has the position `left`.
    numbers: VecDeque<u64>,
    /// How many of them are due.
    due: usize,
    /// Rows that have left.
    pub left: u64,
    /// Rows that have come into frames.
    pub entered: u64,
}

/// Some of the rows that wait, and the batches that they are in.
pub(super) struct Picked<'a> {
    batches: Vec<&'a RecordBatch>,
    places: Vec<(usize, usize)>,
}

impl EndTicks {
    pub fn new(end: FrameEnd, micros_per_tick: i64) -> EndTicks {
        match end {
            FrameEnd::Range(micros) => EndTicks::Range(micros.div_euclid(micros_per_tick)),
            FrameEnd::Rows(rows) => EndTicks::Rows(rows),
            FrameEnd::Unbounded => EndTicks::Unbounded,
        }
    }

    /// One past the last row of the frame of a row, whose position among the `rows` rows of its key that have come is `row`. It is not before `from`. `times`
    /// holds the times of the rows from `row` on, where they are looked at.
    pub fn of(self, row: u64, rows: u64, from: u64, times: &ColumnStore<i64>) -> u64 {
        match self {
            EndTicks::Unbounded => rows,
            EndTicks::Rows(following) => row.saturating_add(following).saturating_add(1).min(rows),
            EndTicks::Range(following) => {
                let last_tick = times.get(row).saturating_add(following);
                let mut end = from.max(row + 1);
                while end < rows && times.get(end) <= last_tick {
                    end += 1;
                }
                end
            }
        }
    }
}

impl DeferredOfKey {
    /// How many rows have come.
    pub fn rows(&self) -> u64 {
        self.left + self.numbers.len() as u64
    }

    /// The numbers of the rows of some positions.
    pub fn numbers(&self, positions: std::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.numbers.range((positions.start - self.left) as usize..(positions.end - self.left) as usize).copied()
    }

    /// Forgets the first rows, which leave.
    pub fn leave(&mut self, rows: usize) {
        self.numbers.drain(..rows);
        self.due -= rows;
        self.left += rows as u64;
    }

    pub fn bytes(&self) -> usize {
        size_of::<DeferredOfKey>() + self.numbers.capacity() * size_of::<u64>()
    }

    /// The next row is due. Returns its number.
    fn make_due(&mut self) -> u64 {
        self.due += 1;
        self.numbers[self.due - 1]
    }
}

impl DeferredRows {
    pub fn new(end: EndTicks) -> DeferredRows {
        DeferredRows {
            end,
            batches: VecDeque::new(),
            next_number: 0,
            rows: 0,
            bytes: 0,
            due: VecDeque::new(),
            due_until: 0,
        }
    }

    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.bytes + self.due.capacity() * size_of::<Due>()
    }

    /// Whether rows are due that have not left.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes rows in order, each with the number of its key and its time, behind those that have come.
    pub fn add(&mut self, rows: RecordBatch, keys: Vec<u32>, ticks: Vec<i64>, partitions: &mut [Partition]) {
        let numbers: Vec<u64> = (self.next_number..).take(keys.len()).collect();
        self.next_number += numbers.len() as u64;
        self.rows += numbers.len();
        for (&number, &key) in numbers.iter().zip(&keys) {
            let of_key = partitions[key as usize].deferred_mut();
            of_key.numbers.push_back(number);
            if let EndTicks::Rows(following) = self.end
                && (of_key.numbers.len() - of_key.due) as u64 > following
            {
                self.due.push_back(Due { number: of_key.make_due(), key });
            }
        }
        let batch = Batch::new(rows, numbers, keys, ticks);
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
    }

    /// Makes due whose frames end when all rows up to a time have come; all where these are all.
    pub fn pass(&mut self, until: i64, is_end: bool, partitions: &mut [Partition]) {
        let following = match self.end {
            EndTicks::Range(following) => Some(following),
            _ if is_end => None,
            _ => return,
        };
        let is_whole = |tick: i64| is_end || following.is_none_or(|following| tick.saturating_add(following) <= until);
        let first =
            self.batches.partition_point(|batch| batch.numbers.last().is_some_and(|&last| last < self.due_until));
        for batch in self.batches.range(first..) {
            for row in batch.numbers.partition_point(|&number| number < self.due_until)..batch.numbers.len() {
                if !is_whole(batch.ticks[row]) {
                    return;
                }
                let (number, key) = (batch.numbers[row], batch.keys[row]);
                self.due_until = number + 1;
                if batch.has_left[row] {
                    continue;
                }
                let of_key = partitions[key as usize].deferred_mut();
                // Of the others some are due already.
                if of_key.numbers.get(of_key.due) == Some(&number) {
                    of_key.make_due();
                    self.due.push_back(Due { number, key });
                }
            }
        }
    }

    /// Takes the next rows that are due, at most so many.
    pub fn take_due(&mut self, rows_max: usize) -> Vec<Due> {
        let count = self.due.len().min(rows_max.max(1));
        self.due.drain(..count).collect()
    }

    /// Finds rows that wait.
    pub fn pick(&self, numbers: impl Iterator<Item = u64>) -> Picked<'_> {
        let mut places: Vec<(usize, usize)> = numbers.map(|number| self.place(number)).collect();
        let mut used: Vec<usize> = places.iter().map(|(batch, _)| *batch).collect();
        used.sort_unstable();
        used.dedup();
        if used.is_empty() {
            // The columns of no rows still have types.
            used.push(0);
        }
        for (batch, _) in &mut places {
            *batch = used.binary_search(batch).expect("each batch that is used is listed");
        }
        Picked { batches: used.into_iter().map(|batch| &self.batches[batch].rows).collect(), places }
    }

    /// The batch of a row, and its place there.
    fn place(&self, number: u64) -> (usize, usize) {
        let batch = self.batches.partition_point(|batch| batch.numbers.last().is_some_and(|&last| last < number));
        (batch, self.batches[batch].place(number))
    }

    /// Forgets rows that have left.
    ///
    /// # Errors
    /// Where arrow cannot copy what is left.
    pub fn leave(&mut self, rows: &[Due]) -> Result<(), ArrowError> {
        let mut touched: Vec<usize> = Vec::new();
        for due in rows {
            let (batch, row) = self.place(due.number);
            self.batches[batch].leave(row);
            if touched.last() != Some(&batch) {
                touched.push(batch);
            }
        }
        self.rows -= rows.len();
        touched.sort_unstable();
        touched.dedup();
        for &batch in touched.iter().rev() {
            let Batch { deferred, bytes, ref numbers, .. } = self.batches[batch];
            if deferred == 0 {
                self.bytes -= bytes;
                self.batches.remove(batch);
            } else if deferred * HELD_PER_ROW_MAX < numbers.len() {
                let copied = self.batches[batch].copied()?;
                self.bytes = self.bytes - bytes + copied.bytes;
                self.batches[batch] = copied;
            }
        }
        Ok(())
    }

    /// The time of the first row that waits.
    pub fn first_tick(&self) -> Option<i64> {
        self.batches.front().map(|batch| batch.ticks[batch.first])
    }

    /// The rows that wait in their order, each with its batch, its place there and its key.
    pub fn in_order(&self) -> Vec<(&RecordBatch, usize, u32)> {
        let mut rows = Vec::with_capacity(self.rows);
        for batch in &self.batches {
            let deferred = (batch.first..batch.numbers.len()).filter(|&row| !batch.has_left[row]);
            rows.extend(deferred.map(|row| (&batch.rows, row, batch.keys[row])));
        }
        rows
    }
}

impl Batch {
    fn new(rows: RecordBatch, numbers: Vec<u64>, keys: Vec<u32>, ticks: Vec<i64>) -> Batch {
        let beside = size_of::<Batch>() + numbers.len() * (size_of::<(u64, i64)>() + size_of::<u32>() + 1);
        let bytes = bytes_of(&rows) + beside;
        let deferred = numbers.len();
        Batch { rows, has_left: vec![false; deferred], numbers, keys, ticks, first: 0, deferred, bytes }
    }

    fn place(&self, number: u64) -> usize {
        let offset = (number - self.numbers[0]) as usize;
        // Mostly all numbers of a batch follow each other.
        if self.numbers.get(offset) == Some(&number) {
            return offset;
        }
        self.numbers.binary_search(&number).expect("the row waits")
    }

    fn leave(&mut self, row: usize) {
        self.has_left[row] = true;
        self.deferred -= 1;
        while self.has_left.get(self.first) == Some(&true) {
            self.first += 1;
        }
    }

    /// The rows that wait, copied.
    fn copied(&self) -> Result<Batch, ArrowError> {
        let deferred: Vec<usize> = (self.first..self.numbers.len()).filter(|&row| !self.has_left[row]).collect();
        let places = UInt32Array::from_iter_values(deferred.iter().map(|&row| row as u32));
        let taken = take_record_batch(&self.rows, &places)?;
        let rows = RecordBatch::try_new(taken.schema(), taken.columns().iter().map(compacted).collect())?;
        let numbers = deferred.iter().map(|&row| self.numbers[row]).collect();
        let keys = deferred.iter().map(|&row| self.keys[row]).collect();
        Ok(Batch::new(rows, numbers, keys, deferred.iter().map(|&row| self.ticks[row]).collect()))
    }
}

impl Picked<'_> {
    /// A column of the rows.
    pub fn column(&self, column: usize) -> Result<ArrayRef, ArrowError> {
        let columns: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        interleave(&columns, &self.places).map(gathered)
    }
}
