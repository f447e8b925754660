//! Windows from slices, incrementally.
//!
//! A generalized aggregation graph (LightSaber, section 5) holds what the windows that are still open need of the slices before, and
//! gives the window that is due. Of the general graph, prefixes and suffixes over the slices, only those nodes exist that
//! the [`Combination`] needs.
//!
//! A slice's groups are found by key once, when it is inserted: from then on they have numbers. A node is a list of accumulators, of the
//! groups of one slice or of all groups, and nodes are combined entry by entry.

use std::collections::VecDeque;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::window::Combination;

use crate::layout::EntryLayout;
use crate::table::{GroupNumbers, Table};

/// With fewer groups than this, those that have left the window stay numbered: they cost nothing.
const RENUMBERED_GROUPS_MIN: usize = 1024;

/// Nodes that are no longer needed, kept for the next slices.
const SPARE_NODES_MAX: usize = 64;

/// The slices of the windows that are open, combined.
///
/// Slices are inserted before the first window that they count in, and evicted after the last; in between they are part of
/// every window.
#[derive(Debug)]
pub enum Gag {
    /// Each window is one slice.
    Single(Box<Single>),
    /// A window has several.
    Combined(Box<Combined>),
}

/// The one slice of a window.
#[derive(Debug)]
pub struct Single {
    layout: Arc<EntryLayout>,
    /// With the end of its window.
    slice: Option<(Micros, Table)>,
    entries: Vec<u32>,
}

/// Slices whose groups have numbers.
#[derive(Debug)]
pub struct Combined {
    numbers: GroupNumbers,
    nodes: Nodes,
    /// The window that is due: all groups that have numbers, by number. It has one accumulator more than slices have: how many of them have
    /// the group.
    window: Table,
    /// All entries of the window.
    all: Vec<u32>,
    /// Those whose groups a slice has.
    present: Vec<u32>,
    spare: Spare,
}

/// Buffers that are reused.
#[derive(Debug, Default)]
struct Spare {
    lists: Vec<Table>,
    numbers: Vec<Vec<u32>>,
    entries: Vec<u32>,
    new: Vec<u32>,
}

/// A slice, and the end of the last window that it counts in.
#[derive(Debug)]
struct Slice {
    last_end: Micros,
    /// Accumulators of its groups, side by side.
    values: Table,
    /// Where the same groups lie in a list of all.
    to: Vec<u32>,
}

/// All groups of a slice and of those after it.
#[derive(Debug)]
struct Suffix {
    last_end: Micros,
    values: Table,
}

#[derive(Debug)]
enum Nodes {
    /// Combined anew for each window.
    Slices(Vec<Slice>),
    /// Subtract on evict: ascending by last end.
    Running(VecDeque<Slice>),
    TwoStacks(Box<TwoStacks>),
    /// One period's slices so far: the end of its last window.
    Prefix(Option<Micros>),
}

/// Two stacks.
#[derive(Debug)]
struct TwoStacks {
    /// The older slices, each with all younger ones of this stack added; the oldest is the last.
    suffixes: Vec<Suffix>,
    /// The younger slices.
    slices: Vec<Slice>,
    /// All of `slices` added.
    prefix: Table,
}

impl Gag {
    /// No slices yet. Their tables will have this layout.
    pub fn new(combination: Combination, layout: &Arc<EntryLayout>) -> Gag {
        let counted = with_slice_count(layout);
        let nodes = match combination {
            Combination::Single | Combination::Buckets => {
                return Gag::Single(Box::new(Single { layout: layout.clone(), slice: None, entries: Vec::new() }));
            }
            Combination::Recompute => Nodes::Slices(Vec::new()),
            Combination::SubtractOnEvict => Nodes::Running(VecDeque::new()),
            Combination::TwoStacks => {
                let prefix = Table::list(counted.clone());
                Nodes::TwoStacks(Box::new(TwoStacks { suffixes: Vec::new(), slices: Vec::new(), prefix }))
            }
            Combination::Prefix => Nodes::Prefix(None),
            Combination::Merge => unreachable!("sessions have no graph"),
        };
        Gag::Combined(Box::new(Combined {
            numbers: GroupNumbers::new(&counted),
            nodes,
            window: Table::list(counted),
            all: Vec::new(),
            present: Vec::new(),
            spare: Spare::default(),
        }))
    }

    /// The layout of the window's table: that of slices, or with one accumulator more.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        match self {
            Gag::Single(node) => &node.layout,
            Gag::Combined(nodes) => nodes.window.layout(),
        }
    }

    /// Adds a slice to all windows from the next one to the one that ends at `last_end`. Returns the table where it is no longer needed.
    ///
    /// # Panics
    /// Where each window is one slice, and there is one.
    pub fn insert(&mut self, table: Table, last_end: Micros) -> Option<Table> {
        match self {
            Gag::Single(node) => {
                assert!(node.slice.is_none(), "a window is one slice");
                node.slice = Some((last_end, table));
                None
            }
            Gag::Combined(nodes) => {
                nodes.insert(&table, last_end);
                Some(table)
            }
        }
    }

    /// Forgets the slices whose last window ends at or before `end`. Returns a table that is no longer needed, where there is one.
    pub fn evict(&mut self, end: Micros) -> Option<Table> {
        match self {
            Gag::Single(node) => node.slice.take_if(|(last_end, _)| *last_end <= end).map(|(_, table)| table),
            Gag::Combined(nodes) => {
                nodes.evict(end);
                None
            }
        }
    }

    /// The groups of all slices that are held: a table, and which of its entries they are. Without a slice there is none.
    pub fn window(&mut self) -> Option<(&Table, &[u32])> {
        match self {
            Gag::Single(node) => {
                let (_, table) = node.slice.as_ref()?;
                node.entries.clear();
                table.push_entries(&mut node.entries);
                Some((table, &node.entries))
            }
            Gag::Combined(nodes) => {
                nodes.combine();
                Some((&nodes.window, &nodes.present))
            }
        }
    }

    /// Whether no slice is held.
    pub fn is_empty(&self) -> bool {
        match self {
            Gag::Single(node) => node.slice.is_none(),
            Gag::Combined(nodes) => nodes.nodes.is_empty(),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match self {
            Gag::Single(node) => node.slice.as_ref().map_or(0, |(_, table)| table.bytes()),
            Gag::Combined(nodes) => {
                let spare: usize = nodes.spare.lists.iter().map(Table::bytes).sum();
                nodes.nodes.bytes() + nodes.window.bytes() + nodes.numbers.bytes() + spare
            }
        }
    }
}

/// The layout, with a count of slices behind its accumulators.
fn with_slice_count(layout: &EntryLayout) -> Arc<EntryLayout> {
    let slots = layout.accumulators().iter().map(|slot| slot.accumulator.clone());
    let count = Accumulator { accumulate: Accumulate::Count, argument_type: None, argument_nullable: false };
    let accumulators: Vec<Accumulator> = slots.chain([count]).collect();
    EntryLayout::new(layout.key_columns(), &accumulators)
}

impl Combined {
    fn insert(&mut self, table: &Table, last_end: Micros) {
        let to = self.number(table);
        let entries = &self.spare.entries;
        if matches!(self.nodes, Nodes::Running(_) | Nodes::Prefix(_)) {
            self.window.add_at(table, entries, &to);
        }
        if let Nodes::Prefix(period) = &mut self.nodes {
            debug_assert!(period.is_none_or(|period| period == last_end), "one period at a time");
            *period = Some(last_end);
            return self.spare.numbers.push(to);
        }
        let mut values = self.spare.lists.pop().unwrap_or_else(|| Table::list(self.window.layout().clone()));
        values.append_blank(entries.len());
        values.add_at(table, entries, &self.all[..entries.len()]);
        let slice = Slice { last_end, values, to };
        match &mut self.nodes {
            Nodes::Slices(slices) => slices.push(slice),
            Nodes::Running(slices) => {
                let at = slices.partition_point(|other| other.last_end <= last_end);
                slices.insert(at, slice);
            }
            Nodes::TwoStacks(stacks) => stacks.insert(slice, &self.all, &mut self.spare),
            Nodes::Prefix(_) => unreachable!("a prefix keeps no slices"),
        }
    }

    /// Numbers a slice's groups, which are left in `spare.entries`. Returns where they lie in a list of all.
    fn number(&mut self, table: &Table) -> Vec<u32> {
        let Spare { entries, new, numbers, .. } = &mut self.spare;
        entries.clear();
        table.push_entries(entries);
        let mut to = numbers.pop().unwrap_or_default();
        self.numbers.assign(table, entries, &mut to, new);
        if !new.is_empty() {
            let first = self.window.append_keys(table, new);
            self.all.extend((first..first + new.len()).map(|group| self.window.listed_entry(group)));
        }
        to
    }

    fn evict(&mut self, end: Micros) {
        let before = self.nodes.is_empty();
        match &mut self.nodes {
            Nodes::Slices(slices) => {
                slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| self.spare.keep(slice));
            }
            Nodes::Running(slices) => {
                let count = slices.partition_point(|slice| slice.last_end <= end);
                for slice in slices.drain(..count) {
                    self.window.subtract_at(&slice.values, &self.all[..slice.to.len()], &slice.to);
                    self.spare.keep(slice);
                }
            }
            Nodes::TwoStacks(stacks) => stacks.evict(end, &self.all, &mut self.spare),
            Nodes::Prefix(period) => {
                period.take_if(|period| *period <= end);
            }
        }
        if self.nodes.is_empty() && !before {
            self.numbers.clear();
            self.window.clear();
            self.all.clear();
            if let Nodes::TwoStacks(stacks) = &mut self.nodes {
                stacks.prefix.clear();
            }
        }
    }

    /// Puts the window together that is due.
    fn combine(&mut self) {
        match &self.nodes {
            Nodes::Slices(slices) => {
                self.window.reset_accumulators();
                for slice in slices {
                    self.window.add_at(&slice.values, &self.all[..slice.to.len()], &slice.to);
                }
            }
            Nodes::TwoStacks(stacks) => {
                self.window.reset_accumulators();
                let oldest = stacks.suffixes.last().map(|suffix| &suffix.values);
                for values in oldest.into_iter().chain([&stacks.prefix]) {
                    let all = &self.all[..values.groups()];
                    self.window.add_at(values, all, all);
                }
            }
            Nodes::Running(_) | Nodes::Prefix(_) => {}
        }
        let count = self.window.layout().accumulators().len() - 1;
        self.present.clear();
        self.window.push_counted(count, &mut self.present);
        if self.all.len() >= RENUMBERED_GROUPS_MIN && self.present.len() * 2 < self.all.len() {
            self.renumber();
        }
    }

    /// Gives new numbers to the groups that are present, and forgets the others.
    fn renumber(&mut self) {
        let mut window = Table::list(self.window.layout().clone());
        window.append(&self.window, &self.present);
        let kept = std::mem::replace(&mut self.present, window.entry_offsets());
        self.window = window;
        // A table that was only cleared would keep room for the keys of groups that have left.
        self.numbers = GroupNumbers::new(self.window.layout());
        let (mut to, mut new) = (Vec::new(), Vec::new());
        self.numbers.assign(&self.window, &self.present, &mut to, &mut new);
        debug_assert_eq!(to, self.present, "groups are numbered in their order");
        let renumbered = |old: &u32| self.present[kept.binary_search(old).expect("a slice's groups are present")];
        let renumber_slice = |slice: &mut Slice| slice.to.iter_mut().for_each(|to| *to = renumbered(to));
        let renumber_all = |values: &mut Table| {
            let known = kept.partition_point(|&entry| entry < values.listed_entry(values.groups()));
            let mut list = Table::list(values.layout().clone());
            list.append_blank(known);
            list.add_at(values, &kept[..known], &self.present[..known]);
            *values = list;
        };
        match &mut self.nodes {
            Nodes::Slices(slices) => slices.iter_mut().for_each(renumber_slice),
            Nodes::Running(slices) => slices.iter_mut().for_each(renumber_slice),
            Nodes::TwoStacks(stacks) => {
                stacks.slices.iter_mut().for_each(renumber_slice);
                stacks.suffixes.iter_mut().for_each(|suffix| renumber_all(&mut suffix.values));
                renumber_all(&mut stacks.prefix);
            }
            Nodes::Prefix(_) => {}
        }
        self.all.truncate(self.present.len());
    }
}

impl Nodes {
    fn is_empty(&self) -> bool {
        match self {
            Nodes::Slices(slices) => slices.is_empty(),
            Nodes::Running(slices) => slices.is_empty(),
            Nodes::TwoStacks(stacks) => stacks.suffixes.is_empty() && stacks.slices.is_empty(),
            Nodes::Prefix(period) => period.is_none(),
        }
    }

    fn bytes(&self) -> usize {
        fn sum<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> usize {
            slices.into_iter().map(|slice| slice.values.bytes() + 4 * slice.to.len()).sum()
        }
        match self {
            Nodes::Slices(slices) => sum(slices),
            Nodes::Running(slices) => sum(slices),
            Nodes::TwoStacks(stacks) => {
                let suffixes: usize = stacks.suffixes.iter().map(|suffix| suffix.values.bytes()).sum();
                suffixes + sum(&stacks.slices) + stacks.prefix.bytes()
            }
            Nodes::Prefix(_) => 0,
        }
    }
}

impl Spare {
    fn keep(&mut self, slice: Slice) {
        self.keep_list(slice.values);
        if self.numbers.len() < SPARE_NODES_MAX {
            self.numbers.push(slice.to);
        }
    }

    fn keep_list(&mut self, mut list: Table) {
        if self.lists.len() < SPARE_NODES_MAX {
            list.clear();
            self.lists.push(list);
        }
    }
}

impl TwoStacks {
    fn insert(&mut self, slice: Slice, all: &[u32], spare: &mut Spare) {
        if self.suffixes.first().is_none_or(|youngest| youngest.last_end < slice.last_end) {
            add_to_all(&mut self.prefix, all, &slice);
            self.slices.push(slice);
            return;
        }
        // It came late, among the older ones: all windows that begin no later than its last one have it.
        let at = self.suffixes.partition_point(|younger| younger.last_end > slice.last_end);
        for older in &mut self.suffixes[at..] {
            add_to_all(&mut older.values, all, &slice);
        }
        if self.suffixes.get(at).is_none_or(|same| same.last_end != slice.last_end) {
            let younger = at.checked_sub(1).map(|younger| &self.suffixes[younger].values);
            let values = suffix(younger, all, &slice, spare);
            self.suffixes.insert(at, Suffix { last_end: slice.last_end, values });
        }
        spare.keep(slice);
    }

    fn evict(&mut self, end: Micros, all: &[u32], spare: &mut Spare) {
        let kept = self.suffixes.partition_point(|suffix| suffix.last_end > end);
        self.suffixes.drain(kept..).for_each(|suffix| spare.keep_list(suffix.values));
        if !self.suffixes.is_empty() {
            return;
        }
        let slices = self.slices.len();
        self.slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| spare.keep(slice));
        if self.slices.len() < slices {
            self.flip(all, spare);
        }
    }

    /// Makes suffixes of the younger slices.
    fn flip(&mut self, all: &[u32], spare: &mut Spare) {
        self.slices.sort_by_key(|slice| std::cmp::Reverse(slice.last_end));
        for slice in self.slices.drain(..) {
            let values = suffix(self.suffixes.last().map(|younger| &younger.values), all, &slice, spare);
            self.suffixes.push(Suffix { last_end: slice.last_end, values });
            spare.keep(slice);
        }
        self.prefix.clear();
    }
}

/// A slice's groups among those of the younger suffix.
fn suffix(younger: Option<&Table>, all: &[u32], slice: &Slice, spare: &mut Spare) -> Table {
    let mut values = spare.lists.pop().unwrap_or_else(|| Table::list(slice.values.layout().clone()));
    if let Some(younger) = younger {
        let all = &all[..younger.groups()];
        values.append_blank(all.len());
        values.add_at(younger, all, all);
    }
    add_to_all(&mut values, all, slice);
    values
}

/// Adds a slice to a list of all groups, which may have been shorter when the list was made.
fn add_to_all(values: &mut Table, all: &[u32], slice: &Slice) {
    if values.groups() < all.len() {
        values.append_blank(all.len() - values.groups());
    }
    values.add_at(&slice.values, &all[..slice.to.len()], &slice.to);
}
