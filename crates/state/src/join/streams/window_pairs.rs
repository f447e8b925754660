//! The pairs of a window that has ended, which are made in parts.
//!
//! A part has some of the rows of one side, which look for their matches among all rows of the other. It has about as many pairs as are asked for, also where
//! many rows have one key: then the matches of its rows are found and counted before it is cut off.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use pelton_data::join::{JoinSpec, Side};

use super::pairs::{Pairs, Residual, WindowBounds, unexpected};
use super::windows::{ClosedSlice, Indexed};
use crate::join::{BucketRow, Buckets, RowMatches};
use crate::kernel::KernelError;
use crate::slice::SliceId;

/// Pairs that are put together at once.
const PAIRS_MAX: usize = 1 << 16;

/// Parts of fewer rows than this are not worth it, unless their pairs have been counted.
const UNCOUNTED_ROWS_MIN: usize = 1 << 10;

/// The rows of a window that has ended, and how far they have been joined.
pub struct WindowPairs {
    pub(super) spec: Arc<JoinSpec>,
    pub(super) residual: Option<Residual>,
    pub(super) bounds: WindowBounds,
    /// What is left to do.
    pub(super) passes: VecDeque<Pass>,
    /// Bytes of rows that no other window has, and of buckets.
    pub(super) bytes: usize,
}

/// Rows of one side that look for their matches.
pub(super) struct Pass {
    /// Whose rows look.
    pub probing: Side,
    pub rows: VecDeque<SideRows>,
    /// The first of the rows, where their matches have been found.
    counted: Option<CountedRows>,
    /// The rows of the other side.
    pub slices: Vec<(SliceId, ClosedSlice)>,
    /// Whether other windows have these as well.
    pub others_are_needed: bool,
    /// The same, as buckets.
    buckets: Option<Buckets>,
    /// Bytes of what finds rows in these.
    index_bytes: usize,
    /// The most matches of a row.
    matches_max: usize,
    pub leaving: Leaving,
    /// How many rows of each of these, the first, have left with those that look for them and had come before (see [`SideRows`]).
    reported: Vec<usize>,
}

/// Rows of one side, one batch.
pub(super) struct SideRows {
    pub rows: RecordBatch,
    /// Whether they have left with all rows of the other side that have.
    pub are_reported: bool,
}

/// Which rows leave of those that look for their matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    pub pairs: bool,
    pub matched: bool,
    pub unmatched: bool,
}

/// Rows whose matches have been found.
struct CountedRows {
    rows: SideRows,
    matches: RowMatches,
    /// The first of the rows that is in no part.
    next: usize,
}

/// Rows that look for their matches, which may have been found.
struct ProbingRows {
    rows: SideRows,
    matches: Option<RowMatches>,
}

/// A part of a window's rows, which can be joined at the same time as the others.
pub struct WindowPart {
    spec: Arc<JoinSpec>,
    residual: Option<Residual>,
    bounds: WindowBounds,
    probing: Side,
    rows: Vec<ProbingRows>,
    buckets: Buckets,
    leaving: Leaving,
    reported: Vec<usize>,
}

impl WindowPairs {
    /// Divides rows, and makes buckets of those that other windows have as well.
    ///
    /// # Errors
    /// Where Arrow cannot put rows together.
    pub fn prepare(&mut self) -> Result<(), KernelError> {
        for pass in std::mem::take(&mut self.passes) {
            let passes = pass.divided(&self.spec).map_err(unexpected)?;
            self.passes.extend(passes);
        }
        for pass in self.passes.iter_mut().filter(|pass| pass.others_are_needed) {
            pass.build(&self.spec)?;
        }
        Ok(())
    }

    /// Bytes of what is left to do, about.
    pub fn bytes(&self) -> usize {
        // Passes are done one after the other.
        let made = |pass: &Pass| pass.index_bytes + pass.counted.as_ref().map_or(0, |counted| counted.matches.bytes());
        self.bytes + self.passes.front().map_or(0, made)
    }

    /// The next part, of at most so many rows that look for their matches, and about as many pairs; none where all have been returned.
    ///
    /// # Errors
    /// Where Arrow cannot put rows together.
    pub fn next_part(&mut self, rows_max: usize) -> Result<Option<WindowPart>, KernelError> {
        let pass = loop {
            match self.passes.front_mut() {
                Some(pass) if pass.is_done() => drop(self.passes.pop_front()),
                Some(pass) => break pass,
                None => return Ok(None),
            }
        };
        pass.build(&self.spec)?;
        let keys = &self.spec.sides[pass.probing.port()].keys;
        let looks_at_pairs = pass.leaving.pairs || self.residual.is_some();
        let rows = pass.next_rows(rows_max.max(1), looks_at_pairs, keys);
        Ok(Some(WindowPart {
            spec: self.spec.clone(),
            residual: self.residual.clone(),
            bounds: self.bounds,
            probing: pass.probing,
            rows,
            buckets: pass.buckets.clone().expect("they have been built"),
            leaving: pass.leaving,
            reported: pass.reported.clone(),
        }))
    }

    /// Whether all has been returned.
    pub fn is_done(&self) -> bool {
        self.passes.iter().all(Pass::is_done)
    }
}

impl Pass {
    /// Rows of a side that look for their matches in the slices of the other.
    pub fn new(
        probing: Side,
        rows: VecDeque<SideRows>,
        slices: Vec<(SliceId, ClosedSlice)>,
        leaving: Leaving,
        reported: Vec<usize>,
    ) -> Pass {
        let others_are_needed = false;
        Pass {
            probing,
            rows,
            counted: None,
            slices,
            others_are_needed,
            buckets: None,
            index_bytes: 0,
            matches_max: 0,
            leaving,
            reported,
        }
    }

    /// A pass like this of which nothing has been reported, with other rows of both sides.
    pub fn with_rows(&self, own: Vec<RecordBatch>, others: Vec<RecordBatch>) -> Pass {
        let own = own.into_iter().filter(|rows| rows.num_rows() > 0);
        let rows = own.map(|rows| SideRows { rows, are_reported: false }).collect();
        Pass::new(self.probing, rows, vec![(SliceId::new(0, 0), ClosedSlice::new(others))], self.leaving, vec![0])
    }

    /// Whether some of the rows, or of those of the other side, have left.
    pub fn has_reported(&self) -> bool {
        self.reported.iter().any(|count| *count > 0) || self.rows.iter().any(|rows| rows.are_reported)
    }

    /// Makes the buckets that rows look for their matches in.
    fn build(&mut self, spec: &JoinSpec) -> Result<(), KernelError> {
        if self.buckets.is_some() {
            return Ok(());
        }
        let mut buckets = Vec::new();
        for (_, slice) in &mut self.slices {
            let before = slice.bytes();
            let Indexed { bucket, matches_max } = slice.build(spec, self.probing.other())?;
            buckets.push(bucket);
            self.matches_max += matches_max;
            self.index_bytes += slice.bytes().saturating_sub(before);
        }
        self.buckets = Some(Buckets::new(buckets));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.rows.is_empty() && self.counted.is_none()
    }

    /// The rows of the next part.
    fn next_rows(&mut self, rows_max: usize, looks_at_pairs: bool, keys: &[usize]) -> Vec<ProbingRows> {
        let of_few_matches = rows_max / self.matches_max.max(1);
        let is_counted = looks_at_pairs && self.matches_max > 1 && of_few_matches < UNCOUNTED_ROWS_MIN;
        let rows_max = if is_counted || !looks_at_pairs { rows_max } else { of_few_matches };
        let (mut rows, mut rows_left, mut pairs_left) = (Vec::new(), rows_max, rows_max);
        while rows_left > 0 && pairs_left > 0 {
            if is_counted && self.counted.is_none() {
                self.count_next(rows_max, keys);
            }
            let (probing, pairs) = match &mut self.counted {
                Some(counted) => {
                    let taken = counted.take(rows_left, pairs_left);
                    self.counted.take_if(|counted| counted.next == counted.rows.rows.num_rows());
                    taken
                }
                None => match self.next_batch(rows_left) {
                    Some(rows) => (ProbingRows { rows, matches: None }, 0),
                    None => break,
                },
            };
            rows_left -= probing.rows.rows.num_rows();
            pairs_left = pairs_left.saturating_sub(pairs);
            rows.push(probing);
        }
        rows
    }

    /// The first rows of the next batch. A slice that is a bucket is one batch, however large.
    fn next_batch(&mut self, rows_max: usize) -> Option<SideRows> {
        let batch = self.rows.pop_front()?;
        let rows = batch.rows.num_rows().min(rows_max);
        if rows < batch.rows.num_rows() {
            self.rows.push_front(batch.slice(rows, batch.rows.num_rows() - rows));
        }
        Some(batch.slice(0, rows))
    }

    /// Finds the matches of the next rows.
    fn count_next(&mut self, rows_max: usize, keys: &[usize]) {
        let Some(rows) = self.next_batch(rows_max) else { return };
        let buckets = self.buckets.as_ref().expect("the buckets have been built");
        let matches = buckets.find(&key_columns(&rows.rows, keys), rows.rows.num_rows());
        self.counted = Some(CountedRows { rows, matches, next: 0 });
    }
}

impl SideRows {
    fn slice(&self, first: usize, count: usize) -> SideRows {
        SideRows { rows: self.rows.slice(first, count), are_reported: self.are_reported }
    }
}

impl CountedRows {
    /// Takes the next rows, one at least, and how many pairs they are in.
    fn take(&mut self, rows_max: usize, pairs_max: usize) -> (ProbingRows, usize) {
        let first = self.next;
        let end = self.rows.rows.num_rows().min(first + rows_max);
        let mut pairs = self.matches.count(first);
        self.next += 1;
        while self.next < end && pairs < pairs_max {
            pairs += self.matches.count(self.next);
            self.next += 1;
        }
        let rows = self.rows.slice(first, self.next - first);
        (ProbingRows { rows, matches: Some(self.matches.slice(first..self.next)) }, pairs)
    }
}

fn key_columns(rows: &RecordBatch, keys: &[usize]) -> Vec<ArrayRef> {
    keys.iter().map(|&key| rows.column(key).clone()).collect()
}

impl WindowPart {
    /// The rows that leave.
    ///
    /// # Errors
    /// What the residual condition returns.
    pub fn join(self) -> Result<Vec<RecordBatch>, KernelError> {
        let mut output = Vec::new();
        let others: Vec<RecordBatch> = self.buckets.buckets().iter().map(|bucket| bucket.columns().clone()).collect();
        let keys = &self.spec.sides[self.probing.port()].keys;
        for ProbingRows { rows, matches } in &self.rows {
            match matches {
                Some(matches) => self.join_batch(rows, matches, &others, &mut output)?,
                None => {
                    let matches = self.buckets.find(&key_columns(&rows.rows, keys), rows.rows.num_rows());
                    self.join_batch(rows, &matches, &others, &mut output)?;
                }
            }
        }
        Ok(output)
    }

    fn join_batch(
        &self,
        SideRows { rows: batch, are_reported }: &SideRows,
        matches: &RowMatches,
        others: &[RecordBatch],
        output: &mut Vec<RecordBatch>,
    ) -> Result<(), KernelError> {
        let own = std::slice::from_ref(batch);
        let mut has_match = Vec::new();
        if self.leaving.matched || self.leaving.unmatched {
            // A condition decides which of them are matches.
            let is_candidate = |row| self.residual.is_none() && matches.count(row) > 0;
            has_match.extend((0..batch.num_rows()).map(is_candidate));
        }
        if self.leaving.pairs || self.residual.is_some() {
            self.join_pairs((own, *are_reported), matches, others, (&mut has_match, output))?;
        }
        for (leaves, is_matched) in [(self.leaving.matched, true), (self.leaving.unmatched, false)] {
            let rows = (0..).zip(&has_match).filter(|(_, has_match)| leaves && **has_match == is_matched);
            let mut alone: Vec<BucketRow> = rows.map(|(row, _)| BucketRow { bucket: 0, row }).collect();
            if !alone.is_empty() {
                let mut none = vec![BucketRow::UNMATCHED; alone.len()];
                let (pairs, lefts, rights) = self.oriented(own, &[], &mut alone, &mut none);
                output.push(pairs.output(&self.spec, lefts, rights, Some(self.bounds))?);
            }
        }
        Ok(())
    }

    /// Lets the pairs of a batch leave, and notes which of its rows have a match.
    fn join_pairs(
        &self,
        (own, are_reported): (&[RecordBatch], bool),
        matches: &RowMatches,
        others: &[RecordBatch],
        (has_match, output): (&mut [bool], &mut Vec<RecordBatch>),
    ) -> Result<(), KernelError> {
        let mut search = self.buckets.search(matches, own[0].num_rows());
        let (mut rows, mut found) = (Vec::new(), Vec::new());
        while search.next_pairs(PAIRS_MAX, &mut rows, &mut found) {
            let mut probing: Vec<BucketRow> = rows.iter().map(|&row| BucketRow { bucket: 0, row }).collect();
            if let Some(residual) = &self.residual {
                let (pairs, lefts, rights) = self.oriented(own, others, &mut probing, &mut found);
                pairs.retain(residual, lefts, rights)?;
            }
            if self.residual.is_some() && !has_match.is_empty() {
                probing.iter().for_each(|row| has_match[row.row as usize] = true);
            }
            if are_reported {
                self.leave_out_reported(&mut probing, &mut found);
            }
            if self.leaving.pairs && !probing.is_empty() {
                let (pairs, lefts, rights) = self.oriented(own, others, &mut probing, &mut found);
                output.push(pairs.output(&self.spec, lefts, rights, Some(self.bounds))?);
            }
        }
        Ok(())
    }

    /// Removes pairs that have left before.
    fn leave_out_reported(&self, probing: &mut Vec<BucketRow>, found: &mut Vec<BucketRow>) {
        let is_new = |row: &BucketRow| row.row as usize >= self.reported[row.bucket as usize];
        let mut news = found.iter().map(is_new);
        probing.retain(|_| news.next().expect("a pair has two rows"));
        found.retain(is_new);
    }

    /// Rows of the side that looks for matches, and of the other, as those of the left and of the right side.
    fn oriented<'a, 'r>(
        &self,
        probing: &'a [RecordBatch],
        others: &'a [RecordBatch],
        probing_rows: &'r mut Vec<BucketRow>,
        other_rows: &'r mut Vec<BucketRow>,
    ) -> (Pairs<'a>, &'r mut Vec<BucketRow>, &'r mut Vec<BucketRow>) {
        match self.probing {
            Side::Left => (Pairs::new(probing, others), probing_rows, other_rows),
            Side::Right => (Pairs::new(others, probing), other_rows, probing_rows),
        }
    }
}
