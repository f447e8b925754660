//! How many rows of a block are taken at a time: fewer where each is joined with all rows of a table, or becomes several.

use pelton_plan::pipeline::{Pipeline, Step};
use pelton_state::join::Lookups;
use pelton_state::kernel::KernelInput;

/// Pairs that the rows of one piece become at most, unless a single row becomes more.
const PAIRS_MAX: usize = 1 << 18;

/// Rows that a table function is taken to make of one. Pieces hold the memory of a call within bounds, and need no more than a guess.
const MADE_ROWS: usize = 32;

/// What makes many rows of one in a pipeline.
#[derive(Debug)]
pub(crate) struct Crossed {
    /// The tables of which a row is joined with all rows.
    tables: Vec<usize>,
    /// How many flat maps there are.
    flat_maps: usize,
}

impl Crossed {
    pub(crate) fn of(pipeline: &Pipeline) -> Crossed {
        let tables = pipeline.steps.iter().filter_map(|step| match step {
            Step::Lookup { table, keys, kind, .. } if keys.is_empty() && kind.has_pairs() => Some(*table),
            Step::Lookup { .. } | Step::FlatMap { .. } | Step::Filter(_) => None,
        });
        let flat_maps = pipeline.steps.iter().filter(|step| matches!(step, Step::FlatMap { .. })).count();
        Crossed { tables: tables.collect(), flat_maps }
    }

    /// Whether there is nothing such.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.flat_maps == 0
    }

    /// Parts of a call's rows, one after the other.
    pub(crate) fn pieces<'a>(
        &self,
        input: KernelInput<'a>,
        lookups: &Lookups,
    ) -> impl Iterator<Item = KernelInput<'a>> + use<'a> {
        let KernelInput { first, end, .. } = input;
        let rows = |&table: &usize| lookups.bucket(table).columns().num_rows().max(1);
        let made = std::iter::repeat_n(MADE_ROWS, self.flat_maps);
        let pairs = self.tables.iter().map(rows).chain(made).fold(1, usize::saturating_mul);
        let length = if self.is_empty() { (end - first).max(1) } else { (PAIRS_MAX / pairs).max(1) };
        let is_empty = first == end;
        let starts = (first..end).step_by(length).chain(is_empty.then_some(first));
        starts.map(move |start| KernelInput { first: start, end: end.min(start + length), ..input })
    }
}
