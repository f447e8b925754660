//! What is kept of a column that calls look back at, in whichever form its values have.

use std::ops::Range;

use super::row_store::{ColumnStore, Coming};
use super::text::TextStore;
use super::value::Column;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// The kept values of one column, of the rows of one key.
#[derive(Debug)]
pub(super) enum Kept {
    Integers(ColumnStore<i64>),
    Floats(ColumnStore<f64>),
    Decimals(ColumnStore<i128>),
    Bytes(TextStore),
}

impl Kept {
    /// Adds some rows of the column. Where `is_whole`, all of it is of one key.
    pub fn append(&mut self, column: &Column, is_whole: bool, rows: Range<usize>) {
        match (self, column) {
            (Kept::Integers(kept), Column::Integers(column)) => kept.append(Coming::of(column, is_whole), rows),
            (Kept::Floats(kept), Column::Floats(column)) => kept.append(Coming::of(column, is_whole), rows),
            (Kept::Decimals(kept), Column::Decimals(column)) => kept.append(Coming::of(column, is_whole), rows),
            (Kept::Bytes(kept), Column::Bytes(column)) => kept.append(column, rows),
            (_, _) => unreachable!("what is kept has the form of its column"),
        }
    }

    /// The store of integers.
    pub fn integers(&self) -> &ColumnStore<i64> {
        if let Kept::Integers(kept) = self { kept } else { unreachable!("integers are kept") }
    }

    /// The store of doubles.
    pub fn floats(&self) -> &ColumnStore<f64> {
        if let Kept::Floats(kept) = self { kept } else { unreachable!("floats are kept") }
    }

    /// The store of decimals.
    pub fn decimals(&self) -> &ColumnStore<i128> {
        if let Kept::Decimals(kept) = self { kept } else { unreachable!("decimals are kept") }
    }

    /// The store of strings.
    pub fn texts(&self) -> &TextStore {
        if let Kept::Bytes(kept) = self { kept } else { unreachable!("bytes are kept") }
    }

    /// How many of the values from a position on, which are kept, are not NULL; `None` where nothing counts them.
    pub fn count_valid_from(&self, start: u64) -> Option<u64> {
        match self {
            Kept::Integers(kept) => Some(kept.count_valid_from(start)),
            Kept::Floats(kept) => Some(kept.count_valid_from(start)),
            Kept::Decimals(kept) => Some(kept.count_valid_from(start)),
            Kept::Bytes(_) => None,
        }
    }

    /// Forgets values before a position.
    pub fn forget(&mut self, until: u64) {
        match self {
            Kept::Integers(kept) => kept.forget(until),
            Kept::Floats(kept) => kept.forget(until),
            Kept::Decimals(kept) => kept.forget(until),
            Kept::Bytes(kept) => kept.forget(until),
        }
    }

    /// Writes what is kept.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        match self {
            Kept::Integers(kept) => kept.write_to(out),
            Kept::Floats(kept) => kept.write_to(out),
            Kept::Decimals(kept) => kept.write_to(out),
            Kept::Bytes(kept) => kept.write_to(out)?,
        }
        Ok(())
    }

    /// Becomes what was written when there were so many rows. Returns the first position.
    pub fn read_from(&mut self, rows: u64, input: &mut Reader<'_>) -> Result<u64, SnapshotError> {
        match self {
            Kept::Integers(kept) => kept.read_from(rows, input),
            Kept::Floats(kept) => kept.read_from(rows, input),
            Kept::Decimals(kept) => kept.read_from(rows, input),
            Kept::Bytes(kept) => kept.read_from(rows, input),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match self {
            Kept::Integers(kept) => kept.bytes(),
            Kept::Floats(kept) => kept.bytes(),
            Kept::Decimals(kept) => kept.bytes(),
            Kept::Bytes(kept) => kept.bytes(),
        }
    }
}
