//! Rows to entries of a table: keys are found a column at a time.

use arrow::array::{Array, ArrayRef};
use pelton_state::kernel::Scratch;
use pelton_state::layout::KeyLayout;
use pelton_state::table::{KeyRows, Table, widen_keys};

use super::update::Entries;
use crate::fold::extent;

/// Finds or makes the entry of each row (there is at least one) by its `keys`.
pub(crate) fn find_entries<'a>(table: &mut Table, keys: &[ArrayRef], scratch: &'a mut Scratch) -> Entries<'a> {
    match table.layout().keys() {
        KeyLayout::None => return Entries::Single(table.single_entry()),
        KeyLayout::Integer { .. } => find_integers(table, &keys[0], scratch),
        KeyLayout::Packed { .. } => {
            let rows = KeyRows::Range(0..keys[0].len());
            table.find_or_insert_columns(keys, rows, &mut scratch.entries, &mut scratch.keys, &mut scratch.hashes);
        }
    }
    Entries::Each(&scratch.entries)
}

fn find_integers(table: &mut Table, key: &ArrayRef, scratch: &mut Scratch) {
    let mut integers = Vec::new();
    let Some(nulls) = key.nulls().filter(|nulls| nulls.null_count() > 0) else {
        widen_keys(key, None, &mut integers);
        return find_valid_integers(table, &integers, scratch);
    };
    let valid: Vec<u32> = nulls.inner().set_indices_u32().collect();
    scratch.entries.clear();
    if !valid.is_empty() {
        widen_keys(key, Some(&valid), &mut integers);
        find_valid_integers(table, &integers, scratch);
    }
    let mut entries = vec![table.null_entry(); key.len()];
    valid.iter().zip(&scratch.entries).for_each(|(&row, &entry)| entries[row as usize] = entry);
    scratch.entries = entries;
}

/// Leaves the entry of each key in `scratch.entries`. There is at least one.
fn find_valid_integers(table: &mut Table, keys: &[i64], scratch: &mut Scratch) {
    let (minimum, maximum) = extent(keys);
    table.prepare_integers(minimum, maximum, keys.len());
    table.find_or_insert_integers(keys, &mut scratch.entries, &mut scratch.hashes);
}
