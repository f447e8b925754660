//! What groups have accumulated in two lists together: windows that are the sum of older and of younger slices.

use pelton_data::aggregate::Accumulate;

use super::{Chosen, KeyLayout, Table};

/// Rows of groups, one behind the other, each of the same groups in their order: what they have accumulated is the sum of what neighbours have in one list, if
/// any, and in another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummedRows<'a> {
    /// Groups of a row.
    pub groups: usize,
    pub rows: usize,
    /// A list, and the first of the neighbours.
    pub older: Option<(&'a Table, usize)>,
    /// Another.
    pub younger: (&'a Table, usize),
}

impl SummedRows<'_> {
    /// Of how many rows, from the first on, each group is in one of the lists: its count or flag `slot` is not zero there.
    ///
    /// # Panics
    /// Where these are no lists, or have neither there.
    pub(crate) fn complete(&self, slot: usize) -> usize {
        fn complete<T: Copy + Default + PartialEq>(groups: usize, older: Option<&[T]>, younger: &[T]) -> usize {
            let is_there = |number: &T| *number != T::default();
            let Some(older) = older else {
                return younger.chunks_exact(groups).take_while(|row| row.iter().all(is_there)).count();
            };
            let lacks = |(one, other): (&T, &T)| !is_there(one) && !is_there(other);
            younger.iter().zip(older).position(lacks).unwrap_or(younger.len()) / groups
        }
        let (table, first) = self.younger;
        let all = |first: usize| first..first + self.groups * self.rows;
        match table.layout.accumulators()[slot].accumulator.accumulate {
            Accumulate::Count => {
                let older = self.older.map(|(table, first)| &table.counts(slot)[all(first)]);
                complete(self.groups, older, &table.counts(slot)[all(first)])
            }
            _ => {
                let older = self.older.map(|(table, first)| &table.flags(slot)[all(first)]);
                complete(self.groups, older, &table.flags(slot)[all(first)])
            }
        }
    }
}

impl Table {
    /// Whether each of the first so many groups is in one of two lists, both of which may have fewer: its count or flag `slot` is not zero there.
    ///
    /// # Panics
    /// Where these are no lists, or have neither there.
    pub(crate) fn are_all_in_either(slot: usize, groups: usize, lists: (Option<&Table>, &Table)) -> bool {
        let (older, younger) = lists;
        match younger.layout.accumulators()[slot].accumulator.accumulate {
            Accumulate::Count => {
                are_all_nonzero(groups, older.map_or(&[], |older| older.counts(slot)), younger.counts(slot))
            }
            _ => are_all_nonzero(groups, older.map_or(&[], |older| older.flags(slot)), younger.flags(slot)),
        }
    }

    /// Appends so many groups to a list, with keys in their order where this one has its keys not from another: of what they have accumulated, the sums of
    /// what they have in two lists of the first of them.
    ///
    /// # Panics
    /// Where these are no lists, the layouts differ, or one of the lists has more groups.
    pub(crate) fn append_sums(&mut self, keys: Option<&Table>, groups: usize, lists: (Option<&Table>, &Table)) {
        let first = match keys {
            Some(keys) => self.extend_keys(keys, Chosen::first(groups)),
            None => {
                let (layout, list) = self.listed();
                list.extend(layout, groups)
            }
        };
        let known = lists.0.map_or(0, Table::groups);
        assert!(known.max(lists.1.groups()) <= groups, "there is a group for each");
        if let Some(older) = lists.0 {
            self.set_values(older, Chosen::first(known), first);
        }
        self.reset(first + known, groups - known);
        let count = lists.1.groups();
        self.add_at(lists.1, Chosen::first(count), Chosen::Neighbours { first, count });
    }

    /// Appends rows of groups to a list, each with keys in their order where this one has its keys not from another, and their sums.
    ///
    /// # Panics
    /// Where these are no lists, or the layouts differ.
    pub(crate) fn append_rows(&mut self, keys: Option<&Table>, rows: SummedRows<'_>) {
        let first = self.groups();
        match keys {
            Some(keys) if *self.layout.keys() != KeyLayout::None => {
                for _ in 0..rows.rows {
                    self.extend_keys(keys, Chosen::first(rows.groups));
                }
            }
            _ => {
                let (layout, list) = self.listed();
                list.extend(layout, rows.rows * rows.groups);
            }
        }
        self.set_sums(first, rows);
    }

    /// Gives the first groups of a list, which accumulate nothing beside their entries, the sums of rows, and the others what they have before any value.
    ///
    /// # Panics
    /// As [`Table::append_rows`], and where there are fewer groups.
    pub(crate) fn replace_by_sums(&mut self, rows: SummedRows<'_>) {
        self.set_sums(0, rows);
        let count = rows.rows * rows.groups;
        self.reset(count, self.groups() - count);
    }

    fn set_sums(&mut self, first: usize, SummedRows { groups, rows, older, younger }: SummedRows<'_>) {
        let neighbours = |first: usize| Chosen::Neighbours { first, count: rows * groups };
        match older {
            Some((older, from)) => self.set_values(older, neighbours(from), first),
            None => self.reset(first, rows * groups),
        }
        self.add_at(younger.0, neighbours(younger.1), neighbours(first));
    }
}

/// Whether one of two numbers is not zero, of each of so many pairs; numbers that are missing are.
fn are_all_nonzero<T>(count: usize, some: &[T], others: &[T]) -> bool
where
    T: Copy + Default + PartialEq,
{
    let (longer, shorter) = if some.len() < others.len() { (others, some) } else { (some, others) };
    let (both, rest) = longer.split_at(shorter.len());
    let is_there = |number: &T| *number != T::default();
    // All are looked at: many at a time.
    longer.len() >= count
        && both.iter().zip(shorter).fold(true, |all, (one, other)| all & (is_there(one) | is_there(other)))
        && rest.iter().fold(true, |all, number| all & is_there(number))
}
