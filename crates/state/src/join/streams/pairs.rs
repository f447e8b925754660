//! Pairs of rows of both sides: which of them meet the residual condition, and what leaves of them.
//!
//! A pair is two numbers of rows until a column of it is needed: columns are taken last (HDES, section 4.5).

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, make_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use pelton_data::Micros;
use pelton_data::join::{JoinColumn, JoinSpec, Side, WindowBound};

use crate::join::BucketRow;
use crate::join::chosen::ChosenRows;
use crate::kernel::KernelError;

/// Tells which rows of a batch meet a condition.
pub type Test = dyn Fn(&RecordBatch) -> Result<BooleanBuffer, KernelError> + Send + Sync;

/// A condition of pairs beside their keys and times.
#[derive(Clone)]
pub struct Residual {
    /// The columns that it reads.
    pub columns: Vec<(Side, usize)>,
    /// Their names and types.
    pub schema: SchemaRef,
    /// The condition.
    pub test: Arc<Test>,
}

/// The bounds of a window as columns have them.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowBounds {
    /// What clocks show at its start,
    pub start: Micros,
    /// and at its end.
    pub end: Micros,
    /// The time of its results.
    pub time: Micros,
}

/// The rows of both sides that pairs are made of.
pub(super) struct Pairs<'a> {
    sides: [&'a [RecordBatch]; 2],
}

impl<'a> Pairs<'a> {
    /// Rows of these batches.
    pub fn new(left: &'a [RecordBatch], right: &'a [RecordBatch]) -> Pairs<'a> {
        Pairs { sides: [left, right] }
    }

    /// Removes the pairs that do not meet a condition.
    ///
    /// # Errors
    /// What the condition returns.
    pub fn retain(
        &self,
        residual: &Residual,
        lefts: &mut Vec<BucketRow>,
        rights: &mut Vec<BucketRow>,
    ) -> Result<(), KernelError> {
        let met = self.meet(residual, lefts, rights)?;
        let mut end = 0;
        for index in met.set_indices() {
            (lefts[end], rights[end]) = (lefts[index], rights[index]);
            end += 1;
        }
        lefts.truncate(end);
        rights.truncate(end);
        Ok(())
    }

    /// Which pairs meet a condition.
    ///
    /// # Errors
    /// What the condition returns.
    pub fn meet(
        &self,
        residual: &Residual,
        lefts: &[BucketRow],
        rights: &[BucketRow],
    ) -> Result<BooleanBuffer, KernelError> {
        if lefts.is_empty() {
            return Ok(BooleanBuffer::new_unset(0));
        }
        let chosen = self.choose(lefts, rights);
        let columns = residual
            .columns
            .iter()
            .zip(residual.schema.fields())
            .map(|(&(side, column), field)| chosen[side.port()].column(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unexpected)?;
        (residual.test)(&batch(&residual.schema, columns, lefts.len()).map_err(unexpected)?)
    }

    /// The rows that leave of pairs, in a window where pairs are of one. [`BucketRow::UNMATCHED`] is a side without a row.
    ///
    /// # Errors
    /// Where Arrow cannot put values of a type together.
    pub fn output(
        &self,
        spec: &JoinSpec,
        lefts: &[BucketRow],
        rights: &[BucketRow],
        window: Option<WindowBounds>,
    ) -> Result<RecordBatch, KernelError> {
        let rows_of = |side: Side| if side == Side::Left { lefts } else { rights };
        let chosen = self.choose(lefts, rights);
        let columns = spec.columns.iter().zip(spec.schema.fields()).map(|(column, field)| match *column {
            JoinColumn::Of(side, column) => chosen[side.port()].column(column, field.data_type()),
            JoinColumn::Window(bound, side) => {
                let window = window.expect("pairs of windows are in one");
                let micros = match bound {
                    WindowBound::Start => window.start,
                    WindowBound::End => window.end,
                    WindowBound::Time => window.time,
                };
                let column = instants(micros, lefts.len(), field.data_type());
                Ok(side.map_or(column.clone(), |side| masked(&column, rows_of(side))))
            }
        });
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>().map_err(unexpected)?;
        batch(&spec.schema, columns, lefts.len()).map_err(unexpected)
    }

    fn choose(&self, lefts: &[BucketRow], rights: &[BucketRow]) -> [ChosenRows<'a>; 2] {
        [ChosenRows::new(self.sides[0], lefts), ChosenRows::new(self.sides[1], rights)]
    }
}

/// The same values, and NULL where there is no row.
fn masked(column: &ArrayRef, rows: &[BucketRow]) -> ArrayRef {
    let has_row: NullBuffer = rows.iter().map(|row| *row != BucketRow::UNMATCHED).collect();
    let data = column.to_data().into_builder().nulls(Some(has_row));
    make_array(data.build().expect("a column with as many validity bits as values is valid"))
}

/// One instant so many times.
///
/// # Panics
/// Where the type is none of a window's bound.
fn instants(micros: Micros, count: usize, data_type: &DataType) -> ArrayRef {
    let DataType::Timestamp(TimeUnit::Millisecond, zone) = data_type else {
        panic!("{data_type} is no type of a window's bound")
    };
    Arc::new(TimestampMillisecondArray::from_value(micros.div_euclid(1_000), count).with_timezone_opt(zone.clone()))
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

pub(super) fn unexpected(error: ArrowError) -> KernelError {
    KernelError::State(format!("rows cannot be joined: {error}"))
}
