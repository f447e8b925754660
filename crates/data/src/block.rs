//! The block: the unit in which rows are decoded, queued, scheduled and computed on.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::compute::kernels::aggregate;
use arrow::datatypes::{
    DataType, FieldRef, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;

use crate::column::{Layout, align_bits, bytes_beside, is_nested, row_bytes, sql_name};
use crate::time::{Micros, TimeRange, WATERMARK_MIN, micros_per_tick};

/// Which column of a block is its event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeColumn {
    /// Index of the column. Its type is a timestamp of seconds, milliseconds or microseconds.
    pub index: usize,
    /// Microseconds in one tick of the column's unit.
    pub micros_per_tick: i64,
}

impl TimeColumn {
    /// The event-time column at `index` of a schema, or `None` where its type is no timestamp.
    pub fn new(index: usize, data_type: &DataType) -> Option<TimeColumn> {
        micros_per_tick(data_type).map(|micros_per_tick| TimeColumn { index, micros_per_tick })
    }
}

/// Where a block stands in its stream. The source's sequencer writes it; nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Position among all blocks of the source, from 0, without gaps.
    pub sequence: u64,
    /// Rows of the stream before the block's first.
    pub rows_before: u64,
    /// The watermark of the block's own partition before its first row, in microseconds.
    ///
    /// A row is late where its window ends at or before the watermark that the rows before it in its partition had
    /// reached. That does not depend on where blocks begin, nor on what other partitions do.
    pub watermark_before: Micros,
    /// What the partition's watermark trails the largest event time by, in microseconds.
    pub watermark_delay: Micros,
    /// The watermark of the whole source after this block: the minimum over its partitions, in microseconds.
    pub watermark: Micros,
    /// When the block's bytes were read, in nanoseconds of the engine's clock. Latency is measured from here.
    pub ingested_ns: u64,
    /// The newest event time of the rows that it came from, by which event-time latency is measured; the least where these have none.
    pub event_time: Micros,
    /// Nothing comes for now, from no partition: until there is another block, the stream does not hold the time of others back.
    pub is_idle: bool,
    /// It marks latency: when it was read is told to the outputs when all that became of the block's rows has come there, even if that is nothing.
    pub is_marker: bool,
}

/// What latency is measured from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// See [`Stamp::ingested_ns`].
    pub ingested_ns: u64,
    /// See [`Stamp::event_time`].
    pub event_time: Micros,
}

impl Stamp {
    /// What latency of what becomes of the block is measured from.
    pub fn origin(&self) -> Origin {
        Origin { ingested_ns: self.ingested_ns, event_time: self.event_time }
    }
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp {
            sequence: 0,
            rows_before: 0,
            watermark_before: WATERMARK_MIN,
            watermark_delay: 0,
            watermark: WATERMARK_MIN,
            ingested_ns: 0,
            event_time: WATERMARK_MIN,
            is_idle: false,
            is_marker: false,
        }
    }
}

/// Where rows were read from that lie one behind the other in an input, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// File or other origin.
    pub input: Arc<str>,
    /// Row of the input that the first of them is, counted as its other messages count.
    pub first_row: u64,
}

impl Provenance {
    /// Of the rows from `row` on.
    pub fn from_row(&self, row: usize) -> Provenance {
        Provenance { input: self.input.clone(), first_row: self.first_row + row as u64 }
    }
}

/// As a part of a message.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", at {}, row {}", self.input, self.first_row)
    }
}

/// Up to a block's worth of rows in columns, and where they stand in event time and in their stream.
///
/// Columns are Arrow arrays whose bit buffers begin at bit 0 and whose layout kernels can read ([`Layout::of`]), or nested ones, which only
/// expressions of DataFusion read.
/// A replayed block shares its columns with every other pass over it: its event times are those of the column plus
/// [`Block::time_shift_ticks`], so that a pass costs no copy. [`Block::column`] and [`Block::to_record_batch`] give shifted values.
#[derive(Debug, Clone)]
pub struct Block {
    /// Shared by all passes over the block: a pass moves a pointer, a shift and a stamp.
    held: Arc<Held>,
    time_shift_ticks: i64,
    /// Where the block stands in its stream.
    pub stamp: Stamp,
    /// Where the rows were read from, where that is known.
    pub provenance: Option<Provenance>,
}

/// What a block holds, without the shift of its event times.
#[derive(Debug)]
struct Held {
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
    row_bytes: usize,
    /// What the columns have beside the fixed-width parts of their rows.
    bytes_beside: usize,
    time_column: Option<TimeColumn>,
    time_range: Option<TimeRange>,
    in_time_order: bool,
    /// The smallest event time, and for each row the distance from it, in ticks: where rows are out of order, and distances short.
    tick_distances: Option<(i64, Vec<u16>)>,
}

impl Block {
    /// A block of the rows of `batch`, whose event time is `time_column`.
    ///
    /// # Errors
    /// Where a column has a type that blocks do not hold, or the event-time column holds a NULL or a time that does
    /// not fit 64 bits of microseconds.
    pub fn new(batch: RecordBatch, time_column: Option<TimeColumn>) -> Result<Block, ArrowError> {
        let rows = batch.num_rows();
        Block::part(batch, time_column, rows)
    }

    /// As [`Block::new`], of rows that were cut from a batch of `rows_of_all` and share their strings with the others: of these the block counts its part.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn part(batch: RecordBatch, time_column: Option<TimeColumn>, rows_of_all: usize) -> Result<Block, ArrowError> {
        let (schema, columns, rows) = batch.into_parts();
        for (field, column) in schema.fields().iter().zip(&columns) {
            if Layout::of(column.data_type()).is_none() && !is_nested(column.data_type()) {
                return Err(ArrowError::NotYetImplemented(format!(
                    "column '{}' has type {}, which blocks do not hold",
                    field.name(),
                    sql_name(column.data_type())
                )));
            }
        }
        let columns: Vec<ArrayRef> = columns.into_iter().map(align_bits).collect();
        let row_bytes = row_bytes(&columns);
        let bytes_beside = (bytes_beside(&columns) as u128 * rows as u128 / rows_of_all.max(1) as u128) as usize;
        let (time_range, in_time_order) = match time_column {
            Some(time) if rows > 0 => {
                let (range, in_order) = time_range(&columns[time.index], time)?;
                (Some(range), in_order)
            }
            _ => (None, false),
        };
        let out_of_order = time_column.zip(time_range).filter(|_| !in_time_order);
        let tick_distances = out_of_order.and_then(|(time, range)| distances(&columns[time.index], time, range));
        let held = Held {
            schema,
            columns,
            rows,
            row_bytes,
            bytes_beside,
            time_column,
            time_range,
            in_time_order,
            tick_distances,
        };
        Ok(Block { held: Arc::new(held), time_shift_ticks: 0, stamp: Stamp::default(), provenance: None })
    }

    /// A block without rows, which carries only its stamp: time has passed.
    pub fn punctuation(schema: SchemaRef, stamp: Stamp) -> Block {
        let columns = schema.fields().iter().map(|field| arrow::array::new_empty_array(field.data_type())).collect();
        let held = Held {
            schema,
            columns,
            rows: 0,
            row_bytes: 0,
            bytes_beside: 0,
            time_column: None,
            time_range: None,
            in_time_order: false,
            tick_distances: None,
        };
        Block { held: Arc::new(held), time_shift_ticks: 0, stamp, provenance: None }
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.held.schema
    }

    /// Rows in the block.
    pub fn rows(&self) -> usize {
        self.held.rows
    }

    /// Which column is the event time, if any.
    pub fn time_column(&self) -> Option<TimeColumn> {
        self.held.time_column
    }

    /// The smallest and largest event time of the rows, shift included; `None` without rows or event time.
    pub fn time_range(&self) -> Option<TimeRange> {
        let micros = self.time_shift_micros();
        self.held.time_range.map(|range| TimeRange { min: range.min + micros, max: range.max + micros })
    }

    /// Whether the rows are known to be in the order of their event times.
    pub fn in_time_order(&self) -> bool {
        self.held.in_time_order
    }

    /// What must be added to each value of the event-time column to have the row's event time, in ticks of that column.
    pub fn time_shift_ticks(&self) -> i64 {
        self.time_shift_ticks
    }

    /// The values of the event-time column as they lie in memory: without the shift. `None` without event time.
    pub fn raw_ticks(&self) -> Option<&[i64]> {
        self.held.time_column.map(|time| tick_values(&self.held.columns[time.index]).as_ref())
    }

    /// The smallest value of the event-time column as it lies in memory, and for each row the distance from it: a quarter of the bytes for
    /// those who look at all rows' times. Only where rows are out of order, and all distances short enough.
    pub fn tick_distances(&self) -> Option<(i64, &[u16])> {
        self.held.tick_distances.as_ref().map(|(from, distances)| (*from, distances.as_slice()))
    }

    /// The columns as they lie in memory: event times without the shift. For kernels, which add it themselves.
    pub fn raw_columns(&self) -> &[ArrayRef] {
        &self.held.columns
    }

    /// Column `index` with event times shifted. Costs a copy where the block is a replayed one and the column its event time.
    ///
    /// Else the column is borrowed: workers that compute passes over one block would pass on to each other the line of memory in which its owners are
    /// counted.
    pub fn column(&self, index: usize) -> Cow<'_, ArrayRef> {
        let raw = &self.held.columns[index];
        match self.held.time_column {
            Some(time) if time.index == index && self.time_shift_ticks != 0 => {
                Cow::Owned(shifted(raw, self.time_shift_ticks))
            }
            _ => Cow::Borrowed(raw),
        }
    }

    /// The rows as an Arrow record batch, without a copy except for shifted event times.
    pub fn to_record_batch(&self) -> RecordBatch {
        let columns = (0..self.held.columns.len()).map(|index| self.column(index).into_owned()).collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.held.rows));
        RecordBatch::try_new_with_options(self.held.schema.clone(), columns, &options)
            .expect("a block's columns fit its schema: they came from a record batch")
    }

    /// The same rows `micros` later in event time. `micros` must be a whole number of ticks of the event-time column.
    pub fn shifted(mut self, micros: Micros) -> Block {
        if let Some(time) = self.held.time_column {
            debug_assert_eq!(micros % time.micros_per_tick, 0);
            self.time_shift_ticks += micros / time.micros_per_tick;
        }
        self
    }

    fn time_shift_micros(&self) -> Micros {
        self.held.time_column.map_or(0, |time| self.time_shift_ticks * time.micros_per_tick)
    }

    /// The same rows with one more column behind the others, of as many values.
    pub fn with_column(&self, field: FieldRef, column: ArrayRef) -> Block {
        let held = &*self.held;
        let fields = held.schema.fields().iter().cloned().chain([field]);
        let columns = held.columns.iter().cloned().chain([column]).collect::<Vec<_>>();
        let held = Held {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            row_bytes: row_bytes(&columns),
            columns,
            rows: held.rows,
            bytes_beside: held.bytes_beside,
            time_column: held.time_column,
            time_range: held.time_range,
            in_time_order: held.in_time_order,
            tick_distances: held.tick_distances.clone(),
        };
        Block { held: Arc::new(held), ..self.clone() }
    }

    /// The same rows with the columns at these positions only, whose names and types are given.
    pub fn project(&self, positions: &[usize], schema: SchemaRef) -> Block {
        let held = &*self.held;
        let columns: Vec<ArrayRef> = positions.iter().map(|&position| held.columns[position].clone()).collect();
        let time_column = held.time_column.and_then(|time| {
            let index = positions.iter().position(|&position| position == time.index)?;
            Some(TimeColumn { index, ..time })
        });
        let has_time = time_column.is_some();
        let held = Held {
            schema,
            row_bytes: row_bytes(&columns),
            bytes_beside: bytes_beside(&columns),
            columns,
            rows: held.rows,
            time_column,
            time_range: held.time_range.filter(|_| has_time),
            in_time_order: held.in_time_order && has_time,
            tick_distances: held.tick_distances.clone().filter(|_| has_time),
        };
        Block { held: Arc::new(held), ..self.clone() }
    }

    /// The same rows at the times that lie in memory.
    pub fn unshifted(&self) -> Block {
        Block { time_shift_ticks: 0, ..self.clone() }
    }

    /// The rows `first..first + rows`, which share columns with the others; nobody has stamped them.
    pub fn slice(&self, first: usize, rows: usize) -> Block {
        let batch = self.unshifted().to_record_batch().slice(first, rows);
        let part = Block::part(batch, self.time_column(), self.rows()).expect("rows of a block are fit for a block");
        let provenance = self.provenance.as_ref().map(|provenance| provenance.from_row(first));
        Block { time_shift_ticks: self.time_shift_ticks, provenance, ..part }
    }

    /// Bytes of the rows' fixed-width parts (a view counts 16), for rates.
    pub fn bytes(&self) -> usize {
        self.held.row_bytes * self.held.rows
    }

    /// Bytes that the rows take in memory, about: with the strings that no view holds itself.
    pub fn memory_bytes(&self) -> usize {
        self.bytes() + self.held.bytes_beside
    }
}

/// The smallest and largest event time, and whether the rows are in the order of their event times. There is at least one row.
fn time_range(column: &ArrayRef, time: TimeColumn) -> Result<(TimeRange, bool), ArrowError> {
    if column.null_count() > 0 {
        let row = (0..column.len()).find(|&row| column.is_null(row)).unwrap_or(0);
        return Err(ArrowError::InvalidArgumentError(format!("the event time is NULL in row {row}")));
    }
    let ticks = ticks(column);
    let in_order = ticks.values().is_sorted();
    let bounds = match ticks.values().as_ref() {
        [first, .., last] if in_order => Some((*first, *last)),
        _ => aggregate::min(&ticks).zip(aggregate::max(&ticks)),
    };
    let (min, max) = bounds.ok_or_else(|| ArrowError::InvalidArgumentError("no rows".into()))?;
    let micros = |ticks: i64| {
        ticks.checked_mul(time.micros_per_tick).ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("event time {ticks} does not fit 64 bits of microseconds"))
        })
    };
    Ok((TimeRange { min: micros(min)?, max: micros(max)? }, in_order))
}

/// The smallest event time in ticks, and the distance of each from it, where these are short enough.
fn distances(column: &ArrayRef, time: TimeColumn, range: TimeRange) -> Option<(i64, Vec<u16>)> {
    let [first, last] = [range.min, range.max].map(|micros| micros.div_euclid(time.micros_per_tick));
    u16::try_from(last.checked_sub(first)?).ok()?;
    Some((first, ticks(column).values().iter().map(|tick| (tick - first) as u16).collect()))
}

/// The values of a timestamp column of seconds, milliseconds or microseconds, or of row numbers, which bound windows that count rows.
fn tick_values(column: &ArrayRef) -> &ScalarBuffer<i64> {
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().values(),
        DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().values(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.as_primitive::<TimestampMillisecondType>().values(),
        _ => column.as_primitive::<TimestampMicrosecondType>().values(),
    }
}

/// The values of a timestamp column of seconds, milliseconds or microseconds, or of row numbers, as plain 64-bit ticks, without a copy.
pub fn ticks(column: &ArrayRef) -> Int64Array {
    Int64Array::new(tick_values(column).clone(), column.nulls().cloned())
}

/// A timestamp column, so many ticks later.
pub fn shifted(column: &ArrayRef, shift_ticks: i64) -> ArrayRef {
    let values = ticks(column);
    let moved = values.unary::<_, Int64Type>(|tick| tick + shift_ticks);
    let data = moved.to_data().into_builder().data_type(column.data_type().clone());
    // SAFETY: every timestamp array has the layout of an array of 64-bit integers.
    arrow::array::make_array(unsafe { data.build_unchecked() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::TimestampMillisecondArray;
    use arrow::datatypes::{Field, Schema};

    fn block() -> Block {
        block_of(vec![30, 10, 20])
    }

    fn block_of(times: Vec<i64>) -> Block {
        let schema = Schema::new(vec![
            Field::new("v", DataType::Int64, false),
            Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        ]);
        let batch = RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(Int64Array::from_iter_values(0..times.len() as i64)),
                Arc::new(TimestampMillisecondArray::from(times)),
            ],
        )
        .unwrap();
        let time = TimeColumn::new(1, batch.column(1).data_type());
        Block::new(batch, time).unwrap()
    }

    #[test]
    fn a_replayed_block_moves_in_time_without_moving_its_columns() {
        let first = block();
        assert_eq!(first.time_range(), Some(TimeRange { min: 10_000, max: 30_000 }));
        let later = first.clone().shifted(5_000);
        assert_eq!(later.time_range(), Some(TimeRange { min: 15_000, max: 35_000 }));
        assert!(Arc::ptr_eq(&first.held, &later.held));
        let times = later.column(1);
        assert_eq!(times.as_primitive::<arrow::datatypes::TimestampMillisecondType>().values(), &[35, 15, 25]);
    }

    #[test]
    fn a_block_knows_whether_its_rows_are_in_the_order_of_their_times() {
        let range = |block: &Block| block.time_range().map(|range| (range.min, range.max));
        for (times, bounds, in_order) in [
            (vec![30, 10, 20], (10_000, 30_000), false),
            (vec![10, 10, 20], (10_000, 20_000), true),
            (vec![-5], (-5_000, -5_000), true),
            (vec![1, 2, 1], (1_000, 2_000), false),
        ] {
            let block = block_of(times.clone());
            assert_eq!((range(&block), block.in_time_order()), (Some(bounds), in_order));
            assert_eq!(block.clone().shifted(1_000).in_time_order(), in_order);
            let distances = times.iter().map(|tick| (tick - times.iter().min().unwrap()) as u16).collect::<Vec<_>>();
            let expected = (!in_order).then(|| (*times.iter().min().unwrap(), distances.as_slice()));
            assert_eq!(block.clone().shifted(1_000).tick_distances(), expected);
        }
        assert_eq!(block_of(vec![7, 65_543, 8]).tick_distances(), None);
        assert!(!Block::punctuation(block().schema().clone(), Stamp::default()).in_time_order());
    }

    #[test]
    fn a_block_counts_the_strings_that_views_do_not_hold() {
        let of = |words: Vec<&str>| {
            let words: ArrayRef = Arc::new(arrow::array::StringViewArray::from(words));
            RecordBatch::try_from_iter([("s", words)]).unwrap()
        };
        let bytes =
            |block: Result<Block, ArrowError>| block.map(|block| (block.bytes(), block.memory_bytes())).unwrap();
        assert_eq!(bytes(Block::new(of(vec!["short", "words"]), None)), (32, 32));
        let long = of(vec![&"a".repeat(1_000), &"b".repeat(3_000)]);
        let (_, all) = bytes(Block::new(long.clone(), None));
        assert!((4_032..65_536).contains(&all), "{all}");
        // Of what it shares with others it has its part.
        assert_eq!(bytes(Block::part(long.slice(0, 1), None, 2)), (16, all / 2));
        // What is named twice is there once.
        let twice = arrow::compute::concat_batches(&long.schema(), [&long, &long]).unwrap();
        assert_eq!(bytes(Block::new(twice, None)).1, all + 32);
    }

    #[test]
    fn a_null_event_time_is_an_error_that_names_the_row() {
        let schema = Schema::new(vec![Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true)]);
        let times = TimestampMillisecondArray::from(vec![Some(1), None]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times)]).unwrap();
        let time = TimeColumn::new(0, batch.column(0).data_type());
        assert!(Block::new(batch, time).unwrap_err().to_string().contains("row 1"));
    }
}
