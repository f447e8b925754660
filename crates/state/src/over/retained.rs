//! The values of a column that calls look back at, in whichever form they have.

use std::ops::Range;

use super::row_store::{ColumnStore, Coming};
use super::text::TextStore;
use super::value::Column;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// The retained values of one column, of the rows of one key.
#[derive(Debug)]
pub(super) enum RetainedColumn {
    Integers(ColumnStore<i64>),
    Floats(ColumnStore<f64>),
    Decimals(ColumnStore<i128>),
    Bytes(TextStore),
}

impl RetainedColumn {
    /// Adds some rows of the column. Where `is_whole`, all of it is of one key.
    pub fn append(&mut self, column: &Column, is_whole: bool, rows: Range<usize>) {
        match (self, column) {
            (RetainedColumn::Integers(kept), Column::Integers(column)) => {
                kept.append(Coming::of(column, is_whole), rows)
            }
            (RetainedColumn::Floats(kept), Column::Floats(column)) => kept.append(Coming::of(column, is_whole), rows),
            (RetainedColumn::Decimals(kept), Column::Decimals(column)) => {
                kept.append(Coming::of(column, is_whole), rows)
            }
            (RetainedColumn::Bytes(kept), Column::Bytes(column)) => kept.append(column, rows),
            (_, _) => unreachable!("what is kept has the form of its column"),
        }
    }

    /// The store of integers.
    pub fn integers(&self) -> &ColumnStore<i64> {
        if let RetainedColumn::Integers(kept) = self { kept } else { unreachable!("integers are kept") }
    }

    /// The store of doubles.
    pub fn floats(&self) -> &ColumnStore<f64> {
        if let RetainedColumn::Floats(kept) = self { kept } else { unreachable!("floats are kept") }
    }

    /// The store of decimals.
    pub fn decimals(&self) -> &ColumnStore<i128> {
        if let RetainedColumn::Decimals(kept) = self { kept } else { unreachable!("decimals are kept") }
    }

    /// The store of strings.
    pub fn texts(&self) -> &TextStore {
        if let RetainedColumn::Bytes(kept) = self { kept } else { unreachable!("bytes are kept") }
    }

    /// How many of the values from a position on, which are kept, are not NULL; `None` where nothing counts them.
    pub fn count_valid_from(&self, start: u64) -> Option<u64> {
        match self {
            RetainedColumn::Integers(kept) => Some(kept.count_valid_from(start)),
            RetainedColumn::Floats(kept) => Some(kept.count_valid_from(start)),
            RetainedColumn::Decimals(kept) => Some(kept.count_valid_from(start)),
            RetainedColumn::Bytes(_) => None,
        }
    }

    /// Forgets values before a position.
    pub fn forget(&mut self, until: u64) {
        match self {
            RetainedColumn::Integers(kept) => kept.forget(until),
            RetainedColumn::Floats(kept) => kept.forget(until),
            RetainedColumn::Decimals(kept) => kept.forget(until),
            RetainedColumn::Bytes(kept) => kept.forget(until),
        }
    }

    /// Writes what is kept.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        match self {
            RetainedColumn::Integers(kept) => kept.write_to(out),
            RetainedColumn::Floats(kept) => kept.write_to(out),
            RetainedColumn::Decimals(kept) => kept.write_to(out),
            RetainedColumn::Bytes(kept) => kept.write_to(out)?,
        }
        Ok(())
    }

    /// Becomes what was written when there were so many rows. Returns the first position.
    pub fn read_from(&mut self, rows: u64, input: &mut Reader<'_>) -> Result<u64, SnapshotError> {
        match self {
            RetainedColumn::Integers(kept) => kept.read_from(rows, input),
            RetainedColumn::Floats(kept) => kept.read_from(rows, input),
            RetainedColumn::Decimals(kept) => kept.read_from(rows, input),
            RetainedColumn::Bytes(kept) => kept.read_from(rows, input),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match self {
            RetainedColumn::Integers(kept) => kept.bytes(),
            RetainedColumn::Floats(kept) => kept.bytes(),
            RetainedColumn::Decimals(kept) => kept.bytes(),
            RetainedColumn::Bytes(kept) => kept.bytes(),
        }
    }
}
