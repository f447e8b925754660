//! Columns whose values have parts: ROW is a struct, ARRAY a list, and MAP a map of Arrow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;

/// Names of the entries of a map, its keys and its values.
pub const MAP_ENTRIES: &str = "entries";
/// See [`MAP_ENTRIES`].
pub const MAP_KEY: &str = "key";
/// See [`MAP_ENTRIES`].
pub const MAP_VALUE: &str = "value";

/// Whether values have parts: those of ROW, ARRAY and MAP. Blocks carry them, and only expressions of DataFusion read them.
pub fn is_nested(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..))
}

/// The values of these lists alone.
pub(crate) fn listed_values(lists: &ListArray) -> ArrayRef {
    let offsets = lists.value_offsets();
    lists.values().slice(offsets[0] as usize, (offsets[lists.len()] - offsets[0]) as usize)
}

/// The entries of these maps alone.
pub(crate) fn mapped_entries(maps: &MapArray) -> ArrayRef {
    let offsets = maps.value_offsets();
    Arc::new(maps.entries().slice(offsets[0] as usize, (offsets[maps.len()] - offsets[0]) as usize))
}

/// The same lengths of lists, which begin with the first value.
pub(crate) fn from_zero(offsets: &[i32]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize))
}
