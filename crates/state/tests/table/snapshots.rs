//! State made again of its snapshots.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::DataType;
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn, position};
use pelton_state::snapshot::{Snapshot, restore, take, with_hash};
use pelton_state::table::{AccumulatorSlot, Entries, EntryLayout, GroupedValues, Positions, Table};
use proptest::prelude::*;

use super::model::{Draw, Random, column, draw, entries_of_rows, key_columns, key_types, keys_of_rows, texts};

/// State that is made of a snapshot. Copies of the snapshot that are spoiled are refused; where their hash is right, nothing panics.
pub fn again<S: Snapshot>(state: &S, new: impl Fn() -> S, random: &mut Random) -> S {
    let bytes = take(state).unwrap();
    for _ in 0..3 {
        let mut spoiled = bytes.clone();
        match random.below(3) {
            0 => spoiled.truncate(random.below(bytes.len() as u64) as usize),
            _ => spoiled[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8),
        }
        assert!(restore(&mut new(), &spoiled).is_err());
        spoiled.truncate(spoiled.len().saturating_sub(8));
        drop(restore(&mut new(), &with_hash(spoiled)));
    }
    let mut made = new();
    restore(&mut made, &bytes).unwrap();
    made
}

/// The same state, or now and then such a one.
pub fn sometimes_again<S: Snapshot>(state: S, new: impl Fn() -> S, random: &mut Random) -> S {
    if random.below(4) > 0 { state } else { again(&state, new, random) }
}

fn stored() -> Vec<Accumulator> {
    use Accumulate::*;
    let of = |accumulate, data_type| Accumulator::new(accumulate, Some(data_type), true);
    let decimal = DataType::Decimal128(38, 2);
    vec![
        Accumulator::counting_rows(),
        of(Values, DataType::Utf8View),
        of(Arrivals, DataType::Utf8View),
        of(Values, DataType::Boolean),
        of(Distinct { is_ordered: true }, DataType::Utf8View),
        of(Distinct { is_ordered: false }, DataType::Int64),
        of(Frequencies, DataType::Float64),
        of(DistinctSketch, DataType::Int64),
        of(First, DataType::Utf8View),
        of(Last, DataType::Utf8View),
        of(First, DataType::Int32),
        of(Last, decimal),
        of(Maximum, DataType::Utf8View),
    ]
}

/// Lets drawn values reach all accumulators of drawn keys.
fn add(table: &mut Table, types: &[DataType], position: u64, random: &mut Random) -> u64 {
    let rows = 1 + random.below(80) as usize;
    let mut drawn = |count: usize| -> Vec<Option<i64>> {
        (0..count).map(|_| (random.below(4) > 0).then(|| draw(random, Draw::Near, 0))).collect()
    };
    let (keys, values) = (drawn(rows), drawn(rows));
    let columns: Vec<ArrayRef> = types.iter().map(|data_type| column(data_type, &keys)).collect();
    let entries = entries_of_rows(table, &columns, rows);
    let layout = table.layout().clone();
    let positions = Positions::From(position);
    for (slot, AccumulatorSlot { accumulator, .. }) in layout.accumulators().iter().enumerate().skip(1) {
        let values = column(accumulator.argument_type.as_ref().unwrap(), &values);
        if accumulator.accumulate.has_store() {
            table.update_store(slot, Entries::Each(&entries), &values, positions);
        } else if accumulator.accumulate == Accumulate::Maximum {
            table.update_string_extreme(slot, &entries, values.as_string_view(), None);
        } else {
            table.update_arrivals(slot, entries.iter().copied().enumerate(), &values, positions);
        }
    }
    position + rows as u64
}

/// What a table keeps of each group, in words. Values of sets are in any order.
fn kept(table: &Table, keys: usize) -> BTreeMap<Vec<Option<String>>, Vec<String>> {
    let entries = table.entry_offsets();
    let columns: Vec<ArrayRef> = (0..keys).map(|key| table.key_array(key, &entries)).collect();
    let mut groups: Vec<Vec<String>> = vec![Vec::new(); entries.len()];
    for (slot, AccumulatorSlot { accumulator, .. }) in table.layout().accumulators().iter().enumerate() {
        if !accumulator.accumulate.has_store() {
            let values = texts(&table.accumulator_array(slot, &entries));
            groups.iter_mut().zip(values).for_each(|(group, value)| group.push(format!("{value:?}")));
            continue;
        }
        let kept = table.value_groups(slot);
        let (each, chosen) = (kept.counts((&entries).into()), (&entries).into());
        groups.iter_mut().zip(&each).for_each(|(group, count)| group.push(count.to_string()));
        if accumulator.accumulate == Accumulate::DistinctSketch {
            continue;
        }
        let GroupedValues { offsets, values } = kept.of(chosen);
        let beside: Vec<i64> = match accumulator.accumulate {
            Accumulate::Distinct { is_ordered: true } | Accumulate::Arrivals => {
                kept.positions(chosen).into_iter().map(|position| position as i64).collect()
            }
            Accumulate::Frequencies => kept.frequencies(chosen).unwrap(),
            _ => vec![0; values.len()],
        };
        let mut values: Vec<_> = texts(&values).into_iter().zip(beside).collect();
        for (group, place) in groups.iter_mut().zip(offsets.windows(2)) {
            let of_group = &mut values[place[0]..place[1]];
            if !matches!(accumulator.accumulate, Accumulate::Values | Accumulate::Arrivals) {
                of_group.sort();
            }
            group.push(format!("{of_group:?}"));
        }
    }
    keys_of_rows(&columns, entries.len()).into_iter().zip(groups).collect()
}

/// What is kept beside entries goes on in a table that is made again as it does in the one that it was taken of.
fn check_stored(seed: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(14) as usize);
    let keys = key_columns(&types, true);
    let layout = EntryLayout::new(&keys, &stored());
    let (mut table, mut position) = (Table::new(layout.clone()), position(0, 0));
    let mut made = Table::new(layout.clone());
    for _ in 0..8 {
        let mut same = Random(random.next() | 1);
        add(&mut table, &types, position, &mut Random(same.0));
        position = add(&mut made, &types, position, &mut same);
        if random.below(2) == 0 {
            made = again(&made, || Table::new(layout.clone()), random);
        }
        if random.below(4) == 0 {
            // A list holds the same groups in their order.
            let mut list = Table::list(layout.clone());
            list.append(&made, &made.entry_offsets());
            assert_eq!(
                kept(&again(&list, || Table::list(layout.clone()), random), types.len()),
                kept(&made, types.len())
            );
        }
    }
    assert_eq!(kept(&made, types.len()), kept(&table, types.len()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(60, 2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_beside_entries_is_in_snapshots(seed in any::<u64>()) {
        check_stored(seed);
    }
}

#[test]
fn a_snapshot_is_of_one_kind_of_groups() {
    let layout =
        |data_type| EntryLayout::new(&[KeyColumn { data_type, nullable: false }], &[Accumulator::counting_rows()]);
    let bytes = take(&Table::new(layout(DataType::Int64))).unwrap();
    let error = restore(&mut Table::new(layout(DataType::Int32)), &bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "byte 43 of the snapshot: expected groups by (Int32) with (Count), found groups by (Int64) with (Count)"
    );
}
