//! What stands between an output's rows and its sink: an order, and how many of the rows are wanted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use arrow::error::ArrowError;
use pelton_data::BLOCK_ROWS_DEFAULT;
use pelton_data::arrangement::{Arrangement, Order, OrderKey};
use pelton_data::kept::Kept;

use crate::sink::{Sink, SinkError};

/// Rows that are kept to be put in order. More are an error: all of them are in memory.
pub const SORTED_ROWS_MAX: usize = 100_000_000;

/// Rows that may wait before those that are not wanted are dropped, beyond twice as many as are wanted.
const UNSORTED_ROWS_MAX: usize = 1 << 16;

/// What it takes to find the order of rows, for each: their numbers, and keys beside them.
const SORTING_BYTES: usize = 24;

/// A sink behind its arrangement.
pub(crate) struct Outlet {
    sink: Box<dyn Sink>,
    sorter: Option<Sorter>,
    /// Rows whose order is known.
    sorted: Option<Sorted>,
    offset: usize,
    rows_left: Option<usize>,
}

/// Rows that wait for their order.
struct Sorter {
    order: Order,
    /// Rows of the front of the order that are wanted.
    wanted: Option<usize>,
    rows: Kept,
}

/// Rows, and the order in which they leave.
struct Sorted {
    rows: RecordBatch,
    indices: UInt32Array,
    next: usize,
}

impl Outlet {
    pub fn new(sink: Box<dyn Sink>, arrangement: Arrangement) -> Outlet {
        let Arrangement { order, offset, rows_max } = arrangement;
        let wanted = rows_max.map(|rows_max| rows_max.saturating_add(offset));
        let sorter = order.map(|order| Sorter { order, wanted, rows: Kept::default() });
        Outlet { sink, sorter, sorted: None, offset, rows_left: rows_max }
    }

    /// Whether the sink takes rows now.
    pub fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    /// Whether the sink can be ended now.
    pub fn is_settled(&self) -> bool {
        self.sink.is_settled()
    }

    /// Whether no further row changes what is written.
    pub fn is_satisfied(&self) -> bool {
        self.rows_left == Some(0)
    }

    /// What the rows take that wait for their order, where there is one, and what it will take to put them in order.
    pub fn bytes_sorted(&self) -> Option<usize> {
        let rows = &self.sorter.as_ref()?.rows;
        Some(rows.bytes() + rows.bytes_beside() + rows.rows() * SORTING_BYTES)
    }

    /// Takes rows. Returns how many went on to the sink.
    pub fn write(&mut self, rows: RecordBatch) -> Result<usize, SinkError> {
        match &mut self.sorter {
            Some(sorter) => sorter.take(rows).map(|()| 0),
            None => self.pass_on(rows),
        }
    }

    /// See [`Sink::flush`].
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    /// Passes the next of the rows that were put in order on to the sink, which must be ready. Returns how many; `None` when there are no more.
    pub fn pass_sorted(&mut self) -> Result<Option<usize>, SinkError> {
        if let Some(sorter) = self.sorter.take() {
            self.sorted = sorter.finish()?;
        }
        let part = self.sorted.as_mut().filter(|_| self.rows_left != Some(0)).map(Sorted::next);
        match part.transpose()?.flatten() {
            Some(rows) => self.pass_on(rows).map(Some),
            None => {
                self.sorted = None;
                Ok(None)
            }
        }
    }

    /// Ends the output, when all that was put in order has been passed on.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    fn pass_on(&mut self, rows: RecordBatch) -> Result<usize, SinkError> {
        let skipped = self.offset.min(rows.num_rows());
        self.offset -= skipped;
        let rest = rows.num_rows() - skipped;
        let count = self.rows_left.map_or(rest, |left| left.min(rest));
        self.rows_left = self.rows_left.map(|left| left - count);
        if count == rows.num_rows() && count > 0 {
            self.sink.take(rows)?;
        } else if count > 0 {
            self.sink.take(rows.slice(skipped, count))?;
        }
        Ok(count)
    }
}

impl Sorter {
    fn take(&mut self, rows: RecordBatch) -> Result<(), SinkError> {
        self.rows.push(rows);
        if let Some(wanted) = self.wanted
            && self.rows.rows() > wanted.saturating_mul(2).saturating_add(UNSORTED_ROWS_MAX)
            && let Some(sorted) = self.sorted()?
        {
            let front = take_record_batch(&sorted.rows, &sorted.indices).map_err(failed)?;
            self.rows.push(without_unused_strings(&front)?);
        }
        if self.rows.rows() > SORTED_ROWS_MAX {
            let problem = format!("more than {SORTED_ROWS_MAX} rows are to be put in order; add a LIMIT");
            return Err(SinkError { place: "ORDER BY".to_string(), problem });
        }
        Ok(())
    }

    /// The wanted rows in order, in the columns that are written; `None` where there are no rows.
    fn finish(mut self) -> Result<Option<Sorted>, SinkError> {
        let columns: Vec<usize> = (0..self.order.columns).collect();
        let Some(sorted) = self.sorted()? else { return Ok(None) };
        Ok(Some(Sorted { rows: sorted.rows.project(&columns).map_err(failed)?, ..sorted }))
    }

    /// Takes all rows.
    fn sorted(&mut self) -> Result<Option<Sorted>, SinkError> {
        let Some(first) = self.rows.batches().first() else { return Ok(None) };
        let schema = first.schema();
        let rows = std::mem::take(&mut self.rows).into_one(schema).map_err(failed)?;
        let key = |key: &OrderKey| SortColumn {
            values: rows.column(key.column).clone(),
            options: Some(SortOptions { descending: key.descending, nulls_first: key.nulls_first }),
        };
        let is_key = |column: &usize| self.order.keys.iter().any(|key| key.column == *column);
        let others = (0..self.order.columns).filter(|column| !is_key(column)).map(|column| rows.column(column));
        let ascending = |values: &ArrayRef| SortColumn { values: values.clone(), options: None };
        let columns: Vec<SortColumn> = self.order.keys.iter().map(key).chain(others.map(ascending)).collect();
        let indices = lexsort_to_indices(&columns, self.wanted).map_err(failed)?;
        drop(columns);
        Ok(Some(Sorted { rows, indices, next: 0 }))
    }
}

impl Sorted {
    /// Some of the rows, with strings of their own.
    fn next(&mut self) -> Result<Option<RecordBatch>, SinkError> {
        let count = (self.indices.len() - self.next).min(BLOCK_ROWS_DEFAULT);
        if count == 0 {
            return Ok(None);
        }
        let indices = self.indices.slice(self.next, count);
        self.next += count;
        let rows = take_record_batch(&self.rows, &indices).map_err(failed)?;
        without_unused_strings(&rows).map(Some)
    }
}

/// The rows with copies of their long strings: those of rows that are not kept would stay as long as these do.
fn without_unused_strings(rows: &RecordBatch) -> Result<RecordBatch, SinkError> {
    let columns = rows.columns().iter().map(|column| -> ArrayRef {
        let any = column.as_any();
        if let Some(strings) = any.downcast_ref::<StringViewArray>().filter(|all| !all.data_buffers().is_empty()) {
            Arc::new(strings.gc())
        } else if let Some(bytes) = any.downcast_ref::<BinaryViewArray>().filter(|all| !all.data_buffers().is_empty()) {
            Arc::new(bytes.gc())
        } else {
            column.clone()
        }
    });
    RecordBatch::try_new(rows.schema(), columns.collect()).map_err(failed)
}

fn failed(error: ArrowError) -> SinkError {
    SinkError { place: "ORDER BY".to_string(), problem: error.to_string() }
}
