//! Which groups of a list there are: a count of each, or a flag, says so.

use pelton_data::aggregate::Accumulate;

use super::{Chosen, Table};

impl Table {
    /// The groups of a list whose count or flag `slot` is not zero. `scratch` is overwritten.
    ///
    /// # Panics
    /// Where this is no list, or has neither there.
    pub fn present<'a>(&self, slot: usize, scratch: &'a mut Vec<u32>) -> Chosen<'a> {
        match self.layout.accumulators()[slot].accumulator.accumulate {
            Accumulate::Count => nonzero(self.counts(slot), scratch),
            _ => nonzero(self.flags(slot), scratch),
        }
    }

    /// How many groups of a list there are whose count or flag `slot` is not zero.
    ///
    /// # Panics
    /// Where this is no list, or has neither there.
    pub fn count_present(&self, slot: usize) -> usize {
        match self.layout.accumulators()[slot].accumulator.accumulate {
            Accumulate::Count => self.counts(slot).iter().filter(|&&count| count != 0).count(),
            _ => self.flags(slot).iter().filter(|&&flag| flag != 0).count(),
        }
    }

    /// Whether each group of a list, from `first` on, has a flag `slot` that is not zero. Of counts nothing is said.
    ///
    /// # Panics
    /// Where this is no list.
    pub(crate) fn are_all_flagged(&self, slot: usize, first: usize) -> bool {
        let is_flag = self.layout.accumulators()[slot].accumulator.accumulate != Accumulate::Count;
        is_flag && self.flags(slot)[first..].iter().fold(true, |all, &flag| all & (flag != 0))
    }

    /// The counters `slot` of the groups of a list.
    ///
    /// # Panics
    /// Where this is no list, or has no such counter.
    pub fn counts(&self, slot: usize) -> &[i64] {
        let place = &self.layout.accumulators()[slot];
        assert_eq!(place.accumulator.accumulate, Accumulate::Count);
        let groups = self.groups();
        let counts = self.place(place.offset, place.width).neighbours(0, groups);
        // SAFETY: there is a count of eight bytes for each group, aligned as all columns are, and the table is borrowed.
        unsafe { std::slice::from_raw_parts(counts.cast(), groups) }
    }

    /// The accumulators `slot` of the groups of a list, of one byte each.
    pub(super) fn flags(&self, slot: usize) -> &[u8] {
        let place = &self.layout.accumulators()[slot];
        let (groups, flags) = (self.groups(), self.place(place.offset, 1));
        assert_eq!(place.width, 1, "a flag has one byte");
        // SAFETY: there is a byte for each group, and the table is borrowed.
        unsafe { std::slice::from_raw_parts(flags.neighbours(0, groups), groups) }
    }
}

/// The groups whose number is not zero.
fn nonzero<'a, T: Copy + PartialEq + Default>(numbers: &[T], scratch: &'a mut Vec<u32>) -> Chosen<'a> {
    if numbers.iter().all(|&number| number != T::default()) {
        return Chosen::first(numbers.len());
    }
    // Which groups are there is hardly foreseen: each is written, and those that are not by the next.
    scratch.resize(numbers.len(), 0);
    let mut count = 0;
    for (group, &number) in (0..).zip(numbers) {
        scratch[count] = group;
        count += usize::from(number != T::default());
    }
    scratch.truncate(count);
    Chosen::Listed(scratch)
}
