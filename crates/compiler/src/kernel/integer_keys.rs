//! Groups by one integer: its values for the rows of a call, and their entries.

use std::ops::Range;
use std::rc::Rc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use pelton_state::kernel::{KernelError, Scratch};
use pelton_state::table::Table;

use super::call::{Bound, Call, outputs};
use super::loops::Loop;
use crate::fold::extent;

/// The integer keys of a call.
pub(super) struct IntegerKeys<'a> {
    /// Lists them.
    code: &'a Loop,
    /// All of them, where they lie side by side in the block.
    plain: Option<&'a [i64]>,
}

impl<'a> IntegerKeys<'a> {
    pub(super) fn new(call: &Call<'a>, code: &'a Loop, column: Option<usize>) -> IntegerKeys<'a> {
        let block = call.block;
        let column = column.map(|column| block.raw_columns()[column].as_primitive::<Int64Type>());
        let column = column.filter(|column| column.null_count() == 0 && call.selection.is_none());
        IntegerKeys { code, plain: column.map(|column| &column.values()[call.first..call.first + call.count]) }
    }

    /// Makes room for the keys of some positions.
    pub(super) fn prepare(
        &self,
        call: &Call<'_>,
        table: &mut Table,
        scratch: &mut Scratch,
        positions: Range<usize>,
    ) -> Result<(), KernelError> {
        let rows = positions.len();
        let (minimum, maximum) = self.extent(call, scratch, positions)?;
        table.prepare_integers(minimum, maximum, rows);
        Ok(())
    }

    /// The least and the largest key of some positions, of which there is at least one.
    pub(super) fn extent(
        &self,
        call: &Call<'_>,
        scratch: &mut Scratch,
        positions: Range<usize>,
    ) -> Result<(i64, i64), KernelError> {
        if let Some(keys) = self.plain {
            return Ok(extent(&keys[positions]));
        }
        let bound = call.bind(self.code)?;
        list_keys(call, self.code, &bound, scratch, positions.start, positions.end)?;
        Ok(extent(&scratch.integers))
    }

    /// What listing them reads, where they must be listed.
    pub(super) fn bind(&self, call: &Call<'_>) -> Result<Option<Rc<Bound>>, KernelError> {
        self.plain.is_none().then(|| call.bind(self.code)).transpose()
    }

    /// Leaves in `scratch.entries` the entries of the keys of some positions.
    pub(super) fn find(
        &self,
        call: &Call<'_>,
        bound: Option<&Bound>,
        table: &mut Table,
        scratch: &mut Scratch,
        positions: Range<usize>,
    ) -> Result<(), KernelError> {
        let Some(bound) = bound else {
            let keys = &self.plain.expect("other keys are computed")[positions];
            prepare_for(table, keys);
            table.find_or_insert_integers(keys, &mut scratch.entries, &mut scratch.hashes);
            return Ok(());
        };
        list_keys(call, self.code, bound, scratch, positions.start, positions.end)?;
        let Scratch { integers, entries, hashes, spare, .. } = scratch;
        let validity = spare.first().map_or(&[][..], Vec::as_slice);
        find_integers(table, integers, validity, entries, hashes);
        Ok(())
    }
}

/// Makes room for some keys, of which there is at least one.
fn prepare_for(table: &mut Table, keys: &[i64]) {
    let (minimum, maximum) = extent(keys);
    table.prepare_integers(minimum, maximum, keys.len());
}

/// Lists the keys of positions `start..end` in `scratch.integers`, and in `scratch.spare[0]` whether each is valid
/// (nothing where all are).
pub(super) fn list_keys(
    call: &Call<'_>,
    keys: &Loop,
    bound: &Bound,
    scratch: &mut Scratch,
    start: usize,
    end: usize,
) -> Result<(), KernelError> {
    let rows = end - start;
    if scratch.spare.is_empty() {
        scratch.spare.push(Vec::new());
    }
    let (integers, validity) = (&mut scratch.integers, &mut scratch.spare[0]);
    integers.clear();
    integers.reserve(rows);
    validity.clear();
    let root = keys.effect.root();
    let never_null = keys.recipe(call.shared, bound.variant).never_null(root);
    if !never_null {
        validity.reserve(rows);
    }
    let values = integers.as_mut_ptr().wrapping_sub(start).cast::<u8>();
    let flags = validity.as_mut_ptr().wrapping_sub(start);
    let pointers = outputs([(values, flags)]);
    let mut frame = call.frame(bound, start, end);
    frame.outputs = pointers.as_ptr();
    // SAFETY: there is room for a key, and a validity byte where keys can be NULL, at each position from `start` on.
    unsafe {
        call.run(keys, bound, &mut frame)?;
        integers.set_len(rows);
        if !never_null {
            validity.set_len(rows);
        }
    }
    Ok(())
}

/// The entries of integer keys; `validity` is empty where all are valid.
fn find_integers(
    table: &mut Table,
    keys: &mut Vec<i64>,
    validity: &[u8],
    entries: &mut Vec<u32>,
    hashes: &mut Vec<u64>,
) {
    let find = |table: &mut Table, keys: &[i64], entries: &mut Vec<u32>, hashes: &mut Vec<u64>| {
        prepare_for(table, keys);
        table.find_or_insert_integers(keys, entries, hashes);
    };
    if validity.iter().all(|&valid| valid == 1) {
        return find(table, keys, entries, hashes);
    }
    let mut flags = validity.iter();
    keys.retain(|_| flags.next() == Some(&1));
    entries.clear();
    if !keys.is_empty() {
        find(table, keys, entries, hashes);
    }
    let null_entry = table.null_entry();
    let mut found = std::mem::take(entries).into_iter();
    entries.extend(validity.iter().map(|&valid| match valid {
        1 => found.next().expect("one entry for each valid key"),
        _ => null_entry,
    }));
}
