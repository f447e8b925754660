//! Join indexes against a nested loop.

mod random;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_state::join_index::{JoinIndex, UNMATCHED};
use proptest::prelude::*;

use random::Random;

/// A key column: some values are NULL, some far apart where `spread`.
fn column(random: &mut Random, data_type: &DataType, rows: usize, spread: bool, distinct: u64) -> ArrayRef {
    let far = [i64::MIN, i64::MAX, 0x5eb7_1a0d_c3f2_9e61, 1 << 40];
    let values: Vec<Option<i64>> = (0..rows)
        .map(|_| {
            let value = random.below(distinct) as i64;
            let value = if spread { far.get(value as usize).copied().unwrap_or(value << 33) } else { value - 3 };
            (random.below(6) > 0).then_some(value)
        })
        .collect();
    let values = values.into_iter();
    match data_type {
        DataType::Int64 => Arc::new(values.collect::<Int64Array>()),
        DataType::Int32 => Arc::new(values.map(|v| v.map(|v| (v >> 33) as i32)).collect::<Int32Array>()),
        DataType::Boolean => Arc::new(values.map(|v| v.map(|v| v & 1 == 1)).collect::<BooleanArray>()),
        _ => {
            let text =
                |value: i64| if value & 1 == 1 { format!("k{value}") } else { format!("a long key {value:>20}") };
            Arc::new(values.map(|v| v.map(text)).collect::<StringViewArray>())
        }
    }
}

fn texts(columns: &[ArrayRef], row: usize) -> Option<Vec<String>> {
    let options = FormatOptions::default();
    let text = |column: &ArrayRef| {
        let formatter = ArrayFormatter::try_new(column, &options).unwrap();
        column.is_valid(row).then(|| formatter.value(row).to_string())
    };
    columns.iter().map(text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 12 } else { 200 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn an_index_finds_what_a_nested_loop_finds(seed in 1u64.., kind in 0usize..6, keep_unmatched: bool) {
        use DataType::{Boolean, Int32, Int64, Utf8View};
        let random = &mut Random(seed);
        let types = [
            vec![Int64], vec![Int32], vec![Boolean], vec![Utf8View], vec![Int64, Utf8View], vec![Utf8View, Int32, Boolean],
        ];
        let types = &types[kind];
        let spread = random.below(2) == 0;
        let distinct = 1 + random.below(60);
        let (held, rows) = (random.below(40) as usize, random.below(40) as usize);
        let mut draw = |rows| -> Vec<ArrayRef> {
            types.iter().map(|data_type| column(random, data_type, rows, spread, distinct)).collect()
        };
        let (indexed, probed) = (draw(held), draw(rows));
        let fields: Vec<Field> = types.iter().map(|data_type| Field::new("k", data_type.clone(), true)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), indexed.clone()).unwrap();
        let index = JoinIndex::new(batch, &(0..types.len()).collect::<Vec<_>>());
        let listed: Vec<u32> = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
        let selection = (random.below(2) == 0).then_some(listed.as_slice());

        let (mut expected_rows, mut expected_matches) = (Vec::new(), Vec::new());
        for row in selection.map_or_else(|| (0..rows as u32).collect(), <[u32]>::to_vec) {
            let key = texts(&probed, row as usize);
            let found = (0..held as u32).filter(|&other| key.is_some() && texts(&indexed, other as usize) == key);
            let mut found: Vec<u32> = found.collect();
            if found.is_empty() && keep_unmatched {
                found.push(UNMATCHED);
            }
            expected_rows.extend(found.iter().map(|_| row));
            expected_matches.extend(found);
        }
        let (mut out_rows, mut out_matches) = (vec![9], vec![9]);
        index.probe(&probed, selection, rows, keep_unmatched, &mut out_rows, &mut out_matches);
        prop_assert_eq!(&out_rows, &expected_rows);
        prop_assert_eq!(&out_matches, &expected_matches);
        if let Some((base, places)) = index.dense() {
            prop_assert!(index.is_unique());
            for (place, &row) in places.iter().enumerate().filter(|(_, row)| **row != UNMATCHED) {
                let key = (base + place as i64).to_string();
                let held = texts(&indexed, row as usize).unwrap().remove(0);
                prop_assert_eq!(held.replace("false", "0").replace("true", "1"), key);
            }
        }
    }
}
