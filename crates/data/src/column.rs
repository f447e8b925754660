//! Which Arrow arrays a block may hold, and how machine code finds their bytes.
//!
//! Fixed-width values, booleans as bits, strings as views. A string column may also be dictionary-coded: its SQL type is
//! still STRING, only its layout in the block is a small code per row and one array of distinct values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, BooleanBufferBuilder, ListArray, MAX_INLINE_VIEW_LEN,
    MapArray, NullBufferBuilder, RecordBatch, RecordBatchOptions, StringViewArray, StructArray,
    downcast_primitive_array, make_array, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, FieldRef, Int8Type, Int16Type, Int32Type, TimeUnit, UInt8Type, UInt16Type,
    UInt32Type,
};

pub use crate::nested::{MAP_ENTRIES, MAP_KEY, MAP_VALUE, is_nested};
use crate::nested::{from_zero, listed_values, mapped_entries};
use crate::spelling::identifier;

/// Strings lie in so many buffers, and one more for so many values, before they are gathered in one.
const BUFFERS_MAX: usize = 8;
const VALUES_PER_BUFFER: usize = 256;

/// How the values of a column lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `width` bytes a row: 1, 2, 4, 8 or 16.
    Fixed {
        /// Bytes a row.
        width: u8,
    },
    /// One bit a row, least significant first.
    Bits,
    /// Sixteen bytes a row: an Arrow string or binary view (length, then the bytes themselves up to 12, or a prefix and a place).
    View,
    /// An unsigned or non-negative code of `width` bytes a row (1, 2 or 4) into an array of distinct strings.
    Dictionary {
        /// Bytes a row.
        width: u8,
    },
}

impl Layout {
    /// The layout of an Arrow type, or `None` where blocks do not hold it in a form that kernels read.
    pub fn of(data_type: &DataType) -> Option<Layout> {
        use DataType::*;
        Some(match data_type {
            Boolean => Layout::Bits,
            Utf8View | BinaryView => Layout::View,
            Dictionary(key, value) if matches!(**value, Utf8View | Utf8) => match **key {
                Int8 | UInt8 => Layout::Dictionary { width: 1 },
                Int16 | UInt16 => Layout::Dictionary { width: 2 },
                Int32 | UInt32 => Layout::Dictionary { width: 4 },
                _ => return None,
            },
            Decimal128(..) => Layout::Fixed { width: 16 },
            Interval(_) => return None,
            other => match other.primitive_width() {
                Some(width @ (1 | 2 | 4 | 8)) => Layout::Fixed { width: width as u8 },
                _ => return None,
            },
        })
    }

    /// Bytes a row, for scan-bandwidth figures; bits count as an eighth of a byte, rounded up to one.
    pub fn width(self) -> usize {
        match self {
            Layout::Fixed { width } | Layout::Dictionary { width } => usize::from(width),
            Layout::Bits => 1,
            Layout::View => 16,
        }
    }
}

/// Bytes of the fixed-width part of a row of these columns: a view counts 16, and what kernels do not read nothing.
pub fn row_bytes<'a>(columns: impl IntoIterator<Item = &'a ArrayRef>) -> usize {
    columns.into_iter().filter_map(|column| Layout::of(column.data_type())).map(Layout::width).sum()
}

/// Bytes of what these columns have beside their fixed-width part: strings that no view holds itself, and lists. Whatever shares the strings counts all of them; of
/// lists, which columns of few rows are often a part of, each counts its own.
pub fn bytes_beside<'a>(columns: impl IntoIterator<Item = &'a ArrayRef>) -> usize {
    let beside = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => bytes_of_buffers(column.as_string_view().data_buffers()),
        DataType::BinaryView => bytes_of_buffers(column.as_binary_view().data_buffers()),
        data_type if is_nested(data_type) => bytes_of_nested(column),
        _ => 0,
    };
    columns.into_iter().map(beside).sum()
}

/// Bytes that rows take in memory, as [`Block::memory_bytes`](crate::Block::memory_bytes) counts them.
pub fn bytes_of(rows: &RecordBatch) -> usize {
    row_bytes(rows.columns()) * rows.num_rows() + bytes_beside(rows.columns())
}

/// Columns that were put together of parts of one name its buffers again for each part.
fn bytes_of_buffers(buffers: &[Buffer]) -> usize {
    let is_first = |index: &usize| *index == 0 || buffers[index - 1].data_ptr() != buffers[*index].data_ptr();
    (0..buffers.len()).filter(is_first).map(|index| buffers[index].capacity()).sum()
}

/// Bytes of the values that a column of arrays, maps or rows refers to, and of its offsets.
pub(crate) fn bytes_of_nested(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            size_of_val(lists.value_offsets()) + bytes_of_nested(&listed_values(lists))
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            size_of_val(maps.value_offsets()) + bytes_of_nested(&mapped_entries(maps))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(bytes_of_nested).sum(),
        _ => row_bytes([column]) * column.len() + views_of(column).map_or(0, bytes_of_long),
    }
}

/// The views of a column of strings.
fn views_of(column: &ArrayRef) -> Option<&[u128]> {
    match column.data_type() {
        DataType::Utf8View => Some(column.as_string_view().views()),
        DataType::BinaryView => Some(column.as_binary_view().views()),
        _ => None,
    }
}

/// Bytes of the strings that no view holds itself.
fn bytes_of_long(views: &[u128]) -> usize {
    views
        .iter()
        .map(|view| *view as u32)
        .filter(|length| *length > MAX_INLINE_VIEW_LEN)
        .map(|length| length as usize)
        .sum()
}

/// The same strings, or lists of strings, in one buffer of their own: they hold nothing of what they were made of. Other columns as they are.
pub fn compacted(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        DataType::List(item) => {
            let lists = column.as_list::<i32>();
            let values = compacted(&listed_values(lists));
            Arc::new(ListArray::new(item.clone(), from_zero(lists.value_offsets()), values, lists.nulls().cloned()))
        }
        DataType::Map(field, is_ordered) => {
            let maps = column.as_map();
            let entries = compacted(&mapped_entries(maps)).as_struct().clone();
            let offsets = from_zero(maps.value_offsets());
            Arc::new(MapArray::new(field.clone(), offsets, entries, maps.nulls().cloned(), *is_ordered))
        }
        DataType::Struct(fields) => {
            let rows = column.as_struct();
            let columns = rows.columns().iter().map(compacted).collect();
            let nulls = rows.nulls().cloned();
            Arc::new(
                StructArray::try_new_with_length(fields.clone(), columns, nulls, rows.len())
                    .expect("the columns are as they were but for where strings lie"),
            )
        }
        _ => column.clone(),
    }
}

/// The same rows, whose strings are [`compacted`] where they are less than half of what they lie among: rows that are few of many do not keep those of all.
pub fn detached(rows: RecordBatch) -> RecordBatch {
    let (schema, mut columns, count) = rows.into_parts();
    for column in &mut columns {
        let Some(views) = views_of(column) else { continue };
        if 2 * bytes_of_long(views) < bytes_beside([&*column]) {
            *column = compacted(column);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .expect("the columns are as they were but for where strings lie")
}

/// As [`compacted`], where strings lie in many buffers for so few: each column that is made of theirs would name them all again.
pub fn gathered(column: ArrayRef) -> ArrayRef {
    if buffers_of(&column).is_some_and(|(buffers, values)| buffers > BUFFERS_MAX + values / VALUES_PER_BUFFER) {
        compacted(&column)
    } else {
        column
    }
}

/// How many buffers strings lie in, and how many strings there are.
fn buffers_of(column: &ArrayRef) -> Option<(usize, usize)> {
    match column.data_type() {
        DataType::Utf8View => Some((column.as_string_view().data_buffers().len(), column.len())),
        DataType::BinaryView => Some((column.as_binary_view().data_buffers().len(), column.len())),
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let (buffers, _) = buffers_of(lists.values())?;
            Some((buffers, listed_values(lists).len()))
        }
        _ => None,
    }
}

/// The SQL-level type of a column: a dictionary-coded string is a string.
pub fn logical_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) if matches!(**value, DataType::Utf8 | DataType::Utf8View) => &DataType::Utf8View,
        other => other,
    }
}

/// How a column's type is written in SQL: what messages and DESCRIBE show.
pub fn sql_name(data_type: &DataType) -> String {
    use DataType::*;
    let name = match logical_type(data_type) {
        Null => "NULL",
        Boolean => "BOOLEAN",
        Int8 => "TINYINT",
        Int16 => "SMALLINT",
        Int32 => "INT",
        Int64 => "BIGINT",
        Float32 => "FLOAT",
        Float64 => "DOUBLE",
        Utf8 | LargeUtf8 | Utf8View => "STRING",
        Binary | LargeBinary | BinaryView => "BYTES",
        Date32 => "DATE",
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        Timestamp(unit, zone) => {
            let name = if zone.is_some() { "TIMESTAMP_LTZ" } else { "TIMESTAMP" };
            let precision = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            return format!("{name}({precision})");
        }
        List(item) | ListView(item) | LargeList(item) | LargeListView(item) | FixedSizeList(item, _) => {
            return format!("ARRAY<{}>", element_name(item));
        }
        Struct(fields) => {
            let field = |field: &FieldRef| format!("{} {}", identifier(field.name()), element_name(field));
            return format!("ROW<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        Map(entries, _) => match entries.data_type() {
            Struct(fields) if fields.len() == 2 => {
                return format!("MAP<{}, {}>", sql_name(fields[0].data_type()), element_name(&fields[1]));
            }
            _ => "MAP",
        },
        Time32(_) | Time64(_) => "TIME",
        Duration(_) | Interval(_) => "INTERVAL",
        Dictionary(_, values) => return sql_name(values),
        other => return other.to_string(),
    };
    name.to_string()
}

/// The type of a part of a nested value.
fn element_name(field: &FieldRef) -> String {
    let suffix = if field.is_nullable() { "" } else { " NOT NULL" };
    format!("{}{suffix}", sql_name(field.data_type()))
}

/// Makes bit 0 of every bit buffer of `array` the bit of row 0, copying bits only where they are not so already.
///
/// Kernels and primitives read validity and boolean values from the first bit on.
pub fn align_bits(array: ArrayRef) -> ArrayRef {
    let nulls = array.nulls().filter(|nulls| nulls.offset() != 0).map(aligned_nulls);
    if let Some(booleans) = array.as_boolean_opt() {
        if booleans.values().offset() == 0 && nulls.is_none() {
            return array;
        }
        let values = aligned_bits(booleans.values());
        return Arc::new(BooleanArray::new(values, nulls.or_else(|| array.nulls().cloned())));
    }
    match nulls {
        None => array,
        Some(nulls) => {
            let data = array.to_data().into_builder().nulls(Some(nulls));
            // SAFETY: the data was valid, and the replaced null buffer has the same bits for the same rows.
            make_array(unsafe { data.build_unchecked() })
        }
    }
}

fn aligned_bits(bits: &BooleanBuffer) -> BooleanBuffer {
    if bits.offset() == 0 { bits.clone() } else { BooleanBuffer::new(bits.sliced(), 0, bits.len()) }
}

fn aligned_nulls(nulls: &NullBuffer) -> NullBuffer {
    NullBuffer::new(aligned_bits(nulls.inner()))
}

/// The address of row 0's value (or code, view, or bit) of `array`, whose bits must be aligned (see [`align_bits`]).
///
/// # Panics
/// Where [`Layout::of`] does not know the array's type: blocks are checked when they are made.
pub fn values_ptr(array: &dyn Array) -> *const u8 {
    fn codes<K: ArrowDictionaryKeyType>(array: &dyn Array) -> *const u8 {
        array.as_dictionary::<K>().keys().values().as_ptr().cast()
    }
    match array.data_type() {
        DataType::Boolean => {
            debug_assert_eq!(array.as_boolean().values().offset(), 0);
            array.as_boolean().values().inner().as_ptr()
        }
        DataType::Utf8View => array.as_string_view().views().as_ptr().cast(),
        DataType::BinaryView => array.as_binary_view().views().as_ptr().cast(),
        DataType::Dictionary(key, _) => match **key {
            DataType::Int8 => codes::<Int8Type>(array),
            DataType::UInt8 => codes::<UInt8Type>(array),
            DataType::Int16 => codes::<Int16Type>(array),
            DataType::UInt16 => codes::<UInt16Type>(array),
            DataType::Int32 => codes::<Int32Type>(array),
            DataType::UInt32 => codes::<UInt32Type>(array),
            ref other => panic!("no kernel reads dictionary codes of type {other}"),
        },
        _ => downcast_primitive_array!(
            array => array.values().as_ptr().cast(),
            other => panic!("no kernel reads columns of type {other}"),
        ),
    }
}

/// The address of row 0's validity bit, or null where every row is valid. Bits must be aligned (see [`align_bits`]).
pub fn validity_ptr(array: &dyn Array) -> *const u8 {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            debug_assert_eq!(nulls.offset(), 0);
            nulls.inner().inner().as_ptr()
        }
        _ => std::ptr::null(),
    }
}

/// ASCII text that the strings of a column are cut from: the column shares the text's bytes and reads none but the first
/// few of each string. Any cut through ASCII is a string, so that the text is checked once and not for each string.
#[derive(Debug, Clone)]
pub struct TextPool(Buffer);

impl TextPool {
    /// # Panics
    /// Where the text is not ASCII, or has 4 GiB or more.
    pub fn new(text: Vec<u8>) -> TextPool {
        assert!(text.is_ascii(), "a text pool holds ASCII only");
        assert!(u32::try_from(text.len()).is_ok(), "a text pool is addressed by 32 bits");
        TextPool(Buffer::from_vec(text))
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// One string for each range of bytes.
    ///
    /// # Panics
    /// Where a range reaches beyond the text.
    pub fn strings(&self, ranges: impl Iterator<Item = Range<u32>>) -> StringViewArray {
        let text = self.text();
        let views: Vec<u128> =
            ranges.map(|range| make_view(&text[range.start as usize..range.end as usize], 0, range.start)).collect();
        // SAFETY: each view was made from bytes of the one buffer at the offset it names, and they are ASCII, thus UTF-8.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), vec![self.0.clone()], None) }
    }
}

/// Strings cut from those of a column, row by row, whose bytes they share: nothing is copied but what lies inside a view.
#[derive(Debug)]
pub struct Cuts<'a> {
    source: &'a StringViewArray,
    views: Vec<u128>,
    nulls: NullBufferBuilder,
}

impl<'a> Cuts<'a> {
    /// None yet, of a column's strings.
    pub fn of(source: &'a StringViewArray) -> Cuts<'a> {
        Cuts { source, views: Vec::with_capacity(source.len()), nulls: NullBufferBuilder::new(source.len()) }
    }

    /// Appends `range` of the string in `row`.
    ///
    /// # Panics
    /// Where the row is NULL, or the range does not begin and end at characters of its string.
    #[inline]
    pub fn push(&mut self, row: usize, range: Range<usize>) {
        assert!(self.source.is_valid(row), "NULL has no parts");
        let part = &self.source.value(row)[range.clone()];
        let view = self.source.views()[row];
        let length = part.len() as u128;
        // The source's view says where its bytes are; those of a short one are behind its length.
        let is_inline = view as u32 <= VIEW_INLINE_LENGTH_MAX;
        let (buffer, offset) = ((view >> 64) as u32, (view >> 96) as usize + range.start);
        let bytes = if is_inline {
            view >> 32 >> (8 * range.start)
        } else {
            match self.source.data_buffers()[buffer as usize].get(offset..offset + 16) {
                Some(sixteen) => u128::from_le_bytes(sixteen.try_into().expect("sixteen bytes")),
                None => first_bytes(part),
            }
        };
        self.views.push(if part.len() <= VIEW_INLINE_LENGTH_MAX as usize {
            (bytes & ((1 << (8 * length)) - 1)) << 32 | length
        } else {
            (offset as u128) << 96 | u128::from(buffer) << 64 | (bytes & 0xffff_ffff) << 32 | length
        });
        self.nulls.append_non_null();
    }

    /// Appends NULL.
    #[inline]
    pub fn push_null(&mut self) {
        self.views.push(0);
        self.nulls.append_null();
    }

    /// What was appended.
    pub fn finish(mut self) -> StringViewArray {
        let buffers = self.source.data_buffers().to_vec();
        // SAFETY: each view is 0, the empty string, or was made of a range of a string of `source` that is itself a string: its bytes lie
        // in the view, or at the place in the same buffers that the view names, with their first four.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(self.views), buffers, self.nulls.finish()) }
    }
}

/// The same bytes as strings, nothing copied, and the rows, in order, whose bytes are not UTF-8: these are NULL among the strings.
pub fn checked_strings(bytes: &BinaryViewArray) -> (StringViewArray, Vec<usize>) {
    /// The highest bit of each byte that lies inside a view.
    const NOT_ASCII: u128 = 0x8080_8080_8080_8080_8080_8080 << 32;
    let is_text = |row: usize, view: u128| {
        (view as u32 <= VIEW_INLINE_LENGTH_MAX && view & NOT_ASCII == 0)
            || std::str::from_utf8(bytes.value(row)).is_ok()
    };
    let wrong: Vec<usize> =
        bytes.views().iter().enumerate().filter(|&(row, &view)| !is_text(row, view)).map(|(row, _)| row).collect();
    let (mut views, buffers, mut nulls) = bytes.clone().into_parts();
    if !wrong.is_empty() {
        let mut cleared = views.to_vec();
        wrong.iter().for_each(|&row| cleared[row] = 0);
        views = ScalarBuffer::from(cleared);
        let mut valid = BooleanBufferBuilder::new(bytes.len());
        valid.append_n(bytes.len(), true);
        wrong.iter().for_each(|&row| valid.set_bit(row, false));
        nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(valid.finish())));
    }
    // SAFETY: `bytes` has the same buffers, and each view is one of its views, or 0, the empty string. The bytes of each view, those of
    // NULLs included, were found to be UTF-8: `value` reads what the view names, and ASCII is UTF-8.
    let strings = unsafe { StringViewArray::new_unchecked(views, buffers, nulls) };
    (strings, wrong.into_iter().filter(|&row| bytes.is_valid(row)).collect())
}

/// Longest string, in bytes, that lies inside its view.
pub const VIEW_INLINE_LENGTH_MAX: u32 = 12;

/// The first bytes of a string, zeros where there are fewer than sixteen.
fn first_bytes(text: &str) -> u128 {
    let shown = text.len().min(16);
    let mut bytes = [0; 16];
    bytes[..shown].copy_from_slice(&text.as_bytes()[..shown]);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn sliced_arrays_are_aligned_to_their_first_row() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None, Some(5)]));
        let sliced = align_bits(numbers.slice(1, 4));
        assert_eq!(sliced.as_ref(), numbers.slice(1, 4).as_ref());
        assert_eq!(sliced.nulls().unwrap().offset(), 0);
        // SAFETY: the array has at least two rows of eight bytes.
        assert_eq!(unsafe { *values_ptr(&sliced).cast::<i64>().add(1) }, 3);
        // SAFETY: the validity buffer holds at least one byte.
        assert_eq!(unsafe { *validity_ptr(&sliced) } & 0b1111, 0b1010);

        let bits: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(true), Some(false)]));
        let sliced = align_bits(bits.slice(1, 3));
        assert_eq!(sliced.as_ref(), bits.slice(1, 3).as_ref());
        assert_eq!(sliced.as_boolean().values().offset(), 0);
    }

    #[test]
    fn few_strings_of_many_do_not_keep_all() {
        let words: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..100).map(|row| format!("{row:050}"))));
        let all = RecordBatch::try_from_iter([("s", words)]).unwrap();
        for (rows, most) in [(100, usize::MAX), (60, usize::MAX), (40, 40 * 50), (0, 0)] {
            let few = detached(all.slice(0, rows));
            assert_eq!(few, all.slice(0, rows));
            assert!(bytes_beside(few.columns()) <= most, "{rows} rows take {}", bytes_beside(few.columns()));
        }
    }

    #[test]
    fn strings_cut_from_a_pool_are_valid() {
        let pool = TextPool::new(b"the quick brown fox jumps over".to_vec());
        let strings = pool.strings([0..3, 4..4, 4..19, 0..30].into_iter());
        strings.to_data().validate_full().unwrap();
        let cut: Vec<&str> = strings.iter().flatten().collect();
        assert_eq!(cut, ["the", "", "quick brown fox", "the quick brown fox jumps over"]);
    }

    #[test]
    fn cuts_of_every_range_are_valid_strings() {
        let words = [
            "",
            "short",
            "twelve bytes",
            "thirteen bytes",
            "a ünïcode string of some length",
            "another one at the very end",
        ];
        let source = StringViewArray::from_iter(words.iter().map(|word| Some(*word)).chain([None]));
        let source = source.slice(1, source.len() - 1);
        let mut cuts = Cuts::of(&source);
        let mut expected = Vec::new();
        for (row, text) in source.iter().enumerate() {
            let Some(text) = text else { continue };
            let boundaries: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
            for &start in &boundaries {
                for &end in boundaries.iter().filter(|&&end| end >= start) {
                    cuts.push(row, start..end);
                    expected.push(Some(&text[start..end]));
                }
            }
            cuts.push_null();
            expected.push(None);
        }
        let cut = cuts.finish();
        cut.to_data().validate_full().unwrap();
        assert_eq!(cut.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    #[should_panic(expected = "char boundary")]
    fn a_cut_through_a_character_is_refused() {
        let source = StringViewArray::from(vec!["ü"]);
        Cuts::of(&source).push(0, 0..1);
    }

    #[test]
    fn strings_are_views_and_dictionary_strings_are_strings() {
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec!["view", "a rather long string"]));
        assert_eq!(Layout::of(strings.data_type()), Some(Layout::View));
        let coded = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8View));
        assert_eq!(Layout::of(&coded), Some(Layout::Dictionary { width: 1 }));
        assert_eq!(logical_type(&coded), &DataType::Utf8View);
        assert_eq!(sql_name(&coded), "STRING");
        assert_eq!(sql_name(&DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))), "TIMESTAMP_LTZ(3)");
    }

    #[test]
    fn bytes_that_are_not_utf8_become_no_strings() {
        let long = "seven characters of ASCII, and ü";
        let (cut, broken) = (&long.as_bytes()[..long.len() - 1], b"thirteen \xff bytes".as_slice());
        let values: [Option<&[u8]>; 10] = [
            Some(b"plain"),
            Some(b"x\xff\xfe"),
            None,
            Some(long.as_bytes()),
            Some(cut),
            Some(b""),
            Some("ünü".as_bytes()),
            Some(broken),
            // A surrogate, and the first byte of a longer character at the end of a view.
            Some(b"\xed\xa0\x80"),
            Some(b"eleven byte\xc3"),
        ];
        let bytes = BinaryViewArray::from_iter(values);
        let (strings, wrong) = checked_strings(&bytes);
        assert_eq!(wrong, [1, 4, 7, 8, 9]);
        let texts = [Some("plain"), None, None, Some(long), None, Some(""), Some("ünü"), None, None, None];
        assert_eq!(strings.iter().collect::<Vec<_>>(), texts);
        strings.to_data().validate_full().unwrap();
        let (strings, wrong) = checked_strings(&bytes.slice(2, 4));
        assert_eq!((wrong, strings.iter().collect::<Vec<_>>()), (vec![2], texts[2..6].to_vec()));
        // What lies behind NULL is no string either, and nobody is told.
        let hidden = BinaryViewArray::from_iter_values([b"\xff".as_slice(), b"a"]);
        let (views, buffers, _) = hidden.into_parts();
        let (strings, wrong) = checked_strings(&BinaryViewArray::new(views, buffers, Some(vec![false, true].into())));
        assert_eq!((wrong, strings.iter().collect::<Vec<_>>()), (vec![], vec![None, Some("a")]));
        strings.to_data().validate_full().unwrap();
    }
}
