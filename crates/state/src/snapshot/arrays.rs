//! Arrow's arrays in snapshots: whoever reads knows their types and lengths.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, RecordBatch, RecordBatchOptions,
    StructArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;

use super::{Reader, SnapshotError, Writer};
use crate::table::string_array;

impl Writer {
    /// Values of any type that columns have.
    pub(crate) fn array(&mut self, array: &ArrayRef) -> Result<(), SnapshotError> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        self.flag(nulls.is_some());
        nulls.into_iter().for_each(|nulls| self.bits(nulls.inner()));
        match array.data_type() {
            DataType::Boolean => self.bits(array.as_boolean().values()),
            DataType::Utf8View => self.strings(array.as_string_view().iter().map(|text| text.map(str::as_bytes))),
            DataType::BinaryView => self.strings(array.as_binary_view().iter()),
            DataType::Utf8 => self.strings(array.as_string::<i32>().iter().map(|text| text.map(str::as_bytes))),
            DataType::Binary => self.strings(array.as_binary::<i32>().iter()),
            DataType::Struct(_) => {
                return array.as_struct().columns().iter().try_for_each(|column| self.array(column));
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let offsets = lists.value_offsets();
                let lengths: Vec<u32> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
                self.column(&lengths);
                let (first, last) = (offsets[0] as usize, offsets[array.len()] as usize);
                return self.array(&lists.values().slice(first, last - first));
            }
            DataType::Map(..) => {
                let maps = array.as_map();
                let offsets = maps.value_offsets();
                let lengths: Vec<u32> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
                self.column(&lengths);
                let (first, last) = (offsets[0] as usize, offsets[array.len()] as usize);
                return self.array(&(Arc::new(maps.entries().slice(first, last - first)) as ArrayRef));
            }
            DataType::Dictionary(..) => {
                let coded = array.as_any_dictionary();
                self.count(coded.values().len());
                self.array(coded.values())?;
                return self.array(&make_array(coded.keys().to_data()));
            }
            data_type => {
                let Some(width) = data_type.primitive_width() else {
                    return Err(SnapshotError::NoForm(format!("values of type {data_type} have no snapshot")));
                };
                let data = array.to_data();
                self.column(&data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width]);
            }
        }
        Ok(())
    }

    fn bits(&mut self, bits: &BooleanBuffer) {
        let mut bytes = bits.sliced().as_slice()[..bits.len().div_ceil(8)].to_vec();
        // Those behind the last bit are any.
        if let (Some(last), rest @ 1..) = (bytes.last_mut(), bits.len() % 8) {
            *last &= (1 << rest) - 1;
        }
        self.column(&bytes);
    }

    fn strings<'v>(&mut self, strings: impl Iterator<Item = Option<&'v [u8]>>) {
        let mut bytes = Vec::new();
        let mut length = |string: Option<&[u8]>| {
            bytes.extend_from_slice(string.unwrap_or_default());
            string.map_or(0, <[u8]>::len) as u32
        };
        let lengths: Vec<u32> = strings.map(&mut length).collect();
        self.column(&lengths);
        self.column(&bytes);
    }

    /// Rows of this schema, and how many.
    pub(crate) fn batch(&mut self, rows: &RecordBatch, schema: &SchemaRef) -> Result<(), SnapshotError> {
        self.count(rows.num_rows());
        let fields = rows.columns().iter().zip(schema.fields());
        fields.into_iter().try_for_each(|(column, field)| self.array_of(column, field.data_type()))
    }

    /// Values as those of another type: columns of one stream may be coded or not.
    pub(crate) fn array_of(&mut self, array: &ArrayRef, data_type: &DataType) -> Result<(), SnapshotError> {
        if array.data_type() == data_type {
            return self.array(array);
        }
        self.array(&cast(array, data_type).map_err(|error| SnapshotError::NoForm(error.to_string()))?)
    }
}

impl Reader<'_> {
    /// An array of so many values.
    pub(crate) fn array(&mut self, data_type: &DataType, length: usize, what: &str) -> Result<ArrayRef, SnapshotError> {
        let nulls = match self.flag(what)? {
            true => Some(NullBuffer::new(self.bits(length, what)?)),
            false => None,
        };
        let data = |buffer: Option<Buffer>, children: Vec<ArrayData>| {
            let data = ArrayData::builder(data_type.clone()).len(length).nulls(nulls.clone()).child_data(children);
            data.buffers(buffer.into_iter().collect()).build().map(make_array)
        };
        let array = match data_type {
            DataType::Boolean => {
                let bits = self.bits(length, what)?;
                Ok(Arc::new(BooleanArray::new(bits, nulls)) as ArrayRef)
            }
            DataType::Utf8View | DataType::BinaryView => self.strings(data_type, length, nulls.as_ref(), what),
            DataType::Utf8 => cast(&self.strings(&DataType::Utf8View, length, nulls.as_ref(), what)?, data_type)
                .map_err(|error| self.malformed(what, &error)),
            DataType::Binary => cast(&self.strings(&DataType::BinaryView, length, nulls.as_ref(), what)?, data_type)
                .map_err(|error| self.malformed(what, &error)),
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| self.array(field.data_type(), length, what));
                let columns = columns.collect::<Result<_, _>>()?;
                StructArray::try_new_with_length(fields.clone(), columns, nulls, length)
                    .map(|array| Arc::new(array) as ArrayRef)
                    .map_err(|error| self.malformed(what, &error))
            }
            DataType::List(field) => {
                let lengths = self.column::<u32>(length, what)?;
                let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
                self.check(i32::try_from(total).is_ok(), "lists of fewer values")?;
                let values = self.array(field.data_type(), total as usize, what)?;
                let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().map(|&length| length as usize));
                ListArray::try_new(field.clone(), offsets, values, nulls)
                    .map(|array| Arc::new(array) as ArrayRef)
                    .map_err(|error| self.malformed(what, &error))
            }
            DataType::Map(field, is_ordered) => {
                let lengths = self.column::<u32>(length, what)?;
                let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
                self.check(i32::try_from(total).is_ok(), "maps of fewer entries")?;
                let entries = self.array(field.data_type(), total as usize, what)?.as_struct().clone();
                let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().map(|&length| length as usize));
                MapArray::try_new(field.clone(), offsets, entries, nulls, *is_ordered)
                    .map(|array| Arc::new(array) as ArrayRef)
                    .map_err(|error| self.malformed(what, &error))
            }
            DataType::Dictionary(key, value) => {
                let count = self.count(0, what)?;
                let values = self.array(value, count, what)?;
                let keys = self.array(key, length, what)?;
                let keys = keys.to_data().buffers()[0].clone();
                data(Some(keys), vec![values.to_data()]).map_err(|error| self.malformed(what, &error))
            }
            other => {
                let width = other.primitive_width().unwrap_or(0);
                self.check(width > 0, "a type that has a snapshot")?;
                self.must_have(length, width, what)?;
                let values = Buffer::from(self.raw(length * width, what)?);
                data(Some(values), Vec::new()).map_err(|error| self.malformed(what, &error))
            }
        }?;
        Ok(array)
    }

    fn malformed(&self, what: &str, error: &ArrowError) -> SnapshotError {
        SnapshotError::Malformed { at: self.at, expected: what.to_string(), found: error.to_string() }
    }

    fn bits(&mut self, length: usize, what: &str) -> Result<BooleanBuffer, SnapshotError> {
        let bytes = self.raw(length.div_ceil(8), what)?;
        Ok(BooleanBuffer::new(Buffer::from(bytes), 0, length))
    }

    fn strings(
        &mut self,
        data_type: &DataType,
        length: usize,
        nulls: Option<&NullBuffer>,
        what: &str,
    ) -> Result<ArrayRef, SnapshotError> {
        let lengths: ScalarBuffer<u32> = self.column(length, what)?;
        let mut strings = Vec::with_capacity(length);
        for (at, &length) in lengths.iter().enumerate() {
            let string = self.raw(length as usize, what)?;
            let is_right = *data_type == DataType::BinaryView || std::str::from_utf8(string).is_ok();
            self.check(is_right && length <= i32::MAX as u32, &format!("UTF-8 of less than 2 GiB: {what}"))?;
            strings.push(nulls.is_none_or(|nulls| nulls.is_valid(at)).then_some(string));
        }
        Ok(string_array(data_type, strings.into_iter()))
    }

    /// Rows of this schema.
    pub(crate) fn batch(&mut self, schema: &SchemaRef, what: &str) -> Result<RecordBatch, SnapshotError> {
        let rows = self.count(0, what)?;
        // Rows without columns take no bytes.
        self.check(u32::try_from(rows).is_ok(), &format!("fewer rows: {what}"))?;
        let columns = schema.fields().iter().map(|field| self.array(field.data_type(), rows, what));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .map_err(|error| self.malformed(what, &error))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, DictionaryArray, Float32Array, StringArray, StringViewArray, UInt8Array};
    use arrow::array::{Int64Builder, ListBuilder};
    use arrow::datatypes::UInt8Type;

    use super::*;

    fn again(array: &ArrayRef) -> ArrayRef {
        let mut out = Writer::default();
        out.array(array).unwrap();
        let mut input = Reader { bytes: &out.bytes, at: 0 };
        let read = input.array(array.data_type(), array.len(), "values").unwrap();
        assert_eq!(input.left(), 0);
        for end in 0..out.bytes.len() {
            let mut input = Reader { bytes: &out.bytes[..end], at: 0 };
            assert!(input.array(array.data_type(), array.len(), "values").is_err());
        }
        read
    }

    #[test]
    fn arrays_of_any_type_are_read_as_they_were_written() {
        let long = "a string of more than twelve bytes";
        let codes = UInt8Array::from(vec![Some(1), None, Some(0), Some(1), Some(1)]);
        let mut lists = ListBuilder::new(Int64Builder::new());
        for list in [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(7)]), Some(vec![None])] {
            lists.append_option(list);
        }
        let text: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some(long), Some(""), Some("é")]));
        let arrays: [ArrayRef; 8] = [
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), Some(true)])),
            Arc::new(Float32Array::from(vec![1.5, -0.0, 3.0, 4.0, 9.25])),
            Arc::new(
                Decimal128Array::from(vec![Some(5), None, Some(-7), Some(0), Some(1)])
                    .with_data_type(DataType::Decimal128(10, 2)),
            ),
            text.clone(),
            Arc::new(StringArray::from(vec![Some("a"), None, Some(long), Some(""), Some("b")])),
            Arc::new(DictionaryArray::<UInt8Type>::new(codes, Arc::new(StringArray::from(vec!["x", long])))),
            Arc::new(lists.finish()),
            Arc::new(StructArray::try_from(vec![("a", text)]).unwrap()),
        ];
        for array in arrays {
            assert_eq!(&again(&array), &array);
            let part = array.slice(1, 3);
            assert_eq!(&again(&part), &part);
            assert_eq!(&again(&array.slice(2, 0)), &array.slice(2, 0));
        }
    }
}
