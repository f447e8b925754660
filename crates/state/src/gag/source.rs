//! Pieces of slices into the graph: their groups have numbers of their own, whose keys are looked at once.

use std::ops::Range;
use std::sync::Arc;

use pelton_data::Micros;

use super::{Combined, Nodes};
use crate::pieces::Pieces;
use crate::table::{ABSENT, Chosen, Table};
use crate::window::Work;

/// Where pieces come from whose numbers are of the same groups.
#[derive(Debug)]
pub(super) struct Source {
    id: Arc<()>,
    /// The keys of its groups, by its numbers.
    keys: Table,
    /// The numbers that these groups have in the graph, as far as they are known; else [`ABSENT`].
    to: Vec<u32>,
    /// Which numbering of the graph these are of.
    numbering: u64,
    /// A buffer that is reused.
    unknown: Vec<u32>,
    /// Where the groups of the graph are in a slice that has all of them,
    order: Vec<u32>,
    /// whose groups have these numbers, in this order; none where that is not known. The next slice mostly has the same.
    ordered: Vec<u32>,
}

impl Source {
    fn new(pieces: &Pieces, numbering: u64) -> Source {
        let keys = Table::list(pieces.keys().layout().clone());
        let [to, unknown, order, ordered] = [const { Vec::new() }; 4];
        Source { id: pieces.source().clone(), keys, to, numbering, unknown, order, ordered }
    }

    /// Whether these pieces come from here.
    pub(super) fn is_of(&self, pieces: &Pieces) -> bool {
        Arc::ptr_eq(&self.id, pieces.source())
    }

    /// The keys of its groups, by its numbers.
    pub(super) fn keys(&self) -> &Table {
        &self.keys
    }

    /// Takes the keys that these pieces are the first to have.
    fn learn(&mut self, pieces: &Pieces) {
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
            self.ordered.clear();
            self.numbering = numbering;
        }
    }

    /// Where the groups of the graph, so many, are in a slice that has all of them, where it is known for one whose groups have these numbers.
    fn order_of(&self, numbers: &[u32], groups: usize) -> Option<&[u32]> {
        (self.ordered.len() == groups && self.ordered == numbers).then_some(&self.order)
    }

    /// Notes the numbers in the graph of all groups of a slice, which are all that the graph has.
    fn note_order(&mut self, numbers: &[u32], to: &[u32]) {
        self.order.resize(to.len(), 0);
        (0..).zip(to).for_each(|(at, &number)| self.order[number as usize] = at);
        self.ordered.clear();
        self.ordered.extend_from_slice(numbers);
    }

    /// The graph has given its groups other numbers.
    pub(super) fn renumber(&mut self, numbering: u64, numbers: &[u32]) {
        self.keep_up(numbering);
        self.ordered.clear();
        for to in self.to.iter_mut().filter(|to| **to != ABSENT) {
            *to = numbers[*to as usize];
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let numbers = [&self.to, &self.unknown, &self.order, &self.ordered];
        self.keys.bytes() + 4 * numbers.iter().map(|numbers| numbers.capacity()).sum::<usize>()
    }
}

impl Combined {
    /// Takes note of the groups of pieces, those of one source in their order.
    pub(crate) fn add_source(&mut self, pieces: &Pieces) {
        let numbering = self.numberings;
        let known = self.sources.iter().position(|source| Arc::ptr_eq(&source.id, pieces.source()));
        let at = known.unwrap_or_else(|| {
            // Nobody else knows a source that has no more pieces.
            self.sources.retain(|source| Arc::strong_count(&source.id) > 1);
            self.sources.push(Source::new(pieces, numbering));
            self.sources.len() - 1
        });
        self.sources[at].learn(pieces);
    }

    /// Adds a slice to all windows from the next one to the one that ends at `last_end`: what some groups of these pieces have.
    ///
    /// # Panics
    /// Where the source of the pieces is not known.
    pub(crate) fn insert_piece(&mut self, pieces: &Pieces, groups: Range<usize>, last_end: Micros, work: &mut Work) {
        work.spend(groups.len());
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
        let mut ordered = self.spare.numbers();
        let order = self.source(pieces).order_of(numbers, numbers.len()).expect("it has just been noted");
        ordered.extend(order.iter().map(|&at| entries[at as usize]));
        let mut values = self.spare.list(&self.values);
        values.append_values(table, &ordered);
        self.spare.keep_numbers(ordered);
        self.keep(values, None, last_end);
    }

    /// Where these pieces come from.
    fn source(&mut self, pieces: &Pieces) -> &mut Source {
        let source = self.sources.iter_mut().find(|source| Arc::ptr_eq(&source.id, pieces.source()));
        let source = source.expect("pieces come from a source that is known");
        source.keep_up(self.numberings);
        source
    }

    /// Appends the numbers that groups of pieces have here.
    fn number(&mut self, pieces: &Pieces, groups: &[u32], to: &mut Vec<u32>) {
        let Combined { sources, numbers, numberings, keys, nodes, window, spare, .. } = self;
        let source = sources.iter_mut().find(|source| Arc::ptr_eq(&source.id, pieces.source()));
        let source = source.expect("pieces come from a source that is known");
        source.keep_up(*numberings);
        to.extend(groups.iter().map(|&group| source.to[group as usize]));
        if !to.contains(&ABSENT) {
            return;
        }
        let Source { keys: their_keys, to: known, unknown, .. } = source;
        unknown.clear();
        unknown.extend(groups.iter().filter(|&&group| known[group as usize] == ABSENT));
        numbers.assign(their_keys, (&*unknown).into(), &mut spare.to, &mut spare.new);
        unknown.iter().zip(&spare.to).for_each(|(&group, &number)| known[group as usize] = number);
        if !spare.new.is_empty() {
            nodes.known(keys, window).append_keys(their_keys, &spare.new);
        }
        to.clear();
        to.extend(groups.iter().map(|&group| known[group as usize]));
    }
}
