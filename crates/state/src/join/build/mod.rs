//! How a bucket is built: in steps, each of which is a number of units of work that any threads may do at the same time.
//!
//! The bucket is the same however many units there are. Before a step it is known what its memory is at most. In reading order: [`table`] (rows that
//! are loaded), [`dense`], [`hashed`].

mod dense;

mod hashed;

pub mod table;

use std::ops::Range;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use pelton_data::TimeColumn;
use pelton_data::batch_buffer::BatchBuffer;
use pelton_data::block::ticks;
use pelton_data::column::{align_bits, bytes_of, row_bytes};
use pelton_data::time::TimeRange;

use self::dense::DenseBuild;
use self::hashed::HashedBuild;
pub use self::table::TableRows;
use super::UNMATCHED;
use super::bucket::Bucket;
use super::index::Index;
use super::keys::KeyColumns;

/// Rows that are worth a unit of their own.
const UNIT_ROWS_MIN: usize = 1 << 14;

/// Units of a step for each thread: some take longer than others.
const UNITS_OF_WORKER: usize = 4;

/// A part of a step, which can be done at the same time as the others.
pub type Unit<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A bucket that is being built.
pub struct BucketBuild {
    schema: SchemaRef,
    key_columns: Vec<usize>,
    time: Option<TimeColumn>,
    rows: usize,
    /// Bytes of the rows.
    bytes: usize,
    stage: Stage,
}

/// How far a build has come.
enum Stage {
    /// The batches become columns.
    Columns(Vec<Column>),
    /// The smallest and the largest key and time are found.
    Extents(Rows, Vec<Extent>),
    /// Keys become an index.
    Dense(Rows, DenseBuild),
    Hashed(Rows, HashedBuild),
    /// There is no key.
    All(Rows),
}

/// The arrays of a column, one for each batch, until they are one.
struct Column {
    parts: Vec<ArrayRef>,
    whole: Option<Result<ArrayRef, ArrowError>>,
}

/// The rows of a bucket.
struct Rows {
    columns: RecordBatch,
    keys: KeyColumns,
    times: Option<TimeRange>,
}

/// The smallest and the largest integer key, and time, of some rows.
#[derive(Default)]
struct Extent {
    keys: Option<(i64, i64)>,
    /// Keys less their rows.
    offsets: Option<(i64, i64)>,
    ticks: Option<(i64, i64)>,
}

impl BucketBuild {
    /// A bucket of rows with these columns, indexed by `key_columns`; `time` is the column of their event times, which has no NULL.
    ///
    /// # Panics
    /// Where there are more rows than 32 bits count.
    pub fn new(schema: SchemaRef, rows: BatchBuffer, key_columns: &[usize], time: Option<TimeColumn>) -> BucketBuild {
        let (row_count, bytes) = (rows.rows(), rows.bytes());
        let mut columns = vec![Vec::new(); schema.fields().len()];
        for batch in rows.into_batches() {
            let (_, arrays, _) = batch.into_parts();
            columns.iter_mut().zip(arrays).for_each(|(column, array)| column.push(array));
        }
        BucketBuild::of_columns((schema, columns), (row_count, bytes), key_columns, time)
    }

    /// A bucket of rows that have been loaded, indexed by `key_columns`.
    ///
    /// # Panics
    /// As [`BucketBuild::new`].
    pub fn of_table(rows: TableRows, key_columns: &[usize]) -> BucketBuild {
        let size = (rows.rows(), rows.bytes());
        BucketBuild::of_columns(rows.into_columns(), size, key_columns, None)
    }

    fn of_columns(
        (schema, columns): (SchemaRef, Vec<Vec<ArrayRef>>),
        (rows, bytes): (usize, usize),
        key_columns: &[usize],
        time: Option<TimeColumn>,
    ) -> BucketBuild {
        assert!(u32::try_from(rows).is_ok_and(|rows| rows < UNMATCHED), "row numbers have 32 bits");
        let columns = columns.into_iter().map(|parts| Column { parts, whole: None }).collect();
        let key_columns = key_columns.to_vec();
        BucketBuild { schema, key_columns, time, rows, bytes, stage: Stage::Columns(columns) }
    }

    /// Bytes that the rows and what is made of them take at most when so many threads have done the next step.
    pub fn bytes(&self, workers: usize) -> usize {
        self.bytes
            + match &self.stage {
                Stage::Columns(columns) => {
                    // A thread has a column twice, until its parts are given back. One part stays where it is.
                    let width = |column: &Column| match column.parts.as_slice() {
                        [] | [_] => 0,
                        [part, ..] => row_bytes([part]),
                    };
                    let mut widths: Vec<usize> = columns.iter().map(width).collect();
                    widths.sort_unstable_by(|one, other| other.cmp(one));
                    widths.iter().take(workers).sum::<usize>() * self.rows
                }
                Stage::Extents(..) => 0,
                Stage::Dense(_, dense) => dense.bytes(),
                Stage::Hashed(rows, hashed) => hashed.bytes(rows.keys.rows(), workers),
                Stage::All(_) => self.rows * size_of::<u32>(),
            }
    }

    /// Whether there are no more steps.
    pub fn is_built(&self) -> bool {
        match &self.stage {
            Stage::Columns(_) | Stage::Extents(..) => false,
            Stage::Dense(_, dense) => dense.is_built(),
            Stage::Hashed(_, hashed) => hashed.is_built(),
            Stage::All(_) => true,
        }
    }

    /// The units of the next step, for so many threads.
    pub fn units(&mut self, workers: usize) -> Vec<Unit<'_>> {
        match &mut self.stage {
            Stage::Columns(columns) => {
                columns.iter_mut().map(|column| Box::new(|| column.join()) as Unit<'_>).collect()
            }
            Stage::Extents(rows, extents) => {
                let (ranges, time) = (ranges(self.rows, units_max(self.rows, workers)), self.time);
                extents.resize_with(ranges.len(), Extent::default);
                let rows = &*rows;
                let units = ranges.into_iter().zip(extents);
                units.map(|(range, extent)| Box::new(move || *extent = rows.extent(range, time)) as Unit<'_>).collect()
            }
            Stage::Dense(rows, dense) => dense.units(&rows.keys, workers),
            Stage::Hashed(rows, hashed) => hashed.units(&rows.keys, workers),
            Stage::All(_) => Vec::new(),
        }
    }

    /// Goes on to the next step, when all units of the one before have been done.
    ///
    /// # Errors
    /// Where the batches do not fit the schema.
    pub fn advance(&mut self) -> Result<(), ArrowError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Columns(Vec::new()));
        self.stage = match stage {
            Stage::Columns(columns) => Stage::Extents(self.join(columns)?, Vec::new()),
            Stage::Extents(mut rows, extents) => {
                let ticks = extents.iter().filter_map(|extent| extent.ticks).reduce(widen);
                rows.times = ticks.zip(self.time).map(|((min, max), time)| {
                    let micros = |ticks: i64| ticks.saturating_mul(time.micros_per_tick);
                    TimeRange { min: micros(min), max: micros(max) }
                });
                let keys = extents.iter().filter_map(|extent| extent.keys).reduce(widen);
                let offsets = extents.iter().filter_map(|extent| extent.offsets).reduce(widen);
                let is_in_order =
                    rows.keys.all_have_keys() && offsets.is_some_and(|(smallest, largest)| smallest == largest);
                match keys.and_then(|extent| DenseBuild::new(extent, rows.keys.rows(), is_in_order)) {
                    _ if self.key_columns.is_empty() => Stage::All(rows),
                    Some(dense) => Stage::Dense(rows, dense),
                    None => {
                        let hashed = HashedBuild::new(&rows.keys);
                        Stage::Hashed(rows, hashed)
                    }
                }
            }
            Stage::Dense(rows, mut dense) => {
                dense.advance();
                Stage::Dense(rows, dense)
            }
            Stage::Hashed(rows, mut hashed) => {
                hashed.advance();
                Stage::Hashed(rows, hashed)
            }
            Stage::All(rows) => Stage::All(rows),
        };
        Ok(())
    }

    /// The columns, which machine code can read.
    fn join(&mut self, columns: Vec<Column>) -> Result<Rows, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let whole = columns.into_iter().zip(self.schema.fields()).map(|(column, field)| {
            column.whole.unwrap_or_else(|| Ok(arrow::array::new_empty_array(field.data_type())))
        });
        let columns =
            RecordBatch::try_new_with_options(self.schema.clone(), whole.collect::<Result<_, _>>()?, &options)?;
        self.bytes = bytes_of(&columns);
        let keys = KeyColumns::new(self.key_columns.iter().map(|&key| columns.column(key).clone()).collect());
        Ok(Rows { columns, keys, times: None })
    }

    /// The bucket, when there are no more steps.
    ///
    /// # Panics
    /// Where it is not built.
    pub fn finish(self) -> Bucket {
        let (rows, index, list) = match self.stage {
            Stage::Dense(rows, dense) => {
                let (index, list) = dense.finish();
                (rows, Index::Dense(index), list)
            }
            Stage::Hashed(rows, hashed) => {
                let (index, list) = hashed.finish();
                (rows, Index::Hashed(index), list)
            }
            Stage::All(rows) => (rows, Index::All, (0..self.rows as u32).collect()),
            Stage::Columns(_) | Stage::Extents(..) => panic!("the bucket is not built"),
        };
        let Rows { columns, keys, times } = rows;
        Bucket::of_parts(columns, keys.types(), (index, list), times)
    }

    /// Does all that is left in one thread.
    ///
    /// # Errors
    /// As [`BucketBuild::advance`].
    pub fn complete(mut self) -> Result<Bucket, ArrowError> {
        while !self.is_built() {
            self.units(1).into_iter().for_each(|unit| unit());
            self.advance()?;
        }
        Ok(self.finish())
    }
}

impl Column {
    fn join(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            self.whole = Some(concat(&parts).map(align_bits));
        }
    }
}

impl Rows {
    fn extent(&self, range: Range<usize>, time: Option<TimeColumn>) -> Extent {
        let (mut keys, mut offsets) = (None, None);
        if self.keys.is_integer() {
            let include = |extent: &mut Option<(i64, i64)>, value: i64| {
                *extent = Some(widen(extent.unwrap_or((value, value)), (value, value)));
            };
            self.keys.for_each_integer(range.clone(), |row, key| {
                include(&mut keys, key);
                include(&mut offsets, key.wrapping_sub(i64::from(row)));
            });
        }
        let ticks = time.and_then(|time| {
            let ticks = ticks(&self.columns.column(time.index).slice(range.start, range.len()));
            ticks.values().iter().map(|&tick| (tick, tick)).reduce(widen)
        });
        Extent { keys, offsets, ticks }
    }
}

fn widen(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.min(other.0), one.1.max(other.1))
}

/// How many units rows are worth, for so many threads.
fn units_max(rows: usize, workers: usize) -> usize {
    rows.div_ceil(UNIT_ROWS_MIN).clamp(1, workers * if workers > 1 { UNITS_OF_WORKER } else { 1 })
}

/// So many ranges, as long as each other, of all numbers before `end`; fewer where they would be empty, but one.
fn ranges(end: usize, count: usize) -> Vec<Range<usize>> {
    let length = end.div_ceil(count).max(1);
    let ranges = (0..count).map(|index| (index * length).min(end)..((index + 1) * length).min(end));
    ranges.enumerate().filter(|(index, range)| *index == 0 || !range.is_empty()).map(|(_, range)| range).collect()
}

/// Consecutive parts of these lengths.
fn parts<T>(mut all: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for length in lengths {
        parts.push(all.split_off_mut(..length).expect("the parts are not longer than all"));
    }
    parts
}
