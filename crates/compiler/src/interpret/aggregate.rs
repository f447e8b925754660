//! Rows to entries of a table: keys are found a column at a time.

use arrow::array::ArrayRef;
use pelton_state::kernel::Scratch;
use pelton_state::layout::KeyLayout;
use pelton_state::table::{Entries, Table};

use crate::fold::extent;

/// Finds or makes the entry of each row (there is at least one) by its `keys`.
pub(crate) fn find_entries<'a>(table: &mut Table, keys: &[ArrayRef], scratch: &'a mut Scratch) -> Entries<'a> {
    if *table.layout().keys() == KeyLayout::None {
        return Entries::Single(table.single_entry());
    }
    table.find_or_insert_rows(keys, extent, scratch);
    scratch.met.keys = table.keys_found().or(scratch.met.keys);
    Entries::Each(&scratch.entries)
}
