//! Keys, values, and what tables of them should hold.

use std::collections::HashMap;
use std::sync::Arc;

pub use super::random::Random;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int32Array,
    Int64Array, StringViewArray, UInt8Array, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt8Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::column::logical_type;
use pelton_state::table::{Chosen, KeyLayout, KeyRows, Table, widen_keys};

/// How key values are drawn.
#[derive(Debug, Clone, Copy)]
pub enum Draw {
    /// Of few values, which are more with each batch.
    Few,
    /// Close together.
    Near,
    /// Close together, but elsewhere each time.
    Moving,
    /// Anywhere, extremes and the table's sentinel often.
    Anywhere,
}

pub fn draw(random: &mut Random, draw: Draw, batch: i64) -> i64 {
    let special = [i64::MIN, i64::MAX, 0, -1, 1, i64::MIN + 1, 0x5eb7_1a0d_c3f2_9e61, 1 << 32];
    match draw {
        Draw::Near => random.below(50) as i64 - 20,
        Draw::Few => random.below(4 + batch as u64 / 8) as i64 * 3 - 5 * (batch / 20),
        Draw::Moving => batch * 300 + random.below(400) as i64,
        Draw::Anywhere if random.below(4) == 0 => special[random.below(8) as usize],
        Draw::Anywhere => random.next() as i64 >> random.below(60),
    }
}

pub fn string(value: i64) -> String {
    match value.rem_euclid(4) {
        0 => String::new(),
        1 => format!("{value}").chars().take(12).collect(),
        2 => format!("a string of more than twelve bytes: {value}"),
        _ => format!("{value:0>13}"),
    }
}

/// A column of `data_type` from drawn numbers; `None` is NULL.
pub fn column(data_type: &DataType, values: &[Option<i64>]) -> ArrayRef {
    let values = values.iter().copied();
    match data_type {
        DataType::Boolean => Arc::new(values.map(|v| v.map(|v| v & 1 == 1)).collect::<BooleanArray>()),
        DataType::Int8 => Arc::new(values.map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        DataType::Int32 => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(values.collect::<Int64Array>()),
        DataType::UInt64 => Arc::new(values.map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
        DataType::Float64 => Arc::new(values.map(|v| v.map(float)).collect::<Float64Array>()),
        DataType::Decimal128(..) => {
            let wide = values.map(|v| v.map(|v| i128::from(v) * 1_000_003));
            Arc::new(wide.collect::<Decimal128Array>().with_precision_and_scale(38, 2).unwrap())
        }
        DataType::Utf8View => Arc::new(values.map(|v| v.map(string)).collect::<StringViewArray>()),
        DataType::Dictionary(..) => {
            let codes = values.map(|v| v.map(|v| v.rem_euclid(5) as u8)).collect::<UInt8Array>();
            let strings = StringViewArray::from_iter_values((0..5).map(string));
            Arc::new(DictionaryArray::<UInt8Type>::new(codes, Arc::new(strings)))
        }
        other => panic!("no values of type {other}"),
    }
}

pub fn float(value: i64) -> f64 {
    match value.rem_euclid(7) {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        3 => f64::NEG_INFINITY,
        _ => value as f64 / 8.0,
    }
}

pub fn accumulators() -> Vec<Accumulator> {
    use Accumulate::*;
    let of = |accumulate, argument_type: Option<DataType>| {
        let is_nullable = argument_type.is_some();
        Accumulator::new(accumulate, argument_type, is_nullable)
    };
    vec![
        of(Count, None),
        of(SumInteger, Some(DataType::Int64)),
        of(Minimum, Some(DataType::Int8)),
        of(SumWide, Some(DataType::Int64)),
        of(Maximum, Some(DataType::Float64)),
        of(Minimum, Some(DataType::Utf8View)),
        of(Maximum, Some(DataType::Utf8View)),
        of(SumFloat, Some(DataType::Float64)),
    ]
}

/// What one group should hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    count: i64,
    sum: i64,
    minimum: i8,
    wide: i128,
    maximum: u64,
    first: String,
    last: String,
    float: f64,
}

impl Group {
    pub fn new(value: i64) -> Group {
        let maximum = float(value).to_bits();
        let (first, last) = (string(value), string(value));
        // Sums of these are exact in any order.
        let float = (value % 1000) as f64;
        Group { count: 1, sum: value, minimum: value as i8, wide: i128::from(value), maximum, first, last, float }
    }

    pub fn merge(&mut self, other: &Group) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.minimum = self.minimum.min(other.minimum);
        self.wide += other.wide;
        let (held, seen) = (f64::from_bits(self.maximum), f64::from_bits(other.maximum));
        self.maximum = if held.total_cmp(&seen).is_ge() { held } else { seen }.to_bits();
        self.first = self.first.clone().min(other.first.clone());
        self.last = self.last.clone().max(other.last.clone());
        self.float += other.float;
    }
}

pub type Model = HashMap<Vec<Option<String>>, Group>;

pub fn add_to_model(model: &mut Model, key: Vec<Option<String>>, group: &Group) {
    model.entry(key).and_modify(|held| held.merge(group)).or_insert_with(|| group.clone());
}

pub fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    // Dictionary-coded and plain strings read the same.
    let array = match array.data_type() {
        DataType::Dictionary(..) => arrow::compute::cast(array, &DataType::Utf8View).unwrap(),
        _ => array.clone(),
    };
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
    (0..array.len()).map(|row| array.is_valid(row).then(|| formatter.value(row).to_string())).collect()
}

pub fn keys_of_rows(columns: &[ArrayRef], rows: usize) -> Vec<Vec<Option<String>>> {
    let texts: Vec<_> = columns.iter().map(texts).collect();
    (0..rows).map(|row| texts.iter().map(|column| column[row].clone()).collect()).collect()
}

/// The entries of all rows, as a kernel would find them.
pub fn entries_of_rows(table: &mut Table, columns: &[ArrayRef], rows: usize) -> Vec<u32> {
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    match table.layout().keys() {
        KeyLayout::None => vec![table.single_entry(); rows],
        KeyLayout::Packed { .. } => {
            table.find_or_insert_columns(columns, KeyRows::Range(0..rows), &mut entries, &mut Vec::new(), &mut hashes);
            entries
        }
        KeyLayout::Integer { .. } => {
            let valid: Vec<u32> = (0..rows as u32).filter(|&row| columns[0].is_valid(row as usize)).collect();
            let mut keys = Vec::new();
            widen_keys(&columns[0], Some(&valid), &mut keys);
            let mut of_rows = vec![u32::MAX; rows];
            if let (Some(&minimum), Some(&maximum)) = (keys.iter().min(), keys.iter().max()) {
                let mode = table.prepare_integers(minimum, maximum, keys.len());
                assert_eq!(table.integer_mode(), Some(mode));
                table.find_or_insert_integers(&keys, &mut entries, &mut hashes);
                valid.iter().zip(&entries).for_each(|(&row, &entry)| of_rows[row as usize] = entry);
            }
            if valid.len() < rows {
                let null = table.null_entry();
                of_rows.iter_mut().filter(|entry| **entry == u32::MAX).for_each(|entry| *entry = null);
            }
            of_rows
        }
    }
}

pub fn add_to_table(table: &mut Table, columns: &[ArrayRef], values: &[i64]) {
    let entries = entries_of_rows(table, columns, values.len());
    let layout = table.layout().clone();
    let base = table.base();
    for (&entry, &value) in entries.iter().zip(values) {
        let at = |slot: usize| base.wrapping_add(entry as usize * 8 + layout.accumulators()[slot].offset);
        let group = Group::new(value);
        // SAFETY: entries are those the table has just given, and each accumulator is written in its own type.
        unsafe {
            *at(0).cast::<u64>() += 1;
            *at(1).cast::<i64>() = (*at(1).cast::<i64>()).wrapping_add(value);
            *at(2).cast::<i8>() = (*at(2).cast::<i8>()).min(group.minimum);
            at(3).cast::<i128>().write_unaligned(at(3).cast::<i128>().read_unaligned() + group.wide);
            let (held, seen) = (*at(4).cast::<f64>(), f64::from_bits(group.maximum));
            *at(4).cast::<f64>() = if held.total_cmp(&seen).is_ge() { held } else { seen };
            *at(7).cast::<f64>() += group.float;
        }
    }
    let strings = StringViewArray::from_iter_values(values.iter().map(|&value| string(value)));
    let rows: Vec<u32> = (0..values.len() as u32).collect();
    table.update_string_extreme(5, &entries, &strings, Some(&rows));
    table.update_string_extreme(6, &entries, &strings, None);
}

/// Adds rows of drawn keys with values at random to a table. Returns what they come to.
pub fn add_drawn(table: &mut Table, types: &[DataType], draws: &[Option<i64>], random: &mut Random) -> Model {
    let columns: Vec<ArrayRef> = types.iter().map(|data_type| column(data_type, draws)).collect();
    let values: Vec<i64> = draws.iter().map(|_| random.next() as i64 >> random.below(60)).collect();
    add_to_table(table, &columns, &values);
    let mut model = Model::new();
    for (key, &value) in keys_of_rows(&columns, draws.len()).into_iter().zip(&values) {
        add_to_model(&mut model, key, &Group::new(value));
    }
    model
}

pub fn read(table: &Table) -> Model {
    let entries = table.entry_offsets();
    assert_eq!(entries.len(), table.groups());
    let mut model = Model::new();
    for (key, group) in read_entries(table, (&entries).into()) {
        assert!(model.insert(key, group).is_none(), "a key has one entry");
    }
    model
}

pub fn read_entries(table: &Table, entries: Chosen<'_>) -> Vec<(Vec<Option<String>>, Group)> {
    let columns = table.layout().key_columns().len();
    let keys: Vec<ArrayRef> = (0..columns).map(|key| table.key_array(key, entries)).collect();
    for (array, column) in keys.iter().zip(table.layout().key_columns()) {
        assert_eq!(array.data_type(), &column.data_type);
    }
    let values: Vec<ArrayRef> = (0..8).map(|slot| table.accumulator_array(slot, entries)).collect();
    let group = |row: usize| Group {
        count: values[0].as_primitive::<Int64Type>().value(row),
        sum: values[1].as_primitive::<Int64Type>().value(row),
        minimum: values[2].as_primitive::<arrow::datatypes::Int8Type>().value(row),
        wide: values[3].as_primitive::<Decimal128Type>().value(row),
        maximum: values[4].as_primitive::<Float64Type>().value(row).to_bits(),
        first: values[5].as_string_view().value(row).to_string(),
        last: values[6].as_string_view().value(row).to_string(),
        float: values[7].as_primitive::<Float64Type>().value(row),
    };
    keys_of_rows(&keys, entries.len()).into_iter().enumerate().map(|(row, key)| (key, group(row))).collect()
}

/// Key columns of these types, as tables are told of them.
pub fn key_columns(types: &[DataType], nullable: bool) -> Vec<KeyColumn> {
    types.iter().map(|key| KeyColumn { data_type: logical_type(key).clone(), nullable }).collect()
}

pub fn key_types(kind: usize) -> Vec<DataType> {
    use DataType::*;
    let dictionary = Dictionary(Box::new(UInt8), Box::new(Utf8View));
    match kind {
        0 => vec![],
        1 => vec![Int64],
        2 => vec![Int8],
        3 => vec![UInt64],
        4 => vec![Boolean],
        5 => vec![Utf8View],
        6 => vec![Float64],
        7 => vec![Decimal128(38, 2)],
        8 => vec![Int32, Utf8View],
        9 | 10 => vec![Int64, Int32],
        11 => vec![Int8, UInt64, Int64],
        12 => vec![Utf8View, Boolean, dictionary, Int64, Utf8View, Int8],
        _ => vec![dictionary],
    }
}
