//! Arrow arrays from bytes and strings.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BinaryViewArray, StringViewArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

/// Bytes in one buffer of long strings: offsets in views have 31 bits.
const STRING_BUFFER_BYTES: usize = 1 << 30;

/// An array of values of a fixed width, which lie side by side.
pub(super) fn fixed_array(data_type: &DataType, length: usize, values: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    let data = ArrayData::builder(data_type.clone()).len(length).add_buffer(values).nulls(nulls);
    make_array(data.build().expect("as many values as entries"))
}

/// An array of the strings, whose bytes are of the type.
pub(crate) fn string_array<'a>(
    data_type: &DataType,
    strings: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> ArrayRef {
    let length = strings.len();
    let mut views = Vec::with_capacity(length);
    let mut valid = Vec::with_capacity(length);
    let mut buffers = Vec::new();
    let mut bytes: Vec<u8> = Vec::new();
    for string in strings {
        valid.push(string.is_some());
        let string = string.unwrap_or_default();
        if string.len() > 12 && bytes.len() + string.len() > STRING_BUFFER_BYTES {
            buffers.push(Buffer::from_vec(std::mem::take(&mut bytes)));
        }
        views.push(arrow::array::make_view(string, buffers.len() as u32, bytes.len() as u32));
        if string.len() > 12 {
            bytes.extend_from_slice(string);
        }
    }
    if !bytes.is_empty() {
        buffers.push(Buffer::from_vec(bytes));
    }
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    let views = ScalarBuffer::from(views);
    // SAFETY: views were made from strings that the buffers hold at the places given; bytes of a string type came from arrays of
    // it, and are as valid as they were there.
    unsafe {
        match data_type {
            DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
            DataType::BinaryView => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
            other => unreachable!("{other} is no type of strings"),
        }
    }
}
