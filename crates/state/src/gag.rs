//! Windows from slices, incrementally.
//!
//! A generalized aggregation graph (LightSaber, section 5) holds what the windows that are still open need of the slices before, and
//! gives the window that is due. Of the general graph, prefixes and suffixes over the slices, only those nodes exist that
//! the [`Combination`] needs.
//!
//! A slice's groups are found by key once, when it is inserted: from then on they have numbers. A node is a list of accumulators, of the
//! groups of one slice or of all groups, and nodes are combined column by column.

use std::collections::VecDeque;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::window::Combination;

use crate::layout::EntryLayout;
use crate::table::{ABSENT, Chosen, GroupNumbers, Table};

/// With fewer groups than this, those that have left the window stay numbered: they cost nothing.
const RENUMBERED_GROUPS_MIN: usize = 1024;

/// Groups of a running window leave it one by one; numbers are given anew once there are so many for each that is left.
const NUMBERS_PER_GROUP_MAX: usize = 4;

/// Nodes that are no longer needed, kept for the next slices.
const SPARE_NODES_MAX: usize = 64;

/// More are kept up to so many bytes: windows may have many small slices.
const SPARE_BYTES_MAX: usize = 4 << 20;

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
    /// The window that is due: groups that have numbers, by number, but for those of [`Running`].
    window: Table,
    /// The accumulator that is zero where no slice has the group: a count of rows, or one more than slices have, of slices.
    presence: usize,
    /// Groups of the window that a slice has, where not all.
    present: Vec<u32>,
    spare: Spare,
}

/// Buffers that are reused.
#[derive(Debug, Default)]
struct Spare {
    lists: Vec<Table>,
    list_bytes: usize,
    numbers: Vec<Vec<u32>>,
    entries: Vec<u32>,
    new: Vec<u32>,
    places: Vec<u32>,
}

/// A slice, and the end of the last window that it counts in.
#[derive(Debug)]
struct Slice {
    last_end: Micros,
    /// Accumulators of its groups, side by side.
    values: Table,
    /// The numbers of these groups.
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
    Running(Running),
    TwoStacks(Box<TwoStacks>),
    /// One period's slices so far: the end of its last window.
    Prefix(Option<Micros>),
}

/// Subtract on evict. The window has only groups that a slice has, in any order.
#[derive(Debug, Default)]
struct Running {
    /// Ascending by last end.
    slices: VecDeque<Slice>,
    /// Where each numbered group is in the window; [`ABSENT`] where it has left it.
    places: Vec<u32>,
    /// The number of each group of the window.
    numbers: Vec<u32>,
    /// Groups that have come into the window since groups were numbered.
    added: usize,
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
        let (counted, presence) = with_presence(layout);
        let nodes = match combination {
            Combination::Single | Combination::Buckets => {
                return Gag::Single(Box::new(Single { layout: layout.clone(), slice: None, entries: Vec::new() }));
            }
            Combination::Recompute => Nodes::Slices(Vec::new()),
            Combination::SubtractOnEvict => Nodes::Running(Running::default()),
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
            presence,
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
    pub fn window(&mut self) -> Option<(&Table, Chosen<'_>)> {
        match self {
            Gag::Single(node) => {
                let (_, table) = node.slice.as_ref()?;
                node.entries.clear();
                table.push_entries(&mut node.entries);
                Some((table, Chosen::Listed(&node.entries)))
            }
            Gag::Combined(nodes) => Some(nodes.combine()),
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
                nodes.nodes.bytes() + nodes.window.bytes() + nodes.numbers.bytes() + nodes.spare.list_bytes
            }
        }
    }
}

/// The layout, with a count of slices behind its accumulators where these do not count rows, and which of them is zero where a group is not there.
fn with_presence(layout: &Arc<EntryLayout>) -> (Arc<EntryLayout>, usize) {
    let slots = layout.accumulators();
    let counts_rows = |kept: &Accumulator| kept.accumulate == Accumulate::Count && !kept.argument_nullable;
    if let Some(presence) = slots.iter().position(|slot| counts_rows(&slot.accumulator)) {
        return (layout.clone(), presence);
    }
    let count = Accumulator::counting_rows();
    let accumulators: Vec<Accumulator> = slots.iter().map(|slot| slot.accumulator.clone()).chain([count]).collect();
    (EntryLayout::new(layout.key_columns(), &accumulators), slots.len())
}

impl Combined {
    fn insert(&mut self, table: &Table, last_end: Micros) {
        let to = self.number(table);
        let Combined { nodes, window, spare, .. } = self;
        match nodes {
            Nodes::Running(running) => running.add(window, table, &to, spare),
            Nodes::Prefix(period) => {
                debug_assert!(period.is_none_or(|period| period == last_end), "one period at a time");
                *period = Some(last_end);
                window.add_at(table, &spare.entries, &to);
                return spare.numbers.push(to);
            }
            Nodes::Slices(_) | Nodes::TwoStacks(_) => {}
        }
        let mut values = spare.list(window.layout());
        values.append_values(table, &spare.entries);
        let slice = Slice { last_end, values, to };
        match nodes {
            Nodes::Slices(slices) => slices.push(slice),
            Nodes::Running(running) => {
                let at = running.slices.partition_point(|other| other.last_end <= last_end);
                running.slices.insert(at, slice);
            }
            Nodes::TwoStacks(stacks) => stacks.insert(slice, window.groups(), spare),
            Nodes::Prefix(_) => unreachable!("a prefix keeps no slices"),
        }
    }

    /// Numbers a slice's groups, which are left in `spare.entries`. Returns the numbers.
    fn number(&mut self, table: &Table) -> Vec<u32> {
        let Spare { entries, new, numbers, .. } = &mut self.spare;
        entries.clear();
        table.push_entries(entries);
        let mut to = numbers.pop().unwrap_or_default();
        self.numbers.assign(table, Chosen::Listed(entries), &mut to, new);
        // The groups of a running window are put into it by their places.
        if !new.is_empty() && !matches!(self.nodes, Nodes::Running(_)) {
            self.window.append_keys(table, &*new);
        }
        to
    }

    fn evict(&mut self, end: Micros) {
        let Combined { nodes, window, spare, presence, .. } = self;
        let before = nodes.is_empty();
        match nodes {
            Nodes::Slices(slices) => {
                slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| spare.keep(slice));
            }
            Nodes::Running(running) => running.evict(end, window, *presence, spare),
            Nodes::TwoStacks(stacks) => stacks.evict(end, window.groups(), spare),
            Nodes::Prefix(period) => {
                period.take_if(|period| *period <= end);
            }
        }
        if nodes.is_empty() && !before {
            self.numbers.clear();
            window.clear();
            match nodes {
                Nodes::TwoStacks(stacks) => stacks.prefix.clear(),
                Nodes::Running(running) => *running = Running::default(),
                Nodes::Slices(_) | Nodes::Prefix(_) => {}
            }
        }
    }

    /// Puts the window together that is due: its table, and which of the groups in it a slice has.
    fn combine(&mut self) -> (&Table, Chosen<'_>) {
        match &self.nodes {
            Nodes::Slices(slices) => {
                self.window.reset_accumulators();
                for slice in slices {
                    self.window.add_at(&slice.values, Chosen::first(slice.to.len()), &slice.to);
                }
            }
            Nodes::TwoStacks(stacks) => {
                match stacks.suffixes.last() {
                    Some(oldest) => self.window.replace_values(&oldest.values),
                    None => self.window.reset_accumulators(),
                }
                let younger = Chosen::first(stacks.prefix.groups());
                self.window.add_at(&stacks.prefix, younger, younger);
            }
            Nodes::Running(_) | Nodes::Prefix(_) => {}
        }
        if self.must_renumber() {
            self.renumber();
        }
        (&self.window, self.window.counted(self.presence, &mut self.present))
    }

    /// Whether so many groups have left that it is worthwhile to forget their numbers.
    fn must_renumber(&self) -> bool {
        let groups = self.window.groups();
        match &self.nodes {
            Nodes::Running(running) => {
                running.added >= RENUMBERED_GROUPS_MIN && groups * NUMBERS_PER_GROUP_MAX < running.added
            }
            _ => {
                let present = || self.window.counts(self.presence).iter().filter(|&&count| count != 0).count();
                groups >= RENUMBERED_GROUPS_MIN && present() * 2 < groups
            }
        }
    }

    /// Gives new numbers to the groups that are present, and forgets the others.
    fn renumber(&mut self) {
        let old_groups = self.window.groups();
        let present = self.window.counted(self.presence, &mut self.present);
        let mut window = Table::list(self.window.layout().clone());
        window.append(&self.window, present);
        // A table that was only cleared would keep room for the keys of groups that have left.
        self.numbers = GroupNumbers::new(window.layout());
        let (mut to, mut new) = (Vec::new(), Vec::new());
        self.numbers.assign(&window, Chosen::first(window.groups()), &mut to, &mut new);
        debug_assert!(to.iter().copied().eq(0..to.len() as u32), "groups are numbered in their order");
        let mut renumbered = vec![ABSENT; old_groups];
        (0..).zip(present.iter()).for_each(|(number, old)| renumbered[old as usize] = number);
        let renumber = |slice: &mut Slice, numbers: &[u32]| {
            slice.to.iter_mut().for_each(|to| *to = numbers[*to as usize]);
        };
        let renumber_all = |values: &mut Table| {
            let known: Vec<u32> = present.iter().take_while(|&old| (old as usize) < values.groups()).collect();
            let mut list = Table::list(values.layout().clone());
            list.append_values(values, &known);
            *values = list;
        };
        match &mut self.nodes {
            Nodes::Slices(slices) => slices.iter_mut().for_each(|slice| renumber(slice, &renumbered)),
            Nodes::Running(running) => {
                // All groups are present: each has its place for a number.
                running.slices.iter_mut().for_each(|slice| renumber(slice, &running.places));
                running.added = to.len();
                (running.places, running.numbers) = (to.clone(), to);
            }
            Nodes::TwoStacks(stacks) => {
                stacks.slices.iter_mut().for_each(|slice| renumber(slice, &renumbered));
                stacks.suffixes.iter_mut().for_each(|suffix| renumber_all(&mut suffix.values));
                renumber_all(&mut stacks.prefix);
            }
            Nodes::Prefix(_) => {}
        }
        self.window = window;
    }
}

impl Running {
    /// Adds a slice's groups, whose numbers these are, to the window.
    fn add(&mut self, window: &mut Table, table: &Table, numbers: &[u32], spare: &mut Spare) {
        let Spare { entries, new, places, .. } = spare;
        places.clear();
        new.clear();
        let mut groups = self.numbers.len() as u32;
        for (&number, &entry) in numbers.iter().zip(&*entries) {
            // Numbers are given one after the other.
            if number as usize == self.places.len() {
                self.places.push(ABSENT);
            }
            let place = &mut self.places[number as usize];
            if *place == ABSENT {
                *place = groups;
                groups += 1;
                self.numbers.push(number);
                new.push(entry);
            }
            places.push(*place);
        }
        self.added += new.len();
        window.append_keys(table, &*new);
        window.add_at(table, &*entries, &*places);
    }

    fn evict(&mut self, end: Micros, window: &mut Table, presence: usize, spare: &mut Spare) {
        while let Some(slice) = self.slices.pop_front_if(|slice| slice.last_end <= end) {
            let places = &mut spare.places;
            places.clear();
            places.extend(slice.to.iter().map(|&number| self.places[number as usize]));
            window.subtract_at(&slice.values, Chosen::first(places.len()), &*places);
            let counts = window.counts(presence);
            let left = slice.to.iter().zip(&*places).filter(|(_, place)| counts[**place as usize] == 0);
            let left: Vec<u32> = left.map(|(number, _)| *number).collect();
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
            spare.keep(slice);
        }
    }
}

impl Nodes {
    fn is_empty(&self) -> bool {
        match self {
            Nodes::Slices(slices) => slices.is_empty(),
            Nodes::Running(running) => running.slices.is_empty(),
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
            Nodes::Running(running) => sum(&running.slices) + 4 * (running.places.len() + running.numbers.len()),
            Nodes::TwoStacks(stacks) => {
                let suffixes: usize = stacks.suffixes.iter().map(|suffix| suffix.values.bytes()).sum();
                suffixes + sum(&stacks.slices) + stacks.prefix.bytes()
            }
            Nodes::Prefix(_) => 0,
        }
    }
}

impl Spare {
    /// An empty list.
    fn list(&mut self, layout: &Arc<EntryLayout>) -> Table {
        let Some(list) = self.lists.pop() else { return Table::list(layout.clone()) };
        self.list_bytes -= list.bytes();
        list
    }

    fn keep(&mut self, slice: Slice) {
        self.keep_list(slice.values);
        if self.numbers.len() < SPARE_NODES_MAX {
            self.numbers.push(slice.to);
        }
    }

    fn keep_list(&mut self, mut list: Table) {
        list.clear();
        let bytes = self.list_bytes + list.bytes();
        if self.lists.len() < SPARE_NODES_MAX || bytes <= SPARE_BYTES_MAX {
            self.list_bytes = bytes;
            self.lists.push(list);
        }
    }
}

impl TwoStacks {
    /// Inserts a slice whose groups are among the first `groups`.
    fn insert(&mut self, slice: Slice, groups: usize, spare: &mut Spare) {
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

    fn evict(&mut self, end: Micros, groups: usize, spare: &mut Spare) {
        let kept = self.suffixes.partition_point(|suffix| suffix.last_end > end);
        self.suffixes.drain(kept..).for_each(|suffix| spare.keep_list(suffix.values));
        if !self.suffixes.is_empty() {
            return;
        }
        let slices = self.slices.len();
        self.slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| spare.keep(slice));
        if self.slices.len() < slices {
            self.flip(groups, spare);
        }
    }

    /// Makes suffixes of the younger slices.
    fn flip(&mut self, groups: usize, spare: &mut Spare) {
        self.slices.sort_by_key(|slice| std::cmp::Reverse(slice.last_end));
        for slice in self.slices.drain(..) {
            let values = suffix(self.suffixes.last().map(|younger| &younger.values), groups, &slice, spare);
            self.suffixes.push(Suffix { last_end: slice.last_end, values });
            spare.keep(slice);
        }
        self.prefix.clear();
    }
}

/// A slice's groups among those of the younger suffix.
fn suffix(younger: Option<&Table>, groups: usize, slice: &Slice, spare: &mut Spare) -> Table {
    let mut values = spare.list(slice.values.layout());
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
    values.add_at(&slice.values, Chosen::first(slice.to.len()), &slice.to);
}
