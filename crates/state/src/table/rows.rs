//! Rows to entries by columns of keys, whatever their types, and groups by number.

use arrow::array::{Array, ArrayRef};
use pelton_data::aggregate::Accumulate;

use super::{KeyRows, Table, widen_keys};
use crate::kernel::Scratch;
use crate::layout::KeyLayout;

impl Table {
    /// Leaves the entry of each row (there is at least one) in `scratch.entries`; new keys become groups. `extent` finds the smallest and
    /// largest of integers.
    ///
    /// # Panics
    /// Where the layout has no keys, or the columns are not of their types.
    pub fn find_or_insert_rows(
        &mut self,
        keys: &[ArrayRef],
        extent: impl Fn(&[i64]) -> (i64, i64),
        scratch: &mut Scratch,
    ) {
        match self.layout().keys() {
            KeyLayout::None => panic!("the table has no keys"),
            KeyLayout::Integer { .. } => self.find_or_insert_integer_rows(&keys[0], extent, scratch),
            KeyLayout::Packed { .. } => {
                let rows = KeyRows::Range(0..keys[0].len());
                self.find_or_insert_columns(keys, rows, &mut scratch.entries, &mut scratch.keys, &mut scratch.hashes);
            }
        }
    }

    fn find_or_insert_integer_rows(
        &mut self,
        key: &ArrayRef,
        extent: impl Fn(&[i64]) -> (i64, i64),
        scratch: &mut Scratch,
    ) {
        let mut integers = std::mem::take(&mut scratch.integers);
        match key.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                widen_keys(key, None, &mut integers);
                self.find_valid_integers(&integers, extent(&integers), scratch);
            }
            Some(nulls) => {
                let valid: Vec<u32> = nulls.inner().set_indices_u32().collect();
                scratch.entries.clear();
                if !valid.is_empty() {
                    widen_keys(key, Some(&valid), &mut integers);
                    self.find_valid_integers(&integers, extent(&integers), scratch);
                }
                let mut entries = vec![self.null_entry(); key.len()];
                valid.iter().zip(&scratch.entries).for_each(|(&row, &entry)| entries[row as usize] = entry);
                scratch.entries = entries;
            }
        }
        scratch.integers = integers;
    }

    /// Leaves the entry of each key in `scratch.entries`. There is at least one; the smallest and the largest are given.
    fn find_valid_integers(&mut self, keys: &[i64], (minimum, maximum): (i64, i64), scratch: &mut Scratch) {
        self.prepare_integers(minimum, maximum, keys.len());
        self.find_or_insert_integers(keys, &mut scratch.entries, &mut scratch.hashes);
    }

    /// Replaces `numbers` by the number of each entry's group. Groups are numbered from 0, as they are first asked for; `groups` is how many
    /// have a number. The number, plus one, is kept in accumulator `slot`, a count that nothing else changes.
    ///
    /// # Panics
    /// Where the accumulator is no count, or an entry is none of this table.
    pub fn number_groups(&mut self, entries: &[u32], slot: usize, groups: &mut u32, numbers: &mut Vec<u32>) {
        let layout = self.layout().clone();
        let slot = &layout.accumulators()[slot];
        assert!(slot.accumulator.accumulate == Accumulate::Count, "a number is kept in a count");
        numbers.clear();
        numbers.extend(entries.iter().map(|&entry| {
            let order = self.accumulator_address(slot, entry).cast::<u64>();
            // SAFETY: it is the address of a count, of eight bytes.
            let number = unsafe { order.read_unaligned() };
            if number > 0 {
                return (number - 1) as u32;
            }
            *groups += 1;
            // SAFETY: as above; nobody else has access to the table.
            unsafe { order.write_unaligned(u64::from(*groups)) };
            *groups - 1
        }));
    }
}
