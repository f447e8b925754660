//! The values that came first and last in groups.
//!
//! An accumulator is the position of the value's row, then the value (a string as in [`super::extremes`]). Positions say which
//! of two values came first, whichever worker saw them and whenever tables are merged.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{ArrowNativeType, DataType};
use pelton_data::aggregate::Accumulate;

use super::extremes::{held, hold};
use super::{Chosen, Positions, Table};
use crate::layout::{AccumulatorSlot, POSITION_WIDTH, is_string, value_type, value_width};

impl Table {
    /// Lets the values in these places reach the accumulator `slot`, which holds the first or last value, of the entries: one entry for each place.
    /// NULLs change nothing.
    ///
    /// # Panics
    /// Where the slot is no such accumulator, the values are not of its type, or a place or an entry is out of range.
    pub fn update_arrivals(
        &mut self,
        slot: usize,
        entries: impl Iterator<Item = (usize, u32)>,
        values: &ArrayRef,
        positions: Positions<'_>,
    ) {
        let layout = self.layout.clone();
        let place = &layout.accumulators()[slot];
        let data_type = value_type(&place.accumulator);
        assert_eq!(values.data_type(), data_type, "values have the accumulator's type");
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let entries = entries.filter(|&(at, _)| nulls.is_none_or(|nulls| nulls.is_valid(at)));
        match (data_type, value_width(data_type)) {
            (DataType::Utf8View, _) => {
                let strings = values.as_string_view();
                entries.for_each(|(at, entry)| {
                    self.update_string(place, entry, positions.get(at), strings.value(at).as_bytes())
                });
            }
            (DataType::BinaryView, _) => {
                let strings = values.as_binary_view();
                entries.for_each(|(at, entry)| self.update_string(place, entry, positions.get(at), strings.value(at)));
            }
            (DataType::Boolean, _) => {
                let values = values.as_boolean().values();
                entries.for_each(|(at, entry)| {
                    self.update_fixed(place, entry, positions.get(at), u8::from(values.value(at)))
                });
            }
            (_, 1) => self.update_values::<i8>(place, entries, values, positions),
            (_, 2) => self.update_values::<i16>(place, entries, values, positions),
            (_, 4) => self.update_values::<i32>(place, entries, values, positions),
            (_, 8) => self.update_values::<i64>(place, entries, values, positions),
            _ => self.update_values::<i128>(place, entries, values, positions),
        }
    }

    fn update_values<T: ArrowNativeType>(
        &mut self,
        place: &AccumulatorSlot,
        entries: impl Iterator<Item = (usize, u32)>,
        values: &ArrayRef,
        positions: Positions<'_>,
    ) {
        let data = values.to_data();
        let values = data.buffer::<T>(0);
        entries.for_each(|(at, entry)| self.update_fixed(place, entry, positions.get(at), values[at]));
    }

    #[inline(always)]
    fn update_fixed<T: Copy>(&mut self, place: &AccumulatorSlot, entry: u32, position: u64, value: T) {
        if let Some(state) = self.replace_arrival(place, entry, position) {
            assert!(POSITION_WIDTH + size_of::<T>() <= place.width, "the value fits its slot");
            // SAFETY: the state is of as many bytes as just checked, and begins with the position.
            unsafe { state.add(POSITION_WIDTH).cast::<T>().write_unaligned(value) };
        }
    }

    pub(super) fn update_string(&mut self, place: &AccumulatorSlot, entry: u32, position: u64, value: &[u8]) {
        if let Some(state) = self.replace_arrival(place, entry, position) {
            // SAFETY: behind the position is the state of a string whose bytes are in this table's arena; `value` is not of this table.
            unsafe { hold(state.add(POSITION_WIDTH), value, &mut self.strings) };
        }
    }

    /// The state of an entry where a value at `position` takes the place of the one that is there, with the new position in it. Of values
    /// at one position, those of a row that was joined to several, the first and the last come first and last.
    #[inline(always)]
    fn replace_arrival(&mut self, place: &AccumulatorSlot, entry: u32, position: u64) -> Option<*mut u8> {
        let state = self.accumulator_address(place, entry);
        // SAFETY: the state of such an accumulator begins with a position.
        let old = unsafe { state.cast::<u64>().read_unaligned() };
        let replaces = match place.accumulator.accumulate {
            Accumulate::First => position < old,
            Accumulate::Last => position >= old,
            other => panic!("{other:?} holds no value by its arrival"),
        };
        // SAFETY: as above.
        replaces.then(|| unsafe {
            state.cast::<u64>().write_unaligned(position);
            state
        })
    }

    /// Adds the values of another table's entries `from` to this table's entries `to`.
    pub(super) fn combine_arrivals(
        &mut self,
        other: &Table,
        index: usize,
        (mine, theirs): (&AccumulatorSlot, &AccumulatorSlot),
        from: Chosen<'_>,
        to: Chosen<'_>,
    ) {
        let is_string = is_string(value_type(&mine.accumulator));
        for (from, to) in from.iter().zip(to.iter()) {
            let Some(position) = other.arrival_position(index, from) else { continue };
            if is_string {
                let value = other.arrival_string(index, from).expect("a position has a value");
                self.update_string(mine, to, position, value);
            } else if let Some(state) = self.replace_arrival(mine, to, position) {
                let source = other.accumulator_address(theirs, from);
                // SAFETY: both are states of `width` bytes, in different tables.
                unsafe { state.copy_from_nonoverlapping(source, mine.width) };
            }
        }
    }

    /// Adds the values of entries to others of the same table, one after the other: values that lie in their entries.
    pub(super) fn add_arrivals_within(&mut self, index: usize, from: &[u32], to: &[u32]) {
        let layout = self.layout.clone();
        let slot = &layout.accumulators()[index];
        for (&from, &to) in from.iter().zip(to) {
            let Some(position) = self.arrival_position(index, from) else { continue };
            if let Some(state) = self.replace_arrival(slot, to, position) {
                let source = self.accumulator_address(slot, from);
                // SAFETY: both are states of `width` bytes in entries of this table, which may be one.
                unsafe { state.copy_from(source, slot.width) };
            }
        }
    }

    /// The position of the value that an entry holds, if it has seen one.
    pub(super) fn arrival_position(&self, slot: usize, entry: u32) -> Option<u64> {
        let state = self.accumulator_address(&self.layout.accumulators()[slot], entry);
        // SAFETY: the state of such an accumulator begins with a position.
        let position = unsafe { state.cast::<u64>().read_unaligned() };
        (position != 0 && position != u64::MAX).then_some(position)
    }

    /// The string that an entry holds, if it has seen one.
    pub(super) fn arrival_string(&self, slot: usize, entry: u32) -> Option<&[u8]> {
        let state = self.accumulator_address(&self.layout.accumulators()[slot], entry);
        // SAFETY: behind the position is the state of a string; its bytes live in the arena, which is borrowed with the table.
        unsafe { held(state.add(POSITION_WIDTH)) }
    }
}
