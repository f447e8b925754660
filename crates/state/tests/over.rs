//! Functions OVER rows: what is kept, how much leaves at once, and that all goes on from snapshots. What is computed is compared with a model in the
//! testkit.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

mod random;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMillisecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimeUnit};
use pelton_data::TimeColumn;
use pelton_data::over::{Frame, FrameEnd, OverCall, OverColumn, OverFunction, OverSpec};
use pelton_state::over::{Arriving, OverRows};
use pelton_state::snapshot::{restore, take, with_hash};
use proptest::prelude::*;

use random::Random;

/// The sum of `v` by `k`, over a frame.
fn sums(frame: Frame, is_keyed: bool) -> OverRows {
    sums_of(1, frame, is_keyed)
}

/// The same of rows of so many inputs.
fn sums_of(inputs: usize, frame: Frame, is_keyed: bool) -> OverRows {
    calls_of(inputs, &[(OverFunction::Sum, frame)], is_keyed)
}

/// Functions of `v`, each over a frame.
fn calls_of(inputs: usize, calls: &[(OverFunction, Frame)], is_keyed: bool) -> OverRows {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = [("k", DataType::Int64), ("v", DataType::Float64), ("t", time.clone())];
    let fields: Vec<Field> = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, false)).collect();
    let spec = OverSpec {
        input_schema: Arc::new(Schema::new(fields)),
        time: TimeColumn::new(2, &time),
        keys: if is_keyed { vec![0] } else { Vec::new() },
        calls: calls
            .iter()
            .map(|(function, frame)| OverCall {
                function: function.clone(),
                is_distinct: false,
                argument: Some(1),
                frame: *frame,
                data_type: DataType::Float64,
            })
            .collect(),
        columns: (0..calls.len()).map(OverColumn::Value).collect(),
        schema: Arc::new(Schema::new(
            (0..calls.len()).map(|call| Field::new(format!("s{call}"), DataType::Float64, true)).collect::<Vec<_>>(),
        )),
    };
    OverRows::new(spec, inputs)
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
    batches.iter().flat_map(|batch| float_column(batch, 0)).collect()
}

fn float_column(batch: &RecordBatch, column: usize) -> Vec<f64> {
    batch.column(column).as_primitive::<Float64Type>().values().to_vec()
}

#[test]
fn a_row_of_a_large_window_takes_little_more_than_its_value() {
    let rows = 1 << 20;
    let mut over = sums(Frame::Rows { preceding: Some(rows - 1) }, false);
    let mut bytes = 0;
    for first in (0..3 * rows as i64).step_by(8192) {
        over.add(0, batch((first..first + 8192).map(|row| (0, 1.0, row)))).unwrap();
        over.advance((first + 8192) * 1000, (1 << 16, 8192)).unwrap();
        bytes = bytes.max(over.bytes());
    }
    assert!((bytes as f64) < 8.5 * rows as f64, "{} bytes a row", bytes as f64 / rows as f64);
}

#[test]
fn sums_over_several_long_frames_are_those_of_each_alone() {
    let frame = |rows: u64| Frame::Rows { preceding: Some(rows - 1) };
    let calls: Vec<(OverFunction, Frame)> = [1_024, 1_025, 1_500, 2_048, 2_049, 7_000]
        .into_iter()
        .flat_map(|rows| [(OverFunction::Sum, frame(rows)), (OverFunction::Mean, frame(rows))])
        .chain([(OverFunction::Maximum, frame(3_000)), (OverFunction::Sum, Frame::Rows { preceding: None })])
        .collect();
    let mut random = Random(7);
    let mut together = calls_of(1, &calls, false);
    let mut alone: Vec<OverRows> = calls.iter().map(|call| calls_of(1, std::slice::from_ref(call), false)).collect();
    let mut first = 0;
    while first < 40_000 {
        let rows = [1, 7, 500, 1_023, 1_024, 3_000][random.below(6) as usize];
        let end = first + rows as i64;
        let rows = || batch((first..end).map(|row| (0, (row * 7_919 % 1_009 - 500) as f64, row)));
        let found = |over: &mut OverRows| {
            over.add(0, rows()).unwrap();
            over.advance((end - 1) * 1_000, (1 << 16, 8_192)).unwrap().0
        };
        let all = found(&mut together);
        for (call, one) in alone.iter_mut().enumerate() {
            let (alone, of_all) = (found(one), all.iter().flat_map(|batch| float_column(batch, call)));
            assert_eq!(of_all.collect::<Vec<f64>>(), values(&alone), "{:?} to row {end}", calls[call]);
        }
        if random.below(20) == 0 {
            // What they share is not in it.
            let written = take(&together).unwrap();
            together = calls_of(1, &calls, false);
            restore(&mut together, &written).unwrap();
        }
        first = end;
    }
}

#[test]
fn many_rows_leave_in_several_turns() {
    let mut over = sums(Frame::Rows { preceding: Some(1) }, false);
    for first in (0..300_000).step_by(10_000) {
        over.add(0, batch((first..first + 10_000).map(|row| (0, row as f64, row)))).unwrap();
    }
    let (mut found, mut turns, mut until) = (Vec::new(), 0, 0);
    while until < i64::MAX {
        let (batches, reached) = over.advance(i64::MAX, (1 << 16, 4096)).unwrap();
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
fn rows_of_one_input_leave_when_the_watermark_has_come_to_their_time() {
    let frame = Frame::Rows { preceding: Some(1) };
    let (mut early, mut late) = (sums_of(1, frame, false), sums_of(2, frame, false));
    // Values, each with its time, then the watermark, and how many rows have left of one input and of one of two.
    let steps = [
        (vec![(1.0, 3), (2.0, 5), (4.0, 5), (8.0, 7)], 5, 3, 1),
        (vec![(16.0, 5), (32.0, 6)], 5, 4, 1),
        (vec![(64.0, 4), (128.0, 5), (256.0, 7)], 7, 8, 6),
        (vec![(512.0, 8)], 8, 9, 8),
    ];
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for (rows, watermark, rows_early, rows_late) in steps {
        let rows = || batch(rows.iter().map(|&(value, time)| (0, value, time)));
        assert_eq!(early.add(0, rows()).unwrap(), late.add(0, rows()).unwrap());
        found.extend(values(&early.advance(watermark * 1_000, (1 << 16, 8192)).unwrap().0));
        expected.extend(values(&late.advance(watermark * 1_000, (1 << 16, 8192)).unwrap().0));
        assert_eq!((found.len(), expected.len()), (rows_early, rows_late));
    }
    expected.extend(values(&late.advance(i64::MAX, (1 << 16, 8192)).unwrap().0));
    assert_eq!(found, expected);
    assert_eq!(expected, [1.0, 3.0, 6.0, 20.0, 144.0, 160.0, 40.0, 264.0, 768.0]);
}

#[test]
fn rows_whose_frames_end_after_them_wait_for_the_rows_there() {
    let of_rows = Frame::RowsAround { preceding: Some(0), following: Some(1) };
    let of_range = Frame::RangeAround { preceding: Some(0), following: Some(2_000) };
    // Values, each with its key and time; the watermark; the sums that leave then, and up to which time all have left.
    let steps = [
        (vec![(1, 1.0, 1), (2, 2.0, 2), (1, 4.0, 3)], 4, vec![5.0], 2, vec![5.0], 2),
        (vec![(1, 8.0, 6)], 6, vec![12.0], 2, vec![2.0, 4.0], 6),
        (vec![(2, 16.0, 9)], 20, vec![18.0], 6, vec![8.0, 16.0], 20),
    ];
    let (mut by_rows, mut by_range) = (sums(of_rows, true), sums(of_range, true));
    for (rows, watermark, sums_of_rows, rows_until, sums_of_range, range_until) in steps {
        let rows = || batch(rows.iter().copied());
        for (over, expected, until) in
            [(&mut by_rows, sums_of_rows, rows_until), (&mut by_range, sums_of_range, range_until)]
        {
            assert_eq!(over.add(0, rows()).unwrap(), 0);
            let (batches, passed) = over.advance(watermark * 1_000, (1 << 16, 8192)).unwrap();
            assert_eq!((values(&batches), passed), (expected, watermark * 1_000));
            assert_eq!(over.left_until(passed), until * 1_000);
        }
    }
    assert_eq!((by_rows.waiting_rows(), by_range.waiting_rows()), (2, 0));
    assert_eq!(values(&by_rows.advance(i64::MAX, (1 << 16, 8192)).unwrap().0), [8.0, 16.0]);
    assert_eq!(by_rows.left_until(i64::MAX), i64::MAX);
}

#[test]
fn of_rows_that_wait_nothing_else_is_held() {
    let mut over = sums(Frame::RowsAround { preceding: Some(1), following: Some(2) }, true);
    // One row in a thousand is of a key of its own, and waits to the end.
    let key = |row: i64| if row % 1_000 == 0 { 1 + row / 1_000 } else { 0 };
    let mut left = 0;
    for first in (0..1_000_000).step_by(10_000) {
        over.add(0, batch((first..first + 10_000).map(|row| (key(row), 1.0, row)))).unwrap();
        let (batches, _) = over.advance((first + 10_000) * 1_000, (1 << 16, 8192)).unwrap();
        left += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!((left, over.waiting_rows()), (999_000 - 2, 1_002));
    assert!(over.bytes() < 2_000_000, "{} bytes", over.bytes());
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
        let (batches, _) = over.advance((first + 5_000) * 1000, (1 << 16, 8192)).unwrap();
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
fn what_has_left_is_charged_no_more() {
    // A key that begins anew after a pause has none of what it had.
    let mut over = sums(Frame::Range { preceding: Some(1_000_000_000) }, true);
    let mut bytes = Vec::new();
    for key in [0, 1] {
        let first = key * 10_000_000;
        over.add(0, batch((first..first + 100_000).map(|row| (key, 1.0, row)))).unwrap();
        over.add(0, batch([(key, 1.0, first + 5_000_000)].into_iter())).unwrap();
        for until in [first + 200_000, first + 6_000_000] {
            while over.advance(until * 1_000, (1 << 16, 8192)).unwrap().1 < until * 1_000 {}
            bytes.push(over.bytes());
        }
    }
    assert!(bytes[0] > 800_000 && bytes[1] < 400_000 && bytes[2] > 800_000 && bytes[3] < 400_000, "{bytes:?}");
    // Of rows that wait for others of their block nothing else is held.
    let mut over = sums(Frame::Range { preceding: Some(10_000) }, true);
    for first in (0..50).map(|block| block * 10_000) {
        over.add(
            0,
            batch((first..first + 10_000).map(|row| (0, 1.0, if row % 1_000 > 0 { row } else { row + 90_000_000 }))),
        )
        .unwrap();
        while over.advance((first + 10_000) * 1_000, (1 << 16, 8192)).unwrap().1 < (first + 10_000) * 1_000 {}
    }
    assert!(over.waiting_rows() == 500 && over.bytes() < 500_000, "{} bytes", over.bytes());
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
        found.extend(values(&alone.advance(until, (1 << 16, 4096)).unwrap().0));
        expected.extend(values(&among_others.advance(until, (1 << 16, 4096)).unwrap().0).into_iter().step_by(2));
    }
    assert_eq!(found.len(), 60_000);
    assert_eq!(found, expected);
}

const DECIMAL: DataType = DataType::Decimal128(10, 2);

/// Key, arguments of all forms, time.
fn columns() -> Vec<(&'static str, DataType, bool)> {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let (integer, float) = (DataType::Int64, DataType::Float64);
    vec![
        ("k", integer.clone(), true),
        ("i", integer, true),
        ("f", float.clone(), false),
        ("g", float, true),
        ("d", DECIMAL, true),
        ("s", DataType::Utf8View, true),
        ("t", time, false),
    ]
}

/// A frame that ends with its row, or at the node's `end`.
fn frame(end: Option<FrameEnd>, is_lead: bool, random: &mut Random) -> Frame {
    let frame = match random.below(5) {
        0 => Frame::Rows { preceding: None },
        1 => Frame::Range { preceding: None },
        2 => Frame::Rows { preceding: Some(random.below(20)) },
        3 => Frame::Rows { preceding: Some(20 + random.below(3000)) },
        _ => Frame::Range { preceding: Some(1_000 * random.below(400) as i64) },
    };
    match (frame, end) {
        (frame, None) => frame,
        // Its value is the last of its frame.
        (_, Some(FrameEnd::Rows(rows))) if is_lead => Frame::RowsAround { preceding: Some(0), following: Some(rows) },
        (Frame::Range { preceding }, Some(FrameEnd::Range(after))) => {
            Frame::RangeAround { preceding, following: Some(after) }
        }
        (_, Some(FrameEnd::Range(after))) => Frame::RangeAround { preceding: Some(50_000), following: Some(after) },
        (Frame::Range { preceding }, Some(FrameEnd::Unbounded)) => Frame::RangeAround { preceding, following: None },
        (Frame::Rows { preceding }, Some(end)) => {
            let following = if let FrameEnd::Rows(rows) = end { Some(rows) } else { None };
            Frame::RowsAround { preceding, following }
        }
        (_, Some(FrameEnd::Rows(rows))) => Frame::RowsAround { preceding: Some(3), following: Some(rows) },
        (frame, Some(FrameEnd::Unbounded)) => unreachable!("{frame:?} was not drawn"),
    }
}

/// A call over such a frame.
fn call(end: Option<FrameEnd>, random: &mut Random) -> OverCall {
    use OverFunction::*;
    let (is_sample, is_root) = (random.below(2) == 0, random.below(2) == 0);
    let (fraction, is_continuous) = (random.below(11) as f64 / 10.0, random.below(2) == 0);
    let functions = [
        RowNumber,
        Lag { rows: 3 },
        CountRows,
        Count,
        Sum,
        Mean,
        Variance { is_sample, is_root },
        Minimum,
        Maximum,
        First,
        Last,
        Mode,
        Percentile { fraction, is_continuous, is_descending: is_sample },
        Array { ignores_nulls: is_sample },
        Joined { delimiter: "; ".into() },
    ];
    let mut function = functions[random.below(functions.len() as u64) as usize].clone();
    if end.is_some() && matches!(function, RowNumber | Lag { .. }) {
        function = Lead { rows: 0 };
    }
    let frame = frame(end, matches!(function, Lead { .. }), random);
    if let (Lead { rows }, Some(end)) = (&mut function, end) {
        // As far as the node's frames reach.
        let FrameEnd::Rows(after) = end else { return count_rows(frame) };
        *rows = after;
    }
    let numbers = 1 + random.below(4) as usize;
    let argument = match function {
        RowNumber | CountRows => return OverCall { function, ..count_rows(frame) },
        Count | Sum | Mean => numbers,
        // Of integers or doubles.
        Variance { .. } | Percentile { is_continuous: true, .. } => 1 + random.below(3) as usize,
        Joined { .. } => 5,
        _ => 1 + random.below(5) as usize,
    };
    let data_type = match (&function, argument) {
        (Count, _) => DataType::Int64,
        (Sum, 4) => DataType::Decimal128(38, 2),
        (Mean, 4) => DataType::Decimal128(38, 6),
        (Mean | Variance { .. } | Percentile { is_continuous: true, .. }, _) => DataType::Float64,
        (Array { .. }, _) => DataType::List(Arc::new(Field::new_list_field(columns()[argument].1.clone(), true))),
        _ => columns()[argument].1.clone(),
    };
    let can_be_distinct =
        matches!(function, Count | Sum | Mean | Variance { .. } | Percentile { .. } | Array { .. } | Joined { .. });
    let is_distinct = can_be_distinct && random.below(2) == 0;
    OverCall { function, is_distinct, argument: Some(argument), frame, data_type }
}

fn count_rows(frame: Frame) -> OverCall {
    let function = OverFunction::CountRows;
    OverCall { function, is_distinct: false, argument: None, frame, data_type: DataType::Int64 }
}

fn drawn_batch(schema: &Arc<Schema>, rows: u64, now: i64, random: &mut Random) -> RecordBatch {
    let mut each = |of: &mut dyn FnMut(&mut Random) -> i64| -> Vec<Option<i64>> {
        (0..rows).map(|_| (random.below(5) > 0).then(|| of(random))).collect()
    };
    let keys = each(&mut |random| random.below(4) as i64);
    let numbers = each(&mut |random| random.below(2000) as i64 - 1000);
    let times = each(&mut |random| now + random.below(60) as i64 - 20);
    let floats = |numbers: &[Option<i64>]| -> Vec<Option<f64>> {
        numbers.iter().map(|number| number.map(|number| number as f64 / 7.0)).collect()
    };
    let whole: Vec<f64> = floats(&numbers).into_iter().map(|number| number.unwrap_or(0.5)).collect();
    let text = numbers
        .iter()
        .map(|number| number.map(|number| "x".repeat(number.unsigned_abs() as usize % 30) + &number.to_string()));
    let decimals = numbers.iter().map(|number| number.map(i128::from)).collect::<Decimal128Array>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys)),
        Arc::new(Int64Array::from(numbers.clone())),
        Arc::new(Float64Array::from(whole)),
        Arc::new(Float64Array::from(floats(&numbers))),
        Arc::new(decimals.with_data_type(DECIMAL)),
        Arc::new(text.collect::<StringViewArray>()),
        Arc::new(TimestampMillisecondArray::from_iter_values(times.into_iter().map(|time| time.unwrap_or(now)))),
    ];
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

/// What comes of rows does not change where state is made again of its snapshot, to the last bit. Spoiled snapshots are refused.
fn check_snapshots(seed: u64) {
    let random = &mut Random(seed | 1);
    let fields = columns().into_iter().map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    let input_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let end = match random.below(8) {
        0 => Some(FrameEnd::Rows(random.below(4))),
        1 => Some(FrameEnd::Rows(random.below(300))),
        2 => Some(FrameEnd::Range(1_000 * random.below(100) as i64)),
        3 => Some(FrameEnd::Unbounded),
        _ => None,
    };
    let calls: Vec<OverCall> = (0..1 + random.below(5)).map(|_| call(end, random)).collect();
    let results = calls.iter().enumerate().map(|(at, call)| Field::new(format!("r{at}"), call.data_type.clone(), true));
    let schema = Arc::new(Schema::new(results.collect::<Vec<_>>()));
    let time = TimeColumn::new(6, &columns()[6].1);
    let spec = OverSpec {
        input_schema: input_schema.clone(),
        time,
        keys: if random.below(3) > 0 { vec![0] } else { Vec::new() },
        columns: (0..calls.len()).map(OverColumn::Value).collect(),
        calls,
        schema: schema.clone(),
    };
    let inputs = 1 + random.below(2) as usize;
    let (mut plain, mut made) = (OverRows::new(spec.clone(), inputs), OverRows::new(spec.clone(), inputs));
    let (mut expected, mut found, mut now) = (Vec::new(), Vec::new(), 0);
    for _ in 0..30 {
        now += random.below(200) as i64;
        let rows = [5, 60, 700][random.below(3) as usize];
        let batch = drawn_batch(&input_schema, 1 + random.below(rows), now, random);
        let (input, time_shift_ticks) = (random.below(inputs as u64) as usize, random.below(2) as i64 * 5);
        let arriving = || Arriving { rows: batch.clone(), time_shift_ticks, in_time_order: None };
        assert_eq!(plain.add(input, arriving()).unwrap(), made.add(input, arriving()).unwrap());
        if random.below(3) == 0 {
            let bytes = take(&made).unwrap();
            let mut spoiled = bytes.clone();
            spoiled[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8);
            assert!(restore(&mut OverRows::new(spec.clone(), inputs), &spoiled).is_err());
            spoiled.truncate(bytes.len() - 8);
            // What is not refused may compute something else, and is computed with.
            let mut other = OverRows::new(spec.clone(), inputs);
            if restore(&mut other, &with_hash(spoiled)).is_ok() && other.add(input, arriving()).is_ok() {
                drop(other.advance(i64::MAX, (1 << 16, 4096)));
            }
            made = OverRows::new(spec.clone(), inputs);
            restore(&mut made, &bytes).unwrap();
        }
        let watermark = (now - 30) * 1_000;
        expected.extend(plain.advance(watermark, (1 << 16, 4096)).unwrap().0);
        found.extend(made.advance(watermark, (1 << 16, 4096)).unwrap().0);
        assert_eq!(plain.waiting_rows(), made.waiting_rows());
    }
    for (over, rows) in [(&mut plain, &mut expected), (&mut made, &mut found)] {
        let mut until = 0;
        // The rest leaves in turns.
        while until < i64::MAX {
            let (batches, passed) = over.advance(i64::MAX, (1 << 10, 4096)).unwrap();
            (until, _) = (passed, rows.extend(batches));
        }
        assert_eq!(over.waiting_rows(), 0);
    }
    assert_eq!(concat_batches(&schema, &found).unwrap(), concat_batches(&schema, &expected).unwrap());
}

/// How many streams are tried: each function occurs in about fifteen of sixty, with other frames and other values in each run.
fn cases() -> u32 {
    std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn functions_over_rows_go_on_from_snapshots(seed in any::<u64>()) {
        check_snapshots(seed);
    }
}
