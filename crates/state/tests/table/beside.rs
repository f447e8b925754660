//! Tables whose entries lie side by side and are one sum each, added to each other.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_state::table::{EntryLayout, IntegerMode, Table};
use proptest::prelude::*;

use super::model::Random;

type Sums = BTreeMap<Option<i64>, i64>;

/// Adds rows as compiled code does: it touches the byte of an entry only where the sum comes to what it was at first.
fn add(table: &mut Table, sums: &mut Sums, rows: &[(Option<i64>, i64)]) {
    let offset = table.layout().accumulators()[0].offset;
    let keys = || rows.iter().filter_map(|(key, _)| *key);
    let (Some(minimum), Some(maximum)) = (keys().min(), keys().max()) else { return };
    let mode = table.prepare_integers(minimum, maximum, rows.len());
    let IntegerMode::Dense { base, .. } = mode else { panic!("the keys lie close together") };
    let present = table.dense_present();
    for &(key, value) in rows {
        *sums.entry(key).or_default() += value;
        let Some(key) = key else {
            let entry = table.null_entry() as usize;
            // SAFETY: the entry is one that the table has just given, and its sum is a word.
            unsafe { *table.base().add(entry * 8 + offset).cast::<i64>() += value };
            continue;
        };
        let slot = (key - base) as usize;
        // SAFETY: the table has an entry of one word, and a byte, for each key that it was prepared for.
        unsafe {
            let sum = table.base().add(slot * 8 + offset).cast::<i64>();
            *sum += value;
            if *sum == 0 {
                *present.add(slot) = 1;
            }
        }
    }
}

fn read(table: &Table) -> Sums {
    let entries = table.entry_offsets();
    assert_eq!(entries.len(), table.groups());
    let (keys, sums) = (table.key_array(0, &entries), table.accumulator_array(0, &entries));
    let (keys, sums) = (keys.as_primitive::<Int64Type>(), sums.as_primitive::<Int64Type>());
    (0..keys.len()).map(|at| (keys.is_valid(at).then(|| keys.value(at)), sums.value(at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(200, 4), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_group_is_lost_whose_sum_comes_to_nothing(seed in any::<u64>()) {
        let random = &mut Random(seed | 1);
        let key = KeyColumn { data_type: DataType::Int64, nullable: true };
        let layout = EntryLayout::new(&[key], &[Accumulator::new(Accumulate::SumInteger, Some(DataType::Int64), false)]);
        let mut tables = [Table::new(layout.clone()), Table::new(layout.clone())];
        // Some are merged a part at a time.
        let range = if random.below(4) == 0 { 6_000 } else { 40 };
        for _ in 0..3 {
            let mut sums = [Sums::new(), Sums::new()];
            for (table, sums) in tables.iter_mut().zip(&mut sums) {
                let first = random.below(range) as i64 - 20;
                let row = |random: &mut Random| {
                    let key = (random.below(16) > 0).then(|| first + random.below(range) as i64);
                    (key, random.below(3) as i64 - 1)
                };
                for _ in 0..1 + random.below(3) {
                    let rows: Vec<_> = (0..random.below(4 * range)).map(|_| row(random)).collect();
                    add(table, sums, &rows);
                }
                prop_assert_eq!(&read(table), sums);
            }
            let [mut all, other] = tables;
            let mut other = all.merge(other);
            let [mut expected, others] = sums;
            others.into_iter().for_each(|(key, sum)| *expected.entry(key).or_default() += sum);
            prop_assert_eq!(&read(&all), &expected);
            all.clear();
            other.clear();
            prop_assert_eq!((all.groups(), other.groups()), (0, 0));
            tables = [all, other];
        }
    }
}
