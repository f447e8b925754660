//! Buckets against a nested loop.

mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_data::batch_buffer::BatchBuffer;
use pelton_data::column::bytes_of;
use pelton_data::join::JoinKind;
use pelton_data::{TimeColumn, TimeRange};
use pelton_state::join::build::TableRows;
use pelton_state::join::matching::Retain;
use pelton_state::join::{Bucket, BucketBuild, BucketRow, Buckets, RowMatches, Shape, UNMATCHED};
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

/// A nested loop over rows and the rows that a bucket has.
fn nested_loop(
    (probed, selection, rows): (&[ArrayRef], Option<&[u32]>, usize),
    indexed: &[ArrayRef],
    keep_unmatched: bool,
) -> (Vec<u32>, Vec<u32>) {
    let (mut out_rows, mut out_matches) = (Vec::new(), Vec::new());
    for row in selection.map_or_else(|| (0..rows as u32).collect(), <[u32]>::to_vec) {
        let key = texts(probed, row as usize);
        let others = 0..indexed[0].len() as u32;
        let found = others.filter(|&other| key.is_some() && texts(indexed, other as usize) == key);
        let mut found: Vec<u32> = found.collect();
        if found.is_empty() && keep_unmatched {
            found.push(UNMATCHED);
        }
        out_rows.extend(found.iter().map(|_| row));
        out_matches.extend(found);
    }
    (out_rows, out_matches)
}

fn batch(types: &[DataType], columns: &[ArrayRef]) -> RecordBatch {
    let fields: Vec<Field> = types.iter().map(|data_type| Field::new("k", data_type.clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec()).unwrap()
}

/// A bucket that so many threads build, the last unit of each step first.
fn built(batches: Vec<RecordBatch>, key_columns: &[usize], workers: usize) -> Bucket {
    let (schema, mut rows) = (batches[0].schema(), BatchBuffer::default());
    batches.into_iter().for_each(|batch| rows.push(batch));
    let mut build = BucketBuild::new(schema, rows, key_columns, None);
    while !build.is_built() {
        build.units(workers).into_iter().rev().for_each(|unit| unit());
        build.advance().unwrap();
    }
    let bytes = build.bytes(workers);
    let bucket = build.finish();
    assert_eq!(bytes, bucket.bytes(), "the last bytes are those of the bucket");
    bucket
}

/// A bucket of batches that are appended to each other.
fn loaded(batches: &[RecordBatch], key_columns: &[usize]) -> Bucket {
    let mut rows = TableRows::new(batches[0].schema());
    batches.iter().for_each(|batch| rows.push(batch).unwrap());
    assert_eq!(rows.rows(), batches.iter().map(RecordBatch::num_rows).sum::<usize>());
    BucketBuild::of_table(rows, key_columns).complete().unwrap()
}

/// Of each row as many matches are counted as there are pairs of it, and no row has more than there may be.
fn check_counts(buckets: &Buckets, found: &RowMatches, (rows, of_pairs): (usize, &[u32])) {
    let most = buckets.buckets().iter().map(|bucket| bucket.matches_max()).sum::<usize>();
    for row in 0..rows {
        let expected = of_pairs.iter().filter(|of_pair| **of_pair as usize == row).count();
        assert_eq!(found.count(row), expected);
        assert!(expected <= most);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 12 } else { 200 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_bucket_finds_what_a_nested_loop_finds(seed in 1u64.., kind in 0usize..6, keep_unmatched: bool) {
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
        let batch = batch(types, &indexed);
        let key_columns: Vec<usize> = (0..types.len()).collect();
        let bucket = Bucket::new(batch.clone(), &key_columns);
        let listed: Vec<u32> = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
        let selection = (random.below(2) == 0).then_some(listed.as_slice());

        let (expected_rows, expected_matches) = nested_loop((&probed, selection, rows), &indexed, keep_unmatched);
        let (mut out_rows, mut out_matches) = (vec![9], vec![9]);
        bucket.probe(&probed, selection, rows, keep_unmatched, &mut out_rows, &mut out_matches);
        prop_assert_eq!(&out_rows, &expected_rows);
        prop_assert_eq!(&out_matches, &expected_matches);
        for workers in 1..=4 {
            prop_assert_eq!(format!("{:?}", built(vec![batch.clone()], &key_columns, workers)), format!("{bucket:?}"));
        }
        let cut = random.below(held as u64 + 1) as usize;
        let parts = vec![batch.slice(0, cut), batch.slice(cut, held - cut)];
        let of_parts = built(parts.clone(), &key_columns, 2);
        of_parts.probe(&probed, selection, rows, keep_unmatched, &mut out_rows, &mut out_matches);
        prop_assert_eq!((&out_rows, &out_matches), (&expected_rows, &expected_matches));
        prop_assert_eq!((of_parts.columns(), of_parts.shape()), (&batch, bucket.shape()));

        prop_assert_eq!(format!("{:?}", loaded(&parts, &key_columns)), format!("{of_parts:?}"));

        // As several buckets: the rows of the first come before those of the second, as they do in one.
        let buckets = Buckets::new(parts.into_iter().map(|part| Arc::new(Bucket::new(part, &key_columns))).collect());
        let of_one = |row: &u32| match *row {
            UNMATCHED => BucketRow::UNMATCHED,
            row if (row as usize) < cut => BucketRow { bucket: 0, row },
            row => BucketRow { bucket: 1, row: row - cut as u32 },
        };
        let found = buckets.find(&probed, rows);
        let (mut search, mut found_rows, mut found_matches) = (buckets.search(&found, rows), Vec::new(), Vec::new());
        let mut pairs = (vec![9], vec![BucketRow { bucket: 9, row: 9 }]);
        while search.next_pairs(3, &mut pairs.0, &mut pairs.1) {
            prop_assert!(pairs.0.len() <= 3);
            found_rows.append(&mut pairs.0);
            found_matches.append(&mut pairs.1);
        }
        let (all_rows, all_matches) = nested_loop((&probed, None, rows), &indexed, false);
        check_counts(&buckets, &found, (rows, &all_rows));
        prop_assert_eq!(&found_rows, &all_rows);
        prop_assert_eq!(&found_matches, &all_matches.iter().map(of_one).collect::<Vec<_>>());
        let out_matches: Vec<BucketRow> = expected_matches.iter().map(of_one).collect();
        let taken = buckets.take(0, &out_matches).unwrap();
        let text = |column: &ArrayRef, row: usize| texts(std::slice::from_ref(column), row);
        let expected = expected_matches.iter().map(|&row| if row == UNMATCHED { None } else { text(&indexed[0], row as usize) });
        prop_assert!((0..taken.len()).map(|row| text(&taken, row)).eq(expected));
        if let Some(places) = bucket.dense() {
            prop_assert!(bucket.shape().is_unique);
            for (place, row) in (0..places.length).map(|place| (place, places.row(place))).filter(|(_, row)| *row != UNMATCHED) {
                let key = (places.base + place as i64).to_string();
                let held = texts(&indexed, row as usize).unwrap().remove(0);
                prop_assert_eq!(held.replace("false", "0").replace("true", "1"), key);
            }
        }
    }
}

/// What a nested loop makes of pairs of equal keys, of all pairs where there are no keys, that meet a condition.
fn nested_join(
    (probed, indexed): (&[ArrayRef], &[ArrayRef]),
    (rows, held): (u32, u32),
    kind: JoinKind,
    meets: &impl Fn(u32, u32) -> bool,
) -> (Vec<u32>, Vec<u32>) {
    let mut out = (Vec::new(), Vec::new());
    for row in 0..rows {
        let key = texts(probed, row as usize);
        let is_equal = |other: u32| key.is_some() && texts(indexed, other as usize) == key;
        let matches = (0..held).filter(|&other| is_equal(other) && meets(row, other)).collect::<Vec<_>>();
        let leaving = match (kind, matches.as_slice()) {
            (JoinKind::Left | JoinKind::Full | JoinKind::Anti, []) => vec![UNMATCHED],
            (JoinKind::Anti, _) => Vec::new(),
            (JoinKind::Semi, matches) => matches.iter().take(1).copied().collect(),
            (_, matches) => matches.to_vec(),
        };
        out.0.extend(leaving.iter().map(|_| row));
        out.1.extend(leaving);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 60 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_bucket_joins_as_a_nested_loop_does(seed in 1u64.., has_key: bool, has_condition: bool, modulus in 1u32..4) {
        let random = &mut Random(seed);
        let (held, rows) = (random.below(300) as usize, random.below(200) as usize);
        let spread = random.below(2) == 0;
        let [indexed, probed] = [held, rows].map(|rows| vec![column(random, &DataType::Int64, rows, spread, 9)]);
        let key_columns: &[usize] = if has_key { &[0] } else { &[] };
        let bucket = built(vec![batch(&[DataType::Int64], &indexed)], key_columns, 2);
        let keys = if has_key { probed } else { Vec::new() };
        let indexed = if has_key { indexed } else { Vec::new() };
        let meets = |row: u32, other: u32| !has_condition || (row * 7 + other * 3) % 4 < modulus;
        for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti] {
            let mut retain = |rows: &mut Vec<u32>, matches: &mut Vec<u32>| {
                let pairs = rows.drain(..).zip(matches.drain(..)).filter(|&(row, other)| meets(row, other));
                let (kept_rows, kept_matches): (Vec<u32>, Vec<u32>) = pairs.unzip();
                (*rows, *matches) = (kept_rows, kept_matches);
                Ok::<(), ()>(())
            };
            let retain: Option<Retain<'_, ()>> = has_condition.then_some(&mut retain);
            let (mut out_rows, mut out_matches) = (vec![9], vec![9]);
            bucket.join((&keys, rows), kind, retain, &mut out_rows, &mut out_matches).unwrap();
            let expected = nested_join((&keys, &indexed), (rows as u32, held as u32), kind, &meets);
            prop_assert_eq!((out_rows, out_matches), expected, "{:?}", kind);
        }
    }
}

/// A table of several partitions.
/// Where one match decides, few of many candidates are tested.
#[test]
fn candidates_behind_the_first_match_are_not_tested() {
    let held: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let bucket = Bucket::new(batch(&[DataType::Int64], &[held]), &[]);
    for (kind, leaving) in [(JoinKind::Semi, 1_000), (JoinKind::Anti, 0)] {
        let mut tested = 0;
        let mut retain = |rows: &mut Vec<u32>, _: &mut Vec<u32>| {
            tested += rows.len();
            Ok::<(), ()>(())
        };
        let (mut out_rows, mut out_matches) = (Vec::new(), Vec::new());
        bucket.join((&[], 1_000), kind, Some(&mut retain), &mut out_rows, &mut out_matches).unwrap();
        assert_eq!(out_rows.len(), leaving, "{kind:?}");
        assert!(tested <= 10_000, "{tested} pairs of 1,000 rows were tested");
    }
}

fn large(rows: usize, distinct: u64, text: bool) -> RecordBatch {
    let random = &mut Random(7);
    let keys = (0..rows).map(|_| (random.below(distinct) as i64).wrapping_mul(0x1_0000_0001));
    let keys: ArrayRef = if text {
        Arc::new(keys.map(|key| Some(format!("a key that is long: {key}"))).collect::<StringViewArray>())
    } else {
        Arc::new(Int64Array::from_iter_values(keys))
    };
    let times: ArrayRef =
        Arc::new(TimestampMillisecondArray::from_iter_values((0..rows as i64).map(|row| 70_000 - row)));
    RecordBatch::try_from_iter([("k", keys), ("t", times)]).unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn large_buckets_do_not_depend_on_the_number_of_threads() {
    for (distinct, text) in [(1 << 40, false), (5_000, false), (5_000, true)] {
        let rows = large(60_000, distinct, text);
        let one = Bucket::new(rows.clone(), &[0]);
        assert_eq!(one.shape(), Shape { is_unique: distinct > 5_000, ..Shape::default() });
        let printed = format!("{one:?}");
        assert!((2..=4).all(|workers| format!("{:?}", built(vec![rows.clone()], &[0], workers)) == printed));
        let (mut found, mut matches) = (Vec::new(), Vec::new());
        one.probe(&[rows.column(0).clone()], None, 60_000, false, &mut found, &mut matches);
        let keys: Vec<String> = (0..60_000).map(|row| texts(&rows.columns()[..1], row).unwrap().remove(0)).collect();
        let mut expected: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        keys.iter().zip(0..).for_each(|(key, row)| expected.entry(key.as_str()).or_default().push(row));
        let expected_matches = keys.iter().flat_map(|key| expected[key.as_str()].clone());
        assert!(matches.iter().copied().eq(expected_matches));
        let expected_rows = keys.iter().zip(0..).flat_map(|(key, row)| vec![row; expected[key.as_str()].len()]);
        assert!(found.iter().copied().eq(expected_rows));
    }
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn dense_keys_with_several_rows_each_are_found_in_order() {
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values((0..50_000).map(|row| row * 7 % 1_000 - 500)));
    let rows = RecordBatch::try_from_iter([("k", keys)]).unwrap();
    let one = Bucket::new(rows.clone(), &[0]);
    assert_eq!((one.shape(), one.dense()), (Shape { is_dense: true, ..Shape::default() }, None));
    let printed = format!("{one:?}");
    assert!((2..=4).all(|workers| format!("{:?}", built(vec![rows.clone()], &[0], workers)) == printed));
    let probed: ArrayRef = Arc::new(Int32Array::from(vec![Some(-501), Some(493), None, Some(500)]));
    let (mut found, mut matches) = (Vec::new(), Vec::new());
    one.probe(&[probed], None, 4, true, &mut found, &mut matches);
    let of_493 = (0..50_000).filter(|row| row * 7 % 1_000 == 993);
    let expected = std::iter::once(UNMATCHED).chain(of_493).chain([UNMATCHED; 2]);
    assert!(matches.iter().copied().eq(expected));
    assert_eq!((found[0], found[1], found[found.len() - 2..].to_vec()), (0, 1, vec![2, 3]));
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn memory_is_known_before_each_step() {
    let rows = large(60_000, 1 << 40, false);
    let mut kept = BatchBuffer::default();
    kept.push(rows.slice(0, 30_000));
    kept.push(rows.slice(30_000, 30_000));
    let mut build = BucketBuild::new(rows.schema(), kept, &[0], None);
    let (mut steps, columns) = (Vec::new(), 60_000 * 16);
    while !build.is_built() {
        steps.push(build.bytes(2) - columns);
        build.units(2).into_iter().for_each(|unit| unit());
        build.advance().unwrap();
    }
    let built = build.bytes(2) - columns;
    let [copies, extents, counts, divided, keys, slots] = steps[..] else { panic!("{steps:?}") };
    // Both columns are there twice, where two threads put them together; a divided row has a word and a number, and a key two slots of 16 bytes.
    assert_eq!((copies, extents, counts, divided), (columns, 0, 0, 60_000 * 12));
    assert!((divided..divided + 2 * 32 * 60_000).contains(&keys), "{keys}");
    assert!((60_000 * 32 + 4 * 16..60_000 * (12 + 32) + 4 * 16).contains(&slots), "{slots}: rows are given back");
    assert_eq!(built, build.finish().bytes() - columns);
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn the_rows_of_a_table_are_there_once_while_it_is_loaded() {
    let rows = large(300_000, 1 << 40, false);
    let mut loaded = TableRows::new(rows.schema());
    (0..30).for_each(|part| loaded.push(&rows.slice(part * 10_000, 10_000)).unwrap());
    let columns = 300_000 * 16;
    assert_eq!((loaded.rows(), loaded.bytes()), (300_000, columns));
    let mut build = BucketBuild::of_table(loaded, &[0]);
    assert_eq!(build.bytes(2), columns, "no column is copied");
    while !build.is_built() {
        build.units(2).into_iter().for_each(|unit| unit());
        build.advance().unwrap();
    }
    let bucket = build.finish();
    assert_eq!(bucket.columns(), &rows);
    assert!((columns + 300_000 * 32..columns + 300_000 * 36).contains(&bucket.bytes()), "{}", bucket.bytes());
}

#[test]
fn a_bucket_knows_the_times_of_its_rows() {
    let rows = if cfg!(miri) { 100 } else { 60_000 };
    let batch = large(rows, 100, false);
    let built = |batch: RecordBatch| {
        let (schema, mut kept) = (batch.schema(), BatchBuffer::default());
        kept.push(batch);
        let time = TimeColumn::new(1, schema.field(1).data_type());
        BucketBuild::new(schema, kept, &[0], time).complete().unwrap()
    };
    let range = TimeRange { min: (70_001 - rows as i64) * 1_000, max: 70_000_000 };
    assert_eq!((built(batch.clone()).times(), built(batch.slice(0, 0)).times()), (Some(range), None));
    assert_eq!(Bucket::new(batch, &[0]).times(), None);
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rows_in_the_order_of_their_keys_need_no_index() {
    let shape = |keys: Vec<Option<i64>>, workers: usize| {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        let bucket = built(vec![RecordBatch::try_from_iter([("k", keys)]).unwrap()], &[0], workers);
        (bucket.shape(), bucket.bytes() - bytes_of(bucket.columns()))
    };
    let rows = 40_000;
    let in_order = Shape { is_dense: true, is_unique: true, is_in_order: true };
    let index = |elements: usize| (Shape { is_in_order: false, ..in_order }, 4 * elements);
    for workers in 1..=3 {
        assert_eq!(shape((-7..rows).map(Some).collect(), workers), (in_order, 0));
        assert_eq!(shape(vec![Some(i64::MAX)], workers), (in_order, 0));
        let with_gap = (0..rows).map(|row| Some(row + i64::from(row == rows - 1)));
        assert_eq!(shape(with_gap.collect(), workers), index(rows as usize + 1));
        let swapped = (0..rows).map(|row| Some(if row < 2 { 1 - row } else { row }));
        assert_eq!(shape(swapped.collect(), workers), index(rows as usize));
        let without_last = (0..rows).map(Some).chain([None]);
        assert_eq!(shape(without_last.collect(), workers), index(rows as usize));
        assert!(!shape((0..rows).map(|row| Some(row / 2)).collect(), workers).0.is_unique);
    }
}
