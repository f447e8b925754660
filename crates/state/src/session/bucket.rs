//! Sessions whose last rows are in one slice, and which of them are over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{ResultKind, SessionSlots};

use crate::layout::EntryLayout;
use crate::table::{ABSENT, KeyScratch, Table};
use crate::work::{Work, listing_work};

/// Slots of a bucket whose sessions are looked at at a time.
const LISTED_SLOTS: usize = 1 << 14;

/// Sessions that are found to be over at a time, or about as many.
const OVER_MAX: usize = 1 << 13;

/// To do something with a session takes as long as with so many groups: it is looked for in several tables.
pub(super) const WORK_PER_SESSION: usize = 4;

/// Where the times of sessions are, and how far apart their rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub gap: Micros,
    pub slots: SessionSlots,
    pub micros_per_tick: i64,
}

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
    /// Those that there were when this was made, in runs of neighbouring slots: the first of each run is last.
    known: Vec<Vec<(Micros, u32)>>,
    /// Slots that have been looked at for that.
    slots_known: usize,
    /// Those that have been noted since.
    noted: BinaryHeap<Reverse<(Micros, u32)>>,
    /// How often the table's entries had moved when this was made.
    moves: u64,
}

impl ByEnd {
    fn new(moves: u64) -> ByEnd {
        ByEnd { known: Vec::new(), slots_known: 0, noted: BinaryHeap::new(), moves }
    }

    pub fn note(&mut self, entry: u32, end: Micros) {
        self.noted.push(Reverse((end, entry)));
    }

    /// Looks at the next slots of its table: whether all have been looked at.
    fn look(&mut self, table: &Table, times: Times, work: &mut Work) -> bool {
        let slots = self.slots_known..table.slots().min(self.slots_known + work.slots(LISTED_SLOTS));
        let mut entries = Vec::new();
        table.push_entries(slots.clone(), &mut entries);
        let extents = times.extents(table, &entries).into_iter().zip(entries);
        let sessions = extents.filter(|(extent, _)| !extent.is_empty());
        let mut run: Vec<(Micros, u32)> = sessions.map(|(extent, entry)| (times.end(extent), entry)).collect();
        run.sort_unstable_by(|one, other| other.cmp(one));
        work.spend(listing_work(slots.len(), 0) + run.len());
        self.slots_known = slots.end;
        self.known.extend(Some(run).filter(|run| !run.is_empty()));
        slots.end == table.slots()
    }

    /// Entries whose sessions have been noted to end at or before `until`, or, where these are many, about so many of those that end first. Returns up to when all have been
    /// taken: those that end at once are taken together, or, where they are more than `together_max` or so, some of the next that end.
    fn take_until(&mut self, mut until: Micros, count_max: usize, together_max: usize) -> (Vec<u32>, Micros) {
        let runs = self.known.len() + 1;
        let each_max = (count_max / runs).max(1);
        let each_together_max = (together_max / runs).max(each_max);
        for run in self.known.iter().filter(|run| run.len() > each_max) {
            until = until.min(run[run.len() - each_max].0);
        }
        let mut taken = Vec::new();
        while let Some(first) = self.noted.peek_mut().filter(|first| first.0.0 <= until) {
            if taken.len() >= each_together_max {
                break;
            }
            let Reverse((end, entry)) = PeekMut::pop(first);
            taken.push(entry);
            if taken.len() == each_max {
                until = end;
            }
        }
        let mut are_all = self.noted.peek().is_none_or(|first| first.0.0 > until);
        for run in &mut self.known {
            let count = run.iter().rev().take(each_together_max).take_while(|(end, _)| *end <= until).count();
            taken.extend(run.drain(run.len() - count..).map(|(_, entry)| entry));
            are_all &= run.last().is_none_or(|(end, _)| *end > until);
        }
        self.known.retain(|run| !run.is_empty());
        (taken, if are_all { until } else { until - 1 })
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty() && self.noted.is_empty()
    }

    /// Bytes of memory held.
    fn bytes(&self) -> usize {
        let known: usize = self.known.iter().map(Vec::capacity).sum();
        (known + self.noted.capacity()) * size_of::<(Micros, u32)>() + self.known.capacity() * size_of::<Vec<()>>()
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
    pub fn new(start: Micros, table: Table) -> Bucket {
        Bucket { start, table, by_end: None, corrections: None }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.tables().map(Table::bytes).sum::<usize>() + self.by_end.as_ref().map_or(0, ByEnd::bytes)
    }

    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.table).chain(self.corrections.as_deref())
    }

    pub fn into_tables(self) -> impl Iterator<Item = Table> {
        std::iter::once(self.table).chain(self.corrections.map(|table| *table))
    }

    /// Whether it is known that no session is left.
    pub fn has_ended(&self) -> bool {
        let is_known = |by_end: &ByEnd| by_end.slots_known >= self.table.slots();
        self.by_end.as_ref().is_some_and(|by_end| is_known(by_end) && by_end.is_empty())
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
    pub fn kinds(&self, entries: &[u32], times: Times) -> Vec<ResultKind> {
        let Some(corrections) = &self.corrections else { return vec![ResultKind::Final; entries.len()] };
        let kind = |entry: u32| {
            let corrects = entry != ABSENT && !times.extents(corrections, &[entry])[0].is_empty();
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

    /// Finds out when the sessions end, or when some of them do: whether that is known of all.
    fn know_ends(&mut self, times: Times, work: &mut Work) -> bool {
        let Bucket { table, by_end, .. } = self;
        // What is known of entries would be of no use with each part of them that a table moves.
        if !table.finish_growth_part(LISTED_SLOTS) {
            work.spend(LISTED_SLOTS);
            return false;
        }
        let moves = table.moves();
        let known = by_end.take().filter(|by_end| by_end.moves == moves).unwrap_or_else(|| ByEnd::new(moves));
        let by_end = by_end.insert(known);
        by_end.slots_known >= table.slots() || by_end.look(table, times, work)
    }

    /// Takes entries whose sessions end at or before `until`: all of them, or those that end first. Returns them in the order of their ends, and up to when these are all;
    /// `None` where it is not known yet when all sessions end.
    pub fn take_over(&mut self, until: Micros, times: Times, work: &mut Work) -> Option<(Vec<u32>, Micros)> {
        if !self.know_ends(times, work) {
            return None;
        }
        let Bucket { table, by_end: Some(by_end), .. } = self else { unreachable!("it is known when sessions end") };
        let over_max = (OVER_MAX / table.work_per_group()).max(1);
        // Of those that end at once, what corrects comes behind what does not. Few are in an order that does not depend on how much may be done.
        let together_max = if self.corrections.is_some() { usize::MAX } else { over_max };
        let (candidates, all_until) = by_end.take_until(until, work.groups(over_max), together_max);
        work.spend(candidates.len());
        let mut over = Vec::with_capacity(candidates.len());
        // Those that have been taken of the next that end are at that.
        let until = if self.corrections.is_some() { all_until } else { until.min(all_until.saturating_add(1)) };
        for (extent, &entry) in times.extents(table, &candidates).into_iter().zip(&candidates) {
            let end = times.end(extent);
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
            return Some((entries, all_until));
        }
        let kinds = self.kinds(&entries, times);
        let mut over: Vec<_> = over.into_iter().zip(kinds).map(|((end, ..), kind)| (end, kind)).zip(entries).collect();
        over.sort_by_key(|(place, _)| *place);
        Some((over.into_iter().map(|(_, entry)| entry).collect(), all_until))
    }
}

impl Times {
    /// First and last times of groups.
    pub fn extents(self, table: &Table, entries: &[u32]) -> Vec<Extent> {
        let firsts = table.integers(self.slots.first, entries);
        let lasts = table.integers(self.slots.last, entries);
        let micros = |tick: i64| tick.saturating_mul(self.micros_per_tick);
        firsts.into_iter().zip(lasts).map(|(first, last)| Extent { first: micros(first), last: micros(last) }).collect()
    }

    /// When a session ends.
    pub fn end(self, extent: Extent) -> Micros {
        extent.last.saturating_add(self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_taken_in_the_order_of_their_ends_about_so_many_at_a_time() {
        for (count_max, together_max) in
            [1, 7, 40, 1000].into_iter().flat_map(|count| [(count, 0), (count, 20), (count, usize::MAX)])
        {
            let mut by_end = ByEnd::new(0);
            let mut ends: Vec<Micros> = (0..500).map(|entry| Micros::from(entry) * 7919 % 211).collect();
            for (run, part) in (0_u32..).zip(ends.chunks(40).take(10)) {
                let entry = |at: usize| run * 40 + at as u32;
                let mut known: Vec<(Micros, u32)> =
                    part.iter().enumerate().map(|(at, end)| (*end, entry(at))).collect();
                known.sort_unstable_by(|one, other| other.cmp(one));
                by_end.known.push(known);
            }
            (400..500).for_each(|entry| by_end.note(entry, ends[entry as usize]));

            let mut taken: Vec<Micros> = Vec::new();
            let at_most = if together_max > 20 { count_max + 4 * 11 } else { count_max.max(together_max).max(11) };
            for until in [50, 209, 300] {
                loop {
                    let (entries, all_until) = by_end.take_until(until, count_max, together_max);
                    let mut found: Vec<Micros> = entries.iter().map(|&entry| ends[entry as usize]).collect();
                    found.sort_unstable();
                    assert!(found.is_empty() || taken.last() <= found.first(), "{count_max}");
                    assert!(found.len() <= at_most, "{} of {count_max}", found.len());
                    taken.extend(found);
                    let cut = Micros::from(together_max < usize::MAX);
                    assert!(taken.last().is_none_or(|&last| last <= all_until + cut));
                    let ended = |until: Micros| ends.iter().filter(|end| **end <= until).count();
                    assert!((ended(all_until)..=ended(until)).contains(&taken.len()), "{count_max}");
                    if all_until == until {
                        break;
                    }
                }
            }
            ends.sort_unstable();
            assert_eq!(taken, ends);
            assert!(by_end.is_empty());
        }
    }
}
