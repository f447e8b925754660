//! Tables that grow part by part while rows come, against a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_state::layout::EntryLayout;
use pelton_state::table::{Entries, Positions, Table};
use proptest::prelude::*;

use super::model::{Random, column, entries_of_rows};

/// How many rows each key has, and which values.
type Held = BTreeMap<i64, (i64, BTreeSet<i64>)>;

/// What a table has: keys of integers that are alike, which are found by hash but where they are few, or are spelled, counts of rows, and sets of values or not. One
/// integer and one count take 16 bytes, two integers or a string and a count 32, of which a line of the cache holds several; others do not fill one.
#[derive(Clone, Copy)]
struct Kind {
    keys: usize,
    is_spelled: bool,
    counts: usize,
    has_values: bool,
}

impl Kind {
    fn any(random: &mut Random) -> Kind {
        let mut below = |end| random.below(end) as usize;
        Kind { keys: 1 + below(2), is_spelled: below(3) == 0, counts: 1 + below(3), has_values: below(2) == 0 }
    }

    fn table(self) -> Table {
        let data_type = if self.is_spelled { DataType::Utf8View } else { DataType::Int64 };
        let key = KeyColumn { data_type, nullable: false };
        let distinct = Accumulator::new(Accumulate::Distinct { is_ordered: false }, Some(DataType::Int64), false);
        let counts = std::iter::repeat_with(Accumulator::counting_rows).take(self.counts);
        let accumulators: Vec<Accumulator> = counts.chain(self.has_values.then_some(distinct)).collect();
        Table::new(EntryLayout::new(&vec![key; self.keys], &accumulators))
    }
}

/// A number as a string: one in three is too long to be kept beside its length.
fn spelled(key: i64) -> String {
    let key = key >> 21;
    if key % 3 == 0 { format!("{key} and eleven more") } else { key.to_string() }
}

/// The numbers that were spelled.
fn numbers_spelled(keys: &StringViewArray) -> Vec<i64> {
    let number = |key: &str| key.split(' ').next().and_then(|digits| digits.parse::<i64>().ok());
    keys.iter().map(|key| number(key.unwrap()).unwrap() << 21).collect()
}

/// Adds rows with keys, up to a largest, that are far from each other, and values.
fn add(table: &mut Table, held: &mut Held, kind: Kind, rows: usize, keys: u64, random: &mut Random) {
    let drawn: Vec<i64> = (0..rows).map(|_| (random.below(keys) as i64) << 21).collect();
    let values: Vec<i64> = (0..rows).map(|_| random.below(1 << 40) as i64).collect();
    let key_column: ArrayRef = if kind.is_spelled {
        Arc::new(StringViewArray::from_iter_values(drawn.iter().map(|&key| spelled(key))))
    } else {
        column(&DataType::Int64, &drawn.iter().copied().map(Some).collect::<Vec<_>>())
    };
    let columns = vec![key_column; table.layout().key_columns().len()];
    let entries = entries_of_rows(table, &columns, rows);
    let (base, offset) = (table.base(), table.layout().accumulators()[0].offset);
    for &entry in &entries {
        // SAFETY: it is the address of a count of an entry that the table has just given.
        unsafe { *base.add(entry as usize * 8 + offset).cast::<i64>() += 1 };
    }
    if kind.has_values {
        let kept: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        table.update_store(kind.counts, Entries::Each(&entries), &kept, Positions::From(0));
    }
    for (key, value) in drawn.into_iter().zip(values) {
        let (rows, values) = held.entry(key).or_default();
        *rows += 1;
        values.insert(value);
    }
}

fn check(table: &Table, held: &Held, kind: Kind) {
    let entries = table.entry_offsets();
    assert_eq!((table.groups(), entries.len()), (held.len(), held.len()));
    let numbers = |array: ArrayRef| array.as_primitive::<Int64Type>().values().to_vec();
    let last_key = table.layout().key_columns().len() - 1;
    let keys_of = |column: usize| match table.key_array(column, &entries) {
        keys if kind.is_spelled => numbers_spelled(keys.as_string_view()),
        keys => numbers(keys),
    };
    let (keys, counts) = (keys_of(0), numbers(table.accumulator_array(0, &entries)));
    assert_eq!(keys_of(last_key), keys);
    assert!(keys.iter().zip(&counts).all(|(key, count)| held[key].0 == *count));
    if !kind.has_values {
        return;
    }
    let grouped = table.value_groups(kind.counts).of((&entries).into());
    let values = numbers(grouped.values);
    for (at, key) in keys.into_iter().enumerate() {
        let (_, expected) = &held[&key];
        let values = &values[grouped.offsets[at]..grouped.offsets[at + 1]];
        assert_eq!(&values.iter().copied().collect::<BTreeSet<_>>(), expected);
        assert_eq!(values.len(), expected.len());
    }
}

fn check_growing(seed: u64) {
    let random = &mut Random(seed | 1);
    let kind = Kind::any(random);
    let mut table = kind.table();
    let mut held = Held::new();
    for _ in 0..2 {
        let (keys, batch_rows) = (1 + random.below(1 << 15), 1 + random.below(600));
        for _ in 0..200 {
            add(&mut table, &mut held, kind, 1 + random.below(batch_rows) as usize, keys, random);
            match random.below(50) {
                0 => check(&table, &held, kind),
                // What it has goes to another one, whose tables grow by that,
                1 => {
                    let mut other = kind.table();
                    add(&mut other, &mut held, kind, 1 + random.below(5_000) as usize, keys, random);
                    table = merged(table, other);
                }
                // or to a copy.
                2 => table = table.copy(),
                // It may take so much more for a while, and fills up where that does not do.
                3 => table.allow(random.below(4 << 20) as usize),
                4 => _ = table.settle(),
                _ => {}
            }
        }
        check(&table, &held, kind);
        // It is forgotten in parts, also while not all has moved that is to be, and begins anew.
        while !table.clear_part(1 + random.below(100_000) as usize) {}
        held.clear();
        check(&table, &held, kind);
    }
}

/// Both tables, which have the layout of the same slice.
fn merged(mut table: Table, other: Table) -> Table {
    let mut renewed = Table::new(table.layout().clone());
    renewed.merge(other);
    table.merge(renewed);
    table
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(24, 1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_holds_what_it_was_given_while_it_grows(seed in any::<u64>()) {
        check_growing(seed);
    }
}
