//! The rows of one call that are still alive, and their columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, take};
use arrow::datatypes::UInt32Type;
use datafusion_expr::ColumnarValue;
use pelton_data::aggregate::position;
use pelton_data::{Block, Provenance};
use pelton_state::join::{Bucket, gather};
use pelton_state::kernel::{KernelError, KernelInput};
use pelton_state::table::Positions;

use super::expression::{Expression, constant_truth};
use crate::select::bits_in_range;

/// Where a column of a pipeline comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// Column of the block.
    Block(usize),
    /// Column of what the pipeline's `lookup`-th lookup or flat map joins rows with.
    Lookup {
        /// Which step, among the lookups and flat maps.
        lookup: usize,
        /// Which column of the loaded table, or of the function's that are wanted.
        column: usize,
    },
}

/// Rows that others are joined with.
#[derive(Clone)]
pub(crate) enum Found<'a> {
    /// Those of a loaded table.
    Table(&'a Bucket),
    /// Those that a table function made for this call.
    Made(Arc<[ArrayRef]>),
}

impl Found<'_> {
    /// One of their columns.
    fn column(&self, index: usize) -> &ArrayRef {
        match self {
            Found::Table(bucket) => bucket.columns().column(index),
            Found::Made(columns) => &columns[index],
        }
    }
}

/// A selection of a block's rows, with the rows they were joined to. Columns are gathered when an expression asks for
/// them, and kept until the selection changes.
pub(crate) struct Rows<'a> {
    block: &'a Block,
    origins: &'a [Origin],
    selected: Selected,
    /// For each lookup and flat map done: the rows there are, and for each selected row its match, `u32::MAX` for none.
    matches: Vec<(Found<'a>, Vec<u32>)>,
    gathered: Vec<Option<ArrayRef>>,
}

/// Rows of the block, in order.
enum Selected {
    Range { first: usize, end: usize },
    Rows(UInt32Array),
}

impl<'a> Rows<'a> {
    /// The rows that a kernel was called for.
    pub(crate) fn new(input: KernelInput<'a>, origins: &'a [Origin]) -> Rows<'a> {
        let KernelInput { block, first, end, mask } = input;
        let selected = match mask {
            Some(mask) if !all_set(mask, first, end) => Selected::Rows(masked_rows(mask, first, end)),
            _ => Selected::Range { first, end },
        };
        Rows { block, origins, selected, matches: Vec::new(), gathered: vec![None; origins.len()] }
    }

    /// The rows `range` of a block. `matches` has for each lookup and flat map done its rows and the one that each found there,
    /// `u32::MAX` for none.
    pub(crate) fn of_range(
        block: &'a Block,
        origins: &'a [Origin],
        range: std::ops::Range<usize>,
        matches: Vec<(Found<'a>, Vec<u32>)>,
    ) -> Rows<'a> {
        let selected = Selected::Range { first: range.start, end: range.end };
        Rows { block, origins, selected, matches, gathered: vec![None; origins.len()] }
    }

    /// Rows of a block in a given order; `matches` as for [`Rows::of_range`].
    pub(crate) fn of_list(
        block: &'a Block,
        origins: &'a [Origin],
        rows: Vec<u32>,
        matches: Vec<(Found<'a>, Vec<u32>)>,
    ) -> Rows<'a> {
        Rows { block, origins, selected: Selected::Rows(rows.into()), matches, gathered: vec![None; origins.len()] }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        match &self.selected {
            Selected::Range { first, end } => end - first,
            Selected::Rows(rows) => rows.len(),
        }
    }

    /// Where the row at `index` among these was read from, where that is known.
    pub(crate) fn provenance(&self, index: usize) -> Option<Provenance> {
        let row = match &self.selected {
            Selected::Range { first, .. } => first + index,
            Selected::Rows(rows) => rows.value(index) as usize,
        };
        self.block.provenance.as_ref().map(|provenance| provenance.from_row(row))
    }

    /// Where they stand in input `input` of an aggregation.
    pub(crate) fn positions(&self, input: usize) -> Positions<'_> {
        let first = position(input, self.block.stamp.rows_before);
        match &self.selected {
            Selected::Range { first: row, .. } => Positions::From(first + *row as u64),
            Selected::Rows(rows) => Positions::Listed(first, rows.values()),
        }
    }

    /// A column of the pipeline for these rows.
    pub(crate) fn column(&mut self, column: usize) -> ArrayRef {
        if let Some(gathered) = &self.gathered[column] {
            return gathered.clone();
        }
        let array = match self.origins[column] {
            Origin::Block(column) => {
                let whole = self.block.column(column);
                match &self.selected {
                    Selected::Range { first: 0, end } if *end == self.block.rows() => whole.into_owned(),
                    Selected::Range { first, end } => whole.slice(*first, end - first),
                    Selected::Rows(rows) => {
                        take(whole.as_ref(), rows, None).expect("row numbers are those of the block")
                    }
                }
            }
            Origin::Lookup { lookup, column } => {
                let (found, matches) = &self.matches[lookup];
                gather(found.column(column), matches)
            }
        };
        self.gathered[column] = Some(array.clone());
        array
    }

    /// Keeps the rows for which a predicate is true.
    pub(crate) fn keep(&mut self, predicate: &ColumnarValue) {
        let Some(keep) = kept_rows(predicate, self.len()) else { return };
        let count = keep.count_set_bits();
        if count == self.len() {
            return;
        }
        self.gathered.fill(None);
        let survivors = match &self.selected {
            Selected::Range { first, .. } => {
                let mut rows = Vec::with_capacity(count);
                rows.extend(keep.set_indices_u32().map(|row| *first as u32 + row));
                UInt32Array::from(rows)
            }
            Selected::Rows(rows) => kept(rows, &keep),
        };
        self.selected = Selected::Rows(survivors);
        for (_, matches) in &mut self.matches {
            *matches = keep.set_indices_u32().map(|index| matches[index as usize]).collect();
        }
    }

    /// Joins the rows to those of `found`: `positions` are the rows' positions, ascending and once for each match, and
    /// `matches` the numbers of those, `u32::MAX` for a row that stays without one.
    pub(crate) fn join(&mut self, found: Found<'a>, positions: Vec<u32>, matches: Vec<u32>) {
        *self = self.joined(found, positions, matches);
    }

    /// Keeps those of the candidate pairs, as [`Rows::join`] takes them, that meet conditions.
    ///
    /// # Errors
    /// Where a condition has no value for a pair.
    pub(crate) fn retain_pairs(
        &self,
        found: &Found<'a>,
        conditions: &[Expression],
        positions: &mut Vec<u32>,
        matches: &mut Vec<u32>,
    ) -> Result<(), KernelError> {
        for condition in conditions {
            if positions.is_empty() {
                break;
            }
            let truth = condition.evaluate(&mut self.joined(found.clone(), positions.clone(), matches.clone()))?;
            let Some(keep) = kept_rows(&truth, positions.len()) else { continue };
            for numbers in [&mut *positions, &mut *matches] {
                let mut kept = keep.iter();
                numbers.retain(|_| kept.next() == Some(true));
            }
        }
        Ok(())
    }

    fn joined(&self, found: Found<'a>, positions: Vec<u32>, matches: Vec<u32>) -> Rows<'a> {
        let positions = UInt32Array::from(positions);
        let rows = match &self.selected {
            Selected::Range { first: 0, .. } => positions.clone(),
            Selected::Range { first, .. } => positions.unary(|position| position + *first as u32),
            Selected::Rows(rows) => positions.unary(|position| rows.value(position as usize)),
        };
        let at = |rows: &Vec<u32>| positions.values().iter().map(|&position| rows[position as usize]).collect();
        let earlier = self.matches.iter().map(|(found, rows)| (found.clone(), at(rows)));
        Rows {
            block: self.block,
            origins: self.origins,
            selected: Selected::Rows(rows),
            matches: earlier.chain([(found, matches)]).collect(),
            gathered: vec![None; self.origins.len()],
        }
    }
}

/// A bit for each of so many rows: set where the predicate is true. `None` where it is for all.
fn kept_rows(predicate: &ColumnarValue, rows: usize) -> Option<BooleanBuffer> {
    match (constant_truth(predicate), predicate) {
        (Some(true), _) => None,
        (_, ColumnarValue::Array(array)) => Some(true_rows(array.as_boolean())),
        (_, ColumnarValue::Scalar(_)) => Some(BooleanBuffer::new_unset(rows)),
    }
}

fn kept(rows: &UInt32Array, keep: &BooleanBuffer) -> UInt32Array {
    let keep = BooleanArray::new(keep.clone(), None);
    filter(rows, &keep).expect("one bit for each row").as_primitive::<UInt32Type>().clone()
}

/// A bit for each row: set where the predicate is true, not NULL.
pub(super) fn true_rows(predicate: &BooleanArray) -> BooleanBuffer {
    match predicate.nulls() {
        Some(nulls) => predicate.values() & nulls.inner(),
        None => predicate.values().clone(),
    }
}

fn words(first: usize, end: usize) -> std::ops::Range<usize> {
    if first < end { first / 64..end.div_ceil(64) } else { 0..0 }
}

fn all_set(mask: &[u64], first: usize, end: usize) -> bool {
    let set: u32 = words(first, end).map(|word| (mask[word] & bits_in_range(word, first, end)).count_ones()).sum();
    set as usize == end - first
}

fn masked_rows(mask: &[u64], first: usize, end: usize) -> UInt32Array {
    let mut rows = Vec::new();
    for word in words(first, end) {
        let mut bits = mask[word] & bits_in_range(word, first, end);
        while bits != 0 {
            rows.push((word * 64) as u32 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    rows.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_cut_to_the_range_of_the_call() {
        let mask = [u64::MAX, 0b1011, u64::MAX];
        assert!(all_set(&mask, 3, 66));
        assert!(all_set(&mask, 70, 70));
        assert!(!all_set(&mask, 3, 67));
        assert_eq!(masked_rows(&mask, 62, 69).values(), &[62, 63, 64, 65, 67]);
        assert_eq!(masked_rows(&mask, 128, 130).values(), &[128, 129]);
        assert_eq!(masked_rows(&mask, 66, 67).len(), 0);
    }
}
