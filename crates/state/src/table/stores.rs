//! What accumulators keep of a group beyond what its entry has room for: all values, or all distinct ones.
//!
//! An accumulator is a number, from 1 on, of the group in a store beside the entries; zero before the group's first value. NULLs change
//! nothing.

mod set;

mod snapshot;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, UInt64Type};
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::udaf::Change;

pub(super) use self::set::Indexing;
use self::set::Set;
use super::sketch::{Sketch, each_hash};
use super::udaf::UdafStore;
use super::value_lists::Lists;
use super::{Chosen, Positions, Table};
use crate::layout::{AccumulatorSlot, value_type};

/// Stands for a row without a value.
const NO_NUMBER: u32 = u32::MAX;

/// Which entry of a table each row belongs to, in units of eight bytes from entry 0.
#[derive(Debug, Clone, Copy)]
pub enum Entries<'a> {
    /// All rows belong to one.
    Single(u32),
    /// One for each row.
    Each(&'a [u32]),
}

/// What is kept for one accumulator of all groups.
#[derive(Debug)]
pub(super) enum Store {
    /// Each value, in lists.
    Lists(Lists),
    /// Each distinct value once.
    Set(Box<Set>),
    /// About how many distinct values there are.
    Sketches(Vec<Sketch>),
    /// What a function of the program's own keeps.
    Udaf(UdafStore),
}

/// Values of several groups, one group behind the other.
#[derive(Debug)]
pub struct GroupedValues {
    /// Where each group's values begin, and where the last one's end.
    pub offsets: Vec<usize>,
    /// The values; none is NULL.
    pub values: ArrayRef,
}

/// The values that an accumulator keeps, by group.
#[derive(Debug)]
pub struct ValueGroups<'a> {
    table: &'a Table,
    slot: usize,
}

impl Store {
    /// The store of an accumulator, where it has one, in a table that may have several groups or is of one.
    pub(super) fn new(accumulator: &Accumulator, is_one_group: bool) -> Option<Store> {
        Some(match accumulator.accumulate {
            Accumulate::Values => Store::Lists(Lists::new(value_type(accumulator))),
            Accumulate::Arrivals => Store::Lists(Lists::new(&DataType::UInt64)),
            Accumulate::Distinct { .. } | Accumulate::Frequencies => {
                Store::Set(Box::new(Set::new(accumulator, is_one_group)))
            }
            Accumulate::DistinctSketch => Store::Sketches(Vec::new()),
            Accumulate::Udaf(_) => {
                Store::Udaf(UdafStore::new(accumulator.function.as_ref().expect("the accumulator has a function")))
            }
            _ => return None,
        })
    }

    fn groups(&self) -> usize {
        match self {
            Store::Lists(lists) => lists.len(),
            Store::Set(set) => set.groups(),
            Store::Sketches(sketches) => sketches.len(),
            Store::Udaf(own) => own.groups(),
        }
    }

    fn grow_to(&mut self, groups: usize) {
        match self {
            Store::Lists(lists) => lists.grow_to(groups),
            Store::Set(set) => set.grow_to(groups),
            Store::Sketches(sketches) => sketches.resize_with(groups.max(sketches.len()), Sketch::default),
            Store::Udaf(own) => own.grow_to(groups),
        }
    }

    /// Forgets all groups, where they are in sets about so many bytes of them at most: whether all have been forgotten.
    pub(super) fn clear(&mut self, bytes_max: usize) -> bool {
        match self {
            Store::Lists(lists) => lists.clear(),
            Store::Set(set) => return set.clear(bytes_max),
            Store::Sketches(sketches) => sketches.clear(),
            Store::Udaf(own) => own.clear(),
        }
        true
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Store::Lists(lists) => lists.bytes(),
            Store::Set(set) => set.bytes(),
            Store::Sketches(sketches) => {
                sketches.capacity() * size_of::<Sketch>() + sketches.iter().map(Sketch::bytes).sum::<usize>()
            }
            Store::Udaf(own) => own.bytes(),
        }
    }
}

impl Table {
    /// Lets values reach an accumulator that keeps them in a store.
    ///
    /// # Panics
    /// Where the slot is no such accumulator, the values are not of its type, or an entry is out of range.
    pub fn update_store(&mut self, slot: usize, entries: Entries<'_>, values: &ArrayRef, positions: Positions<'_>) {
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if nulls.as_ref().map_or(0, |nulls| nulls.null_count()) == values.len() {
            return;
        }
        if let Entries::Each(entries) = entries {
            assert_eq!(entries.len(), values.len(), "one entry for each value");
        }
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let accumulate = self.layout.accumulators()[slot].accumulator.accumulate;
        if let (Accumulate::Values, Entries::Single(entry)) = (accumulate, entries) {
            let number = self.number(slot, entry);
            let valid = match nulls {
                None => values.clone(),
                Some(nulls) => filter(values, &nulls.into_inner().into()).expect("one bit for each value"),
            };
            let Store::Lists(lists) = self.store(slot) else { unreachable!("values are kept in lists") };
            return lists.append_all(number, &valid);
        }
        let numbers: Vec<u32> = match entries {
            Entries::Single(entry) => {
                let number = self.number(slot, entry);
                (0..values.len()).map(|row| if is_valid(row) { number } else { NO_NUMBER }).collect()
            }
            Entries::Each(entries) => self.numbers_of(slot, entries, is_valid),
        };
        let numbered = numbers.iter().copied().enumerate().filter(|(_, number)| *number != NO_NUMBER);
        match self.store(slot) {
            Store::Lists(lists) if accumulate == Accumulate::Arrivals => {
                lists.append_positions(numbered.map(|(at, number)| (positions.get(at), number)));
            }
            Store::Lists(lists) => lists.append(numbered, values),
            Store::Sketches(sketches) => {
                each_hash(values, numbered, |number, hash| sketches[number as usize].insert(hash));
            }
            Store::Udaf(own) => own.update(numbered, values, |at| positions.get(at)),
            Store::Set(set) => {
                let (rows, numbers): (Vec<u32>, Vec<u32>) = numbered.map(|(at, number)| (at as u32, number)).unzip();
                let values =
                    take(values, &UInt32Array::from(rows.clone()), None).expect("rows are those of the values");
                set.insert(&numbers, &values, rows.iter().map(|&row| positions.get(row as usize)));
            }
        }
    }

    fn store(&mut self, slot: usize) -> &mut Store {
        self.stores[slot].as_mut().expect("the accumulator has a store")
    }

    /// The number of an entry's group in a store, from 0; a group without one gets the next.
    fn number(&mut self, slot: usize, entry: u32) -> u32 {
        self.numbers_of(slot, &[entry], |_| true)[0]
    }

    /// The same for each of some entries, [`NO_NUMBER`] beside those that do not count.
    fn numbers_of(&mut self, slot: usize, entries: &[u32], counts: impl Fn(usize) -> bool) -> Vec<u32> {
        let AccumulatorSlot { offset, width, .. } = self.layout.accumulators()[slot];
        let place = self.place(offset, width).of(entries);
        let mut groups = self.store(slot).groups() as u32;
        let number = |(row, &entry): (usize, &u32)| {
            if !counts(row) {
                return NO_NUMBER;
            }
            // SAFETY: the entry is one of those that were asked for, and the state of such an accumulator is a number.
            unsafe {
                let state = place.address(entry).cast::<u32>();
                let held = state.read_unaligned();
                if held > 0 {
                    return held - 1;
                }
                groups += 1;
                state.write_unaligned(groups);
            }
            groups - 1
        };
        let numbers = entries.iter().enumerate().map(number).collect();
        self.store(slot).grow_to(groups as usize);
        numbers
    }

    /// The number of an entry's group, where it has values.
    fn known_number(&self, slot: usize, entry: u32) -> Option<u32> {
        let state = self.accumulator_address(&self.layout.accumulators()[slot], entry).cast::<u32>();
        // SAFETY: the state of such an accumulator is a number.
        unsafe { state.read_unaligned() }.checked_sub(1)
    }

    /// Adds what another table keeps for its entries `from` to what this one does for its entries `to`, or takes it away again.
    pub(super) fn combine_stores(
        &mut self,
        other: &Table,
        slot: usize,
        from: Chosen<'_>,
        to: Chosen<'_>,
        change: Change,
    ) {
        let Some(theirs) = &other.stores[slot] else { unreachable!("the accumulator has a store") };
        let known = from.iter().zip(to.iter()).filter_map(|(from, to)| Some((other.known_number(slot, from)?, to)));
        let (theirs_of, to): (Vec<u32>, Vec<u32>) = known.unzip();
        let pairs: Vec<(u32, u32)> = theirs_of.into_iter().zip(self.numbers_of(slot, &to, |_| true)).collect();
        match (self.store(slot), theirs) {
            (Store::Lists(mine), Store::Lists(theirs)) => {
                pairs.into_iter().for_each(|(from, to)| mine.append_list(to, theirs, from));
            }
            (Store::Set(mine), Store::Set(theirs)) => mine.merge(theirs, &pairs, change),
            (Store::Sketches(mine), Store::Sketches(theirs)) => {
                pairs.into_iter().for_each(|(from, to)| mine[to as usize].merge(&theirs[from as usize]));
            }
            (Store::Udaf(mine), Store::Udaf(theirs)) => mine.merge(theirs, &pairs, change),
            _ => unreachable!("tables of one layout have the same stores"),
        }
    }

    /// Finds values by group in the next slots of a set, so many at most, where that has not been done: how many slots there were. What has been found of which
    /// accumulator's set is in `indexing`.
    pub(super) fn index_stores(&self, indexing: &mut Option<(usize, Indexing)>, slots_max: usize) -> Option<usize> {
        let mut sets = self.stores.iter().enumerate().filter_map(|(slot, store)| match store {
            Some(Store::Set(set)) => Some((slot, set)),
            _ => None,
        });
        let (slot, set) = sets.find(|(_, set)| !set.is_indexed())?;
        let mut found = indexing.take().filter(|(of, _)| *of == slot).map(|(_, found)| found);
        let slots = set.index_slots(&mut found, slots_max);
        *indexing = found.map(|found| (slot, found));
        Some(slots)
    }

    /// What the accumulator `slot` keeps in its store.
    ///
    /// # Panics
    /// Where it has none.
    pub fn value_groups(&self, slot: usize) -> ValueGroups<'_> {
        assert!(self.stores[slot].is_some(), "the accumulator has a store");
        ValueGroups { table: self, slot }
    }

    /// The values that a function of the program's own has for the groups of entries.
    ///
    /// # Errors
    /// What the function's own code returned as its first error.
    ///
    /// # Panics
    /// Where the accumulator has no such function.
    pub fn own_values(&self, slot: usize, entries: Chosen<'_>) -> Result<ArrayRef, String> {
        let Some(Store::Udaf(own)) = &self.stores[slot] else { panic!("the accumulator has a function of its own") };
        let numbers: Vec<Option<u32>> = entries.iter().map(|entry| self.known_number(slot, entry)).collect();
        own.finish(&numbers)
    }
}

impl ValueGroups<'_> {
    /// How many values each entry's group has, or about how many.
    pub fn counts(&self, entries: Chosen<'_>) -> Vec<usize> {
        let count = |number: u32| match self.store() {
            Store::Lists(lists) => lists.length(number),
            Store::Set(set) => set.count(number),
            Store::Sketches(sketches) => sketches[number as usize].estimate() as usize,
            Store::Udaf(_) => panic!("no values are kept"),
        };
        self.numbers(entries).into_iter().map(|number| number.map_or(0, count)).collect()
    }

    /// The values of the entries' groups. Those of a set come in any order.
    ///
    /// # Panics
    /// Where no values are kept.
    pub fn of(&self, entries: Chosen<'_>) -> GroupedValues {
        match self.store() {
            Store::Lists(lists) => {
                let (offsets, values) = lists.gather(&self.numbers(entries));
                GroupedValues { offsets, values }
            }
            Store::Set(set) => {
                let (offsets, held) = self.listed(set, entries);
                GroupedValues { offsets, values: set.value_array(&held) }
            }
            Store::Sketches(_) | Store::Udaf(_) => panic!("no values are kept"),
        }
    }

    /// The positions of the values of [`ValueGroups::of`]: of a set that keeps them, or of the lists that this accumulator keeps.
    ///
    /// # Panics
    /// Where it keeps no positions.
    pub fn positions(&self, entries: Chosen<'_>) -> Vec<u64> {
        let positions = match self.store() {
            Store::Lists(lists) => lists.gather(&self.numbers(entries)).1,
            Store::Set(set) => return set.notes(&self.listed(set, entries).1),
            Store::Sketches(_) | Store::Udaf(_) => panic!("no positions are kept"),
        };
        positions.as_primitive::<UInt64Type>().values().to_vec()
    }

    /// How often each of the values of [`ValueGroups::of`] came; `None` where each is kept as often.
    ///
    /// # Panics
    /// Where no values are kept.
    pub fn frequencies(&self, entries: Chosen<'_>) -> Option<Vec<i64>> {
        match self.store() {
            Store::Lists(_) => None,
            Store::Set(set) => {
                Some(set.notes(&self.listed(set, entries).1).into_iter().map(|count| count as i64).collect())
            }
            Store::Sketches(_) | Store::Udaf(_) => panic!("no values are kept"),
        }
    }

    fn store(&self) -> &Store {
        self.table.stores[self.slot].as_ref().expect("the accumulator has a store")
    }

    fn numbers(&self, entries: Chosen<'_>) -> Vec<Option<u32>> {
        entries.iter().map(|entry| self.table.known_number(self.slot, entry)).collect()
    }

    /// The set's entries that are the values of the entries' groups.
    fn listed(&self, set: &Set, entries: Chosen<'_>) -> (Vec<usize>, Vec<u32>) {
        let (mut offsets, mut listed) = (vec![0], Vec::new());
        for number in self.numbers(entries) {
            listed.extend_from_slice(number.map_or(&[], |number| set.of(number)));
            offsets.push(listed.len());
        }
        (offsets, listed)
    }
}
