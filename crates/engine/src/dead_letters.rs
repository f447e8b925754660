//! Rows that do not fit their table, in a table of their own: `'on-error' = 'skip'` with `'on-error.dead-letter-table'`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, SchemaRef};
use pelton_runtime::sink::{Sink, SinkError};
use pelton_runtime::source::{Decoded, Read, RejectedRow, Source, SourceError, Undecoded};

use crate::wrapped_source::WrappedSource;

/// How long a worker waits for room in the table before it looks again.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// What a column says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// As it came.
    Row,
    /// What is wrong with it.
    Error,
    /// The file, or the topic and partition.
    Place,
    /// The number of the row there, or the offset.
    Position,
    /// The table that it does not fit.
    Table,
}

/// The names of the columns.
const PARTS: [(&str, Part, DataType); 5] = [
    ("row", Part::Row, DataType::Utf8View),
    ("error", Part::Error, DataType::Utf8View),
    ("place", Part::Place, DataType::Utf8View),
    ("position", Part::Position, DataType::Int64),
    ("table_name", Part::Table, DataType::Utf8View),
];

/// Checks that the columns of a table are those of dead letters.
///
/// # Errors
/// What is wrong.
pub(crate) fn check(schema: &SchemaRef) -> Result<(), String> {
    for field in schema.fields() {
        let is_known = PARTS.iter().any(|(name, _, data_type)| name == field.name() && data_type == field.data_type());
        if !is_known {
            let name = field.name();
            return Err(format!(
                "its column '{name}' is none of row STRING, error STRING, place STRING, position BIGINT and table_name STRING"
            ));
        }
    }
    Ok(())
}

/// A source whose rejected rows go to a table.
pub(crate) fn with_dead_letters(
    source: Box<dyn Source>,
    table: &str,
    (name, schema): (&str, SchemaRef),
    sink: Box<dyn Sink>,
) -> Box<dyn Source> {
    let letters = DeadLetters {
        table: table.to_owned(),
        name: name.to_owned(),
        schema,
        sink: Mutex::new(Some(sink)),
        undecoded: AtomicUsize::new(1),
    };
    let (letters, mut partitions_ended) = (Arc::new(letters), 0);
    Box::new(WrappedSource::new(source, move |read, partitions| {
        Ok(match read {
            Read::Chunk(chunk) => {
                let letters = letters.clone();
                letters.undecoded.fetch_add(1, Ordering::SeqCst);
                Read::Chunk(Box::new(move || {
                    let decoded = letters.take_from(chunk()?)?;
                    letters.count_down().map(|()| decoded)
                }))
            }
            Read::End => {
                partitions_ended += 1;
                if partitions_ended == partitions {
                    letters.count_down()?;
                }
                Read::End
            }
            wait => wait,
        })
    }))
}

/// Where rejected rows go.
struct DeadLetters {
    /// The table that they do not fit,
    table: String,
    /// and the one that takes them.
    name: String,
    schema: SchemaRef,
    /// Gone when it has ended.
    sink: Mutex<Option<Box<dyn Sink>>>,
    /// Chunks that have been read and are not decoded, and one more while there may be others.
    undecoded: AtomicUsize,
}

impl DeadLetters {
    /// Writes the rejected rows of a chunk, of which the first are kept for people as well.
    fn take_from(&self, mut decoded: Decoded) -> Result<Decoded, SourceError> {
        let rejected = &mut decoded.left_out.rejected;
        if !rejected.first.is_empty() {
            self.write(&rejected.first).map_err(|error| self.failed(error))?;
            rejected.keeps_all = false;
            rejected.first.truncate(Undecoded::KEPT_MAX);
        }
        Ok(decoded)
    }

    /// A chunk is decoded, or all have been read. Behind the last of them the table ends.
    fn count_down(&self) -> Result<(), SourceError> {
        match self.undecoded.fetch_sub(1, Ordering::SeqCst) {
            1 => self.finish().map_err(|error| self.failed(error)),
            _ => Ok(()),
        }
    }

    fn finish(&self) -> Result<(), SinkError> {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        sink.map_or(Ok(()), |mut sink| sink.finish())
    }

    fn failed(&self, error: SinkError) -> SourceError {
        SourceError::Input { place: self.name.clone(), problem: error.to_string() }
    }

    fn write(&self, rows: &[RejectedRow]) -> Result<(), SinkError> {
        let columns = self.schema.fields().iter().map(|field| {
            let part = PARTS.iter().find(|(name, ..)| name == field.name()).expect("columns are checked").1;
            self.column(part, rows)
        });
        let batch = RecordBatch::try_new(self.schema.clone(), columns.collect());
        let batch = batch.map_err(|error| SinkError { place: self.name.clone(), problem: error.to_string() })?;
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = sink.as_mut().expect("it ends behind the last row");
        while !sink.is_ready() {
            std::thread::sleep(ROOM_WAIT);
        }
        sink.write(&batch)?;
        sink.flush()
    }

    fn column(&self, part: Part, rows: &[RejectedRow]) -> ArrayRef {
        let texts = |text: &dyn Fn(&RejectedRow) -> String| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values(rows.iter().map(text)))
        };
        match part {
            Part::Row => texts(&|row| row.row.clone()),
            Part::Error => texts(&|row| row.error.to_string()),
            Part::Place => texts(&|row| match &row.error {
                SourceError::Row { place, .. } | SourceError::Message { place, .. } => place.clone(),
                SourceError::Input { place, .. } => place.clone(),
            }),
            Part::Position => {
                let position = |row: &RejectedRow| match row.error {
                    SourceError::Row { row, .. } => i64::try_from(row).ok(),
                    SourceError::Message { offset, .. } => Some(offset),
                    SourceError::Input { .. } => None,
                };
                Arc::new(rows.iter().map(position).collect::<Int64Array>())
            }
            Part::Table => texts(&|_| self.table.clone()),
        }
    }
}

impl Drop for DeadLetters {
    /// Where the query is stopped, its rows are where they were flushed to; files get their names now.
    fn drop(&mut self) {
        // Nobody is left whom an error could be told.
        let _ = self.finish();
    }
}
