//! Windows from which the slices that leave are subtracted.

use std::collections::VecDeque;
use std::ops::Range;

use pelton_data::Micros;

use super::snapshot::{Known, write_slices};
use super::{Progress, Slice, Spare};
use crate::layout::EntryLayout;
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::table::{ABSENT, Chosen, Table};
use crate::work::Work;

/// Subtract on evict. The window has only groups that a slice has, in any order.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Ascending by last end.
    slices: VecDeque<Slice>,
    /// Where each numbered group is in the window; [`ABSENT`] where it has left it.
    places: Vec<u32>,
    /// The number of each group of the window.
    numbers: Vec<u32>,
    /// Groups that have come into the window since groups were numbered.
    pub(super) added: usize,
    /// Accumulators that cannot be subtracted, which are combined anew for each window.
    recomputed: Vec<usize>,
    /// How far the first slice has been subtracted.
    evicted: Progress,
}

impl Running {
    /// No slices yet, with these accumulators.
    pub(super) fn new(layout: &EntryLayout) -> Running {
        let slots = layout.accumulators().iter().enumerate();
        let recomputed = slots.filter(|(_, slot)| !slot.accumulator.accumulate.is_invertible());
        Running { recomputed: recomputed.map(|(index, _)| index).collect(), ..Running::default() }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Running { recomputed: std::mem::take(&mut self.recomputed), ..Running::default() };
    }

    /// Adds what entries of a table have of the groups with these numbers to the window. `keys` has the keys of all numbers.
    pub(super) fn add(
        &mut self,
        window: &mut Table,
        keys: &Table,
        (table, entries): (&Table, &[u32]),
        to: &[u32],
        spare: &mut Spare,
    ) {
        let Spare { new, places, .. } = spare;
        places.clear();
        new.clear();
        self.places.resize(keys.groups(), ABSENT);
        let mut groups = self.numbers.len() as u32;
        for &number in to {
            let place = &mut self.places[number as usize];
            if *place == ABSENT {
                *place = groups;
                groups += 1;
                self.numbers.push(number);
                new.push(number);
            }
            places.push(*place);
        }
        self.added += new.len();
        if !new.is_empty() {
            window.append_keys(keys, &*new);
        }
        window.add_without(&self.recomputed, table, entries, &*places);
    }

    /// Combines anew what cannot be subtracted, as long as there is work left, from where that is `done`: whether all have been.
    pub(super) fn combine(&self, window: &mut Table, done: &mut Progress, spare: &mut Spare, work: &mut Work) -> bool {
        if self.recomputed.is_empty() {
            return true;
        }
        if *done == Progress::default() {
            window.reset_some(&self.recomputed);
        }
        while let Some(slice) = self.slices.get(done.slices) {
            if work.is_done() {
                return false;
            }
            let part = done.next(&slice.values, work);
            let places = &mut spare.places;
            places.clear();
            places.extend(slice.numbers().part(part.clone()).iter().map(|number| self.places[number as usize]));
            window.add_some(&self.recomputed, &slice.values, Chosen::first(part.end).part(part), &*places);
        }
        true
    }

    /// Where each numbered group is in the window; [`ABSENT`] where it has left it.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    /// Keeps a slice whose groups have been added.
    pub(super) fn insert(&mut self, slice: Slice) {
        let at = self.slices.partition_point(|other| other.last_end <= slice.last_end);
        self.slices.insert(at, slice);
    }

    /// Subtracts the slices whose last window ends at or before `end`, as long as there is work left: whether all have left.
    pub(super) fn evict(
        &mut self,
        end: Micros,
        window: &mut Table,
        presence: usize,
        spare: &mut Spare,
        work: &mut Work,
    ) -> bool {
        while let Some(slice) = self.slices.front().filter(|slice| slice.last_end <= end) {
            if work.is_done() {
                return false;
            }
            let part = self.evicted.next(&slice.values, work);
            self.evict_part(part, window, presence, spare);
            if self.evicted.slices > 0 {
                self.evicted = Progress::default();
                self.slices.pop_front().into_iter().for_each(|slice| spare.keep(slice));
            }
        }
        true
    }

    /// Subtracts some groups of the first slice, and leaves out those that no other slice has.
    fn evict_part(&mut self, part: Range<usize>, window: &mut Table, presence: usize, spare: &mut Spare) {
        let slice = &self.slices[0];
        let of_part = || slice.numbers().part(part.clone()).iter();
        let places = &mut spare.places;
        places.clear();
        places.extend(of_part().map(|number| self.places[number as usize]));
        let from = Chosen::first(part.end).part(part.clone());
        window.subtract_without(&self.recomputed, &slice.values, from, &*places);
        let counts = window.counts(presence);
        let left = of_part().zip(&*places).filter(|(_, place)| counts[**place as usize] == 0);
        let left: Vec<u32> = left.map(|(number, _)| number).collect();
        places.clear();
        for number in left {
            let place = std::mem::replace(&mut self.places[number as usize], ABSENT);
            self.numbers.swap_remove(place as usize);
            if let Some(&moved) = self.numbers.get(place as usize) {
                self.places[moved as usize] = place;
            }
            places.push(place);
        }
        window.swap_remove(places);
    }

    /// Gives each group of the window its place, which are all of `numbers`, for a number.
    pub(super) fn renumber(&mut self, numbers: Vec<u32>) {
        self.slices.iter_mut().for_each(|slice| slice.renumber(&self.places));
        self.added = numbers.len();
        (self.places, self.numbers) = (numbers.clone(), numbers);
    }

    /// Writes the slices.
    pub(super) fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        write_slices(&self.slices, out)
    }

    /// Becomes what was written: the groups of the window have the given numbers, and `counts` of what slices count.
    pub(super) fn read_from(
        &mut self,
        numbers: Vec<u32>,
        counts: &[i64],
        known: &Known<'_>,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        self.places = vec![ABSENT; known.groups];
        for (place, &number) in (0..).zip(&numbers) {
            let before = std::mem::replace(&mut self.places[number as usize], place);
            input.check(before == ABSENT, "groups that are once in a window")?;
        }
        self.slices = known.read_slices(input)?.into();
        // A group leaves the window with its last slice.
        let mut left: Vec<Option<i64>> = counts.iter().map(|count| Some(*count)).collect();
        for slice in &self.slices {
            for (number, &count) in slice.numbers().iter().zip(slice.values.counts(known.presence)) {
                let place = self.places[number as usize];
                input.check(place != ABSENT && count > 0, "slices of groups of the window")?;
                let left = &mut left[place as usize];
                *left = left.and_then(|left| left.checked_sub(count)).filter(|left| *left >= 0);
            }
        }
        input.check(left.iter().all(|left| *left == Some(0)), "groups that have what their slices have")?;
        input.check(counts.iter().all(|count| *count > 0), "groups of a window that a slice has")?;
        input
            .check(self.slices.iter().is_sorted_by_key(|slice| slice.last_end), "slices in the order of their ends")?;
        self.added = numbers.len();
        self.numbers = numbers;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        let slices: usize = self.slices.iter().map(Slice::bytes).sum();
        slices + 4 * (self.places.len() + self.numbers.len())
    }
}
