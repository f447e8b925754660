//! The key columns of rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use pelton_data::aggregate::KeyColumn;
use pelton_data::column::logical_type;

use crate::layout::{EntryLayout, KeyLayout, is_integer};
use crate::table::key_shape::{ANY, KeyShape};
use crate::table::{KeyRows, pack_keys, widen_keys};

/// Rows whose keys are computed at a time: these stay in the first-level cache.
pub(super) const CHUNK_ROWS: usize = 1024;

/// How many rows before its own what a key leads to is prefetched.
const ROWS_AHEAD: usize = 64;

/// One column for each key column, and which rows have a key.
#[derive(Debug)]
pub(super) struct KeyColumns {
    columns: Vec<ArrayRef>,
    /// Valid where no key column is NULL; nothing where none is in any row.
    valid: Option<NullBuffer>,
    rows: usize,
}

impl KeyColumns {
    pub fn new(columns: Vec<ArrayRef>) -> KeyColumns {
        let rows = columns.first().map_or(0, |column| column.len());
        let nulls = columns.iter().filter_map(|column| column.logical_nulls());
        let valid = nulls.fold(None, |all, nulls| NullBuffer::union(all.as_ref(), Some(&nulls)));
        KeyColumns { columns, valid: valid.filter(|valid| valid.null_count() > 0), rows }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the key is one integer.
    pub fn is_integer(&self) -> bool {
        matches!(self.columns.as_slice(), [key] if is_integer(key.data_type()))
    }

    pub fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|column| logical_type(column.data_type()).clone()).collect()
    }

    pub fn has_key(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.is_valid(row))
    }

    pub fn all_have_keys(&self) -> bool {
        self.valid.is_none()
    }

    /// Visits those of `rows` that have a key, in their order, with the integer that it is.
    #[inline(always)]
    pub fn for_each_integer(&self, rows: Range<usize>, visit: impl FnMut(u32, i64)) {
        self.for_each_integer_prefetching(rows, |_| {}, visit);
    }

    /// As [`KeyColumns::for_each_integer`]; `prefetch` gets each integer some rows before it is visited, and those of rows without a key.
    #[inline(always)]
    pub fn for_each_integer_prefetching(
        &self,
        rows: Range<usize>,
        prefetch: impl Fn(i64),
        mut visit: impl FnMut(u32, i64),
    ) {
        let mut integers = Vec::new();
        for start in rows.clone().step_by(CHUNK_ROWS) {
            let chunk = start..rows.end.min(start + CHUNK_ROWS);
            widen_keys(&self.columns[0].slice(chunk.start, chunk.len()), None, &mut integers);
            integers.iter().take(ROWS_AHEAD).for_each(|&key| prefetch(key));
            let each = chunk.zip(&integers).enumerate().inspect(|(at, _)| {
                if let Some(&ahead) = integers.get(at + ROWS_AHEAD) {
                    prefetch(ahead);
                }
            });
            let with_rows = each.map(|(_, with_row)| with_row);
            match &self.valid {
                None => with_rows.for_each(|(row, &key)| visit(row as u32, key)),
                Some(valid) => {
                    with_rows.filter(|(row, _)| valid.is_valid(*row)).for_each(|(row, &key)| visit(row as u32, key))
                }
            }
        }
    }

    /// Visits the integers of all rows, some at a time; any for rows without a key.
    pub fn visit_integers(&self, mut visit: impl FnMut(&[i64])) {
        let column = &self.columns[0];
        if column.data_type().primitive_width() == Some(size_of::<i64>()) {
            return visit(column.to_data().buffer::<i64>(0));
        }
        let mut integers = Vec::new();
        for start in (0..self.rows).step_by(CHUNK_ROWS) {
            widen_keys(&column.slice(start, CHUNK_ROWS.min(self.rows - start)), None, &mut integers);
            visit(&integers);
        }
    }

    /// The integers of `selection`, or of all rows; any for rows without a key.
    pub fn integers(&self, selection: Option<&[u32]>, integers: &mut Vec<i64>) {
        widen_keys(&self.columns[0], selection, integers);
    }

    /// Replaces `packed` by the keys of rows. They point to the bytes of strings, which are there as long as the columns.
    pub fn pack(&self, packing: &Packing, rows: KeyRows<'_>, packed: &mut Vec<u8>) {
        pack_keys(&packing.layout, &self.columns, rows, packed);
    }
}

/// How keys that are no integers are packed, hashed and compared.
#[derive(Debug, Clone)]
pub(super) struct Packing {
    layout: Arc<EntryLayout>,
    pub shape: KeyShape,
}

impl Packing {
    /// # Panics
    /// Where a type is none that blocks hold.
    pub fn new(types: &[DataType]) -> Packing {
        let columns = types.iter().map(|data_type| KeyColumn { data_type: data_type.clone(), nullable: true });
        let layout = EntryLayout::new(&columns.collect::<Vec<_>>(), &[]);
        let KeyLayout::Packed { width, columns } = layout.keys() else { panic!("integers are not packed") };
        let shape = KeyShape::new(*width, columns);
        Packing { layout, shape }
    }

    /// Bytes of a key.
    pub fn width(&self) -> usize {
        self.shape.width()
    }

    /// Replaces `hashes` by those of packed keys.
    ///
    /// # Safety
    /// The keys must be packed by this, and the strings they point to must be there.
    pub unsafe fn hash(&self, packed: &[u8], hashes: &mut Vec<u64>) {
        // SAFETY: there are as many keys; the caller's promise.
        unsafe { self.shape.hash_all::<ANY>(packed.as_ptr(), packed.len() / self.width(), hashes) };
    }

    /// Whether two keys are equal.
    ///
    /// # Safety
    /// As for [`Packing::hash`], for both.
    #[inline]
    pub unsafe fn equal(&self, held: &[u8], key: &[u8]) -> bool {
        assert!(held.len() == self.width() && key.len() == self.width());
        // SAFETY: both are one key; the caller's promise.
        unsafe { self.shape.equal::<ANY>(held.as_ptr(), key.as_ptr()) }
    }
}
