//! Running totals of a column that several frames are put together from: each row's with those before it in its run, and of whole runs each row's with those behind it
//! (LightSaber, section 5: prefix and suffix scans that windows share). A frame that begins in one run and ends in a later one needs one of either.

use std::collections::VecDeque;

use arrow::datatypes::ArrowNativeType;

use super::row_store::ColumnStore;
use super::scan::{Front, Running, scan_slices_backwards};
use super::totals::RUN_ROWS;
use crate::aggregates::Aggregate;

/// The totals of one column, of the rows of one key.
#[derive(Debug)]
pub(super) struct Scanned<V> {
    /// One past the last row.
    end: u64,
    /// Of each of the rows that came last, with those before it in its run.
    so_far: Vec<V>,
    /// Of the last run.
    last: Running<V>,
    /// Of whole runs, each row's with those behind it.
    runs: VecDeque<Vec<V>>,
    /// The number of the first of these runs.
    first: u64,
    /// A list that was emptied, for the next run.
    spare: Vec<V>,
}

impl<V: ArrowNativeType> Scanned<V> {
    /// No rows yet.
    pub fn new<O: Aggregate<State = V>>() -> Scanned<V> {
        Scanned {
            end: 0,
            so_far: Vec::new(),
            last: Running::new::<O>(),
            runs: VecDeque::new(),
            first: 0,
            spare: Vec::new(),
        }
    }

    /// Takes so many rows from a position on, of one run, of which `kept` has the values, and those of all rows that frames look back at. Where others have come
    /// before, as when a query goes on from a snapshot, all is made anew from these.
    pub fn enter<O: Aggregate<State = V>>(&mut self, position: u64, rows: usize, kept: &ColumnStore<V>) {
        let run = position / RUN_ROWS;
        if position != self.end {
            self.runs.clear();
            self.first = kept.first().div_ceil(RUN_ROWS).min(run);
            (self.first..run).for_each(|run| self.push::<O>(run, kept));
            (self.last, self.end) = (Running::new::<O>(), position);
            self.scan::<O>(run * RUN_ROWS, kept);
        } else if position.is_multiple_of(RUN_ROWS) && position > 0 {
            self.push::<O>(run - 1, kept);
            self.last = Running::new::<O>();
        }
        self.end = position + rows as u64;
        self.scan::<O>(position, kept);
    }

    /// Goes over the rows of the last run from a position on.
    fn scan<O: Aggregate<State = V>>(&mut self, position: u64, kept: &ColumnStore<V>) {
        self.so_far.clear();
        for values in kept.slices(position, self.end) {
            let position = position + self.so_far.len() as u64;
            self.last.scan::<O>(position, values, Front::Same(O::EMPTY), O::EMPTY, &mut self.so_far);
        }
    }

    /// Notes a run that is whole.
    fn push<O: Aggregate<State = V>>(&mut self, run: u64, kept: &ColumnStore<V>) {
        let mut totals = std::mem::take(&mut self.spare);
        // All are overwritten.
        totals.resize(RUN_ROWS as usize, O::EMPTY);
        scan_slices_backwards::<O>(kept.slices(run * RUN_ROWS, (run + 1) * RUN_ROWS), &mut totals);
        self.runs.push_back(totals);
    }

    /// Of rows that came last, the total of each with those before it in its run, from one position to before another.
    #[inline]
    pub fn so_far(&self, start: u64, end: u64) -> &[V] {
        let first = self.end - self.so_far.len() as u64;
        &self.so_far[(start - first) as usize..(end - first) as usize]
    }

    /// Of the last run.
    pub fn last(&self) -> Running<V> {
        self.last
    }

    /// Of rows of a whole run, the total of each with those behind it, from a position to the end of its run.
    pub fn to_end_of_run(&self, start: u64) -> &[V] {
        &self.runs[(start / RUN_ROWS - self.first) as usize][(start % RUN_ROWS) as usize..]
    }

    /// Forgets the runs that end at a position or before.
    pub fn forget(&mut self, until: u64) {
        while (self.first + 1) * RUN_ROWS <= until {
            let Some(totals) = self.runs.pop_front() else { break };
            self.first += 1;
            self.spare = totals;
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        let lists = self.runs.iter().chain([&self.so_far, &self.spare]);
        lists.map(|totals| totals.capacity() * size_of::<V>()).sum()
    }
}
