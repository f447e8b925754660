//! `ARRAY_AGG(x) FILTER (WHERE …)` OVER rows, where `x` may be NULL: a value that is left out is not one that is NULL, so that one column does not say which are listed.
//! Each array is made of its frame's rows, as those of functions that programs define.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use pelton_data::column::compacted;
use pelton_data::own::{AggregateFunction, Change, Merging, OwnFunction, States};

/// Arrays of the rows that it is given.
#[derive(Debug)]
struct Arrays {
    data_type: DataType,
    item: FieldRef,
    /// Each value stands in an array once, where it comes first.
    is_distinct: bool,
}

/// The function whose values are arrays of this type; `None` where it is none of arrays.
pub(super) fn arrays(data_type: &DataType, is_distinct: bool) -> Option<OwnFunction> {
    let DataType::List(item) = data_type else { return None };
    Some(OwnFunction(Arc::new(Arrays { data_type: data_type.clone(), item: item.clone(), is_distinct })))
}

impl AggregateFunction for Arrays {
    fn name(&self) -> &str {
        if self.is_distinct { "array_agg distinct" } else { "array_agg" }
    }

    fn merging(&self) -> Merging {
        Merging::Rows
    }

    fn saved_type(&self) -> Option<&DataType> {
        Some(&self.data_type)
    }

    fn states(&self) -> Box<dyn States> {
        Box::new(Lists { item: self.item.clone(), is_distinct: self.is_distinct, groups: Vec::new() })
    }
}

/// Rows are put together once there are so many: before, each is a part of the rows that it came with.
const PIECE_ROWS: usize = 128;

/// For each group the values that have come.
#[derive(Debug)]
struct Lists {
    item: FieldRef,
    is_distinct: bool,
    groups: Vec<List>,
}

/// Values in the order in which they came.
#[derive(Debug, Clone, Default)]
struct List {
    pieces: Vec<ArrayRef>,
    /// Those behind them.
    last: Vec<ArrayRef>,
}

impl Lists {
    /// The values of a group.
    fn values(&self, group: u32) -> Result<ArrayRef, ArrowError> {
        let List { pieces, last } = &self.groups[group as usize];
        joined(pieces.iter().chain(last), self.item.data_type())
    }

    /// Arrays of the values of groups; NULL where there is no number.
    fn arrays(&self, groups: &[Option<u32>], is_distinct: bool) -> Result<ArrayRef, ArrowError> {
        let values = groups.iter().map(|group| match group {
            Some(group) if is_distinct => firsts(&self.values(*group)?),
            Some(group) => self.values(*group),
            None => Ok(new_null_array(self.item.data_type(), 0)),
        });
        let values = values.collect::<Result<Vec<ArrayRef>, _>>()?;
        let offsets = OffsetBuffer::from_lengths(values.iter().map(|values| values.len()));
        let values = joined(values.iter(), self.item.data_type())?;
        let nulls = groups.iter().map(Option::is_some).collect::<NullBuffer>();
        Ok(Arc::new(ListArray::try_new(self.item.clone(), offsets, values, Some(nulls))?))
    }
}

/// Values one behind the other, which share nothing with those that they were made of: strings are copied.
fn joined<'a>(values: impl Iterator<Item = &'a ArrayRef>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let values: Vec<&dyn Array> = values.map(AsRef::as_ref).collect();
    let joined = if values.is_empty() { new_null_array(data_type, 0) } else { concat(&values)? };
    Ok(compacted(&joined))
}

/// Those values that have not come before.
fn firsts(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    let mut known = HashSet::new();
    let firsts = (0..values.len()).filter(|&row| known.insert(rows.row(row)));
    take(values, &firsts.map(|row| row as u32).collect::<UInt32Array>(), None)
}

impl States for Lists {
    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn grow_to(&mut self, groups: usize) {
        self.groups.resize(groups.max(self.groups.len()), List::default());
    }

    fn clear(&mut self) {
        self.groups.clear();
    }

    fn bytes(&self) -> usize {
        let pieces = self.groups.iter().flat_map(|list| &list.pieces).map(|piece| piece.get_array_memory_size());
        let last = self.groups.iter().map(|list| list.last.len()).sum::<usize>();
        pieces.sum::<usize>() + last * size_of::<ArrayRef>()
    }

    fn accumulate(&mut self, group: u32, arguments: &[ArrayRef]) -> Result<(), String> {
        let List { pieces, last } = &mut self.groups[group as usize];
        last.push(arguments[0].clone());
        if last.len() >= PIECE_ROWS {
            pieces.push(joined(last.iter(), self.item.data_type()).map_err(|error| error.to_string())?);
            last.clear();
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn States, pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
        assert!(change == Change::Add, "rows are not taken away");
        let other = (other as &dyn Any).downcast_ref::<Lists>().expect("states of one function");
        for &(theirs, mine) in pairs {
            let theirs = &other.groups[theirs as usize];
            self.groups[mine as usize].last.extend(theirs.pieces.iter().chain(&theirs.last).cloned());
        }
        Ok(())
    }

    fn save(&self, groups: &[u32]) -> Result<ArrayRef, String> {
        let groups: Vec<Option<u32>> = groups.iter().copied().map(Some).collect();
        self.arrays(&groups, false).map_err(|error| error.to_string())
    }

    fn restore(&mut self, groups: &[u32], saved: &ArrayRef) -> Result<(), String> {
        let saved = saved.as_list_opt::<i32>().filter(|saved| saved.len() == groups.len());
        let saved = saved.ok_or_else(|| "no arrays of as many groups".to_owned())?;
        groups.iter().zip(saved.iter()).for_each(|(group, values)| {
            self.groups[*group as usize] = List { pieces: values.into_iter().collect(), last: Vec::new() };
        });
        Ok(())
    }

    fn finish(&self, groups: &[Option<u32>]) -> Result<ArrayRef, String> {
        self.arrays(groups, self.is_distinct).map_err(|error| error.to_string())
    }
}
