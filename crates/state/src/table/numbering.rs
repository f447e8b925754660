//! Numbers for the groups of several tables: a group that has one is found by its key once for each table, and then combined
//! with itself in any of them without a look at the key. Of many small slices, one table finds the groups of all by their keys.

use std::marker::PhantomData;
use std::ops::Range;

use pelton_data::aggregate::Accumulator;

use super::line::is_cached;
use super::strided::{CheckedStrided, Strided};
use super::{Chosen, KeyScratch, Table, TableHint};
use crate::layout::EntryLayout;

/// The entries that groups have in lists ([`Table::list`]) of one layout, in the order in which their keys were first seen.
#[derive(Debug)]
pub struct GroupNumbers {
    /// Holds the key of each group that can be found, and how many were seen up to its first.
    table: Table,
    groups: usize,
    /// So many of the groups can be found: the first ones.
    found_groups: usize,
    /// How many keys the table was made for.
    room: usize,
    /// Buffers that are reused.
    found: Vec<u32>,
    scratch: KeyScratch,
}

impl GroupNumbers {
    /// No group has a number. Tables will have the keys of this layout.
    pub fn new(layout: &EntryLayout) -> GroupNumbers {
        GroupNumbers {
            table: GroupNumbers::table(layout, 0),
            groups: 0,
            found_groups: 0,
            room: 0,
            found: Vec::new(),
            scratch: KeyScratch::default(),
        }
    }

    /// Where so many keys can be found.
    fn table(layout: &EntryLayout, room: usize) -> Table {
        let hint = TableHint { groups: room, ..TableHint::default() };
        Table::with_hint(EntryLayout::new(layout.key_columns(), &[Accumulator::counting_rows()]), hint)
    }

    /// Gives the first numbers to so many groups, all others having none. None can be found before [`GroupNumbers::find_all`], which makes room for so many.
    pub fn begin_anew(&mut self, layout: &EntryLayout, groups: usize, room: usize) {
        // A large table that was only cleared would keep room for the keys of groups that have left, and a small one would grow step by step.
        if room > self.room || !is_cached(self.table.bytes()) {
            self.room = room.next_power_of_two();
            self.table = GroupNumbers::table(layout, self.room);
        } else if self.found_groups > 0 {
            self.table.clear();
        }
        (self.groups, self.found_groups) = (groups, 0);
    }

    /// Gives numbers to so many groups that have none, for whoever knows that: they follow the last that there was, and cannot be found.
    pub fn assign_new(&mut self, count: usize, listed: &mut Vec<u32>) {
        listed.clear();
        listed.extend((self.groups as u32..).take(count));
        self.groups += count;
    }

    /// Whether some groups can be found by their keys.
    pub fn finds_any(&self) -> bool {
        self.found_groups > 0
    }

    /// Whether there are groups that cannot be found by their keys.
    pub fn misses_any(&self) -> bool {
        self.found_groups < self.groups
    }

    /// Lets all groups be found, whose keys are those of a list, in the order of their numbers.
    ///
    /// # Panics
    /// Where the list's keys are others, or fewer.
    pub fn find_all(&mut self, keys: &Table) {
        if !self.misses_any() {
            return;
        }
        let missed = Chosen::Neighbours { first: self.found_groups, count: self.groups - self.found_groups };
        self.table.entries_of(keys, missed, &mut self.found, &mut self.scratch);
        let place = self.order_place();
        for (entry, number) in self.found.iter().zip(missed.iter()) {
            // SAFETY: it is the address of a count, of eight bytes.
            unsafe { place.address(*entry).cast::<i64>().write_unaligned(i64::from(number) + 1) };
        }
        self.found_groups = self.groups;
    }

    /// Where entries say how many keys were seen up to theirs.
    fn order_place(&self) -> Strided {
        let slot = &self.table.layout().accumulators()[0];
        self.table.place(slot.offset, slot.width)
    }

    /// Replaces `listed` by the entries that the groups of a table's `entries` have in lists, and `new` by those of `entries` whose
    /// groups had none: these follow the last that there was.
    ///
    /// # Panics
    /// Where the table's keys are others, an entry is not in use, or not all groups can be found: see [`GroupNumbers::find_all`].
    pub fn assign(&mut self, table: &Table, entries: Chosen<'_>, listed: &mut Vec<u32>, new: &mut Vec<u32>) {
        assert!(!self.misses_any(), "a group that has a number is found");
        let mut found = std::mem::take(&mut self.found);
        self.table.entries_of(table, entries, &mut found, &mut self.scratch);
        listed.clear();
        new.clear();
        let order_place = self.order_place();
        for (&entry, from) in found.iter().zip(entries.iter()) {
            let order = order_place.address(entry).cast::<i64>();
            // SAFETY: it is the address of a count, of eight bytes.
            let mut number = unsafe { order.read_unaligned() };
            if number == 0 {
                self.groups += 1;
                number = self.groups as i64;
                // SAFETY: as above.
                unsafe { order.write_unaligned(number) };
                new.push(from);
            }
            listed.push(number as u32 - 1);
        }
        self.found_groups = self.groups;
        self.found = found;
    }

    /// Whether no group has a number.
    pub fn is_empty(&self) -> bool {
        self.groups == 0
    }

    /// Takes all numbers back.
    pub fn clear(&mut self) {
        self.table.clear();
        (self.groups, self.found_groups) = (0, 0);
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// The numbers that groups of some entries have.
pub(crate) struct Numbers<'t, 'e> {
    words: CheckedStrided,
    entries: &'e [u32],
    table: PhantomData<&'t SliceGroups>,
}

impl Numbers<'_, '_> {
    /// Those of the entries in these places: each number plus one, or zero where the group has none.
    ///
    /// # Panics
    /// Where there are fewer.
    pub fn part(&self, places: Range<usize>) -> impl ExactSizeIterator<Item = u32> {
        // SAFETY: it is the address of a word of eight bytes, of an entry that the place was asked for, and the table is borrowed.
        let word = |&entry: &u32| unsafe { self.words.address(entry).cast::<u64>().read_unaligned() };
        self.entries[places].iter().map(move |entry| word(entry) as u32)
    }
}

/// Where groups are found of the rows of many slices, one slice after the other.
///
/// A group has a number from its first row on, and a place in each slice that has rows of it, behind all that there are by then.
#[derive(Debug)]
pub(crate) struct SliceGroups {
    /// Holds each key with two words: its number plus one; and the last slice that it has a place in, and the place.
    table: Table,
    /// How many have a number.
    numbered: u32,
    /// Slices are counted from 1 on.
    slice: u32,
    /// Entries of groups that got their numbers with the last slice: a buffer that is reused.
    new: Vec<u32>,
}

impl SliceGroups {
    /// No group has a number. Rows will have the keys of this layout.
    pub fn new(layout: &EntryLayout) -> SliceGroups {
        let words = [Accumulator::counting_rows(), Accumulator::counting_rows()];
        let table = Table::new(EntryLayout::new(layout.key_columns(), &words));
        SliceGroups { table, numbered: 0, slice: 0, new: Vec::new() }
    }

    /// Where rows find their groups.
    pub fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// How many groups have a number.
    pub fn numbered(&self) -> u32 {
        self.numbered
    }

    /// Bytes of what is looked into for the groups that have a number.
    pub fn used_bytes(&self) -> usize {
        self.numbered as usize * self.table.layout().stride()
    }

    /// Whether no other slice can be told apart from those before.
    pub fn is_exhausted(&self) -> bool {
        self.slice == u32::MAX
    }

    /// Replaces `entries`, of the rows of the next slice, by the entries of places from `first` on, which are `units` apart. The numbers of groups
    /// that got a place are appended to `numbers`, in the order of their places; `new` gets the keys of those that had no number.
    ///
    /// # Panics
    /// Where an entry is none of the table, or there were too many slices.
    pub fn place(&mut self, entries: &mut [u32], (first, units): (u32, u32), numbers: &mut Vec<u32>, new: &mut Table) {
        self.slice = self.slice.checked_add(1).expect("slices can be counted");
        let before = numbers.len();
        let [number, place] = self.words();
        self.new.clear();
        for entry in entries {
            let held = place.address(*entry).cast::<u64>();
            // SAFETY: it is the address of a word of eight bytes.
            let known = unsafe { held.read_unaligned() };
            if (known >> 32) as u32 == self.slice {
                *entry = known as u32 * units;
                continue;
            }
            let number = number.address(*entry).cast::<u64>();
            // SAFETY: as above; nobody else has access to the table.
            unsafe {
                if number.read_unaligned() == 0 {
                    self.numbered += 1;
                    number.write_unaligned(u64::from(self.numbered));
                    self.new.push(*entry);
                }
                let at = first + (numbers.len() - before) as u32;
                numbers.push(number.read_unaligned() as u32 - 1);
                held.write_unaligned(u64::from(self.slice) << 32 | u64::from(at));
                *entry = at * units;
            }
        }
        if !self.new.is_empty() {
            new.append_keys(&self.table, &self.new);
        }
    }

    /// As [`SliceGroups::place`], where each group that has a number gets a place, in the order of the numbers: rows are not worth it to ask whether the
    /// group has one. `present`, if given, is overwritten: by a one for each group that the slice has rows of.
    ///
    /// # Panics
    /// Where an entry is none of the table.
    pub fn place_all(
        &mut self,
        entries: &mut [u32],
        (first, units): (u32, u32),
        present: Option<&mut Vec<u8>>,
        new: &mut Table,
    ) {
        let [number, _] = self.words();
        let words = number.of(entries);
        let mut are_numbered = true;
        for entry in entries.iter_mut() {
            // SAFETY: it is the address of a word of eight bytes, of an entry that the place was asked for; nobody else has access to the table.
            let word = unsafe { words.address(*entry).cast::<u64>() };
            // SAFETY: as above.
            let mut held = unsafe { word.read_unaligned() } as u32;
            if held == 0 {
                self.numbered += 1;
                held = self.numbered;
                // SAFETY: as above.
                unsafe { word.write_unaligned(u64::from(held)) };
                if are_numbered {
                    self.new.clear();
                    are_numbered = false;
                }
                self.new.push(*entry);
            }
            *entry = held - 1;
        }
        if !are_numbered {
            new.append_keys(&self.table, &self.new);
        }
        if let Some(present) = present {
            present.clear();
            present.resize(self.numbered as usize, 0);
            entries.iter().for_each(|&number| present[number as usize] = 1);
        }
        entries.iter_mut().for_each(|entry| *entry = (first + *entry) * units);
    }

    /// The numbers of the groups of entries.
    ///
    /// # Panics
    /// Where an entry is none of the table.
    pub fn numbers<'e>(&self, entries: &'e [u32]) -> Numbers<'_, 'e> {
        let [number, _] = self.words();
        Numbers { words: number.of(entries), entries, table: PhantomData }
    }

    /// Where entries have their words.
    fn words(&self) -> [Strided; 2] {
        let [number, place] = self.table.layout().accumulators() else { unreachable!("there are two words") };
        [number, place].map(|slot| self.table.place(slot.offset, slot.width))
    }

    /// Takes all numbers back.
    pub fn clear(&mut self) {
        self.table.clear();
        (self.numbered, self.slice) = (0, 0);
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
