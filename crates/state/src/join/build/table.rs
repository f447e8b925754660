//! The rows of a table while it is being loaded.
//!
//! Numbers and times are written behind each other as they come, into memory that grows in place: nothing is there twice, and a large column lies in huge
//! pages, which its rows are read from in no order. Of all other columns the parts wait until they are put together.

use arrow::array::{Array, ArrayRef, NullBufferBuilder, RecordBatch, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use pelton_data::batch_buffer::BatchBuffer;
use std::sync::Arc;

use crate::table::region::Region;

/// Memory grows by at least this part of what there is, as each time takes a call for each page.
const GROWTH_PART: usize = 4;

/// Rows of a table, column by column.
pub struct TableRows {
    schema: SchemaRef,
    /// For each column its values; none where its parts are among `others`.
    values: Vec<Option<Values>>,
    /// Which columns have none,
    others_indices: Vec<usize>,
    /// and their parts.
    others: BatchBuffer,
    rows: usize,
}

/// Values of the same width, behind each other.
struct Values {
    data_type: DataType,
    width: usize,
    memory: Region,
    bytes: usize,
    /// Once there is a NULL.
    nulls: Option<NullBufferBuilder>,
}

impl TableRows {
    /// No rows, of these columns.
    pub fn new(schema: SchemaRef) -> TableRows {
        let values = schema.fields().iter().map(|field| Values::new(field.data_type()));
        let values: Vec<Option<Values>> = values.collect();
        let others_indices = (0..values.len()).filter(|&index| values[index].is_none()).collect();
        TableRows { schema, values, others_indices, others: BatchBuffer::default(), rows: 0 }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Where they have other columns.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let types = batch.columns().iter().map(|column| column.data_type());
        if !types.eq(self.schema.fields().iter().map(|field| field.data_type())) {
            return Err(ArrowError::SchemaError("all rows of a table have the same columns".to_owned()));
        }
        for (values, column) in self.values.iter_mut().zip(batch.columns()) {
            values.iter_mut().for_each(|values| values.append(column, self.rows));
        }
        if !self.others_indices.is_empty() {
            self.others.push(batch.project(&self.others_indices)?);
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        let nulls = |values: &Values| values.nulls.as_ref().map_or(0, |_| self.rows.div_ceil(8));
        let values = self.values.iter().flatten().map(|values| values.bytes + nulls(values)).sum::<usize>();
        values + self.others.bytes()
    }

    /// The columns, and of each its parts.
    pub(super) fn into_columns(self) -> (SchemaRef, Vec<Vec<ArrayRef>>) {
        let rows = self.rows;
        let mut columns: Vec<Vec<ArrayRef>> = self
            .values
            .into_iter()
            .map(|values| values.map(|values| values.finish(rows)).into_iter().collect())
            .collect();
        for batch in self.others.into_batches() {
            let (_, arrays, _) = batch.into_parts();
            self.others_indices.iter().zip(arrays).for_each(|(&index, array)| columns[index].push(array));
        }
        (self.schema, columns)
    }
}

impl Values {
    /// No values of a type; `None` where these are more than numbers of one width.
    fn new(data_type: &DataType) -> Option<Values> {
        let width = data_type.primitive_width()?;
        Some(Values { data_type: data_type.clone(), width, memory: Region::empty(), bytes: 0, nulls: None })
    }

    /// Appends values to the `rows` that there are.
    fn append(&mut self, column: &ArrayRef, rows: usize) {
        let data = column.to_data();
        let added = &data.buffers()[0].as_slice()[data.offset() * self.width..][..data.len() * self.width];
        let needed = self.bytes + added.len();
        if needed > self.memory.bytes() {
            self.memory.grow(needed.max(self.memory.bytes() + self.memory.bytes() / GROWTH_PART));
        }
        // SAFETY: the region is at least `needed` bytes long, and borrowed exclusively: `added` lies elsewhere.
        unsafe { self.memory.as_ptr().add(self.bytes).copy_from_nonoverlapping(added.as_ptr(), added.len()) };
        self.bytes = needed;
        let has_nulls = column.null_count() > 0;
        if has_nulls && self.nulls.is_none() {
            let mut nulls = NullBufferBuilder::new(rows + column.len());
            nulls.append_n_non_nulls(rows);
            self.nulls = Some(nulls);
        }
        match (&mut self.nulls, column.nulls()) {
            (Some(nulls), Some(added)) => nulls.append_buffer(added),
            (Some(nulls), None) => nulls.append_n_non_nulls(column.len()),
            (None, _) => {}
        }
    }

    /// The values as an array.
    fn finish(mut self, rows: usize) -> ArrayRef {
        let (start, bytes) = (self.memory.as_ptr(), self.bytes);
        let memory: Arc<Region> = Arc::new(std::mem::replace(&mut self.memory, Region::empty()));
        let start = std::ptr::NonNull::new(start).expect("a region begins somewhere");
        // SAFETY: so many bytes from the region's start on have been written, and the buffer owns the region, which nobody writes to any more.
        let values = unsafe { Buffer::from_custom_allocation(start, bytes, memory) };
        let nulls = self.nulls.and_then(|mut nulls| nulls.finish());
        let data = arrow::array::ArrayData::builder(self.data_type).len(rows).add_buffer(values).nulls(nulls);
        make_array(data.build().expect("values are those of arrays of this type"))
    }
}
