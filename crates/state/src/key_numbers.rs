//! Keys of rows as numbers, by which rows of one key are brought together.

use std::ops::Range;

use arrow::array::ArrayRef;
use pelton_data::aggregate::{Accumulator, KeyColumn};

use crate::kernel::Scratch;
use crate::layout::EntryLayout;
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::table::{Chosen, KeyScratch, Table};

/// Numbers the keys in the order in which they first occur.
#[derive(Debug)]
pub(crate) struct KeyNumbers {
    /// Their indices.
    pub columns: Vec<usize>,
    /// Holds each key's number, plus one, in its only accumulator.
    table: Table,
    keys: u32,
    scratch: Scratch,
    numbers: Vec<u32>,
    /// For each key how many of a batch's rows are before it; overwritten.
    places: Vec<u32>,
}

/// The rows of a batch by key.
pub(crate) struct Grouped {
    /// The rows, those of one key side by side and in their order.
    pub order: Vec<u32>,
    /// For each key its number, and where its rows are in `order`.
    pub runs: Vec<(usize, Range<usize>)>,
}

impl KeyNumbers {
    /// No keys yet. `columns` are their indices, with types and whether they may be NULL.
    pub fn new(columns: Vec<(usize, KeyColumn)>) -> KeyNumbers {
        let (columns, types): (Vec<usize>, Vec<KeyColumn>) = columns.into_iter().unzip();
        let table = Table::new(EntryLayout::new(&types, &[Accumulator::counting_rows()]));
        KeyNumbers { columns, table, keys: 0, scratch: Scratch::default(), numbers: Vec::new(), places: Vec::new() }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + (self.numbers.capacity() + self.places.capacity()) * 4
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.keys as usize
    }

    /// The number of each row's key, given the keys' columns.
    pub fn number(&mut self, columns: &[ArrayRef]) -> &[u32] {
        self.table.find_or_insert_rows(columns, extent, &mut self.scratch);
        self.table.number_groups(&self.scratch.entries, 0, &mut self.keys, &mut self.numbers);
        &self.numbers
    }

    /// The rows by key, given the keys' columns. Keys come in the order of their first rows.
    pub fn group(&mut self, columns: &[ArrayRef]) -> Grouped {
        self.number(columns);
        self.places.resize(self.keys as usize, 0);
        let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
        for &number in &self.numbers {
            let count = &mut self.places[number as usize];
            if *count == 0 {
                runs.push((number as usize, 0..0));
            }
            *count += 1;
        }
        let mut end = 0;
        for (number, run) in &mut runs {
            *run = end..end + self.places[*number] as usize;
            self.places[*number] = end as u32;
            end = run.end;
        }
        let mut order = vec![0; self.numbers.len()];
        for (row, &number) in (0..).zip(&self.numbers) {
            let place = &mut self.places[number as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        runs.iter().for_each(|(number, _)| self.places[*number] = 0);
        Grouped { order, runs }
    }

    /// Writes the keys in the order of their numbers.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let mut entries = self.table.entry_offsets();
        let numbers = self.table.integers(0, &entries);
        let mut order: Vec<(i64, u32)> = numbers.into_iter().zip(entries.drain(..)).collect();
        order.sort_unstable();
        entries.extend(order.into_iter().map(|(_, entry)| entry));
        self.table.write_keys(Chosen::Listed(&entries), out)
    }

    /// Becomes what was written. Returns how many keys there are.
    pub fn read_from(&mut self, input: &mut Reader<'_>) -> Result<usize, SnapshotError> {
        let read = self.table.read_keys(1, input)?;
        let entries: Vec<u32> = read.chosen().iter().collect();
        self.table.number_groups(&entries, 0, &mut self.keys, &mut self.numbers);
        self.places = vec![0; entries.len()];
        Ok(entries.len())
    }

    /// Forgets the keys that are not `kept`. The others are numbered anew, in the order of their numbers.
    pub fn retain(&mut self, kept: &[bool]) {
        let mut entries = self.table.entry_offsets();
        self.table.number_groups(&entries, 0, &mut self.keys, &mut self.numbers);
        let mut numbered: Vec<(u32, u32)> = self.numbers.drain(..).zip(entries.drain(..)).collect();
        numbered.retain(|(number, _)| kept[*number as usize]);
        numbered.sort_unstable();
        entries.extend(numbered.iter().map(|(_, entry)| *entry));
        // A table that was only cleared would keep room for the keys that are forgotten.
        let mut table = Table::new(self.table.layout().clone());
        let mut found = Vec::new();
        table.entries_of(&self.table, Chosen::Listed(&entries), &mut found, &mut KeyScratch::default());
        self.keys = 0;
        table.number_groups(&found, 0, &mut self.keys, &mut self.numbers);
        self.table = table;
        self.places = vec![0; self.keys as usize];
    }
}

fn extent(keys: &[i64]) -> (i64, i64) {
    keys.iter().fold((i64::MAX, i64::MIN), |(minimum, maximum), &key| (minimum.min(key), maximum.max(key)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringViewArray;
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn rows_of_one_key_come_together_in_their_order() {
        let batch = |words: &[Option<&str>]| -> [ArrayRef; 1] {
            let column: StringViewArray = words.iter().copied().collect();
            [Arc::new(column)]
        };
        let mut keys = KeyNumbers::new(vec![(0, KeyColumn { data_type: DataType::Utf8View, nullable: true })]);
        let first = keys.group(&batch(&[Some("b"), None, Some("a"), Some("b"), None]));
        assert_eq!(first.order, [0, 3, 1, 4, 2]);
        assert_eq!(first.runs, [(0, 0..2), (1, 2..4), (2, 4..5)]);
        let second = keys.group(&batch(&[Some("a"), Some("a longer word than fits a view"), Some("a"), None]));
        assert_eq!(second.order, [0, 2, 1, 3]);
        assert_eq!(second.runs, [(2, 0..2), (3, 2..3), (1, 3..4)]);
        assert_eq!(keys.keys, 4);
        keys.retain(&[false, true, false, true]);
        let third = keys.group(&batch(&[Some("b"), Some("a"), None, Some("a longer word than fits a view")]));
        assert_eq!(third.runs, [(2, 0..1), (3, 1..2), (0, 2..3), (1, 3..4)]);
    }
}
