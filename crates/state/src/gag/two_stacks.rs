//! Windows of aggregates that cannot be subtracted: two stacks of slices.

use std::cmp::Reverse;
use std::sync::Arc;

use pelton_data::Micros;

use super::matrix::Matrix;
use super::snapshot::{Known, write_slices};
use super::{Slice, Spare};
use crate::layout::EntryLayout;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Chosen, Table};
use crate::two_stacks::TwoStacks;
use crate::work::Work;

/// Slices that come in their order are rows of values as soon as there are so many.
const ROWS_MIN: usize = 64;

/// Two stacks of slices, as suits how many groups these have.
#[derive(Debug)]
pub(super) enum SliceStacks {
    /// Each slice has a list of its groups.
    Lists(Box<Lists>),
    /// Slices have few groups, each a row of them.
    Rows(Box<Matrix>),
}

/// Two stacks of lists.
#[derive(Debug)]
pub(super) struct Lists {
    /// The accumulator that is zero where a slice does not have the group.
    presence: usize,
    /// Whether none comes behind a later one.
    come_in_order: bool,
    /// All groups of the older slices, by the ends of their last windows, each with all younger ones of this stack added; and all of `slices` added.
    stacks: TwoStacks<Micros, Table>,
    /// The younger slices, as they came. Whoever puts windows together may have them as well.
    slices: Vec<Arc<Slice>>,
    /// Suffixes are being made of the younger slices.
    is_flipping: bool,
    /// So many of `slices` have been given to whoever puts the next window together,
    given: usize,
    /// who does not know that those before them are older ones now.
    is_anew: bool,
    /// Nobody has counted which groups are there since suffixes were made.
    is_uncounted: bool,
    complete: Completeness,
}

/// Whether all groups of a window are there. What its younger slices have together only grows until suffixes are made: where that has all groups by itself, nothing
/// is looked at any more.
#[derive(Debug, Default)]
pub(super) struct Completeness {
    /// What the younger slices have together has so many of the first groups.
    groups: usize,
    /// How often that was looked at and not known.
    attempts: usize,
}

impl Completeness {
    /// Whether each of the first so many groups is in what the older slices have together, if there are any, or the younger ones.
    pub(super) fn is_known(&mut self, presence: usize, groups: usize, lists: (Option<&Table>, &Table)) -> bool {
        if groups == self.groups {
            return true;
        }
        let are_there = Table::are_all_in_either(presence, groups, lists);
        self.attempts += 1;
        // Seldom enough to cost nothing where groups are missing all the time.
        if are_there && self.attempts.is_power_of_two() && Table::are_all_in_either(presence, groups, (None, lists.1)) {
            self.groups = groups;
        }
        are_there
    }
}

impl SliceStacks {
    pub(super) fn new(layout: &Arc<EntryLayout>, presence: usize, come_in_order: bool) -> SliceStacks {
        let stacks = TwoStacks::new(Table::list(layout.clone()));
        SliceStacks::Lists(Box::new(Lists::new((presence, come_in_order), stacks, Vec::new())))
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            SliceStacks::Lists(lists) => lists.stacks.front().is_empty() && lists.slices.is_empty(),
            SliceStacks::Rows(matrix) => matrix.is_empty(),
        }
    }

    /// Makes lists of rows.
    fn listed(&mut self) -> &mut Lists {
        if let SliceStacks::Rows(matrix) = self {
            *self = SliceStacks::Lists(Box::new(matrix.lists()));
        }
        let SliceStacks::Lists(lists) = self else { unreachable!("rows have become lists") };
        lists
    }

    /// Puts the window of all slices together.
    pub(super) fn combine(&mut self, window: &mut Table) {
        match self {
            SliceStacks::Lists(lists) => lists.combine(window),
            SliceStacks::Rows(matrix) => matrix.combine(window),
        }
    }

    /// Inserts a slice whose groups are among the first `groups`.
    pub(super) fn insert(&mut self, slice: Slice, groups: usize, spare: &mut Spare) {
        match self {
            SliceStacks::Rows(matrix) if matrix.takes(slice.last_end, groups) => {
                matrix.push(&slice);
                spare.keep(slice);
            }
            _ => {
                let lists = self.listed();
                lists.insert(slice, groups, spare);
                if lists.come_in_order && lists.stacks.front().is_empty() && lists.slices.len() == ROWS_MIN {
                    self.become_rows(groups, spare);
                }
            }
        }
    }

    /// Forgets the slices whose last window ends at or before `end`. Where the older ones are used up, makes suffixes of the younger ones, as long as
    /// there is work left: whether that has been done.
    pub(super) fn evict(&mut self, end: Micros, groups: usize, spare: &mut Spare, work: &mut Work) -> bool {
        if let SliceStacks::Rows(matrix) = self
            && let Some(groups) = matrix.evict(end)
        {
            work.spend(groups);
            return true;
        }
        let lists = self.listed();
        if !lists.is_flipping {
            if !lists.evict(end, spare) {
                return true;
            }
            let slices = lists.slices.len();
            if self.become_rows(groups, spare) {
                work.spend(groups * slices);
                return true;
            }
        }
        self.listed().flip(groups, spare, work)
    }

    /// Makes rows of younger slices, where there are no others and that suits them better: whether it does.
    fn become_rows(&mut self, groups: usize, spare: &mut Spare) -> bool {
        let lists = self.listed();
        let Some(matrix) = lists.rows(groups) else { return false };
        lists.slices.drain(..).filter_map(Arc::into_inner).for_each(|slice| spare.keep(slice));
        *self = SliceStacks::Rows(Box::new(matrix));
        true
    }

    /// Forgets all slices, and which numbers groups have.
    pub(super) fn clear(&mut self) {
        self.listed().clear();
    }

    /// Gives the groups that are `present` other numbers, in their order, and forgets the others; `numbers` has the new ones by the old.
    pub(super) fn renumber(&mut self, present: Chosen<'_>, numbers: &[u32]) {
        self.listed().renumber(present, numbers);
    }

    /// Writes both stacks, no suffixes being made.
    pub(super) fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        match self {
            SliceStacks::Lists(lists) => lists.write_to(out),
            SliceStacks::Rows(matrix) => matrix.lists().write_to(out),
        }
    }

    /// Becomes what was written.
    pub(super) fn read_from(&mut self, known: &Known<'_>, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.listed().read_from(known, input)
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            SliceStacks::Lists(lists) => lists.bytes(),
            SliceStacks::Rows(matrix) => matrix.bytes(),
        }
    }
}

impl Lists {
    /// Older slices, and younger ones, which have the prefix together.
    pub(super) fn new(
        (presence, come_in_order): (usize, bool),
        stacks: TwoStacks<Micros, Table>,
        slices: Vec<Arc<Slice>>,
    ) -> Lists {
        let (is_flipping, given, is_anew, is_uncounted, complete) = (false, 0, true, false, Completeness::default());
        Lists { presence, come_in_order, stacks, slices, is_flipping, given, is_anew, is_uncounted, complete }
    }

    /// What the older slices have together, where there are any, and the younger ones.
    pub(super) fn halves(&self) -> (Option<&Table>, &Table) {
        (self.stacks.oldest(), self.stacks.prefix())
    }

    /// Whether the first so many groups are all there, in one of the two.
    pub(super) fn are_all_there(&mut self, groups: usize) -> bool {
        let lists = (self.stacks.oldest(), self.stacks.prefix());
        self.complete.is_known(self.presence, groups, lists)
    }

    /// Whether the groups that are there should be counted, which [`SliceStacks::combine`] is for.
    pub(super) fn is_uncounted(&self) -> bool {
        self.is_uncounted
    }

    /// Gives what all younger slices have together.
    pub(super) fn give_younger(&mut self, younger: &mut Table) {
        younger.clear();
        let prefix = self.stacks.prefix();
        younger.append_values(prefix, Chosen::first(prefix.groups()));
        (self.given, self.is_anew) = (self.slices.len(), false);
    }

    /// Gives the younger slices that have come since that or this was called, and says whether those before have become older ones.
    pub(super) fn give_slices(&mut self, slices: &mut Vec<Arc<Slice>>) -> bool {
        slices.extend_from_slice(&self.slices[self.given..]);
        self.given = self.slices.len();
        std::mem::take(&mut self.is_anew)
    }

    /// Gives what the older slices have together, of which no window has the oldest any more but the one that ends at `end`.
    pub(super) fn give_older(&mut self, end: Micros, spare: &mut Spare) -> Option<Table> {
        if let Some(suffix) = self.stacks.pop_until(end) {
            return Some(suffix);
        }
        let oldest = self.stacks.oldest()?;
        let mut copy = spare.list(oldest.layout());
        copy.append_values(oldest, Chosen::first(oldest.groups()));
        Some(copy)
    }

    fn combine(&mut self, window: &mut Table) {
        self.is_uncounted = false;
        match self.stacks.oldest() {
            Some(oldest) => window.replace_values(oldest),
            None => window.reset_accumulators(),
        }
        let prefix = self.stacks.prefix();
        let younger = Chosen::first(prefix.groups());
        window.add_at(prefix, younger, younger);
    }

    fn insert(&mut self, slice: Slice, groups: usize, spare: &mut Spare) {
        if self.stacks.front().first().is_none_or(|(youngest, _)| *youngest < slice.last_end) {
            add_to_all(self.stacks.prefix_mut(), groups, &slice);
            self.slices.push(Arc::new(slice));
            return;
        }
        // It came late, among the older ones: all windows that begin no later than its last one have it.
        let suffixes = self.stacks.front_mut();
        let at = suffixes.partition_point(|(younger, _)| *younger > slice.last_end);
        for (_, older) in &mut suffixes[at..] {
            add_to_all(older, groups, &slice);
        }
        if suffixes.get(at).is_none_or(|(same, _)| *same != slice.last_end) {
            let younger = at.checked_sub(1).map(|younger| &suffixes[younger].1);
            let values = suffix(younger, groups, &slice, spare);
            suffixes.insert(at, (slice.last_end, values));
        }
        spare.keep(slice);
    }

    /// Forgets the slices whose last window ends at or before `end`: whether suffixes are to be made of the younger ones that are left, which are put in the order
    /// of their ends.
    fn evict(&mut self, end: Micros, spare: &mut Spare) -> bool {
        while let Some(suffix) = self.stacks.pop_until(end) {
            spare.keep_list(suffix);
        }
        if !self.stacks.front().is_empty() {
            return false;
        }
        let slices = self.slices.len();
        let unneeded = self.slices.extract_if(.., |slice| slice.last_end <= end);
        unneeded.filter_map(Arc::into_inner).for_each(|slice| spare.keep(slice));
        if self.slices.len() == slices {
            return false;
        }
        self.clear();
        self.is_uncounted = true;
        self.slices.sort_by_key(|slice| Reverse(slice.last_end));
        self.slices.reverse();
        true
    }

    /// Suffixes of the younger slices as rows of the first `groups` groups, where these suit them better.
    fn rows(&self, groups: usize) -> Option<Matrix> {
        let slices = self.slices.iter().map(|slice| &**slice);
        Matrix::of(slices, groups, self.stacks.prefix().layout(), (self.presence, self.come_in_order))
    }

    /// Makes suffixes of the younger slices, as long as there is work left: whether that has been done.
    fn flip(&mut self, groups: usize, spare: &mut Spare, work: &mut Work) -> bool {
        self.is_flipping = true;
        let Lists { stacks, slices, .. } = self;
        let youngest_first = std::iter::from_fn(|| {
            let slice = slices.pop_if(|_| !work.is_done())?;
            work.spend(groups);
            Some((slice.last_end, slice))
        });
        stacks.flip(youngest_first, |younger, slice| match Arc::try_unwrap(slice) {
            Ok(slice) => suffix_of(younger, groups, slice, spare),
            // Whoever puts windows together still has it.
            Err(slice) => suffix(younger, groups, &slice, spare),
        });
        self.is_flipping = !self.slices.is_empty();
        !self.is_flipping
    }

    /// Forgets what the younger slices have together.
    fn clear(&mut self) {
        self.stacks.prefix_mut().clear();
        self.complete = Completeness::default();
        (self.given, self.is_anew) = (0, true);
    }

    fn renumber(&mut self, present: Chosen<'_>, numbers: &[u32]) {
        self.complete = Completeness::default();
        for slice in &mut self.slices {
            if Arc::get_mut(slice).is_none() {
                *slice = Arc::new(slice.copy());
            }
            Arc::get_mut(slice).expect("nobody else has it").renumber(numbers);
        }
        let renumber = |values: &mut Table| {
            let known: Vec<u32> = present.iter().take_while(|&old| (old as usize) < values.groups()).collect();
            let mut list = Table::list(values.layout().clone());
            list.append_values(values, &known);
            *values = list;
        };
        self.stacks.front_mut().iter_mut().for_each(|(_, suffix)| renumber(suffix));
        renumber(self.stacks.prefix_mut());
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(self.stacks.front().len());
        for (last_end, suffix) in self.stacks.front() {
            out.instant(*last_end);
            suffix.write_to(out)?;
        }
        write_slices(self.slices.iter().map(|slice| &**slice), out)?;
        self.stacks.prefix().write_to(out)
    }

    fn read_from(&mut self, known: &Known<'_>, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut suffixes: Vec<(Micros, Table)> = Vec::new();
        for _ in 0..input.count(1, "suffixes")? {
            let last_end = known.read_last_end(input)?;
            let is_older = suffixes.last().is_none_or(|(younger, _)| last_end <= *younger);
            input.check(is_older, "suffixes in the order of their ends")?;
            suffixes.push((last_end, known.read_list(input)?));
        }
        self.slices = known.read_slices(input)?.into_iter().map(Arc::new).collect();
        self.stacks = TwoStacks::of_parts(suffixes, known.read_list(input)?);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let suffixes: usize = self.stacks.front().iter().map(|(_, suffix)| suffix.bytes()).sum();
        suffixes + self.slices.iter().map(|slice| slice.bytes()).sum::<usize>() + self.stacks.prefix().bytes()
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
pub(super) fn add_to_all(values: &mut Table, groups: usize, slice: &Slice) {
    if values.groups() < groups {
        values.append_blank(groups - values.groups());
    }
    values.add_at(&slice.values, Chosen::first(slice.values.groups()), slice.numbers());
}
