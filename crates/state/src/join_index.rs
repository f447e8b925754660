//! Rows of a bounded table, found by key.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use pelton_data::aggregate::{Accumulator, KeyColumn};
use pelton_data::column::logical_type;

use crate::layout::{EntryLayout, is_integer};
use crate::table::{ABSENT, KeyRows, Table, widen_keys};

/// The match of a row that has none.
pub const UNMATCHED: u32 = u32::MAX;

/// A dense index of this length is worth it for any number of rows.
const DENSE_LENGTH_FREE: u64 = 1 << 16;

/// A longer one may have this many places for each row.
const DENSE_LENGTH_PER_ROW: u64 = 8;

/// The rows of a bounded table and the way to them by key. It does not change once it is made.
#[derive(Debug)]
pub struct JoinIndex {
    columns: RecordBatch,
    key_types: Vec<DataType>,
    places: Places,
    groups: Groups,
}

/// From a key to its group.
#[derive(Debug)]
enum Places {
    /// The group of key `base + i`, or [`UNMATCHED`].
    Dense { base: i64, groups: Vec<u32> },
    /// The group of the key that has an entry.
    Hashed { table: Box<Table>, groups: Vec<u32> },
}

/// From a group to its rows.
#[derive(Debug)]
enum Groups {
    /// Keys are unique: a group is its row.
    Unique,
    /// The rows of group `g` are `rows[starts[g]..starts[g + 1]]`, ascending.
    Several { starts: Vec<u32>, rows: Vec<u32> },
}

impl JoinIndex {
    /// An index of the rows of `batch` by the columns `key_columns`, one or more. Rows with a NULL among these are never found.
    ///
    /// # Panics
    /// Where a column's type is none that blocks hold, or there are more rows than 32 bits count.
    pub fn new(batch: RecordBatch, key_columns: &[usize]) -> JoinIndex {
        assert!(u32::try_from(batch.num_rows()).is_ok_and(|rows| rows < UNMATCHED), "row numbers have 32 bits");
        let keys: Vec<ArrayRef> = key_columns.iter().map(|&column| batch.column(column).clone()).collect();
        let key_types = keys.iter().map(|key| logical_type(key.data_type()).clone()).collect();
        let rows = rows_without_null(&keys, batch.num_rows());
        let dense = dense_places(&keys, &rows);
        let (places, group_of_row, group_count) = dense.unwrap_or_else(|| hashed_places(&keys, &rows));
        let mut index = JoinIndex { columns: batch, key_types, places, groups: Groups::Unique };
        if group_count == rows.len() {
            let row_of_group = rows;
            let (Places::Dense { groups, .. } | Places::Hashed { groups, .. }) = &mut index.places;
            for group in groups.iter_mut().filter(|group| **group != UNMATCHED) {
                *group = row_of_group[*group as usize];
            }
        } else {
            index.groups = several(&rows, &group_of_row, group_count);
        }
        index
    }

    /// The indexed rows.
    pub fn columns(&self) -> &RecordBatch {
        &self.columns
    }

    /// Bytes of the rows and of what finds them.
    pub fn bytes(&self) -> usize {
        let places = match &self.places {
            Places::Dense { groups, .. } => size_of_val(groups.as_slice()),
            Places::Hashed { table, groups } => table.bytes() + size_of_val(groups.as_slice()),
        };
        let groups = match &self.groups {
            Groups::Unique => 0,
            Groups::Several { starts, rows } => size_of_val(starts.as_slice()) + size_of_val(rows.as_slice()),
        };
        self.columns.get_array_memory_size() + places + groups
    }

    /// Whether no key has more than one row.
    pub fn is_unique(&self) -> bool {
        matches!(self.groups, Groups::Unique)
    }

    /// For unique integer keys in a small range: the first of the range, and for each key in it the row or [`UNMATCHED`].
    pub fn dense(&self) -> Option<(i64, &[u32])> {
        match (&self.places, &self.groups) {
            (Places::Dense { base, groups }, Groups::Unique) => Some((*base, groups)),
            _ => None,
        }
    }

    /// Finds the matches of each row of `selection` (all of `rows` rows where there is none) by its values in `keys`: for each match,
    /// in the order of rows and then of matches, `out_rows` gets the row and `out_matches` the row of [`JoinIndex::columns`]. A row
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
        assert_eq!(keys.len(), self.key_types.len(), "one column for each key column");
        for (key, expected) in keys.iter().zip(&self.key_types) {
            assert_eq!(logical_type(key.data_type()), expected, "a key has the type of the indexed column");
        }
        let mut groups = Vec::new();
        self.find(keys, selection, &mut groups);
        debug_assert_eq!(groups.len(), selection.map_or(rows, <[u32]>::len));
        out_rows.clear();
        out_matches.clear();
        for (at, &group) in groups.iter().enumerate() {
            let row = selection.map_or(at as u32, |selection| selection[at]);
            if group == UNMATCHED {
                if keep_unmatched {
                    out_rows.push(row);
                    out_matches.push(UNMATCHED);
                }
                continue;
            }
            match &self.groups {
                Groups::Unique => {
                    out_rows.push(row);
                    out_matches.push(group);
                }
                Groups::Several { starts, rows } => {
                    let matches = &rows[range(starts, group)];
                    out_rows.extend(std::iter::repeat_n(row, matches.len()));
                    out_matches.extend_from_slice(matches);
                }
            }
        }
    }

    /// Replaces `groups` by the group of each row of `selection`, or [`UNMATCHED`].
    fn find(&self, keys: &[ArrayRef], selection: Option<&[u32]>, groups: &mut Vec<u32>) {
        let nulls = |keys: &[ArrayRef]| keys[0].nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        match &self.places {
            Places::Dense { base, groups: places } => {
                let mut wide = Vec::new();
                widen_keys(&keys[0], selection, &mut wide);
                groups.clear();
                groups.extend(wide.iter().map(|key| {
                    let place = key.wrapping_sub(*base) as u64 as usize;
                    places.get(place).copied().unwrap_or(UNMATCHED)
                }));
                remove_nulls(nulls(keys), selection, groups);
            }
            Places::Hashed { table, groups: places } => {
                if is_integer(&self.key_types[0]) && keys.len() == 1 {
                    let mut wide = Vec::new();
                    widen_keys(&keys[0], selection, &mut wide);
                    table.find_integers(&wide, groups);
                    remove_nulls(nulls(keys), selection, groups);
                } else {
                    // A key with a NULL is in no table: such rows are not indexed.
                    table.find_columns(keys, selection, groups, &mut Vec::new());
                }
                let units = table.layout().stride() / 8;
                for group in groups.iter_mut().filter(|entry| **entry != ABSENT) {
                    *group = places[*group as usize / units];
                }
            }
        }
    }
}

fn range(starts: &[u32], group: u32) -> Range<usize> {
    starts[group as usize] as usize..starts[group as usize + 1] as usize
}

fn remove_nulls(nulls: Option<NullBuffer>, selection: Option<&[u32]>, groups: &mut [u32]) {
    let Some(nulls) = nulls else { return };
    for (at, group) in groups.iter_mut().enumerate() {
        if nulls.is_null(selection.map_or(at, |selection| selection[at] as usize)) {
            *group = UNMATCHED;
        }
    }
}

fn rows_without_null(keys: &[ArrayRef], rows: usize) -> Vec<u32> {
    let nulls: Vec<NullBuffer> = keys.iter().filter_map(|key| key.logical_nulls()).collect();
    (0..rows as u32).filter(|&row| nulls.iter().all(|nulls| nulls.is_valid(row as usize))).collect()
}

/// Places, the group of each row, and the number of groups, where the only key is an integer and its values lie close together.
fn dense_places(keys: &[ArrayRef], rows: &[u32]) -> Option<(Places, Vec<u32>, usize)> {
    let [key] = keys else { return None };
    if !is_integer(key.data_type()) {
        return None;
    }
    let mut wide = Vec::new();
    widen_keys(key, Some(rows), &mut wide);
    let (&minimum, &maximum) = (wide.iter().min()?, wide.iter().max()?);
    let distance = maximum.wrapping_sub(minimum) as u64;
    if distance >= DENSE_LENGTH_FREE.max(rows.len() as u64 * DENSE_LENGTH_PER_ROW) {
        return None;
    }
    let mut groups = vec![UNMATCHED; distance as usize + 1];
    let mut count = 0;
    let group_of_row = wide.iter().map(|key| {
        let group = &mut groups[key.wrapping_sub(minimum) as usize];
        if *group == UNMATCHED {
            *group = count;
            count += 1;
        }
        *group
    });
    let group_of_row = group_of_row.collect();
    Some((Places::Dense { base: minimum, groups }, group_of_row, count as usize))
}

/// As [`dense_places`], for any keys.
fn hashed_places(keys: &[ArrayRef], rows: &[u32]) -> (Places, Vec<u32>, usize) {
    let columns = keys.iter().map(|key| KeyColumn { data_type: logical_type(key.data_type()).clone(), nullable: true });
    let rows_of_key = Accumulator::counting_rows();
    let layout = EntryLayout::new(&columns.collect::<Vec<_>>(), &[rows_of_key]);
    let mut table = Table::new(Arc::clone(&layout));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    if keys.len() == 1 && is_integer(keys[0].data_type()) {
        let mut wide = Vec::new();
        widen_keys(&keys[0], Some(rows), &mut wide);
        table.find_or_insert_integers(&wide, &mut entries, &mut hashes);
    } else {
        table.find_or_insert_columns(keys, KeyRows::Listed(rows), &mut entries, &mut Vec::new(), &mut hashes);
    }
    let units = layout.stride() / 8;
    let slots = table.entry_offsets().last().map_or(0, |&last| last as usize / units + 1);
    let mut groups = vec![UNMATCHED; slots];
    let mut count = 0;
    for entry in &mut entries {
        let group = &mut groups[*entry as usize / units];
        if *group == UNMATCHED {
            *group = count;
            count += 1;
        }
        *entry = *group;
    }
    (Places::Hashed { table: Box::new(table), groups }, entries, count as usize)
}

/// The rows of each group.
fn several(rows: &[u32], group_of_row: &[u32], group_count: usize) -> Groups {
    let mut starts = vec![0; group_count + 1];
    for &group in group_of_row {
        starts[group as usize + 1] += 1;
    }
    for group in 0..group_count {
        starts[group + 1] += starts[group];
    }
    let mut next = starts.clone();
    let mut grouped = vec![0; rows.len()];
    for (&row, &group) in rows.iter().zip(group_of_row) {
        grouped[next[group as usize] as usize] = row;
        next[group as usize] += 1;
    }
    Groups::Several { starts, rows: grouped }
}
