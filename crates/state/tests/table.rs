//! Tables against a model: any keys, values, batches, merges and reuse.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int32Array,
    Int64Array, StringArray, StringViewArray, UInt8Array, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, UInt8Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::column::logical_type;
use pelton_data::window::{Combination, Window};
use pelton_state::slice::SliceId;
use pelton_state::table::{EntryLayout, IntegerMode, KeyLayout, KeyRows, Table, widen_keys};
use pelton_state::window::{CloseLimits, ClosedGroups, OpenWindows};
use proptest::prelude::*;

/// A small generator, so that one number describes a whole test.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// How key values are drawn.
#[derive(Debug, Clone, Copy)]
enum Draw {
    /// Close together.
    Near,
    /// Close together, but elsewhere each time.
    Moving,
    /// Anywhere, extremes and the table's sentinel often.
    Anywhere,
}

fn draw(random: &mut Random, draw: Draw, batch: i64) -> i64 {
    let special = [i64::MIN, i64::MAX, 0, -1, 1, i64::MIN + 1, 0x5eb7_1a0d_c3f2_9e61, 1 << 32];
    match draw {
        Draw::Near => random.below(50) as i64 - 20,
        Draw::Moving => batch * 300 + random.below(400) as i64,
        Draw::Anywhere if random.below(4) == 0 => special[random.below(8) as usize],
        Draw::Anywhere => random.next() as i64 >> random.below(60),
    }
}

fn string(value: i64) -> String {
    match value.rem_euclid(4) {
        0 => String::new(),
        1 => format!("{value}").chars().take(12).collect(),
        2 => format!("a string of more than twelve bytes: {value}"),
        _ => format!("{value:0>13}"),
    }
}

/// A column of `data_type` from drawn numbers; `None` is NULL.
fn column(data_type: &DataType, values: &[Option<i64>]) -> ArrayRef {
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

fn float(value: i64) -> f64 {
    match value.rem_euclid(7) {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        3 => f64::NEG_INFINITY,
        _ => value as f64 / 8.0,
    }
}

fn accumulators() -> Vec<Accumulator> {
    use Accumulate::*;
    let of = |accumulate, argument_type: Option<DataType>| Accumulator {
        accumulate,
        argument_nullable: argument_type.is_some(),
        argument_type,
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
struct Group {
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
    fn new(value: i64) -> Group {
        let maximum = float(value).to_bits();
        let (first, last) = (string(value), string(value));
        // Sums of these are exact in any order.
        let float = (value % 1000) as f64;
        Group { count: 1, sum: value, minimum: value as i8, wide: i128::from(value), maximum, first, last, float }
    }

    fn merge(&mut self, other: &Group) {
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

type Model = HashMap<Vec<Option<String>>, Group>;

fn add_to_model(model: &mut Model, key: Vec<Option<String>>, group: &Group) {
    model.entry(key).and_modify(|held| held.merge(group)).or_insert_with(|| group.clone());
}

fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    // Dictionary-coded and plain strings read the same.
    let array = match array.data_type() {
        DataType::Dictionary(..) => arrow::compute::cast(array, &DataType::Utf8View).unwrap(),
        _ => array.clone(),
    };
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
    (0..array.len()).map(|row| array.is_valid(row).then(|| formatter.value(row).to_string())).collect()
}

fn keys_of_rows(columns: &[ArrayRef], rows: usize) -> Vec<Vec<Option<String>>> {
    let texts: Vec<_> = columns.iter().map(texts).collect();
    (0..rows).map(|row| texts.iter().map(|column| column[row].clone()).collect()).collect()
}

/// The entries of all rows, as a kernel would find them.
fn entries_of_rows(table: &mut Table, columns: &[ArrayRef], rows: usize) -> Vec<u32> {
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

fn add_to_table(table: &mut Table, columns: &[ArrayRef], values: &[i64]) {
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

fn read(table: &Table) -> Model {
    let entries = table.entry_offsets();
    assert_eq!(entries.len(), table.groups());
    let mut model = Model::new();
    for (key, group) in read_entries(table, &entries) {
        assert!(model.insert(key, group).is_none(), "a key has one entry");
    }
    model
}

fn read_entries(table: &Table, entries: &[u32]) -> Vec<(Vec<Option<String>>, Group)> {
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

fn key_types(kind: usize) -> Vec<DataType> {
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
        9 => vec![Utf8View, Boolean, dictionary, Int64, Utf8View, Int8],
        _ => vec![dictionary],
    }
}

/// One number says everything: keys, values, batches, merges, reuse.
fn check(seed: u64, batches: usize, rows_max: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(11) as usize);
    let nullable = random.below(2) == 1;
    let drawn = [Draw::Near, Draw::Moving, Draw::Anywhere][random.below(3) as usize];
    let keys: Vec<KeyColumn> =
        types.iter().map(|key| KeyColumn { data_type: logical_type(key).clone(), nullable }).collect();
    let layout = EntryLayout::new(&keys, &accumulators());
    let mut tables = [Table::new(layout.clone()), Table::new(layout.clone())];
    let mut models = [Model::new(), Model::new()];
    for batch in 0..batches {
        let which = random.below(2) as usize;
        let rows = random.below(rows_max) as usize;
        let columns: Vec<ArrayRef> = types
            .iter()
            .map(|data_type| {
                let values = (0..rows).map(|_| {
                    let is_null = nullable && random.below(5) == 0;
                    (!is_null).then(|| draw(random, drawn, batch as i64))
                });
                column(data_type, &values.collect::<Vec<_>>())
            })
            .collect();
        let values: Vec<i64> = (0..rows).map(|_| random.next() as i64 >> random.below(60)).collect();
        if rows > 0 {
            add_to_table(&mut tables[which], &columns, &values);
            for (key, &value) in keys_of_rows(&columns, rows).into_iter().zip(&values) {
                add_to_model(&mut models[which], key, &Group::new(value));
            }
        }
        match random.below(12) {
            0 => {
                tables[which].clear();
                models[which].clear();
            }
            1 => {
                let hint = tables[1].hint();
                let other = std::mem::replace(&mut tables[1], Table::with_hint(layout.clone(), hint));
                tables[0].merge(other);
                for (key, group) in std::mem::take(&mut models[1]) {
                    add_to_model(&mut models[0], key, &group);
                }
            }
            _ => {}
        }
    }
    for (table, model) in tables.iter().zip(&models) {
        assert_eq!(&read(table), model);
    }
}

/// Rows of one slice: its number, the number of the first window that they count in, and their groups.
type SliceModel = (i64, i64, Model);

const SLIDE: i64 = 10;

/// The windows of slices that come in any order, against the same windows put together from all slices of each.
fn check_windows(seed: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(11) as usize);
    let keys: Vec<KeyColumn> =
        types.iter().map(|key| KeyColumn { data_type: logical_type(key).clone(), nullable: true }).collect();
    let slides = [1, 2, 3, 6][random.below(4) as usize];
    let size = slides * SLIDE;
    let (window, combination) = match random.below(3) {
        _ if slides == 1 => (Window::Tumbling { size, offset: 0 }, Combination::Single),
        0 => (Window::Cumulative { size, step: SLIDE, offset: 0 }, Combination::Prefix),
        1 => (Window::Hopping { size, slide: SLIDE, offset: 0 }, Combination::Recompute),
        _ => (Window::Hopping { size, slide: SLIDE, offset: 0 }, Combination::TwoStacks),
    };
    let layout = EntryLayout::new(&keys, &accumulators());
    let mut open = OpenWindows::new(window, combination, &layout);
    let (mut slices, mut closed, mut spare) = (Vec::<SliceModel>::new(), Vec::new(), Vec::new());
    let mut closed_until = 0;
    for slice in 0..24 {
        for _ in 0..1 + random.below(2) {
            // Some rows are late, but not for all of their windows.
            let of_slice = slice - (random.below(slides as u64 + 1) as i64).min(slice);
            let covered = window.slice(of_slice * SLIDE).covered.expect("windows have no gaps");
            if covered.last_end <= closed_until || (slides == 1 && of_slice < slice) || random.below(8) == 0 {
                continue;
            }
            let rows = 1 + random.below(300) as usize;
            let draws = (0..rows).map(|_| (random.below(5) > 0).then(|| draw(random, Draw::Moving, slice)));
            let draws: Vec<Option<i64>> = draws.collect();
            let columns: Vec<ArrayRef> = types.iter().map(|data_type| column(data_type, &draws)).collect();
            let values: Vec<i64> = (0..rows).map(|_| random.next() as i64 >> random.below(60)).collect();
            let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
            table.clear();
            add_to_table(&mut table, &columns, &values);
            let mut model = Model::new();
            for (key, &value) in keys_of_rows(&columns, rows).into_iter().zip(&values) {
                add_to_model(&mut model, key, &Group::new(value));
            }
            let first_end = covered.first_end.max(closed_until + SLIDE);
            spare.extend(open.seal(SliceId { first_end, start: of_slice * SLIDE }, table));
            slices.push((of_slice, first_end, model));
        }
        if random.below(3) > 0 {
            let until = (slice + 1) * SLIDE;
            while closed_until < until {
                let limits = CloseLimits {
                    until,
                    groups_at_once: [1, 7, 500, 1 << 20][random.below(4) as usize],
                    groups_max: [1, 600, usize::MAX][random.below(3) as usize],
                };
                closed_until = open.close(limits, &mut spare, &mut |groups| take(groups, limits, &mut closed)).unwrap();
            }
        }
    }
    let mut found: Vec<(i64, Model)> = Vec::new();
    for (end, key, group) in closed {
        if found.last().is_none_or(|last| last.0 != end) {
            found.push((end, Model::new()));
        }
        assert!(found.last_mut().unwrap().1.insert(key, group).is_none(), "a window has a key once");
    }
    let expected = (1..=closed_until / SLIDE).map(|end| (end * SLIDE, model_window(&window, end * SLIDE, &slices)));
    assert_eq!(found, expected.filter(|(_, model)| !model.is_empty()).collect::<Vec<_>>());
}

fn take(
    closed: ClosedGroups<'_>,
    limits: CloseLimits,
    taken: &mut Vec<(i64, Vec<Option<String>>, Group)>,
) -> Result<(), std::convert::Infallible> {
    assert!((1..=limits.groups_at_once).contains(&closed.entries.len()));
    let ends = closed.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
    let groups = read_entries(closed.table, closed.entries);
    assert_eq!(ends.clone().count(), groups.len());
    taken.extend(ends.zip(groups).map(|(end, (key, group))| (end, key, group)));
    Ok(())
}

fn model_window(window: &Window, end: i64, slices: &[SliceModel]) -> Model {
    let mut model = Model::new();
    for (slice, first_end, groups) in slices {
        let is_in = *slice * SLIDE >= window.start(end) && *slice * SLIDE < end && *first_end <= end;
        for (key, group) in groups.iter().filter(|_| is_in) {
            add_to_model(&mut model, key.clone(), group);
        }
    }
    model
}

/// Sums and counts are subtracted, and groups that have left are forgotten.
#[test]
fn a_running_window_forgets_what_has_left() {
    let count = |argument_type| Accumulator { accumulate: Accumulate::Count, argument_type, argument_nullable: false };
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: false }];
    let layout = EntryLayout::new(&keys, &[count(None)]);
    let window = Window::Hopping { size: 5 * SLIDE, slide: SLIDE, offset: 0 };
    let mut open = OpenWindows::new(window, Combination::SubtractOnEvict, &layout);
    let mut bytes = 0;
    for slice in 0..200 {
        let mut table = Table::new(layout.clone());
        let keys: Vec<i64> = (0..300).map(|row| slice * 1000 + row % 100).collect();
        let mut entries = Vec::new();
        table.prepare_integers(keys[0], keys[0] + 99, keys.len());
        table.find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
        for entry in entries {
            let at = table.base().wrapping_add(entry as usize * 8 + layout.accumulators()[0].offset);
            // SAFETY: it is the address of a count of an entry that the table has just given.
            unsafe { *at.cast::<i64>() += 1 };
        }
        open.seal(SliceId { first_end: (slice + 1) * SLIDE, start: slice * SLIDE }, table);
        let limits = CloseLimits { until: (slice + 1) * SLIDE, groups_at_once: 1000, groups_max: 1000 };
        let mut found = Vec::new();
        let mut read_out = |groups: ClosedGroups<'_>| -> Result<(), std::convert::Infallible> {
            let keys = groups.table.key_array(0, groups.entries);
            let counts = groups.table.accumulator_array(0, groups.entries);
            let (keys, counts) = (keys.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
            found.extend(keys.values().iter().copied().zip(counts.values().iter().copied()));
            Ok(())
        };
        open.close(limits, &mut Vec::new(), &mut read_out).unwrap();
        found.sort_unstable();
        let held = (slice - 4).max(0)..slice + 1;
        let expected = held.flat_map(|slice| (0..100).map(move |key| (slice * 1000 + key, 3)));
        assert_eq!(found, expected.collect::<Vec<_>>());
        if slice == 50 {
            bytes = open.bytes();
        }
    }
    assert!(open.bytes() <= bytes, "{} bytes, {bytes} after a quarter of the slices", open.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 16 } else { 150 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_holds_what_a_model_holds(seed in any::<u64>()) {
        let (batches, rows_max) = if cfg!(miri) { (6, 40) } else { (24, 600) };
        check(seed, batches, rows_max);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 40 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_put_together_from_slices(seed in any::<u64>()) {
        check_windows(seed);
    }
}

fn count_layout(data_type: DataType) -> Arc<EntryLayout> {
    let count = Accumulator { accumulate: Accumulate::Count, argument_type: None, argument_nullable: false };
    EntryLayout::new(&[KeyColumn { data_type, nullable: false }], &[count])
}

#[test]
fn keys_in_the_order_of_another_tables_hashes_do_not_crowd_together() {
    let groups: i64 = if cfg!(miri) { 2_000 } else { 400_000 };
    let layout = count_layout(DataType::Int64);
    let mut first = Table::new(layout.clone());
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    let spread: Vec<i64> = (0..groups).map(|key| key << 21).collect();
    first.find_or_insert_integers(&spread, &mut entries, &mut hashes);
    let offsets = first.entry_offsets();
    let in_hash_order = first.key_array(0, &offsets);
    let mut second = Table::new(layout);
    // Quadratic probing would take minutes here.
    for batch in in_hash_order.as_primitive::<Int64Type>().values().chunks(1000) {
        second.find_or_insert_integers(batch, &mut entries, &mut hashes);
    }
    assert_eq!(second.groups(), groups as usize);
}

#[test]
fn a_narrow_range_is_dense_a_wide_one_hashed_and_a_crowded_one_dense_again() {
    let mut table = Table::new(count_layout(DataType::Int64));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    assert_eq!(table.integer_mode(), None);
    assert!(matches!(table.prepare_integers(-5, 100, 10), IntegerMode::Dense { .. }));
    table.find_or_insert_integers(&[-5, 100], &mut entries, &mut hashes);
    assert_eq!(table.prepare_integers(0, 1 << 40, 10), IntegerMode::Hash);
    table.find_or_insert_integers(&[0, 1 << 40], &mut entries, &mut hashes);
    assert_eq!(table.groups(), 4);
    table.clear();
    let keys: Vec<i64> = (0..20_000).map(|key| key * 2).collect();
    table.find_or_insert_integers(&keys, &mut entries, &mut hashes);
    assert!(matches!(table.prepare_integers(0, 40_000, 1), IntegerMode::Dense { .. }));
    assert_eq!(table.groups(), 20_000);
    let all = table.entry_offsets();
    let read: Vec<i64> = table.key_array(0, &all).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(read, keys);
}

#[test]
fn keys_that_move_on_keep_their_table_dense_and_its_moves_few() {
    let mut table = Table::new(count_layout(DataType::Int64));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    let mut bases = Vec::new();
    for batch in 0..200 {
        let keys: Vec<i64> = (0..100).map(|key| 1_000_000 + batch * 50 + key).collect();
        let mode = table.prepare_integers(keys[0], keys[99], keys.len());
        let IntegerMode::Dense { length, .. } = mode else { panic!("{mode:?}") };
        bases.push(length);
        table.find_or_insert_integers(&keys, &mut entries, &mut hashes);
    }
    bases.dedup();
    assert!(bases.len() < 16, "moved {} times", bases.len());
    assert_eq!(table.groups(), 199 * 50 + 100);
}

#[test]
fn a_key_without_accumulators_still_has_an_entry_of_its_own() {
    let layout = EntryLayout::new(&[KeyColumn { data_type: DataType::Int32, nullable: false }], &[]);
    let mut table = Table::new(layout);
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    table.prepare_integers(1, 3, 3);
    table.find_or_insert_integers(&[1, 3, 1], &mut entries, &mut hashes);
    let keys = table.key_array(0, &table.entry_offsets());
    assert_eq!(keys.as_primitive::<Int32Type>().values(), &[1, 3]);
}

#[test]
fn a_growing_extreme_of_strings_does_not_grow_its_table_without_end() {
    let string = Accumulator {
        accumulate: Accumulate::Maximum,
        argument_type: Some(DataType::Utf8View),
        argument_nullable: false,
    };
    let mut table = Table::new(EntryLayout::new(&[], &[string]));
    let entry = table.single_entry();
    let rounds = if cfg!(miri) { 300 } else { 20_000 };
    for round in 0..rounds {
        let padding = "x".repeat(round % 50);
        let values = StringViewArray::from_iter_values([format!("{round:0>8}{padding}")]);
        table.update_string_extreme(0, &[entry], &values, None);
    }
    assert!(table.bytes() < 64 << 10, "{} bytes", table.bytes());
    let held = table.accumulator_array(0, &[entry]);
    assert!(held.as_string_view().value(0).starts_with(&format!("{:0>8}", rounds - 1)));
}

#[test]
fn a_dictionary_of_plain_strings_is_a_key_of_strings() {
    let long = "a string of more than twelve bytes";
    let values = StringArray::from(vec!["b", long]);
    let codes = UInt8Array::from(vec![1, 0, 1]);
    let coded: ArrayRef = Arc::new(DictionaryArray::<UInt8Type>::new(codes, Arc::new(values)));
    let plain: ArrayRef = Arc::new(StringViewArray::from(vec![long, "b", "c"]));
    let mut table = Table::new(count_layout(DataType::Utf8View));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    table.find_or_insert_columns(&[coded], KeyRows::Range(0..3), &mut first, &mut Vec::new(), &mut Vec::new());
    table.find_or_insert_columns(
        &[plain],
        KeyRows::Listed(&[0, 1, 2, 0]),
        &mut second,
        &mut Vec::new(),
        &mut Vec::new(),
    );
    assert_eq!(first, [second[0], second[1], second[0]]);
    assert_eq!(second[0], second[3]);
    assert_eq!(table.groups(), 3);
}
