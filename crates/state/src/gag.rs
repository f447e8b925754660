//! Windows from slices, incrementally.
//!
//! A generalized aggregation graph (LightSaber, section 5) holds what the windows that are still open need of the slices before, and
//! gives the window that is due. Of the general graph, prefixes and suffixes over the slices, only those nodes exist that
//! the [`Combination`] needs.
//!
//! A slice's groups are found by key once, when it is inserted: from then on they have numbers. A node is a list of accumulators, of the
//! groups of one slice or of all groups, and nodes are combined column by column.
//!
//! Slices and windows may have many groups: what is done with them is done part by part, each about as large as its caller has [`Work`] left.

mod matrix;

mod parts;

mod running;

mod snapshot;

mod source;

mod spare;

mod two_stacks;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::window::Combination;

use self::parts::SharedKeys;
pub(crate) use self::parts::{Halves, Parts};
use self::running::Running;
use self::source::{Origins, Source};
use self::spare::Spare;
use self::two_stacks::SliceStacks;
use crate::layout::EntryLayout;
use crate::table::{ABSENT, Chosen, GroupNumbers, Table};
use crate::work::{Work, listing_work};

/// Groups of a slice that are inserted at a time: their entries stay in the second-level cache.
const INSERT_BATCH: usize = 4096;

/// Groups of a slice that are combined or subtracted at a time, where these have nothing beside their entries.
const SLICE_BATCH: usize = 1 << 14;

/// Slots of a table whose entries are listed at a time.
const LISTED_SLOTS: usize = 1 << 14;

/// With fewer groups than this, those that have left the window stay numbered: they cost nothing.
const RENUMBERED_GROUPS_MIN: usize = 1024;

/// Groups of a running window leave it one by one; numbers are given anew once there are so many for each that is left.
const NUMBERS_PER_GROUP_MAX: usize = 4;

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
    /// Its entries, as far as its slots have been looked at.
    entries: Vec<u32>,
    slots_listed: usize,
}

/// Slices whose groups have numbers.
#[derive(Debug)]
pub struct Combined {
    numbers: GroupNumbers,
    /// The keys of groups by their numbers, where these are not their places in the window.
    keys: Table,
    /// Where pieces of slices come from.
    sources: Vec<Source>,
    origins: Origins,
    /// How often all numbers were taken back.
    numberings: u64,
    nodes: Nodes,
    /// The window that is due: groups that have numbers, by number, but for those of [`Running`].
    window: Table,
    /// The accumulator that is zero where no slice has the group: a count of rows, or one more than slices have.
    presence: usize,
    /// The layout of nodes, which have no keys.
    values: Arc<EntryLayout>,
    /// Groups of the window that a slice has, where not all.
    present: Vec<u32>,
    are_all_present: bool,
    /// The slice that is being inserted.
    arriving: Option<Arriving>,
    /// Slices that have been combined to the window that is due, where it is combined anew.
    combined: Progress,
    /// The keys of all groups that had numbers when a window left in parts.
    shared_keys: Option<Arc<SharedKeys>>,
    spare: Spare,
}

/// A slice on its way into the graph.
#[derive(Debug)]
struct Arriving {
    /// Entries of its table.
    entries: Vec<u32>,
    /// How many of them have been inserted.
    done: usize,
    values: Table,
    /// The numbers of the groups that have been inserted.
    to: Vec<u32>,
}

/// A slice, and the end of the last window that it counts in.
#[derive(Debug)]
struct Slice {
    last_end: Micros,
    /// Accumulators of its groups, side by side.
    values: Table,
    /// The numbers of these groups; none where they are the first ones, in their order.
    to: Option<Vec<u32>>,
}

/// How far one slice after the other has been gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    slices: usize,
    /// Of the slice behind these.
    groups: usize,
}

impl Progress {
    /// The next groups of the slice that is gone through, which has these.
    fn next(&mut self, values: &Table, work: &mut Work) -> Range<usize> {
        let part = work.part(values.work_per_group(), self.groups..values.groups(), SLICE_BATCH);
        self.groups = part.end;
        if part.end == values.groups() {
            *self = Progress { slices: self.slices + 1, groups: 0 };
        }
        part
    }
}

#[derive(Debug)]
enum Nodes {
    /// Combined anew for each window.
    Slices(Vec<Slice>),
    Running(Running),
    TwoStacks(SliceStacks),
    /// One period's slices so far: the end of its last window.
    Prefix(Option<Micros>),
}

impl Gag {
    /// No slices yet. Their tables will have this layout. Where they `come_in_order` none comes behind a later one.
    pub fn new(combination: Combination, layout: &Arc<EntryLayout>, come_in_order: bool) -> Gag {
        let (counted, presence) = with_presence(layout, combination == Combination::SubtractOnEvict);
        let values = counted.without_keys();
        let nodes = match combination {
            Combination::Single | Combination::Buckets => {
                let (layout, entries) = (layout.clone(), Vec::new());
                return Gag::Single(Box::new(Single { layout, slice: None, entries, slots_listed: 0 }));
            }
            Combination::Recompute => Nodes::Slices(Vec::new()),
            Combination::SubtractOnEvict => Nodes::Running(Running::new(&values)),
            Combination::TwoStacks => Nodes::TwoStacks(SliceStacks::new(&values, presence, come_in_order)),
            Combination::Prefix => Nodes::Prefix(None),
            Combination::Merge => unreachable!("sessions have no graph"),
        };
        Gag::Combined(Box::new(Combined {
            numbers: GroupNumbers::new(&counted),
            keys: Table::list(EntryLayout::new(layout.key_columns(), &[])),
            sources: Vec::new(),
            origins: Origins::default(),
            numberings: 0,
            nodes,
            window: Table::list(counted),
            presence,
            values,
            present: Vec::new(),
            are_all_present: true,
            arriving: None,
            combined: Progress::default(),
            shared_keys: None,
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

    /// Adds a slice to all windows from the next one to the one that ends at `last_end`, or a part of it: whether it has been added. Takes the table
    /// where it is kept.
    ///
    /// # Panics
    /// Where each window is one slice, and there is one; or where another slice has been added in part.
    pub(crate) fn insert(&mut self, table: &mut Option<Table>, last_end: Micros, work: &mut Work) -> bool {
        match self {
            Gag::Single(node) => {
                assert!(node.slice.is_none(), "a window is one slice");
                node.slice = table.take().map(|table| (last_end, table));
                true
            }
            Gag::Combined(nodes) => nodes.insert(table.as_ref().expect("there is a slice"), last_end, work),
        }
    }

    /// The slices whose groups have numbers.
    ///
    /// # Panics
    /// Where each window is one slice.
    pub(crate) fn combined(&mut self) -> &mut Combined {
        let Gag::Combined(nodes) = self else { panic!("the groups of single slices have no numbers") };
        nodes
    }

    /// Puts the window together that is due, or a part of it: whether it has been.
    pub(crate) fn combine(&mut self, work: &mut Work) -> bool {
        match self {
            Gag::Single(node) => node.list(work),
            Gag::Combined(nodes) => nodes.combine(work),
        }
    }

    /// The groups of all slices that are held, which have been combined: a table, and which of its entries they are. Without a slice there is none.
    pub fn window(&self) -> Option<(&Table, Chosen<'_>)> {
        match self {
            Gag::Single(node) => node.slice.as_ref().map(|(_, table)| (table, Chosen::Listed(&node.entries))),
            Gag::Combined(nodes) if nodes.are_all_present => {
                Some((&nodes.window, Chosen::first(nodes.window.groups())))
            }
            Gag::Combined(nodes) => Some((&nodes.window, Chosen::Listed(&nodes.present))),
        }
    }

    /// Tells the keys of the groups of [`Gag::window`], where these are all that there are: they are the same as long as this is. `None` where that is not known.
    pub(crate) fn keys_version(&self) -> Option<u64> {
        match self {
            Gag::Combined(nodes) if nodes.are_all_present => Some(nodes.window.key_changes()),
            _ => None,
        }
    }

    /// Forgets the slices whose last window ends at or before `end`, or some of them: whether all have been forgotten. A table that is no longer
    /// needed is added to `unneeded`.
    pub(crate) fn evict(&mut self, end: Micros, unneeded: &mut Vec<Table>, work: &mut Work) -> bool {
        match self {
            Gag::Single(node) => {
                unneeded.extend(node.slice.take_if(|(last_end, _)| *last_end <= end).map(|(_, table)| table));
                node.entries.clear();
                node.slots_listed = 0;
                true
            }
            Gag::Combined(nodes) => nodes.evict(end, work),
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
                let arriving = nodes.arriving.as_ref().map_or(0, |arriving| arriving.values.bytes());
                let sources: usize = nodes.sources.iter().map(Source::bytes).sum();
                let shared = nodes.shared_keys.as_ref().map_or(0, |keys| keys.bytes());
                let numbers = nodes.numbers.bytes() + nodes.keys.bytes() + shared + sources;
                nodes.nodes.bytes() + nodes.window.bytes() + numbers + nodes.spare.bytes() + arriving
            }
        }
    }
}

/// The layout, with one more behind its accumulators where these do not count rows, and which of them is zero where a group is not there: a count
/// of slices where these are subtracted, else a byte.
fn with_presence(layout: &Arc<EntryLayout>, is_subtracted: bool) -> (Arc<EntryLayout>, usize) {
    if let Some(presence) = layout.row_count() {
        return (layout.clone(), presence);
    }
    let presence = match is_subtracted {
        true => Accumulator::counting_rows(),
        false => Accumulator::new(Accumulate::Maximum, Some(DataType::Boolean), false),
    };
    (layout.with_another(presence), layout.accumulators().len())
}

impl Single {
    /// Lists the entries of the slice, or some of them: whether all have been listed.
    fn list(&mut self, work: &mut Work) -> bool {
        let Some((_, table)) = &self.slice else { return true };
        let (slots, listed) = (table.slots(), self.entries.len());
        let end = slots.min(self.slots_listed + LISTED_SLOTS);
        table.push_entries(self.slots_listed..end, &mut self.entries);
        work.spend(listing_work(end - self.slots_listed, self.entries.len() - listed));
        self.slots_listed = end;
        end == slots
    }
}

impl Combined {
    fn insert(&mut self, table: &Table, last_end: Micros, work: &mut Work) -> bool {
        let mut arriving = self.arriving.take().unwrap_or_else(|| {
            let mut entries = self.spare.numbers();
            table.push_entries(0..table.slots(), &mut entries);
            let values = self.spare.list(&self.values);
            let mut to = self.spare.numbers();
            to.reserve_exact(entries.len());
            Arriving { entries, done: 0, values, to }
        });
        let batch = work.part(table.work_per_group(), arriving.done..arriving.entries.len(), INSERT_BATCH);
        arriving.done = batch.end;
        self.insert_batch(table, &mut arriving, batch);
        if arriving.done < arriving.entries.len() {
            self.arriving = Some(arriving);
            return false;
        }
        let Arriving { entries, values, to, .. } = arriving;
        self.spare.keep_numbers(entries);
        self.origins.note(None, last_end);
        self.keep(values, Some(to), last_end);
        true
    }

    /// Keeps what the groups with some numbers have in a slice, or the first groups in their order, which has been added to what is made of all slices.
    fn keep(&mut self, values: Table, to: Option<Vec<u32>>, last_end: Micros) {
        let are_first = |to: &Vec<u32>| to.iter().copied().eq(0..to.len() as u32);
        let slice = Slice { last_end, values, to: to.filter(|to| !are_first(to)) };
        match &mut self.nodes {
            Nodes::Slices(slices) => slices.push(slice),
            Nodes::Running(running) => {
                // It may come between the others.
                self.combined = Progress::default();
                running.insert(slice);
            }
            Nodes::TwoStacks(stacks) => stacks.insert(slice, self.window.groups(), &mut self.spare),
            Nodes::Prefix(period) => {
                debug_assert!(period.is_none_or(|period| period == last_end), "one period at a time");
                *period = Some(last_end);
                self.spare.keep(slice);
            }
        }
    }

    /// How many groups have numbers.
    fn known_groups(&self) -> usize {
        if let Nodes::Running(_) = self.nodes { self.keys.groups() } else { self.window.groups() }
    }

    /// Numbers some groups of a slice, and adds what they have to its node.
    fn insert_batch(&mut self, table: &Table, arriving: &mut Arriving, batch: Range<usize>) {
        let entries = &arriving.entries[batch];
        self.find_groups();
        let Combined { numbers, keys, nodes, window, spare, .. } = self;
        numbers.assign(table, entries.into(), &mut spare.to, &mut spare.new);
        if !spare.new.is_empty() {
            nodes.known(keys, window).append_keys(table, &spare.new);
        }
        let to = std::mem::take(&mut self.spare.to);
        self.add(table, entries, &to, &mut arriving.values);
        arriving.to.extend_from_slice(&to);
        self.spare.to = to;
    }

    /// Adds what some entries of a table have, of the groups with these numbers, to the window, or else appends it to `values`.
    fn add(&mut self, table: &Table, entries: &[u32], to: &[u32], values: &mut Table) {
        let Combined { keys, nodes, window, spare, .. } = self;
        match nodes {
            Nodes::Prefix(_) => return window.add_at(table, entries, to),
            // The groups of a running window are put into it by their places.
            Nodes::Running(running) => running.add(window, keys, (table, entries), to, spare),
            Nodes::Slices(_) | Nodes::TwoStacks(_) => {}
        }
        values.append_values(table, entries);
    }

    fn evict(&mut self, end: Micros, work: &mut Work) -> bool {
        self.combined = Progress::default();
        self.origins.evict(end);
        let Combined { nodes, window, spare, presence, .. } = self;
        let is_done = match nodes {
            Nodes::Slices(slices) => {
                slices.extract_if(.., |slice| slice.last_end <= end).for_each(|slice| spare.keep(slice));
                true
            }
            Nodes::Running(running) => running.evict(end, window, *presence, spare, work),
            Nodes::TwoStacks(stacks) => stacks.evict(end, window.groups(), spare, work),
            Nodes::Prefix(period) => {
                period.take_if(|period| *period <= end);
                true
            }
        };
        if is_done && nodes.is_empty() && !self.numbers.is_empty() {
            self.numbers.clear();
            self.shared_keys = None;
            self.keys.clear();
            self.numberings += 1;
            window.clear();
            match nodes {
                Nodes::TwoStacks(stacks) => stacks.clear(),
                Nodes::Running(running) => running.clear(),
                Nodes::Slices(_) | Nodes::Prefix(_) => {}
            }
        }
        is_done
    }

    /// Puts the window together that is due, slice by slice where it is combined from them, and finds which of the groups in it a slice has.
    fn combine(&mut self, work: &mut Work) -> bool {
        let Combined { nodes, window, combined, spare, .. } = self;
        match nodes {
            Nodes::Slices(slices) => {
                if *combined == Progress::default() {
                    window.reset_accumulators();
                }
                while let Some(slice) = slices.get(combined.slices) {
                    if work.is_done() {
                        return false;
                    }
                    let part = combined.next(&slice.values, work);
                    window.add_at(
                        &slice.values,
                        Chosen::first(part.end).part(part.clone()),
                        slice.numbers().part(part),
                    );
                }
            }
            Nodes::TwoStacks(stacks) => stacks.combine(window),
            Nodes::Running(running) => {
                if !running.combine(window, combined, spare, work) {
                    return false;
                }
            }
            Nodes::Prefix(_) => {}
        }
        if self.must_renumber() {
            self.renumber();
        }
        // A running window has no others.
        self.are_all_present = matches!(self.nodes, Nodes::Running(_))
            || self.window.present(self.presence, &mut self.present).are_neighbours();
        true
    }

    /// Whether so many groups have left that it is worthwhile to forget their numbers.
    fn must_renumber(&self) -> bool {
        let groups = self.window.groups();
        match &self.nodes {
            Nodes::Running(running) => {
                let have_left =
                    running.added >= RENUMBERED_GROUPS_MIN && groups * NUMBERS_PER_GROUP_MAX < running.added;
                have_left || self.may_stop_looking_up()
            }
            _ => groups >= RENUMBERED_GROUPS_MIN && self.window.count_present(self.presence) * 2 < groups,
        }
    }

    /// Gives new numbers to the groups that are present, and forgets the others.
    fn renumber(&mut self) {
        let old_groups = self.window.groups();
        let present = self.window.present(self.presence, &mut self.present);
        let mut window = self.spare.window.take().unwrap_or_else(|| Table::list(self.window.layout().clone()));
        window.append(&self.window, present);
        let groups = window.groups();
        self.numbers.begin_anew(window.layout(), groups, NUMBERS_PER_GROUP_MAX * groups);
        let mut renumbered = vec![ABSENT; old_groups];
        (0..).zip(present.iter()).for_each(|(number, old)| renumbered[old as usize] = number);
        let by_number = if let Nodes::Running(running) = &self.nodes { running.places() } else { &renumbered };
        self.sources.iter_mut().for_each(|source| source.renumber(self.numberings, by_number));
        match &mut self.nodes {
            Nodes::Slices(slices) => slices.iter_mut().for_each(|slice| slice.renumber(&renumbered)),
            // All groups are present: each has its place for a number.
            Nodes::Running(running) => {
                running.renumber((0..groups as u32).collect());
                Spare::empty(&mut self.keys);
                self.keys.reserve(NUMBERS_PER_GROUP_MAX * groups);
                self.keys.append_keys(&window, Chosen::first(groups));
            }
            Nodes::TwoStacks(stacks) => stacks.renumber(present, &renumbered),
            Nodes::Prefix(_) => {}
        }
        window.follow(&self.window);
        let mut before = std::mem::replace(&mut self.window, window);
        Spare::empty(&mut before);
        self.spare.window = Some(before);
    }
}

impl Nodes {
    /// Which of the two lists has the keys of all groups that have numbers.
    fn known<'a>(&self, keys: &'a mut Table, window: &'a mut Table) -> &'a mut Table {
        if let Nodes::Running(_) = self { keys } else { window }
    }

    fn is_empty(&self) -> bool {
        match self {
            Nodes::Slices(slices) => slices.is_empty(),
            Nodes::Running(running) => running.is_empty(),
            Nodes::TwoStacks(stacks) => stacks.is_empty(),
            Nodes::Prefix(period) => period.is_none(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Nodes::Slices(slices) => slices.iter().map(Slice::bytes).sum(),
            Nodes::Running(running) => running.bytes(),
            Nodes::TwoStacks(stacks) => stacks.bytes(),
            Nodes::Prefix(_) => 0,
        }
    }
}

impl Slice {
    /// The numbers of its groups.
    fn numbers(&self) -> Chosen<'_> {
        self.to.as_ref().map_or(Chosen::first(self.values.groups()), Chosen::from)
    }

    fn copy(&self) -> Slice {
        let mut values = Table::list(self.values.layout().clone());
        values.append_values(&self.values, Chosen::first(self.values.groups()));
        Slice { values, to: self.to.clone(), ..*self }
    }

    /// Gives its groups other numbers, and forgets those that get none: it has no rows of them.
    fn renumber(&mut self, numbers: &[u32]) {
        let mut to: Vec<u32> = self.numbers().iter().map(|number| numbers[number as usize]).collect();
        if to.contains(&ABSENT) {
            let kept: Vec<u32> = (0..).zip(&to).filter(|(_, to)| **to != ABSENT).map(|(group, _)| group).collect();
            let mut values = Table::list(self.values.layout().clone());
            values.append_values(&self.values, &kept);
            self.values = values;
            to.retain(|to| *to != ABSENT);
        }
        self.to = Some(to);
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.to.as_ref().map_or(0, |to| 4 * to.capacity())
    }
}
