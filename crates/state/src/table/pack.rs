//! Packing the grouping columns of many rows into keys, one column at a time.

use std::borrow::Cow;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericByteViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, BinaryViewType, ByteViewType, DataType, Int8Type, Int16Type, Int32Type,
    StringViewType, UInt8Type, UInt16Type, UInt32Type,
};

use pelton_data::column::{VIEW_INLINE_LENGTH_MAX, values_ptr};

use crate::layout::{EntryLayout, KeyLayout, NULL_BIT, PackedColumn, is_integer};

/// Replaces `packed` by the keys that `columns` (one for each key column, dictionary-coded or not) hold in `rows`.
///
/// Keys point to the bytes of strings longer than 12: they are good while the columns are there.
///
/// # Panics
/// Where the layout's keys are not packed, the columns are not of their types, or a row is out of range.
pub fn pack_keys(layout: &EntryLayout, columns: &[ArrayRef], rows: KeyRows<'_>, packed: &mut Vec<u8>) {
    rows.check(columns.first().map_or(0, |column| column.len()));
    let KeyLayout::Packed { width, columns: places } = layout.keys() else {
        panic!("the layout's keys are not packed")
    };
    assert_eq!(columns.len(), places.len(), "one column for each key column");
    // Bytes that columns write need not be zero before.
    if places.iter().map(|place| place.width).sum::<usize>() < *width {
        packed.clear();
    }
    packed.resize(rows.count() * width, 0);
    for (column, place) in columns.iter().zip(places) {
        assert_eq!(column.len(), columns[0].len(), "columns have the same rows");
        pack_column(column, place, &rows, &mut Keys { bytes: packed, width: *width });
    }
}

/// The keys as they lie in the only column, where packing them would copy them: neighbours without NULLs, of 8 or 16 bytes each, strings
/// only where all lie inside their views.
///
/// # Panics
/// Where the layout's keys are not packed, or a row is out of range.
pub(super) fn keys_in_place<'a>(layout: &EntryLayout, columns: &'a [ArrayRef], rows: &KeyRows<'_>) -> Option<&'a [u8]> {
    let KeyLayout::Packed { width, columns: places } = layout.keys() else {
        panic!("the layout's keys are not packed")
    };
    let (KeyRows::Range(range), [column], [place]) = (rows, columns, places.as_slice()) else { return None };
    if place.width != *width || column.data_type() != &place.data_type || column.null_count() > 0 {
        return None;
    }
    rows.check(column.len());
    let is_in_place = match column.data_type() {
        DataType::Utf8View => are_inside_views(column.as_string_view(), range),
        DataType::BinaryView => are_inside_views(column.as_binary_view(), range),
        other => other.primitive_width() == Some(*width),
    };
    // SAFETY: the column has a value of `width` bytes for each of its rows, and keeps them for as long as it is borrowed.
    is_in_place.then(|| unsafe {
        std::slice::from_raw_parts(values_ptr(column.as_ref()).add(range.start * width), range.len() * width)
    })
}

/// Whether no string of the rows is longer than what its view holds. None is where there are no bytes outside of views.
fn are_inside_views<T: ByteViewType>(column: &GenericByteViewArray<T>, rows: &Range<usize>) -> bool {
    let longest = |views: &[u128]| views.iter().fold(0, |length: u32, &view| length.max(view as u32));
    column.data_buffers().is_empty() || longest(&column.views()[rows.clone()]) <= VIEW_INLINE_LENGTH_MAX
}

/// Replaces `keys` by the values that `column` holds in `rows`, or in all rows, widened to 64 bits (unsigned ones by their bits). NULLs
/// become any value.
///
/// # Panics
/// Where the column's type makes no integer key, or a row is out of range.
pub fn widen_keys(column: &ArrayRef, rows: Option<&[u32]>, keys: &mut Vec<i64>) {
    fn widen<T: ArrowNativeType>(column: &ArrayRef, rows: &KeyRows<'_>, keys: &mut [i64], wide: impl Fn(T) -> i64) {
        let data = column.to_data();
        let values = data.buffer::<T>(0);
        rows.for_each(|at, row| keys[at] = wide(values[row]));
    }
    assert!(is_integer(column.data_type()), "keys of type {} are packed", column.data_type());
    let rows = rows.map_or(KeyRows::Range(0..column.len()), KeyRows::Listed);
    rows.check(column.len());
    keys.clear();
    keys.resize(rows.count(), 0);
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean().values();
            rows.for_each(|at, row| keys[at] = i64::from(values.value(row)));
        }
        DataType::UInt8 => widen::<u8>(column, &rows, keys, i64::from),
        DataType::UInt16 => widen::<u16>(column, &rows, keys, i64::from),
        DataType::UInt32 => widen::<u32>(column, &rows, keys, i64::from),
        other => match other.primitive_width() {
            Some(1) => widen::<i8>(column, &rows, keys, i64::from),
            Some(2) => widen::<i16>(column, &rows, keys, i64::from),
            Some(4) => widen::<i32>(column, &rows, keys, i64::from),
            _ => widen::<i64>(column, &rows, keys, |value| value),
        },
    }
}

/// Rows of columns that hold keys.
#[derive(Debug, Clone)]
pub enum KeyRows<'a> {
    /// Neighbours.
    Range(Range<usize>),
    /// These, in this order.
    Listed(&'a [u32]),
}

impl KeyRows<'_> {
    /// How many.
    pub fn count(&self) -> usize {
        match self {
            KeyRows::Range(range) => range.len(),
            KeyRows::Listed(rows) => rows.len(),
        }
    }

    /// The row in a place.
    ///
    /// # Panics
    /// Where there are fewer.
    pub(super) fn row(&self, place: usize) -> usize {
        match self {
            KeyRows::Range(range) => {
                assert!(place < range.len(), "there are as many rows");
                range.start + place
            }
            KeyRows::Listed(rows) => rows[place] as usize,
        }
    }

    /// Those in these places.
    ///
    /// # Panics
    /// Where there are fewer.
    pub fn part(&self, places: Range<usize>) -> KeyRows<'_> {
        match self {
            KeyRows::Range(range) => {
                assert!(places.end <= range.len(), "there are as many rows");
                KeyRows::Range(range.start + places.start..range.start + places.end)
            }
            KeyRows::Listed(rows) => KeyRows::Listed(&rows[places]),
        }
    }

    /// Panics where a row lies outside of columns of this length.
    fn check(&self, length: usize) {
        let is_inside = match self {
            KeyRows::Range(range) => range.end <= length,
            KeyRows::Listed(rows) => rows.iter().max().is_none_or(|&row| (row as usize) < length),
        };
        assert!(is_inside, "rows lie within their columns");
    }

    #[inline(always)]
    fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            KeyRows::Range(range) => range.clone().enumerate().for_each(|(at, row)| visit(at, row)),
            KeyRows::Listed(rows) => rows.iter().enumerate().for_each(|(at, &row)| visit(at, row as usize)),
        }
    }
}

/// Keys side by side. Bytes are only ever copied as memory, never read as numbers: some are addresses.
struct Keys<'a> {
    bytes: &'a mut Vec<u8>,
    width: usize,
}

impl Keys<'_> {
    /// Copies `N` bytes for each row from `source(row)` to `offset` in its key.
    ///
    /// # Safety
    /// `source` must give the address of `N` bytes for every row.
    #[inline(always)]
    unsafe fn put<const N: usize>(&mut self, rows: &KeyRows<'_>, offset: usize, source: impl Fn(usize) -> *const u8) {
        assert!(offset + N <= self.width);
        let (start, width) = (self.bytes.as_mut_ptr(), self.width);
        rows.for_each(|at, row| {
            // SAFETY: key `at` is one of those that `bytes` has room for, and `offset` lies within it. The caller promises
            // the source.
            unsafe { start.add(at * width + offset).copy_from_nonoverlapping(source(row), N) }
        });
    }
}

fn pack_column(column: &ArrayRef, place: &PackedColumn, rows: &KeyRows<'_>, keys: &mut Keys<'_>) {
    match column.data_type() {
        DataType::Boolean => pack_booleans(column.as_boolean(), place, rows, keys),
        DataType::Utf8View => pack_views::<StringViewType>(column.as_byte_view(), place, rows, keys),
        DataType::BinaryView => pack_views::<BinaryViewType>(column.as_byte_view(), place, rows, keys),
        DataType::Dictionary(codes, _) => match **codes {
            DataType::Int8 => pack_dictionary::<Int8Type>(column, place, rows, keys),
            DataType::Int16 => pack_dictionary::<Int16Type>(column, place, rows, keys),
            DataType::Int32 => pack_dictionary::<Int32Type>(column, place, rows, keys),
            DataType::UInt8 => pack_dictionary::<UInt8Type>(column, place, rows, keys),
            DataType::UInt16 => pack_dictionary::<UInt16Type>(column, place, rows, keys),
            DataType::UInt32 => pack_dictionary::<UInt32Type>(column, place, rows, keys),
            ref other => panic!("no block holds dictionary codes of type {other}"),
        },
        other => {
            assert_eq!(other.primitive_width(), Some(place.width), "a key column has the type of its key");
            pack_fixed(column, place, rows, keys);
        }
    }
    let nulls = match column.data_type() {
        DataType::Dictionary(..) => column.logical_nulls().map(Cow::Owned),
        _ => column.nulls().map(Cow::Borrowed),
    };
    if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
        mark_nulls(&nulls, place, rows, keys);
    }
}

fn pack_fixed(column: &ArrayRef, place: &PackedColumn, rows: &KeyRows<'_>, keys: &mut Keys<'_>) {
    let (start, width) = (values_ptr(column.as_ref()), place.width);
    // SAFETY: rows are in range, and the column has `width` bytes for each.
    unsafe {
        match width {
            1 => keys.put::<1>(rows, place.offset, |row| start.add(row)),
            2 => keys.put::<2>(rows, place.offset, |row| start.add(row * 2)),
            4 => keys.put::<4>(rows, place.offset, |row| start.add(row * 4)),
            8 => keys.put::<8>(rows, place.offset, |row| start.add(row * 8)),
            16 => keys.put::<16>(rows, place.offset, |row| start.add(row * 16)),
            other => panic!("no key column is {other} bytes wide"),
        }
    }
}

fn pack_booleans(column: &BooleanArray, place: &PackedColumn, rows: &KeyRows<'_>, keys: &mut Keys<'_>) {
    static VALUES: [u8; 2] = [0, 1];
    assert_eq!(place.width, 1, "a key column has the type of its key");
    let values = column.values();
    // SAFETY: either element of a constant array is one byte.
    unsafe { keys.put::<1>(rows, place.offset, |row| &raw const VALUES[usize::from(values.value(row))]) };
}

fn pack_views<T: ByteViewType>(
    column: &GenericByteViewArray<T>,
    place: &PackedColumn,
    rows: &KeyRows<'_>,
    keys: &mut Keys<'_>,
) {
    assert_eq!(place.width, 16, "a key column has the type of its key");
    let views = column.views();
    // SAFETY: rows are in range, and a view is 16 bytes.
    unsafe { keys.put::<16>(rows, place.offset, |row| (&raw const views[row]).cast()) };
    if column.data_buffers().is_empty() {
        return;
    }
    assert!(place.offset + 16 <= keys.width);
    let (start, width) = (keys.bytes.as_mut_ptr(), keys.width);
    rows.for_each(|at, row| {
        let view = views[row];
        if view as u32 > VIEW_INLINE_LENGTH_MAX && column.is_valid(row) {
            let buffer = &column.data_buffers()[(view >> 64) as u32 as usize];
            // SAFETY: a long view's buffer and offset are those of its bytes: arrays are checked when they are made. The key
            // is one of those that `bytes` has room for.
            unsafe {
                let bytes = buffer.as_ptr().add((view >> 96) as u32 as usize);
                start.add(at * width + place.offset + 8).cast::<*const u8>().write_unaligned(bytes);
            }
        }
    });
}

fn pack_dictionary<K: ArrowDictionaryKeyType>(
    column: &ArrayRef,
    place: &PackedColumn,
    rows: &KeyRows<'_>,
    keys: &mut Keys<'_>,
) {
    let column = column.as_dictionary::<K>();
    let values = column.values();
    let mut packed_values = vec![0; values.len() * 16];
    let value_place = PackedColumn { offset: 0, null_offset: None, ..place.clone() };
    let mut value_keys = Keys { bytes: &mut packed_values, width: 16 };
    match values.data_type() {
        DataType::Utf8View => {
            pack_views::<StringViewType>(
                values.as_byte_view(),
                &value_place,
                &KeyRows::Range(0..values.len()),
                &mut value_keys,
            );
        }
        DataType::Utf8 => pack_values(values, &mut value_keys),
        other => panic!("no block holds dictionaries of type {other}"),
    }
    let codes = column.keys().values();
    let (start, length) = (packed_values.as_ptr(), values.len());
    let empty = [0u8; 16];
    // SAFETY: a code that is in range has 16 bytes; the code of a NULL may not be, and gets 16 bytes of zeros.
    unsafe {
        keys.put::<16>(rows, place.offset, |row| {
            let code = codes[row].as_usize();
            if code < length { start.add(code * 16) } else { empty.as_ptr() }
        });
    }
}

/// Packs the values of a dictionary that are not views.
fn pack_values(values: &ArrayRef, keys: &mut Keys<'_>) {
    let strings = values.as_string::<i32>();
    for (at, key) in keys.bytes.chunks_exact_mut(16).enumerate() {
        let bytes = strings.value(at).as_bytes();
        key[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= VIEW_INLINE_LENGTH_MAX as usize {
            key[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            key[4..8].copy_from_slice(&bytes[..4]);
            // SAFETY: the last eight bytes of the key are there; an address need not be aligned.
            unsafe { key.as_mut_ptr().add(8).cast::<*const u8>().write_unaligned(bytes.as_ptr()) };
        }
    }
}

fn mark_nulls(nulls: &NullBuffer, place: &PackedColumn, rows: &KeyRows<'_>, keys: &mut Keys<'_>) {
    let null_offset = place.null_offset.expect("a key column that holds NULLs is declared nullable");
    let width = keys.width;
    rows.for_each(|at, row| {
        if nulls.is_null(row) {
            let key = &mut keys.bytes[at * width..][..width];
            key[place.offset..place.offset + place.width].fill(0);
            key[null_offset] = NULL_BIT;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Float64Array, StringViewArray};
    use pelton_data::aggregate::KeyColumn;

    use super::*;

    fn layout(column: &ArrayRef, nullable: bool) -> Arc<EntryLayout> {
        EntryLayout::new(&[KeyColumn { data_type: column.data_type().clone(), nullable }], &[])
    }

    fn packed(layout: &EntryLayout, column: &ArrayRef, rows: Range<usize>) -> Vec<u8> {
        let mut packed = Vec::new();
        pack_keys(layout, std::slice::from_ref(column), KeyRows::Range(rows), &mut packed);
        packed
    }

    #[test]
    fn keys_in_place_are_those_that_packing_makes() {
        let strings = ["", "a", "twelve bytes", "a string of more than twelve bytes", "b"];
        let columns: [ArrayRef; 3] = [
            Arc::new(StringViewArray::from_iter_values(strings)),
            Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.5, f64::INFINITY])),
            Arc::new(Decimal128Array::from(vec![0, -1, i128::MAX, i128::MIN, 7])),
        ];
        for column in &columns {
            let layout = layout(column, false);
            for column in [column.clone(), column.slice(1, 4)] {
                let rows = 1..3;
                let found = keys_in_place(&layout, std::slice::from_ref(&column), &KeyRows::Range(rows.clone()));
                let expected = packed(&layout, &column, rows);
                // The long string comes into the range of the second, shorter column.
                let is_long = column.len() == 4 && *column.data_type() == DataType::Utf8View;
                assert_eq!(found, (!is_long).then_some(expected.as_slice()), "{column:?}");
            }
        }
    }

    #[test]
    fn no_keys_are_in_place_where_there_are_nulls_or_rows_are_listed() {
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        let columns = std::slice::from_ref(&column);
        assert!(keys_in_place(&layout(&column, true), columns, &KeyRows::Range(0..1)).is_none());
        let column: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
        let columns = std::slice::from_ref(&column);
        assert!(keys_in_place(&layout(&column, false), columns, &KeyRows::Listed(&[0])).is_none());
        assert!(keys_in_place(&layout(&column, true), columns, &KeyRows::Range(0..2)).is_some());
        let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
        assert!(keys_in_place(&layout(&column, true), &[column], &KeyRows::Range(0..2)).is_none());
    }
}
