//! Rows of a chunk added up for all queries of a group.
//!
//! Queries that aggregate the same table by the same keys in windows of event time form a group, whatever their predicates, windows and functions. The rows of a
//! chunk are added up once for all of them: by slice, key and query set. The slices are cut wherever a window of any query begins or ends, and the query set
//! says which of the predicates are true (see `query_sets`). A row of the result is a partial result, which each query takes for a row: it merges those whose set
//! it belongs to. A slice ends with the chunk, so that queries come and go between two chunks, and nothing is kept for them.
//!
//! A chunk stays as it is, row by row as partial results of one row each, where adding up might change a result or does not pay: where a row may be late for
//! a slice, and where there are nearly as many groups as rows.

use std::sync::{Arc, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::aggregate;
use arrow::datatypes::SchemaRef;
use pelton_data::block::ticks;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::{ResultKind, Window};
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelCall, KernelError, Scratch};
use pelton_state::layout::EntryLayout;
use pelton_state::slice::{SliceRows, SliceStore};
use pelton_state::table::{Chosen, Table};
use pelton_state::window::{ClosedGroups, ClosedWindow, Contents};

use super::query_sets::QuerySets;
use crate::adapt::KernelSlot;
use crate::graph::ReadOut;
use crate::operators::window::assign;
use crate::source::sequence::cut;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Rows that are added up at a time.
const PIECE_ROWS_MAX: usize = 1 << 14;

/// A chunk is added up where there are so many times as many rows as groups, or, where it is small, more at all.
const ROWS_PER_GROUP_MIN: usize = 2;

/// A chunk of fewer rows is small.
const LARGE_ROWS_MIN: usize = 1 << 12;

/// So many chunks stay as they are after one that did not pay.
const CHUNKS_LEFT_ALONE: u32 = 15;

/// Computes a value for each of so many rows, of the columns of the table, which are asked for by their places in it.
pub type ColumnFunction = dyn Fn(usize, &dyn Fn(usize) -> ArrayRef) -> Result<ArrayRef, KernelError> + Send + Sync;

/// How the rows of a chunk are added up for a group of queries, as it is at one time.
pub struct Summarizer {
    /// Of partial results: the event time, the keys, the number of the query set (BIGINT), and the values.
    pub schema: SchemaRef,
    /// The event time of the table, and then the keys.
    pub keys: Vec<Arc<ColumnFunction>>,
    /// By slot: nothing where no query has it.
    pub predicates: Vec<Option<Arc<ColumnFunction>>>,
    /// What one row adds to each value, in the order of the schema.
    pub values: Vec<Arc<ColumnFunction>>,
    /// Of each slot which value it is.
    pub slots: Vec<Option<usize>>,
    /// How far the watermark trails the largest event time.
    pub delay: Micros,
    /// Windows whose slices are cut wherever one of the group's may begin or end.
    pub grid: Window,
    /// Adds partial results of rows up.
    pub sums: Arc<Sums>,
}

/// Adds partial results up: the same as long as the group's values are.
pub struct Sums {
    kernel: Arc<KernelSlot>,
    layout: Arc<EntryLayout>,
    read_out: ReadOut,
    /// It looks up nothing.
    lookups: Arc<Lookups>,
    /// What was made room in before.
    workspaces: Mutex<Vec<Workspace>>,
    /// Chunks that stay as they are, because it did not pay to add others up.
    left_alone: AtomicU32,
}

struct Workspace {
    store: SliceStore,
    scratch: Scratch,
    entries: Vec<u32>,
}

/// The partial results of a chunk.
pub(super) struct Summary {
    pub summarizer: Arc<Summarizer>,
    pub sets: QuerySets,
    pub batches: Vec<RecordBatch>,
    /// How many rows the chunk has.
    pub rows: usize,
}

impl Sums {
    /// By this code, into entries of this layout, from which partial results are read out.
    pub fn new(kernel: Arc<KernelSlot>, layout: Arc<EntryLayout>, read_out: ReadOut) -> Sums {
        let (lookups, workspaces) = (kernel.lookups(), Mutex::default());
        Sums { kernel, layout, read_out, lookups, workspaces, left_alone: AtomicU32::new(0) }
    }

    fn workspace(&self) -> Workspace {
        let known = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.unwrap_or_else(|| Workspace {
            store: SliceStore::new(self.layout.clone()),
            scratch: Scratch::default(),
            entries: Vec::new(),
        })
    }

    fn take_back(&self, workspace: Workspace) {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }

    /// Whether chunks are added up now: from time to time it is tried anew.
    fn pays(&self) -> bool {
        let one_less = |chunks: u32| chunks.checked_sub(1);
        self.left_alone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    /// Adds rows up, a part after the other, which come after rows of these times at most. `None` where a row may be late for its slice, or it does not pay.
    fn add_up(
        &self,
        summarizer: &Summarizer,
        parts: &[RecordBatch],
        times_before: Micros,
    ) -> Result<Option<Vec<RecordBatch>>, KernelError> {
        let mut workspace = self.workspace();
        let added = self.add(summarizer, parts, times_before, &mut workspace);
        let tables = workspace.store.take_until(Micros::MAX);
        let mut sums = Vec::new();
        let mut read = Ok(());
        for (_, mut table) in tables {
            if let (Ok(true), Ok(())) = (&added, &read) {
                read = self.read_out(&table, &mut workspace.entries).map(|batch| sums.extend(batch));
            }
            table.clear();
            workspace.store.recycle(table);
        }
        self.take_back(workspace);
        read?;
        let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if !added? {
            return Ok(None);
        }
        let (rows, groups) = (rows(parts), rows(&sums));
        let pays = if rows < LARGE_ROWS_MIN { groups < rows } else { groups * ROWS_PER_GROUP_MIN <= rows };
        if !pays && rows >= LARGE_ROWS_MIN {
            self.left_alone.store(CHUNKS_LEFT_ALONE, Ordering::Relaxed);
        }
        Ok(pays.then_some(sums))
    }

    /// Returns whether all rows came in time for their slices.
    fn add(
        &self,
        summarizer: &Summarizer,
        parts: &[RecordBatch],
        mut times_before: Micros,
        workspace: &mut Workspace,
    ) -> Result<bool, KernelError> {
        let pick = self.kernel.pick();
        workspace.scratch.checks_nulls = pick.checks_nulls;
        let kernel = KernelCall { kernel: pick.kernel.as_ref(), lookups: &self.lookups };
        let time = TimeColumn::new(0, summarizer.schema.field(0).data_type());
        for part in parts {
            // A row without an event time is an error of whoever gets it.
            let Ok(mut block) = Block::new(part.clone(), time) else { return Ok(false) };
            block.stamp.watermark_delay = summarizer.delay;
            block.stamp.watermark_before = match times_before {
                WATERMARK_MIN => WATERMARK_MIN,
                times => times.saturating_sub(summarizer.delay),
            };
            let assigned = assign(&block, &summarizer.grid, 0, Vec::new());
            let is_whole = |rows: &SliceRows| {
                let covered = summarizer.grid.slice(rows.slice.start).covered;
                covered.is_some_and(|covered| covered.first_end == rows.slice.first_end)
            };
            // A row that is late for the first of its slice's windows counts from a later one on.
            if assigned.late.count > 0 || !assigned.slices.iter().all(is_whole) {
                return Ok(false);
            }
            kernel.aggregate_slices(&block, &assigned.slices, &mut workspace.store, &mut workspace.scratch)?;
            times_before = block.time_range().map_or(times_before, |range| times_before.max(range.max));
        }
        Ok(true)
    }

    fn read_out(&self, table: &Table, entries: &mut Vec<u32>) -> Result<Option<RecordBatch>, KernelError> {
        entries.clear();
        table.push_entries(0..table.slots(), entries);
        let windows = [ClosedWindow { start: 0, end: 0, groups: entries.len(), kind: ResultKind::Final }];
        let groups = ClosedGroups { table, entries: Chosen::Listed(entries), windows: &windows };
        (self.read_out)(Contents::Groups(groups))
    }
}

impl Summarizer {
    /// The partial results of a chunk's rows. `place` tells where a batch of these has a column of the table, and `times_before` what the largest event time of all rows
    /// before them was.
    pub(super) fn summarize(
        self: &Arc<Summarizer>,
        batches: &[RecordBatch],
        place: impl Fn(usize) -> usize,
        times_before: Micros,
    ) -> Result<Summary, KernelError> {
        let mut sets = QuerySets::new(self.predicates.len());
        let mut parts = Vec::new();
        for batch in batches {
            for (first, rows) in cut(batch.num_rows(), PIECE_ROWS_MAX) {
                let part = batch.slice(first, rows);
                parts.push(self.of_rows(rows, &|column| part.column(place(column)).clone(), &mut sets)?);
            }
        }
        let rows = parts.iter().map(RecordBatch::num_rows).sum();
        let sums = if self.sums.pays() { self.sums.add_up(self, &parts, times_before)? } else { None };
        let batches = match sums {
            Some(mut sums) => {
                sums.extend(last_time(&parts, &sums));
                sums
            }
            None => parts,
        };
        Ok(Summary { summarizer: self.clone(), sets, batches, rows })
    }

    /// Partial results of one row each.
    fn of_rows(
        &self,
        rows: usize,
        column: &dyn Fn(usize) -> ArrayRef,
        sets: &mut QuerySets,
    ) -> Result<RecordBatch, KernelError> {
        let is_true = |predicate: &Option<Arc<ColumnFunction>>| {
            let predicate = predicate.as_ref().map(|predicate| predicate(rows, column)).transpose()?;
            Ok(predicate.map(|values| true_rows(&values)))
        };
        let predicates = self.predicates.iter().map(is_true).collect::<Result<Vec<_>, KernelError>>()?;
        let of_rows: ArrayRef = Arc::new(Int64Array::from(sets.of_rows(&predicates, rows)));
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for key in &self.keys {
            columns.push(key(rows, column)?);
        }
        columns.push(of_rows);
        for value in &self.values {
            columns.push(value(rows, column)?);
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)
            .expect("values have the types that they were planned with"))
    }
}

/// The row with the largest event time, where no sum has it: it moves the watermark, whether a query counts it or not.
fn last_time(parts: &[RecordBatch], sums: &[RecordBatch]) -> Option<RecordBatch> {
    let time_max =
        |batches: &[RecordBatch]| batches.iter().filter_map(|batch| aggregate::max(&ticks(batch.column(0)))).max();
    let last = time_max(parts)?;
    if time_max(sums) == Some(last) {
        return None;
    }
    parts.iter().find_map(|part| {
        let row = ticks(part.column(0)).values().iter().position(|&time| time == last)?;
        Some(part.slice(row, 1))
    })
}

/// The rows for which a predicate is TRUE, and neither FALSE nor NULL.
fn true_rows(values: &ArrayRef) -> BooleanBuffer {
    let values = values.as_boolean();
    match values.nulls() {
        Some(nulls) => values.values() & nulls.inner(),
        None => values.values().clone(),
    }
}
