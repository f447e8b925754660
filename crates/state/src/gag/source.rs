//! Small slices of workers: their groups have numbers of their own, the keys of which are looked up once, and searched for only where slices of other
//! sources are held as well. Slices that have all groups mostly have them in one order: then no number is looked up.

use std::ops::Range;
use std::sync::{Arc, Weak};

use pelton_data::Micros;

use super::two_stacks::SliceStacks;
use super::{Combined, Nodes, RENUMBERED_GROUPS_MIN};
use crate::small_slices::{SmallSliceSource, SmallSlices};
use crate::table::{ABSENT, Chosen, SummedRows, Table};
use crate::work::Work;

/// Where pieces come from whose numbers are of the same groups.
#[derive(Debug)]
pub(super) struct Source {
    id: Arc<SmallSliceSource>,
    /// The keys of its groups, by its numbers.
    keys: Table,
    /// The numbers that these groups have in the graph, as far as they are known; else [`ABSENT`].
    to: Vec<u32>,
    /// How many of them are known.
    numbered: usize,
    /// Which numbering of the graph these are of.
    numbering: u64,
    /// A buffer that is reused.
    unknown: Vec<u32>,
    /// Where the groups of the graph are in a slice that has all of them. The next one mostly has them there as well.
    order: Option<GroupOrder>,
}

/// Where the groups of the graph are in slices that have all of them.
#[derive(Debug)]
struct GroupOrder {
    /// The numbers of the groups of such a slice, as they come in its piece.
    numbers: Vec<u32>,
    /// Where these are, in the order in which they are wanted.
    places: Vec<u32>,
}

impl GroupOrder {
    /// Groups with these numbers in a slice have those in the graph.
    fn new(numbers: &[u32], to: &[u32]) -> GroupOrder {
        let mut places = vec![0; to.len()];
        (0..).zip(to).for_each(|(at, &place)| places[place as usize] = at);
        GroupOrder { numbers: numbers.to_vec(), places }
    }

    /// How many groups there are.
    fn groups(&self) -> usize {
        self.numbers.len()
    }

    /// Whether these are the numbers of a slice that has all groups.
    fn is_of(&self, numbers: &[u32]) -> bool {
        self.numbers == numbers
    }

    /// Appends what such a slice has to a list: its entries are those, in the order of its numbers. `ordered` is overwritten.
    fn append(&self, list: &mut Table, (table, entries): (&Table, &[u32]), ordered: &mut Vec<u32>) {
        ordered.clear();
        ordered.extend(self.places.iter().map(|&at| entries[at as usize]));
        list.append_values(table, Chosen::from(&*ordered));
    }

    fn bytes(&self) -> usize {
        4 * (self.numbers.capacity() + self.places.capacity())
    }
}

/// Whose slices are held.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// Where the pieces come from that came last,
    recent: Weak<SmallSliceSource>,
    /// and the end of the last window that their slices count in.
    recent_last_end: Option<Micros>,
    /// The end of the last window that other slices count in which are held.
    others_last_end: Option<Micros>,
}

impl Origins {
    /// A slice comes whose last window ends then: a piece from that source, or a table.
    pub(super) fn note(&mut self, source: Option<&Arc<SmallSliceSource>>, last_end: Micros) {
        let Some(source) = source else {
            self.others_last_end = self.others_last_end.max(Some(last_end));
            return;
        };
        if !std::ptr::eq(self.recent.as_ptr(), Arc::as_ptr(source)) {
            self.recent = Arc::downgrade(source);
            self.others_last_end = self.others_last_end.max(self.recent_last_end.take());
        }
        self.recent_last_end = self.recent_last_end.max(Some(last_end));
    }

    /// The slices have left whose last windows end at or before `end`.
    pub(super) fn evict(&mut self, end: Micros) {
        self.others_last_end.take_if(|last_end| *last_end <= end);
    }
}

impl Source {
    /// Nothing is known of the source of these pieces. Another one, which is no longer needed, gives its memory.
    fn new(pieces: &SmallSlices, numbering: u64, unneeded: Option<Source>) -> Source {
        let same = unneeded.filter(|source| Arc::ptr_eq(source.keys.layout(), pieces.keys().layout()));
        let (mut keys, mut to, unknown) = match same {
            Some(Source { keys, to, unknown, .. }) => (keys, to, unknown),
            None => (Table::list(pieces.keys().layout().clone()), Vec::new(), Vec::new()),
        };
        keys.clear();
        to.clear();
        Source { id: pieces.source().clone(), keys, to, numbered: 0, numbering, unknown, order: None }
    }

    /// Whether these pieces come from here.
    pub(super) fn is_of(&self, pieces: &SmallSlices) -> bool {
        Arc::ptr_eq(&self.id, pieces.source())
    }

    /// The keys of its groups, by its numbers.
    pub(super) fn keys(&self) -> &Table {
        &self.keys
    }

    /// Takes the keys that these pieces are the first to have.
    fn learn(&mut self, pieces: &SmallSlices) {
        let new = pieces.keys().groups();
        if new > 0 {
            self.keys.append_keys(pieces.keys(), Chosen::first(new));
            self.to.resize(self.keys.groups(), ABSENT);
        }
    }

    /// Forgets the numbers of the graph where it has taken them back.
    fn keep_up(&mut self, numbering: u64) {
        if self.numbering != numbering {
            self.to.fill(ABSENT);
            self.numbered = 0;
            self.order = None;
            self.numbering = numbering;
        }
    }

    /// Where the groups of the graph, so many, are in a slice that has all of them, where it is known for one whose groups have these numbers.
    fn order_of(&self, numbers: &[u32], groups: usize) -> Option<&GroupOrder> {
        self.order.as_ref().filter(|order| order.groups() == groups && order.is_of(numbers))
    }

    /// Notes the numbers in the graph of all groups of a slice, which are all that the graph has.
    fn note_order(&mut self, numbers: &[u32], to: &[u32]) {
        self.order = Some(GroupOrder::new(numbers, to));
    }

    /// The graph has given its groups other numbers.
    pub(super) fn renumber(&mut self, numbering: u64, numbers: &[u32]) {
        self.keep_up(numbering);
        self.order = None;
        self.numbered = 0;
        for to in self.to.iter_mut().filter(|to| **to != ABSENT) {
            *to = numbers[*to as usize];
            self.numbered += usize::from(*to != ABSENT);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let order = self.order.as_ref().map_or(0, |order| order.bytes());
        self.keys.bytes() + 4 * (self.to.capacity() + self.unknown.capacity()) + order
    }
}

impl Combined {
    /// Takes note of the groups of pieces, those of one source in their order.
    pub(crate) fn add_source(&mut self, pieces: &SmallSlices) {
        let numbering = self.numberings;
        let known = self.sources.iter().position(|source| Arc::ptr_eq(&source.id, pieces.source()));
        let at = known.unwrap_or_else(|| {
            // Nobody else knows a source that has no more pieces.
            let unneeded = self.sources.extract_if(.., |source| Arc::strong_count(&source.id) == 1).last();
            self.sources.push(Source::new(pieces, numbering, unneeded));
            self.sources.len() - 1
        });
        self.sources[at].learn(pieces);
    }

    /// Adds a slice to all windows from the next one to the one that ends at `last_end`: what these groups have.
    ///
    /// # Panics
    /// Where the source of the pieces is not known.
    pub(crate) fn insert_small_slice(
        &mut self,
        pieces: &SmallSlices,
        groups: Range<usize>,
        last_end: Micros,
        work: &mut Work,
    ) {
        work.spend(groups.len());
        self.origins.note(Some(pieces.source()), last_end);
        let is_listed = matches!(self.nodes, Nodes::Slices(_) | Nodes::TwoStacks(_));
        let (numbers, all) = (pieces.numbers(groups.clone()), self.window.groups());
        let may_have_all = is_listed && numbers.len() == all;
        if !may_have_all || self.source(pieces).order_of(numbers, all).is_none() {
            let mut to = self.spare.numbers();
            self.number(pieces, numbers, &mut to);
            if !is_listed || to.len() < self.window.groups() {
                let (table, entries) = pieces.values(groups);
                let mut values = self.spare.list(&self.values);
                self.add(table, entries, &to, &mut values);
                return self.keep(values, Some(to), last_end);
            }
            self.source(pieces).note_order(numbers, &to);
            self.spare.keep_numbers(to);
        }
        // It has all groups: in the order of their numbers nothing is looked up any more.
        let (table, entries) = pieces.values(groups);
        let mut values = self.spare.list(&self.values);
        let mut ordered = self.spare.numbers();
        let order = self.source(pieces).order.as_ref().expect("it is known");
        order.append(&mut values, (table, entries), &mut ordered);
        self.spare.keep_numbers(ordered);
        self.keep(values, None, last_end);
    }

    /// How many windows, of so many, may be closed together, the first of which ends at `end` and each other `slide` later: as long as each is completed by a slice, and the
    /// oldest leaves behind it.
    pub(crate) fn run_max(&self, count: usize, end: Micros, slide: Micros) -> usize {
        match &self.nodes {
            Nodes::TwoStacks(SliceStacks::Rows(matrix))
                if matrix.groups() == self.window.groups() && self.arriving.is_none() =>
            {
                matrix.run_max(count, end, slide)
            }
            _ => 0,
        }
    }

    /// Adds so many slices that follow each other, as [`Combined::insert_small_slice`] does, each of which completes a window; the first is that with this index, and the last
    /// window of it ends at `last_end`, and of each other `slide` later. Not those from the first on whose window would lack a group, or whose groups are not
    /// known. Returns how many have been added.
    ///
    /// # Panics
    /// Where there are more than [`Combined::run_max`] says, or as there.
    pub(crate) fn insert_run(
        &mut self,
        pieces: &SmallSlices,
        (first, count): (usize, usize),
        (last_end, slide): (Micros, Micros),
    ) -> usize {
        let Combined { sources, numberings, nodes, window, spare, .. } = self;
        let (source, all) = (source_of(sources, pieces, *numberings), window.groups() as u32);
        let Some((_, Range { start, mut end })) = pieces.slice(first).filter(|_| count > 0) else { return 0 };
        let (mut to, mut known) = (spare.numbers(), 0);
        for place in (0..count as u32).map(|row| row * all) {
            let (_, groups) = pieces.slice(first + known).expect("there are as many slices");
            let numbers = pieces.numbers(groups.clone());
            if numbers.iter().any(|&number| source.to[number as usize] == ABSENT) {
                break;
            }
            to.extend(numbers.iter().map(|&number| place + source.to[number as usize]));
            (end, known) = (groups.end, known + 1);
        }
        if known > 0 {
            let last_ends = (0..known).map(|row| last_end.saturating_add(row as Micros * slide));
            let Nodes::TwoStacks(SliceStacks::Rows(matrix)) = nodes else { unreachable!("slices come as rows") };
            known = matrix.push_complete(last_ends, pieces.values(start..end), &mut to);
        }
        spare.keep_numbers(to);
        known
    }

    /// The windows of [`Combined::insert_run`], with the keys of their groups and what tells these.
    pub(crate) fn run(&self, windows: usize) -> (SummedRows<'_>, &Table, u64) {
        let Nodes::TwoStacks(SliceStacks::Rows(matrix)) = &self.nodes else { unreachable!("slices have come as rows") };
        let rows = matrix.windows(windows);
        (rows, &self.window, self.version())
    }

    /// Where these pieces come from.
    fn source(&mut self, pieces: &SmallSlices) -> &mut Source {
        source_of(&mut self.sources, pieces, self.numberings)
    }

    /// Appends the numbers that groups of pieces have here.
    fn number(&mut self, pieces: &SmallSlices, groups: &[u32], listed: &mut Vec<u32>) {
        let source = self.source(pieces);
        listed.extend(groups.iter().map(|&group| source.to[group as usize]));
        if !listed.contains(&ABSENT) {
            return;
        }
        // Whether all that have numbers are of this source.
        let is_sole = source.numbered == self.known_groups();
        if !is_sole {
            self.find_groups();
        }
        let Combined { sources, numbers, numberings, keys, nodes, window, spare, .. } = self;
        let Source { keys: their_keys, to, numbered, unknown, .. } = source_of(sources, pieces, *numberings);
        unknown.clear();
        unknown.extend(groups.iter().filter(|&&group| to[group as usize] == ABSENT));
        let known = nodes.known(keys, window);
        if is_sole {
            // What has no number there has none at all.
            numbers.assign_new(unknown.len(), &mut spare.to);
            known.append_keys(their_keys, &*unknown);
        } else {
            numbers.assign(their_keys, (&*unknown).into(), &mut spare.to, &mut spare.new);
            known.append_keys(their_keys, &spare.new);
        }
        *numbered += unknown.len();
        unknown.iter().zip(&spare.to).for_each(|(&group, &number)| to[group as usize] = number);
        listed.clear();
        listed.extend(groups.iter().map(|&group| to[group as usize]));
    }

    /// Lets all groups that have numbers be found by their keys: where most have left a running window, they are forgotten before.
    pub(super) fn find_groups(&mut self) {
        let is_first = self.numbers.misses_any() && !self.numbers.finds_any();
        let have_left = matches!(self.nodes, Nodes::Running(_)) && self.window.groups() * 2 < self.keys.groups();
        if is_first && have_left {
            self.renumber();
        }
        let known = self.nodes.known(&mut self.keys, &mut self.window);
        self.numbers.find_all(known);
    }

    /// Whether groups of a running window are looked up by their keys that need not be, once those that have left are forgotten.
    pub(super) fn may_stop_looking_up(&self) -> bool {
        let is_worthwhile = self.numbers.finds_any() && self.keys.groups() >= RENUMBERED_GROUPS_MIN;
        is_worthwhile && self.origins.others_last_end.is_none()
    }
}

/// Where these pieces come from.
fn source_of<'s>(sources: &'s mut [Source], pieces: &SmallSlices, numberings: u64) -> &'s mut Source {
    let source = sources.iter_mut().find(|source| source.is_of(pieces));
    let source = source.expect("pieces come from a source that is known");
    source.keep_up(numberings);
    source
}
