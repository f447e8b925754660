//! Rows, and the index that finds them by key.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use pelton_data::TimeRange;
use pelton_data::batch_buffer::BatchBuffer;
use pelton_data::column::{bytes_of, logical_type};

use super::UNMATCHED;
use super::build::BucketBuild;
use super::dense::DensePlaces;
use super::index::{Index, Matches};
use super::keys::KeyColumns;
use crate::vector::prefetch;

/// How many rows before its own the matches of a row are prefetched.
pub(super) const AHEAD: usize = 32;

/// The immutable unit of join state (design, section 3, "Buckets"): columns, an index of their rows by key, and the range of their event times. A bounded
/// table is one bucket; a window join has one for each slice and side; an interval join drops whole buckets when their times have passed.
///
/// Rows with a NULL in a key column are never found. Rows of one key are found in their order.
#[derive(Debug)]
pub struct Bucket {
    columns: RecordBatch,
    key_types: Vec<DataType>,
    index: Index,
    /// The rows of each key, one key after the other; empty where keys are unique. All rows where there is no key.
    list: Vec<u32>,
    times: Option<TimeRange>,
}

/// How a bucket finds rows. A kernel is compiled for shapes of its lookup tables, and takes buckets of all others as well, through more general code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Whether the position of a key's rows follows from the key.
    pub is_dense: bool,
    /// Whether no key has more than one row.
    pub is_unique: bool,
    /// Whether the rows are in the order of dense keys without a gap, so that the position of a key is its row.
    pub is_in_order: bool,
}

impl Bucket {
    /// The rows of `batch`, indexed by the columns `key_columns`, in this thread; where there are none, each row matches all. [`BucketBuild`] uses several.
    ///
    /// # Panics
    /// Where a key column's type is none that blocks hold, or there are more rows than 32 bits count.
    pub fn new(batch: RecordBatch, key_columns: &[usize]) -> Bucket {
        let (schema, mut rows) = (batch.schema(), BatchBuffer::default());
        rows.push(batch);
        let build = BucketBuild::new(schema, rows, key_columns, None);
        build.complete().expect("a batch has its own columns")
    }

    pub(super) fn of_parts(
        columns: RecordBatch,
        key_types: Vec<DataType>,
        (index, list): (Index, Vec<u32>),
        times: Option<TimeRange>,
    ) -> Bucket {
        Bucket { columns, key_types, index, list, times }
    }

    /// Its rows, as machine code reads them.
    pub fn columns(&self) -> &RecordBatch {
        &self.columns
    }

    /// The smallest and the largest event time; nothing where there is no row, or its rows have no event time.
    pub fn times(&self) -> Option<TimeRange> {
        self.times
    }

    /// Bytes of the rows and of what finds them.
    pub fn bytes(&self) -> usize {
        bytes_of(&self.columns) + self.index.bytes() + size_of_val(self.list.as_slice())
    }

    /// How it finds rows.
    pub fn shape(&self) -> Shape {
        match &self.index {
            Index::Dense(dense) => {
                let places = dense.places();
                let is_in_order = places.is_some_and(|places| places.rows.is_none());
                Shape { is_dense: true, is_unique: places.is_some(), is_in_order }
            }
            Index::Hashed(_) => Shape { is_unique: self.list.is_empty(), ..Shape::default() },
            Index::All => Shape::default(),
        }
    }

    /// The most rows of one key.
    pub fn matches_max(&self) -> usize {
        match &self.index {
            _ if self.list.is_empty() => 1,
            index => index.matches_max(self.list.len()),
        }
    }

    /// Where the row of each key is, for unique integer keys in a small range.
    pub fn dense(&self) -> Option<DensePlaces<'_>> {
        match &self.index {
            Index::Dense(dense) => dense.places(),
            Index::Hashed(_) | Index::All => None,
        }
    }

    /// Finds the matches of each row of `selection` (all of `rows` rows where there is none) by its values in `keys`: for each match,
    /// in the order of rows and then of matches, `out_rows` gets the row and `out_matches` the row of [`Bucket::columns`]. A row
    /// without a match gets [`UNMATCHED`] if `keep_unmatched`, else nothing. Both vectors are replaced.
    ///
    /// # Panics
    /// Where `keys` are not of the indexed columns' types, or a row is out of range.
    pub fn probe(
        &self,
        keys: &[ArrayRef],
        selection: Option<&[u32]>,
        rows: usize,
        keep_unmatched: bool,
        out_rows: &mut Vec<u32>,
        out_matches: &mut Vec<u32>,
    ) {
        let mut found = Vec::new();
        self.find(keys, selection, rows, &mut found);
        debug_assert_eq!(found.len(), selection.map_or(rows, <[u32]>::len));
        let row = |at: usize| selection.map_or(at as u32, |selection| selection[at]);
        out_rows.clear();
        out_matches.clear();
        if self.list.is_empty() {
            // Each row is written, and stays where it has a match: that is no branch to predict.
            out_rows.resize(found.len(), 0);
            out_matches.resize(found.len(), 0);
            let mut end = 0;
            for (at, matches) in found.iter().enumerate() {
                let has_match = matches.count > 0;
                out_rows[end] = row(at);
                out_matches[end] = if has_match { matches.first } else { UNMATCHED };
                end += usize::from(has_match | keep_unmatched);
            }
            out_rows.truncate(end);
            out_matches.truncate(end);
            return;
        }
        for (at, matches) in found.iter().enumerate() {
            if let Some(ahead) = found.get(at + AHEAD) {
                self.prefetch_rows(ahead);
            }
            let rows = self.rows_of(matches);
            let unmatched = (rows.is_empty() && keep_unmatched).then_some(&UNMATCHED);
            for &matched in rows.iter().chain(unmatched) {
                out_rows.push(row(at));
                out_matches.push(matched);
            }
        }
    }

    /// Replaces `found` by the matches of each row of `selection`, or of all `rows` rows.
    ///
    /// # Panics
    /// As [`Bucket::probe`].
    pub(super) fn find(&self, keys: &[ArrayRef], selection: Option<&[u32]>, rows: usize, found: &mut Vec<Matches>) {
        assert_eq!(keys.len(), self.key_types.len(), "one column for each key column");
        for (key, expected) in keys.iter().zip(&self.key_types) {
            assert_eq!(logical_type(key.data_type()), expected, "a key has the type of the indexed column");
        }
        self.index.find(&KeyColumns::new(keys.to_vec()), (selection, rows), &self.list, found);
    }

    /// Prefetches the rows that matches are.
    #[inline(always)]
    pub(super) fn prefetch_rows(&self, matches: &Matches) {
        prefetch(self.list.as_ptr().wrapping_add(matches.first as usize).cast());
    }

    /// The rows that matches are.
    pub(super) fn rows_of<'a>(&'a self, matches: &'a Matches) -> &'a [u32] {
        if self.list.is_empty() {
            // The only match is its row.
            return &std::slice::from_ref(&matches.first)[..matches.count as usize];
        }
        &self.list[matches.first as usize..][..matches.count as usize]
    }
}
