//! What a connector is told of a table, and what it hands back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use arrow::datatypes::{Schema, SchemaRef};
use pelton_data::TimeColumn;
use pelton_runtime::budget::Budget;
use pelton_runtime::source::Source;

use crate::condition::Conditions;
use crate::error::ConnectorError;
use crate::job_transaction::JobTransaction;
use crate::options::Options;
use crate::storage::Disk;

/// One use of a table, as a source or as a sink.
#[derive(Debug, Clone)]
pub struct TableRequest {
    /// Name in the catalogue, for messages.
    pub name: String,
    /// All physical columns of the table, as declared; computed columns are not among them.
    pub schema: SchemaRef,
    /// Which of them are wanted, ascending. A source delivers exactly these, in this order; a sink takes all columns.
    pub columns: Vec<usize>,
    /// Columns that are not in the data but about it: index into `schema` → key of `METADATA FROM`.
    pub metadata: BTreeMap<usize, String>,
    /// Columns whose values are in the names of directories and not in files, as `PARTITIONED BY` lists them: indices into `schema`.
    pub partition_keys: Vec<usize>,
    /// Columns whose strings have a length: index into `schema` → which. Rows that are read or written may have others; those that are made have it.
    pub lengths: BTreeMap<usize, TextLength>,
    /// The table's `WITH (…)`.
    pub options: BTreeMap<String, String>,
    /// Which of the delivered columns is the event time: an index into `columns`.
    pub event_time: Option<TimeColumn>,
    /// Rows that a block should have. Chunks may hold a few blocks' worth.
    pub block_rows: usize,
    /// What generated data depends on.
    pub seed: u64,
    /// Whether a value that does not fit its column is an error, also where Flink has another one for it.
    pub strict_values: bool,
    /// What the query that uses it gives its tables.
    pub host: Host,
}

impl TableRequest {
    /// Whether a column is in the rows of the data: neither about them nor in the names of directories.
    pub(crate) fn is_in_rows(&self, column: usize) -> bool {
        !self.metadata.contains_key(&column) && !self.partition_keys.contains(&column)
    }
}

/// What a query gives its tables.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Wakes its workers when there is something to read, or room to write. Without it they ask from time to time.
    pub waker: Option<Waker>,
    /// What rows are charged to that a table keeps in memory.
    pub budget: Budget,
    /// The job whose checkpoints commit what its sinks have written. Without checkpoints rows are visible when the sink ends.
    pub committed_by: Option<CommittingJob>,
    /// Where its tables say what keeps them from being read or written just now.
    pub conditions: Conditions,
}

/// A job whose checkpoints commit what its sinks have written.
#[derive(Debug, Clone)]
pub struct CommittingJob {
    /// Its name.
    pub name: Arc<str>,
    /// Between two checkpoints; without it there is only that at the end.
    pub interval: Option<Duration>,
    /// The transaction of what it writes to Kafka exactly once.
    pub transaction: JobTransaction,
    /// Where its files and checkpoints are, if these are in no bucket.
    pub disk: Arc<dyn Disk>,
}

/// How many characters strings of a type have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLength {
    /// So many: `CHAR(n)`
    Exactly(u32),
    /// No more: `VARCHAR(n)`
    AtMost(u32),
}

/// Opens a table whose options have been read.
pub(crate) type Open<'a, T> = Box<dyn FnOnce() -> Result<Box<T>, ConnectorError> + 'a>;

/// What opens a table that is read:
pub(crate) enum Opening<'a> {
    /// its options have been read,
    Read(Open<'a, dyn Source>),
    /// or are when data has been looked at, which tells what options there are.
    ByData(Box<dyn FnOnce() -> Result<Open<'a, dyn Source>, ConnectorError> + 'a>),
}

impl<'a> Opening<'a> {
    /// Ends the reading of options, as soon as all are known that there are.
    pub fn finish(self, options: &'a Options) -> Result<Open<'a, dyn Source>, ConnectorError> {
        match self {
            Opening::Read(open) => options.finish().map(|()| open),
            Opening::ByData(look) => Ok(Box::new(move || Opening::Read(look()?).finish(options)?())),
        }
    }
}

/// What a connector, or the data behind it, tells of a table that names no columns.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Its columns.
    pub schema: Schema,
    /// Options that tell what the table's own do not: with them, a table of these columns reads the same, where values are read strictly.
    pub options: BTreeMap<String, String>,
}

impl Declared {
    pub(crate) fn of(schema: Schema) -> Declared {
        Declared { schema, options: BTreeMap::new() }
    }
}
