//! Windows of aggregates that cannot be subtracted (LightSaber, Fig. 2).

use std::cmp::Reverse;
use std::sync::Arc;

use pelton_data::Micros;

use super::snapshot::{Known, write_slices};
use super::{Slice, Spare};
use crate::layout::EntryLayout;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Chosen, Table};
use crate::window::Work;

/// Two stacks.
#[derive(Debug)]
pub(super) struct TwoStacks {
    /// The older slices, each with all younger ones of this stack added; the oldest is the last.
    suffixes: Vec<Suffix>,
    /// The younger slices.
    slices: Vec<Slice>,
    /// All of `slices` added.
    prefix: Table,
    /// Suffixes are being made of the younger slices.
    is_flipping: bool,
}

/// All groups of a slice and of those after it.
#[derive(Debug)]
struct Suffix {
    last_end: Micros,
    values: Table,
}

impl TwoStacks {
    pub(super) fn new(layout: &Arc<EntryLayout>) -> TwoStacks {
        let prefix = Table::list(layout.clone());
        TwoStacks { suffixes: Vec::new(), slices: Vec::new(), prefix, is_flipping: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.suffixes.is_empty() && self.slices.is_empty()
    }

    /// Puts the window of all slices together.
    pub(super) fn combine(&self, window: &mut Table) {
        match self.suffixes.last() {
            Some(oldest) => window.replace_values(&oldest.values),
            None => window.reset_accumulators(),
        }
        let younger = Chosen::first(self.prefix.groups());
        window.add_at(&self.prefix, younger, younger);
    }

    /// Inserts a slice whose groups are among the first `groups`.
    pub(super) fn insert(&mut self, slice: Slice, groups: usize, spare: &mut Spare) {
        if self.suffixes.first().is_none_or(|youngest| youngest.last_end < slice.last_end) {
            add_to_all(&mut self.prefix, groups, &slice);
            self.slices.push(slice);
            return;
        }
        // It came late, among the older ones: all windows that begin no later than its last one have it.
        let at = self.suffixes.partition_point(|younger| younger.last_end > slice.last_end);
        for older in &mut self.suffixes[at..] {
            add_to_all(&mut older.values, groups, &slice);
        }
        if self.suffixes.get(at).is_none_or(|same| same.last_end != slice.last_end) {
            let younger = at.checked_sub(1).map(|younger| &self.suffixes[younger].values);
            let values = suffix(younger, groups, &slice, spare);
            self.suffixes.insert(at, Suffix { last_end: slice.last_end, values });
        }
        spare.keep(slice);
    }

    /// Forgets the slices whose last window ends at or before `end`. Where the older ones are used up, makes suffixes of the younger ones, as long as
    /// there is work left: whether that has been done.
    pub(super) fn evict(&mut self, end: Micros, groups: usize, spare: &mut Spare, work: &mut Work) -> bool {
        if !self.is_flipping {
            while let Some(suffix) = self.suffixes.pop_if(|suffix| suffix.last_end <= end) {
                spare.keep_list(suffix.values);
            }
            if !self.suffixes.is_empty() {
                return true;
            }
            let slices = self.slices.len();
            self.slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| spare.keep(slice));
            if self.slices.len() == slices {
                return true;
            }
            self.prefix.clear();
            self.slices.sort_by_key(|slice| Reverse(slice.last_end));
            self.slices.reverse();
        }
        self.is_flipping = true;
        while let Some(slice) = self.slices.pop_if(|_| !work.is_done()) {
            let younger = self.suffixes.last().map(|younger| &younger.values);
            let last_end = slice.last_end;
            let values = suffix_of(younger, groups, slice, spare);
            self.suffixes.push(Suffix { last_end, values });
            work.spend(groups);
        }
        self.is_flipping = !self.slices.is_empty();
        !self.is_flipping
    }

    /// Forgets all numbers, when no slice is left.
    pub(super) fn clear(&mut self) {
        self.prefix.clear();
    }

    /// Gives the groups that are `present` other numbers, in their order, and forgets the others; `numbers` has the new ones by the old.
    pub(super) fn renumber(&mut self, present: Chosen<'_>, numbers: &[u32]) {
        self.slices.iter_mut().for_each(|slice| slice.renumber(numbers));
        for values in self.suffixes.iter_mut().map(|suffix| &mut suffix.values).chain([&mut self.prefix]) {
            let known: Vec<u32> = present.iter().take_while(|&old| (old as usize) < values.groups()).collect();
            let mut list = Table::list(values.layout().clone());
            list.append_values(values, &known);
            *values = list;
        }
    }

    /// Writes both stacks, no suffixes being made.
    pub(super) fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(self.suffixes.len());
        for suffix in &self.suffixes {
            out.instant(suffix.last_end);
            suffix.values.write_to(out)?;
        }
        write_slices(&self.slices, out)?;
        self.prefix.write_to(out)
    }

    /// Becomes what was written.
    pub(super) fn read_from(&mut self, known: &Known<'_>, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..input.count(1, "suffixes")? {
            let last_end = known.read_last_end(input)?;
            let is_older = self.suffixes.last().is_none_or(|younger| last_end <= younger.last_end);
            input.check(is_older, "suffixes in the order of their ends")?;
            self.suffixes.push(Suffix { last_end, values: known.read_list(input)? });
        }
        self.slices = known.read_slices(input)?;
        self.prefix = known.read_list(input)?;
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        let suffixes: usize = self.suffixes.iter().map(|suffix| suffix.values.bytes()).sum();
        suffixes + self.slices.iter().map(Slice::bytes).sum::<usize>() + self.prefix.bytes()
    }
}

/// As [`suffix`], of a slice that is needed for nothing else: one that has all groups becomes its suffix where it lies, for no accumulator tells
/// what it is added to from what is added.
fn suffix_of(younger: Option<&Table>, groups: usize, mut slice: Slice, spare: &mut Spare) -> Table {
    let younger_groups = younger.map_or(0, Table::groups);
    let is_in_place = slice.to.is_none() && !slice.values.layout().has_references();
    if is_in_place && slice.values.groups() == groups && younger_groups <= groups {
        if let Some(younger) = younger {
            let all = Chosen::first(younger_groups);
            slice.values.add_at(younger, all, all);
        }
        return slice.values;
    }
    let values = suffix(younger, groups, &slice, spare);
    spare.keep(slice);
    values
}

/// A slice's groups among those of the younger suffix.
fn suffix(younger: Option<&Table>, groups: usize, slice: &Slice, spare: &mut Spare) -> Table {
    let mut values = spare.list(slice.values.layout());
    values.reserve(groups);
    if let Some(younger) = younger {
        values.append_values(younger, Chosen::first(younger.groups()));
    }
    add_to_all(&mut values, groups, slice);
    values
}

/// Adds a slice to a list of all groups, which may have been shorter when the list was made.
fn add_to_all(values: &mut Table, groups: usize, slice: &Slice) {
    if values.groups() < groups {
        values.append_blank(groups - values.groups());
    }
    values.add_at(&slice.values, Chosen::first(slice.values.groups()), slice.numbers());
}
