//! Several buckets that are probed as one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::error::ArrowError;

use super::UNMATCHED;
use super::bucket::Bucket;

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

    /// As [`Bucket::probe`], in all buckets: the matches of a row follow each other bucket by bucket.
    ///
    /// # Panics
    /// As [`Bucket::probe`].
    pub fn probe(
        &self,
        keys: &[ArrayRef],
        selection: Option<&[u32]>,
        rows: usize,
        keep_unmatched: bool,
        out_rows: &mut Vec<u32>,
        out_matches: &mut Vec<BucketRow>,
    ) {
        out_rows.clear();
        out_matches.clear();
        let mut found = vec![Vec::new(); self.buckets.len()];
        for (bucket, found) in self.buckets.iter().zip(&mut found) {
            bucket.find(keys, selection, found);
        }
        for at in 0..selection.map_or(rows, <[u32]>::len) {
            let before = out_matches.len();
            for ((number, bucket), found) in (0..).zip(&self.buckets).zip(&found) {
                let rows = bucket.rows_of(&found[at]).iter();
                out_matches.extend(rows.map(|&row| BucketRow { bucket: number, row }));
            }
            if out_matches.len() == before && keep_unmatched {
                out_matches.push(BucketRow::UNMATCHED);
            }
            let row = selection.map_or(at as u32, |selection| selection[at]);
            out_rows.extend(std::iter::repeat_n(row, out_matches.len() - before));
        }
    }

    /// The values of a column in rows of the buckets, NULL for rows without a match. There is at least one bucket.
    ///
    /// # Errors
    /// Where Arrow cannot put values of the type together.
    ///
    /// # Panics
    /// Where there is no such column or row.
    pub fn take(&self, column: usize, rows: &[BucketRow]) -> Result<ArrayRef, ArrowError> {
        let mut arrays: Vec<&dyn Array> =
            self.buckets.iter().map(|bucket| bucket.columns().column(column).as_ref()).collect();
        let unmatched = new_null_array(arrays[0].data_type(), 1);
        arrays.push(&unmatched);
        let last = self.buckets.len();
        let places = rows.iter().map(|&row| match row {
            BucketRow::UNMATCHED => (last, 0),
            BucketRow { bucket, row } => (bucket as usize, row as usize),
        });
        interleave(&arrays, &places.collect::<Vec<_>>())
    }
}
