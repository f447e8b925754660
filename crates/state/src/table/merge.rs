//! Adding one worker's groups to another's.

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type};
use pelton_data::aggregate::Accumulate;

use super::{Groups, Table};
use crate::layout::{AccumulatorSlot, KeyLayout, PACKED_HEADER, extreme_type, is_string};

/// Groups merged at a time: their entries stay in the second-level cache.
const MERGE_BATCH: usize = 4096;

impl Table {
    /// Adds the groups of another table of the same slice, in whatever way either finds its entries.
    ///
    /// # Panics
    /// Where the layouts differ.
    pub fn merge(&mut self, mut other: Table) {
        assert!(self.layout == other.layout, "tables of one slice have one layout");
        // The table with fewer groups is the one to be taken apart.
        if other.groups() > self.groups() {
            std::mem::swap(self, &mut other);
        }
        let from = other.entry_offsets();
        match self.layout.keys() {
            KeyLayout::None => {
                if !from.is_empty() {
                    let to = self.single_entry();
                    self.combine(&other, &from, &[to]);
                }
            }
            KeyLayout::Integer { .. } => self.merge_integers(&other, from),
            KeyLayout::Packed { .. } => self.merge_packed(&mut other, &from),
        }
    }

    fn merge_integers(&mut self, other: &Table, mut from: Vec<u32>) {
        let Groups::Integer(groups) = &other.groups else { unreachable!("tables of one layout have keys of one kind") };
        let layout = self.layout.clone();
        if from.last().is_some_and(|&last| groups.is_null(&layout, last)) {
            let null = from.pop().expect("there is a last entry");
            let to = self.null_entry();
            self.combine(other, &[null], &[to]);
        }
        let keys: Vec<i64> = from.iter().map(|&entry| groups.key(&layout, entry)).collect();
        let (Some(&minimum), Some(&maximum)) = (keys.iter().min(), keys.iter().max()) else { return };
        self.prepare_integers(minimum, maximum, keys.len());
        let (mut entries, mut hashes) = (Vec::new(), Vec::new());
        for (keys, from) in keys.chunks(MERGE_BATCH).zip(from.chunks(MERGE_BATCH)) {
            self.find_or_insert_integers(keys, &mut entries, &mut hashes);
            self.combine(other, from, &entries);
        }
    }

    fn merge_packed(&mut self, other: &mut Table, from: &[u32]) {
        let KeyLayout::Packed { width, .. } = *self.layout.keys() else { unreachable!("the keys are packed") };
        let (mut keys, mut entries, mut hashes) = (Vec::<u8>::new(), Vec::new(), Vec::new());
        for from in from.chunks(MERGE_BATCH) {
            keys.clear();
            keys.reserve(from.len() * width);
            for (at, &entry) in from.iter().enumerate() {
                // SAFETY: an entry in use has a key of `width` bytes after its header, and room for as many keys was reserved.
                unsafe {
                    let key = other.start().add(entry as usize * 8 + PACKED_HEADER);
                    keys.as_mut_ptr().add(at * width).copy_from_nonoverlapping(key, width);
                }
            }
            // SAFETY: the keys were just written.
            unsafe { keys.set_len(from.len() * width) };
            // SAFETY: the keys are those of a table with the same layout, which is there until after the call.
            unsafe { self.find_or_insert_packed(&keys, from.len(), &mut entries, &mut hashes) };
            self.combine(other, from, &entries);
        }
    }

    /// Adds the accumulators of `other`'s entries `from` to this table's entries `to`.
    fn combine(&mut self, other: &Table, from: &[u32], to: &[u32]) {
        let layout = self.layout.clone();
        for (index, slot) in layout.accumulators().iter().enumerate() {
            let accumulator = &slot.accumulator;
            match accumulator.accumulate {
                Accumulate::Count | Accumulate::SumInteger => {
                    self.update::<i64>(other, slot, from, to, |left, right| left.wrapping_add(right));
                }
                Accumulate::SumWide => {
                    self.update::<i128>(other, slot, from, to, |left, right| left.wrapping_add(right));
                }
                Accumulate::SumFloat => self.update::<f64>(other, slot, from, to, |left, right| left + right),
                Accumulate::Minimum | Accumulate::Maximum if is_string(extreme_type(accumulator)) => {
                    for (&from, &to) in from.iter().zip(to) {
                        if let Some(value) = other.extreme(index, from) {
                            self.update_extreme(index, to, value);
                        }
                    }
                }
                Accumulate::Minimum => self.combine_extremes(other, slot, from, to, true),
                Accumulate::Maximum => self.combine_extremes(other, slot, from, to, false),
            }
        }
    }

    fn combine_extremes(&mut self, other: &Table, slot: &AccumulatorSlot, from: &[u32], to: &[u32], smallest: bool) {
        use DataType::*;
        macro_rules! integers {
            ($type:ty) => {
                self.update::<$type>(
                    other,
                    slot,
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
                self.update::<$type>(other, slot, from, to, |left, right| {
                    if left.total_cmp(&right).is_le() == smallest { left } else { right }
                })
            };
        }
        match (extreme_type(&slot.accumulator), slot.width) {
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

    /// Replaces the accumulator `slot` of each entry of `to` by what `combine` makes of it and of the corresponding one of `from`.
    fn update<T: Copy>(
        &mut self,
        other: &Table,
        slot: &AccumulatorSlot,
        from: &[u32],
        to: &[u32],
        combine: impl Fn(T, T) -> T,
    ) {
        assert_eq!(slot.width, size_of::<T>());
        for (&from, &to) in from.iter().zip(to) {
            let source = other.accumulator_address(slot, from).cast::<T>();
            let target = self.accumulator_address(slot, to).cast::<T>();
            // SAFETY: both are addresses of accumulators of this type, in different tables.
            unsafe { target.write_unaligned(combine(target.read_unaligned(), source.read_unaligned())) };
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
