//! Sessions whose last rows are in one slice, and which of them are over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{ResultKind, SessionSlots};

use crate::layout::EntryLayout;
use crate::table::{ABSENT, KeyScratch, Table};

/// The sessions whose last rows are in one slice; at most one of each key, for two would be one. A group without rows is no session.
#[derive(Debug)]
pub(super) struct Bucket {
    /// First instant of the slice.
    pub start: Micros,
    pub table: Table,
    /// Once sessions of the bucket may be over.
    pub by_end: Option<ByEnd>,
    /// Has a group with rows for each session that corrects what has been reported.
    pub corrections: Option<Box<Table>>,
}

/// Entries by the end of their sessions. An entry whose session has become longer, or has gone, is found out when its turn comes.
#[derive(Debug)]
pub(super) struct ByEnd {
    /// Those that there were when this was made; the first is last.
    known: Vec<(Micros, u32)>,
    /// Those that have been noted since.
    noted: BinaryHeap<Reverse<(Micros, u32)>>,
    /// How often the table's entries had moved when this was made.
    moves: u64,
}

impl ByEnd {
    pub fn note(&mut self, entry: u32, end: Micros) {
        self.noted.push(Reverse((end, entry)));
    }

    /// The entries whose sessions have been noted to end at or before `until`.
    fn take_until(&mut self, until: Micros) -> Vec<u32> {
        let first = self.known.iter().rev().take_while(|(end, _)| *end <= until).count();
        let mut taken: Vec<u32> = self.known.drain(self.known.len() - first..).map(|(_, entry)| entry).collect();
        while self.noted.peek().is_some_and(|Reverse((end, _))| *end <= until) {
            taken.extend(self.noted.pop().map(|Reverse((_, entry))| entry));
        }
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.noted.is_empty()
    }
}

/// First and last time of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub first: Micros,
    pub last: Micros,
}

impl Extent {
    pub fn is_empty(self) -> bool {
        self.first > self.last
    }

    pub fn touches(self, other: Extent, gap: Micros) -> bool {
        let is_near = self.first.saturating_sub(other.last) <= gap && other.first.saturating_sub(self.last) <= gap;
        is_near && !self.is_empty() && !other.is_empty()
    }
}

impl Bucket {
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.table).chain(self.corrections.as_deref())
    }

    pub fn into_tables(self) -> impl Iterator<Item = Table> {
        std::iter::once(self.table).chain(self.corrections.map(|table| *table))
    }

    /// Whether it is known that no session is left.
    pub fn has_ended(&self) -> bool {
        self.by_end.as_ref().is_some_and(ByEnd::is_empty)
    }

    /// Forgets the sessions of some entries.
    pub fn forget(&mut self, entries: &[u32]) {
        if let Some(corrections) = &mut self.corrections {
            let mut found = corrections.find_entries_of(&self.table, entries);
            found.retain(|found| *found != ABSENT);
            corrections.reset_entries(&found);
        }
        self.table.reset_entries(entries);
    }

    /// Notes that the sessions of some keys, those of groups with rows, correct what has been reported.
    pub fn correct(&mut self, (keys, from): (&Table, &[u32]), layout: &Arc<EntryLayout>, scratch: &mut KeyScratch) {
        if from.is_empty() {
            return;
        }
        let corrections = self.corrections.get_or_insert_with(|| Box::new(Table::new(layout.clone())));
        let mut to = Vec::new();
        corrections.entries_of(keys, from.into(), &mut to, scratch);
        corrections.add_at(keys, from, &to);
    }

    /// What the sessions of some entries are when they are reported.
    pub fn kinds(&self, entries: &[u32], slots: SessionSlots, micros_per_tick: i64) -> Vec<ResultKind> {
        let Some(corrections) = &self.corrections else { return vec![ResultKind::Final; entries.len()] };
        let kind = |entry: u32| {
            let corrects = entry != ABSENT && !extents(corrections, &[entry], slots, micros_per_tick)[0].is_empty();
            if corrects { ResultKind::Correction } else { ResultKind::Final }
        };
        corrections.find_entries_of(&self.table, entries).into_iter().map(kind).collect()
    }

    /// Notes that an entry has a session which ends there.
    pub fn note(&mut self, entry: u32, end: Micros) {
        if let Some(by_end) = &mut self.by_end {
            by_end.note(entry, end);
        }
    }

    /// Takes the entries whose sessions end at or before `until`. Returns them in the order of their ends.
    pub fn take_over(&mut self, until: Micros, gap: Micros, slots: SessionSlots, micros_per_tick: i64) -> Vec<u32> {
        let Bucket { table, by_end, .. } = self;
        // What is known of them would be of no use with each part of its entries that a table moves.
        table.finish_growth();
        let moves = table.moves();
        let made = by_end.take().filter(|by_end| by_end.moves == moves).unwrap_or_else(|| {
            let entries = table.entry_offsets();
            let extents = extents(table, &entries, slots, micros_per_tick).into_iter().zip(entries);
            let sessions = extents.filter(|(extent, _)| !extent.is_empty());
            let mut known: Vec<(Micros, u32)> =
                sessions.map(|(extent, entry)| (extent.last.saturating_add(gap), entry)).collect();
            // Those that are all over are put in order below.
            if known.iter().any(|(end, _)| *end > until) {
                known.sort_unstable_by(|one, other| other.cmp(one));
            }
            ByEnd { known, noted: BinaryHeap::new(), moves }
        });
        let by_end = by_end.insert(made);
        let candidates = by_end.take_until(until);
        let mut over = Vec::with_capacity(candidates.len());
        for (extent, &entry) in extents(table, &candidates, slots, micros_per_tick).into_iter().zip(&candidates) {
            let end = extent.last.saturating_add(gap);
            if extent.is_empty() {
                continue;
            }
            if end <= until {
                over.push((end, extent.first, entry));
            } else {
                by_end.note(entry, end);
            }
        }
        over.sort_unstable();
        // One that became longer may have been noted twice.
        over.dedup();
        let entries: Vec<u32> = over.iter().map(|(_, _, entry)| *entry).collect();
        if self.corrections.is_none() {
            return entries;
        }
        // Of those that end at once, what corrects comes behind what does not.
        let kinds = self.kinds(&entries, slots, micros_per_tick);
        let mut over: Vec<_> = over.into_iter().zip(kinds).map(|((end, ..), kind)| (end, kind)).zip(entries).collect();
        over.sort_by_key(|(place, _)| *place);
        over.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// First and last times of groups.
pub(super) fn extents(table: &Table, entries: &[u32], slots: SessionSlots, micros_per_tick: i64) -> Vec<Extent> {
    let firsts = table.integers(slots.first, entries);
    let lasts = table.integers(slots.last, entries);
    let micros = |tick: i64| tick.saturating_mul(micros_per_tick);
    firsts.into_iter().zip(lasts).map(|(first, last)| Extent { first: micros(first), last: micros(last) }).collect()
}
