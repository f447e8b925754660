//! How many rows of a block are taken at a time: fewer where each is joined with all rows of a table, or becomes several.

use arrow::datatypes::Schema;
use pelton_data::allowance::Allowance;
use pelton_plan::pipeline::{Pipeline, Step};
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelError, KernelInput};

/// Pairs that the rows of one piece become at most, unless a single row becomes more.
const PAIRS_MAX: usize = 1 << 18;

/// Rows that a table function is taken to make of one. Pieces hold the memory of a call within bounds, and need no more than a guess.
const MADE_ROWS: usize = 32;

/// The rows of a stream that table functions make of one block take at most so many times what one function may make.
const ALLOWANCES: usize = 4;

/// Bytes of a value whose type has no width: strings are views.
const VALUE_BYTES: usize = 16;

/// What makes many rows of one in a pipeline.
#[derive(Debug)]
pub(crate) struct Crossed {
    /// The tables of which a row is joined with all rows.
    tables: Vec<usize>,
    /// How many flat maps there are.
    flat_maps: usize,
}

/// Why a part of a call's rows could not be taken.
pub(crate) enum PieceError {
    /// It failed before any row was in the target.
    NotTaken(KernelError),
    /// Some rows may be in the target.
    Taken(KernelError),
}

impl From<KernelError> for PieceError {
    fn from(error: KernelError) -> PieceError {
        PieceError::Taken(error)
    }
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

    /// Lets `run` take parts of a call's rows, one part after the other. Where it fails before it has taken any of several, it gets half of them first:
    /// a table function refuses rows that together become too many.
    ///
    /// # Errors
    /// Those of `run` for a single row, and those it fails with later.
    pub(crate) fn for_each<'a>(
        &self,
        input: KernelInput<'a>,
        lookups: &Lookups,
        mut run: impl FnMut(KernelInput<'a>) -> Result<(), PieceError>,
    ) -> Result<(), KernelError> {
        let mut later = Vec::new();
        for piece in self.pieces(input, lookups) {
            let mut next = Some(piece);
            while let Some(piece) = next {
                let is_divisible = self.flat_maps > 0 && piece.end - piece.first > 1;
                match run(piece) {
                    Ok(()) => next = later.pop(),
                    Err(PieceError::NotTaken(_)) if is_divisible => {
                        let middle = usize::midpoint(piece.first, piece.end);
                        later.push(KernelInput { first: middle, ..piece });
                        next = Some(KernelInput { end: middle, ..piece });
                    }
                    Err(PieceError::NotTaken(error) | PieceError::Taken(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Checks that so many rows of a stream may be made in one call.
    ///
    /// # Errors
    /// Where table functions have made too many.
    pub(crate) fn check_made(&self, rows: usize, schema: &Schema) -> Result<(), KernelError> {
        if self.flat_maps == 0 {
            return Ok(());
        }
        let widths = schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(VALUE_BYTES));
        let bytes = rows.saturating_mul(widths.sum());
        if Allowance::get().allows(bytes / ALLOWANCES) {
            return Ok(());
        }
        let message = format!(
            "table functions make {rows} rows of {} MiB of one block, which is too much: SET 'pelton.block-rows' to fewer rows",
            bytes >> 20
        );
        Err(KernelError::Expression(message))
    }

    /// Parts of a call's rows, one after the other.
    fn pieces<'a>(&self, input: KernelInput<'a>, lookups: &Lookups) -> impl Iterator<Item = KernelInput<'a>> + use<'a> {
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
