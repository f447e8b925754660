//! Several buckets that are probed as one.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::error::ArrowError;

use super::UNMATCHED;
use super::bucket::{AHEAD, Bucket};
use super::chosen::ChosenRows;
use super::index::Matches;

/// A row of one of several buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketRow {
    /// Which bucket of the list.
    pub bucket: u32,
    /// Its row, or [`UNMATCHED`].
    pub row: u32,
}

impl BucketRow {
    /// The match of a row that has none.
    pub const UNMATCHED: BucketRow = BucketRow { bucket: UNMATCHED, row: UNMATCHED };
}

/// Buckets of the same columns and keys. Matches are pairs of rows; columns are taken from them last.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    buckets: Vec<Arc<Bucket>>,
}

/// The matches of rows, in each of several buckets.
#[derive(Debug, Clone, Default)]
pub struct RowMatches {
    /// For each bucket, of each row.
    of_buckets: Vec<Vec<Matches>>,
}

/// Rows that have found their matches, which are read in parts: those of a row follow each other bucket by bucket.
pub struct Search<'a> {
    buckets: &'a [Arc<Bucket>],
    found: &'a RowMatches,
    rows: usize,
    /// The next row,
    row: usize,
    /// the next of the buckets that has its matches,
    bucket: usize,
    /// and how many of these have been read.
    passed: usize,
}

impl Search<'_> {
    /// Replaces the lists by the next pairs of a row and its match, at most `pairs_max`. Returns whether there are any.
    pub fn next_pairs(&mut self, pairs_max: usize, out_rows: &mut Vec<u32>, out_matches: &mut Vec<BucketRow>) -> bool {
        out_rows.clear();
        out_matches.clear();
        if let [bucket] = self.buckets
            && bucket.shape().is_unique
        {
            return self.next_unique(pairs_max, out_rows, out_matches);
        }
        while self.row < self.rows && out_rows.len() < pairs_max {
            while self.bucket < self.buckets.len() && out_rows.len() < pairs_max {
                let (of_bucket, found) = (&self.buckets[self.bucket], &self.found.of_buckets[self.bucket]);
                if let Some(ahead) = found.get(self.row + AHEAD) {
                    of_bucket.prefetch_rows(ahead);
                }
                let rows = of_bucket.rows_of(&found[self.row]);
                let rows = &rows[self.passed..];
                let taken = rows.len().min(pairs_max - out_rows.len());
                let bucket = self.bucket as u32;
                out_rows.extend(std::iter::repeat_n(self.row as u32, taken));
                out_matches.extend(rows[..taken].iter().map(|&row| BucketRow { bucket, row }));
                match taken == rows.len() {
                    true => (self.bucket, self.passed) = (self.bucket + 1, 0),
                    false => self.passed += taken,
                }
            }
            if self.bucket == self.buckets.len() {
                (self.row, self.bucket) = (self.row + 1, 0);
            }
        }
        !out_rows.is_empty()
    }

    /// As [`Search::next_pairs`], where no row has more than one match: each row is written, and stays where it has one.
    fn next_unique(&mut self, pairs_max: usize, out_rows: &mut Vec<u32>, out_matches: &mut Vec<BucketRow>) -> bool {
        while self.row < self.rows && out_rows.is_empty() {
            let first = self.row;
            self.row = self.rows.min(first + pairs_max);
            out_rows.resize(self.row - first, 0);
            out_matches.resize(self.row - first, BucketRow::UNMATCHED);
            let mut end = 0;
            for (row, matches) in (first as u32..).zip(&self.found.of_buckets[0][first..self.row]) {
                out_rows[end] = row;
                out_matches[end] = BucketRow { bucket: 0, row: matches.first };
                end += usize::from(matches.count > 0);
            }
            out_rows.truncate(end);
            out_matches.truncate(end);
        }
        !out_rows.is_empty()
    }
}

impl Buckets {
    /// These buckets, in this order.
    ///
    /// # Panics
    /// Where they have other columns than each other.
    pub fn new(buckets: Vec<Arc<Bucket>>) -> Buckets {
        let has_same_columns = |pair: &[Arc<Bucket>]| pair[0].columns().schema() == pair[1].columns().schema();
        assert!(buckets.windows(2).all(has_same_columns), "all buckets have the same columns");
        Buckets { buckets }
    }

    /// The buckets.
    pub fn buckets(&self) -> &[Arc<Bucket>] {
        &self.buckets
    }

    /// Finds the matches of so many rows with these keys, in all buckets.
    ///
    /// # Panics
    /// As [`Bucket::probe`].
    pub fn find(&self, keys: &[ArrayRef], rows: usize) -> RowMatches {
        let mut of_buckets = vec![Vec::new(); self.buckets.len()];
        for (bucket, found) in self.buckets.iter().zip(&mut of_buckets) {
            bucket.find(keys, None, rows, found);
        }
        RowMatches { of_buckets }
    }

    /// Reads the matches of so many rows, which have been found in these buckets.
    pub fn search<'a>(&'a self, found: &'a RowMatches, rows: usize) -> Search<'a> {
        Search { buckets: &self.buckets, found, rows, row: 0, bucket: 0, passed: 0 }
    }

    /// The values of a column in rows of the buckets, NULL for rows without a match. There is at least one bucket.
    ///
    /// # Errors
    /// Where Arrow cannot put values of the type together.
    ///
    /// # Panics
    /// Where there is no such column or row.
    pub fn take(&self, column: usize, rows: &[BucketRow]) -> Result<ArrayRef, ArrowError> {
        let batches: Vec<RecordBatch> = self.buckets.iter().map(|bucket| bucket.columns().clone()).collect();
        ChosenRows::new(&batches, rows).column(column, batches[0].column(column).data_type())
    }
}

impl RowMatches {
    /// How many matches a row has.
    pub fn count(&self, row: usize) -> usize {
        self.of_buckets.iter().map(|found| found[row].count as usize).sum()
    }

    /// The matches of some of the rows.
    pub fn slice(&self, rows: Range<usize>) -> RowMatches {
        RowMatches { of_buckets: self.of_buckets.iter().map(|found| found[rows.clone()].to_vec()).collect() }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.of_buckets.iter().map(|found| found.capacity() * size_of::<Matches>()).sum()
    }
}
