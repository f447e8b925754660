//! Large windows against a model that counts by key.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Int64Type, Schema};
use pelton_data::join::{JoinColumn, JoinKind, JoinSide, JoinSpec, JoinTime, Side};
use pelton_data::window::Window;

use super::*;
use crate::join::streams::{WindowJoin, WindowPairs};
use crate::slice::SliceId;

const SIZE: i64 = 1_000_000;

const BATCH_ROWS: usize = 10_000;

/// Numbers of keys of both sides.
type Keys = [Vec<Option<u64>>; 2];

fn scattered(rows: usize, keys: u64, seed: u64) -> Vec<Option<u64>> {
    let key = |row: u64| {
        (row ^ seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20
    };
    (0..rows as u64).map(|row| (row % 97 > 0).then_some(key(row) % keys)).collect()
}

/// Columns: a key, the number of the row, and whether that is even.
fn batches(keys: &[Option<u64>], array: &dyn Fn(&[Option<u64>]) -> ArrayRef) -> Vec<RecordBatch> {
    let batch = |(number, keys): (usize, &[Option<u64>])| {
        let numbers = (0..keys.len()).map(|row| (number * BATCH_ROWS + row) as i64);
        let numbers = Int64Array::from_iter_values(numbers);
        let are_even: BooleanArray =
            numbers.values().iter().map(|number| (number % 3 > 0).then_some(number % 2 == 0)).collect();
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("key", array(keys), true),
            ("number", Arc::new(numbers), false),
            ("is_even", Arc::new(are_even), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    keys.chunks(BATCH_ROWS).enumerate().map(batch).collect()
}

fn spec(kind: JoinKind, side: &RecordBatch) -> Arc<JoinSpec> {
    let sides = if kind.has_pairs() { Side::BOTH.as_slice() } else { &Side::BOTH[..1] };
    let columns = sides.iter().flat_map(|&side| [JoinColumn::Of(side, 1), JoinColumn::Of(side, 2)]);
    let columns: Vec<JoinColumn> = columns.collect();
    let field = |(at, column): (usize, &JoinColumn)| match column {
        JoinColumn::Of(_, column) => {
            side.schema().field(*column).clone().with_name(format!("c{at}")).with_nullable(true)
        }
        JoinColumn::Window(..) => unreachable!("none is of a window"),
    };
    let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<Field>>());
    let windows = Window::Tumbling { size: SIZE, offset: 0 };
    Arc::new(JoinSpec {
        kind,
        time: JoinTime::Windows { sides: [windows, windows], bounds: windows },
        sides: [0, 1].map(|_| JoinSide { schema: side.schema(), keys: vec![0], time: None }),
        schema: Arc::new(schema),
        columns,
        output_time: None,
    })
}

/// The numbers of the rows of what leaves, sorted; and in how many passes they were joined.
fn joined(kind: JoinKind, keys: &Keys, array: &dyn Fn(&[Option<u64>]) -> ArrayRef) -> (Vec<[Option<i64>; 2]>, usize) {
    let sides = keys.each_ref().map(|keys| batches(keys, array));
    let mut join = WindowJoin::new(spec(kind, &sides[0][0]));
    for (side, batches) in Side::BOTH.into_iter().zip(&sides) {
        batches.iter().for_each(|batch| assert_eq!(join.add(side, SliceId::new(SIZE, 0), batch.clone()), 0));
    }
    let mut pairs: WindowPairs = join.close(SIZE, None);
    pairs.prepare().unwrap();
    let passes = pairs.passes.len();
    let mut found = Vec::new();
    while let Some(part) = pairs.next_part(50_000).unwrap() {
        for batch in part.join().unwrap() {
            let of_side = |first: usize| {
                let (numbers, are_even) =
                    (batch.column(first).as_primitive::<Int64Type>(), batch.column(first + 1).as_boolean());
                let number = |row: usize| {
                    let number = numbers.is_valid(row).then(|| numbers.value(row));
                    let is_even = number.filter(|number| number % 3 > 0).map(|number| number % 2 == 0);
                    assert_eq!(are_even.is_valid(row).then(|| are_even.value(row)), is_even);
                    number
                };
                (0..batch.num_rows()).map(number).collect::<Vec<_>>()
            };
            let lefts = of_side(0);
            let rights = if batch.num_columns() > 2 { of_side(2) } else { vec![None; lefts.len()] };
            found.extend(lefts.into_iter().zip(rights).map(|(left, right)| [left, right]));
        }
    }
    found.sort_unstable();
    (found, passes)
}

fn expected(kind: JoinKind, [lefts, rights]: &Keys) -> Vec<[Option<i64>; 2]> {
    let mut of_key: HashMap<u64, Vec<i64>> = HashMap::new();
    (0..)
        .zip(rights)
        .filter_map(|(row, key)| Some((row, (*key)?)))
        .for_each(|(row, key)| of_key.entry(key).or_default().push(row));
    let left_keys: std::collections::HashSet<u64> = lefts.iter().flatten().copied().collect();
    let mut rows = Vec::new();
    for (row, key) in (0..).zip(lefts) {
        let matches = key.and_then(|key| of_key.get(&key)).map_or(&[][..], Vec::as_slice);
        match kind {
            JoinKind::Semi if !matches.is_empty() => rows.push([Some(row), None]),
            JoinKind::Anti if matches.is_empty() => rows.push([Some(row), None]),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => rows.extend(matches.iter().map(|&right| [Some(row), Some(right)])),
        }
        if matches.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full) {
            rows.push([Some(row), None]);
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let has_match = |key: &Option<u64>| key.is_some_and(|key| left_keys.contains(&key));
        rows.extend((0..).zip(rights).filter(|(_, key)| !has_match(key)).map(|(row, _)| [None, Some(row)]));
    }
    rows.sort_unstable();
    rows
}

const KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

fn check(keys: &Keys, is_divided: bool, array: &dyn Fn(&[Option<u64>]) -> ArrayRef) {
    for kind in KINDS {
        let (found, passes) = joined(kind, keys, array);
        assert!(found == expected(kind, keys), "{kind:?}");
        assert_eq!(passes > 2, is_divided, "{kind:?}: {passes} passes");
    }
}

fn integers(step: u64) -> impl Fn(&[Option<u64>]) -> ArrayRef {
    move |keys| {
        Arc::new(Int64Array::from_iter(keys.iter().map(|key| key.map(|key| key.wrapping_mul(step).cast_signed()))))
    }
}

/// Rows on each side of a window that is divided.
const ROWS: usize = PARTITIONED_ROWS_MIN * 5 / 4;

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn integers_in_a_range_are_divided_by_it() {
    check(&[scattered(ROWS, 200_000, 1), scattered(ROWS, 300_000, 2)], true, &integers(1));
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn scattered_integers_are_divided_by_their_hash() {
    check(&[scattered(ROWS, 200_000, 1), scattered(ROWS, 300_000, 2)], true, &integers(0x9E37_79B9_7F4A_7C15));
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn strings_are_divided_by_their_hash() {
    let strings = |keys: &[Option<u64>]| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(
            keys.iter().map(|key| key.map(|key| format!("{key} is the key of the row"))),
        ))
    };
    check(&[scattered(ROWS, 200_000, 1), scattered(ROWS, 300_000, 2)], true, &strings);
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn one_key_of_many_rows_is_one_partition() {
    let mut keys = [scattered(ROWS, 400_000, 1), scattered(ROWS, 400_000, 2)];
    keys[0].iter_mut().step_by(500).for_each(|key| *key = Some(7));
    keys[1].iter_mut().step_by(500).for_each(|key| *key = Some(7));
    check(&keys, true, &integers(1));
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn keys_in_order_are_not_divided() {
    let keys = |rows: u64| (0..rows).map(Some).collect::<Vec<_>>();
    check(&[keys(ROWS as u64), keys(ROWS as u64 / 2)], false, &integers(1));
}

#[test]
fn rows_out_of_the_other_sides_range_are_left_out() {
    for (rows, first) in [(3_000, 2_999), (3_000, 1_000), (3_000, 3_000), (20_000, 19_998)] {
        let keys = [(0..rows).map(Some).collect::<Vec<_>>(), (first..first + rows).map(Some).collect()];
        check(&keys, false, &integers(1));
        let one_side_alone = [keys[0].clone(), vec![None; rows as usize]];
        check(&one_side_alone, false, &integers(1));
    }
}
