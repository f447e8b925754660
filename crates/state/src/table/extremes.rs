//! The smallest and largest strings of groups.
//!
//! The state of a string is a length (with [`NULL_BIT`] in its highest byte before the first value), the first four bytes (zeros
//! where there are fewer), and the address of the bytes in the arena. The eight bytes before them say how many there is room
//! for: a new extreme that fits overwrites the old one, so that a group holds at most twice its longest extreme.

use arrow::array::{Array, GenericByteViewArray};
use arrow::datatypes::ByteViewType;
use pelton_data::aggregate::Accumulate;

use super::Table;
use super::arena::Arena;
use crate::layout::{AccumulatorSlot, is_string};

impl Table {
    /// Lets the strings of `values` in `rows` (all where there is none) reach the minimum or maximum `slot` of the entries, one entry
    /// for each. NULLs change nothing.
    ///
    /// # Panics
    /// Where the slot is no minimum or maximum of strings, or a row or an entry is out of range.
    pub fn update_string_extreme<T: ByteViewType>(
        &mut self,
        slot: usize,
        entries: &[u32],
        values: &GenericByteViewArray<T>,
        rows: Option<&[u32]>,
    ) {
        assert_eq!(entries.len(), rows.map_or(values.len(), <[u32]>::len), "one entry for each row");
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        for (at, &entry) in entries.iter().enumerate() {
            let row = rows.map_or(at, |rows| rows[at] as usize);
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let value: &[u8] = values.value(row).as_ref();
                self.update_extreme(slot, entry, value);
            }
        }
    }

    /// Lets one string reach the minimum or maximum `slot` of an entry.
    pub(super) fn update_extreme(&mut self, slot: usize, entry: u32, value: &[u8]) {
        let state = self.extreme_address(&self.layout.accumulators()[slot], entry);
        let smallest = self.layout.accumulators()[slot].accumulator.accumulate == Accumulate::Minimum;
        // SAFETY: `extreme_address` gives the address of such an accumulator, and nothing else refers to the table.
        unsafe {
            let replace = match held(state) {
                None => true,
                Some(held) if smallest => value < held,
                Some(held) => value > held,
            };
            if replace {
                hold(state, value, &mut self.strings);
            }
        }
    }

    /// The extreme that an entry holds, if it has seen a value.
    pub(super) fn extreme(&self, slot: usize, entry: u32) -> Option<&[u8]> {
        let state = self.extreme_address(&self.layout.accumulators()[slot], entry);
        // SAFETY: `extreme_address` gives the address of such an accumulator; the bytes live in the arena, which is borrowed
        // with the table.
        unsafe { held(state) }
    }

    fn extreme_address(&self, slot: &AccumulatorSlot, entry: u32) -> *mut u8 {
        let accumulator = &slot.accumulator;
        assert!(
            matches!(accumulator.accumulate, Accumulate::Minimum | Accumulate::Maximum)
                && accumulator.argument_type.as_ref().is_some_and(is_string),
            "the accumulator is no extreme of strings"
        );
        self.accumulator_address(slot, entry)
    }
}

/// # Safety
/// `state` must point to the state of a string whose bytes live as long as the result.
pub(super) unsafe fn held<'a>(state: *mut u8) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise; accumulators of 16 bytes are aligned to 8.
    unsafe {
        let length = state.cast::<i32>().read();
        if length < 0 {
            return None;
        }
        let bytes = state.add(8).cast::<*const u8>().read();
        Some(std::slice::from_raw_parts(bytes, length as usize))
    }
}

/// # Safety
/// `state` must point to the state of a string whose bytes are in `arena`, and `value` must not be among these.
pub(super) unsafe fn hold(state: *mut u8, value: &[u8], arena: &mut Arena) {
    // SAFETY: the caller's promise. Bytes in the arena are preceded by their capacity; where they hold an earlier value, it
    // is not read after this.
    unsafe {
        let old = state.add(8).cast::<*mut u8>().read();
        let fits = state.cast::<i32>().read() >= 0 && old.sub(8).cast::<u64>().read() >= value.len() as u64;
        let bytes = if fits {
            old
        } else {
            let capacity = value.len().next_power_of_two().max(8);
            let start = arena.allocate(capacity + 8);
            start.cast::<u64>().write(capacity as u64);
            start.add(8)
        };
        bytes.copy_from_nonoverlapping(value.as_ptr(), value.len());
        let mut head = [0; 4];
        let shown = value.len().min(4);
        head[..shown].copy_from_slice(&value[..shown]);
        let length = i32::try_from(value.len()).expect("a string is shorter than 2 GiB");
        state.cast::<i32>().write(length);
        state.add(4).cast::<[u8; 4]>().write(head);
        state.add(8).cast::<*mut u8>().write(bytes);
    }
}
