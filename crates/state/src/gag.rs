//! Windows from slices, incrementally.
//!
//! A generalized aggregation graph (LightSaber, section 5) holds what the windows that are still open need of the slices before, and
//! gives the window that is due. Of the general graph, prefixes and suffixes over the slices, only those nodes exist that
//! the [`Combination`] needs. A node is a [`Table`]: all groups of a slice, or of several.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::window::Combination;

use crate::layout::EntryLayout;
use crate::table::Table;

/// A running window with fewer groups than this is never rebuilt: those that have left cost nothing.
const REBUILT_GROUPS_MIN: usize = 1024;

/// The slices of the windows that are open, combined.
///
/// Slices are inserted before the first window that they count in, and evicted after the last; in between they are part of
/// every window.
#[derive(Debug)]
pub struct Gag {
    nodes: Nodes,
    /// Tables that are no longer needed.
    spare: Vec<Table>,
}

/// A slice, and the end of the last window that it counts in.
#[derive(Debug)]
struct Slice {
    last_end: Micros,
    table: Table,
}

#[derive(Debug)]
enum Nodes {
    Slices(Slices),
    Running(Running),
    TwoStacks(Box<TwoStacks>),
    Prefix(Prefix),
}

/// Nothing but the slices: one for each window, or combined anew for each.
#[derive(Debug)]
struct Slices {
    slices: Vec<Slice>,
    window: Table,
}

/// Subtract on evict.
#[derive(Debug)]
struct Running {
    /// Ascending by last end.
    slices: VecDeque<Slice>,
    /// All slices added. It has one accumulator more than they have: how many of them have the group.
    window: Table,
}

/// Two stacks.
#[derive(Debug)]
struct TwoStacks {
    /// The older slices, each with all younger ones of this stack added; the oldest is the last.
    suffixes: Vec<Slice>,
    /// The younger slices.
    slices: Vec<Slice>,
    /// All of `slices` added.
    prefix: Table,
    window: Table,
}

/// One period's slices so far.
#[derive(Debug)]
struct Prefix {
    window: Table,
    last_end: Option<Micros>,
}

impl Gag {
    /// No slices yet. Their tables will have this layout.
    pub fn new(combination: Combination, layout: &Arc<EntryLayout>) -> Gag {
        let empty = || Table::new(layout.clone());
        let nodes = match combination {
            Combination::Single | Combination::Recompute => {
                Nodes::Slices(Slices { slices: Vec::new(), window: empty() })
            }
            Combination::SubtractOnEvict => {
                let window = Table::new(with_slice_count(layout));
                Nodes::Running(Running { slices: VecDeque::new(), window })
            }
            Combination::TwoStacks => {
                let (suffixes, slices) = (Vec::new(), Vec::new());
                Nodes::TwoStacks(Box::new(TwoStacks { suffixes, slices, prefix: empty(), window: empty() }))
            }
            Combination::Prefix => Nodes::Prefix(Prefix { window: empty(), last_end: None }),
        };
        Gag { nodes, spare: Vec::new() }
    }

    /// Adds a slice to all windows from the next one to the one that ends at `last_end`.
    pub fn insert(&mut self, table: Table, last_end: Micros) {
        let slice = Slice { last_end, table };
        match &mut self.nodes {
            Nodes::Slices(nodes) => nodes.slices.push(slice),
            Nodes::Running(nodes) => nodes.insert(slice),
            Nodes::TwoStacks(nodes) => self.spare.extend(nodes.insert(slice)),
            Nodes::Prefix(nodes) => self.spare.push(nodes.insert(slice)),
        }
    }

    /// Forgets the slices whose last window ends at or before `end`.
    pub fn evict(&mut self, end: Micros) {
        let spare = &mut self.spare;
        match &mut self.nodes {
            Nodes::Slices(nodes) => spare.extend(drain_until(&mut nodes.slices, end)),
            Nodes::Running(nodes) => nodes.evict(end, spare),
            Nodes::TwoStacks(nodes) => nodes.evict(end, spare),
            Nodes::Prefix(nodes) => nodes.evict(end),
        }
    }

    /// The groups of all slices that are held, and which entries they are.
    pub fn window(&mut self) -> (&Table, Vec<u32>) {
        let table = match &mut self.nodes {
            Nodes::Slices(nodes) => nodes.window(),
            Nodes::Running(nodes) => return nodes.window(),
            Nodes::TwoStacks(nodes) => nodes.window(),
            Nodes::Prefix(nodes) => &nodes.window,
        };
        let entries = table.entry_offsets();
        (table, entries)
    }

    /// Whether no slice is held.
    pub fn is_empty(&self) -> bool {
        match &self.nodes {
            Nodes::Slices(nodes) => nodes.slices.is_empty(),
            Nodes::Running(nodes) => nodes.slices.is_empty(),
            Nodes::TwoStacks(nodes) => nodes.suffixes.is_empty() && nodes.slices.is_empty(),
            Nodes::Prefix(nodes) => nodes.last_end.is_none(),
        }
    }

    /// Tables that are no longer needed, for later slices.
    pub fn take_spare(&mut self) -> Vec<Table> {
        std::mem::take(&mut self.spare)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        fn sum<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> usize {
            slices.into_iter().map(|slice| slice.table.bytes()).sum()
        }
        match &self.nodes {
            Nodes::Slices(nodes) => sum(&nodes.slices) + nodes.window.bytes(),
            Nodes::Running(nodes) => sum(&nodes.slices) + nodes.window.bytes(),
            Nodes::TwoStacks(nodes) => {
                sum(&nodes.suffixes) + sum(&nodes.slices) + nodes.prefix.bytes() + nodes.window.bytes()
            }
            Nodes::Prefix(nodes) => nodes.window.bytes(),
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

/// Removes the slices whose last window ends at or before `end`.
fn drain_until(slices: &mut Vec<Slice>, end: Micros) -> impl Iterator<Item = Table> + '_ {
    slices.extract_if(.., move |slice| slice.last_end <= end).map(|slice| slice.table)
}

impl Slices {
    fn window(&mut self) -> &Table {
        if let [slice] = self.slices.as_slice() {
            return &slice.table;
        }
        self.window.clear();
        for slice in &self.slices {
            self.window.add(&slice.table);
        }
        &self.window
    }
}

impl Running {
    fn insert(&mut self, slice: Slice) {
        self.window.add(&slice.table);
        let at = self.slices.partition_point(|other| other.last_end <= slice.last_end);
        self.slices.insert(at, slice);
    }

    fn evict(&mut self, end: Micros, spare: &mut Vec<Table>) {
        let count = self.slices.partition_point(|slice| slice.last_end <= end);
        let are_all = count == self.slices.len();
        for Slice { table, .. } in self.slices.drain(..count) {
            if !are_all {
                self.window.subtract(&table);
            }
            spare.push(table);
        }
        if are_all && count > 0 {
            self.window.clear();
        }
    }

    fn window(&mut self) -> (&Table, Vec<u32>) {
        let all = self.window.entry_offsets();
        let count = self.window.layout().accumulators().len() - 1;
        let counts = self.window.accumulator_array(count, &all);
        let counts = counts.as_primitive::<Int64Type>().values();
        let mut entries: Vec<u32> =
            all.iter().zip(counts).filter(|(_, count)| **count != 0).map(|(entry, _)| *entry).collect();
        if all.len() >= REBUILT_GROUPS_MIN && entries.len() * 2 < all.len() {
            let mut rebuilt = Table::new(self.window.layout().clone());
            rebuilt.add_entries(&self.window, entries);
            self.window = rebuilt;
            entries = self.window.entry_offsets();
        }
        (&self.window, entries)
    }
}

impl TwoStacks {
    /// Returns the table where it is no longer needed.
    fn insert(&mut self, mut slice: Slice) -> Option<Table> {
        if self.suffixes.first().is_none_or(|youngest| youngest.last_end < slice.last_end) {
            self.prefix.add(&slice.table);
            self.slices.push(slice);
            return None;
        }
        // It came late, among the older ones: all windows that begin no later than its last one have it.
        let at = self.suffixes.partition_point(|younger| younger.last_end > slice.last_end);
        for older in &mut self.suffixes[at..] {
            older.table.add(&slice.table);
        }
        if self.suffixes.get(at).is_some_and(|same| same.last_end == slice.last_end) {
            return Some(slice.table);
        }
        if let Some(younger) = at.checked_sub(1) {
            slice.table.add(&self.suffixes[younger].table);
        }
        self.suffixes.insert(at, slice);
        None
    }

    fn evict(&mut self, end: Micros, spare: &mut Vec<Table>) {
        let kept = self.suffixes.partition_point(|slice| slice.last_end > end);
        spare.extend(self.suffixes.drain(kept..).map(|slice| slice.table));
        let slices = self.slices.len();
        if !self.suffixes.is_empty() {
            return;
        }
        spare.extend(drain_until(&mut self.slices, end));
        if self.slices.len() < slices {
            self.flip();
        }
    }

    /// Makes suffixes of the younger slices.
    fn flip(&mut self) {
        self.slices.sort_by_key(|slice| std::cmp::Reverse(slice.last_end));
        std::mem::swap(&mut self.suffixes, &mut self.slices);
        for index in 1..self.suffixes.len() {
            let (younger, older) = self.suffixes.split_at_mut(index);
            older[0].table.add(&younger[index - 1].table);
        }
        self.prefix.clear();
    }

    fn window(&mut self) -> &Table {
        let Some(oldest) = self.suffixes.last() else { return &self.prefix };
        if self.slices.is_empty() {
            return &oldest.table;
        }
        self.window.clear();
        self.window.add(&oldest.table);
        self.window.add(&self.prefix);
        &self.window
    }
}

impl Prefix {
    /// Returns the table: it is no longer needed.
    fn insert(&mut self, slice: Slice) -> Table {
        debug_assert!(self.last_end.is_none_or(|last_end| last_end == slice.last_end), "one period at a time");
        self.last_end = Some(slice.last_end);
        self.window.add(&slice.table);
        slice.table
    }

    fn evict(&mut self, end: Micros) {
        if self.last_end.is_some_and(|last_end| last_end <= end) {
            self.last_end = None;
            self.window.clear();
        }
    }
}
