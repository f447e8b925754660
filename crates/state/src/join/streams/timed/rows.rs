//! The rows of one side: those that wait for the watermark, and those before it, in the order of their times.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter, interleave};
use arrow::error::ArrowError;
use pelton_data::column::{bytes_of, compacted, gathered};
use pelton_data::join::JoinSide;
use pelton_data::{Micros, TimeColumn};

use crate::join::BucketRow;
use crate::join::keys::KeyColumns;
use crate::key_numbers::KeyNumbers;
use crate::pending::{Ordered, Pending};

/// Rows are numbered in order. No row has this number.
pub(super) const NO_ROW: u64 = u64::MAX;

/// The key number of rows that match nothing.
pub(super) const NO_KEY: u32 = u32::MAX;

/// Batches of fewer rows are concatenated with those before them.
const SMALL_BATCH_ROWS: usize = 4096;

/// The rows of one side.
#[derive(Debug)]
pub(super) struct SideRows {
    pub side: JoinSide,
    pub time: TimeColumn,
    /// Rows that the watermark has not passed.
    pub pending: Pending,
    /// Rows in order.
    batches: Vec<RecordBatch>,
    /// The number of the first row of each batch.
    starts: Vec<u64>,
    batch_bytes: Vec<usize>,
    /// Of the rows from number `first` on.
    times: VecDeque<Micros>,
    /// Which of them have had a match, where that is needed.
    matched: Option<VecDeque<bool>>,
    first: u64,
    /// Rows before it match no more.
    live: u64,
    /// The next row to be joined.
    next: u64,
    end: u64,
    fresh: FreshRows,
}

/// What the loops read of the rows that have not been joined.
#[derive(Debug, Default)]
struct FreshRows {
    times: Vec<Micros>,
    /// Numbers of their keys.
    keys: Vec<u32>,
    at: usize,
}

/// A row to be joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub number: u64,
    pub time: Micros,
    pub key: u32,
}

impl SideRows {
    /// No rows yet.
    ///
    /// # Panics
    /// Where the side has no time.
    pub fn new(side: JoinSide, has_matched: bool) -> SideRows {
        SideRows {
            time: side.time.expect("rows that are joined by their times have a time"),
            side,
            pending: Pending::default(),
            batches: Vec::new(),
            starts: Vec::new(),
            batch_bytes: Vec::new(),
            times: VecDeque::new(),
            matched: has_matched.then(VecDeque::new),
            first: 0,
            live: 0,
            next: 0,
            end: 0,
            fresh: FreshRows::default(),
        }
    }

    /// The last tick of the time column before an instant.
    pub fn last_tick_before(&self, instant: Micros) -> i64 {
        match instant {
            Micros::MAX => i64::MAX,
            _ => instant.saturating_sub(1).div_euclid(self.time.micros_per_tick),
        }
    }

    pub fn micros(&self, tick: i64) -> Micros {
        tick.saturating_mul(self.time.micros_per_tick)
    }

    /// The time of the first row that waits.
    pub fn first_pending(&self) -> Option<Micros> {
        self.pending.first_tick().map(|tick| self.micros(tick))
    }

    /// A time not after `watermark` such that about `rows_max` waiting rows are before it.
    pub fn cut(&self, watermark: Micros, rows_max: usize) -> Micros {
        let last = self.last_tick_before(watermark);
        let cut = self.pending.last_of(last, rows_max);
        if cut < last { self.micros(cut.saturating_add(1)).min(watermark) } else { watermark }
    }

    /// Takes the rows before `until` out of those that wait: they are joined next.
    pub fn take_pending(&mut self, until: Micros, keys: &mut Option<KeyNumbers>) -> Result<(), ArrowError> {
        let last = self.last_tick_before(until);
        for piece in self.pending.take_until(last, self.time.index, false)? {
            self.push_piece(piece, keys)?;
        }
        Ok(())
    }

    fn push_piece(&mut self, piece: Ordered, keys: &mut Option<KeyNumbers>) -> Result<(), ArrowError> {
        let time = Some(self.time.index);
        let piece = piece.alone(time)?;
        let ticks = piece.ticks();
        let times = ticks.values().iter().map(|&tick| self.micros(tick)).collect::<Vec<_>>();
        self.push(piece.batch(time)?, times, keys)
    }

    /// Adds rows with these times behind the others: they are joined next.
    pub fn push(
        &mut self,
        rows: RecordBatch,
        times: Vec<Micros>,
        keys: &mut Option<KeyNumbers>,
    ) -> Result<(), ArrowError> {
        if times.is_empty() {
            return Ok(());
        }
        self.compact_fresh();
        number_keys(keys, &self.side.keys, &rows, &mut self.fresh.keys)?;
        self.times.extend(&times);
        self.fresh.times.extend(times);
        if let Some(matched) = &mut self.matched {
            matched.resize(self.times.len(), false);
        }
        self.push_batch(rows)
    }

    fn compact_fresh(&mut self) {
        let FreshRows { times, keys, at } = &mut self.fresh;
        times.drain(..*at);
        keys.drain(..*at);
        *at = 0;
    }

    /// Small batches become large ones, so that each row is copied only a few times.
    fn push_batch(&mut self, mut rows: RecordBatch) -> Result<(), ArrowError> {
        let mut start = self.end;
        self.end += rows.num_rows() as u64;
        while rows.num_rows() < SMALL_BATCH_ROWS
            && self.batches.last().is_some_and(|last| last.num_rows() <= 2 * rows.num_rows())
        {
            let (last, _) = (self.batches.pop().expect("there is one"), self.batch_bytes.pop());
            start = self.starts.pop().expect("each batch has a start");
            rows = concatenated(&[last, rows])?;
        }
        self.starts.push(start);
        self.batch_bytes.push(bytes_of(&rows));
        self.batches.push(rows);
        Ok(())
    }

    /// The next row to be joined.
    #[inline(always)]
    pub fn peek(&self) -> Option<Row> {
        let at = self.fresh.at;
        self.fresh.times.get(at).map(|&time| Row { number: self.next, time, key: self.fresh.keys[at] })
    }

    /// The key of the row so many behind it.
    #[inline(always)]
    pub fn key_ahead(&self, rows: usize) -> Option<u32> {
        self.fresh.keys.get(self.fresh.at + rows).copied()
    }

    /// Goes on to the row behind it.
    #[inline(always)]
    pub fn skip(&mut self, rows: usize) {
        self.fresh.at += rows;
        self.next += rows as u64;
    }

    /// Marks the keys of rows to be joined.
    pub fn keep_keys(&self, kept: &mut [bool]) {
        let keys = self.fresh.keys[self.fresh.at..].iter().filter(|key| **key != NO_KEY);
        keys.for_each(|&key| kept[key as usize] = true);
    }

    /// The keys that were kept have been numbered anew, in their order.
    pub fn renumber_keys(&mut self, kept: &[bool]) {
        let mut next = 0;
        let numbers: Vec<u32> = kept
            .iter()
            .map(|is_kept| {
                next += u32::from(*is_kept);
                next.wrapping_sub(1)
            })
            .collect();
        let keys = self.fresh.keys[self.fresh.at..].iter_mut().filter(|key| **key != NO_KEY);
        keys.for_each(|key| *key = numbers[*key as usize]);
    }

    /// The next rows to be joined that have the time of the first, in their order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Row> + DoubleEndedIterator {
        let (times, keys) = (&self.fresh.times[self.fresh.at..], &self.fresh.keys[self.fresh.at..]);
        let count = times.iter().take_while(|&&time| time == times[0]).count();
        let next = self.next;
        (0..count).map(move |at| Row { number: next + at as u64, time: times[at], key: keys[at] })
    }

    /// The time of a row in order.
    pub fn time_of(&self, row: u64) -> Micros {
        self.times[(row - self.first) as usize]
    }

    /// The time of the first joined row that may match again.
    #[inline(always)]
    pub fn oldest(&self) -> Option<(u64, Micros)> {
        (self.live < self.next).then(|| (self.live, self.times[(self.live - self.first) as usize]))
    }

    /// The first of these rows matches no more.
    #[inline(always)]
    pub fn expire_oldest(&mut self) {
        self.live += 1;
    }

    /// Joined rows before a time match no more.
    pub fn expire_before(&mut self, time: Micros) {
        let rows = self.times.partition_point(|&row| row < time) as u64;
        self.live = self.live.max(self.next.min(self.first + rows));
    }

    /// Rows before this number match no more.
    pub fn expire_to(&mut self, row: u64) {
        self.live = row.min(self.next);
    }

    /// Whether a row has had a match.
    pub fn has_matched(&self, row: u64) -> bool {
        self.matched.as_ref().is_some_and(|matched| matched[(row - self.first) as usize])
    }

    /// Records that a row has had a match; whether it had one before.
    pub fn set_matched(&mut self, row: u64) -> bool {
        let first = self.first;
        self.matched.as_mut().is_some_and(|matched| std::mem::replace(&mut matched[(row - first) as usize], true))
    }

    /// Forgets the batches all of whose rows match no more. Places of rows change.
    pub fn drop_expired(&mut self) {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]).take(self.batches.len());
        let count = ends.take_while(|&end| end <= self.live).count();
        if count == 0 {
            return;
        }
        self.batches.drain(..count);
        self.starts.drain(..count);
        self.batch_bytes.drain(..count);
        let first = self.starts.first().copied().unwrap_or(self.end);
        let rows = (first - self.first) as usize;
        self.times.drain(..rows);
        self.matched.iter_mut().for_each(|matched| drop(matched.drain(..rows)));
        self.first = first;
        self.live = self.live.max(first);
    }

    /// Keeps these rows only, which are in order and have all been joined, as have all others. They get new numbers; returns the first of them.
    pub fn keep_only(&mut self, rows: &[u64]) -> Result<u64, ArrowError> {
        let mut batch = 0;
        let places: Vec<BucketRow> = rows.iter().map(|&row| self.place(row, &mut batch)).collect();
        let places: Vec<(usize, usize)> =
            places.iter().map(|place| (place.bucket as usize, place.row as usize)).collect();
        let columns = (0..self.side.schema.fields().len()).map(|column| {
            let arrays: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(column).as_ref()).collect();
            interleave(&arrays, &places).map(|array| compacted(&array))
        });
        let kept = match self.batches.first() {
            Some(batch) if !rows.is_empty() => {
                Some(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_, _>>()?)?)
            }
            _ => None,
        };
        let of = |row: &u64| (row - self.first) as usize;
        self.times = rows.iter().map(|row| self.times[of(row)]).collect();
        self.matched = self.matched.as_ref().map(|matched| rows.iter().map(|row| matched[of(row)]).collect());
        self.batches.clear();
        self.starts.clear();
        self.batch_bytes.clear();
        (self.first, self.live) = (self.end, self.end);
        kept.map_or(Ok(()), |kept| self.push_batch(kept))?;
        self.next = self.end;
        Ok(self.first)
    }

    /// Where a row is. `batch` is the batch of the row before, which mostly has this one too.
    #[inline(always)]
    pub fn place(&self, row: u64, batch: &mut usize) -> BucketRow {
        if row == NO_ROW {
            return BucketRow::UNMATCHED;
        }
        let is_in = |batch: usize| {
            self.starts.get(batch).is_some_and(|&start| start <= row)
                && self.starts.get(batch + 1).is_none_or(|&next| row < next)
        };
        if !is_in(*batch) {
            *batch = self.starts.partition_point(|&start| start <= row) - 1;
        }
        BucketRow { bucket: *batch as u32, row: (row - self.starts[*batch]) as u32 }
    }

    /// The rows in order.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The rows that may match again or have not been joined.
    pub fn held(&self) -> Result<RecordBatch, ArrowError> {
        let held = self.batches.iter().zip(&self.starts).map(|(batch, &start)| {
            let expired = self.live.saturating_sub(start).min(batch.num_rows() as u64) as usize;
            batch.slice(expired, batch.num_rows() - expired)
        });
        concat_batches(&self.side.schema, &held.collect::<Vec<_>>())
    }

    /// Numbers of the first held row, the next to be joined, and the end.
    pub fn numbers(&self) -> (u64, u64, u64) {
        (self.live, self.next, self.end)
    }

    /// Rows that wait or may match again.
    pub fn rows(&self) -> usize {
        self.pending.rows() + (self.end - self.live) as usize
    }

    /// Rows in order, those that match no more included, until they are forgotten.
    pub fn rows_in_order(&self) -> usize {
        (self.end - self.first) as usize
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let matched = self.matched.as_ref().map_or(0, VecDeque::capacity);
        self.pending.bytes()
            + self.batch_bytes.iter().sum::<usize>()
            + self.times.capacity() * size_of::<Micros>()
            + matched
            + self.fresh.times.capacity() * size_of::<Micros>()
            + self.fresh.keys.capacity() * size_of::<u32>()
    }
}

/// The rows of both, in one batch whose strings do not lie in ever more buffers.
fn concatenated(batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let all = concat_batches(batches[0].schema_ref(), batches)?;
    RecordBatch::try_new(all.schema(), all.columns().iter().map(|column| gathered(column.clone())).collect())
}

/// Appends the number of each row's key: [`NO_KEY`] where a key column is NULL, 0 where there are no key columns.
fn number_keys(
    numbers: &mut Option<KeyNumbers>,
    key_columns: &[usize],
    rows: &RecordBatch,
    out: &mut Vec<u32>,
) -> Result<(), ArrowError> {
    let Some(numbers) = numbers else {
        out.resize(out.len() + rows.num_rows(), 0);
        return Ok(());
    };
    let columns: Vec<ArrayRef> = key_columns.iter().map(|&key| rows.column(key).clone()).collect();
    let keys = KeyColumns::new(columns.clone());
    if keys.all_have_keys() {
        out.extend(numbers.number(&columns));
        return Ok(());
    }
    let has_key: BooleanArray = (0..rows.num_rows()).map(|row| Some(keys.has_key(row))).collect();
    let columns = columns.iter().map(|column| filter(column, &has_key)).collect::<Result<Vec<_>, _>>()?;
    let mut found = if has_key.true_count() > 0 { numbers.number(&columns) } else { &[] }.iter();
    out.extend(has_key.values().iter().map(|has_key| match has_key {
        true => *found.next().expect("each key has a number"),
        false => NO_KEY,
    }));
    Ok(())
}
