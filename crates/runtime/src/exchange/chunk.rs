//! A chunk that several subscribers read: the first that needs its rows decodes it.

use std::sync::{Arc, PoisonError};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, Provenance};

use super::Shared;
use super::group::{GroupSummary, Member};
use crate::memory::budget::{Budget, ChargedRows};
use crate::source::{Chunk, Decoded, LeftOut, Rows, SourceError};
use crate::sync::{Mutex, MutexGuard};

pub(super) struct SharedChunk {
    /// The columns of the table that its rows have.
    columns: Arc<[usize]>,
    state: Mutex<State>,
    /// [`crate::source::Source::watermark`] behind it.
    pub watermark: Option<Micros>,
    /// What groups of subscribers make of it.
    summaries: Vec<GroupSummary>,
    before: Mutex<Before>,
}

/// The chunks before one.
#[derive(Default)]
pub(super) struct Before {
    /// Those that had not been decoded when it was read,
    pub undecoded: Vec<Arc<SharedChunk>>,
    /// and the largest event time of the others.
    pub time_max: Micros,
}

enum State {
    Undecoded(Chunk),
    Decoded(DecodedChunk),
    Failed(SourceError),
    /// Decoding has panicked.
    Lost,
}

/// The rows, as each subscriber gets them.
struct DecodedChunk {
    batches: Vec<RecordBatch>,
    blocks: Vec<Block>,
    left_out: LeftOut,
    provenance: Option<Provenance>,
    /// The largest event time of the rows.
    time_max: Micros,
    /// What they are charged until the last subscriber has them.
    _charged: Vec<ChargedRows>,
}

impl SharedChunk {
    /// With what groups make of it, for which it is known what came `before`.
    pub fn new(
        columns: Arc<[usize]>,
        (chunk, watermark): (Chunk, Option<Micros>),
        summaries: Vec<GroupSummary>,
        before: Before,
    ) -> SharedChunk {
        let (state, before) = (Mutex::new(State::Undecoded(chunk)), Mutex::new(before));
        SharedChunk { columns, state, watermark, summaries, before }
    }

    /// The columns of the table that its rows have.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The largest event time of all rows before its own. Decodes them, where nobody has.
    pub fn times_before(&self, shared: &Shared) -> Micros {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let times = before.undecoded.drain(..).map(|chunk| chunk.time_max(shared)).max();
        before.time_max = before.time_max.max(times.unwrap_or(WATERMARK_MIN));
        before.time_max
    }

    /// Whether its event times are known.
    pub fn is_decoded(&self) -> bool {
        // Whoever has it locked decodes it, or has done so.
        self.state.try_lock().is_ok_and(|state| !matches!(*state, State::Undecoded(_)))
    }

    /// How many rows it has, where they are decoded, in batches, and it is not known where in the input they are.
    pub fn rows_without_place(&self) -> Option<usize> {
        match &*self.state.try_lock().ok()? {
            State::Decoded(chunk) if chunk.provenance.is_none() && chunk.blocks.is_empty() => {
                Some(chunk.batches.iter().map(RecordBatch::num_rows).sum())
            }
            _ => None,
        }
    }

    /// The largest event time of its rows. Decodes them, where nobody has.
    pub fn time_max(&self, shared: &Shared) -> Micros {
        match &*self.decoded(shared) {
            State::Decoded(chunk) => chunk.time_max,
            State::Undecoded(_) | State::Failed(_) | State::Lost => WATERMARK_MIN,
        }
    }

    fn decoded(&self, shared: &Shared) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Undecoded(_) = *state {
            // What is there if decoding panics.
            let State::Undecoded(chunk) = std::mem::replace(&mut *state, State::Lost) else { unreachable!() };
            *state = chunk().map_or_else(State::Failed, |decoded| {
                let mut chunk = DecodedChunk::new(decoded, &shared.budget);
                chunk.time_max = shared.note_times(&self.columns, &chunk.batches, &chunk.blocks);
                State::Decoded(chunk)
            });
        }
        state
    }

    /// The rows, with these columns of the table.
    pub fn rows(&self, shared: &Shared, columns: &[usize], schema: &SchemaRef) -> Result<Decoded, SourceError> {
        self.with_decoded(shared, |chunk| {
            let projection = Projection::new(&self.columns, columns, schema);
            let batches: Vec<_> = chunk.batches.iter().map(|batch| projection.batch(batch)).collect();
            let blocks: Vec<_> = chunk.blocks.iter().map(|block| projection.block(block)).collect();
            let rows = if batches.is_empty() { Rows::Blocks(blocks) } else { Rows::Batches(batches) };
            Decoded { rows, left_out: chunk.left_out.clone(), provenance: chunk.provenance.clone() }
        })
    }

    /// What a member of a group gets of the rows.
    pub fn partial_results(
        &self,
        shared: &Shared,
        member: &Member,
        schema: &SchemaRef,
    ) -> Result<Decoded, SourceError> {
        let mut left_out = self.with_decoded(shared, |chunk| chunk.left_out.clone())?;
        let summary = self.summaries.iter().find(|summary| summary.is_of(&member.group));
        let summary = summary.expect("a chunk is added up for all groups that were there when it was read");
        let (batches, merged_count) = summary.rows(self, shared, (member, schema))?;
        left_out.merged_count += merged_count;
        Ok(Decoded { rows: Rows::Batches(batches), left_out, provenance: None })
    }

    /// The rows with all of its columns.
    pub fn batches(&self, shared: &Shared) -> Result<Vec<RecordBatch>, SourceError> {
        self.with_decoded(shared, |chunk| {
            let of_blocks = chunk.blocks.iter().map(Block::to_record_batch);
            chunk.batches.iter().cloned().chain(of_blocks).collect()
        })
    }

    fn with_decoded<T>(&self, shared: &Shared, read: impl FnOnce(&DecodedChunk) -> T) -> Result<T, SourceError> {
        match &*self.decoded(shared) {
            State::Decoded(chunk) => Ok(read(chunk)),
            State::Failed(error) => Err(error.clone()),
            State::Undecoded(_) | State::Lost => Err(SourceError::Input {
                place: shared.table.clone(),
                problem: "rows could not be decoded: a query that shares the table has panicked while it did"
                    .to_owned(),
            }),
        }
    }
}

impl DecodedChunk {
    fn new(decoded: Decoded, budget: &Budget) -> DecodedChunk {
        let Decoded { rows, left_out, provenance } = decoded;
        let (batches, blocks) = match rows {
            Rows::Batches(batches) => (batches, Vec::new()),
            Rows::Blocks(blocks) => (Vec::new(), blocks),
        };
        let charged = batches.iter().map(|batch| budget.charge_waiting(batch)).collect();
        DecodedChunk { batches, blocks, left_out, provenance, time_max: WATERMARK_MIN, _charged: charged }
    }
}

/// Which columns of rows a subscriber gets.
pub(super) struct Projection<'a> {
    /// Positions in the rows; nothing where it gets the rows as they are.
    positions: Option<Vec<usize>>,
    schema: &'a SchemaRef,
}

impl<'a> Projection<'a> {
    /// Of rows that have the columns `from` of the table to its columns `to`.
    pub fn new(from: &[usize], to: &[usize], schema: &'a SchemaRef) -> Projection<'a> {
        let position = |column: &usize| from.iter().position(|other| other == column);
        let positions = (from != to).then(|| {
            let positions = to.iter().map(position).collect::<Option<Vec<_>>>();
            positions.expect("an exchange has the columns of all of its subscribers")
        });
        Projection { positions, schema }
    }

    /// Whether rows stay as they are.
    pub fn is_identity(&self) -> bool {
        self.positions.is_none()
    }

    pub fn batch(&self, batch: &RecordBatch) -> RecordBatch {
        let Some(positions) = &self.positions else { return batch.clone() };
        let columns = positions.iter().map(|&position| batch.column(position).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("the columns of a table have the same types for all of its readers")
    }

    pub fn block(&self, block: &Block) -> Block {
        match &self.positions {
            None => block.clone(),
            Some(positions) => block.project(positions, self.schema.clone()),
        }
    }
}
