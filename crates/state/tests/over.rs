//! Functions OVER rows: what is kept, and how much leaves at once. What is computed is compared with a model in the testkit.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimeUnit};
use pelton_data::TimeColumn;
use pelton_data::over::{Frame, OverCall, OverColumn, OverFunction, OverSpec};
use pelton_state::over::{Arriving, OverRows};

/// The sum of `v` by `k`, over a frame.
fn sums(frame: Frame, is_keyed: bool) -> OverRows {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = [("k", DataType::Int64), ("v", DataType::Float64), ("t", time.clone())];
    let fields: Vec<Field> = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, false)).collect();
    OverRows::new(OverSpec {
        input_schema: Arc::new(Schema::new(fields)),
        time: TimeColumn::new(2, &time),
        keys: if is_keyed { vec![0] } else { Vec::new() },
        calls: vec![OverCall { function: OverFunction::Sum, argument: Some(1), frame, data_type: DataType::Float64 }],
        columns: vec![OverColumn::Value(0)],
        schema: Arc::new(Schema::new(vec![Field::new("s", DataType::Float64, true)])),
    })
}

/// Key, value, and time in milliseconds of some rows.
fn batch(rows: impl Iterator<Item = (i64, f64, i64)>) -> Arriving {
    let rows: Vec<(i64, f64, i64)> = rows.collect();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2)));
    RecordBatch::try_from_iter([("k", keys), ("v", values), ("t", times)]).unwrap().into()
}

fn values(batches: &[RecordBatch]) -> Vec<f64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().values().to_vec()).collect()
}

#[test]
fn a_row_of_a_large_window_takes_little_more_than_its_value() {
    let rows = 1 << 20;
    let mut over = sums(Frame::Rows { preceding: Some(rows - 1) }, false);
    let mut bytes = 0;
    for first in (0..3 * rows as i64).step_by(8192) {
        over.add(0, batch((first..first + 8192).map(|row| (0, 1.0, row)))).unwrap();
        over.advance((first + 8192) * 1000, 8192).unwrap();
        bytes = bytes.max(over.bytes());
    }
    assert!((bytes as f64) < 8.5 * rows as f64, "{} bytes a row", bytes as f64 / rows as f64);
}

#[test]
fn many_rows_leave_in_several_turns() {
    let mut over = sums(Frame::Rows { preceding: Some(1) }, false);
    for first in (0..300_000).step_by(10_000) {
        over.add(0, batch((first..first + 10_000).map(|row| (0, row as f64, row)))).unwrap();
    }
    let (mut found, mut turns, mut until) = (Vec::new(), 0, 0);
    while until < i64::MAX {
        let (batches, reached) = over.advance(i64::MAX, 4096).unwrap();
        assert!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() <= 1 << 16);
        found.extend(values(&batches));
        assert!(reached == i64::MAX || reached == found.len() as i64 * 1000);
        (turns, until) = (turns + 1, reached);
    }
    assert_eq!(turns, 5);
    let expected: Vec<f64> = (0..300_000).map(|row: i64| (row + (row - 1).max(0)) as f64).collect();
    assert_eq!(found, expected);
}

#[test]
fn keys_that_no_row_looks_back_at_are_dropped() {
    // Each key has rows at three times; two of them are near each other.
    let rows = |first: i64| {
        (first..first + 5_000).flat_map(|row| [(row, 1.0, row), (row - 4_000, 2.0, row), (row - 4_003, 4.0, row)])
    };
    let mut over = sums(Frame::Range { preceding: Some(10_000) }, true);
    let (mut largest, mut found) = (0, Vec::new());
    for first in (0..500_000).step_by(5_000) {
        over.add(0, batch(rows(first))).unwrap();
        let (batches, _) = over.advance((first + 5_000) * 1000, 8192).unwrap();
        found.extend(values(&batches));
        largest = largest.max(over.bytes());
    }
    // By key: 1 at its time, 2 four seconds later, 4 three milliseconds after that; three keys have nothing but that.
    let mut expected = [1.0, 2.0, 6.0].repeat(500_000);
    [2, 5, 8].iter().for_each(|&row: &usize| expected[row] = 4.0);
    assert_eq!(found, expected);
    assert!(largest < 50_000_000, "{largest} bytes");
}

#[test]
fn values_that_stay_in_their_columns_give_the_same_sums_as_copies() {
    let frame = Frame::Rows { preceding: Some(2_999) };
    let (mut alone, mut among_others) = (sums(frame, false), sums(frame, true));
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    let value = |row: i64| (row * 7_919 % 1_009) as f64 / 7.0;
    for first in (0..60_000).step_by(10_000) {
        let rows = first..first + 10_000;
        alone.add(0, batch(rows.clone().map(|row| (0, value(row), row)))).unwrap();
        among_others.add(0, batch(rows.flat_map(|row| [(0, value(row), row), (1, 1.0, row)]))).unwrap();
        let until = (first + 10_000) * 1_000;
        found.extend(values(&alone.advance(until, 4096).unwrap().0));
        expected.extend(values(&among_others.advance(until, 4096).unwrap().0).into_iter().step_by(2));
    }
    assert_eq!(found.len(), 60_000);
    assert_eq!(found, expected);
}
