//! Rows that wait until the watermark has passed their time, and leave in the order of their times.

use std::collections::BTreeMap;

use arrow::array::{Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::error::ArrowError;
use pelton_data::block::ticks;

/// Rows that wait.
///
/// Each batch is put in order when it comes; then those of its rows whose time has come are always at its front. Rows of one time
/// leave by their input, and then as they came, so that nothing depends on how rows were cut into batches.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// By the first row's time, the input and the number of the batch.
    batches: BTreeMap<(i64, usize, u64), RecordBatch>,
    next_batch: u64,
    rows: usize,
    /// All rows up to this time have been taken out.
    taken_until: Option<i64>,
}

/// Rows in the order of their times.
pub(super) struct Ordered {
    pub rows: RecordBatch,
    pub ticks: Int64Array,
}

impl Pending {
    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory that they hold.
    pub fn bytes(&self) -> usize {
        self.batches.values().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Takes rows of one input. Column `time` is their time. Returns how many of them are left out, because rows of their time have been
    /// taken out.
    pub fn add(&mut self, input: usize, batch: RecordBatch, time: usize) -> Result<usize, ArrowError> {
        let Ordered { rows, ticks } = in_order(batch, time)?;
        let late = self.taken_until.map_or(0, |last| ticks.values().partition_point(|&tick| tick <= last));
        if let Some(&first) = ticks.values().get(late) {
            let rows = rows.slice(late, rows.num_rows() - late);
            self.rows += rows.num_rows();
            self.batches.insert((first, input, self.next_batch), rows);
            self.next_batch += 1;
        }
        Ok(late)
    }

    /// Takes out all rows up to the time `last`, in as many pieces as there are: later pieces are later. Where `peers_together`, rows of
    /// one time are in one piece.
    pub fn take_until(&mut self, last: i64, time: usize, peers_together: bool) -> Result<Vec<Ordered>, ArrowError> {
        self.taken_until = self.taken_until.max(Some(last));
        let mut pieces: Vec<((usize, u64), Ordered)> = Vec::new();
        while let Some(first) = self.batches.first_entry().filter(|first| first.key().0 <= last) {
            let ((_, input, number), rows) = first.remove_entry();
            let ticks = ticks(rows.column(time));
            let count = ticks.values().partition_point(|&tick| tick <= last);
            if count < rows.num_rows() {
                let rest = rows.slice(count, rows.num_rows() - count);
                self.batches.insert((ticks.value(count), input, number), rest);
            }
            self.rows -= count;
            pieces.push(((input, number), Ordered { rows: rows.slice(0, count), ticks: ticks.slice(0, count) }));
        }
        pieces.sort_by_key(|(order, _)| *order);
        let pieces: Vec<Ordered> = pieces.into_iter().map(|(_, piece)| piece).collect();
        let follows = |pair: &[Ordered]| {
            let (last, next) = (*pair[0].ticks.values().last().expect("no piece is empty"), pair[1].ticks.value(0));
            last < next || (last == next && !peers_together)
        };
        if pieces.windows(2).all(follows) {
            return Ok(pieces);
        }
        let schema = pieces[0].rows.schema();
        let all = concat_batches(&schema, pieces.iter().map(|piece| &piece.rows))?;
        Ok(vec![in_order(all, time)?])
    }
}

/// The rows by their time; those of one time stay as they are.
fn in_order(batch: RecordBatch, time: usize) -> Result<Ordered, ArrowError> {
    let unordered = ticks(batch.column(time));
    if unordered.values().is_sorted() {
        return Ok(Ordered { rows: batch, ticks: unordered });
    }
    let mut order: Vec<u32> = (0..unordered.len() as u32).collect();
    order.sort_by_key(|&row| unordered.value(row as usize));
    let rows = take_record_batch(&batch, &UInt32Array::from(order))?;
    let ticks = ticks(rows.column(time));
    Ok(Ordered { rows, ticks })
}
