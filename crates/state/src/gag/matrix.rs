//! Two stacks of slices of few groups, as matrices: a row of groups for each slice. Slices that follow each other come together, and the windows that they
//! complete leave together, each by a few operations over the values of all rows, side by side.

use std::sync::Arc;

use pelton_data::Micros;

use super::Slice;
use super::two_stacks::Lists;
use crate::layout::EntryLayout;
use crate::table::{Chosen, SummedRows, Table};
use crate::two_stacks::TwoStacks;

/// Slices of more groups have lists of their own: what is done with these costs more than to call it.
const GROUPS_MAX: usize = 32;

/// Rows of more values together have so as well: suffixes are made of all at once, and lists where a slice comes late.
const VALUES_MAX: usize = 1 << 12;

/// The same where no slice comes late: suffixes of so many values take some milliseconds.
const VALUES_IN_ORDER_MAX: usize = 1 << 22;

/// Values of suffixes that are made by one call: their places stay in the cache.
const FLIPPED_VALUES: usize = 1 << 12;

/// Two stacks of slices of the same groups.
#[derive(Debug)]
pub(super) struct Matrix {
    /// How many groups a row has.
    groups: usize,
    /// The accumulator that is zero where a slice does not have the group.
    presence: usize,
    /// Whether no slice comes behind a later one.
    come_in_order: bool,
    /// The older slices, each later in time than the one before, and with all younger ones of this stack added.
    older: Rows,
    /// So many of them have left.
    left: usize,
    /// The younger slices, as they came.
    younger: Rows,
    /// Each of them is later in time than the one before.
    are_in_order: bool,
    /// Each of these with all before it added, as far as this has been done.
    sums: Table,
    /// A window has lacked a group since suffixes were made: the next ones are likely to.
    is_incomplete: bool,
    /// Buffers that are reused.
    from: Vec<u32>,
    to: Vec<u32>,
}

/// Slices, a row of groups each.
#[derive(Debug)]
struct Rows {
    last_ends: Vec<Micros>,
    values: Table,
}

fn values_max(come_in_order: bool) -> usize {
    if come_in_order { VALUES_IN_ORDER_MAX } else { VALUES_MAX }
}

impl Rows {
    fn new(layout: &Arc<EntryLayout>) -> Rows {
        Rows { last_ends: Vec::new(), values: Table::list(layout.clone()) }
    }

    fn clear(&mut self) {
        self.last_ends.clear();
        self.values.clear();
    }

    /// A list of one row.
    fn row(values: &Table, row: usize, groups: usize) -> Table {
        let mut list = Table::list(values.layout().clone());
        list.append_values(values, Chosen::Neighbours { first: row * groups, count: groups });
        list
    }
}

impl Matrix {
    /// Suffixes of slices of the first `groups` groups; `None` where lists suit them better.
    pub(super) fn of<'s>(
        slices: impl ExactSizeIterator<Item = &'s Slice> + Clone,
        groups: usize,
        layout: &Arc<EntryLayout>,
        (presence, come_in_order): (usize, bool),
    ) -> Option<Matrix> {
        let are_in_order = slices.clone().is_sorted_by(|one, next| one.last_end < next.last_end);
        let are_few = slices.len() > 0
            && (1..=GROUPS_MAX).contains(&groups)
            && slices.len() * groups <= values_max(come_in_order);
        if !are_in_order || !are_few || layout.has_references() {
            return None;
        }
        let (older, younger, sums) = (Rows::new(layout), Rows::new(layout), Table::list(layout.clone()));
        let (from, to, is_incomplete) = (Vec::new(), Vec::new(), false);
        let left = 0;
        let mut matrix = Matrix {
            groups,
            presence,
            come_in_order,
            older,
            left,
            younger,
            are_in_order,
            sums,
            is_incomplete,
            from,
            to,
        };
        slices.for_each(|slice| matrix.push(slice));
        matrix.flip(0);
        Some(matrix)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.older_rows() == 0 && self.younger.last_ends.is_empty()
    }

    /// How many groups each slice has.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    fn older_rows(&self) -> usize {
        self.older.last_ends.len() - self.left
    }

    /// Whether a slice of the first `groups` groups is one of the younger.
    pub(super) fn takes(&self, last_end: Micros, groups: usize) -> bool {
        let is_younger = self.older_ends().last().is_none_or(|&youngest| youngest < last_end);
        groups == self.groups && is_younger && self.room() > 0
    }

    /// How many younger slices may come.
    fn room(&self) -> usize {
        (values_max(self.come_in_order) / self.groups).saturating_sub(self.younger.last_ends.len())
    }

    /// Takes a slice, which [`Matrix::takes`] says that it does.
    pub(super) fn push(&mut self, slice: &Slice) {
        let last = self.younger.last_ends.len().checked_sub(1);
        // The other part of a slice that two workers have rows of.
        let same = last.filter(|&last| self.younger.last_ends[last] == slice.last_end);
        let same = same.map(|last| last * self.groups).filter(|&first| self.sums.groups() <= first);
        let first = same.unwrap_or_else(|| self.younger.values.append_blank(self.groups)) as u32;
        self.to.clear();
        self.to.extend(slice.numbers().iter().map(|number| first + number));
        self.younger.values.add_at(&slice.values, Chosen::first(slice.values.groups()), &self.to);
        if same.is_none() {
            self.are_in_order &= self.younger.last_ends.last().is_none_or(|&last| last < slice.last_end);
            self.younger.last_ends.push(slice.last_end);
        }
    }

    /// The ends of the last windows of the older slices.
    fn older_ends(&self) -> &[Micros] {
        &self.older.last_ends[self.left..]
    }

    /// How many windows, of so many, may be closed together, the first of which ends at `end` and each other `slide` later: an older slice leaves behind each. Where
    /// there is no older one it is one.
    pub(super) fn run_max(&self, count: usize, end: Micros, slide: Micros) -> usize {
        if self.is_incomplete {
            return 0;
        }
        let ends = std::iter::successors(Some(end), |end| end.checked_add(slide)).take(count);
        let leaving = self.older_ends().iter().zip(ends).take_while(|(last_end, end)| *last_end == end).count();
        let most = if self.older_rows() == 0 { count.min(1) } else { leaving };
        most.min(self.room())
    }

    /// Takes slices whose last windows end then, as far as no window lacks a group that they complete. What they have are entries of a table, and `to` says in which row
    /// of these, and which group of it. Returns how many have been taken.
    pub(super) fn push_complete(
        &mut self,
        last_ends: impl ExactSizeIterator<Item = Micros>,
        (table, entries): (&Table, &[u32]),
        to: &mut [u32],
    ) -> usize {
        let (before, count) = (self.younger.last_ends.len(), last_ends.len());
        let first = self.younger.values.append_blank(count * self.groups) as u32;
        to.iter_mut().for_each(|to| *to += first);
        self.younger.values.add_at(table, entries, &*to);
        self.younger.last_ends.extend(last_ends);
        let are_all_there = self.add_up();
        let complete = if are_all_there { count } else { self.windows(count).complete(self.presence) };
        self.is_incomplete = complete == 0;
        let rows = before + complete;
        self.younger.last_ends.truncate(rows);
        self.younger.values.truncate(rows * self.groups);
        self.sums.truncate(rows * self.groups);
        complete
    }

    /// Adds up the younger slices that have come since: whether each has all groups.
    fn add_up(&mut self) -> bool {
        let (known, all) = (self.sums.groups(), self.younger.values.groups());
        let are_all_there = self.younger.values.are_all_flagged(self.presence, known);
        let Matrix { groups, younger, sums, from, to, .. } = self;
        sums.append_values(&younger.values, Chosen::Neighbours { first: known, count: all - known });
        // Each row of the one before, in their order.
        let first = known.max(*groups) as u32;
        to.clear();
        to.extend(first..all as u32);
        from.clear();
        from.extend(to.iter().map(|to| to - *groups as u32));
        sums.add_within(from, to, are_all_there.then_some(self.presence));
        are_all_there
    }

    /// What the windows are the sums of that end with the last slices, so many of them, as long as of each the oldest slice leaves behind it.
    pub(super) fn windows(&self, count: usize) -> SummedRows<'_> {
        let younger = (&self.sums, self.sums.groups() - count * self.groups);
        let older = (self.older_rows() > 0).then_some((&self.older.values, self.left * self.groups));
        SummedRows { groups: self.groups, rows: count, older, younger }
    }

    /// Puts the window of all slices together.
    pub(super) fn combine(&mut self, window: &mut Table) {
        self.add_up();
        if self.younger.last_ends.is_empty() {
            let oldest = Chosen::Neighbours { first: self.left * self.groups, count: self.groups };
            window.reset_accumulators();
            return window.add_at(&self.older.values, oldest, Chosen::first(self.groups));
        }
        window.replace_by_sums(self.windows(1));
    }

    /// Forgets the slices whose last window ends at or before `end`. Where the older ones are used up, makes suffixes of the younger ones. Returns how many
    /// groups something was done with; `None` where the younger ones must be put in order first.
    pub(super) fn evict(&mut self, end: Micros) -> Option<usize> {
        self.left += self.older_ends().iter().take_while(|last_end| **last_end <= end).count();
        if self.older_rows() > 0 || self.younger.last_ends.iter().all(|last_end| *last_end > end) {
            return Some(0);
        }
        if !self.are_in_order {
            return None;
        }
        self.flip(self.younger.last_ends.partition_point(|last_end| *last_end <= end));
        Some(self.older_rows() * self.groups)
    }

    /// Makes suffixes of the younger slices, but for the first ones.
    fn flip(&mut self, first: usize) {
        std::mem::swap(&mut self.older, &mut self.younger);
        self.younger.clear();
        self.sums.clear();
        (self.left, self.are_in_order, self.is_incomplete) = (first, true, false);
        let Matrix { groups, presence, older, from, to, .. } = self;
        let are_all_there = older.values.are_all_flagged(*presence, first * *groups);
        // To each row the one behind it, from the last but one on.
        let (last, mut end) = ((first + 1) * *groups, older.values.groups());
        while end > last {
            let start = last.max(end.saturating_sub(FLIPPED_VALUES));
            from.clear();
            from.extend((start..end).rev().map(|group| group as u32));
            to.clear();
            to.extend(from.iter().map(|from| from - *groups as u32));
            older.values.add_within(from, to, are_all_there.then_some(*presence));
            end = start;
        }
    }

    /// The same as lists.
    pub(super) fn lists(&self) -> Lists {
        let row = |rows: &Rows, row: usize| (rows.last_ends[row], Rows::row(&rows.values, row, self.groups));
        let suffixes = (self.left..self.older.last_ends.len()).rev().map(|at| row(&self.older, at));
        let slices = (0..self.younger.last_ends.len()).map(|at| {
            let (last_end, values) = row(&self.younger, at);
            Arc::new(Slice { last_end, values, to: None })
        });
        let added_up = self.sums.groups() / self.groups;
        let mut prefix = match added_up.checked_sub(1) {
            Some(last) => Rows::row(&self.sums, last, self.groups),
            None => Table::list(self.sums.layout().clone()),
        };
        for at in added_up..self.younger.last_ends.len() {
            if prefix.groups() == 0 {
                prefix.append_blank(self.groups);
            }
            let row = Chosen::Neighbours { first: at * self.groups, count: self.groups };
            prefix.add_at(&self.younger.values, row, Chosen::first(self.groups));
        }
        let stacks = TwoStacks::of_parts(suffixes.collect(), prefix);
        Lists::new((self.presence, self.come_in_order), stacks, slices.collect())
    }

    pub(super) fn bytes(&self) -> usize {
        let ends = self.older.last_ends.capacity() + self.younger.last_ends.capacity();
        let values = self.older.values.bytes() + self.younger.values.bytes() + self.sums.bytes();
        values + 8 * ends + 4 * (self.from.capacity() + self.to.capacity())
    }
}
