//! Groups side by side in the order in which they were appended: none is found by its key, and a key may occur several times.
//!
//! A list holds each value of its entries in a column of its own, and an entry's number is its place: what is done to all groups is done
//! column by column, many values at a time, and columns leave as they are. Partial results whose groups are numbered already are lists
//! without keys, and so are the rows of windows that have closed, with keys.

mod groups;

use std::sync::Arc;

pub(crate) use self::groups::LentKeys;
pub(super) use self::groups::ListedGroups;
use super::key_shape::long_string;
use super::strided::Strided;
use super::{Chosen, Groups, Table};
use crate::layout::{AccumulatorSlot, EntryLayout, Field, KeyLayout, PACKED_HEADER, is_string};

/// Calls `$function::<W>` with the width of a value as a constant.
macro_rules! with_width {
    ($width:expr, $function:ident($($argument:expr),*)) => {
        match $width {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            16 => $function::<16>($($argument),*),
            24 => $function::<24>($($argument),*),
            other => unreachable!("no value has {other} bytes"),
        }
    };
}

pub(super) use with_width;

/// Copies one value of some entries of another table to neighbours from `to` on.
///
/// # Safety
/// The values must have `W` bytes, and `to` must point to room for as many, apart from the other table.
pub(super) unsafe fn copy_values<const W: usize>(from: Strided, entries: Chosen<'_>, to: *mut u8) {
    match entries {
        // SAFETY: neighbours lie side by side within their table; the caller promises the room.
        Chosen::Neighbours { first, count } => unsafe {
            to.copy_from_nonoverlapping(from.neighbours(first, count), count * W);
        },
        Chosen::Listed(entries) => {
            let from = from.of(entries);
            for (at, &entry) in entries.iter().enumerate() {
                // SAFETY: the entry is one of those that were asked for; the caller promises the room.
                unsafe { to.add(at * W).copy_from_nonoverlapping(from.address(entry), W) };
            }
        }
    }
}

/// Writes one value to neighbours from `to` on.
///
/// # Safety
/// `value` must have `W` bytes, and `to` must point to room for `count` of them.
unsafe fn fill<const W: usize>(value: &[u8], to: *mut u8, count: usize) {
    let value: [u8; W] = value.try_into().expect("a value is as wide as its column");
    if value == [0; W] {
        // SAFETY: the caller's promise.
        return unsafe { to.write_bytes(0, count * W) };
    }
    for at in 0..count {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u8; W]>().add(at).write(value) };
    }
}

/// Moves values within a column, one after the other: from the first to the second of each pair.
///
/// # Safety
/// The values must have `W` bytes.
unsafe fn move_values<const W: usize>(column: Strided, moves: &[(u32, u32)]) {
    for &(from, to) in moves {
        // SAFETY: both lie within the table; they may be the same.
        unsafe { column.address(to).copy_from(column.address(from), W) };
    }
}

impl Table {
    /// Groups in a list of this layout: see [`Table::append`]. Nothing can be found in it by key.
    pub fn list(layout: Arc<EntryLayout>) -> Table {
        let groups = ListedGroups::new(&layout);
        Table::of(layout, Groups::Listed(Box::new(groups)))
    }

    pub(super) fn list_of_groups(&self) -> &ListedGroups {
        let Groups::Listed(list) = &self.groups else { panic!("the table is no list") };
        list
    }

    pub(super) fn listed(&mut self) -> (&EntryLayout, &mut ListedGroups) {
        let Groups::Listed(list) = &mut self.groups else { panic!("the table is no list") };
        (&self.layout, list)
    }

    /// Makes room for as many groups in a list, and no more.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn reserve(&mut self, groups: usize) {
        let (layout, list) = self.listed();
        if groups > list.capacity {
            list.grow(layout, groups);
        }
    }

    /// Forgets the groups of a list behind the first so many, which refer to nothing beside their entries.
    ///
    /// # Panics
    /// Where this is no list, or arrays share it.
    pub(crate) fn truncate(&mut self, groups: usize) {
        let list = self.listed().1;
        assert!(!list.is_shared, "nothing changes that arrays share");
        list.changes += u64::from(groups < list.groups);
        list.groups = list.groups.min(groups);
        list.nulls.retain(|&null| (null as usize) < groups);
    }

    /// Lets arrays that are read out share the columns of a list, which must not change from now on until it is cleared.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn share(&mut self) {
        self.listed().1.is_shared = true;
    }

    /// How often groups of a list have come or gone: its keys are the same as long as this is.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn key_changes(&self) -> u64 {
        self.list_of_groups().changes
    }

    /// Takes the place of another list: its keys have changed.
    ///
    /// # Panics
    /// Where either is no list.
    pub(crate) fn follow(&mut self, before: &Table) {
        let list = self.listed().1;
        list.changes = list.changes.max(before.key_changes()) + 1;
    }

    /// The keys of a list that arrays share, for others that have the same. There are none where more than their columns is needed to read them.
    ///
    /// # Panics
    /// Where this is no list, or arrays do not share it.
    pub(crate) fn lend_keys(&mut self) -> Option<LentKeys> {
        let (layout, list) = self.listed();
        assert!(list.is_shared, "nothing changes that is lent");
        let has_strings = match layout.keys() {
            KeyLayout::None => return None,
            KeyLayout::Integer { .. } => false,
            KeyLayout::Packed { columns, .. } => columns.iter().any(|column| is_string(&column.data_type)),
        };
        let is_udaf = list.borrowed.is_none() && list.nulls.is_empty() && !has_strings;
        is_udaf.then(|| LentKeys { columns: list.columns.clone(), capacity: list.capacity, groups: list.groups })
    }

    /// Gives the groups that come into an empty list these keys, in their order, until it gets [`Table::own_keys`].
    ///
    /// # Panics
    /// Where this is no list, or has groups.
    pub(crate) fn borrow_keys(&mut self, keys: &LentKeys) {
        let list = self.listed().1;
        assert!(list.groups == 0 && !list.is_shared, "no group has another key");
        list.borrowed = Some(keys.clone());
    }

    /// Whether a list, which this must be, has its keys from another.
    pub(crate) fn borrows_keys(&self) -> bool {
        self.list_of_groups().borrowed.is_some()
    }

    /// Copies the keys of a list that it has from another.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn own_keys(&mut self) {
        let (layout, list) = self.listed();
        let Some(keys) = list.borrowed.take() else { return };
        for &Field { offset, width } in layout.key_fields() {
            // SAFETY: as many keys have been written there, and have room here, in different allocations.
            unsafe { list.column(offset).copy_from_nonoverlapping(keys.column(offset), list.groups * width) };
        }
    }

    /// Appends copies of some groups of another table to a list. Where this one has one accumulator more, it counts the tables that had
    /// the group.
    ///
    /// # Panics
    /// Where this is no list, the layouts differ otherwise, or an entry is not in use.
    pub fn append<'a>(&mut self, other: &Table, entries: impl Into<Chosen<'a>>) {
        let entries = entries.into();
        let first = self.extend_keys(other, entries);
        self.set_values(other, entries, first);
    }

    /// As [`Table::append`], of groups whose keys are in one table and what they have accumulated in another.
    ///
    /// # Panics
    /// As there, and where there are not as many keys.
    pub(crate) fn append_parts(&mut self, (keys, key_entries): (&Table, &[u32]), (values, entries): (&Table, &[u32])) {
        assert_eq!(key_entries.len(), entries.len(), "each group has a key");
        let first = self.extend_keys(keys, key_entries.into());
        self.set_values(values, entries.into(), first);
    }

    /// Appends copies of what some groups of another table have accumulated, without their keys. As for [`Table::append`].
    ///
    /// # Panics
    /// As there.
    pub fn append_values<'a>(&mut self, other: &Table, entries: impl Into<Chosen<'a>>) {
        let entries = entries.into();
        let (layout, list) = self.listed();
        let first = list.extend(layout, entries.len());
        self.set_values(other, entries, first);
    }

    /// Gives the first groups of a list what all groups of another list have accumulated, and the others what they have before any value.
    ///
    /// # Panics
    /// Where either is no list, the layouts differ, or the other has more groups.
    pub fn replace_values(&mut self, other: &Table) {
        let count = other.groups();
        assert!(count <= self.groups(), "there is a group for each");
        self.clear_references();
        self.set_values(other, Chosen::first(count), 0);
        self.reset(count, self.groups() - count);
    }

    /// Gives groups of a list, from `first` on, what some groups of another table have accumulated.
    pub(super) fn set_values(&mut self, other: &Table, entries: Chosen<'_>, first: usize) {
        self.assert_accumulates_the_same(&other.layout);
        let neighbours = Chosen::Neighbours { first, count: entries.len() };
        if self.layout.has_references() {
            self.reset(first, entries.len());
            return self.add_at(other, entries, neighbours);
        }
        let layout = &self.layout;
        for (mine, theirs) in layout.accumulators().iter().zip(other.layout.accumulators()) {
            let from = other.place(theirs.offset, theirs.width);
            let to = self.place(mine.offset, mine.width).neighbours(first, entries.len());
            // SAFETY: there is room for as many values; they are as wide, and tables are apart.
            unsafe { with_width!(mine.width, copy_values(from, entries, to)) };
        }
        if let [presence] = &layout.accumulators()[other.layout.accumulators().len()..] {
            let column = self.place(presence.offset, presence.width).neighbours(first, entries.len());
            // SAFETY: there is room for as many counts, or bytes.
            unsafe { with_width!(presence.width, fill(&1_i64.to_le_bytes()[..presence.width], column, entries.len())) };
        }
    }

    /// Appends groups to a list that have the keys of some groups of another table, and accumulators as before any value. Returns the number of
    /// the first.
    ///
    /// # Panics
    /// Where this is no list, the keys differ in their layout, or an entry is not in use.
    pub fn append_keys<'a>(&mut self, other: &Table, entries: impl Into<Chosen<'a>>) -> usize {
        let entries = entries.into();
        let first = self.extend_keys(other, entries);
        self.reset(first, entries.len());
        first
    }

    /// As [`Table::append_keys`]; the caller must write the accumulators.
    pub(super) fn extend_keys(&mut self, other: &Table, entries: Chosen<'_>) -> usize {
        let has_same_keys = Arc::ptr_eq(&self.layout, &other.layout) || self.layout.keys() == other.layout.keys();
        assert!(has_same_keys, "tables that are combined have the same keys");
        let (layout, list) = self.listed();
        assert!(list.borrowed.is_none(), "keys that others have do not change");
        let first = list.extend(layout, entries.len());
        match layout.keys() {
            KeyLayout::None => {}
            KeyLayout::Integer { .. } => {
                let keys = list.column(0).cast::<i64>();
                if matches!(&other.groups, Groups::Listed(list) if list.nulls.is_empty()) {
                    // SAFETY: as many groups were just appended; keys are the first column, of eight bytes each, and tables are apart.
                    unsafe { copy_values::<8>(other.place(0, 8), entries, keys.add(first).cast()) };
                    return first;
                }
                for (at, entry) in (first..).zip(entries.iter()) {
                    match other.integer_key(entry) {
                        // SAFETY: the group was just appended; keys are the first column, of eight bytes each.
                        Some(key) => unsafe { keys.add(at).write(key) },
                        None => list.nulls.push(at as u32),
                    }
                }
            }
            KeyLayout::Packed { columns, .. } => {
                for &Field { offset, width } in layout.key_fields() {
                    // SAFETY: there is room for as many values, which are as wide in either table, and tables are apart.
                    unsafe {
                        let to = list.column(offset).add(first * width);
                        with_width!(width, copy_values(other.place(offset, width), entries, to));
                    }
                }
                for column in columns.iter().filter(|column| is_string(&column.data_type)) {
                    let strings = list.column(PACKED_HEADER + column.offset);
                    for at in first..first + entries.len() {
                        // SAFETY: the packed string was just copied; where it is long its bytes lie in the other table's arena.
                        unsafe {
                            let string = strings.add(at * 16);
                            if let Some(long) = long_string(string) {
                                string.add(8).cast::<*const u8>().write(list.arena.store(long));
                            }
                        }
                    }
                }
            }
        }
        first
    }

    /// Appends groups without a key to a list, with accumulators as before any value. Returns the number of the first.
    ///
    /// # Panics
    /// Where this is no list.
    pub fn append_blank(&mut self, count: usize) -> usize {
        let (layout, list) = self.listed();
        let first = list.extend(layout, count);
        self.reset(first, count);
        first
    }

    /// Gives accumulators of a list, from one group on, the values that they have before any value.
    pub(super) fn reset(&mut self, first: usize, count: usize) {
        for slot in self.layout.accumulators() {
            self.reset_one(slot, first, count);
        }
    }

    /// The same of one accumulator.
    fn reset_one(&self, slot: &AccumulatorSlot, first: usize, count: usize) {
        if count == 0 {
            return;
        }
        let column = self.place(slot.offset, slot.width).neighbours(first, count);
        let key = self.layout.key_bytes();
        let initial = &self.layout.initial()[slot.offset - key..][..slot.width];
        // SAFETY: there is room for as many values, and nobody else has access to the table.
        unsafe { with_width!(slot.width, fill(initial, column, count)) };
    }

    /// Gives all accumulators of a list the values that they have before any value, and keeps the keys.
    ///
    /// # Panics
    /// Where this is no list.
    pub fn reset_accumulators(&mut self) {
        self.clear_references();
        self.reset(0, self.groups());
    }

    /// Gives some accumulators of all groups of a list the values that they have before any value. Where one of them refers to strings, all that do
    /// must be among them.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn reset_some(&mut self, accumulators: &[usize]) {
        let (layout, groups) = (self.layout.clone(), self.groups());
        let slots = || accumulators.iter().map(|&index| &layout.accumulators()[index]);
        slots().for_each(|slot| self.reset_one(slot, 0, groups));
        for &index in accumulators {
            if let Some(store) = &mut self.stores[index] {
                while !store.clear(usize::MAX) {}
            }
        }
        if slots().any(|slot| slot.accumulator.has_reference() && !slot.accumulator.accumulate.has_store()) {
            self.strings.clear();
        }
    }

    /// Removes groups of a list, one after the other: the last that there is by then takes the place of each.
    ///
    /// # Panics
    /// Where this is no list, or a place lies behind the last group by then.
    pub fn swap_remove(&mut self, places: &[u32]) {
        let (layout, list) = self.listed();
        assert!(list.borrowed.is_none(), "keys that others have do not change");
        list.changes += u64::from(!places.is_empty());
        let groups = list.groups as u32;
        let moves: Vec<(u32, u32)> = (1..).zip(places).map(|(gone, &place)| (groups - gone, place)).collect();
        assert!(moves.iter().all(|(last, place)| place <= last), "a group takes the place of one before it");
        for &(last, place) in &moves {
            list.nulls.retain(|&null| null != place || place == last);
            if list.nulls.pop_if(|null| *null == last).is_some() && place < last {
                let at = list.nulls.partition_point(|&null| null < place);
                list.nulls.insert(at, place);
            }
        }
        let fields: Vec<Field> = layout.fields().collect();
        for Field { offset, width } in fields {
            let column = self.place(offset, width);
            // SAFETY: the column's values are so wide.
            unsafe { with_width!(width, move_values(column, &moves)) };
        }
        self.listed().1.groups -= places.len();
    }
}
