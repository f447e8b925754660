//! How many rows of a block are taken at a time: fewer where each is joined with all rows of a table.

use pelton_plan::pipeline::{Pipeline, Step};
use pelton_state::join::Lookups;
use pelton_state::kernel::KernelInput;

/// Pairs that the rows of one piece become at most, unless a single row becomes more.
const PAIRS_MAX: usize = 1 << 18;

/// The tables of a pipeline of which a row is joined with all rows.
#[derive(Debug)]
pub(crate) struct Crossed {
    tables: Vec<usize>,
}

impl Crossed {
    pub(crate) fn of(pipeline: &Pipeline) -> Crossed {
        let tables = pipeline.steps.iter().filter_map(|step| match step {
            Step::Lookup { table, keys, kind, .. } if keys.is_empty() && kind.has_pairs() => Some(*table),
            Step::Lookup { .. } | Step::Filter(_) => None,
        });
        Crossed { tables: tables.collect() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Parts of a call's rows, one after the other.
    pub(crate) fn pieces<'a>(
        &self,
        input: KernelInput<'a>,
        lookups: &Lookups,
    ) -> impl Iterator<Item = KernelInput<'a>> + use<'a> {
        let KernelInput { first, end, .. } = input;
        let rows = |&table: &usize| lookups.bucket(table).columns().num_rows().max(1);
        let pairs = self.tables.iter().map(rows).fold(1, usize::saturating_mul);
        let length = if self.is_empty() { (end - first).max(1) } else { (PAIRS_MAX / pairs).max(1) };
        let is_empty = first == end;
        let starts = (first..end).step_by(length).chain(is_empty.then_some(first));
        starts.map(move |start| KernelInput { first: start, end: end.min(start + length), ..input })
    }
}
