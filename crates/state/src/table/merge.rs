//! Adding one worker's groups to another's.

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type};
use pelton_data::aggregate::Accumulate;
use pelton_data::wide_float::WideFloat;

use super::{Groups, Table};
use crate::layout::{AccumulatorSlot, KeyLayout, PACKED_HEADER, extreme_type, is_string};

/// Groups merged at a time: their entries stay in the second-level cache.
const MERGE_BATCH: usize = 4096;

/// What becomes of the accumulators of one table by those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Subtract,
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

    /// Adds the groups of another table. Where this one has one accumulator more, it counts the tables that had the group.
    ///
    /// # Panics
    /// Where the layouts differ otherwise.
    pub fn add(&mut self, other: &Table) {
        self.change(other, other.entry_offsets(), Change::Add);
    }

    /// Adds some groups of another table of the same layout.
    ///
    /// # Panics
    /// Where the layouts differ, or an entry is not in use.
    pub fn add_entries(&mut self, other: &Table, entries: Vec<u32>) {
        assert!(self.layout == other.layout, "a table is copied to one of its layout");
        self.change(other, entries, Change::Add);
    }

    /// Takes back what [`Table::add`] did with that table. Groups stay, also where nothing is left in them.
    ///
    /// # Panics
    /// Where an accumulator is not invertible, or the layouts differ otherwise than there.
    pub fn subtract(&mut self, other: &Table) {
        self.change(other, other.entry_offsets(), Change::Subtract);
    }

    fn change(&mut self, other: &Table, from: Vec<u32>, change: Change) {
        assert!(self.layout.keys() == other.layout.keys(), "tables that are combined have the same keys");
        match self.layout.keys() {
            KeyLayout::None => {
                if !from.is_empty() {
                    let to = self.single_entry();
                    self.combine(other, &from, &[to], change);
                }
            }
            KeyLayout::Integer { .. } => self.change_integers(other, from, change),
            KeyLayout::Packed { .. } => self.change_packed(other, &from, change),
        }
    }

    fn change_integers(&mut self, other: &Table, mut from: Vec<u32>, change: Change) {
        let Groups::Integer(groups) = &other.groups else { unreachable!("tables of one layout have keys of one kind") };
        let layout = other.layout.clone();
        if from.last().is_some_and(|&last| groups.is_null(&layout, last)) {
            let null = from.pop().expect("there is a last entry");
            let to = self.null_entry();
            self.combine(other, &[null], &[to], change);
        }
        let keys: Vec<i64> = from.iter().map(|&entry| groups.key(&layout, entry)).collect();
        let (Some(&minimum), Some(&maximum)) = (keys.iter().min(), keys.iter().max()) else { return };
        self.prepare_integers(minimum, maximum, keys.len());
        let (mut entries, mut hashes) = (Vec::new(), Vec::new());
        for (keys, from) in keys.chunks(MERGE_BATCH).zip(from.chunks(MERGE_BATCH)) {
            self.find_or_insert_integers(keys, &mut entries, &mut hashes);
            self.combine(other, from, &entries, change);
        }
    }

    fn change_packed(&mut self, other: &Table, from: &[u32], change: Change) {
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
            // SAFETY: the keys are those of a table with the same layout of keys, which is there until after the call.
            unsafe { self.find_or_insert_packed(&keys, from.len(), &mut entries, &mut hashes) };
            self.combine(other, from, &entries, change);
        }
    }

    /// Adds the accumulators of `other`'s entries `from` to this table's entries `to`, or subtracts them.
    fn combine(&mut self, other: &Table, from: &[u32], to: &[u32], change: Change) {
        let layout = self.layout.clone();
        let (slots, others) = (layout.accumulators(), other.layout.accumulators());
        let same = slots.len().min(others.len());
        let is_same = |(mine, theirs): (&AccumulatorSlot, &AccumulatorSlot)| mine.accumulator == theirs.accumulator;
        assert!(others.len() == same && slots.iter().zip(others).all(is_same), "tables accumulate the same");
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
            (Accumulate::Minimum | Accumulate::Maximum, _) if is_string(extreme_type(accumulator)) => {
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
        match (extreme_type(&slots.0.accumulator), slots.0.width) {
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
        for (&from, &to) in from.iter().zip(to) {
            let source = other.accumulator_address(theirs, from).cast::<T>();
            let target = self.accumulator_address(mine, to).cast::<T>();
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
