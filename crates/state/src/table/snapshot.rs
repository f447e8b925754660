//! Groups in snapshots: their keys, and what they have accumulated, column by column. How their table finds them is not written.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use pelton_data::aggregate::{Accumulator, KeyColumn};

use super::arrays::string_array;
use super::list::{copy_values, with_width};
use super::strided::Strided;
use super::{Chosen, Groups, Table};
use crate::kernel::Scratch;
use crate::layout::{AccumulatorSlot, EntryLayout, KeyLayout, POSITION_WIDTH, is_string, value_type};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

/// Nobody has so many rows, and as many counts of as many rows do not leave 64 bits.
const ROWS_MAX: i64 = 1 << 48;

/// Entries of groups that were read.
pub(crate) enum ReadEntries {
    /// The last ones of a list.
    Neighbours { first: usize, count: usize },
    /// Those that the keys have.
    Listed(Vec<u32>),
}

impl ReadEntries {
    pub(crate) fn chosen(&self) -> Chosen<'_> {
        match self {
            ReadEntries::Neighbours { first, count } => Chosen::Neighbours { first: *first, count: *count },
            ReadEntries::Listed(entries) => entries.into(),
        }
    }
}

impl EntryLayout {
    /// Keys and accumulators in words.
    pub(crate) fn description(&self) -> String {
        let key = |key: &KeyColumn| format!("{}{}", key.data_type, if key.nullable { " NULL" } else { "" });
        let keys: Vec<String> = self.key_columns().iter().map(key).collect();
        let accumulator = |slot: &AccumulatorSlot| {
            let Accumulator { accumulate, argument_type, function, .. } = &slot.accumulator;
            let argument = argument_type.as_ref().map_or(String::new(), |argument| format!(" of {argument}"));
            let function = function.as_ref().map_or(String::new(), |function| format!(" by {}", function.0.name()));
            format!("{accumulate:?}{argument}{function}")
        };
        let accumulators: Vec<String> = self.accumulators().iter().map(accumulator).collect();
        format!("groups by ({}) with ({})", keys.join(", "), accumulators.join(", "))
    }

    /// Bytes that a group takes at least in a snapshot, beside its key.
    fn written_bytes_min(&self) -> usize {
        let values = self.accumulators().iter().filter(|slot| !slot.accumulator.has_reference());
        values.map(|slot| slot.width).sum()
    }
}

impl Snapshot for Table {
    fn description(&self) -> String {
        self.layout.description()
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        self.write_groups(self.all().chosen(), out)
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.read_groups(input).map(|_| ())
    }
}

impl Table {
    /// Makes sure that all groups have rows, and no more than there can be, where rows are counted: what subtracts them relies on it.
    pub(crate) fn check_rows(&self, input: &Reader<'_>) -> Result<(), SnapshotError> {
        let Some(rows) = self.layout.row_count() else { return Ok(()) };
        let rows = self.integers(rows, self.all().chosen());
        input.check(rows.iter().all(|rows| (1..=ROWS_MAX).contains(rows)), "groups that have rows")
    }

    /// All groups.
    fn all(&self) -> ReadEntries {
        match &self.groups {
            Groups::Listed(list) => ReadEntries::Neighbours { first: 0, count: list.groups() },
            _ => ReadEntries::Listed(self.entry_offsets()),
        }
    }

    /// Writes some groups.
    pub(crate) fn write_groups(&self, entries: Chosen<'_>, out: &mut Writer) -> Result<(), SnapshotError> {
        self.write_keys(entries, out)?;
        self.write_values(entries, out)
    }

    /// Writes how many groups there are, and their keys.
    pub(crate) fn write_keys(&self, entries: Chosen<'_>, out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(entries.len());
        (0..self.layout.key_columns().len()).try_for_each(|key| out.array(&self.key_array(key, entries)))
    }

    /// Writes what groups have accumulated.
    pub(crate) fn write_values(&self, entries: Chosen<'_>, out: &mut Writer) -> Result<(), SnapshotError> {
        for (index, slot) in self.layout.accumulators().iter().enumerate() {
            let accumulator = &slot.accumulator;
            let place = self.place(slot.offset, slot.width);
            if !accumulator.has_reference() {
                out.column(&values_of(place, entries));
            } else if accumulator.accumulate.has_store() {
                self.write_store(index, entries, out)?;
            } else if slot.width > 16 {
                out.column(&place.part(0, POSITION_WIDTH).gather::<u64>(entries));
                let string =
                    |entry| self.arrival_position(index, entry).and_then(|_| self.arrival_string(index, entry));
                out.array(&string_array(value_type(accumulator), entries.iter().map(string)))?;
            } else {
                out.array(&self.accumulator_array(index, entries))?;
            }
        }
        Ok(())
    }

    /// Reads groups into a table that has none, or behind those of a list.
    pub(crate) fn read_groups(&mut self, input: &mut Reader<'_>) -> Result<ReadEntries, SnapshotError> {
        let entries = self.read_keys(self.layout.written_bytes_min(), input)?;
        self.read_values(entries.chosen(), input)?;
        Ok(entries)
    }

    /// Reads the keys of groups, each of which is followed by so many bytes at least. What these have accumulated is as before any value.
    pub(crate) fn read_keys(
        &mut self,
        bytes_each_min: usize,
        input: &mut Reader<'_>,
    ) -> Result<ReadEntries, SnapshotError> {
        let layout = self.layout.clone();
        let count = input.count(bytes_each_min, "groups")?;
        if layout.key_columns().is_empty() {
            input.must_have(count.saturating_sub(1), 1, "groups without keys")?;
        }
        let keys = layout.key_columns().iter().map(|key| {
            let array = input.array(&key.data_type, count, "keys")?;
            input.check(key.nullable || array.null_count() == 0, "keys that are not NULL")?;
            Ok(array)
        });
        let keys: Vec<ArrayRef> = keys.collect::<Result<_, SnapshotError>>()?;
        if matches!(self.groups, Groups::Listed(_)) {
            return Ok(ReadEntries::Neighbours { first: self.append_columns(&keys, count), count });
        }
        let entries = self.entries_of_columns(&keys, count);
        input.check(self.groups() == count, "keys that occur once")?;
        Ok(ReadEntries::Listed(entries))
    }

    /// The entries of keys; new ones become groups.
    fn entries_of_columns(&mut self, keys: &[ArrayRef], count: usize) -> Vec<u32> {
        if count == 0 {
            return Vec::new();
        }
        if *self.layout.keys() == KeyLayout::None {
            return vec![self.single_entry(); count];
        }
        let mut scratch = Scratch::default();
        let extent = |keys: &[i64]| {
            keys.iter().fold((i64::MAX, i64::MIN), |(minimum, maximum), &key| (minimum.min(key), maximum.max(key)))
        };
        self.find_or_insert_rows(keys, extent, &mut scratch);
        scratch.entries
    }

    /// Appends groups with these keys to a list. Returns the first.
    fn append_columns(&mut self, keys: &[ArrayRef], count: usize) -> usize {
        if keys.is_empty() {
            return self.append_blank(count);
        }
        let mut found = Table::new(EntryLayout::new(self.layout.key_columns(), &[]));
        let entries = found.entries_of_columns(keys, count);
        self.append_keys(&found, &entries)
    }

    /// Reads what groups have accumulated that have just been made.
    pub(crate) fn read_values(&mut self, entries: Chosen<'_>, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let layout = self.layout.clone();
        let count = entries.len();
        let listed = if layout.has_references() { entries.iter().collect() } else { Vec::new() };
        for (index, slot) in layout.accumulators().iter().enumerate() {
            let accumulator = &slot.accumulator;
            if !accumulator.has_reference() {
                input.must_have(count, slot.width, "values")?;
                let values = input.raw(count * slot.width, "values")?;
                set_values(self.place(slot.offset, slot.width), entries, values);
            } else if accumulator.accumulate.has_store() {
                self.read_store(index, &listed, input)?;
            } else {
                self.read_strings(index, &listed, input)?;
            }
        }
        Ok(())
    }

    /// Reads extremes of strings, or those that came first or last.
    fn read_strings(&mut self, index: usize, entries: &[u32], input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let layout = self.layout.clone();
        let slot = &layout.accumulators()[index];
        let data_type = value_type(&slot.accumulator);
        debug_assert!(is_string(data_type));
        let positions = match slot.width > 16 {
            true => Some(input.column::<u64>(entries.len(), "positions")?),
            false => None,
        };
        let array = input.array(data_type, entries.len(), "strings")?;
        let string = |at: usize| match data_type {
            DataType::Utf8View => array.as_string_view().value(at).as_bytes(),
            _ => array.as_binary_view().value(at),
        };
        for (at, &entry) in entries.iter().enumerate().filter(|(at, _)| array.is_valid(*at)) {
            match &positions {
                Some(positions) => self.update_string(slot, entry, positions[at], string(at)),
                None => self.update_extreme(index, entry, string(at)),
            }
        }
        Ok(())
    }
}

/// The bytes of one value of some entries, side by side.
fn values_of(place: Strided, entries: Chosen<'_>) -> Vec<u8> {
    let mut bytes = vec![0; entries.len() * place.width()];
    let to = bytes.as_mut_ptr();
    // SAFETY: there is room for as many values of this width, apart from the table.
    unsafe { with_width!(place.width(), copy_values(place, entries, to)) };
    bytes
}

/// Gives entries a value each.
fn set_values(place: Strided, entries: Chosen<'_>, bytes: &[u8]) {
    assert_eq!(bytes.len(), entries.len() * place.width(), "there is a value for each entry");
    if let Chosen::Neighbours { first, count } = entries {
        // SAFETY: neighbours lie side by side within their table, which the bytes are not of.
        return unsafe { place.neighbours(first, count).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    with_width!(place.width(), put_values(place, entries, bytes));
}

fn put_values<const W: usize>(place: Strided, entries: Chosen<'_>, bytes: &[u8]) {
    assert_eq!(place.width(), W);
    for (entry, value) in entries.iter().zip(bytes.as_chunks::<W>().0) {
        // SAFETY: the value lies within the table, which nobody else has access to, and has as many bytes.
        unsafe { place.address(entry).copy_from_nonoverlapping(value.as_ptr(), W) };
    }
}
