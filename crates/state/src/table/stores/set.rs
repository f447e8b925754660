//! The distinct values of groups, and how often each came, so that what a slice had can be taken away again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::udaf::Change;

use crate::layout::{AccumulatorSlot, EntryLayout, KeyLayout, value_type};
use crate::snapshot::{Reader, SnapshotError};
use crate::table::{KeyRows, KeyScratch, Table, TableHint, widen_keys};

/// So many entries whose values have left are worth no look at the others.
const LEFT_MIN: usize = 1024;

/// No value has come so often, and as many counts of as many do not leave 64 bits.
const COUNT_MAX: u64 = 1 << 48;

/// The distinct values of groups: the keys of a table.
#[derive(Debug)]
pub(in crate::table) struct Set {
    /// By group number and value, or by value alone where there is one group. With how often each came, none for one that has left; or the smallest position of each
    /// where order matters.
    values: Table,
    /// How many values each group has.
    counts: Vec<usize>,
    /// How many all have.
    total: usize,
    index: OnceLock<SetIndex>,
}

/// The entries of a set by group.
#[derive(Debug)]
struct SetIndex {
    /// Where each number's entries begin in `entries`, and where the last one's end.
    offsets: Vec<u32>,
    entries: Vec<u32>,
}

/// The same of some of a set's slots.
#[derive(Debug)]
pub(in crate::table) struct Indexing {
    slots_done: usize,
    /// Where each number's next entry goes in `entries`, behind a zero.
    ends: Vec<u32>,
    entries: Vec<u32>,
}

impl Set {
    pub(super) fn new(accumulator: &Accumulator, is_one_group: bool) -> Set {
        let column = |data_type: &DataType| KeyColumn { data_type: data_type.clone(), nullable: false };
        let keys = [column(&DataType::UInt32), column(value_type(accumulator))];
        // An entry has room for a count in any case.
        let beside = match accumulator.accumulate {
            Accumulate::Distinct { is_ordered: true } => {
                Accumulator::new(Accumulate::Minimum, Some(DataType::UInt64), false)
            }
            _ => Accumulator::counting_rows(),
        };
        let layout = EntryLayout::new(&keys[usize::from(is_one_group)..], &[beside]);
        Set { values: Table::new(layout), counts: Vec::new(), total: 0, index: OnceLock::new() }
    }

    pub(super) fn groups(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn grow_to(&mut self, groups: usize) {
        self.counts.resize(groups.max(self.counts.len()), 0);
        // It has none of the new groups.
        self.index = OnceLock::new();
    }

    /// Forgets all groups, about so many bytes at most: whether all have been forgotten.
    pub(super) fn clear(&mut self, bytes_max: usize) -> bool {
        self.index = OnceLock::new();
        if !self.counts.is_empty() {
            if !self.values.clear_part(bytes_max) {
                return false;
            }
            self.counts.clear();
            self.total = 0;
        }
        true
    }

    pub(super) fn bytes(&self) -> usize {
        let index = self.index.get().map_or(0, SetIndex::bytes);
        self.values.bytes() + self.counts.capacity() * size_of::<usize>() + index
    }

    /// How many values a group has.
    pub(super) fn count(&self, number: u32) -> usize {
        self.counts[number as usize]
    }

    fn is_keyed(&self) -> bool {
        self.values.layout().key_columns().len() == 2
    }

    /// What is kept beside each value.
    fn slot(&self) -> &AccumulatorSlot {
        &self.values.layout().accumulators()[0]
    }

    /// Whether that is how often it came.
    fn counts_values(&self) -> bool {
        self.slot().accumulator.accumulate == Accumulate::Count
    }

    /// Lets values, none of them NULL, reach the groups with these numbers, each at its position.
    pub(super) fn insert(&mut self, numbers: &[u32], values: &ArrayRef, positions: impl Iterator<Item = u64>) {
        let entries = self.find(numbers, values);
        if self.counts_values() {
            self.change(numbers, &entries, std::iter::repeat(1), Change::Add);
        } else {
            self.change(numbers, &entries, positions, Change::Add);
        }
    }

    /// Adds the values of another set, or takes them away again: of each of its groups in `pairs`, to the group here that stands beside it.
    pub(super) fn merge(&mut self, other: &Set, pairs: &[(u32, u32)], change: Change) {
        let index = other.index();
        let (mut from, mut numbers) = (Vec::new(), Vec::new());
        for &(theirs, mine) in pairs {
            from.extend_from_slice(index.of(theirs));
            numbers.resize(from.len(), mine);
        }
        let to = self.find(&numbers, &other.value_array(&from));
        self.change(&numbers, &to, other.notes(&from).into_iter(), change);
        if change == Change::Subtract {
            self.forget_left();
        }
    }

    /// The entries of values, none of them NULL, with the group number of each; new values become entries.
    fn find(&mut self, numbers: &[u32], values: &ArrayRef) -> Vec<u32> {
        self.index = OnceLock::new();
        let (mut entries, mut hashes, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        if values.is_empty() {
            return entries;
        }
        let rows = KeyRows::Range(0..values.len());
        match self.values.layout().keys() {
            KeyLayout::Integer { .. } => {
                let mut integers = Vec::new();
                widen_keys(values, None, &mut integers);
                let extent = integers
                    .iter()
                    .fold((i64::MAX, i64::MIN), |(minimum, maximum), &key| (minimum.min(key), maximum.max(key)));
                self.values.prepare_integers(extent.0, extent.1, integers.len());
                self.values.find_or_insert_integers(&integers, &mut entries, &mut hashes);
            }
            _ if self.is_keyed() => {
                let columns: [ArrayRef; 2] = [Arc::new(UInt32Array::from(numbers.to_vec())), values.clone()];
                self.values.find_or_insert_columns(&columns, rows, &mut entries, &mut keys, &mut hashes);
            }
            _ => {
                let columns = std::slice::from_ref(values);
                self.values.find_or_insert_columns(columns, rows, &mut entries, &mut keys, &mut hashes);
            }
        }
        entries
    }

    /// Changes what is kept beside values of these groups by what came or goes: how often each did, or the position where it came first.
    fn change(&mut self, numbers: &[u32], entries: &[u32], notes: impl Iterator<Item = u64>, change: Change) {
        let (counts_values, slot) = (self.counts_values(), self.slot());
        let place = self.values.place(slot.offset, slot.width).of(entries);
        // No position has all bits set.
        let absent = if counts_values { 0 } else { u64::MAX };
        for ((&entry, &number), note) in entries.iter().zip(numbers).zip(notes) {
            // SAFETY: the entry is one of those that were asked for, with a count there, or a minimum of 64-bit numbers.
            let (held, left) = unsafe {
                let state = place.address(entry).cast::<u64>();
                let held = state.read_unaligned();
                let left = match (counts_values, change) {
                    (true, Change::Add) => held + note,
                    (true, Change::Subtract) => held.saturating_sub(note),
                    (false, Change::Add) => held.min(note),
                    (false, Change::Subtract) => unreachable!("where order matters nothing is subtracted"),
                };
                state.write_unaligned(left);
                (held, left)
            };
            let (came, went) = (held == absent && left != absent, held != absent && left == absent);
            let count = &mut self.counts[number as usize];
            *count = *count + usize::from(came) - usize::from(went);
            self.total = self.total + usize::from(came) - usize::from(went);
        }
    }

    /// Gives up the entries of values that have left, where they are more than the others.
    fn forget_left(&mut self) {
        let left = self.values.groups() - self.total;
        if left < LEFT_MIN.max(self.total) {
            return;
        }
        let held = self.held();
        let layout = self.values.layout().clone();
        let mut values = Table::with_hint(layout, TableHint { groups: held.len(), ..TableHint::default() });
        let mut to = Vec::new();
        values.entries_of(&self.values, (&held).into(), &mut to, &mut KeyScratch::default());
        values.add_at(&self.values, &held, &to);
        self.values = values;
        self.index = OnceLock::new();
    }

    /// The entries of all values that have not left.
    fn held(&self) -> Vec<u32> {
        self.held_in(0..self.values.slots())
    }

    /// Those in some slots.
    fn held_in(&self, slots: Range<usize>) -> Vec<u32> {
        let mut held = Vec::new();
        self.values.push_entries(slots, &mut held);
        if self.values.groups() > self.total {
            let mut notes = self.notes(&held).into_iter();
            held.retain(|_| notes.next() != Some(0));
        }
        held
    }

    /// The entries by group, found once for all that is read before the set changes.
    fn index(&self) -> &SetIndex {
        if !self.is_indexed() {
            self.index_slots(&mut None, usize::MAX);
        }
        self.index.get().expect("all entries have been found")
    }

    /// Whether it is known which entries are of which group.
    pub(in crate::table) fn is_indexed(&self) -> bool {
        self.index.get().is_some()
    }

    /// Finds the entries in the next slots, so many at most: how many there were. Once those in all have been found it is known which are of which group.
    pub(in crate::table) fn index_slots(&self, indexing: &mut Option<Indexing>, slots_max: usize) -> usize {
        let found = indexing.get_or_insert_with(|| {
            let before = self.counts.iter().scan(0, |end, count| {
                let before = *end;
                // Entries have numbers of 32 bits, so that there are fewer.
                *end += *count as u32;
                Some(before)
            });
            let ends = std::iter::once(0).chain(before).collect();
            Indexing { slots_done: 0, ends, entries: vec![0; self.total] }
        });
        let slots = found.slots_done..self.values.slots().min(found.slots_done.saturating_add(slots_max));
        let held = self.held_in(slots.clone());
        for (&entry, number) in held.iter().zip(self.numbers(&held)) {
            let place = &mut found.ends[number as usize + 1];
            found.entries[*place as usize] = entry;
            *place += 1;
        }
        found.slots_done = slots.end;
        if slots.end == self.values.slots()
            && let Some(Indexing { ends: offsets, entries, .. }) = indexing.take()
        {
            self.index.get_or_init(|| SetIndex { offsets, entries });
        }
        slots.len()
    }

    /// The entries of a group's values, in any order.
    pub(super) fn of(&self, number: u32) -> &[u32] {
        self.index().of(number)
    }

    /// The group number of each entry.
    fn numbers(&self, entries: &[u32]) -> Vec<u32> {
        if !self.is_keyed() {
            return vec![0; entries.len()];
        }
        self.values.key_array(0, entries).as_primitive::<UInt32Type>().values().to_vec()
    }

    pub(super) fn value_array(&self, entries: &[u32]) -> ArrayRef {
        self.values.key_array(self.values.layout().key_columns().len() - 1, entries)
    }

    /// How often each value came, or where it came first.
    pub(super) fn notes(&self, entries: &[u32]) -> Vec<u64> {
        let slot = self.slot();
        self.values.place(slot.offset, slot.width).gather(entries.into())
    }

    /// Reads values, none of which is there, and what is kept beside them.
    pub(super) fn read(
        &mut self,
        numbers: &[u32],
        values: &ArrayRef,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let before = self.values.groups();
        let entries = self.find(numbers, values);
        input.check(self.values.groups() == before + entries.len(), "values that are distinct")?;
        let notes = input.column::<u64>(entries.len(), "how often values came, or when")?;
        let is_note = |note: &u64| if self.counts_values() { (1..=COUNT_MAX).contains(note) } else { *note < u64::MAX };
        input.check(notes.iter().all(is_note), "values that have come")?;
        self.change(numbers, &entries, notes.iter().copied(), Change::Add);
        Ok(())
    }
}

impl SetIndex {
    fn of(&self, number: u32) -> &[u32] {
        &self.entries[self.offsets[number as usize] as usize..self.offsets[number as usize + 1] as usize]
    }

    fn bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<u32>() + self.entries.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn set() -> Set {
        let accumulate = Accumulate::Distinct { is_ordered: false };
        let mut set = Set::new(&Accumulator::new(accumulate, Some(DataType::Int64), false), false);
        set.grow_to(2);
        set
    }

    /// What a slice has: so many values from one on, of both groups, the second of which has each twice.
    fn slice(first: i64, count: i64) -> Set {
        let mut set = set();
        for number in [0, 1, 1] {
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + count));
            set.insert(&vec![number; count as usize], &values, std::iter::repeat(1));
        }
        set
    }

    fn values(set: &Set, number: u32) -> Vec<i64> {
        let mut values = set.value_array(set.of(number)).as_primitive::<Int64Type>().values().to_vec();
        values.sort_unstable();
        values
    }

    #[test]
    fn slices_that_leave_take_the_values_with_them_that_no_other_has() {
        let (mut window, all) = (set(), [(0, 0), (1, 1)]);
        let (count, slices) = (500, 200);
        let first = |slice: i64| slice * count / 2;
        let mut bytes_max = 0;
        for came in 0..slices {
            window.merge(&slice(first(came), count), &all, Change::Add);
            if came >= 4 {
                window.merge(&slice(first(came - 4), count), &all, Change::Subtract);
            }
            let expected: Vec<i64> = (first((came - 3).max(0))..first(came) + count).collect();
            for number in [0, 1] {
                assert_eq!(window.count(number), expected.len());
                assert_eq!(values(&window, number), expected);
            }
            if came == 20 {
                bytes_max = 2 * window.bytes();
            }
        }
        assert!(window.bytes() <= bytes_max, "values that have left are given up: {} {bytes_max}", window.bytes());
        assert!(window.notes(window.of(1)).iter().all(|times| [2, 4].contains(times)));
    }
}
