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

/// For each group the values that have come.
#[derive(Debug)]
struct Lists {
    item: FieldRef,
    is_distinct: bool,
    groups: Vec<Vec<ArrayRef>>,
}

impl Lists {
    /// The values of a group.
    fn values(&self, group: u32) -> Result<ArrayRef, ArrowError> {
        let pieces: Vec<&dyn Array> = self.groups[group as usize].iter().map(AsRef::as_ref).collect();
        if pieces.is_empty() { Ok(new_null_array(self.item.data_type(), 0)) } else { concat(&pieces) }
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
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        let nulls = groups.iter().map(Option::is_some).collect::<NullBuffer>();
        Ok(Arc::new(ListArray::try_new(self.item.clone(), offsets, concat(&values)?, Some(nulls))?))
    }
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
        self.groups.resize(groups.max(self.groups.len()), Vec::new());
    }

    fn clear(&mut self) {
        self.groups.clear();
    }

    fn bytes(&self) -> usize {
        self.groups.iter().flatten().map(|values| values.get_array_memory_size()).sum()
    }

    fn accumulate(&mut self, group: u32, arguments: &[ArrayRef]) -> Result<(), String> {
        // A part of a larger array would hold all of it.
        let all: UInt32Array = (0..arguments[0].len() as u32).collect();
        let values = take(&arguments[0], &all, None).map_err(|error| error.to_string())?;
        self.groups[group as usize].push(values);
        Ok(())
    }

    fn merge(&mut self, other: &dyn States, pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
        assert!(change == Change::Add, "rows are not taken away");
        let other = (other as &dyn Any).downcast_ref::<Lists>().expect("states of one function");
        for &(theirs, mine) in pairs {
            self.groups[mine as usize].extend(other.groups[theirs as usize].iter().cloned());
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
            self.groups[*group as usize] = values.into_iter().collect();
        });
        Ok(())
    }

    fn finish(&self, groups: &[Option<u32>]) -> Result<ArrayRef, String> {
        self.arrays(groups, self.is_distinct).map_err(|error| error.to_string())
    }
}
