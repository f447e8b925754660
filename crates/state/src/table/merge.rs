//! Adding the groups of one table to another's.

use std::sync::Arc;

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type};
use pelton_data::aggregate::Accumulate;
use pelton_data::wide_float::WideFloat;

use super::{Groups, Table};
use crate::layout::{AccumulatorSlot, KeyLayout, PACKED_HEADER, is_string, value_type};

/// Groups merged at a time: their entries stay in the second-level cache.
const MERGE_BATCH: usize = 4096;

/// What becomes of the accumulators of one table by those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Subtract,
}

/// Keys on their way from one table to another: buffers that are reused.
#[derive(Debug, Default)]
pub(crate) struct KeyScratch {
    integers: Vec<i64>,
    packed: Vec<u8>,
    hashes: Vec<u64>,
}

impl Table {
    /// Adds the groups of another table of the same slice, in whatever way either finds its entries. Returns one of the two tables,
    /// which is no longer needed.
    ///
    /// # Panics
    /// Where the layouts differ.
    pub fn merge(&mut self, mut other: Table) -> Table {
        assert!(self.layout == other.layout, "tables of one slice have one layout");
        // The table with fewer groups is the one to be taken apart.
        if other.groups() > self.groups() {
            std::mem::swap(self, &mut other);
        }
        self.add(&other);
        other
    }

    /// Adds the accumulators of some entries of another table to entries of this one, one for each. Where this one has one accumulator more,
    /// it counts the tables that had the group.
    ///
    /// # Panics
    /// Where the layouts differ otherwise, or an entry is out of range.
    pub fn add_at(&mut self, other: &Table, from: &[u32], to: &[u32]) {
        self.combine(other, from, to, Change::Add);
    }

    /// Takes back what [`Table::add_at`] did with these entries.
    ///
    /// # Panics
    /// Where an accumulator is not invertible, or as there.
    pub fn subtract_at(&mut self, other: &Table, from: &[u32], to: &[u32]) {
        self.combine(other, from, to, Change::Subtract);
    }

    /// Adds the groups of another table.
    fn add(&mut self, other: &Table) {
        let (from, mut to, mut scratch) = (other.entry_offsets(), Vec::new(), KeyScratch::default());
        if let Some((minimum, maximum)) = other.prepared_integers() {
            self.prepare_integers(minimum, maximum, from.len());
        }
        for from in from.chunks(MERGE_BATCH) {
            self.entries_of(other, from, &mut to, &mut scratch);
            self.add_at(other, from, &to);
        }
    }

    /// Replaces `to` by the entries of the keys that some entries of another table have; new keys become groups.
    ///
    /// # Panics
    /// Where the keys differ in their layout, or an entry is out of range.
    pub(crate) fn entries_of(&mut self, other: &Table, from: &[u32], to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        match self.layout.keys() {
            _ if from.is_empty() => to.clear(),
            KeyLayout::None => {
                to.clear();
                to.resize(from.len(), self.single_entry());
            }
            KeyLayout::Integer { .. } => self.entries_of_integers(other, from, to, scratch),
            KeyLayout::Packed { .. } => self.entries_of_packed(other, from, to, scratch),
        }
    }

    fn entries_of_integers(&mut self, other: &Table, from: &[u32], to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        let KeyScratch { integers, hashes, .. } = scratch;
        integers.clear();
        integers.extend(from.iter().filter_map(|&entry| other.integer_key(entry)));
        to.clear();
        if let (Some(&minimum), Some(&maximum)) = (integers.iter().min(), integers.iter().max()) {
            self.prepare_integers(minimum, maximum, integers.len());
            self.find_or_insert_integers(integers, to, hashes);
        }
        if integers.len() < from.len() {
            // Entries of one table have different keys, so that one at most is NULL.
            let at = from.iter().position(|&entry| other.integer_key(entry).is_none());
            to.insert(at.expect("a key is missing"), self.null_entry());
        }
    }

    fn entries_of_packed(&mut self, other: &Table, from: &[u32], to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        let KeyScratch { packed, hashes, .. } = scratch;
        other.copy_packed_keys(from, packed);
        // SAFETY: the keys are those of a table with the same layout of keys, which is there until after the call.
        unsafe { self.find_or_insert_packed(packed, from.len(), to, hashes) };
    }

    /// Replaces `packed` by the keys of some entries.
    ///
    /// # Panics
    /// Where keys are not packed, or an entry is out of range.
    pub(super) fn copy_packed_keys(&self, from: &[u32], packed: &mut Vec<u8>) {
        let KeyLayout::Packed { width, .. } = *self.layout.keys() else { unreachable!("the keys are packed") };
        let bytes = self.entries_bytes();
        packed.clear();
        packed.reserve(from.len() * width);
        for (at, &entry) in from.iter().enumerate() {
            assert!(entry as usize * 8 + PACKED_HEADER + width <= bytes, "an entry lies within its table");
            // SAFETY: the key lies within the table, as just checked, and room for as many keys was reserved.
            unsafe {
                let key = self.start().add(entry as usize * 8 + PACKED_HEADER);
                packed.as_mut_ptr().add(at * width).copy_from_nonoverlapping(key, width);
            }
        }
        // SAFETY: the keys were just written.
        unsafe { packed.set_len(from.len() * width) };
    }

    /// The integer key of an entry; `None` where it is NULL.
    ///
    /// # Panics
    /// Where keys are not integer, or the entry is not in use.
    pub(super) fn integer_key(&self, entry: u32) -> Option<i64> {
        match &self.groups {
            Groups::Integer(groups) if groups.is_null(&self.layout, entry) => None,
            Groups::Integer(groups) => Some(groups.key(&self.layout, entry)),
            Groups::Listed(groups) => groups.integer_key(entry),
            _ => panic!("the table's keys are not integers"),
        }
    }

    /// Adds the accumulators of `other`'s entries `from` to this table's entries `to`, or subtracts them.
    pub(super) fn combine(&mut self, other: &Table, from: &[u32], to: &[u32], change: Change) {
        assert_eq!(from.len(), to.len(), "entries are combined in pairs");
        let layout = self.layout.clone();
        let (slots, others) = (layout.accumulators(), other.layout.accumulators());
        let same = slots.len().min(others.len());
        let is_same = |(mine, theirs): (&AccumulatorSlot, &AccumulatorSlot)| mine.accumulator == theirs.accumulator;
        assert!(
            Arc::ptr_eq(&layout, &other.layout) || others.len() == same && slots.iter().zip(others).all(is_same),
            "tables accumulate the same"
        );
        for (index, pair) in slots.iter().zip(others).enumerate() {
            self.combine_slot(other, (index, pair), from, to, change);
        }
        if let [count] = &slots[same..] {
            for &to in to {
                let tables = self.accumulator_address(count, to).cast::<i64>();
                let step = if change == Change::Add { 1 } else { -1 };
                // SAFETY: it is the address of a count.
                unsafe { tables.write_unaligned(tables.read_unaligned() + step) };
            }
        }
    }

    fn combine_slot(
        &mut self,
        other: &Table,
        (index, slots): (usize, (&AccumulatorSlot, &AccumulatorSlot)),
        from: &[u32],
        to: &[u32],
        change: Change,
    ) {
        let accumulator = &slots.0.accumulator;
        assert!(
            change == Change::Add || accumulator.accumulate.is_invertible(),
            "only what is invertible is subtracted"
        );
        match (accumulator.accumulate, change) {
            (Accumulate::Count | Accumulate::SumInteger, Change::Add) => {
                self.update::<i64>(other, slots, from, to, i64::wrapping_add);
            }
            (Accumulate::Count | Accumulate::SumInteger, Change::Subtract) => {
                self.update::<i64>(other, slots, from, to, i64::wrapping_sub);
            }
            (Accumulate::SumWide, Change::Add) => self.update::<i128>(other, slots, from, to, i128::wrapping_add),
            (Accumulate::SumWide, Change::Subtract) => self.update::<i128>(other, slots, from, to, i128::wrapping_sub),
            (Accumulate::SumFloat, _) => self.update::<f64>(other, slots, from, to, |left, right| left + right),
            (Accumulate::SumFloatWide | Accumulate::SumSquares, _) => {
                self.update::<WideFloat>(other, slots, from, to, WideFloat::plus);
            }
            (Accumulate::Values | Accumulate::Arrivals | Accumulate::Distinct { .. }, _) => {
                self.combine_stores(other, index, from, to);
            }
            (Accumulate::First | Accumulate::Last, _) => self.combine_arrivals(other, index, slots, from, to),
            (Accumulate::Minimum | Accumulate::Maximum, _) if is_string(value_type(accumulator)) => {
                for (&from, &to) in from.iter().zip(to) {
                    if let Some(value) = other.extreme(index, from) {
                        self.update_extreme(index, to, value);
                    }
                }
            }
            (Accumulate::Minimum, _) => self.combine_extremes(other, slots, from, to, true),
            (Accumulate::Maximum, _) => self.combine_extremes(other, slots, from, to, false),
        }
    }

    fn combine_extremes(
        &mut self,
        other: &Table,
        slots: (&AccumulatorSlot, &AccumulatorSlot),
        from: &[u32],
        to: &[u32],
        smallest: bool,
    ) {
        use DataType::*;
        macro_rules! integers {
            ($type:ty) => {
                self.update::<$type>(
                    other,
                    slots,
                    from,
                    to,
                    |left, right| {
                        if smallest { left.min(right) } else { left.max(right) }
                    },
                )
            };
        }
        macro_rules! floats {
            ($type:ty) => {
                self.update::<$type>(other, slots, from, to, |left, right| {
                    if left.total_cmp(&right).is_le() == smallest { left } else { right }
                })
            };
        }
        match (value_type(&slots.0.accumulator), slots.0.width) {
            (Float64, _) => floats!(f64),
            (Float32, _) => floats!(f32),
            (Float16, _) => floats!(<Float16Type as ArrowPrimitiveType>::Native),
            (Boolean | UInt8, _) => integers!(u8),
            (UInt16, _) => integers!(u16),
            (UInt32, _) => integers!(u32),
            (UInt64, _) => integers!(u64),
            (_, 1) => integers!(i8),
            (_, 2) => integers!(i16),
            (_, 4) => integers!(i32),
            (_, 8) => integers!(i64),
            (_, 16) => integers!(i128),
            (other, _) => unreachable!("no accumulator holds an extreme of type {other}"),
        }
    }

    /// Replaces an accumulator of each entry of `to` by what `combine` makes of it and of the corresponding one of `from`; `slots` are
    /// where the two tables have it.
    fn update<T: Copy>(
        &mut self,
        other: &Table,
        (mine, theirs): (&AccumulatorSlot, &AccumulatorSlot),
        from: &[u32],
        to: &[u32],
        combine: impl Fn(T, T) -> T,
    ) {
        assert!(mine.width == size_of::<T>() && theirs.width == mine.width);
        let (source, source_bytes) = (other.start(), other.entries_bytes());
        let (target, target_bytes) = (self.start(), self.entries_bytes());
        for (&from, &to) in from.iter().zip(to) {
            let (from, to) = (from as usize * 8 + theirs.offset, to as usize * 8 + mine.offset);
            assert!(
                from + theirs.width <= source_bytes && to + mine.width <= target_bytes,
                "entries lie in their tables"
            );
            // SAFETY: both are addresses of accumulators of this type, in different tables, within them as just checked.
            unsafe {
                let (source, target) = (source.add(from).cast::<T>(), target.add(to).cast::<T>());
                target.write_unaligned(combine(target.read_unaligned(), source.read_unaligned()));
            }
        }
    }

    /// The address of an accumulator of an entry in use.
    #[inline(always)]
    pub(super) fn accumulator_address(&self, slot: &AccumulatorSlot, entry: u32) -> *mut u8 {
        let at = entry as usize * 8 + slot.offset;
        assert!(at + slot.width <= self.entries_bytes(), "an entry lies within its table");
        // SAFETY: the accumulator lies within the table's memory, as just checked.
        unsafe { self.start().add(at) }
    }
}
