//! What stands between an output's rows and its sink: an order, and how many of the rows are wanted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use arrow::compute::{SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::error::ArrowError;
use pelton_data::arrangement::{Arrangement, Order, OrderKey};

use crate::sink::{Sink, SinkError};

/// Rows that are kept to be put in order. More are an error: all of them are in memory.
pub const SORTED_ROWS_MAX: usize = 100_000_000;

/// Rows that may wait before those that are not wanted are dropped, beyond twice as many as are wanted.
const UNSORTED_ROWS_MAX: usize = 1 << 16;

/// A sink behind its arrangement.
pub(crate) struct Outlet {
    sink: Box<dyn Sink>,
    sorter: Option<Sorter>,
    offset: usize,
    rows_left: Option<usize>,
}

/// Rows that wait for their order.
struct Sorter {
    order: Order,
    /// Rows of the front of the order that are wanted.
    wanted: Option<usize>,
    rows: Vec<RecordBatch>,
    count: usize,
    /// What the rows take.
    bytes: usize,
}

impl Outlet {
    pub fn new(sink: Box<dyn Sink>, arrangement: Arrangement) -> Outlet {
        let Arrangement { order, offset, rows_max } = arrangement;
        let wanted = rows_max.map(|rows_max| rows_max.saturating_add(offset));
        let sorter = order.map(|order| Sorter { order, wanted, rows: Vec::new(), count: 0, bytes: 0 });
        Outlet { sink, sorter, offset, rows_left: rows_max }
    }

    /// Whether the sink takes rows now.
    pub fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    /// Whether no further row changes what is written.
    pub fn is_satisfied(&self) -> bool {
        self.rows_left == Some(0)
    }

    /// What the rows take that wait for their order, where there is one.
    pub fn bytes_sorted(&self) -> Option<usize> {
        self.sorter.as_ref().map(|sorter| sorter.bytes)
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

    /// Ends the output; the sink must be ready. Returns how many rows went on to it.
    pub fn finish(&mut self) -> Result<usize, SinkError> {
        let sorted = self.sorter.take().map(Sorter::finish).transpose()?.flatten();
        let written = sorted.map_or(Ok(0), |rows| self.pass_on(rows))?;
        self.sink.finish()?;
        Ok(written)
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
        self.count += rows.num_rows();
        self.bytes += rows.get_array_memory_size();
        self.rows.push(rows);
        if let Some(wanted) = self.wanted
            && self.count > wanted.saturating_mul(2).saturating_add(UNSORTED_ROWS_MAX)
        {
            let front = self.sorted()?.map(|front| without_unused_strings(&front)).transpose()?;
            self.count = front.iter().map(RecordBatch::num_rows).sum();
            self.bytes = front.iter().map(RecordBatch::get_array_memory_size).sum();
            self.rows = front.into_iter().collect();
        }
        if self.count > SORTED_ROWS_MAX {
            let problem = format!("more than {SORTED_ROWS_MAX} rows are to be put in order; add a LIMIT");
            return Err(SinkError { place: "ORDER BY".to_string(), problem });
        }
        Ok(())
    }

    /// The wanted rows in order, in the columns that are written; `None` where there are no rows.
    fn finish(mut self) -> Result<Option<RecordBatch>, SinkError> {
        let columns: Vec<usize> = (0..self.order.columns).collect();
        let sorted = self.sorted()?;
        sorted.map(|rows| rows.project(&columns).map_err(failed)).transpose()
    }

    fn sorted(&mut self) -> Result<Option<RecordBatch>, SinkError> {
        let Some(first) = self.rows.first() else { return Ok(None) };
        let rows = concat_batches(&first.schema(), &self.rows).map_err(failed)?;
        self.rows.clear();
        let key = |key: &OrderKey| SortColumn {
            values: rows.column(key.column).clone(),
            options: Some(SortOptions { descending: key.descending, nulls_first: key.nulls_first }),
        };
        let is_key = |column: &usize| self.order.keys.iter().any(|key| key.column == *column);
        let others = (0..self.order.columns).filter(|column| !is_key(column)).map(|column| rows.column(column));
        let ascending = |values: &ArrayRef| SortColumn { values: values.clone(), options: None };
        let columns: Vec<SortColumn> = self.order.keys.iter().map(key).chain(others.map(ascending)).collect();
        let indices = lexsort_to_indices(&columns, self.wanted).map_err(failed)?;
        take_record_batch(&rows, &indices).map(Some).map_err(failed)
    }
}

/// The rows with copies of their long strings: those of rows that are not kept would stay as long as these do.
fn without_unused_strings(rows: &RecordBatch) -> Result<RecordBatch, SinkError> {
    let columns = rows.columns().iter().map(|column| -> ArrayRef {
        let any = column.as_any();
        if let Some(strings) = any.downcast_ref::<StringViewArray>() {
            Arc::new(strings.gc())
        } else if let Some(bytes) = any.downcast_ref::<BinaryViewArray>() {
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
