//! Groups as Arrow columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{DataType, i256};
use pelton_data::aggregate::Accumulate;
use pelton_data::wide_float::WideFloat;

use super::arrays::{fixed_array, string_array};
use super::strided::Strided;
use super::{Chosen, Groups, Table};
use crate::layout::{
    KeyLayout, NULL_BIT, PACKED_HEADER, POSITION_WIDTH, PackedColumn, is_string, value_type, value_width,
};

impl Table {
    /// Key column `key` of the entries, in the type of the key column.
    ///
    /// # Panics
    /// Where there is no such key column, or an entry is not in use.
    pub fn key_array<'a>(&self, key: usize, entries: impl Into<Chosen<'a>>) -> ArrayRef {
        let entries = entries.into();
        match self.layout.keys() {
            KeyLayout::None => panic!("the table has no keys"),
            KeyLayout::Integer { data_type, .. } => {
                assert_eq!(key, 0, "the table has one key column");
                self.integer_keys(data_type, entries)
            }
            KeyLayout::Packed { columns, .. } => self.packed_keys(&columns[key], entries),
        }
    }

    fn integer_keys(&self, data_type: &DataType, entries: Chosen<'_>) -> ArrayRef {
        if let (Groups::Listed(list), Some(8)) = (&self.groups, data_type.primitive_width())
            && !list.has_null_keys()
        {
            return self.value_array(data_type, self.place(0, 8), entries, None);
        }
        let mut has_null = false;
        let dense = match (&self.groups, entries) {
            (Groups::Integer(groups), Chosen::Listed(entries)) => groups.dense_keys(&self.layout, entries),
            _ => None,
        };
        let keys: Vec<i64> = match (&self.groups, dense) {
            (_, Some(keys)) => keys,
            (Groups::Listed(list), _) if !list.has_null_keys() => self.place(0, 8).gather(entries),
            _ => {
                let key = |entry| {
                    let key = self.integer_key(entry);
                    has_null |= key.is_none();
                    key.unwrap_or(0)
                };
                entries.iter().map(key).collect()
            }
        };
        let valid = |at: usize| self.integer_key(entries.get(at)).is_some();
        let nulls = has_null.then(|| NullBuffer::new(BooleanBuffer::collect_bool(entries.len(), valid)));
        // Keys are wide: a narrower type is their low bytes.
        let values: Vec<u8> = match data_type.primitive_width() {
            Some(1) => keys.iter().map(|&key| key as u8).collect(),
            Some(2) => keys.iter().flat_map(|&key| (key as u16).to_le_bytes()).collect(),
            Some(4) => keys.iter().flat_map(|&key| (key as u32).to_le_bytes()).collect(),
            Some(8) => return fixed_array(data_type, entries.len(), Buffer::from_vec(keys), nulls),
            _ => {
                let values = keys.iter().map(|&key| key != 0).collect::<Vec<bool>>();
                return Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls));
            }
        };
        fixed_array(data_type, entries.len(), aligned(values), nulls)
    }

    fn packed_keys(&self, column: &PackedColumn, entries: Chosen<'_>) -> ArrayRef {
        let place = self.place(PACKED_HEADER + column.offset, column.width);
        let nulls = column.null_offset.and_then(|null_offset| {
            let bytes = if is_string(&column.data_type) {
                place.part(null_offset - column.offset, 1).gather::<u8>(entries)
            } else {
                self.place(PACKED_HEADER + null_offset, 1).gather(entries)
            };
            let valid = BooleanBuffer::collect_bool(entries.len(), |at| bytes[at] & NULL_BIT == 0);
            Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
        });
        if is_string(&column.data_type) {
            let strings = entries.iter().enumerate().map(|(at, entry)| {
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
                (!is_null).then(|| self.packed_string(place, entry))
            });
            return string_array(&column.data_type, strings);
        }
        self.value_array(&column.data_type, place, entries, nulls)
    }

    /// The packed string that an entry has in that place of this table.
    fn packed_string(&self, place: Strided, entry: u32) -> &[u8] {
        let string: *const u8 = place.part(0, 16).address(entry);
        // SAFETY: the 16 bytes lie within the table, and are a packed string whose bytes, if it is long, are in the arena. Both
        // are borrowed with the table.
        unsafe {
            super::key_shape::long_string(string).unwrap_or_else(|| {
                std::slice::from_raw_parts(string.add(4), string.cast::<u32>().read_unaligned() as usize)
            })
        }
    }

    /// The values of an accumulator: counts and sums of integers as `Int64`, wide sums as `Decimal128(38, 0)`, sums of floats as
    /// `Float64` (wide ones are read by [`Table::wide_floats`]), extremes and the values that came first or last in their type. These and
    /// extremes of strings are NULL where no value was seen; others are what they were before any value.
    ///
    /// # Panics
    /// Where there is no such accumulator, or an entry is not in use.
    pub fn accumulator_array<'a>(&self, slot: usize, entries: impl Into<Chosen<'a>>) -> ArrayRef {
        let entries = entries.into();
        let place = &self.layout.accumulators()[slot];
        let data_type = match place.accumulator.accumulate {
            Accumulate::Count | Accumulate::SumInteger => &DataType::Int64,
            Accumulate::SumWide => &DataType::Decimal128(38, 0),
            Accumulate::SumFloat => &DataType::Float64,
            Accumulate::SumFloatWide | Accumulate::SumSquares => panic!("wide sums are read by wide_floats"),
            Accumulate::SumSquares128 | Accumulate::SumSquares192 => panic!("these are read by square_sums"),
            Accumulate::Minimum | Accumulate::Maximum => value_type(&place.accumulator),
            Accumulate::Values
            | Accumulate::Arrivals
            | Accumulate::Distinct { .. }
            | Accumulate::Frequencies
            | Accumulate::DistinctSketch
            | Accumulate::Udaf(_) => panic!("stores are read by value_groups or own_values"),
            Accumulate::First | Accumulate::Last => return self.arrival_array(slot, entries),
        };
        if is_string(data_type) {
            return string_array(data_type, entries.iter().map(|entry| self.extreme(slot, entry)));
        }
        self.value_array(data_type, self.place(place.offset, place.width), entries, None)
    }

    /// The 64-bit values of an accumulator as integers, whatever their type.
    ///
    /// # Panics
    /// Where the accumulator has other than 64 bits, or an entry is not in use.
    pub fn integers<'a>(&self, slot: usize, entries: impl Into<Chosen<'a>>) -> Vec<i64> {
        let place = &self.layout.accumulators()[slot];
        assert_eq!(place.width, 8, "the accumulator has 64 bits");
        self.place(place.offset, 8).gather(entries.into())
    }

    /// The values that came first or last.
    fn arrival_array(&self, slot: usize, entries: Chosen<'_>) -> ArrayRef {
        let place = &self.layout.accumulators()[slot];
        let data_type = value_type(&place.accumulator);
        if is_string(data_type) {
            return string_array(data_type, entries.iter().map(|entry| self.arrival_string(slot, entry)));
        }
        let valid = entries.iter().map(|entry| self.arrival_position(slot, entry).is_some());
        let nulls = Some(NullBuffer::from_iter(valid)).filter(|nulls| nulls.null_count() > 0);
        let state = self.place(place.offset, place.width);
        self.value_array(data_type, state.part(POSITION_WIDTH, value_width(data_type)), entries, nulls)
    }

    /// The values of an accumulator that sums the squares of integers.
    ///
    /// # Panics
    /// Where the accumulator is none, or an entry is not in use.
    pub fn square_sums<'a>(&self, slot: usize, entries: impl Into<Chosen<'a>>) -> Vec<i256> {
        let entries = entries.into();
        let place = &self.layout.accumulators()[slot];
        let state = self.place(place.offset, place.width);
        match place.accumulator.accumulate {
            Accumulate::SumSquares128 => state.gather(entries).into_iter().map(i256::from_i128).collect(),
            Accumulate::SumSquares192 => {
                let low = state.part(0, 16).gather::<i128>(entries);
                let high = state.part(16, 8).gather::<u64>(entries);
                low.into_iter().zip(high).map(|(low, high)| i256::from_parts(low as u128, high.into())).collect()
            }
            other => panic!("{other:?} is no sum of squares of integers"),
        }
    }

    /// The values of an accumulator that sums in about 106 bits.
    ///
    /// # Panics
    /// Where the accumulator is none, or an entry is not in use.
    pub fn wide_floats<'a>(&self, slot: usize, entries: impl Into<Chosen<'a>>) -> Vec<WideFloat> {
        let entries = entries.into();
        let place = &self.layout.accumulators()[slot];
        let accumulate = place.accumulator.accumulate;
        assert!(
            matches!(accumulate, Accumulate::SumFloatWide | Accumulate::SumSquares),
            "{accumulate:?} is no wide sum"
        );
        let state = self.place(place.offset, place.width);
        let high = state.part(0, 8).gather::<f64>(entries);
        let low = state.part(8, 8).gather::<f64>(entries);
        high.into_iter().zip(low).map(|(high, low)| WideFloat { high, low }).collect()
    }

    /// The values in that place.
    fn value_array(
        &self,
        data_type: &DataType,
        place: Strided,
        entries: Chosen<'_>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        if *data_type == DataType::Boolean {
            let values = place.gather::<u8>(entries);
            let values = BooleanBuffer::collect_bool(entries.len(), |at| values[at] != 0);
            return Arc::new(BooleanArray::new(values, nulls));
        }
        let shared = match &self.groups {
            Groups::Listed(list) => list.shared().find_map(|columns| place.share(entries, columns)),
            _ => None,
        };
        let values = match (place.width(), shared) {
            (_, Some(values)) => values,
            (1, _) => Buffer::from_vec(place.gather::<u8>(entries)),
            (2, _) => Buffer::from_vec(place.gather::<u16>(entries)),
            (4, _) => Buffer::from_vec(place.gather::<u32>(entries)),
            (8, _) => Buffer::from_vec(place.gather::<u64>(entries)),
            (16, _) => Buffer::from_vec(place.gather::<i128>(entries)),
            _ => unreachable!("no value has {} bytes", place.width()),
        };
        fixed_array(data_type, entries.len(), values, nulls)
    }

    /// Bytes from the start of the first entry to the end of the last.
    #[inline(always)]
    pub(super) fn entries_bytes(&self) -> usize {
        match &self.groups {
            Groups::Single { entry, .. } => entry.bytes(),
            Groups::Integer(groups) => groups.entries_bytes(),
            Groups::Packed(groups) => groups.entries_bytes(),
            Groups::Listed(groups) => groups.entries_bytes(),
            Groups::Unkeyed(groups) => groups.entries_bytes(&self.layout),
        }
    }
}

/// The bytes where any array can have them: vectors of bytes are aligned to nothing.
fn aligned(values: Vec<u8>) -> Buffer {
    Buffer::from(values.as_slice())
}
