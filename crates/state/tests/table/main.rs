//! Tables against a model: any keys, values, batches, merges and reuse.

mod beside;

mod coming;

mod correcting;

mod growing;

mod model;

mod operators;

#[path = "../random/mod.rs"]
mod random;

mod runs;

mod sessions;

mod snapshots;

mod staying;

mod windows;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int64Array, StringArray, StringViewArray, UInt8Array};
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt8Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_state::layout::DenseKeys;
use pelton_state::profile::KeysFound;
use pelton_state::slice::{SliceId, SliceStore};
use pelton_state::table::{EntryLayout, IntegerMode, KeyLayout, KeyRows, Table};
use proptest::prelude::*;

use model::{
    Draw, Group, Model, Random, accumulators, add_to_model, add_to_table, column, draw, key_columns, key_types,
    keys_of_rows, read,
};

/// A table that is made of a snapshot of another. Spoiled snapshots are refused.
fn again(table: &Table, random: &mut Random) -> Table {
    snapshots::again(table, || Table::new(table.layout().clone()), random)
}

/// One number says everything: keys, values, batches, merges, reuse.
fn check(seed: u64, batches: usize, rows_max: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(14) as usize);
    let nullable = random.below(2) == 1;
    let drawn = [Draw::Near, Draw::Moving, Draw::Anywhere][random.below(3) as usize];
    check_drawn(random, (types, nullable, drawn), batches, rows_max);
}

fn check_drawn(
    random: &mut Random,
    (types, nullable, drawn): (Vec<DataType>, bool, Draw),
    batches: usize,
    rows_max: u64,
) {
    let keys = key_columns(&types, nullable);
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
        // What a table may not take it does without.
        match random.below(4) {
            0 => tables[which].allow(random.below(1 << 18) as usize),
            1 => _ = tables[which].settle(),
            _ => {}
        }
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
            2 => tables[which] = again(&tables[which], random),
            _ => {}
        }
    }
    for (table, model) in tables.iter().zip(&models) {
        assert_eq!(&read(table), model);
    }
}

/// How many cases of a property are tried: `PELTON_PROPERTY_CASES`, or as many as are usual; fewer where the machine is emulated.
fn cases(usual: u32, emulated: u32) -> u32 {
    if cfg!(miri) {
        return emulated;
    }
    std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(150, 16), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_holds_what_a_model_holds(seed in any::<u64>()) {
        let (batches, rows_max) = if cfg!(miri) { (6, 40) } else { (24, 600) };
        check(seed, batches, rows_max);
    }

    #[test]
    fn few_combinations_of_integers_are_found(seed in any::<u64>()) {
        let (batches, rows_max) = if cfg!(miri) { (40, 200) } else { (80, 600) };
        check_drawn(&mut Random(seed | 1), (key_types(10), seed % 8 == 0, Draw::Few), batches, rows_max);
    }
}

fn count_layout(data_type: DataType) -> Arc<EntryLayout> {
    let count = Accumulator::counting_rows();
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

/// Finds or makes entries of some keys, all different.
fn add_keys(table: &mut Table, keys: std::ops::Range<i64>) {
    let (mut entries, mut packed, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    let spread: Vec<i64> = keys.map(|key| key << 21).collect();
    match table.layout().keys() {
        KeyLayout::Packed { .. } => {
            let count = spread.len();
            let columns: [ArrayRef; 2] =
                [Arc::new(Int64Array::from(spread.clone())), Arc::new(Int64Array::from(spread))];
            table.find_or_insert_columns(&columns, KeyRows::Range(0..count), &mut entries, &mut packed, &mut hashes);
        }
        _ => table.find_or_insert_integers(&spread, &mut entries, &mut hashes),
    }
}

/// Layouts of tables that find keys by hash: one integer, and two.
fn hashed_layouts() -> [Arc<EntryLayout>; 2] {
    let key = || KeyColumn { data_type: DataType::Int64, nullable: false };
    [vec![key()], vec![key(), key()]].map(|keys| EntryLayout::new(&keys, &[Accumulator::counting_rows()]))
}

#[test]
fn a_table_that_may_not_double_fills_up_and_says_what_it_lacks() {
    for layout in hashed_layouts() {
        let mut table = Table::new(layout);
        add_keys(&mut table, 0..5_000);
        let bytes = table.bytes();
        table.allow(bytes / 2);
        // Seven of ten slots are enough where more are allowed.
        let slots = 1 << (bytes / table.layout().stride()).ilog2();
        let some = slots as i64 / 8 * 7;
        add_keys(&mut table, 5_000..some);
        add_keys(&mut table, some..some + 100);
        assert_eq!((table.groups() as i64, table.bytes()), (some + 100, bytes));
        assert_eq!(table.settle(), Some(slots * table.layout().stride()));
        // It takes that once it may,
        table.allow(bytes);
        add_keys(&mut table, some + 100..some + 200);
        assert_eq!((table.groups() as i64, table.settle()), (some + 200, None));
        assert!(table.bytes() >= 2 * bytes - 64);
        // and all the same where there is no other way: then nothing is lacking, but it must be counted.
        table.allow(0);
        add_keys(&mut table, some + 200..2 * some + 1_500);
        assert!(table.groups() as i64 == 2 * some + 1_500 && table.bytes() >= 4 * bytes - 192);
        assert_eq!(table.settle(), Some(0));
    }
}

#[test]
fn the_tables_of_a_block_take_what_they_may_together() {
    for layout in hashed_layouts() {
        let stride = layout.stride();
        let mut store = SliceStore::new(layout);
        let [a, b] = [10, 20].map(|end| SliceId::new(end, end - 10));
        let add = |store: &mut SliceStore, bytes: usize, parts: &[(SliceId, std::ops::Range<i64>)]| {
            let add = |store: &mut SliceStore| {
                parts.iter().for_each(|(slice, keys)| add_keys(store.table(*slice), keys.clone()));
                Ok::<(), ()>(())
            };
            let (added, must_count) = store.add_within(bytes, add);
            assert_eq!(added, Ok(()));
            (store.bytes(), must_count)
        };
        // 16,384 slots each: ten thousand keys fit.
        let (bytes, must_count) = add(&mut store, usize::MAX, &[(a, 0..10_000), (b, 0..10_000)]);
        assert!(!must_count && bytes >= 2 * 16_384 * stride, "what is not limited is not counted at once");
        let doubling = 16_384 * stride;
        // There is room for one to double. The other one fills up, also where the block comes back to it.
        let parts = [(a, 10_000..13_000), (b, 10_000..13_000), (a, 13_000..14_000), (b, 13_000..14_000)];
        assert_eq!(add(&mut store, doubling + 1_000, &parts), (bytes + 2 * doubling, true));
        // That has been counted, and so the other one may as well.
        let (grown, must_count) = add(&mut store, 0, &[(b, 14_000..14_100), (a, 14_000..14_100)]);
        assert!(must_count && (bytes + 2 * doubling).abs_diff(grown) < 64, "{grown}");
        assert_eq!(add(&mut store, 0, &[(a, 14_100..14_200), (b, 14_100..14_200)]), (grown, false));
    }
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
    let keys: Vec<i64> = (0..20_000).map(|key| key * 2).collect();
    // One slice is left alone: that keys crowded in it says that they may do so in the next.
    for is_dense in [false, true] {
        table.clear();
        table.find_or_insert_integers(&keys, &mut entries, &mut hashes);
        let mode = table.prepare_integers(0, 40_000, 1);
        assert_eq!(matches!(mode, IntegerMode::Dense { .. }), is_dense, "{mode:?}");
    }
    assert_eq!(table.groups(), 20_000);
    let all = table.entry_offsets();
    let read: Vec<i64> = table.key_array(0, &all).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(read, keys);
}

/// A thousand keys close together, and in some slices one far away behind them: in which of them that breaks entries side by side, with one table that is used again
/// and again, or one made of what the last has learnt.
fn broken_slices(slices: usize, is_reused: bool, permission: DenseKeys, breaks: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut table = Table::new(count_layout(DataType::Int64).with_dense_keys(permission));
    let keys: Vec<i64> = (0..1_000).collect();
    let find = |table: &mut Table, keys: &[i64]| {
        table.prepare_integers(keys[0], keys[keys.len() - 1], keys.len());
        table.find_or_insert_integers(keys, &mut Vec::new(), &mut Vec::new());
        matches!(table.integer_mode(), Some(IntegerMode::Dense { .. }))
    };
    let mut broken = Vec::new();
    for slice in 0..slices {
        find(&mut table, &keys);
        let was_dense = find(&mut table, &keys);
        if breaks(slice) && !find(&mut table, &[1 << 40]) && was_dense {
            broken.push(slice);
        }
        assert_eq!(table.groups(), if breaks(slice) { 1_001 } else { 1_000 });
        match is_reused {
            true => table.clear(),
            false => table = Table::with_hint(table.layout().clone(), table.hint()),
        }
    }
    broken
}

#[test]
fn what_breaks_dense_entries_in_each_slice_makes_attempts_rare() {
    for is_reused in [false, true] {
        let broken = broken_slices(200, is_reused, DenseKeys::WhereClose, |_| true);
        assert_eq!(broken, [0, 2, 5, 10, 19, 36, 69, 134, 199], "{is_reused}");
        // So do keys of which every other slice has none that breaks them,
        let every_other = broken_slices(200, is_reused, DenseKeys::WhereClose, |slice| slice % 2 == 0);
        assert!(every_other.len() < 12, "{is_reused}: {every_other:?}");
        // but not one slice now and then, which is forgotten.
        let seldom = broken_slices(200, is_reused, DenseKeys::WhereClose, |slice| slice % 40 == 0);
        assert_eq!(seldom, [0, 40, 80, 120, 160], "{is_reused}");
        // Who wants them wherever they may be has them.
        let pinned = broken_slices(50, is_reused, DenseKeys::WherePossible, |_| true);
        assert_eq!(pinned.len(), 50, "{is_reused}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "a million keys take too long")]
fn millions_of_keys_that_lie_close_become_dense_and_one_far_away_makes_them_hashed() {
    let mut table = Table::new(count_layout(DataType::Int64));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    let spread: Vec<i64> = (0..1 << 20).map(|key| key * 3 + 7).collect();
    for keys in spread.chunks(1 << 14) {
        table.prepare_integers(7, spread[spread.len() - 1], keys.len());
        table.find_or_insert_integers(keys, &mut entries, &mut hashes);
    }
    let held = |table: &Table| {
        let mut keys = table.key_array(0, &table.entry_offsets()).as_primitive::<Int64Type>().values().to_vec();
        keys.sort_unstable();
        keys
    };
    assert!(matches!(table.prepare_integers(-9, 3 << 20, 1), IntegerMode::Dense { .. }));
    assert_eq!(held(&table), spread);
    assert_eq!(table.prepare_integers(1 << 40, 1 << 40, 1), IntegerMode::Hash);
    assert_eq!(held(&table), spread);
    table.clear();
    assert_eq!(table.groups(), 0);
    let mut table = Table::with_hint(table.layout().clone(), table.hint());
    assert_eq!(table.prepare_integers(0, 1 << 40, 1), IntegerMode::Hash);
}

/// What a table had room for is not kept where keys are elsewhere now, however much memory there would be for it.
#[test]
fn few_keys_far_away_take_little() {
    let mut table = Table::new(count_layout(DataType::Int64));
    for first in [0, 100_000_000, -30_000_000, 200_000_000, 0] {
        let keys: Vec<i64> = (first..first + 500).collect();
        table.prepare_integers(first, first + 499, keys.len());
        table.find_or_insert_integers(&keys, &mut Vec::new(), &mut Vec::new());
        assert_eq!(table.groups(), 500);
        assert!(table.bytes() < 4 << 20, "{} bytes", table.bytes());
        table.clear();
    }
}

#[test]
#[cfg_attr(miri, ignore = "millions of keys take too long")]
fn a_long_range_is_dense_where_that_takes_little_more_memory() {
    let mut table = Table::new(count_layout(DataType::Int64));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    // Beyond 2^24 integers, of which a quarter must have come.
    let spread: Vec<i64> = (0..8_800_000).map(|key| key * 2 - 9).collect();
    let (last, first_rows) = (spread[spread.len() - 1], spread.len() / 2 - 1000);
    assert_eq!(table.prepare_integers(-9, last, first_rows), IntegerMode::Hash);
    table.find_or_insert_integers(&spread[..first_rows], &mut entries, &mut hashes);
    assert_eq!(table.prepare_integers(-9, last, spread.len() - first_rows), IntegerMode::Hash);
    table.find_or_insert_integers(&spread[first_rows..], &mut entries, &mut hashes);
    assert!(matches!(table.prepare_integers(-9, last, 1), IntegerMode::Dense { .. }));
    let held = table.key_array(0, &table.entry_offsets());
    assert_eq!(held.as_primitive::<Int64Type>().values().to_vec(), spread);
}

#[test]
fn integers_close_together_are_known_by_their_combination_until_one_is_far_away() {
    let key = |data_type| KeyColumn { data_type, nullable: false };
    let layout = EntryLayout::new(&[key(DataType::Int64), key(DataType::Int64)], &[Accumulator::counting_rows()]);
    let (mut entries, mut keys, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    let mut find = |table: &mut Table, from: i64, rows: i64, scale: i64| {
        let column = |divisor: i64| {
            Arc::new(Int64Array::from_iter_values((from..from + rows).map(|row| row / divisor % 10 * scale)))
        };
        let columns: [ArrayRef; 2] = [column(1), column(10)];
        table.find_or_insert_columns(&columns, KeyRows::Range(0..rows as usize), &mut entries, &mut keys, &mut hashes);
        (entries.clone(), table.keys_found())
    };
    let mut table = Table::new(layout.clone());
    let (first, found) = find(&mut table, 0, 500, 1);
    assert_eq!(found, Some(KeysFound::Among { combinations: 100 }));
    assert_eq!(find(&mut table, 0, 500, 1).0, first);
    let (far, found) = find(&mut table, 0, 500, 1 << 40);
    assert_eq!((found, table.keys_outside(), table.groups()), (Some(KeysFound::ByHash), 1, 199));
    assert_eq!(find(&mut table, 0, 500, 1 << 40).0, far);
    // What does not suit costs a look at few rows only, and is looked at again.
    table.clear();
    assert_eq!(find(&mut table, 0, 5, 1).1, None);
    assert_eq!(find(&mut table, 0, 2000, 1).1, Some(KeysFound::Among { combinations: 100 }));
    let mut forbidden = Table::new(layout.with_dense_keys(DenseKeys::Never));
    assert_eq!(find(&mut forbidden, 0, 500, 1).1, None);
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

/// The range before is no reason to hold all that lies between.
#[test]
fn a_cleared_table_leaves_a_range_far_from_its_new_keys() {
    let mut table = Table::new(count_layout(DataType::Int64));
    let (mut entries, mut hashes) = (Vec::new(), Vec::new());
    for (first, count) in [(-20_000, 20), (500_000, 1_000), (502_000, 1_000), (500, 3_000)] {
        let keys: Vec<i64> = (first..first + count).collect();
        let mode = table.prepare_integers(first, first + count - 1, keys.len());
        let IntegerMode::Dense { length, .. } = mode else { panic!("{mode:?}") };
        assert!(length <= 4 * keys.len(), "{length} entries for {count} keys from {first} on");
        table.find_or_insert_integers(&keys, &mut entries, &mut hashes);
        assert_eq!(table.groups(), keys.len());
        table.clear();
    }
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
    let string = Accumulator::new(Accumulate::Maximum, Some(DataType::Utf8View), false);
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

/// Adds groups, and says how their entries are found.
fn find(table: &mut Table, keys: &[i64]) -> IntegerMode {
    let mode = table.prepare_integers(*keys.iter().min().unwrap(), *keys.iter().max().unwrap(), keys.len());
    table.find_or_insert_integers(keys, &mut Vec::new(), &mut Vec::new());
    mode
}

/// The keys of all groups, ascending.
fn held(table: &Table) -> Vec<i64> {
    let mut keys = table.key_array(0, &table.entry_offsets()).as_primitive::<Int64Type>().values().to_vec();
    keys.sort_unstable();
    keys
}

/// Entries of many keys that lie side by side do not move at once where a key is far away: they stay where they are, and what comes then is in another table of the slice.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand keys take too long")]
fn many_keys_are_left_behind_where_one_is_far_away() {
    let layout = count_layout(DataType::Int64);
    let mut store = SliceStore::new(layout.clone());
    let near: Vec<i64> = (0..100_000).collect();
    let far: Vec<i64> = (0..100_000).step_by(2).chain([1 << 40]).collect();
    let slice = SliceId::new(10, 0);
    assert!(matches!(find(store.table(slice), &near), IntegerMode::Dense { .. }));
    let bytes = store.bytes();
    assert_eq!(find(store.table(slice), &far), IntegerMode::Hash);
    assert!(store.bytes() > bytes, "what was left behind is still there");

    let hint = store.table(slice).hint();
    let taken = store.take_until(10);
    assert!(taken.iter().map(|(id, table)| (*id, held(table))).eq([(slice, near.clone()), (slice, far)]));
    let [mut table, other] =
        <[Table; 2]>::try_from(taken.into_iter().map(|(_, table)| table).collect::<Vec<_>>()).unwrap();
    let mut rest = table.merge(other);
    assert_eq!(table.integer_mode(), Some(IntegerMode::Hash), "they are merged into the table that has room for all");
    assert!(held(&table).into_iter().eq((0..100_000).chain([1 << 40])));

    // Neither table, nor one that is made of what is known, is filled so again soon.
    for used in [&mut table, &mut rest] {
        used.clear();
        assert_eq!(find(used, &near), IntegerMode::Hash);
    }
    assert_eq!(find(&mut Table::with_hint(layout.clone(), hint), &near), IntegerMode::Hash);
}

/// Nor do those that are found by hash where their keys come to crowd.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of keys take too long")]
fn many_keys_are_left_behind_where_they_crowd() {
    let layout = count_layout(DataType::Int64);
    let mut store = SliceStore::new(layout.clone());
    let even: Vec<i64> = (0..1_200_000).step_by(2).collect();
    let slice = SliceId::new(10, 0);
    let sparse: Vec<i64> = even.iter().step_by(6).copied().collect();
    assert_eq!(find(store.table(slice), &sparse), IntegerMode::Hash);
    assert_eq!(find(store.table(slice), &even), IntegerMode::Hash, "that they crowd is noticed when more come");
    let odd = [5, 1_199_999, 1_300_001];
    assert!(matches!(find(store.table(slice), &odd), IntegerMode::Dense { .. }));
    // A wider range has few keys beside those that were left behind, and is as full as these make it.
    let wider = [-100_000, 2_000_000];
    assert!(matches!(find(store.table(slice), &wider), IntegerMode::Dense { .. }));

    let hint = store.table(slice).hint();
    let mut taken = store.take_until(10).into_iter().map(|(_, table)| table);
    let mut table = taken.next().unwrap();
    let mut rest = table.merge(taken.next().unwrap());
    assert!(matches!(table.integer_mode(), Some(IntegerMode::Dense { .. })));
    let mut all = even.iter().chain(&odd).chain(&wider).copied().collect::<Vec<_>>();
    all.sort_unstable();
    assert_eq!(held(&table), all);

    // What comes next is so from the first row on.
    let mut made = Table::with_hint(layout, hint);
    for used in [&mut table, &mut rest, &mut made] {
        used.clear();
        assert!(matches!(find(used, &even[500..600]), IntegerMode::Dense { .. }));
    }
}

/// Keys of a short range that do not crowd have entries side by side once so many rows have come that this pays, and from the first row on in the slice behind.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of rows take too long")]
fn keys_that_are_spread_have_entries_side_by_side_where_rows_are_many() {
    let layout = count_layout(DataType::Int64);
    let spread = |step: i64| (0..400_000).step_by(step as usize).collect::<Vec<_>>();
    let is_dense = |table: &mut Table, keys: &[i64]| matches!(find(table, keys), IntegerMode::Dense { .. });
    let mut table = Table::new(layout.clone());
    let keys = spread(10);
    // Nine bytes for each integer of the range, and as many rows as eight bytes each would make of them.
    let turns: Vec<bool> = (0..14).map(|_| is_dense(&mut table, &keys)).collect();
    assert!(turns.iter().copied().eq((1..=14).map(|turn| turn * keys.len() > 400_000 * 9 / 8)), "{turns:?}");
    assert_eq!(held(&table), keys);
    assert!(is_dense(&mut Table::with_hint(layout.clone(), table.hint()), &keys[7..9]));

    let mut seldom = Table::new(layout.clone());
    assert!(!(0..30).any(|_| is_dense(&mut seldom, &spread(20))), "keys are too far apart");
    assert!(!is_dense(&mut Table::with_hint(layout, seldom.hint()), &[0, 399_990]));
}

/// Where a key is far away in each slice, tables that are used again are filled so as seldom as those whose entries move are.
#[test]
#[cfg_attr(miri, ignore = "millions of keys take too long")]
fn what_is_left_behind_in_each_slice_makes_attempts_rare() {
    let mut store = SliceStore::new(count_layout(DataType::Int64));
    let near: Vec<i64> = (0..40_000).collect();
    let mut attempts = Vec::new();
    for slice in 0..40 {
        let table = store.table(SliceId::new(slice + 1, slice));
        // That keys crowd is noticed when more come.
        for keys in [&near[..], &near, &[1 << 40]] {
            attempts.extend(matches!(find(table, keys), IntegerMode::Dense { .. }).then_some(slice));
        }
        let mut taken = store.take_until(slice + 1).into_iter().map(|(_, table)| table);
        let mut table = taken.next().unwrap();
        let rest = taken.next().map(|other| table.merge(other));
        assert_eq!((table.groups(), taken.count()), (near.len() + 1, 0));
        for mut used in [table].into_iter().chain(rest) {
            used.clear();
            store.recycle(used);
        }
    }
    attempts.dedup();
    assert_eq!(attempts, [0, 2, 5, 10, 19, 36], "one slice goes by hash in between, then two, four, eight and sixteen");
}
