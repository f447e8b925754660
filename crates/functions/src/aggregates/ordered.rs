//! Functions of all rows of a group in an order: ARRAY_AGG, LISTAGG, FIRST_VALUE and LAST_VALUE with ORDER BY, and ARRAY_AGG of rows that a FILTER
//! has left.
//!
//! Rows have the value first, and behind it what they are put in order by. Rows that are equal in that stay in the order of their arrival.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray, UInt32Array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use pelton_data::allowance::Allowance;
use pelton_data::column::compacted;
use pelton_data::udaf::{Change, Definition, Merging};

use crate::growth;

/// What is made of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// The first value that is not NULL.
    First,
    /// The last value that is not NULL.
    Last,
    /// An array of the values.
    Array {
        /// Whether each value stands there once.
        is_distinct: bool,
        /// Whether NULLs are left out.
        ignores_nulls: bool,
    },
    /// A string of those that are not NULL.
    Joined {
        /// What stands between two.
        delimiter: String,
        /// Whether each value stands there once.
        is_distinct: bool,
    },
}

/// A function of rows in an order.
#[derive(Debug)]
pub struct Ordered {
    listing: Listing,
    /// The types of the value and of the columns behind it.
    types: Vec<DataType>,
    /// How rows are put in order by each of these columns.
    order: Vec<SortOptions>,
    item: FieldRef,
    saved: DataType,
}

/// Rows are put together once there are so many: before, each is a part of the rows that it came with.
const PIECE_ROWS: usize = 128;

/// The rows of a group in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pieces: Vec<Columns>,
    /// Those behind them.
    last: Vec<Columns>,
}

/// Rows, column by column.
type Columns = Vec<ArrayRef>;

impl Ordered {
    /// Of rows with columns of these types, of which the first has the values, and the others are put in order by.
    pub fn new(listing: Listing, types: Vec<DataType>, order: Vec<SortOptions>) -> Ordered {
        assert_eq!(types.len(), order.len() + 1, "a value, and what rows are put in order by");
        let item = Arc::new(Field::new_list_field(types[0].clone(), true));
        let row = DataType::Struct(row_fields(&types));
        let saved = DataType::List(Arc::new(Field::new_list_field(row, true)));
        Ordered { listing, types, order, item, saved }
    }

    /// The rows of a group, column by column.
    fn columns(&self, rows: &Rows) -> Result<Columns, ArrowError> {
        let all = || rows.pieces.iter().chain(&rows.last);
        let column = |(at, data_type)| joined(all().map(|columns: &Columns| &columns[at]), data_type);
        self.types.iter().enumerate().map(column).collect()
    }

    /// The values of a group in their order.
    fn values(&self, rows: &Rows) -> Result<ArrayRef, ArrowError> {
        let columns = self.columns(rows)?;
        let Some((values, keys)) = columns.split_first().filter(|(_, keys)| !keys.is_empty()) else {
            return Ok(columns[0].clone());
        };
        let fields = self.types[1..].iter().zip(&self.order);
        let fields = fields.map(|(data_type, options)| SortField::new_with_options(data_type.clone(), *options));
        let keys = RowConverter::new(fields.collect())?.convert_columns(keys)?;
        let mut order: Vec<u32> = (0..values.len() as u32).collect();
        order.sort_by_key(|&row| keys.row(row as usize));
        take(values, &UInt32Array::from(order), None)
    }

    /// Those of the values that count.
    fn listed(&self, rows: &Rows) -> Result<ArrayRef, ArrowError> {
        let values = self.values(rows)?;
        let (passes_over_nulls, is_distinct) = match &self.listing {
            Listing::First | Listing::Last => (true, false),
            Listing::Array { is_distinct, ignores_nulls } => (*ignores_nulls, *is_distinct),
            Listing::Joined { is_distinct, .. } => (true, *is_distinct),
        };
        let values = if passes_over_nulls && values.null_count() > 0 {
            let valid = (0..values.len() as u32).filter(|&row| values.is_valid(row as usize));
            take(&values, &valid.collect::<UInt32Array>(), None)?
        } else {
            values
        };
        let values = if is_distinct { firsts(&values)? } else { values };
        Ok(match self.listing {
            Listing::First => values.slice(0, values.len().min(1)),
            Listing::Last => values.slice(values.len().saturating_sub(1), values.len().min(1)),
            _ => values,
        })
    }

    fn finished(&self, groups: &[&Rows]) -> Result<ArrayRef, ArrowError> {
        let listed = groups.iter().map(|rows| self.listed(rows)).collect::<Result<Vec<ArrayRef>, _>>()?;
        Ok(match &self.listing {
            Listing::First | Listing::Last => {
                let null = new_null_array(&self.types[0], 1);
                let values = listed.iter().map(|values| if values.is_empty() { &null } else { values });
                joined(values, &self.types[0])?
            }
            Listing::Array { .. } => {
                let offsets = OffsetBuffer::from_lengths(listed.iter().map(|values| values.len()));
                let values = joined(listed.iter(), &self.types[0])?;
                let nulls = listed.iter().map(|values| !values.is_empty()).collect::<NullBuffer>();
                Arc::new(ListArray::try_new(self.item.clone(), offsets, values, Some(nulls))?)
            }
            Listing::Joined { delimiter, .. } => {
                let text = |values: &ArrayRef| {
                    let texts: Vec<&str> = values.as_string_view().iter().flatten().collect();
                    (!texts.is_empty()).then(|| texts.join(delimiter))
                };
                let bytes = listed.iter().fold(0_usize, |bytes, values| {
                    let delimiters = delimiter.len().saturating_mul(values.len().saturating_sub(1));
                    bytes.saturating_add(growth::bytes_of_array(values)).saturating_add(delimiters)
                });
                if let Some(refusal) = Allowance::get().refusal(bytes) {
                    return Err(ArrowError::MemoryError(refusal));
                }
                Arc::new(listed.iter().map(text).collect::<StringViewArray>())
            }
        })
    }

    fn saved_rows(&self, groups: &[&Rows]) -> Result<ArrayRef, ArrowError> {
        let fields = row_fields(&self.types);
        let rows = groups.iter().map(|rows| StructArray::try_new(fields.clone(), self.columns(rows)?, None));
        let rows = rows.collect::<Result<Vec<StructArray>, _>>()?;
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(Array::len));
        let rows: Vec<ArrayRef> = rows.into_iter().map(|rows| Arc::new(rows) as ArrayRef).collect();
        let DataType::List(item) = &self.saved else { unreachable!("rows are written as lists") };
        let rows = joined(rows.iter(), item.data_type())?;
        Ok(Arc::new(ListArray::try_new(item.clone(), offsets, rows, None)?))
    }
}

fn row_fields(types: &[DataType]) -> Fields {
    let field = |(at, data_type): (usize, &DataType)| Field::new(format!("c{at}"), data_type.clone(), true);
    types.iter().enumerate().map(field).collect()
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

impl Definition for Ordered {
    type State = Rows;

    fn name(&self) -> &str {
        match &self.listing {
            Listing::First => "first_value",
            Listing::Last => "last_value",
            Listing::Array { is_distinct: true, .. } => "array_agg distinct",
            Listing::Array { .. } => "array_agg",
            Listing::Joined { is_distinct: true, .. } => "listagg distinct",
            Listing::Joined { .. } => "listagg",
        }
    }

    fn merging(&self) -> Merging {
        Merging::Rows
    }

    fn saved_type(&self) -> Option<&DataType> {
        Some(&self.saved)
    }

    fn initial(&self) -> Result<Rows, String> {
        Ok(Rows::default())
    }

    fn bytes(&self, states: &[Rows]) -> usize {
        let pieces = states.iter().flat_map(|rows| &rows.pieces).flatten().map(|piece| piece.get_array_memory_size());
        let last = states.iter().map(|rows| rows.last.len()).sum::<usize>();
        pieces.sum::<usize>() + last * self.types.len() * size_of::<ArrayRef>()
    }

    fn accumulate(&self, state: &mut Rows, arguments: &[ArrayRef]) -> Result<(), String> {
        state.last.push(arguments.to_vec());
        if state.last.len() >= PIECE_ROWS {
            let last = Rows { pieces: Vec::new(), last: std::mem::take(&mut state.last) };
            state.pieces.push(self.columns(&last).map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn merge(&self, states: &mut [Rows], others: &[Rows], pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
        assert!(change == Change::Add, "rows are not taken away");
        for &(from, to) in pairs {
            let other = &others[from as usize];
            states[to as usize].last.extend(other.pieces.iter().chain(&other.last).cloned());
        }
        Ok(())
    }

    fn save(&self, states: &[&Rows]) -> Result<ArrayRef, String> {
        self.saved_rows(states).map_err(|error| error.to_string())
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Rows>, String> {
        let saved = saved.as_list_opt::<i32>().ok_or_else(|| "no lists of rows".to_owned())?;
        let rows = |rows: Option<ArrayRef>| {
            let rows = rows.ok_or_else(|| "no rows of a group".to_owned())?;
            Ok(Rows { pieces: vec![rows.as_struct().columns().to_vec()], last: Vec::new() })
        };
        saved.iter().map(rows).collect()
    }

    fn finish(&self, states: &[&Rows]) -> Result<ArrayRef, String> {
        self.finished(states).map_err(|error| match error {
            ArrowError::MemoryError(refusal) => format!("it {refusal}"),
            other => other.to_string(),
        })
    }
}
