//! Queries for which the rows of each chunk are added up together.

use std::sync::{Arc, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int64Type, SchemaRef};

use pelton_data::Micros;

use super::chunk::SharedChunk;
use super::summary::{Summarizer, Summary};
use super::{Queues, Shared};
use crate::memory::budget::ChargedRows;
use crate::source::SourceError;
use crate::sync::Mutex;

/// Chunks that are read as one at most.
const CHUNKS_TOGETHER_MAX: usize = 8;

/// Queries for which the rows of each chunk are added up together. A chunk is added up as the group wants it when the chunk is read.
pub struct Group(Mutex<Arc<Summarizer>>);

/// What a query takes of its group.
pub struct Member {
    /// The group.
    pub group: Arc<Group>,
    /// The slot of its predicate,
    pub predicate: usize,
    /// and those of its values.
    pub values: Vec<usize>,
}

/// What is computed for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Its number among those of the exchange, from 1.
    pub number: usize,
    /// How many queries take its partial results.
    pub members: usize,
    /// How many predicates are tested,
    pub predicates: usize,
    /// and how many values added up.
    pub values: usize,
    /// How long its slices are.
    pub slice: Micros,
}

/// The partial results of a chunk for a group: the first member that needs them computes them.
pub(super) struct GroupSummary {
    group: Arc<Group>,
    summarizer: Arc<Summarizer>,
    state: Mutex<Option<Result<Arc<ChargedSummary>, SourceError>>>,
}

struct ChargedSummary {
    summary: Summary,
    _charged: Vec<ChargedRows>,
}

impl Group {
    /// A group that adds chunks up like this.
    pub fn new(summarizer: Summarizer) -> Group {
        Group(Mutex::new(Arc::new(summarizer)))
    }

    /// Adds up chunks that are read from now on like this.
    pub fn replace(&self, summarizer: Summarizer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(summarizer);
    }

    fn current(&self) -> Arc<Summarizer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Queues {
    /// What is computed for a group that has a subscriber.
    pub(super) fn state_of(&self, group: &Arc<Group>) -> GroupState {
        let mut groups: Vec<&Arc<Group>> = Vec::new();
        let of_subscribers = || self.subscribers.iter().flatten().filter_map(|queue| queue.group.as_ref());
        for other in of_subscribers() {
            if !groups.iter().any(|known| Arc::ptr_eq(known, other)) {
                groups.push(other);
            }
        }
        let number = groups.iter().position(|other| Arc::ptr_eq(other, group)).map_or(0, |position| position + 1);
        let members = of_subscribers().filter(|other| Arc::ptr_eq(other, group)).count();
        let summarizer = group.current();
        let predicates = summarizer.predicates.iter().flatten().count();
        let slice = summarizer.grid.stride().unwrap_or(0);
        GroupState { number, members, predicates, values: summarizer.values.len(), slice }
    }

    /// How many chunks are read as one, where as many are there: partial results of more rows are hardly more, and each member of a group goes through all of them.
    pub(super) fn chunks_together(&self) -> usize {
        let members = self.subscribers.iter().flatten().filter(|queue| queue.group.is_some()).count();
        members.clamp(1, CHUNKS_TOGETHER_MAX)
    }

    /// What the groups of the subscribers want of a chunk that is read now.
    pub(super) fn summaries(&self) -> Vec<GroupSummary> {
        let mut summaries: Vec<GroupSummary> = Vec::new();
        for group in self.subscribers.iter().flatten().filter_map(|queue| queue.group.as_ref()) {
            if !summaries.iter().any(|known| Arc::ptr_eq(&known.group, group)) {
                let (group, summarizer) = (group.clone(), group.current());
                summaries.push(GroupSummary { group, summarizer, state: Mutex::default() });
            }
        }
        summaries
    }
}

impl GroupSummary {
    pub fn is_of(&self, group: &Arc<Group>) -> bool {
        Arc::ptr_eq(&self.group, group)
    }

    fn summary(&self, chunk: &SharedChunk, shared: &Shared) -> Result<Arc<ChargedSummary>, SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let summarize = || {
            let (batches, times_before) = (chunk.batches(shared)?, chunk.times_before(shared));
            let place = |column| {
                let place = chunk.columns().iter().position(|other| *other == column);
                place.expect("a chunk has the columns of all who were there when it was read")
            };
            let summary = self.summarizer.summarize(&batches, place, times_before);
            let summary = summary
                .map_err(|error| SourceError::Input { place: shared.table.clone(), problem: error.to_string() })?;
            let charged = summary.batches.iter().map(|batch| shared.budget.charge_waiting(batch)).collect();
            Ok(Arc::new(ChargedSummary { summary, _charged: charged }))
        };
        state.get_or_insert_with(summarize).clone()
    }

    /// The partial results as a member takes them: the event time, the keys, whether they count for it, and its values. And how many rows are added up in others.
    pub fn rows(
        &self,
        chunk: &SharedChunk,
        shared: &Shared,
        (member, schema): (&Member, &SchemaRef),
    ) -> Result<(Vec<RecordBatch>, u64), SourceError> {
        let summary = self.summary(chunk, shared)?;
        let Summary { summarizer, sets, batches, rows } = &summary.summary;
        let (counts, keys) = (sets.having(member.predicate), summarizer.keys.len());
        let value = |slot: &usize| {
            let value = summarizer.slots[*slot].expect("a member has its slots until it leaves");
            keys + 1 + value
        };
        let values: Vec<usize> = member.values.iter().map(value).collect();
        let of_member = |batch: &RecordBatch| {
            let sets = batch.column(keys).as_primitive::<Int64Type>().values();
            let counting = BooleanBuffer::collect_bool(sets.len(), |row| counts[sets[row] as usize]);
            let counting: ArrayRef = Arc::new(BooleanArray::new(counting, None));
            debug_assert_eq!(counting.len(), batch.num_rows());
            let columns = batch.columns()[..keys].iter().cloned().chain([counting]);
            let columns = columns.chain(values.iter().map(|&value| batch.column(value).clone())).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options)
                .expect("a group's columns have the types that its members were planned with")
        };
        let merged = rows - batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        Ok((batches.iter().map(of_member).collect(), merged as u64))
    }
}
