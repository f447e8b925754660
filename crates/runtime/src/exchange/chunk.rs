//! A chunk that several subscribers read: the first that needs its rows decodes it.

use std::sync::{Arc, PoisonError};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, Provenance};

use super::Shared;
use crate::memory::budget::{Budget, ChargedRows};
use crate::source::{Chunk, Decoded, LeftOut, Rows, SourceError};
use crate::sync::{Mutex, MutexGuard};

pub(super) struct SharedChunk {
    /// The columns of the table that its rows have.
    columns: Arc<[usize]>,
    state: Mutex<State>,
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
    pub fn new(columns: Arc<[usize]>, chunk: Chunk) -> SharedChunk {
        SharedChunk { columns, state: Mutex::new(State::Undecoded(chunk)) }
    }

    /// Whether its event times are known.
    pub fn is_decoded(&self) -> bool {
        // Whoever has it locked decodes it, or has done so.
        self.state.try_lock().is_ok_and(|state| !matches!(*state, State::Undecoded(_)))
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
        match &*self.decoded(shared) {
            State::Decoded(chunk) => {
                let projection = Projection::new(&self.columns, columns, schema);
                let batches: Vec<_> = chunk.batches.iter().map(|batch| projection.batch(batch)).collect();
                let blocks: Vec<_> = chunk.blocks.iter().map(|block| projection.block(block)).collect();
                let rows = if batches.is_empty() { Rows::Blocks(blocks) } else { Rows::Batches(batches) };
                Ok(Decoded { rows, left_out: chunk.left_out.clone(), provenance: chunk.provenance.clone() })
            }
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
