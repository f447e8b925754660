//! Loads the bounded tables that a program joins with: their rows are read by a query, and indexed by several threads.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use pelton_data::column::detached;
use pelton_plan::pipeline::LookupTable;
use pelton_runtime::budget::{Budget, Held};
use pelton_runtime::run::RunError;
use pelton_state::join::build::{TableRows, Unit};
use pelton_state::join::{Bucket, BucketBuild, Lookups};

use crate::error::Error;

/// Fewer rows are indexed in less time than it takes to start a thread.
const PARALLEL_ROWS_MIN: usize = 1 << 16;

/// Those of a program that joins with none. They are the same for all such programs: the validity bits that each has take more than the rest of a small query.
pub(crate) fn none() -> Arc<Lookups> {
    static NONE: LazyLock<Arc<Lookups>> = LazyLock::new(Arc::default);
    NONE.clone()
}

/// Loads tables, whose memory is charged to a budget. `read` reads the rows of a table, and so many threads index them. Returns the tables, and what is charged
/// for each.
pub(crate) fn load_all<R: Iterator<Item = Result<RecordBatch, Error>>>(
    tables: &[LookupTable],
    budget: &Budget,
    workers: usize,
    read: impl Fn(&LookupTable) -> Result<R, Error>,
) -> Result<(Arc<Lookups>, Vec<Held>), Error> {
    if tables.is_empty() {
        return Ok((none(), Vec::new()));
    }
    let loaded = tables.iter().map(|table| load(table, budget, workers, read(table)?));
    let (buckets, held) = loaded.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    Ok((Arc::new(Lookups::new(buckets)), held))
}

/// A table, and what is charged for it.
pub(crate) type Loaded = (Arc<Bucket>, Held);

/// Indexes the rows of a table.
pub(crate) fn load(
    table: &LookupTable,
    budget: &Budget,
    workers: usize,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<Loaded, Error> {
    let mut held = budget.held();
    let mut charge = |bytes: usize| {
        held.set(bytes, "join with fewer rows or columns")
            .map_err(|error| Error::Run(RunError::Kernel { pipeline: format!("join with {}", names(table)), error }))
    };
    let misfit = |error| Error::Usage(format!("the rows of a joined table do not fit together: {error}"));
    let mut rows = TableRows::new(table.schema.clone());
    for batch in batches {
        let batch = detached(batch?);
        let batch = if table.has_row_numbers { numbered(&batch, rows.rows(), &table.schema) } else { batch };
        rows.push(&batch).map_err(misfit)?;
        charge(rows.bytes())?;
    }
    let workers = if rows.rows() < PARALLEL_ROWS_MIN { 1 } else { workers };
    let mut build = BucketBuild::of_table(rows, &table.keys);
    while !build.is_built() {
        charge(build.bytes(workers))?;
        run(build.units(workers), workers);
        build.advance().map_err(misfit)?;
    }
    let bucket = build.finish();
    charge(bucket.bytes())?;
    Ok((Arc::new(bucket), held))
}

/// The tables that a joined table is read from.
pub(crate) fn names(table: &LookupTable) -> String {
    table.program.sources.iter().map(|source| source.table.as_str()).collect::<Vec<_>>().join(", ")
}

/// Rows with their numbers behind them, from `first` on.
fn numbered(batch: &RecordBatch, first: usize, schema: &SchemaRef) -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((first..first + batch.num_rows()).map(|row| row as i64)));
    let columns = batch.columns().iter().cloned().chain([numbers]).collect();
    RecordBatch::try_new(schema.clone(), columns).expect("the numbers are the last column")
}

/// Does units of work in so many threads, this one among them.
fn run(units: Vec<Unit<'_>>, workers: usize) {
    let others = workers.min(units.len()).saturating_sub(1);
    let units = Mutex::new(units.into_iter());
    let next = || units.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(unit) = next() {
            unit();
        }
    };
    std::thread::scope(|scope| {
        (0..others).for_each(|_| drop(scope.spawn(work)));
        work();
    });
}
