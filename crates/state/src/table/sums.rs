//! What groups have accumulated in two lists together: windows that are the sum of older and of younger slices.

use pelton_data::aggregate::Accumulate;

use super::{Chosen, Table};

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
