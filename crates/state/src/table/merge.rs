//! Adding the groups of one table to another's.

use std::ops::Range;
use std::sync::Arc;

use pelton_data::aggregate::Accumulate;
use pelton_data::udaf::Change;

use super::stores::Indexing;
use super::{Chosen, Groups, KeyScratch, Table, integer_groups};
use crate::aggregates::{Aggregate, Visitor, visit};
use crate::layout::{AccumulatorSlot, EntryLayout, KeyLayout, PACKED_HEADER};
use crate::work::{Work, listing_work};

/// Slots whose groups are merged at a time: their entries stay in the second-level cache.
const MERGE_BATCH: usize = 4096;

/// The same where groups have much beside their entries.
const MERGE_BATCH_MIN: usize = 256;

/// Slots of sets that are looked at at a time.
const INDEX_BATCH: usize = 1 << 15;

/// So much more than to go through what a group has beside its entry it is to look for each value of a set in another one, in memory.
const SET_WORK: usize = 4;

/// The groups of a table on their way into another one.
#[derive(Debug, Default)]
pub(crate) struct Merging {
    /// Slots of the other table whose groups have been added.
    slots_done: usize,
    /// How much more a group is than one that has nothing beside its entry.
    work_per_group: usize,
    /// What has been found of an accumulator's set in the other table, which is done first.
    indexing: Option<(usize, Indexing)>,
    from: Vec<u32>,
    to: Vec<u32>,
    scratch: KeyScratch,
}

impl Merging {
    /// Makes room in one table for the groups of another one.
    pub fn new(into: &mut Table, other: &Table) -> Merging {
        debug_assert!(into.previous.is_none(), "the previous layout is merged by itself");
        if let Some(extent) = other.prepared_integers() {
            into.prepare_all_integers(extent, other.groups_about());
        }
        let keeps_sets = other.layout.accumulators().iter().any(|slot| slot.accumulator.accumulate.keeps_sets());
        let work_per_value = if keeps_sets { SET_WORK } else { 1 };
        Merging { work_per_group: other.work_per_group() * work_per_value, ..Merging::default() }
    }

    /// Adds the groups in the next slots, a batch at most, or finds some of the values that they have beside their entries, and says how many there were and how
    /// many slots were looked at: none once all have been added.
    pub fn advance(&mut self, into: &mut Table, other: &Table) -> Option<Merged> {
        if let Some(slots) = other.index_stores(&mut self.indexing, INDEX_BATCH) {
            return Some(Merged { slots, groups: 0, work: 0 });
        }
        let batch = (MERGE_BATCH / self.work_per_group).max(MERGE_BATCH_MIN);
        let slots = self.slots_done..other.slots().min(self.slots_done + batch);
        if slots.is_empty() {
            return None;
        }
        self.slots_done = slots.end;
        if into.add_beside(other, slots.clone()) {
            return Some(Merged { slots: slots.len(), groups: 0, work: 0 });
        }
        if !into.list_beside(other, slots.clone(), (&mut self.from, &mut self.to)) {
            self.from.clear();
            other.push_entries(slots.clone(), &mut self.from);
            into.entries_of(other, (&self.from).into(), &mut self.to, &mut self.scratch);
        }
        into.add_at(other, &self.from, &self.to);
        let groups = self.from.len();
        Some(Merged { slots: slots.len(), groups, work: groups * self.work_per_group })
    }
}

/// What one step of [`Merging`] did. Groups that were not listed do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    pub slots: usize,
    pub groups: usize,
    /// What was done with them, in multiples of what is done with a group that has nothing beside its entry.
    pub work: usize,
}

impl Merged {
    /// Spends what it took.
    pub fn spend(self, work: &mut Work) {
        work.spend(listing_work(self.slots, self.groups) + self.work);
    }
}

/// What one table has accumulated is added to what another has, or taken away from it.
struct Combine<'a> {
    table: &'a Table,
    other: &'a Table,
    slots: (&'a AccumulatorSlot, &'a AccumulatorSlot),
    from: Chosen<'a>,
    to: Chosen<'a>,
    change: Change,
}

impl Visitor for Combine<'_> {
    type Output = ();

    fn visit<A: Aggregate>(self) {
        let Combine { table, other, slots, from, to, change } = self;
        match change {
            Change::Add => table.update::<A::State>(other, slots, from, to, A::combine),
            Change::Subtract => table.update::<A::State>(other, slots, from, to, A::invert),
        }
    }
}

impl Table {
    /// Adds the groups of another table of the same slice, in whatever way either finds its entries. Returns one of the two tables,
    /// which is no longer needed.
    ///
    /// # Panics
    /// Where the layouts differ.
    pub fn merge(&mut self, mut other: Table) -> Table {
        self.become_larger(&mut other);
        self.add(&other);
        other
    }

    /// Learns from the table of the slice, to which its groups have been added, how those of the next are to be found.
    pub(crate) fn learn_from(&mut self, all: &Table) {
        if let (Groups::Integer(groups), Groups::Integer(all)) = (&mut self.groups, &all.groups) {
            groups.learn_from(&self.layout, all);
        }
    }

    /// Whether it is empty, and has learned that.
    pub(crate) fn has_learned(&self) -> bool {
        if let Groups::Integer(groups) = &self.groups { groups.has_learned() } else { false }
    }

    /// A table with the same groups.
    pub fn copy(&self) -> Table {
        let mut copy = Table::new(self.layout.clone());
        copy.add(self);
        copy
    }

    /// Changes places with another table of the same slice where that has more groups: the one with fewer is the one to be taken apart. Where both have
    /// entries side by side the one with more room is kept, for none is counted then; where one has, that one is, lest the other's groups all move at once, unless it
    /// would have to go over to hashes with all of its own.
    ///
    /// # Panics
    /// Where the layouts differ.
    pub(crate) fn become_larger(&mut self, other: &mut Table) {
        let has_same_layout = Arc::ptr_eq(&self.layout, &other.layout) || self.layout == other.layout;
        assert!(has_same_layout, "tables of one slice have one layout");
        let has_more = || other.groups() > self.groups();
        let is_to_change = match (&self.groups, &other.groups) {
            (Groups::Integer(own), Groups::Integer(others)) => match (own.is_dense(), others.is_dense()) {
                (true, true) => others.prepared_slots().len() > own.prepared_slots().len(),
                (true, false) => own.would_go_over(&self.layout, others),
                (false, true) => !others.would_go_over(&self.layout, own),
                (false, false) => has_more(),
            },
            _ => has_more(),
        };
        if is_to_change {
            std::mem::swap(self, other);
            std::mem::swap(&mut self.may_have_previous, &mut other.may_have_previous);
        }
    }

    /// Adds the accumulators of some entries of another table to entries of this one, one for each. Where this one has one accumulator more,
    /// it counts the tables that had the group, or says that there was one.
    ///
    /// # Panics
    /// Where the layouts differ otherwise, or an entry is out of range.
    pub fn add_at<'a>(&mut self, other: &Table, from: impl Into<Chosen<'a>>, to: impl Into<Chosen<'a>>) {
        self.combine(other, from.into(), to.into(), Change::Add);
    }

    /// As [`Table::add_at`], but for some accumulators.
    ///
    /// # Panics
    /// As there.
    pub(crate) fn add_without<'a>(
        &mut self,
        without: &[usize],
        other: &Table,
        from: impl Into<Chosen<'a>>,
        to: impl Into<Chosen<'a>>,
    ) {
        self.combine_but(without, other, from.into(), to.into(), Change::Add);
    }

    /// Adds some accumulators of some entries of another table to entries of this one, one for each.
    ///
    /// # Panics
    /// As [`Table::add_at`].
    pub(crate) fn add_some<'a>(
        &mut self,
        accumulators: &[usize],
        other: &Table,
        from: impl Into<Chosen<'a>>,
        to: impl Into<Chosen<'a>>,
    ) {
        let (from, to) = (from.into(), to.into());
        assert_eq!(from.len(), to.len(), "entries are combined in pairs");
        self.assert_accumulates_the_same(&other.layout);
        accumulators.iter().for_each(|&index| self.combine_one(other, index, from, to, Change::Add));
    }

    /// Adds the accumulators of some entries to others of the same table, one after the other, but for `without`.
    ///
    /// # Panics
    /// Where accumulators refer to something beside their entries, or an entry is out of range.
    pub(crate) fn add_within(&mut self, from: &[u32], to: &[u32], without: Option<usize>) {
        assert!(!self.layout.has_references(), "what is added lies in its entries");
        assert_eq!(from.len(), to.len(), "entries are combined in pairs");
        let layout = Arc::clone(&self.layout);
        for (index, slot) in layout.accumulators().iter().enumerate().filter(|(index, _)| Some(*index) != without) {
            if !self.combine_values(self, (slot, slot), from.into(), to.into(), Change::Add) {
                self.add_arrivals_within(index, from, to);
            }
        }
    }

    /// Takes back what [`Table::add_without`] did with these entries.
    ///
    /// # Panics
    /// Where another accumulator is not invertible, or as there.
    pub(crate) fn subtract_without<'a>(
        &mut self,
        without: &[usize],
        other: &Table,
        from: impl Into<Chosen<'a>>,
        to: impl Into<Chosen<'a>>,
    ) {
        self.combine_but(without, other, from.into(), to.into(), Change::Subtract);
    }

    /// Adds the groups of another table, in whatever way either finds its entries.
    pub(crate) fn add(&mut self, other: &Table) {
        let mut merging = Merging::new(self, other);
        while merging.advance(self, other).is_some() {}
    }

    /// Adds the groups in some slots of another table, if both have entries side by side that are one sum or count, and this one was prepared for the keys: whether
    /// that is so. Nothing is listed then: an entry that is not in use adds nothing.
    fn add_beside(&mut self, other: &Table, slots: Range<usize>) -> bool {
        let (layout, others) = (self.layout.clone(), &other.layout);
        let ([slot], [_]) = (layout.accumulators(), others.accumulators()) else { return false };
        let is_sum =
            matches!(slot.accumulator.accumulate, Accumulate::Count | Accumulate::SumInteger | Accumulate::SumFloat);
        let (Groups::Integer(groups), Groups::Integer(theirs)) = (&self.groups, &other.groups) else {
            return false;
        };
        if !is_sum || layout.dense_stride() != slot.width || others.dense_stride() != slot.width {
            return false;
        }
        let is_last = slots.end == other.slots();
        let Some((from, to)) = groups.beside(theirs, slots) else { return false };
        let neighbours = |first: usize| Chosen::Neighbours { first, count: from.len() };
        self.combine(other, neighbours(from.start), neighbours(to), Change::Add);
        integer_groups(&mut self.groups).mark_beside(&layout, (theirs, others), (from, to));
        if let Some(null) = theirs.null(others).filter(|_| is_last) {
            let own = self.null_entry();
            self.add_at(other, &[null], &[own]);
        }
        true
    }

    /// See [`IntegerGroups::list_beside`](super::integer::IntegerGroups::list_beside).
    fn list_beside(&mut self, other: &Table, slots: Range<usize>, lists: (&mut Vec<u32>, &mut Vec<u32>)) -> bool {
        let (Groups::Integer(groups), Groups::Integer(theirs)) = (&mut self.groups, &other.groups) else {
            return false;
        };
        self.layout.dense_stride() == other.layout.dense_stride()
            && groups.list_beside(&self.layout, (theirs, &other.layout), slots, lists)
    }

    /// Replaces `to` by the entries of the keys that some entries of another table have; new keys become groups.
    ///
    /// # Panics
    /// Where the keys differ in their layout, or an entry is out of range.
    pub(crate) fn entries_of(&mut self, other: &Table, from: Chosen<'_>, to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        match self.layout.keys() {
            _ if from.is_empty() => to.clear(),
            KeyLayout::None => {
                to.clear();
                to.resize(from.len(), self.single_entry());
            }
            KeyLayout::Integer { .. } => self.entries_of_integers(other, from, to, scratch),
            KeyLayout::Packed { .. } => self.entries_of_packed(other, from, to, scratch),
        }
    }

    fn entries_of_integers(&mut self, other: &Table, from: Chosen<'_>, to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        let KeyScratch { integers, hashes, .. } = scratch;
        integers.clear();
        integers.extend(from.iter().filter_map(|entry| other.integer_key(entry)));
        to.clear();
        if let (Some(&minimum), Some(&maximum)) = (integers.iter().min(), integers.iter().max()) {
            self.prepare_all_integers((minimum, maximum), integers.len());
            self.find_or_insert_integers(integers, to, hashes);
        }
        if integers.len() < from.len() {
            // Entries of one table have different keys, so that one at most is NULL.
            let at = from.iter().position(|entry| other.integer_key(entry).is_none());
            to.insert(at.expect("a key is missing"), self.null_entry());
        }
    }

    fn entries_of_packed(&mut self, other: &Table, from: Chosen<'_>, to: &mut Vec<u32>, scratch: &mut KeyScratch) {
        let KeyScratch { packed, hashes, .. } = scratch;
        if let (Groups::Packed(groups), Groups::Packed(theirs)) = (&mut self.groups, &other.groups) {
            return groups.find_or_insert_entries_of(&self.layout, (theirs, &other.layout), from, to, hashes);
        }
        other.copy_packed_keys(from, packed);
        // SAFETY: the keys are those of a table with the same layout of keys, which is there until after the call.
        unsafe { self.find_or_insert_packed(packed, from.len(), to, hashes) };
    }

    /// Replaces `packed` by the keys of some entries.
    ///
    /// # Panics
    /// Where keys are not packed, or an entry is out of range.
    pub(super) fn copy_packed_keys(&self, from: Chosen<'_>, packed: &mut Vec<u8>) {
        let KeyLayout::Packed { width, .. } = *self.layout.keys() else { unreachable!("the keys are packed") };
        if let Groups::Listed(_) = &self.groups {
            return self.pack_listed_keys(from, width, packed);
        }
        assert!(!matches!(self.groups, Groups::Unkeyed(_)), "groups in their places have no keys");
        let bytes = self.entries_bytes();
        packed.clear();
        packed.reserve(from.len() * width);
        for (at, entry) in from.iter().enumerate() {
            assert!(entry as usize * 8 + PACKED_HEADER + width <= bytes, "an entry lies within its table");
            // SAFETY: the key lies within the table, as just checked, and room for as many keys was reserved.
            unsafe {
                let key = self.start().add(entry as usize * 8 + PACKED_HEADER);
                packed.as_mut_ptr().add(at * width).copy_from_nonoverlapping(key, width);
            }
        }
        // SAFETY: the keys were just written.
        unsafe { packed.set_len(from.len() * width) };
    }

    /// As [`Table::copy_packed_keys`], from the columns of a list.
    fn pack_listed_keys(&self, from: Chosen<'_>, width: usize, packed: &mut Vec<u8>) {
        packed.clear();
        packed.resize(from.len() * width, 0);
        for field in self.layout.key_fields() {
            let column = self.place(field.offset, field.width);
            let offset = field.offset - PACKED_HEADER;
            assert!(offset + field.width <= width);
            for (at, entry) in from.iter().enumerate() {
                // SAFETY: there are `width` bytes for each key, in which the value has its place, as just checked.
                unsafe {
                    let key = packed.as_mut_ptr().add(at * width + offset);
                    key.copy_from_nonoverlapping(column.address(entry), field.width);
                }
            }
        }
    }

    /// The integer key of an entry; `None` where it is NULL.
    ///
    /// # Panics
    /// Where keys are not integer, or the entry is not in use.
    pub(super) fn integer_key(&self, entry: u32) -> Option<i64> {
        match &self.groups {
            Groups::Integer(groups) if groups.is_null(&self.layout, entry) => None,
            Groups::Integer(groups) => Some(groups.key(&self.layout, entry)),
            Groups::Listed(groups) => groups.integer_key(entry),
            _ => panic!("the table's keys are not integers"),
        }
    }

    /// Panics where tables of the other layout do not accumulate the same as this one, which may count them besides.
    pub(super) fn assert_accumulates_the_same(&self, other: &Arc<EntryLayout>) {
        let (slots, others) = (self.layout.accumulators(), other.accumulators());
        let is_same = |(mine, theirs): (&AccumulatorSlot, &AccumulatorSlot)| mine.accumulator == theirs.accumulator;
        let is_longer = others.len() <= slots.len() && slots.len() <= others.len() + 1;
        assert!(
            self.layout.is_of_kind(other) || is_longer && slots.iter().zip(others).all(is_same),
            "tables accumulate the same"
        );
    }

    /// Adds the accumulators of `other`'s entries `from` to this table's entries `to`, or subtracts them.
    pub(super) fn combine(&mut self, other: &Table, from: Chosen<'_>, to: Chosen<'_>, change: Change) {
        self.combine_but(&[], other, from, to, change);
    }

    /// As [`Table::combine`], but for some accumulators.
    fn combine_but(&mut self, without: &[usize], other: &Table, from: Chosen<'_>, to: Chosen<'_>, change: Change) {
        assert_eq!(from.len(), to.len(), "entries are combined in pairs");
        self.assert_accumulates_the_same(&other.layout);
        let others = other.layout.accumulators();
        for index in (0..others.len()).filter(|index| !without.contains(index)) {
            self.combine_one(other, index, from, to, change);
        }
        if let [presence] = &self.layout.accumulators()[others.len()..] {
            let place = self.place(presence.offset, presence.width);
            let step = if change == Change::Add { 1 } else { -1 };
            for to in to.iter().map(|to| place.address(to)) {
                // SAFETY: it is the address of a count, or of a byte.
                unsafe {
                    match presence.width {
                        1 => to.write(1),
                        _ => to.cast::<i64>().write_unaligned(to.cast::<i64>().read_unaligned() + step),
                    }
                }
            }
        }
    }

    /// Adds one accumulator of `other`'s entries `from` to this table's entries `to`, or subtracts it.
    fn combine_one(&mut self, other: &Table, index: usize, from: Chosen<'_>, to: Chosen<'_>, change: Change) {
        let slots = (&self.layout.accumulators()[index], &other.layout.accumulators()[index]);
        if !self.combine_values(other, slots, from, to, change) {
            self.combine_references(other, index, from, to, change);
        }
    }

    /// Combines an accumulator that is all in its entry: whether it is. Nobody else has access to the table.
    fn combine_values(
        &self,
        other: &Table,
        slots: (&AccumulatorSlot, &AccumulatorSlot),
        from: Chosen<'_>,
        to: Chosen<'_>,
        change: Change,
    ) -> bool {
        let accumulator = &slots.0.accumulator;
        assert!(
            change == Change::Add || accumulator.accumulate.is_invertible(),
            "only what is invertible is subtracted"
        );
        visit(accumulator, Combine { table: self, other, slots, from, to, change }).is_some()
    }

    /// Combines an accumulator that refers to something beside its entry, or may.
    fn combine_references(&mut self, other: &Table, index: usize, from: Chosen<'_>, to: Chosen<'_>, change: Change) {
        let layout = self.layout.clone();
        let slots = (&layout.accumulators()[index], &other.layout.accumulators()[index]);
        match slots.0.accumulator.accumulate {
            Accumulate::First | Accumulate::Last => self.combine_arrivals(other, index, slots, from, to),
            Accumulate::Minimum | Accumulate::Maximum => {
                for (from, to) in from.iter().zip(to.iter()) {
                    if let Some(value) = other.extreme(index, from) {
                        self.update_extreme(index, to, value);
                    }
                }
            }
            _ => self.combine_stores(other, index, from, to, change),
        }
    }

    /// Replaces an accumulator of each entry of `to` by what `combine` makes of it and of the corresponding one of `from`; `slots` are
    /// where the two tables have it.
    fn update<T: Copy>(
        &self,
        other: &Table,
        (mine, theirs): (&AccumulatorSlot, &AccumulatorSlot),
        from: Chosen<'_>,
        to: Chosen<'_>,
        combine: impl Fn(T, T) -> T,
    ) {
        assert!(mine.width == size_of::<T>() && theirs.width == mine.width);
        let source = other.place(theirs.offset, theirs.width);
        let target = self.place(mine.offset, mine.width);
        let change = |source: *const T, target: *mut T| {
            // SAFETY: both are addresses of accumulators of this type; nobody else has access to their tables, which may be one.
            unsafe { target.write_unaligned(combine(target.read_unaligned(), source.read_unaligned())) }
        };
        match (from, to) {
            (Chosen::Neighbours { first: from, count }, Chosen::Neighbours { first: to, .. }) => {
                let source = source.neighbours(from, count).cast::<T>();
                let target = target.neighbours(to, count).cast::<T>();
                // SAFETY: as many values of this type lie side by side in either table, which are different and borrowed, and columns
                // are aligned for all types.
                let (source, target) = unsafe {
                    (std::slice::from_raw_parts(source, count), std::slice::from_raw_parts_mut(target, count))
                };
                target.iter_mut().zip(source).for_each(|(mine, theirs)| *mine = combine(*mine, *theirs));
            }
            (Chosen::Neighbours { first, count }, Chosen::Listed(to)) => {
                let source = source.neighbours(first, count).cast::<T>();
                let target = target.of(to);
                for (at, &to) in to.iter().enumerate() {
                    // SAFETY: the entry is one of those that were asked for.
                    change(source.wrapping_add(at), unsafe { target.address(to) }.cast());
                }
            }
            (Chosen::Listed(from), Chosen::Listed(to)) => {
                let (source, target) = (source.of(from), target.of(to));
                for (&from, &to) in from.iter().zip(to) {
                    // SAFETY: both are of those entries that were asked for.
                    unsafe { change(source.address(from).cast(), target.address(to).cast()) };
                }
            }
            _ => {
                for (from, to) in from.iter().zip(to.iter()) {
                    change(source.address(from).cast(), target.address(to).cast());
                }
            }
        }
    }
}
